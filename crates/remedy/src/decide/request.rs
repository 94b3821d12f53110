//! What people ask of a case.

use super::advance::in_flight;
use super::{closing, entry};
use crate::parts::repairs_part;
use surefoot_model::{AuditEntry, Case, CaseState, CaseStep, Replaced, StepState, clipped, one_line};

/// What somebody asks of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The step that waits for it may be begun. Of a case that is with a person: the host may be given back.
    Approve,
    /// Nothing new is begun; a step that is being done is ended.
    Pause,
    /// It goes on.
    Resume,
    /// It ends: settings are restored and the host is returned, as far as it changed them.
    Cancel,
    /// A person replaced the part that it is about; the reason says by what. Of a closed case too; of an open one, repairs of the part
    /// that are not begun are skipped.
    Replaced,
    /// The part that was replaced tested good. Of a closed case too.
    TestedGood,
}

/// The longest text that is kept of what a part was replaced by.
const BY_CHARS_MAX: usize = 200;

impl Request {
    /// Each with its word, which is also the action in the audit trail.
    pub const ALL: [(&'static str, Request); 6] = [
        ("approved", Request::Approve),
        ("paused", Request::Pause),
        ("resumed", Request::Resume),
        ("cancelled", Request::Cancel),
        ("replaced", Request::Replaced),
        ("tested_good", Request::TestedGood),
    ];
}

/// Why a request cannot be met now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("case {case} {why}")]
pub struct Refused {
    /// The case.
    pub case: u64,
    /// Why, in words that follow the case's number.
    pub why: String,
}

/// What an approval of the case is of now, in the words of its policy; `None` where nothing waits for one.
pub fn waits_for_approval(case: &Case) -> Option<&str> {
    match case.state {
        CaseState::WithPerson => Some("return"),
        _ => {
            let (_, step) = case.current()?;
            let waits = step.state == StepState::Pending && step.needs_approval && step.approved_by.is_empty();
            waits.then_some(step.step.as_str())
        }
    }
}

/// The case after a request, and the line for the audit trail: what [`crate::Casebook::update`] takes. `actor` is who asks, such as
/// `user anna`; `reason` is theirs and may be empty.
///
/// # Errors
/// [`Refused`] where the case is not in a state for it.
pub fn request(
    case: &Case,
    request: Request,
    actor: &str,
    reason: &str,
    now_realtime_ns: u64,
) -> Result<(Case, AuditEntry), Refused> {
    let refused = |why: String| Err(Refused { case: case.id, why });
    let is_of_part = matches!(request, Request::Replaced | Request::TestedGood);
    if !case.state.is_open() && !is_of_part {
        return refused(format!("is closed: {}", case.state.as_str()));
    }
    let mut next = case.clone();
    let target = match request {
        Request::Replaced if case.replaced.is_some() => return refused("has a part that was replaced already".into()),
        Request::Replaced if in_flight(case).is_some_and(|index| is_repair(&case.steps[index])) => {
            let step = in_flight(case).map_or("", |index| case.steps[index].step.as_str());
            return refused(format!(
                "is repairing the part ({step}): say it when that has ended, or pause the case first"
            ));
        }
        Request::Replaced => {
            // Its repairs were meant for the part that is gone; some of them, done to the new one, are for good.
            for step in next.steps.iter_mut().filter(|step| step.state == StepState::Pending && is_repair(step)) {
                step.state = StepState::Skipped;
                step.ended_realtime_ns = now_realtime_ns;
                step.outcome = "not done: the part was replaced".into();
            }
            if case.state == CaseState::NeedsApproval && waits_for_approval(&next).is_none() {
                closing::enter(&mut next, CaseState::Waiting, now_realtime_ns);
            }
            let by = clipped(reason, BY_CHARS_MAX);
            next.replaced = Some(Replaced { at_realtime_ns: now_realtime_ns, by, tested_good_realtime_ns: 0 });
            case.subject.clone()
        }
        Request::TestedGood => match &mut next.replaced {
            None => return refused("has no part that was replaced: say first that it was".into()),
            Some(replaced) if replaced.tested_good_realtime_ns != 0 => {
                return refused("has a part that tested good already".into());
            }
            Some(replaced) => {
                replaced.tested_good_realtime_ns = now_realtime_ns;
                case.subject.clone()
            }
        },
        Request::Approve => match approve(&mut next, actor, now_realtime_ns) {
            Some(step) => step,
            None => return refused(format!("has nothing to approve: it is {}", case.state.as_str())),
        },
        Request::Pause if case.state == CaseState::WithPerson => return refused("is with a person already".into()),
        Request::Pause if case.state == CaseState::Paused => return refused("is paused already".into()),
        Request::Pause => {
            closing::enter(&mut next, CaseState::Paused, now_realtime_ns);
            next.waits_for = format!("{actor}, who paused it");
            String::new()
        }
        Request::Resume if case.state != CaseState::Paused => return refused("is not paused".into()),
        Request::Resume => {
            let state = if in_flight(case).is_some() { CaseState::Running } else { CaseState::Waiting };
            closing::enter(&mut next, state, now_realtime_ns);
            String::new()
        }
        Request::Cancel if case.ends_as == Some(CaseState::Cancelled) && case.state != CaseState::Paused => {
            return refused("is being cancelled already".into());
        }
        Request::Cancel => {
            cancel(&mut next, now_realtime_ns);
            String::new()
        }
    };
    let action = Request::ALL.iter().find(|(_, of)| *of == request).map_or("", |(word, _)| *word);
    let line = entry(now_realtime_ns, case.id, actor, action, &target, &one_line(reason));
    Ok((next, line))
}

fn is_repair(step: &CaseStep) -> bool {
    step.step.parse().is_ok_and(|step| repairs_part(&step))
}

/// What was approved; `None` where nothing waits for it.
fn approve(case: &mut Case, actor: &str, now_realtime_ns: u64) -> Option<String> {
    if case.state == CaseState::WithPerson {
        closing::give_back(case, CaseState::Returned, "not done: a person repaired the host", now_realtime_ns);
        closing::enter(case, CaseState::Waiting, now_realtime_ns);
        return Some("return".into());
    }
    // The step that comes next alone: a second word on one that is approved already must not go to a later one, which nobody has seen yet.
    waits_for_approval(case)?;
    let (index, _) = case.current()?;
    let step = case.steps.get_mut(index)?;
    actor.clone_into(&mut step.approved_by);
    let approved = step.step.clone();
    if case.state == CaseState::NeedsApproval {
        closing::enter(case, CaseState::Waiting, now_realtime_ns);
    }
    Some(approved)
}

fn cancel(case: &mut Case, now_realtime_ns: u64) {
    if in_flight(case).is_some() {
        // The way back begins when the step has ended.
        closing::skip_rest(case, "cancelled", now_realtime_ns);
        case.ends_as = Some(CaseState::Cancelled);
        closing::enter(case, CaseState::Running, now_realtime_ns);
        return;
    }
    if case.state == CaseState::WithPerson && closing::is_left_drained(case) {
        // A person was told that nothing here can return the host, and closes the case.
        case.is_drained = false;
    }
    closing::give_back(case, CaseState::Cancelled, "cancelled", now_realtime_ns);
    if closing::next_step(case, now_realtime_ns).is_none() && closing::final_state(case) == CaseState::Cancelled {
        closing::close(case, CaseState::Cancelled, now_realtime_ns);
    } else {
        closing::enter(case, CaseState::Waiting, now_realtime_ns);
    }
}
