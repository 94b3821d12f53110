//! Steps that only a host itself can do, as orders: the controller writes them down, the host's agent fetches them with its next word,
//! does them and answers. Hosts listen nowhere.

use super::book::Book;
use super::notifier::Notifier;
use super::recheck;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_http::lock;
use surefoot_model::{Case, MachineId};
use surefoot_remedy::act::{ANOTHER_MACHINE, Hands, HandsConfig, PriorAttempt};
use surefoot_remedy::{Act, Order, Outcome, Step};
use surefoot_store::cases::{KeptOrder, OrderState};

/// An agent that lives fetches an order within this time; else it is withdrawn, and tried again later.
const FETCH_TIME_MAX_NS: u64 = 180_000_000_000;
/// An order that was fetched is answered within this time, beside that of a stress.
const ANSWER_TIME_MAX_NS: u64 = 2 * 3_600_000_000_000;
/// How often the store is looked at, and how long one call of the engine waits.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// The first call of an order: soon enough, the case says that it waits for the host's agent.
const FIRST_CALL_TIME_MAX: Duration = Duration::from_secs(5);
/// An order that waits goes on after this.
const AGAIN_IN_NS: u64 = 1_000_000_000;

/// Hands that have the steps of other hosts done by their agents.
pub(super) struct Dispatch {
    hands: Hands,
    /// The same hands, recorded in the journal of this host. Of what an agent does, its own host has the record.
    recorded: Arc<dyn Act>,
    book: Mutex<Book>,
    own_host: String,
    /// The machine that this runs on.
    machine: MachineId,
    /// What the policies say of a stress.
    stress_mebibytes: Option<u64>,
    /// The Alertmanager that a recheck asks; `None` for none.
    notifier: Option<Notifier>,
}

impl Dispatch {
    /// Hands of this configuration, recorded by `record`, and agents on the other hosts.
    pub(super) fn new(
        config: HandsConfig,
        machine: MachineId,
        book: Book,
        record: impl FnOnce(Hands) -> Arc<dyn Act>,
    ) -> Dispatch {
        let hands = Hands::new(config.clone());
        Dispatch {
            book: Mutex::new(book),
            own_host: config.own_host.clone(),
            machine,
            stress_mebibytes: config.stress_mebibytes,
            notifier: None,
            recorded: record(hands.clone()),
            hands,
        }
    }

    /// The same, with an Alertmanager that rechecks ask.
    pub(super) fn asking(self, notifier: Option<Notifier>) -> Dispatch {
        Dispatch { notifier, ..self }
    }

    /// Whether the host's agent is to do it.
    fn is_afar(&self, order: &Order) -> bool {
        let restarts_from_outside = order.step == Step::Reboot && self.hands.has_controller(&order.host);
        order.host != self.own_host && is_of_host(&order.step) && !restarts_from_outside
    }

    /// The outcome of a step that only this controller's own host can do, if another machine has that host's name; `None` if not.
    fn of_another(&self, order: &Order) -> Option<Outcome> {
        if order.host != self.own_host || !is_of_host(&order.step) {
            return None;
        }
        let memo = order.memo.clone();
        match lock(&self.book).with(|store| store.owner_unlike(&order.host, &self.machine)) {
            Ok(None) => None,
            Ok(Some(owner)) => {
                let detail = format!(
                    "not done: host {} is {owner}, and this controller with the same name runs on {}",
                    order.host, self.machine
                );
                Some(Outcome::Failed { detail, memo, is_passing: false })
            }
            Err(_) => Some(Outcome::Waits { waits_for: "the store".to_owned(), memo, again_in_ns: AGAIN_IN_NS }),
        }
    }

    /// The outcome of a step of a case that is about another machine than the one that has the name of its host now; `None` if not. What an
    /// agent does has this of its order.
    fn of_first_machine(&self, order: &Order) -> Option<Outcome> {
        if !self.hands.acts_on_machine(order) {
            return None;
        }
        let memo = order.memo.clone();
        let taken_over = lock(&self.book).with(|store| {
            let for_ns = for_machine_of(store.case(order.case), order)?;
            Ok(for_ns != 0 && store.taken_over_ns(&order.host)? > for_ns)
        });
        match taken_over {
            Ok(false) => None,
            Ok(true) => {
                let detail = format!("not done: {ANOTHER_MACHINE}, and the case is about the one before");
                Some(Outcome::Failed { detail, memo, is_passing: false })
            }
            Err(_) => Some(Outcome::Waits { waits_for: "the store".to_owned(), memo, again_in_ns: AGAIN_IN_NS }),
        }
    }

