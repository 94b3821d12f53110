// What this room asks of the server.

import type { Nic, NicCampaign, NicMovie } from "../../types.ts";
import { getJson, isRecord, unusable } from "../../api.ts";
import type { Question } from "../../poller.ts";
import { past } from "../../state.ts";
import { keyOf } from "./campaign.ts";
import * as state from "./state.ts";

/** The server looks every ten seconds. */
const REFRESH_MS = 5000;

/** The interfaces of an answer. */
export function checkNic(value: unknown): Nic {
  const name = "answer about network interfaces";
  if (!isRecord(value)) throw unusable(name, "object");
  for (const list of ["interfaces", "problems", "changes"]) if (!Array.isArray(value[list])) throw unusable(name, list);
  const isOne = (one: unknown) =>
    isRecord(one) && typeof one.name === "string" && typeof one.state === "string" && isRecord(one.counters) && ["evidence", "reporters", "carries"].every((list) => Array.isArray(one[list]));
  if (!(value.interfaces as unknown[]).every(isOne)) throw unusable(name, "interfaces");
  return value as unknown as Nic;
}

const NIC: Question = {
  name: "nic",
  everyMs: REFRESH_MS,
  problem: state.nicProblem,
  wanted: () => (past.value === null ? "nic" : null),
  async ask(isLate) {
    const answer = checkNic(await getJson("api/v1/nic"));
    if (!isLate()) state.nic.value = answer;
    // Interfaces may come later: a cable, a module, a namespace.
    return undefined;
  },
};

/** A campaign that runs appends to its file. */
const CAMPAIGN_MS = 5000;
/** A large file is read at the first question. */
const CAMPAIGN_TIMEOUT_MS = 30_000;

/** The tables of campaigns, and the faults of one. */
export function checkCampaign(value: unknown): NicCampaign {
  const name = "answer about fault campaigns";
  if (!isRecord(value)) throw unusable(name, "object");
  for (const list of ["files", "tables"]) if (!Array.isArray(value[list])) throw unusable(name, list);
  const isTable = (table: unknown) =>
    isRecord(table) && typeof table.experiment === "string" && isRecord(table.coverage) && isRecord(table.failures) && ["outcomes", "standard", "detected_by"].every((list) => Array.isArray(table[list]));
  if (!(value.tables as unknown[]).every(isTable)) throw unusable(name, "tables");
  if (value.list !== null && (!isRecord(value.list) || !Array.isArray(value.list.faults))) throw unusable(name, "list");
  return value as unknown as NicCampaign;
}

/** What is asked: the tables, and the faults of the chosen outcome. */
function campaignQuery(): string {
  const [table, outcome] = [state.chosenTable.value, state.chosenOutcome.value];
  if (table === null || outcome === "") return "";
  return `?table=${encodeURIComponent(keyOf(table))}&outcome=${outcome}&offset=${state.faultsFrom.value}&limit=${state.FAULTS_SHOWN}`;
}

const CAMPAIGN: Question = {
  name: "campaign",
  everyMs: CAMPAIGN_MS,
  problem: state.campaignProblem,
  wanted: () => (past.value === null ? `campaign${campaignQuery()}` : null),
  async ask(isLate) {
    const answer = checkCampaign(await getJson(`api/v1/nic/campaign${campaignQuery()}`, CAMPAIGN_TIMEOUT_MS));
    if (!isLate()) state.campaign.value = answer;
    // Files are named when the watch starts.
    return answer.why === undefined ? undefined : "done";
  },
};

export function checkMovie(value: unknown): NicMovie {
  const name = "fault movie";
  if (!isRecord(value)) throw unusable(name, "object");
  if (!isRecord(value.fault) || typeof value.fault.id !== "string") throw unusable(name, "fault");
  const isScene = (scene: unknown) => isRecord(scene) && typeof scene.since_ns === "number";
  if (!Array.isArray(value.scenes) || !value.scenes.every(isScene)) throw unusable(name, "scenes");
  return value as unknown as NicMovie;
}

const MOVIE: Question = {
  name: "movie",
  everyMs: null,
  problem: state.movieProblem,
  wanted: () => (past.value === null && state.chosenFault.value !== "" ? `movie ${state.chosenFault.value}` : null),
  async ask(isLate) {
    // What was wrong with another fault is not wrong with this one.
    state.movieProblem.value = "";
    const answer = checkMovie(await getJson(`api/v1/nic/movie?fault=${encodeURIComponent(state.chosenFault.value)}`, CAMPAIGN_TIMEOUT_MS));
    if (!isLate()) state.movie.value = answer;
    // A replay gives the same each time.
    return "done";
  },
};

export const questions: readonly Question[] = [NIC, CAMPAIGN, MOVIE];
