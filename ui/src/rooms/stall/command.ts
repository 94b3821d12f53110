// The filters as a command to copy.

import { formatCpuList } from "../../cpulist.ts";
import { fileWord } from "../../shell.ts";
import type { Filters } from "./filters.ts";

function length(us: number): string {
  // The command takes no zero; nothing is shorter than a nanosecond.
  if (us < 0.001) return "1ns";
  if (us >= 1000 && us % 1000 === 0) return `${us / 1000}ms`;
  return Number.isInteger(us) ? `${us}us` : `${Math.round(us * 1000)}ns`;
}

/**
 * The command that shows the same in a terminal; `recording` names the file when one is replayed.
 * `lookedForUs` is the least length of the gaps in it, which a replay need not be told.
 */
export function commandLine(filters: Filters, recording: string | null, lookedForUs: number): string {
  const cpus = filters.cpus.length > 0 ? ["--cpu", formatCpuList(filters.cpus)] : [];
  const kinds = filters.kinds.length > 0 ? ["--kinds", filters.kinds.join(",")] : [];
  const minGap = ["--min-gap", length(filters.minUs)];
  if (recording !== null) {
    const file = ["surefoot stall replay", fileWord(recording)];
    return [...file, ...cpus, ...kinds, ...(filters.minUs === lookedForUs ? [] : minGap)].join(" ");
  }
  // Everything that the page has is a day at most; a report would only begin now.
  if (filters.rangeS === 0) return ["surefoot history --room stall --last 24h", ...cpus].join(" ");
  return ["surefoot stall report", ...cpus, ...kinds, ...minGap, "--duration", `${filters.rangeS}s`].join(" ");
}
