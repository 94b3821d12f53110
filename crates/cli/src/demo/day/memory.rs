//! A row of one module fails: what was reported, counted and found, judged by the room's own code.

use super::clock::{H, MIN, REPAIRED, ROW_FAILS, S, at, real};
use super::random::Random;
use surefoot_memory::fault::Evidence;
use surefoot_model::{
    Certainty, CheckResult, CostBasis, Dimm, DramLocation, ErrorReport, ErrorSeverity, Event, FaultMode, Fidelity,
    MemoryCheck, MemoryController, MemoryEvent, MemoryLook, MemorySource, ReportingCost, Severity, Spread,
};

/// The module that fails.
pub const DIMM: &str = "DEMO-0A1";
pub const LABEL: &str = "CPU0_DIMM_A1";
const LOOK_EVERY: u64 = 15 * MIN;
/// Reports that are listed one by one; the counters have all errors.
const REPORTS: u64 = 60;

fn report(day_ns: u64, column: u32, count: u32) -> ErrorReport {
    let location = DramLocation {
        socket: Some(0),
        controller: Some(0),
        channel: Some(0),
        slot: Some(0),
        rank: Some(0),
        bank_group: Some(1),
        bank: Some(2),
        row: Some(0x2f4a),
        column: Some(column),
        address: Some(0x2f_4a12_0000 + u64::from(column) * 64),
        grain_bits: Some(6),
    };
    ErrorReport {
        at_realtime_ns: real(day_ns),
        at_ns: Some(at(day_ns)),
        source: MemorySource::McEvent,
        severity: ErrorSeverity::Corrected,
        dimm: Some(DIMM.into()),
        label: LABEL.into(),
        count,
        fidelity: Fidelity::Exact,
        location,
        detail: format!("rank:0 bank_group:1 bank:2 row:{} col:{column}", 0x2f4a),
    }
}

/// The reports of the day, slow at first, and after the repair none.
fn reports() -> Vec<(u64, ErrorReport)> {
    let mut random = Random::new(3);
    let length_ns = REPAIRED - 5 * MIN - ROW_FAILS;
    let of = |number: u64| {
        // Later ones come closer together.
        let done = (number as f64 / REPORTS as f64).sqrt();
        let day_ns = ROW_FAILS + (done * length_ns as f64) as u64 / S * S;
        let column = 8 * (random.below(24) as u32);
        (day_ns, report(day_ns, column, 1 + number as u32 * 40))
    };
    // Some of it was seen in the days before, and is known from the kernel's log: so the fault is one that comes back.
    let earlier = |(days, column): (u64, u32)| {
        let at_realtime_ns = real(0) - days * 24 * H + 7 * MIN;
        let seen = ErrorReport { at_realtime_ns, at_ns: None, source: MemorySource::KernelLog, ..report(0, column, 4) };
        (2 * S, seen)
    };
    [(6, 16), (4, 64), (2, 32)].map(earlier).into_iter().chain((0..REPORTS).map(of)).collect()
}

fn dimm(id: &str, label: &str, controller: &str) -> Dimm {
    Dimm {
        id: id.into(),
        label: label.into(),
        serial: Some(id.into()),
        serial_certainty: Some(Certainty::Certain),
        part: Some("DEMO-32G-4800".into()),
        size_bytes: 32 << 30,
        controller: controller.into(),
        corrected_count: Some(0),
        uncorrected_count: Some(0),
        rate_per_s: 0.0,
        rate_window_s: (LOOK_EVERY / S) as f64,
        worst_rate_per_s: 0.0,
        worst_window_s: 0.0,
        is_over_rate: false,
        fidelity: Fidelity::Exact,
        unread: Vec::new(),
        unplaced: Vec::new(),
        sources: vec![MemorySource::Edac, MemorySource::McEvent],
        spread: Spread::default(),
        fault_mode: FaultMode::None,
        fault: None,
        moved_from: None,
        mixed_with: Vec::new(),
        only_place: None,
        closed: None,
    }
}

