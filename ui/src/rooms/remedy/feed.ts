// What this room asks of the server, and what is known of it.

import { signal } from "@preact/signals";
import { getJson, isRecord, unusable } from "../../api.ts";
import type { Question } from "../../poller.ts";
import { past } from "../../state.ts";
import type { Remedy } from "../../types.ts";

/** Checks are run every minute at the most. */
const REFRESH_MS = 5000;

export const remedy = signal<Remedy | null>(null);
export const remedyProblem = signal("");

export function checkRemedy(value: unknown): Remedy {
  const name = "answer about remedies";
  if (!isRecord(value)) throw unusable(name, "object");
  if (!Array.isArray(value.checks)) throw unusable(name, "checks");
  const isCheck = (one: unknown) => isRecord(one) && typeof one.name === "string" && typeof one.state === "string" && typeof one.at_realtime_ns === "number";
  if (!value.checks.every(isCheck)) throw unusable(name, "checks");
  return value as unknown as Remedy;
}

const REMEDY: Question = {
  name: "remedy",
  everyMs: REFRESH_MS,
  problem: remedyProblem,
  wanted: () => (past.value === null ? "remedy" : null),
  async ask(isLate) {
    const answer = checkRemedy(await getJson("api/v1/remedy"));
    if (!isLate()) remedy.value = answer;
    return undefined;
  },
};

export const questions: readonly Question[] = [REMEDY];
