// The choice between what is live and a range of the past, and what to say of such a range.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { go } from "../address.ts";
import { clock, day } from "../format.ts";
import { changeTo, fromLocalInput, keptPart, LENGTHS_S, PAST_S_MAX, toLocalInput, type PastRange } from "../past.ts";
import { mode, past, pastAnswer, pastProblem, realtimeNow } from "../state.ts";
import type { PastWindow } from "../types.ts";

/** What is shown first of the past: the quarter of an hour that ended with the last whole minute. */
const FIRST_S = 900;

function lengthWords(lengthS: number): string {
  if (lengthS % 86_400 === 0) return lengthS === 86_400 ? "1 day" : `${lengthS / 86_400} days`;
  if (lengthS % 3600 === 0) return `${lengthS / 3600} h`;
  return lengthS % 60 === 0 ? `${lengthS / 60} min` : `${lengthS} s`;
}

/** A range in words: "2031-11-22 03:00 – 03:15". */
export function rangeWords({ fromS, toS }: PastRange): string {
  const [from, to] = [fromS * 1e9, toS * 1e9];
  const time = (ns: number) => clock(ns, 0, 0).replace(/:00$/, "");
  return `${day(from)} ${time(from)} – ${day(from) === day(to) ? "" : `${day(to)} `}${time(to)}`;
}

function zone(timeS: number): string {
  const minutes = -new Date(timeS * 1000).getTimezoneOffset();
  const two = (value: number) => value.toString().padStart(2, "0");
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** Live or past. A recording has no history beside it. */
export function When() {
  if (mode.value === "replay") return null;
  const isPast = past.value !== null;
  const toS = Math.floor(realtimeNow() / 60e9) * 60;
  const choice = (words: string, chosen: boolean, range: () => PastRange | null) => (
    <label>
      <input type="radio" name="when" checked={chosen} onChange={() => go(changeTo(range()))} />
      <span>{words}</span>
    </label>
  );
  return (
    <fieldset class="segments" data-testid="when">
      <legend class="visually-hidden">Time</legend>
      {choice("Live", !isPast, () => null)}
      {choice("Past", isPast, () => ({ fromS: toS - FIRST_S, toS }))}
    </fieldset>
  );
}

/** Which range: a date, a time, a length. */
export function PastBar() {
  const begin = useRef<HTMLInputElement>(null);
  const length = useRef<HTMLSelectElement>(null);
  const range = past.value;
  useEffect(() => {
    if (!range || !begin.current || !length.current) return;
    begin.current.value = toLocalInput(range.fromS);
    length.current.value = String(range.toS - range.fromS);
  }, [range]);
  if (!range) return null;
  const lengthS = range.toS - range.fromS;
  const lengths = [...new Set<number>([...LENGTHS_S, lengthS])].sort((a, b) => a - b);
  const submit = (event: Event) => {
    event.preventDefault();
    const fromS = fromLocalInput(begin.current?.value ?? "");
    if (fromS === null) {
      // 2026-02-31 has the right form and is no day.
      begin.current?.setCustomValidity("There is no such date and time");
      return void begin.current?.reportValidity();
    }
    const wanted = Math.min(PAST_S_MAX, Number(length.current?.value ?? FIRST_S));
    go(changeTo({ fromS, toS: fromS + wanted }));
  };
  const move = (by: number) => go(changeTo({ fromS: Math.max(0, range.fromS + by * lengthS), toS: Math.max(lengthS, range.toS + by * lengthS) }));
  return (
    <form class="past-bar" data-testid="past" aria-label="Range of the past" onSubmit={submit}>
      <label class="field">
        <span>From</span>
        <input
          ref={begin}
          type="text"
          inputMode="numeric"
          size={19}
          required
          pattern="\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?"
          placeholder="2026-11-22 20:34"
          title="Date and time: 2026-11-22 20:34, with seconds where they matter"
          autoComplete="off"
          onInput={(event) => event.currentTarget.setCustomValidity("")}
          data-testid="past-from"
        />
        <span>{zone(range.fromS)}</span>
      </label>
      <label class="field">
        <span>for</span>
        <select ref={length} data-testid="past-length">
          {lengths.map((one) => (
            <option key={one} value={one}>
              {lengthWords(one)}
            </option>
          ))}
        </select>
      </label>
      <button type="submit" class="button" data-testid="past-show">
        Show
      </button>
      <span class="past-steps">
        <button type="button" class="button" data-testid="past-earlier" onClick={() => move(-1)}>
          Earlier
        </button>
        <button type="button" class="button" onClick={() => move(1)}>
          Later
        </button>
      </span>
    </form>
  );
}

/** Of which part of a range lost time is kept; nothing where that is all of it. */
function keptWords(range: PastRange, windows: readonly PastWindow[]): string {
  if (windows.length === 0) return "Lost time is not kept of this range: no watch traced then, or it is older than what is kept.";
  const part = keptPart(range, windows);
  return part ? `Lost time is kept of ${rangeWords(part)} alone.` : "";
}

/** What the history says of the range: that it is being read, that it cannot be, or what it does not keep. */
export function PastState({ children }: { children: ComponentChildren }) {
  const range = past.value;
  if (!range) return null;
  const answer = pastAnswer.value;
  if (pastProblem.value !== "") {
    return (
      <p class="problems" role="alert" data-testid="past-problem">
        Could not load the past: <span class="untrusted">{pastProblem.value}</span>
        {/[.!?]$/.test(pastProblem.value) ? "" : "."}
      </p>
    );
  }
  if (!answer) return <p class="boot">Reading the history of {rangeWords(range)}.</p>;
  const isEmpty = answer.windows.length === 0 && answer.findings.length === 0 && answer.records.length === 0;
  return (
    <p class="muted aside" data-testid="past-says" data-resolution={answer.resolution}>
      {isEmpty ? "The history has nothing in this range: no watch ran then, or it is older than what is kept." : children}
      {!isEmpty && answer.resolution === "minute" && " Each window is a minute."}
      {!isEmpty && ` ${keptWords(range, answer.windows)}`}
    </p>
  );
}
