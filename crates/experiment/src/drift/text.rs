//! The drift in words.

use super::lines::{DriftLine, RateLine};
use surefoot_console::units::{counted, duration};
use surefoot_hostfs::cpus;

/// The drift as text.
pub fn of(line: &DriftLine) -> String {
    let source = line.clocksource.as_deref().unwrap_or("a source that it does not tell");
    let mut text = format!("the wall clock, which the kernel takes from {source}, beside {}\n", line.reference);
    text += &format!("  {}: {}\n", line.method, line.method_words);
    text += &format!(
        "  {} of {} every {} on cores {}\n",
        counted(line.disturbance_count, "stall", "stalls"),
        duration(line.length_ns),
        duration(line.period_ns),
        cpus::format_list(&line.cores)
    );
    let rate = |words: &str, rate: &RateLine| {
        format!(
            "{words}  {:+.3} us a second (standard deviation {:.3}; {} in {:.1} s)\n",
            rate.ns_per_s / 1e3,
            rate.deviation_ns_per_s / 1e3,
            counted(rate.comparison_count as u64, "comparison", "comparisons"),
            rate.span_s
        )
    };
    text += &rate("undisturbed", &line.undisturbed);
    text += &rate("disturbed  ", &line.disturbed);
    let time = |ns: f64| format!("{}{}", if ns < 0.0 { "-" } else { "+" }, duration(ns.abs() as u64));
    text += &format!(
        "drift        {} per thousand disturbances; in 19 of 20 cases {} to {}\n",
        time(line.ns_per_thousand),
        time(line.interval_low_ns),
        time(line.interval_high_ns)
    );
    text += match line.drift_shown {
        true => "A drift is shown: the interval does not hold 0.\n",
        false => "No drift shown.\n",
    };
    let lost = line.missed_stalls + line.dropped_stalls + line.cut_stalls;
    if lost > 0 {
        text += &format!("Of the stalls, {lost} were missed, cut short or not recorded.\n");
    }
    for warning in &line.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}
