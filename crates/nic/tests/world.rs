//! Two interfaces in virtual time, with the control program as it is built.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::port::PortConfig;
use surefoot_nic::host::selftest::SelfTestConfig;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

fn config(build: Build) -> WorldConfig {
    WorldConfig {
        firmware: Arc::new(Firmware::built(build)),
        daemon: match build {
            Build::Plain => None,
            Build::Detecting => Some(DaemonConfig { verifies: false, numbers: false, ..DaemonConfig::default() }),
            Build::Tolerant => Some(DaemonConfig::default()),
        },
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 1,
    }
}

fn traffic(count: u32, bytes: u32) -> TrafficConfig {
    TrafficConfig {
        message_count: count,
        message_bytes: bytes,
        window: 4,
        both_ways: true,
        kind: Kind::Normal,
        seed: 7,
    }
}

/// Runs until all is delivered and confirmed, or the time is over.
fn run(world: &mut World, traffic: &mut Traffic, most_ns: u64, mut at: impl FnMut(&mut World, &Traffic)) {
    while !traffic.is_done() && world.now_ns() < most_ns {
        let did = traffic.step(world.now_ns());
        let idle = if did { 0 } else { world.now_ns() + 100_000 };
        world.step(idle);
        at(world, traffic);
    }
}

fn assert_whole(traffic: &Traffic, count: u32) {
    for (place, history) in traffic.histories.iter().enumerate() {
        let sent: Vec<_> = history.sent.iter().map(|seen| (seen.id, seen.checksum)).collect();
        let delivered: Vec<_> = history.delivered.iter().map(|seen| (seen.id, seen.checksum)).collect();
        assert_eq!(sent.len() as u32, count, "from node {place}");
        assert_eq!(sent, delivered, "from node {place}");
        assert_eq!((history.confirmed_count, history.failed_count), (count, 0), "from node {place}");
    }
}

#[test]
fn messages_of_all_sizes_arrive_in_order_by_every_build() {
    for build in [Build::Plain, Build::Detecting, Build::Tolerant] {
        for bytes in [12, 100, 4096, 4097, 20_000] {
            let mut world = World::new(&config(build)).unwrap();
            let port = match build {
                Build::Plain => PortConfig::plain(0),
                Build::Detecting => PortConfig { waits_for_test: true, ..PortConfig::plain(0) },
                Build::Tolerant => PortConfig::tolerant(0),
            };
            let mut traffic = Traffic::new(&world, port, traffic(40, bytes)).unwrap();
            run(&mut world, &mut traffic, 2_000_000_000, |_, _| {});
            println!("{build:?} {bytes}: {} us, {:?}", world.now_ns() / 1000, traffic.port(1).counts());
            for node in &world.nodes {
                println!("  {:?} {:?}", &node.steps[..node.steps.len().min(6)], node.device.halted());
            }
            assert_whole(&traffic, 40);
        }
    }
}

#[test]
fn a_hung_interface_is_found_and_nothing_is_lost_or_doubled() {
    for place in 0..2 {
        let mut world = World::new(&config(Build::Tolerant)).unwrap();
        let mut traffic = Traffic::new(&world, PortConfig::tolerant(0), traffic(60, 5000)).unwrap();
        let mut is_hung = false;
        run(&mut world, &mut traffic, 2_000_000_000, |world, traffic| {
            if !is_hung && traffic.delivered_count() > 20 {
                is_hung = true;
                world.nodes[place].hang();
            }
        });
        println!("{:?}", &world.nodes[place].steps[..world.nodes[place].steps.len().min(12)]);
        assert_whole(&traffic, 60);
        assert!(world.nodes[place].steps.iter().any(|(_, step)| *step == Step::Recovered));
    }
}

#[test]
fn an_interface_that_hangs_in_the_middle_of_its_self_test_comes_back_once() {
    for after_ns in [150_000, 250_000, 400_000, 600_000] {
        let mut world = World::new(&config(Build::Tolerant)).unwrap();
        let mut traffic = Traffic::new(&world, PortConfig::tolerant(0), traffic(60, 5000)).unwrap();
        let mut is_hung = false;
        run(&mut world, &mut traffic, 200_000_000, |world, _| {
            if !is_hung && world.now_ns() > after_ns {
                is_hung = true;
                world.nodes[0].hang();
            }
        });
        assert_whole(&traffic, 60);
        let count = |wanted: fn(&Step) -> bool| world.nodes[0].steps.iter().filter(|(_, step)| wanted(step)).count();
        assert_eq!(count(|step| matches!(step, Step::Reloaded { .. })), 1, "{after_ns}: {:?}", world.nodes[0].steps);
        assert!(count(|step| matches!(step, Step::Passed { .. })) > 0);
    }
}

/// The interface posts events to the daemon that died until it is told of the next one. Their numbers were once taken for the next one's own, which then
/// missed as many: in storms 3 and 6,807 messages that nobody verifies were confirmed and lost, and the self-test failed for ever.
#[test]
fn a_daemon_that_dies_in_its_self_test_leaves_no_event_to_the_next_one() {
    for verifies in [false, true] {
        for at in [0, 9, 18, 27, 36] {
            let test = SelfTestConfig { interval_ns: 500_000, ..SelfTestConfig::default() };
            let daemon = DaemonConfig { self_test: Some(test), verifies, ..DaemonConfig::default() };
            let mut world = World::new(&WorldConfig { daemon: Some(daemon), ..config(Build::Tolerant) }).unwrap();
            let port = PortConfig { verifies, ..PortConfig::tolerant(0) };
            let traffic_config = TrafficConfig { message_count: 400, window: 1, ..traffic(400, 12) };
            let mut traffic = Traffic::new(&world, port, traffic_config).unwrap().paced(50_000, &[]);
            let mut is_renewed = false;
            run(&mut world, &mut traffic, 1_000_000_000, |world, _| {
                if !is_renewed && world.now_ns() > 3_000_000 + at * 13_000 {
                    is_renewed = true;
                    world.nodes[0].renew_daemon(daemon, world.now_ns()).unwrap();
                }
            });
            let steps = &world.nodes[0].steps;
            let failed: Vec<_> = steps.iter().filter(|(_, step)| matches!(step, Step::Detected(_))).collect();
            assert!(failed.is_empty(), "{failed:?}, verifies {verifies}, place {at}");
            assert!(steps.iter().filter(|(_, step)| matches!(step, Step::Passed { .. })).count() > 10);
            assert_whole(&traffic, 400);
        }
    }
}
