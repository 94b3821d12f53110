//! How cases end: what is skipped, what is taken back, who gets it.

use super::limits::left_behind;
use crate::Step;
use surefoot_model::{Case, CaseState, CaseStep, CaseWait, Lease, StepState};

/// Brings a case into a state.
pub(super) fn enter(case: &mut Case, state: CaseState, now_realtime_ns: u64) {
    if case.state != state {
        case.state = state;
        case.state_since_realtime_ns = now_realtime_ns;
    }
    case.waits_for.clear();
    case.wait = CaseWait::Other;
}

/// Brings a case into the state in which it rests or is closed.
pub(super) fn close(case: &mut Case, state: CaseState, now_realtime_ns: u64) {
    enter(case, state, now_realtime_ns);
    case.ends_as = None;
    case.lease = Lease { owner: String::new(), until_realtime_ns: 0, fence: case.lease.fence };
    if state == CaseState::WithPerson {
        case.waits_for = match case.ticket.as_str() {
            "" => "a person".to_owned(),
            ticket => format!("a person, ticket {ticket}"),
        };
    }
}

/// Leaves out the steps that are not begun.
pub(super) fn skip_rest(case: &mut Case, why: &str, now_realtime_ns: u64) {
    for step in case.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
        step.state = StepState::Skipped;
        step.ended_realtime_ns = now_realtime_ns;
        if step.outcome.is_empty() {
            why.clone_into(&mut step.outcome);
        }
    }
}

/// The step that comes next. Of closing steps any that is due may: a ticket system that is down must not keep settings from being
/// restored, nor a management controller that hangs the ticket. `None` when none is left.
pub(super) fn next_step(case: &Case, now_realtime_ns: u64) -> Option<usize> {
    let mut pending = (0..case.steps.len()).filter(|index| case.steps[*index].state == StepState::Pending);
    if case.ends_as.is_none() {
        return pending.next();
    }
    let all: Vec<usize> = pending.collect();
    // A host is returned only once its settings are restored.
    let is_return = |index: &usize| case.steps[*index].step == Step::Return.to_string();
    let due = |index: &&usize| case.steps[**index].not_before_realtime_ns <= now_realtime_ns;
    let restoring: Vec<usize> = all.iter().copied().filter(|index| !is_return(index)).collect();
    let choice = if restoring.is_empty() { &all } else { &restoring };
    let first = choice.iter().find(due);
    first.or_else(|| choice.iter().min_by_key(|index| case.steps[**index].not_before_realtime_ns)).copied()
}

/// Adds the steps that take back every setting that the case changed, the newest first.
fn restore_all(case: &mut Case) {
    for index in left_behind(case, true) {
        let step = &case.steps[index];
        let Ok(parsed) = step.step.parse::<Step>() else { continue };
        let restore = CaseStep {
            step: Step::Restore(Box::new(parsed)).to_string(),
            memo: step.memo.clone(),
            ..CaseStep::default()
        };
        let is_there = case.steps.iter().any(|step| step.step == restore.step && step.state == StepState::Pending);
        if !is_there {
            case.steps.push(restore);
        }
    }
}

/// The remedies are at their end: settings are restored, a ticket is filed, the host stays as it is.
pub(super) fn give_to_person(case: &mut Case, ticket: Option<&str>, now_realtime_ns: u64) {
    skip_rest(case, "not done: the case goes to a person", now_realtime_ns);
    case.ends_as = Some(CaseState::WithPerson);
    restore_all(case);
    let Some(ticket) = ticket else { return };
    let step = Step::Ticket(ticket.to_owned()).to_string();
    let is_filed = |filed: &CaseStep| filed.step == step && filed.state == StepState::Done;
    if !case.steps.iter().any(is_filed) {
        case.steps.push(CaseStep { step, ..CaseStep::default() });
    }
}

/// The host is given back: settings are restored, it is returned, and the case ends so.
pub(super) fn give_back(case: &mut Case, ends_as: CaseState, why: &str, now_realtime_ns: u64) {
    let is_going_back = case.ends_as == Some(ends_as);
    if !is_going_back {
        skip_rest(case, why, now_realtime_ns);
    }
    case.ends_as = Some(ends_as);
    restore_all(case);
    let step = Step::Return.to_string();
    let is_there = case.steps.iter().any(|there| there.step == step && there.state == StepState::Pending);
    // On this way back nobody could return it: once more would say the same, for ever.
    let is_in_vain = is_going_back && is_left_drained(case);
    if case.is_drained && !is_there && !is_in_vain {
        case.steps.push(CaseStep { step, ..CaseStep::default() });
    }
}

/// The host is given back besides, where it is out.
pub(super) fn add_return(case: &mut Case) {
    let step = Step::Return.to_string();
    let is_there = case.steps.iter().any(|there| there.step == step && there.state == StepState::Pending);
    if case.is_drained && !is_there {
        case.steps.push(CaseStep { step, ..CaseStep::default() });
    }
}

/// Whether the newest return had nothing to do and the host still counts as drained: its scheduler left the policy.
pub fn is_left_drained(case: &Case) -> bool {
    let newest = case.steps.iter().rfind(|step| step.step == Step::Return.to_string());
    case.is_drained && newest.is_some_and(|step| step.is_not_needed)
}

/// What a case becomes whose steps are all over. It is never closed while something of its host stands changed.
pub(super) fn final_state(case: &Case) -> CaseState {
    let is_left = case.is_drained || !left_behind(case, case.ends_as.is_some()).is_empty();
    let is_handed_over = case
        .steps
        .iter()
        .rev()
        .find(|step| step.state == StepState::Done)
        .is_some_and(|step| matches!(step.step.parse(), Ok(Step::Ticket(_))));
    match case.ends_as {
        _ if is_left => CaseState::WithPerson,
        Some(state) => state,
        None if is_handed_over => CaseState::WithPerson,
        None => CaseState::Returned,
    }
}
