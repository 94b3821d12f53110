//! The length in words.

use super::lines::{LengthLine, StepLine};
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration};
use surefoot_disturb::length::Step;
use surefoot_model::time_words;

/// The length as text.
pub fn of(steps: &[Step], line: &LengthLine) -> String {
    let mut table = Table::new(&["wait", "stalls", "period", "without stalls", "length", "period - wait"], &[]);
    let time = |ns: f64| if ns < 0.0 { format!("-{}", duration(-ns as u64)) } else { duration(ns as u64) };
    for step in steps.iter().map(StepLine::of) {
        table.row(vec![
            duration(step.interval_ns),
            step.count.to_string(),
            time(step.period_ns),
            time(step.idle_period_ns),
            time(step.length_ns),
            time(step.deviation_ns),
        ]);
    }
    let mut text = table.text();
    let [length, low, high] = [line.length_ns, line.interval_low_ns, line.interval_high_ns].map(fine);
    text += &format!("\nlength by counting  {length}; in 19 of 20 cases {low} to {high}\n");
    if let Some(injected_ns) = line.injected_ns {
        let stalls = counted(line.injected_count as u64, "stall", "stalls");
        text +=
            &format!("length injected     {} (median of {stalls} by the driver's clock reads)\n", fine(injected_ns));
    }
    if let Some(probe_ns) = line.probe_ns {
        let gaps = counted(line.probe_count as u64, "gap", "gaps");
        text += &format!("length seen         {} (median of {gaps} of a loop on core {})\n", fine(probe_ns), line.cpu);
    }
    text += &format!("driver's own time   {}\n", time(line.driver_ns));
    for warning in &line.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}

/// With five digits: the ends of an interval often differ in the fourth.
fn fine(ns: f64) -> String {
    let step = 10f64.powf((ns.max(1.0).log10().floor() - 4.0).max(0.0));
    time_words(((ns / step).round() * step) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_five_digits() {
        for (ns, said) in [(105_021_384.6, "105.02 ms"), (2_000_000.0, "2 ms"), (100_912.0, "100.91 us"), (0.0, "0 ns")]
        {
            assert_eq!(fine(ns), said);
        }
    }
}
