// A table whose rows become small cards where they have no room side by side.

import type { ComponentChildren } from "preact";
import "./folding_table.css";

export interface Folding<Row> {
  title: ComponentChildren;
  cell: (row: Row) => ComponentChildren;
  /** Numbers stand at the right; words are those of the machine or of a file. */
  kind?: "number" | "wide";
}

interface Properties<Row> {
  columns: readonly Folding<Row>[];
  rows: readonly Row[];
  /** What tells a row from the others; the checks find it by `data-row`. */
  rowKey: (row: Row) => string;
  current: Row | null | undefined;
}

export function FoldingTable<Row>({ columns, rows, rowKey, current }: Properties<Row>) {
  return (
    <table class="folding-table">
      <thead>
        <tr>
          {columns.map(({ title, kind }, at) => (
            <th key={at} scope="col" class={kind}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)} data-row={rowKey(row)} aria-current={row === current ? "true" : undefined}>
            {columns.map(({ title, cell, kind = "untrusted" }, at) => (
              <td key={at} class={at === 0 ? "head" : kind} data-label={at > 0 && kind !== "wide" ? title : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
