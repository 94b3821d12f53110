//! The made-up fleet: events in the order of their time, controllers, hosts, people.

use super::flaky::Flaky;
use super::policies;
use super::random::Random;
use super::truth::{HALF_WAY, Held, Truth};
use crate::suite::hands::{alert, seen};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use surefoot_model::{Alert, Case, CaseState};
use surefoot_remedy::act::Outcome;
use surefoot_remedy::decide::{Request, request};
use surefoot_remedy::engine::{Begin, Core, Ended, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Casebook, Step};

const HOSTS: u64 = 10;
const BASE_NS: u64 = 1_800_000_000 * 1_000_000_000;
/// How long there are faults, and how long everything may then take to end. Closing steps wait up to an hour for the next attempt.
const FAULTS: Duration = Duration::from_secs(3 * 3_600);
const END: Duration = Duration::from_secs(60 * 3_600);
const TICK: Duration = Duration::from_secs(10);

enum Event {
    /// A controller of this generation has its turn.
    Tick(usize, u64),
    /// An attempt may have its effect.
    Effect(usize, u64, Box<Begin>, Plan),
    /// An attempt ends.
    End(usize, u64, Box<Begin>, Plan),
    /// An alert comes in.
    Alert(Box<Alert>),
    /// People look at the cases.
    People,
    /// Something breaks or is mended.
    Fault,
    /// The store answers this controller again.
    Answer(usize),
    /// A killed controller is started again.
    Start(usize),
}

/// What is to become of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Find,
    Works,
    /// Of a step that remembers first what it needs for its way back.
    Remembers,
    /// Of a way back that has several parts: it remembers how far it is.
    ComesHalfWay,
    FailsForNow,
    FailsForGood,
    /// It has its effect, and then fails: settings stay as they are not to stay.
    FailsHalfway,
}

struct Controller {
    core: Option<Core>,
    book: Flaky,
    generation: u64,
}

pub struct Fleet {
    random: Random,
    now: Duration,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    events: std::collections::HashMap<u64, Event>,
    count: u64,
    book: MemoryBook,
    clock: Arc<AtomicU64>,
    jump_ns: Arc<AtomicI64>,
    controllers: Vec<Controller>,
    policies: Policies,
    held: Held,
    settings: Settings,
    is_vanished: [bool; HOSTS as usize],
    is_changed: bool,
    pub truth: Truth,
}

impl Fleet {
    pub fn new(seed: u64) -> Fleet {
        let mut random = Random::new(seed);
        let (out_max, per_hour) = (1 + random.below(3), 2 + random.below(5));
        let approve = if random.permille(500) { r#"approve = ["drain"]"# } else { "" };
        let steps = policies::steps(&mut random);
        let approve = if steps.contains("drain") { approve } else { "" };
        let replace = match random.permille(300) {
            true => "replace_after = { repairs = 2, within = \"2h\" }",
            false => "",
        };
        let text = format!(
            "[[policy]]\nservice = \"web\"\nsteps = {steps}\nhosts_at_once = {out_max}\nper_hour = {per_hour}\ncool_down = \"20m\"\n\
             retry = {{ attempts = 3, back_off = \"20s\" }}\nrecheck_within = \"5m\"\n{approve}\n{replace}\n\
             [[ticket]]\nname = \"desk\"\ndirectory = \"/t\"\n"
        );
        let (clock, jump_ns) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
        let (ticks, jumps) = (Arc::clone(&clock), Arc::clone(&jump_ns));
        let book = MemoryBook::new(Arc::new(move || {
            (BASE_NS + ticks.load(Ordering::Relaxed)).saturating_add_signed(jumps.load(Ordering::Relaxed))
        }));
        let lease = Duration::from_secs(60);
        // As much longer or shorter than a lease as it is in real use.
        let usual = Settings::default();
        let grace = lease.mul_f64(usual.grace.as_secs_f64() / usual.lease.as_secs_f64());
        let settings = Settings { lease, grace, ..usual };
        let held = Held { out_max: out_max as usize, per_hour: per_hour as usize, is_timed: random.permille(500) };
        let mut fleet = Fleet {
            now: Duration::ZERO,
            queue: BinaryHeap::new(),
            events: Default::default(),
            count: 0,
            book,
            clock,
            jump_ns,
            controllers: Vec::new(),
            policies: Policies::parse(&text, "p").unwrap(),
            held,
            settings,
            is_vanished: [false; HOSTS as usize],
            is_changed: false,
            truth: Truth::default(),
            random,
        };
        let controller_count = 1 + fleet.random.below(3) as usize;
        if controller_count > 1 {
            fleet.truth.sums.count("run with several controllers that race");
        }
        for index in 0..controller_count {
            let book = Flaky::new(fleet.book.clone(), seed * 7 + index as u64);
            fleet.controllers.push(Controller { core: None, book, generation: 0 });
            fleet.start(index);
        }
        fleet.plan_alerts();
        fleet.after(Duration::from_secs(30), Event::People);
        fleet.after(Duration::from_secs(60), Event::Fault);
        fleet
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.count += 1;
        self.events.insert(self.count, event);
        self.queue.push(Reverse((self.now + wait, self.count)));
    }

    fn seconds(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.random.below(below * 1_000))
    }

