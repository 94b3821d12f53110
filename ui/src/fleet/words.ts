// Cases in words and order; pure.

import { count } from "../format.ts";
import type { Severity } from "../types.ts";

/** In the order of the board, as `CaseState::ALL` of crates/model has them. */
export const STATES = ["needs_approval", "with_person", "waiting", "running", "paused", "returned", "cleared", "cancelled"] as const;
export type State = (typeof STATES)[number];

export const STATE_WORDS: Record<State, string> = {
  needs_approval: "Needs approval",
  with_person: "With a person",
  waiting: "Waiting",
  running: "Running",
  paused: "Paused",
  returned: "Returned",
  cleared: "Cleared",
  cancelled: "Cancelled",
};

/** A case as the list has it. */
export interface CaseLine {
  id: number;
  host: string;
  service: string;
  fault: string;
  subject: string;
  severity: Severity;
  state: State;
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

/** What the steps that are left are for, where it is decided what the case becomes. */
export function endWords(one: { ends_as?: string | null }): string {
  if (one.ends_as === "cancelled") return ", being cancelled";
  if (one.ends_as === "with_person") return ", on its way to a person";
  return one.ends_as === "returned" ? ", on its way back" : "";
}

/** What a person can do about a case now; empty for one that is closed. */
export function toDo(one: { state: string; host: string; steps?: readonly { state: string; step: string }[] }): string {
  const failed = one.steps?.find(({ state }) => state === "failed");
  switch (one.state) {
    case "needs_approval":
      return "Approve the step, or cancel the case.";
    case "with_person":
      return `${failed ? `${failed.step} failed` : "No step is left"}: repair ${one.host}, then bring it back here.`;
    case "paused":
      return "Go on, or cancel the case.";
    case "waiting":
    case "running":
      return "Nothing: it goes on by itself.";
    default:
      return "";
  }
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

export function isOpen(one: { state: string }): boolean {
  return !["returned", "cleared", "cancelled"].includes(one.state);
}

export function stateWords(state: string): string {
  return Object.hasOwn(STATE_WORDS, state) ? STATE_WORDS[state as State] : state;
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

function cases(number: number): string {
  return number === 1 ? "1 case" : `${count(number)} cases`;
}

/** The fleet in one sentence, and how bad that is. `openCount` counts those, too, that are not listed. */
export function headline(all: readonly CaseLine[], openCount = 0): { severity: Severity; sentence: string } {
  const open = all.filter(isOpen);
  const number = Math.max(open.length, openCount);
  // Of one that is on its way to a person the ticket may not get through.
  const people = open.filter(({ state, ends_as }) => state === "needs_approval" || state === "with_person" || ends_as === "with_person");
  if (number === 0) return { severity: "ok", sentence: "No case is open." };
  const verb = number === 1 ? "is" : "are";
  if (people.length === 0) return { severity: "notice", sentence: `${cases(number)} ${verb} open; none waits for a person.` };
  const hosts = [...new Set(people.map(({ host }) => host))].slice(0, 3).join(", ");
  const waits = people.length === 1 ? "1 waits" : `${count(people.length)} wait`;
  return { severity: "warning", sentence: `${cases(number)} ${verb} open; ${waits} for a person: ${hosts}${people.length > 3 ? ", ..." : ""}.` };
}
