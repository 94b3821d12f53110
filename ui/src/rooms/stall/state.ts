// What this room knows, as signals, and what follows from it. Components read; only the functions here and in feed.ts write.

import { computed, signal } from "@preact/signals";
import { clip, given, go } from "../../address.ts";
import { formatCpuList } from "../../cpulist.ts";
import { mode, overview, past, pastAnswer } from "../../state.ts";
import type { PastAnswer, ReportCause, SelfCost, Snapshot, WhoReport } from "../../types.ts";
import { changeTo, defaults, filtersOf, momentOf, momentText, type Filters } from "./filters.ts";
import { History, KEEP_NS } from "./history.ts";
import { otherOf } from "./compare.ts";
import { coreFilter, filterGaps, filterInterrupts, kindMask, sumCores, total } from "./ledger.ts";
import { offsetAt, stretchesOf, whenShown } from "./wallclock.ts";
import { cellsOf, columnsOf, MAX_LANES, scaleOf } from "./timeline.ts";

/** A snapshot without the parts that live in the history. */
export type Meta = Omit<Snapshot, "windows" | "gaps">;

export const meta = signal<Meta | null>(null);
export const host = computed(() => meta.value?.host ?? overview.value?.host ?? null);
/** These words of a time where it was looked for: without tracing, nothing of a kind means that nobody looked, and of the past it is not kept. */
export function ifSeen(ns: number, words: string): string {
  const isTraced = past.value === null && (host.value?.source ?? "").startsWith("eBPF");
  return ns > 0 || isTraced ? words : "–";
}
export const reportCauses = signal<ReadonlyMap<string, ReportCause>>(new Map());
/** How many gaps pass these filters according to the server, which keeps more of them than it sends. */
export const reportedGaps = signal<{ filters: Filters; count: number } | null>(null);
/** Why there are no percentiles; empty when all is well. */
export const reportProblem = signal("");
/** Where the newest report of raisers ends; `null` where they are not watched. */
export const whoEndNs = signal<number | null>(null);
/** Who interrupted the watched cores; `null` where that is not watched. */
export const who = signal<WhoReport | null>(null);
/** Why there is no newer report of raisers; empty when all is well. */
export const whoProblem = signal("");

// Windows and gaps. What a history holds changes many times between two frames: `revision` says when to look again.

export const liveHistory = signal(new History(KEEP_NS));
export const revision = signal(0);

const NO_COST: SelfCost = { probes: [], process_cpu_ns: 0, resident_bytes: 0, map_bytes: 0, dropped: 0, torn: 0, unreported: 0, untraced_interrupts: 0, self_interrupts: 0 };

/** The windows and gaps of the past, with times of CLOCK_REALTIME: it may span several boots. */
export function historyOf(answer: PastAnswer): History {
  const kept = new History(Infinity);
  for (const { start_realtime_ns: start_ns, end_realtime_ns: end_ns, cores } of answer.windows) {
    kept.addWindow({ start_ns, end_ns, cores, untimed: [], completeness: [], cost: NO_COST });
  }
  kept.addGaps(answer.gaps.map((gap) => ({ ...gap, start_ns: gap.start_realtime_ns })));
  return kept;
}

const pastHistory = computed(() => (pastAnswer.value ? historyOf(pastAnswer.value) : new History(Infinity)));
export const history = computed(() => (past.value ? pastHistory.value : liveHistory.value));
const stretches = computed(() => (past.value ? [] : stretchesOf(host.value?.realtime_offset_ns ?? 0, meta.value?.clock_changes ?? [])));
/** What makes CLOCK_REALTIME of a time of the history: it changes when the clock is set. */
export const offsetNs = (ns: number) => offsetAt(stretches.value, ns);

// The clock of the host, carried on by the clock of the browser.

let hostNs = 0;
let hostAtMs = 0;

/** Says what CLOCK_MONOTONIC of the host is now. */
export function setHostClock(ns: number): void {
  hostNs = ns;
  hostAtMs = performance.now();
}

/** CLOCK_MONOTONIC of the host, estimated; late by the time that the last answer travelled. */
export function hostNow(): number {
  return hostNs === 0 ? 0 : hostNs + (performance.now() - hostAtMs) * 1e6;
}

// Filters and the address.

/** Gaps are looked for from this length on, microseconds; 0 until the server has said it. */
export const lookedForUs = computed(() => (host.value?.gap_threshold_ns ?? 0) / 1000);
/** The filters of the plain address. The same object while nothing of them changes: a field that somebody types into is drawn anew otherwise. */
export const base = computed(() => defaults(mode.value, lookedForUs.value * 1000));
const read = computed(() => filtersOf(given.value, base.value));
export const filters = computed(() => read.value.filters);
const readMoment = computed(() => momentOf(given.value));
/** Cores of the filter that the host has not; in the past other cores may have been watched. */
const strangers = computed(() => (host.value && past.value === null ? filters.value.cpus.filter((cpu) => !host.value?.cpus.includes(cpu)) : []));
const readOther = computed(() => otherOf(given.value, past.value));
const otherFromS = computed(() => readOther.value.other?.fromS ?? null);
/** The range of the past to compare with; the same object as long as it is the same. */
export const other = computed(() => {
  const range = past.value;
  return otherFromS.value === null || range === null ? null : { fromS: otherFromS.value, toS: otherFromS.value + range.toS - range.fromS };
});
/** What the history has of it; `null` while that is not known. */
export const otherAnswer = signal<PastAnswer | null>(null);
/** Why it is not known; empty when all is well. */
export const otherProblem = signal("");

