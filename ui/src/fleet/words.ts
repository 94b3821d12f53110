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
}

export function isOpen(one: { state: string }): boolean {
  return !["returned", "cleared", "cancelled"].includes(one.state);
}

export function stateWords(state: string): string {
  return Object.hasOwn(STATE_WORDS, state) ? STATE_WORDS[state as State] : state;
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

/** The fleet in one sentence, and how bad that is. */
export function headline(all: readonly CaseLine[]): { severity: Severity; sentence: string } {
  const open = all.filter(isOpen);
  const people = open.filter(({ state }) => state === "needs_approval" || state === "with_person");
  if (open.length === 0) return { severity: "ok", sentence: "No case is open." };
  const verb = open.length === 1 ? "is" : "are";
  if (people.length === 0) return { severity: "notice", sentence: `${cases(open.length)} ${verb} open; none waits for a person.` };
  const hosts = [...new Set(people.map(({ host }) => host))].slice(0, 3).join(", ");
  const waits = people.length === 1 ? "1 waits" : `${count(people.length)} wait`;
  return { severity: "warning", sentence: `${cases(open.length)} ${verb} open; ${waits} for a person: ${hosts}${people.length > 3 ? ", ..." : ""}.` };
}
