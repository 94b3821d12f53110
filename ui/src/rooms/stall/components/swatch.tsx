// The small coloured square beside a kind's name.

import { KINDS } from "../words.ts";

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
