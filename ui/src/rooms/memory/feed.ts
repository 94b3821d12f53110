// What this room asks of the server.

import type { Memory, MemoryInterval } from "../../types.ts";
import { getJson, isRecord, unusable } from "../../api.ts";
import type { Question } from "../../poller.ts";
import { past } from "../../state.ts";
import * as state from "./state.ts";

/** The server looks every ten seconds, and tells reports each second. */
const REFRESH_MS = 3000;

/** The modules and their errors. */
export function checkMemory(value: unknown): Memory {
  const name = "answer about memory errors";
  if (!isRecord(value)) throw unusable(name, "object");
  for (const list of ["dimms", "controllers", "slots", "problems", "reports", "lost", "checks", "costs", "dimm_costs"]) if (!Array.isArray(value[list])) throw unusable(name, list);
  const isDimm = (dimm: unknown) => isRecord(dimm) && typeof dimm.id === "string" && typeof dimm.label === "string" && isRecord(dimm.spread);
  if (!(value.dimms as unknown[]).every(isDimm)) throw unusable(name, "dimms");
  return value as unknown as Memory;
}

const MEMORY: Question = {
  name: "memory",
  everyMs: REFRESH_MS,
  problem: state.memoryProblem,
  wanted: () => (past.value === null ? "memory" : null),
  async ask(isLate) {
    const answer = checkMemory(await getJson("api/v1/memory"));
    if (!isLate()) state.memory.value = answer;
    // What has no source has none a moment later.
    return answer.why !== undefined && answer.looked_realtime_ns !== null ? "done" : undefined;
  },
};

export function checkInterval(value: unknown): MemoryInterval {
  const name = "answer about polling intervals";
  if (!isRecord(value)) throw unusable(name, "object");
  for (const list of ["points", "assumptions"]) if (!Array.isArray(value[list])) throw unusable(name, list);
  return value as unknown as MemoryInterval;
}

/** The picture changes with the worst rate only. */
const INTERVAL_MS = 60_000;

const INTERVAL: Question = {
  name: "interval",
  everyMs: INTERVAL_MS,
  problem: state.intervalProblem,
  wanted: () => (past.value === null && state.memory.value !== null && state.memory.value.why === undefined ? "interval" : null),
  async ask(isLate) {
    const answer = checkInterval(await getJson("api/v1/memory/interval"));
    if (!isLate()) state.interval.value = answer;
    return undefined;
  },
};

export const questions: readonly Question[] = [MEMORY, INTERVAL];
