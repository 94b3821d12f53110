//! One measure of the library, the daemon or the control program each, by the shortest way on which it matters. The planted faults of
//! `crates/nic-mutants` that storms, crash points and campaigns do not find end here.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_nic::device::registers::interrupt;
use surefoot_nic::device::{Packet, TrapPolicy};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{Daemon, DaemonConfig, Detector, Step};
use surefoot_nic::host::driver;
use surefoot_nic::host::layout::{
    PORT_EVENT_COUNT, PORT_EVENTS, SEND_TOKENS, command, control, event, port_word as words,
};
use surefoot_nic::host::mailbox::{self, Words};
use surefoot_nic::host::memory::{HostMemory, block, port_word};
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, SendFailure, Service, Unknown};
use surefoot_nic::host::selftest::SelfTestConfig;
use surefoot_nic::host::streams::Peer;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

const SECOND: u64 = 1_000_000_000;
const CLASS: u8 = 6;
const CLOSED: u32 = 1;
const REFUSED: u32 = 6;
const TIMED_OUT: u32 = 7;

/// A library alone; the test is its interface.
struct Alone {
    memory: Arc<HostMemory>,
    port: Port,
    posted: u32,
    said: Vec<Words>,
}

impl Alone {
    fn new(node: u32) -> Self {
        Alone::with(node, PortConfig::tolerant(4))
    }

    fn with(node: u32, config: PortConfig) -> Self {
        let memory = Arc::new(HostMemory::private(node, 1 << 20).unwrap());
        let config = PortConfig { waits_for_test: false, ..config };
        let port = Port::open(Arc::clone(&memory), 1, 1, config).unwrap();
        Alone { memory, port, posted: 0, said: Vec::new() }
    }

    /// Sends 16 bytes of the token's number to node 1; what the interface is told.
    fn send(&mut self, token: u32) -> Words {
        assert!(self.port.write(token * 64, &[token as u8; 16]));
        self.port.send(message(1, token, Service::Normal { size_class: CLASS }, 16)).unwrap();
        self.said(command::SEND).pop().unwrap()
    }

    /// Commands of a kind that it has said since it was last asked for them.
    fn said(&mut self, kind: u32) -> Vec<Words> {
        while mailbox::waiting(&self.memory, 1) > 0 {
            self.said.push(mailbox::first(&self.memory, 1));
            mailbox::pop(&self.memory, 1);
        }
        self.said.extract_if(.., |words| words[0] == kind).collect()
    }

    fn post(&mut self, words: &[u32]) {
        let at = block(1) + PORT_EVENTS + self.posted % PORT_EVENT_COUNT * 64;
        self.posted += 1;
        for (word, value) in (0..).zip(words) {
            self.memory.word(at + word * 4).store(*value, Ordering::Relaxed);
        }
        self.memory.word(at + event::NUMBER as u32 * 4).store(self.posted, Ordering::Release);
    }

    /// What became of the stream of a send.
    fn post_sent(&mut self, send: &Words, status: u32, proof: u32) {
        self.post(&[event::SENT, send[1], status, 1 << 16 | 0x101, 0, send[6], proof, send[10]]);
    }

    fn poll(&mut self, now_ns: u64) -> Vec<Event> {
        std::iter::from_fn(|| self.port.poll(now_ns)).collect()
    }
}

fn message(node: u8, token: u32, service: Service, length: u32) -> Message {
    Message { token, address: token * 64, length, to: Peer { node, port: 1, priority: 0 }, service }
}

#[test]
fn a_send_is_over_only_with_the_proof_of_the_receiving_library() {
    let mut alone = Alone::new(0);
    let send = alone.send(1);
    alone.post_sent(&send, 0, 0x1234_5678);
    assert_eq!(alone.poll(1000), []);
    let mut proof = crc32fast::Hasher::new();
    proof.update(&send[7].to_le_bytes());
    alone.post_sent(&send, 0, proof.finalize());
    assert_eq!(alone.poll(2000), [Event::Sent { token: 1, outcome: Ok(()) }]);
}