    /// The order with what is known of the host's machine, where its step compares that; or that it waits for the store. A step that compares
    /// nothing does not wait: what it would say of its first call would be lost.
    fn with_machine(&self, order: &Order) -> Result<Order, Outcome> {
        if !self.hands.asks_which_machine(order) {
            return Ok(order.clone());
        }
        let mut reported = MachineId::default();
        for name in self.hands.names(&order.host) {
            match lock(&self.book).with(|store| store.machine_of(name)) {
                Ok(Some(known)) => reported = known.machine.with(&reported),
                Ok(None) => {}
                // Not known now is neither known to be another one nor unknown.
                Err(_) => {
                    let waits_for = "the store".to_owned();
                    return Err(Outcome::Waits { waits_for, memo: order.memo.clone(), again_in_ns: AGAIN_IN_NS });
                }
            }
        }
        // Without an agent of its own this controller knows the machine that it runs on.
        if reported.is_unknown() && order.host == self.own_host {
            reported = self.machine.clone();
        }
        Ok(Order { machine: Some(reported), ..order.clone() })
    }

    /// The outcome of a step that its agent is not told to do, because work came back to the host after the drain; `None` if the agent may do
    /// it, or was told already.
    fn not_empty(&self, order: &Order, stop: &AtomicBool) -> Option<Outcome> {
        let is_told = lock(&self.book).with(|store| {
            Ok(adopted(store.order_of(&order.token)?, store.orders_under_way(&order.host)?, order).is_some())
        });
        match is_told {
            Ok(true) => None,
            Ok(false) => self.hands.still_empty(order, stop).err(),
            Err(_) => Some(Outcome::Waits {
                waits_for: "the store".to_owned(),
                memo: order.memo.clone(),
                again_in_ns: AGAIN_IN_NS,
            }),
        }
    }

    /// Waits for the answer, for the length of one call.
    fn wait(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        let begun = Instant::now();
        let is_known = lock(&self.book).with(|store| store.order_of(&order.token)).is_ok_and(|kept| kept.is_some());
        let time_max = if is_known { CALL_TIME_MAX } else { FIRST_CALL_TIME_MAX };
        loop {
            match self.look(order) {
                Ok(Some(outcome)) => return outcome,
                // The store is away: the order stays, and its answer is there when it comes back.
                Ok(None) | Err(_) if stop.load(Ordering::Relaxed) || begun.elapsed() >= time_max => {
                    let waits_for = format!("the agent of {}", order.host);
                    return Outcome::Waits { waits_for, memo: order.memo.clone(), again_in_ns: AGAIN_IN_NS };
                }
                Ok(None) | Err(_) => std::thread::sleep(LOOK_PERIOD),
            }
        }
    }

