// The geometry of the small picture of a room, and its numbers in words; pure.

import type { Chart } from "../types.ts";
import { age, count, duration } from "../format.ts";

export interface Box {
  width: number;
  height: number;
  fromNs: number;
  toNs: number;
  /** The value at the top. */
  full: number;
}

/** Points further apart than this many usual steps are not joined: nothing is known of the time between. */
const JOIN_STEPS = 3.5;

/** A value of this unit, in words. */
export function valueWords(unit: string, value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (unit === "ns_per_s") return `${duration(value)}/s`;
  if (unit === "s") return value < 1 && value > 0 ? `${Math.round(value * 1000)} ms` : age(value * 1e9);
  return Number.isInteger(value) ? count(value) : value.toPrecision(3);
}

/** The value now, in words; `null` where the chart has none. An age grows until the next point comes. */
export function nowWords({ unit, now }: Chart, [at, value]: readonly [number, number], realtimeNs: number): string | null {
  if (now === "none") return null;
  return valueWords(unit, now === "ages" ? value + Math.max(0, realtimeNs - at) / 1e9 : value);
}

/** The points that can be drawn, by time. */
export function usable({ points }: Chart): [number, number][] {
  return points.filter(([at, value]) => Number.isFinite(at) && Number.isFinite(value) && value >= 0).sort((a, b) => a[0] - b[0]);
}

/** The least time that a chart spans: times of today are so large that a nanosecond more is no more at all. */
const WIDTH_NS_MIN = 1e6;

/** The box of these points; a flat line of zeros lies at the bottom. */
export function boxOf(points: readonly [number, number][], width: number, height: number): Box {
  const most = points.reduce((largest, [, value]) => Math.max(largest, value), 0);
  const [fromNs, toNs] = [points[0]?.[0] ?? 0, points[points.length - 1]?.[0] ?? 0];
  return { width, height, fromNs, toNs: Math.max(toNs, fromNs + WIDTH_NS_MIN), full: most > 0 ? most : 1 };
}

/** Runs of points that belong together. */
export function runsOf(points: readonly [number, number][]): [number, number][][] {
  const steps = points.slice(1).map(([at], before) => at - points[before][0]).sort((a, b) => a - b);
  const usual = steps[Math.floor(steps.length / 2)] ?? 0;
  const runs: [number, number][][] = [];
  points.forEach((point, at) => {
    const before = points[at - 1];
    if (before && point[0] - before[0] <= usual * JOIN_STEPS) runs[runs.length - 1].push(point);
    else runs.push([point]);
  });
  return runs;
}

/** The line of the points, and the ground below it. A point that stands alone is a short stroke. */
export function pathsOf(points: readonly [number, number][], box: Box): { line: string; area: string } {
  const x = (at: number) => ((at - box.fromNs) / (box.toNs - box.fromNs)) * box.width;
  // Half a stroke of room, so that neither the top nor the bottom is cut off.
  const y = (value: number) => 1 + (1 - Math.min(1, value / box.full)) * (box.height - 2);
  const line: string[] = [];
  const area: string[] = [];
  for (const run of runsOf(points)) {
    const corners = run.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
    const [first, last] = [x(run[0][0]).toFixed(1), x(run[run.length - 1][0]).toFixed(1)];
    line.push(run.length === 1 ? `M${corners[0]}h1` : `M${corners.join("L")}`);
    area.push(`M${first} ${box.height}L${corners.join("L")}L${last} ${box.height}Z`);
  }
  return { line: line.join(""), area: area.join("") };
}
