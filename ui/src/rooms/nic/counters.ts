// What is counted of an interface; pure.

import type { InterfaceView as Interface } from "../../types.ts";

/** Packets that were damaged, missed or not sent; undefined where the driver lacks one of the counters. */
export function badCount({ counters: { rx_errors, rx_missed_errors, tx_errors } }: Pick<Interface, "counters">): number | undefined {
  if (typeof rx_errors !== "number" || typeof rx_missed_errors !== "number" || typeof tx_errors !== "number") return undefined;
  return rx_errors + rx_missed_errors + tx_errors;
}
