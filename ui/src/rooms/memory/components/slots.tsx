// Which module was in which slot, and when it was seen there.

import { FoldingTable, type Folding } from "../../../components/folding_table.tsx";
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

const until = (stay: SlotStay, all: readonly SlotStay[]) =>
  stay.has_ended ? `${moment(stay.last_seen_realtime_ns, realtimeNow())}${movedTo(stay, all)}` : "still there";

const columns = (all: readonly SlotStay[]): readonly Folding<SlotStay>[] => [
  { title: "Slot", cell: (stay) => stay.label || stay.place },
  { title: "Serial number", cell: (stay) => stay.serial ?? "unknown" },
  { title: "Part number", cell: (stay) => stay.part ?? "unknown" },
  { title: "First seen", cell: (stay) => moment(stay.first_seen_realtime_ns, realtimeNow()) },
  { title: "Last seen", cell: (stay) => until(stay, all) },
  { title: "Corrected", kind: "number", cell: (stay) => count(stay.corrected_count) },
  { title: "Uncorrected", kind: "number", cell: (stay) => count(stay.uncorrected_count) },
  { title: "Fault closed as", cell: (stay) => stay.closed ?? "–" },
];

const rowKey = (stay: SlotStay) => `${stay.place} ${stay.first_seen_realtime_ns} ${stay.module}`;

export function Slots({ answer }: { answer: Memory }) {
  const { slots, slots_left_out: leftOut } = answer;
  if (slots.length === 0) return null;
  // What changed is what one looks for.
  const changed = new Set(slots.filter((stay) => stay.has_ended).map((stay) => stay.place));
  const first = [...slots.filter((stay) => changed.has(stay.place)), ...slots.filter((stay) => !changed.has(stay.place))];
  return (
    <section class="card" data-testid="slots">
      <h2>Slot history</h2>
      <p class="muted">A module with an unknown serial number may have been swapped unnoticed while the host was off.</p>
      <FoldingTable columns={columns(slots)} rows={first.slice(0, SHOWN)} rowKey={rowKey} current={null} />
      {first.length > SHOWN && (
        <details>
          <summary>{first.length - SHOWN} more</summary>
          <FoldingTable columns={columns(slots)} rows={first.slice(SHOWN)} rowKey={rowKey} current={null} />
        </details>
      )}
      {leftOut > 0 && <p class="muted">{count(leftOut)} older entries are not kept.</p>}
    </section>
  );
}
