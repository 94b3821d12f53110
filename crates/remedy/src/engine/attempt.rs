//! One attempt at a step: what is asked of [`Act`], and what the case becomes by it.

use crate::act::{Act, Order, Outcome, PriorAttempt, Told};
use crate::policy::Policies;
use crate::{Step, decide};
use std::sync::atomic::AtomicBool;
use surefoot_model::{AlertReading, AlertSource, AuditEntry, Case, CaseState, CaseStep, Observed, StepState, one_line};

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
    Found(PriorAttempt),
}

/// See [`Order::errors_since_realtime_ns`].
fn errors_since_ns(case: &Case) -> u64 {
    let is_debug = |step: &&CaseStep| matches!(step.step.parse(), Ok(Step::Debug(_)));
    let debug = case.steps.iter().rev().filter(is_debug).map(|step| step.begun_realtime_ns).find(|begun| *begun != 0);
    debug.unwrap_or(case.since_realtime_ns)
}

/// What the newest of these steps remembers that is called so; nothing where it is not among them.
fn memo_of(steps: &[CaseStep], called: &str) -> String {
    steps.iter().rev().find(|step| step.step == called).map_or_else(String::new, |step| step.memo.clone())
}

/// What a ticket that is this step says of the case.
fn told(case: &Case, index: usize, controller: &str) -> Told {
    let before = &case.steps[..index];
    let is_over = |step: &&CaseStep| matches!(step.state, StepState::Done | StepState::Failed) && !is_ticket(step);
    let line = |step: &CaseStep| {
        let outcome = if step.outcome.is_empty() { String::new() } else { format!(": {}", one_line(&step.outcome)) };
        let state = if step.state == StepState::Failed { "failed" } else { "done" };
        format!("{} {state}{outcome}", step.step)
    };
    let failed = before.iter().rev().find(|step| step.state == StepState::Failed && !is_ticket(step));
    let why = match failed {
        Some(step) => line(step),
        None if case.ends_as == Some(CaseState::WithPerson) => {
            format!("the steps of the policy {} are done, and the fault is not repaired", case.policy)
        }
        None => format!("the policy {} files a ticket at this step", case.policy),
    };
    Told {
        sentence: case.sentence.clone(),
        severity: case.severity,
        why,
        is_drained: case.is_drained,
        done: before.iter().filter(is_over).map(line).collect(),
        controller_host: controller.split('/').next().unwrap_or_default().to_owned(),
    }
}

fn is_drain_done(step: &CaseStep) -> bool {
    step.state == StepState::Done && step.step == Step::Drain.to_string()
}

fn is_ticket(step: &CaseStep) -> bool {
    matches!(step.step.parse(), Ok(Step::Ticket(_)))
}

impl Attempt {
    /// The attempt that a case holds a lease of this controller for; `None` where it holds none.
    pub fn of(case: &Case, controller: &str) -> Option<Attempt> {
        if case.lease.owner != controller {
            return None;
        }
        let is_begun = |step: &CaseStep| matches!(step.state, StepState::Running | StepState::InDoubt);
        let (index, step) = case.steps.iter().enumerate().find(|(_, step)| is_begun(step))?;
        let parsed = step.step.parse::<Step>().ok()?;
        let memo = match &parsed {
            // A restore that a policy names begins with what the step remembers that it takes back, as one does that was added.
            Step::Restore(of) if step.memo.is_empty() => memo_of(&case.steps[..index], &of.to_string()),
            _ => step.memo.clone(),
        };
        let order = Order {
            case: case.id,
            step_index: index,
            step: parsed,
            host: case.host.clone(),
            service: case.service.clone(),
            fault: case.fault.clone(),
            subject: case.subject.clone(),
            evidence: case.evidence.clone(),
            told: told(case, index, controller),
            token: token(case, index, step.attempt_count),
            memo,
            earlier: case.steps[..index].iter().map(|step| (step.step.clone(), step.memo.clone())).collect(),
            alert_key: case.alert_key.clone(),
            readings: vec![AlertReading {
                source: AlertSource::Store,
                holds: Some(case.is_firing),
                age_s: None,
                why: String::new(),
            }],
            is_after_drain: case.is_drained && case.steps[..index].iter().any(is_drain_done),
            errors_since_realtime_ns: errors_since_ns(case),
            repairs: Vec::new(),
            stress_mebibytes: None,
            machine: None,
            is_begun_again: false,
        };
        let is_in_doubt = step.state == StepState::InDoubt;
        Some(Attempt { order, fence: case.lease.fence, is_in_doubt, is_dry_run: case.is_dry_run })
    }

    /// Makes it, or looks what became of it.
    pub fn make(&self, act: &dyn Act, stop: &AtomicBool) -> Ended {
        match (self.is_dry_run, self.is_in_doubt) {
            (true, _) => Ended::Outcome(Outcome::done(Observed::DryRun { would: act.dry_run(&self.order) }, "")),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{Value, json};

    fn order_of(steps: Value) -> Order {
        let case = json!({
            "id": 7, "host": "n1", "service": "web", "fault": "memory/fault", "alert_key": "k", "severity": "warning",
            "sentence": "", "policy": "web-1", "state": "running", "steps": steps, "is_firing": true, "is_drained": true,
            "since_realtime_ns": 1, "state_since_realtime_ns": 1, "revision": 3,
            "lease": { "owner": "c", "until_realtime_ns": 9, "fence": 2 },
        });
        let case: Case = serde_json::from_value(case).unwrap();
        Attempt::of(&case, "c").unwrap().order
    }

    /// Otherwise it would find nothing to take back, and the host would return with the settings of the debug mode.
    #[test]
    fn a_restore_that_the_policy_names_is_told_what_was_changed() {
        let done = |step: &str, memo: &str| json!({ "step": step, "state": "done", "attempt_count": 1, "memo": memo });
        let running =
            |memo: &str| json!({ "step": "restore:debug:maker", "state": "running", "attempt_count": 1, "memo": memo });
        let steps = [done("debug:maker", "before"), done("stress:2s", "other"), running("")];
        assert_eq!(order_of(json!(steps)).memo, "before");
        let goes_on = [done("debug:maker", "before"), done("stress:2s", "other"), running("half way")];
        assert_eq!(order_of(json!(goes_on)).memo, "half way");
        assert_eq!(order_of(json!([running("")])).memo, "");
    }

    #[test]
    fn a_ticket_is_told_why_a_person_gets_the_case_and_what_was_done() {
        let steps = json!([
            { "step": "drain", "state": "done", "attempt_count": 1, "outcome": "no job is left" },
            { "step": "run:/repair", "state": "failed", "attempt_count": 3, "outcome": "it ended with 1" },
            { "step": "return", "state": "skipped", "attempt_count": 0 },
            { "step": "ticket:desk", "state": "running", "attempt_count": 1 },
        ]);
        let told = order_of(steps).told;
        assert_eq!((told.why.as_str(), told.is_drained), ("run:/repair failed: it ended with 1", true));
        assert_eq!(told.done, ["drain done: no job is left", "run:/repair failed: it ended with 1"]);
        let named = order_of(json!([{ "step": "ticket:desk", "state": "running", "attempt_count": 1 }])).told;
        assert_eq!(named.why, "the policy web-1 files a ticket at this step");
    }
}
