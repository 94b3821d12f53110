//! The state of an interface from what was seen of it. Pure.
//!
//! | seen | state | certainty |
//! |---|---|---|
//! | a health reporter is in the state *error* | see [`crate::reporter`]; alone never certainly hung | |
//! | the same of a send queue or firmware, no packets since, and no probe answered that used to be | hung | certain |
//! | the kernel found a send queue stuck | hung | certain |
//! | a neighbour that answered before answers no probe, or the interface takes none | hung | probable |
//! | a neighbour that never answered answers no probe | unknown | |
//! | packets are damaged or missed; the link comes and goes | losing | certain |
//! | some probes are not answered | losing | probable |
//! | probes take much longer than they used to, or than they may | slow | probable, certain |
//! | the interface is down, or has no link | unknown | |

use crate::reporter::{self, Watches};
use surefoot_model::{Certainty, HealthReporter, Interface, InterfaceProbe, InterfaceState, ReporterState, counted};

/// What is borne.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Damaged and missed packets that are borne, as a share of all.
    pub bad_share: f64,
    /// So many of them are borne whatever their share is.
    pub bad_count: u64,
    /// Times that a link may come or go.
    pub carrier_changes: u64,
    /// Unanswered probes that are borne, as a share of all.
    pub lost_share: f64,
    /// How many times the usual a median round trip may take.
    pub slow_factor: u64,
    /// And so much on top: the scheduler wakes a process late now and then.
    pub slow_margin_ns: u64,
    /// What a median round trip may take, whatever is usual.
    pub slow_over_ns: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bad_share: 0.001,
            bad_count: 10,
            carrier_changes: 3,
            lost_share: 0.01,
            slow_factor: 3,
            slow_margin_ns: 200_000,
            slow_over_ns: None,
        }
    }
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The state.
    pub state: InterfaceState,
    /// How sure.
    pub certainty: Certainty,
    /// Why.
    pub why: String,
}

fn claim(state: InterfaceState, certainty: Certainty, why: String) -> Option<Claim> {
    Some(Claim { state, certainty, why })
}

/// Sets state, certainty and evidence of `now`. `looks` are the interface at earlier looks, oldest first, and how long ago each was.
pub fn judge(now: &mut Interface, looks: &[(&Interface, u64)], limits: &Limits) {
    judge_since(now, looks.first().copied(), &|one| reporter::first_in_error(one, looks), limits);
}

/// An earlier look at an interface, and how long ago it was.
pub type Earlier<'a> = Option<(&'a Interface, u64)>;

/// As [`judge`], where the look that saw a reporter in error first may be older than the one that counters are compared with.
pub fn judge_since<'a>(
    now: &mut Interface,
    before: Earlier<'_>,
    first: &dyn Fn(&HealthReporter) -> Earlier<'a>,
    limits: &Limits,
) {
    let of_reporters: Vec<(Watches, Claim)> = now
        .reporters
        .iter()
        .filter_map(|one| Some((reporter::watches(one), reporter::claim(one, now, first(one), before)?)))
        .collect();
    // Of receiving a silent neighbour is no second witness: it is why nothing is received.
    let is_reported = of_reporters.iter().any(|(watched, claim)| {
        claim.state == InterfaceState::Hung && matches!(watched, Watches::Sending | Watches::Firmware)
    });
    let mut claims: Vec<Claim> = of_reporters.into_iter().map(|(_, claim)| claim).collect();
    if let Some((before, ago_ns)) = before {
        let ago = ago_of(ago_ns);
        claims.extend(stuck(now, before, &ago));
        claims.extend(damaged(now, before, &ago, limits));
        claims.extend(flapping(now, before, &ago, limits));
    }
    let ago = before.map_or(String::new(), |(_, ago_ns)| ago_of(ago_ns));
    let unknown = unknown_counters(now, before.map(|(before, _)| before), &ago);
    // Where nothing can pass, silence says nothing more.
    let probe = now.probe.as_ref().filter(|_| closed(now).is_none());
    let mut probed = probe.and_then(|probe| probed(probe, limits));
    // The driver and the neighbour, who know nothing of each other, say the same.
    if let Some(claim) = probed.as_mut().filter(|claim| is_reported && claim.state == InterfaceState::Hung) {
        claim.certainty = Certainty::Certain;
    }
    claims.extend(probed);
    claims.extend(now.self_test.as_ref().filter(|test| test.why_not.is_none() && !test.has_passed).map(|test| Claim {
        state: InterfaceState::Losing,
        certainty: Certainty::Probable,
        why: format!("the driver's self-test failed: {}", failed_parts(test)),
    }));
    claims.sort_by_key(|claim| (std::cmp::Reverse(claim.state), claim.certainty));
    now.evidence = claims.iter().map(|claim| claim.why.clone()).collect();
    // What the driver says of its health is not understood, or not yet.
    let is_unclear = claims.iter().any(|claim| claim.state == InterfaceState::Unknown);
    let worst = claims.first().filter(|claim| claim.state > InterfaceState::Ok);
    (now.state, now.certainty) = match worst {
        Some(worst) => (worst.state, Some(worst.certainty)),
        None => quiet(now, unknown, is_unclear, before.is_some()),
    };
}

