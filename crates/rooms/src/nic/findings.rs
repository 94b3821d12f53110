//! What the interfaces come to: a finding for each that is not well. Pure.

use super::rules;
use super::state::State;
use surefoot_model::{
    Certainty, Finding, HealthReporter, Interface, InterfaceLook, InterfaceState, ReporterState, Severity, Subject,
    SubjectKind, counted,
};

/// Problems that one finding names.
const PROBLEMS_MAX: usize = 10;

/// Everything that is to be said now; nothing of a host without interfaces.
pub fn of(state: &State) -> Vec<Finding> {
    let Some(look) = state.look_if_supported() else { return Vec::new() };
    let mut findings: Vec<Finding> = look.interfaces.iter().filter_map(of_interface).collect();
    findings.extend(look.interfaces.iter().flat_map(of_reporters));
    findings.extend(problems(look));
    if findings.is_empty() {
        findings.push(well(look));
    }
    findings
}

/// How bad a state is.
pub fn severity(state: InterfaceState) -> Severity {
    match state {
        InterfaceState::Unknown => Severity::Notice,
        InterfaceState::Ok => Severity::Ok,
        InterfaceState::Slow | InterfaceState::Losing => Severity::Warning,
        InterfaceState::Hung => Severity::Critical,
    }
}

/// The link of an interface in a word or two.
pub fn link(one: &Interface) -> String {
    match (one.is_up, one.has_carrier, one.speed_mbit_per_s) {
        (false, ..) => "off".into(),
        (true, Some(false), _) => "none".into(),
        (true, _, Some(speed)) if speed >= 1000 => format!("{} Gbit/s", speed as f64 / 1e3),
        (true, _, Some(speed)) => format!("{speed} Mbit/s"),
        (true, ..) => "up".into(),
    }
}

fn of_interface(one: &Interface) -> Option<Finding> {
    let is_needed = !one.carries.is_empty();
    let (rule, what) = match one.state {
        InterfaceState::Unknown | InterfaceState::Ok => return None,
        InterfaceState::Slow => (rules::SLOW, "is slow"),
        InterfaceState::Losing => (rules::LOSING, "is losing packets or its link"),
        InterfaceState::Hung if is_needed => (rules::HUNG, "is hung and in use"),
        InterfaceState::Hung => (rules::HUNG, "is hung"),
    };
    let severity = severity(one.state);
    let why = one.evidence.first().map_or(String::new(), |why| format!(": {why}"));
    let sentence = format!("Network interface {} {what}{why}.", one.name);
    let subject = Subject::new(SubjectKind::Interface, &one.name);
    let certainty = one.certainty.unwrap_or(Certainty::CannotTellApartHere);
    Some(rule.finding(subject, severity, sentence).with_certainty(certainty).with_evidence(one.evidence.clone()))
}

/// Health reporters in error that are not told with a state.
fn of_reporters(one: &Interface) -> Vec<Finding> {
    if !matches!(one.state, InterfaceState::Ok | InterfaceState::Unknown) {
        return Vec::new();
    }
    let bad: Vec<&HealthReporter> = one.reporters.iter().filter(|one| one.state != ReporterState::Healthy).collect();
    let worst = bad.iter().find(|one| one.state == ReporterState::Error).or(bad.first());
    let Some(worst) = worst else { return Vec::new() };
    let (severity, state) = match worst.state {
        ReporterState::Error => (Severity::Warning, "in the state error"),
        _ => (Severity::Notice, "in a state that Surefoot does not know"),
    };
    let errors = counted(worst.error_count, "error", "errors");
    let others = match bad.iter().filter(|one| one.state == worst.state).count() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let sentence = format!(
        "Health reporter {}{others} of network interface {} is {state}, {errors} since its driver loaded.",
        worst.name, one.name
    );
    let subject = Subject::new(SubjectKind::Interface, &one.name);
    let certainty =
        if worst.state == ReporterState::Error { Certainty::Certain } else { Certainty::CannotTellApartHere };
    vec![
        rules::REPORTER
            .finding(subject, severity, sentence)
            .with_certainty(certainty)
            .with_evidence(one.evidence.clone()),
    ]
}

fn problems(look: &InterfaceLook) -> Option<Finding> {
    let lines = look.problems.iter().take(PROBLEMS_MAX).map(|problem| format!("{}: {}", problem.path, problem.why));
    let sentence = match look.problems_left_out.saturating_add(look.problems.len() as u64) {
        0 => return None,
        1 => "1 source of interface data cannot be read.".to_owned(),
        count => format!("{count} sources of interface data cannot be read."),
    };
    Some(rules::PROBLEMS.finding(Subject::host(), Severity::Notice, sentence).with_evidence(lines.collect()))
}

