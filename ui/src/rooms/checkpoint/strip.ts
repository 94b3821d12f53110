// The geometry of the strip over time: marks as a few paths, a line of ages, an axis; pure.

import type { Corner, Mark, Tier } from "./journal.ts";

/** Where things are, in CSS pixels. */
export interface Strip {
  width: number;
  left: number;
  right: number;
  fromNs: number;
  toNs: number;
}

export const LANE_PX = 24;
export const AGES_PX = 84;
export const AXIS_PX = 22;
/** Marks that are there: wide enough to be seen and hit. */
const MARK_PX = 3;

/** How far back the strip may look, seconds; 0 for all. */
export const SPANS_S = [600, 3600, 86_400, 0] as const;

export function xOf(strip: Strip, ns: number): number {
  const plot = Math.max(1, strip.width - strip.left - strip.right);
  return strip.left + ((ns - strip.fromNs) / Math.max(1, strip.toNs - strip.fromNs)) * plot;
}

export function timeOf(strip: Strip, x: number): number {
  const plot = Math.max(1, strip.width - strip.left - strip.right);
  return strip.fromNs + ((x - strip.left) / plot) * (strip.toNs - strip.fromNs);
}

/** The path of all marks of one look in one lane, whose top is at `top`. Marks in one pixel are one mark. */
export function lanePath(strip: Strip, marks: readonly Mark[], lane: Tier, look: Mark["look"], top: number): string {
  const parts: string[] = [];
  const isThere = look !== "gone" && look !== "failed";
  let last = NaN;
  for (const mark of marks) {
    if (mark.lane !== lane || mark.look !== look || mark.atNs < strip.fromNs || mark.atNs > strip.toNs) continue;
    const x = Math.round(xOf(strip, mark.atNs));
    if (x === last) continue;
    last = x;
    if (look === "failed") parts.push(`M${x - 3} ${top + 8}l6 6m0-6l-6 6`);
    else if (look === "unfinished" || look === "partial") parts.push(`M${x - 2.5} ${top + 3.5}h5v${LANE_PX - 9}h-5z`);
    else if (isThere) parts.push(`M${x - MARK_PX / 2} ${top + 2}h${MARK_PX}v${LANE_PX - 6}h-${MARK_PX}z`);
    else parts.push(`M${x - 0.5} ${top + 9}h1v${LANE_PX - 13}h-1z`);
  }
  return parts.join("");
}

/** The greatest age that the plot shows: what is in it and its bound, with a little air. */
export function ageScale(corners: readonly Corner[], boundS: number | null): number {
  const most = corners.reduce((largest, corner) => Math.max(largest, corner.ageS), boundS ?? 0);
  return most > 0 ? most * 1.15 : 1;
}

/** The line of ages, whose bottom is at `bottom`. */
export function agePath(strip: Strip, corners: readonly Corner[], full: number, bottom: number): string {
  const y = (ageS: number) => bottom - (ageS / full) * (AGES_PX - 8);
  return corners.map((corner, at) => `${at === 0 ? "M" : "L"}${xOf(strip, corner.atNs).toFixed(1)} ${y(corner.ageS).toFixed(1)}`).join("");
}

/** Where an age stands. */
export function ageY(ageS: number, full: number, bottom: number): number {
  return bottom - (ageS / full) * (AGES_PX - 8);
}
