//! The JSON lines of `memory simulate`.

use serde::Serialize;
use surefoot_memory::simulate::{Costs, FleetOutcome, Path, Work};

/// What a kind of work takes, and who says so.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "assumed_cost")]
pub struct CostLine {
    /// As in the lines of `memory status`: `poll`, `scanned_core`, `handled_record`, `corrected_error_interrupt`, `logged_line` or `smi`.
    pub what: &'static str,
    pub each_ns: u64,
    /// Where the number comes from.
    pub source: &'static str,
}

/// What came of the run; all counts are sums over its hosts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "result")]
pub struct ResultLine<'a> {
    pub mechanism: &'static str,
    pub errors: &'a str,
    pub arrived_count: u64,
    pub reported_count: u64,
    /// `arrived_count` less `reported_count`.
    pub missed_count: u64,
    /// Of these, errors that stood in a counter below its threshold at the end.
    pub below_threshold_count: u64,
    /// Stall of each core that a report stops, see `stalled_cores`.
    pub stall_total_ns: u64,
    /// The longest unbroken stall of any host.
    pub stall_longest_ns: u64,
    /// Records that were made: one for each counter that was read and not 0.
    pub report_count: u64,
    /// Of these, the ones whose counter was full.
    pub saturated_count: u64,
    pub poll_count: u64,
    pub storm_count: u64,
    /// Of the stall, what printing lines on the console took; the rest is the stall without console logging.
    pub stall_of_lines_ns: u64,
    /// Cores that stand still during a report: all for an SMI, otherwise one.
    pub stalled_cores: u32,
    pub duration_ns: u64,
    pub host_count: u64,
    pub hosts_with_errors: u64,
    pub hosts_with_misses: u64,
}

/// The costs that such a run pays, in the order of [`Work::ALL`].
pub fn costs_of(path: &Path) -> Vec<CostLine> {
    costs(&path.costs, path.paid())
}

/// The costs of these kinds of work.
pub fn costs(costs: &Costs, paid: &[Work]) -> Vec<CostLine> {
    let source = |work: Work| {
        let is_default = costs.of(work) == Costs::LITERATURE.of(work);
        if is_default { work.source() } else { "option" }
    };
    paid.iter().map(|&work| CostLine { what: work.name(), each_ns: costs.of(work), source: source(work) }).collect()
}

pub fn result<'a>(path: &Path, errors: &'a str, hosts: u64, found: &FleetOutcome) -> ResultLine<'a> {
    let outcome = &found.outcome;
    ResultLine {
        mechanism: path.mechanism.name(),
        errors,
        arrived_count: outcome.arrived_count,
        reported_count: outcome.reported_count,
        missed_count: outcome.missed_count,
        below_threshold_count: outcome.below_threshold_count,
        stall_total_ns: outcome.stall_total_ns,
        stall_longest_ns: outcome.stall_longest_ns,
        report_count: outcome.report_count,
        saturated_count: outcome.saturated_count,
        poll_count: outcome.poll_count,
        storm_count: outcome.storm_count,
        stall_of_lines_ns: path.stall_of_lines_ns(outcome.report_count),
        stalled_cores: path.stalled_cores(),
        duration_ns: path.duration_ns,
        host_count: hosts,
        hosts_with_errors: found.hosts_with_errors,
        hosts_with_misses: found.hosts_with_misses,
    }
}
