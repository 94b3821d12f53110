// One experiment: what it came to, its runs over time, its stalls core by core, and what to keep in mind.

import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";
import { count, duration, share } from "../../../format.ts";
import type { CoreStalls, DetailView, ExperimentEffect, ExperimentRow, ExperimentRun, ExperimentView } from "../../../types.ts";
import { conditionWords, isOf, isOfSeveral, lateWords, nameOf, ratioSeries, ratioWords, resultWords, rowsOf, runNotes, runSeries, stallSeries, tablesOf, valueWords } from "../experiment.ts";
import { Plot } from "./plot.tsx";

export function One({ one, detail }: { one: ExperimentView; detail: DetailView | undefined }) {
  const effect = one.ended?.effect ?? null;
  const warnings = [...(effect?.notes ?? []), ...(effect?.warnings ?? []), ...(one.ended?.warnings ?? [])];
  const isHere = isOf(detail, one.experiment);
  return (
    <>
      <section class="card" data-testid="experiment" data-experiment={one.experiment} aria-label={`Experiment ${nameOf(one)}`}>
        <div class="card-head">
          <h2 class="untrusted">{nameOf(one)}</h2>
          <span class="muted">{one.standing}</span>
        </div>
        <p class="disturb-said untrusted">
          It {one.what}
          {one.method === "" ? "" : ` (${one.method})`}. {effect ? <Result effect={effect} /> : `Result: ${resultWords(one)}.`}
        </p>
        {effect && <Facts effect={effect} />}
        {warnings.length > 0 && (
          <>
            <h3>To keep in mind</h3>
            <ul class="disturb-lines" data-testid="experiment-warnings">
              {warnings.map((warning) => (
                <li key={warning} class="untrusted">
                  {warning}
                </li>
              ))}
            </ul>
          </>
        )}
      </section>
      {isHere && detail.rows.length > 0 && <Rows detail={detail} />}
      {isHere && detail.runs.length > 0 && <Runs one={one} detail={detail} outliers={effect?.outlier_runs ?? []} />}
      {isHere && detail.cores.length > 0 && <Stalls one={one} detail={detail} />}
    </>
  );
}

/** With less an effect is shown too often where there is none. */
const CONFIDENCE_ENOUGH = 0.95;

function Result({ effect }: { effect: ExperimentEffect }) {
  const { ratio, interval_low, interval_high, confidence, effect_shown, minimum_detectable_ratio } = effect;
  return (
    <>
      Ratio, disturbed / undisturbed:{" "}
      <strong data-testid="experiment-ratio">
        {ratioWords(ratio)} ({(confidence * 100).toFixed(1)} % interval {ratioWords(interval_low)} to {ratioWords(interval_high)})
      </strong>
      .{" "}
      {effect_shown && confidence < CONFIDENCE_ENOUGH
        ? "The interval excludes 1, but an effect is shown only with 6 pairs of runs or more."
        : effect_shown
        ? "An effect is shown: the interval excludes 1."
        : `No effect is shown; one of ${((minimum_detectable_ratio - 1) * 100).toFixed(1)} % or more would have been, in 4 of 5 such experiments.`}
    </>
  );
}

function Facts({ effect }: { effect: ExperimentEffect }) {
  const { metric, end_late_median_ns, end_skew_median_ns } = effect;
  return (
    <dl class="disturb-facts" data-testid="experiment-facts">
      <dt>Stalled</dt>
      <dd>
        {share(effect.injected_share, 1)} of the disturbed runs' time, {count(effect.stall_count)} stalls
      </dd>
      <dt>Undisturbed, disturbed</dt>
      <dd class="untrusted">
        {valueWords(metric, effect.undisturbed_median)}, {valueWords(metric, effect.disturbed_median)} (medians of {metric})
      </dd>
      {end_late_median_ns !== null && effect.length_ns > 0 && (
        <>
          <dt>Stalls ended</dt>
          <dd>
            {lateWords(end_late_median_ns)} late{end_skew_median_ns === null ? "" : `, cores ${lateWords(end_skew_median_ns)} apart`} (medians)
          </dd>
        </>
      )}
      <dt>Workload</dt>
      <dd class="untrusted">
        <code>{effect.workload}</code>
      </dd>
      <dt>Method</dt>
      <dd class="untrusted">{effect.method_words}</dd>
    </dl>
  );
}

function Runs({ one, detail, outliers }: { one: ExperimentView; detail: DetailView; outliers: readonly number[] }) {
  const { metric } = one;
  const columns: readonly Folding<ExperimentRun>[] = [
    { title: "run", cell: ({ run, case: of }) => (of ? `${run} ${of}` : `${run}`) },
    { title: "kind", cell: ({ condition, treatment }) => (treatment ? `${conditionWords(condition)}: ${treatment}` : conditionWords(condition)) },
    { title: "value", kind: "number", cell: ({ value }) => valueWords(metric, value) },
    { title: "time", kind: "number", cell: ({ wall_ns }) => duration(wall_ns) },
    { title: "stalls", kind: "number", cell: ({ stall_count }) => count(stall_count) },
    { title: "stalled", kind: "number", cell: ({ injected_share }) => share(injected_share, 1) },
    { title: "load", kind: "number", cell: ({ load }) => (load === null ? "–" : load.toFixed(2)) },
    { title: "", cell: (run) => runNotes(run, outliers.includes(run.run)) },
  ];
  return (
    <section class="card" data-testid="experiment-runs">
      <h2>Runs</h2>
      {!isOfSeveral(one) && (
        <Plot
          series={runSeries(detail.runs, outliers)}
          across={{ title: "seconds since the first run", scale: "linear", words: (value) => `${value}` }}
          up={{ title: metric === "wall" ? "time of a run" : metric || "value", scale: "linear", words: (value) => valueWords(metric, value) }}
        />
      )}
      <details class="fold">
        <summary>Each of the {count(detail.runs.length)} runs</summary>
        <FoldingTable columns={columns} rows={detail.runs} rowKey={({ run }) => `${run}`} current={null} />
        {detail.runs_left_out > 0 && <p class="muted">{count(detail.runs_left_out)} more are not kept.</p>}
      </details>
    </section>
  );
}

