import assert from "node:assert/strict";
import { test } from "node:test";
import { checkInterval, checkMemory } from "../src/rooms/memory/feed.ts";
import { apart, atLeast, byController, cellErrors, checked, errorsOf, gridOf, key, placeOf, rate, scaled, sumOf, where, worstOf } from "../src/rooms/memory/map.ts";
import type { DimmView as Dimm, ErrorReport, Memory, MemoryController } from "../src/types.ts";

function dimm(id: string, label: string, change: Partial<Dimm> = {}): Dimm {
  return {
    id,
    label,
    serial: null,
    serial_certainty: null,
    part: null,
    size_bytes: 0,
    controller: "mc0",
    corrected_count: 0,
    uncorrected_count: 0,
    rate_per_s: 0,
    rate_window_s: 0,
    worst_rate_per_s: 0,
    worst_window_s: 0,
    is_over_rate: false,
    fidelity: "exact",
    unread: [],
    sources: ["edac"],
    spread: { located_count: 0, cells: 0, rows: 0, columns: 0, banks: 0, ranks: 0 },
    fault_mode: "none",
    fault: null,
    moved_from: null,
    only_place: null,
    severity: "ok",
    advice: null,
    closed_words: null,
    ...change,
  };
}

test("labels of drivers and boards tell channel and slot, others nothing", () => {
  assert.deepEqual(placeOf("CPU_SrcID#0_MC#1_Chan#2_DIMM#0"), { channel: "2", slot: "0" });
  assert.deepEqual(placeOf("CPU1_Channel 3_DIMM 1"), { channel: "3", slot: "1" });
  assert.deepEqual(placeOf("DIMM_A1"), { channel: "A", slot: "1" });
  assert.deepEqual(placeOf("A12"), { channel: "A", slot: "12" });
  for (const label of ["", "mc#0csrow#1", "any memory", "P1-DIMMZZ"]) assert.equal(placeOf(label), null, label);
});

test("modules stand by channel and slot, and in a row where two claim one place", () => {
  const grid = gridOf([dimm("a", "Chan#10_DIMM#0"), dimm("b", "Chan#2_DIMM#1"), dimm("c", "Chan#2_DIMM#0")]);
  assert.deepEqual([grid?.channels, grid?.slots], [["2", "10"], ["0", "1"]]);
  assert.equal(grid?.at.get(key("2", "1"))?.id, "b");
  assert.equal(grid?.at.get(key("10", "1")), undefined);
  assert.equal(gridOf([dimm("a", "A1"), dimm("b", "A1")]), null);
  assert.equal(gridOf([dimm("a", "A1"), dimm("b", "somewhere")]), null);
});

test("modules without a controller come last and are not left out", () => {
  const controller = (id: string): MemoryController => ({
    id,
    name: "",
    corrected_count: 0,
    uncorrected_count: 0,
    no_information_count: 0,
    adds_up: true,
    reset_s: null,
  });
  const groups = byController([controller("mc0"), controller("mc1")], [dimm("x", "", { controller: "" }), dimm("a", "A1")]);
  assert.deepEqual(
    groups.map(({ id, dimms }) => [id, dimms.map((one) => one.id)]),
    [
      ["mc0", ["a"]],
      ["", ["x"]],
    ],
  );
});

test("the module with the worst severity is shown first, of equals the one with more errors", () => {
  const well = dimm("a", "A1", { corrected_count: 9 });
  const some = dimm("b", "A2", { severity: "notice" });
  const lost = dimm("d", "B2", { severity: "critical" });
  assert.equal(worstOf([well, some, lost])?.id, "d");
  assert.equal(worstOf([well, some, dimm("f", "C2", { severity: "notice", corrected_count: 10 })])?.id, "f");
  assert.equal(worstOf([]), null);
});

test("rates and places of points are never nonsense", () => {
  assert.deepEqual([0, Number.NaN, 0.001, 0.5, 12.34, 1234].map(rate), ["0", "0", "<0.01 /s", "0.50 /s", "12.3 /s", "1234 /s"]);
  assert.deepEqual([scaled(5, 0, 10), scaled(-1, 0, 10), scaled(11, 0, 10), scaled(3, 3, 3)], [0.5, 0, 1, 0.5]);
});

test("an answer of another form is refused", () => {
  const lists = { dimms: [], controllers: [], slots: [], problems: [], reports: [], lost: [], checks: [], costs: [], dimm_costs: [] };
  assert.equal(checkMemory(lists).dimms.length, 0);
  assert.throws(() => checkMemory({ ...lists, checks: 1 }), /checks/);
  assert.throws(() => checkMemory({ ...lists, dimms: [{ id: 1 }] }), /dimms/);
  assert.throws(() => checkMemory(null), /object/);
  assert.throws(() => checkInterval({ points: [] }), /assumptions/);
});

