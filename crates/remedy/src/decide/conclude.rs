//! What a case becomes when a step has ended, or when it was looked what became of one.

use super::{NO_LINE, actor, closing, entry};
use crate::Step;
use crate::act::{Outcome, PriorAttempt};
use crate::policy::{HOUR_NS, Policies, Retry};
use surefoot_model::{AuditEntry, Case, CaseState, CaseStep, Lease, Observed, StepState};

/// Steps that the engine added to end a case, and tickets, are tried for about so long before a person is told that they fail: a
/// ticket system may be down for days, and settings are not to stay changed because a management controller hung for a night.
const CLOSING_ATTEMPTS_MAX: u32 = 24 * 14;
/// The longer a step waits, the less often it is looked at: so often in the time that it has lasted, and at least so often in all.
const LOOKS_PER_WAIT: u64 = 20;
const LOOK_PERIOD_NS_MAX: u64 = 60_000_000_000;
/// The longest text that is kept of an outcome, and the longest memo.
const OUTCOME_BYTES_MAX: usize = 4 * 1024;
/// The longest memo that is kept; of a longer one the memo before it stays.
const MEMO_BYTES_MAX: usize = 256 * 1024;

/// The case after an attempt at its step, and the line for the audit trail. `controller` is whose lease it is, `fence` what the attempt
/// was begun with: `None` where the case is no longer at that attempt, and what came of it counts for nothing.
pub fn conclude(
    case: &Case,
    fence: u64,
    outcome: &Outcome,
    policies: &Policies,
    controller: &str,
    now_realtime_ns: u64,
) -> Option<(Case, AuditEntry)> {
    let (index, mut next) = claimed(case, fence, controller)?;
    let step = next.steps[index].step.clone();
    let mut end = End { policies, index, now_ns: now_realtime_ns };
    let (action, reason) = end.outcome(&mut next, outcome);
    let line = entry(now_realtime_ns, case.id, &actor(controller), action, &step, &reason);
    Some((next, line))
}

/// As [`conclude`], of what was found of an attempt whose end nobody wrote down.
pub fn found(
    case: &Case,
    fence: u64,
    found: &PriorAttempt,
    policies: &Policies,
    controller: &str,
    now_realtime_ns: u64,
) -> Option<(Case, AuditEntry)> {
    let (index, mut next) = claimed(case, fence, controller)?;
    let step = next.steps[index].step.clone();
    let mut end = End { policies, index, now_ns: now_realtime_ns };
    let (action, reason) = match found {
        PriorAttempt::Effect { observed, memo } => match end.outcome(&mut next, &Outcome::done(observed.clone(), memo))
        {
            ("done", detail) => ("found_done", detail),
            other => other,
        },
        PriorAttempt::MayRepeat => {
            let (memo, detail) = (next.steps[index].memo.clone(), "its controller died or lost its store".to_owned());
            end.failed(&mut next, &detail, memo, true);
            ("found_without_effect", detail)
        }
        PriorAttempt::Unknown { why } => {
            let memo = next.steps[index].memo.clone();
            end.failed(&mut next, why, memo, false);
            ("found_unknown", why.clone())
        }
    };
    let line = entry(now_realtime_ns, case.id, &actor(controller), action, &step, &kept(&reason));
    Some((next, line))
}

/// The case with its lease given up, and the step that the lease was for.
fn claimed(case: &Case, fence: u64, controller: &str) -> Option<(usize, Case)> {
    if case.lease.fence != fence || case.lease.owner != controller {
        return None;
    }
    let index = super::advance::in_flight(case)?;
    let mut next = case.clone();
    next.lease = Lease { owner: String::new(), until_realtime_ns: 0, fence };
    Some((index, next))
}

/// A text that is kept: on lines that a terminal may show, and not too long.
fn kept(text: &str) -> String {
    let end = (0..=OUTCOME_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    surefoot_model::one_line(&text[..end])
}

struct End<'a> {
    policies: &'a Policies,
    index: usize,
    now_ns: u64,
}

