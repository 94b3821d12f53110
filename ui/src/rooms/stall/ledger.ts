// Sums over windows. All pure: the same blocks and filters give the same numbers.

import { IDLE, KERNEL, TIMES, UNEXPLAINED, USER, WALL, type Block, type CauseEntry } from "./history.ts";
import type { Completeness, Fix, Gap, Interrupt, SelfCost, Untimed } from "../../types.ts";
import { KINDS, VERDICT_KINDS, type Kind } from "./words.ts";

/** What one cause took. */
export interface CauseSum {
  kind: number;
  name: string;
  count: number;
  totalNs: number;
  maxNs: number;
  /** The part of `totalNs` that delayed no task: no task ran on the core or waited for it. */
  whileIdleNs: number;
}

/** What a cause took from tasks. */
export function lostNs(cause: CauseSum): number {
  return cause.totalNs - cause.whileIdleNs;
}

/** Where time went: wall = idle + user + kernel + lost + while idle + unexplained, as in the model. */
export interface Ledger {
  wallNs: number;
  idleNs: number;
  userNs: number;
  kernelNs: number;
  /** Largest first. */
  lost: CauseSum[];
  lostNs: number;
  /** Time of causes that delayed no task. */
  whileIdleNs: number;
  /** Lost time per kind, in the order of `KINDS`. */
  byKindNs: Float64Array;
  unexplainedNs: number;
}

export interface CoreSum extends Ledger {
  cpu: number;
}

/** By what was taken from tasks, then by what delayed no task. */
function mostLostFirst(a: CauseSum, b: CauseSum): number {
  return lostNs(b) - lostNs(a) || b.totalNs - a.totalNs || b.count - a.count;
}

class Sum {
  readonly times = new Float64Array(TIMES);
  readonly byKindNs = new Float64Array(KINDS.length);
  /** Dense by cause, four numbers each: a map of objects took ten times as long on 128 cores. */
  private readonly sums: Float64Array;

  constructor(private readonly entries: readonly CauseEntry[]) {
    this.sums = new Float64Array(entries.length * 4);
  }

  add(block: Block, at: number): void {
    const { sums } = this;
    for (let time = 0; time < TIMES; time += 1) this.times[time] += block.times[at * TIMES + time];
    const end = block.firstRow[at + 1];
    for (let row = block.firstRow[at]; row < end; row += 1) {
      const to = block.cause[row] * 4;
      sums[to] += block.count[row];
      sums[to + 1] += block.totalNs[row];
      if (block.maxNs[row] > sums[to + 2]) sums[to + 2] = block.maxNs[row];
      sums[to + 3] += block.whileIdleNs[row];
    }
  }

  ledger(): Ledger {
    const lost: CauseSum[] = [];
    let idleCausesNs = 0;
    this.entries.forEach(({ kind, name }, id) => {
      const [count, totalNs, maxNs, whileIdleNs] = this.sums.subarray(id * 4, id * 4 + 4);
      if (count === 0 && totalNs === 0) return;
      lost.push({ kind, name, count, totalNs, maxNs, whileIdleNs });
      this.byKindNs[kind] += totalNs - whileIdleNs;
      idleCausesNs += whileIdleNs;
    });
    lost.sort(mostLostFirst);
    return {
      wallNs: this.times[WALL],
      idleNs: this.times[IDLE],
      userNs: this.times[USER],
      kernelNs: this.times[KERNEL],
      lost,
      lostNs: this.byKindNs.reduce((sum, part) => sum + part, 0),
      whileIdleNs: idleCausesNs,
      byKindNs: this.byKindNs,
      unexplainedNs: this.times[UNEXPLAINED],
    };
  }
}

/** A test for the cores of a filter; an empty filter takes all. */
export function coreFilter(cpus: readonly number[]): (cpu: number) => boolean {
  if (cpus.length === 0) return () => true;
  const wanted = new Set(cpus);
  return (cpu) => wanted.has(cpu);
}

/** One ledger per core, ascending, of the cores that pass. */
export function sumCores(blocks: readonly Block[], entries: readonly CauseEntry[], passes: (cpu: number) => boolean): CoreSum[] {
  const sums = new Map<number, Sum>();
  for (const block of blocks) {
    for (let at = 0; at < block.cpus.length; at += 1) {
      const cpu = block.cpus[at];
      if (!passes(cpu)) continue;
      let sum = sums.get(cpu);
      if (!sum) sums.set(cpu, (sum = new Sum(entries)));
      sum.add(block, at);
    }
  }
  return [...sums.entries()].sort((a, b) => a[0] - b[0]).map(([cpu, sum]) => ({ cpu, ...sum.ledger() }));
}

/** The ledgers of several cores as one. */
export function total(cores: readonly Ledger[]): Ledger {
  const all: Ledger = {
    wallNs: 0,
    idleNs: 0,
    userNs: 0,
    kernelNs: 0,
    lost: [],
    lostNs: 0,
    whileIdleNs: 0,
    byKindNs: new Float64Array(KINDS.length),
    unexplainedNs: 0,
  };
  const causes = new Map<string, CauseSum>();
  for (const core of cores) {
    all.wallNs += core.wallNs;
    all.idleNs += core.idleNs;
    all.userNs += core.userNs;
    all.kernelNs += core.kernelNs;
    all.lostNs += core.lostNs;
    all.whileIdleNs += core.whileIdleNs;
    all.unexplainedNs += core.unexplainedNs;
    core.byKindNs.forEach((ns, kind) => (all.byKindNs[kind] += ns));
    for (const lost of core.lost) {
      const key = `${lost.kind}/${lost.name}`;
      const sum = causes.get(key);
      if (!sum) causes.set(key, { ...lost });
      else {
        sum.count += lost.count;
        sum.totalNs += lost.totalNs;
        sum.maxNs = Math.max(sum.maxNs, lost.maxNs);
        sum.whileIdleNs += lost.whileIdleNs;
      }
    }
  }
  all.lost = [...causes.values()].sort(mostLostFirst);
  return all;
}

