//! An interface whose send queue hangs, and what was done about it: judged and decided by the room's own code.

use super::clock::{H, LINK_HANGS, MIN, S, at, real};
use super::random::Random;
use surefoot_interfaces::decide::{self, Device, Policy};
use surefoot_interfaces::judge::{self, Limits};
use surefoot_model::{
    Actor, Carried, CarriedKind, Deed, DeedOutcome, Event, HealthReporter, Interface, InterfaceChange,
    InterfaceCounters, InterfaceEvent, InterfaceLook, Observed, ReporterState,
};

/// The interface that hangs.
pub const HUNG: &str = "ens3f0np0";
const LOOK_EVERY: u64 = 10 * MIN;
/// The driver recovers so long after it was asked.
const RECOVERY: u64 = 4 * S;

fn interface(name: &str, function: u32, is_hung: bool, errors: u64) -> Interface {
    let device = format!("pci/0000:3b:00.{function}");
    let reporter = |name: &str, is_error: bool, error_count| HealthReporter {
        device: device.clone(),
        port: Some(0),
        name: name.into(),
        state: if is_error { ReporterState::Error } else { ReporterState::Healthy },
        error_count,
        recover_count: error_count - u64::from(is_error),
        has_dump: error_count > 0,
        dump_realtime_ns: (error_count > 0).then(|| real(LINK_HANGS)),
        auto_recover: Some(false),
        grace_period_ms: Some(0),
    };
    Interface {
        name: name.into(),
        driver: Some("mlx5_core".into()),
        device: Some(device.clone()),
        is_up: true,
        has_carrier: Some(true),
        speed_mbit_per_s: Some(100_000),
        tx_timeout_count: Some(errors),
        carrier_change_count: Some(2),
        reporters: vec![reporter("tx", is_hung, errors), reporter("rx", false, 0)],
        ..Interface::default()
    }
}

fn counters(day_ns: u64, packets_per_s: u64, missing_ns: u64) -> InterfaceCounters {
    let (seconds, sending) = (at(day_ns) / S, (at(day_ns) - missing_ns) / S);
    InterfaceCounters {
        rx_packets: Some(seconds * packets_per_s),
        tx_packets: Some(sending * packets_per_s / 5 * 4),
        rx_bytes: Some(seconds * packets_per_s * 1_100),
        tx_bytes: Some(sending * packets_per_s / 5 * 4 * 900),
        rx_errors: Some(0),
        rx_crc_errors: Some(0),
        rx_missed_errors: Some(0),
        rx_dropped: Some(12),
        tx_errors: Some(0),
        tx_dropped: Some(0),
    }
}

/// All interfaces at this time of the day, and how long ago the look before was.
fn look(day_ns: u64, before: Option<&InterfaceLook>) -> InterfaceLook {
    let hung_ns = LINK_HANGS..LINK_HANGS + MIN + RECOVERY;
    let is_hung = hung_ns.contains(&day_ns);
    let errors = u64::from(day_ns >= LINK_HANGS);
    let mut data = interface(HUNG, 0, is_hung, errors);
    let missing_ns = day_ns.clamp(hung_ns.start, hung_ns.end) - hung_ns.start;
    data.counters = counters(day_ns, 61_000, missing_ns);
    let mut route = interface("ens3f1np1", 1, false, 0);
    route.carries = vec![Carried::new(CarriedKind::DefaultRoute, "the default route of IPv4")];
    route.counters = counters(day_ns, 900, 0);
    let mut interfaces = vec![data, route];
    for one in &mut interfaces {
        let former = before.and_then(|before| {
            let former = before.interfaces.iter().find(|former| former.name == one.name)?;
            Some((former, at(day_ns) - before.at_ns))
        });
        judge::judge(one, former.as_slice(), &Limits::default());
    }
    InterfaceLook {
        at_ns: at(day_ns),
        looked_realtime_ns: real(day_ns),
        look_ns: 3_000_000,
        interfaces,
        ..InterfaceLook::default()
    }
}

/// The step for the interface that hangs, from plan to end.
fn recovery(look: &InterfaceLook, day_ns: u64) -> Option<[Deed; 2]> {
    let hung = look.interfaces.iter().find(|one| one.name == HUNG)?;
    let device = Device { can_reset: true, carries: Vec::new() };
    let actor = Actor::Command { uid: 0 };
    let planned = decide::decide(hung, &[], real(day_ns), &device, &Policy::default(), &actor)?;
    let begun = planned.with_outcome(DeedOutcome::Begun, real(day_ns));
    let done = DeedOutcome::Done { observed: Observed::DriverRecovered };
    Some([begun.clone(), begun.with_outcome(done, real(day_ns + RECOVERY))])
}

pub fn events() -> Vec<(u64, Event)> {
    let mut random = Random::new(11);
    let mut times: Vec<u64> =
        (0..24 * H / LOOK_EVERY).map(|number| number * LOOK_EVERY + random.below(5) * S).collect();
    times.extend([LINK_HANGS + 5 * S, LINK_HANGS + MIN + RECOVERY + S, LINK_HANGS + 2 * MIN]);
    // While the last minutes are played, the counters go on.
    times.extend((0..12).map(|number| 24 * H - 6 * MIN + number * 30 * S));
    times.sort_unstable();
    let mut events: Vec<(u64, Event)> = Vec::new();
    let mut before: Option<InterfaceLook> = None;
    for day_ns in times {
        let now = look(day_ns, before.as_ref());
        if let Some(before) = &before {
            let changed = before.interfaces.iter().zip(&now.interfaces).filter(|(then, now)| then.state != now.state);
            for (then, now) in changed {
                let change = InterfaceChange {
                    at_ns: at(day_ns),
                    at_realtime_ns: real(day_ns),
                    interface: now.name.clone(),
                    from: then.state,
                    to: now.state,
                    evidence: now.evidence.clone(),
                };
                events.push((at(day_ns), Event::Interface(InterfaceEvent::Changed(change))));
            }
        }
        if day_ns == LINK_HANGS + 5 * S {
            let asked = LINK_HANGS + MIN;
            for (deed, deed_ns) in recovery(&now, asked).into_iter().flatten().zip([asked, asked + RECOVERY]) {
                events.push((at(deed_ns), Event::Deed(Box::new(deed))));
            }
        }
        events.push((at(day_ns), Event::Interface(InterfaceEvent::Look(now.clone()))));
        before = Some(now);
    }
    events
}
