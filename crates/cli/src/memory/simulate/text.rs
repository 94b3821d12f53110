//! What `memory simulate` says to people.

use super::lines::{CostLine, ResultLine};
use super::shard_file::Run;
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration, percent};
use surefoot_memory::simulate::Mechanism;

/// A run and what came of it.
pub fn run(run: &Run, result: &ResultLine<'_>, costs: &[CostLine]) -> String {
    let path = &run.path;
    let how = match path.mechanism {
        Mechanism::Polling => format!("polled every {}", duration(path.interval_ns)),
        Mechanism::Cmci => format!(
            "a corrected-error interrupt at every {}, storms: {}",
            counted(path.threshold.into(), "error", "errors"),
            path.storms.name()
        ),
        Mechanism::Smi => format!("an SMI at every {}", counted(path.threshold.into(), "error", "errors")),
    };
    let mut text = format!(
        "{} for {} on {}: {} of {} bits, {}, {how}\n\n",
        run.errors,
        days(path.duration_ns),
        counted(run.fleet.hosts, "host", "hosts"),
        counted(path.banks.into(), "counter", "counters"),
        path.counter_bits,
        counted(path.cores.into(), "core", "cores"),
    );
    let mut table = Table::new(&["", "", ""], &[0, 2]);
    let mut row = |name: &str, value: String, note: String| table.row(vec![name.into(), value, note]);
    row("errors", result.arrived_count.to_string(), String::new());
    row("reported", result.reported_count.to_string(), percent(result.reported_count, result.arrived_count));
    let below = match result.below_threshold_count {
        0 => String::new(),
        count => format!(", {count} of them below the threshold at the end"),
    };
    row("missed", result.missed_count.to_string(), percent(result.missed_count, result.arrived_count) + &below);
    row("reports", result.report_count.to_string(), format!("{} with a full counter", result.saturated_count));
    row("polls", result.poll_count.to_string(), String::new());
    row("storms", result.storm_count.to_string(), String::new());
    let whole_ns = path.duration_ns.saturating_mul(run.fleet.hosts);
    let cores = match result.stalled_cores {
        1 => "of one core".to_owned(),
        cores => format!("of all {cores} cores"),
    };
    row("stall", duration(result.stall_total_ns), format!("{} {cores}", percent(result.stall_total_ns, whole_ns)));
    if result.stall_of_lines_ns > 0 {
        let saved = duration(result.stall_total_ns.saturating_sub(result.stall_of_lines_ns));
        row("of it log lines", duration(result.stall_of_lines_ns), format!("{saved} without console logging"));
    }
    row("longest stall", duration(result.stall_longest_ns), String::new());
    if run.fleet.hosts > 1 {
        row("hosts with errors", result.hosts_with_errors.to_string(), String::new());
        row("hosts that miss some", result.hosts_with_misses.to_string(), String::new());
    }
    // The header is empty.
    text += table.text().trim_start_matches('\n');
    text + &assumed(costs)
}

/// The costs, and where they come from.
pub fn assumed(costs: &[CostLine]) -> String {
    let mut table = Table::new(&["cost of one", "", "from"], &[0, 2]);
    for cost in costs {
        table.row(vec![cost.what.replace('_', " "), duration(cost.each_ns), cost.source.into()]);
    }
    format!("\n{}", table.text())
}

/// A long time.
pub fn days(ns: u64) -> String {
    const DAY_NS: u64 = 86_400_000_000_000;
    match ns {
        ns if ns >= DAY_NS && ns.is_multiple_of(DAY_NS) => counted(ns / DAY_NS, "day", "days"),
        ns if ns >= 3_600_000_000_000 => format!("{:.4} h", ns as f64 / 3.6e12).replace(".0000", ""),
        ns => duration(ns),
    }
}
