// The filters as a command to copy.

import { formatCpuList } from "./cpulist.ts";
import type { Filters } from "./url.ts";

/** Quotes a word for a POSIX shell; plain words stay plain. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function length(us: number): string {
  if (us >= 1000 && us % 1000 === 0) return `${us / 1000}ms`;
  return Number.isInteger(us) ? `${us}us` : `${Math.round(us * 1000)}ns`;
}

/** The command that shows the same in a terminal; `recording` names the file when one is replayed. */
export function commandLine(filters: Filters, recording: string | null): string {
  const words = recording === null ? ["surefoot stall report"] : ["surefoot stall replay", fileWord(recording)];
  if (filters.cpus.length > 0) words.push("--cpus", formatCpuList(filters.cpus));
  if (filters.kinds.length > 0) words.push("--kinds", filters.kinds.join(","));
  words.push("--min-gap", length(filters.minUs));
  // A replay reads the whole recording; only a live report needs to know when to stop.
  if (recording === null) words.push("--duration", `${filters.rangeS > 0 ? filters.rangeS : 900}s`);
  return words.join(" ");
}

function fileWord(path: string): string {
  return shellWord(path.startsWith("-") ? `./${path}` : path);
}
