//! The shape of the errors in one bank.

use super::evidence::{BankEvidence, Cell, Seen};
use std::collections::BTreeMap;

/// A line is taken for the fault of a bank where it holds at least this share of its cells; the others are faults of their own.
const LINE_SHARE_MIN: f64 = 0.7;
/// Cells that are seen this often each are faults of their own: a large part that fails would show other cells.
const REPEATS_PER_CELL: u64 = 3;
/// More separate cells in one bank are a fault of the bank, however often they repeat.
const SEPARATE_CELLS_MAX: usize = 3;

/// What fails in a bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Cells, each for itself.
    Cells,
    Row(u32),
    Column(u32),
    Bank,
}

/// The shape of a bank's errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub kind: Kind,
    /// Cells of that kind.
    pub cells: usize,
    /// Whether each of them was seen again and again.
    pub repeats: bool,
    /// Cells that are not of it.
    pub strays: usize,
    /// What was seen of that kind.
    pub seen: Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    is_row: bool,
    index: u32,
    cells: usize,
}

/// The shape of a bank; `None` where no cell of it is known.
pub(super) fn shape(bank: &BankEvidence) -> Option<Shape> {
    let cells: Vec<Cell> = bank.cells.keys().copied().collect();
    let all = bank.cells.values().fold(bank.beyond, |sum, &seen| sum.and(seen));
    if cells.is_empty() {
        return None;
    }
    let repeats = bank.cells.values().all(|seen| seen.reports >= REPEATS_PER_CELL);
    let shape = |kind, count, seen| Shape { kind, cells: count, repeats, strays: cells.len() - count, seen };
    let lines = lines(&cells);
    let Some(&first) = lines.first() else {
        // No two cells share a line.
        let is_separate = cells.len() == 1 || cells.len() <= SEPARATE_CELLS_MAX && (repeats || cells.len() == 2);
        let kind = if is_separate { Kind::Cells } else { Kind::Bank };
        return Some(shape(kind, cells.len(), all));
    };
    let kind_of = |line: Line| if line.is_row { Kind::Row(line.index) } else { Kind::Column(line.index) };
    let is_one = first.cells as f64 >= LINE_SHARE_MIN * cells.len() as f64;
    if is_one {
        return Some(shape(kind_of(first), first.cells, seen_in(bank, &[first])));
    }
    // Two rows side by side, or two columns, share a driver: one fault of that kind.
    if let [_, second, ..] = lines[..] {
        let is_pair = first.is_row == second.is_row && first.index.abs_diff(second.index) <= 8;
        let together = first.cells + second.cells;
        if is_pair && together as f64 >= LINE_SHARE_MIN * cells.len() as f64 {
            return Some(shape(kind_of(first), together, seen_in(bank, &[first, second])));
        }
    }
    Some(shape(Kind::Bank, cells.len(), all))
}

/// Rows and columns of two cells or more that cover the cells, the fullest first; each cell counts for one of them.
fn lines(cells: &[Cell]) -> Vec<Line> {
    let mut open: Vec<Cell> = cells.to_vec();
    let mut lines = Vec::new();
    // Two are all that is asked for.
    while lines.len() < 2 {
        let mut counts: BTreeMap<(bool, u32), usize> = BTreeMap::new();
        for &(row, column) in &open {
            *counts.entry((true, row)).or_default() += 1;
            *counts.entry((false, column)).or_default() += 1;
        }
        let Some((&(is_row, index), &count)) =
            counts.iter().max_by_key(|&(key, &count)| (count, key.0, std::cmp::Reverse(key.1)))
        else {
            break;
        };
        if count < 2 {
            break;
        }
        open.retain(|&(row, column)| if is_row { row != index } else { column != index });
        lines.push(Line { is_row, index, cells: count });
    }
    lines
}

/// What was seen of some lines. Errors in cells beyond the limit belong to what nearly all cells belong to.
fn seen_in(bank: &BankEvidence, lines: &[Line]) -> Seen {
    let is_in = |&(row, column): &Cell| {
        lines.iter().any(|line| if line.is_row { line.index == row } else { line.index == column })
    };
    let of_lines = bank.cells.iter().filter(|(cell, _)| is_in(cell)).map(|(_, &seen)| seen);
    of_lines.fold(bank.beyond, Seen::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: &[(u32, u32, u64)]) -> Option<Kind> {
        let mut bank = BankEvidence::default();
        for &(row, column, reports) in cells {
            bank.cells.insert((row, column), Seen { errors: reports, reports, ..Seen::default() });
        }
        shape(&bank).map(|shape| shape.kind)
    }

    #[test]
    fn the_shape_of_a_bank_is_that_of_its_cells() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(5, 8, 1)]), Some(Kind::Cells));
        assert_eq!(of(&[(5, 8, 1), (5, 16, 1)]), Some(Kind::Row(5)));
        assert_eq!(of(&[(5, 8, 1), (9, 8, 1)]), Some(Kind::Column(8)));
        assert_eq!(of(&[(5, 8, 1), (9, 16, 1), (70, 40, 1)]), Some(Kind::Bank));
    }

    #[test]
    fn one_cell_beside_a_row_is_a_fault_of_its_own() {
        let row = [(5, 8, 1), (5, 16, 1), (5, 24, 1), (5, 32, 1), (90, 80, 4)];
        assert_eq!(of(&row), Some(Kind::Row(5)));
        assert_eq!(of(&row[2..]), Some(Kind::Bank), "two and one may be anything");
    }

    #[test]
    fn two_rows_side_by_side_are_one_fault_and_apart_the_bank() {
        let pair = [(5, 8, 1), (5, 16, 1), (5, 24, 1), (6, 8, 1), (6, 40, 1), (6, 48, 1)];
        assert_eq!(of(&pair), Some(Kind::Row(5)));
        let apart = [(5, 8, 1), (5, 16, 1), (5, 24, 1), (600, 88, 1), (600, 40, 1), (600, 48, 1)];
        assert_eq!(of(&apart), Some(Kind::Bank));
    }

    #[test]
    fn cells_that_repeat_are_separate() {
        assert_eq!(of(&[(5, 8, 9), (9, 16, 9), (70, 40, 9)]), Some(Kind::Cells));
        assert_eq!(of(&[(5, 8, 9), (9, 16, 9), (70, 40, 9), (71, 41, 9)]), Some(Kind::Bank));
    }
}
