//! What a devlink health reporter says of its interface. Pure.
//!
//! A reporter in the state *error* is evidence, and no verdict: drivers have reporters for queues and firmware, and also for a chip that is
//! hot or a file of settings that could not be written. Whether packets flow is asked of the counters, since the first look that saw the
//! error.
//!
//! | reporter | packets since | state | certainty |
//! |---|---|---|---|
//! | of a queue, of firmware, or not known, in error | none | hung | probable |
//! | of a queue, in error | some | losing | probable |
//! | of firmware, or not known, in error | some | as without it | |
//! | of a queue, of firmware, or not known, in error | not known | unknown | |
//! | of hardware, in error | | as without it | |
//! | of a queue, of firmware, or not known, got over new errors | | losing | certain |

use crate::judge::Claim;
use surefoot_model::{Certainty, HealthReporter, Interface, InterfaceState, ReporterState, counted};

/// What a reporter watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watches {
    /// Send queues.
    Sending,
    /// Receive queues.
    Receiving,
    /// The firmware that everything goes through.
    Firmware,
    /// A part whose errors leave packets alone: temperature, flash, ports, limits of a guest.
    Hardware,
    /// Its name is none of these.
    NotKnown,
}

/// By its name, as drivers of Linux 6.18 give them: mlx5 (`fw`, `fw_fatal`, `tx`, `rx`, `vnic`), bnxt (`fw`, `hw`), ice (`fw`, `mdd`, `port`,
/// `tx_hang`), hinic (`fw`, `hw`), octeontx2 (`hw_nix_*`, `hw_npa_*`), mlxsw and qed (`fw_fatal`).
pub fn watches(reporter: &HealthReporter) -> Watches {
    let name = reporter.name.to_ascii_lowercase();
    let first = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    match first {
        "tx" => Watches::Sending,
        "rx" => Watches::Receiving,
        "fw" => Watches::Firmware,
        "hw" | "vnic" | "mdd" | "port" | "thermal" | "temp" | "temperature" | "nvm" | "flash" | "otp" | "power" => {
            Watches::Hardware
        }
        _ => Watches::NotKnown,
    }
}

/// Whether its driver can be asked to recover, and its state may be why an interface hangs.
pub fn can_recover(one: &HealthReporter) -> bool {
    one.state == ReporterState::Error && one.grace_period_ms.is_some() && watches(one) != Watches::Hardware
}

/// Whether it is in the same trouble: what it recovered from in between, also between two looks, is over, and packets that passed then say
/// nothing of an error that came after.
pub fn is_same_trouble(one: &HealthReporter, other: &HealthReporter) -> bool {
    is_same(one, other) && other.state == ReporterState::Error && one.recover_count == other.recover_count
}

/// Whether it is the same reporter.
fn is_same(one: &HealthReporter, other: &HealthReporter) -> bool {
    (&one.device, one.port, &one.name) == (&other.device, other.port, &other.name)
}

/// Packets of an interface since a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packets {
    None { since_ns: u64 },
    Some { count: u64, since_ns: u64 },
    NotKnown,
}

/// The least time without packets that says something.
const SILENT_MIN_NS: u64 = 1_000_000_000;

/// The first look, of those without a gap before now, that saw a reporter in error. `looks` are oldest first, each with its age.
pub fn first_in_error<'a>(one: &HealthReporter, looks: &[(&'a Interface, u64)]) -> Option<(&'a Interface, u64)> {
    let in_error = |look: &Interface| look.reporters.iter().any(|then| is_same_trouble(one, then));
    looks.iter().rev().take_while(|(look, _)| in_error(look)).last().copied()
}

/// The packets since the first look that saw the reporter in error.
fn packets(one: &HealthReporter, now: &Interface, first: Option<(&Interface, u64)>) -> Packets {
    let Some((then, since_ns)) = first else { return Packets::NotKnown };
    // A probe that was answered is a packet each way, whatever the counters say.
    if let Some(probe) = now.probe.as_ref().filter(|probe| probe.answered_count > 0) {
        return Packets::Some { count: probe.answered_count, since_ns };
    }
    // An interface that is switched off or has no link sends nothing, whatever state its driver is in.
    if !now.is_up || !then.is_up || now.has_carrier == Some(false) {
        return Packets::NotKnown;
    }
    let (now, then) = (&now.counters, &then.counters);
    let rise = |now: Option<u64>, then: Option<u64>| now.zip(then).and_then(|(now, then)| now.checked_sub(then));
    let (sent, received) = (rise(now.tx_packets, then.tx_packets), rise(now.rx_packets, then.rx_packets));
    let count = match watches(one) {
        Watches::Sending => sent,
        Watches::Receiving => received,
        _ => sent.zip(received).map(|(sent, received)| sent.saturating_add(received)),
    };
    match count {
        Some(0) if since_ns >= SILENT_MIN_NS => Packets::None { since_ns },
        None | Some(0) => Packets::NotKnown,
        Some(count) => Packets::Some { count, since_ns },
    }
}