fn ago_of(ago_ns: u64) -> String {
    format!("in the last {} s", ago_ns.div_ceil(1_000_000_000))
}

/// Why nothing can pass through it; `None` where something could.
fn closed(now: &Interface) -> Option<&'static str> {
    match (now.is_up, now.has_carrier) {
        // No interface has such a name: devlink has the device, and its interfaces are elsewhere.
        _ if now.name.contains('/') => Some("no interface in this network namespace"),
        (false, _) => Some("the interface is down"),
        (true, Some(false)) => Some("no link"),
        _ => None,
    }
}

/// The state where nothing speaks against it; `unknown` is what its counters do not tell, `is_unclear` whether a health reporter leaves it
/// open, `is_compared` whether there is an earlier look.
fn quiet(
    now: &mut Interface,
    unknown: Option<String>,
    is_unclear: bool,
    is_compared: bool,
) -> (InterfaceState, Option<Certainty>) {
    if let Some(why) = closed(now) {
        now.evidence.push(why.to_owned());
        return (InterfaceState::Unknown, None);
    }
    match now.probe.as_ref().map(|probe| (probe.answered_count, probe.baseline)) {
        Some((0, _)) => (InterfaceState::Unknown, None),
        Some((_, Some(_))) => {
            now.evidence.push("probes are answered as fast as usual".to_owned());
            (InterfaceState::Ok, Some(Certainty::Certain))
        }
        Some((_, None)) => {
            now.evidence.push("probes are answered; there is no baseline for the round trip yet".to_owned());
            (InterfaceState::Ok, Some(Certainty::Probable))
        }
        None if is_unclear => (InterfaceState::Unknown, Some(Certainty::CannotTellApartHere)),
        None if unknown.is_some() => {
            now.evidence.extend(unknown);
            (InterfaceState::Unknown, Some(Certainty::CannotTellApartHere))
        }
        None => {
            // Counters alone do not see an interface that is alive and moves nothing.
            let has_error = now.reporters.iter().any(|one| one.state == ReporterState::Error);
            let silent = match (is_compared, has_error) {
                (false, _) => "counters were read once, so new errors are not known yet",
                (true, true) => "no errors in counters",
                (true, false) => "no errors in counters or health reporters",
            };
            now.evidence.push(format!("{silent}; not probed"));
            (InterfaceState::Ok, Some(Certainty::Probable))
        }
    }
}

/// Whether probes alone say that it hangs.
pub(crate) fn is_silent(one: &Interface) -> bool {
    let hung = one.probe.as_ref().and_then(|probe| probed(probe, &Limits::default()));
    hung.is_some_and(|claim| claim.state == InterfaceState::Hung)
}

fn stuck(now: &Interface, before: &Interface, ago: &str) -> Option<Claim> {
    let rise = now.tx_timeout_count?.checked_sub(before.tx_timeout_count?).filter(|rise| *rise > 0)?;
    let why = format!("{} of a send queue {ago}", counted(rise, "transmit timeout", "transmit timeouts"));
    claim(InterfaceState::Hung, Certainty::Certain, why)
}

fn damaged(now: &Interface, before: &Interface, ago: &str, limits: &Limits) -> Option<Claim> {
    let (now, then) = (&now.counters, &before.counters);
    // What is not known says nothing here, and is told by `unknown_counters`.
    let rise =
        |now: Option<u64>, then: Option<u64>| now.zip(then).and_then(|(now, then)| now.checked_sub(then)).unwrap_or(0);
    let parts = [
        ("received with errors", rise(now.rx_errors, then.rx_errors)),
        ("missed by the device", rise(now.rx_missed_errors, then.rx_missed_errors)),
        ("not sent", rise(now.tx_errors, then.tx_errors)),
    ];
    let bad = parts.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let good = rise(now.rx_packets, then.rx_packets).saturating_add(rise(now.tx_packets, then.tx_packets));
    let share = bad as f64 / (bad as f64 + good as f64).max(1.0);
    if bad <= limits.bad_count || share <= limits.bad_share {
        return None;
    }
    let told: Vec<String> =
        parts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
    let why = format!("{:.2} % of its packets were lost {ago}: {}", share * 100.0, told.join(", "));
    claim(InterfaceState::Losing, Certainty::Certain, why)
}

