//! The answer of `/api/v1/nic`. Times are absolute, so that an answer says the same however late it is read.

use super::findings;
use super::state::State;
use crate::answer::{Header, Limited};
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::{Interface, InterfaceChange, InterfaceProblem, Severity};

/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Everything about network interfaces at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Nic")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
    pub looked_realtime_ns: Option<u64>,
    /// How long it took.
    pub look_ns: u64,
    /// The interfaces, the worst first, then by name.
    pub interfaces: Vec<InterfaceView>,
    /// Interfaces beyond those.
    pub interfaces_left_out: u64,
    /// What could not be read.
    pub problems: Vec<InterfaceProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// The newest changes of state, oldest first.
    pub changes: Vec<InterfaceChange>,
    /// Changes before those.
    pub changes_left_out: u64,
}

/// An interface, and what the room says of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct InterfaceView {
    /// What was seen.
    #[serde(flatten)]
    pub seen: Interface,
    /// How bad its state is.
    pub severity: Severity,
    /// Its link in a word or two.
    pub link: String,
}

impl InterfaceView {
    fn of(seen: &Interface) -> Self {
        InterfaceView { severity: findings::severity(seen.state), link: findings::link(seen), seen: seen.clone() }
    }
}

impl Answer {
    /// The answer of what is known.
    pub fn of(state: &State, why: Option<String>) -> Self {
        let look = state.look.clone().unwrap_or_default();
        let mut interfaces: Vec<InterfaceView> = look.interfaces.iter().map(InterfaceView::of).collect();
        interfaces.sort_by(|a, b| b.seen.state.cmp(&a.seen.state).then_with(|| a.seen.name.cmp(&b.seen.name)));
        Answer {
            header: Header::new(why),
            looked_realtime_ns: state.look.as_ref().map(|look| look.looked_realtime_ns),
            look_ns: look.look_ns,
            interfaces,
            interfaces_left_out: look.interfaces_left_out,
            problems: look.problems,
            problems_left_out: look.problems_left_out,
            changes: state.changes.iter().cloned().collect(),
            changes_left_out: state.changes_left_out,
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State) -> Self {
        Answer::of(state, None)
    }

    /// Leaves half of what is long out.
    pub fn cut(&mut self) {
        Limited(&mut self.changes, &mut self.changes_left_out).halve_oldest();
        Limited(&mut self.problems, &mut self.problems_left_out).halve();
        Limited(&mut self.interfaces, &mut self.interfaces_left_out).halve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::within;
    use surefoot_model::{InterfaceEvent, InterfaceState};

    #[test]
    fn an_answer_that_is_too_long_is_cut_and_says_by_how_much() {
        let seen = Interface { name: "x".repeat(4096), ..Interface::default() };
        let problem = InterfaceProblem { path: "devlink".into(), why: "no".into() };
        let change = InterfaceChange {
            at_ns: 0,
            at_realtime_ns: 0,
            interface: "eth0".into(),
            from: InterfaceState::Ok,
            to: InterfaceState::Hung,
            evidence: Vec::new(),
        };
        let mut state = State::default();
        (0..200).for_each(|_| state.seen(&InterfaceEvent::Changed(change.clone())));
        let view = InterfaceView { seen, ..InterfaceView::default() };
        let problems = vec![problem; 8];
        let answer = Answer { interfaces: vec![view; 4000], problems, ..Answer::of(&state, None) };
        assert_eq!((answer.changes.len(), answer.changes_left_out), (128, 72));
        let body = within(ANSWER_BYTES_MAX, answer, |answer| serde_json::to_vec(answer).unwrap(), Answer::cut);
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let kept = read["interfaces"].as_array().map_or(0, Vec::len);
        assert!(body.len() <= ANSWER_BYTES_MAX && kept > 0, "{kept}");
        assert_eq!(read["interfaces_left_out"], 4000 - kept);
        for (rows, all) in [("problems", 8), ("changes", 200)] {
            let kept = read[rows].as_array().map_or(0, Vec::len);
            assert_eq!(read[format!("{rows}_left_out")], all - kept, "{rows}");
        }
    }
}
