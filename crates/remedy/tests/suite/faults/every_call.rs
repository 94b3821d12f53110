//! A controller is killed, or cut off from its store, at every call that it makes of the store, one run each: so at every state of a
//! case and every step, before and after each is written down. Another controller goes on.

use super::flaky::{Flaky, Trouble};
use super::truth::{HALF_WAY, Held, Truth};
use crate::suite::hands::alert;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use surefoot_model::{Case, CaseState};
use surefoot_remedy::act::Outcome;
use surefoot_remedy::decide::{Request, request};
use surefoot_remedy::engine::{Attempt, Core, Ended, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Casebook, Step};

/// Every kind of step.
const POLICY: &str = r#"
[[policy]]
service = "web"
steps = ["recheck", "drain", "firmware:CeThreshold=1", "tune-reporting:35s", "debug:generic", "reboot", "stress:1m", "collect:generic",
         "soft-repair:generic", "hard-repair:generic", "offline-page", "reset-interface", "restart:nginx", "run:/repair",
         "restore:debug:generic", "restore:firmware:CeThreshold=1", "restore:tune-reporting:35s", "ticket:desk", "recheck", "return"]
hosts_at_once = 1
retry = { attempts = 3, back_off = "0s" }
approve = ["drain"]

[[ticket]]
name = "desk"
directory = "/t"
"#;

const TICK: Duration = Duration::from_secs(5);
const TICKS_MAX: usize = 2_000;
/// How long a store stays cut off that answers again.
const CUT: Duration = Duration::from_secs(100);

/// What becomes of the controller at the call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Killed,
    CutOff,
}

struct Trial {
    book: MemoryBook,
    clock: Arc<AtomicU64>,
    policies: Policies,
    truth: Truth,
    /// The step that fails for good; none where all work.
    fails: &'static str,
}

impl Trial {
    fn new(fails: &'static str) -> Trial {
        let clock = Arc::new(AtomicU64::new(1_800_000_000 * 1_000_000_000));
        let ticks = Arc::clone(&clock);
        let mut book = MemoryBook::new(Arc::new(move || ticks.load(Ordering::Relaxed)));
        book.take(&[alert("h1")]).unwrap();
        Trial { book, clock, policies: Policies::parse(POLICY, "p").unwrap(), truth: Truth::default(), fails }
    }

    fn core(book: Box<dyn Casebook>, name: &str) -> Core {
        Core::new(book, name.into(), Settings::default(), Arc::default())
    }

    fn case(&mut self) -> Option<Case> {
        self.book.case(1).ok()
    }

    /// Does a step at once.
    fn make(&mut self, attempt: &Attempt) -> Ended {
        let order = &attempt.order;
        if attempt.is_in_doubt {
            return Ended::Found(self.truth.find(order));
        }
        let goes_on = |memo: String| Outcome::GoesOn { detail: String::new(), memo, again_in_ns: 0 };
        Ended::Outcome(if order.step.has_way_back() && order.memo.is_empty() {
            goes_on(format!("as it was before {}", order.step))
        } else if matches!(order.step, Step::Restore(_)) && !order.memo.starts_with(HALF_WAY) {
            goes_on(format!("{HALF_WAY}{}", order.memo))
        } else if order.step.to_string() == self.fails {
            Outcome::Failed { detail: "no".into(), memo: order.memo.clone(), is_passing: false }
        } else {
            self.truth.effect(order);
            let memo = if order.step.has_way_back() { order.memo.clone() } else { String::new() };
            Outcome::done(crate::suite::hands::seen("done"), memo)
        })
    }

    /// A round of a controller. It is gone in the middle where `is_gone` says so after it asked the store.
    fn round(&mut self, core: &mut Core, now: Duration, is_gone: &dyn Fn() -> bool) {
        let (begun, _) = core.round(&self.policies, now);
        for begin in begun {
            if is_gone() {
                return;
            }
            let ended = self.make(&begin.attempt);
            core.note_end(begin.attempt.order.case, begin.attempt.fence, Some(ended));
        }
    }

    fn people(&mut self) {
        let Some(case) = self.case() else { return };
        if matches!(case.state, CaseState::NeedsApproval | CaseState::WithPerson) {
            let (case, entry) =
                request(&case, Request::Approve, "user anna", "", self.clock.load(Ordering::Relaxed)).unwrap();
            self.book.update(&case, &entry).unwrap();
        }
    }

    /// Goes through the case; the first controller meets its fate at this call. How often it asked the store.
    fn run(mut self, call: u64, trouble: Trouble, fate: Fate) -> Result<u64, String> {
        let store = Flaky::ending_at(self.book.clone(), call, trouble);
        let mut first = Some(Self::core(Box::new(store.clone()), "first"));
        let mut second = Self::core(Box::new(self.book.clone()), "second");
        let mut now = Duration::ZERO;
        let mut mends_at = None;
        for _ in 0..TICKS_MAX {
            let is_met = || store.call_count() >= call;
            if let Some(core) = &mut first {
                self.round(core, now, &|| fate == Fate::Killed && is_met());
            }
            if is_met() {
                match fate {
                    Fate::Killed => first = None,
                    Fate::CutOff if *mends_at.get_or_insert(now + CUT) <= now => store.answer(),
                    Fate::CutOff => {}
                }
                self.round(&mut second, now, &|| false);
            }
            self.people();
            let cases = self.book.cases(false, 10).unwrap();
            let held = Held { out_max: 1, per_hour: 6, is_timed: true };
            self.truth.check(&cases, &held, self.clock.load(Ordering::Relaxed))?;
            if cases.first().is_some_and(|case| !case.state.is_open()) {
                self.truth.check_end(&cases)?;
                return Ok(store.call_count());
            }
            now += TICK;
            self.clock.fetch_add(TICK.as_nanos() as u64, Ordering::Relaxed);
        }
        Err(format!("the case does not end: {:#?}", self.case()))
    }
}

#[test]
fn a_controller_that_is_killed_or_cut_off_at_any_call_doubles_nothing_and_leaves_nothing_changed() {
    let mut run_count = 0;
    for fails in ["", "run:/repair"] {
        let call_count = Trial::new(fails).run(u64::MAX, Trouble::Lost, Fate::Killed).unwrap();
        assert!(call_count > 100, "{call_count}");
        for call in 1..=call_count {
            for trouble in [Trouble::Refused, Trouble::Lost] {
                for fate in [Fate::Killed, Fate::CutOff] {
                    run_count += 1;
                    if let Err(why) = Trial::new(fails).run(call, trouble, fate) {
                        panic!("{fate:?} at call {call} of {call_count} ({trouble:?}, fails: '{fails}'): {why}");
                    }
                }
            }
        }
    }
    println!("{run_count} runs, 0 violations");
}