/// What a reporter says of its interface. `first` is the first look that saw it in error, `before` an earlier one of the last minute, each with its
/// age.
pub fn claim(
    one: &HealthReporter,
    now: &Interface,
    first: Option<(&Interface, u64)>,
    before: Option<(&Interface, u64)>,
) -> Option<Claim> {
    let name = format!("health reporter {} of {}", one.name, one.device);
    let dump = if one.has_dump { ", dump available" } else { "" };
    let counts = format!(
        "{}, {}{dump}",
        counted(one.error_count, "error", "errors"),
        counted(one.recover_count, "recovery", "recoveries")
    );
    // What leaves the state to the other evidence is told below it.
    let told = |why: String| Claim { state: InterfaceState::Ok, certainty: Certainty::Probable, why };
    match one.state {
        ReporterState::Unknown => Some(Claim {
            state: InterfaceState::Unknown,
            certainty: Certainty::CannotTellApartHere,
            why: format!("{name}: the driver reports a state that Surefoot does not know; {counts}"),
        }),
        ReporterState::Error => {
            let why = format!("{name}: error; {counts}; {}", recovery(one));
            let watched = watches(one);
            if watched == Watches::Hardware {
                return Some(told(format!("{why}; it does not watch the packets")));
            }
            let (state, certainty, packets) = match packets(one, now, first) {
                Packets::None { since_ns } => (
                    InterfaceState::Hung,
                    Certainty::Probable,
                    format!("no packets {} in the {} since", way(watched), seconds(since_ns)),
                ),
                Packets::Some { count, since_ns } => {
                    let packets = format!(
                        "{} {} in the {} since",
                        counted(count, "packet", "packets"),
                        way(watched),
                        seconds(since_ns)
                    );
                    match watched {
                        Watches::Sending | Watches::Receiving => (InterfaceState::Losing, Certainty::Probable, packets),
                        _ => (InterfaceState::Ok, Certainty::Probable, packets),
                    }
                }
                Packets::NotKnown => (
                    InterfaceState::Unknown,
                    Certainty::CannotTellApartHere,
                    "whether packets flow since is not known yet".to_owned(),
                ),
            };
            Some(Claim { state, certainty, why: format!("{why}; {packets}") })
        }
        ReporterState::Healthy => {
            let (then, _) = before?;
            let then = then.reporters.iter().find(|then| is_same(one, then))?;
            let rise = one.error_count.checked_sub(then.error_count).filter(|rise| *rise > 0)?;
            let why = format!("{name}: {}, recovered; {counts}", counted(rise, "new error", "new errors"));
            Some(match watches(one) {
                Watches::Hardware => told(why),
                _ => Claim { state: InterfaceState::Losing, certainty: Certainty::Certain, why },
            })
        }
    }
}

/// Whether the kernel recovers what it watches.
fn recovery(one: &HealthReporter) -> String {
    match (one.auto_recover, one.grace_period_ms) {
        (Some(true), Some(0) | None) => "the kernel recovers it automatically".to_owned(),
        (Some(true), Some(ms)) => {
            format!("the kernel recovers it automatically, at most every {}", seconds(ms * 1_000_000))
        }
        (Some(false), _) => "the kernel leaves recovery to the administrator".to_owned(),
        (None, Some(_)) => "it can recover when asked".to_owned(),
        (None, None) => "it cannot recover".to_owned(),
    }
}

fn way(watched: Watches) -> &'static str {
    match watched {
        Watches::Sending => "sent",
        Watches::Receiving => "received",
        _ => "sent or received",
    }
}

fn seconds(ns: u64) -> String {
    match ns {
        short if short < 1_000_000_000 => format!("{} ms", short.div_ceil(1_000_000)),
        long => format!("{} s", long.div_ceil(1_000_000_000)),
    }
}

#[cfg(test)]
#[path = "reporter_tests.rs"]
mod tests;
