// Experiments: what came of one in words, its points, predictions on lines; axes; and answers that cannot be used.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isOfSeveral, nameOf, predictionLines, ratioSeries, resultWords, rowsOf, runNotes, runSeries, stallSeries, tablesOf, valueWords } from "../src/rooms/disturb/experiment.ts";
import { checkDisturb } from "../src/rooms/disturb/feed.ts";
import { axisOf, drawn, placeOf, POINTS_DRAWN, ticksOf } from "../src/rooms/disturb/plot.ts";
import type { ExperimentEffect, ExperimentRow, ExperimentRun, PredictionView } from "../src/types.ts";

function run(number: number, condition: string, more: Partial<ExperimentRun> = {}): ExperimentRun {
  return {
    run: number,
    repetition: null,
    condition,
    value: number * 10,
    start_ns: 5e9 + number * 1e9,
    wall_ns: 1,
    stall_count: 0,
    injected_share: 0,
    missed_stalls: 0,
    dropped_stalls: 0,
    cut_stalls: 0,
    left_behind: 0,
    dropped_bytes: 0,
    load: null,
    ...more,
  } as ExperimentRun;
}

test("what came of an experiment is said whether it shows an effect, runs, or went wrong", () => {
  const of = (standing: "running" | "finished" | "failed", effect: Partial<ExperimentEffect> | null, why = "") =>
    resultWords({ standing, runs_done: 2, run_count: 9, ended: standing === "running" ? null : ({ effect, why } as never) });
  assert.equal(of("running", null), "running, 2 of 9 runs");
  assert.equal(of("finished", { effect_shown: true }), "an effect is shown");
  assert.equal(of("finished", { effect_shown: false, minimum_detectable_ratio: 1.25 }), "no effect shown; 25.0 % would have been");
  assert.equal(of("failed", null, "code 1"), "failed: code 1");
  assert.equal(of("failed", null), "failed");
});

test("an experiment of several workloads is called by its file or preset, and has what it came to in words", () => {
  const several = { part: "", series: "slides", workload: "tcp, udp", experiment: "a" };
  assert.deepEqual([nameOf(several), isOfSeveral(several), nameOf({ ...several, series: "" }), isOfSeveral({ ...several, part: "tcp" })], ["slides", true, "tcp, udp", false]);
  assert.equal(resultWords({ standing: "finished", runs_done: 9, run_count: 9, ended: { effect: null, why: "", summary: "9 runs" } as never }), "9 runs");
});

test("published rows stand apart, and ratios lie by how much they are", () => {
  const row = (measure: string, effect: number | null, more: Partial<ExperimentRow> = {}) => ({ case: "c", treatment: "t", measure, effect, compared: "ratio", effect_shown: true, interval_low: effect, interval_high: effect, ...more }) as ExperimentRow;
  const rows = [row("a", 2), row("b", 0.5, { effect_shown: false }), row("c", null, { why: "failed" }), row("d", 1, { published: "1 %", verdict: "reproduced" }), row("e", -3, { compared: "difference" })];
  const { published, own } = rowsOf(rows);
  assert.deepEqual([published.map(({ measure }) => measure), own.length], [["d"], 4]);
  assert.deepEqual(tablesOf(rows).map(({ name, rows: of }) => [name, of.length]), [["c", 5]]);
  const series = ratioSeries(own);
  assert.deepEqual(series.map(({ name, points }) => [name, points.map(({ x, y }) => [x, y])]), [["an effect is shown", [[2, 2]]], ["none is shown", [[1, 0.5]]]]);
});

test("the wall time is a time, and any other number is what the workload says", () => {
  assert.deepEqual([valueWords("wall", 2e9), valueWords("json:x", 12), valueWords("json:x", 0.123456789)], ["2.00 s", "12", "0.12346"]);
});

test("runs lie over the time since the first, and the one that warms up is left out", () => {
  const series = runSeries([run(0, "warm_up"), run(1, "undisturbed"), run(2, "disturbed")], [2]);
  assert.deepEqual(series.map(({ name, points }) => [name, points.map(({ x, y }) => [x, y])]), [["undisturbed", [[1, 10]]], ["disturbed", [[2, 20]]], ["outlier", [[2, 20]]]]);
  assert.equal(runNotes(run(1, "disturbed", { missed_stalls: 2, left_behind: 1 }), true), "outlier, counted all the same; 2 stalls missed; 1 process left behind");
});

test("stalls lie core by core beside what was asked for", () => {
  const stall = (core: number | null, start_ns: number, length_ns: number) => ({ run: 1, core, start_ns, length_ns, target_ns: start_ns });
  const series = stallSeries([stall(1, 1e9, 105), stall(null, 2e9, 95), stall(1, 3e9, 100)], 100);
  assert.deepEqual(series.map(({ name, points }) => [name, points]), [["core 1", [{ x: 0, y: 5 }, { x: 2, y: 0 }]], ["the workload", [{ x: 1, y: -5 }]]]);
});

test("predictions that differ in nodes alone are one line, the newest of those with as many", () => {
  const one = (nodes: number, slowdown: number, pattern = "barrier") => ({ pattern, nodes, slowdown, ranks_per_node: 1, noises: ["n"], progress: "nic", seed: 1, draws: 40, compute_ns: 1e6 }) as PredictionView;
  const lines = predictionLines([one(8, 2), one(2, 1), one(8, 3), one(2, 9, "ring")]);
  assert.deepEqual(lines.map(({ name, points }) => [name, points.map(({ nodes, slowdown }) => [nodes, slowdown])]), [["barrier, 1.00 ms of work; n", [[2, 1], [8, 3]]], ["ring, 1.00 ms of work; n", [[2, 9]]]]);
});

test("an axis holds all values, and its ticks are round", () => {
  const linear = axisOf([10, 30], "linear");
  assert.ok(linear.from < 10 && linear.to > 30 && linear.from > 0);
  assert.deepEqual(ticksOf(linear, 4), [10, 20, 30]);
  const nodes = axisOf([2, 65_536], "logarithmic");
  assert.equal(placeOf(nodes, nodes.from), 0);
  assert.ok(Math.abs(placeOf(nodes, Math.sqrt(nodes.from * nodes.to)) - 0.5) < 1e-9);
  const ticks = ticksOf(nodes, 8);
  assert.ok(ticks.length >= 4 && ticks.length <= 9 && ticks.every((tick) => tick >= 2 && tick <= 65_536), `${ticks}`);
  const narrow = ticksOf(axisOf([1.01, 1.09], "logarithmic"), 4);
  assert.ok(narrow.length >= 2, `${narrow}`);
  assert.equal(placeOf(axisOf([], "linear"), 5), 1);
  assert.ok(axisOf([7, 7], "linear").to > 7);
});

test("of many points some are drawn, and none that is no number", () => {
  const points = Array.from({ length: 5 * POINTS_DRAWN }, (_, x) => ({ x, y: x === 0 ? NaN : x }));
  const shown = drawn(points);
  assert.ok(shown.length <= POINTS_DRAWN && shown.length > POINTS_DRAWN / 2 && shown.every(({ y }) => Number.isFinite(y)));
});

test("an answer that is none is refused", () => {
  const whole = { experiments: [{ experiment: "a", standing: "running", cores: [] }], problems: [], predictions: [] };
  assert.equal(checkDisturb(whole).experiments.length, 1);
  for (const bad of [null, {}, { ...whole, problems: 1 }, { ...whole, experiments: [{}] }, { ...whole, predictions: [{ nodes: "8" }] }, { ...whole, detail: { runs: [] } }]) assert.throws(() => checkDisturb(bad), /experiments/);
});
