//! How many hosts are out, how many may be, and what a case has to wait for before it touches its host.

use super::advance::Reason;
use crate::policy::{ANY_SERVICE, HOUR_NS, Policies, Policy, utc_text};
use crate::{Step, World};
use std::collections::{HashMap, HashSet};
use surefoot_model::{Case, CaseState, CaseWait, StepState};

/// Whether a case holds its host: it did something to it, and the host is not back.
pub fn is_out(case: &Case) -> bool {
    case.state.is_open() && case.began_realtime_ns != 0 && (case.is_drained || case.state != CaseState::WithPerson)
}

/// How many hosts of a service may be out at once by a policy: the smaller of its number and its share of the service, which one host
/// always is.
pub fn allowed_out(policy: &Policy, service_size: u64) -> u64 {
    // Exact for every size below 2^53; rounding down a share such as 0.07 * 100 must not lose a host to the binary fraction.
    let share = (policy.share_of_service * service_size as f64 + 1e-9).floor() as u64;
    policy.hosts_at_once.min(share.max(1))
}

/// What is out of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Out {
    /// Its hosts that are out.
    pub hosts: HashSet<String>,
    /// How many were taken up within the last hour.
    pub taken_up_count: u64,
}

/// The counts that limits are about, kept up while a decision begins one case after another.
pub(super) struct Limits<'a> {
    world: &'a World,
    policies: &'a Policies,
    /// By service, and whether the cases are dry runs: these count among themselves, so that they wait as real ones would.
    out: HashMap<(String, bool), Out>,
    /// The case that holds each host.
    holders: HashMap<(String, bool), u64>,
    /// When the last case that touched a host was closed.
    closed_at: HashMap<&'a str, u64>,
}

impl<'a> Limits<'a> {
    pub(super) fn of(world: &'a World, policies: &'a Policies) -> Self {
        let (out, holders, closed_at) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut limits = Limits { world, policies, out, holders, closed_at };
        for case in world.open.iter().filter(|case| case.began_realtime_ns != 0) {
            limits.count(case);
        }
        for case in world.closed.iter().filter(|case| case.began_realtime_ns != 0) {
            limits.count_rate(case);
            if !case.is_dry_run {
                let at = limits.closed_at.entry(&case.host).or_default();
                *at = case.state_since_realtime_ns.max(*at);
            }
        }
        limits
    }

    /// Counts a case that touches its host.
    pub(super) fn count(&mut self, case: &Case) {
        self.count_rate(case);
        if is_out(case) {
            let out = self.out.entry((case.service.clone(), case.is_dry_run)).or_default();
            out.hosts.insert(case.host.clone());
        }
        self.holders.entry((case.host.clone(), case.is_dry_run)).or_insert(case.id);
    }

    fn count_rate(&mut self, case: &Case) {
        if case.began_realtime_ns.saturating_add(HOUR_NS) > self.world.now_realtime_ns {
            self.out.entry((case.service.clone(), case.is_dry_run)).or_default().taken_up_count += 1;
        }
    }

    /// Until when a host is left alone; `None` where it is not.
    pub(super) fn cools_until_ns(&self, host: &str, policy: &Policy) -> Option<u64> {
        let until_ns = self.closed_at.get(host)?.saturating_add(policy.cool_down_ns);
        (until_ns > self.world.now_realtime_ns).then_some(until_ns)
    }

    /// How many hosts a service has; 0 where nobody knows.
    fn service_size(&self, service: &str) -> u64 {
        let stated = self.policies.service(service).and_then(|service| service.size);
        stated.or_else(|| self.world.service_hosts.get(service).copied()).unwrap_or(0)
    }

    /// What a case waits for that is to touch its host for the first time. The words stay the same while the wait lasts, because each
    /// change of them is written down.
    pub(super) fn wait(&self, case: &Case, policy: &Policy) -> Option<Reason> {
        let other = |words: String| Some((CaseWait::Other, words));
        let limit = |words: String| (CaseWait::Limit, words);
        match self.holders.get(&(case.host.clone(), case.is_dry_run)) {
            Some(holder) if *holder != case.id => return other(format!("case {holder} of the same host")),
            _ => {}
        }
        if let Some(until_ns) = self.cools_until_ns(&case.host, policy) {
            return other(format!("the cool-down of the host, until {}", utc_text(until_ns)));
        }
        if let Some(window) = self.closed_window(&case.service, policy) {
            return other(format!("window of maintenance {window}"));
        }
        let empty = Out::default();
        let out = self.out.get(&(case.service.clone(), case.is_dry_run)).unwrap_or(&empty);
        let allowed = allowed_out(policy, self.service_size(&case.service));
        if out.hosts.len() as u64 >= allowed && !out.hosts.contains(&case.host) {
            let of = if case.service.is_empty() { "without a service" } else { &case.service };
            let name = if allowed < policy.hosts_at_once { "share_of_service" } else { "hosts_at_once" };
            return Some(limit(format!("the limit {name}: {allowed} of {of} out at once")));
        }
        (out.taken_up_count >= policy.per_hour)
            .then(|| limit(format!("the limit per_hour: {} an hour", policy.per_hour)))
    }

    /// The windows that would have to open, where none of them is open. A policy's own and those of its service must both be.
    fn closed_window(&self, service: &str, policy: &Policy) -> Option<String> {
        let of_service = self.policies.service(service).map_or(&[][..], |service| &service.windows);
        [policy.windows.as_slice(), of_service].into_iter().find_map(|names| {
            let is_open = |name: &String| {
                self.policies.window(name).is_some_and(|window| window.is_open(self.world.now_realtime_ns))
            };
            (!names.is_empty() && !names.iter().any(is_open)).then(|| names.join(" or "))
        })
    }
}

/// Whether a case changed something of its host that stands: it is out of service, or settings are not restored.
pub(super) fn is_changed(case: &Case) -> bool {
    case.is_drained || !unrestored(case).is_empty()
}

/// The steps of a case that left settings behind and are not taken back, the newest first, by their place. What a step set that
/// succeeded is meant to stay, so it counts only where `all` changes are to be taken back; debug settings never are.
pub(super) fn left_behind(case: &Case, is_all: bool) -> Vec<usize> {
    let left = |(index, step): &(usize, &surefoot_model::CaseStep)| {
        let Ok(parsed) = step.step.parse::<Step>() else { return false };
        let is_begun = match step.state {
            StepState::Done => is_all || matches!(parsed, Step::Debug(_)),
            StepState::Failed | StepState::Running | StepState::InDoubt => true,
            // It failed for now, and is tried again: what it remembers may have to be taken back.
            StepState::Pending | StepState::Skipped => step.attempt_count > 0,
        };
        let restore = Step::Restore(Box::new(parsed.clone())).to_string();
        let is_restored =
            case.steps[*index..].iter().any(|later| later.step == restore && matches!(later.state, StepState::Done));
        parsed.has_way_back() && is_begun && !step.memo.is_empty() && !is_restored
    };
    let mut left: Vec<usize> = case.steps.iter().enumerate().filter(left).map(|(index, _)| index).collect();
    left.reverse();
    left
}

/// As [`left_behind`], of the debug mode and of steps that did not succeed.
pub(super) fn unrestored(case: &Case) -> Vec<usize> {
    left_behind(case, false)
}

/// Whether a policy is for this service.
pub(super) fn is_for(policy: &Policy, service: &str) -> bool {
    policy.service == ANY_SERVICE || policy.service == service
}
