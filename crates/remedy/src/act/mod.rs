//! How steps are done. What a step does to a host lies behind [`Act`]: the engine, its tests and simulations know nothing else.
//! [`Hands`] are the real ones: a file for each kind of step, and nothing else in this crate changes a machine.

mod answer;
pub mod debug_mode;
mod doubts;
mod drain;
mod firmware;
mod hands;
mod hook;
mod ipmi;
pub mod machine;
mod of_policies;
mod own;
mod pages;
pub mod presence;
mod reboot;
mod recheck;
mod redfish;
mod shown;
mod stress;
mod ticket;
mod unit;

pub use doubts::doubts;
pub use drain::Drainer;
pub use drain::kubernetes::Kubernetes;
pub use drain::slurm::{Commands, Slurm};
pub use hands::{Hands, HandsConfig};
pub use hook::{HookRule, trusted, trusted_file};
pub use ipmi::Ipmi;
pub use of_policies::secret_files;
pub use reboot::{ANOTHER_MACHINE, Times};
pub use recheck::judge;
pub use redfish::{Attributes, Bmc, Machine, Refused};
pub use ticket::TicketSystem;

use crate::Step;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use surefoot_model::{AlertReading, MachineId, Observed, Severity};

/// What is to be done: one attempt at one step of a case. As JSON it is what an agent is told to do on its host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The case.
    pub case: u64,
    /// Which of its steps, from 0.
    pub step_index: usize,
    /// What.
    pub step: Step,
    /// To which host.
    pub host: String,
    /// The service that it works for.
    pub service: String,
    /// See [`surefoot_model::Alert::fault`].
    pub fault: String,
    /// See [`surefoot_model::Alert::subject`].
    pub subject: String,
    /// The evidence of the case.
    pub evidence: Vec<String>,
    /// What a ticket says besides; no step that an agent does asks for it.
    #[serde(skip)]
    pub told: Told,
    /// Names this attempt for good: what is done carries it where it can, so that it is found again after a crash. Letters, digits and
    /// hyphens.
    pub token: String,
    /// See [`surefoot_model::CaseStep::memo`]; what an attempt or an earlier part of the step left. Of [`Step::Restore`] it is at first
    /// the memo of the step that is to be taken back.
    pub memo: String,
    /// See [`surefoot_model::Case::alert_key`]; no step that an agent does asks for it.
    #[serde(skip)]
    pub alert_key: String,
    /// What is known of the alert: at first what the case says, and what everyone says who was asked, for a recheck.
    #[serde(skip)]
    pub readings: Vec<AlertReading>,
    /// Whether an earlier step of the case has drained the host.
    #[serde(skip)]
    pub is_after_drain: bool,
    /// What the steps before it remember, in order: the step's words and its memo. No step that an agent does asks for it.
    #[serde(skip)]
    pub earlier: Vec<(String, String)>,
    /// Since when errors count, `CLOCK_REALTIME`: the case's newest debug step, or the case itself.
    pub errors_since_realtime_ns: u64,
    /// Repairs that earlier cases did on this host; filled for steps that repair.
    #[serde(skip)]
    pub repairs: Vec<debug_mode::Repair>,
    /// MiB that a stress tests, as the policies say to an agent; `None` for what its host's own settings say.
    #[serde(default)]
    pub stress_mebibytes: Option<u64>,
    /// What the agent of the host reported of its machine; `None` where that was not asked for. Steps that reach the host through another
    /// system compare it with what that one says.
    #[serde(skip)]
    pub machine: Option<MachineId>,
    /// Whether this very attempt was begun before, by an agent that was ended while it did it.
    #[serde(skip)]
    pub is_begun_again: bool,
}

/// What a ticket says of its case, for the person who gets it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// See [`surefoot_model::Case::sentence`].
    pub sentence: String,
    /// How bad it is.
    pub severity: Severity,
    /// Why a person gets the case.
    pub why: String,
    /// Whether the host is out of service by this case.
    pub is_drained: bool,
    /// What was done before, one line for each step.
    pub done: Vec<String>,
    /// The host on which the controller runs.
    pub controller_host: String,
}

impl Order {
    /// What an outcome remarks where it is not known whether another system means the same machine; empty where nobody asked.
    pub(in crate::act) fn doubt(&self, why: &str) -> String {
        match &self.machine {
            Some(machine) if machine.is_unknown() => {
                format!("whether that is the machine of {} is not known: no agent of it reports which it is", self.host)
            }
            Some(_) => format!("whether that is the machine of {} is not known: {why}", self.host),
            None => String::new(),
        }
    }

    /// Whether the step may have been done in part or whole before: by an earlier attempt, or by an earlier call of this one. True
    /// where the token does not tell.
    pub(in crate::act) fn may_be_done(&self) -> bool {
        let attempt = self.token.strip_prefix("case-").and_then(|token| token.split('-').nth(2)?.parse::<u32>().ok());
        self.is_begun_again || attempt != Some(1)
    }

