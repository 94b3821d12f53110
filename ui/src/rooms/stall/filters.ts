// The filters and their form in the address: cpu=0,1&kind=timer,softirq&min_us=50&range_s=300, and the chosen place,
// at=1@1700000000.25. Defaults stay out, so that the plain address is the plain page. Pure.

import { clip, type Change, type Given } from "../../address.ts";
import { formatCpuList, parseCpuList } from "../../cpulist.ts";
import type { Mode } from "../../types.ts";
import { KINDS, type Kind } from "./words.ts";

export interface Filters {
  /** Cores to show, ascending; empty for all. */
  cpus: number[];
  /** Kinds of cause to show, in table order; empty for all. */
  kinds: Kind[];
  /** Gaps shorter than this are not shown, microseconds. */
  minUs: number;
  /** How far back to look, seconds; 0 for everything that is there. */
  rangeS: number;
}

export const RANGES_S = [60, 300, 900] as const;
export const MAX_MIN_US = 60_000_000;
const MAX_RANGE_S = 86_400;

/** A live page starts with the last minute, a recording with all of it; both with every gap that was looked for. */
export function defaults(mode: Mode, gapThresholdNs: number): Filters {
  return { cpus: [], kinds: [], minUs: gapThresholdNs / 1000, rangeS: mode === "replay" ? 0 : 60 };
}

/** The filters of an address, and a sentence for each part that could not be used. */
export function filtersOf(given: Given, base: Filters): { filters: Filters; problems: string[] } {
  const filters: Filters = { ...base, cpus: [...base.cpus], kinds: [...base.kinds] };
  const problems: string[] = [];

  const { cpu, kind, min_us: minimum, range_s: range } = given;
  if (cpu) {
    const cpus = parseCpuList(cpu);
    if (cpus) filters.cpus = cpus;
    else problems.push(`cpu=${clip(cpu)} is not a list of cores such as 0-3,8; all cores are shown.`);
  }
  if (kind) {
    const names = kind.split(",").map((name) => name.trim());
    const unknown = names.filter((name) => !KINDS.some((known) => known.id === name));
    filters.kinds = KINDS.map((known) => known.id).filter((id) => names.includes(id));
    if (unknown.length > 0) problems.push(`No cause is called ${clip(unknown.join(", "))}; it is left out.`);
  }
  if (minimum !== undefined) {
    const value = Number(minimum);
    if (minimum !== "" && value >= 0 && value <= MAX_MIN_US) filters.minUs = value;
    else problems.push(`min_us=${clip(minimum)} is not a length in microseconds; ${base.minUs} us is used.`);
  }
  if (range !== undefined) {
    const value = Number(range);
    if (range !== "" && Number.isInteger(value) && value >= 0 && value <= MAX_RANGE_S) filters.rangeS = value;
    else problems.push(`range_s=${clip(range)} is not a number of seconds up to ${MAX_RANGE_S}; the default is used.`);
  }
  return { filters, problems };
}

/** The parts of the address that bring these filters back; defaults have none. */
export function changeTo(filters: Filters, base: Filters): Change {
  return {
    cpu: filters.cpus.length > 0 ? formatCpuList(filters.cpus) : null,
    kind: filters.kinds.length > 0 ? filters.kinds.join(",") : null,
    min_us: filters.minUs === base.minUs ? null : String(filters.minUs),
    range_s: filters.rangeS === base.rangeS ? null : String(filters.rangeS),
  };
}

/** A place in the timeline: a core and an instant of CLOCK_REALTIME, nanoseconds. */
export interface Moment {
  cpu: number;
  realtimeNs: number;
}

/** The chosen place of an address. */
export function momentOf({ at }: Given): { moment: Moment | null; problems: string[] } {
  if (at === undefined) return { moment: null, problems: [] };
  const found = /^(\d{1,5})@(\d{1,11}(?:\.\d{1,3})?)$/.exec(at);
  if (!found) return { moment: null, problems: [`at=${clip(at)} is not a core and a time such as 1@1700000000.25; no place is chosen.`] };
  return { moment: { cpu: Number(found[1]), realtimeNs: Number(found[2]) * 1e9 }, problems: [] };
}

/** Such a place as the address has it, to the millisecond. */
export function momentText({ cpu, realtimeNs }: Moment): string {
  return `${cpu}@${Number((realtimeNs / 1e9).toFixed(3))}`;
}
