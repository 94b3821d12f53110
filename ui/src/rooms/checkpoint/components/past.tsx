// What jobs decided in a range of the past.

import { count } from "../../../format.ts";
import { past, pastAnswer } from "../../../state.ts";
import { journalsOf } from "../past.ts";
import * as state from "../state.ts";
import { Decisions } from "./decisions.tsx";

export function PastCheckpoints() {
  const answer = pastAnswer.value;
  if (!answer) return null;
  const { jobs, others } = journalsOf(answer.records);
  const wanted = state.chosenJob.value;
  const shown = jobs.filter((job) => wanted === "" || job.name === wanted);
  const toNs = (past.value?.toS ?? 0) * 1e9;
  return (
    <>
      <p class="muted aside" hidden={others === 0}>
        {count(others)} other records of this range are not shown.
      </p>
      {wanted !== "" && shown.length === 0 && (
        <p class="problems" role="status" data-testid="job-unknown">
          The history has no decision of a job called <span class="untrusted">{wanted}</span> in this range.
        </p>
      )}
      {wanted !== "" && (
        <p>
          <button type="button" class="button quiet" onClick={() => state.chooseJob(null)}>
            Show all jobs
          </button>
        </p>
      )}
      {jobs.length === 0 && (
        <section class="card">
          <p class="empty">No job decided anything about its checkpoints in this range, as far as the history knows.</p>
        </section>
      )}
      {shown.map((job) => (
        <section key={job.name} class="card job" data-testid="job" data-job={job.name} aria-label={`Job ${job.name}`}>
          <div class="card-head">
            <h2>
              <span class="untrusted">{job.name}</span>
            </h2>
          </div>
          <div data-testid="decisions">
            <h3>Decisions and outcomes</h3>
            <Decisions entries={job.entries} nowNs={toNs} none="Nothing was decided." />
          </div>
        </section>
      ))}
    </>
  );
}
