// Before and after: what the cores lost in the range that is shown, beside what they lost in another of the same length.

import { given, go } from "../../../address.ts";
import { rangeWords } from "../../../components/past.tsx";
import { share } from "../../../format.ts";
import { keptPart, type PastRange } from "../../../past.ts";
import { past } from "../../../state.ts";
import { change, differences, EARLIER_S, type Difference } from "../compare.ts";
import * as state from "../state.ts";
import { CauseName } from "./swatch.tsx";
import "./compare.css";

/** Causes shown; what changed least is left out. */
const ROOM = 12;
const EARLIER_WORDS = ["one hour earlier", "one day earlier", "one week earlier"] as const;

function Choice({ range }: { range: PastRange }) {
  const lengthS = range.toS - range.fromS;
  const earlier = EARLIER_S.map((by, at) => ({ fromS: range.fromS - by, words: EARLIER_WORDS[at] })).filter((_, at) => EARLIER_S[at] !== lengthS);
  const choices = [{ fromS: range.fromS - lengthS, words: "the same length before" }, ...earlier].filter(({ fromS }) => fromS >= 0);
  const chosen = given.value.before_s ?? "";
  const isOther = chosen !== "" && !choices.some(({ fromS }) => String(fromS) === chosen);
  return (
    <label class="field compare-choice">
      <span>Compare with</span>
      <select data-testid="compare-with" value={chosen} onChange={(event) => go({ before_s: event.currentTarget.value || null })}>
        <option value="">nothing</option>
        {choices.map(({ fromS, words }) => (
          <option key={fromS} value={String(fromS)}>
            {words}
          </option>
        ))}
        {isOther && <option value={chosen}>{state.other.value ? rangeWords(state.other.value) : chosen}</option>}
      </select>
    </label>
  );
}

function percent(part: number | null): string {
  return part === null ? "–" : share(part, 1);
}

function changeWords(row: Difference): string {
  const by = change(row);
  if (by === null) return "–";
  // Less than the page shows of a share.
  if (Math.abs(by) < 1e-6) return by === 0 ? "none" : "less than 0.0001 points";
  return `${by > 0 ? "+" : "−"}${share(Math.abs(by), 1).replace("%", "points")}`;
}

/** What the history keeps of the other range, where that is not all of it. */
function keptWords(other: PastRange): string {
  const answer = state.otherAnswer.value;
  if (!answer) return "";
  if (answer.windows.length === 0) return "Lost time is not kept of the range before: no watch traced then, or it is older than what is kept.";
  const part = keptPart(other, answer.windows);
  return part ? `Before, lost time is kept of ${rangeWords(part)} alone.` : "";
}

function Table() {
  const before = state.otherWhole.value;
  if (!before) return null;
  const rows = differences(before, state.whole.value, state.mask.value);
  const shown = rows.slice(0, 3 + ROOM);
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Before and after">
      <table class="sortable compare-table">
        <thead>
          <tr>
            <th scope="col">Of the cores' time</th>
            <th scope="col" class="number">Before</th>
            <th scope="col" class="number">After</th>
            <th scope="col" class="number">Change</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={row.key} class={row.kind === null ? "sum" : undefined}>
              <th scope="row" class="name">{row.kind === null ? row.name : <CauseName kind={row.kind} name={row.name} />}</th>
              <td class="number">{percent(row.before)}</td>
              <td class="number">{percent(row.after)}</td>
              <td class="number">{changeWords(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.length && <p class="muted aside">{rows.length - shown.length} more causes changed less.</p>}
    </div>
  );
}

export function Compare() {
  const range = past.value;
  if (!range) return null;
  const other = state.other.value;
  return (
    <section class="card" data-testid="compare" aria-labelledby="compare-title">
      <div class="card-head">
        <h2 id="compare-title">Before and after</h2>
        <Choice range={range} />
      </div>
      {other && (
        <>
          <p class="muted aside">
            Before: {rangeWords(other)}. After: {rangeWords(range)}. {keptWords(other)}
          </p>
          {state.otherProblem.value !== "" ? (
            <p class="problems" role="alert">Could not load the range before: <span class="untrusted">{state.otherProblem.value}</span></p>
          ) : state.otherAnswer.value ? (
            <Table />
          ) : (
            <p class="boot">Reading the history of {rangeWords(other)}.</p>
          )}
        </>
      )}
    </section>
  );
}