/** Which kinds a filter shows, in the order of `KINDS`; an empty filter shows all. */
export function kindMask(kinds: readonly Kind[]): boolean[] {
  return KINDS.map((kind) => kinds.length === 0 || kinds.includes(kind.id));
}

/** The gaps that pass the filters, longest first. A gap passes a kind by a cause inside it or by its verdict. */
export function filterGaps(
  gaps: readonly Gap[],
  passes: (cpu: number) => boolean,
  kinds: readonly Kind[],
  minNs: number,
  fromNs: number,
  toNs: number,
): Gap[] {
  const wanted = new Set<string>(kinds);
  return gaps
    .filter(
      (gap) =>
        passes(gap.cpu) &&
        gap.duration_ns >= minNs &&
        gap.start_ns + gap.duration_ns > fromNs &&
        gap.start_ns <= toNs &&
        (wanted.size === 0 ||
          gap.causes.some((cause) => wanted.has(cause.kind)) ||
          (VERDICT_KINDS[gap.verdict] ?? []).some((kind) => wanted.has(kind))),
    )
    .sort((a, b) => b.duration_ns - a.duration_ns || b.start_ns - a.start_ns);
}

/** What watching cost over these windows: times and counts summed, memory at its largest. */
export function sumCost(blocks: readonly Block[]): SelfCost {
  const sum: SelfCost = { probes: [], process_cpu_ns: 0, resident_bytes: 0, map_bytes: 0, dropped: 0, torn: 0, unreported: 0, untraced_interrupts: 0, self_interrupts: 0 };
  const probes = new Map<string, SelfCost["probes"][number]>();
  for (const { cost } of blocks) {
    for (const probe of cost.probes) {
      const known = probes.get(probe.name);
      if (!known) probes.set(probe.name, { ...probe });
      else {
        known.count += probe.count;
        known.total_ns += probe.total_ns;
        known.missed += probe.missed;
      }
    }
    sum.process_cpu_ns += cost.process_cpu_ns;
    sum.resident_bytes = Math.max(sum.resident_bytes, cost.resident_bytes);
    sum.map_bytes = Math.max(sum.map_bytes, cost.map_bytes);
    sum.dropped += cost.dropped;
    sum.torn += cost.torn;
    // Absent in recordings of older versions.
    sum.unreported += cost.unreported ?? 0;
    sum.untraced_interrupts += cost.untraced_interrupts ?? 0;
    sum.self_interrupts += cost.self_interrupts;
    // Only where the programs were attached or detached.
    if (cost.attach_interrupts != null) sum.attach_interrupts = (sum.attach_interrupts ?? 0) + cost.attach_interrupts;
  }
  sum.probes = [...probes.values()].sort((a, b) => b.total_ns - a.total_ns);
  return sum;
}

/** The kernel's counters beside the probes', per row, in the kernel's order. */
export function sumCompleteness(blocks: readonly Block[]): Completeness[] {
  const rows = new Map<string, Completeness>();
  for (const block of blocks) {
    for (const row of block.completeness) {
      const known = rows.get(row.row);
      if (!known) rows.set(row.row, { ...row });
      else {
        known.kernel_count += row.kernel_count;
        known.probe_count += row.probe_count;
      }
    }
  }
  return [...rows.values()];
}

/** Interrupts without a time, per row over the cores that pass; most frequent first. */
export function sumUntimed(blocks: readonly Block[], passes: (cpu: number) => boolean): Untimed[] {
  const rows = new Map<string, Untimed>();
  for (const block of blocks) {
    for (const row of block.untimed) {
      if (!passes(row.cpu)) continue;
      const known = rows.get(row.row);
      if (!known) rows.set(row.row, { ...row });
      else known.count += row.count;
    }
  }
  return [...rows.values()].sort((a, b) => b.count - a.count);
}

/** The interrupts on these cores and of these kinds, costliest first. */
export function filterInterrupts(interrupts: readonly Interrupt[], hasCpu: (cpu: number) => boolean, kinds: readonly Kind[]): Interrupt[] {
  // Nobody raises a task: what preempts is among the causes, and with all its tasks it would fill the table.
  const isRaised = (one: Interrupt) => one.kind !== "preemption" || one.raisers.length > 0 || one.advice.length > 0;
  const isOfKind = (one: Interrupt) => kinds.length === 0 || kinds.some((kind) => kind === one.kind);
  const shown = interrupts.filter((one) => isRaised(one) && hasCpu(one.cpu) && isOfKind(one));
  return shown.sort((a, b) => b.total_ns - a.total_ns);
}

/** What to fix of these cores and kinds, in its order. */
export function filterFixes(fixes: readonly Fix[], hasCpu: (cpu: number) => boolean, kinds: readonly Kind[]): Fix[] {
  return fixes.filter((fix) => fix.cpus.some(hasCpu) && (kinds.length === 0 || kinds.some((kind) => kind === fix.kind)));
}

/** The time that windows, in the order of time, cover. */
export function covered(windows: readonly { startNs: number; endNs: number }[]): { startNs: number; endNs: number } {
  return { startNs: windows[0].startNs, endNs: windows[windows.length - 1].endNs };
}
