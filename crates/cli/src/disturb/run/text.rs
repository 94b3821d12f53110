//! The effect in words.

use crate::units::{counted, duration};
use surefoot_hostfs::cpus;
use surefoot_model::ExperimentEffect;

/// With less an effect is shown too often where there is none.
pub const CONFIDENCE_ENOUGH: f64 = 0.95;

pub fn of(effect: &ExperimentEffect) -> String {
    let value = |value: f64| match effect.metric.as_str() {
        "wall" => duration(value as u64),
        _ => format!("{value}"),
    };
    let (low, high) = (effect.interval_low, effect.interval_high);
    let mut text = format!(
        "{}, {}: {}\n",
        effect.workload,
        effect.metric,
        counted(effect.repetitions, "pair of runs", "pairs of runs")
    );
    text += &format!("  {}: {}\n", effect.method, effect.method_words);
    let cores = match &effect.cores[..] {
        [] => String::new(),
        cores => format!(" on cores {}", cpus::format_list(cores)),
    };
    text += &if effect.length_ns == 0 {
        let rate = 1e9 / effect.period_ns as f64;
        format!("  asked for {rate:.0} a second{cores}; {} while the runs were\n", effect.stall_count)
    } else {
        format!(
            "  asked for {} every {}{cores}; {} touched the runs, {:.2} % of their time\n",
            duration(effect.length_ns),
            duration(effect.period_ns),
            counted(effect.stall_count, "stall", "stalls"),
            effect.injected_share * 100.0
        )
    };
    for note in &effect.notes {
        text += &format!("  {note}\n");
    }
    if let Some(late_ns) = effect.end_late_median_ns.filter(|_| effect.length_ns > 0) {
        let apart = effect
            .end_skew_median_ns
            .map_or(String::new(), |ns| format!(", cores {} apart", duration(ns.unsigned_abs())));
        text += &format!("  they ended {} late{apart} (medians)\n", duration(late_ns.max(0).unsigned_abs()));
    }
    text += &format!("undisturbed  {} (median)\n", value(effect.undisturbed_median));
    text += &format!("disturbed    {} (median)\n", value(effect.disturbed_median));
    text += &format!(
        "ratio        {:.4}, {:.1} % interval {low:.4} to {high:.4}\n",
        effect.ratio,
        effect.confidence * 100.0
    );
    text += &if effect.effect_shown && effect.confidence < CONFIDENCE_ENOUGH {
        let percent = effect.confidence * 100.0;
        format!(
            "The interval does not hold 1; but it is one of {percent:.1} %, and 6 pairs of runs are needed to show an effect.\n"
        )
    } else if effect.effect_shown {
        "An effect is shown: the interval does not hold 1.\n".to_owned()
    } else {
        let least = effect.minimum_detectable_ratio;
        format!(
            "No effect shown. One of {:.2} % or more would have been, in 4 of 5 experiments like this.\n",
            (least - 1.0) * 100.0
        )
    };
    if !effect.outlier_runs.is_empty() {
        let runs: Vec<String> = effect.outlier_runs.iter().map(u64::to_string).collect();
        text += &format!(
            "Outliers, which count all the same: {} {}\n",
            if runs.len() == 1 { "run" } else { "runs" },
            runs.join(", ")
        );
    }
    for warning in &effect.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}
