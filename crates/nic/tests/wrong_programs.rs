//! Programs that do what they should not, or what others do not expect: each hears of it, and no interface is reloaded for it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use surefoot_nic::device::TrapPolicy;
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, RequestError, SendFailure, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::host::suspects::Allowance;
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

const SECOND: u64 = 1_000_000_000;
const TO: Peer = Peer { node: 1, port: 2, priority: 0 };

fn config(daemon: DaemonConfig) -> WorldConfig {
    WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        daemon: Some(daemon),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 1,
    }
}

fn world(daemon: DaemonConfig) -> World {
    World::new(&config(daemon)).unwrap()
}

fn open(world: &World, place: usize, port: usize, pages: u32) -> Port {
    Port::open(Arc::clone(&world.nodes[place].memory), port, 2, PortConfig::tolerant(pages)).unwrap()
}

fn reloads(world: &World) -> usize {
    let is_reload = |(_, step): &&(u64, Step)| matches!(step, Step::Reloaded { .. });
    world.nodes.iter().flat_map(|node| &node.steps).filter(is_reload).count()
}

/// Runs the world, with what the ports do, until a moment or until that says stop.
fn run(world: &mut World, until_ns: u64, mut each: impl FnMut(u64) -> bool) {
    while world.now_ns() < until_ns {
        let now_ns = world.now_ns();
        if each(now_ns) {
            break;
        }
        world.step(now_ns + 50_000);
    }
}

fn outcomes(port: &mut Port, now_ns: u64) -> Vec<Result<(), SendFailure>> {
    let events = std::iter::from_fn(|| port.poll(now_ns));
    events.filter_map(|event| if let Event::Sent { outcome, .. } = event { Some(outcome) } else { None }).collect()
}

#[test]
fn a_program_that_sends_to_a_closed_port_for_ever_is_told_so_and_stops_nobody() {
    let mut world = world(DaemonConfig::default());
    let mut sender = open(&world, 0, 1, 4);
    // Somebody else, who has nothing to do with it.
    let mut other = open(&world, 0, 3, 1);
    let (mut token, mut told, mut suspect) = (0, 0, 0);
    run(&mut world, SECOND / 2, |now_ns| {
        for outcome in outcomes(&mut sender, now_ns) {
            assert_eq!(outcome, Err(SendFailure::Closed));
            told += 1;
        }
        suspect += std::iter::from_fn(|| other.poll(now_ns)).filter(|event| *event == Event::MemorySuspect).count();
        while sender.outstanding_count() < 4 {
            token += 1;
            let service = Service::Normal { size_class: 4 };
            sender.send(Message { token, address: 0, length: 16, to: TO, service }).unwrap();
        }
        false
    });
    assert!(told > 1000, "{told}");
    assert_eq!((reloads(&world), suspect), (0, 0));
}

/// A flag, a heartbeat, the head of a ring: what directed messages are for.
#[test]
fn directed_messages_to_one_address_arrive_one_after_the_other() {
    let mut world = world(DaemonConfig::default());
    let (mut sender, mut receiver) = (open(&world, 0, 1, 4), open(&world, 1, 2, 4));
    const COUNT: u32 = 200;
    let (mut next, mut arrived, mut came) = (0, 0, Vec::new());
    run(&mut world, 4 * SECOND, |now_ns| {
        arrived += outcomes(&mut sender, now_ns).into_iter().map(Result::unwrap).count();
        while let Some(event) = receiver.poll(now_ns) {
            let Event::Directed { address, length, .. } = event else { continue };
            let mut bytes = vec![0; length as usize];
            receiver.read(address, &mut bytes);
            assert_eq!(bytes, vec![bytes[0]; 100], "of one message alone");
            came.push(u32::from(bytes[0]));
        }
        while next < COUNT && sender.outstanding_count() < 8 {
            let address = next % 16 * 128;
            assert!(sender.write(address, &[next as u8; 100]));
            // Of some the ranges only overlap.
            let service = Service::Directed { remote: 4096 + next % 3 * 50 };
            sender.send(Message { token: next, address, length: 100, to: TO, service }).unwrap();
            next += 1;
        }
        arrived as u32 == COUNT
    });
    assert_eq!(arrived as u32, COUNT);
    assert_eq!(came, (0..COUNT).map(|number| number % 256).collect::<Vec<_>>());
    assert_eq!(reloads(&world), 0);
}

