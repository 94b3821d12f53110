// What the page of cases asks of `surefoot remedy serve`, and tells it.

import { effect, signal } from "@preact/signals";
import { given } from "../address.ts";
import { getJson, isRecord, Refusal, sentence, unusable } from "../api.ts";
import type { Case, Headline } from "../types.ts";
import { checkHosts, type HostList } from "./hosts.ts";
import { capital, joined, type CaseLine, type StateLabel } from "./words.ts";

/** A line of the audit trail. */
export interface Entry {
  at_realtime_ns: number;
  case: number;
  actor: string;
  action: string;
  target?: string;
  reason?: string;
}

export interface Story {
  case: Case;
  /** Its state in words. */
  label: string;
  /** What a person can do; absent for a closed case. */
  to_do?: string;
  trail: Entry[];
  /** What is known of the part; an older server says nothing of it. */
  part?: { says: string[] };
}

/** Between an answer and the next question; a list of all hosts is long, and asked for seldom. */
const PERIOD_MS = 2000;
const HOSTS_PERIOD_MS = 10_000;
const HOSTS_MAX = 20_000;
/** Open cases, and the newest of all beside them: an old one that is open is not to hide behind those that were closed since. */
const OPEN_MAX = 1000;
const NEWEST_MAX = 200;
/** The longest reason; the server cuts longer ones. */
export const REASON_CHARS_MAX = 400;

/** Null before the first answer. */
export const cases = signal<readonly CaseLine[] | null>(null);
/** How many are open, also of those that are not listed. */
export const openCount = signal(0);
/** Older cases that are not listed, and the case before which they are; null where all are listed, and from an older server. */
export const older = signal<{ count: number; before: number } | null>(null);
export const headline = signal<Headline | null>(null);
/** In the order of the board. */
export const states = signal<readonly StateLabel[]>([]);
export const isAllPaused = signal(false);
/** What else needs manual action: host names under which two machines report, and cases that cannot be read. */
export const notices = signal<readonly string[]>([]);
export const story = signal<Story | null>(null);
/** Why there is no newer answer; empty where there is. */
export const problem = signal("");
export const storyProblem = signal("");
/** What came of the last word of a person. */
export const told = signal<{ id: number | null; isDone: boolean; text: string } | null>(null);
export const isAsking = signal(false);
/** Null before the first answer, and at a server of an older release, which has no list of hosts. */
export const hosts = signal<HostList | null>(null);
/** Why there is no newer list of hosts; empty where there is. */
export const hostsProblem = signal("");
/** By the clock of this browser; ages of seconds are what it is for. */
export const nowNs = signal(Date.now() * 1e6);

export function checkCases(value: unknown): CaseLine[] {
  const name = "list of cases";
  if (!isRecord(value) || !Array.isArray(value.cases)) throw unusable(name, "cases");
  const isOne = (one: unknown) => isRecord(one) && typeof one.id === "number" && typeof one.host === "string" && typeof one.since_ns === "number" && typeof one.state === "string" && typeof one.label === "string";
  if (!value.cases.every(isOne)) throw unusable(name, "cases");
  return value.cases as CaseLine[];
}

/** The states and the headline of a list of open cases. */
export function checkHead(value: unknown): { states: StateLabel[]; headline: Headline } {
  const name = "list of cases";
  const isLabel = (one: unknown) => isRecord(one) && typeof one.state === "string" && typeof one.label === "string" && typeof one.is_open === "boolean";
  if (!isRecord(value) || !Array.isArray(value.states) || !value.states.every(isLabel)) throw unusable(name, "states");
  if (!isRecord(value.headline) || typeof value.headline.sentence !== "string") throw unusable(name, "headline");
  return value as unknown as { states: StateLabel[]; headline: Headline };
}

/** The notices of a list of cases, and the cases that cannot be read: the server leaves out an empty list. */
export function checkNotices(value: unknown): readonly string[] {
  if (!isRecord(value)) return [];
  const { notices = [], unread = [] } = value;
  if (!Array.isArray(notices) || !notices.every((one) => typeof one === "string")) throw unusable("list of cases", "notices");
  const says = (one: unknown) => {
    if (!isRecord(one) || typeof one.says !== "string") throw unusable("list of cases", "unread");
    return `${capital(one.says)}.`;
  };
  if (!Array.isArray(unread)) throw unusable("list of cases", "unread");
  return [...notices, ...unread.map(says)];
}

