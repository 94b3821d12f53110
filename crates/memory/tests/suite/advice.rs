//! What is advised for the faults that people meet.

use super::synthetic::report;
use surefoot_memory::fault;
use surefoot_model::{
    Certainty, DimmFault, DramLocation, ErrorReport, ErrorSeverity, FaultMode, MemoryAction, Persistence, Severity,
};

const DAY_NS: u64 = 86_400_000_000_000;

fn at(day: u64, rank: u32, bank: u32, row: u32, column: u32) -> ErrorReport {
    let location = DramLocation {
        rank: Some(rank),
        bank: Some(bank),
        row: Some(row),
        column: Some(column),
        ..DramLocation::default()
    };
    report((1 + day) * DAY_NS, 1, location)
}

fn judged(reports: &[ErrorReport]) -> DimmFault {
    fault::judge(reports).1
}

#[test]
fn nothing_reported_is_no_fault() {
    let fault = judged(&[]);
    assert_eq!((fault.mode, fault.action, fault.urgency), (FaultMode::None, MemoryAction::Watch, Severity::Ok));
}

#[test]
fn a_million_errors_of_one_cell_are_one_small_fault() {
    let mut reports: Vec<ErrorReport> = (0..20).map(|day| at(day, 0, 3, 0x1a2b, 0x3f8)).collect();
    reports.iter_mut().for_each(|report| report.count = 50_000);
    let fault = judged(&reports);
    assert_eq!(
        (fault.mode, fault.persistence, fault.certainty),
        (FaultMode::Cell, Persistence::Permanent, Certainty::Certain)
    );
    assert_eq!((fault.action, fault.urgency), (MemoryAction::OfflinePages, Severity::Notice));
    assert_eq!(fault.evidence, "1000000 errors at one cell of rank 0 bank 3");
    assert_eq!(fault.cells[0].count, 1_000_000);
}

#[test]
fn a_row_that_stays_is_repaired_and_one_that_was_seen_once_is_watched() {
    let row: Vec<ErrorReport> = (0..6).map(|day| at(day, 0, 3, 77, day as u32 * 8)).collect();
    let fault = judged(&row);
    assert_eq!((fault.mode, fault.action), (FaultMode::Row, MemoryAction::PostPackageRepair));
    let mut once: Vec<ErrorReport> = (0..6).map(|column| at(0, 0, 3, 77, column * 8)).collect();
    once.push(at(20, 1, 9, 5, 5));
    let fault = judged(&once);
    assert_eq!(
        (fault.mode, fault.persistence, fault.action),
        (FaultMode::Row, Persistence::Transient, MemoryAction::Watch)
    );
    assert!(fault.evidence.contains("beside it one cell that flipped"), "{}", fault.evidence);
}

#[test]
fn rows_that_are_near_each_other_are_one_fault_that_takes_a_spare_row_each() {
    let rows: Vec<ErrorReport> = (0..8).map(|day| at(day, 0, 3, 77 + day as u32 % 2, day as u32 / 2 * 8)).collect();
    let fault = judged(&rows);
    assert_eq!((fault.mode, fault.action), (FaultMode::Rows, MemoryAction::PostPackageRepair), "{fault:?}");
    assert!(fault.evidence.contains("rows 0x4d and 0x4e") && fault.advice.contains("as many spare rows"), "{fault:?}");
}

#[test]
fn several_banks_that_stay_are_critical() {
    let reports: Vec<ErrorReport> =
        (0..40).map(|day| at(day, 0, day as u32 % 3, 1000 * day as u32, 8 * (day as u32 % 50))).collect();
    let fault = judged(&reports);
    assert_eq!(
        (fault.mode, fault.action, fault.urgency),
        (FaultMode::Banks, MemoryAction::Replace, Severity::Critical)
    );
}

