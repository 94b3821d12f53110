// The geometry of a picture of points: axes, ticks, where each point lies; pure.

export interface Point {
  x: number;
  y: number;
  /** The interval of `y`, where it has one. */
  low?: number;
  high?: number;
}

export interface Series {
  name: string;
  look: "dot" | "ring" | "halo" | "line";
  points: readonly Point[];
}

export type Scale = "linear" | "logarithmic";

export interface Axis {
  scale: Scale;
  from: number;
  to: number;
}

export interface Frame {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Points of one series that are drawn: evenly taken from more. */
export const POINTS_DRAWN = 600;

export function drawn(points: readonly Point[]): Point[] {
  const every = Math.max(1, Math.ceil(points.length / POINTS_DRAWN));
  return points.filter(({ x, y }, at) => at % every === 0 && Number.isFinite(x) && Number.isFinite(y));
}

/** An axis on which all of these lie, with a little air; values of a logarithmic one are above 0. */
export function axisOf(values: readonly number[], scale: Scale): Axis {
  const usable = values.filter((value) => Number.isFinite(value) && (scale === "linear" || value > 0));
  if (usable.length === 0) return scale === "linear" ? { scale, from: 0, to: 1 } : { scale, from: 1, to: 2 };
  const least = usable.reduce((a, b) => Math.min(a, b));
  const most = usable.reduce((a, b) => Math.max(a, b));
  if (scale === "logarithmic") return { scale, from: least / 1.08, to: Math.max(most, least * 1.05) * 1.08 };
  const air = Math.max((most - least) * 0.08, Math.abs(most) * 0.004, 1e-9);
  return { scale, from: least - air, to: most + air };
}

/** Where a value lies, from 0 to 1. */
export function placeOf({ scale, from, to }: Axis, value: number): number {
  const place = scale === "linear" ? (value - from) / (to - from) : Math.log(value / from) / Math.log(to / from);
  return Math.min(1, Math.max(0, place));
}

const STEPS = [1, 2, 5, 10];

/** Round values on the axis, about so many. */
export function ticksOf({ scale, from, to }: Axis, wanted: number): number[] {
  if (scale === "linear") {
    const rough = (to - from) / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * (STEPS.find((factor) => factor * power >= rough) ?? 10);
    const ticks: number[] = [];
    for (let at = Math.ceil(from / step); at * step <= to && ticks.length < 50; at += 1) ticks.push(at * step);
    return ticks;
  }
  const all: number[] = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power += 1) for (const factor of [1, 2, 5]) all.push(factor * 10 ** power);
  const within = all.filter((value) => value >= from && value <= to);
  if (within.length >= 3 || to / from > 10) {
    const every = Math.max(1, Math.ceil(within.length / Math.max(1, wanted)));
    return within.filter((_, at) => at % every === 0);
  }
  // Less than a power of ten: equal steps are rounder.
  return ticksOf({ scale: "linear", from, to }, wanted).filter((value) => value > 0);
}

export function xOf(frame: Frame, axis: Axis, value: number): number {
  return frame.left + placeOf(axis, value) * Math.max(1, frame.width - frame.left - frame.right);
}

export function yOf(frame: Frame, axis: Axis, value: number): number {
  return frame.top + (1 - placeOf(axis, value)) * (frame.height - frame.top - frame.bottom);
}
