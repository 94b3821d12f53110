//! How many hosts are out, how many may be, and what a case has to wait for before it touches its host.

use super::advance::Reason;
use super::twins::Twins;
use crate::policy::{ANY_SERVICE, HOUR_NS, Policies, Policy, utc_text};
use crate::{Step, World};
use std::collections::{HashMap, HashSet};
use surefoot_model::{Case, CaseState, CaseWait, StepState, UnreadCase};

/// How many cases are named that are dated in the future.
const NAMED_MAX: usize = 5;

/// Whether a case holds its host: it did something to it, and the host is not back. Where no scheduler is named, hooks may have taken it
/// out of service, and it counts as out.
pub fn is_out(case: &Case) -> bool {
    let may_be_out = case.is_drained || case.steps.iter().any(|step| step.is_not_needed && step.step == "drain");
    case.state.is_open() && case.began_realtime_ns != 0 && (may_be_out || case.state != CaseState::WithPerson)
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
    /// The same by whatever else the host may be known.
    twins: Twins,
    /// The case that touched a host and was closed last, by its date.
    closed: HashMap<&'a str, Last>,
    /// The first open case of a host that cannot be read.
    unread: HashMap<&'a str, &'a UnreadCase>,
}

/// The number of a case that was closed, and when.
#[derive(Clone, Copy)]
struct Last {
    id: u64,
    closed_ns: u64,
}

impl<'a> Limits<'a> {
    pub(super) fn of(world: &'a World, policies: &'a Policies) -> Self {
        let (out, holders, closed, unread) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let twins = Twins::default();
        let mut limits = Limits { world, policies, out, holders, twins, closed, unread };
        for case in world.open.iter().filter(|case| case.began_realtime_ns != 0) {
            limits.count(case);
        }
        for case in world.closed.iter().filter(|case| case.began_realtime_ns != 0) {
            limits.count_rate(case);
            if !case.is_dry_run {
                limits.note_closed(&case.host, case.id, case.state_since_realtime_ns);
            }
        }
        for case in &world.unread {
            limits.count_unread(case);
        }
        limits
    }

    fn note_closed(&mut self, host: &'a str, id: u64, closed_ns: u64) {
        let last = self.closed.entry(host).or_insert(Last { id, closed_ns });
        if closed_ns > last.closed_ns {
            *last = Last { id, closed_ns };
        }
    }

    /// Counts a case that cannot be read as one that touched its host as late as it can have: an open one has it out of service.
    fn count_unread(&mut self, case: &'a UnreadCase) {
        if case.is_open {
            self.unread.entry(&case.host).or_insert(case);
        } else {
            self.note_closed(&case.host, case.id, case.state_since_realtime_ns);
        }
        let is_late = case.is_open || case.state_since_realtime_ns.saturating_add(HOUR_NS) > self.world.now_realtime_ns;
        for is_dry_run in [false, true] {
            if case.is_open {
                self.twins.note(self.world, self.policies, &case.host, is_dry_run, case.id);
            }
            let out = self.out.entry((case.service.clone(), is_dry_run)).or_default();
            out.taken_up_count += u64::from(is_late);
            if case.is_open {
                out.hosts.insert(first_name(self.policies, &case.host));
            }
        }
    }

    /// Why nothing is begun at a host: one of its cases cannot be read.
    pub(super) fn held_by_unread(&self, host: &str) -> Option<Reason> {
        let unread = self.unread.get(host)?;
        let words = format!(
            "{}: what it did to the host is not known. Use the release that wrote it, or close it with `surefoot remedy cancel {}`",
            unread.says(),
            unread.id
        );
        Some((CaseWait::Other, words))
    }

    /// Counts a case that touches its host.
    pub(super) fn count(&mut self, case: &Case) {
        self.count_rate(case);
        if is_out(case) {
            let out = self.out.entry((case.service.clone(), case.is_dry_run)).or_default();
            out.hosts.insert(first_name(self.policies, &case.host));
        }
        self.holders.entry((case.host.clone(), case.is_dry_run)).or_insert(case.id);
        self.twins.note(self.world, self.policies, &case.host, case.is_dry_run, case.id);
    }

    fn count_rate(&mut self, case: &Case) {
        if case.began_realtime_ns.saturating_add(HOUR_NS) > self.world.now_realtime_ns {
            self.out.entry((case.service.clone(), case.is_dry_run)).or_default().taken_up_count += 1;
        }
    }

    /// Until when a host is left alone; `None` where it is not.
    pub(super) fn cools_until_ns(&self, host: &str, policy: &Policy) -> Option<u64> {
        let until_ns = self.last_closed(host)?.closed_ns.saturating_add(policy.cool_down_ns);
        (until_ns > self.world.now_realtime_ns).then_some(until_ns)
    }

    /// The case of a host, by any name that the policy file gives it, that was closed last.
    fn last_closed(&self, host: &str) -> Option<Last> {
        let of_names = self.policies.hosts.names(host).filter_map(|name| self.closed.get(name).copied());
        of_names.max_by_key(|last| last.closed_ns)
    }

