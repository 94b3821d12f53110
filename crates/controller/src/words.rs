//! Cases in words: the same on the page and in the terminal.

use serde::{Deserialize, Serialize};
use surefoot_model::{Case, CaseState, CaseWait, Headline, Severity, StepState};
use surefoot_remedy::decide::{is_left_drained, is_out};
use surefoot_store::cases::People;

/// Hosts that the headline names.
const HOSTS_MAX: usize = 3;

/// A state as it is shown: a column of the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLabel {
    /// The state.
    pub state: CaseState,
    /// What people call it.
    pub label: String,
    /// Whether cases in it are open.
    pub is_open: bool,
}

impl StateLabel {
    /// All states, in the order of the board: first those that need a person.
    pub fn all() -> Vec<StateLabel> {
        use CaseState::{Cancelled, Cleared, NeedsApproval, Paused, Returned, Running, Waiting, WithPerson};
        let of =
            |state: CaseState| StateLabel { state, label: self::state(state).to_owned(), is_open: state.is_open() };
        [NeedsApproval, WithPerson, Waiting, Running, Paused, Returned, Cleared, Cancelled].map(of).to_vec()
    }
}

/// A state as people call it.
fn state(state: CaseState) -> &'static str {
    match state {
        CaseState::Waiting => "waiting",
        CaseState::NeedsApproval => "needs approval",
        CaseState::Running => "running",
        CaseState::Paused => "paused",
        CaseState::WithPerson => "with a person",
        CaseState::Returned => "returned",
        CaseState::Cleared => "cleared",
        CaseState::Cancelled => "cancelled",
    }
}

/// A state in words, with what the case is about to become.
pub fn label(state: CaseState, ends_as: Option<CaseState>) -> String {
    format!("{}{}", self::state(state), end(ends_as))
}

/// The state that a case will have after its remaining steps, where that is decided: `, being cancelled`.
fn end(ends_as: Option<CaseState>) -> &'static str {
    match ends_as {
        Some(CaseState::Cancelled) => ", being cancelled",
        Some(CaseState::WithPerson) => ", on its way to a person",
        Some(CaseState::Returned) => ", on its way back",
        _ => "",
    }
}

/// What a person can do about a case now; `None` for one that is closed. `out` are the hosts that a limit counts which it waits for.
pub fn to_do(case: &Case, out: &[String]) -> Option<String> {
    Some(match case.state {
        CaseState::NeedsApproval => {
            let step = case.current().map_or("the next step", |(_, step)| &step.step);
            format!("Approve {step}, or cancel the case.")
        }
        CaseState::WithPerson => with_person(case),
        CaseState::Paused => "Resume the case, or cancel it.".to_owned(),
        CaseState::Waiting if case.wait == CaseWait::AllPaused => {
            "Resume everything; the audit trail says who paused it and why.".to_owned()
        }
        CaseState::Waiting if case.wait == CaseWait::NoPolicy => {
            format!("Put the policy {} back into the policy file, or cancel the case.", case.policy)
        }
        CaseState::Waiting | CaseState::Running if case.ends_as == Some(CaseState::Cancelled) => {
            "Nothing: the case ends after the current step, once settings and host are restored.".to_owned()
        }
        CaseState::Waiting | CaseState::Running => goes_on(case, out),
        CaseState::Returned | CaseState::Cleared | CaseState::Cancelled => return None,
    })
}

/// What the person does who has a case. A host that the case did not take out of service does not have to return.
fn with_person(case: &Case) -> String {
    let host = &case.host;
    let last = match case.is_drained {
        true if is_left_drained(case) => {
            format!("return {host} by hand, because its service has no scheduler, and cancel the case")
        }
        true => "approve its return".to_owned(),
        false => format!("approve case {} to close it ({host} was not taken out of service)", case.id),
    };
    let failed = case.steps.iter().find(|step| step.state == StepState::Failed);
    match (failed, &case.replaced) {
        (_, Some(_)) => format!("The part was replaced: check {host}, then {last}."),
        (Some(failed), None) => format!("{} failed: repair {host}, then {last}.", failed.step),
        (None, None) => format!("No step is left: repair {host}, then {last}."),
    }
}

/// That a case needs nobody, what it waits for and until when, and which hosts hold it up.
fn goes_on(case: &Case, out: &[String]) -> String {
    if case.waits_for.is_empty() {
        return "Nothing: the case continues automatically.".to_owned();
    }
    let more = out.len().saturating_sub(HOSTS_MAX);
    let named = out.get(..HOSTS_MAX).unwrap_or(out).join(", ");
    let held = match (out.len(), more) {
        (0, _) => String::new(),
        (_, 0) => format!(" Out now: {named}."),
        _ => format!(" Out now: {named} and {more} more."),
    };
    format!("Nothing: the case waits for {}, and then continues automatically.{held}", case.waits_for)
}

/// The hosts that are out of the service of a case which waits for a limit, each with the case that holds it.
pub(super) fn out(case: &Case, open: &[Case]) -> Vec<String> {
    let is_alike = |other: &&Case| {
        other.service == case.service && other.is_dry_run == case.is_dry_run && other.id != case.id && is_out(other)
    };
    let of = |other: &Case| format!("{} (case {})", other.host, other.id);
    let mut out: Vec<String> = open.iter().filter(is_alike).map(of).collect();
    out.sort();
    out
}

