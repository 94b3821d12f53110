//! Parts that are repaired again and again, replaced, and tested good: by the engine, over several cases.

use super::faults::flaky::Flaky;
use super::hands::{Hands, alert};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use surefoot_model::{Alert, Case, CaseState, StepState, UnreadCase};
use surefoot_remedy::Casebook;
use surefoot_remedy::decide::{HeldReason, Request, request};
use surefoot_remedy::engine::{Core, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::parts::PartHistory;
use surefoot_remedy::policy::Policies;

const HOUR_NS: u64 = 3_600 * 1_000_000_000;

const POLICY: &str = r#"
[[policy]]
service = "web"
steps = ["recheck", "drain", "stress:1m", "run:/usr/lib/surefoot/hooks/repair", "return"]
cool_down = "1h"
replace_after = { repairs = 2, within = "90d" }
verify = "none"

[[ticket]]
name = "desk"
directory = "/tickets"
"#;

struct Desk {
    book: MemoryBook,
    clock: Arc<AtomicU64>,
    core: Core,
    policies: Policies,
    hands: Hands,
}

impl Desk {
    fn new() -> Desk {
        let clock = Arc::new(AtomicU64::new(1_800_000_000 * 1_000_000_000));
        let ticks = Arc::clone(&clock);
        let book = MemoryBook::new(Arc::new(move || ticks.load(Ordering::Relaxed)));
        let core = Core::new(Box::new(book.clone()), "c".into(), Settings::default(), Arc::default());
        Desk { book, clock, core, policies: Policies::parse(POLICY, "p").unwrap(), hands: Hands::default() }
    }

    fn now_ns(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn go(&mut self) {
        loop {
            let (begun, is_more) = self.core.round(&self.policies, Duration::ZERO);
            for begin in &begun {
                let ended = begin.attempt.make(&self.hands, &AtomicBool::new(false));
                self.core.note_end(begin.attempt.order.case, begin.attempt.fence, Some(ended));
            }
            if begun.is_empty() && !is_more && self.core.is_idle() {
                return;
            }
        }
    }

    /// A day later the module fails once more; the case that comes of it.
    fn fails_again(&mut self) -> Case {
        self.clock.fetch_add(24 * HOUR_NS, Ordering::Relaxed);
        self.book.take(&[Alert { since_realtime_ns: self.now_ns(), ..alert("n1") }]).unwrap();
        self.go();
        let newest = self.book.cases(false, 1).unwrap().remove(0);
        self.clock.fetch_add(HOUR_NS / 2, Ordering::Relaxed);
        let over = Alert { is_firing: false, since_realtime_ns: self.now_ns(), ..alert("n1") };
        self.book.take(&[over]).unwrap();
        self.go();
        newest
    }

    fn ask(&mut self, id: u64, asked: Request, reason: &str) -> Result<(), String> {
        let case = self.book.case(id).unwrap();
        let (case, entry) =
            request(&case, asked, "user anna", reason, self.now_ns()).map_err(|refused| refused.to_string())?;
        self.book.update(&case, &entry).unwrap();
        self.go();
        Ok(())
    }

    fn repair_count(&self) -> usize {
        self.hands.done().iter().filter(|done| done.ends_with("hooks/repair")).count()
    }
}

#[test]
fn an_alert_that_a_cool_down_holds_back_is_in_the_trail_once_and_counted() {
    let mut desk = Desk::new();
    let counts = Arc::new(surefoot_remedy::engine::Counts::default());
    desk.core = Core::new(Box::new(desk.book.clone()), "c".into(), Settings::default(), Arc::clone(&counts));
    let cooling = || counts.held_back(HeldReason::CoolDown).load(Ordering::Relaxed);
    assert_eq!(desk.fails_again().state, CaseState::Returned);
    let held = |desk: &mut Desk| -> Vec<_> {
        let trail = desk.book.trail(0, 100).unwrap();
        trail.into_iter().filter(|line| line.action == "held_back").collect()
    };
    // The alert fired on for a while after its case was closed.
    assert_eq!((held(&mut desk).len(), cooling()), (1, 0));
    // A moment later another one of the host comes, and the cool-down of an hour still holds.
    desk.clock.fetch_add(1_000_000_000, Ordering::Relaxed);
    let other = Alert { key: "other".into(), fault: "memory/other".into(), ..alert("n1") };
    desk.book.take(&[Alert { since_realtime_ns: desk.now_ns(), ..other }]).unwrap();
    for _ in 0..3 {
        desk.go();
    }
    assert_eq!(desk.book.cases(false, 10).unwrap().len(), 1);
    let lines = held(&mut desk);
    assert_eq!((lines.len(), cooling()), (2, 1), "{lines:?}");
    assert!(lines[1].target.starts_with("n1 ") && lines[1].reason.contains("no case before"), "{lines:?}");
    desk.clock.fetch_add(HOUR_NS, Ordering::Relaxed);
    desk.go();
    assert_eq!(desk.book.cases(false, 10).unwrap().len(), 2, "after it the alert gets its case");
    assert_eq!((held(&mut desk).len() - 2, cooling()), (1, 1));
}

/// A repair for good of the new module would use up its spare rows for a fault that left with the old one.
#[test]
fn a_part_that_was_replaced_while_its_case_is_open_is_not_repaired_any_more() {
    let step = |step: &str, state: &str| serde_json::json!({ "step": step, "state": state, "attempt_count": 0 });
    let case = |state: &str, steps: &[serde_json::Value]| -> surefoot_model::Case {
        let case = serde_json::json!({
            "id": 7, "host": "n1", "service": "web", "fault": "memory/fault", "subject": "dimm A1", "alert_key": "k",
            "severity": "warning", "sentence": "", "policy": "p", "state": state, "steps": steps, "is_firing": true,
            "is_drained": true, "since_realtime_ns": 1, "state_since_realtime_ns": 1, "revision": 3,
        });
        serde_json::from_value(case).unwrap()
    };
    let ask = |case: &surefoot_model::Case| request(case, Request::Replaced, "user anna", "S4711", 9);
    let mut hard = step("hard-repair:maker", "pending");
    hard["needs_approval"] = true.into();
    let open =
        case("needs_approval", &[step("drain", "done"), hard, step("stress:1h", "pending"), step("return", "pending")]);
    let (next, _) = ask(&open).unwrap();
    let of = |state: StepState| {
        next.steps.iter().filter(|step| step.state == state).map(|step| &*step.step).collect::<Vec<_>>()
    };
    assert_eq!(of(StepState::Skipped), ["hard-repair:maker"]);
    assert_eq!(of(StepState::Pending), ["stress:1h", "return"], "the new part is tested, and the host returns");
    assert_eq!((next.state, next.steps[1].outcome.as_str()), (CaseState::Waiting, "not done: the part was replaced"));
    let busy = case("running", &[step("soft-repair:maker", "running"), step("return", "pending")]);
    let refused = ask(&busy).unwrap_err().to_string();
    assert!(refused.contains("case 7 is repairing the part (soft-repair:maker)"), "{refused}");
}

#[test]
fn a_module_that_was_repaired_twice_is_replaced_by_ticket_instead_of_repaired_again() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        assert_eq!(desk.fails_again().state, CaseState::Returned);
    }
    let third = desk.fails_again();
    assert_eq!((third.state, desk.repair_count()), (CaseState::WithPerson, 2), "{third:#?}");
    let refused = third.steps.iter().find(|step| step.state == StepState::Failed).unwrap();
    assert_eq!(refused.step, "stress:60s", "nothing that serves the repair is begun");
    assert!(refused.outcome.contains("repaired 2 times within 90 days (case 1, 2)"), "{}", refused.outcome);
    assert!(third.steps.iter().any(|step| step.step == "ticket:desk" && step.state == StepState::Done), "{third:#?}");
    assert!(third.is_drained, "the host stays out until its module is replaced");

    // A person replaces it and gives the host back: from then on repairs are counted anew.
    assert!(desk.ask(3, Request::TestedGood, "").unwrap_err().contains("say first"));
    desk.ask(3, Request::Replaced, "S4711").unwrap();
    desk.ask(3, Request::Approve, "").unwrap();
    assert_eq!(desk.book.case(3).unwrap().state, CaseState::Returned);
    assert!(desk.ask(3, Request::Replaced, "again").unwrap_err().contains("already"));
    for _ in 0..2 {
        assert_eq!(desk.fails_again().state, CaseState::Returned);
    }
    // The old one tested good, which is told of the closed case: whoever gets the next ticket is to look elsewhere too.
    desk.ask(3, Request::TestedGood, "a night of stress elsewhere").unwrap();
    let sixth = desk.fails_again();
    assert_eq!((sixth.state, desk.repair_count()), (CaseState::WithPerson, 4));
    let refused = sixth.steps.iter().find(|step| step.state == StepState::Failed).unwrap();
    assert!(refused.outcome.contains("tested good, so look at its slot"), "{}", refused.outcome);
    let history =
        PartHistory::of(&desk.book.part_book(&sixth, 100).unwrap(), &sixth, desk.book.now_realtime_ns().unwrap());
    assert_eq!((history.repairs.len(), history.tested_good_count()), (4, 1));
    assert_eq!(history.replacements[0].by, "S4711");
    let actions: Vec<String> = desk.book.trail(3, 100).unwrap().into_iter().map(|line| line.action).collect();
    assert!(actions.contains(&"replaced".to_owned()) && actions.contains(&"tested_good".to_owned()), "{actions:?}");
}

/// It may be the repair that was one too many.
#[test]
fn nothing_is_repaired_while_a_case_of_the_host_cannot_be_read() {
    let mut desk = Desk::new();
    let flaky = Flaky::new(desk.book.clone(), 0);
    desk.core = Core::new(Box::new(flaky.clone()), "c".into(), Settings::default(), Arc::default());
    let unread = UnreadCase { id: 7, host: "n1".into(), why: "cut off".into(), ..UnreadCase::default() };
    flaky.damage(vec![unread]);
    let first = desk.fails_again();
    assert_eq!((first.state, desk.repair_count()), (CaseState::WithPerson, 0), "{first:#?}");
    let refused = first.steps.iter().find(|step| step.state == StepState::Failed).unwrap();
    assert!(refused.outcome.starts_with("case 7 of n1 cannot be read (cut off)"), "{}", refused.outcome);
    assert!(refused.outcome.contains("`surefoot remedy cancel 7`"), "{}", refused.outcome);
}
