// The one place that knows what to ask of the server, and when. Each view names its questions; a question is asked while
// somebody looks at its answer, again after a while or when news come, and not at all while the page is paused, its tab
// is hidden, or the server is gone. The stream of events is open while the page follows a live host.

import { computed, effect, signal, type Signal } from "@preact/signals";
import { openEvents, Refusal, sentence } from "./api.ts";
import { connection, laggedCount, mode, overview, past } from "./state.ts";

export interface Question {
  name: string;
  /** A text that changes whenever another answer is wanted; `null` while none is. Reads signals. */
  wanted(): string | null;
  /** From an answer to the next question, milliseconds; `null` when only news make it be asked again. */
  everyMs: number | null;
  /** A change of what is wanted waits so long for the next, milliseconds. */
  settleMs?: number;
  /** Asks, and takes the answer unless it came too late. "done" when nothing comes of asking again. */
  ask(isLate: () => boolean): Promise<"done" | void>;
  /** Where a failure is said. Without such a place a failure means that the server is gone. */
  problem?: Signal<string>;
}

/** What a room takes from the stream of events, name by name. */
export type Listener = Readonly<Record<string, (data: unknown) => void>>;

/** Between an answer and the next when news came meanwhile, so that a storm of news is no storm of questions. */
const NEWS_MS = 200;
const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];

function retryMs(failures: number): number {
  return RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] ?? RETRY_MS[0];
}

interface Asked {
  question: Question;
  timer: number;
  /** Rises whenever what is wanted changes, so that a late answer is dropped. */
  turn: number;
  isActive: boolean;
  isAsking: boolean;
  /** News came while it was being asked. */
  again: boolean;
  failures: number;
}

const asked = new Map<string, Asked>();
/** Shut while paused, and while the page waits for a server that is gone. */
const isOpen = signal(true);
const isHidden = signal(document.visibilityState === "hidden");
document.addEventListener("visibilitychange", () => (isHidden.value = document.visibilityState === "hidden"));
const isAwake = computed(() => isOpen.value && !isHidden.value);

let retryTimer = 0;
let failures = 0;

/** Begins to ask these questions and to follow the stream. */
export function startPolling(questions: readonly Question[], listeners: readonly Listener[]): void {
  for (const question of questions) {
    const one: Asked = { question, timer: 0, turn: 0, isActive: false, isAsking: false, again: false, failures: 0 };
    asked.set(question.name, one);
    const wanted = computed(() => (isAwake.value ? question.wanted() : null));
    effect(() => {
      const isWanted = wanted.value !== null;
      // Its first question is asked at once; a change of it may be one of several.
      const waitMs = one.isActive ? (question.settleMs ?? 0) : 0;
      clearTimeout(one.timer);
      Object.assign(one, { turn: one.turn + 1, isActive: isWanted, isAsking: false, again: false, failures: 0 });
      if (isWanted) one.timer = window.setTimeout(() => void ask(one, one.turn), waitMs);
    });
  }
  followStream(listeners);
  // What was paused is the following of what is live.
  effect(() => {
    if (past.value !== null && connection.peek().phase === "paused") resume();
  });
}

async function ask(one: Asked, own: number): Promise<void> {
  const { question } = one;
  const isLate = () => own !== one.turn;
  clearTimeout(one.timer);
  one.isAsking = true;
  one.again = false;
  let isDone = false;
  let isRefused = false;
  try {
    isDone = (await question.ask(isLate)) === "done";
    if (isLate()) return;
    one.failures = 0;
    if (question.problem) question.problem.value = "";
    else connected();
  } catch (error) {
    if (isLate()) return;
    one.failures += 1;
    if (!question.problem) return disconnected(sentence(error));
    question.problem.value = sentence(error);
    // What the server refuses it refuses again until something else is asked.
    isRefused = error instanceof Refusal && error.status < 500;
  } finally {
    if (!isLate()) one.isAsking = false;
  }
  const next = isRefused ? question.everyMs : one.failures > 0 ? retryMs(one.failures) : one.again ? NEWS_MS : isDone ? null : question.everyMs;
  if (next !== null) one.timer = window.setTimeout(() => void ask(one, own), next);
}

/** Asks a question soon, because its answer has changed; one answer is waited for at a time. */
export function news(name: string): void {
  const one = asked.get(name);
  if (!one?.isActive) return;
  if (one.isAsking) one.again = true;
  else if (one.failures === 0) void ask(one, one.turn);
}

function connected(): void {
  failures = 0;
  const { phase } = connection.value;
  if (mode.value === "replay" && overview.value !== null) connection.value = { phase: "replay" };
  // Of what is live the stream has the last word, but for a page that looks at the past.
  else if (past.value !== null && phase !== "paused") connection.value = { phase: "live" };
}

function disconnected(reason: string): void {
  if (!isOpen.value) return;
  isOpen.value = false;
  failures += 1;
  const waitMs = retryMs(failures);
  connection.value = { phase: "retrying", reason, retryAtMs: performance.now() + waitMs };
  clearTimeout(retryTimer);
  retryTimer = window.setTimeout(resume, waitMs);
}

/** Asks the server for nothing until `resume`. */
export function pause(): void {
  clearTimeout(retryTimer);
  isOpen.value = false;
  connection.value = { phase: "paused" };
}

/** Goes on after a pause, or tries again at once. */
export function resume(): void {
  clearTimeout(retryTimer);
  if (overview.value === null || connection.value.phase === "paused") connection.value = { phase: "loading" };
  isOpen.value = true;
}

function followStream(listeners: readonly Listener[]): void {
  const names = [...new Set([...listeners.flatMap((one) => Object.keys(one)), "lagged"])];
  const isFollowed = computed(() => isAwake.value && overview.value !== null && mode.value !== "replay" && past.value === null);
  effect(() => {
    if (!isFollowed.value) return undefined;
    return openEvents(names, {
      open() {
        connection.value = { phase: "live" };
        // What happened between the answers and the opening of the stream.
        for (const name of asked.keys()) news(name);
      },
      event(name, data) {
        if (name === "lagged") {
          laggedCount.value += 1;
          for (const known of asked.keys()) news(known);
        } else for (const listener of listeners) listener[name]?.(data);
      },
      closed: disconnected,
    });
  });
}
