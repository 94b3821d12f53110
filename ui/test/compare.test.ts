import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { changeTo } from "../src/past.ts";
import { change, differences, otherOf } from "../src/rooms/stall/compare.ts";
import { coreFilter, kindMask, sumCores, total, type Ledger } from "../src/rooms/stall/ledger.ts";
import { History } from "../src/rooms/stall/history.ts";
import { MEANINGS, type Kind, verdictWords } from "../src/rooms/stall/words.ts";

type Cause = [kind: Kind, name: string, count: number, total_ns: number];

function ledger(wallNs: number, ...causes: Cause[]): Ledger {
  const kept = new History(Infinity);
  const lost = causes.map(([kind, name, count, total_ns]) => ({ kind, name, count, total_ns, max_ns: total_ns, while_idle_ns: 0 }));
  const lostNs = lost.reduce((sum, { total_ns }) => sum + total_ns, 0);
  const core = { cpu: 0, wall_ns: wallNs, idle_ns: wallNs - lostNs, user_ns: 0, kernel_ns: 0, lost, unexplained_ns: 0 };
  const cost = { probes: [], process_cpu_ns: 0, resident_bytes: 0, map_bytes: 0, dropped: 0, torn: 0, unreported: 0, untraced_interrupts: 0, self_interrupts: 0 };
  kept.addWindow({ start_ns: 0, end_ns: wallNs, cores: [core], untimed: [], completeness: [], cost } as unknown as Parameters<History["addWindow"]>[0]);
  return total(sumCores(kept.blocks, kept.causes, coreFilter([])));
}

test("what changed most between two ranges comes first, as a share of each one's own time", () => {
  const before = ledger(1e9, ["timer", "local_timer", 10, 1e6], ["tlb_shootdown", "flush_tlb_func", 10, 60e6]);
  // Ten times as long: the same share is no change.
  const after = ledger(10e9, ["timer", "local_timer", 100, 10e6], ["softirq", "NET_RX", 5, 20e6]);
  const rows = differences(before, after, kindMask([]));
  assert.deepEqual(rows.map(({ name }) => name), ["lost", "while idle", "unexplained", "flush_tlb_func", "NET_RX", "local_timer"]);
  assert.deepEqual(rows.map(({ before: was, after: is }) => [was, is]), [[0.061, 0.003], [0, 0], [0, 0], [0.06, 0], [0, 0.002], [0.001, 0.001]]);
  assert.ok(Math.abs((change(rows[0]) ?? NaN) + 0.058) < 1e-12);
  assert.deepEqual(differences(before, after, kindMask(["timer"])).map(({ name }) => name).slice(3), ["local_timer"]);
});

test("what is not known of one range is no change", () => {
  const rows = differences(ledger(1e9, ["other_interrupt", "thermal_apic", 7, 0]), ledger(1e9, ["other_interrupt", "thermal_apic", 7, 5e6]), kindMask([]));
  const cause = rows[3];
  assert.deepEqual([cause?.before, cause?.after, cause && change(cause)], [null, 0.005, null]);
  const nothing = differences(total([]), ledger(1e9, ["timer", "local_timer", 1, 1e6]), kindMask([]));
  assert.ok(nothing.every((row) => row.before === null && change(row) === null));
});

test("the range to compare with has the length of the one that is shown", () => {
  const range = { fromS: 10_000, toS: 10_900 };
  assert.deepEqual(otherOf({}, range), { other: null, problems: [] });
  assert.deepEqual(otherOf({ before_s: "9100" }, range).other, { fromS: 9_100, toS: 10_000 });
  for (const wrong of ["", "-5", "1e3", "123456789012", "10000"]) {
    const read = otherOf({ before_s: wrong }, range);
    assert.equal(read.other, null, wrong);
    assert.equal(read.problems.length, 1, wrong);
  }
  assert.equal(otherOf({ before_s: "9100" }, null).problems.length, 1);
  assert.equal(changeTo(null).before_s, null);
});

test("what rests on the run delay is not called traced", () => {
  assert.equal(verdictWords({ verdict: "traced", source: "sleep_lateness" }), "run delay");
  assert.equal(verdictWords({ verdict: "traced", source: "probe" }), "traced");
});

test("the legend has the words of the command's reports", () => {
  const source = readFileSync("../crates/console/src/lost_time.rs", "utf8").replace(/\\\n\s*/g, "");
  for (const [word, meaning] of MEANINGS) assert.ok(source.includes(`"${word}    ${meaning}"`), word);
  assert.equal(source.match(/pub const [A-Z_]+: &str/g)?.length, MEANINGS.length);
});
