//! Cases step by step, by a clock that the test turns.

use super::hands::{Hands, alert, seen};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use surefoot_model::{Alert, AuditEntry, Case, CaseState, Lease, Observed, Severity, StepState};
use surefoot_remedy::act::{Outcome, PriorAttempt};
use surefoot_remedy::decide::{
    Controller, HeldReason, LEASE_NS_MAX, Request, conclude, decide, found, request, waits_for_approval,
};
use surefoot_remedy::engine::{Core, Counts, Ended, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Casebook, Change, Error, World};

const S: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * S;
/// Wednesday, 25 November 2026, 12:00 UTC.
const NOON: u64 = (1_795_564_800 + 12 * 3_600) * S;

struct Desk {
    book: MemoryBook,
    clock: Arc<AtomicU64>,
    core: Core,
    counts: Arc<Counts>,
    policies: Policies,
    hands: Hands,
    passed: Duration,
}

impl Desk {
    fn new(policy: &str) -> Desk {
        let clock = Arc::new(AtomicU64::new(NOON));
        let ticks = Arc::clone(&clock);
        let book = MemoryBook::new(Arc::new(move || ticks.load(Ordering::Relaxed)));
        let counts = Arc::<Counts>::default();
        let core = Core::new(Box::new(book.clone()), "c".into(), Settings::default(), Arc::clone(&counts));
        let policies = Policies::parse(policy, "p").unwrap();
        Desk { book, clock, core, counts, policies, hands: Hands::default(), passed: Duration::ZERO }
    }

    /// Goes on until nothing more is due.
    fn go(&mut self) {
        loop {
            let (begun, is_more) = self.core.round(&self.policies, self.passed);
            for begin in &begun {
                let ended = begin.attempt.make(&self.hands, &AtomicBool::new(false));
                self.core.note_end(begin.attempt.order.case, begin.attempt.fence, Some(ended));
            }
            if begun.is_empty() && !is_more && self.core.is_idle() {
                return;
            }
        }
    }

    fn pass(&mut self, ns: u64) {
        self.clock.fetch_add(ns, Ordering::Relaxed);
        self.passed += Duration::from_nanos(ns);
        self.go();
    }

    fn tell(&mut self, told: Alert) {
        let since_realtime_ns = self.clock.load(Ordering::Relaxed);
        self.book.take(&[Alert { since_realtime_ns, ..told }]).unwrap();
        self.go();
    }

    fn over(&mut self, told: Alert) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.tell(Alert { is_firing: false, ..told });
    }

    fn case(&mut self, id: u64) -> Case {
        self.book.case(id).unwrap()
    }

    fn ask(&mut self, id: u64, asked: Request) {
        let (case, entry) =
            request(&self.case(id), asked, "user anna", "", self.clock.load(Ordering::Relaxed)).unwrap();
        self.book.update(&case, &entry).unwrap();
        self.go();
    }

    /// The reasons of the trail's lines about alerts that are held back, the oldest first, and how many alerts are held back now.
    fn held(&mut self, reason: HeldReason) -> (Vec<String>, u64) {
        let mut lines = self.book.trail(0, 1_000).unwrap();
        lines.retain(|line| line.action == "held_back");
        let lines = lines.into_iter().map(|line| format!("{}: {}", line.target, line.reason)).collect();
        (lines, self.counts.held_back(reason).load(Ordering::Relaxed))
    }

    fn count(&mut self) -> usize {
        self.book.cases(false, 100).unwrap().len()
    }

    fn actions(&mut self, case: u64) -> String {
        let lines = self.book.trail(case, 100).unwrap();
        lines.iter().filter(|line| line.case == case).map(|line| line.action.as_str()).collect::<Vec<_>>().join(" ")
    }
}

fn failed(is_passing: bool, memo: &str) -> Outcome {
    Outcome::Failed { detail: "no".into(), memo: memo.into(), is_passing }
}

fn goes_on(memo: &str, again_in_ns: u64) -> Outcome {
    Outcome::GoesOn { detail: "so far".into(), memo: memo.into(), again_in_ns }
}

const SIMPLE: &str = "[[policy]]\nservice = \"web\"\nsteps = [\"drain\", \"return\"]\ncool_down = \"2h\"\n";

#[test]
fn an_alert_that_is_told_again_is_one_case_and_one_that_is_known_none() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\napprove = [\"reboot\"]");
    desk.tell(alert("h1"));
    desk.tell(alert("h1"));
    // Another key of the same fault, as when Alertmanager tells what the host told too.
    desk.tell(Alert { key: "fingerprint".into(), ..alert("h1") });
    assert_eq!(desk.count(), 1);
    assert!(desk.actions(0).contains("known"), "{}", desk.actions(0));
    // Late word of the time before it fired.
    desk.book.take(&[Alert { is_firing: false, since_realtime_ns: 5, ..alert("h1") }]).unwrap();
    desk.pass(HOUR);
    assert!(desk.case(1).is_firing);
}

/// The rules for Prometheus have one alert for each severity: the warning ends where the critical one begins.
#[test]
fn the_worse_alert_of_the_same_fault_outlives_the_case_of_the_first() {
    let mut desk = Desk::new(&format!(
        "{SIMPLE}windows = [\"night\"]\n[[window]]\nname = \"night\"\nfrom = \"22:00\"\nto = \"23:00\""
    ));
    desk.tell(alert("h1"));
    let worse = Alert { key: "critical".into(), severity: Severity::Critical, ..alert("h1") };
    desk.tell(worse.clone());
    assert_eq!((desk.count(), desk.actions(0).as_str()), (1, "known"));
    desk.over(alert("h1"));
    desk.pass(11 * S);
    assert_eq!(desk.case(1).state, CaseState::Cleared);
    assert_eq!((desk.case(2).alert_key, desk.case(2).severity), (worse.key, Severity::Critical));
}

/// A click too many, or a word that is told twice, is not a word on a step that nobody has seen yet.
#[test]
fn an_approval_is_of_the_step_that_waits_and_not_of_a_later_one() {
    let policy = "[[policy]]\nsteps = [\"drain\", \"reboot\", \"collect:maker\", \"hard-repair:maker\", \"return\"]\napprove = [\"drain\", \"reboot\"]\n\
                  windows = [\"night\"]\n[[window]]\nname = \"night\"\nfrom = \"22:00\"\nto = \"23:59\"";
    let mut desk = Desk::new(policy);
    desk.tell(alert("h1"));
    assert_eq!(waits_for_approval(&desk.case(1)), Some("drain"));
    desk.ask(1, Request::Approve);
    assert_eq!(desk.case(1).waits_for, "the maintenance window night, until it opens");
    let again = request(&desk.case(1), Request::Approve, "user anna", "", NOON);
    assert!(again.unwrap_err().to_string().contains("nothing to approve"));
    assert_eq!(waits_for_approval(&desk.case(1)), None);
    assert!(desk.case(1).steps[1..].iter().all(|step| step.approved_by.is_empty()));
}