    /// Troubles come and go; each message comes up to three times, late and so out of order.
    fn plan_alerts(&mut self) {
        for _ in 0..3 + self.random.below(15) {
            let host = format!("h{}", self.random.below(HOSTS));
            let begins = self.seconds(FAULTS.as_secs());
            let lasts = self.seconds(2 * 3_600);
            let key = format!("key{}", self.random.below(3));
            let of = |at: Duration, is_firing| Alert {
                key: key.clone(),
                fault: format!("memory/{key}"),
                is_firing,
                since_realtime_ns: BASE_NS + at.as_nanos() as u64,
                ..alert(&host)
            };
            let mut first_told = [Duration::MAX; 2];
            for told in [of(begins, true), of(begins + lasts, false)] {
                let at = if told.is_firing { begins } else { begins + lasts };
                for count in 0..1 + self.random.below(3) {
                    if count > 0 {
                        self.truth.sums.count("alert told again");
                    }
                    let late = self.seconds(300);
                    let first = &mut first_told[usize::from(!told.is_firing)];
                    *first = (at + late).min(*first);
                    self.after(at + late, Event::Alert(Box::new(told.clone())));
                }
            }
            if first_told[1] < first_told[0] {
                self.truth.sums.count("alert told out of order");
            }
        }
    }

    fn start(&mut self, index: usize) {
        let controller = &mut self.controllers[index];
        controller.generation += 1;
        let name = format!("c{index}/{}", controller.generation);
        let book = Box::new(controller.book.clone());
        controller.core = Some(Core::new(book, name, self.settings.clone(), Arc::default()));
        let generation = controller.generation;
        self.after(Duration::ZERO, Event::Tick(index, generation));
    }

    fn kill(&mut self, index: usize, when: &'static str) {
        if self.controllers[index].core.take().is_some() {
            self.truth.sums.count(when);
            let wait = self.seconds(600);
            self.after(wait, Event::Start(index));
        }
    }

    /// Whether this controller of this generation still lives.
    fn lives(&self, index: usize, generation: u64) -> bool {
        self.controllers[index].generation == generation && self.controllers[index].core.is_some()
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTS
    }

    pub fn run(&mut self) -> Result<(), String> {
        let mut is_mended = false;
        while let Some(Reverse((at, id))) = self.queue.pop() {
            self.now = at;
            self.clock.store(at.as_nanos() as u64, Ordering::Relaxed);
            if !self.is_faulty() && !is_mended {
                is_mended = true;
                self.mend();
            }
            let event = self.events.remove(&id).unwrap();
            self.is_changed = !matches!(event, Event::Tick(..));
            self.handle(event);
            // Most turns of a controller change nothing.
            if !self.is_changed {
                continue;
            }
            let (cases, now_ns) = (self.cases(), self.book.now_realtime_ns().unwrap());
            self.truth.check(&cases, &self.held, now_ns).map_err(|why| format!("at {at:?}: {why}"))?;
            let is_over =
                cases.iter().all(|case| !case.state.is_open()) && self.now > FAULTS + Duration::from_secs(4 * 3_600);
            if is_over || self.now > FAULTS + END {
                break;
            }
        }
        let cases = self.cases();
        for case in &cases {
            self.truth.sums.count("case");
            match case.state {
                CaseState::Returned => self.truth.sums.count("case returned"),
                CaseState::Cleared => self.truth.sums.count("case cleared"),
                CaseState::Cancelled => self.truth.sums.count("case cancelled"),
                _ => {}
            }
        }
        self.truth.check_end(&cases)
    }

    fn cases(&mut self) -> Vec<Case> {
        self.book.cases(false, usize::MAX).unwrap()
    }

    /// The faults are over.
    fn mend(&mut self) {
        self.jump_ns.store(0, Ordering::Relaxed);
        self.is_vanished = [false; HOSTS as usize];
        self.controllers.iter().for_each(|controller| controller.book.set(0, 0));
        let entry = self.entry("resumed");
        self.book.pause(false, &entry).unwrap();
        // Whatever still fires ends.
        for host in 0..HOSTS {
            for key in 0..3 {
                let told = Alert {
                    key: format!("key{key}"),
                    is_firing: false,
                    since_realtime_ns: BASE_NS + self.now.as_nanos() as u64 + 3 * 3_600_000_000_000,
                    ..alert(&format!("h{host}"))
                };
                self.after(Duration::from_secs(3 * 3_600), Event::Alert(Box::new(told)));
            }
        }
    }

