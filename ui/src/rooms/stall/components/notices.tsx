// What somebody who reads the numbers must know: a core went offline, the history's disk is full.

import { clock } from "../../../format.ts";
import { past, pastAnswer } from "../../../state.ts";
import * as state from "../state.ts";
import { changeWords } from "../wallclock.ts";

/** How many notices stand open; the rest is folded. */
const OPEN_NOTICES = 2;

export function Notices() {
  const told =
    past.value === null
      ? [
          ...(state.meta.value?.notices ?? []).map(({ at_ns: ns, text }) => ({ ns, at: ns + state.offsetNs(ns), text })),
          ...(state.meta.value?.clock_changes ?? []).map((change) => ({ ns: change.at_ns, at: change.at_ns + state.offsetNs(change.at_ns), text: changeWords(change) })),
        ]
      : [
          ...(pastAnswer.value?.notices ?? []).map(({ at_realtime_ns: at, text }) => ({ ns: at, at, text })),
          ...(pastAnswer.value?.clock_changes ?? []).map(({ at_realtime_ns: at, text }) => ({ ns: at, at, text })),
        ];
  const newestFirst = told.sort((a, b) => b.ns - a.ns);
  const row = ({ at, text }: (typeof told)[number], nth: number) => (
    <li key={`${at}/${nth}`}>
      <time class="figures">{clock(at, 0, 0)}</time>
      <span class="untrusted">{text}</span>
    </li>
  );
  return (
    <section class="notices" data-testid="notices" aria-label="Notices" hidden={newestFirst.length === 0}>
      <ul>{newestFirst.slice(0, OPEN_NOTICES).map(row)}</ul>
      {newestFirst.length > OPEN_NOTICES && (
        <details>
          <summary>{newestFirst.length - OPEN_NOTICES} earlier</summary>
          <ul>{newestFirst.slice(OPEN_NOTICES).map(row)}</ul>
        </details>
      )}
    </section>
  );
}