/// A hook that is over must not go to a person because nobody could write that down in time.
#[test]
fn an_end_that_is_known_counts_though_the_store_was_away_for_longer_than_the_lease() {
    let mut desk = Desk::new(SIMPLE);
    let since_realtime_ns = desk.clock.load(Ordering::Relaxed);
    desk.book.take(&[Alert { since_realtime_ns, ..alert("h1") }]).unwrap();
    desk.core.round(&desk.policies, desk.passed);
    let (begun, _) = desk.core.round(&desk.policies, desk.passed);
    let attempt = &begun[0].attempt;
    desk.core.note_end(attempt.order.case, attempt.fence, Some(attempt.make(&desk.hands, &AtomicBool::new(false))));
    // The store is away meanwhile.
    desk.pass(60 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    assert_eq!(desk.hands.done(), ["h1 drain", "h1 return"], "{}", desk.actions(1));
    assert!(!desk.actions(1).contains("taken_over"), "{}", desk.actions(1));
}

/// A host whose interface does not hang was not repaired, and a host of no scheduler was not drained.
#[test]
fn a_repair_that_had_nothing_to_do_returns_no_host_as_fixed() {
    let steps = "[[policy]]\nsteps = [\"recheck\", \"drain\", \"reset-interface:eth0\", \"return\"]\nhosts_at_once = 1";
    let not_needed = |detail: &str| [Outcome::NotNeeded { detail: detail.into() }];
    let begun = || {
        let desk = Desk::new(steps);
        desk.hands.will("drain", &not_needed("no scheduler is named for the service"));
        desk.hands.will("reset-interface:eth0", &not_needed("eth0 does not hang"));
        desk
    };
    let mut desk = begun();
    desk.tell(alert("h1"));
    let case = desk.case(1);
    assert_eq!((case.state, case.is_drained), (CaseState::WithPerson, false), "{case:#?}");
    assert_eq!(case.steps.iter().map(|step| step.is_not_needed).collect::<Vec<_>>(), [false, true, true, false, false]);
    assert!(
        desk.actions(1).contains("not_needed begun not_needed begun done not_repaired with_person"),
        "{}",
        desk.actions(1)
    );
    desk.tell(alert("h2"));
    assert!(desk.case(2).waits_for.starts_with("the limit hosts_at_once"), "hooks may have drained the first host");
    desk.ask(1, Request::Approve);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    let trail = desk.book.trail(1, 100).unwrap();
    assert!(trail.iter().any(|line| line.reason.starts_with("a person decided; the alert still holds")), "{trail:#?}");
    assert!(trail.iter().all(|line| !line.reason.contains("the alert is over")), "{trail:#?}");

    // The alert ends while the interface is looked at: the host returns, by no repair of ours.
    let mut desk = begun();
    desk.hands.will("recheck", &[goes_on("", 5 * S)]);
    desk.tell(alert("h1"));
    desk.hands.will("drain", &[goes_on("", 5 * S), Outcome::NotNeeded { detail: String::new() }]);
    desk.pass(5 * S);
    desk.over(alert("h1"));
    desk.pass(5 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned, "{:#?}", desk.case(1));
    let trail = desk.book.trail(1, 100).unwrap();
    assert!(trail.iter().any(|line| line.reason == "the alert is over, and no step had anything to repair"));

    // A repair that was done counts, whatever else had nothing to do.
    let mut desk = Desk::new(
        "[[policy]]\nsteps = [\"drain\", \"reset-interface:eth0\", \"reboot\", \"return\"]\nhosts_at_once = 1",
    );
    desk.hands.will("reset-interface:eth0", &not_needed("eth0 does not hang"));
    desk.tell(alert("h1"));
    desk.over(alert("h1"));
    desk.pass(11 * S);
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::Returned, false));
}

/// A step that failed for now has perhaps done something; that it was left out afterwards does not say that nothing was needed.
#[test]
fn a_step_that_is_left_out_after_an_attempt_was_needed() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reset-interface:eth0\", \"return\"]");
    let failed = Outcome::Failed { detail: "the answer was lost".into(), memo: String::new(), is_passing: true };
    desk.hands.will("reset-interface:eth0", &[failed]);
    desk.tell(alert("h1"));
    desk.ask(1, Request::Cancel);
    let case = desk.case(1);
    let step = &case.steps[1];
    assert_eq!((step.state, step.attempt_count, step.is_not_needed), (StepState::Skipped, 1, false), "{case:#?}");
    assert!(!desk.actions(1).contains("not_repaired"), "{}", desk.actions(1));
}

/// Its scheduler left the policy meanwhile: there is none that could return it, and it is still out.
#[test]
fn a_drained_host_whose_scheduler_left_the_policy_is_not_returned() {
    let left = || [Outcome::NotNeeded { detail: "no scheduler configured for this service".into() }];
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"");
    desk.hands.will("return", &left());
    desk.tell(alert("h1"));
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::WithPerson, true), "{:#?}", desk.case(1));

    // The same during the drain, whose first call has drained the host; or before a second attempt at it.
    let failed = Outcome::Failed { detail: "killed".into(), memo: String::new(), is_passing: true };
    for first in [goes_on("", 5 * S), failed] {
        let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"");
        desk.hands.will("drain", &[vec![first.clone()], left().to_vec()].concat());
        desk.hands.will("return", &left());
        desk.tell(alert("h1"));
        desk.pass(3600 * S);
        assert_eq!(desk.case(1).state, CaseState::WithPerson, "{first:?}: {:#?}", desk.case(1));
        assert!(desk.case(1).is_drained, "{first:?}");
    }
}