#[test]
fn the_content_of_one_message_under_the_number_of_another_is_not_delivered() {
    let (mut sender, mut receiver) = (Alone::new(0), Alone::new(1));
    let sends = [sender.send(1), sender.send(2)];
    for (content, number, comes) in [(1, 0, false), (0, 0, true), (1, 1, true)] {
        let token = 1 + content as u32 * 2 + number as u32;
        receiver.port.provide(token, token * 64, CLASS, 0).unwrap();
        assert!(receiver.port.write(token * 64, &[content as u8 + 1; 16]));
        let of = &sends[content];
        receiver.post(&[event::RECEIVED, token, 16, 0x1_0101, of[5], sends[number][6], of[7], of[10]]);
        assert_eq!(receiver.poll(1000).len(), usize::from(comes), "{content} as {number}");
        if !comes {
            // The buffer is the interface's again.
            assert_eq!(receiver.said(command::PROVIDE).iter().filter(|words| words[1] == token).count(), 2);
            assert_eq!(receiver.said(command::REJECT).len(), 1, "and it asks for the message again");
        }
    }
}

/// An interface that says that a port is closed is believed when it has said so again and again, and another one anew.
#[test]
fn a_refusal_is_not_believed_at_once_by_whichever_interface() {
    let mut alone = Alone::new(0);
    let mut send = alone.send(1);
    let mut now_ns = SECOND;
    for epoch in 2..5 {
        for time in 0..3 {
            alone.post_sent(&send, CLOSED, 0);
            assert_eq!(alone.poll(now_ns), [], "epoch {epoch}, time {time}");
            now_ns += 20_000_000;
            assert_eq!(alone.poll(now_ns), []);
            send = alone.said(command::SEND).pop().unwrap();
        }
        alone.port.unknown(Unknown::FaultDetected { epoch });
        send = alone.said(command::SEND).pop().unwrap();
        let opened = alone.said(command::OPEN).pop().unwrap();
        assert_eq!(opened[3], command::OPEN_VERIFIES, "the interface waits for what the library finds right");
    }
    for _ in 0..3 {
        alone.post_sent(&send, TIMED_OUT, 0);
        assert_eq!(alone.poll(now_ns), []);
        now_ns += 20_000_000;
        alone.poll(now_ns);
    }
    alone.post_sent(&send, CLOSED, 0);
    assert_eq!(alone.poll(now_ns), [Event::Sent { token: 1, outcome: Err(SendFailure::Closed) }]);
}