/// The fleet in one sentence: what of all open cases needs a person, how many cases are open, and how many of them cannot be read.
pub fn headline(people: &People, open_count: u64, unread: u64) -> Headline {
    let open = if open_count == 1 { "1 open case".to_owned() } else { format!("{open_count} open cases") };
    let cannot = if unread > 0 { format!("; {unread} cannot be read") } else { String::new() };
    let (severity, sentence) = match (open_count, people.cases) {
        (0, _) => (Severity::Ok, "No open cases.".to_owned()),
        (_, 0) if unread > 0 => (Severity::Warning, format!("{open}{cannot}.")),
        (_, 0) => (Severity::Notice, format!("{open}; no manual action needed.")),
        (_, count) => {
            let named = people.hosts.get(..HOSTS_MAX).unwrap_or(&people.hosts);
            let more = match people.host_count.saturating_sub(named.len() as u64) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let verb = if count == 1 { "needs" } else { "need" };
            let sentence = format!("{open}; {count} {verb} manual action: {}{more}{cannot}.", named.join(", "));
            (Severity::Warning, sentence)
        }
    };
    Headline::new(severity, sentence)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;
    use surefoot_model::CaseStep;

    fn case(id: u64, host: &str, state: CaseState) -> Case {
        serde_json::from_value(json!({
            "id": id, "host": host, "service": "web", "fault": "memory/rate", "subject": "dimm A1", "alert_key": "k",
            "severity": "warning", "sentence": "", "policy": "p", "state": state, "is_firing": true, "steps": [],
            "is_drained": false, "since_realtime_ns": 1, "state_since_realtime_ns": 1, "revision": 1,
        }))
        .unwrap()
    }

    #[test]
    fn the_headline_counts_open_cases_and_names_the_hosts_that_need_a_person() {
        let of = |cases, hosts: &[&str], host_count, open_count, unread| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let Headline { severity, sentence, .. } =
                headline(&People { cases, hosts, host_count }, open_count, unread);
            (severity, sentence)
        };
        assert_eq!(of(0, &[], 0, 0, 0), (Severity::Ok, "No open cases.".into()));
        assert_eq!(of(0, &[], 0, 1, 0), (Severity::Notice, "1 open case; no manual action needed.".into()));
        assert_eq!(of(0, &[], 0, 1, 1), (Severity::Warning, "1 open case; 1 cannot be read.".into()));
        assert_eq!(of(1, &["n1"], 1, 1, 0).1, "1 open case; 1 needs manual action: n1.");
        let all = of(3, &["n2", "n3"], 2, 400, 2);
        assert_eq!(all.1, "400 open cases; 3 need manual action: n2, n3; 2 cannot be read.");
        assert!(
            of(5, &["n0", "n1", "n2", "n3", "n4"], 5, 5, 0).1.ends_with("5 need manual action: n0, n1, n2 and 2 more.")
        );
    }

    #[test]
    fn each_open_case_says_what_a_person_can_do_and_a_closed_one_nothing() {
        for state in CaseState::ALL {
            assert_eq!(to_do(&case(1, "n1", state), &[]).is_some(), state.is_open(), "{state:?}");
        }
        let failed = CaseStep { step: "run:/repair".into(), state: StepState::Failed, ..CaseStep::default() };
        let with_person = Case { steps: vec![failed], is_drained: true, ..case(1, "n1", CaseState::WithPerson) };
        assert_eq!(to_do(&with_person, &[]).unwrap(), "run:/repair failed: repair n1, then approve its return.");
        let waiting = |wait| to_do(&Case { wait, ..case(1, "n1", CaseState::Waiting) }, &[]).unwrap();
        assert!(waiting(CaseWait::AllPaused).starts_with("Resume everything"));
        assert!(waiting(CaseWait::NoPolicy).contains("back into the policy file"));
        assert!(waiting(CaseWait::Other).starts_with("Nothing"));
    }

    #[test]
    fn the_return_of_a_host_that_was_never_taken_out_is_not_asked_for() {
        let stays = to_do(&case(1, "n1", CaseState::WithPerson), &[]).unwrap();
        assert!(!stays.contains("return") && stays.contains("approve case 1 to close it"), "{stays}");
        let in_vain =
            CaseStep { step: "return".into(), state: StepState::Skipped, is_not_needed: true, ..CaseStep::default() };
        let left = Case { steps: vec![in_vain], is_drained: true, ..case(1, "n1", CaseState::WithPerson) };
        assert!(
            to_do(&left, &[])
                .unwrap()
                .ends_with("return n1 by hand, because its service has no scheduler, and cancel the case.")
        );
        let replaced =
            Some(surefoot_model::Replaced { at_realtime_ns: 1, by: String::new(), tested_good_realtime_ns: 0 });
        let mended = Case { replaced, is_drained: true, ..case(1, "n1", CaseState::WithPerson) };
        assert_eq!(to_do(&mended, &[]).unwrap(), "The part was replaced: check n1, then approve its return.");
    }

    #[test]
    fn a_case_that_waits_says_for_what_until_when_and_which_hosts_are_out() {
        let running = |id, host: &str, service: &str| Case {
            began_realtime_ns: 1,
            service: service.into(),
            ..case(id, host, CaseState::Running)
        };
        let waits_for = "the limit hosts_at_once (1 of web out at once), until a host that is out returns".to_owned();
        let held = Case { wait: CaseWait::Limit, waits_for, ..case(9, "n9", CaseState::Waiting) };
        let mut open =
            vec![running(2, "n2", "web"), running(3, "n3", "db"), case(4, "n4", CaseState::Waiting), held.clone()];
        let says = to_do(&held, &out(&held, &open)).unwrap();
        let wanted = "Nothing: the case waits for the limit hosts_at_once (1 of web out at once), until a host that is out returns, \
                      and then continues automatically. Out now: n2 (case 2).";
        assert_eq!(says, wanted);
        open.extend((5..9).map(|id| running(id, &format!("n{id}"), "web")));
        assert!(to_do(&held, &out(&held, &open)).unwrap().ends_with("n5 (case 5), n6 (case 6) and 2 more."));
    }
}
