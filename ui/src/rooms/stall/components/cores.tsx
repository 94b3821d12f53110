import { roundToSum } from "../../../format.ts";
import type { CoreSum } from "../ledger.ts";
import * as state from "../state.ts";
import { ledgerSegments, lostSegments } from "./ledger.tsx";
import { Bar } from "../../../components/bar.tsx";
import { SortTable, type ColumnOf } from "../../../components/table.tsx";

/** Hundredths of a percent, so that the six parts of a row add up to 100.00 by eye. */
function percents(core: CoreSum): string[] {
  if (core.wallNs <= 0) return ["–", "–", "–", "–", "–", "–"];
  const parts = [core.idleNs, core.userNs, core.kernelNs, core.lostNs, core.whileIdleNs, core.unexplainedNs];
  return roundToSum(parts, core.wallNs, core.wallNs / 10_000).map((steps) => (steps / 100).toFixed(2));
}

export function Cores() {
  const rows = state.cores.value.map((core) => ({ core, percents: percents(core) }));
  const mostLost = rows.reduce((most, { core }) => Math.max(most, (core.lostNs + core.unexplainedNs) / core.wallNs), 0);
  type Row = (typeof rows)[number];
  const part = (key: string, title: string, at: number, of: (core: CoreSum) => number): ColumnOf<Row> => ({
    key,
    title,
    className: "number",
    order: ({ core }) => of(core) / core.wallNs,
    cell: (row) => (at >= 3 ? state.ifSeen(of(row.core), row.percents[at] ?? "") : row.percents[at]),
  });
  const columns: ColumnOf<Row>[] = [
    { key: "core", title: "Core", className: "number core", order: ({ core }) => core.cpu, cell: ({ core }) => core.cpu },
    {
      key: "time",
      title: "Time",
      className: "wide",
      hint: "Idle and what delayed no task, user, kernel, lost, unexplained",
      order: ({ core }) => core.idleNs / core.wallNs,
      cell: ({ core }) => <Bar segments={ledgerSegments(core)} full={core.wallNs} />,
    },
    part("idle", "Idle", 0, (core) => core.idleNs),
    part("user", "User", 1, (core) => core.userNs),
    part("kernel", "Kernel", 2, (core) => core.kernelNs),
    part("lost", "Lost", 3, (core) => core.lostNs),
    { ...part("while-idle", "While idle", 4, (core) => core.whileIdleNs), hint: "Interrupts and kernel threads while no task ran or waited" },
    part("unexplained", "Unexpl.", 5, (core) => core.unexplainedNs),
    {
      key: "causes",
      title: "Lost, by cause",
      className: "wide",
      hint: "Lost and unexplained time, drawn larger: the core with the most fills the bar",
      order: ({ core }) => (core.lostNs + core.unexplainedNs) / core.wallNs,
      cell: ({ core }) => <Bar segments={lostSegments(core, state.mask.value)} full={mostLost * core.wallNs} />,
    },
  ];
  return (
    <section class="card" data-testid="cores" aria-labelledby="cores-title">
      <div class="card-head">
        <h2 id="cores-title">Where each core's time went</h2>
        <p class="muted">percent of wall; each row adds up to 100.00</p>
      </div>
      {rows.length > 0 ? (
        <SortTable
          label="Time per core"
          rows={rows}
          columns={columns}
          rowKey={(row) => String(row.core.cpu)}
          first="core"
          upwards
          room={16}
        />
      ) : (
        <p class="empty">No core to show in this range.</p>
      )}
    </section>
  );
}
