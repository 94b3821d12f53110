// The small coloured square beside a kind's name, and the bars made of the same colours.

import { CERTAINTIES, KINDS } from "../model.ts";

/** `null` stands for the unexplained part. */
export function kindClass(kind: number | null): string {
  return kind === null ? "c-unexplained" : `c-${KINDS[kind].id}`;
}

export function Swatch({ kind }: { kind: number | null }) {
  return <span class={`swatch ${kindClass(kind)}`} aria-hidden="true" />;
}

/** A cause in words: its kind, and its name unless that says the same. */
export function CauseName({ kind, name }: { kind: number; name: string }) {
  const { id, label } = KINDS[kind];
  return (
    <>
      <Swatch kind={kind} />
      {label} {name !== id && name !== label && <span class="untrusted muted">{name}</span>}
    </>
  );
}

export interface Segment {
  key: string;
  className: string;
  value: number;
}

/** Parts of a whole side by side. Decoration: the numbers stand beside it. */
export function Bar({ segments, full }: { segments: Segment[]; full: number }) {
  return (
    <span class="bar" aria-hidden="true">
      {segments
        .filter((segment) => segment.value > 0)
        .map((segment) => (
          <span
            key={segment.key}
            class={segment.className}
            style={{ width: `${Math.min(100, (segment.value / full) * 100)}%` }}
          />
        ))}
    </span>
  );
}

/** Full, half, empty: how sure, readable without colour. */
const SURE: Record<string, string> = { certain: "●", probable: "◐", cannot_tell_apart_here: "○" };

export function Certainty({ certainty }: { certainty: string }) {
  return (
    <span class="certainty muted">
      <span aria-hidden="true">{SURE[certainty] ?? "○"}</span> <span class="sure-words">{CERTAINTIES[certainty] ?? certainty}</span>
    </span>
  );
}
