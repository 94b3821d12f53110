//! The mode of a module's fault, and how sure that is, in words.

use super::evidence::{BankKey, Evidence, Seen};
use super::explain::{self, Explained, Fault, Kind};
use crate::counted;
use std::collections::BTreeSet;
use surefoot_model::{Certainty, FaultMode};

/// So many banks without rows and columns are more than one fault of a bank.
const THIN_BANKS_MIN: usize = 4;
/// A whole rank: so many of its banks, of 16 or more.
const RANK_BANKS_MIN: usize = 10;
/// Below this the mode is not named.
const PROBABLE: f64 = 0.9;
/// Nothing but flips, of so many cells, takes more: a rank begins to fail like that, and flips ask for nothing.
const PROBABLE_FLIPS: f64 = 0.985;
const MANY_FLIPS_MIN: usize = 4;
/// It is certain from this on, where it also rests on enough: so many cells of a large fault, so many reports of one cell.
const CERTAIN: f64 = 0.99;
const CERTAIN_CELLS_MIN: usize = 4;
const CERTAIN_REPORTS_MIN: u64 = 3;

/// What was found, before it is put into words for people.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub mode: FaultMode,
    pub certainty: Certainty,
    pub evidence: String,
    /// What was seen of the fault itself.
    pub seen: Seen,
    /// Whether one and the same cell was seen again, at which a scrub in between would have removed a flip.
    pub has_place: bool,
    /// How probable the mode is, and the next best, where cells tell.
    pub odds: Option<Odds>,
}

/// How probable a mode is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Odds {
    pub probability: f64,
    pub next: Option<(FaultMode, f64)>,
}

/// Finds the mode.
pub(super) fn of(evidence: &Evidence) -> Found {
    if evidence.all.reports == 0 {
        return found(FaultMode::None, Certainty::Certain, "no error was reported".to_owned(), Seen::default());
    }
    let mut found = match explain::best(evidence) {
        Some(explained) => of_explained(&explained, evidence),
        None => without_cells(evidence),
    };
    add_unplaced(evidence, &mut found);
    found
}

fn found(mode: FaultMode, certainty: Certainty, evidence: String, seen: Seen) -> Found {
    let has_place = !matches!(mode, FaultMode::None | FaultMode::Undetermined);
    Found { mode, certainty, evidence, seen, has_place, odds: None }
}

fn of_explained(explained: &Explained, evidence: &Evidence) -> Found {
    let Explained { places, faults, mode, probability, next } = explained;
    let seen_of = |fault: &Fault| fault.cells.iter().map(|&cell| places[cell].seen).fold(Seen::default(), Seen::and);
    let beyond = evidence.banks.values().fold(Seen::default(), |sum, bank| sum.and(bank.beyond));
    let odds = Some(Odds { probability: *probability, next: *next });
    let Some((worst, others)) = faults.split_first() else {
        return found(FaultMode::Undetermined, Certainty::CannotTellApartHere, String::new(), evidence.all);
    };
    let (cells, reports) = (worst.cells.len(), seen_of(worst).reports);
    let words = words_of(explained, worst);
    let odds_words = || {
        let next = next.map_or(String::new(), |(mode, part)| format!(", {} {}", words_of_mode(mode), percent(part)));
        format!("{} {}{next}", words_of_mode(*mode), percent(*probability))
    };
    let are_many_flips = worst.kind == Kind::Strays && cells >= MANY_FLIPS_MIN;
    if *probability < if are_many_flips { PROBABLE_FLIPS } else { PROBABLE } {
        let all = faults.iter().map(seen_of).fold(beyond, Seen::and);
        let words = format!("{words}{}: {}", beside(explained, others), odds_words());
        return Found { odds, ..found(FaultMode::Undetermined, Certainty::CannotTellApartHere, words, all) };
    }
    let is_enough = match worst.kind {
        Kind::Strays => false,
        Kind::Cell => reports >= CERTAIN_REPORTS_MIN,
        _ => cells >= CERTAIN_CELLS_MIN,
    };
    let is_placed = worst.cells.iter().all(|&cell| places[cell].bank.rank.is_some());
    let is_sure = *probability >= CERTAIN && is_enough && is_placed;
    let certainty = if is_sure { Certainty::Certain } else { Certainty::Probable };
    // Two flips of healthy memory may share a column, weeks apart: that the second came is no sign that the first stays. That they share a
    // row is no chance.
    let are_flips = cells < CERTAIN_CELLS_MIN
        && !matches!(worst.kind, Kind::Strays | Kind::Cell | Kind::Row | Kind::Rows)
        && worst.cells.iter().all(|&cell| places[cell].may_be_a_flip());
    let newest = worst.cells.iter().map(|&cell| places[cell].seen).max_by_key(|seen| seen.last_ns).unwrap_or_default();
    let seen = match worst.kind {
        // Each is a fault of its own, and that another one came says nothing of whether the first stays.
        Kind::Strays => newest,
        // Errors in cells beyond the limit belong to what nearly all cells belong to.
        _ => seen_of(worst).and(beyond),
    };
    let doubt = if *probability >= CERTAIN { String::new() } else { format!(": {}", odds_words()) };
    let said = found(*mode, certainty, format!("{words}{}{doubt}", beside(explained, others)), seen);
    Found { odds, has_place: said.has_place && !are_flips, ..said }
}

