//! What is going to be run.

use serde::{Deserialize, Serialize};
use surefoot_disturb::plan::{Case, Compared, Measure, Plan, Treatment};
use surefoot_disturb::preset::Preset;
use surefoot_model::CpuId;

/// What is going to be run; the first line.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "plan")]
pub struct PlanLine {
    /// The preset's name, or what the file calls itself.
    pub name: String,
    /// `slides` or `icpe20`.
    preset: Option<String>,
    quick: bool,
    repetitions: u64,
    seed: u64,
    /// A run of each workload comes before, which counts for nothing.
    warm_up: bool,
    /// Runs of the whole plan, those for warming up included.
    pub run_count: u64,
    /// The workloads, in their order.
    pub workloads: Vec<WorkloadOfPlan>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadOfPlan {
    pub name: String,
    command: String,
    measures: Vec<MeasureOfPlan>,
    pub disturbances: Vec<DisturbanceOfPlan>,
    /// Why this host cannot run it.
    unsupported: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasureOfPlan {
    name: String,
    metric: String,
    /// `ratio` or `difference`.
    compared: String,
}

/// A disturbance of a workload of the plan.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DisturbanceOfPlan {
    name: String,
    /// `freeze` or another one.
    pub kind: String,
    /// The length of a stall; 0 of what has none.
    pub length_ns: u64,
    /// From one stall to the next.
    pub period_ns: u64,
    /// None for all that are online.
    pub cores: Vec<CpuId>,
    /// `same`, `staggered` or `random`.
    phase: String,
}

impl PlanLine {
    /// The line of a plan.
    pub fn of(name: &str, preset: Option<Preset>, is_quick: bool, plan: &Plan) -> PlanLine {
        PlanLine {
            name: name.to_owned(),
            preset: preset.map(|preset| preset.name().into()),
            quick: is_quick,
            repetitions: plan.repetitions as u64,
            seed: plan.seed,
            warm_up: plan.warms_up,
            run_count: plan.places().len() as u64,
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
                Compared::Ratio => "ratio".into(),
                Compared::Difference => "difference".into(),
            },
        };
        let disturbance = |treatment: &Treatment| DisturbanceOfPlan {
            name: treatment.name.clone(),
            kind: treatment.spec.what.name().into(),
            length_ns: treatment.spec.length_ns,
            period_ns: treatment.spec.period_ns,
            cores: treatment.spec.cores.clone(),
            phase: treatment.spec.phase.name().into(),
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