/// What a port does when its interface is another one: it takes in what is committed, says how far each stream has come, and gives the new interface every
/// buffer and every message that has not arrived.
#[test]
fn a_restored_interface_has_all_that_the_one_before_it_had() {
    let (mut sender, mut alone) = (Alone::new(0), Alone::new(1));
    let send = sender.send(1);
    for token in 1..4 {
        alone.port.provide(token, 1024 + token * 64, CLASS, 0).unwrap();
        alone
            .port
            .send(Message { token: 8 + token, ..message(0, token, Service::Normal { size_class: CLASS }, 16) })
            .unwrap();
    }
    assert!(alone.port.write(1024 + 64, &[1; 16]));
    alone.post(&[event::RECEIVED, 1, 16, 0x1_0101, send[5], send[6], send[7], send[10]]);
    alone.said(0);
    alone.said.clear();
    alone.port.unknown(Unknown::FaultDetected { epoch: 2 });
    let next = alone.said(command::STREAM).iter().map(|words| words[4]).collect::<Vec<_>>();
    assert_eq!(next, [2], "the committed message is taken in before");
    assert_eq!(alone.said(command::PROVIDE).iter().map(|words| words[1]).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(alone.said(command::SEND).iter().map(|words| words[1]).collect::<Vec<_>>(), [9, 10, 11]);
    assert!(matches!(alone.poll(1000)[..], [Event::Received { token: 1, .. }]));
}

#[test]
fn a_directed_message_that_is_refused_is_not_given_up_at_once() {
    let mut alone = Alone::new(0);
    alone.port.send(message(1, 1, Service::Directed { remote: 0 }, 16)).unwrap();
    let send = alone.said(command::SEND).pop().unwrap();
    alone.post_sent(&send, REFUSED, 0);
    assert_eq!(alone.poll(SECOND), []);
}

/// Two directed messages to one place go one after the other, and what is behind the second in their stream waits for it.
#[test]
fn messages_of_a_stream_are_handed_over_in_their_order() {
    let mut alone = Alone::new(0);
    for (token, remote) in [(1, 0), (2, 8), (3, 4096)] {
        alone.port.send(message(1, token, Service::Directed { remote }, 16)).unwrap();
    }
    assert_eq!(alone.said(command::SEND).iter().map(|words| words[1]).collect::<Vec<_>>(), [1]);
}

/// Where libraries verify nothing, too, what the interface says of a stream that is over says nothing of the next one.
#[test]
fn a_stream_that_is_over_ends_no_message_of_the_next_one() {
    let mut alone = Alone::with(0, PortConfig { verifies: false, ..PortConfig::tolerant(4) });
    let first = alone.send(1);
    alone.post_sent(&first, CLOSED, 0);
    assert_eq!(alone.poll(1000), [Event::Sent { token: 1, outcome: Err(SendFailure::Closed) }]);
    let second = alone.send(2);
    assert_eq!((first[6], second[6]), (1, 1));
    alone.post_sent(&first, 0, 0);
    assert_eq!(alone.poll(2000), []);
    alone.post_sent(&second, 0, 0);
    assert_eq!(alone.poll(3000), [Event::Sent { token: 2, outcome: Ok(()) }]);
}

/// The daemon before it reloaded the interface, and died.
#[test]
fn a_daemon_tells_the_ports_what_the_one_before_it_did_not() {
    let mut alone = Alone::new(0);
    let epoch = alone.memory.word(control::EPOCH).fetch_add(1, Ordering::AcqRel) + 1;
    let config = DaemonConfig { self_test: None, ..DaemonConfig::default() };
    let _daemon = Daemon::take_over(Arc::clone(&alone.memory), 1, config, 0).unwrap();
    assert_eq!(alone.port.receive(1000), Some(Event::Unknown(Unknown::FaultDetected { epoch })));
}

fn world() -> World {
    world_of(DaemonConfig { self_test: None, ..DaemonConfig::default() }, LinkFaults::default())
}

fn world_of(daemon: DaemonConfig, faults: LinkFaults) -> World {
    World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        daemon: Some(daemon),
        arena_bytes: 4 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults,
        seed: 1,
    })
    .unwrap()
}

fn open(world: &World, place: usize, config: PortConfig) -> Port {
    let config = PortConfig { pages: 64, waits_for_test: false, ..config };
    Port::open(Arc::clone(&world.nodes[place].memory), 1, 2, config).unwrap()
}

/// A step of the world, in which these ports are polled.
fn turn<const COUNT: usize>(world: &mut World, ports: [&mut Port; COUNT]) -> [Vec<Event>; COUNT] {
    let now_ns = world.now_ns();
    let events = ports.map(|port| std::iter::from_fn(|| port.poll(now_ns)).collect());
    world.step(0);
    events
}

#[test]
fn a_datagram_arrives_once_at_most_whenever_its_interface_stops() {
    let (mut arrived, mut stopped_before) = (0, 0);
    for steps in (0..200).step_by(2) {
        let mut world = world();
        let mut ports = [0, 1].map(|place| open(&world, place, PortConfig::tolerant(0)));
        for token in 1..4 {
            ports[1].provide(token, token * 64, CLASS, 0).unwrap();
        }
        while world.now_ns() < 100_000 {
            let [one, other] = &mut ports;
            turn(&mut world, [one, other]);
        }
        ports[0].send(message(1, 1, Service::Datagram { size_class: CLASS }, 16)).unwrap();
        (0..steps).for_each(|_| world.step(0));
        world.nodes[0].hang();
        let (mut came, mut told) = (0, 0);
        while world.now_ns() < 4_000_000 {
            let [one, other] = &mut ports;
            let events = turn(&mut world, [one, other]);
            told += events[0].len();
            came += events[1].len();
        }
        assert!(came <= 1, "{came} times, after {steps} steps");
        assert_eq!(told, 1, "after {steps} steps");
        assert_eq!(ports[0].counts().recovery_count, 1);
        arrived += came;
        stopped_before += 1 - came;
    }
    assert!(arrived > 0 && stopped_before > 0, "{arrived} arrived, {stopped_before} did not");
}

