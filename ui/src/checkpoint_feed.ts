// Asks for the checkpoints while somebody looks at them, and not otherwise.

import { batch, effect } from "@preact/signals";
import { fetchCheckpoints } from "./api.ts";
import { sentence } from "./feed.ts";
import * as state from "./state.ts";

/** The server looks every two seconds at most. */
const REFRESH_MS = 3000;

let timer = 0;
/** Rises whenever asking begins or ends, so that a late answer is dropped. */
let turn = 0;

async function ask(own: number): Promise<void> {
  try {
    const answer = await fetchCheckpoints();
    if (own !== turn) return;
    batch(() => {
      state.checkpoints.value = answer;
      state.checkpointsProblem.value = "";
    });
    // Nothing comes of asking again where nothing is watched.
    if (answer.why !== undefined) return;
  } catch (error) {
    if (own !== turn) return;
    state.checkpointsProblem.value = sentence(error);
  }
  timer = window.setTimeout(() => void ask(own), REFRESH_MS);
}

/** Asks as long as the view is open and the page is not paused. */
export function followCheckpoints(): void {
  effect(() => {
    const isWanted = state.view.value === "checkpoints" && state.connection.value.phase !== "paused";
    turn += 1;
    clearTimeout(timer);
    if (isWanted) void ask(turn);
  });
}
