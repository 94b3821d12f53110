//! Which alerts become cases.

use super::limits::Limits;
use super::{CHANGES_MAX, Controller, actor, closing, conclude, entry};
use crate::policy::{HOUR_NS, Policies, Policy, utc_text};
use crate::{Change, World};
use std::collections::{BTreeMap, HashMap, HashSet};
use surefoot_model::{Alert, AuditEntry, Case, CaseState, CaseStep, CaseWait, Lease, clipped};

/// Open cases of one host; further alerts of it wait until one is closed.
const CASES_OF_HOST_MAX: usize = 32;
/// The longest text that is kept of an alert.
const TEXT_CHARS_MAX: usize = 1_000;
/// The most lines of evidence that are kept of an alert.
const EVIDENCE_MAX: usize = 100;

pub(super) fn open(
    world: &World,
    policies: &Policies,
    controller: &Controller,
    limits: &Limits<'_>,
    changes: &mut Vec<(Change, AuditEntry)>,
) {
    let now_ns = world.now_realtime_ns;
    let mut troubles: HashSet<(&str, &str, &str)> =
        world.open.iter().map(|case| (case.host.as_str(), case.fault.as_str(), case.subject.as_str())).collect();
    let mut of_host = open_of_hosts(world);
    let closed = Closed::of(world, policies);
    let mut alerts: Vec<&Alert> = world.alerts.iter().collect();
    alerts.sort_by_key(|alert| (std::cmp::Reverse(alert.severity), alert.since_realtime_ns));
    for alert in alerts {
        if changes.len() >= CHANGES_MAX {
            return;
        }
        let mut settle = |action: &str, reason: &str| {
            let line = entry(now_ns, 0, &actor(&controller.name), action, &target(alert), reason);
            changes.push((Change::Settle { host: alert.host.clone(), key: alert.key.clone() }, line));
        };
        if !alert.is_firing {
            settle("over", "the alert was over before it became a case");
            continue;
        }
        let Some(policy) = policies.of(alert) else {
            settle("no_policy", "no policy is for it");
            continue;
        };
        let for_person = match wait(alert, policy, limits, &closed, now_ns) {
            Wait::None => None,
            Wait::Relapse { of } => Some(format!("case {of} repaired it, and it fires again within the cool-down")),
            Wait::Worse { of } => Some(format!("it is worse than what case {of} was about, whose host cools down")),
            Wait::HoldOff { .. } | Wait::CoolDown { .. } => continue,
        };
        // One that finds something new of itself at each look is one sick host, and not a thousand cases; the rest of it waits.
        let count = of_host.entry(&alert.host).or_default();
        if *count >= CASES_OF_HOST_MAX {
            continue;
        }
        if !troubles.insert((&alert.host, &alert.fault, &alert.subject)) {
            settle("known", "an open case is about the same fault of the host");
            continue;
        }
        *count += 1;
        let mut case = case_of(alert, policy, policies.service_of(alert), now_ns);
        let mut why = format!("policy {}", policy.name);
        if let Some(for_person) = for_person {
            closing::give_to_person(&mut case, policy.ticket.as_deref(), now_ns);
            why += &format!("; {for_person}: a person gets it");
        }
        let line = entry(now_ns, 0, &actor(&controller.name), "opened", &target(alert), &why);
        changes.push((Change::Open(Box::new(case)), line));
    }
}

/// Why an alert gets no case for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldReason {
    /// A case of its host, or of itself, was closed lately.
    CoolDown,
    /// It has not fired for the policy's `hold_off` yet.
    HoldOff,
    /// Its host has the most open cases that one host may have.
    CasesOfHost,
}

impl HeldReason {
    /// All of them.
    pub const ALL: [HeldReason; 3] = [HeldReason::CoolDown, HeldReason::HoldOff, HeldReason::CasesOfHost];

    /// The word that metrics have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            HeldReason::CoolDown => "cool_down",
            HeldReason::HoldOff => "hold_off",
            HeldReason::CasesOfHost => "cases_of_host",
        }
    }
}

/// An alert that gets no case for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// Its host.
    pub host: String,
    /// See [`Alert::key`].
    pub key: String,
    /// Why.
    pub reason: HeldReason,
    /// Tells this firing of the alert from another, where each is to be noted; 0 where one note is enough for an alert that comes and goes.
    pub since_realtime_ns: u64,
    /// The line of the audit trail that says so.
    pub entry: AuditEntry,
}

