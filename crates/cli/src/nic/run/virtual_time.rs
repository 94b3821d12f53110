//! A run in virtual time: the same seed gives the same bytes.

use super::options::RunOptions;
use super::result::{ResultLine, Spread};
use std::collections::BTreeMap;
use std::sync::Arc;
use surefoot_nic::campaign::trial::detector_name;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::port::PortConfig;
use surefoot_nic::host::selftest::DAEMON_BYTES;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

/// Without a delivery for so long, something is stuck.
const PATIENCE_NS: u64 = 2_000_000_000;
/// After the last message: time in which a duplicate would come, and recoveries end.
const AFTERWARDS_NS: u64 = 20_000_000;

pub fn run(options: &RunOptions) -> anyhow::Result<ResultLine> {
    let slots = 2 * u64::from(options.size.next_power_of_two().max(64)) * 8;
    let mut world = World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        // A run asks for failures, as many as it likes.
        daemon: Some(DaemonConfig { reloads_max: 100_000, ..DaemonConfig::default() }),
        arena_bytes: u32::try_from(slots)?.next_multiple_of(4096) + DAEMON_BYTES,
        guard: Guard::Iommu,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: options.seed,
    })?;
    let config = TrafficConfig {
        message_count: options.messages,
        message_bytes: options.size,
        window: options.window,
        both_ways: false,
        kind: Kind::Normal,
        seed: options.seed,
    };
    let mut traffic = Traffic::new(&world, PortConfig::tolerant(0), config)?;
    let mut hangs = options.hangs().into_iter().peekable();
    let mut failures: Vec<(u64, usize)> = Vec::new();
    let (mut progress, mut progress_ns, mut done_ns) = (0, 0, None);
    loop {
        let now_ns = world.now_ns();
        let did = traffic.step(now_ns);
        let delivered = traffic.delivered_count();
        if delivered != progress {
            (progress, progress_ns) = (delivered, now_ns);
        }
        while let Some(hang) = hangs.next_if(|hang| hang.count as usize <= delivered) {
            let node = hang.node as usize;
            // One that hangs already, and was not brought back yet, hangs no more than that.
            let failed_ns = failures.iter().rev().find(|(_, of)| *of == node).map(|(at_ns, _)| *at_ns);
            let is_back = |failed_ns: u64| {
                let mut steps = world.nodes[node].steps.iter().rev();
                steps.any(|(at_ns, step)| matches!(step, Step::Reloaded { .. }) && *at_ns > failed_ns)
            };
            if failed_ns.is_none_or(is_back) {
                world.nodes[node].hang();
                failures.push((now_ns, node));
            }
        }
        if traffic.is_done() {
            done_ns.get_or_insert(now_ns);
        }
        let is_over = done_ns.is_some_and(|done_ns| now_ns > done_ns + AFTERWARDS_NS);
        if is_over || now_ns.saturating_sub(progress_ns) > PATIENCE_NS {
            break;
        }
        world.step(if did { 0 } else { now_ns + 100_000 });
    }
    let (mut detection_ns, mut recovery_ns, mut recovery_count) = (Vec::new(), Vec::new(), 0);
    let mut detected_by: BTreeMap<String, u64> = BTreeMap::new();
    for (place, node) in world.nodes.iter().enumerate() {
        for failed_ns in failures.iter().filter(|(_, of)| *of == place).map(|(at_ns, _)| *at_ns) {
            let found =
                node.steps.iter().find(|(at_ns, step)| matches!(step, Step::Detected(_)) && *at_ns >= failed_ns);
            detection_ns.extend(found.map(|(at_ns, _)| at_ns - failed_ns));
        }
        let mut detected = None;
        for (at_ns, step) in &node.steps {
            match step {
                Step::Detected(by) => {
                    detected = Some(*at_ns);
                    *detected_by.entry(detector_name(*by).to_owned()).or_default() += 1;
                }
                Step::Recovered => {
                    recovery_count += 1;
                    recovery_ns.extend(detected.take().map(|detected_ns| at_ns - detected_ns));
                }
                _ => {}
            }
        }
    }
    Ok(ResultLine {
        clock: "virtual",
        link: "memory",
        message_bytes: options.size,
        asked_count: options.hang_at.len() as u64,
        failure_count: failures.len() as u64,
        recovery_count,
        detection_ns: Spread::of(detection_ns),
        recovery_ns: Spread::of(recovery_ns),
        detected_by,
        elapsed_ns: done_ns.unwrap_or(world.now_ns()),
        is_complete: done_ns.is_some(),
        ..ResultLine::of(&traffic.verdict())
    })
}
