// What this room asks of the server: a snapshot at first, then what is new, while the stream of events tells each window;
// percentiles from the report of the same filters; who raised the interrupts.

import { batch } from "@preact/signals";
import { fetchKept, getJson, isMode, isRecord, unusable } from "../../api.ts";
import { formatCpuList } from "../../cpulist.ts";
import { news, type Listener, type Question } from "../../poller.ts";
import { mode, newestAtMs, past, setAge } from "../../state.ts";
import type { ClockChange, GapCorrection, Gap, Notice, Report, Snapshot, WhoReport, Window } from "../../types.ts";
import { History, KEEP_NS } from "./history.ts";
import type { Filters } from "./filters.ts";
import * as state from "./state.ts";

/** The cost and the notices come with the snapshot, the percentiles with the report. */
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

/** The parts without which the page would show something false or nothing at all. */
export function checkSnapshot(value: unknown): Snapshot {
  const wrong = (part: string) => unusable("snapshot", part);
  if (!isRecord(value)) throw wrong("object");
  if (!isMode(value.mode)) throw wrong("mode");
  if (typeof value.now_ns !== "number") throw wrong("now_ns");
  if (value.host === null) throw new Error("the server has not looked at its host yet");
  if (!isRecord(value.host) || !Array.isArray(value.host.cpus)) throw wrong("host");
  for (const list of ["capabilities", "windows", "gaps", "notices"]) {
    if (!Array.isArray(value[list])) throw wrong(list);
  }
  return value as unknown as Snapshot;
}

/** The state of everything; with `rangeS` only the windows and gaps of the last seconds. */
async function fetchSnapshot(rangeS: number | null): Promise<Snapshot> {
  return checkSnapshot(await getJson(`api/v1/snapshot${rangeS === null ? "" : `?range_s=${rangeS}`}`));
}

/**
 * The sums of what these filters leave. The page takes from it what windows do not hold: percentiles, and
 * the longest gaps of the range, of which a snapshot of everything may hold others only.
 */
async function fetchReport(filters: Filters): Promise<Report> {
  const given = [`range_s=${filters.rangeS}`, `min_us=${filters.minUs}`];
  if (filters.cpus.length > 0) given.push(`cpu=${formatCpuList(filters.cpus)}`);
  if (filters.kinds.length > 0) given.push(`kind=${filters.kinds.join(",")}`);
  const value = await getJson(`api/v1/report?${given.join("&")}`);
  if (!isRecord(value) || !Array.isArray(value.causes)) throw unusable("report", "causes");
  if (!Array.isArray(value.gaps)) throw unusable("report", "gaps");
  return value as unknown as Report;
}

/** Who interrupted the watched cores in the last seconds, 0 for all of the watch; `null` where that is not watched. */
async function fetchWho(rangeS: number): Promise<WhoReport | null> {
  const value = await getJson(`api/v1/who${rangeS > 0 ? `?range_s=${rangeS}` : ""}`);
  if (!isRecord(value)) throw unusable("report of raisers", "object");
  if (value.who === null) return null;
  const { who } = value;
  const isUsable =
    isRecord(who) &&
    Array.isArray(who.interrupts) &&
    Array.isArray(who.missing) &&
    who.interrupts.every((one) => isRecord(one) && Array.isArray(one.raisers) && Array.isArray(one.advice));
  if (!isUsable) throw unusable("report of raisers", "interrupts");
  return { ...who, loops: who.loops ?? [], loop_gaps: who.loop_gaps ?? [], notices: who.notices ?? [] } as unknown as WhoReport;
}

/** Windows after this time are missing although newer ones are known; `null` while none are. */
let holeFromNs: number | null = null;

const SNAPSHOT: Question = {
  name: "snapshot",
  everyMs: REFRESH_MS,
  wanted: () => (past.value === null ? "snapshot" : null),
  async ask(isLate) {
    const holeNs = holeFromNs;
    const newestNs = holeNs ?? state.liveHistory.value.newestNs;
    // What came since the newest window that is known, and a little more; windows known already are left out.
    const back = newestNs === null ? null : Math.max(0, Math.ceil((state.hostNow() - newestNs) / 1e9)) + 2;
    const rangeS = back !== null && back <= MAX_BACK_S ? back : null;
    const snapshot = await fetchSnapshot(rangeS);
    if (isLate()) return undefined;
    if (holeFromNs === holeNs) holeFromNs = null;
    const end = snapshot.mode === "replay" ? ("done" as const) : undefined;
    const same = take(snapshot, newestNs) === "same";
    // Without a window that is known already there may be a hole between the known ones and the answer: the
    // estimate of the host's clock was too low, or the answer belongs to another time line.
    const joined = snapshot.windows.length === 0 || snapshot.windows.some((window) => window.end_ns <= (newestNs ?? 0));
    if (rangeS === null || (same && joined)) return end;
    const known = state.liveHistory.value.newestNs;
    const whole = await fetchSnapshot(null);
    if (!isLate()) take(whole, known);
    return end;
  },
};

/** The filters as the server takes them; `null` when it would refuse all of the cores, as the page says beside the field. */
function asked(): Filters | null {
  const watched = state.host.value?.cpus ?? [];
  const { cpus, ...others } = state.filters.value;
  const known = cpus.filter((cpu) => watched.includes(cpu));
  return cpus.length > 0 && known.length === 0 ? null : { ...others, cpus: known };
}