/// What there is beside the worst fault.
fn beside(explained: &Explained, others: &[Fault]) -> String {
    match others {
        [] => String::new(),
        _ => format!("; beside it {}", joined(&others.iter().map(|fault| brief(explained, fault)).collect::<Vec<_>>())),
    }
}

/// A probability for people: what is not sure is neither 0 nor 100 %.
fn percent(part: f64) -> String {
    match part {
        part if part > 0.99 => "over 99 %".to_owned(),
        part if part < 0.01 => "under 1 %".to_owned(),
        part => format!("{:.0} %", 100.0 * part),
    }
}

/// A fault with how much was seen of it.
fn words_of(explained: &Explained, fault: &Fault) -> String {
    let places = &explained.places;
    let cells = fault.cells.len();
    let Some(&first) = fault.cells.first() else { return String::new() };
    let errors_of = fault.cells.iter().fold(0u64, |sum, &cell| sum.saturating_add(places[cell].seen.errors));
    let (bank, (row, column)) = (places[first].bank, places[first].cell);
    let rows = || {
        let rows: BTreeSet<u32> = fault.cells.iter().map(|&cell| places[cell].cell.0).collect();
        match rows.len() {
            1 => format!("row {row:#x}"),
            _ => format!("rows {}", joined(&rows.iter().map(|row| format!("{row:#x}")).collect::<Vec<_>>())),
        }
    };
    match fault.kind {
        Kind::Cell | Kind::Strays if cells == 1 => format!("{} at one cell of {bank}", errors(errors_of)),
        Kind::Cell | Kind::Strays => format!(
            "{cells} separate cells in {}, each seen for three days at most",
            banks_words(banks_of(explained, fault).len())
        ),
        Kind::Row | Kind::Rows => format!("{cells} cells of {} in {bank}", rows()),
        Kind::Column => format!("{cells} cells of column {column:#x} in {bank}"),
        Kind::Bank => format!("{cells} cells of {bank} in several rows and columns"),
        Kind::Banks | Kind::Rank => {
            let banks = banks_of(explained, fault);
            let ranks: BTreeSet<u32> = banks.iter().filter_map(|bank| bank.rank).collect();
            let is_known = banks.iter().all(|bank| bank.rank.is_some());
            format!("{} in {} of {}", cells_words(cells), banks_words(banks.len()), ranks_words(ranks.len(), is_known))
        }
    }
}

/// The same of a fault beside the worst.
fn brief(explained: &Explained, fault: &Fault) -> String {
    match fault.kind {
        Kind::Strays if fault.cells.len() == 1 => "one cell that flipped".to_owned(),
        Kind::Strays => format!("{} cells that flipped", fault.cells.len()),
        _ => words_of(explained, fault),
    }
}

