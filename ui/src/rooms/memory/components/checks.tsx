// Whether the accounting itself works: what the doctor says, what cannot be read, and which counts do not add up.

import { SeverityIcon } from "../../../components/severity.tsx";
import { count } from "../../../format.ts";
import type { Memory } from "../../../types.ts";
import { checked, counted, LOSS_WORDS, sumOf } from "../map.ts";

/** Problems that stand open. */
const PROBLEMS = 5;

/** A controller's count, where its counter can be read. */
function read(errors: number | null): string {
  return errors === null ? "unreadable" : count(errors);
}

function row(problem: Memory["problems"][number]) {
  return (
    <li key={problem.path + problem.why} class="untrusted">
      {problem.path}: {problem.why}
    </li>
  );
}

/** Checks that ask for nothing, closed. */
function Fold({ checks, what, sign }: { checks: Memory["checks"]; what: string; sign: string }) {
  if (checks.length === 0) return null;
  return (
    <details class="fold" data-testid={`checks-${what.replace(" ", "-")}`}>
      <summary>
        {counted(checks.length, "check")} {what}
      </summary>
      <ul class="memory-checks muted">
        {checks.map((check) => (
          <li key={check.rule}>
            <span aria-hidden="true">{sign}</span>
            <p>
              {check.rule}: <span class="untrusted">{check.evidence}</span>
            </p>
          </li>
        ))}
      </ul>
    </details>
  );
}

export function Checks({ answer }: { answer: Memory }) {
  const { found, notChecked, passed } = checked(answer.checks);
  return (
    <section class="card" data-testid="memory-checks" aria-label="Error accounting">
      <div class="card-head">
        <h2>Error accounting</h2>
        <span class="muted aside">{answer.checks.length === 0 ? "not checked yet" : `${counted(answer.checks.length, "check")}: ${found.length} failed, ${passed.length} passed, ${notChecked.length} not checked`}</span>
      </div>
      {found.length > 0 && (
        <ul class="memory-checks">
          {found.map((check) => (
            <li key={check.rule} data-rule={check.rule}>
              <SeverityIcon severity={check.severity} size={15} />
              <div>
                <p>
                  <strong>{check.rule}</strong> <span class="untrusted">{check.consequence}</span>
                </p>
                <p class="untrusted muted">{check.evidence}</p>
                {check.remedy !== "" && <p class="untrusted">{check.remedy}</p>}
              </div>
            </li>
          ))}
        </ul>
      )}
      {found.length === 0 && passed.length > 0 && (
        <p>{notChecked.length === 0 ? "Errors are being counted; all checks passed." : "No check that could run found a problem."}</p>
      )}
      <ul class="memory-controllers">
        {answer.controllers.map((one) => (
          <li key={one.id}>
            <span class="untrusted">{one.id}</span>: {read(one.corrected_count)} corrected, {read(one.uncorrected_count)} uncorrected
            {one.no_information_count !== 0 ? `, ${read(one.no_information_count)} of no known module` : ""};{" "}
            {sumOf(one, answer.dimms)}
          </li>
        ))}
      </ul>
      {answer.problems.length > 0 && (
        <ul class="problems">
          {answer.problems.slice(0, PROBLEMS).map(row)}
        </ul>
      )}
      {answer.problems.length > PROBLEMS && (
        <details class="fold">
          <summary>{counted(answer.problems.length - PROBLEMS + answer.problems_left_out, "more problem")}</summary>
          <ul class="problems">{answer.problems.slice(PROBLEMS).map(row)}</ul>
        </details>
      )}
      {answer.lost.length > 0 && (
        <ul class="muted memory-lost" data-testid="memory-lost">
          {answer.lost.map(({ source, kind, why, count: times }) => (
            <li key={`${source}/${kind}/${why}`}>
              {counted(times, "report")} {LOSS_WORDS[kind] ?? kind}: <span class="untrusted">{why}</span>
            </li>
          ))}
        </ul>
      )}
      <Fold checks={notChecked} what="not checked" sign="○" />
      <Fold checks={passed} what="passed" sign="✓" />
    </section>
  );
}
