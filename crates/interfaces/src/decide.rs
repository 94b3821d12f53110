//! What is done for an interface that hangs. Pure: it is told the time and what was done before.
//!
//! From what disturbs least to what disturbs most: the driver is asked to recover by the reporter that reports the fault; the link
//! is switched off and on; the PCI function is reset. The next is tried where the one before was, and the interface hangs still.

use surefoot_model::{
    Carried, Certainty, HealthReporter, Interface, InterfaceState, RecoveryKind, RecoveryOutcome, RecoveryStep,
    ReporterState,
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
    /// Also an interface that carries the default route or an SSH session.
    pub even_in_use: bool,
    /// Also where only unanswered probes say that it hangs, so that the neighbour may be what hangs.
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
    history: &[RecoveryStep],
    now_ns: u64,
    device: &Device,
    policy: &Policy,
) -> Option<RecoveryStep> {
    if interface.state != InterfaceState::Hung {
        return None;
    }
    let done: Vec<&RecoveryStep> = history
        .iter()
        .filter(|step| step.interface == interface.name && was_tried(step))
        // A clock that was set back makes nothing younger than now.
        .filter(|step| now_ns.saturating_sub(step.at_realtime_ns) < HOUR_NS)
        .collect();
    let recent = |kind| {
        let is_recent = |step: &&&RecoveryStep| now_ns.saturating_sub(step.at_realtime_ns) < policy.escalates_ns;
        done.iter().filter(is_recent).any(|step| step.kind == kind)
    };
    let mut steps = candidates(interface, device.can_reset);
    let last = steps.last().cloned();
    steps.retain(|(kind, _)| !recent(*kind));
    let is_exhausted = steps.is_empty();
    let (kind, target) = steps.into_iter().next().or(last)?;
    let why_not = if is_exhausted {
        // What was tried last may still have its effect.
        Some(waited_for(&done, now_ns, policy).unwrap_or_else(|| {
            "everything that can be done was tried, and it hangs still; a person is to look at it".to_owned()
        }))
    } else {
        of_others(interface, kind, device, policy).or_else(|| refusal(interface, &done, now_ns, policy))
    };
    Some(RecoveryStep {
        at_realtime_ns: now_ns,
        interface: interface.name.clone(),
        kind,
        target,
        reason: interface.evidence.join("; "),
        outcome: if why_not.is_some() { RecoveryOutcome::Withheld } else { RecoveryOutcome::Planned },
        detail: why_not.unwrap_or_default(),
    })
}

/// The link cycle of an interface that was begun within the last hour and of which no end is written: the process that began it may
/// have been ended while the interface was switched off. One that lies further back is not looked at: somebody else may have
/// switched it off since.
pub fn unfinished_cycle<'a>(interface: &str, history: &'a [RecoveryStep], now_ns: u64) -> Option<&'a RecoveryStep> {
    let last = history.iter().rev().find(|step| step.interface == interface && was_tried(step))?;
    let is_unfinished = last.kind == RecoveryKind::LinkCycle && last.outcome == RecoveryOutcome::Begun;
    (is_unfinished && now_ns.saturating_sub(last.at_realtime_ns) < HOUR_NS).then_some(last)
}

fn was_tried(step: &RecoveryStep) -> bool {
    // One that was begun and of which no end was written may have been done.
    matches!(step.outcome, RecoveryOutcome::Begun | RecoveryOutcome::Done | RecoveryOutcome::Failed)
}

fn can_recover(one: &&HealthReporter) -> bool {
    one.state == ReporterState::Error && one.grace_period_ms.is_some()
}

/// What can be done for it, from what disturbs least.
fn candidates(interface: &Interface, can_reset: bool) -> Vec<(RecoveryKind, String)> {
    let mut steps = Vec::new();
    if let Some(one) = interface.reporters.iter().find(can_recover) {
        steps.push((RecoveryKind::ReporterRecover, target_of(one)));
    }
    // A device without an interface here has no link.
    if interface.is_up && !interface.name.contains('/') {
        steps.push((RecoveryKind::LinkCycle, interface.name.clone()));
    }
    if let Some(device) = interface.device.clone().filter(|_| can_reset) {
        steps.push((RecoveryKind::FunctionReset, device));
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
fn of_others(interface: &Interface, kind: RecoveryKind, device: &Device, policy: &Policy) -> Option<String> {
    let is_of_port = || interface.reporters.iter().find(can_recover).is_some_and(|one| one.port.is_some());
    let is_alone = match kind {
        RecoveryKind::ReporterRecover => is_of_port(),
        RecoveryKind::LinkCycle => true,
        RecoveryKind::FunctionReset => false,
    };
    let is_refused = !is_alone && !policy.even_in_use && !device.carries.is_empty();
    is_refused.then(|| format!("its device carries {}; --even-in-use allows it", Carried::list(&device.carries)))
}

fn refusal(interface: &Interface, done: &[&RecoveryStep], now_ns: u64, policy: &Policy) -> Option<String> {
    if !policy.even_in_use && !interface.carries.is_empty() {
        return Some(format!("it carries {}; --even-in-use allows it", Carried::list(&interface.carries)));
    }
    if !policy.even_if_probable && interface.certainty != Some(Certainty::Certain) {
        return Some(
            "only probes say that it hangs, and the neighbour may be what hangs; --even-if-probable allows it"
                .to_owned(),
        );
    }
    let tried: std::collections::BTreeSet<(RecoveryKind, &str, u64)> =
        done.iter().map(|step| (step.kind, step.target.as_str(), step.at_realtime_ns)).collect();
    if tried.len() as u64 >= u64::from(policy.per_hour) {
        return Some(format!("{} steps were tried in the last hour, and {} are allowed", tried.len(), policy.per_hour));
    }
    waited_for(done, now_ns, policy)
}

/// Why it is too early for another step.
fn waited_for(done: &[&RecoveryStep], now_ns: u64, policy: &Policy) -> Option<String> {
    let last_ns = done.iter().map(|step| step.at_realtime_ns).max()?;
    let since_ns = now_ns.saturating_sub(last_ns);
    (since_ns < policy.grace_ns).then(|| {
        let (since_s, grace_s) = (since_ns / 1_000_000_000, policy.grace_ns / 1_000_000_000);
        format!("the last step was {since_s} s ago, and {grace_s} s are waited for its effect")
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
