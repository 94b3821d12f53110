//! One attempt at a step: what is asked of [`Act`], and what the case becomes by it.

use crate::act::{Act, Found, Order, Outcome};
use crate::policy::Policies;
use crate::{Step, decide};
use std::sync::atomic::AtomicBool;
use surefoot_model::{AuditEntry, Case, StepState};

/// An attempt whose lease this controller holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What is to be done.
    pub order: Order,
    /// See [`surefoot_model::Lease::fence`].
    pub fence: u64,
    /// Whether it is only to be found out what became of it.
    pub is_in_doubt: bool,
    /// Whether it is only told.
    pub is_dry_run: bool,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It was made.
    Outcome(Outcome),
    /// It was looked what became of it.
    Found(Found),
}

/// See [`Order::errors_since_realtime_ns`].
fn errors_since_ns(case: &Case) -> u64 {
    let is_debug = |step: &&surefoot_model::CaseStep| matches!(step.step.parse(), Ok(Step::Debug(_)));
    let debug = case.steps.iter().rev().filter(is_debug).map(|step| step.begun_realtime_ns).find(|begun| *begun != 0);
    debug.unwrap_or(case.since_realtime_ns)
}

impl Attempt {
    /// The attempt that a case holds a lease of this controller for; `None` where it holds none.
    pub fn of(case: &Case, controller: &str) -> Option<Attempt> {
        if case.lease.owner != controller {
            return None;
        }
        let is_begun = |step: &surefoot_model::CaseStep| matches!(step.state, StepState::Running | StepState::InDoubt);
        let (index, step) = case.steps.iter().enumerate().find(|(_, step)| is_begun(step))?;
        let order = Order {
            case: case.id,
            step_index: index,
            step: step.step.parse::<Step>().ok()?,
            host: case.host.clone(),
            service: case.service.clone(),
            fault: case.fault.clone(),
            subject: case.subject.clone(),
            evidence: case.evidence.clone(),
            token: token(case, index, step.attempt_count),
            memo: step.memo.clone(),
            earlier: case.steps[..index].iter().map(|step| (step.step.clone(), step.memo.clone())).collect(),
            errors_since_realtime_ns: errors_since_ns(case),
            repairs: Vec::new(),
        };
        let is_in_doubt = step.state == StepState::InDoubt;
        Some(Attempt { order, fence: case.lease.fence, is_in_doubt, is_dry_run: case.is_dry_run })
    }

    /// Makes it, or looks what became of it.
    pub fn make(&self, act: &dyn Act, stop: &AtomicBool) -> Ended {
        match (self.is_dry_run, self.is_in_doubt) {
            (true, _) => {
                let detail = format!("dry run: {}", act.dry_run(&self.order));
                Ended::Outcome(Outcome::Done { detail, memo: String::new() })
            }
            (false, true) => Ended::Found(act.find(&self.order)),
            (false, false) => Ended::Outcome(act.run(&self.order, stop)),
        }
    }

    /// The case after it; `None` where the case has gone on without it.
    pub fn end(
        &self,
        case: &Case,
        ended: &Ended,
        policies: &Policies,
        controller: &str,
        now_realtime_ns: u64,
    ) -> Option<(Case, AuditEntry)> {
        match ended {
            Ended::Outcome(outcome) => {
                decide::conclude(case, self.fence, outcome, policies, controller, now_realtime_ns)
            }
            Ended::Found(found) => decide::found(case, self.fence, found, policies, controller, now_realtime_ns),
        }
    }
}

/// Names an attempt. The time of the case is in it because a store that was begun anew counts from 1 again, and what an older case
/// left behind must not be taken for this one's.
fn token(case: &Case, step_index: usize, attempt_count: u32) -> String {
    format!("case-{}-{step_index}-{attempt_count}-{:x}", case.id, case.since_realtime_ns / 1_000_000)
}
