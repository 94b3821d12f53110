//! Moments that only a real history knows.

#![allow(clippy::unwrap_used)]

use surefoot_model::{
    Cause, CauseKind, CoreLedger, CpuId, Event, Finding, HostDescription, Lost, Room, Severity, Subject, Vendor, Window,
};
use surefoot_store::history::{History, Limits};
use surefoot_terminal::{Want, history};

const SECOND: i64 = 1_000_000_000;
/// 2026-11-29T06:00:00Z: the wall clock at the first window.
const BEGIN: i64 = 1_795_932_000 * SECOND;

fn host() -> Event {
    Event::Host(HostDescription {
        hostname: "node17".into(),
        kernel: "6.12".into(),
        processor: "a processor".into(),
        vendor: Vendor::Amd,
        hypervisor: None,
        cpus: vec![CpuId(0)],
        workload: String::new(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: String::new(),
        realtime_offset_ns: BEGIN,
    })
}

/// The window that begins so many seconds after the first one; it lost as many microseconds.
fn window(number: u64) -> Event {
    let start_ns = number * SECOND as u64;
    let lost_ns = number * 1_000;
    let lost = vec![Lost::new(Cause::new(CauseKind::Timer, "local_timer"), 1, lost_ns, lost_ns)];
    let core =
        CoreLedger { wall_ns: 1_000_000_000, user_ns: 1_000_000_000 - lost_ns, lost, ..CoreLedger::empty(CpuId(0)) };
    Event::Window(Window { start_ns, end_ns: start_ns + SECOND as u64, cores: vec![core], ..Window::default() })
}

#[test]
fn each_second_of_a_history_is_found_from_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let mut history = History::open(&path, Limits::default()).unwrap();
    history.record(&host()).unwrap();
    // A hole between 20 and 30.
    for number in (0..20).chain(30..40) {
        history.record(&window(number)).unwrap();
    }
    let warning = Finding::new(Room::Memory, "errors", Subject::host(), Severity::Warning, "A DIMM is degrading.");
    history.record_findings(BEGIN + 5 * SECOND, &[warning]).unwrap();
    history.record_findings(BEGIN + 15 * SECOND, &[]).unwrap();
    history.commit().unwrap();
    // Beside its writer, as the watch asks.
    let mut past = history::reader(path);
    let mut second = |want| {
        let seen = past(want).unwrap()?;
        let lost_us = i64::try_from(seen.cores[0].lost_ns() / 1_000).unwrap();
        assert_eq!(
            (seen.start_realtime_ns, seen.end_realtime_ns),
            (BEGIN + lost_us * SECOND, BEGIN + (lost_us + 1) * SECOND)
        );
        Some((lost_us, seen.findings.len()))
    };
    let at = |seconds: i64| BEGIN + seconds * SECOND;
    assert_eq!(second(Want::At(at(10) + SECOND / 2)), Some((10, 1)), "within it, with the finding of then");
    assert_eq!(second(Want::At(at(33))), Some((33, 0)), "at its beginning");
    assert_eq!(second(Want::Before(at(10))), Some((9, 1)));
    assert_eq!(second(Want::From(at(18))), Some((18, 0)));
    assert_eq!(second(Want::Before(at(30))), Some((19, 0)), "across the hole");
    assert_eq!(second(Want::From(at(20))), Some((30, 0)), "across the hole");
    assert_eq!(second(Want::Before(at(0))), None);
    assert_eq!(second(Want::From(at(40))), None);
    assert_eq!(second(Want::At(at(-5))), None);
}

#[test]
fn a_history_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut past = history::reader(folder.path().join("none.db"));
    assert!(past(Want::At(0)).unwrap_err().contains("none.db"));
}