/// Each return has nothing to do: it is tried once for each word of a person, who can close the case in the end.
#[test]
fn a_case_whose_host_nobody_can_return_ends_for_each_word_of_a_person() {
    let left = || Outcome::NotNeeded { detail: "no scheduler configured for this service".into() };
    for asked in [Request::Cancel, Request::Approve] {
        let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"");
        if asked == Request::Cancel {
            desk.hands.will("drain", &[goes_on("", 60 * S), goes_on("", 60 * S)]);
        }
        desk.hands.will("return", &vec![left(); 100]);
        desk.tell(alert("h1"));
        desk.ask(1, asked);
        desk.pass(3600 * S);
        let case = desk.case(1);
        assert_eq!((case.state, case.is_drained), (CaseState::WithPerson, true), "{asked:?}: {}", desk.actions(1));
        let returns = desk.hands.done().iter().filter(|done| done.ends_with("return")).count();
        let expected = if asked == Request::Approve { 2 } else { 1 };
        assert_eq!(returns, expected, "{}", desk.actions(1));
        let trail = desk.book.trail(1, 100).unwrap();
        assert!(
            trail.iter().any(|line| line.reason.ends_with("return it by hand, then cancel the case")),
            "{trail:#?}"
        );
        desk.ask(1, Request::Cancel);
        desk.pass(S);
        assert_eq!(desk.case(1).state, CaseState::Cancelled, "{}", desk.actions(1));
        assert_eq!(desk.hands.done().iter().filter(|done| done.ends_with("return")).count(), expected);
    }
}

/// Jobs may run for weeks.
#[test]
fn a_case_that_is_cancelled_waits_for_no_jobs() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"");
    desk.hands.will("drain", &[goes_on("", 5 * S), goes_on("", 5 * S)]);
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::Running);
    desk.ask(1, Request::Cancel);
    desk.pass(5 * S);
    let case = desk.case(1);
    assert_eq!((case.state, case.is_drained), (CaseState::Cancelled, false), "{case:?}");
    assert_eq!(case.steps[0].state, StepState::Skipped);
    assert_eq!(desk.hands.done(), ["h1 drain", "h1 drain", "h1 return"]);
}

/// And say the same at each look, of which the trail has no need.
#[test]
fn a_step_that_waits_long_is_told_once_and_looked_at_less_often() {
    let mut desk = Desk::new(SIMPLE);
    let looks: Vec<Outcome> = (0..3_000).map(|_| goes_on("", 5 * S)).collect();
    desk.hands.will("drain", &looks);
    desk.tell(alert("h1"));
    for _ in 0..24 * 120 {
        desk.pass(30 * S);
    }
    let looked = desk.hands.done().len();
    assert!((1_400..1_600).contains(&looked), "{looked} looks in a day, one a minute in the end");
    assert_eq!(desk.actions(1).matches("goes_on").count(), 1, "{}", desk.actions(1));
    desk.hands.will("drain", &[Outcome::done(seen("drained"), "")]);
    desk.pass(2 * 60 * S);
    desk.pass(2 * 60 * S);
    assert_eq!(desk.hands.done().last().unwrap(), "h1 return");
    assert!(desk.actions(1).ends_with("returned"), "{}", desk.actions(1));
}

#[test]
fn a_host_that_finds_something_new_at_each_look_has_a_few_cases() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\napprove = [\"drain\"]");
    for number in 0..100 {
        let subject = format!("dimm {number}");
        desk.tell(Alert { key: subject.clone(), subject, ..alert("h1") });
    }
    desk.tell(alert("h2"));
    assert_eq!((desk.count(), desk.case(33).host.as_str()), (33, "h2"));
    desk.ask(1, Request::Cancel);
    assert_eq!(desk.count(), 34, "the next of it is taken up");
}

#[test]
fn an_alert_without_a_policy_is_settled_and_decided_on_by_a_later_policy() {
    let mut desk = Desk::new("[[policy]]\nmatch = { room = \"nic\" }\nsteps = [\"drain\", \"return\"]");
    desk.tell(alert("h1"));
    desk.pass(HOUR);
    assert_eq!((desk.count(), desk.actions(0).as_str()), (0, "no_policy"));
    desk.policies = Policies::parse(SIMPLE, "p").unwrap();
    desk.core.reconsider();
    desk.go();
    assert_eq!(desk.case(1).state, CaseState::Returned);
}

#[test]
fn an_alert_must_hold_for_a_while_and_be_over_for_a_while() {
    let policy = "[[policy]]\nsteps = [\"drain\", \"return\"]\nhold_off = \"5m\"\nclear_after = \"1m\"\nwindows = [\"night\"]\n\
                  [[window]]\nname = \"night\"\nfrom = \"22:00\"\nto = \"04:00\"";
    let mut desk = Desk::new(policy);
    desk.tell(alert("h1"));
    desk.pass(299 * S);
    assert_eq!(desk.count(), 0);
    desk.pass(2 * S);
    assert_eq!(desk.case(1).waits_for, "the maintenance window night, until it opens");
    desk.over(alert("h1"));
    desk.pass(30 * S);
    assert_eq!(desk.case(1).state, CaseState::Waiting);
    desk.tell(alert("h1"));
    desk.pass(31 * S);
    assert_eq!(desk.case(1).state, CaseState::Waiting, "it fires again");
    desk.over(alert("h1"));
    desk.pass(61 * S);
    assert_eq!(desk.case(1).state, CaseState::Cleared);
    assert!(desk.hands.done().is_empty());
}

#[test]
fn an_alert_that_a_hold_off_holds_back_is_in_the_trail_and_counted() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"return\"]\nhold_off = \"5m\"");
    let held = |desk: &mut Desk| desk.held(HeldReason::HoldOff);
    // It comes and goes, which is what a hold-off is for: that is one line, and not one for each time.
    for _ in 0..3 {
        desk.tell(alert("h1"));
        desk.pass(S);
        assert_eq!(held(&mut desk).1, 1);
        desk.over(alert("h1"));
        desk.pass(S);
        assert_eq!(held(&mut desk).1, 0);
    }
    let (lines, _) = held(&mut desk);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for words in ["h1 ", "the hold-off of policy ", "no case before 2026-11-25 12:05:00 UTC, if it still fires"] {
        assert!(lines[0].contains(words), "{words}: {lines:?}");
    }
    desk.tell(alert("h1"));
    desk.pass(301 * S);
    assert_eq!((desk.count(), held(&mut desk).1), (1, 0));
}

#[test]
fn alerts_of_a_host_with_many_cases_are_in_the_trail_and_counted() {
    let mut desk = Desk::new(
        "[[policy]]\nsteps = [\"drain\"]\nclear_after = \"1m\"\nwindows = [\"night\"]\n[[window]]\nname = \"night\"\nfrom = \"22:00\"\nto = \"04:00\"",
    );
    let one = |number: usize| Alert { key: format!("k{number}"), subject: format!("dimm {number}"), ..alert("h1") };
    let alerts: Vec<Alert> = (0..35).map(|number| Alert { since_realtime_ns: NOON, ..one(number) }).collect();
    desk.book.take(&alerts).unwrap();
    desk.go();
    desk.pass(S);
    assert_eq!(desk.count(), 32);
    let (lines, held_count) = desk.held(HeldReason::CasesOfHost);
    assert_eq!((lines.len(), held_count), (3, 3), "{lines:?}");
    assert!(lines[0].contains("h1 has 32 open cases: no case until one is closed"), "{lines:?}");
    // Nothing is noted twice, and one case that ends makes room for one alert.
    let first = desk.case(1).alert_key;
    desk.over(one(first.trim_start_matches('k').parse().unwrap()));
    desk.pass(61 * S);
    assert_eq!(desk.count(), 33);
    let (lines, held_count) = desk.held(HeldReason::CasesOfHost);
    assert_eq!((lines.len(), held_count), (3, 2), "{lines:?}");
}

