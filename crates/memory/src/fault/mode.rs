//! The mode of a module's fault, from the shapes of its banks.

use super::bank::{self, Kind, Shape};
use super::evidence::{BankKey, Evidence, Seen};
use crate::counted;
use std::collections::BTreeSet;
use surefoot_model::{Certainty, FaultMode};

/// A fault that was seen in so many cells is clear, and one or two cells elsewhere do not change it.
const CLEAR_CELLS: usize = 4;
/// Cells in other banks that a clear fault leaves aside.
const STRAY_BANKS_MAX: usize = 2;
/// So many banks with one cell each, hit once, come from one fault of many banks: three independent errors on one module are a
/// thousand times rarer (field rates of the order of 1e-4 faults per module and month).
const THIN_BANKS_MIN: usize = 4;
/// A whole rank: so many of its banks, of 16 or more.
const RANK_BANKS_MIN: usize = 10;
/// A rank, too, where so many cells are nearly all in different banks: a part of the banks would have shown some twice.
const RANK_DISTINCT_BANKS_MIN: usize = 4;

/// What was found, before it is put into words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub mode: FaultMode,
    pub certainty: Certainty,
    pub evidence: String,
    /// What was seen of the fault itself.
    pub seen: Seen,
    /// Whether one and the same cell was seen again, at which a scrub in between would have removed a flip.
    pub has_place: bool,
    /// Other faults beside it.
    pub beside: usize,
}

struct Affected {
    key: BankKey,
    shape: Shape,
}

/// Finds the mode.
pub(super) fn of(evidence: &Evidence) -> Found {
    if evidence.all.reports == 0 {
        return found(FaultMode::None, Certainty::Certain, "no error was reported".to_owned(), Seen::default());
    }
    let shapes =
        evidence.banks.iter().filter_map(|(&key, bank)| bank::shape(bank).map(|shape| Affected { key, shape }));
    let banks: Vec<Affected> = shapes.collect();
    let mut found = if banks.is_empty() { without_cells(evidence) } else { with_cells(&banks) };
    add_unplaced(evidence, &mut found);
    found
}

fn found(mode: FaultMode, certainty: Certainty, evidence: String, seen: Seen) -> Found {
    let has_place = !matches!(mode, FaultMode::None | FaultMode::Undetermined);
    Found { mode, certainty, evidence, seen, has_place, beside: 0 }
}

fn with_cells(banks: &[Affected]) -> Found {
    let clear = banks.iter().filter(|bank| is_clear(&bank.shape)).count();
    let cells: usize = banks.iter().map(|bank| bank.shape.cells + bank.shape.strays).sum();
    let strays = banks.iter().filter(|bank| bank.shape.cells == 1).count();
    // One bank has a clear fault, the others a cell each at most.
    let is_alone = clear == 1 && strays == banks.len() - 1 && strays <= STRAY_BANKS_MAX;
    if banks.len() == 1 || is_alone || only_cells(banks) {
        return of_one(banks, cells);
    }
    of_many(banks, cells)
}

/// Whether a bank has a fault that nobody takes for a cell.
fn is_clear(shape: &Shape) -> bool {
    shape.kind != Kind::Cells && shape.cells >= CLEAR_CELLS
}

/// Whether all of it are cells for themselves: few of them, or each seen again and again.
fn only_cells(banks: &[Affected]) -> bool {
    let are_cells = banks.iter().all(|bank| bank.shape.kind == Kind::Cells);
    let thin = banks.iter().filter(|bank| !bank.shape.repeats).count();
    are_cells && (banks.len() <= 2 || thin < THIN_BANKS_MIN && thin * 2 <= banks.len())
}

/// The worst fault of a single bank, with whatever else there is.
fn of_one(banks: &[Affected], cells: usize) -> Found {
    let worst = banks.iter().max_by_key(|bank| (is_clear(&bank.shape), rank_of(bank.shape.kind), bank.shape.cells));
    let Some(Affected { key, shape }) = worst else {
        return found(FaultMode::Undetermined, Certainty::CannotTellApartHere, String::new(), Seen::default());
    };
    let place = key;
    let (mode, words) = match shape.kind {
        Kind::Cells if cells == 1 => (FaultMode::Cell, format!("{} at one cell of {place}", errors(shape.seen.errors))),
        Kind::Cells => (FaultMode::Cell, format!("{cells} separate cells in {}", banks_words(banks.len()))),
        Kind::Row(row) => (FaultMode::Row, format!("{} cells of row {row:#x} in {place}", shape.cells)),
        Kind::Column(column) => (FaultMode::Column, format!("{} cells of column {column:#x} in {place}", shape.cells)),
        Kind::Bank => (FaultMode::Bank, format!("{} cells that share no row or column in {place}", shape.cells)),
    };
    let is_sure = key.rank.is_some()
        && match shape.kind {
            Kind::Cells => cells == 1 && shape.repeats,
            _ => shape.cells >= CLEAR_CELLS,
        };
    let beside = cells - shape.cells;
    let words = if beside > 0 && shape.kind != Kind::Cells {
        format!(
            "{words}; {} elsewhere, taken for {}",
            cells_words(beside),
            if beside == 1 { "another fault" } else { "other faults" }
        )
    } else {
        words
    };
    // Of several cells each is a fault of its own; the one that was seen most says how it is.
    let certainty = if is_sure { Certainty::Certain } else { Certainty::Probable };
    Found { beside, ..found(mode, certainty, words, shape.seen) }
}

fn rank_of(kind: Kind) -> u8 {
    match kind {
        Kind::Cells => 0,
        Kind::Row(_) => 1,
        Kind::Column(_) => 2,
        Kind::Bank => 3,
    }
}

/// A fault of several banks, or what could be one.
fn of_many(banks: &[Affected], cells: usize) -> Found {
    let seen = banks.iter().fold(Seen::default(), |sum, bank| sum.and(bank.shape.seen));
    let ranks: BTreeSet<u32> = banks.iter().filter_map(|bank| bank.key.rank).collect();
    let is_known = banks.iter().all(|bank| bank.key.rank.is_some());
    let structural = banks.iter().filter(|bank| bank.shape.kind != Kind::Cells).count();
    let words =
        format!("{} in {} of {}", cells_words(cells), banks_words(banks.len()), ranks_words(ranks.len(), is_known));
    if structural == 0 && banks.len() < THIN_BANKS_MIN {
        let words = format!("{words}: as many faults, or the first errors of one that has all of them");
        return found(FaultMode::Undetermined, Certainty::CannotTellApartHere, words, seen);
    }
    let of_rank = |rank: u32| banks.iter().filter(move |bank| bank.key.rank == Some(rank)).count();
    let fullest = ranks.iter().map(|&rank| of_rank(rank)).max().unwrap_or(0);
    // One cell on another rank may be a fault of its own.
    let are_ranks = ranks.len() >= 2 && ranks.iter().filter(|&&rank| of_rank(rank) >= 2).count() >= 2;
    let is_spread = banks.len() >= RANK_DISTINCT_BANKS_MIN && banks.len() * 4 >= cells * 3;
    let is_rank = are_ranks || fullest >= RANK_BANKS_MIN || is_spread;
    let mode = if is_rank { FaultMode::Rank } else { FaultMode::Banks };
    let is_sure = if is_rank {
        are_ranks && cells >= 8 || fullest >= RANK_BANKS_MIN
    } else {
        is_known && cells >= 3 * banks.len()
    };
    found(mode, if is_sure { Certainty::Certain } else { Certainty::Probable }, words, seen)
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
