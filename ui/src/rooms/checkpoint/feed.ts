// What this room asks of the server.

import type { Checkpoints } from "../../types.ts";
import { getJson, isRecord, unusable } from "../../api.ts";
import type { Question } from "../../poller.ts";
import { past } from "../../state.ts";
import * as state from "./state.ts";

/** The server looks every two seconds at most. */
const REFRESH_MS = 3000;

/** What lies in the directories of checkpoints. */
export function checkCheckpoints(value: unknown): Checkpoints {
  if (!isRecord(value)) throw unusable("answer about checkpoints", "object");
  for (const list of ["directories", "jobs", "problems"]) if (!Array.isArray(value[list])) throw unusable("answer about checkpoints", list);
  const isJob = (job: unknown) => isRecord(job) && ["generations", "events", "findings"].every((list) => Array.isArray(job[list]));
  if (!(value.jobs as unknown[]).every(isJob)) throw unusable("answer about checkpoints", "jobs");
  return value as unknown as Checkpoints;
}

const CHECKPOINTS: Question = {
  name: "checkpoints",
  everyMs: REFRESH_MS,
  problem: state.checkpointsProblem,
  wanted: () => (past.value === null ? "checkpoints" : null),
  async ask(isLate) {
    const answer = checkCheckpoints(await getJson("api/v1/checkpoints"));
    if (!isLate()) state.checkpoints.value = answer;
    // Nothing comes of asking again where nothing is watched.
    return answer.why === undefined ? undefined : "done";
  },
};

export const questions: readonly Question[] = [CHECKPOINTS];
