import assert from "node:assert/strict";
import { test } from "node:test";
import { makeHost, makeWho } from "../dev/sample.mjs";
import { History, MAX_CAUSES, MAX_GAPS, MAX_WINDOWS } from "../src/rooms/stall/history.ts";
import { coreFilter, covered, filterFixes, filterGaps, filterInterrupts, kindMask, lostNs, sumCompleteness, sumCores, sumCost, total } from "../src/rooms/stall/ledger.ts";
import { kindIndex } from "../src/rooms/stall/words.ts";
import type { Fix, Gap, Window } from "../src/types.ts";

const all = coreFilter([]);

function gap(cpu: number, start_ns: number, duration_ns: number, more: Partial<Gap> = {}): Gap {
  const plain: Omit<Gap, "cpu" | "source" | "start_ns" | "duration_ns"> = { causes: [], unexplained_ns: duration_ns, verdict: "undetermined", certainty: "probable", evidence: [] };
  return { cpu, source: "probe", start_ns, duration_ns, ...plain, ...more };
}

function emptyWindow(end_ns: number): Window {
  const cost = { probes: [], process_cpu_ns: 0, resident_bytes: 0, map_bytes: 0, dropped: 0, torn: 0, unreported: 0, untraced_interrupts: 0, self_interrupts: 0 };
  return { start_ns: end_ns - 1e9, end_ns, cores: [], untimed: [], completeness: [], cost };
}

test("the columns of the history hold what the windows said, to the nanosecond", () => {
  const host = makeHost("large");
  const history = new History(Infinity);
  const windows = Array.from({ length: 20 }, (_, at) => host.window(host.bootNs + (at + 1) * 1e9, at));
  windows.forEach((window) => history.addWindow(window));
  const cores = sumCores(history.blocks, history.causes, all);
  assert.equal(cores.length, 128);
  for (const core of cores) {
    const own = windows.flatMap((window) => window.cores.filter((one) => one.cpu === core.cpu));
    const sum = (of: (one: (typeof own)[number]) => number) => own.reduce((so, one) => so + of(one), 0);
    assert.equal(core.wallNs, sum((one) => one.wall_ns));
    assert.equal(core.unexplainedNs, sum((one) => one.unexplained_ns));
    assert.equal(core.lostNs, sum((one) => one.lost.reduce((so, lost) => so + lost.total_ns - lost.while_idle_ns, 0)));
    assert.equal(core.idleNs + core.userNs + core.kernelNs + core.lostNs + core.whileIdleNs + core.unexplainedNs, core.wallNs);
    assert.equal(core.lost.reduce((so, lost) => so + (lost.count ?? 0), 0), sum((one) => one.lost.reduce((so, lost) => so + (lost.count ?? 0), 0)));
  }
  const whole = total(cores);
  assert.equal(whole.idleNs + whole.userNs + whole.kernelNs + whole.lostNs + whole.whileIdleNs + whole.unexplainedNs, whole.wallNs);
  assert.ok(whole.lost.every((lost, at) => at === 0 || lostNs(whole.lost[at - 1]) >= lostNs(lost)));
  assert.deepEqual(sumCores(history.blocks, history.causes, coreFilter([3, 7])).map((core) => core.cpu), [3, 7]);
});

test("a window that comes twice counts once, and the old ones go", () => {
  const history = new History(10e9);
  for (const end of [1e9, 2e9, 2e9, 1e9, 3e9]) history.addWindow(emptyWindow(end));
  assert.deepEqual(history.blocks.map((block) => block.endNs), [1e9, 2e9, 3e9]);
  assert.equal(history.between(1e9, 3e9).length, 2);
  history.addGaps([gap(0, 0.5e9, 100), gap(0, 2.5e9, 100)]);
  history.addWindow(emptyWindow(12.5e9));
  assert.deepEqual(history.blocks.map((block) => block.endNs), [3e9, 12.5e9]);
  for (const end of [6e9, 2e9, 5e9, 6e9]) history.addWindow(emptyWindow(end));
  assert.deepEqual(history.blocks.map((block) => block.endNs), [3e9, 5e9, 6e9, 12.5e9], "late ones find their place");
  const numbers = history.blocks.map((block) => block.sequence);
  assert.deepEqual(numbers, numbers.map((_, at) => numbers[0] + at));
  assert.deepEqual(history.gaps.map((one) => one.start_ns), [2.5e9]);
});