const CORES: readonly Folding<CoreStalls>[] = [
  { title: "core", cell: ({ core }) => (core === null ? "the workload" : `core ${core}`) },
  { title: "stalls", kind: "number", cell: ({ count: stalls }) => count(stalls) },
  { title: "requested", kind: "number", cell: ({ asked_ns }) => duration(asked_ns) },
  { title: "measured, median", kind: "number", cell: ({ length_median_ns }) => duration(length_median_ns) },
  { title: "9 of 10 within", kind: "number", cell: ({ length_p90_ns }) => duration(length_p90_ns) },
  { title: "longest", kind: "number", cell: ({ length_most_ns }) => duration(length_most_ns) },
  { title: "began late", kind: "number", cell: ({ start_late_median_ns }) => lateWords(start_late_median_ns) },
  { title: "ended late", kind: "number", cell: ({ end_late_median_ns }) => lateWords(end_late_median_ns) },
];

function Stalls({ one, detail }: { one: ExperimentView; detail: DetailView }) {
  return (
    <section class="card" data-testid="experiment-stalls">
      <div class="card-head">
        <h2>Stalls, requested and measured</h2>
        {detail.stalls_left_out > 0 && <span class="muted">{count(detail.stalls_left_out)} more are counted and not kept</span>}
      </div>
      <FoldingTable columns={CORES} rows={detail.cores} rowKey={({ core }) => `${core ?? "workload"}`} current={null} />
      <Plot
        series={stallSeries(detail.stalls, one.length_ns)}
        across={{ title: "seconds since the first stall", scale: "linear", words: (value) => `${value}` }}
        up={{ title: `excess over the requested ${duration(one.length_ns)}`, scale: "linear", words: duration }}
      />
    </section>
  );
}

function number(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toPrecision(4);
}

const ROWS: readonly Folding<ExperimentRow>[] = [
  { title: "workload", cell: ({ case: of }) => of },
  { title: "disturbance", cell: ({ treatment }) => treatment },
  { title: "number", cell: ({ measure }) => measure },
  { title: "undisturbed", kind: "number", cell: ({ undisturbed_median }) => number(undisturbed_median) },
  { title: "disturbed", kind: "number", cell: ({ disturbed_median }) => number(disturbed_median) },
  { title: "effect", kind: "number", cell: (row) => effectWords(row) },
  { title: "interval", kind: "number", cell: ({ interval_low, interval_high }) => (typeof interval_low === "number" ? `${number(interval_low)} – ${number(interval_high)}` : "") },
  { title: "stalled", kind: "number", cell: ({ effect, injected_share }) => (typeof effect === "number" ? share(injected_share, 1) : "") },
  { title: "stalls", kind: "number", cell: ({ effect, stall_count }) => (typeof effect === "number" ? count(stall_count ?? 0) : "") },
  { title: "ended late", kind: "number", cell: ({ end_late_median_ns }) => (typeof end_late_median_ns === "number" ? lateWords(end_late_median_ns) : "") },
];

function effectWords({ effect, compared, why }: ExperimentRow): string {
  if (typeof effect !== "number") return why || "–";
  return compared === "ratio" ? `${ratioWords(effect)} times` : number(effect);
}

const PUBLISHED: readonly Folding<ExperimentRow>[] = [
  { title: "row", cell: ({ measure }) => measure },
  { title: "published", cell: ({ published }) => published ?? "" },
  { title: "here", cell: ({ ours }) => ours ?? "" },
  { title: "verdict", cell: ({ verdict }) => verdict || "nothing to compare with" },
];

/** A table of the source's own, and below it where this emulation is expected to differ. */
function Published({ name, rows }: { name: string; rows: readonly ExperimentRow[] }) {
  const differs = [...new Set(rows.map(({ expected_to_differ }) => expected_to_differ ?? ""))].filter((words) => words !== "");
  return (
    <>
      <h3 class="untrusted">{name}</h3>
      <FoldingTable columns={PUBLISHED} rows={rows} rowKey={({ measure }) => measure} current={null} />
      {differs.map((words) => (
        <p key={words} class="muted untrusted">
          Expected to differ: {words}.
        </p>
      ))}
    </>
  );
}

function Rows({ detail }: { detail: DetailView }) {
  const { published, own } = rowsOf(detail.rows);
  const key = (row: ExperimentRow) => `${row.case}/${row.treatment}/${row.measure}`;
  return (
    <section class="card" data-testid="experiment-rows">
      {published.length > 0 && (
        <>
          <h2>Published, and found here</h2>
          {tablesOf(published).map((table) => (
            <Published key={table.name} {...table} />
          ))}
        </>
      )}
      {own.length > 0 && (
        <>
          <h2>Each number</h2>
          <Plot
            series={ratioSeries(own)}
            across={{ title: "the ratios below, by how much they are", scale: "linear", words: (value) => (Number.isInteger(value) ? `${value}` : "") }}
            up={{ title: "ratio, disturbed / undisturbed (logarithmic)", scale: "logarithmic", words: (value) => `${value}` }}
          />
          <FoldingTable columns={ROWS} rows={own} rowKey={key} current={null} />
        </>
      )}
      {detail.rows_left_out > 0 && <p class="muted">{count(detail.rows_left_out)} more are not kept.</p>}
    </section>
  );
}
