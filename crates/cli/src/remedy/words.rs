//! Cases in the terminal: times, actors, and the commands that act on one.

use surefoot_console::when;
use surefoot_model::{Case, CaseState, CaseWait};

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

/// The commands with which a person acts on a case at this place (`--server ADDRESS`, empty for the default); empty for one that is
/// closed.
pub fn commands(case: &Case, place: &str) -> String {
    let id = case.id;
    let first = match case.state {
        CaseState::NeedsApproval | CaseState::WithPerson => {
            format!("surefoot remedy approve {id}{place} --reason TEXT")
        }
        CaseState::Paused => format!("surefoot remedy resume {id}{place}"),
        CaseState::Waiting if case.wait == CaseWait::AllPaused => format!("surefoot remedy resume{place}"),
        CaseState::Waiting | CaseState::Running => format!("surefoot remedy pause {id}{place}"),
        CaseState::Returned | CaseState::Cleared | CaseState::Cancelled => return String::new(),
    };
    format!("{first}; surefoot remedy cancel {id}{place}")
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
