//! What is done for an interface that hangs. Pure: it is told the time and what was done before.
//!
//! From what disturbs least to what disturbs most: the driver is asked to recover by the reporter that reports the fault; the link
//! is switched off and on; the PCI function is reset. The next is tried where the one before was, and the interface hangs still.

use crate::judge;
use crate::reporter::can_recover;
use std::collections::BTreeSet;
use surefoot_model::{
    Actor, Carried, Certainty, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, HealthReporter, Interface,
    InterfaceState, Room, Subject, SubjectKind, Withheld,
};

/// Steps of an hour count against the limit.
pub const HOUR_NS: u64 = 3_600_000_000_000;

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Steps for one interface in an hour.
    pub per_hour: u32,
    /// The least time between two steps for one interface.
    pub grace_ns: u64,
    /// A step that was tried this short ago and did not help is not tried again; the next is.
    pub escalates_ns: u64,
    /// Also an interface that carries a route beyond its own network or an SSH session.
    pub even_in_use: bool,
    /// Also where only unanswered probes or a health reporter say that it hangs, so that it may be the neighbour, or not hang at all.
    pub even_if_probable: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            per_hour: 3,
            grace_ns: 60_000_000_000,
            escalates_ns: 600_000_000_000,
            even_in_use: false,
            even_if_probable: false,
        }
    }
}

/// What is known of the device below an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Whether its PCI function can be reset.
    pub can_reset: bool,
    /// Why work depends on its other interfaces.
    pub carries: Vec<Carried>,
}

/// The next step for an interface: planned, or withheld with the reason. `None` where nothing is to be done.
///
/// `history` is what was done on this host, oldest first.
pub fn decide(
    interface: &Interface,
    history: &[Deed],
    now_ns: u64,
    device: &Device,
    policy: &Policy,
    actor: &Actor,
) -> Option<Deed> {
    if interface.state != InterfaceState::Hung {
        return None;
    }
    let done: Vec<&Deed> = history
        .iter()
        .filter(|deed| is_of(deed, &interface.name) && deed.outcome.was_tried())
        // One dated in the future, by a clock that was set back since, counts as just done.
        .filter(|deed| now_ns.saturating_sub(deed.begun_realtime_ns) < HOUR_NS)
        .collect();
    let grace_ns = interface.reporters.iter().find(|one| can_recover(one)).and_then(|one| one.grace_period_ms);
    let grace_ns = grace_ns.map_or(0, |ms| ms.saturating_mul(1_000_000));
    let recent = |action| {
        // The driver's own time between two recoveries of a reporter holds for ours.
        let within_ns = match action {
            DeedAction::ReporterRecover => policy.escalates_ns.max(grace_ns),
            _ => policy.escalates_ns,
        };
        let is_recent = |deed: &&&Deed| now_ns.saturating_sub(deed.begun_realtime_ns) < within_ns;
        done.iter().filter(is_recent).any(|deed| deed.action == action)
    };
    let mut steps = candidates(interface, device.can_reset);
    let last = steps.last().cloned();
    steps.retain(|(action, _)| !recent(*action));
    let is_exhausted = steps.is_empty();
    let (action, target) = steps.into_iter().next().or(last)?;
    let why_not = if is_exhausted {
        // What was tried last may still have its effect.
        Some(waited_for(&done, now_ns, policy).unwrap_or(Withheld::Exhausted))
    } else {
        of_others(interface, action, device, policy).or_else(|| refusal(interface, &done, now_ns, policy))
    };
    Some(Deed {
        at_realtime_ns: now_ns,
        begun_realtime_ns: now_ns,
        room: Room::Nic,
        subject: Subject::new(SubjectKind::Interface, interface.name.clone()),
        actor: actor.clone(),
        action,
        target,
        reason: DeedReason::Seen { evidence: interface.evidence.clone() },
        outcome: why_not.map_or(DeedOutcome::Planned, |why| DeedOutcome::Withheld { why }),
    })
}

