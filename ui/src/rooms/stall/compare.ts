// Two ranges of the past beside each other: what each cause took of the cores' time before and after. Pure.

import { clip, type Given } from "../../address.ts";
import type { PastRange } from "../../past.ts";
import { lostNs, type CauseSum, type Ledger } from "./ledger.ts";

/** How much earlier the other range may be chosen to begin, in seconds. */
export const EARLIER_S = [3600, 86_400, 7 * 86_400] as const;

/** The range of the same length to compare with, which begins where `before_s` says; a problem where it cannot be used. */
export function otherOf(given: Given, range: PastRange | null): { other: PastRange | null; problems: string[] } {
  const { before_s: text } = given;
  if (text === undefined) return { other: null, problems: [] };
  if (range === null) return { other: null, problems: [`before_s=${clip(text)} needs a range of the past (from_s and to_s) to compare with; it is left out.`] };
  const fromS = /^\d{1,11}$/.test(text) ? Number(text) : NaN;
  if (Number.isNaN(fromS)) return { other: null, problems: [`before_s=${clip(text)} is not in whole seconds since 1970; nothing is compared.`] };
  if (fromS === range.fromS) return { other: null, problems: [`before_s=${text} is the range itself; nothing is compared.`] };
  return { other: { fromS, toS: fromS + range.toS - range.fromS }, problems: [] };
}

/** One part of the cores' time in both ranges. */
export interface Difference {
  key: string;
  /** Of a cause, its number in `KINDS`; `null` for a sum. */
  kind: number | null;
  name: string;
  /** Shares of the cores' time; `null` where it is not known. */
  before: number | null;
  after: number | null;
}

/** How much larger the share became; `null` where one of them is not known. */
export function change({ before, after }: Difference): number | null {
  return before === null || after === null ? null : after - before;
}

/** The sums, then the causes of these kinds whose share of the time changed most. */
export function differences(before: Ledger, after: Ledger, mask: readonly boolean[]): Difference[] {
  const share = (part: number, { wallNs }: Ledger) => (wallNs > 0 ? part / wallNs : null);
  const sum = (name: string, of: (ledger: Ledger) => number): Difference => ({ key: `/${name}`, kind: null, name, before: share(of(before), before), after: share(of(after), after) });
  const keyOf = (cause: CauseSum) => `${cause.kind}/${cause.name}`;
  const causes = new Map([...before.lost, ...after.lost].filter((cause) => mask[cause.kind]).map((cause) => [keyOf(cause), cause]));
  const of = (ledger: Ledger, key: string): number | null => {
    const cause = ledger.lost.find((one) => keyOf(one) === key);
    // It happened, and nobody timed it.
    if (cause && cause.totalNs === 0 && cause.count > 0) return null;
    return share(cause ? lostNs(cause) : 0, ledger);
  };
  const rows = [...causes].map(([key, { kind, name }]) => ({ key, kind, name, before: of(before, key), after: of(after, key) }));
  const size = (row: Difference) => Math.abs(change(row) ?? 0);
  rows.sort((a, b) => size(b) - size(a) || a.key.localeCompare(b.key));
  return [sum("lost", (ledger) => ledger.lostNs), sum("while idle", (ledger) => ledger.whileIdleNs), sum("unexplained", (ledger) => ledger.unexplainedNs), ...rows];
}