#[test]
fn a_directed_message_beyond_the_targets_memory_is_refused() {
    let mut world = world(DaemonConfig::default());
    let (mut sender, mut receiver) = (open(&world, 0, 1, 4), open(&world, 1, 2, 4));
    let send = |sender: &mut Port, token, remote, length| {
        sender.send(Message { token, address: 0, length, to: TO, service: Service::Directed { remote } }).unwrap();
    };
    // Over the end, beyond it, and where there is something; the first also as the first message of its stream.
    for (token, (remote, is_inside)) in
        [(3 << 12 | 2048, false), (0, true), (9 << 12, false), (4096, true)].into_iter().enumerate()
    {
        send(&mut sender, token as u32, remote, 4096);
        let (begun_ns, mut told) = (world.now_ns(), Vec::new());
        run(&mut world, begun_ns + SECOND, |now_ns| {
            while receiver.poll(now_ns).is_some() {}
            told.extend(outcomes(&mut sender, now_ns));
            !told.is_empty()
        });
        let expected = if is_inside { Ok(()) } else { Err(SendFailure::Refused) };
        assert_eq!(told, [expected], "at {remote:#x}");
    }
    assert_eq!(reloads(&world), 0);
}

#[test]
fn a_program_that_writes_over_what_it_sends_has_the_interface_reloaded_so_often_and_no_more() {
    const BURST: u32 = 2;
    let daemon = DaemonConfig {
        suspicion_reloads: Allowance { burst: BURST, every_ns: 60 * SECOND },
        ..DaemonConfig::default()
    };
    let mut world = world(daemon);
    let (mut sender, mut receiver) = (open(&world, 0, 1, 16), open(&world, 1, 2, 32));
    for token in 0..8 {
        receiver.provide(token, token * 8192, 13, 0).unwrap();
    }
    let mut token = 0;
    run(&mut world, SECOND, |now_ns| {
        outcomes(&mut sender, now_ns);
        while let Some(event) = receiver.poll(now_ns) {
            if let Event::Received { token, address, .. } = event {
                receiver.provide(token, address, 13, 0).unwrap();
            }
        }
        while sender.outstanding_count() < 4 {
            let to_class = Service::Normal { size_class: 13 };
            sender.send(Message { token, address: 0, length: 8000, to: TO, service: to_class }).unwrap();
            token += 1;
        }
        sender.write(now_ns as u32 / 1000 % 8000, &[now_ns as u8]);
        false
    });
    // Each daemon: of its own libraries, and of what the other daemon says.
    assert!((1..=3 * BURST as usize).contains(&reloads(&world)), "{}", reloads(&world));
}

#[test]
fn memory_that_is_in_use_is_given_to_no_second_request() {
    let world = world(DaemonConfig::default());
    let mut port = open(&world, 0, 1, 4);
    port.provide(0, 4096, 12, 0).unwrap();
    let overlaps = |error| matches!(error, RequestError::Overlaps { token: 0, .. });
    assert!(overlaps(port.provide(1, 8191, 0, 0).unwrap_err()));
    let message = |token, address, length| Message {
        token,
        address,
        length,
        to: TO,
        service: Service::Normal { size_class: 12 },
    };
    assert!(overlaps(port.send(message(2, 4000, 97)).unwrap_err()));
    port.send(message(3, 4000, 96)).unwrap();
    port.send(message(4, 4000, 96)).unwrap();
    assert!(matches!(port.provide(1, 0, 12, 0), Err(RequestError::Overlaps { token: 3, .. })));
    port.provide(1, 8192, 12, 0).unwrap();
}

#[test]
fn requests_that_cannot_be_name_what_is_wrong() {
    let world = world(DaemonConfig::default());
    let mut port = open(&world, 0, 1, 4);
    port.provide(0, 4096, 12, 0).unwrap();
    let provided = |port: &mut Port, class, priority| port.provide(0, 0, class, priority).unwrap_err().to_string();
    assert_eq!(provided(&mut port, 17, 0), "there is no size class 17: classes are 0 to 16");
    assert_eq!(provided(&mut port, 12, 2), "there is no priority 2: 0 is low, 1 is high");
    let mut sent =
        |to, service| port.send(Message { token: 9, address: 0, length: 6, to, service }).unwrap_err().to_string();
    let class = |size_class| Service::Normal { size_class };
    assert_eq!(sent(TO, class(2)), "6 bytes are too many for size class 2: at most 4");
    assert_eq!(sent(TO, class(99)), "there is no size class 99: classes are 0 to 16");
    for port in [0, 7] {
        let why = format!("port {port} is the daemon's: applications have the ports 1 to 6");
        assert_eq!(sent(Peer { port, ..TO }, class(3)), why);
    }
}