/** What a list leaves out. */
export function checkOlder(value: unknown): { count: number; before: number } | null {
  if (!isRecord(value) || typeof value.left_out !== "number" || typeof value.next_before !== "number") return null;
  return { count: value.left_out, before: value.next_before };
}

export function isOpen({ state }: { state: string }): boolean {
  return states.value.some((one) => one.state === state && one.is_open);
}

export function checkStory(value: unknown): Story {
  const name = "case";
  if (!isRecord(value) || !isRecord(value.case) || !Array.isArray(value.case.steps)) throw unusable(name, "case");
  if (!Array.isArray(value.trail)) throw unusable(name, "trail");
  if (typeof value.label !== "string") throw unusable(name, "label");
  return value as unknown as Story;
}

/** The number of the case that is open in the address. */
export function openCase(): number | null {
  const number = Number(given.value.case);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

async function askCases(): Promise<void> {
  try {
    const [open, newest] = await Promise.all([getJson(`api/v1/cases?state=open&limit=${OPEN_MAX}`), getJson(`api/v1/cases?state=all&limit=${NEWEST_MAX}`)]);
    const head = checkHead(open);
    notices.value = checkNotices(open);
    cases.value = joined(checkCases(newest), checkCases(open));
    states.value = head.states;
    headline.value = head.headline;
    openCount.value = isRecord(newest) && typeof newest.open_count === "number" ? newest.open_count : 0;
    older.value = checkOlder(newest);
    isAllPaused.value = isRecord(newest) && newest.is_paused === true;
    problem.value = "";
  } catch (error) {
    problem.value = sentence(error);
  }
  nowNs.value = Date.now() * 1e6;
}

async function askStory(id: number): Promise<void> {
  try {
    const answer = checkStory(await getJson(`api/v1/cases/${id}`));
    if (openCase() !== id) return;
    story.value = answer;
    storyProblem.value = "";
  } catch (error) {
    if (openCase() !== id) return;
    if (error instanceof Refusal) story.value = null;
    storyProblem.value = sentence(error);
  }
}

let hostsAsked = -Infinity;

async function askHosts(): Promise<void> {
  if (performance.now() - hostsAsked < HOSTS_PERIOD_MS) return;
  hostsAsked = performance.now();
  try {
    hosts.value = checkHosts(await getJson(`api/v1/hosts?limit=${HOSTS_MAX}`));
    hostsProblem.value = "";
  } catch (error) {
    hostsProblem.value = sentence(error);
  }
}

let timer = 0;

async function turn(): Promise<void> {
  clearTimeout(timer);
  if (document.visibilityState !== "hidden") {
    const id = openCase();
    await Promise.all([askCases(), askHosts(), id === null ? undefined : askStory(id)]);
  }
  clearTimeout(timer);
  timer = window.setTimeout(() => void turn(), PERIOD_MS);
}

/** Begins to ask, and asks at once for a case that is opened. */
export function startAsking(): void {
  document.addEventListener("visibilitychange", () => void turn());
  effect(() => {
    const id = openCase();
    if (story.peek()?.case.id !== id) {
      story.value = null;
      storyProblem.value = "";
      told.value = null;
    }
    if (id !== null) void askStory(id);
  });
  void turn();
}

/** What a person may ask of a case or tell of its part. */
export type Asked = "approve" | "pause" | "resume" | "cancel" | "replaced" | "tested-good";

const DONE: Record<Asked, string> = {
  approve: "approved",
  pause: "paused",
  resume: "it goes on",
  cancel: "it is being ended",
  replaced: "the part was replaced",
  "tested-good": "the replaced part tested good",
};

/** Tells the server what a person wants of a case, or of everything for null; an approval names the step that was seen, and is of no other. */
export async function ask(id: number | null, what: Asked, reason: string, step?: string): Promise<void> {
  isAsking.value = true;
  try {
    const response = await fetch(id === null ? `api/v1/${what}` : `api/v1/cases/${id}/${what}`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ reason: reason.slice(0, REASON_CHARS_MAX), step }),
      signal: AbortSignal.timeout(20_000),
    });
    const body: unknown = await response.json().catch(() => null);
    const said = isRecord(body) && typeof body.error === "string" ? body.error : `the server answered ${response.status}`;
    told.value = response.ok ? { id, isDone: true, text: `The server took it: ${DONE[what]}.` } : { id, isDone: false, text: `Not done: ${said}.` };
  } catch (error) {
    told.value = { id, isDone: false, text: `Not known whether it was done: ${sentence(error)}. Look at the trail below.` };
  }
  isAsking.value = false;
  await turn();
}
