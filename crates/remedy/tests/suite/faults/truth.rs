//! What really happened to the hosts, whatever the store says; and what must hold of it.

use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Case, CaseState};
use surefoot_remedy::Step;
use surefoot_remedy::act::{Found, Order};

/// How often what happened, so that a run in which nothing did is noticed.
#[derive(Debug, Default, Clone)]
pub struct Sums {
    pub cases: u64,
    pub effects: u64,
    pub kills: u64,
    pub cuts: u64,
    pub jumps: u64,
    pub vanished: u64,
    pub found_effects: u64,
    pub restored: u64,
    pub broken_off: u64,
    pub with_person: u64,
    pub returned: u64,
    pub cleared: u64,
    pub cancelled: u64,
}

impl Sums {
    pub fn counts(&self) -> [(&'static str, u64); 13] {
        [
            ("case", self.cases),
            ("effect", self.effects),
            ("kill", self.kills),
            ("cut", self.cuts),
            ("jump", self.jumps),
            ("vanished host", self.vanished),
            ("effect found", self.found_effects),
            ("restore", self.restored),
            ("attempt broken off", self.broken_off),
            ("case with a person", self.with_person),
            ("case returned", self.returned),
            ("case cleared", self.cleared),
            ("case cancelled", self.cancelled),
        ]
    }

    pub fn add(&mut self, other: &Sums) {
        let mine = [
            &mut self.cases,
            &mut self.effects,
            &mut self.kills,
            &mut self.cuts,
            &mut self.jumps,
            &mut self.vanished,
            &mut self.found_effects,
            &mut self.restored,
            &mut self.broken_off,
            &mut self.with_person,
            &mut self.returned,
            &mut self.cleared,
            &mut self.cancelled,
        ];
        for (mine, (_, theirs)) in mine.into_iter().zip(other.counts()) {
            *mine += theirs;
        }
    }
}

/// Limits of the policy that all cases follow.
pub struct Held {
    pub out_max: usize,
    pub per_hour: usize,
    /// No clock jumps in this run, so that times can be checked too.
    pub is_timed: bool,
}

#[derive(Default)]
pub struct Truth {
    pub sums: Sums,
    /// Hosts out of service, and the case that took them out.
    drained: BTreeMap<String, u64>,
    /// Hosts in debug settings.
    debug: BTreeSet<String>,
    /// Hosts with a changed setting, and the case that set it.
    firmware: BTreeMap<String, u64>,
    /// Attempts that had their effect.
    tokens: BTreeSet<String>,
    /// How often each step of each case that must not be done twice had its effect.
    done: BTreeMap<(u64, usize), u32>,
}

impl Truth {
    /// A step has its effect.
    pub fn effect(&mut self, order: &Order) {
        self.sums.effects += 1;
        self.tokens.insert(order.token.clone());
        let host = order.host.clone();
        match &order.step {
            Step::Drain => drop(self.drained.insert(host, order.case)),
            Step::Return => drop(self.drained.remove(&host)),
            Step::Firmware { .. } => drop(self.firmware.insert(host, order.case)),
            Step::Debug(_) => drop(self.debug.insert(host)),
            Step::Restore(of) => {
                self.sums.restored += 1;
                match of.as_ref() {
                    Step::Debug(_) => drop(self.debug.remove(&host)),
                    _ => drop(self.firmware.remove(&host)),
                }
            }
            step if !step.is_idempotent() => *self.done.entry((order.case, order.step_index)).or_default() += 1,
            _ => {}
        }
    }

    pub fn find(&mut self, order: &Order) -> Found {
        if self.tokens.contains(&order.token) && !order.step.has_way_back() {
            self.sums.found_effects += 1;
            return Found::Effect { detail: "found".into(), memo: order.memo.clone() };
        }
        Found::MayRepeat
    }

    pub fn check(&self, cases: &[Case], held: &Held, now_realtime_ns: u64) -> Result<(), String> {
        if let Some((step, count)) = self.done.iter().find(|(_, count)| **count > 1) {
            return Err(format!("step {step:?} was done {count} times"));
        }
        if self.drained.len() > held.out_max {
            return Err(format!("{} hosts are out, allowed are {}", self.drained.len(), held.out_max));
        }
        let open: BTreeMap<u64, &Case> =
            cases.iter().filter(|case| case.state.is_open()).map(|case| (case.id, case)).collect();
        for (host, id) in &self.drained {
            if !open.get(id).is_some_and(|case| case.is_drained && case.host == *host) {
                return Err(format!(
                    "{host} is out of service, and case {id} does not know: {:#?}",
                    cases.get(*id as usize)
                ));
            }
        }
        for host in &self.debug {
            if !open.values().any(|case| case.host == *host && case.began_realtime_ns != 0) {
                return Err(format!("{host} is in debug settings without an open case"));
            }
        }
        for (host, id) in &self.firmware {
            let case = cases.iter().find(|case| case.id == *id);
            if !case.is_some_and(|case| case.state.is_open() || case.state == CaseState::Returned) {
                return Err(format!("the setting of {host} was left behind by case {id}: {case:#?}"));
            }
        }
        let mut hosts = BTreeSet::new();
        for case in open.values().filter(|case| case.began_realtime_ns != 0) {
            if !hosts.insert(&case.host) {
                return Err(format!("two cases touch {}", case.host));
            }
        }
        if held.is_timed {
            let hour_ns = 3_600_000_000_000;
            let is_late =
                |case: &&Case| case.began_realtime_ns != 0 && case.began_realtime_ns + hour_ns > now_realtime_ns;
            let lately = cases.iter().filter(is_late).count();
            if lately > held.per_hour {
                return Err(format!("{lately} hosts were taken up within an hour, allowed are {}", held.per_hour));
            }
        }
        Ok(())
    }

    /// What must hold when the faults are over and everything has had its time.
    pub fn check_end(&self, cases: &[Case]) -> Result<(), String> {
        if let Some(case) = cases.iter().find(|case| case.state.is_open()) {
            return Err(format!("case {} does not end: {case:#?}", case.id));
        }
        if self.drained.is_empty() && self.debug.is_empty() {
            return Ok(());
        }
        Err(format!("left out of service {:?}, in debug settings {:?}", self.drained, self.debug))
    }
}
