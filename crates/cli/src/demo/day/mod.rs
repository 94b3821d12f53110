//! The troubled day of a made-up host, event by event: what `demo.surefoot` holds. Where a room has code that judges, decides or computes,
//! that code made the event; the rest is written down here. The same each time.

mod checkpoint;
mod clock;
mod disturb;
mod memory;
mod nic;
mod random;
mod remedy;
mod stall;
mod tests;

use clock::OFFSET;
use surefoot_model::{Capability, CapabilityState, CpuId, Event, HostDescription, Vendor};

pub const HOST: &str = "demo-host-17";

fn host() -> HostDescription {
    HostDescription {
        hostname: HOST.into(),
        kernel: "6.12.0-demo".into(),
        processor: "Demo processor (made up)".into(),
        vendor: Vendor::Intel,
        hypervisor: None,
        cpus: (0..4).map(CpuId).collect(),
        workload: "threads named weather-model".into(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: String::new(),
        realtime_offset_ns: OFFSET,
    }
}

fn capabilities() -> Vec<Capability> {
    let works = |id: &str, name: &str, reason: &str| Capability {
        id: id.into(),
        name: name.into(),
        state: CapabilityState::Works,
        reason: reason.into(),
        remedy: String::new(),
    };
    vec![
        works("stall.ledger", "lost time per core and cause", "made up: eBPF on BTF-typed tracepoints"),
        works("stall.who", "who raised an interrupt", "made up: eBPF with BTF"),
        works("memory", "memory errors", "made up: two EDAC controllers"),
        works("nic", "network interfaces", "made up: two ports of one device"),
    ]
}

/// All of it, in order.
pub fn events() -> Vec<Event> {
    let mut events =
        [stall::events(), memory::events(), checkpoint::events(), nic::events(), disturb::events(), remedy::events()]
            .concat();
    // What happened in a window is told before the window ends.
    events.sort_by_key(|(when, event)| (*when, matches!(event, Event::Window(_))));
    let opening = [Event::Host(host()), Event::Capabilities { capabilities: capabilities() }];
    opening.into_iter().chain(events.into_iter().map(|(_, event)| event)).collect()
}
