//! Absurd commands of an application, hostile packets on the link and impossible events: the interface and the other
//! applications go on unharmed.
#![allow(clippy::unwrap_used, clippy::precedence, clippy::manual_is_multiple_of, reason = "a test, and dice")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_nic::device::{Packet, TrapPolicy};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::layout::{PORT_EVENT_COUNT, PORT_EVENTS, command, event};
use surefoot_nic::host::memory::{HostMemory, block};
use surefoot_nic::host::port::{Message, Port, PortConfig, RequestError, SendFailure, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::host::{driver, mailbox, port};
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

struct Random(surefoot_random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    fn next(&mut self) -> u32 {
        (self.0.word() >> 16) as u32
    }

    /// Small numbers, limits and their neighbours more often than others.
    fn odd(&mut self) -> u32 {
        match self.next() % 6 {
            0 => self.next() % 18,
            1 => u32::MAX - self.next() % 3,
            2 => (1 << (self.next() % 32)) - self.next() % 2,
            3 => 4_194_304 - self.next() % 5000,
            4 => self.next() % 70_000,
            _ => self.next(),
        }
    }
}

fn world(build: Build) -> World {
    World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(build)),
        daemon: Some(DaemonConfig { self_test: None, ..DaemonConfig::default() }),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 5,
    })
    .unwrap()
}

fn traffic(world: &World) -> Traffic {
    let config = TrafficConfig {
        message_count: 300,
        message_bytes: 3000,
        window: 4,
        both_ways: true,
        kind: Kind::Normal,
        seed: 11,
    };
    Traffic::new(world, PortConfig { waits_for_test: false, ..PortConfig::tolerant(0) }, config).unwrap()
}

/// Runs the traffic to its end while something is done to the world at each step.
fn run_while(world: &mut World, mut harm: impl FnMut(&mut World)) {
    let mut traffic = traffic(world);
    while !traffic.is_done() && world.now_ns() < 2_000_000_000 {
        traffic.step(world.now_ns());
        harm(world);
        world.step(0);
    }
    println!("{} us for {} messages", world.now_ns() / 1000, traffic.delivered_count());
    let verdict = traffic.verdict();
    assert!(verdict.is_perfect() && verdict.delivered_count == 600, "{verdict:?}");
    for node in &world.nodes {
        assert_eq!((node.device.halted(), node.crashed_ns), (None, None));
        let detected = node.steps.iter().find(|(_, step)| matches!(step, Step::Detected(_)));
        assert_eq!(detected, None, "the daemon had to do something");
    }
}

#[test]
fn absurd_commands_of_one_application_harm_no_other() {
    for seed in 1..6 {
        let mut world = world(Build::Tolerant);
        for node in &world.nodes {
            driver::open(&node.memory, 2, 9, 4).unwrap();
        }
        let mut random = Random::new(seed);
        run_while(&mut world, |world| {
            let node = &world.nodes[(random.next() % 2) as usize];
            let mut words = [0; 16];
            for word in &mut words {
                *word = random.odd();
            }
            words[0] = random.next() % 14;
            // It may speak in its own name, and to others, but nobody gets a port of his own taken away by it.
            mailbox::put(&node.memory, 2, &words);
        });
    }
}

