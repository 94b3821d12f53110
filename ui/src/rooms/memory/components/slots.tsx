// Which module was in which slot, and when it was seen there.

import { count, moment } from "../../../format.ts";
import { realtimeNow } from "../../../state.ts";
import type { Memory, SlotStay } from "../../../types.ts";

/** Stays that stand open; the others are one click away. */
const SHOWN = 40;

/** Where a module that left this slot is now. */
function movedTo(stay: SlotStay, slots: readonly SlotStay[]): string {
  if (!stay.has_ended || stay.serial === null) return "";
  const now = slots.find((other) => !other.has_ended && other.serial === stay.serial && other.place !== stay.place);
  return now ? `, now in ${now.label || now.place}` : "";
}

function Rows({ slots, all }: { slots: readonly SlotStay[]; all: readonly SlotStay[] }) {
  return (
    <>
      {slots.map((stay) => (
        <tr key={`${stay.place} ${stay.first_seen_realtime_ns} ${stay.module}`}>
          <td class="untrusted">{stay.label || stay.place}</td>
          <td class="untrusted">{stay.serial ?? "unknown"}</td>
          <td class="untrusted">{stay.part ?? "unknown"}</td>
          <td class="figures">{moment(stay.first_seen_realtime_ns, realtimeNow())}</td>
          <td class="untrusted">
            {stay.has_ended ? `${moment(stay.last_seen_realtime_ns, realtimeNow())}${movedTo(stay, all)}` : "still there"}
          </td>
          <td class="figures">{count(stay.corrected_count)}</td>
          <td class="figures">{count(stay.uncorrected_count)}</td>
          <td>{stay.closed ?? ""}</td>
        </tr>
      ))}
    </>
  );
}

export function Slots({ answer }: { answer: Memory }) {
  const { slots, slots_left_out: leftOut } = answer;
  if (slots.length === 0) return null;
  // What changed is what one looks for.
  const changed = new Set(slots.filter((stay) => stay.has_ended).map((stay) => stay.place));
  const first = [...slots.filter((stay) => changed.has(stay.place)), ...slots.filter((stay) => !changed.has(stay.place))];
  return (
    <section class="card" data-testid="slots">
      <h2>Slots</h2>
      <p class="muted">A serial number that cannot be read is unknown: after a reboot it may be another module.</p>
      <div class="table-scroll">
        <table class="memory-table">
          <thead>
            <tr>
              <th>Slot</th>
              <th>Serial number</th>
              <th>Part number</th>
              <th>First seen</th>
              <th>Last seen</th>
              <th>Corrected</th>
              <th>Uncorrected</th>
              <th>Fault closed as</th>
            </tr>
          </thead>
          <tbody>
            <Rows slots={first.slice(0, SHOWN)} all={slots} />
          </tbody>
        </table>
      </div>
      {first.length > SHOWN && (
        <details>
          <summary>{first.length - SHOWN} more</summary>
          <table class="memory-table">
            <tbody>
              <Rows slots={first.slice(SHOWN)} all={slots} />
            </tbody>
          </table>
        </details>
      )}
      {leftOut > 0 && <p class="muted">{count(leftOut)} older ones are not kept.</p>}
    </section>
  );
}
