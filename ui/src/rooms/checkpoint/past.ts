// The journals of jobs as the history kept them; pure.

import { isRecord } from "../../api.ts";
import type { EntryView, PastRecord, Severity } from "../../types.ts";

export interface PastJob {
  name: string;
  /** Oldest first. */
  entries: EntryView[];
}

/** The journals of the jobs in these records, and how many records are something else. */
export function journalsOf(records: readonly PastRecord[]): { jobs: PastJob[]; others: number } {
  const jobs = new Map<string, EntryView[]>();
  let others = 0;
  for (const { room, subject, at_realtime_ns: atNs, severity, body } of records) {
    if (room !== "checkpoint") continue;
    const entries = subject.kind === "job" ? entriesOf(body, atNs, severity) : [];
    if (entries.length === 0) {
      others += 1;
      continue;
    }
    const known = jobs.get(subject.name);
    if (known) known.push(...entries);
    else jobs.set(subject.name, entries);
  }
  const byTime = (a: EntryView, b: EntryView) => a.realtime_ns - b.realtime_ns;
  const list = [...jobs].map(([name, entries]) => ({ name, entries: entries.sort(byTime) }));
  return { jobs: list.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true })), others };
}

/** The lines of a journal in a record: one as it was written, or those of a `CheckpointEvent`. */
function entriesOf(body: unknown, atNs: number, severity: Severity): EntryView[] {
  if (!isRecord(body)) return [];
  const lines: unknown[] = body.seen === "journal" && Array.isArray(body.entries) ? body.entries : [body];
  const isLine = (line: unknown): line is Record<string, unknown> => isRecord(line) && typeof line.event === "string";
  return lines.filter(isLine).map((line) => ({ realtime_ns: atNs, ...line, severity }) as unknown as EntryView);
}
