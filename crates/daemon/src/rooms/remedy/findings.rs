//! What checks and cases come to. Pure.

use super::state::State;
use surefoot_model::{Case, CaseState, Finding, Room, Severity, Subject, SubjectKind};

/// Everything that is to be said now: of each check that is not well, of each open case, and that the checks are well where all are.
pub(super) fn of(state: &State) -> Vec<Finding> {
    let checks = state.checks.values().map(|check| check.finding()).filter(|one| one.severity > Severity::Ok);
    let mut findings: Vec<Finding> = checks.collect();
    if findings.is_empty() && !state.checks.is_empty() {
        let sentence = match state.checks.len() {
            1 => "1 periodic check found nothing.".to_owned(),
            count => format!("{count} periodic checks found nothing."),
        };
        findings.push(Finding::new(Room::Remedy, "checks", Subject::host(), Severity::Ok, sentence));
    }
    findings.extend(state.cases.values().filter(|case| case.state.is_open()).map(of_case));
    findings
}

/// A case is told of at its own severity only while nobody does anything about it: what is being mended is no alarm.
fn of_case(case: &Case) -> Finding {
    let severity = match case.state {
        CaseState::WithPerson | CaseState::NeedsApproval => Severity::Warning,
        _ => Severity::Notice,
    };
    let waits = if case.waits_for.is_empty() { String::new() } else { format!("; it waits for {}", case.waits_for) };
    let sentence = format!("Case {} of {} ({}) is {}{waits}.", case.id, case.host, case.fault, case.state.as_str());
    let subject = Subject::new(SubjectKind::Case, case.id.to_string());
    let of = |sentence: String| Finding::new(Room::Remedy, "case", subject.clone(), severity, sentence);
    of(sentence)
        .with_evidence(case.evidence.clone())
        .with_public(&of(format!("Case {}: {}.", case.id, case.state.as_str())))
        .since(case.since_realtime_ns)
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
        assert_eq!(of(&state)[0].sentence, "2 periodic checks found nothing.");
        state.take(&check("a", CheckState::Critical));
        state.take(&check("c", CheckState::Unknown));
        let keys: Vec<(String, Severity)> = of(&state).into_iter().map(|one| (one.key, one.severity)).collect();
        let expected = [("remedy/check-a/host", Severity::Critical), ("remedy/check-c/host", Severity::Notice)];
        assert_eq!(keys, expected.map(|(key, severity)| (key.to_owned(), severity)));
        state.take(&check("a", CheckState::Ok));
        assert_eq!(of(&state).len(), 1);
    }
}
