//! The lines of `--json`, which are also what the text tells.

use serde::Serialize;
use surefoot_disturb::disturbance::{Chosen, Stall};
use surefoot_disturb::experiment::{Experiment, Outcome, Run};
use surefoot_model::CpuId;

/// A stall that was injected, by the injector's own clock reads.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "stall")]
pub struct StallLine {
    /// The run that it touched.
    run: u64,
    /// `null` where the workload was stopped, wherever it ran.
    core: Option<CpuId>,
    /// `CLOCK_MONOTONIC`.
    start_ns: u64,
    length_ns: u64,
    /// When it was to begin.
    target_ns: u64,
}

impl StallLine {
    pub fn of(run: &Run, stall: &Stall) -> StallLine {
        let &Stall { cpu, target_ns, start_ns, length_ns } = stall;
        StallLine { run: run.number, core: cpu, start_ns, length_ns, target_ns }
    }
}

/// A run that is complete.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "run")]
pub struct RunLine {
    /// From 0.
    run: u64,
    /// The pair that it belongs to; that to warm up belongs to none.
    repetition: Option<u64>,
    /// `warm_up`, `undisturbed` or `disturbed`.
    condition: &'static str,
    /// The metric; nanoseconds for the wall time.
    value: f64,
    /// `CLOCK_MONOTONIC`.
    start_ns: u64,
    wall_ns: u64,
    /// Stalls that touched it; of a disturbance at a rate, the interrupts or packets.
    stall_count: u64,
    /// The share of its time that the disturbed cores stood still.
    injected_share: f64,
    /// Stalls whose end had passed before they could begin.
    missed_stalls: u64,
    /// Stalls that happened and whose record was lost.
    dropped_stalls: u64,
    /// Stalls that ended before their time.
    cut_stalls: u64,
    /// Processes that the workload left behind and that were ended.
    left_behind: u64,
    /// Output beyond what is kept.
    dropped_bytes: u64,
    /// The load of the machine before it, over one minute.
    load: Option<f64>,
}

impl RunLine {
    pub fn of(run: &Run) -> RunLine {
        RunLine {
            run: run.number,
            repetition: run.repetition,
            condition: run.condition.name(),
            value: run.value,
            start_ns: run.start_ns,
            wall_ns: run.wall_ns,
            stall_count: run.stall_count,
            injected_share: run.injected_share,
            missed_stalls: run.losses.missed,
            dropped_stalls: run.losses.dropped,
            cut_stalls: run.losses.cut,
            left_behind: run.left_behind,
            dropped_bytes: run.dropped_bytes,
            load: run.load,
        }
    }
}

/// What all pairs of runs come to.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "effect")]
pub struct EffectLine {
    /// The metric disturbed over undisturbed: the Hodges-Lehmann estimate over the pairs.
    pub ratio: f64,
    /// Of the signed-rank interval, which holds the true ratio as often as `confidence` says.
    pub interval_low: f64,
    pub interval_high: f64,
    /// 0.95 or more from 6 pairs on.
    pub confidence: f64,
    /// The interval does not hold 1.
    pub effect_shown: bool,
    /// The least ratio above 1, and its reciprocal below, that four of five experiments like this one would show.
    pub minimum_detectable_ratio: f64,
    /// The share of the disturbed runs' time that the disturbed cores stood still, by what the injector did.
    pub injected_share: f64,
    pub stall_count: u64,
    pub missed_stalls: u64,
    pub dropped_stalls: u64,
    pub cut_stalls: u64,
    /// Medians over all stalls: the start and the end less the time that they were to be.
    pub start_late_median_ns: Option<i64>,
    pub end_late_median_ns: Option<i64>,
    /// Nine of ten ended no later than this.
    pub end_late_p90_ns: Option<i64>,
    /// Medians: how far the starts and ends of cores lie apart that were to stop at the same moment.
    pub start_skew_median_ns: Option<i64>,
    pub end_skew_median_ns: Option<i64>,
    /// The runs that lie far from the others of their kind, by number; they count all the same.
    pub outlier_runs: Vec<u64>,
    /// How it was done.
    pub method: &'static str,
    /// What that really does.
    pub method_words: &'static str,
    /// The cores that were disturbed; none where the workload or a guest was.
    pub cores: Vec<CpuId>,
    pub length_ns: u64,
    pub period_ns: u64,
    pub workload: String,
    pub metric: String,
    pub repetitions: usize,
    pub seed: u64,
    /// The undisturbed and the disturbed runs' medians.
    pub undisturbed_median: f64,
    pub disturbed_median: f64,
    /// What was counted beside it.
    pub notes: Vec<String>,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

impl EffectLine {
    pub fn of(experiment: &Experiment, chosen: &Chosen, found: &Outcome, warnings: Vec<String>) -> EffectLine {
        let effect = &found.effect;
        let far = found.runs.iter().zip(&found.outliers).filter(|(_, is_far)| **is_far);
        let [undisturbed_median, disturbed_median] = found.medians();
        EffectLine {
            ratio: effect.ratio,
            interval_low: effect.low,
            interval_high: effect.high,
            confidence: effect.confidence,
            effect_shown: effect.is_shown,
            minimum_detectable_ratio: effect.detectable,
            injected_share: found.injected_share,
            stall_count: found.stall_count,
            missed_stalls: found.losses.missed,
            dropped_stalls: found.losses.dropped,
            cut_stalls: found.losses.cut,
            start_late_median_ns: found.timing.start_late_ns,
            end_late_median_ns: found.timing.end_late_ns,
            end_late_p90_ns: found.timing.end_late_p90_ns,
            start_skew_median_ns: found.timing.start_skew_ns,
            end_skew_median_ns: found.timing.end_skew_ns,
            outlier_runs: far.map(|(run, _)| run.number).collect(),
            method: chosen.method,
            method_words: chosen.words,
            cores: if chosen.is_of_cores { chosen.cores.clone() } else { Vec::new() },
            length_ns: experiment.spec.length_ns,
            period_ns: experiment.spec.period_ns,
            workload: experiment.workload.command.clone(),
            metric: experiment.metric.words(),
            repetitions: experiment.repetitions,
            seed: experiment.seed,
            undisturbed_median,
            disturbed_median,
            notes: chosen.injector.notes(),
            warnings,
        }
    }
}
