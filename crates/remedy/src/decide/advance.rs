//! The next change of one open case.

use super::limits::{Limits, is_changed, is_for};
use super::{Controller, NO_LINE, actor, closing, conclude, entry};
use crate::policy::{Policies, Policy, utc_text};
use crate::{Step, World};
use surefoot_model::{AuditEntry, Case, CaseState, CaseStep, CaseWait, Lease, StepState};

/// Why a case begins nothing new, in words and for programs.
pub(super) type Reason = (CaseWait, String);

/// What the next change of a case depends on.
pub(super) struct Next<'a, 'b> {
    pub(super) world: &'a World,
    pub(super) policies: &'a Policies,
    pub(super) controller: &'a Controller,
    pub(super) limits: &'b mut Limits<'a>,
    pub(super) free_count: &'b mut usize,
}

/// A case after a change, and the line for the audit trail; `None` where nothing changes.
type Changed = Option<(Case, AuditEntry)>;

impl Next<'_, '_> {
    pub(super) fn of(&mut self, case: &Case) -> Changed {
        if let Some(mended) = mend_clock(case, self.world, self.controller) {
            return Some(mended);
        }
        if let Some(index) = in_flight(case) {
            return self.go_on(case, index);
        }
        let policy = self.policies.policy(&case.policy).filter(|policy| is_for(policy, &case.service));
        self.quiet(case, policy).or_else(|| self.close_quiet(case, policy)).or_else(|| match case.state {
            CaseState::Waiting | CaseState::NeedsApproval | CaseState::Running => self.step(case, policy),
            _ => None,
        })
    }

    fn now_ns(&self) -> u64 {
        self.world.now_realtime_ns
    }

    fn line(&self, case: &Case, action: &str, target: &str, reason: &str) -> AuditEntry {
        entry(self.now_ns(), case.id, &actor(&self.controller.name), action, target, reason)
    }

    /// Gives the lease to this controller.
    fn lease(&self, case: &mut Case) {
        let until_realtime_ns = self.now_ns().saturating_add(self.controller.lease_ns);
        case.lease =
            Lease { owner: self.controller.name.clone(), until_realtime_ns, fence: case.lease.fence.wrapping_add(1) };
    }

    /// A step that was begun: it goes on, or it is in doubt because its lease ran out.
    fn go_on(&mut self, case: &Case, index: usize) -> Changed {
        let step = &case.steps[index];
        let is_held = !case.lease.owner.is_empty() && case.lease.until_realtime_ns > self.now_ns();
        let is_due = step.not_before_realtime_ns <= self.now_ns();
        if is_held || !is_due || *self.free_count == 0 {
            return None;
        }
        *self.free_count -= 1;
        let (mut next, was) = (case.clone(), case.lease.owner.as_str());
        self.lease(&mut next);
        if was.is_empty() && step.state == StepState::Running {
            // What comes of it has a line where it is another than before.
            return Some(self.with_line(next, NO_LINE, &step.step, ""));
        }
        next.steps[index].state = StepState::InDoubt;
        let why = match was {
            "" => "its outcome is unknown".to_owned(),
            was => format!("the lease of controller {was} ran out"),
        };
        Some(self.with_line(next, "taken_over", &step.step, &why))
    }

    fn with_line(&self, case: Case, action: &str, target: &str, reason: &str) -> (Case, AuditEntry) {
        let line = self.line(&case, action, target, reason);
        (case, line)
    }

    /// Notes when the alert was over and when it came back. While a person has the case that may go on for weeks: only what counts as over has
    /// a line then.
    fn quiet(&self, case: &Case, policy: Option<&Policy>) -> Changed {
        if case.is_firing == (case.quiet_since_realtime_ns == 0) {
            return None;
        }
        let mut next = case.clone();
        next.quiet_since_realtime_ns = if case.is_firing { 0 } else { self.now_ns() };
        let clear_after_ns = policy.map_or(0, |policy| policy.clear_after_ns);
        let was_over = case.quiet_since_realtime_ns.saturating_add(clear_after_ns) <= self.now_ns();
        let action = match (case.state, case.is_firing) {
            (CaseState::WithPerson, false) => NO_LINE,
            (CaseState::WithPerson, true) if !was_over => NO_LINE,
            (_, true) => "fires_again",
            (_, false) => "quiet",
        };
        Some(self.with_line(next, action, "", ""))
    }

    /// Closes a case whose alert has been over long enough, where nothing of its host is changed.
    fn close_quiet(&self, case: &Case, policy: Option<&Policy>) -> Changed {
        let clear_after_ns = policy.map_or(0, |policy| policy.clear_after_ns);
        let is_quiet = !case.is_firing && case.quiet_since_realtime_ns.saturating_add(clear_after_ns) <= self.now_ns();
        if !is_quiet || is_changed(case) || case.state == CaseState::Paused {
            return None;
        }
        let state = match case.state {
            CaseState::WithPerson => CaseState::Returned,
            _ if case.began_realtime_ns == 0 && case.ends_as.is_none() => CaseState::Cleared,
            _ => return None,
        };
        let mut next = case.clone();
        closing::skip_rest(&mut next, "the alert is over", self.now_ns());
        closing::close(&mut next, state, self.now_ns());
        Some(self.with_line(next, state.as_str(), "", "the alert is over"))
    }

