// The memory as it is now: the map, the module that needs a look most, cost, interval, accounting.

import { asSentence } from "../../../format.ts";
import { mode } from "../../../state.ts";
import { worstOf } from "../map.ts";
import * as state from "../state.ts";
import { Checks } from "./checks.tsx";
import { Cost } from "./cost.tsx";
import { DimmCard, Reports } from "./dimm_card.tsx";
import { DimmMap } from "./dimm_map.tsx";
import { Interval } from "./interval.tsx";
import { Slots } from "./slots.tsx";

function Empty({ why }: { why: string }) {
  return (
    <section class="card">
      <h2>{mode.value === "live" ? "Memory errors cannot be seen here" : "This recording has no data on memory errors"}</h2>
      <p class="empty untrusted">{asSentence(why)}</p>
    </section>
  );
}

export function LiveMemory() {
  const answer = state.memory.value;
  const problem = state.memoryProblem.value;
  const said = problem !== "" && (
    <p class="problems" role="alert">
      Could not load the memory errors: <span class="untrusted">{problem}</span>. {answer ? "What is shown is the last answer." : ""}
    </p>
  );
  if (!answer) return said || <p class="boot">Asking for the memory errors.</p>;
  if (answer.why !== undefined) return <Empty why={answer.why} />;
  const wanted = state.chosenDimm.value;
  const found = answer.dimms.find(({ id }) => id === wanted) ?? null;
  const chosen = found ?? worstOf(answer.dimms);
  const unplaced = answer.reports.filter((report) => report.dimm === null);
  return (
    <>
      {said}
      {wanted !== "" && !found && (
        <p class="problems" role="status">
          No module is called <span class="untrusted">{wanted}</span> here{chosen ? "; another one is shown" : ""}.
        </p>
      )}
      {answer.dimms.length > 0 && <DimmMap answer={answer} chosen={chosen} />}
      {chosen && <DimmCard key={chosen.id} dimm={chosen} answer={answer} />}
      {unplaced.length > 0 && (
        <section class="card">
          <Reports reports={unplaced} what="Reports of no known module" />
        </section>
      )}
      <Slots answer={answer} />
      <Cost answer={answer} />
      {state.interval.value && <Interval answer={state.interval.value} />}
      <Checks answer={answer} />
    </>
  );
}
