// What this room knows, as signals.

import { computed, signal } from "@preact/signals";
import { given, go } from "../../address.ts";
import type { Memory, MemoryInterval } from "../../types.ts";

/** The modules and their errors; `null` until the server was asked. */
export const memory = signal<Memory | null>(null);
/** What each polling interval would cost and lose; `null` until the server was asked. */
export const interval = signal<MemoryInterval | null>(null);
/** Why that is not known; empty when all is well. */
export const intervalProblem = signal("");
/** Why there is no newer answer; empty when all is well. */
export const memoryProblem = signal("");
/** What the chosen module is known by; empty for the one that needs a look most. */
export const chosenDimm = computed(() => given.value.dimm ?? "");

export function chooseDimm(id: string | null): void {
  go({ dimm: id });
}
