//! Steps that are recorded as deeds in the journal of the host that does them, before and after.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use surefoot_hostfs::clock;
use surefoot_http::lock;
use surefoot_journal::deeds::Record;
use surefoot_model::{Actor, Deed, DeedOutcome};
use surefoot_remedy::act::PriorAttempt;
use surefoot_remedy::{Act, Order, Outcome};

/// Attempts under way that are told apart; one that is forgotten is recorded as begun again.
const ATTEMPTS_MAX: usize = 256;

/// Does what another does, and records it.
pub struct Recorded {
    act: Arc<dyn Act>,
    record: Record,
    actor: Actor,
    own_host: String,
    /// Whether a step that cannot be recorded is not done. A controller's steps are in the audit trail of its store as well.
    is_required: bool,
    /// By token: the attempt as it began, and what was recorded of it last.
    under_way: Mutex<BTreeMap<String, (Deed, DeedOutcome)>>,
    lost_count: Arc<AtomicU64>,
}

impl Recorded {
    /// Those of an agent: what cannot be recorded is not done. `lost_count` counts deeds that could not be recorded, also the ends of
    /// steps that were done.
    pub fn of_agent(act: Arc<dyn Act>, record: Record, host: &str, lost_count: Arc<AtomicU64>) -> Recorded {
        let (actor, own_host) = (Actor::Agent { host: host.to_owned() }, host.to_owned());
        Recorded { act, record, actor, own_host, is_required: true, under_way: Mutex::default(), lost_count }
    }

    /// Those of a controller. `lost_count` counts deeds that could not be recorded.
    pub(super) fn of_controller(
        act: Arc<dyn Act>,
        record: Record,
        name: &str,
        own_host: &str,
        lost_count: Arc<AtomicU64>,
    ) -> Recorded {
        let (actor, own_host) = (Actor::Controller { name: name.to_owned() }, own_host.to_owned());
        Recorded { act, record, actor, own_host, is_required: false, under_way: Mutex::default(), lost_count }
    }

    /// Records that an attempt begins, unless it goes on.
    fn begin(&self, order: &Order) -> Result<(), String> {
        let mut under_way = lock(&self.under_way);
        if under_way.contains_key(&order.token) {
            return Ok(());
        }
        let deed = order.deed(self.actor.clone(), &self.own_host, clock::realtime_ns());
        self.append(&deed)?;
        while under_way.len() >= ATTEMPTS_MAX {
            under_way.pop_first();
        }
        under_way.insert(order.token.clone(), (deed, DeedOutcome::Begun));
        Ok(())
    }

    /// Records what came of it; what was recorded already is not recorded again.
    fn end(&self, order: &Order, outcome: DeedOutcome) {
        let mut under_way = lock(&self.under_way);
        let now_ns = clock::realtime_ns();
        let begun = under_way.remove(&order.token);
        let (begun, last) = match begun {
            Some((begun, last)) => (begun, Some(last)),
            None => (self.begun_before(order, now_ns), None),
        };
        let goes_on = matches!(outcome, DeedOutcome::GoesOn { .. });
        if last.as_ref() != Some(&outcome) {
            // Its outcome is in the answer, or in the store, all the same.
            let _ = self.append(&begun.with_outcome(outcome.clone(), now_ns));
        }
        if goes_on {
            under_way.insert(order.token.clone(), (begun, outcome));
        }
    }

    /// The beginning of an attempt that a process before this one recorded. Without it the end has its own time.
    fn begun_before(&self, order: &Order, now_ns: u64) -> Deed {
        let mut deed = order.deed(self.actor.clone(), &self.own_host, now_ns);
        let recorded = self.record.look().map(|read| read.deeds).unwrap_or_default();
        let is_same = |other: &Deed| {
            (&other.subject, other.action, &other.target, &other.reason)
                == (&deed.subject, deed.action, &deed.target, &deed.reason)
        };
        let last = recorded.into_iter().rev().find(is_same);
        let is_open = |last: &Deed| matches!(last.outcome, DeedOutcome::Begun | DeedOutcome::GoesOn { .. });
        if let Some(begun) = last.filter(is_open) {
            deed.begun_realtime_ns = begun.begun_realtime_ns;
            deed.actor = begun.actor;
        }
        deed
    }

    fn append(&self, deed: &Deed) -> Result<(), String> {
        let appended = self.record.append(deed).map_err(|why| why.to_string());
        if appended.is_err() {
            self.lost_count.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_required { appended } else { Ok(()) }
    }
}

impl Act for Recorded {
    fn dry_run(&self, order: &Order) -> String {
        self.act.dry_run(order)
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        if let Err(why) = self.begin(order) {
            let detail = format!("not done, because it cannot be recorded: {why}");
            return Outcome::Failed { detail, memo: order.memo.clone(), is_passing: true };
        }
        let outcome = self.act.run(order, stop);
        self.end(order, outcome.as_deed());
        outcome
    }