/// The alerts that get no case for now, at most [`CHANGES_MAX`], and how many there are for each reason.
pub fn held_back(
    world: &World,
    policies: &Policies,
    controller: &Controller,
) -> (Vec<HeldBack>, BTreeMap<HeldReason, usize>) {
    let limits = Limits::of(world, policies);
    let (closed, of_host) = (Closed::of(world, policies), open_of_hosts(world));
    let now_ns = world.now_realtime_ns;
    let (mut held, mut counts) = (Vec::new(), BTreeMap::new());
    for alert in world.alerts.iter().filter(|alert| alert.is_firing) {
        let Some(policy) = policies.of(alert) else { continue };
        let (reason, since_realtime_ns, why) = match wait(alert, policy, &limits, &closed, now_ns) {
            Wait::CoolDown { until_ns } => {
                let until = utc_text(until_ns);
                let why = format!("the cool-down of policy {}: no case before {until}", policy.name);
                (HeldReason::CoolDown, alert.since_realtime_ns, why)
            }
            Wait::HoldOff { until_ns } => {
                let until = utc_text(until_ns);
                let why = format!("the hold-off of policy {}: no case before {until}, if it still fires", policy.name);
                (HeldReason::HoldOff, 0, why)
            }
            _ if of_host.get(&*alert.host).is_some_and(|count| *count >= CASES_OF_HOST_MAX) => {
                let why = format!("{} has {CASES_OF_HOST_MAX} open cases: no case until one is closed", alert.host);
                (HeldReason::CasesOfHost, 0, why)
            }
            // What gets a case is no longer held back.
            Wait::None | Wait::Relapse { .. } | Wait::Worse { .. } => continue,
        };
        *counts.entry(reason).or_default() += 1;
        if held.len() < CHANGES_MAX {
            let entry = entry(now_ns, 0, &actor(&controller.name), "held_back", &target(alert), &why);
            let (host, key) = (alert.host.clone(), alert.key.clone());
            held.push(HeldBack { host, key, reason, since_realtime_ns, entry });
        }
    }
    (held, counts)
}

/// The number of open cases of each host.
fn open_of_hosts(world: &World) -> HashMap<&str, usize> {
    let mut of_host: HashMap<&str, usize> = HashMap::new();
    for case in &world.open {
        *of_host.entry(&case.host).or_default() += 1;
    }
    of_host
}

/// The clocks of those who tell of alerts may differ from the store's by so much.
const SKEW_NS: u64 = 30 * 1_000_000_000;

/// The cases that were closed lately.
struct Closed<'a> {
    policies: &'a Policies,
    /// The one of each alert that was closed last, by host and key. By number, because one that was closed while the clock was ahead would stay
    /// the last for as long.
    last: HashMap<(&'a str, &'a str), &'a Case>,
    /// Those of each host that no dry run was.
    of_host: HashMap<&'a str, Vec<&'a Case>>,
}

impl<'a> Closed<'a> {
    fn of(world: &'a World, policies: &'a Policies) -> Self {
        let mut closed = Closed { policies, last: HashMap::new(), of_host: HashMap::new() };
        for case in &world.closed {
            let last = closed.last.entry((&case.host, &case.alert_key)).or_insert(case);
            if case.id >= last.id {
                *last = case;
            }
            if !case.is_dry_run {
                closed.of_host.entry(&case.host).or_default().push(case);
            }
        }
        closed
    }

    /// Whether an alert is a person's at once though its host cools down. The same trouble may have another key and its host another name.
    fn for_person(&self, alert: &Alert, policy: &Policy, now_ns: u64) -> Option<Wait> {
        let since_ns = alert.since_realtime_ns;
        let of_host =
            self.policies.hosts.names(&alert.host).filter_map(|name| self.of_host.get(name)).flatten().copied();
        let cools = |case: &&Case| case.state_since_realtime_ns.saturating_add(policy.cool_down_ns) > now_ns;
        let of_host: Vec<&Case> = of_host.filter(cools).collect();
        let of_fault =
            || of_host.iter().copied().filter(|case| (&case.fault, &case.subject) == (&alert.fault, &alert.subject));
        // A case that was closed while this fired, and was about nothing less: somebody knew of it.
        let is_known_after = |id: u64| {
            of_fault()
                .filter(|case| case.id > id && case.is_firing)
                .any(|case| since_ns <= case.state_since_realtime_ns && alert.severity <= case.severity)
        };
        let is_repaired = |case: &&Case| case.state == CaseState::Returned && conclude::is_repaired(case);
        if let Some(repaired) = of_fault().filter(is_repaired).max_by_key(|case| case.id)
            && fires_after(alert, repaired)
            && !is_known_after(repaired.id)
        {
            return Some(Wait::Relapse { of: repaired.id });
        }
        let touched = |case: &&Case| case.began_realtime_ns != 0;
        let last_of_fault = of_fault().filter(touched).max_by_key(|case| case.id);
        let worst = of_host.iter().copied().filter(touched).max_by_key(|case| (case.severity, case.id));
        let less = last_of_fault.into_iter().chain(worst).find(|case| alert.severity > case.severity)?;
        (!is_known_after(0)).then_some(Wait::Worse { of: less.id })
    }
}

