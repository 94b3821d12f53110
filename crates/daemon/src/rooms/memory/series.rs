//! Memory errors as metrics.

use crate::http::series::{Claim, Series, Value};
use surefoot_http::metrics::seconds;
use surefoot_model::{
    Certainty, CostBasis, Dimm, ErrorSeverity, Fidelity, MemoryController, MemoryLook, Persistence, ReportingCost,
    one_line,
};
use surefoot_rooms::memory::state::State;

/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;

/// Adds the series of the newest look; none where the host tells of no memory errors.
pub(super) fn encode(state: &State, now_ns: u64, series: &mut Series) {
    let Some(look) = state.look_if_supported() else { return };
    of_host(look, series);
    of_dimms(look, series);
    of_controllers(look, series);
    of_costs(&state.costs(), series);
    let help =
        "Reports of memory errors that are not listed: too many at once, dropped by the kernel, or not understood.";
    series.counter("memory_reports_untold", help).add(&[], state.lost_count());
    series.counter("memory_reports", "Reports of memory errors that are listed.").add(&[], state.reports_count);
    let help = "Files and services that tell of memory errors and cannot be read.";
    let problems = look.problems_left_out.saturating_add(look.problems.len() as u64);
    series.gauge("memory_problems", help).add(&[], problems);
    let help = "Age of the newest look at the memory errors.";
    series.seconds("memory_look_age", help).add(&[], seconds(now_ns.saturating_sub(look.looked_realtime_ns)));
}

const SEVERITIES: [(ErrorSeverity, &str); 2] =
    [(ErrorSeverity::Corrected, "corrected"), (ErrorSeverity::Uncorrected, "uncorrected")];

fn count(dimm: &Dimm, severity: ErrorSeverity) -> Option<u64> {
    let count = if severity == ErrorSeverity::Corrected { dimm.corrected() } else { dimm.uncorrected() };
    dimm.told(severity, count)
}

fn is_permanent(dimm: &Dimm) -> bool {
    dimm.fault.as_ref().is_some_and(|fault| fault.persistence == Persistence::Permanent)
}

/// What is true of all modules together, however many have series of their own.
fn of_host(look: &MemoryLook, series: &mut Series) {
    series
        .gauge("memory_dimms", "Memory modules, and places whose modules are not known.")
        .add(&[], look.dimms.len() as u64);
    for (severity, word) in SEVERITIES {
        let counts: Vec<u64> = look.dimms.iter().filter_map(|dimm| count(dimm, severity)).collect();
        let help = "Errors of all memory modules whose counts are known, over resets, wraps, reboots and moves.";
        if !counts.is_empty() {
            let sum = counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
            series.counter("memory_errors", help).add(&[("severity", word)], sum);
        }
        let help = "Memory modules whose count may be higher than what was read.";
        let unread = look.dimms.iter().filter(|dimm| dimm.is_unread(severity)).count();
        series.gauge("memory_dimms_unread", help).add(&[("severity", word)], unread as u64);
    }
    let help = "Memory modules whose rate of corrected errors is over its limit.";
    let over = look.dimms.iter().filter(|dimm| dimm.is_over_rate).count();
    series.gauge("memory_dimms_over_rate", help).add(&[], over as u64);
    let help = "Memory modules whose errors point to a permanent fault.";
    let permanent = look.dimms.iter().filter(|dimm| is_permanent(dimm)).count();
    series.gauge("memory_dimms_with_permanent_fault", help).add(&[], permanent as u64);
}

/// Those with the most errors first.
fn of_dimms(look: &MemoryLook, series: &mut Series) {
    let mut dimms: Vec<&Dimm> = look.dimms.iter().collect();
    dimms.sort_by(|a, b| (b.uncorrected(), b.corrected(), &a.id).cmp(&(a.uncorrected(), a.corrected(), &b.id)));
    for (place, dimm) in dimms.into_iter().enumerate() {
        let claim = Claim(place);
        let id = one_line(&dimm.id);
        let labels = [("dimm", id.as_str())];
        identity(dimm, &id, claim, series);
        if let Some(count) = count(dimm, ErrorSeverity::Corrected) {
            let help = "Corrected errors of a memory module, over resets, wraps, reboots and moves.";
            series.counter("memory_corrected_errors", help).of(claim, &labels, count);
        }
        if let Some(count) = count(dimm, ErrorSeverity::Uncorrected) {
            let help = "Uncorrected errors of a memory module.";
            series.counter("memory_uncorrected_errors", help).of(claim, &labels, count);
        }
        if dimm.rate_window_s > 0.0 {
            let help =
                "Corrected errors of a memory module per second between the two newest readings, within an hour.";
            series.gauge("memory_corrected_errors_per_second", help).of(claim, &labels, dimm.rate_per_s);
        }
    }
}

