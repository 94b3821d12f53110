//! What a sender is told: of messages that somebody wrote over, and of those that arrived just before their receiver closed.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::DaemonConfig;
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, SendFailure, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

const CLASS: u8 = 13;
const BYTES: u32 = 5000;

fn world(faults: LinkFaults, seed: u64) -> World {
    World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        daemon: Some(DaemonConfig::default()),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults,
        seed,
    })
    .unwrap()
}

fn open(world: &World, place: usize, config: PortConfig) -> Port {
    let memory = Arc::clone(&world.nodes[place].memory);
    Port::open(memory, 1, 2, PortConfig { pages: 64, ..config }).unwrap()
}

fn send(port: &mut Port, token: u32) {
    let bytes = vec![token as u8 + 1; BYTES as usize];
    assert!(port.write(token * 8192, &bytes));
    let to = Peer { node: 1, port: 1, priority: 0 };
    let service = Service::Normal { size_class: CLASS };
    port.send(Message { token, address: token * 8192, length: BYTES, to, service }).unwrap();
}

#[test]
fn a_message_that_is_written_over_before_it_is_sent_is_put_back_or_its_sender_is_told() {
    for keeps_copies in [true, false] {
        let mut world = world(LinkFaults::default(), 1);
        let mut sender = open(&world, 0, PortConfig { keeps_copies, ..PortConfig::tolerant(0) });
        let mut receiver = open(&world, 1, PortConfig::tolerant(0));
        for token in 0..3 {
            receiver.provide(token, token * 8192, CLASS, 0).unwrap();
        }
        (0..3).for_each(|token| send(&mut sender, token));
        // As an interface would that writes where it must not. The messages still wait for the self-test.
        assert!(sender.write(8192 + 77, &[0xee; 4]));
        let (mut told, mut came) = (Vec::new(), Vec::new());
        while told.len() < 3 && world.now_ns() < 2_000_000_000 {
            let now_ns = world.now_ns();
            while let Some(event) = sender.poll(now_ns) {
                if let Event::Sent { token, outcome } = event {
                    told.push((token, outcome));
                }
            }
            while let Some(event) = receiver.poll(now_ns) {
                if let Event::Received { address, length, .. } = event {
                    let mut bytes = vec![0; length as usize];
                    receiver.read(address, &mut bytes);
                    came.push(bytes);
                }
            }
            world.step(now_ns + 100_000);
        }
        let whole = |token: u8| vec![token + 1; BYTES as usize];
        match keeps_copies {
            true => {
                assert_eq!(told, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
                assert_eq!(came, [whole(0), whole(1), whole(2)]);
                assert_eq!(sender.counts().mended_count, 1);
            }
            false => {
                let changed = Err(SendFailure::Changed);
                assert_eq!(told, [(0, Ok(())), (1, changed), (2, changed)]);
                assert_eq!(came, [whole(0)], "what was written over reaches nobody");
            }
        }
    }
}

/// The receiver closes its port in the moment in which it has its last message; the acknowledgement may be lost on the link.
#[test]
fn of_messages_that_arrived_before_their_port_closed_the_sender_learns_that_they_arrived() {
    const COUNT: u32 = 5;
    let faults = LinkFaults { lost: 13_000, ..LinkFaults::default() };
    let mut lost_count = 0;
    for seed in 0..40 {
        let mut world = world(if seed == 0 { LinkFaults::default() } else { faults }, seed);
        let mut sender = open(&world, 0, PortConfig::tolerant(0));
        let mut receiver = open(&world, 1, PortConfig::tolerant(0));
        for token in 0..COUNT + 1 {
            receiver.provide(token, token * 8192, CLASS, 0).unwrap();
        }
        // One more than it takes.
        (0..COUNT + 1).for_each(|token| send(&mut sender, token));
        let (mut told, mut came, mut receiver) = (Vec::new(), 0, Some(receiver));
        while told.len() < COUNT as usize + 1 && world.now_ns() < 4_000_000_000 {
            let now_ns = world.now_ns();
            while let Some(event) = sender.poll(now_ns) {
                if let Event::Sent { token, outcome } = event {
                    told.push((token, outcome));
                }
            }
            while let Some(event) = receiver.as_mut().and_then(|port| port.poll(now_ns)) {
                came += u32::from(matches!(event, Event::Received { .. }));
                if came == COUNT {
                    receiver.take().unwrap().close();
                }
            }
            world.step(now_ns + 100_000);
        }
        let arrived = (0..COUNT).map(|token| (token, Ok(())));
        let expected: Vec<_> = arrived.chain([(COUNT, Err(SendFailure::Closed))]).collect();
        assert_eq!(told, expected, "seed {seed}, {came} came");
        lost_count += world.link_counts().lost_count;
    }
    assert!(lost_count > 100, "{lost_count}");
}