/// The interface may be in the middle of a message when its port is closed.
#[test]
fn memory_of_a_closed_port_is_given_to_the_next_one_when_nothing_is_written_there_any_more() {
    const PAGES: u32 = 40;
    let mut world = World::new(&WorldConfig {
        // The daemon's pages, and those of one port.
        arena_bytes: surefoot_nic::host::selftest::DAEMON_BYTES + PAGES * 4096,
        ..config(DaemonConfig::default())
    })
    .unwrap();
    let mut sender = open(&world, 0, 1, 16);
    sender.write(0, &[0xaa; 60_000]);
    let opened = |world: &mut World, number| loop {
        let memory = Arc::clone(&world.nodes[1].memory);
        match Port::open(memory, number, 2, PortConfig::tolerant(PAGES)) {
            Ok(port) => return port,
            Err(error) => assert!(world.now_ns() < 20 * SECOND, "{error}"),
        }
        world.step(world.now_ns() + 10_000);
    };
    for round in 0..100_u32 {
        let mut receiver = opened(&mut world, 2);
        receiver.provide(0, 0, 16, 0).unwrap();
        sender
            .send(Message {
                token: round,
                address: 0,
                length: 60_000,
                to: TO,
                service: Service::Normal { size_class: 16 },
            })
            .unwrap();
        // Until some of it is there, and a little longer each time.
        let is_begun = |receiver: &Port| {
            let mut first = [0];
            receiver.read(0, &mut first);
            first != [0]
        };
        while !is_begun(&receiver) {
            assert!(world.now_ns() < 20 * SECOND);
            sender.poll(world.now_ns());
            receiver.poll(world.now_ns());
            world.step(world.now_ns() + 1_000);
        }
        let until_ns = world.now_ns() + u64::from(round) * 700;
        while world.now_ns() < until_ns {
            world.step(until_ns);
        }
        receiver.close();
        let next = opened(&mut world, 3);
        next.write(0, &[0; PAGES as usize * 4096]);
        let until_ns = world.now_ns() + SECOND / 1000;
        run(&mut world, until_ns, |now_ns| {
            sender.poll(now_ns);
            false
        });
        let mut found = vec![1; PAGES as usize * 4096];
        next.read(0, &mut found);
        let strange = found.iter().position(|byte| *byte != 0);
        assert_eq!(strange, None, "round {round}");
        next.close();
        while sender.outstanding_count() > 0 {
            assert!(world.now_ns() < 20 * SECOND);
            sender.poll(world.now_ns());
            world.step(world.now_ns() + 50_000);
        }
    }
    assert_eq!(reloads(&world), 0);
}

/// A program that has a port open and stands still does not keep the daemon from seeing the next failure, nor the others from going on;
/// when it runs again its port is restored.
#[test]
fn a_program_that_stands_still_keeps_only_its_own_port_from_being_restored() {
    // An interface that only goes silent is found by asking it.
    for hears_watchdog in [true, false] {
        beside_a_program_that_stands_still(&mut world(DaemonConfig { hears_watchdog, ..DaemonConfig::default() }));
    }
}

fn beside_a_program_that_stands_still(world: &mut World) {
    let mut asleep = open(world, 0, 3, 2);
    let (mut sender, mut receiver) = (open(world, 0, 1, 8), open(world, 1, 2, 8));
    for token in 0..4 {
        receiver.provide(token, token * 1024, 10, 0).unwrap();
    }
    let (mut sent, mut confirmed, mut delivered) = (0u32, 0u32, 0u32);
    let mut exchange = |world: &mut World, until_ns: u64, goal: u32| {
        run(world, until_ns, |now_ns| {
            if sent - confirmed < 2 {
                let service = Service::Normal { size_class: 10 };
                sender.send(Message { token: sent, address: 0, length: 500, to: TO, service }).unwrap();
                sent += 1;
            }
            confirmed += outcomes(&mut sender, now_ns).into_iter().map(Result::unwrap).count() as u32;
            while let Some(event) = receiver.poll(now_ns) {
                if let Event::Received { token, address, number, .. } = event {
                    delivered += 1;
                    assert_eq!(number, delivered, "lost, doubled or out of order");
                    receiver.provide(token, address, 10, 0).unwrap();
                }
            }
            delivered >= goal
        });
        assert!(delivered >= goal, "{delivered} of {goal} messages by {} ns", world.now_ns());
    };
    exchange(world, SECOND, 20);
    for failure in 1..=3 {
        // j .
        let here = world.nodes[0].device.core().pc;
        world.nodes[0].device.write_sram(here, &0x0000_006f_u32.to_le_bytes()).unwrap();
        let until_ns = world.now_ns() + SECOND;
        exchange(world, until_ns, 20 + 20 * failure);
        assert_eq!(reloads(world), failure as usize);
        // The self-test that follows a reload.
        let until_ns = world.now_ns() + SECOND / 20;
        run(world, until_ns, |_| false);
    }
    let recovered = |world: &World| world.nodes[0].steps.iter().filter(|(_, step)| *step == Step::Recovered).count();
    assert_eq!(recovered(world), 0, "one port is not back");
    let looks = world.nodes[0].steps.iter().filter(|(_, step)| matches!(step, Step::Passed { .. })).count();
    assert!(looks >= 3, "the interface is tested after each: {:?}", world.nodes[0].steps);
    let until_ns = world.now_ns() + SECOND;
    run(world, until_ns, |now_ns| {
        while asleep.poll(now_ns).is_some() {}
        false
    });
    assert_eq!((recovered(world), asleep.counts().recovery_count), (1, 1));
}
