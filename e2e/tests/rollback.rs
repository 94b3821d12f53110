//! An interface that writes where it should not, an application that keeps its state in registered memory, and the
//! checkpoint that it goes back to: the parts of Surefoot that stand alone, used together as an application links them.

use std::path::Path;
use std::sync::Arc;
use surefoot_checkpoint::{Alone, Checkpointer, Config};
use surefoot_nic::device::{Space, TrapPolicy};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::bus::Guard;
use surefoot_nic::host::daemon::{DaemonConfig, Step};
use surefoot_nic::host::port::{Event, Message, Port, PortConfig, Service};
use surefoot_nic::host::selftest::SelfTestConfig;
use surefoot_nic::host::streams::Peer;
use surefoot_nic::world::{LinkFaults, World, WorldConfig};

const MESSAGES: u32 = 300;
const PAGE: u32 = 4096;
const BUFFERS: u32 = 4;
/// The page of the port's memory in which the application keeps its sums, without a copy elsewhere.
const STATE_AT: u32 = 8 * PAGE;
const STATE_BYTES: usize = 4096;
const CHECKPOINT_EVERY: u32 = 25;

/// Adds messages up in registered memory, and takes a checkpoint now and then.
struct Summing<'a> {
    port: Port,
    tier: &'a Path,
    next: u32,
    rolls_back: bool,
    rollback_count: u32,
}

impl Summing<'_> {
    fn job(&mut self) -> Checkpointer {
        Checkpointer::open(Config::new("summing", self.tier, None), Box::new(Alone)).unwrap()
    }

    fn checkpoint(&mut self) {
        let mut saved = vec![0; STATE_BYTES];
        self.port.read(STATE_AT, &mut saved);
        saved.extend_from_slice(&self.next.to_le_bytes());
        let mut job = self.job();
        std::fs::write(job.route_file("state").unwrap(), saved).unwrap();
        assert!(job.checkpoint().unwrap().generation.is_some());
    }

    /// Goes back to the newest checkpoint that is provably intact.
    fn roll_back(&mut self) {
        self.rollback_count += 1;
        let mut job = self.job();
        let path = job.route_file("state").unwrap();
        assert!(job.restart().unwrap().is_some());
        let saved = std::fs::read(path).unwrap();
        self.port.write(STATE_AT, &saved[..STATE_BYTES]);
        self.next = u32::from_le_bytes(saved[STATE_BYTES..].try_into().unwrap());
    }

    fn add(&mut self, content: &[u8; 12]) {
        let id = u32::from_le_bytes(content[..4].try_into().unwrap());
        if id != self.next {
            return;
        }
        let at = STATE_AT + id % 512 * 8;
        let mut sum = [0; 8];
        self.port.read(at, &mut sum);
        let sum = u64::from_le_bytes(sum) + u64::from_le_bytes(content[4..].try_into().unwrap());
        self.port.write(at, &sum.to_le_bytes());
        self.next += 1;
        if self.next.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoint();
        }
    }

    fn poll(&mut self, now_ns: u64) {
        while let Some(event) = self.port.poll(now_ns) {
            match event {
                Event::Received { token, address, .. } => {
                    let mut content = [0; 12];
                    self.port.read(address, &mut content);
                    self.add(&content);
                    self.port.provide(token, address, 12, 0).unwrap();
                }
                Event::MemorySuspect if self.rolls_back => self.roll_back(),
                _ => {}
            }
        }
    }
}

/// Flips a bit of the interface's translation of the application's buffers, so that what arrives is written into another
/// page of the same application; whether it found one.
fn misdirect(world: &mut World, port: &Port) -> bool {
    let pages = port.pages();
    let device = &mut world.nodes[1].device;
    let place = (0..0x2_0000)
        .step_by(4)
        .find(|&address| device.read_word(address).is_ok_and(|word| pages[..BUFFERS as usize].contains(&word)));
    let Some(place) = place else { return false };
    let page = device.read_word(place).unwrap();
    let to = pages[(STATE_AT / PAGE) as usize];
    for bit in (0..32).filter(|bit| (page ^ to) >> bit & 1 == 1) {
        device.flip(Space::Sram, place, bit as u8).unwrap();
    }
    true
}

/// Sends all messages, again from where the receiver is when it went back, and gives the receiver's state in the end.
fn run(tier: &Path, fails: bool, rolls_back: bool) -> (Vec<u8>, u32, Vec<Step>) {
    let self_test =
        SelfTestConfig { interval_ns: 5_000_000, limit_ns: 20_000_000, loss_every: 0, ..SelfTestConfig::default() };
    let mut world = World::new(&WorldConfig {
        firmware: Arc::new(Firmware::built(Build::Tolerant)),
        daemon: Some(DaemonConfig { self_test: Some(self_test), suspicions_max: 1, ..DaemonConfig::default() }),
        arena_bytes: 1 << 20,
        guard: Guard::None,
        trap_policy: TrapPolicy::Halt,
        faults: LinkFaults::default(),
        seed: 1,
    })
    .unwrap();
    let mut sender = Port::open(Arc::clone(&world.nodes[0].memory), 1, 2, PortConfig::tolerant(4)).unwrap();
    let port = Port::open(Arc::clone(&world.nodes[1].memory), 1, 2, PortConfig::tolerant(16)).unwrap();
    let mut receiver = Summing { port, tier, next: 0, rolls_back, rollback_count: 0 };
    for token in 0..BUFFERS {
        receiver.port.provide(token, token * PAGE, 12, 0).unwrap();
    }
    receiver.checkpoint();
    let (mut next, mut is_free, mut has_failed) = (0, true, false);
    while receiver.next < MESSAGES && world.now_ns() < 3_000_000_000 {
        let now_ns = world.now_ns();
        while let Some(event) = sender.poll(now_ns) {
            is_free |= matches!(event, Event::Sent { .. });
        }
        receiver.poll(now_ns);
        if receiver.next < next && is_free {
            // The receiver went back; what it forgot is sent again.
            next = receiver.next;
        }
        if is_free && next < MESSAGES {
            let mut content = [0; 12];
            content[..4].copy_from_slice(&next.to_le_bytes());
            content[4..].copy_from_slice(&(u64::from(next) * 7 + 3).to_le_bytes());
            sender.write(0, &content);
            let to = Peer { node: 1, port: 1, priority: 0 };
            let service = Service::Normal { size_class: 12 };
            sender.send(Message { token: 1, address: 0, length: 12, to, service }).unwrap();
            (next, is_free) = (next + 1, false);
        }
        if fails && !has_failed && receiver.next == 160 {
            has_failed = misdirect(&mut world, &receiver.port);
        }
        world.step(0);
    }
    assert_eq!(receiver.next, MESSAGES, "{:?}", world.nodes[1].steps);
    let mut state = vec![0; STATE_BYTES];
    receiver.port.read(STATE_AT, &mut state);
    let steps = world.nodes[1].steps.iter().map(|(_, step)| *step).collect();
    (state, receiver.rollback_count, steps)
}

#[test]
fn an_application_whose_memory_was_written_goes_back_to_its_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let tier = |name: &str| {
        let path = home.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (undisturbed, rollbacks, _) = run(&tier("undisturbed"), false, true);
    assert_eq!(rollbacks, 0);
    let (without, _, steps) = run(&tier("without"), true, false);
    assert!(without != undisturbed, "the fault did no harm, so that this test shows nothing: {steps:?}");
    let (with, rollbacks, steps) = run(&tier("with"), true, true);
    assert!(rollbacks > 0, "{steps:?}");
    assert!(with == undisturbed, "{steps:?}");
}