#[test]
fn a_window_opens_and_the_cool_down_ends() {
    let policy =
        format!("{SIMPLE}windows = [\"night\"]\n[[window]]\nname = \"night\"\nfrom = \"22:00\"\nto = \"23:59\"");
    let mut desk = Desk::new(&policy);
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::Waiting);
    desk.pass(10 * HOUR);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    // It still fires: after the cool-down of two hours, and in the window of the next day, it is its turn again.
    desk.pass(HOUR);
    assert_eq!(desk.count(), 1);
    desk.pass(HOUR + S);
    assert_eq!(desk.case(2).waits_for, "the maintenance window night, until it opens");
    desk.pass(23 * HOUR);
    assert_eq!(desk.case(2).state, CaseState::Returned);
}

#[test]
fn shares_rates_and_other_cases_of_the_host_are_waited_for() {
    let policy = "[[policy]]\nservice = \"web\"\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"\napprove = [\"reboot\"]\nhosts_at_once = 10\n\
                  share_of_service = 0.1\nper_hour = 3\ncool_down = \"1s\"\n[[service]]\nname = \"web\"\nsize = 29";
    let mut desk = Desk::new(policy);
    for host in ["h1", "h2", "h3"] {
        desk.tell(alert(host));
    }
    assert_eq!(
        desk.case(3).waits_for,
        "the limit share_of_service (2 of web out at once), until a host that is out returns"
    );
    desk.tell(Alert { key: "b".into(), fault: "nic/carrier".into(), ..alert("h1") });
    assert_eq!(desk.case(4).waits_for, "case 1 of the same host, until it is closed");
    desk.ask(1, Request::Approve);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    assert!(desk.case(3).is_drained);
    desk.ask(2, Request::Approve);
    desk.ask(3, Request::Approve);
    desk.pass(2 * S);
    assert_eq!(desk.case(4).waits_for, "the limit per_hour (3 an hour), until fewer were taken up in the last hour");
    desk.pass(HOUR);
    assert!(desk.case(4).is_drained);
}

#[test]
fn a_small_service_may_always_have_one_host_out() {
    let mut desk = Desk::new(&format!("{SIMPLE}share_of_service = 0.05\n[[service]]\nname = \"web\"\nsize = 3"));
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::Returned);
}

#[test]
fn a_dry_run_tells_every_step_and_does_none() {
    let mut desk = Desk::new(&format!("{SIMPLE}dry_run = true"));
    desk.tell(alert("h1"));
    let case = desk.case(1);
    assert_eq!((case.state, case.steps[0].outcome.as_str()), (CaseState::Returned, "dry run: would drain h1"));
    assert!(desk.hands.done().is_empty());
}

#[test]
fn pauses_hold_cases_policies_and_everything() {
    let mut desk = Desk::new(SIMPLE);
    let line = AuditEntry {
        at_realtime_ns: NOON,
        case: 0,
        actor: "user anna".into(),
        action: "paused".into(),
        target: String::new(),
        reason: String::new(),
    };
    desk.book.pause(true, &line).unwrap();
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).waits_for, "everything is paused");
    desk.ask(1, Request::Pause);
    desk.book.pause(false, &line).unwrap();
    desk.go();
    assert_eq!(desk.case(1).state, CaseState::Paused);
    desk.policies = Policies::parse(&format!("{SIMPLE}paused = true"), "p").unwrap();
    desk.ask(1, Request::Resume);
    assert_eq!(desk.case(1).waits_for, "its policy is paused");
    desk.policies = Policies::parse("[[policy]]\nname = \"other\"\nsteps = [\"drain\"]", "p").unwrap();
    desk.go();
    assert!(desk.case(1).waits_for.starts_with("its policy: the file has none"), "{}", desk.case(1).waits_for);
    desk.policies = Policies::parse(SIMPLE, "p").unwrap();
    desk.go();
    assert_eq!(desk.case(1).state, CaseState::Returned);
    assert!(request(&desk.case(1), Request::Pause, "user anna", "", NOON).is_err());
}

const SETTINGS: &str = "[[policy]]\nsteps = [\"drain\", \"firmware:Ce=1\", \"debug:x\", \"reboot\", \"restore:debug:x\", \"return\"]\nverify = \"none\"\n\
                        retry = { attempts = 2, back_off = \"1m\" }\n[[ticket]]\nname = \"desk\"\ndirectory = \"/t\"";

#[test]
fn what_was_changed_is_restored_when_a_case_goes_to_a_person() {
    let mut desk = Desk::new(SETTINGS);
    let done = |memo: &str| Outcome::done(seen("done"), memo);
    desk.hands.will("firmware:Ce=1", &[goes_on("was 100", 0), done("was 100")]);
    desk.hands.will("debug:x", &[goes_on("was cmci", 0), done("was cmci")]);
    desk.hands.will("reboot", &[failed(true, ""), failed(false, "")]);
    // The management controller hangs, and the ticket system is down, both for a while.
    desk.hands.will("restore:debug:x", &[failed(false, "was cmci"), failed(false, "was cmci")]);
    desk.hands.will("ticket:desk", &[failed(false, ""), failed(false, ""), failed(false, "")]);
    desk.tell(alert("h1"));
    assert!(desk.case(1).waits_for.starts_with("the next attempt at reboot"), "{}", desk.case(1).waits_for);
    desk.pass(61 * S);
    let case = desk.case(1);
    let steps: Vec<&str> = case.steps.iter().map(|step| step.step.as_str()).collect();
    assert_eq!(steps[6..], ["restore:debug:x", "restore:firmware:Ce=1", "ticket:desk"]);
    assert_eq!((case.steps[6].memo.as_str(), case.steps[7].memo.as_str()), ("was cmci", ""));
    assert_eq!(case.steps[5].state, StepState::Skipped, "the host is not returned unrepaired");
    // Neither waits for the other.
    assert_eq!(case.steps[7].state, StepState::Done);
    (0..60).for_each(|_| desk.pass(61 * S));
    let case = desk.case(1);
    assert_eq!((case.state, case.is_drained, case.ticket.as_str()), (CaseState::WithPerson, true, "done"));
    assert!(case.waits_for.contains("ticket done"), "{}", case.waits_for);
    // The person repaired it.
    desk.ask(1, Request::Approve);
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::Returned, false));
}