    fn entry(&mut self, action: &str) -> surefoot_model::AuditEntry {
        surefoot_model::AuditEntry {
            at_realtime_ns: self.book.now_realtime_ns().unwrap(),
            case: 0,
            actor: "user anna".into(),
            action: action.into(),
            target: String::new(),
            reason: String::new(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick(index, generation) if self.lives(index, generation) => self.tick(index, generation),
            Event::Effect(index, generation, begin, plan) if self.lives(index, generation) => {
                self.effect(index, generation, begin, plan);
            }
            Event::End(index, generation, begin, plan) if self.lives(index, generation) => {
                self.end(index, *begin, plan);
            }
            // What a killed controller had begun is gone with it.
            Event::Tick(..) | Event::Effect(..) | Event::End(..) => {}
            Event::Alert(told) => self.book.take(&[*told]).unwrap(),
            Event::People => self.people(),
            Event::Fault => self.fault(),
            Event::Start(index) => self.start(index),
            Event::Answer(index) => self.controllers[index].book.set(0, 0),
        }
    }

    fn tick(&mut self, index: usize, generation: u64) {
        let (now, policies) = (self.now, self.policies.clone());
        let Some(core) = &mut self.controllers[index].core else { return };
        let (begun, is_more) = core.round(&policies, now);
        self.is_changed = is_more || !begun.is_empty();
        // It dies right after it wrote down what it begins, or after it began some of it.
        let dies_after =
            (self.is_faulty() && !begun.is_empty() && self.random.permille(30)).then(|| self.random.below(2));
        for (count, begin) in begun.into_iter().enumerate() {
            if dies_after.is_some_and(|after| count as u64 >= after) {
                break;
            }
            self.begin(index, generation, begin);
        }
        if dies_after.is_some() {
            return self.kill(index, "controller killed when a step was written as begun");
        }
        self.after(if is_more { Duration::from_millis(1) } else { TICK }, Event::Tick(index, generation));
    }

    fn begin(&mut self, index: usize, generation: u64, begin: Begin) {
        let order = &begin.attempt.order;
        let host: usize = order.host[1..].parse().unwrap();
        if begin.attempt.is_in_doubt {
            let grace = self.settings.grace;
            return self.after(grace, Event::End(index, generation, Box::new(begin), Plan::Find));
        }
        let is_first = order.step.has_way_back() && order.memo.is_empty();
        let is_back =
            matches!(order.step, Step::Restore(_)) && !order.memo.is_empty() && !order.memo.starts_with(HALF_WAY);
        let is_vanished = self.is_vanished[host] && order.step.touches_host();
        let plan = match self.random.below(1_000) {
            _ if is_vanished => Plan::FailsForNow,
            _ if is_first => Plan::Remembers,
            _ if is_back && self.random.permille(300) => Plan::ComesHalfWay,
            0..50 if self.is_faulty() => Plan::FailsForGood,
            50..120 if self.is_faulty() => Plan::FailsForNow,
            120..250 if self.is_faulty() && order.step.has_way_back() => Plan::FailsHalfway,
            _ => Plan::Works,
        };
        // Mostly short; a management controller that hangs takes longer than a lease.
        let is_slow = self.random.permille(100);
        let mut until_effect = self.seconds(if is_slow { 900 } else { 30 });
        if is_slow && until_effect > self.settings.lease {
            self.truth.sums.count("attempt longer than a lease (a controller of a host hangs)");
        }
        // The worst that a store can do: it is cut off from whoever does a step, whose effect comes when the lease has just run out.
        if self.is_faulty() && self.random.permille(60) {
            self.truth.sums.count("store cut off from a step until its lease ran out");
            self.controllers[index].book.set(1_000, 0);
            // Or when whoever took it over has looked and found nothing: only what was broken off in time is done once.
            let looked = if self.random.permille(300) { self.settings.grace } else { Duration::ZERO };
            until_effect = self.settings.lease + looked + self.seconds(if looked.is_zero() { 12 } else { 90 });
            self.after(until_effect + TICK, Event::Answer(index));
        }
        self.after(until_effect, Event::Effect(index, generation, Box::new(begin), plan));
    }

    fn effect(&mut self, index: usize, generation: u64, begin: Box<Begin>, plan: Plan) {
        if self.is_faulty() && self.random.permille(15) {
            return self.kill(index, "controller killed before a step's effect");
        }
        if begin.stop.load(Ordering::Acquire) {
            self.truth.sums.count("attempt broken off because its lease was lost");
            return self.after(Duration::ZERO, Event::End(index, generation, begin, Plan::FailsForNow));
        }
        if matches!(plan, Plan::Works | Plan::FailsHalfway) {
            let is_put_back = self.truth.effect(&begin.attempt.order);
            if is_put_back && begin.attempt.order.step_index < self.policies.policies[0].steps.len() {
                self.truth.sums.count("setting put back by a step of the policy");
            }
            if self.is_faulty() && self.random.permille(30) {
                return self.kill(index, "controller killed after a step's effect, before its end was written");
            }
        }
        let until_end = self.seconds(20);
        self.after(until_end, Event::End(index, generation, begin, plan));
    }

    fn end(&mut self, index: usize, begin: Begin, plan: Plan) {
        let order = &begin.attempt.order;
        let failed =
            |detail: &str, is_passing| Outcome::Failed { detail: detail.into(), memo: order.memo.clone(), is_passing };
        let ended = match plan {
            Plan::Find if begin.stop.load(Ordering::Acquire) => {
                let Some(core) = &mut self.controllers[index].core else { return };
                return core.note_end(order.case, begin.attempt.fence, None);
            }
            Plan::Find => Ended::Found(self.truth.find(order)),
            Plan::Remembers => Ended::Outcome(Outcome::GoesOn {
                detail: "remembered".into(),
                memo: format!("as {} was before step {} of case {}", order.host, order.step_index, order.case),
                again_in_ns: self.random.below(30) * 1_000_000_000,
            }),
            Plan::ComesHalfWay => Ended::Outcome(Outcome::GoesOn {
                detail: "half way".into(),
                memo: format!("{HALF_WAY}{}", order.memo),
                again_in_ns: self.random.below(30) * 1_000_000_000,
            }),
            Plan::FailsForNow => Ended::Outcome(failed("not now", true)),
            Plan::FailsForGood | Plan::FailsHalfway => Ended::Outcome(failed("no", false)),
            Plan::Works => {
                let is_gone = order.step == Step::Recheck && self.random.permille(100);
                let memo = if order.step.has_way_back() { order.memo.clone() } else { String::new() };
                Ended::Outcome(match is_gone {
                    true => Outcome::Gone { detail: "gone".into() },
                    false => Outcome::done(seen("done"), memo),
                })
            }
        };
        let Some(core) = &mut self.controllers[index].core else { return };
        core.note_end(order.case, begin.attempt.fence, Some(ended));
    }

    fn people(&mut self) {
        for case in self.cases().into_iter().filter(|case| case.state.is_open()) {
            if case.state == CaseState::WithPerson {
                self.truth.sums.count("look of people at a case that waits for one");
            }
            let chance = self.random.below(1_000);
            let asked = match case.state {
                CaseState::NeedsApproval | CaseState::WithPerson if chance < 300 => Request::Approve,
                CaseState::Paused if chance < 200 || !self.is_faulty() => Request::Resume,
                _ if !self.is_faulty() => continue,
                _ if chance < 3 => Request::Cancel,
                _ if chance < 10 => Request::Pause,
                _ => continue,
            };
            let now_ns = self.book.now_realtime_ns().unwrap();
            if let Ok((case, entry)) = request(&case, asked, "user anna", "", now_ns) {
                self.book.update(&case, &entry).unwrap();
            }
        }
        if self.is_faulty() && self.random.permille(20) {
            let is_paused = self.random.permille(300);
            let entry = self.entry("paused");
            self.book.pause(is_paused, &entry).unwrap();
        }
        self.after(Duration::from_secs(60), Event::People);
    }

    fn fault(&mut self) {
        if !self.is_faulty() {
            return;
        }
        let index = self.random.below(self.controllers.len() as u64) as usize;
        match self.random.below(5) {
            0 => self.kill(index, "controller killed between steps"),
            1 => {
                self.truth.sums.count("store cut off or losing answers");
                let (refused, lost) = *self.random.of(&[(0, 0), (0, 0), (1_000, 0), (200, 0), (0, 300), (100, 100)]);
                self.controllers[index].book.set(refused, lost);
            }
            2 => {
                let host = self.random.below(HOSTS) as usize;
                self.is_vanished[host] = !self.is_vanished[host];
                self.truth.sums.count("host vanished or came back");
            }
            3 if !self.held.is_timed => {
                self.truth.sums.count("clock jump");
                let hours = *self.random.of(&[0, 0, 1, -1, 5, -5, 24 * 365, -24 * 365]);
                self.jump_ns.store(hours * 3_600_000_000_000, Ordering::Relaxed);
            }
            _ => {}
        }
        let wait = self.seconds(600);
        self.after(wait, Event::Fault);
    }
}