    /// What came of the order so far; `None` where the agent is at it.
    fn look(&self, order: &Order) -> surefoot_remedy::Result<Option<Outcome>> {
        let mut book = lock(&self.book);
        let (kept, now_ns) = book.with(|store| {
            let kept = match adopted(store.order_of(&order.token)?, store.orders_under_way(&order.host)?, order) {
                Some(kept) => kept,
                None => {
                    let told = Order { stress_mebibytes: self.stress_mebibytes, ..order.clone() };
                    // Plain data with text keys always has a JSON form.
                    let body = serde_json::to_string(&told).unwrap_or_default();
                    let for_ns = for_machine_of(store.case(order.case), order)?;
                    store.order(&order.token, &order.host, &body, for_ns)?
                }
            };
            Ok((kept, store.now_realtime_ns()?))
        })?;
        let age_ns = now_ns.saturating_sub(kept.changed_realtime_ns);
        let failed =
            |detail: String, is_passing| Ok(Some(Outcome::Failed { detail, memo: order.memo.clone(), is_passing }));
        match kept.state {
            OrderState::Answered | OrderState::Consumed => {
                let outcome = answered(&kept, order);
                match outcome {
                    // The next call is another part of the same attempt, and a new order.
                    Outcome::GoesOn { .. } | Outcome::Waits { .. } => {
                        book.with(|store| store.forget_order(&kept.token))?
                    }
                    _ => book.with(|store| store.consume(&kept.token))?,
                }
                Ok(Some(outcome))
            }
            OrderState::Displaced => failed(format!("not done: {ANOTHER_MACHINE}"), false),
            OrderState::DisplacedFetched => failed(
                format!("not known to be done: {ANOTHER_MACHINE}, and the one that fetched it did not answer"),
                false,
            ),
            OrderState::Withdrawn => failed(format!("the agent of {} did not fetch it", order.host), true),
            OrderState::Waiting if age_ns > FETCH_TIME_MAX_NS => {
                match book.with(|store| store.withdraw(&kept.token))? {
                    true => failed(format!("the agent of {} did not fetch it: does it run there?", order.host), true),
                    false => Ok(None),
                }
            }
            OrderState::Fetched if age_ns > ANSWER_TIME_MAX_NS + stress_ns(&order.step) => {
                failed(format!("the agent of {} fetched it, and does not answer", order.host), false)
            }
            OrderState::Waiting | OrderState::Fetched => Ok(None),
        }
    }
}

/// Whether a step is one that an agent does: what only the host itself can do. Everything else is the controller's own.
pub(super) fn is_of_host(step: &Step) -> bool {
    match step {
        Step::Restart(_) | Step::ResetInterface(_) | Step::TuneReporting(_) | Step::OfflinePage => true,
        Step::Stress(_) | Step::Collect(_) | Step::Reboot => true,
        Step::Restore(step) => matches!(**step, Step::TuneReporting(_)),
        _ => false,
    }
}

/// The order that the host's agent has for this step already: that of this attempt, or of an earlier one whose controller died.
fn adopted(own: Option<KeptOrder>, under_way: Vec<KeptOrder>, order: &Order) -> Option<KeptOrder> {
    // A token is the case, the step, the attempt, and the case's own time.
    let of_step = format!("case-{}-{}-", order.case, order.step_index);
    let of_case = order.token.rsplit('-').next();
    let is_same = |kept: &KeptOrder| kept.token.starts_with(&of_step) && kept.token.rsplit('-').next() == of_case;
    own.or_else(|| under_way.into_iter().find(is_same))
}