/// What the counters do not tell of losses since the earlier look; `None` where they tell all.
fn unknown_counters(now: &Interface, before: Option<&Interface>, ago: &str) -> Option<String> {
    let told = |one: &Interface| {
        let counters = &one.counters;
        [
            ("rx_errors", counters.rx_errors),
            ("rx_missed_errors", counters.rx_missed_errors),
            ("tx_errors", counters.tx_errors),
            ("carrier_changes", one.carrier_change_count),
        ]
    };
    let counts = told(now);
    let missing: Vec<&str> = counts.iter().filter(|(_, count)| count.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Some(format!("packet loss unknown: the kernel does not report {}", missing.join(", ")));
    }
    let before = told(before?);
    let both = counts.iter().zip(&before);
    let back: Vec<&str> = both.filter(|(now, then)| now.1 < then.1).map(|(now, _)| now.0).collect();
    let why = || format!("packet loss {ago} unknown: counters were reset ({})", back.join(", "));
    (!back.is_empty()).then(why)
}

fn flapping(now: &Interface, before: &Interface, ago: &str, limits: &Limits) -> Option<Claim> {
    let rise = now.carrier_change_count?.checked_sub(before.carrier_change_count?)?;
    let is_lost = now.is_up && now.has_carrier == Some(false) && rise > 0;
    let why = match rise {
        _ if is_lost => format!("link lost {ago}"),
        rise if rise > limits.carrier_changes => format!("link went up or down {rise} times {ago}"),
        _ => return None,
    };
    claim(InterfaceState::Losing, Certainty::Certain, why)
}

fn probed(probe: &InterfaceProbe, limits: &Limits) -> Option<Claim> {
    let InterfaceProbe { peer, sent_count, refused_count, answered_count, .. } = probe;
    if *sent_count == 0 {
        let why = format!("the interface accepted none of {refused_count} probes");
        return (*refused_count > 0).then(|| claim(InterfaceState::Hung, Certainty::Probable, why)).flatten();
    }
    if *answered_count == 0 {
        let waited = format!("{peer} answered none of {sent_count} probes");
        return if probe.other_version_count > 0 {
            let why = format!(
                "{waited} in this release's protocol: the peer runs another release of Surefoot; install the same one on both"
            );
            claim(InterfaceState::Unknown, Certainty::CannotTellApartHere, why)
        } else if probe.has_answered {
            let why = format!("{waited} but answered earlier: the interface, the path or the neighbour is hung");
            claim(InterfaceState::Hung, Certainty::Probable, why)
        } else {
            let why =
                format!("{waited} and has never answered one: it may be down, or may not answer this kind of probe");
            claim(InterfaceState::Unknown, Certainty::CannotTellApartHere, why)
        };
    }
    let lost = sent_count.saturating_sub(*answered_count);
    if lost > 1 && lost as f64 / *sent_count as f64 > limits.lost_share {
        let why = format!("{peer} did not answer {lost} of {sent_count} probes in time");
        return claim(InterfaceState::Losing, Certainty::Probable, why);
    }
    let now = probe.round_trips?;
    if let Some(most) = limits.slow_over_ns.filter(|most| now.p50_ns > *most) {
        let why = format!("median round trip to {peer}: {}, limit {}", time(now.p50_ns), time(most));
        return claim(InterfaceState::Slow, Certainty::Certain, why);
    }
    let usual = probe.baseline?;
    let most = usual.p50_ns.saturating_mul(limits.slow_factor).saturating_add(limits.slow_margin_ns);
    let why = format!("median round trip to {peer}: {}, usually {}", time(now.p50_ns), time(usual.p50_ns));
    (now.p50_ns > most).then(|| claim(InterfaceState::Slow, Certainty::Probable, why)).flatten()
}

fn time(ns: u64) -> String {
    match ns {
        short if short < 10_000_000 => format!("{:.0} us", short as f64 / 1e3),
        long => format!("{:.0} ms", long as f64 / 1e6),
    }
}

fn failed_parts(test: &surefoot_model::SelfTest) -> String {
    let failed: Vec<String> =
        test.parts.iter().filter(|part| part.value != 0).map(|part| format!("{} {}", part.name, part.value)).collect();
    if failed.is_empty() { "no failed part named".to_owned() } else { failed.join(", ") }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