/// One that stopped wrote nothing after it stopped; one that found itself damaged may have written anything before.
#[test]
fn after_an_interface_that_was_damaged_programs_learn_that_their_memory_is_suspect() {
    for is_damaged in [false, true] {
        let mut world = world();
        let mut port = open(&world, 0, PortConfig::tolerant(0));
        while world.now_ns() < 200_000 {
            turn(&mut world, [&mut port]);
        }
        match is_damaged {
            true => world.nodes[0].memory.word(control::INTERRUPT).store(1 << interrupt::FATAL, Ordering::Release),
            false => world.nodes[0].hang(),
        }
        let mut events = Vec::new();
        while world.now_ns() < 4_000_000 {
            let [more] = turn(&mut world, [&mut port]);
            events.extend(more);
        }
        let by = if is_damaged { Detector::Interface } else { Detector::Watchdog };
        assert!(world.nodes[0].steps.iter().any(|(_, step)| *step == Step::Detected(by)), "{by:?}");
        assert_eq!(events, if is_damaged { vec![Event::MemorySuspect] } else { Vec::new() });
    }
}

/// Directed messages need no buffers: a program that does not look for long is held by the room in its ring alone, of which its own sends need some.
#[test]
fn a_program_that_does_not_look_loses_no_event() {
    let config = PortConfig { verifies: false, resend_ns: u64::MAX, ..PortConfig::tolerant(0) };
    let mut world = world();
    let [mut sender, mut receiver] = [0, 1].map(|place| open(&world, place, config));
    for token in 0..SEND_TOKENS as u32 {
        sender.provide(100 + token, 0x8000 + token * 64, CLASS, 0).unwrap();
    }
    let (mut sent, mut confirmed, mut came, mut told) = (0, 0, 0, 0);
    let mut free: Vec<u32> = (0..SEND_TOKENS as u32).collect();
    let mut now_sends = true;
    while world.now_ns() < 60_000_000 {
        let now_ns = world.now_ns();
        while let Some(event) = sender.poll(now_ns) {
            if let Event::Sent { token, outcome } = event {
                outcome.unwrap();
                free.push(token);
                confirmed += 1;
            }
        }
        while let Some(token) = free.pop().filter(|_| sent < 600) {
            sender.send(message(1, token, Service::Directed { remote: 0x4000 + sent * 64 }, 16)).unwrap();
            sent += 1;
        }
        if now_ns > 20_000_000 && std::mem::take(&mut now_sends) {
            assert!(confirmed > 200, "{confirmed}");
            for token in 0..SEND_TOKENS as u32 {
                receiver.send(message(0, token, Service::Normal { size_class: CLASS }, 16)).unwrap();
            }
        }
        while let Some(event) = (now_ns > 40_000_000).then(|| receiver.poll(now_ns)).flatten() {
            match event {
                Event::Directed { address, .. } => {
                    assert_eq!(address, 0x4000 + came * 64);
                    came += 1;
                }
                Event::Sent { outcome, .. } => told += u32::from(outcome.is_ok()),
                other => panic!("{other:?}"),
            }
        }
        world.step(now_ns + 10_000);
    }
    assert_eq!((sent, confirmed, came, told), (600, 600, 600, SEND_TOKENS as u32));
}

/// A packet of a message to port 1 of node 1, from port 1 of node 0.
fn packet(at_ns: u64, [generation, number, offset, bytes, of]: [u32; 5]) -> Packet {
    let mut words = vec![0_u32; 16 + bytes as usize / 4];
    let header = [0x5346_0101, 1 << 24, 0x1_0101, 1 | 13 << 16, generation, number, offset, bytes, of];
    words[..9].copy_from_slice(&header);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Packet { at_ns, crc: crc32fast::hash(&bytes), bytes }
}

