// How bad a finding is, and the order in which people read findings; pure.

import type { Finding, Severity } from "./types.ts";

/** From well to bad. */
export const SEVERITIES = ["ok", "notice", "warning", "critical"] as const satisfies readonly Severity[];

export const SEVERITY_WORDS: Record<Severity, string> = { ok: "OK", notice: "Notice", warning: "Warning", critical: "Critical" };

/** A severity of a newer server counts as a notice. */
export function known(severity: Severity): Severity {
  return SEVERITIES.includes(severity) ? severity : "notice";
}

/** The worst of these; `null` without any. */
export function worst(all: readonly Severity[]): Severity | null {
  return all.reduce<Severity | null>((one, other) => (one === null || rank(other) > rank(one) ? other : one), null);
}

/** From well to bad, for an order. */
export function rank(severity: Severity): number {
  return SEVERITIES.indexOf(known(severity));
}

const SURENESS = ["certain", "probable", "cannot_tell_apart_here"];

/** In the order of the page; those of a newer server come first. */
const ROOMS = ["stall", "memory", "checkpoint", "nic", "disturb", "remedy", "watch"];

/** The worst first; of equals the surer, then those of the first room, then the older: the order of `by_urgency` in crates/model. */
export function byUrgency(a: Finding, b: Finding): number {
  return (
    rank(b.severity) - rank(a.severity) ||
    SURENESS.indexOf(a.certainty) - SURENESS.indexOf(b.certainty) ||
    ROOMS.indexOf(a.room) - ROOMS.indexOf(b.room) ||
    a.since_realtime_ns - b.since_realtime_ns ||
    (a.key < b.key ? -1 : 1)
  );
}

export function isAboveOk({ severity }: Pick<Finding, "severity">): boolean {
  return known(severity) !== "ok";
}

const SUBJECTS: Record<string, string> = { dimm: "DIMM", host: "this host" };

/** What a finding is about, in words. */
export function subjectWords({ kind, name }: Finding["subject"]): string {
  const word = Object.hasOwn(SUBJECTS, kind) ? SUBJECTS[kind] : kind;
  return name === "" ? word : `${word} ${name}`;
}
