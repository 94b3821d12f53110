// The filters as a command to copy.

import { formatCpuList } from "./cpulist.ts";
import type { Filters } from "./url.ts";

/** How long to watch when the page shows everything that it has. */
const LIVE_S = 900;

/** Quotes a word for a POSIX shell; plain words stay plain. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function length(us: number): string {
  // The command takes no zero; nothing is shorter than a nanosecond.
  if (us < 0.001) return "1ns";
  if (us >= 1000 && us % 1000 === 0) return `${us / 1000}ms`;
  return Number.isInteger(us) ? `${us}us` : `${Math.round(us * 1000)}ns`;
}

/** The command that shows the same in a terminal; `recording` names the file when one is replayed. */
export function commandLine(filters: Filters, recording: string | null): string {
  const kinds = filters.kinds.length > 0 ? ["--kinds", filters.kinds.join(",")] : [];
  // Cores and the least length of a gap were settled when the recording was made; a replay reads all of it.
  if (recording !== null) return ["surefoot stall replay", fileWord(recording), ...kinds].join(" ");
  const cpus = filters.cpus.length > 0 ? ["--cpus", formatCpuList(filters.cpus)] : [];
  const durationS = filters.rangeS > 0 ? filters.rangeS : LIVE_S;
  const rest = ["--min-gap", length(filters.minUs), "--duration", `${durationS}s`];
  return ["surefoot stall report", ...cpus, ...kinds, ...rest].join(" ");
}

function fileWord(path: string): string {
  return shellWord(path.startsWith("-") ? `./${path}` : path);
}