/// Until when the machine that an order is for came to the name of its host: one that came later is another than the case is about. What the
/// case remembers is of the first one; without it, and once a person or the parts say that something was replaced, any machine will do.
fn for_machine_of(case: surefoot_store::Result<Case>, order: &Order) -> surefoot_store::Result<u64> {
    match case {
        Ok(case) if case.replaced.is_some() && order.memo.is_empty() => Ok(u64::MAX),
        Ok(case) => Ok(case.since_realtime_ns),
        Err(surefoot_store::Error::NoCase { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

fn stress_ns(step: &Step) -> u64 {
    match step {
        Step::Stress(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2),
        _ => 0,
    }
}

fn answered(kept: &KeptOrder, order: &Order) -> Outcome {
    match serde_json::from_str(&kept.answer) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed {
            detail: format!("the agent of {} answered what cannot be read: {error}", order.host),
            memo: order.memo.clone(),
            is_passing: false,
        },
    }
}

impl Act for Dispatch {
    fn dry_run(&self, order: &Order) -> String {
        let would = self.hands.dry_run(order);
        if self.is_afar(order) { format!("{would}, by the agent of {}", order.host) } else { would }
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        if order.step == Step::Recheck {
            let readings = recheck::readings(&self.book, self.notifier.as_ref(), order, stop);
            return self.recorded.run(&Order { readings, ..order.clone() }, stop);
        }
        match self.is_afar(order) {
            true => self.not_empty(order, stop).unwrap_or_else(|| self.wait(order, stop)),
            false => self.of_another(order).or_else(|| self.of_first_machine(order)).unwrap_or_else(|| {
                match self.with_machine(order) {
                    Ok(order) => self.recorded.run(&order, stop),
                    Err(waits) => waits,
                }
            }),
        }
    }

    fn find(&self, order: &Order) -> PriorAttempt {
        if !self.is_afar(order) {
            // Looking changes nothing: without the store it is done by the name alone.
            return self.recorded.find(&self.with_machine(order).unwrap_or_else(|_| order.clone()));
        }
        let mut book = lock(&self.book);
        let kept = book.with(|store| store.order_of(&order.token));
        match kept {
            Err(error) => PriorAttempt::Unknown { why: error.to_string() },
            // Nobody was told.
            Ok(None) => PriorAttempt::MayRepeat,
            Ok(Some(kept)) => match kept.state {
                OrderState::Withdrawn | OrderState::Displaced => PriorAttempt::MayRepeat,
                OrderState::DisplacedFetched => PriorAttempt::Unknown {
                    why: format!("{ANOTHER_MACHINE}, and the one that fetched it did not answer"),
                },
                OrderState::Waiting => match book.with(|store| store.withdraw(&order.token)) {
                    Ok(true) => PriorAttempt::MayRepeat,
                    Ok(false) => {
                        PriorAttempt::Unknown { why: format!("the agent of {} has just fetched it", order.host) }
                    }
                    Err(error) => PriorAttempt::Unknown { why: error.to_string() },
                },
                // The next attempt waits for the answer to this one, and gives no order of its own.
                OrderState::Fetched => PriorAttempt::MayRepeat,
                OrderState::Answered | OrderState::Consumed => match answered(&kept, order) {
                    Outcome::Done { observed, memo, .. } => PriorAttempt::Effect { observed, memo },
                    _ => PriorAttempt::MayRepeat,
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use surefoot_model::Observed;
    use surefoot_remedy::act::Ipmi;
    use surefoot_store::cases::{Address, Claim, MachineLimits};

    /// Otherwise the history of a host that runs a controller and an agent has each step twice.
    #[test]
    fn a_step_is_recorded_by_the_host_that_does_it() {
        #[derive(Default)]
        struct Counted(AtomicUsize);
        impl Act for Counted {
            fn dry_run(&self, _: &Order) -> String {
                String::new()
            }
            fn run(&self, _: &Order, _: &AtomicBool) -> Outcome {
                self.0.fetch_add(1, Ordering::Relaxed);
                Outcome::NotNeeded { detail: String::new() }
            }
            fn find(&self, _: &Order) -> PriorAttempt {
                self.0.fetch_add(1, Ordering::Relaxed);
                PriorAttempt::MayRepeat
            }
        }
        let counted = Arc::new(Counted::default());
        let config = HandsConfig { own_host: "head".into(), ..HandsConfig::default() };
        let home = tempfile::tempdir().unwrap();
        let book = Book::new(Address::Sqlite(home.path().join("cases")), None);
        let dispatch = Dispatch::new(config, MachineId::default(), book, |_| Arc::clone(&counted) as Arc<dyn Act>);
        let order =
            |host: &str| Order { host: host.into(), step: "reset-interface:eth0".parse().unwrap(), ..Order::default() };
        let stop = AtomicBool::new(true);
        assert!(matches!(dispatch.run(&order("n1"), &stop), Outcome::Waits { .. }));
        dispatch.find(&order("n1"));
        assert_eq!(counted.0.load(Ordering::Relaxed), 0, "the agent of n1 has the record");
        assert!(matches!(dispatch.run(&order("head"), &stop), Outcome::NotNeeded { .. }));
        dispatch.find(&order("head"));
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
        // Another machine reports by the controller's own name: nothing is done here for it.
        let of_another = MachineId { hardware: Some("other".into()), system: None };
        let own = MachineId { hardware: Some("own".into()), system: None };
        let (book, config) =
            (lock(&dispatch.book).another(), HandsConfig { own_host: "head".into(), ..HandsConfig::default() });
        let claim = Claim { host: "head".into(), machine: of_another, ..Claim::default() };
        lock(&dispatch.book).with(|store| store.claim(&[claim], &MachineLimits::default())).unwrap();
        let dispatch = Dispatch::new(config, own, book, |_| Arc::clone(&counted) as Arc<dyn Act>);
        match dispatch.run(&order("head"), &stop) {
            Outcome::Failed { detail, .. } => {
                assert!(detail.contains("not done: host head is machine other"), "{detail}")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
    }

    /// A store that is away is no word about a machine: neither is it another one, nor is it unknown.
    #[test]
    fn a_step_that_compares_machines_waits_for_the_store_and_no_other_does() {
        struct Shows;
        impl Act for Shows {
            fn dry_run(&self, _: &Order) -> String {
                String::new()
            }
            fn run(&self, order: &Order, _: &AtomicBool) -> Outcome {
                Outcome::done(Observed::Effect { evidence: format!("{:?}", order.machine) }, "")
            }
            fn find(&self, _: &Order) -> PriorAttempt {
                PriorAttempt::MayRepeat
            }
        }
        let cluster = surefoot_remedy::act::Drainer::Kubernetes(Default::default());
        let config = || HandsConfig {
            drainers: [("pods".to_owned(), cluster.clone())].into(),
            own_host: "head".into(),
            ..HandsConfig::default()
        };
        let of = |service: &str, host: &str| Order {
            host: host.into(),
            service: service.into(),
            step: Step::Drain,
            ..Order::default()
        };
        let machine = MachineId { hardware: Some("mine".into()), system: None };
        let run = |book: Book, order: &Order| {
            let dispatch = Dispatch::new(config(), machine.clone(), book, |_| Arc::new(Shows));
            match dispatch.run(order, &AtomicBool::new(false)) {
                done @ Outcome::Done { .. } => done.words(),
                Outcome::Waits { waits_for, .. } => waits_for,
                other => panic!("{other:?}"),
            }
        };
        let away = || Book::existing(Address::Sqlite("/nonexistent/cases".into()), None);
        assert_eq!(run(away(), &of("pods", "n1")), "the store");
        assert_eq!(run(away(), &of("plain", "n1")), "None", "it has no scheduler, and asks nobody");
        let home = tempfile::tempdir().unwrap();
        let store = || Book::new(Address::Sqlite(home.path().join("cases")), None);
        assert!(run(store(), &of("pods", "n1")).contains("hardware: None"), "no agent of it reports");
        assert!(run(store(), &of("pods", "head")).contains("mine"), "the controller's own host");
        let claim = Claim {
            host: "n1".into(),
            machine: MachineId { hardware: Some("of n1".into()), system: None },
            ..Claim::default()
        };
        store().with(|store| store.claim(&[claim], &MachineLimits::default())).unwrap();
        assert!(run(store(), &of("pods", "n1")).contains("of n1"));
    }

    /// The machine was replaced, or another one took its name: what the case was opened for is not done to that one.
    #[test]
    fn a_case_of_the_machine_that_had_the_name_before_does_nothing_to_the_next_one() {
        struct Does;
        impl Act for Does {
            fn dry_run(&self, _: &Order) -> String {
                String::new()
            }
            fn run(&self, _: &Order, _: &AtomicBool) -> Outcome {
                Outcome::done(Observed::Effect { evidence: "done".into() }, "")
            }
            fn find(&self, _: &Order) -> PriorAttempt {
                PriorAttempt::MayRepeat
            }
        }
        let home = tempfile::tempdir().unwrap();
        let store = || Book::new(Address::Sqlite(home.path().join("cases")), None);
        let claim = |letter: &str| {
            let machine = MachineId { hardware: Some(letter.into()), system: None };
            let claim = Claim { host: "n1".into(), machine, ..Claim::default() };
            store().with(|store| store.claim(&[claim], &MachineLimits::default())).unwrap()
        };
        let opened = || {
            let mut book = store();
            let now_ns = book.with(|store| store.now_realtime_ns()).unwrap();
            let case: Case = serde_json::from_value(serde_json::json!({
                "id": 0, "host": "n1", "service": "", "fault": "memory/rate", "subject": "", "alert_key": format!("k{now_ns}"),
                "severity": "warning", "sentence": "", "policy": "p", "state": "running", "is_firing": true, "steps": [],
                "is_drained": false, "since_realtime_ns": now_ns, "state_since_realtime_ns": now_ns, "revision": 0,
            }))
            .unwrap();
            let line = surefoot_model::AuditEntry { action: "opened".into(), ..line_of(0) };
            let open = surefoot_model::CaseChange::Open(Box::new(case));
            book.with(|store| store.decide(1, &mut |_| vec![(open.clone(), line.clone())])).unwrap().remove(0)
        };
        claim("a");
        let first = opened();
        store().with(|store| store.release("n1", "user anna", "", &MachineLimits::default())).unwrap();
        claim("b");
        let second = opened();
        let dispatch = Dispatch::new(HandsConfig::default(), MachineId::default(), store(), |_| Arc::new(Does));
        let run = |case: u64, step: &str| {
            let order = Order { case, host: "n1".into(), step: step.parse().unwrap(), ..Order::default() };
            match dispatch.run(&order, &AtomicBool::new(false)) {
                done @ Outcome::Done { .. } => done.words(),
                Outcome::Failed { detail, is_passing: false, .. } => detail,
                other => panic!("{other:?}"),
            }
        };
        let refused = "not done: another machine answers by this name now, and the case is about the one before";
        assert_eq!(run(first.id, "run:/hooks/repair"), refused);
        // What gives the host back, and what touches none, is done.
        assert_eq!([run(first.id, "return"), run(first.id, "ticket:desk"), run(first.id, "drain")], ["done"; 3]);
        assert_eq!(run(second.id, "run:/hooks/repair"), "done");
        let replaced = Some(surefoot_model::Replaced { at_realtime_ns: 1, ..Default::default() });
        let line = surefoot_model::AuditEntry { action: "replaced".into(), ..line_of(first.id) };
        store().with(|store| store.update(&Case { replaced, ..first.clone() }, &line)).unwrap();
        assert_eq!(run(first.id, "run:/hooks/repair"), "done", "a person says that the machine is another one");
    }

    fn line_of(case: u64) -> surefoot_model::AuditEntry {
        surefoot_model::AuditEntry {
            at_realtime_ns: 0,
            case,
            actor: "user anna".into(),
            action: String::new(),
            target: String::new(),
            reason: String::new(),
        }
    }

    /// An agent of an earlier release has no such outcome, and says that the step is done.
    #[test]
    fn an_answer_is_read_from_agents_of_either_release() {
        let answered = |answer: &str| {
            let kept = KeptOrder {
                token: String::new(),
                host: String::new(),
                body: String::new(),
                state: OrderState::Answered,
                answer: answer.into(),
                changed_realtime_ns: 0,
            };
            answered(&kept, &Order::default())
        };
        let done = answered(r#"{"outcome":"done","detail":"it needed no recovery","memo":""}"#);
        assert!(matches!(done, Outcome::Done { .. }), "{done:?}");
        let not_needed = answered(r#"{"outcome":"not_needed","detail":"h2v0 does not hang"}"#);
        assert_eq!(not_needed, Outcome::NotNeeded { detail: "h2v0 does not hang".into() });
    }

    #[test]
    fn a_host_with_a_controller_is_restarted_from_outside_and_another_by_its_agent() {
        let ipmi = |host: &str| Ipmi::new(&format!("ipmi://{host}-bmc"), "root", "/etc/surefoot/bmc".into()).unwrap();
        let dispatch = |names: &[&str]| {
            let ipmis = names.iter().map(|name| ((*name).to_owned(), ipmi("n1"))).collect();
            let config = HandsConfig { own_host: "head".into(), ipmis, ..HandsConfig::default() };
            let book = Book::new(Address::Sqlite("/nonexistent/cases".into()), None);
            Dispatch::new(config, MachineId::default(), book, |hands| Arc::new(hands))
        };
        let order = |host: &str, step: Step| Order { host: host.into(), step, ..Order::default() };
        let reboot = |host: &str| order(host, Step::Reboot);
        assert!(!dispatch(&["*"]).is_afar(&reboot("n1")), "a host that hangs has no agent that answers");
        let of_one = dispatch(&["n1"]);
        assert!(!of_one.is_afar(&reboot("n1")) && of_one.is_afar(&reboot("n2")) && !of_one.is_afar(&reboot("head")));
        assert!(of_one.is_afar(&order("n1", Step::OfflinePage)), "the rest is the host's own");
        assert!(dispatch(&[]).is_afar(&reboot("n1")));
        assert!(!of_one.dry_run(&reboot("n1")).contains("agent"), "{}", of_one.dry_run(&reboot("n1")));
    }
}