test("windows, gaps and names have limits, and what goes is counted", () => {
  const history = new History(Infinity);
  for (let at = 1; at <= MAX_WINDOWS + 5; at += 1) history.addWindow(emptyWindow(at * 1e9));
  assert.equal(history.blocks.length, MAX_WINDOWS);
  assert.equal(history.forgottenWindows, 5);

  const start = MAX_WINDOWS * 1e9;
  history.addGaps(Array.from({ length: MAX_GAPS + 7 }, (_, at) => gap(0, start + at, 1000 + at)));
  history.addGaps([gap(0, start + MAX_GAPS, 1000 + MAX_GAPS)]);
  assert.equal(history.gaps.length, MAX_GAPS);
  assert.equal(history.forgottenGaps, 7);
  assert.equal(Math.min(...history.gaps.map((one) => one.duration_ns)), 1007, "the shortest went");

  const window = emptyWindow(start + 100e9);
  const lost = Array.from({ length: MAX_CAUSES + 100 }, (_, at) => ({
    kind: "kernel_thread" as const,
    name: `thread-${at}`,
    count: 1,
    total_ns: 10,
    max_ns: 10,
    while_idle_ns: 0,
  }));
  window.cores = [{ cpu: 0, wall_ns: 1e6, idle_ns: 0, user_ns: 0, kernel_ns: 0, lost, unexplained_ns: 0 }];
  history.addWindow(window);
  assert.equal(history.causes.length, MAX_CAUSES + 1);
  const [core] = sumCores(history.blocks, history.causes, all);
  assert.equal(core.lostNs, (MAX_CAUSES + 100) * 10, "time under a collective name is still time");
});

test("gaps pass by core, length, time, and by a cause inside or the verdict", () => {
  const gaps = [
    gap(0, 10e9, 50_000, { causes: [{ kind: "timer", name: "", duration_ns: 1 }] }),
    gap(1, 20e9, 10_000_000, { verdict: "hypervisor_unaccounted" }),
    gap(1, 30e9, 5_000),
  ];
  const pick = (cpus: number[], kinds: Parameters<typeof kindMask>[0], minNs: number, fromNs = 0, toNs = Infinity) =>
    filterGaps(gaps, coreFilter(cpus), kinds, minNs, fromNs, toNs).map((one) => one.start_ns / 1e9);
  assert.deepEqual(pick([], [], 0), [20, 10, 30], "longest first");
  assert.deepEqual(pick([], [], 20_000), [20, 10]);
  assert.deepEqual(pick([0], [], 0), [10]);
  assert.deepEqual(pick([], ["timer"], 0), [10]);
  assert.deepEqual(pick([], ["hypervisor"], 0), [20]);
  assert.deepEqual(pick([], [], 0, 15e9, 25e9), [20]);
});

test("a kind that this page does not know counts as another interrupt", () => {
  assert.equal(kindIndex("quantum_flux"), kindIndex("other_interrupt"));
});

test("cost and completeness are summed, memory is not", () => {
  const host = makeHost("small");
  const history = new History(Infinity);
  const windows = [1, 2, 3].map((at) => host.window(host.bootNs + at * 1e9, at));
  windows.forEach((window) => history.addWindow(window));
  const cost = sumCost(history.blocks);
  assert.equal(cost.process_cpu_ns, windows.reduce((sum, window) => sum + window.cost.process_cpu_ns, 0));
  assert.equal(cost.resident_bytes, windows[0].cost.resident_bytes);
  assert.equal(cost.probes.length, 5);
  const loc = sumCompleteness(history.blocks).find((row) => row.row === "LOC");
  assert.equal(loc?.kernel_count, windows.reduce((sum, window) => sum + window.completeness[0].kernel_count, 0));
  assert.equal(windows[0].completeness[0].kernel_count, history.blocks[0].completeness[0].kernel_count, "sums leave the windows alone");
});

test("interrupts pass by core and kind, costliest first, and tasks that nobody raised stay out", () => {
  const { interrupts } = makeWho("small", 1e9);
  const task = { ...interrupts[0], kind: "preemption" as const, name: "rustc", total_ns: 9e9, raisers: [], advice: [] };
  const shown = filterInterrupts([task, ...interrupts], all, []);
  assert.equal(shown.length, interrupts.length);
  assert.ok(shown.every((one, at) => at === 0 || one.total_ns <= shown[at - 1].total_ns));
  assert.deepEqual(filterInterrupts(interrupts, coreFilter([0]), []).map((one) => one.kind), ["reschedule"]);
  assert.deepEqual(filterInterrupts(interrupts, all, ["timer"]).map((one) => one.name), ["local_timer"]);
});

test("what to fix passes by any of its cores and by kind, in the server's order", () => {
  const words = { rule: "r", evidence: "", remedy: "", source: "", verify: "", expect: "", name: "x", count: 1, total_ns: 1 };
  const fix = (kind: Fix["kind"], cpus: number[], share_of_lost_ppm: number): Fix => ({ ...words, kind, cpus, share_of_lost_ppm });
  const fixes = [fix("timer", [1, 2], 9), fix("tlb_shootdown", [1], 5), fix("timer", [3], 1)];
  assert.deepEqual(filterFixes(fixes, all, []), fixes);
  assert.deepEqual(filterFixes(fixes, coreFilter([2]), []), [fixes[0]]);
  assert.deepEqual(filterFixes(fixes, all, ["timer"]), [fixes[0], fixes[2]]);
});

test("a range is the time that its windows cover, and the wall time of a core is no more", () => {
  const windows = [
    { startNs: 10e9, endNs: 11.1e9 },
    { startNs: 11.1e9, endNs: 70.7e9 },
  ];
  assert.deepEqual(covered(windows), { startNs: 10e9, endNs: 70.7e9 });
});