const REPORT: Question = {
  name: "report",
  everyMs: REFRESH_MS,
  settleMs: SETTLE_MS,
  problem: state.reportProblem,
  wanted: () => (past.value === null && state.meta.value !== null ? JSON.stringify(asked()) : null),
  async ask(isLate) {
    const filters = asked();
    if (filters === null) return "done";
    const report = await fetchReport(filters);
    if (isLate()) return undefined;
    batch(() => {
      state.reportCauses.value = new Map(report.causes.map((cause) => [`${cause.kind}/${cause.name}`, cause]));
      state.reportedGaps.value = { filters: state.filters.value, count: report.gap_count };
      state.liveHistory.value.addGaps(report.gaps);
      state.revision.value += 1;
    });
    return mode.value === "replay" ? "done" : undefined;
  },
};

/** The range that the known report of raisers was asked for. */
let whoRangeS: number | null = null;

const WHO: Question = {
  name: "who",
  everyMs: null,
  settleMs: SETTLE_MS,
  problem: state.whoProblem,
  wanted: () => (past.value === null && state.whoEndNs.value !== null ? `who/${state.filters.value.rangeS}` : null),
  async ask(isLate) {
    const { rangeS } = state.filters.value;
    if (state.who.value?.end_ns === state.whoEndNs.value && whoRangeS === rangeS) return;
    const report = await fetchWho(rangeS);
    if (isLate()) return;
    whoRangeS = rangeS;
    state.who.value = report;
  },
};

const OTHER: Question = {
  name: "other",
  everyMs: null,
  settleMs: SETTLE_MS,
  problem: state.otherProblem,
  wanted: () => (state.other.value ? `${state.other.value.fromS}/${state.other.value.toS}` : null),
  async ask(isLate) {
    const range = state.other.value;
    if (!range) return "done";
    if (state.otherAnswer.value?.from_s !== range.fromS || state.otherAnswer.value.to_s !== range.toS) state.otherAnswer.value = null;
    const answer = await fetchKept(range, state.host.value?.cpus.length ?? 1);
    if (!isLate()) state.otherAnswer.value = answer;
    return "done";
  },
};

export const questions: readonly Question[] = [SNAPSHOT, REPORT, WHO, OTHER];

/** A newer report of raisers, or none any more. */
function setWhoEnd(endNs: number | null | undefined): void {
  const isNew = (endNs ?? null) !== state.whoEndNs.value;
  state.whoEndNs.value = endNs ?? null;
  if (state.whoEndNs.value === null) state.who.value = null;
  else if (isNew) news("who");
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
      before.host?.hostname !== rest.host?.hostname ||
      (newest !== null && rest.now_ns < newest);
    if (another) {
      newGaps = [];
      state.who.value = null;
      state.hovered.value = null;
      state.liveHistory.value = new History(rest.mode === "live" ? KEEP_NS : Infinity);
    }
    state.meta.value = rest;
    state.setHostClock(rest.now_ns);
    setAge(rest.age_ns);
    for (const window of windows) state.liveHistory.value.addWindow(window);
    state.liveHistory.value.addGaps(gaps);
    state.revision.value += 1;
    setWhoEnd(rest.who_end_ns);
    return another ? "another" : "same";
  });
}

/** Gaps can come by the hundred per second; they are taken together. */
let newGaps: Gap[] = [];
let showTimer = 0;
let showAtMs = Infinity;

function takeGaps(): void {
  state.liveHistory.value.addGaps(newGaps);
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

export const listener: Listener = {
  window(data) {
    // Before the first snapshot a window would leave a hole behind it.
    if (state.meta.value === null) return;
    const window = data as Window;
    const { newestNs } = state.liveHistory.value;
    if (newestNs !== null && window.start_ns - newestNs > (window.end_ns - window.start_ns) / 2) {
      // The snapshot was long on its way, or the stream began after it.
      holeFromNs = Math.min(holeFromNs ?? Infinity, newestNs);
      news("snapshot");
    }
    state.liveHistory.value.addWindow(window);
    if (window.end_ns > state.hostNow()) state.setHostClock(window.end_ns);
    newestAtMs.value = performance.now() - Math.max(0, state.hostNow() - window.end_ns) / 1e6;
    show(SHOW_WINDOW_MS);
  },
  gap(data) {
    if (state.meta.value === null) return;
    newGaps.push(data as Gap);
    if (newGaps.length >= MAX_NEW_GAPS) takeGaps();
    show(SHOW_GAP_MS);
  },
  notice(data) {
    const known = state.meta.value;
    if (known) state.meta.value = { ...known, notices: [...known.notices, data as Notice].slice(-MAX_NOTICES) };
  },
  gap_correction(data) {
    takeGaps();
    state.liveHistory.value.correct((data as GapCorrection).gap);
    show(SHOW_GAP_MS);
  },
  clock(data) {
    const known = state.meta.value;
    if (known) state.meta.value = { ...known, clock_changes: [...known.clock_changes, data as ClockChange].slice(-MAX_NOTICES) };
  },
  who: (data) => setWhoEnd((data as WhoReport).end_ns),
};
