//! The engine with its threads, by the clock of the machine.

use super::hands::{Hands, alert};
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_model::{Case, CaseState};
use surefoot_remedy::Casebook;
use surefoot_remedy::act::Outcome;
use surefoot_remedy::decide::{Request, request};
use surefoot_remedy::engine::{Core, Engine, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;

const POLICY: &str = r#"
[[policy]]
service = "web"
match = { room = "memory", severity = "critical" }
steps = ["recheck", "drain", "run:/usr/lib/surefoot/hooks/repair", "return"]
hosts_at_once = 1
share_of_service = 0.05
per_hour = 6
cool_down = "24h"
approve = ["run:/usr/lib/surefoot/hooks/repair"]
retry = { back_off = "0s" }
verify = "none"
"#;

struct Fleet {
    book: MemoryBook,
    hands: Arc<Hands>,
    engine: Engine,
}

impl Fleet {
    fn start(policy: &str) -> Fleet {
        let (book, hands) = (MemoryBook::default(), Arc::new(Hands::default()));
        let settings = Settings {
            period: Duration::from_millis(10),
            lease: Duration::from_secs(60),
            grace: Duration::from_millis(10),
            ..Settings::default()
        };
        let policies = Policies::parse(policy, "policy.toml").unwrap();
        let engine = Engine::start_with(Box::new(book.clone()), hands.clone(), policies, "test", settings);
        Fleet { book, hands, engine }
    }

    fn tell(&mut self, host: &str) {
        self.book.take(&[alert(host)]).unwrap();
        self.engine.wake();
    }

    /// The case of this number, once it is so.
    fn wait(&mut self, id: u64, is_so: impl Fn(&Case) -> bool) -> Case {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let case = self.book.case(id);
            match case {
                Ok(case) if is_so(&case) => return case,
                case => assert!(Instant::now() < until, "{case:#?}\n{:#?}", self.book.trail(0, 100)),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&mut self, id: u64, asked: Request) {
        loop {
            let case = self.book.case(id).unwrap();
            let (case, entry) = request(&case, asked, "user anna", "", 0).unwrap();
            if self.book.update(&case, &entry).is_ok() {
                return self.engine.wake();
            }
        }
    }
}

#[test]
fn a_case_goes_from_the_alert_to_the_return_with_its_approval() {
    let mut fleet = Fleet::start(POLICY);
    fleet.tell("h1");
    let case = fleet.wait(1, |case| case.state == CaseState::NeedsApproval);
    assert!(case.is_drained);
    assert_eq!(fleet.hands.done(), ["h1 recheck", "h1 drain"]);
    fleet.ask(1, Request::Approve);
    let case = fleet.wait(1, |case| case.state == CaseState::Returned);
    assert!(!case.is_drained && case.lease.owner.is_empty());
    assert_eq!(fleet.hands.done()[2..], ["h1 run:/usr/lib/surefoot/hooks/repair", "h1 return"]);
    let actions: Vec<String> = fleet.book.trail(1, 100).unwrap().into_iter().map(|line| line.action).collect();
    let expected = "opened begun done begun done waits approved begun done begun done returned";
    assert_eq!(actions.join(" "), expected);
    // The alert still holds; the host is left alone for a day all the same.
    fleet.tell("h1");
    fleet.engine.stop();
    assert_eq!(fleet.book.cases(false, 10).unwrap().len(), 1);
}

#[test]
fn a_second_host_waits_until_the_first_is_back() {
    let mut fleet = Fleet::start(POLICY);
    fleet.tell("h1");
    fleet.wait(1, |case| case.state == CaseState::NeedsApproval);
    fleet.tell("h2");
    let waits = fleet.wait(2, |case| case.state == CaseState::Waiting && !case.waits_for.is_empty());
    assert!(waits.waits_for.contains("hosts_at_once"), "{}", waits.waits_for);
    fleet.ask(1, Request::Approve);
    fleet.wait(1, |case| case.state == CaseState::Returned);
    fleet.wait(2, |case| case.state == CaseState::NeedsApproval);
    fleet.engine.stop();
}

#[test]
fn what_fails_for_now_is_tried_again_and_what_fails_for_good_is_a_persons() {
    let mut fleet = Fleet::start(POLICY);
    let failed = |is_passing| Outcome::Failed { detail: "no".into(), memo: String::new(), is_passing };
    fleet.hands.will("drain", &[failed(true), failed(true)]);
    fleet.hands.will("run:/usr/lib/surefoot/hooks/repair", &[failed(false)]);
    fleet.tell("h1");
    fleet.wait(1, |case| case.state == CaseState::NeedsApproval);
    fleet.ask(1, Request::Approve);
    let case = fleet.wait(1, |case| case.state == CaseState::WithPerson);
    assert!(case.is_drained, "the host stays out until a person gives it back");
    assert_eq!(fleet.hands.done().iter().filter(|done| *done == "h1 drain").count(), 3);
    fleet.ask(1, Request::Approve);
    let case = fleet.wait(1, |case| case.state == CaseState::Returned);
    assert!(!case.is_drained);
    fleet.engine.stop();
}

/// A controller that lost its store may go on for the length of a lease after another one took its step over: whoever looks too early
/// finds nothing, and the step is done twice. The runs with made-up time take the grace from the usual settings; this is the real clock.
#[test]
fn a_step_of_a_dead_controller_is_looked_for_only_after_the_grace() {
    let (mut book, hands) = (MemoryBook::default(), Arc::new(Hands::default()));
    let settings = Settings {
        period: Duration::from_millis(10),
        lease: Duration::from_millis(200),
        grace: Duration::from_millis(1_200),
        ..Settings::default()
    };
    let policies =
        Policies::parse("[[policy]]\nservice = \"web\"\nsteps = [\"restart:nginx.service\"]", "policy.toml").unwrap();
    book.take(&[alert("h1")]).unwrap();
    let mut dead = Core::new(Box::new(book.clone()), "dead".into(), settings.clone(), Arc::default());
    let begun = Instant::now();
    while dead.round(&policies, Duration::ZERO).0.is_empty() {}
    let grace = settings.grace;
    let engine = Engine::start_with(Box::new(book.clone()), hands.clone(), policies, "other", settings);
    while hands.found.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:#?}", book.trail(0, 100));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(hands.found.lock().unwrap()[0] - begun >= grace);
    engine.stop();
}

#[test]
fn the_usual_grace_is_longer_than_a_lease() {
    let usual = Settings::default();
    assert!(usual.grace > usual.lease && usual.period < usual.lease);
}
