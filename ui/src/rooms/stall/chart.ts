// The small picture of this room in the past: lost time per second; pure.

import type { Chart, PastAnswer } from "../../types.ts";

const POINTS_MAX = 120;

/** Nanoseconds lost per second over all cores, in at most 120 points. */
export function lostChart({ windows }: PastAnswer): Chart | null {
  if (windows.length === 0) return null;
  const perPoint = Math.ceil(windows.length / POINTS_MAX);
  const points: [number, number][] = [];
  for (let at = 0; at < windows.length; at += perPoint) {
    const joined = windows.slice(at, at + perPoint);
    let lostNs = 0;
    let spanNs = 0;
    for (const { start_realtime_ns: start, end_realtime_ns: end, cores } of joined) {
      for (const core of cores) for (const lost of core.lost) lostNs += lost.total_ns - lost.while_idle_ns;
      spanNs += end - start;
    }
    if (spanNs > 0) points.push([joined[joined.length - 1].end_realtime_ns, (lostNs / spanNs) * 1e9]);
  }
  return { title: "Lost per second", unit: "ns_per_s", points, now: "none" };
}
