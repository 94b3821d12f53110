// Predictions for many nodes: slowdown over the number of nodes, with the interval in which one more run would lie.

import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";
import { count } from "../../../format.ts";
import type { PredictionView } from "../../../types.ts";
import { predictionLines, predictionSeries, ratioWords } from "../experiment.ts";
import { Plot } from "./plot.tsx";

/** Lines of one picture; more could not be told apart. */
const LINES_DRAWN = 6;

const COLUMNS: readonly Folding<PredictionView>[] = [
  { title: "nodes", cell: ({ nodes }) => count(nodes) },
  { title: "slowdown", kind: "number", cell: ({ slowdown }) => `${ratioWords(slowdown)} times` },
  { title: "one more run, 19 of 20", kind: "number", cell: ({ interval_low, interval_high }) => `${ratioWords(interval_low)} – ${ratioWords(interval_high)}` },
  { title: "draws", kind: "number", cell: ({ draws }) => count(draws) },
];

export function Predictions({ all }: { all: readonly PredictionView[] }) {
  const lines = predictionLines(all);
  return (
    <section class="card" data-testid="predictions">
      <div class="card-head">
        <h2>Predictions for many nodes</h2>
        <p class="muted">simulated, not of this host</p>
      </div>
      <Plot
        series={predictionSeries(lines.slice(0, LINES_DRAWN))}
        across={{ title: "nodes (logarithmic)", scale: "logarithmic", words: count }}
        up={{ title: "how many times as long (logarithmic)", scale: "logarithmic", words: (value) => `${value}` }}
      />
      {lines.map(({ name, points }) => (
        <details key={name} class="fold">
          <summary class="untrusted">{name}</summary>
          <FoldingTable columns={COLUMNS} rows={points} rowKey={({ nodes }) => `${nodes}`} current={null} />
        </details>
      ))}
    </section>
  );
}
