// What reporting errors costs, beside how often it happens, and whose numbers these are.

import { age, count, duration } from "../../../format.ts";
import type { Memory } from "../../../types.ts";
import { WORK_WORDS } from "../map.ts";

/** What was seen for less says nothing of a day. */
const OVER_NS_MIN = 60e9;

/** What it comes to, and on how much time that rests: a storm of a minute is no storm of a day. */
function costWords(answer: Memory): string {
  if (answer.cost_per_day_ns === null) return "not counted yet";
  const overNs = Math.max(...answer.costs.map((cost) => (cost.per_day_ns === null ? 0 : cost.over_ns)));
  if (overNs < OVER_NS_MIN) return `per day: known after one minute (${age(overNs)} so far)`;
  return `${duration(answer.cost_per_day_ns)} of one core per day, at the rate of the last ${age(overNs)}`;
}

export function Cost({ answer }: { answer: Memory }) {
  return (
    <section class="card" aria-label="What reporting costs">
      <div class="card-head">
        <h2>What reporting costs</h2>
        <span class="figures">{costWords(answer)}</span>
      </div>
      <div class="table-scroll" tabIndex={0} role="region" aria-label="Cost of each report">
        <table class="memory-table cost-table">
          <thead>
            <tr>
              <th scope="col">Work per report</th>
              <th scope="col" class="number">
                Each
              </th>
              <th scope="col" class="number">
                Seen
              </th>
              <th scope="col" class="number">
                Per day
              </th>
              <th scope="col" class="cost-source">
                Source
              </th>
            </tr>
          </thead>
          <tbody>
            {answer.costs.map((cost) => (
              <tr key={cost.what}>
                <td>{WORK_WORDS[cost.what] ?? cost.what}</td>
                <td class="number" data-name="Each">
                  {duration(cost.each_ns)}
                </td>
                <td class="number" data-name="Seen">{cost.count === null ? <span title="Nothing on this host counts them">–</span> : count(cost.count)}</td>
                <td class="number" data-name="Per day">{cost.per_day_ns === null || cost.over_ns < OVER_NS_MIN ? "–" : duration(cost.per_day_ns)}</td>
                <td class="muted cost-source">{cost.basis === "measured" ? `measured: ${cost.source}` : cost.source}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