/// Whether an alert was over after the repair of this case, and fires again.
fn fires_after(alert: &Alert, repaired: &Case) -> bool {
    let is_its_own = (&alert.host, &alert.key) == (&repaired.host, &repaired.alert_key);
    // The store takes no word on an alert that is older than the last one: one that was over has begun anew since.
    if is_its_own && !repaired.is_firing {
        return true;
    }
    let since_ns = alert.since_realtime_ns;
    since_ns > repaired.since_realtime_ns && since_ns.saturating_add(SKEW_NS) >= conclude::helped_ns(repaired)
}

/// Why an alert is left for a later decision.
enum Wait {
    /// It is not.
    None,
    /// It does not hold long enough yet.
    HoldOff { until_ns: u64 },
    /// A case of its host, or of itself, was closed lately.
    CoolDown { until_ns: u64 },
    /// This case repaired it lately, the host went back, and it fires again: no step of ours is to try the same once more, and waiting until
    /// the cool-down is over would leave a host at work whose repair has not helped.
    Relapse { of: u64 },
    /// It is worse than what this case was about, after which its host cools down.
    Worse { of: u64 },
}

fn wait(alert: &Alert, policy: &Policy, limits: &Limits<'_>, closed: &Closed<'_>, now_ns: u64) -> Wait {
    // What is said to begin far in the future comes from a clock that is wrong, and is not to wait for it.
    let since_ns = if alert.since_realtime_ns > now_ns.saturating_add(HOUR_NS) { 0 } else { alert.since_realtime_ns };
    let until_ns = since_ns.saturating_add(policy.hold_off_ns);
    if until_ns > now_ns {
        return if policy.hold_off_ns > 0 { Wait::HoldOff { until_ns } } else { Wait::None };
    }
    if let Some(until_ns) = limits.cools_until_ns(&alert.host, policy) {
        return closed.for_person(alert, policy, now_ns).unwrap_or(Wait::CoolDown { until_ns });
    }
    // The same alert, which held when its case was closed without anything being done, because somebody cancelled it or the recheck
    // did not find the fault: it is asked again only after a while, or when it is worse.
    let last = closed
        .last
        .get(&(alert.host.as_str(), alert.key.as_str()))
        .filter(|last| last.is_firing && since_ns <= last.state_since_realtime_ns && alert.severity <= last.severity);
    let Some(last) = last else { return Wait::None };
    let wait_ns = match last.state {
        CaseState::Cancelled => policy.cool_down_ns,
        _ => policy.cool_down_ns.min(HOUR_NS),
    };
    let until_ns = last.state_since_realtime_ns.saturating_add(wait_ns);
    if until_ns > now_ns { Wait::CoolDown { until_ns } } else { Wait::None }
}

fn target(alert: &Alert) -> String {
    clipped(&format!("{} {}", alert.host, alert.fault), TEXT_CHARS_MAX)
}

fn case_of(alert: &Alert, policy: &Policy, service: &str, now_ns: u64) -> Case {
    let steps = policy.steps.iter().map(|step| CaseStep {
        step: step.to_string(),
        needs_approval: step.is_for_good() || policy.approve.contains(step),
        ..CaseStep::default()
    });
    let kept = |text: &str| clipped(text, TEXT_CHARS_MAX);
    Case {
        id: 0,
        host: alert.host.clone(),
        service: service.to_owned(),
        fault: alert.fault.clone(),
        subject: alert.subject.clone(),
        alert_key: alert.key.clone(),
        severity: alert.severity,
        sentence: kept(&alert.sentence),
        evidence: alert.evidence.iter().take(EVIDENCE_MAX).map(|line| kept(line)).collect(),
        policy: policy.name.clone(),
        state: CaseState::Waiting,
        steps: steps.collect(),
        waits_for: String::new(),
        wait: CaseWait::Other,
        is_firing: true,
        is_drained: false,
        ticket: String::new(),
        part: None,
        replaced: None,
        since_realtime_ns: now_ns,
        state_since_realtime_ns: now_ns,
        began_realtime_ns: 0,
        quiet_since_realtime_ns: 0,
        ends_as: None,
        is_dry_run: policy.is_dry_run,
        lease: Lease::default(),
        revision: 0,
    }
}
