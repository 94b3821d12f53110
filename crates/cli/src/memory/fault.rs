//! The fault of a module for people: what, why, where and what to do.

use std::collections::{BTreeMap, BTreeSet};
use surefoot_console::table::paragraph;
use surefoot_console::units::counted;
use surefoot_model::{Dimm, DimmFault, ErrorCell, FaultMode, Persistence, Severity, Spread, one_line};

/// How many rows and columns of a bank the map shows: those with the most errors.
const MAP_ROWS_MAX: usize = 8;
const MAP_COLUMNS_MAX: usize = 12;
/// How wide text for people is.
const COLUMNS: usize = 100;

fn persistence_words(persistence: Persistence) -> &'static str {
    match persistence {
        Persistence::Transient => "transient",
        Persistence::Permanent => "permanent",
        Persistence::Undetermined => "whether it stays is undetermined",
    }
}

/// The fault with its evidence, its map and the advice; empty where no error was seen.
pub fn text(dimm: &Dimm) -> String {
    let Some(fault) = &dimm.fault else { return String::new() };
    let urgency = match fault.urgency {
        Severity::Critical => "CRITICAL: ",
        Severity::Warning => "Warning: ",
        _ => "",
    };
    let label = if let Some(place) = &dimm.only_place {
        format!(" ({}, module not known)", one_line(place))
    } else if dimm.label.is_empty() || dimm.label == dimm.id {
        String::new()
    } else {
        format!(" ({})", one_line(&dimm.label))
    };
    let mut text = format!("{}{label}: {}\n", one_line(&dimm.id), heading(fault));
    text += &lines("seen", &fault.evidence);
    text += &spread(&dimm.spread);
    text += &lines("do", &format!("{urgency}{}", fault.advice));
    text + &map(&fault.cells)
}

fn heading(fault: &DimmFault) -> String {
    match fault.mode {
        FaultMode::None => "no error".to_owned(),
        FaultMode::Undetermined => "fault undetermined".to_owned(),
        mode => {
            let certainty = fault.certainty.label();
            format!("{} fault ({certainty}), {}", mode.label(), persistence_words(fault.persistence))
        }
    }
}

/// How the errors are spread, where more than one was placed.
fn spread(spread: &Spread) -> String {
    if spread.located_count < 2 {
        return String::new();
    }
    let places = [
        (spread.cells, "cell", "cells"),
        (spread.rows, "row", "rows"),
        (spread.columns, "column", "columns"),
        (spread.banks, "bank", "banks"),
        (spread.ranks, "rank", "ranks"),
    ];
    let places = places.map(|(count, one, many)| counted(count.into(), one, many));
    lines("at", &format!("{} in {}", counted(spread.located_count, "error", "errors"), places.join(", ")))
}

/// A line with a name before it, wrapped under itself.
pub fn lines(name: &str, words: &str) -> String {
    let head = format!("  {name:<4} ");
    let column = head.chars().count();
    format!("{head}{}\n", paragraph(&one_line(words), column, column, COLUMNS).trim_end())
}

/// A map of the bank with the most cells, where it has several: errors by row and column.
fn map(cells: &[ErrorCell]) -> String {
    let mut banks: BTreeMap<(Option<u32>, u32), Vec<&ErrorCell>> = BTreeMap::new();
    for cell in cells {
        banks.entry((cell.rank, cell.bank)).or_default().push(cell);
    }
    let Some(((rank, bank), cells)) = banks.iter().max_by_key(|(key, cells)| (cells.len(), std::cmp::Reverse(**key)))
    else {
        return String::new();
    };
    if cells.len() < 2 {
        return String::new();
    }
    let (rows, rows_left) = most(cells.iter().map(|cell| (cell.row, cell.count)), MAP_ROWS_MAX);
    let (columns, columns_left) = most(cells.iter().map(|cell| (cell.column, cell.count)), MAP_COLUMNS_MAX);
    let rank = rank.map_or("unknown rank".to_owned(), |rank| format!("rank {rank}"));
    let mut text = format!("  map  {rank} bank {bank}: errors by row and column\n        {:>10}", "");
    columns.iter().for_each(|column| text += &format!(" {:>6}", format!("{column:#x}")));
    text.push('\n');
    for row in &rows {
        text += &format!("        {:>10}", format!("{row:#x}"));
        for column in &columns {
            let count = cells.iter().find(|cell| cell.row == *row && cell.column == *column).map(|cell| cell.count);
            text += &format!(" {:>6}", count.map_or(".".to_owned(), short));
        }
        text.push('\n');
    }
    if rows_left + columns_left > 0 {
        text += &format!("        {rows_left} further rows and {columns_left} further columns are left out\n");
    }
    text
}

/// The lines with the most errors, in order, and how many more there are.
fn most(each: impl Iterator<Item = (u32, u64)>, max: usize) -> (BTreeSet<u32>, usize) {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (line, count) in each {
        let sum = sums.entry(line).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut all: Vec<(u32, u64)> = sums.into_iter().collect();
    all.sort_by_key(|&(line, count)| (std::cmp::Reverse(count), line));
    let left = all.len().saturating_sub(max);
    (all.into_iter().take(max).map(|(line, _)| line).collect(), left)
}

/// A count in six characters at most.
fn short(count: u64) -> String {
    match count {
        small @ 0..=99_999 => small.to_string(),
        thousands @ 100_000..=9_999_999 => format!("{}k", thousands / 1_000),
        more => format!("{}M", (more / 1_000_000).min(99_999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_shows_the_fullest_bank_and_says_what_it_leaves_out() {
        let cell = |bank, row, column, count| ErrorCell { rank: Some(0), bank, row, column, count };
        let mut cells = vec![cell(1, 5, 8, 1)];
        cells.extend((0..20).map(|number| cell(3, 0x1a2b, number * 8, u64::from(number) + 1)));
        let map = map(&cells);
        assert!(map.starts_with("  map  rank 0 bank 3: errors by row and column\n"), "{map}");
        assert!(map.contains("    0x1a2b      9     10"), "{map}");
        assert!(map.ends_with("0 further rows and 8 further columns are left out\n"), "{map}");
    }
}
