import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Question } from "../src/poller.ts";

// What the poller takes from a browser.
const page = { visibilityState: "visible", listener: () => {} };
Object.assign(globalThis, {
  window: globalThis,
  document: {
    get visibilityState() {
      return page.visibilityState;
    },
    addEventListener: (_: string, listener: () => void) => (page.listener = listener),
  },
});
const { signal } = await import("@preact/signals");
const { news, pause, resume, startPolling } = await import("../src/poller.ts");
const { connection } = await import("../src/state.ts");
const { Refusal } = await import("../src/api.ts");

/** Lets what was promised happen. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  await settle();
}

const wanted = signal<string | null>(null);
const asked: string[] = [];
let answer: () => Promise<void> = async () => {};
let late = 0;
const problem = signal("");
const QUESTION: Question = {
  name: "own",
  everyMs: 3000,
  settleMs: 100,
  problem,
  wanted: () => wanted.value,
  async ask(isLate) {
    asked.push(wanted.value ?? "");
    await answer();
    if (isLate()) late += 1;
  },
};
const base = signal<string | null>(null);
let baseAnswer: () => Promise<void> = async () => {};
let baseAsked = 0;
const BASE: Question = {
  name: "base",
  everyMs: null,
  wanted: () => base.value,
  async ask() {
    baseAsked += 1;
    await baseAnswer();
  },
};

test("one poller asks what is wanted, when it is wanted", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  startPolling([QUESTION, BASE], []);
  await pass(10_000);
  assert.deepEqual(asked, [], "nobody looks");

  wanted.value = "a";
  await pass(0);
  assert.deepEqual(asked, ["a"], "at once");
  await pass(3000);
  assert.deepEqual(asked, ["a", "a"], "and again after its time");

  // Of changes that follow each other the last is asked for.
  wanted.value = "b";
  await pass(50);
  wanted.value = "c";
  await pass(100);
  assert.deepEqual(asked.splice(0), ["a", "a", "c"]);

  // News make it be asked soon; news that come meanwhile make it be asked once more.
  let answered = () => {};
  answer = () => new Promise((resolve) => (answered = resolve));
  news("own");
  news("own");
  news("own");
  await settle();
  assert.deepEqual(asked.splice(0), ["c"], "one answer is waited for at a time");
  answer = async () => {};
  answered();
  await settle();
  await pass(199);
  assert.deepEqual(asked, [], "a storm of news is no storm of questions");
  await pass(1);
  assert.deepEqual(asked.splice(0), ["c"]);

  // An answer to a question that is no longer asked comes too late.
  answer = () => new Promise((resolve) => (answered = resolve));
  news("own");
  wanted.value = null;
  answered();
  await settle();
  assert.equal(late, 1);
  await pass(60_000);
  assert.deepEqual(asked.splice(0), ["c"], "and nothing is asked any more");
});

test("a question with a place for its failures backs off by itself", async () => {
  answer = () => Promise.reject(new TypeError("no connection"));
  wanted.value = "d";
  await pass(0);
  assert.equal(problem.value, "the server cannot be reached");
  const waits = [1000, 2000, 4000, 8000, 15_000, 15_000];
  for (const [nth, wait] of waits.entries()) {
    await pass(wait - 1);
    assert.equal(asked.length, nth + 1);
    await pass(1);
    assert.equal(asked.length, nth + 2, `after ${wait} ms`);
  }
  assert.equal(connection.value.phase, "loading", "the others go on");
  // What is refused is not asked for again and again.
  answer = () => Promise.reject(new Refusal(404, "no history is kept"));
  await pass(15_000);
  assert.equal(problem.value, "no history is kept");
  asked.splice(0);
  await pass(2999);
  assert.equal(asked.length, 0);
  answer = async () => {};
  await pass(1);
  assert.equal(problem.value, "");
  asked.splice(0);
});

test("a pause, a hidden tab and a server that is gone ask nothing", async () => {
  pause();
  await pass(30_000);
  assert.deepEqual([asked.length, connection.value.phase], [0, "paused"]);
  resume();
  await pass(0);
  assert.equal(asked.splice(0).length, 1);

  page.visibilityState = "hidden";
  page.listener();
  await pass(30_000);
  assert.equal(asked.length, 0);
  page.visibilityState = "visible";
  page.listener();
  await pass(0);
  assert.equal(asked.splice(0).length, 1);

  baseAnswer = () => Promise.reject(new Error("it is gone"));
  base.value = "x";
  await pass(0);
  assert.deepEqual([baseAsked, connection.value.phase], [1, "retrying"]);
  await pass(999);
  assert.equal(asked.length, 0, "the others wait, too");
  await pass(1);
  assert.equal(baseAsked, 2);
  await pass(1999);
  assert.equal(baseAsked, 2, "twice as long");
  baseAnswer = async () => {};
  await pass(1);
  assert.equal(baseAsked, 3);
  await pass(3000);
  assert.ok(asked.length >= 1, "all go on");
});