fn banks_of(explained: &Explained, fault: &Fault) -> BTreeSet<BankKey> {
    fault.cells.iter().map(|&cell| explained.places[cell].bank).collect()
}

fn words_of_mode(mode: FaultMode) -> &'static str {
    match mode {
        FaultMode::None => "no fault",
        FaultMode::Cell => "cells for themselves",
        FaultMode::Row => "a row",
        FaultMode::Rows => "adjacent rows",
        FaultMode::Column => "a column",
        FaultMode::Bank => "a bank",
        FaultMode::Banks => "several banks",
        FaultMode::Rank => "a rank",
        FaultMode::Undetermined => "not to be told",
    }
}

/// The first three, and how many more.
fn joined(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if all.len() <= 3 => format!("{} and {last}", first.join(", ")),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

/// What can be said where no report told a row and a column.
fn without_cells(evidence: &Evidence) -> Found {
    let undetermined =
        |words: String| found(FaultMode::Undetermined, Certainty::CannotTellApartHere, words, evidence.all);
    if evidence.banks.len() >= THIN_BANKS_MIN {
        let ranks = evidence.ranks();
        let is_known = evidence.banks.keys().all(|key| key.rank.is_some());
        let mode =
            if evidence.banks.len() >= RANK_BANKS_MIN || ranks.len() > 1 { FaultMode::Rank } else { FaultMode::Banks };
        let (banks, ranks) = (banks_words(evidence.banks.len()), ranks_words(ranks.len(), is_known));
        return found(mode, Certainty::Probable, format!("errors in {banks} of {ranks}"), evidence.all);
    }
    let one_address = evidence.addresses.iter().next().filter(|_| evidence.addresses.len() == 1);
    match one_address {
        // One address is one place, so that coming back after a scrub still shows. It is no proof of a cell: a record gives
        // one address of all that failed since the last.
        Some((address, &seen)) if seen.reports == evidence.all.reports => Found {
            has_place: true,
            ..undetermined(format!(
                "{} at address {address:#x} without row and column: a cell, a row or a bank is possible",
                errors(seen.errors)
            ))
        },
        _ if evidence.addresses.is_empty() && evidence.coarse_addresses.reports > 0 => undetermined(
            "the reports have no rows and columns, and addresses that are too coarse to tell one cell of a page from others"
                .to_owned(),
        ),
        _ if evidence.addresses.is_empty() => undetermined("the reports give no place in the module".to_owned()),
        _ => undetermined(format!(
            "the reports give {} and no rows and columns, so that cells of one row or bank are not told from others",
            counted(evidence.addresses.len() as u64, "address", "addresses")
        )),
    }
}

/// Says how many errors nobody gave a place, and what that does to the certainty.
fn add_unplaced(evidence: &Evidence, found: &mut Found) {
    let placed = evidence.placed();
    let unplaced = evidence.all.errors.saturating_sub(placed.errors);
    let reports = evidence.all.reports.saturating_sub(placed.reports);
    if placed.reports > 0 && unplaced > 0 {
        found.evidence += &format!("; {} of {} came without row and column", unplaced, errors(evidence.all.errors));
        if reports > placed.reports && found.certainty == Certainty::Certain {
            found.certainty = Certainty::Probable;
        }
    }
    let beyond = evidence.banks.values().fold(evidence.other_banks, |sum, bank| sum.and(bank.beyond));
    if beyond.errors > 0 {
        found.evidence += &format!("; {} in further cells that are not told apart", errors(beyond.errors));
    }
}

fn errors(count: u64) -> String {
    counted(count, "error", "errors")
}

fn cells_words(count: usize) -> String {
    counted(count as u64, "cell", "cells")
}

fn banks_words(count: usize) -> String {
    counted(count as u64, "bank", "banks")
}

fn ranks_words(known: usize, is_known: bool) -> String {
    match (known, is_known) {
        (_, true) => counted(known as u64, "rank", "ranks"),
        (0, false) => "an unknown rank".to_owned(),
        (_, false) => format!("{} and an unknown one", counted(known as u64, "rank", "ranks")),
    }
}
