// How bad the state of an interface is, and in which order interfaces are shown; pure.

import type { Interface, Severity } from "../../types.ts";

/** From well to bad, as `InterfaceState` in crates/model. */
export const STATES = ["unknown", "ok", "slow", "losing", "hung"] as const satisfies readonly Interface["state"][];

const SEVERITY: Record<Interface["state"], Severity> = { unknown: "notice", ok: "ok", slow: "warning", losing: "warning", hung: "critical" };

/** A state of a newer server counts as a notice. */
export function severityOf({ state }: Interface): Severity {
  return Object.hasOwn(SEVERITY, state) ? SEVERITY[state] : "notice";
}

/** The worst first, then by name: those that nobody uses last. */
export function byNeed(a: Interface, b: Interface): number {
  const rank = (one: Interface) => STATES.indexOf(one.state);
  return rank(b) - rank(a) || (a.name < b.name ? -1 : 1);
}

/** Packets that were damaged, missed or not sent; undefined where one of the counters is not told. */
export function badCount({ counters: { rx_errors, rx_missed_errors, tx_errors } }: Interface): number | undefined {
  if (typeof rx_errors !== "number" || typeof rx_missed_errors !== "number" || typeof tx_errors !== "number") return undefined;
  return rx_errors + rx_missed_errors + tx_errors;
}

/** The link in a word or two. */
export function linkWords({ is_up, has_carrier, speed_mbit_per_s }: Interface): string {
  if (!is_up) return "off";
  if (has_carrier === false) return "no link";
  return speed_mbit_per_s === null || speed_mbit_per_s === undefined ? "up" : `${speed_mbit_per_s} Mbit/s`;
}
