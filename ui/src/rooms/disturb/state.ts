// What this room knows, as signals.

import { computed, signal } from "@preact/signals";
import { given, go } from "../../address.ts";
import type { Disturb, ExperimentView } from "../../types.ts";

/** The experiments, and one with its runs; `null` until the server was asked. */
export const disturb = signal<Disturb | null>(null);
/** Why there is no newer answer; empty when all is well. */
export const disturbProblem = signal("");

/** The chosen experiment: that of the address, otherwise the one that runs or the newest. */
export const chosen = computed<ExperimentView | null>(() => {
  const all = disturb.value?.experiments ?? [];
  const named = given.value.experiment;
  if (named !== undefined) return all.find(({ experiment }) => experiment === named) ?? null;
  return all.find(({ standing }) => standing === "running") ?? all[0] ?? null;
});

/** The name in the address that no experiment has; empty where it has one, or names none. */
export const missing = computed(() => {
  const named = given.value.experiment;
  return named !== undefined && disturb.value !== null && chosen.value === null ? named : "";
});

export function choose(experiment: string): void {
  go({ experiment, finding: null });
}
