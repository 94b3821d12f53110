#![allow(clippy::unwrap_used)]
use super::*;
use surefoot_model::{
    Cause, Certainty, CoreLedger, CpuId, DramLocation, ErrorSeverity, FaultMode, Fidelity, Gap, GapSource, LossKind,
    Lost, SelfCost, Spread,
};

const HOUR_NS: u64 = 3_600_000_000_000;

fn window(at_hour: u64, rows: Vec<Lost>) -> Event {
    let core = CoreLedger { lost: rows, ..CoreLedger::empty(CpuId(0)) };
    Event::Window(Window {
        start_ns: at_hour * HOUR_NS,
        end_ns: (at_hour + 1) * HOUR_NS,
        cores: vec![core],
        faulty: Vec::new(),
        untimed: Vec::new(),
        completeness: Vec::new(),
        cost: SelfCost::default(),
    })
}

fn lost(kind: CauseKind, name: &str, count: u64, total_ns: u64) -> Lost {
    Lost::new(Cause::new(kind, name), count, total_ns, 0)
}

fn dimm(id: &str, corrected_count: u64) -> Dimm {
    Dimm {
        id: id.into(),
        label: String::new(),
        serial: None,
        serial_certainty: None,
        part: None,
        size_bytes: 0,
        controller: String::new(),
        corrected_count: Some(corrected_count),
        uncorrected_count: Some(0),
        rate_per_s: 0.0,
        rate_window_s: 0.0,
        worst_rate_per_s: 0.0,
        worst_window_s: 0.0,
        is_over_rate: false,
        fidelity: Fidelity::Exact,
        unread: Vec::new(),
        unplaced: Vec::new(),
        sources: Vec::new(),
        spread: Spread::default(),
        fault_mode: FaultMode::None,
        fault: None,
        moved_from: None,
        mixed_with: Vec::new(),
        only_place: None,
        closed: None,
    }
}

fn look(at_ns: u64, dimms: Vec<Dimm>) -> Event {
    Event::Memory(MemoryEvent::Look(MemoryLook { at_ns, dimms, ..MemoryLook::default() }))
}

fn report(source: MemorySource) -> Event {
    Event::Memory(MemoryEvent::Report(ErrorReport {
        at_realtime_ns: 1,
        at_ns: Some(1),
        source,
        severity: ErrorSeverity::Corrected,
        dimm: None,
        label: String::new(),
        count: 1,
        fidelity: Fidelity::Exact,
        location: DramLocation::default(),
        detail: String::new(),
    }))
}

fn tally(events: &[Event]) -> Tally {
    let mut tally = Tally::default();
    events.iter().for_each(|event| tally.take(event));
    tally
}

fn cost(tally: &Tally, what: &str) -> ReportingCost {
    tally.costs().into_iter().find(|cost| cost.what == what).unwrap()
}

#[test]
fn what_the_ledger_timed_is_measured_and_the_rest_is_literature() {
    let rows = || {
        vec![
            lost(CauseKind::MachineCheck, "threshold_apic", 10, 4_000_000),
            lost(CauseKind::MachineCheck, "deferred_error_apic", 1, 1),
            lost(CauseKind::Console, "messages", 4, 88_000_000),
            lost(CauseKind::Timer, "local_timer", 1000, 1_000_000),
        ]
    };
    let tally = tally(&[window(0, rows()), window(1, rows())]);
    let interrupts = cost(&tally, "corrected_error_interrupt");
    assert_eq!((interrupts.basis, interrupts.each_ns, interrupts.count), (CostBasis::Measured, 400_000, Some(20)));
    // 20 of 0.4 ms in 2 hours.
    assert_eq!(interrupts.per_day_ns, Some(96_000_000));
    let lines = cost(&tally, "logged_line");
    assert_eq!((lines.basis, lines.each_ns, lines.per_day_ns), (CostBasis::Measured, 22_000_000, None));
    for what in ["poll", "scanned_core", "smi"] {
        let cost = cost(&tally, what);
        assert_eq!((cost.basis, cost.per_day_ns), (CostBasis::Literature, None), "{what}");
        assert!(cost.each_ns > 0 && cost.source.starts_with("literature"), "{cost:?}");
    }
}

