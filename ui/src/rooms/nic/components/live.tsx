// The interfaces as they are now: a table, and the one that needs a look most.

import { SeverityIcon } from "../../../components/severity.tsx";
import { count, duration } from "../../../format.ts";
import { mode } from "../../../state.ts";
import type { InterfaceView as Interface } from "../../../types.ts";
import { badCount } from "../counters.ts";
import * as state from "../state.ts";
import { InterfaceCard } from "./card.tsx";
import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";

function countOrUnknown(number: number | undefined): string {
  return number === undefined ? "unknown" : count(number);
}

const COLUMNS: readonly Folding<Interface>[] = [
  {
    title: "interface",
    cell: ({ name }) => (
      <button type="button" class="row-name untrusted signed" onClick={() => state.chooseInterface(name)}>
        {name}
      </button>
    ),
  },
  { title: "driver", cell: ({ driver }) => driver ?? "–" },
  {
    title: "state",
    cell: (one) => (
      <span class="signed">
        <SeverityIcon severity={one.severity} size={14} /> {one.state}
      </span>
    ),
  },
  { title: "link", cell: ({ link }) => link },
  { title: "tx timeouts", kind: "number", cell: ({ tx_timeout_count }) => (tx_timeout_count === null ? "–" : count(tx_timeout_count)) },
  { title: "carrier changes", kind: "number", cell: ({ carrier_change_count }) => countOrUnknown(carrier_change_count ?? undefined) },
  { title: "bad packets", kind: "number", cell: (one) => countOrUnknown(badCount(one)) },
  {
    title: "reporters",
    kind: "number",
    cell: ({ reporters }) => (reporters.length === 0 ? "–" : `${reporters.filter(({ state }) => state === "error").length} of ${reporters.length} in error`),
  },
  { title: "round trip", kind: "number", cell: ({ probe }) => (probe?.round_trips ? duration(probe.round_trips.p50_ns) : "–") },
];

export function LiveInterfaces() {
  const answer = state.nic.value;
  const problem = state.nicProblem.value;
  const said = problem !== "" && (
    <p class="problems" role="alert">
      Could not load the network interfaces: <span class="untrusted">{problem}</span>. {answer ? "Showing the last answer." : ""}
    </p>
  );
  if (!answer) return said || <p class="boot">Loading network interfaces.</p>;
  if (answer.why !== undefined) {
    return (
      <section class="card">
        <h2>No network interfaces can be seen {mode.value === "live" ? "here" : "in this recording"}</h2>
        <p class="empty untrusted">{answer.why}.</p>
      </section>
    );
  }
  const { interfaces } = answer;
  const chosen = interfaces.find(({ name }) => name === state.chosenInterface.value) ?? interfaces[0] ?? null;
  return (
    <>
      {said}
      <section class="card" aria-label="Network interfaces">
        <div class="card-head">
          <h2>Network interfaces</h2>
          <span class="muted aside">read in {duration(answer.look_ns)}</span>
        </div>
        <FoldingTable columns={COLUMNS} rows={interfaces} rowKey={({ name }) => name} current={chosen} />
        {answer.interfaces_left_out > 0 && <p class="muted">{count(answer.interfaces_left_out)} more are not shown.</p>}
        {answer.problems.length > 0 && (
          <ul class="nic-lines">
            {answer.problems.map((one) => (
              <li key={one.path + one.why} class="untrusted">
                {one.path}: {one.why}
              </li>
            ))}
          </ul>
        )}
        {answer.problems_left_out > 0 && <p class="muted">{count(answer.problems_left_out)} more problems are not shown.</p>}
      </section>
      {chosen && <InterfaceCard key={chosen.name} one={chosen} changes={answer.changes.filter((change) => change.interface === chosen.name)} />}
    </>
  );
}
