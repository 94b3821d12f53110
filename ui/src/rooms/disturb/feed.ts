// What this room asks of the server.

import type { Disturb } from "../../types.ts";
import { getJson, isRecord, unusable } from "../../api.ts";
import type { Question } from "../../poller.ts";
import { past } from "../../state.ts";
import * as state from "./state.ts";

/** The server looks every second; an experiment goes on for minutes. */
const REFRESH_MS = 3000;

/** The experiments of an answer. */
export function checkDisturb(value: unknown): Disturb {
  const name = "answer about experiments";
  if (!isRecord(value)) throw unusable(name, "object");
  for (const list of ["experiments", "problems", "predictions"]) if (!Array.isArray(value[list])) throw unusable(name, list);
  const isOne = (one: unknown) => isRecord(one) && typeof one.experiment === "string" && typeof one.standing === "string" && Array.isArray(one.cores);
  if (!(value.experiments as unknown[]).every(isOne)) throw unusable(name, "experiments");
  const isPrediction = (one: unknown) => isRecord(one) && typeof one.nodes === "number" && typeof one.slowdown === "number" && Array.isArray(one.noises);
  if (!(value.predictions as unknown[]).every(isPrediction)) throw unusable(name, "predictions");
  const { detail } = value;
  const isDetail = (one: unknown) => isRecord(one) && ["runs", "rows", "cores", "stalls"].every((list) => Array.isArray(one[list]));
  if (detail !== undefined && !isDetail(detail)) throw unusable(name, "detail");
  return value as unknown as Disturb;
}

const DISTURB: Question = {
  name: "disturb",
  everyMs: REFRESH_MS,
  problem: state.disturbProblem,
  wanted: () => (past.value === null ? `disturb ${state.chosen.value?.experiment ?? ""}` : null),
  async ask(isLate) {
    const one = state.chosen.value?.experiment;
    const query = one === undefined ? "" : `?experiment=${encodeURIComponent(one)}`;
    const answer = checkDisturb(await getJson(`api/v1/disturb${query}`));
    if (!isLate()) state.disturb.value = answer;
    return undefined;
  },
};

export const questions: readonly Question[] = [DISTURB];