/// What is known of a module and of its counts. The counters have its ID alone, so that their series go on when this changes.
fn identity(dimm: &Dimm, id: &str, claim: Claim, series: &mut Series) {
    let fidelity = match dimm.fidelity {
        Fidelity::Exact => "exact",
        Fidelity::LowerBound => "lower_bound",
        Fidelity::Sampled => "sampled",
        Fidelity::Unknown => "unknown",
    };
    let read = |severity| match (dimm.is_all(severity), dimm.is_unread(severity)) {
        (true, _) => "all",
        (false, true) => "unread",
        (false, false) => "at_least",
    };
    let text = |text: &Option<String>| one_line(text.as_deref().unwrap_or_default());
    let (label, serial, part, controller) =
        (one_line(&dimm.label), text(&dimm.serial), text(&dimm.part), one_line(&dimm.controller));
    let labels = [
        ("dimm", id),
        ("label", &label),
        ("serial", &serial),
        ("serial_certainty", dimm.serial_certainty.map_or("unknown", Certainty::as_str)),
        ("part", &part),
        ("controller", &controller),
        ("fidelity", fidelity),
        ("corrected", read(ErrorSeverity::Corrected)),
        ("uncorrected", read(ErrorSeverity::Uncorrected)),
        ("kind", if dimm.only_place.is_some() { "place" } else { "module" }),
    ];
    let help = "A memory module: what it is, how exact its counts are, and whether they are all that there were.";
    series.info("memory_dimm", help).of(claim, &labels, Value::Info);
}

/// A count of a controller: its name, its help, and the value.
type OfController = (&'static str, &'static str, fn(&MemoryController) -> Option<u64>);

const OF_CONTROLLERS: [OfController; 3] = [
    (
        "memory_controller_corrected_errors",
        "Corrected errors of a memory controller, those of no known module included.",
        |one| one.corrected_count,
    ),
    (
        "memory_controller_uncorrected_errors",
        "Uncorrected errors of a memory controller, those of no known module included.",
        |one| one.uncorrected_count,
    ),
    (
        "memory_controller_no_information_errors",
        "Corrected errors of a memory controller whose module is not known.",
        |one| one.no_information_count,
    ),
];

/// As node_exporter's collector `edac` names them, for dashboards that ask for these.
const EDAC: [OfController; 2] = [
    ("node_edac_correctable_errors", "Total correctable memory errors.", |one| one.corrected_count),
    ("node_edac_uncorrectable_errors", "Total uncorrectable memory errors.", |one| one.uncorrected_count),
];

fn of_controllers(look: &MemoryLook, series: &mut Series) {
    for (place, one) in look.controllers.iter().enumerate() {
        let (claim, id) = (Claim(place), one_line(&one.id));
        for (name, help, value) in OF_CONTROLLERS {
            if let Some(count) = value(one) {
                series.counter(name, help).of(claim, &[("controller", &id)], count);
            }
        }
        if !series.extent.edac {
            continue;
        }
        let number = id.strip_prefix("mc").unwrap_or(&id);
        for (name, help, value) in EDAC {
            if let Some(count) = value(one) {
                series.alias(name, help).of(claim, &[("controller", number)], count);
            }
        }
        if let Some(count) = one.no_information_count {
            let labels = [("controller", number), ("csrow", "unknown")];
            let help = "Total correctable memory errors for this csrow.";
            series.alias("node_edac_csrow_correctable_errors", help).of(claim, &labels, count);
        }
    }
}

fn of_costs(costs: &[ReportingCost], series: &mut Series) {
    for cost in costs {
        let basis = match cost.basis {
            CostBasis::Measured => "measured",
            CostBasis::Literature => "literature",
        };
        let labels = [("what", cost.what.as_str()), ("basis", basis)];
        let help = "Time of a core for one report of a memory error, by what is done for it.";
        series.seconds("memory_reporting_each", help).add(&labels, seconds(cost.each_ns));
        if let Some(per_day_ns) = cost.per_day_ns {
            let help = "Share of one core's time that reporting memory errors takes, by what is done for it.";
            series.ratio("memory_reporting_core", help).add(&labels, per_day_ns as f64 / DAY_NS);
        }
    }
}
