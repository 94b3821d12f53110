// How sure a statement is.

import type { Certainty as Sure } from "../types.ts";

const WORDS: Record<Sure, string> = {
  certain: "certain",
  probable: "probable",
  cannot_tell_apart_here: "cannot be told apart here",
};

/** Full, half, empty: readable without colour. */
const SIGNS: Record<Sure, string> = { certain: "●", probable: "◐", cannot_tell_apart_here: "○" };

export function Certainty({ certainty }: { certainty: Sure }) {
  return (
    <span class="certainty muted">
      <span aria-hidden="true">{SIGNS[certainty] ?? "○"}</span> <span class="sure-words">{WORDS[certainty] ?? certainty}</span>
    </span>
  );
}