#[test]
fn a_cancelled_case_goes_its_way_back_once_its_step_has_ended() {
    let mut desk = Desk::new(SETTINGS);
    desk.hands.will("firmware:Ce=1", &[goes_on("was 100", HOUR / 2)]);
    desk.tell(alert("h1"));
    desk.ask(1, Request::Cancel);
    assert_eq!(desk.case(1).state, CaseState::Running, "its step is not over");
    desk.hands.will("firmware:Ce=1", &[Outcome::done(seen("set"), "was 100")]);
    desk.pass(HOUR);
    let done = desk.hands.done();
    assert_eq!(done[done.len() - 2..], ["h1 restore:firmware:Ce=1", "h1 return"]);
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::Cancelled, false));
    // Somebody decided that nothing is done: the same alert is not taken up at once.
    desk.pass(HOUR);
    assert_eq!(desk.count(), 1);
}

#[test]
fn a_case_that_did_nothing_is_cancelled_at_once() {
    let mut desk = Desk::new(&format!("{SIMPLE}approve = [\"drain\"]"));
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::NeedsApproval);
    desk.ask(1, Request::Cancel);
    assert_eq!(desk.case(1).state, CaseState::Cancelled);
    desk.pass(HOUR);
    assert_eq!(desk.count(), 1);
    desk.pass(2 * HOUR);
    assert_eq!(desk.count(), 2, "it still fires after the cool-down");
}

#[test]
fn a_recheck_clears_before_a_repair_and_judges_it_afterwards() {
    let policy =
        "[[policy]]\nsteps = [\"recheck\", \"drain\", \"reboot\", \"recheck\", \"return\"]\nrecheck_within = \"10m\"";
    let gone = || Outcome::Gone { detail: "gone".into() };
    let mut desk = Desk::new(policy);
    desk.hands.will("recheck", &[gone()]);
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::Cleared);
    desk.pass(30 * 60 * S);
    assert_eq!(desk.count(), 1, "the alert says that it holds, the recheck did not find it: not again at once");

    let mut desk = Desk::new(policy);
    desk.tell(alert("h1"));
    assert!(desk.case(1).waits_for.starts_with("the end of the alert"), "{}", desk.case(1).waits_for);
    desk.over(alert("h1"));
    assert!(desk.case(1).waits_for.starts_with("the alert to stay over"), "{}", desk.case(1).waits_for);
    // Over for a moment alone.
    desk.pass(S);
    desk.tell(alert("h1"));
    assert!(desk.case(1).waits_for.starts_with("the end of the alert"), "{}", desk.case(1).waits_for);
    desk.over(alert("h1"));
    desk.pass(9 * S);
    assert_eq!(desk.case(1).state, CaseState::Waiting, "not as long as clear_after");
    desk.pass(2 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned, "the alert ended: the repair worked");

    let mut desk = Desk::new(policy);
    desk.tell(alert("h1"));
    desk.pass(11 * 60 * S);
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::WithPerson, true));
}

