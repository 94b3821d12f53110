// Severity as a sign and a word, never as a colour alone.

import { known, SEVERITY_WORDS } from "../severity.ts";
import type { Severity } from "../types.ts";
import { Icon } from "./icons.tsx";

/** The sign alone, with its word for whoever does not see it. */
export function SeverityIcon({ severity, size = 16 }: { severity: Severity; size?: number }) {
  const name = known(severity);
  return (
    <span class={`sign ${name}`} title={SEVERITY_WORDS[name]}>
      <Icon name={name} size={size} />
      <span class="visually-hidden">{SEVERITY_WORDS[name]}: </span>
    </span>
  );
}

export function SeverityBadge({ severity, size = 16 }: { severity: Severity; size?: number }) {
  const name = known(severity);
  return (
    <span class={`severity sign ${name}`}>
      <Icon name={name} size={size} />
      {SEVERITY_WORDS[name]}
    </span>
  );
}
