//! The interface is stopped after every instruction of messages' round trips, on either side: nothing is lost, nothing
//! comes twice, every receive buffer is with its interface, and it was reloaded once. This is exhaustive where a storm is random.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::port::PortConfig;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, STEP_NS, World, WorldConfig};

struct Case {
    verifies: bool,
    message_bytes: u32,
    message_count: u32,
    window: u32,
    /// The seed of programs that look at their ports when they come to it; `None` for those that always look.
    slow: Option<u64>,
}

/// Both programs may stand still for a second, one after the other; without that, detection and recovery take a few milliseconds.
const END_NS: [u64; 2] = [60_000_000, 5_000_000_000];

/// Whether a run with a failure, or without one, ends as it should; whether the interface was stopped; the instruction counts at the end.
fn run(firmware: &Arc<Firmware>, case: &Case, stop: Option<(usize, u64)>) -> (bool, bool, [u64; 2]) {
    let daemon =
        DaemonConfig { self_test: None, verifies: case.verifies, ask_ns: 2_000_000, ..DaemonConfig::default() };
    let mut world = World::new(&WorldConfig {
        firmware: Arc::clone(firmware),
        daemon: Some(daemon),
        arena_bytes: 1 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 1,
    })
    .unwrap();
    let port = PortConfig { waits_for_test: false, verifies: case.verifies, ..PortConfig::tolerant(0) };
    let config = TrafficConfig {
        message_count: case.message_count,
        message_bytes: case.message_bytes,
        window: case.window,
        both_ways: false,
        kind: Kind::Normal,
        seed: 3,
    };
    let mut traffic = Traffic::new(&world, port, config).unwrap();
    if let Some(seed) = case.slow {
        traffic = traffic.slow(seed);
    }
    let failure_count = usize::from(stop.is_some());
    let mut stop = stop;
    while !traffic.is_done() && world.now_ns() < END_NS[usize::from(case.slow.is_some())] {
        let did = traffic.step(world.now_ns());
        if let Some((place, at)) = stop {
            let node = &mut world.nodes[place];
            let until_ns = node.device.now_ns() + STEP_NS;
            // Instruction by instruction where the place may come.
            while node.device.instruction_count() + 80 > at
                && node.device.instruction_count() < at
                && node.device.now_ns() < until_ns
            {
                let now_ns = node.device.now_ns();
                node.run(now_ns + 8);
            }
            if node.device.instruction_count() >= at {
                assert_eq!(node.device.instruction_count(), at);
                node.hang();
                stop = None;
            }
        }
        world.step(if did || stop.is_some() { 0 } else { world.now_ns() + 100_000 });
    }
    let ends = world.nodes.each_ref().map(|node| node.device.instruction_count());
    let (verdict, is_done) = (traffic.verdict(), traffic.is_done());
    let has_all_buffers = is_done && traffic.has_all_buffers(&mut world);
    let steps = || world.nodes.iter().flat_map(|node| &node.steps);
    let reload_count = steps().filter(|(_, step)| matches!(step, Step::Reloaded { .. })).count();
    let is_perfect = is_done && verdict.is_perfect() && has_all_buffers && reload_count <= failure_count;
    if !is_perfect {
        println!("{verdict:?}, done {is_done}, buffers {has_all_buffers}, {:?}", steps().collect::<Vec<_>>());
    }
    (is_perfect, stop.is_none(), ends)
}

/// Every so many instructions, another part for each case; all of them where asked for.
fn every(stride: u64, cases: &[Case]) {
    let firmware = Arc::new(Firmware::built(Build::Tolerant));
    let stride = if std::env::var_os("SUREFOOT_EVERY_INSTRUCTION").is_some() { 1 } else { stride };
    let mut points = 0;
    for (number, case) in cases.iter().enumerate() {
        let (is_perfect, _, ends) = run(&firmware, case, None);
        assert!(is_perfect);
        for (place, end) in ends.into_iter().enumerate() {
            // The control program's first instructions included: a failure before the port is open.
            for at in (1 + number as u64..end).step_by(stride as usize) {
                let (is_perfect, is_stopped, _) = run(&firmware, case, Some((place, at)));
                assert!(is_perfect, "case {number}, node {place}, instruction {at}");
                // Steps of another length may end the run a little before the last places; slow programs then look at other times.
                let last = if case.slow.is_some() { end / 4 } else { 1_000 };
                assert!(is_stopped || at + last > end, "case {number}, node {place}, instruction {at} of {end}");
                points += u64::from(is_stopped);
            }
        }
    }
    println!("{points} points, every {stride}. instruction");
    assert!(points > 100);
}

#[test]
fn an_interface_that_stops_after_any_instruction_loses_and_doubles_nothing() {
    every(97, &cases(None));
}

/// Between two looks of a slow program the interface does little, but for its timer: the places are further apart.
#[test]
fn an_interface_that_stops_beside_slow_programs_loses_and_doubles_nothing() {
    every(997, &cases(Some(4)));
}

fn cases(slow: Option<u64>) -> [Case; 4] {
    [
        Case { verifies: false, message_bytes: 100, message_count: 2, window: 1, slow },
        Case { verifies: true, message_bytes: 100, message_count: 2, window: 2, slow },
        Case { verifies: false, message_bytes: 6000, message_count: 2, window: 2, slow },
        Case { verifies: true, message_bytes: 6000, message_count: 1, window: 1, slow },
    ]
}
