// Remedies on one host: its periodic checks with what each found and cost. The fleet's cases are at `surefoot remedy serve`.

import { RoomFindings } from "../../components/findings.tsx";
import { DeedsCard } from "../../overview/deeds.tsx";
import { PastState } from "../../components/past.tsx";
import { SeverityIcon } from "../../components/severity.tsx";
import { SortTable, type ColumnOf } from "../../components/table.tsx";
import { age, duration } from "../../format.ts";
import { rank } from "../../severity.ts";
import { past, realtimeNow } from "../../state.ts";
import type { CheckView } from "../../types.ts";
import { remedy, remedyProblem } from "./feed.ts";

/** Checks before "Show all". */
const ROWS = 30;

const COLUMNS: readonly ColumnOf<CheckView>[] = [
  { key: "check", title: "Check", order: ({ name }) => name, cell: ({ name }) => <code class="untrusted">{name}</code> },
  {
    key: "state",
    title: "State",
    order: ({ severity }) => rank(severity),
    cell: ({ state, severity }) => (
      <span class="severity">
        <SeverityIcon severity={severity} size={14} /> {state}
      </span>
    ),
  },
  { key: "sentence", title: "Found", order: ({ sentence }) => sentence, cell: ({ sentence }) => <span class="untrusted">{sentence}</span> },
  { key: "age", title: "Asked", className: "figures", order: (one) => one.at_realtime_ns, cell: (one) => `${age(realtimeNow() - one.at_realtime_ns)} ago` },
  { key: "took", title: "Took", className: "figures", order: (one) => one.took_ns, cell: (one) => duration(one.took_ns) },
  { key: "processor", title: "Processor", className: "figures", order: (one) => one.processor_ns, cell: (one) => duration(one.processor_ns) },
];

export function Remedies() {
  if (past.value !== null) {
    return (
      <>
        <PastState>The history has what was found and done in this range, not each run of a check.</PastState>
        <RoomFindings />
      </>
    );
  }
  const answer = remedy.value;
  return (
    <>
      <RoomFindings />
      <section class="card" data-testid="checks" aria-label="Periodic checks">
        <h2>Periodic checks</h2>
        {remedyProblem.value !== "" && <p class="problems">{remedyProblem.value}</p>}
        {answer && answer.checks.length === 0 && <p class="muted untrusted">{answer.why ?? "No check has ended yet."}</p>}
        {answer && answer.checks.length > 0 && (
          <SortTable label="Periodic checks" rows={answer.checks} columns={COLUMNS} rowKey={({ name }) => name} first="state" room={ROWS} />
        )}
      </section>
      <DeedsCard room="remedy" />
      <p class="muted aside">
        Cases of the fleet, their timelines and approvals are at the address of <code>surefoot remedy serve</code>; this page cannot change anything.
      </p>
    </>
  );
}