/// A finding of interfaces that none of the others is about. It is as certain as the least certain of them: one that was not probed and
/// whose counters say nothing against it may still be hung.
fn well(look: &InterfaceLook) -> Finding {
    let in_state = |state| look.interfaces.iter().filter(move |one| one.state == state);
    let ok = counted(in_state(InterfaceState::Ok).count() as u64, "network interface", "network interfaces");
    let certainty =
        in_state(InterfaceState::Ok).map(|one| one.certainty.unwrap_or(Certainty::CannotTellApartHere)).max();
    let certainty = certainty.unwrap_or(Certainty::Certain);
    let mut sentence = match certainty {
        Certainty::Certain => format!("{ok} passed a probe"),
        _ => format!("No problems found on {ok}"),
    };
    let is_off = |one: &&Interface| !one.is_up || one.has_carrier == Some(false);
    let (off, unclear): (Vec<&Interface>, Vec<&Interface>) = in_state(InterfaceState::Unknown).partition(is_off);
    match off.len() {
        0 => {}
        1 => sentence += "; 1 is down or has no link",
        off => sentence += &format!("; {off} are down or have no link"),
    }
    match unclear.len() {
        0 => {}
        unclear => sentence += &format!("; the state of {unclear} is unknown"),
    }
    rules::INTERFACES.finding(Subject::host(), Severity::Ok, sentence + ".").with_certainty(certainty)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{InterfaceEvent, InterfaceProblem};

    fn found(interfaces: Vec<Interface>, problems: Vec<InterfaceProblem>) -> Vec<Finding> {
        let mut state = State::default();
        state.seen(&InterfaceEvent::Look(InterfaceLook { interfaces, problems, ..InterfaceLook::default() }));
        of(&state)
    }

    fn eth(name: &str, state: InterfaceState) -> Interface {
        let evidence = vec!["the first".to_owned(), "the second".to_owned()];
        let certainty = Some(Certainty::Probable);
        Interface { name: name.into(), state, evidence, certainty, ..Interface::default() }
    }

    #[test]
    fn each_interface_that_is_not_well_is_a_finding_with_its_evidence() {
        let all = InterfaceState::ALL.map(|state| eth(state.as_str(), state));
        let findings = found(all.into(), Vec::new());
        let keys: Vec<(&str, Severity)> = findings.iter().map(|one| (one.key.as_str(), one.severity)).collect();
        assert_eq!(
            keys,
            [
                ("nic/slow/interface/slow", Severity::Warning),
                ("nic/losing/interface/losing", Severity::Warning),
                ("nic/hung/interface/hung", Severity::Critical),
            ]
        );
        assert_eq!(findings[2].sentence, "Network interface hung is hung: the first.");
        assert_eq!((findings[2].evidence.len(), findings[2].certainty), (2, Certainty::Probable));
    }

    #[test]
    fn that_all_is_well_is_said_and_what_cannot_be_read_too() {
        let findings = found(vec![eth("eth0", InterfaceState::Ok), eth("eth1", InterfaceState::Unknown)], Vec::new());
        assert_eq!(findings[0].sentence, "No problems found on 1 network interface; 1 is down or has no link.");
        assert_eq!(findings[0].certainty, Certainty::Probable, "it was not probed");
        let probed = Interface { certainty: Some(Certainty::Certain), ..eth("eth0", InterfaceState::Ok) };
        let findings = found(vec![probed.clone()], Vec::new());
        assert_eq!(
            (findings[0].sentence.as_str(), findings[0].certainty),
            ("1 network interface passed a probe.", Certainty::Certain)
        );
        let findings = found(vec![probed, eth("eth1", InterfaceState::Ok)], Vec::new());
        assert_eq!(findings[0].sentence, "No problems found on 2 network interfaces.");
        let problem = InterfaceProblem { path: "devlink".into(), why: "no".into() };
        let findings = found(vec![eth("eth0", InterfaceState::Ok)], vec![problem]);
        assert_eq!((findings[0].severity, findings[0].evidence[0].as_str()), (Severity::Notice, "devlink: no"));
        assert!(of(&State::default()).is_empty());
    }

    fn reporter(name: &str, state: ReporterState) -> HealthReporter {
        HealthReporter {
            device: "pci/0000:01:00.0".into(),
            port: None,
            name: name.into(),
            state,
            error_count: 2,
            recover_count: 0,
            has_dump: false,
            dump_realtime_ns: None,
            auto_recover: None,
            grace_period_ms: None,
        }
    }

    #[test]
    fn a_reporter_in_error_is_told_where_the_state_of_its_interface_does_not() {
        use ReporterState::{Error, Healthy, Unknown};
        let with = |state, reporters| found(vec![Interface { reporters, ..eth("eth0", state) }], Vec::new());
        let hot = || vec![reporter("fw", Healthy), reporter("odd", Unknown), reporter("hw", Error)];
        for state in [InterfaceState::Ok, InterfaceState::Unknown] {
            let findings = with(state, hot());
            assert_eq!(
                (findings.len(), findings[0].severity, &*findings[0].key),
                (1, Severity::Warning, "nic/reporter/interface/eth0")
            );
            assert_eq!(
                findings[0].sentence,
                "Health reporter hw of network interface eth0 is in the state error, 2 errors since its driver loaded."
            );
        }
        let findings = with(InterfaceState::Ok, vec![reporter("hw", Error), reporter("fw", Error)]);
        assert!(findings[0].sentence.starts_with("Health reporter hw (and 1 more) of"), "{}", findings[0].sentence);
        let findings = with(InterfaceState::Ok, vec![reporter("odd", Unknown)]);
        assert_eq!((findings[0].severity, findings[0].certainty), (Severity::Notice, Certainty::CannotTellApartHere));
        assert_eq!(with(InterfaceState::Hung, hot()).len(), 1, "its evidence has them");
        assert_eq!(with(InterfaceState::Ok, vec![reporter("fw", Healthy)])[0].severity, Severity::Ok);
    }

    #[test]
    fn an_interface_whose_state_is_unknown_is_not_called_down() {
        let up = |name: &str, has_carrier| Interface { is_up: true, has_carrier, ..eth(name, InterfaceState::Unknown) };
        let all = vec![
            eth("eth0", InterfaceState::Ok),
            eth("eth1", InterfaceState::Unknown),
            up("eth2", Some(false)),
            up("eth3", Some(true)),
        ];
        assert_eq!(
            found(all, Vec::new())[0].sentence,
            "No problems found on 1 network interface; 2 are down or have no link; the state of 1 is unknown."
        );
    }
}
