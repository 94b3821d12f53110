//! Cases in words for people: states, times, and what is to be done about one.

use crate::history::when;
use surefoot_model::{Case, CaseState, StepState};

/// A state as people call it.
pub fn state(state: CaseState) -> String {
    match state {
        CaseState::WithPerson => "with a person".to_owned(),
        other => other.as_str().replace('_', " "),
    }
}

/// What the steps that are left of a case are for, where it is decided what it becomes: `, being cancelled`.
pub fn end(ends_as: Option<CaseState>) -> &'static str {
    match ends_as {
        Some(CaseState::Cancelled) => ", being cancelled",
        Some(CaseState::WithPerson) => ", on its way to a person",
        Some(CaseState::Returned) => ", on its way back",
        _ => "",
    }
}

/// A moment of the store, `2026-11-25 18:59:49 UTC`.
pub fn moment(at_realtime_ns: u64) -> String {
    format!("{} UTC", second(at_realtime_ns))
}

/// The same where it is said once that it is UTC.
pub fn second(at_realtime_ns: u64) -> String {
    when::second(i64::try_from(at_realtime_ns).unwrap_or(i64::MAX))
}

/// How long ago a moment of the store is, `3 min 5 s`; 0 s where the clocks differ.
pub fn age(at_realtime_ns: u64, now_realtime_ns: u64) -> String {
    let seconds = now_realtime_ns.saturating_sub(at_realtime_ns) / 1_000_000_000;
    match i64::try_from(seconds.saturating_mul(1_000_000_000)) {
        Ok(0) => "0 s".to_owned(),
        age_ns => when::stretch(age_ns.unwrap_or(i64::MAX)),
    }
}

/// An actor of the audit trail without what only tells two runs of one controller apart.
pub fn actor(actor: &str) -> &str {
    match actor.split_once('/') {
        Some((_, run)) if actor.starts_with("controller ") => {
            let kept = run.split('/').next().map_or(0, str::len);
            &actor[..actor.len() - (run.len() - kept)]
        }
        _ => actor,
    }
}

/// What a person can do about a case now; `None` for one that is closed.
pub fn to_do(case: &Case) -> Option<String> {
    let (id, host) = (case.id, &case.host);
    let cancel = format!("`surefoot remedy cancel {id}` ends the case and takes back what it changed");
    Some(match case.state {
        CaseState::NeedsApproval => {
            format!("`surefoot remedy approve {id} --reason TEXT` lets the step be done; {cancel}")
        }
        CaseState::WithPerson => {
            let failed = case.steps.iter().any(|step| step.state == StepState::Failed);
            let why = if failed { "a step failed, see below" } else { "no step is left" };
            format!(
                "{why}: repair {host}; then `surefoot remedy approve {id} --reason TEXT` brings it back into service"
            )
        }
        CaseState::Paused => format!("`surefoot remedy resume {id}` goes on; {cancel}"),
        CaseState::Waiting if case.waits_for == surefoot_remedy::decide::ALL_PAUSED => {
            "`surefoot remedy resume` goes on with everything; `surefoot remedy trail` says who paused it and why"
                .to_owned()
        }
        CaseState::Waiting if case.waits_for == surefoot_remedy::decide::NO_POLICY => {
            format!("give the policy {} back in the policy file; {cancel}", case.policy)
        }
        CaseState::Waiting | CaseState::Running if case.ends_as == Some(CaseState::Cancelled) => {
            "nothing, it ends by itself: the step that is being done first, then settings and host are put back"
                .to_owned()
        }
        CaseState::Waiting | CaseState::Running => format!("nothing, it goes on by itself; {cancel}"),
        CaseState::Returned | CaseState::Cleared | CaseState::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_whole_seconds_and_never_negative() {
        assert_eq!(age(5_000_000_000, 4_000_000_000), "0 s");
        assert_eq!(age(0, 999_999_999), "0 s");
        assert_eq!(age(0, 185_700_000_000), "3 min 5 s");
    }

    #[test]
    fn a_controller_is_shown_without_the_number_of_its_run() {
        assert_eq!(actor("controller vm/30306/18eb5edec9c86870"), "controller vm/30306");
        assert_eq!(actor("controller reload"), "controller reload");
        assert_eq!(actor("user a/b/c"), "user a/b/c");
        assert_eq!(actor("controller /"), "controller /");
    }
}
