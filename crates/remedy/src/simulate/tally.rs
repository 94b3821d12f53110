use crate::decide::allowed_out;
use crate::policy::{HOUR_NS, Policy};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The outcome for a service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceTally {
    /// How many hosts it has.
    pub host_count: u64,
    /// Cases that were opened.
    pub case_count: u64,
    /// The most of its hosts that were out at once.
    pub hosts_out_at_once_max: u64,
    /// The share of the hosts' time in which they were in service.
    pub availability: f64,
    /// How long its hosts were out of service, all together, nanoseconds.
    pub(super) out_ns: u128,
}

/// What came of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simulated {
    /// Cases that were opened.
    pub case_count: u64,
    /// The most hosts that were out at once, of all services.
    pub hosts_out_at_once_max: u64,
    /// How often a host was taken up although a limit of its policy was reached; counted apart from the decisions.
    pub limit_violation_count: u64,
    /// The share of all hosts' time in which they were in service.
    pub availability: f64,
    /// Cases in which something was repaired by a step.
    pub repair_count: u64,
    /// Those of them whose alert was a false one.
    pub false_repair_count: u64,
    /// Parts that people replaced.
    pub replaced_count: u64,
    /// Those of them that tested good: something else was wrong.
    pub tested_good_count: u64,
    /// Parts that were repaired by steps in two cases or more before they were replaced.
    pub repeat_offender_count: u64,
    /// How often another part was put into a place: those that were replaced, and those that tested good and were put back.
    pub swap_count: u64,
    /// Work of people: approvals, and repairs of what no step repaired.
    pub person_hours: f64,
    /// Cases that went to a person.
    pub with_person_count: u64,
    /// Cases whose alert was over before anything was done.
    pub cleared_count: u64,
    /// Cases that are still open at the end.
    pub open_count: u64,
    /// Alerts that no policy was for.
    pub unmatched_count: u64,
    /// How long a case waited before it touched its host, on average over those that did, hours.
    pub wait_hours_mean: f64,
    /// By service.
    pub services: BTreeMap<String, ServiceTally>,
}

/// Counts what happens as it happens, knowing nothing of how it was decided.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) result: Simulated,
    /// Hosts that cases hold, by service: since a case touched its host until it is closed.
    held: HashMap<String, HashMap<String, u64>>,
    /// Since when each host is out of service.
    out_since: HashMap<String, u64>,
    taken_up: HashMap<String, VecDeque<u64>>,
    out_count: u64,
    wait_ns: u128,
    begun_count: u64,
}

impl Tally {
    /// A case touches its host for the first time.
    pub(super) fn take_up(&mut self, case: &surefoot_model::Case, policy: &Policy, service_size: u64, now_ns: u64) {
        let held = self.held.entry(case.service.clone()).or_default();
        *held.entry(case.host.clone()).or_default() += 1;
        let out = held.len() as u64;
        let taken_up = self.taken_up.entry(case.service.clone()).or_default();
        while taken_up.front().is_some_and(|at| at + HOUR_NS <= now_ns) {
            taken_up.pop_front();
        }
        taken_up.push_back(now_ns);
        let is_exceeded = out > allowed_out(policy, service_size) || taken_up.len() as u64 > policy.per_hour;
        self.result.limit_violation_count += u64::from(is_exceeded);
        let service = self.result.services.entry(case.service.clone()).or_default();
        service.hosts_out_at_once_max = service.hosts_out_at_once_max.max(out);
        let all = self.held.values().map(|hosts| hosts.len() as u64).sum();
        self.result.hosts_out_at_once_max = self.result.hosts_out_at_once_max.max(all);
        self.wait_ns += u128::from(now_ns.saturating_sub(case.since_realtime_ns));
        self.begun_count += 1;
    }

    /// A case that touched its host holds it no more.
    pub(super) fn let_go(&mut self, case: &surefoot_model::Case) {
        let Some(held) = self.held.get_mut(&case.service) else { return };
        if let Some(count) = held.get_mut(&case.host) {
            *count -= 1;
            if *count == 0 {
                held.remove(&case.host);
            }
        }
    }

    pub(super) fn drained(&mut self, host: &str, now_ns: u64) {
        if self.out_since.insert(host.to_owned(), now_ns).is_none() {
            self.out_count += 1;
        }
    }

    pub(super) fn returned(&mut self, host: &str, service: &str, now_ns: u64) {
        if let Some(since_ns) = self.out_since.remove(host) {
            self.out_count -= 1;
            let service = self.result.services.entry(service.to_owned()).or_default();
            service.out_ns += u128::from(now_ns.saturating_sub(since_ns));
        }
    }

    pub(super) fn finish(mut self, hosts: u64, time_ns: u64) -> Simulated {
        let share = |out_ns: u128, hosts: u64| match u128::from(hosts) * u128::from(time_ns) {
            0 => 1.0,
            all => 1.0 - out_ns as f64 / all as f64,
        };
        let result = &mut self.result;
        result
            .services
            .values_mut()
            .for_each(|service| service.availability = share(service.out_ns, service.host_count));
        result.availability = share(result.services.values().map(|service| service.out_ns).sum(), hosts);
        if self.begun_count > 0 {
            result.wait_hours_mean = self.wait_ns as f64 / self.begun_count as f64 / HOUR_NS as f64;
        }
        self.result
    }
}