    /// The next step of a case that none is being done of.
    fn step(&mut self, case: &Case, policy: Option<&Policy>) -> Changed {
        let Some(index) = closing::next_step(case, self.now_ns()) else { return self.end(case, policy) };
        let current = &case.steps[index];
        if current.step == Step::Return.to_string() && is_unmended(case) {
            return Some(self.unmended(case, policy));
        }
        let Ok(step) = current.step.parse::<Step>() else {
            let mut next = case.clone();
            next.steps[index].state = StepState::Failed;
            closing::give_to_person(&mut next, policy.and_then(|policy| policy.ticket.as_deref()), self.now_ns());
            return Some(self.with_line(next, "failed", &current.step, "this version knows no such step"));
        };
        if current.needs_approval && current.approved_by.is_empty() {
            return self.wait(case, CaseState::NeedsApproval, other(format!("approval of {}", current.step)));
        }
        if let Some(why) = self.reason_to_wait(case, policy, current, &step) {
            return self.wait(case, CaseState::Waiting, why);
        }
        if *self.free_count == 0 {
            return None;
        }
        *self.free_count -= 1;
        Some(self.begin(case, index, &step))
    }

    fn reason_to_wait(&self, case: &Case, policy: Option<&Policy>, current: &CaseStep, step: &Step) -> Option<Reason> {
        if self.world.is_paused {
            return Some((CaseWait::AllPaused, "everything is paused".into()));
        }
        if current.not_before_realtime_ns > self.now_ns() {
            let at = utc_text(current.not_before_realtime_ns);
            return Some(other(format!("the next attempt at {}, at {at}", current.step)));
        }
        if step.touches_host()
            && let Some(held) = self.limits.held_by_unread(&case.host)
        {
            return Some(held);
        }
        // What brings a host back as it was needs no policy and no room within limits.
        if case.ends_as.is_some() {
            return None;
        }
        let Some(policy) = policy else { return Some(no_policy()) };
        if policy.is_paused {
            return Some(other("its policy is paused"));
        }
        if *step == Step::Recheck && conclude::is_repaired(case) {
            let repaired_ns = last_end_ns(case);
            // An alert that was over for a moment is not over: a host goes back after as long a silence as the policy asks for, since the repair.
            let (until_ns, what) = match case.is_firing {
                true => (repaired_ns.saturating_add(policy.recheck_within_ns), "the end of the alert"),
                false => {
                    let since_ns = case.quiet_since_realtime_ns.max(repaired_ns);
                    (since_ns.saturating_add(policy.clear_after_ns), "the alert to stay over")
                }
            };
            if until_ns > self.now_ns() {
                return Some(other(format!("{what}, until {}", utc_text(until_ns))));
            }
        }
        if case.began_realtime_ns != 0 || !step.touches_host() {
            return None;
        }
        if !case.is_firing {
            return Some(other("whether the alert is over for good"));
        }
        self.limits.wait(case, policy)
    }

    fn wait(&self, case: &Case, state: CaseState, (wait, why): Reason) -> Changed {
        if case.state == state && case.wait == wait && case.waits_for == why {
            return None;
        }
        let mut next = case.clone();
        closing::enter(&mut next, state, self.now_ns());
        next.waits_for.clone_from(&why);
        next.wait = wait;
        Some(self.with_line(next, "waits", "", &why))
    }

    fn begin(&mut self, case: &Case, index: usize, step: &Step) -> (Case, AuditEntry) {
        let mut next = case.clone();
        self.lease(&mut next);
        closing::enter(&mut next, CaseState::Running, self.now_ns());
        let current = &mut next.steps[index];
        current.state = StepState::Running;
        current.attempt_count += 1;
        current.begun_realtime_ns = self.now_ns();
        current.ended_realtime_ns = 0;
        current.not_before_realtime_ns = 0;
        current.outcome.clear();
        current.is_not_needed = false;
        // Counted as out before anything is done: whatever becomes of the attempt, no limit is exceeded.
        if *step == Step::Drain {
            next.is_drained = true;
        }
        if step.touches_host() && next.began_realtime_ns == 0 {
            next.began_realtime_ns = self.now_ns();
            self.limits.count(&next);
        }
        let reason = format!("attempt {}", next.steps[index].attempt_count);
        self.with_line(next, "begun", &case.steps[index].step, &reason)
    }

