// Checkpoints: the shapes of api/v1/checkpoints, and what follows from them; pure.

import { age, bytes, moment } from "./format.ts";

export type Tier = "memory" | "durable" | "shared";
export type GenerationState = "complete" | "partial" | "unfinished" | "damaged";

/** A checkpoint in one tier. */
export interface Generation {
  number: number;
  /** Sixteen hexadecimal digits. */
  nonce: string;
  tier: Tier;
  state: GenerationState;
  /** What is missing or wrong; empty where nothing is. */
  missing: string;
  taken_realtime_ns: number | null;
  ranks_here: number;
  ranks: number;
  payload_bytes: number;
  stored_bytes: number;
  protection: string;
  directory: string;
}

/** A line of a job's journal. */
export type JournalEvent = { realtime_ns: number; lost_count?: number } & (
  | { event: "opened"; job: string; ranks: number; policy: string; is_repeated?: boolean }
  | ({ event: "decision" } & Decided)
  | { event: "durable"; tier: string; generation: number; age_s: number; took_s: number; bytes: number }
  | { event: "not_durable"; tier: string; generation: number; why: string }
  | { event: "restart"; generation: number | null; report: string }
);

export interface Decided {
  place: string;
  generation: number | null;
  reasons: string[];
  failure?: string;
  payload_bytes: number;
  node_bytes: number;
  visible_s: number;
  durable_age_s: number;
  staleness_max_s?: number;
  durable_bytes: number;
  budget_bytes_per_s?: number;
}

export interface JournalState {
  policy: string;
  began_realtime_ns: number;
  staleness_max_s: number | null;
  decided: Record<string, number>;
  durable_bytes: number;
  checkpoint_s: number;
  session_s: number;
  budget_bytes_per_s: number | null;
  drive_ends_realtime_ns: number | null;
  lost_count: number;
}

export interface Job {
  name: string;
  directories: string[];
  ranks: number;
  is_running: boolean | null;
  memory_realtime_ns: number | null;
  durable_realtime_ns: number | null;
  stored_bytes: Partial<Record<Tier, number>>;
  /** Newest first. */
  generations: Generation[];
  generations_left_out: number;
  state: JournalState | null;
  /** Oldest first. */
  events: JournalEvent[];
  events_left_out: number;
  events_skipped: number;
}

export interface CheckpointDirectory {
  path: string;
  tiers: Tier[];
  file_system: string | null;
  free_bytes: number | null;
  drives: string[];
  problem: string | null;
}

interface Sourced {
  value: number;
  source: string;
}

export interface Drive {
  name: string;
  model: string;
  rated_bytes?: Sourced;
  written_bytes?: Sourced;
  percent_used?: Sourced;
  spare_percent?: Sourced;
  media_error_count?: Sourced;
  notes: string[];
}

export interface Checkpoints {
  why?: string;
  looked_realtime_ns: number | null;
  look_ns: number;
  directories: CheckpointDirectory[];
  jobs: Job[];
  jobs_left_out: number;
  is_cut: boolean;
  problems: { path: string; why: string }[];
  problems_left_out: number;
  drives: { read_realtime_ns: number; drives: Drive[] } | null;
}

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

/** Ends a sentence that may have its end already. */
function ended(text: string): string {
  return text === "" || /[.!?]$/.test(text) ? text : `${text}.`;
}

/** What happened, and why, as sentences. */
export function eventWords(event: JournalEvent): { what: string; why: string } {
  switch (event.event) {
    case "opened":
      return { what: `A session began: ${event.ranks === 1 ? "one rank" : `${event.ranks} ranks`}, policy ${event.policy}.`, why: "" };
    case "decision": {
      const because = event.reasons.length > 0 ? ended(`Because ${event.reasons.join("; ")}`) : "";
      if (event.failure !== undefined && event.failure !== "") {
        return { what: `${placeWords(event.place)}, but it could not be saved: ${ended(event.failure)}`, why: because };
      }
      const cost = event.generation === null ? "" : `, ${bytes(event.payload_bytes)} in ${seconds(event.visible_s)}`;
      return { what: `${placeWords(event.place)}${cost}.`, why: because };
    }
    case "durable":
      return { what: `It is ${event.tier === "shared" ? "in the shared directory" : "durable"}: ${bytes(event.bytes)} written in ${seconds(event.took_s)}.`, why: "" };
    case "not_durable":
      return { what: event.tier === "shared" ? "It did not get to the shared directory." : "It did not become durable.", why: ended(event.why) };
    case "restart":
      if (event.generation !== null) return { what: "The job restarted from it.", why: ended(event.report) };
      return { what: isFailure(event) ? "The job asked for its newest checkpoint in vain." : "The job began anew.", why: ended(event.report) };
    default:
      return { what: "Something that this page does not know.", why: "" };
  }
}

/** The number of the checkpoint that an event speaks of. */
export function generationOf(event: JournalEvent): number | null {
  return "generation" in event ? event.generation : null;
}

/** Whether an event is a failure that somebody should see. */
export function isFailure(event: JournalEvent): boolean {
  // There was nothing to come back to: that is how every job begins.
  if (event.event === "decision") return event.failure !== undefined && event.failure !== "";
  return event.event === "not_durable" || (event.event === "restart" && event.generation === null && !event.report.startsWith("there was no"));
}

/** Since when a durable copy is missing: the newest one's time, or the beginning of the session without one. */
export function durableSince(job: Job): number | null {
  return job.durable_realtime_ns ?? job.state?.began_realtime_ns ?? null;
}

export interface Verdict {
  severity: "good" | "notice" | "serious";
  sentence: string;
}

/** One sentence about a job. */
export function verdictOf(job: Job, nowNs: number): Verdict {
  const newest = (tiers: (tier: Tier) => boolean) => job.generations.find((one) => tiers(one.tier) && one.state !== "unfinished");
  const broken = [newest((tier) => tier === "memory"), newest((tier) => tier !== "memory")].find((one) => one?.state === "damaged");
  if (broken) {
    return { severity: "serious", sentence: `The newest checkpoint ${TIER_PLACES[broken.tier]}, number ${broken.number}, is damaged; a restart takes an older one.` };
  }
  const memory = job.memory_realtime_ns === null ? "none in memory" : `one in memory from ${age(nowNs - job.memory_realtime_ns)} ago`;
  const boundS = job.state?.staleness_max_s ?? null;
  const since = durableSince(job);
  const old = since === null ? null : (nowNs - since) / 1e9;
  const isLate = old !== null && boundS !== null && old > boundS;
  if (job.durable_realtime_ns === null) {
    const sentence = `No durable checkpoint, ${memory}: what outlives the machine's power is not there yet.`;
    return { severity: isLate && job.is_running === true ? "serious" : "notice", sentence };
  }
  const durable = `A durable checkpoint from ${age(nowNs - job.durable_realtime_ns)} ago`;
  if (isLate && job.is_running === true) {
    return { severity: "serious", sentence: `${durable}, older than its bound of ${seconds(boundS)}; ${memory}.` };
  }
  return { severity: "good", sentence: `${durable}${boundS !== null && job.is_running === true ? ` (bound ${seconds(boundS)})` : ""}, ${memory}.` };
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

/** What a mark says in one line. */
export function markWords(mark: Mark, nowNs: number): string {
  const looks = { ...STATE_WORDS, gone: "made room for newer ones", failed: "failed" };
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