#[test]
fn lost_bits_are_critical_whatever_the_mode() {
    let mut report = at(0, 0, 3, 77, 8);
    report.severity = ErrorSeverity::Uncorrected;
    let fault = judged(&[report]);
    assert_eq!((fault.mode, fault.action, fault.urgency), (FaultMode::Cell, MemoryAction::Replace, Severity::Critical));
    let nowhere =
        ErrorReport { severity: ErrorSeverity::Deferred, ..super::synthetic::report(0, 1, DramLocation::default()) };
    assert_eq!(judged(&[nowhere]).urgency, Severity::Critical);
}

#[test]
fn errors_without_a_place_are_counted_and_said() {
    let mut reports = vec![report(DAY_NS, 30, DramLocation { rank: Some(1), ..DramLocation::default() })];
    let (spread, fault) = fault::judge(&reports);
    assert_eq!((spread.located_count, fault.mode), (0, FaultMode::Undetermined));
    assert_eq!(fault.certainty, Certainty::CannotTellApartHere);
    reports.extend((0..5).map(|day| at(day, 0, 3, 77, 8)));
    let (spread, fault) = fault::judge(&reports);
    assert_eq!((spread.located_count, fault.mode), (5, FaultMode::Cell));
    assert!(fault.evidence.ends_with("; 30 of 35 errors came without row and column"), "{}", fault.evidence);
}

#[test]
fn an_address_without_row_and_column_is_no_cell_fault() {
    let with = |day, address, grain_bits| {
        let location = DramLocation { address: Some(address), grain_bits, ..DramLocation::default() };
        report(day * DAY_NS, 1, location)
    };
    let one = [with(1, 0x1000, Some(6)), with(9, 0x1000, Some(6))];
    let fault = judged(&one);
    assert_eq!((fault.mode, fault.certainty), (FaultMode::Undetermined, Certainty::CannotTellApartHere));
    assert!(fault.evidence.contains("2 errors at address 0x1000 without row and column"), "{}", fault.evidence);
    // That one address fails again after a scrub is known all the same, and its page helps.
    assert_eq!((fault.persistence, fault.action), (Persistence::Permanent, MemoryAction::OfflinePages));
    let several = judged(&[with(1, 0x1000, Some(6)), with(9, 0x2000, Some(6))]);
    assert_eq!((several.mode, several.action), (FaultMode::Undetermined, MemoryAction::Watch));
    // An address that does not say how coarse it is may be that of a page.
    for grain_bits in [Some(12), None] {
        let fault = judged(&[with(1, 0x1000, grain_bits), with(9, 0x1000, grain_bits)]);
        assert_eq!((fault.mode, fault.persistence), (FaultMode::Undetermined, Persistence::Undetermined));
        assert!(fault.evidence.contains("too coarse"), "{}", fault.evidence);
    }
}

#[test]
fn an_unknown_rank_is_not_rank_0() {
    let without = |mut report: ErrorReport| {
        report.location.rank = None;
        report
    };
    let cells: Vec<ErrorReport> = (0..6).map(|day| at(day, 0, 3, 77, day as u32 * 8)).collect();
    assert_eq!(judged(&cells).certainty, Certainty::Certain);
    // The errors may be of several ranks, and then of several rows.
    let unknown: Vec<ErrorReport> = cells.iter().cloned().map(without).collect();
    let fault = judged(&unknown);
    assert_eq!((fault.mode, fault.certainty), (FaultMode::Row, Certainty::Probable));
    assert_eq!(fault.evidence, "6 cells of row 0x4d in bank 3 (rank unknown)");
    assert_eq!(fault.cells[0].rank, None);
    // Errors of an unknown rank are no errors of a second one.
    let banks = |rank| {
        (0..3).flat_map(move |bank| {
            (0..4).map(move |day| at(day, rank, bank, 100 * day as u32, 8 * (bank + 3 * day as u32)))
        })
    };
    let mixed: Vec<ErrorReport> = banks(1).chain(banks(0).map(without)).collect();
    let (spread, fault) = fault::judge(&mixed);
    assert_eq!((spread.ranks, fault.certainty), (1, Certainty::Probable), "{fault:?}");
    assert!(fault.evidence.contains("1 rank and an unknown one"), "{}", fault.evidence);
}