/// A repair that has not helped is told at once, and not after a day of cool-down; and nothing tries the same again by itself.
#[test]
fn an_alert_that_comes_back_after_its_repair_is_a_persons_at_once() {
    let policy =
        "[[policy]]\nsteps = [\"drain\", \"run:/repair\", \"return\"]\n[[ticket]]\nname = \"desk\"\ndirectory = \"/t\"";
    let mut desk = Desk::new(policy);
    desk.tell(alert("h1"));
    desk.over(alert("h1"));
    desk.pass(11 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    desk.pass(HOUR);
    desk.tell(alert("h1"));
    assert_eq!(desk.count(), 2);
    let again = desk.case(2);
    assert_eq!(
        (again.state, again.is_drained, again.began_realtime_ns),
        (CaseState::WithPerson, false, 0),
        "{again:#?}"
    );
    let states: Vec<_> = again.steps.iter().map(|step| (step.step.as_str(), step.state)).collect();
    assert_eq!(states.last(), Some(&("ticket:desk", StepState::Done)), "{states:?}");
    assert!(states[..states.len() - 1].iter().all(|(_, state)| *state == StepState::Skipped), "{states:?}");
    let trail = desk.book.trail(2, 100).unwrap();
    assert!(trail.iter().any(|line| line.reason.contains("case 1 repaired it, and it fires again")), "{trail:#?}");
    // It comes and goes: that is still the same case.
    desk.over(alert("h1"));
    desk.pass(5 * S);
    desk.tell(alert("h1"));
    assert_eq!(desk.count(), 2);
    // Another alert of the host waits for the cool-down, as before.
    desk.tell(Alert { key: "other".into(), fault: "memory/other".into(), ..alert("h1") });
    assert_eq!(desk.count(), 2);
}

/// A desk whose first case has repaired `h1` and returned it, 11 seconds after noon; the alert was over since a moment after noon.
fn repaired(first: &Alert, more: &str) -> Desk {
    let mut desk = Desk::new(&format!(
        "[[policy]]\nsteps = [\"drain\", \"run:/repair\", \"return\"]\n{more}[[ticket]]\nname = \"desk\"\ndirectory = \"/t\"\n"
    ));
    desk.tell(first.clone());
    desk.over(first.clone());
    desk.pass(11 * S);
    assert_eq!((desk.count(), desk.case(1).state), (1, CaseState::Returned));
    desk
}

fn warning(host: &str) -> Alert {
    Alert { key: "warning".into(), severity: Severity::Warning, ..alert(host) }
}

#[test]
fn a_relapse_of_a_relapse_is_a_persons_too() {
    let mut desk = repaired(&alert("h1"), "");
    for id in 2..5 {
        desk.pass(60 * S);
        desk.tell(alert("h1"));
        assert_eq!((desk.count(), desk.case(id).state), (id as usize, CaseState::WithPerson));
        desk.over(alert("h1"));
        desk.pass(11 * S);
        assert_eq!(desk.case(id).state, CaseState::Returned);
    }
    // One that a person gives up while it fires is not opened again for the same firing, and the trail says that it is held back.
    desk.tell(alert("h1"));
    assert_eq!(desk.case(5).state, CaseState::WithPerson);
    desk.ask(5, Request::Cancel);
    desk.pass(HOUR);
    let (lines, held_count) = desk.held(HeldReason::CoolDown);
    assert_eq!((desk.count(), held_count), (5, 1), "{lines:?}");
    assert_eq!(desk.hands.done().iter().filter(|done| done.ends_with("run:/repair")).count(), 1);
    // After the cool-down the repair has its turn again.
    desk.pass(24 * HOUR);
    assert!(
        !desk.case(6).steps.is_empty()
            && desk.hands.done().iter().filter(|done| done.ends_with("run:/repair")).count() == 2
    );
}

/// The rules for Prometheus have one alert for each severity, and one machine may have several names.
#[test]
fn a_relapse_is_known_by_its_host_fault_and_subject() {
    let names = "[[host]]\nname = \"h1\"\nalso = [\"h1.example\"]\n";
    for again in [
        Alert { key: "other".into(), ..warning("h1") },
        alert("h1"),
        Alert { host: "h1.example".into(), ..alert("h1") },
        warning("h1.example"),
    ] {
        let mut desk = repaired(&warning("h1"), names);
        desk.pass(HOUR);
        desk.tell(again.clone());
        assert_eq!((desk.count(), desk.case(2).state), (2, CaseState::WithPerson), "{again:?}");
        let trail = desk.book.trail(2, 100).unwrap();
        assert!(trail.iter().any(|line| line.reason.contains("case 1 repaired it, and it fires again")), "{trail:#?}");
    }
    // Another part, and another machine, are none.
    for other in [Alert { subject: "dimm B1".into(), ..warning("h1") }, warning("h2")] {
        let mut desk = repaired(&warning("h1"), names);
        desk.pass(HOUR);
        desk.tell(other.clone());
        assert!(desk.book.cases(false, 9).unwrap().iter().all(|case| case.state != CaseState::WithPerson), "{other:?}");
    }
}

/// A cool-down spares a host the same trouble again; it hides no greater one.
#[test]
fn what_is_worse_than_the_case_before_is_a_persons_within_the_cool_down() {
    // It fired while the case was open, as one more alert of the same fault, and it still does.
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"run:/repair\", \"return\"]\n");
    desk.tell(warning("h1"));
    desk.hands.will("return", &[goes_on("", 5 * S)]);
    desk.tell(alert("h1"));
    desk.over(warning("h1"));
    desk.pass(11 * S);
    desk.pass(5 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    assert_eq!(
        (desk.count(), desk.case(2).severity, desk.case(2).state),
        (2, Severity::Critical, CaseState::WithPerson)
    );
    // Nor is it opened once more when a person has closed it.
    desk.ask(2, Request::Cancel);
    desk.pass(HOUR);
    assert_eq!(desk.count(), 2);

    // Something else of the host that is worse.
    let mut desk = repaired(&warning("h1"), "");
    desk.tell(Alert { key: "carrier".into(), fault: "nic/carrier".into(), ..warning("h1") });
    assert_eq!(desk.count(), 1);
    desk.tell(Alert { key: "lost".into(), fault: "memory/uncorrected".into(), ..alert("h1") });
    assert_eq!((desk.count(), desk.case(2).state), (2, CaseState::WithPerson));
    let trail = desk.book.trail(2, 100).unwrap();
    assert!(trail.iter().any(|line| line.reason.contains("worse than what case 1 was about")), "{trail:#?}");
    desk.ask(2, Request::Cancel);
    desk.pass(HOUR);
    assert_eq!(desk.count(), 2);

    // A case that somebody cancelled says nothing of what is worse: that is a case as any other.
    let mut desk = Desk::new(&format!("{SIMPLE}approve = [\"drain\"]"));
    desk.tell(Alert { severity: Severity::Warning, ..alert("h1") });
    desk.ask(1, Request::Cancel);
    desk.pass(S);
    assert_eq!(desk.count(), 1);
    desk.tell(alert("h1"));
    assert_eq!((desk.count(), desk.case(2).state), (2, CaseState::NeedsApproval));
}

/// Of a sender whose clock went back nobody can tell whether it says something new.
#[test]
fn an_alert_that_fires_since_before_it_was_over_is_in_the_trail() {
    let mut desk = repaired(&alert("h1"), "");
    let late = Alert { since_realtime_ns: NOON - 30 * S, ..alert("h1") };
    for _ in 0..3 {
        desk.book.take(std::slice::from_ref(&late)).unwrap();
        desk.pass(S);
    }
    let trail = desk.book.trail(0, 1_000).unwrap();
    let lines: Vec<_> = trail.iter().filter(|line| line.action == "too_late").collect();
    assert_eq!((desk.count(), lines.len()), (1, 1), "{trail:#?}");
    let why = &lines[0].reason;
    assert!(why.contains("2026-11-25 11:59:30 UTC") && why.contains("2026-11-25 12:00:00 UTC"), "{why}");
}

/// It may come and go each second for weeks, until a person has time for it.
#[test]
fn an_alert_that_flickers_while_a_person_has_its_case_does_not_fill_the_trail() {
    let mut desk = repaired(&alert("h1"), "");
    desk.tell(alert("h1"));
    assert_eq!(desk.case(2).state, CaseState::WithPerson);
    for _ in 0..100 {
        desk.pass(S);
        desk.over(alert("h1"));
        desk.pass(S);
        desk.tell(alert("h1"));
    }
    let lines = desk.book.trail(2, 1_000).unwrap();
    assert!(lines.len() < 20, "{} lines", lines.len());
    // What was over for as long as the policy asks for closes it, and a line says so.
    desk.over(alert("h1"));
    desk.pass(11 * S);
    assert!(desk.actions(2).ends_with("returned"), "{}", desk.actions(2));
}

#[test]
fn a_relapse_that_begins_before_its_case_is_closed_is_one() {
    let policy = "[[policy]]\nsteps = [\"drain\", \"run:/repair\", \"return\"]\n";
    // While the host returns.
    let mut desk = Desk::new(policy);
    desk.hands.will("return", &[goes_on("", 5 * S)]);
    desk.tell(alert("h1"));
    desk.over(alert("h1"));
    desk.pass(11 * S);
    desk.tell(alert("h1"));
    desk.pass(5 * S);
    assert_eq!((desk.case(1).state, desk.case(1).is_firing), (CaseState::Returned, true), "{}", desk.actions(1));
    assert_eq!((desk.count(), desk.case(2).state), (2, CaseState::WithPerson));
    // Told of afterwards, by clocks that do not agree with the store's.
    for (key, before_s) in [("memory/rate/dimm/A1", 2), ("memory/rate/dimm/A1", 9), ("other", 5)] {
        let mut desk = repaired(&alert("h1"), "");
        let since_realtime_ns = desk.clock.load(Ordering::Relaxed) - before_s * S;
        desk.book.take(&[Alert { since_realtime_ns, key: key.into(), ..alert("h1") }]).unwrap();
        desk.go();
        assert_eq!((desk.count(), desk.case(2).state), (2, CaseState::WithPerson), "{key} {before_s}");
    }
    // One that held all the time never was over.
    let mut desk = Desk::new(&format!("{policy}verify = \"none\"\n"));
    desk.tell(alert("h1"));
    desk.pass(S);
    let (lines, held_count) = desk.held(HeldReason::CoolDown);
    assert_eq!((desk.case(1).state, desk.count(), held_count), (CaseState::Returned, 1, 1), "{lines:?}");
}

#[test]
fn a_host_that_stays_out_by_its_policy_is_a_persons() {
    let mut desk = Desk::new("[[policy]]\nsteps = [\"drain\", \"reboot\"]");
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::WithPerson);
    // A ticket alone changes nothing; when the alert is over, so is the case.
    let mut desk = Desk::new("[[policy]]\nsteps = [\"ticket:desk\"]\n[[ticket]]\nname = \"desk\"\ndirectory = \"/t\"");
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::WithPerson);
    desk.over(alert("h1"));
    desk.pass(11 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned);
}

