import { count, duration, share, timed } from "../../../format.ts";
import { lostNs, type CauseSum } from "../ledger.ts";
import { KINDS } from "../words.ts";
import { past } from "../../../state.ts";
import * as state from "../state.ts";
import { Bar } from "../../../components/bar.tsx";
import { CauseName, kindClass } from "./swatch.tsx";
import { SortTable, type ColumnOf } from "../../../components/table.tsx";

function reported(cause: CauseSum) {
  return state.reportCauses.value.get(`${KINDS[cause.kind].id}/${cause.name}`);
}

/** Causes of the range, cores and kinds chosen; percentiles come from the server's report of the same. */
export function Causes() {
  const whole = state.whole.value;
  const mask = state.mask.value;
  const rows = whole.lost.filter((cause) => mask[cause.kind] && (cause.count > 0 || cause.totalNs > 0));
  const most = rows.reduce((largest, cause) => Math.max(largest, lostNs(cause)), 0);
  const shown = rows.reduce((sum, cause) => sum + lostNs(cause), 0);
  // No percentile, or a longest of zero, means that the source does not know single durations.
  const percentile = (ns: number | null | undefined) => (ns ? duration(ns) : "–");
  const columns: ColumnOf<CauseSum>[] = [
    {
      key: "cause",
      title: "Cause",
      className: "name",
      order: (row) => `${KINDS[row.kind].label} ${row.name}`,
      cell: (row) => (
        <span class="one-line" title={row.name}>
          <CauseName kind={row.kind} name={row.name} />
        </span>
      ),
    },
    {
      key: "count",
      title: "Count",
      className: "number",
      order: (row) => row.count,
      // Time without an occurrence: the source counts none, as for steal.
      cell: (row) => (row.count === 0 && row.totalNs > 0 ? "–" : count(row.count)),
    },
    {
      key: "total",
      title: "Lost",
      className: "number",
      hint: "Taken from tasks that ran or waited",
      order: lostNs,
      cell: (row) => timed(row.totalNs, row.count, duration(lostNs(row))),
    },
    {
      key: "share",
      title: "Of time",
      className: "number",
      order: lostNs,
      cell: (row) => (
        <span class="barred">
          <Bar segments={[{ key: "total", className: kindClass(row.kind), value: lostNs(row) }]} full={most} />
          <span>{timed(row.totalNs, row.count, share(lostNs(row), whole.wallNs)).replace("not timed", "–")}</span>
        </span>
      ),
    },
    {
      key: "idle",
      title: "While idle",
      className: "number",
      hint: "Time while no task ran on the core or waited for it, which delayed no task",
      order: (row) => row.whileIdleNs,
      cell: (row) => timed(row.totalNs, row.count, duration(row.whileIdleNs)),
    },
    {
      key: "p50",
      title: "p50",
      className: "number",
      hint: "Half were no longer than this",
      order: (row) => reported(row)?.p50_ns || null,
      cell: (row) => percentile(reported(row)?.p50_ns),
    },
    {
      key: "p99",
      title: "p99",
      className: "number",
      hint: "99 of 100 were no longer than this",
      order: (row) => reported(row)?.p99_ns || null,
      cell: (row) => percentile(reported(row)?.p99_ns),
    },
    {
      key: "max",
      title: "Max",
      className: "number",
      hint: "The longest within the range",
      order: (row) => row.maxNs,
      cell: (row) => percentile(row.maxNs),
    },
  ];
  return (
    <section class="card" data-testid="causes" aria-labelledby="causes-title">
      <div class="card-head">
        <h2 id="causes-title">Largest causes</h2>
        <p class="muted">
          {whole.wallNs > 0 && `${duration(shown)} lost to named causes, ${state.ifSeen(whole.unexplainedNs, duration(whole.unexplainedNs))} unexplained; max is the longest of the range`}
        </p>
      </div>
      {state.reportProblem.value !== "" && past.value === null && (
        <p class="problems" role="status">
          Could not load the percentiles: <span class="untrusted">{state.reportProblem.value}</span>.
        </p>
      )}
      {rows.length > 0 ? (
        <SortTable
          label="Largest causes"
          rows={rows}
          columns={past.value === null ? columns : columns.filter(({ key }) => key !== "p50" && key !== "p99")}
          rowKey={(row) => `${row.kind}/${row.name}`}
          first="total"
          room={12}
        />
      ) : (
        <p class="empty">{whole.wallNs > 0 ? "No cause took time in this range." : "Nothing is known of the cores chosen in this range."}</p>
      )}
    </section>
  );
}