/// Node 1 with a port that verifies nothing and has so many buffers of 8 KiB.
fn receiver(buffers: u32) -> (World, Port) {
    let mut world = world();
    let mut port = open(&world, 1, PortConfig { verifies: false, ..PortConfig::tolerant(0) });
    for token in 0..buffers {
        port.provide(token, token * 8192, 13, 0).unwrap();
    }
    while world.now_ns() < 400_000 {
        turn(&mut world, [&mut port]);
    }
    (world, port)
}

/// Numbers of the messages that come of these packets, one after the other; generation and number.
fn come_of(world: &mut World, port: &mut Port, packets: &[[u32; 5]]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for &words in packets {
        let until_ns = world.now_ns() + 200_000;
        let at_ns = world.now_ns();
        world.nodes[1].device.deliver(at_ns, packet(at_ns, words));
        while world.now_ns() < until_ns {
            let [events] = turn(world, [port]);
            numbers.extend(events.into_iter().filter_map(|event| match event {
                Event::Received { number, .. } => Some(number),
                _ => None,
            }));
        }
    }
    numbers
}

#[test]
fn a_message_that_begins_again_or_is_given_up_costs_no_buffer() {
    let (first, last) = ([5, 1, 0, 4096, 8192], [5, 1, 4096, 4096, 8192]);
    let (mut world, mut port) = receiver(1);
    assert_eq!(come_of(&mut world, &mut port, &[first, first, last]), [1]);
    let (mut world, mut port) = receiver(1);
    assert_eq!(come_of(&mut world, &mut port, &[first, [6, 1, 0, 4096, 8192], [6, 1, 4096, 4096, 8192]]), [1]);
}

/// Whoever opens a port begins without the streams of whoever had it before; and until it says that it has restored its own, nothing comes.
#[test]
fn a_port_receives_when_it_is_restored_and_remembers_nothing_of_its_owner_before() {
    let (mut world, mut port) = receiver(4);
    let message = |generation, number| [generation, number, 0, 64, 64];
    assert_eq!(come_of(&mut world, &mut port, &[message(5, 1), message(5, 2)]), [1, 2]);
    assert_eq!(come_of(&mut world, &mut port, &[message(4, 1)]), [0; 0], "a generation that is over");
    let memory = Arc::clone(&world.nodes[1].memory);
    port.close();
    while driver::is_closing(&memory, 1) {
        world.step(0);
    }
    let granted = driver::open(&memory, 1, 2, 64).unwrap();
    let put = |words: &[u32]| {
        let mut command = [0; 16];
        command[..words.len()].copy_from_slice(words);
        assert!(mailbox::put(&memory, 1, &command));
    };
    put(&[command::OPEN, granted.generation, granted.events_before, 0]);
    put(&[command::PROVIDE, 1, 0, 13, 0]);
    let number = granted.events_before + 1;
    let at = block(1) + PORT_EVENTS + granted.events_before % PORT_EVENT_COUNT * 64 + event::NUMBER as u32 * 4;
    let deliver = |world: &mut World| {
        let until_ns = world.now_ns() + 300_000;
        while world.now_ns() + 200_000 < until_ns {
            world.step(0);
        }
        let at_ns = world.now_ns();
        world.nodes[1].device.deliver(at_ns, packet(at_ns, message(4, 1)));
        while world.now_ns() < until_ns {
            world.step(0);
        }
        memory.word(at).load(Ordering::Acquire) == number
    };
    assert!(!deliver(&mut world), "not restored yet");
    put(&[command::START]);
    assert!(deliver(&mut world), "another owner");
}

