import assert from "node:assert/strict";
import { test } from "node:test";
import { queryOf } from "../src/address.ts";
import { changeTo, fromLocalInput, keptPart, pastOf, resolutionFor, toLocalInput } from "../src/past.ts";
import { VERDICTS } from "../src/rooms/stall/words.ts";

const NAMES = ["view", "from_s", "to_s", "finding", "cpu", "job"];

test("an address keeps its order, stays readable, and brings every value back", () => {
  const given = { job: "cfd/wing & <b>'x'", view: "checkpoints", finding: "stall/gap/core/1" };
  const query = queryOf(given, { cpu: "0,1" }, NAMES);
  assert.equal(query, "?view=checkpoints&finding=stall/gap/core/1&cpu=0,1&job=cfd/wing%20%26%20%3Cb%3E%27x%27");
  assert.deepEqual(Object.fromEntries(new URLSearchParams(query)), { ...given, cpu: "0,1" });
  // What the browser makes of it must be the same, or each step would be taken twice.
  assert.equal(new URL(query, "http://localhost/").search, query);
  assert.equal(queryOf(given, { view: null, finding: null, job: null }, NAMES), "");
  assert.equal(queryOf({ constructor: "1" }, {}, ["constructor", "toString"]), "?constructor=1", "only what is its own");
});

test("a range of the past is used or said to be unusable", () => {
  assert.deepEqual(pastOf({}), { past: null, problems: [] });
  assert.deepEqual(pastOf({ from_s: "100", to_s: "400" }), { past: { fromS: 100, toS: 400 }, problems: [] });
  for (const [from_s, to_s, words] of [
    ["400", "100", /is not before/],
    ["100", "100", /is not before/],
    ["0", "172801", /longest range/],
    ["1.5", "9", /not both whole seconds/],
    ["", "9", /not both whole seconds/],
    ["-1", "9", /not both whole seconds/],
  ] as const) {
    const { past, problems } = pastOf({ from_s, to_s });
    assert.equal(past, null);
    assert.match(problems[0], words);
  }
  assert.match(pastOf({ from_s: "5" }).problems[0], /to_s= are not both/);
  assert.deepEqual(changeTo({ fromS: 1, toS: 2 }), { from_s: "1", to_s: "2", finding: null, at: null });
  assert.deepEqual(changeTo(null), { from_s: null, to_s: null, before_s: null, finding: null, at: null });
});

test("windows of a second are asked for while they stay few", () => {
  assert.equal(resolutionFor({ fromS: 0, toS: 900 }, 4), "second");
  assert.equal(resolutionFor({ fromS: 0, toS: 900 }, 128), "minute");
  assert.equal(resolutionFor({ fromS: 0, toS: 3601 }, 1), "minute");
});

test("local times survive the way through the field", () => {
  for (const timeS of [0, 1_700_000_000, 1_700_000_040]) assert.equal(fromLocalInput(toLocalInput(timeS)), timeS);
  assert.equal(toLocalInput(1_700_000_040), "2023-11-14 22:14");
  assert.equal(fromLocalInput("2023-11-14T22:14"), 1_700_000_040);
  for (const bad of ["", "yesterday", "2023-13-01T00:00", "2023-11-14", "1960-01-01T00:00"]) assert.equal(fromLocalInput(bad), null, bad);
});

test("the hypervisor has one name", () => {
  for (const words of Object.values(VERDICTS)) assert.doesNotMatch(words, /\bhost\b|\bsteal\b/);
});

test("of a range that is kept in part the part is told", () => {
  const window = (fromS: number, toS: number) => ({ start_realtime_ns: fromS * 1e9, end_realtime_ns: toS * 1e9 });
  const range = { fromS: 1_000, toS: 1_900 };
  assert.equal(keptPart(range, [window(1_001, 1_060), window(1_060, 1_899)]), null, "to a minute");
  assert.deepEqual(keptPart(range, [window(1_600, 1_660), window(1_660, 1_900)]), { fromS: 1_600, toS: 1_900 });
  assert.deepEqual(keptPart(range, [window(1_000, 1_200)]), { fromS: 1_000, toS: 1_200 });
  assert.equal(keptPart(range, []), null);
});
