//! The lines of `--json` of several workloads, and what the journal and the page have of them.

mod effects;
mod head;
mod rows;

pub use effects::{DifferenceLine, EffectLine, GivenUpLine};
pub use head::{DisturbanceOfPlan, PlanLine};
pub use rows::{RowLine, SummaryLine, TestLine, VerdictCounts, verdicts};

use crate::run::lines::run as run_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surefoot_disturb::plan::{Done, Plan};
use surefoot_disturb::workload::ready::Ready;
use surefoot_model::{ExperimentRun, InjectedStall};

/// A stall that was injected.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "stall")]
pub struct StallLine {
    /// The stall.
    #[serde(flatten)]
    pub stall: InjectedStall,
}

/// A run that is complete; its value is that of the first measure.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "run")]
pub struct RunLine {
    /// The name of its workload.
    pub workload: String,
    /// `null` for an undisturbed run.
    pub disturbance: Option<String>,
    /// Of each measure.
    pub values: BTreeMap<String, f64>,
    /// The run.
    #[serde(flatten)]
    pub run: ExperimentRun,
}

impl RunLine {
    /// The line of a run of this plan.
    pub fn of(plan: &Plan, done: &Done) -> RunLine {
        let case = &plan.cases[done.place.case];
        let values = case.measures.iter().zip(&done.values).map(|(measure, value)| (measure.name.clone(), *value));
        RunLine {
            workload: case.name.clone(),
            disturbance: done.place.treatment.map(|treatment| case.treatments[treatment].name.clone()),
            values: values.collect(),
            run: run_of(&done.run),
        }
    }

    /// As the journal has it.
    pub fn told(self) -> ExperimentRun {
        ExperimentRun { case: self.workload, treatment: self.disturbance.unwrap_or_default(), ..self.run }
    }
}

/// A ready-made workload.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The line of a ready-made workload.
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
