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
    assert!(fault.evidence.contains("1 cell elsewhere"), "{}", fault.evidence);
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
fn one_address_is_a_cell_and_several_are_not_told_apart() {
    let with = |address| report(DAY_NS, 1, DramLocation { address: Some(address), ..DramLocation::default() });
    assert_eq!(judged(&[with(0x1000), with(0x1000)]).mode, FaultMode::Cell);
    assert_eq!(judged(&[with(0x1000), with(0x2000)]).mode, FaultMode::Undetermined);
    let mut page = with(0x1000);
    page.location.grain_bits = Some(12);
    let fault = judged(&[page.clone(), page]);
    assert_eq!(fault.mode, FaultMode::Undetermined);
    assert!(fault.evidence.contains("addresses of pages"), "{}", fault.evidence);
}