    /// All steps are over.
    fn end(&self, case: &Case, policy: Option<&Policy>) -> Changed {
        if is_unmended(case) {
            return Some(self.unmended(case, policy));
        }
        let mut next = case.clone();
        let state = closing::final_state(case);
        closing::close(&mut next, state, self.now_ns());
        let why = match state {
            CaseState::WithPerson if closing::is_left_drained(case) => {
                "the host may be out of service, and its service has no scheduler that returns it; return it by hand, then cancel the case"
            }
            CaseState::WithPerson if case.is_drained && !is_drain_done(case) => "the host may be out of service",
            CaseState::WithPerson if case.is_drained => "the host is out of service",
            CaseState::WithPerson => "",
            _ if conclude::needed_no_repair(case) && case.is_firing => {
                "a person decided; the alert still holds, and no step had anything to repair"
            }
            _ if conclude::needed_no_repair(case) => "the alert is over, and no step had anything to repair",
            // Whether the repair helped is what the alert says: nothing else has looked.
            _ if case.is_firing => "all steps are done; the alert still holds",
            _ => "all steps are done",
        };
        Some(self.with_line(next, state.as_str(), "", why))
    }

    /// The repairs had nothing to do and the alert holds: a person gets the case.
    fn unmended(&self, case: &Case, policy: Option<&Policy>) -> (Case, AuditEntry) {
        let mut next = case.clone();
        closing::give_to_person(&mut next, policy.and_then(|policy| policy.ticket.as_deref()), self.now_ns());
        self.with_line(next, "not_repaired", "", "the alert holds, and no step had anything to repair")
    }
}

/// Whether the steps of a case have ended, or the host is about to return, with a fault that none of them repaired.
fn is_unmended(case: &Case) -> bool {
    case.ends_as.is_none() && case.is_firing && conclude::needed_no_repair(case)
}

/// A reason that no program asks for.
fn other(words: impl Into<String>) -> Reason {
    (CaseWait::Other, words.into())
}

fn no_policy() -> Reason {
    (CaseWait::NoPolicy, "its policy: the file has none of this name any more".into())
}

/// When the last step ended.
fn last_end_ns(case: &Case) -> u64 {
    case.steps.iter().map(|step| step.ended_realtime_ns).fold(0, u64::max)
}

/// The step that was begun and has not ended.
pub(super) fn in_flight(case: &Case) -> Option<usize> {
    case.steps.iter().position(|step| matches!(step.state, StepState::Running | StepState::InDoubt))
}

/// Mends times that lie in the future, because the clock of the store went back: otherwise a dead controller would hold its lease, and
/// a case count for a limit, for as long as the clock went.
pub(super) fn mend_clock(case: &Case, world: &World, controller: &Controller) -> Changed {
    let now_ns = world.now_realtime_ns;
    // Holding a lease may be a moment ahead of the decision, and a wait was meant to lie ahead.
    let ahead_max_ns = now_ns.saturating_add(10 * super::LEASE_NS);
    // In simulations one holds for a year.
    let lease_max_ns = now_ns.saturating_add(controller.lease_ns.saturating_mul(10).max(2 * super::LEASE_NS_MAX));
    let wait_max_ns = now_ns.saturating_add(2 * crate::policy::HOUR_NS);
    let closed = if case.state.is_open() { 0 } else { case.state_since_realtime_ns };
    let is_ahead = case.lease.until_realtime_ns > lease_max_ns
        || case.began_realtime_ns > ahead_max_ns
        || case.quiet_since_realtime_ns > ahead_max_ns
        || closed > ahead_max_ns
        || case.steps.iter().any(|step| step.ended_realtime_ns > ahead_max_ns)
        || case.steps.iter().any(|step| step.is_waiting() && step.not_before_realtime_ns > wait_max_ns);
    if !is_ahead {
        return None;
    }
    let mut next = case.clone();
    if case.lease.until_realtime_ns > lease_max_ns {
        next.lease.until_realtime_ns = now_ns.saturating_add(controller.lease_ns);
    }
    next.began_realtime_ns = case.began_realtime_ns.min(now_ns);
    next.quiet_since_realtime_ns = case.quiet_since_realtime_ns.min(now_ns);
    if !case.state.is_open() {
        next.state_since_realtime_ns = closed.min(now_ns);
    }
    // What waits for a time after the end of a step would wait for as long as the clock went back.
    for step in next.steps.iter_mut().filter(|step| step.ended_realtime_ns > ahead_max_ns) {
        step.ended_realtime_ns = now_ns;
    }
    for step in next.steps.iter_mut().filter(|step| step.is_waiting()) {
        if step.not_before_realtime_ns > wait_max_ns {
            step.not_before_realtime_ns = now_ns;
        }
    }
    let line = entry(now_ns, case.id, "controller", "clock_went_back", "", "times in the future were set to now");
    Some((next, line))
}

/// Whether a drain of the case was seen to be done.
fn is_drain_done(case: &Case) -> bool {
    case.steps.iter().any(|step| step.step == Step::Drain.to_string() && step.state == StepState::Done)
}
