//! The interface is stopped after every instruction of messages' round trips, on either side: nothing is lost, nothing
//! comes twice. This is exhaustive where a storm is random.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::DaemonConfig;
use surefoot_nic::host::port::PortConfig;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, STEP_NS, World, WorldConfig};

struct Case {
    verifies: bool,
    message_bytes: u32,
    message_count: u32,
    window: u32,
}

/// What a run without failures and with one looks like to the checker; whether the interface was stopped; the instruction
/// counts at the end.
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
    let mut stop = stop;
    while !traffic.is_done() && world.now_ns() < 60_000_000 {
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
    let verdict = traffic.verdict();
    let is_perfect = traffic.is_done() && verdict.is_perfect();
    if !is_perfect {
        println!("{verdict:?}, done {}, {:?}", traffic.is_done(), world.nodes.each_ref().map(|node| &node.steps));
    }
    (is_perfect, stop.is_none(), world.nodes.each_ref().map(|node| node.device.instruction_count()))
}

#[test]
fn an_interface_that_stops_after_any_instruction_loses_and_doubles_nothing() {
    let firmware = Arc::new(Firmware::built(Build::Tolerant));
    // All of them where asked for; else a different part for each case.
    let stride: u64 = if std::env::var_os("SUREFOOT_EVERY_INSTRUCTION").is_some() { 1 } else { 97 };
    let cases = [
        Case { verifies: false, message_bytes: 100, message_count: 2, window: 1 },
        Case { verifies: true, message_bytes: 100, message_count: 2, window: 2 },
        Case { verifies: false, message_bytes: 6000, message_count: 2, window: 2 },
        Case { verifies: true, message_bytes: 6000, message_count: 1, window: 1 },
    ];
    let mut points = 0;
    for (number, case) in cases.iter().enumerate() {
        let (is_perfect, _, ends) = run(&firmware, case, None);
        assert!(is_perfect);
        for (place, end) in ends.into_iter().enumerate() {
            // The control program's first instructions included: a failure before the port is open.
            for at in (1 + number as u64..end).step_by(stride as usize) {
                let (is_perfect, is_stopped, _) = run(&firmware, case, Some((place, at)));
                assert!(is_perfect, "case {number}, node {place}, instruction {at}");
                // Steps of another length may end the run a little before the last places.
                assert!(is_stopped || at + 1_000 > end, "case {number}, node {place}, instruction {at} of {end}");
                points += u64::from(is_stopped);
            }
        }
    }
    println!("{points} points, every {stride}. instruction");
    assert!(points > 500);
}
