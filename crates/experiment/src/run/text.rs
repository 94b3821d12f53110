//! The effect in words.

use surefoot_console::units::{counted, duration};
use surefoot_hostfs::cpus;
use surefoot_model::ExperimentEffect;

/// With less an effect is shown too often where there is none.
pub const CONFIDENCE_ENOUGH: f64 = 0.95;

/// There is no conclusion where no run was touched.
pub const NOTHING_DISTURBED: &str =
    "no run was disturbed, so there is no result: take a longer workload, a shorter period or more repetitions";

/// The effect as text.
pub fn of(effect: &ExperimentEffect) -> String {
    let value = |value: f64| match effect.metric.as_str() {
        "wall" => duration(value as u64),
        _ => number(value),
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
        [core] => format!(" on core {}", core.0),
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
    text += &if effect.stall_count == 0 {
        format!("No conclusion: {NOTHING_DISTURBED}.\n")
    } else if effect.effect_shown && effect.confidence < CONFIDENCE_ENOUGH {
        let percent = effect.confidence * 100.0;
        format!(
            "The interval excludes 1; but it is one of {percent:.1} %, and 6 pairs of runs are needed to show an effect.\n"
        )
    } else if effect.effect_shown {
        "An effect is shown: the interval excludes 1.\n".to_owned()
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

/// With six digits that count, and no line full of zeros.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e15).contains(&value.abs()) {
        return format!("{value:.5e}");
    }
    let decimals = (5.0 - value.abs().max(1e-4).log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_as_long_as_it_tells_something() {
        for (value, said) in [
            (7_714.049_999_999_999, "7714.05"),
            (5.0, "5"),
            (0.0, "0"),
            (123_456_789.0, "123456789"),
            (0.001_234_567_89, "0.00123457"),
            (1e308, "1.00000e308"),
            (1e-320, "9.99989e-321"),
        ] {
            assert_eq!(number(value), said);
        }
    }
}
