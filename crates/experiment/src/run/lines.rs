//! The lines of `--json`, which are also what the text, the journal and the page tell.

use crate::plan::record::is_of_cores;
use serde::{Deserialize, Serialize};
use surefoot_disturb::disturbance::{Chosen, Losses, Stall};
use surefoot_disturb::effect::Effect;
use surefoot_disturb::experiment::{Experiment, Outcome, Run, Timing};
use surefoot_model::{ExperimentBegan, ExperimentEffect, ExperimentRun, InjectedStall};

/// A line of an experiment.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DisturbRunLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// A stall that was injected.
    Stall(InjectedStall),
    /// A run that is complete.
    Run(ExperimentRun),
    /// What all pairs of runs come to.
    Effect(Box<ExperimentEffect>),
}

/// A stall as the lines have it.
pub fn stall(run: &Run, stall: &Stall) -> InjectedStall {
    let &Stall { cpu, target_ns, start_ns, length_ns } = stall;
    InjectedStall { run: run.number, core: cpu, start_ns, length_ns, target_ns }
}

/// A run as the lines have it.
pub fn run(run: &Run) -> ExperimentRun {
    ExperimentRun {
        run: run.number,
        repetition: run.repetition,
        condition: run.condition.name().into(),
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
        case: String::new(),
        treatment: String::new(),
    }
}

/// What is about to be done; by which method is known once that is chosen.
pub fn began(experiment: &Experiment, chosen: Option<&Chosen>) -> ExperimentBegan {
    let spec = &experiment.spec;
    ExperimentBegan {
        disturbance: spec.what.name().into(),
        method: chosen.map_or(String::new(), |chosen| chosen.method.into()),
        is_of_cores: chosen.map_or_else(|| is_of_cores(spec.what.name()), |chosen| chosen.is_of_cores),
        cores: chosen.map_or_else(|| spec.cores.clone(), |chosen| chosen.cores.clone()),
        length_ns: spec.length_ns,
        period_ns: spec.period_ns,
        phase: spec.phase.name().into(),
        workload: experiment.names.workload.clone(),
        metric: experiment.names.metric.clone(),
        run_count: experiment.run_count(),
        ..ExperimentBegan::default()
    }
}

/// What was measured of a ratio, without what it was measured of.
pub fn measured(effect: &Effect, timing: &Timing, losses: Losses) -> ExperimentEffect {
    ExperimentEffect {
        ratio: effect.ratio,
        interval_low: effect.low,
        interval_high: effect.high,
        confidence: effect.confidence,
        effect_shown: effect.is_shown,
        minimum_detectable_ratio: effect.detectable,
        missed_stalls: losses.missed,
        dropped_stalls: losses.dropped,
        cut_stalls: losses.cut,
        start_late_median_ns: timing.start_late_ns,
        end_late_median_ns: timing.end_late_ns,
        end_late_p90_ns: timing.end_late_p90_ns,
        start_skew_median_ns: timing.start_skew_ns,
        end_skew_median_ns: timing.end_skew_ns,
        ..ExperimentEffect::default()
    }
}

/// The effect, which ends the lines.
pub fn effect(experiment: &Experiment, chosen: &Chosen, found: &Outcome, warnings: Vec<String>) -> ExperimentEffect {
    let far = found.runs.iter().zip(&found.outliers).filter(|(_, is_far)| **is_far);
    let [undisturbed_median, disturbed_median] = found.medians();
    ExperimentEffect {
        injected_share: found.injected_share,
        stall_count: found.stall_count,
        // Where nothing was disturbed, a difference is no effect of it.
        effect_shown: found.effect.is_shown && found.stall_count > 0,
        outlier_runs: far.map(|(run, _)| run.number).collect(),
        method: chosen.method.into(),
        method_words: chosen.words.into(),
        cores: if chosen.is_of_cores { chosen.cores.clone() } else { Vec::new() },
        length_ns: experiment.spec.length_ns,
        period_ns: experiment.spec.period_ns,
        workload: experiment.names.workload.clone(),
        metric: experiment.names.metric.clone(),
        repetitions: experiment.repetitions as u64,
        seed: experiment.seed,
        undisturbed_median,
        disturbed_median,
        notes: chosen.injector.notes(),
        warnings,
        ..measured(&found.effect, &found.timing, found.losses)
    }
}
