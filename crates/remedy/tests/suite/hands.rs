//! Steps that are written down and not done, and the alerts that lead to them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use surefoot_model::{Alert, AlertOrigin, Observed, Room, Severity};
use surefoot_remedy::Step;
use surefoot_remedy::act::{Act, Order, Outcome, PriorAttempt, judge};

/// Does every step by noting it, or as its script says.
#[derive(Default)]
pub struct Hands {
    pub done: Mutex<Vec<String>>,
    /// When it was looked what became of a step.
    pub found: Mutex<Vec<Instant>>,
    /// What comes of a step the next times, by its text; then it is done.
    pub script: Mutex<BTreeMap<String, Vec<Outcome>>>,
}

impl Hands {
    pub fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    pub fn will(&self, step: &str, outcomes: &[Outcome]) {
        self.script.lock().unwrap().insert(step.to_owned(), outcomes.to_vec());
    }
}

impl Act for Hands {
    fn dry_run(&self, order: &Order) -> String {
        format!("would {} {}", order.step, order.host)
    }

    fn run(&self, order: &Order, _: &AtomicBool) -> Outcome {
        self.done.lock().unwrap().push(format!("{} {}", order.host, order.step));
        let mut script = self.script.lock().unwrap();
        match script.get_mut(&order.step.to_string()).filter(|left| !left.is_empty()) {
            Some(left) => left.remove(0),
            None if order.step == Step::Recheck => judge(order.readings.clone()),
            None => Outcome::done(seen("done"), ""),
        }
    }

    fn find(&self, _: &Order) -> PriorAttempt {
        self.found.lock().unwrap().push(Instant::now());
        PriorAttempt::MayRepeat
    }
}

/// What a step that works shows.
pub fn seen(evidence: &str) -> Observed {
    Observed::Effect { evidence: evidence.to_owned() }
}

/// A critical alert of memory.
pub fn alert(host: &str) -> Alert {
    Alert {
        host: host.into(),
        key: "memory/rate/dimm/A1".into(),
        service: "web".into(),
        fault: "memory/rate".into(),
        subject: "dimm A1".into(),
        room: Some(Room::Memory),
        severity: Severity::Critical,
        sentence: "DIMM A1 reports 12 corrected errors a second.".into(),
        evidence: vec!["mc0 csrow2 ch0".into()],
        labels: BTreeMap::new(),
        origin: AlertOrigin::Finding,
        is_firing: true,
        since_realtime_ns: 1_000,
    }
}