impl End<'_> {
    fn outcome(&mut self, case: &mut Case, outcome: &Outcome) -> (&'static str, String) {
        match outcome {
            Outcome::Done { observed, memo, .. } if !self.is_accepted(case, observed) => {
                let detail = self.unobserved(case, &outcome.words());
                let is_final = self.failed(case, &detail, memo.clone(), false);
                (if is_final { "failed" } else { "failed_for_now" }, kept(&detail))
            }
            Outcome::Done { observed, memo, .. } => {
                let detail = outcome.words();
                self.write(case, StepState::Done, &detail, memo.clone());
                self.step(case).observed = Some(observed.clone());
                self.done(case);
                ("done", kept(&detail))
            }
            Outcome::NotNeeded { detail } => {
                self.not_needed(case, detail);
                ("not_needed", kept(detail))
            }
            Outcome::Gone { detail } => {
                self.write(case, StepState::Done, detail, String::new());
                self.gone(case, detail);
                ("gone", kept(detail))
            }
            Outcome::GoesOn { detail, memo, again_in_ns } => self.goes_on(case, detail, "", memo, *again_in_ns),
            Outcome::Waits { waits_for, memo, again_in_ns } => {
                self.goes_on(case, &format!("waits for {waits_for}"), waits_for, memo, *again_in_ns)
            }
            Outcome::Failed { detail, memo, is_passing } => {
                let is_final = self.failed(case, detail, memo.clone(), *is_passing);
                (if is_final { "failed" } else { "failed_for_now" }, kept(detail))
            }
        }
    }

    fn goes_on(
        &mut self,
        case: &mut Case,
        detail: &str,
        waits_for: &str,
        memo: &str,
        again_in_ns: u64,
    ) -> (&'static str, String) {
        // Jobs that a drain waits for may run for weeks, and a case that was cancelled has no need to wait: the host is returned.
        if self.is_drain(case) && case.ends_as == Some(CaseState::Cancelled) {
            self.write(case, StepState::Skipped, detail, String::new());
            self.after_cancel(case);
            return ("broken_off", kept(detail));
        }
        if let Some(why) = self.overdue(case) {
            let detail = format!("{why}: {detail}. The drain is broken off");
            self.write(case, StepState::Failed, &detail, memo.to_owned());
            self.give_up(case);
            // It holds no place of its service for ever.
            closing::add_return(case);
            return ("failed", kept(&detail));
        }
        let said = self.step(case).outcome.clone();
        self.write(case, StepState::Running, detail, memo.to_owned());
        if case.state == CaseState::Running {
            case.waits_for = kept(waits_for);
        }
        let lasted_ns = self.now_ns.saturating_sub(self.step(case).begun_realtime_ns);
        let again_in_ns = again_in_ns.max((lasted_ns / LOOKS_PER_WAIT).min(LOOK_PERIOD_NS_MAX)).min(HOUR_NS);
        let step = self.step(case);
        step.not_before_realtime_ns = self.now_ns.saturating_add(again_in_ns);
        // A drain that waits for a job of weeks says the same at each look: the trail has it once.
        (if step.outcome == said { NO_LINE } else { "goes_on_later" }, kept(detail))
    }

    /// Whether what was seen makes the step done: it shows the effect, or the policy accepts that nothing can be seen of it. A dry run has
    /// no effect to see.
    fn is_accepted(&self, case: &Case, observed: &Observed) -> bool {
        let accepts = || self.policies.policy(&case.policy).is_some_and(|policy| policy.accepts_unobserved);
        observed.shows_effect() || case.is_dry_run && matches!(observed, Observed::DryRun { .. }) || accepts()
    }

    fn unobserved(&self, case: &Case, words: &str) -> String {
        let policy = &case.policy;
        format!("{words}. Check by hand, or set unobserved = \"accept\" in policy '{policy}' to go on without a look")
    }

    /// Why the step is a drain that has waited too long.
    fn overdue(&self, case: &Case) -> Option<String> {
        let policy = self.policies.policy(&case.policy).filter(|_| self.is_drain(case) && case.ends_as.is_none())?;
        let lasted_ns = self.now_ns.saturating_sub(case.steps[self.index].begun_realtime_ns);
        let hours = policy.drain_within_ns as f64 / HOUR_NS as f64;
        (lasted_ns >= policy.drain_within_ns)
            .then(|| format!("the host is not empty {hours:.1} h after the drain began"))
    }

    fn is_drain(&self, case: &Case) -> bool {
        case.steps[self.index].step == Step::Drain.to_string()
    }

    fn step<'a>(&self, case: &'a mut Case) -> &'a mut CaseStep {
        &mut case.steps[self.index]
    }

    fn write(&self, case: &mut Case, state: StepState, detail: &str, memo: String) {
        let now_ns = self.now_ns;
        let step = self.step(case);
        step.state = state;
        step.outcome = kept(detail);
        if memo.len() <= MEMO_BYTES_MAX {
            step.memo = memo;
        } else {
            step.outcome.push_str(&format!(" (what it wanted to remember, {} bytes, is too long)", memo.len()));
        }
        if state != StepState::Running {
            step.ended_realtime_ns = now_ns;
        }
        if matches!(state, StepState::Running | StepState::Pending) || case.state == CaseState::Paused {
            return;
        }
        closing::enter(case, CaseState::Running, now_ns);
    }

    /// What a step changes by being done.
    fn done(&mut self, case: &mut Case) {
        let step = &case.steps[self.index];
        match step.step.parse::<Step>() {
            Ok(Step::Return) => {
                case.is_drained = false;
            }
            Ok(Step::Ticket(_)) => {
                case.ticket = if step.memo.is_empty() { step.outcome.clone() } else { kept(&step.memo) };
            }
            // Looked at again after a repair, and not repaired.
            Ok(Step::Recheck) if is_repaired(case) && case.ends_as.is_none() => {
                self.give_up(case);
            }
            _ => {}
        }
        self.after_cancel(case);
    }

    /// A drain with nothing to do, because the service has no scheduler, did not take the host out of service. One that an earlier call
    /// had begun may have: the scheduler left the policy meanwhile. A return with nothing to do leaves a drained host out.
    fn not_needed(&mut self, case: &mut Case, detail: &str) {
        let step = self.step(case);
        let is_first_call = step.attempt_count <= 1 && step.not_before_realtime_ns == 0;
        step.is_not_needed = true;
        if is_first_call && step.step == Step::Drain.to_string() {
            case.is_drained = false;
        }
        self.write(case, StepState::Skipped, detail, String::new());
        self.after_cancel(case);
    }

    /// The fault is gone: before a repair the host needs none, after it the repair has worked.
    fn gone(&mut self, case: &mut Case, detail: &str) {
        if case.ends_as.is_some() {
            self.after_cancel(case);
        } else if case.began_realtime_ns == 0 {
            closing::skip_rest(case, "the fault is gone", self.now_ns);
            case.ends_as = Some(CaseState::Cleared);
        } else if !is_repaired(case) {
            closing::give_back(case, CaseState::Returned, detail, self.now_ns);
        }
    }

    /// A case that was cancelled during this step goes its way back now; a step that was done meanwhile may have changed something.
    fn after_cancel(&mut self, case: &mut Case) {
        if case.ends_as == Some(CaseState::Cancelled) {
            closing::give_back(case, CaseState::Cancelled, "cancelled", self.now_ns);
        }
    }

    /// Whether the step is not tried again.
    fn failed(&mut self, case: &mut Case, detail: &str, memo: String, is_passing: bool) -> bool {
        let parsed = case.steps[self.index].step.parse::<Step>();
        let retry = self.policies.policy(&case.policy).map_or(Retry::default(), |policy| policy.retry);
        let is_way_back =
            matches!(parsed, Ok(Step::Restore(_))) || matches!(parsed, Ok(Step::Return)) && case.ends_as.is_some();
        let is_persistent = is_way_back || matches!(parsed, Ok(Step::Ticket(_)));
        let attempts_max = if is_persistent { CLOSING_ATTEMPTS_MAX } else { retry.attempts };
        let attempt_count = case.steps[self.index].attempt_count;
        let is_cancelled = case.ends_as == Some(CaseState::Cancelled) && !is_way_back;
        let is_again = (is_passing || is_persistent) && attempt_count < attempts_max && !is_cancelled;
        let not_before_realtime_ns = self.now_ns.saturating_add(retry.wait_ns(attempt_count));
        self.write(case, if is_again { StepState::Pending } else { StepState::Failed }, detail, memo);
        if is_again {
            self.step(case).not_before_realtime_ns = not_before_realtime_ns;
        } else if is_cancelled {
            self.after_cancel(case);
        } else if case.ends_as != Some(CaseState::WithPerson) {
            self.give_up(case);
        }
        !is_again
    }

    fn give_up(&mut self, case: &mut Case) {
        let ticket = self.policies.policy(&case.policy).and_then(|policy| policy.ticket.clone());
        closing::give_to_person(case, ticket.as_deref(), self.now_ns);
    }
}

/// Whether a step of the case was done that repairs.
pub(super) fn is_repaired(case: &Case) -> bool {
    case.steps.iter().any(|step| step.state == StepState::Done && is_repair(step))
}

/// Whether each repair of the case that was begun had nothing to do: whatever is wrong, no step has mended it.
pub(super) fn needed_no_repair(case: &Case) -> bool {
    !is_repaired(case) && case.steps.iter().any(|step| step.is_not_needed && is_repair(step))
}

/// When the last repair of the case was found to have helped or, where nothing looked, when it ended.
pub(super) fn helped_ns(case: &Case) -> u64 {
    let done = |step: &&CaseStep| step.state == StepState::Done;
    let Some(repaired) = case.steps.iter().rposition(|step| done(&step) && is_repair(step)) else { return 0 };
    let is_recheck = |step: &&CaseStep| step.step == Step::Recheck.to_string();
    let looked = case.steps[repaired + 1..].iter().filter(done).filter(is_recheck);
    looked.map(|step| step.ended_realtime_ns).fold(case.steps[repaired].ended_realtime_ns, u64::max)
}

fn is_repair(step: &CaseStep) -> bool {
    step.step.parse::<Step>().is_ok_and(|step| step.repairs())
}