/// While one controller after the other is started with another lease, each leaves the others' steps to them.
#[test]
fn a_long_lease_of_another_controller_is_no_clock_that_went_back() {
    let mut desk = Desk::new(SIMPLE);
    desk.hands.will("drain", &[goes_on("", 5 * S)]);
    desk.tell(alert("h1"));
    let mut case = desk.case(1);
    let until_realtime_ns = NOON + LEASE_NS_MAX;
    case.lease = Lease { owner: "other".into(), until_realtime_ns, fence: case.lease.fence + 1 };
    let at = desk.clock.load(Ordering::Relaxed);
    let (_, line) = request(&case, Request::Pause, "user anna", "", at).unwrap();
    desk.book.update(&case, &AuditEntry { action: String::new(), ..line }).unwrap();
    desk.pass(LEASE_NS_MAX - 30 * S);
    let actions = desk.actions(1);
    assert!(!actions.contains("clock_went_back") && !actions.contains("taken_over"), "{actions}");
    desk.pass(60 * S);
    assert!(desk.actions(1).contains("taken_over"), "{}", desk.actions(1));
}

#[test]
fn a_clock_that_went_back_holds_nothing_up() {
    let mut desk =
        Desk::new(&SIMPLE.replace(
            "steps = [\"drain\", \"return\"]",
            "steps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"",
        ));
    desk.hands.will("drain", &[failed(true, "")]);
    desk.clock.store(NOON + 24 * 365 * HOUR, Ordering::Relaxed);
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).steps[0].state, StepState::Pending);
    desk.clock.store(NOON, Ordering::Relaxed);
    desk.pass(61 * S);
    assert_eq!(desk.case(1).state, CaseState::Returned);
    assert!(desk.actions(1).contains("clock_went_back"));
    assert!(desk.case(1).began_realtime_ns <= NOON + 61 * S);
}

#[test]
fn texts_of_strangers_are_kept_short_and_on_one_line() {
    let mut desk = Desk::new(SIMPLE);
    let evil = format!("a\u{1b}[2J\n{}", "x".repeat(100_000));
    desk.hands.will("drain", &[failed(false, &"m".repeat(1 << 20))]);
    desk.tell(Alert { sentence: evil.clone(), evidence: vec![evil; 1_000], ..alert("h1") });
    let case = desk.case(1);
    assert!(case.steps[0].memo.is_empty() && case.steps[0].outcome.contains("1048576 bytes, is too long"));
    assert!(case.sentence.len() < 2_000 && case.evidence.len() <= 100);
    assert!(!case.sentence.chars().any(char::is_control));
}

/// What an earlier holder of a lease brings counts for nothing, whoever it is: otherwise a step that another has gone on with would be
/// ended by it.
#[test]
fn the_end_of_an_attempt_whose_lease_was_lost_counts_for_nothing() {
    let mut desk = Desk::new("[[policy]]\nservice = \"web\"\nsteps = [\"restart:nginx.service\"]");
    desk.book.take(&[alert("h1")]).unwrap();
    let begin = |desk: &mut Desk, core: &mut Core| loop {
        if let Some(begin) = core.round(&desk.policies, desk.passed).0.pop() {
            return begin;
        }
    };
    let mut first = Core::new(Box::new(desk.book.clone()), "a".into(), Settings::default(), Arc::default());
    let old = begin(&mut desk, &mut first).attempt.fence;
    desk.clock.fetch_add(HOUR, Ordering::Relaxed);
    let mut second = Core::new(Box::new(desk.book.clone()), "b".into(), Settings::default(), Arc::default());
    let new = begin(&mut desk, &mut second).attempt.fence;
    assert!(new > old && desk.case(1).steps[0].state == StepState::InDoubt);

    let done = Outcome::done(seen("done"), "");
    let effect = PriorAttempt::Effect { observed: seen("there"), memo: String::new() };
    let (case, policies) = (desk.case(1), desk.policies.clone());
    for (fence, owner) in [(old, "a"), (old, "b"), (new, "a")] {
        assert!(conclude(&case, fence, &done, &policies, owner, NOON).is_none(), "{fence} {owner}");
        assert!(found(&case, fence, &effect, &policies, owner, NOON).is_none(), "{fence} {owner}");
    }
    assert!(found(&case, new, &effect, &policies, "b", NOON).is_some());
    assert!(matches!(desk.book.hold(1, old, u64::MAX), Err(Error::Conflict { .. })), "nor may it hold the lease");
    // The same controller, whose own earlier attempt ends late.
    second.note_end(1, old, Some(Ended::Outcome(done)));
    second.round(&desk.policies, desk.passed);
    assert_eq!(desk.case(1).steps[0].state, StepState::InDoubt);
}

/// An open case whose steps are over, with something left changed.
fn ending(steps: serde_json::Value, is_drained: bool, ends_as: Option<CaseState>, state: &str) -> Case {
    serde_json::from_value(serde_json::json!({
        "id": 1, "host": "h1", "service": "web", "fault": "memory/rate", "alert_key": "k", "severity": "warning", "sentence": "",
        "policy": "web-1", "state": state, "steps": steps, "is_firing": false, "is_drained": is_drained, "ends_as": ends_as,
        "since_realtime_ns": NOON - HOUR, "state_since_realtime_ns": NOON - HOUR, "began_realtime_ns": NOON - HOUR,
        "quiet_since_realtime_ns": NOON - HOUR, "revision": 1,
    }))
    .unwrap()
}

