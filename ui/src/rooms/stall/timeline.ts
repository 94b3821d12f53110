// The geometry of the timeline: windows to columns, times to cells, scales and ticks. Pure.

import { TIMES, UNEXPLAINED, WALL, type Block, type CauseEntry } from "./history.ts";
import { KINDS } from "./words.ts";

/** Up to this many cores get a lane with a stacked strip; more become rows of a heat map. */
export const MAX_LANES = 12;

/** Layers of a lane from the bottom: the kinds in reverse table order, then the unexplained part. */
export const LAYERS = KINDS.length + 1;
const UNEXPLAINED_LAYER = KINDS.length;

/** A run of windows drawn as one. */
export interface Column {
  startNs: number;
  endNs: number;
  blocks: Block[];
}

/**
 * Joins windows until at most `maxColumns` remain. The joints sit at fixed sequence numbers, so that
 * columns keep their content while time moves on and only the newest one grows.
 */
export function columnsOf(blocks: readonly Block[], maxColumns: number): Column[] {
  const perColumn = Math.max(1, Math.ceil(blocks.length / Math.max(1, maxColumns)));
  const columns: Column[] = [];
  let group = -1;
  for (const block of blocks) {
    const own = Math.floor(block.sequence / perColumn);
    if (own !== group) {
      group = own;
      columns.push({ startNs: block.startNs, endNs: block.endNs, blocks: [block] });
    } else {
      const column = columns[columns.length - 1];
      column.endNs = block.endNs;
      column.blocks.push(block);
    }
  }
  return columns;
}

export interface Cells {
  /** Lost share of wall, masked kinds and unexplained together; NaN where the core has no window. Row-major by core. */
  share: Float64Array;
  /** Per cell `LAYERS` shares from the bottom up, when asked for. */
  layers: Float64Array | null;
}

/** The lost shares of each core in each column. */
export function cellsOf(
  columns: readonly Column[],
  cpus: readonly number[],
  entries: readonly CauseEntry[],
  mask: readonly boolean[],
  withLayers: boolean,
): Cells {
  const rowOf = new Map(cpus.map((cpu, at) => [cpu, at]));
  const kindOf = Uint8Array.from(entries, (entry) => entry.kind);
  const taken = Uint8Array.from(kindOf, (kind) => (mask[kind] ? 1 : 0));
  const cells = columns.length * cpus.length;
  const wall = new Float64Array(cells);
  const lost = new Float64Array(cells);
  const layers = withLayers ? new Float64Array(cells * LAYERS) : null;
  columns.forEach((column, x) => {
    for (const block of column.blocks) {
      for (let at = 0; at < block.cpus.length; at += 1) {
        const row = rowOf.get(block.cpus[at]);
        if (row === undefined) continue;
        const cell = row * columns.length + x;
        wall[cell] += block.times[at * TIMES + WALL];
        const unexplained = block.times[at * TIMES + UNEXPLAINED];
        lost[cell] += unexplained;
        if (layers) layers[cell * LAYERS + UNEXPLAINED_LAYER] += unexplained;
        for (let r = block.firstRow[at]; r < block.firstRow[at + 1]; r += 1) {
          const id = block.cause[r];
          if (taken[id] === 0) continue;
          lost[cell] += block.totalNs[r] - block.whileIdleNs[r];
          if (layers) layers[cell * LAYERS + layerOf(kindOf[id])] += block.totalNs[r] - block.whileIdleNs[r];
        }
      }
    }
  });
  for (let cell = 0; cell < cells; cell += 1) {
    lost[cell] = wall[cell] > 0 ? lost[cell] / wall[cell] : NaN;
    if (!layers) continue;
    for (let layer = 0; layer < LAYERS; layer += 1) {
      layers[cell * LAYERS + layer] = wall[cell] > 0 ? layers[cell * LAYERS + layer] / wall[cell] : 0;
    }
  }
  return { share: lost, layers };
}

/** The layer of a kind: rare hardware causes on top, where they stand out. */
export function layerOf(kind: number): number {
  return KINDS.length - 1 - kind;
}

/** The kind of a layer; `null` for the unexplained part. */
export function kindOfLayer(layer: number): number | null {
  return layer === UNEXPLAINED_LAYER ? null : KINDS.length - 1 - layer;
}

/** The next of 1, 2, 5 × 10^n at or above the value. */
export function niceCeil(value: number): number {
  if (!(value > 0)) return 1e-6;
  const power = 10 ** Math.floor(Math.log10(value));
  // The tolerance keeps 0.1 + 0.2 from asking for the next step.
  const step = [1, 2, 5, 10].find((factor) => value <= factor * power * (1 + 1e-9)) ?? 10;
  return step * power;
}

const SCALE_SAMPLE = 8192;

/**
 * The share at the full height of a lane, the same for all lanes. One outlier must not flatten all
 * the rest: when the largest cell is far above the 98th percentile, the scale stops at twice that
 * percentile and taller cells are marked as cut off.
 */
export function scaleOf(shares: Float64Array): { full: number; clipped: boolean } {
  // Every nth cell is enough for a percentile; only the largest is looked for among all.
  const step = Math.ceil(shares.length / SCALE_SAMPLE);
  const sample: number[] = [];
  let largest = 0;
  for (let cell = 0; cell < shares.length; cell += 1) {
    const share = shares[cell];
    if (share > largest) largest = share;
    if (cell % step === 0 && share > 0) sample.push(share);
  }
  if (largest === 0) return { full: 0.01, clipped: false };
  const sorted = Float64Array.from(sample.length > 0 ? sample : [largest]).sort();
  const usual = sorted[Math.floor((sorted.length - 1) * 0.98)];
  const clipped = largest > 5 * usual;
  return { full: Math.max(1e-5, Math.min(1, niceCeil(clipped ? usual * 2 : largest))), clipped };
}

/** The column that holds or follows an instant; -1 when there are none. */
export function columnAt(columns: readonly Column[], ns: number): number {
  let low = 0;
  let high = columns.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns[middle].endNs > ns) high = middle;
    else low = middle + 1;
  }
  return low;
}
