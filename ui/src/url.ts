// The filters and their form in the URL: cpu=0,1&kind=timer,softirq&min_us=50&range_s=300.
// Defaults stay out of the URL, so that the plain address is the plain page.

import { formatCpuList, parseCpuList } from "./cpulist.ts";
import { KINDS, type Kind } from "./model.ts";

export interface Filters {
  /** Cores to show, ascending; empty for all. */
  cpus: number[];
  /** Kinds of cause to show, in table order; empty for all. */
  kinds: Kind[];
  /** Stalls shorter than this are not shown, microseconds. */
  minUs: number;
  /** How far back to look, seconds; 0 for everything that is there. */
  rangeS: number;
}

/** The pages of the page. */
export type View = "lost-time" | "checkpoints";

/** The view of a query; anything else is the first. */
export function parseView(query: string): View {
  return new URLSearchParams(query).get("view") === "checkpoints" ? "checkpoints" : "lost-time";
}

/** A query of filters with a view in it. */
export function withView(query: string, view: View): string {
  if (view === "lost-time") return query;
  return query === "" ? `?view=${view}` : `?view=${view}&${query.slice(1)}`;
}

export const RANGES_S = [60, 300, 900] as const;
export const MAX_MIN_US = 60_000_000;
const MAX_RANGE_S = 86_400;

/** A live page starts with the last minute, a recording with all of it; both with every stall that was looked for. */
export function defaults(mode: "live" | "replay", gapThresholdNs: number): Filters {
  return { cpus: [], kinds: [], minUs: gapThresholdNs / 1000, rangeS: mode === "live" ? 60 : 0 };
}

/** The filters of a query, and a sentence for each part that could not be used. */
export function parseQuery(query: string, base: Filters): { filters: Filters; problems: string[] } {
  const given = new URLSearchParams(query);
  const filters: Filters = { ...base, cpus: [...base.cpus], kinds: [...base.kinds] };
  const problems: string[] = [];

  const cpu = given.get("cpu");
  if (cpu) {
    const cpus = parseCpuList(cpu);
    if (cpus) filters.cpus = cpus;
    else problems.push(`cpu=${clip(cpu)} is not a list of cores such as 0-3,8; all cores are shown.`);
  }
  const kind = given.get("kind");
  if (kind) {
    const names = kind.split(",").map((name) => name.trim());
    const unknown = names.filter((name) => !KINDS.some((known) => known.id === name));
    filters.kinds = KINDS.map((known) => known.id).filter((id) => names.includes(id));
    if (unknown.length > 0) problems.push(`No cause is called ${clip(unknown.join(", "))}; it is left out.`);
  }
  const minimum = given.get("min_us");
  if (minimum !== null) {
    const value = Number(minimum);
    if (minimum !== "" && value >= 0 && value <= MAX_MIN_US) filters.minUs = value;
    else problems.push(`min_us=${clip(minimum)} is not a length in microseconds; ${base.minUs} us is used.`);
  }
  const range = given.get("range_s");
  if (range !== null) {
    const value = Number(range);
    if (range !== "" && Number.isInteger(value) && value >= 0 && value <= MAX_RANGE_S) filters.rangeS = value;
    else problems.push(`range_s=${clip(range)} is not a number of seconds up to ${MAX_RANGE_S}; the default is used.`);
  }
  return { filters, problems };
}

/** The query that brings these filters back, with its question mark; empty for the defaults. */
export function toQuery(filters: Filters, base: Filters): string {
  const parts: string[] = [];
  if (filters.cpus.length > 0) parts.push(`cpu=${formatCpuList(filters.cpus)}`);
  if (filters.kinds.length > 0) parts.push(`kind=${filters.kinds.join(",")}`);
  if (filters.minUs !== base.minUs) parts.push(`min_us=${filters.minUs}`);
  if (filters.rangeS !== base.rangeS) parts.push(`range_s=${filters.rangeS}`);
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

function clip(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