/// A library that found a message wrong asks for it again; one that finds it right after all expects the next.
#[test]
fn a_message_that_was_asked_for_again_comes_again_until_it_is_accepted() {
    let (mut world, mut port) = receiver(0);
    let memory = Arc::clone(&world.nodes[1].memory);
    let generation = memory.word(port_word(1, words::GENERATION)).load(Ordering::Acquire);
    let put = |world: &mut World, words: &[u32]| {
        let mut command = [0; 16];
        command[..words.len()].copy_from_slice(words);
        assert!(mailbox::put(&memory, 1, &command));
        let until_ns = world.now_ns() + 100_000;
        while world.now_ns() < until_ns {
            world.step(0);
        }
    };
    let mut come = |world: &mut World, number| {
        let before = port.counts().strange_event_count;
        come_of(world, &mut port, &[[5, number, 0, 64, 64]]);
        // It knows nothing of the buffers that the test gives to its interface.
        port.counts().strange_event_count - before
    };
    put(&mut world, &[command::OPEN, generation, 0, command::OPEN_VERIFIES]);
    (1..5).for_each(|token| put(&mut world, &[command::PROVIDE, token, token * 8192, 13, 0]));
    put(&mut world, &[command::START]);
    let stream = [0x1_0101, 0, 5];
    assert_eq!((come(&mut world, 1), come(&mut world, 1)), (1, 0));
    put(&mut world, &[&[command::REJECT], &stream[..], &[1]].concat());
    assert_eq!(come(&mut world, 1), 1, "asked for again");
    put(&mut world, &[&[command::REJECT], &stream[..], &[1]].concat());
    put(&mut world, &[&[command::ACCEPT], &stream[..], &[1, 77]].concat());
    assert_eq!(come(&mut world, 2), 1, "accepted");
}

#[test]
fn a_packet_before_which_one_is_missing_is_answered_with_the_number_of_that_one() {
    let (mut world, mut port) = receiver(2);
    assert_eq!(come_of(&mut world, &mut port, &[[5, 1, 0, 64, 64]]), [1]);
    let at_ns = world.now_ns();
    world.nodes[1].device.deliver(at_ns, packet(at_ns, [5, 3, 0, 64, 64]));
    world.nodes[1].run(at_ns + 100_000);
    let answer = world.nodes[1].device.outgoing().unwrap();
    let word = |at: usize| u32::from_le_bytes(answer.bytes[at * 4..][..4].try_into().unwrap());
    assert_eq!((word(0) & 0xff, word(4), word(5)), (3, 5, 2));
}

/// A third of all packets is lost, and the interfaces send again by themselves: no library has to.
#[test]
fn what_the_link_loses_the_interface_sends_again() {
    let daemon = DaemonConfig { self_test: None, ..DaemonConfig::default() };
    let mut world = world_of(daemon, LinkFaults { lost: 20_000, ..LinkFaults::default() });
    let traffic = TrafficConfig {
        message_count: 40,
        message_bytes: 64,
        window: 1,
        both_ways: false,
        kind: Kind::Normal,
        seed: 7,
    };
    let port = PortConfig { waits_for_test: false, ..PortConfig::tolerant(0) };
    let mut traffic = Traffic::new(&world, port, traffic).unwrap();
    while !traffic.is_done() && world.now_ns() < SECOND {
        let did = traffic.step(world.now_ns());
        world.step(if did { 0 } else { world.now_ns() + 100_000 });
    }
    assert!(traffic.is_done() && traffic.verdict().is_perfect());
    assert_eq!(traffic.port(0).counts().resent_count, 0);
}

/// A program that takes its time after a failure of its interface loses no message, and its peers are not told that it is gone.
#[test]
fn a_port_that_is_not_restored_yet_is_silent_and_not_closed() {
    for verifies in [false, true] {
        let config = PortConfig { verifies, ..PortConfig::tolerant(0) };
        let daemon = DaemonConfig { self_test: None, verifies, ..DaemonConfig::default() };
        let mut world = world_of(daemon, LinkFaults::default());
        let mut ports = [0, 1].map(|place| open(&world, place, config));
        ports[1].provide(1, 64, CLASS, 0).unwrap();
        while world.now_ns() < 200_000 {
            let [one, other] = &mut ports;
            turn(&mut world, [one, other]);
        }
        world.nodes[1].hang();
        ports[0].send(message(1, 1, Service::Normal { size_class: CLASS }, 16)).unwrap();
        let mut told = Vec::new();
        while world.now_ns() < 48_000_000 {
            let [events] = turn(&mut world, [&mut ports[0]]);
            told.extend(events);
        }
        assert_eq!(told, [], "verifies {verifies}");
        assert!(world.nodes[1].steps.iter().any(|(_, step)| matches!(step, Step::Reloaded { .. })));
        while told.is_empty() && world.now_ns() < 200_000_000 {
            let [one, other] = &mut ports;
            let [events, _] = turn(&mut world, [one, other]);
            told.extend(events);
        }
        assert_eq!(told, [Event::Sent { token: 1, outcome: Ok(()) }]);
    }
}

