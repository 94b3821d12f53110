// Cases in words and order; pure.

import type { Case, Severity } from "../types.ts";

export type State = Case["state"];

/** A state as the server describes it, in the order of the board. */
export interface StateLabel {
  state: State;
  label: string;
  is_open: boolean;
}

/** A case as the list has it. */
export interface CaseLine {
  id: number;
  host: string;
  service: string;
  fault: string;
  subject: string;
  severity: Severity;
  state: State;
  label: string;
  step: string;
  since_ns: number;
  state_since_ns: number;
  waits_for: string;
  policy: string;
  ticket: string;
  is_dry_run?: boolean;
  ends_as?: State;
}

/** What is known of the host being out of service. */
export function drainedWords(one: { is_drained: boolean; steps: readonly { step: string; state: string }[] }): string {
  if (!one.is_drained) return "in service";
  const hasFailed = one.steps.some(({ step, state }) => step === "drain" && state === "failed");
  return hasFailed ? "perhaps out of service (the drain failed)" : "out of service";
}

/** Cases of two lists, each once, the newest first; of one that is in both, what the first list says. */
export function joined(first: readonly CaseLine[], second: readonly CaseLine[]): CaseLine[] {
  const all = new Map<number, CaseLine>();
  for (const one of [...first, ...second]) if (!all.has(one.id)) all.set(one.id, one);
  return [...all.values()].sort((a, b) => b.id - a.id);
}

/** What can be told of a case's part now: that it was replaced, then that the replaced one tested good; null for a case of a whole host. */
export function partAsked(one: { subject?: string; replaced?: { tested_good_realtime_ns: number } | null }): "replaced" | "tested-good" | null {
  if (one.subject === undefined || one.subject === "") return null;
  if (one.replaced === undefined || one.replaced === null) return "replaced";
  return one.replaced.tested_good_realtime_ns === 0 ? "tested-good" : null;
}

/** As the beginning of a sentence or a heading. */
export function capital(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

/** An actor without what only tells two runs of one controller apart: "controller vm/123/18eb" is "controller vm/123". */
export function actorWords(actor: string): string {
  return actor.startsWith("controller ") ? actor.split("/").slice(0, 2).join("/") : actor;
}

/** An action of the audit trail as people read it. */
export function actionWords(action: string): string {
  return action.replaceAll("_", " ");
}

/** How many have each value, the most frequent first; of equals by name. */
export function tally(cases: readonly CaseLine[], of: (one: CaseLine) => string): [string, number][] {
  const counts = new Map<string, number>();
  for (const one of cases) counts.set(of(one), (counts.get(of(one)) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
