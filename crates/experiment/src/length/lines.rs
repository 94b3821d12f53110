//! The lines of `--json`, which are also what the text tells.

use serde::Serialize;
use surefoot_disturb::effect::median;
use surefoot_disturb::length::{Length, Step};
use surefoot_model::CpuId;

/// Both counts at one time between stalls.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "step")]
pub struct StepLine {
    /// From the end of a stall to the next, as the driver was told.
    pub interval_ns: u64,
    /// Stalls that were counted.
    pub count: u64,
    /// From the end of one to the end of the next, with stalls.
    pub period_ns: f64,
    /// The same where the driver did all but stall.
    pub idle_period_ns: f64,
    /// The difference.
    pub length_ns: f64,
    /// Period less interval: the slides' formula, which takes the driver's own time for a part of the stall.
    pub deviation_ns: f64,
}

impl StepLine {
    /// The line of a step.
    pub fn of(step: &Step) -> StepLine {
        StepLine {
            interval_ns: step.interval_ns,
            count: step.stalled.count,
            period_ns: step.interval_ns as f64 + step.deviation_ns(),
            idle_period_ns: step.interval_ns as f64 + step.deviation_ns() - step.length_ns(),
            length_ns: step.length_ns(),
            deviation_ns: step.deviation_ns(),
        }
    }
}

/// How long the stalls are, from counting them alone, and as they are known and seen.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "length")]
pub struct LengthLine {
    /// By the deviation method.
    pub length_ns: f64,
    /// It is no shorter in 19 of 20 cases.
    pub interval_low_ns: f64,
    /// And no longer.
    pub interval_high_ns: f64,
    /// What the driver takes from asking to stalling, beyond the time that it was told to wait.
    pub driver_ns: f64,
    /// By how much the period grows for each nanosecond that the driver is told to wait longer.
    pub slope: f64,
    /// Steps that it is of.
    pub steps: usize,
    /// The core.
    pub cpu: CpuId,
    /// What the driver was asked for.
    pub asked_ns: u64,
    /// The median of what it really did, by its own clock reads.
    pub injected_ns: Option<f64>,
    /// Stalls that the driver timed.
    pub injected_count: usize,
    /// The median of what a loop on the core saw, entry and exit of the interruption included.
    pub probe_ns: Option<f64>,
    /// Stalls that the loop saw.
    pub probe_count: usize,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

impl LengthLine {
    /// The line of what was measured.
    pub fn of(
        cpu: CpuId,
        asked_ns: u64,
        found: &Length,
        known_ns: Vec<u64>,
        seen_ns: Vec<u64>,
        steps: usize,
        mut warnings: Vec<String>,
    ) -> LengthLine {
        if (found.slope - 1.0).abs() > 0.02 {
            warnings.push(format!(
                "for each ms of requested wait the driver waits {:.3} ms: its timer goes in steps (name them with \
                 --timer-step), or the machine is busy",
                found.slope
            ));
        }
        let middle =
            |values: &[u64]| (!values.is_empty()).then(|| median(values.iter().map(|ns| *ns as f64).collect()));
        LengthLine {
            length_ns: found.length_ns,
            interval_low_ns: found.low_ns,
            interval_high_ns: found.high_ns,
            driver_ns: found.driver_ns,
            slope: found.slope,
            steps,
            cpu,
            asked_ns,
            injected_ns: middle(&known_ns),
            injected_count: known_ns.len(),
            probe_ns: middle(&seen_ns),
            probe_count: seen_ns.len(),
            warnings,
        }
    }
}