test("what was not checked has not passed", () => {
  const check = (rule: string, result: string, severity = "ok") => ({ rule, result, severity, certainty: "certain", evidence: "", consequence: "", remedy: "" }) as Memory["checks"][number];
  const { found, notChecked, passed } = checked([check("a", "passed"), check("b", "not_checked"), check("c", "found", "notice"), check("d", "found", "critical"), check("e", "of a newer release")]);
  const rules = (checks: Memory["checks"]) => checks.map(({ rule }) => rule);
  assert.deepEqual([rules(found), rules(notChecked), rules(passed)], [["d", "c"], ["b", "e"], ["a"]]);
});

test("lower bounds say so", () => {
  assert.equal(atLeast(dimm("a", "A1"), "7"), "7");
  assert.equal(atLeast(dimm("a", "A1", { fidelity: "lower_bound" }), "7"), "≥ 7");
  assert.equal(atLeast(dimm("a", "A1", { fidelity: "sampled" }), "7"), "≥ 7");
  const words = (change: Partial<Dimm>) => {
    const one = dimm("a", "A1", change);
    return [errorsOf(one, "corrected"), errorsOf(one, "uncorrected")];
  };
  assert.deepEqual(words({}), ["0", "0"]);
  assert.deepEqual(words({ fidelity: "lower_bound" }), ["≥ 0", "0"]);
  assert.deepEqual(words({ unread: ["uncorrected"] }), ["0", "-"]);
  assert.deepEqual(words({ fidelity: "unknown" }), ["-", "-"]);
  assert.deepEqual(words({ unread: ["corrected", "uncorrected"], corrected_count: 3, uncorrected_count: 1 }), ["≥ 3", "≥ 1"]);
});

test("a place is counted apart", () => {
  const place = dimm("mc0/csrow1", "row 1 of mc0", { uncorrected_count: 1, only_place: "chip-select row 1 of memory controller mc0" });
  const { modules, places } = apart([dimm("a", "A1"), place]);
  assert.deepEqual([modules.map(({ id }) => id), places.map(({ id }) => id)], [["a"], ["mc0/csrow1"]]);
});

test("a bank has one number wherever it stands", () => {
  const place = (of: Partial<ErrorReport["location"]>) => where(of as ErrorReport["location"]);
  assert.equal(place({ rank: 0, bank_group: 1, bank: 3, row: 6699, column: 16 }), "rank 0, bank 7 (bank 3 of group 1), row 0x1a2b, column 0x10");
  assert.equal(place({ bank: 3 }), "bank 3");
  assert.equal(place({ bank_group: 2, bank: null }), "bank group 2");
  assert.equal(place({}), "");
});

test("a cell shows a 0 only where a counter was read and counts every error", () => {
  const cell = (change: Partial<Dimm>) => cellErrors(dimm("a", "A1", change));
  assert.equal(cell({}), "0");
  assert.equal(cell({ fidelity: "lower_bound" }), "≥ 0");
  assert.equal(cell({ fidelity: "sampled" }), "≥ 0");
  assert.equal(cell({ fidelity: "unknown" }), "-");
  assert.equal(cell({ unread: ["corrected"] }), "-");
  assert.equal(cell({ unread: ["uncorrected"] }), "0, - lost");
  assert.equal(cell({ unread: ["uncorrected"], corrected_count: 3 }), "3, - lost");
  assert.equal(cell({ corrected_count: 3 }), "3");
  assert.equal(cell({ unplaced: ["uncorrected"] }), "0, ≥ 0 lost");
  assert.equal(cell({ unplaced: ["corrected"] }), "≥ 0");
  assert.equal(cell({ uncorrected_count: 2, corrected_count: 3 }), "2 lost");
  assert.equal(cell({ uncorrected_count: 2, unread: ["corrected"] }), "2 lost");
  assert.equal(cell({ fidelity: "lower_bound", uncorrected_count: 2 }), "≥ 2 lost");
});

test("a sum that cannot be checked says whether counters cannot be read or the driver has none", () => {
  const one = { id: "mc0", name: "", corrected_count: 0, uncorrected_count: 0, no_information_count: 0, adds_up: null, reset_s: null };
  const own = dimm("a", "A1", { controller: "mc0" });
  assert.equal(sumOf(one, [own]), "sum not checkable: the driver counts too little");
  assert.equal(sumOf({ ...one, corrected_count: null }, [own]), "sum not checkable: not every counter can be read");
  assert.equal(sumOf(one, [{ ...own, unread: ["uncorrected"], uncorrected_count: null }]), "sum not checkable: not every counter can be read");
  assert.equal(sumOf({ ...one, adds_up: false }, [own]), "does not add up");
});

test("a count that nobody could read is a dash", () => {
  const unread = dimm("a", "A1", { unread: ["corrected", "uncorrected"], corrected_count: null, uncorrected_count: null });
  assert.deepEqual([errorsOf(unread, "corrected"), errorsOf(unread, "uncorrected"), cellErrors(unread)], ["-", "-", "-"]);
});