    /// What an earlier call of this step remembered; `None` before the first.
    ///
    /// # Errors
    /// The step's failure where it cannot be read: begun and not begun are then not told apart.
    pub(in crate::act) fn remembered<T: serde::de::DeserializeOwned>(&self) -> Result<Option<T>, Outcome> {
        if self.memo.is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&self.memo).map(Some).map_err(|error| Outcome::Failed {
            detail: format!("the record of what this step did so far cannot be read: {error}"),
            memo: self.memo.clone(),
            is_passing: false,
        })
    }
}

/// What came of an attempt. As JSON it is what an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "answer::Answer", into = "answer::Answer")]
pub enum Outcome {
    /// It is done, and its post-condition was looked at.
    Done {
        /// What was seen of its effect. One that shows none ([`Observed::shows_effect`]) makes the step done only where the policy accepts
        /// that.
        observed: Observed,
        /// What else a reader should know; empty for nothing.
        remark: String,
        /// What is to be remembered, see [`surefoot_model::CaseStep::memo`].
        memo: String,
    },
    /// Nothing had to be done, and nothing was: no scheduler is named, the interface does not hang. The case goes on, and this is no repair.
    NotNeeded {
        /// What was looked at, in words.
        detail: String,
    },
    /// The trouble is gone: what [`Step::Recheck`] says where the fault holds no more. Where it holds, the step is done.
    Gone {
        /// What was looked at, in words.
        detail: String,
    },
    /// It goes on later: a reboot is under way, a long stress has come so far. The same step is called again, with this memo.
    GoesOn {
        /// How far it has come, in words.
        detail: String,
        /// What is to be remembered.
        memo: String,
        /// When it is to be looked at again, nanoseconds from now.
        again_in_ns: u64,
    },
    /// As [`Outcome::GoesOn`], but not before something else happens: the host's agent has to fetch the order.
    Waits {
        /// What it waits for, in words: `the agent of node17`.
        waits_for: String,
        /// What is to be remembered.
        memo: String,
        /// When it is to be looked at again, nanoseconds from now.
        again_in_ns: u64,
    },
    /// It failed.
    Failed {
        /// Why, in words.
        detail: String,
        /// What is to be remembered, for the way back above all: where it is not empty and the step has one, [`Step::Restore`] of
        /// it follows, and is tried until it works.
        memo: String,
        /// Whether the same may work later: a service does not answer, a ticket system is down.
        is_passing: bool,
    },
}

impl Outcome {
    /// A step that is done, with nothing to remark.
    pub fn done(observed: Observed, memo: impl Into<String>) -> Outcome {
        Outcome::Done { observed, remark: String::new(), memo: memo.into() }
    }

    /// What came of it, in words.
    pub fn words(&self) -> String {
        match self {
            Outcome::Done { observed, remark, .. } => match remark.as_str() {
                "" => observed.to_string(),
                remark => format!("{observed}; {remark}"),
            },
            Outcome::Waits { waits_for, .. } => format!("waits for {waits_for}"),
            Outcome::NotNeeded { detail }
            | Outcome::Gone { detail }
            | Outcome::GoesOn { detail, .. }
            | Outcome::Failed { detail, .. } => detail.clone(),
        }
    }
}

/// What is found of an attempt whose end nobody wrote down.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorAttempt {
    /// Its effect is there: it is not to be done again.
    Effect {
        /// What was seen of it.
        observed: Observed,
        /// What is to be remembered.
        memo: String,
    },
    /// It had no effect, or doing it again changes nothing more: it may be done again.
    MayRepeat,
    /// Nobody can tell, and doing it again might harm: a person is to look.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// Does steps.
///
/// A step that can be taken back ([`Step::has_way_back`]) first says what it needs for that, by [`Outcome::GoesOn`] with a memo, and
/// changes something only when it is called again: by then the memo is written down, whatever becomes of the controller. A recheck
/// that asks nobody says that the fault holds; whether the alert is over is known without it.
pub trait Act: Send + Sync {
    /// What an attempt would do, in words, doing nothing.
    fn dry_run(&self, order: &Order) -> String;

    /// Does it. `stop` is set when the lease is lost or the controller ends: break off soon, and leave what can be found again.
    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome;

    /// Looks what became of an attempt whose controller died or lost its store.
    fn find(&self, order: &Order) -> PriorAttempt;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_first_attempt_finds_that_nothing_had_to_be_done() {
        let of = |token: &str, is_begun_again| Order { token: token.into(), is_begun_again, ..Order::default() };
        assert!(!of("case-7-0-1-19aab", false).may_be_done());
        for order in
            [of("case-7-0-2-19aab", false), of("case-7-0-1-19aab", true), of("", false), of("case-7-1-x", false)]
        {
            assert!(order.may_be_done(), "{order:?}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_is_a_failure_and_no_beginning() {
        let of = |memo: &str| Order { memo: memo.into(), ..Order::default() }.remembered::<Vec<u32>>();
        assert_eq!((of(""), of("[7]")), (Ok(None), Ok(Some(vec![7]))));
        for damaged in ["{", "[\"x\"]", " "] {
            assert!(matches!(of(damaged), Err(Outcome::Failed { is_passing: false, memo, .. }) if memo == damaged));
        }
    }
}
