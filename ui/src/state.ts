// What the page knows, as signals, and what follows from it, as computed signals.
// Components read; only the functions here and in feed.ts write.

import { computed, signal } from "@preact/signals";
import { History, KEEP_NS } from "./history.ts";
import { coreFilter, filterGaps, filterInterrupts, kindMask, sumCores, total } from "./ledger.ts";
import type { ReportCause, Snapshot, WhoReport } from "./model.ts";
import type { Theme } from "./palette.ts";
import { cellsOf, columnsOf, MAX_LANES, scaleOf } from "./timeline.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { defaults, parseQuery, parseView, toQuery, withView, type Filters, type View } from "./url.ts";

/** A snapshot without the parts that live in the history. */
export type Meta = Omit<Snapshot, "windows" | "gaps">;

export type Connection =
  | { phase: "loading" }
  | { phase: "live" }
  | { phase: "replay" }
  | { phase: "paused" }
  | { phase: "retrying"; reason: string; retryAtMs: number };

export const connection = signal<Connection>({ phase: "loading" });
export const meta = signal<Meta | null>(null);
export const reportCauses = signal<ReadonlyMap<string, ReportCause>>(new Map());
/** How many gaps pass the filters according to the server, which keeps more of them than it sends. */
export const reportedGaps = signal(0);
/** Who interrupted the watched cores; `null` where that is not watched. */
export const who = signal<WhoReport | null>(null);
/** Why there is no newer report of raisers; empty when all is well. */
export const whoProblem = signal("");
/** What lies in the directories of checkpoints; `null` until the server was asked. */
export const checkpoints = signal<Checkpoints | null>(null);
/** The name of the job that somebody chose; empty for the one that needs a look most. */
export const chosenJob = signal("");
/** Why there is no newer answer about checkpoints; empty when all is well. */
export const checkpointsProblem = signal("");
/** How often the server left events out for this page. */
export const laggedCount = signal(0);

/** Not a signal: it changes many times between two frames. `revision` says when to look again. */
export let history = new History(KEEP_NS);
export const revision = signal(0);

export function forgetHistory(keepNs: number): void {
  history = new History(keepNs);
  pinned.value = null;
  hovered.value = null;
}

// The clock of the host, carried on by the clock of the browser.
let hostNs = 0;
let hostAtMs = 0;

/** Says what CLOCK_MONOTONIC of the host is now. */
export function setHostClock(ns: number): void {
  hostNs = ns;
  hostAtMs = performance.now();
}

/** CLOCK_REALTIME of the host, estimated in the same way. */
export function hostRealtimeNow(): number {
  return hostNow() + (meta.value?.host.realtime_offset_ns ?? 0);
}

/** CLOCK_MONOTONIC of the host, estimated; late by the time that the last answer travelled. */
export function hostNow(): number {
  return hostNs + (performance.now() - hostAtMs) * 1e6;
}

// Filters and the address bar.

const mode = computed(() => meta.value?.mode ?? "live");
/** Stalls are looked for from this length on, microseconds; 0 until the server has said it. */
export const lookedForUs = computed(() => (meta.value?.host.gap_threshold_ns ?? 0) / 1000);
/** The filters of the plain address. */
export const base = computed(() => defaults(mode.value, meta.value?.host.gap_threshold_ns ?? 0));
const opening = parseQuery(location.search, base.value);
export const filters = signal<Filters>(opening.filters);
export const problems = signal<string[]>(opening.problems);
export const view = signal<View>(parseView(location.search));

/** Reads the filters from the address bar again: at the start, on back and forward. */
export function readAddress(): void {
  const { filters: next, problems: said } = parseQuery(location.search, base.value);
  filters.value = next;
  problems.value = said;
  view.value = parseView(location.search);
}

/** Goes to another page of the page, as a step of its own. */
export function showView(next: View): void {
  if (next === view.value) return;
  view.value = next;
  const query = withView(toQuery(filters.value, base.value), next);
  window.history.pushState(null, "", query === "" ? location.pathname : query);
}

/** Changes some filters and puts the result into the address bar, as a step of its own. */
export function changeFilters(change: Partial<Filters>): void {
  const next = { ...filters.value, ...change };
  const query = toQuery(next, base.value);
  filters.value = next;
  problems.value = [];
  if (query !== location.search) window.history.pushState(null, "", query === "" ? location.pathname : query);
}

export const filtersAreDefault = computed(() => toQuery(filters.value, base.value) === "");

// What the filters leave of the history.

export const range = computed(() => {
  revision.value;
  const toNs = history.newestNs ?? 0;
  const { rangeS } = filters.value;
  const fromNs = rangeS > 0 ? toNs - rangeS * 1e9 : (history.blocks[0]?.startNs ?? 0);
  return { fromNs, toNs };
});

export const blocks = computed(() => history.between(range.value.fromNs, range.value.toNs));

export const cores = computed(() => sumCores(blocks.value, history.causes, coreFilter(filters.value.cpus)));

export const whole = computed(() => total(cores.value));

export const mask = computed(() => kindMask(filters.value.kinds));

export const gaps = computed(() => {
  const { cpus, kinds, minUs } = filters.value;
  const { fromNs, toNs } = range.value;
  // A gap is told before its window ends, so gaps may be newer than the newest window.
  const untilNs = mode.value === "live" ? Infinity : toNs;
  return filterGaps(history.gaps, coreFilter(cpus), kinds, minUs * 1000, fromNs, untilNs);
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
  cellsOf(columns.value, lanes.value, history.causes, mask.value, lanes.value.length <= MAX_LANES),
);

export const scale = computed(() => scaleOf(cells.value.share));

/** A place in the timeline: a core and an instant. */
export interface Place {
  cpu: number;
  ns: number;
}

/** Under the pointer; goes when the pointer goes. */
export const hovered = signal<Place | null>(null);
/** Chosen by click or key; stays until Escape, or until time has moved past it. */
export const pinned = signal<Place | null>(null);

export const place = computed(() => {
  const at = hovered.value ?? pinned.value;
  if (!at || at.ns < range.value.fromNs || !lanes.value.includes(at.cpu)) return null;
  return at;
});

// Light and dark.

export type ThemeChoice = "auto" | Theme;

const THEME_KEY = "surefoot.theme";
const darkQuery = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(darkQuery.matches);
darkQuery.addEventListener("change", (event) => (systemDark.value = event.matches));

function storedTheme(): ThemeChoice {
  try {
    const stored = localStorage.getItem(THEME_KEY);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    // Storage can be forbidden; then the choice lasts as long as the page.
    return "auto";
  }
}

export const themeChoice = signal<ThemeChoice>(storedTheme());
export const theme = computed<Theme>(() =>
  themeChoice.value === "auto" ? (systemDark.value ? "dark" : "light") : themeChoice.value,
);

export function chooseTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  try {
    localStorage.setItem(THEME_KEY, choice);
  } catch {
    // As above.
  }
}
