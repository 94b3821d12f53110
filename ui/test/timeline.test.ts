import assert from "node:assert/strict";
import { test } from "node:test";
import { makeHost } from "../dev/sample.mjs";
import { History } from "../src/rooms/stall/history.ts";
import { kindMask, sumCores, coreFilter } from "../src/rooms/stall/ledger.ts";
import { KINDS } from "../src/rooms/stall/words.ts";
import { contrast, heatColour, heatLevel, kindColour, unexplainedColour } from "../src/rooms/stall/palette.ts";
import { cellsOf, columnAt, columnsOf, kindOfLayer, layerOf, LAYERS, niceCeil, scaleOf } from "../src/rooms/stall/timeline.ts";
import { ticks } from "../src/axis.ts";

function filled(scenario: "small" | "large", windows: number): History {
  const host = makeHost(scenario);
  const history = new History(Infinity);
  for (let at = 0; at < windows; at += 1) history.addWindow(host.window(host.bootNs + (at + 1) * 1e9, at));
  return history;
}

test("columns keep their windows while time moves on", () => {
  const history = filled("small", 95);
  const before = columnsOf(history.blocks.slice(0, 90), 40);
  const after = columnsOf(history.blocks.slice(0, 91), 40);
  assert.ok(before.length <= 40 && after.length <= 40);
  before.slice(0, -1).forEach((column, at) => assert.deepEqual(after[at], column));
  assert.equal(before.flatMap((column) => column.blocks).length, 90);
  assert.equal(columnsOf(history.blocks, 1000).length, 95);
  assert.deepEqual(columnsOf([], 10), []);
});

test("layers of a cell stack up to its share, and the share is that of the ledger", () => {
  const history = filled("small", 30);
  const columns = columnsOf(history.blocks, 10);
  const cells = cellsOf(columns, [0, 1], history.causes, kindMask([]), true);
  for (let cell = 0; cell < columns.length * 2; cell += 1) {
    const stacked = cells.layers!.subarray(cell * LAYERS, (cell + 1) * LAYERS).reduce((sum, part) => sum + part, 0);
    assert.ok(Math.abs(stacked - cells.share[cell]) < 1e-12);
  }
  const [core] = sumCores(columns[4].blocks, history.causes, coreFilter([1]));
  const expected = (core.lostNs + core.unexplainedNs) / core.wallNs;
  assert.ok(Math.abs(cells.share[columns.length + 4] - expected) < 1e-12);
});

test("a filtered kind leaves the cell, the unexplained part stays", () => {
  const history = filled("small", 5);
  const columns = columnsOf(history.blocks, 100);
  const only = cellsOf(columns, [0], history.causes, kindMask(["timer"]), true);
  for (let layer = 0; layer < LAYERS; layer += 1) {
    const kind = kindOfLayer(layer);
    const kept = kind === null || KINDS[kind].id === "timer";
    assert.equal(only.layers![layer] > 0, kept, `layer ${layer}`);
  }
  KINDS.forEach((_, kind) => assert.equal(kindOfLayer(layerOf(kind)), kind));
});

test("a core without a window is absent, not idle", () => {
  const history = filled("small", 3);
  const cells = cellsOf(columnsOf(history.blocks, 10), [0, 99], history.causes, kindMask([]), false);
  assert.ok(cells.share[0] > 0);
  assert.ok(Number.isNaN(cells.share[3]));
});

test("128 cores and 900 windows give a full heat map", () => {
  const history = filled("large", 900);
  const columns = columnsOf(history.blocks, 900);
  const cpus = Array.from({ length: 128 }, (_, cpu) => cpu);
  const cells = cellsOf(columns, cpus, history.causes, kindMask([]), false);
  assert.equal(cells.share.length, 128 * 900);
  assert.ok(cells.share.every((share) => share > 0 && share < 1));
});

test("scales are round, and one outlier does not flatten the rest", () => {
  assert.equal(niceCeil(0.031), 0.05);
  assert.equal(niceCeil(0.05), 0.05);
  assert.equal(niceCeil(0), 1e-6);
  assert.deepEqual(scaleOf(Float64Array.from([0.01, 0.02, NaN])), { full: 0.02, clipped: false });
  const usual = Array.from({ length: 200 }, () => 0.004);
  assert.deepEqual(scaleOf(Float64Array.from([...usual, 0.9])), { full: 0.01, clipped: true });
  assert.deepEqual(scaleOf(new Float64Array(0)), { full: 0.01, clipped: false });
});

test("ticks stand on round times and are few", () => {
  const from = Date.UTC(2026, 10, 21, 20, 0, 7) * 1e6;
  const minute = ticks(from, from + 60e9, 7);
  assert.equal(minute.stepS, 10);
  assert.equal(minute.atNs.length, 6);
  assert.ok(minute.atNs.every((at) => (at / 1e9) % 10 === 0));
  assert.equal(ticks(from, from + 900e9, 7).stepS, 300);
});

test("an instant finds its column", () => {
  const columns = columnsOf(filled("small", 10).blocks, 100);
  columns.forEach((column, at) => assert.equal(columnAt(columns, column.startNs + 5), at));
  assert.equal(columnAt(columns, Infinity), 9);
  assert.equal(columnAt([], 5), -1);
});

test("every colour of a cause stands out from the ground it is painted on", () => {
  const grounds = { light: ["#f7f7f5", "#ffffff"], dark: ["#14171a", "#181b1e"] } as const;
  for (const theme of ["light", "dark"] as const) {
    for (const ground of grounds[theme]) {
      KINDS.forEach((kind, at) => {
        const ratio = contrast(kindColour(at, theme), ground);
        assert.ok(ratio >= 3, `${kind.id} on ${theme}: ${ratio.toFixed(2)}`);
      });
      assert.ok(contrast(unexplainedColour(theme), ground) >= 3);
    }
    const colours = KINDS.map((_, at) => kindColour(at, theme));
    assert.equal(new Set(colours).size, KINDS.length);
  }
  assert.equal(contrast("#000000", "#ffffff").toFixed(1), "21.0");
});

test("the heat map grows in one direction", () => {
  const luminance = (level: number) => heatColour(level, "light").reduce((sum, part) => sum + part, 0);
  for (let level = 0; level < 1; level += 0.01) assert.ok(luminance(level + 0.01) <= luminance(level));
  assert.equal(heatLevel(2, 1), 1);
  assert.equal(heatLevel(0.25, 1), 0.5);
});
