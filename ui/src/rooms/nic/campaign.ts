// Fault campaigns in words and lengths; pure.

import { count, duration } from "../../format.ts";
import type { CampaignFault, MovieScene, NicMovie, OutcomeRow, ShareRow, Table } from "../../types.ts";

/** In the order of the paper's table, then what nobody could tell. */
const OUTCOME_WORDS: Record<string, string> = {
  hang: "hang",
  send_receive: "send receive",
  dma: "DMA",
  corrupted_control: "corrupted control",
  corrupted_message: "corrupted message",
  latency: "latency",
  host_crash: "host crash",
  no_effect: "no effect",
};

export const OUTCOMES = Object.keys(OUTCOME_WORDS);

/** The words of a class; of a newer server its own. */
export function outcomeWords(outcome: string): string {
  return Object.hasOwn(OUTCOME_WORDS, outcome) ? OUTCOME_WORDS[outcome] : spaced(outcome);
}

/** What there is in words, and a dash where there is nothing. */
export function orNone<T>(value: T | null, words: (value: T) => string): string {
  return value === null ? "–" : words(value);
}

/** The name of who detected something, as the command writes it. */
export function detectorWords(name: string): string {
  return name.replaceAll("_", "-");
}

export function spaced(word: string): string {
  return word.replaceAll("_", " ");
}

export function keyOf({ experiment, build, seed }: Pick<Table, "experiment" | "build" | "seed">): string {
  return `${experiment}:${build}:${seed}`;
}

/** How many faults are at hand; of how many, where some are missing: another shard, or a campaign that still runs. */
export function faultsWords({ fault_count, campaign_fault_count, missing_count }: Pick<Table, "fault_count" | "campaign_fault_count" | "missing_count">): string {
  const isWhole = missing_count === 0 || campaign_fault_count === null;
  return isWhole ? count(fault_count) : `${count(fault_count)} of ${count(campaign_fault_count)}`;
}

/** A share as the paper prints it: one decimal. What is not nothing is not 0.0 %, what is not all not 100.0 %. */
export function percent(share: number): string {
  const text = (share * 100).toFixed(1);
  if (share > 0 && text === "0.0") return "<0.1\u00a0%";
  if (share < 1 && text === "100.0") return ">99.9\u00a0%";
  return `${text}\u00a0%`;
}

export function intervalWords({ low, high }: Pick<ShareRow, "low" | "high">): string {
  return `${(low * 100).toFixed(1)}\u00a0–\u00a0${(high * 100).toFixed(1)}\u00a0%`;
}

/** The right end of the axis on which shares of failures are drawn: whole twentieths that hold all of them. */
export function axisEnd(rows: readonly OutcomeRow[]): number {
  const failures = rows.filter(({ outcome }) => outcome !== "no_effect");
  return Math.ceil(Math.max(0.01, ...failures.flatMap(({ high, paper_share }) => [high, paper_share ?? 0])) * 20) / 20;
}

/** Where a bit is. */
export function placeWords({ space, place, bit, function: inside }: Pick<CampaignFault, "space" | "place" | "bit" | "function">): string {
  const where = inside === null ? place : `${inside} at ${place}`;
  return `${where}, bit ${bit}${space === "stuck" ? ", stuck" : ""}`;
}

export function detectedWords({ detected_by, finding, pruned }: Pick<CampaignFault, "detected_by" | "finding" | "pruned">): string {
  if (detected_by === null) return pruned ? "never executed" : "not detected";
  return finding === null ? detectorWords(detected_by) : `${detectorWords(detected_by)}: ${spaced(finding)}`;
}

export interface Phase {
  key: "undetected" | "recovering" | "after";
  words: string;
  fromNs: number;
  toNs: number;
}

/** What a movie comes to: how long nobody knew, how long it took to come back for the first time, and the rest of the run. */
export function phasesOf({ scenes }: Pick<NicMovie, "scenes">): Phase[] {
  const endNs = scenes.at(-1)?.since_ns ?? 0;
  const first = (step: string) => scenes.find((scene) => scene.step === step)?.since_ns;
  const detectedNs = first("detected");
  if (detectedNs === undefined) return endNs > 0 ? [{ key: "undetected", words: `not detected within ${duration(endNs)}`, fromNs: 0, toNs: endNs }] : [];
  const phases: Phase[] = [{ key: "undetected", words: `detected after ${duration(detectedNs)}`, fromNs: 0, toNs: detectedNs }];
  const recovered = scenes.filter(({ step }) => step === "recovered");
  if (recovered.length === 0) return phases;
  const recoveredNs = recovered[0].since_ns;
  phases.push({ key: "recovering", words: `recovered ${duration(recoveredNs - detectedNs)} later`, fromNs: detectedNs, toNs: recoveredNs });
  const often = recovered.length > 1 ? `, ${recovered.length} recoveries in all` : "";
  phases.push({ key: "after", words: `${duration(endNs - recoveredNs)} to the end${often}`, fromNs: recoveredNs, toNs: endNs });
  return phases;
}

/** How a scene is to be looked at. */
export function toneOf({ scene, step }: Pick<MovieScene, "scene" | "step">): "bad" | "good" | "plain" {
  if (["struck", "halted", "crashed", "refused"].includes(scene) || ["again", "wrong", "given_up", "reload_failed"].includes(step ?? "")) return "bad";
  return step === "detected" || step === "recovered" ? "good" : "plain";
}
