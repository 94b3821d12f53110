// A range of the past in the address: from_s and to_s, seconds since 1970; pure.

import { clip, type Change, type Given } from "./address.ts";

/** Seconds since 1970, UTC. */
export interface PastRange {
  fromS: number;
  toS: number;
}

/** Windows of a minute over two days are what the page has room for. */
export const PAST_S_MAX = 2 * 86_400;

/** How long a range may be chosen to be, seconds. */
export const LENGTHS_S = [300, 900, 3600, 6 * 3600, 86_400] as const;

export const PAST_NAMES = ["from_s", "to_s"] as const;

function seconds(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,11}$/.test(text) ? Number(text) : null;
}

/** The range that an address asks for; a problem where it cannot be used. */
export function pastOf(given: Given): { past: PastRange | null; problems: string[] } {
  const { from_s: from, to_s: to } = given;
  if (from === undefined && to === undefined) return { past: null, problems: [] };
  const [fromS, toS] = [seconds(from), seconds(to)];
  const live = "the page shows what is live.";
  if (fromS === null || toS === null) {
    return { past: null, problems: [`from_s=${clip(from ?? "")} and to_s=${clip(to ?? "")} are not both whole seconds since 1970; ${live}`] };
  }
  if (fromS >= toS) return { past: null, problems: [`from_s=${from} is not before to_s=${to}; ${live}`] };
  if (toS - fromS > PAST_S_MAX) return { past: null, problems: [`From from_s=${from} to to_s=${to} is more than two days, the longest range that is shown; ${live}`] };
  return { past: { fromS, toS }, problems: [] };
}

/** The change of the address that shows this range, or what is live. */
export function changeTo(past: PastRange | null): Change {
  // A finding of one time need not hold at another, and a place in the timeline is not there.
  const other = { finding: null, at: null };
  if (past === null) return { from_s: null, to_s: null, before_s: null, ...other };
  return { from_s: String(past.fromS), to_s: String(past.toS), ...other };
}

/** The resolution to ask for first: seconds as long as the windows of all cores stay few. */
export function resolutionFor(past: PastRange, cores: number): "second" | "minute" {
  const windows = past.toS - past.fromS;
  return windows <= 3600 && windows * Math.max(1, cores) <= 60_000 ? "second" : "minute";
}

/** A local time as people write it: "2031-11-22 03:00", with seconds where there are any. An input of the browser's own kind
 * would write it in the order of the browser's country. */
export function toLocalInput(timeS: number): string {
  const date = new Date(timeS * 1000);
  const two = (value: number) => value.toString().padStart(2, "0");
  const day = `${date.getFullYear().toString().padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return date.getSeconds() === 0 ? `${day} ${time}` : `${day} ${time}:${two(date.getSeconds())}`;
}

/** Seconds since 1970 of such a time; `null` where it is none. */
export function fromLocalInput(text: string): number | null {
  const parts = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)$/.exec(text.trim());
  const ms = parts ? new Date(`${parts[1]}T${parts[2]}`).getTime() : NaN;
  return Number.isFinite(ms) && ms >= 0 ? Math.floor(ms / 1000) : null;
}

/** The part of a range that windows, in the order of time, cover; `null` where that is all of it, to a minute or a hundredth. */
export function keptPart({ fromS, toS }: PastRange, windows: readonly { start_realtime_ns: number; end_realtime_ns: number }[]): PastRange | null {
  const [first, last] = [windows[0], windows[windows.length - 1]];
  if (!first || !last) return null;
  const kept = { fromS: first.start_realtime_ns / 1e9, toS: last.end_realtime_ns / 1e9 };
  const slackS = Math.max(60, (toS - fromS) / 100);
  return kept.fromS - fromS < slackS && toS - kept.toS < slackS ? null : kept;
}