    /// Whether something was dated by a clock that was ahead.
    fn is_ahead(&self, at_realtime_ns: u64) -> bool {
        at_realtime_ns > self.world.now_realtime_ns
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
            Some(holder) if *holder != case.id => {
                return other(format!("case {holder} of the same host, until it is closed"));
            }
            _ => {}
        }
        if let Some(twin) = self.twins.of(self.world, self.policies, &case.host, case.is_dry_run) {
            return other(twin.says(&case.host));
        }
        if let Some(until_ns) = self.cools_until_ns(&case.host, policy) {
            let ahead = self.last_closed(&case.host).filter(|last| self.is_ahead(last.closed_ns));
            return other(match ahead {
                Some(last) => format!(
                    "the cool-down of the host: case {} is dated in the future ({}) by a clock that was ahead",
                    last.id,
                    utc_text(last.closed_ns)
                ),
                None => format!("the cool-down of the host, until {}", utc_text(until_ns)),
            });
        }
        if let Some(window) = self.closed_window(&case.service, policy) {
            return other(format!("the maintenance window {window}, until it opens"));
        }
        let empty = Out::default();
        let out = self.out.get(&(case.service.clone(), case.is_dry_run)).unwrap_or(&empty);
        let allowed = allowed_out(policy, self.service_size(&case.service));
        if out.hosts.len() as u64 >= allowed && !out.hosts.contains(&first_name(self.policies, &case.host)) {
            let of = if case.service.is_empty() { "without a service" } else { &case.service };
            let name = if allowed < policy.hosts_at_once { "share_of_service" } else { "hosts_at_once" };
            return Some(limit(format!(
                "the limit {name} ({allowed} of {of} out at once), until a host that is out returns"
            )));
        }
        (out.taken_up_count >= policy.per_hour).then(|| {
            let of_service = self.world.open.iter().chain(&self.world.closed).filter(|other| {
                other.service == case.service
                    && other.is_dry_run == case.is_dry_run
                    && self.is_ahead(other.began_realtime_ns)
            });
            let ahead: Vec<String> = of_service.take(NAMED_MAX).map(|other| other.id.to_string()).collect();
            let counts = match ahead.as_slice() {
                [] => String::new(),
                cases => {
                    format!("; case {} is dated in the future by a clock that was ahead, and counts", cases.join(", "))
                }
            };
            limit(format!(
                "the limit per_hour ({} an hour), until fewer were taken up in the last hour{counts}",
                policy.per_hour
            ))
        })
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

/// The name under which a host is counted.
fn first_name(policies: &Policies, host: &str) -> String {
    policies.hosts.of(host).first().map_or(host, String::as_str).to_owned()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::decide::{Controller, decide};
    use serde_json::json;
    use surefoot_model::{Alert, CaseChange};

    const NOW_NS: u64 = 10_000 * HOUR_NS;

    fn policies(more: &str) -> Policies {
        Policies::parse(&format!("[[policy]]\nsteps = [\"drain\", \"reboot\"]\ncool_down = \"2h\"\n{more}"), "p")
            .unwrap()
    }

    fn case(id: u64, host: &str, state: &str, began_ns: u64, state_since_ns: u64) -> Case {
        serde_json::from_value(json!({
            "id": id, "host": host, "service": "", "fault": "memory/rate", "subject": "", "alert_key": "k",
            "severity": "warning", "sentence": "", "policy": "", "state": state, "is_firing": true, "is_drained": false,
            "since_realtime_ns": 1, "began_realtime_ns": began_ns, "state_since_realtime_ns": state_since_ns,
            "revision": 1, "steps": [],
        }))
        .unwrap()
    }

    fn world(closed: &[Case]) -> World {
        World { now_realtime_ns: NOW_NS, closed: closed.to_vec(), ..World::default() }
    }

    fn wait(closed: &[Case], policies: &Policies) -> Option<String> {
        let world = world(closed);
        let reason = Limits::of(&world, policies).wait(&case(99, "h1", "waiting", 0, 1), &policies.policies[0]);
        reason.map(|(_, words)| words)
    }

    #[test]
    fn a_cool_down_that_a_date_in_the_future_prolongs_names_the_case() {
        let policies = policies("");
        let old = case(7, "h1", "returned", 1, NOW_NS - 3 * HOUR_NS);
        assert_eq!(wait(std::slice::from_ref(&old), &policies), None);
        let ahead = case(8, "h1", "returned", 1, NOW_NS + 24 * HOUR_NS);
        let why = wait(&[ahead, old], &policies).unwrap();
        assert!(why.starts_with("the cool-down of the host: case 8 is dated in the future (1971-02-22"), "{why}");
        let recent = case(9, "h1", "returned", 1, NOW_NS - HOUR_NS);
        assert!(wait(&[recent], &policies).unwrap().starts_with("the cool-down of the host, until 1971-02-21"));
    }

    /// What a case that cannot be read did to its host is not known.
    #[test]
    fn a_case_that_cannot_be_read_holds_its_host_and_counts_as_out() {
        let policies = policies("hosts_at_once = 1\n");
        let unread = |id, host: &str, is_open, state_since_realtime_ns| UnreadCase {
            id,
            host: host.into(),
            is_open,
            state_since_realtime_ns,
            why: "cut off".into(),
            ..UnreadCase::default()
        };
        let of = |state: &str, steps: serde_json::Value, began_ns| Case {
            steps: serde_json::from_value(steps).unwrap(),
            policy: "policy 1".into(),
            ..case(99, "h1", state, began_ns, 1)
        };
        let policy = policies.policies[0].name.clone();
        let says = |unread: &[UnreadCase], about: &Case| {
            let about = Case { policy: policy.clone(), ..about.clone() };
            let world = World { open: vec![about], unread: unread.to_vec(), ..world(&[]) };
            let controller = Controller { name: "c".into(), free_count: 1, lease_ns: 1 };
            let (change, line) = decide(&world, &policies, &controller).remove(0);
            let CaseChange::Update(case) = change else { panic!("{change:?}") };
            (line.action, case.waits_for)
        };
        let pending = |step: &str| json!([{ "step": step, "state": "pending", "attempt_count": 0 }]);
        let fresh = of("waiting", pending("reboot"), 0);
        assert_eq!(says(&[], &fresh).0, "begun");
        let held = [unread(7, "h1", true, 1)];
        let (action, why) = says(&held, &fresh);
        assert!(action == "waits" && why.starts_with("case 7 of h1 cannot be read (cut off)"), "{why}");
        assert!(why.ends_with("`surefoot remedy cancel 7`"), "{why}");
        // Also what the case was already at, and what would bring the host back.
        let begun = of("running", pending("reboot"), NOW_NS - 1);
        assert_eq!(says(&held, &begun).0, "waits");
        assert_eq!(
            says(&held, &Case { ends_as: Some(CaseState::Cancelled), ..of("running", pending("return"), 1) }).0,
            "waits"
        );
        // A ticket touches no host.
        assert_eq!(says(&held, &of("running", pending("ticket:desk"), 1)).0, "begun");
        // Another host waits for the limit, because that one may be out.
        let (_, why) = says(&[unread(7, "h2", true, 1)], &fresh);
        assert!(why.starts_with("the limit hosts_at_once"), "{why}");
        // One that is closed has its host cool down.
        let (_, why) = says(&[unread(7, "h1", false, NOW_NS - HOUR_NS)], &fresh);
        assert!(why.starts_with("the cool-down of the host"), "{why}");
        assert_eq!(says(&[unread(7, "h1", false, NOW_NS - 3 * HOUR_NS)], &fresh).0, "begun");
    }

    #[test]
    fn a_rate_that_a_date_in_the_future_fills_names_the_case() {
        let policies = policies("per_hour = 1\n");
        let old_ns = NOW_NS - 3 * HOUR_NS;
        assert_eq!(wait(&[case(7, "h2", "returned", old_ns, old_ns)], &policies), None);
        let why = wait(&[case(8, "h2", "returned", NOW_NS + 24 * HOUR_NS, old_ns)], &policies).unwrap();
        assert!(why.starts_with("the limit per_hour (1 an hour), until fewer were taken up in the last hour; case 8 is dated in the future"), "{why}");
        let now = wait(&[case(9, "h2", "returned", NOW_NS - 1, old_ns)], &policies);
        assert_eq!(now.as_deref(), Some("the limit per_hour (1 an hour), until fewer were taken up in the last hour"));
    }

    /// The case of an alert that was closed last is the newest one, whatever an older one's clock said.
    #[test]
    fn a_case_that_was_closed_in_the_future_does_not_hide_the_one_after_it() {
        let policies = policies("");
        let alert: Alert = serde_json::from_value(json!({
            "host": "h1", "key": "k", "fault": "memory/rate", "severity": "warning", "sentence": "",
            "origin": "finding", "is_firing": true, "since_realtime_ns": NOW_NS - 5 * HOUR_NS,
        }))
        .unwrap();
        let opens = |closed: &[Case]| {
            let world = World { alerts: vec![alert.clone()], ..world(closed) };
            let controller = Controller { name: "c".into(), free_count: 1, lease_ns: 1 };
            decide(&world, &policies, &controller).iter().any(|(change, _)| matches!(change, CaseChange::Open(_)))
        };
        // Nothing was done of either, so the host does not cool down.
        let ahead = case(7, "h1", "cancelled", 0, NOW_NS + 60 * 1_000_000_000);
        let old = case(8, "h1", "cancelled", 0, NOW_NS - 3 * HOUR_NS);
        assert!(!opens(std::slice::from_ref(&ahead)), "it counts as one that was cancelled lately");
        assert!(opens(&[old.clone(), ahead]), "the last one was cancelled three hours ago");
        assert!(!opens(&[case(8, "h1", "cancelled", 0, NOW_NS - HOUR_NS)]));
    }
}