#[test]
fn without_a_ledger_each_report_is_an_interrupt_and_each_of_a_driver_a_line() {
    let untold = |count| {
        let why = "too many".into();
        Event::Memory(MemoryEvent::Lost { source: MemorySource::McEvent, kind: LossKind::NotListed, count, why })
    };
    let tally = tally(&[
        look(0, vec![dimm("a", 5), dimm("b", 0), dimm("c", 7)]),
        report(MemorySource::McEvent),
        report(MemorySource::MceRecord),
        untold(3),
        untold(8),
        look(24 * HOUR_NS, vec![dimm("a", 8), dimm("b", 9), dimm("c", 7)]),
    ]);
    let interrupts = cost(&tally, "corrected_error_interrupt");
    assert_eq!((interrupts.basis, interrupts.count), (CostBasis::Literature, Some(10)));
    assert_eq!(interrupts.per_day_ns, Some(10 * interrupts.each_ns));
    let lines = cost(&tally, "logged_line");
    assert_eq!((lines.count, lines.per_day_ns), (Some(9), Some(9 * lines.each_ns)));
    let all = interrupts.per_day_ns.unwrap() + lines.per_day_ns.unwrap();
    let of_dimms: Vec<(String, u64, Option<u64>)> =
        tally.of_dimms().into_iter().map(|one| (one.id, one.corrected_count, one.per_day_ns)).collect();
    assert_eq!(of_dimms, [("a".to_owned(), 3, Some(all / 4)), ("b".to_owned(), 9, Some(all / 4 * 3))]);
}

#[test]
fn an_smi_is_what_its_gap_took_also_where_that_was_known_later() {
    let gap = |verdict| Gap {
        cpu: CpuId(0),
        source: GapSource::Sentinel,
        start_ns: 0,
        duration_ns: 100_000_000,
        causes: Vec::new(),
        unexplained_ns: 100_000_000,
        verdict,
        certainty: Certainty::Probable,
        evidence: Vec::new(),
    };
    let correction = |former_verdict, verdict| {
        Event::GapCorrection(GapCorrection { gap: gap(verdict), former_verdict, former_certainty: Certainty::Probable })
    };
    let tally = tally(&[
        window(0, Vec::new()),
        Event::Gap(gap(Verdict::Smi)),
        Event::Gap(gap(Verdict::SmiLike)),
        correction(Verdict::SmiLike, Verdict::CorrectedErrorLogging),
        correction(Verdict::Smi, Verdict::CorrectedErrorLogging),
        Event::Gap(gap(Verdict::Traced)),
    ]);
    let smi = cost(&tally, "smi");
    assert_eq!((smi.basis, smi.count, smi.each_ns), (CostBasis::Measured, Some(2), 100_000_000));
    assert_eq!(smi.per_day_ns, Some(24 * 2 * 100_000_000));
}

#[test]
fn no_count_is_too_large() {
    let rows = vec![lost(CauseKind::MachineCheck, "threshold_apic", 1, u64::MAX)];
    let tally = tally(&[window(0, rows.clone()), window(0, rows)]);
    assert!(cost(&tally, "corrected_error_interrupt").per_day_ns.is_some());
}

/// Errors that a counter has and nobody reported have not cost nothing: it is not known what.
#[test]
fn errors_that_nobody_reported_have_no_price() {
    let tally = tally(&[look(0, vec![dimm("a", 5)]), look(24 * HOUR_NS, vec![dimm("a", 9)])]);
    for what in ["corrected_error_interrupt", "logged_line"] {
        let cost = cost(&tally, what);
        assert_eq!((cost.count, cost.per_day_ns), (None, None), "{what}");
    }
    assert_eq!(tally.of_dimms(), [OfDimm { id: "a".into(), corrected_count: 4, per_day_ns: None }]);
}

#[test]
fn errors_before_and_after_a_counter_began_anew_are_counted() {
    let looks = [5, 9, 2, 6, 1].iter().enumerate();
    let looks: Vec<Event> = looks.map(|(hour, &count)| look(hour as u64 * HOUR_NS, vec![dimm("a", count)])).collect();
    assert_eq!(tally(&looks).of_dimms()[0].corrected_count, 4 + 2 + 4 + 1);
}

#[test]
fn what_was_not_known_before_did_not_come_since() {
    let unread = Dimm { corrected_count: None, unread: vec![ErrorSeverity::Corrected], ..dimm("a", 0) };
    let looks =
        [look(0, vec![unread]), look(HOUR_NS, vec![dimm("a", 48_211)]), look(2 * HOUR_NS, vec![dimm("a", 48_213)])];
    let came = tally(&looks).of_dimms();
    assert_eq!(came, [OfDimm { id: "a".into(), corrected_count: 2, per_day_ns: None }]);
}

#[test]
fn what_is_not_printed_is_not_charged() {
    let quiet = |at_ns, corrected| match look(at_ns, vec![dimm("a", corrected)]) {
        Event::Memory(MemoryEvent::Look(look)) => {
            Event::Memory(MemoryEvent::Look(MemoryLook { logs_on_console: Some(false), ..look }))
        }
        other => other,
    };
    let tally = tally(&[quiet(0, 5), report(MemorySource::McEvent), quiet(24 * HOUR_NS, 6)]);
    assert_eq!(cost(&tally, "logged_line").per_day_ns, Some(0));
    // The record alone: its line is priced apart, and so is never charged twice.
    assert_eq!(cost(&tally, "corrected_error_interrupt").per_day_ns, Some(775_000));
}
