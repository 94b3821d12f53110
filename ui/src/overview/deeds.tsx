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
/** The rooms whose lists are shown whole; "" is that of all rooms. */
const whole = signal<ReadonlySet<string>>(new Set());

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

/** Of one room, or of all. */
export function DeedsCard({ room = "" }: { room?: string }) {
  const answer = deeds.value;
  const all = answer?.deeds.filter((deed) => room === "" || deed.room === room) ?? [];
  if (past.value !== null || !answer || all.length === 0) return problem.value ? <p class="problems">{problem.value}</p> : null;
  const leftOut = answer.left_out.filter((one) => room === "" || one.room === room).reduce((sum, one) => sum + one.count, 0);
  const isWhole = whole.value.has(room);
  const shown = isWhole ? all : all.slice(0, SHOWN);
  const turn = () => {
    const others = [...whole.value].filter((other) => other !== room);
    whole.value = new Set(isWhole ? others : [...others, room]);
  };
  return (
    <section class="card" data-testid="deeds" aria-labelledby="deeds-title">
      <div class="card-head">
        <h2 id="deeds-title">What Surefoot did</h2>
        <p class="muted figures">{count(all.length + leftOut)}, newest first</p>
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
      {all.length > SHOWN && (
        <button type="button" class="link" onClick={turn}>
          {isWhole ? "Show fewer" : `Show the newest ${count(all.length)}`}
        </button>
      )}
    </section>
  );
}
