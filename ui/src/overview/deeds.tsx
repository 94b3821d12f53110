// What Surefoot itself did on this host, newest first; the words are the server's.

import { signal } from "@preact/signals";
import { getJson, isRecord, unusable } from "../api.ts";
import { count, moment } from "../format.ts";
import type { Question } from "../poller.ts";
import { past, realtimeNow } from "../state.ts";
import type { Deeds } from "../types.ts";

const REFRESH_MS = 5000;
/** Rows before "Show all". */
const SHOWN = 8;

export const deeds = signal<Deeds | null>(null);
const problem = signal("");
const all = signal(false);

export function checkDeeds(value: unknown): Deeds {
  const name = "answer about deeds";
  if (!isRecord(value) || !Array.isArray(value.deeds)) throw unusable(name, "deeds");
  const isDeed = (one: unknown) =>
    isRecord(one) && typeof one.words === "string" && typeof one.by === "string" && typeof one.because === "string" && typeof one.at_realtime_ns === "number" && isRecord(one.subject);
  if (!value.deeds.every(isDeed)) throw unusable(name, "deeds");
  return value as unknown as Deeds;
}

export const question: Question = {
  name: "deeds",
  everyMs: REFRESH_MS,
  problem,
  wanted: () => (past.value === null ? "deeds" : null),
  async ask(isLate) {
    const answer = checkDeeds(await getJson("api/v1/deeds"));
    if (!isLate()) deeds.value = answer;
    return undefined;
  },
};

export function DeedsCard() {
  const answer = deeds.value;
  if (past.value !== null || !answer || answer.deeds.length === 0) return problem.value ? <p class="problems">{problem.value}</p> : null;
  const shown = all.value ? answer.deeds : answer.deeds.slice(0, SHOWN);
  return (
    <section class="card" data-testid="deeds" aria-labelledby="deeds-title">
      <div class="card-head">
        <h2 id="deeds-title">What Surefoot did</h2>
        <p class="muted figures">{count(answer.deeds.length + answer.left_out_count)}, newest first</p>
      </div>
      <ul class="deed-lines">
        {shown.map((deed, at) => (
          <li key={at} data-deed={deed.action} data-outcome={deed.outcome.kind}>
            <span class="figures muted">{moment(deed.at_realtime_ns, realtimeNow())}</span>{" "}
            <span class="untrusted">{deed.subject.name === "" ? `this ${deed.subject.kind}` : `${deed.subject.kind} ${deed.subject.name}`}</span>
            : <span class="untrusted">{deed.words}</span>
            {deed.by !== "" && (
              <span class="untrusted muted">
                {" "}
                ({deed.by}, {deed.because})
              </span>
            )}
          </li>
        ))}
      </ul>
      {answer.deeds.length > SHOWN && (
        <button type="button" class="link" onClick={() => (all.value = !all.value)}>
          {all.value ? "Show fewer" : `Show all ${count(answer.deeds.length)}`}
        </button>
      )}
    </section>
  );
}
