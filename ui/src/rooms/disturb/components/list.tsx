// All experiments, a line each; and where there are none, how to make one.

import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";
import { count, moment, share } from "../../../format.ts";
import { realtimeNow } from "../../../state.ts";
import type { Disturb, ExperimentView } from "../../../types.ts";
import { nameOf, ratioWords, resultWords } from "../experiment.ts";
import * as state from "../state.ts";

const COLUMNS: readonly Folding<ExperimentView>[] = [
  {
    title: "workload",
    cell: (one) => (
      <button type="button" class="row-name untrusted" onClick={() => state.choose(one.experiment)}>
        {nameOf(one)}
      </button>
    ),
  },
  { title: "began", cell: ({ at_realtime_ns }) => moment(at_realtime_ns, realtimeNow()) },
  { title: "disturbance", cell: ({ what }) => what },
  { title: "ratio", kind: "number", cell: ({ ended }) => (ended?.effect ? ratioWords(ended.effect.ratio) : "–") },
  { title: "interval", kind: "number", cell: ({ ended }) => (ended?.effect ? `${ratioWords(ended.effect.interval_low)} – ${ratioWords(ended.effect.interval_high)}` : "–") },
  { title: "stalled", kind: "number", cell: ({ ended }) => (ended?.effect ? share(ended.effect.injected_share, 1) : "–") },
  { title: "result", cell: resultWords },
];

export function List({ answer }: { answer: Disturb }) {
  const { experiments, experiments_left_out, problems, problems_left_out, why } = answer;
  return (
    <section class="card" data-testid="experiments">
      <div class="card-head">
        <h2>Experiments</h2>
        {experiments_left_out > 0 && <span class="muted">{count(experiments_left_out)} more are not shown</span>}
      </div>
      {experiments.length === 0 ? (
        <p class="empty untrusted">{why ?? "None."}</p>
      ) : (
        <FoldingTable columns={COLUMNS} rows={experiments} rowKey={({ experiment }) => experiment} current={state.chosen.value} />
      )}
      {state.missing.value !== "" && (
        <p class="problems untrusted" role="alert" data-testid="experiment-missing">
          No experiment is called {state.missing.value.slice(0, 80)} here; choose one of these.
        </p>
      )}
      {problems.length > 0 && (
        <ul class="disturb-lines problems" data-testid="experiment-problems">
          {problems.map((problem) => (
            <li key={problem} class="untrusted">
              {problem}
            </li>
          ))}
          {problems_left_out > 0 && <li>{count(problems_left_out)} more.</li>}
        </ul>
      )}
    </section>
  );
}
