//! The made-up fleet: what happens next, to which host, and what the engine would do about it.

use super::Plan;
use super::assumed::Assumed;
use super::parts::{Parts, is_of_part};
use super::shelf::Shelf;
use super::tally::{Simulated, Tally};
use crate::Step;
use crate::act::Outcome;
use crate::decide::{self, Controller, Request, request};
use crate::engine::Attempt;
use crate::policy::{ANY_SERVICE, HOUR_NS, Policies};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use surefoot_model::{Alert, AlertOrigin, Case, CaseState, Observed};
use surefoot_random::Random;

const DAY_NS: u64 = 24 * HOUR_NS;
const YEAR_NS: f64 = 365.0 * DAY_NS as f64;
/// When a simulation begins: a Monday, so that windows of maintenance fall on the same days in each.
const BEGIN_NS: u64 = 1_798_416_000 * 1_000_000_000;
/// How often waiting cases are looked at where nothing else happens.
const LOOK_NS: u64 = HOUR_NS / 12;
const NAME: &str = "simulate";

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next made-up fault.
    Fault,
    /// The next alert of the record.
    Recorded(usize),
    /// The alert of a fault ends.
    Over(u64),
    /// The fault of a part comes back.
    Back(u64),
    /// An attempt at a step ends.
    Ended(u64, u64),
    /// A person turns to a case.
    Person(u64),
    /// Cases that wait are looked at.
    Look,
}

/// A fault that is there.
struct Trouble {
    alert: Alert,
    is_false: bool,
    is_repaired: bool,
}

/// What is remembered of an open case.
#[derive(Default)]
struct Seen {
    has_begun: bool,
    is_repair: bool,
    is_person_called: bool,
    is_handed_over: bool,
}

