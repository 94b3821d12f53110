// Tables whose columns sort on a click or a key.

import { useSignal } from "@preact/signals";
import { Fragment, type ComponentChildren } from "preact";

export interface ColumnOf<Row> {
  key: string;
  title: ComponentChildren;
  /** What to sort by: numbers start with the largest, words with A. `null` sorts last. */
  order: (row: Row) => number | string | null;
  cell: (row: Row) => ComponentChildren;
  className?: string;
  hint?: string;
}

interface Properties<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly ColumnOf<Row>[];
  rowKey: (row: Row) => string;
  /** The column that the table is sorted by at first. */
  first: string;
  /** Sort the first column upwards at first. */
  upwards?: boolean;
  /** Rows shown before "Show all". */
  room: number;
  /** What stands below the row of this key, over all columns. */
  opened?: { key: string; content: ComponentChildren } | null;
}

function compare(a: number | string | null, b: number | string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

export function SortTable<Row>({ label, rows, columns, rowKey, first, upwards = false, room, opened = null }: Properties<Row>) {
  const key = useSignal(first);
  const up = useSignal(upwards);
  const all = useSignal(false);
  const column = columns.find((known) => known.key === key.value) ?? columns[0];
  const sorted = [...rows].sort((a, b) => {
    const left = column.order(a);
    const right = column.order(b);
    if (left === null || right === null) return compare(left, right);
    return compare(left, right) * (up.value ? 1 : -1);
  });
  // A row that was opened stays in sight when others overtake it.
  const shown = all.value ? sorted : sorted.filter((row, at) => at < room || rowKey(row) === opened?.key);
  const sort = (next: ColumnOf<Row>) => {
    if (next.key === key.value) up.value = !up.value;
    else {
      key.value = next.key;
      up.value = rows.length > 0 && typeof next.order(rows[0]) === "string";
    }
  };
  return (
    <>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={label}>
        <table class="sortable">
          <thead>
            <tr>
              {columns.map((known) => (
                <th
                  key={known.key}
                  scope="col"
                  class={known.className}
                  aria-sort={known.key === key.value ? (up.value ? "ascending" : "descending") : "none"}
                >
                  <button type="button" title={known.hint} onClick={() => sort(known)}>
                    {known.title}
                    <span class="arrow" aria-hidden="true">
                      {known.key === key.value ? (up.value ? "▲" : "▼") : ""}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <Fragment key={rowKey(row)}>
                <tr>
                  {columns.map((known) => (
                    <td key={known.key} class={known.className}>
                      {known.cell(row)}
                    </td>
                  ))}
                </tr>
                {opened?.key === rowKey(row) && (
                  <tr class="opened">
                    <td colSpan={columns.length}>{opened.content}</td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length > room && (
        <button type="button" class="button quiet more" onClick={() => (all.value = !all.value)}>
          {all.value ? `Show the first ${room}` : `Show all ${sorted.length}`}
        </button>
      )}
    </>
  );
}
