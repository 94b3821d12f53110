//! The length in words.

use super::lines::{LengthLine, StepLine};
use crate::table::Table;
use crate::units::{counted, duration};
use surefoot_disturb::length::Step;

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
    let [length, low, high] = [line.length_ns, line.interval_low_ns, line.interval_high_ns].map(time);
    text += &format!("\nlength by counting  {length}; in 19 of 20 cases {low} to {high}\n");
    if let Some(injected_ns) = line.injected_ns {
        let stalls = counted(line.injected_count as u64, "stall", "stalls");
        text +=
            &format!("length injected     {} (median of {stalls} by the driver's clock reads)\n", time(injected_ns));
    }
    if let Some(probe_ns) = line.probe_ns {
        let gaps = counted(line.probe_count as u64, "gap", "gaps");
        text += &format!("length seen         {} (median of {gaps} of a loop on core {})\n", time(probe_ns), line.cpu);
    }
    text += &format!("driver's own time   {}\n", time(line.driver_ns));
    for warning in &line.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}