/// The look that ends at this time of the day.
fn look(day_ns: u64, all: &[(u64, ErrorReport)]) -> MemoryLook {
    let known = |until_ns: u64| all.iter().filter(move |(when, _)| *when <= until_ns).map(|(_, report)| report);
    let count = |until_ns: u64| known(until_ns).map(|report| u64::from(report.count)).sum::<u64>();
    let mut failing = dimm(DIMM, LABEL, "mc0");
    failing.corrected_count = Some(count(day_ns));
    let rate =
        |until_ns: u64| (count(until_ns) - count(until_ns.saturating_sub(LOOK_EVERY))) as f64 / (LOOK_EVERY / S) as f64;
    failing.rate_per_s = rate(day_ns);
    let worst = (0..=day_ns / LOOK_EVERY).map(|number| rate(number * LOOK_EVERY)).fold(0.0, f64::max);
    if worst > 0.0 {
        (failing.worst_rate_per_s, failing.worst_window_s) = (worst, (LOOK_EVERY / S) as f64);
    }
    // More than 10 a second, as the leaky bucket of the room has it.
    failing.is_over_rate = failing.rate_per_s > 10.0;
    if failing.corrected() > 0 {
        let mut evidence = Evidence::default();
        known(day_ns).for_each(|report| evidence.add(report));
        let (spread, fault) = evidence.judge_at(real(day_ns));
        (failing.spread, failing.fault_mode, failing.fault) = (spread, fault.mode, Some(fault));
    }
    let corrected_count = failing.corrected();
    let controller = |id: &str, corrected_count| MemoryController {
        id: id.into(),
        name: format!("Demo memory controller {id}"),
        corrected_count: Some(corrected_count),
        uncorrected_count: Some(0),
        no_information_count: Some(0),
        adds_up: Some(true),
        reset_s: Some(at(day_ns) / S),
    };
    MemoryLook {
        at_ns: at(day_ns),
        looked_realtime_ns: real(day_ns) - 2_000_000,
        look_ns: 2_000_000,
        dimms: vec![
            failing,
            dimm("DEMO-0B1", "CPU0_DIMM_B1", "mc0"),
            dimm("DEMO-0C1", "CPU0_DIMM_C1", "mc1"),
            dimm("DEMO-0D1", "CPU0_DIMM_D1", "mc1"),
        ],
        controllers: vec![controller("mc0", corrected_count), controller("mc1", 0)],
        logs_on_console: Some(false),
        ..MemoryLook::default()
    }
}

fn check(rule: &str, evidence: &str, consequence: &str) -> MemoryCheck {
    MemoryCheck {
        rule: rule.into(),
        result: CheckResult::Passed,
        severity: Severity::Ok,
        certainty: Certainty::Certain,
        evidence: evidence.into(),
        consequence: consequence.into(),
        remedy: String::new(),
    }
}

fn costs(errors: u64) -> Vec<ReportingCost> {
    let of = |what: &str, source: &str, each_ns: u64, count: Option<u64>| ReportingCost {
        what: what.into(),
        basis: CostBasis::Measured,
        source: source.into(),
        each_ns,
        count,
        over_ns: 24 * H,
        per_day_ns: count.map(|count| count * each_ns),
    };
    vec![
        of("corrected_error_interrupt", "measured on this host", 90_000, Some(14 * (REPAIRED - ROW_FAILS) / S)),
        of("handled_record", "measured on this host", 6_000, Some(errors)),
        of("smi", "measured on this host", 39_000_000, Some(5)),
    ]
}

pub fn events() -> Vec<(u64, Event)> {
    let all = reports();
    let mut events: Vec<(u64, Event)> = Vec::new();
    let mut tell = |day_ns: u64, seen: MemoryEvent| events.push((at(day_ns), Event::Memory(seen)));
    let checks = vec![
        check("edac-driver", "mc0 and mc1 have an EDAC driver", "every corrected error is counted"),
        check(
            "cec-swallows-errors",
            "the kernel's corrected-error collector is off",
            "no error is swallowed before it is counted",
        ),
    ];
    tell(S, MemoryEvent::Checks { checks });
    for (day_ns, report) in &all {
        tell(*day_ns, MemoryEvent::Report(report.clone()));
    }
    for number in 0..24 * H / LOOK_EVERY {
        tell(number * LOOK_EVERY + 2 * S, MemoryEvent::Look(look(number * LOOK_EVERY + 2 * S, &all)));
    }
    let last = look(24 * H - 10 * S, &all);
    tell(24 * H - 12 * S, MemoryEvent::Costs { costs: costs(last.dimms[0].corrected()) });
    tell(24 * H - 10 * S, MemoryEvent::Look(last));
    events
}
