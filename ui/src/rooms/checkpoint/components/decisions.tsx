// The lines of a job's journal as sentences.

import { useSignal } from "@preact/signals";
import { Icon } from "../../../components/icons.tsx";
import { count, moment } from "../../../format.ts";
import type { EntryView } from "../../../types.ts";
import { eventWords, generationOf, isFailure } from "../journal.ts";

/** Lines shown before "Show more", and after it. */
const ROOM = 12;
const MOST = 400;

/** A name for each line that stays its own while newer lines come: its time, and which one of that time it is. */
function named(entries: readonly EntryView[]) {
  const seen = new Map<number, number>();
  return entries.map((event) => {
    const nth = seen.get(event.realtime_ns) ?? 0;
    seen.set(event.realtime_ns, nth + 1);
    return { event, name: `${event.realtime_ns}/${nth}` };
  });
}

/** The newest first; what a rotated journal repeats is left out. */
export function Decisions({ entries, nowNs, none }: { entries: readonly EntryView[]; nowNs: number; none: string }) {
  const all = useSignal(false);
  const told = entries.filter((event) => event.event !== "opened" || event.is_repeated !== true);
  const newest = named(told).slice(all.value ? -MOST : -ROOM).reverse();
  return (
    <>
      {newest.length > 0 ? (
        <ol class="decisions">
          {newest.map(({ event, name }) => {
            const { what, why } = eventWords(event);
            const number = generationOf(event);
            return (
              <li key={name} data-event={event.event} data-failed={isFailure(event)}>
                <time class="figures muted">{moment(event.realtime_ns, nowNs)}</time>
                <span class="figures decision-number">{number === null ? "" : `#${number}`}</span>
                <span>
                  <span class="untrusted">
                    {isFailure(event) && <Icon name="warning" size={13} />} {what}
                  </span>{" "}
                  {why !== "" && <span class="untrusted muted">{why}</span>}
                </span>
              </li>
            );
          })}
        </ol>
      ) : (
        <p class="empty">{none}</p>
      )}
      {told.length > ROOM && (
        <button type="button" class="button quiet more" onClick={() => (all.value = !all.value)}>
          {all.value ? `Show the last ${ROOM}` : `Show ${count(Math.min(MOST, told.length))}`}
        </button>
      )}
    </>
  );
}