/// The link cycle of an interface that was begun within the last hour and of which no end is written: the process that began it may
/// have been ended while the interface was switched off. One that lies further back is not looked at: somebody else may have
/// switched it off since. Nor is one from a time to come, by a clock that was set back since: when it was begun is not known.
pub fn unfinished_cycle<'a>(interface: &str, history: &'a [Deed], now_ns: u64) -> Option<&'a Deed> {
    let last = history.iter().rev().find(|deed| is_of(deed, interface) && deed.outcome.was_tried())?;
    let is_unfinished = last.action == DeedAction::LinkCycle && last.outcome == DeedOutcome::Begun;
    let age_ns = now_ns.checked_sub(last.begun_realtime_ns)?;
    (is_unfinished && age_ns < HOUR_NS).then_some(last)
}

/// Whether it is a step of recovery for this interface.
pub fn is_of(deed: &Deed, interface: &str) -> bool {
    let is_step =
        matches!(deed.action, DeedAction::ReporterRecover | DeedAction::LinkCycle | DeedAction::FunctionReset);
    is_step && deed.subject.kind == SubjectKind::Interface && deed.subject.name == interface
}

/// What can be done for it, from what disturbs least.
fn candidates(interface: &Interface, can_reset: bool) -> Vec<(DeedAction, DeedTarget)> {
    let mut steps = Vec::new();
    if let Some(one) = interface.reporters.iter().find(|one| can_recover(one)) {
        steps.push((DeedAction::ReporterRecover, DeedTarget::Part { name: target_of(one) }));
    }
    // What a reporter alone says is for its driver to mend: no link goes down for it, and no function is reset.
    if interface.certainty != Some(Certainty::Certain) && !judge::is_silent(interface) {
        return steps;
    }
    // A device without an interface here has no link.
    if interface.is_up && !interface.name.contains('/') {
        steps.push((DeedAction::LinkCycle, DeedTarget::Subject));
    }
    if let Some(device) = interface.device.clone().filter(|_| can_reset) {
        steps.push((DeedAction::FunctionReset, DeedTarget::Part { name: device }));
    }
    steps
}

/// A reporter as a target: its device, its port where it has one, and its name.
pub fn target_of(reporter: &HealthReporter) -> String {
    match reporter.port {
        Some(port) => format!("{}/{port} {}", reporter.device, reporter.name),
        None => format!("{} {}", reporter.device, reporter.name),
    }
}

/// Why a step is withheld that goes beyond the interface, to others of its device.
fn of_others(interface: &Interface, action: DeedAction, device: &Device, policy: &Policy) -> Option<Withheld> {
    let is_of_port = || interface.reporters.iter().find(|one| can_recover(one)).is_some_and(|one| one.port.is_some());
    let is_alone = match action {
        DeedAction::LinkCycle => true,
        DeedAction::ReporterRecover => is_of_port(),
        _ => false,
    };
    let is_refused = !is_alone && !policy.even_in_use && !device.carries.is_empty();
    is_refused.then(|| Withheld::DeviceInUse { carries: device.carries.clone() })
}

fn refusal(interface: &Interface, done: &[&Deed], now_ns: u64, policy: &Policy) -> Option<Withheld> {
    if !policy.even_in_use && !interface.carries.is_empty() {
        return Some(Withheld::InUse { carries: interface.carries.clone() });
    }
    if !policy.even_if_probable && interface.certainty != Some(Certainty::Certain) {
        return Some(Withheld::OnlyProbable);
    }
    let tried: BTreeSet<(DeedAction, String, u64)> =
        done.iter().map(|deed| (deed.action, deed.target.to_string(), deed.begun_realtime_ns)).collect();
    if tried.len() as u64 >= u64::from(policy.per_hour) {
        return Some(Withheld::HourLimit { tried: tried.len() as u64, limit: u64::from(policy.per_hour) });
    }
    waited_for(done, now_ns, policy)
}

/// Why it is too early for another step.
fn waited_for(done: &[&Deed], now_ns: u64, policy: &Policy) -> Option<Withheld> {
    let last_ns = done.iter().map(|deed| deed.begun_realtime_ns).max()?;
    let since_ns = now_ns.saturating_sub(last_ns);
    let [since_s, grace_s] = [since_ns, policy.grace_ns].map(|ns| ns / 1_000_000_000);
    (since_ns < policy.grace_ns).then_some(Withheld::TooEarly { since_s, grace_s })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
pub(crate) mod tests;
