// The windows and gaps that the page holds, in a form that stays small and fast:
// 15 minutes of 128 cores are some 900,000 ledger rows, so rows live in typed arrays, column by column.

import type { Completeness, Gap, SelfCost, Untimed, Window } from "../../types.ts";
import { KINDS, kindIndex } from "./words.ts";

/** Live windows older than this are forgotten, nanoseconds. */
export const KEEP_NS = 905e9;
/** Never more windows than this, whatever their length. */
export const MAX_WINDOWS = 4000;
/** Never more gaps than this; the shortest go first. */
export const MAX_GAPS = 5000;
/** Names of causes beyond this are counted together under their kind. */
export const MAX_CAUSES = 4096;

/** Offsets into the five times of a core. */
export const WALL = 0;
export const IDLE = 1;
export const USER = 2;
export const KERNEL = 3;
export const UNEXPLAINED = 4;
export const TIMES = 5;

export interface CauseEntry {
  kind: number;
  name: string;
}

/** One window. Row r belongs to core c when firstRow[c] <= r < firstRow[c + 1]. */
export interface Block {
  /** Counts windows in the order of time; stays when older ones are forgotten. */
  sequence: number;
  startNs: number;
  endNs: number;
  cpus: Uint32Array;
  times: Float64Array;
  firstRow: Uint32Array;
  cause: Uint16Array;
  count: Float64Array;
  totalNs: Float64Array;
  maxNs: Float64Array;
  whileIdleNs: Float64Array;
  untimed: Untimed[];
  completeness: Completeness[];
  cost: SelfCost;
}

export class History {
  /** Ascending by time. */
  blocks: Block[] = [];
  /** Ascending by start. */
  gaps: Gap[] = [];
  /** Gaps and windows that this page forgot for lack of room, not for their age. */
  forgottenGaps = 0;
  forgottenWindows = 0;
  readonly causes: CauseEntry[] = [];
  private readonly causeIds = new Map<string, number>();
  private readonly gapKeys = new Set<string>();

  constructor(private readonly keepNs: number) {}

  /** End of the newest window, nanoseconds; `null` before the first. */
  get newestNs(): number | null {
    return this.blocks.length > 0 ? this.blocks[this.blocks.length - 1].endNs : null;
  }

  /**
   * Adds a window unless it is already there. It goes where its time puts it: while the page asks for what
   * it missed, a newer window may come in by the stream.
   */
  addWindow(window: Window): void {
    let at = this.blocks.length;
    while (at > 0 && this.blocks[at - 1].endNs >= window.end_ns) at -= 1;
    if (at < this.blocks.length && this.blocks[at].endNs === window.end_ns) return;
    const first = this.blocks[0];
    if (at === 0 && first && window.end_ns < this.blocks[this.blocks.length - 1].endNs - this.keepNs) return;
    this.blocks.splice(at, 0, this.pack(window));
    // Numbers follow the order of time.
    for (let next = Math.max(at, 1); next < this.blocks.length; next += 1) {
      this.blocks[next].sequence = this.blocks[next - 1].sequence + 1;
    }
    let stale = Math.max(0, this.blocks.length - MAX_WINDOWS);
    this.forgottenWindows += stale;
    while (stale < this.blocks.length && this.blocks[stale].endNs < (this.newestNs ?? 0) - this.keepNs) stale += 1;
    if (stale > 0) {
      this.blocks.splice(0, stale);
      this.dropGapsBefore(this.blocks[0].startNs);
    }
  }

  /** Adds gaps; those already there are left out. */
  addGaps(gaps: readonly Gap[]): void {
    for (const gap of gaps) {
      const key = gapKey(gap);
      if (this.gapKeys.has(key)) continue;
      this.gapKeys.add(key);
      this.gaps.push(gap);
    }
    if (this.gaps.length > MAX_GAPS) {
      const surplus = this.gaps.length - MAX_GAPS;
      const shortest = [...this.gaps].sort((a, b) => a.duration_ns - b.duration_ns).slice(0, surplus);
      const forget = new Set(shortest);
      for (const gap of shortest) this.gapKeys.delete(gapKey(gap));
      this.gaps = this.gaps.filter((gap) => !forget.has(gap));
      this.forgottenGaps += surplus;
    }
    this.gaps.sort((a, b) => a.start_ns - b.start_ns);
  }

  /** Puts what has become known of a gap in its place. */
  correct(gap: Gap): void {
    const at = this.gaps.findIndex((kept) => gapKey(kept) === gapKey(gap));
    if (at >= 0) this.gaps = this.gaps.with(at, gap);
  }

  /** The windows that end within (fromNs, toNs]. */
  between(fromNs: number, toNs: number): Block[] {
    return this.blocks.filter((block) => block.endNs > fromNs && block.endNs <= toNs);
  }

  private dropGapsBefore(ns: number): void {
    const kept = this.gaps.findIndex((gap) => gap.start_ns + gap.duration_ns >= ns);
    const gone = this.gaps.splice(0, kept < 0 ? this.gaps.length : kept);
    for (const gap of gone) this.gapKeys.delete(gapKey(gap));
  }

  private pack(window: Window): Block {
    const cores = [...window.cores].sort((a, b) => a.cpu - b.cpu);
    const rows = cores.reduce((sum, core) => sum + core.lost.length, 0);
    const block: Block = {
      sequence: 0,
      startNs: window.start_ns,
      endNs: window.end_ns,
      cpus: Uint32Array.from(cores, (core) => core.cpu),
      times: new Float64Array(cores.length * TIMES),
      firstRow: new Uint32Array(cores.length + 1),
      cause: new Uint16Array(rows),
      count: new Float64Array(rows),
      totalNs: new Float64Array(rows),
      maxNs: new Float64Array(rows),
      whileIdleNs: new Float64Array(rows),
      untimed: window.untimed,
      completeness: window.completeness,
      cost: window.cost,
    };
    let row = 0;
    cores.forEach((core, at) => {
      block.times.set([core.wall_ns, core.idle_ns, core.user_ns, core.kernel_ns, core.unexplained_ns], at * TIMES);
      for (const lost of core.lost) {
        block.cause[row] = this.causeId(lost.kind, lost.name);
        block.count[row] = lost.count ?? 0;
        block.totalNs[row] = lost.total_ns;
        block.maxNs[row] = lost.max_ns ?? 0;
        block.whileIdleNs[row] = lost.while_idle_ns;
        row += 1;
      }
      block.firstRow[at + 1] = row;
    });
    return block;
  }

  private causeId(kind: string, name: string): number {
    const key = `${kind}\u0000${name}`;
    const known = this.causeIds.get(key);
    if (known !== undefined) return known;
    // One collective name per kind keeps room beyond the limit.
    if (this.causes.length >= MAX_CAUSES && name !== OTHER_NAMES) return this.causeId(kind, OTHER_NAMES);
    if (this.causes.length >= MAX_CAUSES + KINDS.length) return this.causes.length - 1;
    this.causes.push({ kind: kindIndex(kind), name });
    this.causeIds.set(key, this.causes.length - 1);
    return this.causes.length - 1;
  }
}

const OTHER_NAMES = "(other names)";

/** One core has at most one gap of a source that starts at a given nanosecond. */
export function gapKey(gap: Gap): string {
  return `${gap.cpu}/${gap.start_ns}/${gap.source}`;
}
