import assert from "node:assert/strict";
import { test } from "node:test";
import { actionWords, actorWords, headline, isOpen, joined, partAsked, STATES, STATE_WORDS, tally, toDo, type CaseLine } from "../src/fleet/words.ts";

function one(id: number, host: string, state: CaseLine["state"], more: Partial<CaseLine> = {}): CaseLine {
  const rest = { service: "web", fault: "memory/rate", subject: "", severity: "critical" as const, step: "", since_ns: 1, state_since_ns: 1, waits_for: "", policy: "web-1", ticket: "" };
  return { id, host, state, ...rest, ...more };
}

test("the headline counts open cases and names the hosts that wait for a person", () => {
  assert.deepEqual(headline([one(1, "n1", "returned")]), { severity: "ok", sentence: "No case is open." });
  assert.equal(headline([one(1, "n1", "running")]).sentence, "1 case is open; none waits for a person.");
  const all = [one(1, "n1", "running"), one(2, "n2", "needs_approval"), one(3, "n3", "with_person"), one(4, "n4", "cancelled")];
  assert.deepEqual(headline(all), { severity: "warning", sentence: "3 cases are open; 2 wait for a person: n2, n3." });
  const many = [1, 2, 3, 4, 5].map((number) => one(number, `n${number}`, "with_person"));
  assert.match(headline(many).sentence, /5 wait for a person: n1, n2, n3, \.\.\.\./);
});

test("a tally has the most frequent first, and equals by name", () => {
  const all = [one(1, "a", "waiting", { service: "b" }), one(2, "b", "waiting", { service: "c" }), one(3, "c", "waiting", { service: "c" }), one(4, "d", "waiting", { service: "a" })];
  assert.deepEqual(tally(all, ({ service }) => service), [["c", 2], ["a", 1], ["b", 1]]);
});

test("every state has words, and the closed ones are not open", () => {
  assert.deepEqual(Object.keys(STATE_WORDS).sort(), [...STATES].sort());
  assert.deepEqual(STATES.filter((state) => !isOpen({ state })), ["returned", "cleared", "cancelled"]);
});

test("an old open case is not hidden by newer ones that are closed", () => {
  const open = [one(1, "n1", "with_person")];
  const newest = [one(9, "n9", "returned"), one(8, "n8", "cleared")];
  assert.deepEqual(joined(newest, open).map(({ id }) => id), [9, 8, 1]);
  assert.deepEqual(joined([one(1, "n1", "returned")], open).map(({ state }) => state), ["returned"]);
  assert.match(headline(open, 400).sentence, /^400 cases are open; 1 waits for a person: n1\.$/);
});

test("what a person can do is said of every open case", () => {
  for (const state of STATES) assert.equal(toDo(one(1, "n1", state)) !== "", isOpen({ state }), state);
  const steps = [{ state: "done", step: "drain" }, { state: "failed", step: "run:/repair" }];
  assert.equal(toDo({ ...one(1, "n1", "with_person"), steps }), "run:/repair failed: repair n1, then bring it back here.");
});

test("a case whose ticket does not get through waits for a person, too", () => {
  assert.equal(headline([one(1, "n1", "waiting", { ends_as: "with_person" })]).sentence, "1 case is open; 1 waits for a person: n1.");
});

test("actors and actions are read without what is for programs", () => {
  assert.equal(actorWords("controller vm/30306/18eb5edec9c86870"), "controller vm/30306");
  assert.equal(actorWords("user a/b/c"), "user a/b/c");
  assert.equal(actionWords("goes_on_later"), "goes on later");
});

test("of a part it is told that it was replaced, and then that it tested good", () => {
  assert.equal(partAsked({ subject: "" }), null, "a host is no part");
  assert.equal(partAsked({ subject: "dimm A1" }), "replaced");
  assert.equal(partAsked({ subject: "dimm A1", replaced: { tested_good_realtime_ns: 0 } }), "tested-good");
  assert.equal(partAsked({ subject: "dimm A1", replaced: { tested_good_realtime_ns: 5 } }), null);
});