    fn find(&self, order: &Order) -> PriorAttempt {
        let found = self.act.find(order);
        if let Some(outcome) = found.as_deed() {
            self.end(order, outcome);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::VecDeque;
    use surefoot_model::Observed;

    struct Scripted(Mutex<VecDeque<Outcome>>);

    impl Act for Scripted {
        fn dry_run(&self, _: &Order) -> String {
            "nothing".into()
        }

        fn run(&self, _: &Order, _: &AtomicBool) -> Outcome {
            lock(&self.0).pop_front().expect("it is asked no more often than the script says")
        }

        fn find(&self, _: &Order) -> PriorAttempt {
            PriorAttempt::Unknown { why: "the host was restarted".into() }
        }
    }

    fn goes_on(detail: &str) -> Outcome {
        Outcome::GoesOn { detail: detail.into(), memo: String::new(), again_in_ns: 1 }
    }

    fn done() -> Outcome {
        Outcome::done(Observed::Effect { evidence: "it is back".into() }, "")
    }

    fn order() -> Order {
        Order {
            host: "n1".into(),
            step: surefoot_remedy::Step::Reboot,
            token: "case-1-0-1-a".into(),
            ..Order::default()
        }
    }

    fn scripted(outcomes: Vec<Outcome>) -> Arc<dyn Act> {
        Arc::new(Scripted(Mutex::new(outcomes.into())))
    }

    fn words(record: &Record) -> Vec<String> {
        record.look().unwrap().deeds.iter().map(Deed::words).collect()
    }

    #[test]
    fn an_attempt_that_goes_on_is_recorded_once_for_each_thing_that_is_new() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::OfHost(home.path().to_owned());
        let outcomes = vec![goes_on("going down"), goes_on("going down"), goes_on("coming up"), done()];
        let act = Recorded::of_agent(scripted(outcomes), record.clone(), "n1", Arc::default());
        (0..4).for_each(|_| _ = act.run(&order(), &AtomicBool::new(false)));
        assert_eq!(
            words(&record),
            [
                "reboot the host: begun",
                "reboot the host: goes on: going down",
                "reboot the host: goes on: coming up",
                "reboot the host: done: it is back",
            ]
        );
        let deeds = record.look().unwrap().deeds;
        assert!(deeds.iter().all(|deed| deed.begun_realtime_ns == deeds[0].at_realtime_ns));
        assert!(lock(&act.under_way).is_empty());
    }

    #[test]
    fn what_is_found_of_an_attempt_of_an_earlier_process_is_recorded() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::OfHost(home.path().to_owned());
        let act = Recorded::of_controller(scripted(Vec::new()), record.clone(), "head", "head", Arc::default());
        act.find(&order());
        assert_eq!(words(&record), ["reboot the host: in doubt: the host was restarted"]);
        let deed = record.look().unwrap().deeds.remove(0);
        assert_eq!((deed.subject.name.as_str(), deed.actor.to_string().as_str()), ("n1", "controller head"));
    }

    #[test]
    fn the_end_of_an_attempt_of_an_earlier_process_shares_its_beginning() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::OfHost(home.path().to_owned());
        let before = Recorded::of_agent(scripted(vec![goes_on("going down")]), record.clone(), "n1", Arc::default());
        before.run(&order(), &AtomicBool::new(false));
        drop(before);
        Recorded::of_agent(scripted(Vec::new()), record.clone(), "n1", Arc::default()).find(&order());
        let deeds = record.look().unwrap().deeds;
        assert_eq!(deeds.len(), 3);
        assert!(deeds.iter().all(|deed| deed.begun_realtime_ns == deeds[0].at_realtime_ns), "{deeds:?}");
        // Another attempt of the same step has its own.
        Recorded::of_agent(scripted(Vec::new()), record.clone(), "n1", Arc::default()).find(&order());
        let deeds = record.look().unwrap().deeds;
        assert_eq!(deeds[3].begun_realtime_ns, deeds[3].at_realtime_ns);
    }

    #[test]
    fn an_agent_does_nothing_that_it_cannot_record_and_a_controller_has_its_store() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::OfHost(home.path().to_owned());
        std::fs::create_dir_all(record.path()).unwrap();
        let agent = Recorded::of_agent(scripted(Vec::new()), record.clone(), "n1", Arc::default());
        let refused = agent.run(&order(), &AtomicBool::new(false));
        assert!(matches!(&refused, Outcome::Failed { is_passing: true, detail, .. } if detail.contains("recorded")));
        let lost = Arc::new(AtomicU64::new(0));
        let controller = Recorded::of_controller(scripted(vec![done()]), record, "head", "head", Arc::clone(&lost));
        assert_eq!(controller.run(&order(), &AtomicBool::new(false)), done());
        assert_eq!(lost.load(Ordering::Relaxed), 2, "its beginning and its end");
    }

    /// Does its step, and takes the journal away meanwhile.
    struct Taking(std::path::PathBuf);

    impl Act for Taking {
        fn dry_run(&self, _: &Order) -> String {
            "nothing".into()
        }

        fn run(&self, _: &Order, _: &AtomicBool) -> Outcome {
            std::fs::remove_file(&self.0).unwrap();
            std::fs::create_dir(&self.0).unwrap();
            done()
        }

        fn find(&self, _: &Order) -> PriorAttempt {
            PriorAttempt::Unknown { why: "it is not asked".into() }
        }
    }

    #[test]
    fn an_end_that_an_agent_cannot_record_is_counted_and_the_outcome_stands() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::OfHost(home.path().to_owned());
        let lost = Arc::new(AtomicU64::new(0));
        let agent = Recorded::of_agent(Arc::new(Taking(record.path())), record, "n1", Arc::clone(&lost));
        assert_eq!(agent.run(&order(), &AtomicBool::new(false)), done());
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }
}
