//! The answer of `/api/v1/remedy`.

use super::state::State;
use crate::answer::Header;
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::{HostCheck, Severity};

/// Periodic checks at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Remedy")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// The newest run of each check, by name.
    pub checks: Vec<CheckView>,
    /// Runs of checks that ended.
    pub run_count: u64,
    /// Processor time of all of them.
    pub processor_ns: u64,
    /// Results of checks that are not kept, because there are too many.
    pub left_out_count: u64,
}

/// A check, and how bad its state is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckView {
    /// Its newest run.
    #[serde(flatten)]
    pub seen: HostCheck,
    /// That of its finding.
    pub severity: Severity,
}

impl CheckView {
    fn of(seen: &HostCheck) -> Self {
        CheckView { severity: seen.state.severity(), seen: seen.clone() }
    }
}

impl Answer {
    /// The answer of what is known.
    pub fn of(state: &State, why: Option<String>) -> Self {
        Answer {
            header: Header::new(why),
            checks: state.checks.values().map(CheckView::of).collect(),
            run_count: state.run_count,
            processor_ns: state.processor_ns,
            left_out_count: state.left_out_count,
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State) -> Self {
        Answer::of(state, None)
    }
}