#[test]
fn commands_for_an_interface_that_failed_reach_no_other_one() {
    let mut world = world();
    let memory = Arc::clone(&world.nodes[0].memory);
    while world.now_ns() < 200_000 {
        world.step(0);
    }
    world.nodes[0].hang();
    (0..3).for_each(|_| assert!(mailbox::put(&memory, 2, &[command::OPEN; 16])));
    let is_reloaded =
        |world: &World| world.nodes[0].steps.iter().any(|(_, step)| matches!(step, Step::Reloaded { .. }));
    while !is_reloaded(&world) && world.now_ns() < 10_000_000 {
        world.step(0);
    }
    assert!(is_reloaded(&world));
    assert_eq!(mailbox::waiting(&memory, 2), 0);
}

/// Of a link that loses everything only the self-test knows: nothing stops, and no program waits for an answer.
#[test]
fn an_interface_that_fails_its_self_test_is_reloaded() {
    let daemon = DaemonConfig { self_test: Some(SelfTestConfig::default()), ..DaemonConfig::default() };
    let mut world = world_of(daemon, LinkFaults { lost: u16::MAX, ..LinkFaults::default() });
    let mut port = open(&world, 0, PortConfig::tolerant(0));
    port.send(message(1, 1, Service::Normal { size_class: CLASS }, 16)).unwrap();
    while world.now_ns() < 40_000_000 {
        turn(&mut world, [&mut port]);
    }
    let is_found = |step: &Step| matches!(step, Step::Detected(Detector::SelfTest(_)));
    assert!(world.nodes[0].steps.iter().any(|(_, step)| is_found(step)), "{:?}", world.nodes[0].steps);
}

#[test]
fn without_a_failure_no_library_sees_anything_strange() {
    for verifies in [false, true] {
        let daemon = DaemonConfig { self_test: None, verifies, ..DaemonConfig::default() };
        let mut world = world_of(daemon, LinkFaults::default());
        let config = PortConfig { verifies, waits_for_test: false, ..PortConfig::tolerant(0) };
        let traffic = TrafficConfig {
            message_count: 100,
            message_bytes: 5000,
            window: 4,
            both_ways: true,
            kind: Kind::Normal,
            seed: 7,
        };
        let mut traffic = Traffic::new(&world, config, traffic).unwrap();
        while !traffic.is_done() && world.now_ns() < SECOND {
            traffic.step(world.now_ns());
            world.step(0);
        }
        for place in 0..2 {
            let counts = traffic.port(place).counts();
            assert_eq!((counts.delivered_count, counts.strange_event_count, counts.repeated_count), (100, 0, 0));
        }
    }
}

/// Events wait for data that came later, so a new generation may begin while events of the one before wait. Their numbers acknowledged messages of the new
/// one that had not come.
#[test]
fn the_number_of_one_generation_acknowledges_nothing_of_another() {
    let mut acknowledged = 0;
    for apart_ns in (1..30).map(|part| part * 2_000) {
        let (mut world, _port) = receiver(8);
        let begun_ns = world.now_ns();
        for (place, (generation, number)) in [(5, 1), (5, 2), (5, 3), (6, 1)].into_iter().enumerate() {
            let at_ns = begun_ns + place as u64 * apart_ns;
            world.nodes[1].device.deliver(at_ns, packet(at_ns, [generation, number, 0, 4096, 4096]));
        }
        let node = &mut world.nodes[1];
        node.run(begun_ns + 1_000_000);
        while let Some(packet) = node.device.outgoing() {
            let word = |at: usize| u32::from_le_bytes(packet.bytes[at * 4..][..4].try_into().unwrap());
            if (word(0) & 0xff, word(4)) == (2, 6) {
                assert!(word(5) <= 1, "{} messages of the new generation, {apart_ns} ns apart", word(5));
                acknowledged += 1;
            }
        }
    }
    assert!(acknowledged > 10, "{acknowledged}");
}
