// Keeps the state filled: snapshot, then the stream of events; after a break, a countdown, a snapshot
// of what was missed, and the stream again. A recording needs one snapshot only.

import { batch, effect } from "@preact/signals";
import { fetchReport, fetchSnapshot, fetchWho, openEvents } from "./api.ts";
import { KEEP_NS } from "./history.ts";
import type { Gap, Notice, Snapshot } from "./model.ts";
import * as state from "./state.ts";

const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];
/** The verdict, the cost and the notices come with the snapshot, the percentiles with the report. */
const REFRESH_MS = 5000;
/** The server looks back a day at most. */
const MAX_BACK_S = 86_400;
/** While somebody clicks through the filters, only the last choice is asked for. */
const SETTLE_MS = 120;
const MAX_NOTICES = 100;
/** A window is shown soon, with the gaps that follow it; gaps alone can wait. */
const SHOW_WINDOW_MS = 100;
const SHOW_GAP_MS = 1000;
const MAX_NEW_GAPS = 1000;

let closeEvents: (() => void) | null = null;
let retryTimer = 0;
let refreshTimer = 0;
let failures = 0;
/** Rises whenever the feed starts or stops, so that a late answer to an old question is dropped. */
let turn = 0;

/** Loads everything and, on a live host, follows it. */
export async function start(): Promise<void> {
  const own = stop();
  if (state.meta.value === null) state.connection.value = { phase: "loading" };
  try {
    const snapshot = await update(own);
    if (!snapshot) return;
    failures = 0;
    if (snapshot.mode === "live") {
      follow(own);
      return;
    }
    state.connection.value = { phase: "replay" };
    await refreshReport(own);
  } catch (error) {
    if (own === turn) fail(error);
  }
}

/** Stops asking the server for anything until `start`. */
export function pause(): void {
  stop();
  state.connection.value = { phase: "paused" };
}

function stop(): number {
  closeEvents?.();
  closeEvents = null;
  clearTimeout(retryTimer);
  clearTimeout(refreshTimer);
  turn += 1;
  return turn;
}

function fail(error: unknown): void {
  stop();
  const waitMs = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  state.connection.value = { phase: "retrying", reason: sentence(error), retryAtMs: performance.now() + waitMs };
  retryTimer = window.setTimeout(() => void start(), waitMs);
}

/** What went wrong, for people. */
export function sentence(error: unknown): string {
  if (error instanceof DOMException && error.name === "TimeoutError") return "the server does not answer";
  if (error instanceof TypeError) return "the server cannot be reached";
  return error instanceof Error ? error.message : String(error);
}

function follow(own: number): void {
  closeEvents = openEvents({
    open() {
      state.connection.value = { phase: "live" };
      // What happened between the snapshot and the opening of the stream.
      void refresh(own);
    },
    window(window) {
      state.history.addWindow(window);
      if (window.end_ns > state.hostNow()) state.setHostClock(window.end_ns);
      show(SHOW_WINDOW_MS);
    },
    gap(gap) {
      newGaps.push(gap);
      if (newGaps.length >= MAX_NEW_GAPS) takeGaps();
      show(SHOW_GAP_MS);
    },
    notice: addNotice,
    who(endNs) {
      void takeWho(own, endNs);
    },
    lagged() {
      state.laggedCount.value += 1;
      void refresh(own);
    },
    closed(reason) {
      if (own === turn) fail(new Error(reason));
    },
  });
}

/** Gaps can come by the hundred per second; they are taken together. */
let newGaps: Gap[] = [];
let showTimer = 0;
let showAtMs = Infinity;

function takeGaps(): void {
  state.history.addGaps(newGaps);
  newGaps = [];
}

/** Renders within this time, once for all the events until then. */
function show(withinMs: number): void {
  const atMs = performance.now() + withinMs;
  if (atMs >= showAtMs) return;
  clearTimeout(showTimer);
  showAtMs = atMs;
  showTimer = window.setTimeout(() => {
    showAtMs = Infinity;
    takeGaps();
    state.revision.value += 1;
  }, withinMs);
}

async function refresh(own: number): Promise<void> {
  clearTimeout(refreshTimer);
  try {
    if (await update(own)) await refreshReport(own);
  } catch (error) {
    if (own === turn) fail(error);
    return;
  }
  if (own !== turn) return;
  // Two can be under way at once when the page fell behind; only one may go on.
  clearTimeout(refreshTimer);
  refreshTimer = window.setTimeout(() => void refresh(own), REFRESH_MS);
}

