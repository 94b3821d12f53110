// What all views share: what the server says of itself and its host, the clock of the host, the past that is shown.
// Each room keeps the rest in its own folder.

import { computed, signal } from "@preact/signals";
import { given } from "./address.ts";
import type { Overview, PastAnswer } from "./types.ts";
import { pastOf } from "./past.ts";

export type Connection =
  | { phase: "loading" }
  | { phase: "live" }
  | { phase: "replay" }
  | { phase: "paused" }
  | { phase: "retrying"; reason: string; retryAtMs: number };

export const connection = signal<Connection>({ phase: "loading" });
export const overview = signal<Overview | null>(null);
export const mode = computed(() => overview.value?.mode ?? "live");
/** How often the server left events out for this page. */
export const laggedCount = signal(0);

// The past.

const readPast = computed(() => {
  const read = pastOf(given.value);
  if (read.past === null || mode.value !== "replay") return read;
  return { past: null, problems: ["from_s and to_s choose a range of a live host's history; this is a recording, and all of it is shown."] };
});
export const pastProblems = () => readPast.value.problems;
const pastKey = computed(() => (readPast.value.past ? `${readPast.value.past.fromS}/${readPast.value.past.toS}` : null));
/** The range of the past that is shown; `null` for what is live. The same object as long as the range is the same. */
export const past = computed(() => {
  if (pastKey.value === null) return null;
  const [fromS, toS] = pastKey.value.split("/").map(Number);
  return { fromS, toS };
});
/** What the history has of that range; `null` until it came. */
export const pastAnswer = signal<PastAnswer | null>(null);
/** Why there is no answer; empty when all is well. */
export const pastProblem = signal("");

// The clock of the host, carried on by the clock of the browser.

let realtimeNs = 0;
let realtimeAtMs = 0;

/** Says what CLOCK_REALTIME of the host is now. */
export function setRealtime(ns: number): void {
  realtimeNs = ns;
  realtimeAtMs = performance.now();
}

/** CLOCK_REALTIME of the host, estimated; late by the time that the last answer travelled. */
export function realtimeNow(): number {
  if (realtimeNs === 0) return Date.now() * 1e6;
  return mode.value === "replay" ? realtimeNs : realtimeNs + (performance.now() - realtimeAtMs) * 1e6;
}

/** When the newest window ended, on the clock of performance.now(); `null` before the first. */
export const newestAtMs = signal<number | null>(null);
/** The length of the newest window, nanoseconds: how late is late. */
export const windowNs = signal(1e9);

/** Takes the age of the newest window from an answer. */
export function setAge(ageNs: number | null): void {
  newestAtMs.value = ageNs === null ? null : performance.now() - ageNs / 1e6;
}
