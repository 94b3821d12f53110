// What this room knows, as signals.

import { computed, signal } from "@preact/signals";
import { given, go } from "../../address.ts";
import type { Checkpoints } from "../../types.ts";

/** What lies in the directories of checkpoints; `null` until the server was asked. */
export const checkpoints = signal<Checkpoints | null>(null);
/** Why there is no newer answer; empty when all is well. */
export const checkpointsProblem = signal("");
/** The name of the job that somebody chose; empty for the one that needs a look most. */
export const chosenJob = computed(() => given.value.job ?? "");

export function chooseJob(name: string | null): void {
  go({ job: name });
}
