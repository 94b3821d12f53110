// Checkpoints: what a job's journal says in words, and what follows from it for the picture over time; pure.

import { age, moment, storedBytes } from "../../format.ts";
import { isAboveOk } from "../../severity.ts";
import type { CheckpointTier as Tier, EntryView, GenerationState, Job } from "../../types.ts";

export type { Tier };

export const TIER_WORDS: Record<Tier, string> = { memory: "memory", durable: "SSD", shared: "shared" };

/** Within a sentence, after what is there. */
export const TIER_PLACES: Record<Tier, string> = { memory: "in memory", durable: "on the SSD", shared: "in the shared directory" };

export const STATE_WORDS: Record<GenerationState, string> = {
  complete: "complete",
  partial: "part is here",
  unfinished: "not finished",
  damaged: "damaged",
};

const PLACES: Record<string, string> = {
  skip: "None taken",
  memory: "Into memory",
  memory_and_ssd: "Into memory, and on to the SSD",
  ssd: "To the SSD",
};

/** Where a decision sent a checkpoint, in words; what a newer server says stays readable. */
export function placeWords(place: string): string {
  const known = Object.hasOwn(PLACES, place) ? PLACES[place] : undefined;
  return known ?? `To ${place.replaceAll("_", " ")}`;
}

/** Seconds in words: "0.12 s", "4.0 s", "12 min". */
export function seconds(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)} ms` : age(value * 1e9);
}

/** Within a sentence; names in capitals stay. */
export function lowered(words: string): string {
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Ends a sentence that may have its end already. */
function ended(text: string): string {
  return text === "" || /[.!?]$/.test(text) ? text : `${text}.`;
}

/** What happened, and why, as sentences. */
export function eventWords(event: EntryView): { what: string; why: string } {
  const because = (reasons: readonly string[]) => (reasons.length > 0 ? ended(`Because ${reasons.join("; ")}`) : "");
  switch (event.event) {
    case "opened":
      return { what: `A session began: ${event.ranks === 1 ? "one rank" : `${event.ranks} ranks`}, policy ${event.policy}.`, why: ended(event.weakness ?? "") };
    case "decision": {
      if (event.failure !== undefined && event.failure !== "") {
        return { what: `${placeWords(event.place)}, but it could not be saved: ${ended(event.failure)}`, why: because(event.reasons) };
      }
      // The journal is rank 0's, and knows of no other rank's bytes.
      const cost = event.generation === null ? "" : `: rank 0 saved ${storedBytes(event.payload_bytes)} in ${seconds(event.visible_s)}`;
      return { what: `${placeWords(event.place)}${cost}.`, why: because(event.reasons) };
    }
    case "asked": {
      const times = event.asked_count === 1 ? "" : ` (${event.asked_count} times)`;
      const answer = event.place === "skip" ? "none pays" : lowered(placeWords(event.place));
      return { what: `The job asked whether a checkpoint pays${times}: ${answer}.`, why: because(event.reasons) };
    }
    case "durable": {
      const known = event.is_durable === true;
      const place = event.tier === "shared" ? "in the shared directory" : known ? "durable" : "in the durable directory";
      return { what: `It is ${place}: all ranks wrote ${storedBytes(event.bytes)} in ${seconds(event.took_s)}.`, why: known ? "" : "The medium there is not known." };
    }
    case "unread":
      return {
        what: "Lines written before this time may be missing.",
        why: "The journal was replaced between two looks, by another one or because it was full.",
      };
    case "removed": {
      const places: Record<string, string> = { memory: "in memory", durable: "on the SSD", shared: "in the shared directory" };
      return { what: `UID ${event.uid} removed all checkpoints ${places[event.tier] ?? "in a tier that this page does not know"}.`, why: "" };
    }
    case "not_durable":
      return { what: event.tier === "shared" ? "It did not reach the shared directory." : "It did not become durable.", why: ended(event.why) };
    case "restart":
      if (event.generation !== null) return { what: "The job restarted from it.", why: ended(event.report) };
      return { what: isFailure(event) ? "The job asked for its newest checkpoint; none could be read." : "The job began without a checkpoint.", why: ended(event.report) };
    default:
      return { what: "An event that this page does not know.", why: "" };
  }
}

/** The number of the checkpoint that an event speaks of. */
export function generationOf(event: EntryView): number | null {
  return "generation" in event ? event.generation : null;
}

/** Whether an event is a failure that somebody should see. */
export function isFailure(event: EntryView): boolean {
  return isAboveOk(event);
}

// The strip over time.

export interface Mark {
  atNs: number;
  number: number;
  lane: Tier;
  /** `gone` was there once, as the journal says. */
  look: GenerationState | "gone" | "failed";
}

/** A corner of the line of ages. */
export interface Corner {
  atNs: number;
  ageS: number;
}

const LANES: Record<string, Tier[]> = { memory: ["memory"], memory_and_ssd: ["memory"], ssd: ["durable"] };

function laneOf(tier: string): Tier {
  return tier === "shared" ? "shared" : "durable";
}

/** Every checkpoint that is there or was, as marks, oldest first. */
export function marksOf(job: Job): Mark[] {
  const kept = new Set<string>();
  const marks: Mark[] = [];
  for (const one of job.generations) {
    if (one.taken_realtime_ns === null) continue;
    kept.add(`${one.tier}/${one.number}`);
    marks.push({ atNs: one.taken_realtime_ns, number: one.number, lane: one.tier, look: one.state });
  }
  const gone = (atNs: number, number: number, lane: Tier, look: "gone" | "failed") => {
    // Without an SSD the shared directory takes its place, and its name in decisions.
    const isThere = kept.has(`${lane}/${number}`) || (lane === "durable" && kept.has(`shared/${number}`));
    if (look === "gone" && isThere) return;
    marks.push({ atNs, number, lane, look });
  };
  for (const event of job.events) {
    if (event.event === "decision") {
      const look = isFailure(event) ? "failed" : "gone";
      if (look === "gone" && event.generation === null) continue;
      for (const lane of LANES[event.place] ?? []) gone(event.realtime_ns, event.generation ?? 0, lane, look);
    } else if (event.event === "durable") gone(event.realtime_ns - event.age_s * 1e9, event.generation, laneOf(event.tier), "gone");
    else if (event.event === "not_durable") gone(event.realtime_ns, event.generation, laneOf(event.tier), "failed");
  }
  return marks.sort((a, b) => a.atNs - b.atNs);
}

/** How old the newest durable copy was, from the first that is known of it until now: a line that rises and falls. */
export function agesOf(job: Job, nowNs: number): Corner[] {
  /** When a copy became durable, and when it was taken. */
  const landings: { atNs: number; takenNs: number }[] = [];
  let startNs = Infinity;
  for (const event of job.events) {
    startNs = Math.min(startNs, event.realtime_ns);
    if (event.event === "durable") landings.push({ atNs: event.realtime_ns, takenNs: event.realtime_ns - event.age_s * 1e9 });
    else if (event.event === "decision" && event.place === "ssd" && event.generation !== null && !isFailure(event)) {
      landings.push({ atNs: event.realtime_ns, takenNs: event.realtime_ns - event.visible_s * 1e9 });
    }
  }
  // What lies there from before the journal begins.
  for (const one of job.generations) {
    if (one.tier === "memory" || one.state !== "complete" || one.taken_realtime_ns === null) continue;
    if (one.taken_realtime_ns < startNs) landings.push({ atNs: one.taken_realtime_ns, takenNs: one.taken_realtime_ns });
  }
  landings.sort((a, b) => a.atNs - b.atNs);
  const first = job.events.find((event) => event.event === "decision");
  let takenNs = first && first.event === "decision" ? first.realtime_ns - first.durable_age_s * 1e9 : null;
  const corners: Corner[] = [];
  const corner = (atNs: number) => takenNs !== null && corners.push({ atNs, ageS: Math.max(0, atNs - takenNs) / 1e9 });
  if (takenNs !== null && (landings.length === 0 || takenNs < landings[0].atNs)) corner(takenNs);
  for (const landing of landings) {
    corner(landing.atNs);
    takenNs = Math.max(takenNs ?? 0, landing.takenNs);
    corner(landing.atNs);
  }
  corner(Math.max(nowNs, landings.at(-1)?.atNs ?? 0));
  return corners;
}

/** The part of a line from this time on, cut where it begins. */
export function cornersFrom(corners: readonly Corner[], fromNs: number): Corner[] {
  const at = corners.findIndex((corner) => corner.atNs >= fromNs);
  if (at < 0) return [];
  const rest = corners.slice(at);
  const before = corners[at - 1];
  if (!before || rest[0].atNs === fromNs) return rest;
  const share = (fromNs - before.atNs) / Math.max(1, rest[0].atNs - before.atNs);
  return [{ atNs: fromNs, ageS: before.ageS + (rest[0].ageS - before.ageS) * share }, ...rest];
}

/** The age of the durable copy in words: at the end of the part of the line that is shown, and the oldest in it. */
export function ageWords(job: Job, shown: readonly Corner[]): string {
  const nowS = shown[shown.length - 1].ageS;
  const oldestS = Math.max(...shown.map((corner) => corner.ageS));
  const [now, oldest] = [age(nowS * 1e9), age(oldestS * 1e9)];
  if (job.durable_realtime_ns !== null) return `Now ${now}; oldest in this range ${oldest}`;
  return `No complete durable copy is there. Since the last one in the journal, or the start of the session: ${now}; longest in this range ${oldest}`;
}

/** What a mark says in one line. */
export function markWords(mark: Mark, nowNs: number): string {
  const looks = { ...STATE_WORDS, gone: "replaced by newer ones", failed: "failed" };
  const number = mark.number > 0 ? `Checkpoint ${mark.number}` : "A checkpoint";
  return `${number} in ${TIER_WORDS[mark.lane]}, ${moment(mark.atNs, nowNs)}: ${looks[mark.look]}`;
}

/** The mark nearest to a place in time, in one lane; marks are sorted by time. */
export function nearest(marks: readonly Mark[], atNs: number, lane: Tier): Mark | null {
  let best: Mark | null = null;
  for (const mark of marks) {
    if (mark.lane === lane && (best === null || Math.abs(mark.atNs - atNs) < Math.abs(best.atNs - atNs))) best = mark;
  }
  return best;
}
