// Where in a module its errors are: a small map of rows and columns for each bank that has any.

import type { ErrorCell } from "../../../types.ts";
import { counted } from "../map.ts";

/** Banks that have a map of their own. */
const BANKS = 4;
const WIDTH = 320;
const HEIGHT = 120;
/** More than the largest circle reaches. */
const EDGE = 9;

interface Bank {
  rank: number | null | undefined;
  bank: number;
  cells: ErrorCell[];
}

function banksOf(cells: readonly ErrorCell[]): Bank[] {
  const banks = new Map<string, Bank>();
  for (const cell of cells) {
    const name = `${cell.rank}/${cell.bank}`;
    const bank = banks.get(name) ?? { rank: cell.rank, bank: cell.bank, cells: [] };
    bank.cells.push(cell);
    banks.set(name, bank);
  }
  return [...banks.values()].sort((a, b) => b.cells.length - a.cells.length);
}

/** Where a value stands between the least and the most; in the middle where there is one only. */
function along(value: number, all: readonly number[], length: number): number {
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const part = most === least ? 0.5 : (value - least) / (most - least);
  return EDGE + part * (length - 2 * EDGE);
}

const hex = (value: number) => `0x${value.toString(16)}`;

function range(one: string, values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? `${one} ${hex(least)}` : `${one}s ${hex(least)} to ${hex(most)}`;
}

function BankMap({ bank }: { bank: Bank }) {
  const rows = bank.cells.map((cell) => cell.row);
  const columns = bank.cells.map((cell) => cell.column);
  const rank = bank.rank == null ? "Unknown rank" : `Rank ${bank.rank}`;
  const says = `${rank}, bank ${bank.bank}: errors in ${counted(bank.cells.length, "cell")} of ${range("row", rows)} and ${range("column", columns)}`;
  return (
    <figure class="fault-map" data-testid="fault-map">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={says}>
        <rect x="0.5" y="0.5" width={WIDTH - 1} height={HEIGHT - 1} class="fault-ground" />
        {bank.cells.map((cell) => (
          <circle
            key={`${cell.row}/${cell.column}`}
            cx={along(cell.column, columns, WIDTH)}
            cy={along(cell.row, rows, HEIGHT)}
            r={Math.min(7, 4 + Math.log10(Math.max(1, cell.count)))}
            class="fault-cell"
          >
            <title>{`row ${hex(cell.row)}, column ${hex(cell.column)}: ${counted(cell.count, "error")}`}</title>
          </circle>
        ))}
      </svg>
      <figcaption class="muted">
        {rank}, bank {bank.bank} · {range("row", rows)} (down) · {range("column", columns)} (across)
      </figcaption>
    </figure>
  );
}

export function FaultMap({ cells, leftOut }: { cells: readonly ErrorCell[]; leftOut: number }) {
  if (cells.length === 0) return null;
  const banks = banksOf(cells);
  return (
    <div>
      <div class="fault-maps">
        {banks.slice(0, BANKS).map((bank) => (
          <BankMap key={`${bank.rank}/${bank.bank}`} bank={bank} />
        ))}
      </div>
      {banks.length > BANKS && <p class="muted aside">{counted(banks.length - BANKS, "more bank")} with errors.</p>}
      {leftOut > 0 && <p class="muted aside">{counted(leftOut, "more cell")} not shown.</p>}
    </div>
  );
}
