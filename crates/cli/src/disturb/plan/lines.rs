//! The lines of `--json` of several workloads.

use super::Report;
use serde::Serialize;
use std::collections::BTreeMap;
use surefoot_disturb::plan::{Case, Compared, Done, Found, Measure, MeasureOutcome, Plan, Treatment, TreatmentOutcome};
use surefoot_disturb::preset::{Preset, Row};
use surefoot_disturb::workload::ready::Ready;
use surefoot_model::{CpuId, InjectedStall};

/// A stall that was injected.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "stall")]
pub struct StallLine {
    #[serde(flatten)]
    pub stall: InjectedStall,
}

/// What is going to be run; the first line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "plan")]
pub struct PlanLine {
    /// The preset's name, or what the file calls itself.
    name: String,
    /// `slides` or `icpe20`.
    preset: Option<&'static str>,
    quick: bool,
    repetitions: usize,
    seed: u64,
    /// A run of each workload comes before, which counts for nothing.
    warm_up: bool,
    run_count: usize,
    workloads: Vec<WorkloadOfPlan>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadOfPlan {
    name: String,
    command: String,
    measures: Vec<MeasureOfPlan>,
    disturbances: Vec<DisturbanceOfPlan>,
    /// Why this host cannot run it.
    unsupported: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasureOfPlan {
    name: String,
    metric: String,
    /// `ratio` or `difference`.
    compared: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DisturbanceOfPlan {
    name: String,
    /// `freeze` or another one.
    kind: &'static str,
    length_ns: u64,
    period_ns: u64,
    /// None for all that are online.
    cores: Vec<CpuId>,
    /// `same`, `staggered` or `random`.
    phase: &'static str,
}

impl PlanLine {
    pub fn of(name: &str, preset: Option<Preset>, is_quick: bool, plan: &Plan) -> PlanLine {
        PlanLine {
            name: name.to_owned(),
            preset: preset.map(Preset::name),
            quick: is_quick,
            repetitions: plan.repetitions,
            seed: plan.seed,
            warm_up: plan.warms_up,
            run_count: plan.places().len(),
            workloads: plan.cases.iter().map(WorkloadOfPlan::of).collect(),
        }
    }
}

impl WorkloadOfPlan {
    fn of(case: &Case) -> WorkloadOfPlan {
        let measure = |measure: &Measure| MeasureOfPlan {
            name: measure.name.clone(),
            metric: measure.metric.words(),
            compared: match measure.compared {
                Compared::Ratio => "ratio",
                Compared::Difference => "difference",
            },
        };
        let disturbance = |treatment: &Treatment| DisturbanceOfPlan {
            name: treatment.name.clone(),
            kind: treatment.spec.what.name(),
            length_ns: treatment.spec.length_ns,
            period_ns: treatment.spec.period_ns,
            cores: treatment.spec.cores.clone(),
            phase: treatment.spec.phase.name(),
        };
        WorkloadOfPlan {
            name: case.name.clone(),
            command: case.workload.command.clone(),
            measures: case.measures.iter().map(measure).collect(),
            disturbances: case.treatments.iter().map(disturbance).collect(),
            unsupported: case.unsupported.clone(),
        }
    }
}

/// A run that is complete.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "run")]
pub struct RunLine {
    /// From 0.
    run: u64,
    workload: String,
    /// `null` for an undisturbed run.
    disturbance: Option<String>,
    /// That to warm up belongs to none.
    repetition: Option<u64>,
    /// `warm_up`, `undisturbed` or `disturbed`.
    condition: &'static str,
    /// That of the first measure.
    value: f64,
    /// Of each measure.
    values: BTreeMap<String, f64>,
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
    pub fn of(plan: &Plan, done: &Done) -> RunLine {
        let (case, run) = (&plan.cases[done.place.case], &done.run);
        let values = case.measures.iter().zip(&done.values).map(|(measure, value)| (measure.name.clone(), *value));
        RunLine {
            run: run.number,
            workload: case.name.clone(),
            disturbance: done.place.treatment.map(|treatment| case.treatments[treatment].name.clone()),
            repetition: done.place.repetition,
            condition: run.condition.name(),
            value: run.value,
            values: values.collect(),
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

/// A workload, or one of its disturbances, that there is no answer of.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "given_up")]
pub struct GivenUpLine {
    workload: String,
    /// `null` where it is the workload itself.
    disturbance: Option<String>,
    /// This host lacks something; otherwise it was tried and failed.
    unsupported: bool,
    why: String,
}

impl GivenUpLine {
    pub fn of(case: &Case, disturbance: Option<String>, found: Option<&Found>) -> Option<GivenUpLine> {
        let (unsupported, why) = match found? {
            Found::Unsupported(why) => (true, why),
            Found::Failed(why) => (false, why),
        };
        Some(GivenUpLine { workload: case.name.clone(), disturbance, unsupported, why: why.clone() })
    }

    pub fn of_treatment(case: &Case, treatment: &Treatment, treated: &TreatmentOutcome) -> Option<GivenUpLine> {
        let found = treated.unsupported.clone().map(Found::Unsupported);
        GivenUpLine::of(case, Some(treatment.name.clone()), found.as_ref())
    }
}

/// What a disturbance does to a measure that is compared by ratio.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "effect")]
pub struct EffectLine {
    workload: String,
    disturbance: String,
    measure: String,
    /// The metric disturbed over undisturbed: the Hodges-Lehmann estimate over the repetitions.
    ratio: f64,
    /// Of the signed-rank interval, which holds the true ratio as often as `confidence` says.
    interval_low: f64,
    interval_high: f64,
    /// 0.95 or more from 6 repetitions on.
    confidence: f64,
    /// The interval does not hold 1.
    effect_shown: bool,
    /// The least ratio above 1, and its reciprocal below, that four of five experiments like this one would show.
    minimum_detectable_ratio: f64,
    /// The share of the disturbed runs' time that the disturbed cores stood still, by what the injector did.
    injected_share: f64,
    stall_count: u64,
    missed_stalls: u64,
    dropped_stalls: u64,
    cut_stalls: u64,
    /// Medians over all stalls: the start and the end less the time that they were to be.
    start_late_median_ns: Option<i64>,
    end_late_median_ns: Option<i64>,
    /// The runs that lie far from the others of their kind, by number; they count all the same.
    outlier_runs: Vec<u64>,
    /// How it was done.
    method: Option<&'static str>,
    /// What that really does.
    method_words: &'static str,
    /// The cores that were disturbed.
    cores: Vec<CpuId>,
    length_ns: u64,
    period_ns: u64,
    metric: String,
    /// Repetitions that have both runs.
    repetitions: usize,
    seed: u64,
    /// The undisturbed and the disturbed runs' medians.
    undisturbed_median: f64,
    disturbed_median: f64,
}

impl EffectLine {
    pub fn of(
        plan: &Plan,
        case: &Case,
        treatment: &Treatment,
        treated: &TreatmentOutcome,
        measure: &Measure,
        found: &MeasureOutcome,
    ) -> Option<EffectLine> {
        let effect = found.effect?;
        Some(EffectLine {
            workload: case.name.clone(),
            disturbance: treatment.name.clone(),
            measure: measure.name.clone(),
            ratio: effect.ratio,
            interval_low: effect.low,
            interval_high: effect.high,
            confidence: effect.confidence,
            effect_shown: effect.is_shown,
            minimum_detectable_ratio: effect.detectable,
            injected_share: treated.injected_share,
            stall_count: treated.stall_count,
            missed_stalls: treated.losses.missed,
            dropped_stalls: treated.losses.dropped,
            cut_stalls: treated.losses.cut,
            start_late_median_ns: treated.timing.start_late_ns,
            end_late_median_ns: treated.timing.end_late_ns,
            outlier_runs: found.outliers.clone(),
            method: treated.method,
            method_words: treated.method_words,
            cores: treated.cores.clone(),
            length_ns: treatment.spec.length_ns,
            period_ns: treatment.spec.period_ns,
            metric: measure.metric.words(),
            repetitions: found.pairs,
            seed: plan.seed,
            undisturbed_median: found.medians[0],
            disturbed_median: found.medians[1],
        })
    }
}

/// What a disturbance does to a share or a count, which may be 0.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "difference")]
pub struct DifferenceLine {
    workload: String,
    disturbance: String,
    measure: String,
    /// Disturbed less undisturbed: the Hodges-Lehmann estimate over the repetitions.
    difference: f64,
    /// Of the signed-rank interval.
    interval_low: f64,
    interval_high: f64,
    confidence: f64,
    /// The interval does not hold 0.
    effect_shown: bool,
    injected_share: f64,
    repetitions: usize,
    undisturbed_median: f64,
    disturbed_median: f64,
}

impl DifferenceLine {
    pub fn of(
        case: &Case,
        treatment: &Treatment,
        treated: &TreatmentOutcome,
        measure: &Measure,
        found: &MeasureOutcome,
    ) -> Option<DifferenceLine> {
        let shift = found.shift?;
        Some(DifferenceLine {
            workload: case.name.clone(),
            disturbance: treatment.name.clone(),
            measure: measure.name.clone(),
            difference: shift.estimate,
            interval_low: shift.low,
            interval_high: shift.high,
            confidence: shift.confidence,
            effect_shown: shift.is_shown,
            injected_share: treated.injected_share,
            repetitions: found.pairs,
            undisturbed_median: found.medians[0],
            disturbed_median: found.medians[1],
        })
    }
}

/// What a source published beside what was found here.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "row")]
pub struct RowLine {
    /// `slides` or `icpe20`.
    preset: Option<&'static str>,
    table: &'static str,
    row: String,
    published: String,
    ours: String,
    /// What was found, in the unit of the words; `null` where that is not one number.
    value: Option<f64>,
    interval_low: Option<f64>,
    interval_high: Option<f64>,
    /// Where the emulation is expected to differ from the source's machines.
    expected_difference: &'static str,
    /// `reproduced`, `not reproduced` or `cannot be tested here`; `null` where nothing was published.
    verdict: Option<&'static str>,
}

impl RowLine {
    pub fn of(preset: Option<Preset>, row: &Row) -> RowLine {
        RowLine {
            preset: preset.map(Preset::name),
            table: row.table,
            row: row.row.clone(),
            published: row.published.clone(),
            ours: row.ours.clone(),
            value: row.value,
            interval_low: row.interval.map(|interval| interval[0]),
            interval_high: row.interval.map(|interval| interval[1]),
            expected_difference: row.differs,
            verdict: row.verdict.map(surefoot_disturb::preset::Verdict::words),
        }
    }
}

/// The last line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "summary")]
pub struct SummaryLine {
    name: String,
    took_ns: u64,
    run_count: usize,
    /// Runs for which there was no time.
    left_out: u64,
    reproduced_count: usize,
    not_reproduced_count: usize,
    cannot_be_tested_count: usize,
    /// What to keep in mind.
    warnings: Vec<String>,
}

impl SummaryLine {
    pub fn of(report: &Report<'_>) -> SummaryLine {
        use surefoot_disturb::preset::Verdict;
        let count = |verdict: Verdict| report.rows.iter().filter(|row| row.verdict == Some(verdict)).count();
        SummaryLine {
            name: report.name.to_owned(),
            took_ns: u64::try_from(report.took.as_nanos()).unwrap_or(u64::MAX),
            run_count: report.outcome.cases.iter().map(|case| case.runs.len()).sum(),
            left_out: report.outcome.left_out,
            reproduced_count: count(Verdict::Reproduced),
            not_reproduced_count: count(Verdict::NotReproduced),
            cannot_be_tested_count: count(Verdict::CannotBeTested),
            warnings: report.warnings.to_vec(),
        }
    }
}

/// A ready-made workload.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "workload")]
pub struct WorkloadLine {
    name: &'static str,
    about: &'static str,
    measures: Vec<String>,
    /// Why this host cannot run it, with what to install.
    unsupported: Option<String>,
    command: String,
}

impl WorkloadLine {
    pub fn of(ready: &Ready) -> WorkloadLine {
        WorkloadLine {
            name: ready.name,
            about: ready.about,
            measures: ready.measures.iter().map(|measure| measure.name.clone()).collect(),
            unsupported: ready.unsupported.clone(),
            command: ready.command.clone(),
        }
    }
}
