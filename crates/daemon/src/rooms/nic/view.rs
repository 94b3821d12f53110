//! The answer of `/api/v1/nic`. Times are absolute, so that an answer says the same however late it is read.

use super::state::State;
use crate::http::SCHEMA;
use axum::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::{Interface, InterfaceChange, InterfaceProblem, RecoveryStep};

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Everything about network interfaces at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Nic")]
pub struct Answer {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The version of Surefoot.
    pub version: &'static str,
    /// Why there is nothing to see, and what to do; absent where interfaces are watched.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
    pub looked_realtime_ns: Option<u64>,
    /// How long it took.
    pub look_ns: u64,
    /// The interfaces, by name.
    pub interfaces: Vec<Interface>,
    /// Interfaces beyond those.
    pub interfaces_left_out: u64,
    /// What could not be read.
    pub problems: Vec<InterfaceProblem>,
    /// The newest changes of state, oldest first.
    pub changes: Vec<InterfaceChange>,
    /// The newest steps of recovery, oldest first.
    pub steps: Vec<RecoveryStep>,
}

impl Answer {
    /// The answer of what is known.
    pub(super) fn of(state: &State, why: Option<String>) -> Self {
        let look = state.look.clone().unwrap_or_default();
        Answer {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            why,
            looked_realtime_ns: state.look.as_ref().map(|look| look.looked_realtime_ns),
            look_ns: look.look_ns,
            interfaces: look.interfaces,
            interfaces_left_out: look.interfaces_left_out,
            problems: look.problems,
            changes: state.changes.iter().cloned().collect(),
            steps: state.steps.iter().cloned().collect(),
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State) -> Self {
        Answer::of(state, None)
    }

    /// The answer's text; half of what is long goes until that is short enough.
    pub(super) fn within_limit(mut self, text: impl Fn(&Answer) -> Bytes) -> Bytes {
        loop {
            let body = text(&self);
            if body.len() <= ANSWER_BYTES_MAX {
                return body;
            }
            self.changes.drain(..self.changes.len().div_ceil(2));
            self.steps.drain(..self.steps.len().div_ceil(2));
            self.problems.truncate(self.problems.len() / 2);
            let kept = self.interfaces.len() / 2;
            self.interfaces_left_out += (self.interfaces.len() - kept) as u64;
            self.interfaces.truncate(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_is_cut_and_says_by_how_much() {
        let interface = Interface { name: "x".repeat(4096), ..Interface::default() };
        let state = State::default();
        let answer = Answer { interfaces: vec![interface; 4000], ..Answer::of(&state, None) };
        let body = answer.within_limit(|answer| Bytes::from(serde_json::to_vec(answer).unwrap_or_default()));
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let kept = read["interfaces"].as_array().map_or(0, Vec::len);
        assert!(body.len() <= ANSWER_BYTES_MAX && kept > 0, "{kept}");
        assert_eq!(read["interfaces_left_out"], 4000 - kept);
    }
}
