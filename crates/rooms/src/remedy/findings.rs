//! What the checks say. Pure.

use super::rules;
use super::state::State;
use surefoot_model::{Finding, Severity, Subject};

/// A finding for each check that did not pass, or one for all that did.
pub fn of(state: &State) -> Vec<Finding> {
    let checks = state.checks.values().map(|check| check.finding()).filter(|one| one.severity > Severity::Ok);
    let mut findings: Vec<Finding> = checks.collect();
    if findings.is_empty() && !state.checks.is_empty() {
        let sentence = match state.checks.len() {
            1 => "The periodic check passed.".to_owned(),
            count => format!("All {count} periodic checks passed."),
        };
        findings.push(rules::CHECKS.finding(Subject::host(), Severity::Ok, sentence));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{CheckState, Event, HostCheck};

    #[test]
    fn checks_that_are_well_are_one_finding_and_others_one_each() {
        let mut state = State::default();
        assert!(of(&state).is_empty());
        let check = |name: &str, found| {
            let sentence = format!("It is {name}.");
            Event::Check(Box::new(HostCheck { name: name.into(), state: found, sentence, ..HostCheck::default() }))
        };
        state.take(&check("a", CheckState::Ok));
        state.take(&check("b", CheckState::Ok));
        assert_eq!(of(&state)[0].sentence, "All 2 periodic checks passed.");
        state.take(&check("a", CheckState::Critical));
        state.take(&check("c", CheckState::Unknown));
        let keys: Vec<(String, Severity)> = of(&state).into_iter().map(|one| (one.key, one.severity)).collect();
        let expected = [("remedy/check-a/host", Severity::Critical), ("remedy/check-c/host", Severity::Notice)];
        assert_eq!(keys, expected.map(|(key, severity)| (key.to_owned(), severity)));
        state.take(&check("a", CheckState::Ok));
        assert_eq!(of(&state).len(), 1);
    }
}