#[test]
fn hostile_packets_harm_nobody() {
    for seed in 1..6 {
        let mut world = world(Build::Tolerant);
        let mut random = Random::new(seed * 77);
        run_while(&mut world, |world| {
            if random.next() % 8 != 0 {
                return;
            }
            let length = match random.next() % 4 {
                0 => random.next() % 80,
                1 => 64,
                2 => 64 + random.next() % 200,
                _ => 64 + random.next() % 4200,
            };
            let mut bytes: Vec<u8> = (0..length.next_multiple_of(4)).map(|_| random.next() as u8).collect();
            let mut word = |at: usize, value: u32| {
                if let Some(place) = bytes.get_mut(at * 4..at * 4 + 4) {
                    place.copy_from_slice(&value.to_le_bytes());
                }
            };
            let to = random.next() % 2;
            if random.next() % 8 != 0 {
                word(0, 0x5346_0100 | random.next() % 6);
                word(1, to << 24 | random.next() & 0xff_ffff);
                // Any stream but that of the traffic, whose peer is believed.
                let from_port = [0, 2, 3, 4, 5, 6, 7, 200][(random.next() % 8) as usize];
                word(
                    2,
                    random.next() % 9 << 24 | from_port << 16 | to << 8 | [2, 3, 7, 200][(random.next() % 4) as usize],
                );
                word(3, random.odd());
                for place in 4..16 {
                    word(place, random.odd());
                }
            }
            let crc = if random.next() % 16 == 0 { 1 } else { crc32fast::hash(&bytes) };
            let now_ns = world.now_ns();
            world.nodes[to as usize].device.deliver(now_ns, Packet { at_ns: now_ns, crc, bytes });
        });
    }
}

#[test]
fn an_alarm_beyond_half_a_round_of_the_interfaces_clock_is_not_at_once() {
    const HOUR_US: u32 = 3_600_000_000;
    let mut world = world(Build::Tolerant);
    let memory = Arc::clone(&world.nodes[0].memory);
    let mut port = Port::open(Arc::clone(&memory), 2, 1, PortConfig::tolerant(1)).unwrap();
    port.alarm(7, HOUR_US);
    while world.now_ns() < 5_000_000 {
        assert_eq!(port.poll(world.now_ns()), None);
        world.step(world.now_ns() + 100_000);
    }
    // It is asked for in parts, and the time is kept across them.
    let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
    let mut port = Port::open(Arc::clone(&memory), 2, 1, PortConfig::tolerant(1)).unwrap();
    port.alarm(7, HOUR_US);
    let (mut at_us, mut number, mut alarms) = (0_u64, 0_u32, Vec::new());
    for _ in 0..5 {
        let mut asked = None;
        while mailbox::waiting(&memory, 2) > 0 {
            let words = mailbox::first(&memory, 2);
            asked = (words[0] == command::ALARM).then_some(words[2]).or(asked);
            mailbox::pop(&memory, 2);
        }
        let Some(asked) = asked else { break };
        assert!(asked < 1 << 31, "{asked} us lie in the past");
        at_us += u64::from(asked);
        let at = block(2) + PORT_EVENTS + number * 64;
        number += 1;
        memory.word(at).store(event::ALARM, Ordering::Relaxed);
        memory.word(at + 4).store(7, Ordering::Relaxed);
        memory.word(at + event::NUMBER as u32 * 4).store(number, Ordering::Release);
        alarms.extend(port.poll(at_us * 1000).map(|event| (at_us, event)));
    }
    assert_eq!(alarms, [(u64::from(HOUR_US), port::Event::Alarm { token: 7 })]);
}

/// One bit of a header is enough: the generation of a stream's first message, garbled where the link's checksum does not see it.
#[test]
fn a_message_that_is_not_right_begins_no_generation() {
    for (generation, at_ns) in [(0x4000_0000, 0), (0x7fff_fff0, 0), (0x4000_0000, 3_000_000), (0, 0), (2, 3_000_000)] {
        let mut world = world(Build::Tolerant);
        let mut left = 30;
        run_while(&mut world, |world| {
            let now_ns = world.now_ns();
            if left == 0 || now_ns < at_ns {
                return;
            }
            left -= 1;
            for to in 0..2 {
                let from = 1 - to;
                let mut words = [0_u32; 16];
                // A message of 12 bytes from the traffic's own port, of the traffic's size class, whose checksum is wrong.
                words[..10].copy_from_slice(&[
                    0x5346_0101,
                    to << 24 | from << 16,
                    from << 24 | 1 << 16 | to << 8 | 1,
                    1 | 12 << 16,
                    generation,
                    1,
                    0,
                    12,
                    12,
                    0x1234_5678,
                ]);
                let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                bytes.extend([7; 12]);
                let packet = Packet { at_ns: now_ns, crc: crc32fast::hash(&bytes), bytes };
                world.nodes[to as usize].device.deliver(now_ns, packet);
            }
        });
    }
}

