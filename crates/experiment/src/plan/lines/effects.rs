//! What disturbances do to each measure, and what there is no answer of.

use crate::run::lines::measured;
use serde::{Deserialize, Serialize};
use surefoot_disturb::plan::{Case, Measure, MeasureOutcome, NoResult, Plan, Treatment, TreatmentOutcome};
use surefoot_model::{ExperimentEffect, ExperimentRow};

/// A workload, or one of its disturbances, that there is no answer of.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The line of what was given up, if anything was.
    pub fn of(case: &Case, disturbance: Option<String>, found: Option<&NoResult>) -> Option<GivenUpLine> {
        let (unsupported, why) = match found? {
            NoResult::Unsupported(why) => (true, why),
            NoResult::Failed(why) => (false, why),
        };
        Some(GivenUpLine { workload: case.name.clone(), disturbance, unsupported, why: why.clone() })
    }

    /// The same of a disturbance that this host cannot do to the workload.
    pub fn of_treatment(case: &Case, treatment: &Treatment, treated: &TreatmentOutcome) -> Option<GivenUpLine> {
        let found = treated.unsupported.clone().map(NoResult::Unsupported);
        GivenUpLine::of(case, Some(treatment.name.clone()), found.as_ref())
    }

    /// As the journal has it.
    pub fn told(&self) -> ExperimentRow {
        let kind = if self.unsupported { "unsupported" } else { "failed" };
        ExperimentRow {
            case: self.workload.clone(),
            treatment: self.disturbance.clone().unwrap_or_default(),
            why: format!("{kind}: {}", self.why),
            ..ExperimentRow::default()
        }
    }
}

/// What a disturbance does to a measure that is compared by ratio. The workload is its name here, and its notes and warnings are those of
/// this disturbance of it.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "effect")]
pub struct EffectLine {
    /// The name of the disturbance.
    pub disturbance: String,
    /// The name of the measure.
    pub measure: String,
    /// The effect.
    #[serde(flatten)]
    pub effect: ExperimentEffect,
}

impl EffectLine {
    /// The line of a measure that is compared by ratio; `None` of others, and without a result.
    pub fn of(
        plan: &Plan,
        case: &Case,
        treatment: &Treatment,
        treated: &TreatmentOutcome,
        measure: &Measure,
        found: &MeasureOutcome,
    ) -> Option<EffectLine> {
        let how = &treated.how;
        let not_used = how.not_used.iter().map(|method| format!("a better method does not work here: {method}"));
        let [undisturbed_median, disturbed_median] = found.medians;
        let effect = ExperimentEffect {
            injected_share: treated.injected_share,
            stall_count: treated.stall_count,
            effect_shown: found.effect?.is_shown && treated.stall_count > 0,
            outlier_runs: found.outliers.clone(),
            method: how.method.unwrap_or_default().into(),
            method_words: how.words.into(),
            cores: how.cores.clone(),
            length_ns: treatment.spec.length_ns,
            period_ns: treatment.spec.period_ns,
            workload: case.name.clone(),
            metric: measure.metric.words(),
            repetitions: found.pairs as u64,
            seed: plan.seed,
            undisturbed_median,
            disturbed_median,
            notes: how.notes.clone(),
            warnings: not_used.collect(),
            ..measured(&found.effect?, &treated.timing, treated.losses)
        };
        Some(EffectLine { disturbance: treatment.name.clone(), measure: measure.name.clone(), effect })
    }

    /// As the journal has it.
    pub fn told(&self) -> ExperimentRow {
        let effect = &self.effect;
        ExperimentRow {
            case: effect.workload.clone(),
            treatment: self.disturbance.clone(),
            measure: self.measure.clone(),
            compared: "ratio".into(),
            pairs: effect.repetitions,
            undisturbed_median: Some(effect.undisturbed_median),
            disturbed_median: Some(effect.disturbed_median),
            effect: Some(effect.ratio),
            interval_low: Some(effect.interval_low),
            interval_high: Some(effect.interval_high),
            effect_shown: effect.effect_shown,
            injected_share: effect.injected_share,
            stall_count: effect.stall_count,
            end_late_median_ns: effect.end_late_median_ns.filter(|_| effect.length_ns > 0),
            ..ExperimentRow::default()
        }
    }
}

/// What a disturbance does to a share or a count, which may be 0.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    stall_count: u64,
    end_late_median_ns: Option<i64>,
    repetitions: u64,
    undisturbed_median: f64,
    disturbed_median: f64,
}

impl DifferenceLine {
    /// The line of a measure that is compared by difference; `None` of others, and without a result.
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
            effect_shown: shift.is_shown && treated.stall_count > 0,
            injected_share: treated.injected_share,
            stall_count: treated.stall_count,
            end_late_median_ns: treated.timing.end_late_ns.filter(|_| treatment.spec.length_ns > 0),
            repetitions: found.pairs as u64,
            undisturbed_median: found.medians[0],
            disturbed_median: found.medians[1],
        })
    }

    /// As the journal has it.
    pub fn told(&self) -> ExperimentRow {
        ExperimentRow {
            case: self.workload.clone(),
            treatment: self.disturbance.clone(),
            measure: self.measure.clone(),
            compared: "difference".into(),
            pairs: self.repetitions,
            undisturbed_median: Some(self.undisturbed_median),
            disturbed_median: Some(self.disturbed_median),
            effect: Some(self.difference),
            interval_low: Some(self.interval_low),
            interval_high: Some(self.interval_high),
            effect_shown: self.effect_shown,
            injected_share: self.injected_share,
            stall_count: self.stall_count,
            end_late_median_ns: self.end_late_median_ns,
            ..ExperimentRow::default()
        }
    }
}
