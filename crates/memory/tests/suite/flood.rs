//! Two million errors of one module.

use super::synthetic::{BANKS, COLUMNS, ROWS, Random, report};
use surefoot_memory::fault::{CELLS_MAX, CELLS_SHOWN_MAX, Evidence};
use surefoot_model::{DramLocation, FaultMode};

#[test]
fn two_million_errors_take_bounded_memory_and_the_fault_is_still_found() {
    let mut random = Random::new(1);
    let mut evidence = Evidence::default();
    let all = 2_000_000;
    for at in 0..all {
        let location = DramLocation {
            rank: Some(0),
            bank: Some(random.below(BANKS)),
            row: Some(random.below(ROWS)),
            column: Some(random.below(COLUMNS) * 8),
            address: Some(random.next()),
            ..DramLocation::default()
        };
        evidence.add(&report(1 + at, 1, location));
    }
    let (spread, fault) = evidence.judge();
    assert_eq!(evidence.error_count(), all);
    assert_eq!((spread.located_count, spread.banks), (all, BANKS));
    assert!(spread.cells as usize <= CELLS_MAX && fault.cells.len() == CELLS_SHOWN_MAX);
    assert_eq!(fault.mode, FaultMode::Rank);
    assert!(fault.evidence.contains("errors in further cells that are not told apart"), "{}", fault.evidence);
}

#[test]
fn a_flood_in_one_bank_hides_no_row_of_another() {
    let mut random = Random::new(2);
    let mut evidence = Evidence::default();
    let mut add = |at, bank, row, column| {
        let location = DramLocation {
            rank: Some(0),
            bank: Some(bank),
            row: Some(row),
            column: Some(column),
            ..DramLocation::default()
        };
        evidence.add(&report(at, 1, location));
    };
    for at in 0..100_000 {
        add(1 + at, 3, random.below(ROWS), random.below(COLUMNS) * 8);
    }
    for column in 0..20 {
        add(200_000, 7, 55, column * 8);
    }
    let (spread, _) = evidence.judge();
    assert_eq!(spread.banks, 2);
    assert_eq!(spread.cells, 256 + 20);
}