#[test]
fn impossible_events_are_counted_and_change_nothing() {
    let mut random = Random::new(99);
    for _ in 0..200 {
        let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
        let mut port = Port::open(Arc::clone(&memory), 1, 1, PortConfig::tolerant(16)).unwrap();
        for token in 0..4 {
            port.provide(token, token * 4096, 12, 0).unwrap();
        }
        let mut events = 0;
        for number in 1..=PORT_EVENT_COUNT {
            let at = block(1) + PORT_EVENTS + (number - 1) * 64;
            for word in 0..15 {
                memory.word(at + word * 4).store(random.odd(), Ordering::Relaxed);
            }
            // Messages that were never verified, numbers never sent, buffers never given.
            memory.word(at).store(random.next() % 9, Ordering::Relaxed);
            memory.word(at + 4).store(random.next() % 6, Ordering::Relaxed);
            memory.word(at + event::NUMBER as u32 * 4).store(number, Ordering::Release);
            while let Some(event) = port.poll(u64::from(number)) {
                events += 1;
                // The one thing that is believed of an interface is that it does not want a buffer.
                assert!(matches!(event, port::Event::BufferRefused { .. }), "{event:?}");
            }
        }
        let counts = port.counts();
        assert_eq!((counts.delivered_count, counts.recovery_count), (0, 0));
        assert!(counts.strange_event_count > 0 && events <= 4, "{counts:?}");
    }
}

#[test]
fn requests_that_cannot_be_are_refused_with_a_reason() {
    let memory = Arc::new(HostMemory::private(0, 1 << 20).unwrap());
    let mut port = Port::open(Arc::clone(&memory), 1, 1, PortConfig::plain(2)).unwrap();
    let to = Peer { node: 1, port: 1, priority: 0 };
    let whole = Message { token: 1, address: 0, length: 100, to, service: Service::Normal { size_class: 7 } };
    port.send(whole).unwrap();
    let refused = |message: Message, port: &mut Port| port.send(message).unwrap_err().to_string();
    assert_eq!(refused(whole, &mut port), "token 1 is in use by another request; give each its own");
    let next = Message { token: 2, ..whole };
    assert_eq!(
        refused(Message { length: 129, ..next }, &mut port),
        "129 bytes are too many for size class 7: at most 128"
    );
    assert!(
        refused(Message { address: 8150, ..next }, &mut port).contains("not inside the port's 8192 registered bytes")
    );
    assert!(refused(Message { address: u32::MAX, ..next }, &mut port).contains("not inside"));
    assert!(refused(Message { to: Peer { node: 8, ..to }, ..next }, &mut port).contains("no port 1 on node 8"));
    let datagram = Service::Datagram { size_class: 14 };
    assert_eq!(
        refused(Message { length: 5000, service: datagram, ..next }, &mut port),
        "5000 bytes are too many: at most 4096"
    );
    let far = Service::Directed { remote: u32::MAX - 10 };
    assert!(refused(Message { service: far, ..next }, &mut port).contains("not inside"));
    for token in 2..=16 {
        port.send(Message { token, ..whole }).unwrap();
    }
    assert_eq!(port.send(Message { token: 17, ..whole }), Err(RequestError::NoToken(16)));
    assert_eq!(
        Port::open(memory, 1, 2, PortConfig::plain(1)).unwrap_err().to_string(),
        "port 1 is open already, by process 1; close it there, or take another port"
    );
    assert_ne!(SendFailure::Closed, SendFailure::TimedOut);
    assert_eq!(command::OPEN, 1);
}