export const findProblems = () => [
  ...readOther.value.problems,
  ...read.value.problems,
  ...(strangers.value.length > 0 ? [`Not watched here: core ${clip(formatCpuList(strangers.value))}.`] : []),
  ...readMoment.value.problems,
];

/** Changes some filters, as a step of its own. */
export function changeFilters(change: Partial<Filters>): void {
  go(changeTo({ ...filters.value, ...change }, base.value));
}

export const filtersAreDefault = computed(() => Object.values(changeTo(filters.value, base.value)).every((part) => part === null));

// What the filters leave of the history.

export const range = computed(() => {
  revision.value;
  if (past.value) return { fromNs: past.value.fromS * 1e9, toNs: past.value.toS * 1e9 };
  const toNs = history.value.newestNs ?? 0;
  const { rangeS } = filters.value;
  const fromNs = rangeS > 0 ? toNs - rangeS * 1e9 : (history.value.blocks[0]?.startNs ?? 0);
  return { fromNs, toNs };
});

export const blocks = computed(() => history.value.between(range.value.fromNs, range.value.toNs));

export const cores = computed(() => sumCores(blocks.value, history.value.causes, coreFilter(filters.value.cpus)));

export const whole = computed(() => total(cores.value));

export const mask = computed(() => kindMask(filters.value.kinds));
/** The cores of the range to compare with, as one; `null` while nothing is known of it. */
export const otherWhole = computed(() => {
  if (otherAnswer.value === null) return null;
  const kept = historyOf(otherAnswer.value);
  return total(sumCores(kept.blocks, kept.causes, coreFilter(filters.value.cpus)));
});

export const gaps = computed(() => {
  const { cpus, kinds, minUs } = filters.value;
  const { fromNs, toNs } = range.value;
  // A gap is told before its window ends, so gaps may be newer than the newest window.
  const untilNs = mode.value === "live" && past.value === null ? Infinity : toNs;
  return filterGaps(history.value.gaps, coreFilter(cpus), kinds, minUs * 1000, fromNs, untilNs);
});

export const gapCount = computed(() => {
  const told = reportedGaps.value;
  return Math.max(gaps.value.length, past.value === null && told?.filters === filters.value ? told.count : 0);
});

/** The interrupts of the cores and kinds chosen. A report counts from its start, whatever the range. */
export const whoInterrupts = computed(() => {
  const { cpus, kinds } = filters.value;
  return filterInterrupts(who.value?.interrupts ?? [], coreFilter(cpus), kinds);
});

// The timeline.

/** How many columns the canvas has room for. */
export const columnRoom = signal(900);
export const columns = computed(() => columnsOf(blocks.value, columnRoom.value));
export const lanes = computed(() => cores.value.map((core) => core.cpu));
export const cells = computed(() =>
  cellsOf(columns.value, lanes.value, history.value.causes, mask.value, lanes.value.length <= MAX_LANES),
);

export const scale = computed(() => scaleOf(cells.value.share));

/** A place in the timeline: a core and an instant of the history's clock. */
export interface Place {
  cpu: number;
  ns: number;
}

/** Under the pointer; goes when the pointer goes. */
export const hovered = signal<Place | null>(null);
/** Chosen by click or key, in the address; stays until Escape. */
export const pinned = computed<Place | null>(() => {
  const { moment } = readMoment.value;
  return moment && { cpu: moment.cpu, ns: whenShown(stretches.value, moment.realtimeNs) };
});

/** Chooses a place or none. Moving from one to the next is one step, so that Back leaves the timeline. */
export function choose(place: Place | null): void {
  const how = place !== null && given.value.at !== undefined ? "replace" : "step";
  go({ at: place && momentText({ cpu: place.cpu, realtimeNs: place.ns + offsetNs(place.ns) }) }, how);
}

function isShown(at: Place): boolean {
  return at.ns >= range.value.fromNs && at.ns <= Math.max(range.value.toNs, history.value.newestNs ?? 0) && lanes.value.includes(at.cpu);
}

export const place = computed(() => {
  const at = hovered.value ?? pinned.value;
  return at && isShown(at) ? at : null;
});

/** The place of the address when the range or the filters leave it out. */
export const lostPlace = computed(() => {
  const at = pinned.value;
  return at && blocks.value.length > 0 && !isShown(at) ? at : null;
});