pub(super) struct Fleet<'a> {
    /// Those of the file, with the sizes that the services have here.
    policies: Policies,
    plan: &'a Plan,
    /// Where in the record each alert ends last, by host and key.
    ends: HashMap<(&'a str, &'a str), usize>,
    random: Random,
    now_ns: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    shelf: Shelf,
    /// Services, each with the number of its first host and how many it has.
    services: Vec<(String, u64, u64)>,
    troubles: HashMap<u64, Trouble>,
    /// The trouble of each alert, by host and key.
    of_alert: HashMap<(String, String), u64>,
    seen: HashMap<u64, Seen>,
    attempts: HashMap<u64, Attempt>,
    parts: Parts,
    /// Alerts of faults that will come back.
    coming_back: HashMap<u64, Alert>,
    is_look_planned: bool,
    tally: Tally,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(policies: &Policies, plan: &'a Plan) -> Self {
        let services = services(policies, plan);
        let mut fleet = Fleet {
            policies: fit(policies, &services),
            plan,
            ends: ends(&plan.recorded),
            random: Random::new(plan.seed),
            now_ns: BEGIN_NS,
            queue: BinaryHeap::new(),
            count: 0,
            shelf: Shelf::default(),
            services,
            troubles: HashMap::new(),
            of_alert: HashMap::new(),
            seen: HashMap::new(),
            attempts: HashMap::new(),
            parts: Parts::default(),
            coming_back: HashMap::new(),
            is_look_planned: false,
            tally: Tally::default(),
        };
        for (name, _, size) in &fleet.services {
            fleet.shelf.world.service_hosts.insert(name.clone(), *size);
            fleet.tally.result.services.entry(name.clone()).or_default().host_count = *size;
        }
        if plan.recorded.is_empty() {
            fleet.plan_fault();
        } else {
            fleet.plan_recorded(0);
        }
        fleet
    }

    pub(super) fn run(mut self) -> Simulated {
        let end_ns = BEGIN_NS + self.plan.days * DAY_NS;
        while let Some(Reverse((at_ns, _, event))) = self.queue.pop() {
            if at_ns >= end_ns {
                break;
            }
            self.now_ns = at_ns;
            self.shelf.world.now_realtime_ns = at_ns;
            self.handle(event);
            self.decide();
        }
        self.now_ns = end_ns;
        let open: Vec<Case> = self.shelf.open().cloned().collect();
        for case in open {
            self.tally.result.open_count += 1;
            self.tally.returned(&case.host, &case.service, end_ns);
        }
        self.tally.finish(self.services.iter().map(|(_, _, size)| size).sum(), self.plan.days * DAY_NS)
    }

    fn after(&mut self, wait_ns: u64, event: Event) {
        self.count += 1;
        self.queue.push(Reverse((self.now_ns.saturating_add(wait_ns), self.count, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Fault => {
                self.break_part();
                self.plan_fault();
            }
            Event::Recorded(index) => {
                self.take_recorded(index);
                self.plan_recorded(index + 1);
            }
            Event::Over(trouble) => self.end_trouble(trouble),
            Event::Back(trouble) => self.come_back(trouble),
            Event::Ended(case, fence) => self.end_attempt(case, fence),
            Event::Person(case) => self.turn_to(case),
            Event::Look => self.is_look_planned = false,
        }
    }

    /// Faults come independently of each other, so the next of the whole fleet comes after an exponential wait.
    fn plan_fault(&mut self) {
        let hosts: u64 = self.services.iter().map(|(_, _, size)| size).sum();
        let per_year: f64 = self.plan.assumed.kinds.iter().map(|kind| kind.per_host_year).sum::<f64>() * hosts as f64;
        if per_year > 0.0 {
            let wait_ns = wait_ns(&mut self.random, YEAR_NS / per_year);
            self.after(wait_ns, Event::Fault);
        }
    }

    fn break_part(&mut self) {
        let kinds = &self.plan.assumed.kinds;
        let mut mark = self.random.unit() * kinds.iter().map(|kind| kind.per_host_year).sum::<f64>();
        let kind = kinds.iter().find(|kind| {
            mark -= kind.per_host_year;
            mark < 0.0
        });
        let Some(kind) = kind.or(kinds.last()) else { return };
        let number = self.random.below(self.services.iter().map(|(_, _, size)| size).sum());
        let service = self.services.iter().rev().find(|(_, first, _)| *first <= number);
        let id = self.count;
        let alert = Alert {
            host: format!("h{number}"),
            key: format!("{}/{id}", kind.fault),
            service: service.map_or_else(String::new, |(name, _, _)| name.clone()),
            fault: kind.fault.clone(),
            subject: format!("part {id}"),
            room: Some(kind.room),
            severity: kind.severity,
            sentence: String::new(),
            evidence: Vec::new(),
            labels: BTreeMap::new(),
            origin: AlertOrigin::Finding,
            is_firing: true,
            since_realtime_ns: self.now_ns,
        };
        let is_false = self.random.chance(kind.false_share);
        if is_false {
            let lasts_ns = wait_ns(&mut self.random, self.plan.assumed.false_hours * HOUR_NS as f64);
            self.after(lasts_ns, Event::Over(id));
        }
        self.begin_trouble(id, alert, is_false);
    }

    fn begin_trouble(&mut self, id: u64, alert: Alert, is_false: bool) {
        if self.policies.of(&alert).is_none() {
            self.tally.result.unmatched_count += 1;
            return;
        }
        self.of_alert.insert((alert.host.clone(), alert.key.clone()), id);
        self.shelf.take(alert.clone());
        self.troubles.insert(id, Trouble { alert, is_false, is_repaired: false });
    }

    fn end_trouble(&mut self, id: u64) {
        let Some(trouble) = self.troubles.remove(&id) else { return };
        if trouble.is_repaired && is_of_part(&trouble.alert.fault) && self.random.chance(self.plan.assumed.comes_back) {
            self.plan_return(&trouble.alert);
        }
        self.of_alert.remove(&(trouble.alert.host.clone(), trouble.alert.key.clone()));
        self.shelf.take(Alert { is_firing: false, since_realtime_ns: self.now_ns, ..trouble.alert });
    }

    /// The fault of a part comes back after a while; a record has all its faults in it.
    fn plan_return(&mut self, alert: &Alert) {
        if !self.plan.recorded.is_empty() {
            return;
        }
        let wait_ns = wait_ns(&mut self.random, self.plan.assumed.comes_back_days * DAY_NS as f64);
        // A number of its own: a made-up fault takes the newest.
        self.count += 1;
        let id = self.count;
        self.after(wait_ns, Event::Back(id));
        self.coming_back.insert(id, Alert { key: format!("{}/{id}", alert.fault), ..alert.clone() });
    }

    fn come_back(&mut self, id: u64) {
        let Some(alert) = self.coming_back.remove(&id) else { return };
        self.begin_trouble(id, Alert { since_realtime_ns: self.now_ns, ..alert }, false);
    }

    /// Whether the engine would leave this step out, because the part is to be replaced instead of repaired once more.
    fn is_to_replace(&self, case: &Case, step: &Step) -> bool {
        let rule = self.policies.policy(&case.policy).and_then(|policy| policy.replace_after);
        let rule = rule.filter(|_| case.ends_as.is_none() && crate::parts::serves_repair(step));
        rule.is_some_and(|rule| self.parts.is_to_replace(case, rule, self.now_ns))
    }

    fn plan_recorded(&mut self, index: usize) {
        let (Some(first), Some(next)) = (self.plan.recorded.first(), self.plan.recorded.get(index)) else { return };
        let at_ns = BEGIN_NS.saturating_add(next.since_realtime_ns.saturating_sub(first.since_realtime_ns));
        self.after(at_ns.saturating_sub(self.now_ns), Event::Recorded(index));
    }

    /// An alert of the record. One that ends later in the record, and not by a repair here, is taken for a false one.
    fn take_recorded(&mut self, index: usize) {
        let told = Alert { since_realtime_ns: self.now_ns, ..self.plan.recorded[index].clone() };
        let known = self.of_alert.get(&(told.host.clone(), told.key.clone())).copied();
        match (told.is_firing, known) {
            (true, None) => {
                let end = self.ends.get(&(told.host.as_str(), told.key.as_str()));
                let is_false = end.is_some_and(|end| *end > index);
                self.count += 1;
                self.begin_trouble(self.count, told, is_false);
            }
            (false, Some(id)) => self.end_trouble(id),
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Decides until nothing more is due.
    fn decide(&mut self) {
        let controller = Controller { name: NAME.into(), free_count: usize::MAX, lease_ns: YEAR_NS as u64 };
        loop {
            let changes = decide::decide(&self.shelf.world, &self.policies, &controller);
            if changes.is_empty() && !self.shelf.sort_out() {
                break;
            }
            for case in self.shelf.put(changes, self.policies.look_back_ns()) {
                self.follow(&case);
            }
        }
        let waits = |case: &Case| !self.attempts.contains_key(&case.id) && case.state != CaseState::NeedsApproval;
        let is_waiting = !self.shelf.world.alerts.is_empty() || self.shelf.world.open.iter().any(waits);
        if is_waiting && !self.is_look_planned {
            self.is_look_planned = true;
            self.after(LOOK_NS, Event::Look);
        }
    }

    /// What follows from a case's change: an attempt begins, a person is called, it is over.
    fn follow(&mut self, case: &Case) {
        let seen = self.seen.entry(case.id).or_insert_with(|| {
            self.tally.result.case_count += 1;
            self.tally.result.services.entry(case.service.clone()).or_default().case_count += 1;
            Seen::default()
        });
        if case.began_realtime_ns != 0 && !seen.has_begun {
            seen.has_begun = true;
            if let Some(policy) = self.policies.policy(&case.policy) {
                let of = |(name, _, _): &&(String, u64, u64)| *name == case.service;
                let size = self.services.iter().find(of).map_or(0, |(_, _, size)| *size);
                self.tally.take_up(case, policy, size, self.now_ns);
            }
        }
        let has_begun = seen.has_begun;
        let calls_person = matches!(case.state, CaseState::NeedsApproval | CaseState::WithPerson);
        if calls_person && !seen.is_person_called {
            seen.is_person_called = true;
            let is_repair = case.state == CaseState::WithPerson;
            if is_repair && !std::mem::replace(&mut seen.is_handed_over, true) {
                self.tally.result.with_person_count += 1;
            }
            let assumed = &self.plan.assumed;
            let hours = if is_repair { assumed.repair_hours } else { assumed.approve_hours };
            let wait_ns = wait_ns(&mut self.random, hours * HOUR_NS as f64);
            self.after(wait_ns, Event::Person(case.id));
        }
        if !case.state.is_open() {
            self.close(case, has_begun);
        } else if let Some(attempt) = Attempt::of(case, NAME) {
            let wait_ns = match self.is_to_replace(case, &attempt.order.step) {
                true => 0,
                false => wait_ns(&mut self.random, Assumed::step_s(&attempt.order.step) * 1e9),
            };
            let fence = attempt.fence;
            self.attempts.insert(case.id, attempt);
            self.after(wait_ns, Event::Ended(case.id, fence));
        }
    }

    fn close(&mut self, case: &Case, has_begun: bool) {
        self.attempts.remove(&case.id);
        let Some(seen) = self.seen.remove(&case.id) else { return };
        if has_begun {
            self.tally.let_go(case);
        }
        if case.state == CaseState::Cleared {
            self.tally.result.cleared_count += 1;
        }
        self.tally.result.repair_count += u64::from(seen.is_repair);
    }

    fn trouble_of(&mut self, case: &Case) -> Option<(u64, &mut Trouble)> {
        let id = *self.of_alert.get(&(case.host.clone(), case.alert_key.clone()))?;
        self.troubles.get_mut(&id).map(|trouble| (id, trouble))
    }

    fn end_attempt(&mut self, id: u64, fence: u64) {
        let Some(attempt) = self.attempts.get(&id).filter(|attempt| attempt.fence == fence).cloned() else { return };
        self.attempts.remove(&id);
        let Some(case) = self.shelf.case(id).cloned() else { return };
        let outcome = self.outcome(&case, &attempt.order.step);
        let ended = crate::engine::Ended::Outcome(outcome);
        if let Some((case, _)) = attempt.end(&case, &ended, &self.policies, NAME, self.now_ns) {
            self.shelf.write(&case);
            self.follow(&case);
        }
    }

    /// What comes of a step, and what it does to the host.
    fn outcome(&mut self, case: &Case, step: &Step) -> Outcome {
        let (detail, memo) = (String::new(), String::new());
        let assumed = &self.plan.assumed;
        if self.is_to_replace(case, step) {
            return Outcome::Failed { detail, memo, is_passing: false };
        }
        if self.random.chance(assumed.fails_for_now) {
            return Outcome::Failed { detail, memo, is_passing: true };
        }
        // What brings a host back is done until it works.
        let is_way_back = matches!(step, Step::Return | Step::Restore(_) | Step::Ticket(_));
        if !is_way_back && self.random.chance(assumed.fails_for_good) {
            return Outcome::Failed { detail, memo, is_passing: false };
        }
        let (sees, quiet_ns) = (assumed.recheck_sees, assumed.quiet_minutes * 60e9);
        let repairs = Assumed::repairs(step);
        let (is_seen, is_repair) = (self.random.chance(sees), self.random.chance(repairs));
        let quiet_ns = wait_ns(&mut self.random, quiet_ns);
        match step {
            Step::Drain => self.tally.drained(&case.host, self.now_ns),
            Step::Return => self.tally.returned(&case.host, &case.service, self.now_ns),
            _ => {}
        }
        let trouble = self.trouble_of(case).map(|(id, trouble)| {
            if is_repair && !trouble.is_false && !trouble.is_repaired {
                trouble.is_repaired = true;
            }
            (id, trouble.is_false, trouble.is_repaired)
        });
        if crate::parts::repairs_part(step) && is_of_part(&case.fault) {
            self.parts.repaired(case, self.now_ns, &mut self.tally.result);
        }
        if repairs > 0.0 {
            let is_false = trouble.is_none_or(|(_, is_false, _)| is_false);
            if let Some(seen) = self.seen.get_mut(&case.id) {
                // A repair of what is no fault, or is none any more, is a false one.
                if !std::mem::replace(&mut seen.is_repair, true) && is_false {
                    self.tally.result.false_repair_count += 1;
                }
            }
        }
        match trouble {
            Some((id, _, true)) if is_repair => self.after(quiet_ns, Event::Over(id)),
            Some((_, true, _)) if *step == Step::Recheck && is_seen => return Outcome::Gone { detail },
            None if *step == Step::Recheck => return Outcome::Gone { detail },
            _ => {}
        }
        // A simulated step works; what a real one would show of that is not modelled.
        Outcome::done(Observed::Effect { evidence: "simulated".to_owned() }, memo)
    }

    /// A person approves, or has repaired the host.
    fn turn_to(&mut self, id: u64) {
        let Some(case) = self.shelf.case(id).cloned() else { return };
        let assumed = &self.plan.assumed;
        match case.state {
            CaseState::WithPerson => {
                self.tally.result.person_hours += assumed.repair_work_hours;
                if let Some((id, trouble)) = self.trouble_of(&case) {
                    // What comes back after a replacement is decided below, and not by what a step repaired before.
                    let is_replaced = !trouble.is_false && is_of_part(&case.fault);
                    trouble.is_repaired &= !is_replaced;
                    let alert = trouble.alert.clone();
                    self.end_trouble(id);
                    let result = &mut self.tally.result;
                    if is_replaced && self.parts.replaced(&case, &self.plan.assumed, &mut self.random, result) {
                        self.plan_return(&alert);
                    }
                }
            }
            CaseState::NeedsApproval => self.tally.result.person_hours += assumed.approve_work_hours,
            _ => {}
        }
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.is_person_called = false;
        }
        let Some(case) = self.shelf.case(id).cloned() else { return };
        if let Ok((case, _)) = request(&case, Request::Approve, "user", "", self.now_ns) {
            self.shelf.write(&case);
            self.follow(&case);
        }
    }
}

fn ends(recorded: &[Alert]) -> HashMap<(&str, &str), usize> {
    let over = recorded.iter().enumerate().filter(|(_, alert)| !alert.is_firing);
    over.map(|(index, alert)| ((alert.host.as_str(), alert.key.as_str()), index)).collect()
}

/// The policies of a fleet of these sizes.
fn fit(policies: &Policies, services: &[(String, u64, u64)]) -> Policies {
    let mut policies = policies.clone();
    for service in &mut policies.services {
        let of = |(name, _, _): &&(String, u64, u64)| *name == service.name;
        service.size = services.iter().find(of).map(|(_, _, size)| *size).or(service.size);
    }
    policies
}

/// The services of the fleet: as large as the policy file says, in proportion, or as large as each other; for hosts of a record, as
/// many as it names.
fn services(policies: &Policies, plan: &Plan) -> Vec<(String, u64, u64)> {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    if plan.recorded.is_empty() {
        let named = policies.policies.iter().map(|policy| policy.service.as_str());
        let told = policies.services.iter().map(|service| service.name.as_str());
        for name in named.chain(told).filter(|name| *name != ANY_SERVICE) {
            sizes.insert(name.to_owned(), policies.service(name).and_then(|service| service.size).unwrap_or(0));
        }
        if sizes.is_empty() {
            sizes.insert("fleet".to_owned(), 0);
        }
        share_out(&mut sizes, plan.hosts);
    } else {
        let mut hosts: BTreeMap<String, HashSet<&str>> = BTreeMap::new();
        for alert in &plan.recorded {
            hosts.entry(policies.service_of(alert).to_owned()).or_default().insert(&alert.host);
        }
        // Hosts that never had an alert are not in the record; the plan says how many hosts there are at least.
        sizes = hosts.into_iter().map(|(service, hosts)| (service, hosts.len() as u64)).collect();
        let all: u64 = sizes.values().sum();
        if plan.hosts > all {
            share_out(&mut sizes, plan.hosts);
        }
    }
    let mut first = 0;
    let place = |(name, size): (String, u64)| {
        first += size;
        (name, first - size, size)
    };
    sizes.into_iter().map(place).collect()
}

/// Makes the sizes add up to so many hosts. One that is not known is as large as the others are on average.
fn share_out(sizes: &mut BTreeMap<String, u64>, hosts: u64) {
    let known: Vec<u64> = sizes.values().copied().filter(|size| *size > 0).collect();
    let average = (known.iter().sum::<u64>() / (known.len() as u64).max(1)).max(1);
    sizes.values_mut().filter(|size| **size == 0).for_each(|size| *size = average);
    let all: u64 = sizes.values().sum();
    let (mut left, mut rest) = (hosts, all);
    for size in sizes.values_mut() {
        let share = (u128::from(left) * u128::from(*size) / u128::from(rest.max(1))) as u64;
        rest -= *size;
        *size = share;
        left -= share;
    }
}

/// A wait of an exponential distribution with this mean, nanoseconds.
fn wait_ns(random: &mut Random, mean_ns: f64) -> u64 {
    (-(1.0 - random.unit()).ln() * mean_ns) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn cases_that_are_put_aside_change_no_decision() {
        let text = "[[policy]]\nservice = \"web\"\nsteps = [\"recheck\", \"drain\", \"stress:4h\", \"reboot\", \"return\"]\nverify = \"none\"\n\
                    [[policy]]\nservice = \"db\"\nsteps = [\"drain\", \"stress:8h\", \"return\"]\nhosts_at_once = 20\nper_hour = 20";
        let policies = Policies::parse(text, "p").unwrap();
        let plan = Plan { hosts: 30_000, days: 5, seed: 7, ..Plan::default() };
        let (few, mut all) = (Fleet::new(&policies, &plan), Fleet::new(&policies, &plan));
        all.shelf.at_hand = usize::MAX;
        let (few, all) = (few.run(), all.run());
        assert!(few.open_count > 60 && few.with_person_count > 0, "{few:?}");
        assert_eq!(few, all);
    }
}
