// What times of CLOCK_MONOTONIC are on the wall clock, which may have been set since; pure.

import type { ClockChange } from "../../types.ts";

/** The offsets that held, oldest first; the first held from the beginning. */
export type Stretch = readonly [fromNs: number, offsetNs: number];

/** The stretches between the changes of the clock. */
export function stretchesOf(firstOffsetNs: number, changes: readonly ClockChange[]): Stretch[] {
  return [[-Infinity, changes[0]?.former_offset_ns ?? firstOffsetNs], ...changes.map((change) => [change.at_ns, change.realtime_offset_ns] as const)];
}

/** CLOCK_REALTIME minus CLOCK_MONOTONIC as it was at a time of the latter. */
export function offsetAt(stretches: readonly Stretch[], ns: number): number {
  return (stretches.findLast(([fromNs]) => fromNs <= ns) ?? [0, 0])[1];
}

/** The time at which the wall clock showed this; of several the latest, of none the last before it. */
export function whenShown(stretches: readonly Stretch[], realtimeNs: number): number {
  const found = stretches.findLast(([fromNs, offsetNs]) => realtimeNs - offsetNs >= fromNs);
  return realtimeNs - (found ?? stretches[0] ?? [0, 0])[1];
}

/** What the change was, in a sentence. */
export function changeWords({ former_offset_ns: before, realtime_offset_ns: now, slept_ns: slept }: ClockChange): string {
  const seconds = (ns: number) => `${(ns / 1e9).toFixed(3)} s`;
  const setBy = now - before - slept;
  const set = `set ${setBy < 0 ? "back" : "forward"} by ${seconds(Math.abs(setBy))}.`;
  if (slept === 0) return `The wall clock was ${set}`;
  return `The machine slept for ${seconds(slept)}${Math.abs(setBy) > 1e6 ? `, and the wall clock was ${set}` : "."}`;
}