/** Fetches and takes what is new; `null` when another turn began meanwhile. */
async function update(own: number): Promise<Snapshot | null> {
  const newest = state.history.newestNs;
  // What came since the newest window that is known, and a little more; windows known already are left out.
  const back = newest === null ? null : Math.max(0, Math.ceil((state.hostNow() - newest) / 1e9)) + 2;
  const rangeS = back !== null && back <= MAX_BACK_S ? back : null;
  const snapshot = await fetchSnapshot(rangeS);
  if (own !== turn) return null;
  const same = take(snapshot, newest) === "same";
  void takeWho(own, snapshot.who_end_ns);
  // Without a window that is known already there may be a hole between the known ones and the answer: the
  // estimate of the host's clock was too low, or the answer belongs to another time line.
  const joined = snapshot.windows.length === 0 || snapshot.windows.some((window) => window.end_ns <= (newest ?? 0));
  if (rangeS === null || (same && joined)) return snapshot;
  const asked = state.history.newestNs;
  const whole = await fetchSnapshot(null);
  if (own !== turn) return null;
  take(whole, asked);
  return whole;
}

async function refreshReport(own: number): Promise<void> {
  const asked = state.filters.value;
  // The server refuses cores that it does not watch; the page says so beside the field.
  const watched = state.meta.value?.host.cpus ?? [];
  const cpus = asked.cpus.filter((cpu) => watched.includes(cpu));
  if (asked.cpus.length > 0 && cpus.length === 0) return;
  const report = await fetchReport({ ...asked, cpus });
  if (own !== turn || asked !== state.filters.value) return;
  batch(() => {
    state.reportCauses.value = new Map(report.causes.map((cause) => [`${cause.kind}/${cause.name}`, cause]));
    state.reportedGaps.value = report.gap_count;
    state.history.addGaps(report.gaps);
    state.revision.value += 1;
  });
}

let whoIsAsked = false;
let whoWantedNs: number | null = null;

/** Asks for the report of raisers that ends at `endNs` unless it is known; one question at a time. */
async function takeWho(own: number, endNs: number | null | undefined): Promise<void> {
  whoWantedNs = endNs ?? null;
  if (whoWantedNs === null) state.who.value = null;
  if (whoIsAsked || whoWantedNs === null || state.who.value?.end_ns === whoWantedNs) return;
  whoIsAsked = true;
  const asked = whoWantedNs;
  try {
    const report = await fetchWho();
    if (own === turn) {
      batch(() => {
        state.who.value = report;
        state.whoProblem.value = "";
      });
    }
  } catch (error) {
    // The next news asks again; whether the server is there at all is told elsewhere.
    if (own === turn) state.whoProblem.value = sentence(error);
    return;
  } finally {
    whoIsAsked = false;
  }
  // News that came meanwhile, or a feed that began anew, could not ask.
  const isStale = whoWantedNs !== asked || own !== turn;
  if (isStale && state.connection.value.phase !== "paused") await takeWho(turn, whoWantedNs);
}

let settleTimer = 0;

/** Asks for the report again whenever the filters change. */
export function followFilters(): void {
  effect(() => {
    state.filters.value;
    state.reportedGaps.value = 0;
    clearTimeout(settleTimer);
    const own = turn;
    settleTimer = window.setTimeout(() => {
      if (state.meta.peek() === null || own !== turn) return;
      refreshReport(own).catch((error) => own === turn && fail(error));
    }, SETTLE_MS);
  });
}

/** Takes an answer; `newest` is the end of the newest window that was known when it was asked for. */
function take(snapshot: Snapshot, newest: number | null): "same" | "another" {
  return batch(() => {
    const { windows, gaps, ...rest } = snapshot;
    const before = state.meta.value;
    // Another host, a reboot, another recording: nothing of the old time line fits the new one.
    const another =
      before === null ||
      before.mode !== rest.mode ||
      before.recording !== rest.recording ||
      before.host.hostname !== rest.host.hostname ||
      (newest !== null && rest.now_ns < newest);
    if (another) {
      newGaps = [];
      state.who.value = null;
      state.forgetHistory(rest.mode === "live" ? KEEP_NS : Infinity);
    }
    state.meta.value = rest;
    // Both decide what the plain address means.
    if (before?.mode !== rest.mode || before.host.gap_threshold_ns !== rest.host.gap_threshold_ns) state.readAddress();
    state.setHostClock(rest.now_ns);
    for (const window of windows) state.history.addWindow(window);
    state.history.addGaps(gaps);
    state.revision.value += 1;
    return another ? "another" : "same";
  });
}

function addNotice(notice: Notice): void {
  const known = state.meta.value;
  if (!known) return;
  state.meta.value = { ...known, notices: [...known.notices, notice].slice(-MAX_NOTICES) };
}