/// Whatever a case was to become: one that leaves a host drained or in debug settings behind is a person's, and stays open.
#[test]
fn no_case_is_closed_while_its_host_is_changed() {
    let policies = Policies::parse("[[policy]]\nservice = \"web\"\nsteps = [\"recheck\"]", "p").unwrap();
    let controller = Controller { name: "c".into(), free_count: 9, lease_ns: HOUR };
    let next = |case: &Case| {
        let world = World { now_realtime_ns: NOON, open: vec![case.clone()], ..World::default() };
        let changes = decide(&world, &policies, &controller);
        changes
            .into_iter()
            .find_map(|(change, _)| if let Change::Update(case) = change { Some(case.state) } else { None })
    };
    let step = |step: &str, state: &str, memo: &str| serde_json::json!({ "step": step, "state": state, "attempt_count": 1, "memo": memo });
    let drained = serde_json::json!([step("drain", "done", "")]);
    let in_debug = serde_json::json!([step("debug:maker", "done", "before")]);
    let half_debug = serde_json::json!([step("debug:maker", "failed", "before")]);
    let not_restored =
        serde_json::json!([step("debug:maker", "done", "before"), step("restore:debug:maker", "failed", "before")]);
    let restored =
        serde_json::json!([step("debug:maker", "done", "before"), step("restore:debug:maker", "done", "before")]);
    for ends_as in [None, Some(CaseState::Returned), Some(CaseState::Cancelled), Some(CaseState::Cleared)] {
        for (steps, is_drained) in [(&drained, true), (&in_debug, false), (&half_debug, false), (&not_restored, false)]
        {
            let case = ending(steps.clone(), is_drained, ends_as, "running");
            assert_eq!(next(&case), Some(CaseState::WithPerson), "{ends_as:?} {steps}");
            // And there it stays, though the alert is long over.
            let case = ending(steps.clone(), is_drained, None, "with_person");
            assert_eq!(next(&case), None, "{steps}");
        }
        let case = ending(restored.clone(), false, ends_as, "running");
        assert_eq!(next(&case), Some(ends_as.unwrap_or(CaseState::Returned)), "{ends_as:?}");
    }
    assert_eq!(next(&ending(restored, false, None, "with_person")), Some(CaseState::Returned));
}

/// Jobs may run for weeks; a host that waits for them holds a place of its service.
#[test]
fn a_drain_that_does_not_end_is_broken_off_and_the_host_returned_with_a_ticket() {
    let policy = "[[policy]]\nsteps = [\"drain\", \"reboot\", \"return\"]\nverify = \"none\"\ndrain_within = \"2h\"\n\
                  [[ticket]]\nname = \"desk\"\ndirectory = \"/t\"";
    let mut desk = Desk::new(policy);
    let busy = Outcome::GoesOn { detail: "3 jobs".into(), memo: "ours".into(), again_in_ns: 60 * S };
    desk.hands.will("drain", &vec![busy; 10_000]);
    desk.tell(alert("h1"));
    desk.pass(119 * 60 * S);
    assert_eq!((desk.case(1).state, desk.case(1).is_drained), (CaseState::Running, true));
    desk.pass(10 * 60 * S);
    let case = desk.case(1);
    assert_eq!((case.state, case.is_drained), (CaseState::WithPerson, false), "{case:#?}");
    let words = "the host is not empty 2.0 h after the drain began: 3 jobs. The drain is broken off";
    assert_eq!(case.steps[0].outcome, words);
    let done: Vec<String> = desk.hands.done().into_iter().filter(|step| !step.ends_with("drain")).collect();
    assert_eq!(done, ["h1 ticket:desk", "h1 return"]);
}

/// That a command ended well says what was asked for, and not what came of it.
#[test]
fn a_step_whose_outcome_nobody_observed_is_done_only_where_the_policy_accepts_that() {
    let policy = |more: &str| {
        format!("[[policy]]\nname = \"p\"\nsteps = [\"drain\", \"run:/repair\", \"return\"]\nverify = \"none\"\n{more}")
    };
    let unseen = Outcome::done(Observed::Unobserved { why: "no line 'seen: TEXT'".into() }, "");
    for (more, state, step) in [
        ("", CaseState::WithPerson, StepState::Failed),
        ("unobserved = \"stop\"", CaseState::WithPerson, StepState::Failed),
        ("unobserved = \"accept\"", CaseState::Returned, StepState::Done),
    ] {
        let mut desk = Desk::new(&policy(more));
        desk.hands.will("run:/repair", std::slice::from_ref(&unseen));
        desk.tell(alert("h1"));
        let case = desk.case(1);
        assert_eq!((case.state, case.steps[1].state), (state, step), "{more}: {case:#?}");
        assert!(case.steps[1].outcome.starts_with("not observed: no line 'seen: TEXT'"), "{}", case.steps[1].outcome);
        let is_seen = case.steps[1].observed.is_some();
        assert_eq!(is_seen, step == StepState::Done, "what was seen of a step is kept with it");
        if step == StepState::Failed {
            assert!(case.steps[1].outcome.contains("set unobserved = \"accept\" in policy 'p'"));
        }
    }
    // Nor is a step done because somebody notes something, or a service took the request.
    for observed in [Observed::Accepted, Observed::Note { text: "fine".into() }, Observed::DryRun { would: "x".into() }]
    {
        let mut desk = Desk::new(&policy(""));
        desk.hands.will("run:/repair", &[Outcome::done(observed.clone(), "")]);
        desk.tell(alert("h1"));
        assert_eq!(desk.case(1).state, CaseState::WithPerson, "{observed}");
    }
    let mut desk = Desk::new(&policy("dry_run = true"));
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::Returned, "a dry run has no effect to see");
}

/// A recheck that comes after the drain asks anew.
#[test]
fn an_alert_that_is_over_after_the_drain_stops_the_repair() {
    let mut desk =
        Desk::new("[[policy]]\nsteps = [\"drain\", \"recheck\", \"reboot\", \"return\"]\napprove = [\"recheck\"]");
    desk.tell(alert("h1"));
    assert_eq!(desk.case(1).state, CaseState::NeedsApproval);
    desk.over(alert("h1"));
    desk.ask(1, Request::Approve);
    let case = desk.case(1);
    assert_eq!((case.state, case.is_drained), (CaseState::Returned, false), "{case:#?}");
    assert!(!desk.hands.done().contains(&"h1 reboot".to_owned()), "{:?}", desk.hands.done());
    assert_eq!(case.steps[1].outcome, "store: over");
}
