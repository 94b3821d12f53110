// The questions that belong to no room: what every room has found, and what the history has of a range of the past.

import { batch } from "@preact/signals";
import { fetchKept, fetchOverview } from "../api.ts";
import { news, type Listener, type Question } from "../poller.ts";
import * as state from "../state.ts";
import type { Window } from "../types.ts";

/** Findings that come and go are told by the stream; ages and charts move on by themselves. */
const REFRESH_MS = 5000;

const OVERVIEW: Question = {
  name: "overview",
  everyMs: REFRESH_MS,
  wanted: () => (state.past.value === null || state.overview.value === null ? "overview" : null),
  async ask(isLate) {
    const answer = await fetchOverview();
    if (isLate()) return undefined;
    batch(() => {
      state.overview.value = answer;
      state.setRealtime(answer.now_realtime_ns);
      state.setAge(answer.age_ns);
    });
    return answer.mode === "replay" ? "done" : undefined;
  },
};

const PAST: Question = {
  name: "past",
  everyMs: null,
  settleMs: 150,
  problem: state.pastProblem,
  wanted: () => {
    const range = state.past.value;
    return range && state.overview.value ? `${range.fromS}/${range.toS}` : null;
  },
  async ask(isLate) {
    const range = state.past.value;
    if (!range) return "done";
    if (state.pastAnswer.value?.from_s !== range.fromS || state.pastAnswer.value.to_s !== range.toS) state.pastAnswer.value = null;
    const answer = await fetchKept(range, state.overview.value?.host?.cpus.length ?? 1);
    if (!isLate()) state.pastAnswer.value = answer;
    return "done";
  },
};

export const questions: readonly Question[] = [OVERVIEW, PAST];

export const listener: Listener = {
  window(data) {
    const { start_ns: startNs, end_ns: endNs } = data as Window;
    state.windowNs.value = endNs - startNs;
    state.newestAtMs.value = performance.now();
  },
  findings: () => news("overview"),
};
