//! Two interfaces, their hosts and the link between them in virtual time: the same seed gives the same run, byte for byte.
//!
//! Time goes on in steps of [`STEP_NS`]; within a step each part runs for itself, and what they send to one another takes
//! effect in the next. When nothing is to be done, time jumps.

mod link;
pub mod storm;
pub mod traffic;

pub use link::{LinkCounts, LinkFaults};

use crate::device::Bus;
use crate::device::registers::offset;
use crate::device::{Device, DeviceConfig, HostEvent, HostEventKind, Snapshot, Stop, Timing, TrapPolicy};
use crate::firmware::Firmware;
use crate::host::bus::{Guard, HostBus};
use crate::host::daemon::{Board, Daemon, DaemonConfig, Step};
use crate::host::driver::OpenError;
use crate::host::memory::HostMemory;
use crate::host::port::{Port, PortConfig};
use link::Link;
use std::sync::Arc;

/// How far time goes at once while anybody has something to do.
pub const STEP_NS: u64 = 500;

/// From an interrupt to the daemon, as the paper measured it.
pub const INTERRUPT_NS: u64 = 13_000;

/// How long it takes to write a byte of the control program into the interface: 100 MB/s by programmed I/O.
const LOAD_NS_PER_BYTE: u64 = 10;

/// What a world is made of.
#[derive(Clone)]
pub struct WorldConfig {
    /// The control program of both interfaces.
    pub firmware: Arc<Firmware>,
    /// The daemon of each host; `None` for an interface without one.
    pub daemon: Option<DaemonConfig>,
    /// Bytes of registered memory of each host.
    pub arena_bytes: u32,
    /// What guards the host from wild accesses.
    pub guard: Guard,
    /// What happens when a processor traps.
    pub trap_policy: TrapPolicy,
    /// What the link does to packets.
    pub faults: LinkFaults,
    /// Of everything that is chance.
    pub seed: u64,
}

/// One host with its interface.
pub struct Node {
    /// Its memory.
    pub memory: Arc<HostMemory>,
    /// Its interface.
    pub device: Device,
    /// Its daemon.
    pub daemon: Option<Daemon>,
    /// What the daemon did, and when.
    pub steps: Vec<(u64, Step)>,
    /// When a wild access of the interface took the host down.
    pub crashed_ns: Option<u64>,
    guard: Guard,
    /// Interrupts reach the daemon later.
    daemon_from_ns: u64,
    firmware: Arc<Firmware>,
}

struct Loader<'a> {
    device: &'a mut Device,
    firmware: &'a Firmware,
    loaded: bool,
}

impl Board for Loader<'_> {
    fn reload(&mut self, epoch: u32) -> Result<(), String> {
        self.device.load(&self.firmware.image).map_err(|error| error.to_string())?;
        self.device.reset(epoch);
        self.loaded = true;
        Ok(())
    }
}

impl Node {
    fn new(number: u32, config: &WorldConfig) -> Result<Self, OpenError> {
        let memory = HostMemory::private(number, config.arena_bytes).map_err(|_| OpenError::NoMemory {
            port: 0,
            asked: config.arena_bytes / 4096,
            free: 0,
        })?;
        let memory = Arc::new(memory);
        let mut device =
            Device::new(DeviceConfig { node: number, trap_policy: config.trap_policy, timing: Timing::hardware() });
        let daemon = config.daemon.map(|daemon| Daemon::new(Arc::clone(&memory), 1, daemon)).transpose()?;
        // An interface without a daemon is told by the driver that it may begin.
        if daemon.is_none() {
            Port::open(Arc::clone(&memory), 0, 1, PortConfig::plain(0))?;
        }
        if device.load(&config.firmware.image).is_ok() {
            device.reset(1);
        }
        Ok(Node {
            memory,
            device,
            daemon,
            steps: Vec::new(),
            crashed_ns: None,
            guard: config.guard,
            daemon_from_ns: 0,
            firmware: Arc::clone(&config.firmware),
        })
    }

    /// Stops the processor as if it hung: it executes one jump to itself for ever.
    pub fn hang(&mut self) {
        let here = self.device.core().pc;
        // j .
        let _ = self.device.write_sram(here, &0x0000_006f_u32.to_le_bytes());
    }

    /// Runs the interface alone to a moment of virtual time.
    pub fn run(&mut self, until_ns: u64) -> Stop {
        let mut bus = HostBus { memory: &self.memory, guard: self.guard };
        let stop = self.device.run(&mut bus, until_ns);
        let (events, _) = self.device.host_events();
        for HostEvent { at_ns, kind, fenced } in events {
            match kind {
                HostEventKind::Interrupt(cause) if !fenced && cause & 0xff != 2 => {
                    self.daemon_from_ns = self.daemon_from_ns.max(at_ns + INTERRUPT_NS);
                }
                HostEventKind::Dma(_, Some(crate::device::BusFault::WildWrite | crate::device::BusFault::WildRead))
                    if !fenced =>
                {
                    self.crashed_ns.get_or_insert(at_ns);
                }
                _ => {}
            }
        }
        stop
    }

    /// Whether the daemon has told the interface something since it last looked.
    fn has_news(&self) -> bool {
        let mut bus = HostBus { memory: &self.memory, guard: self.guard };
        let is_known = |register| self.device.peek(register);
        bus.mailbox_ready() & !is_known(offset::MAILBOX_READY) != 0 || bus.ping() != is_known(offset::PING)
    }

    /// The daemon dies, and another one takes its place.
    ///
    /// # Errors
    /// As [`Daemon::take_over`].
    pub fn renew_daemon(&mut self, config: DaemonConfig, now_ns: u64) -> Result<(), OpenError> {
        if self.daemon.take().is_some() {
            self.daemon = Some(Daemon::take_over(Arc::clone(&self.memory), 1, config, now_ns)?);
        }
        Ok(())
    }

    /// Whether it did anything.
    fn daemon_step(&mut self, now_ns: u64) -> bool {
        if now_ns < self.daemon_from_ns {
            return false;
        }
        let Some(daemon) = &mut self.daemon else { return false };
        let mut board = Loader { device: &mut self.device, firmware: &self.firmware, loaded: false };
        let step = daemon.step(now_ns, &mut board);
        if let Some(step) = step {
            if board.loaded {
                self.daemon_from_ns = now_ns + self.firmware.image.len() as u64 * LOAD_NS_PER_BYTE;
            }
            self.steps.push((now_ns, step));
        }
        step.is_some()
    }
}

/// A host with its interface as it was at some time.
struct NodeSnapshot {
    device: Snapshot,
    memory: Vec<u8>,
    daemon: Option<Daemon>,
    step_count: usize,
    crashed_ns: Option<u64>,
    daemon_from_ns: u64,
}

impl NodeSnapshot {
    fn of(node: &Node) -> Self {
        NodeSnapshot {
            device: node.device.snapshot(),
            memory: node.memory.copy(),
            daemon: node.daemon.as_ref().map(Daemon::duplicate),
            step_count: node.steps.len(),
            crashed_ns: node.crashed_ns,
            daemon_from_ns: node.daemon_from_ns,
        }
    }

    /// Puts it back into the node that it is of.
    fn restore(&self, node: &mut Node) {
        node.device.restore(&self.device);
        node.memory.restore(&self.memory);
        node.daemon = self.daemon.as_ref().map(Daemon::duplicate);
        node.steps.truncate(self.step_count);
        node.crashed_ns = self.crashed_ns;
        node.daemon_from_ns = self.daemon_from_ns;
    }

    /// What is cheap to compare, or differs most often, comes first.
    fn is_of(&self, node: &Node, but_for: Option<u32>) -> bool {
        let daemons_are_same = match (&self.daemon, &node.daemon) {
            (Some(ours), Some(theirs)) => ours.same_state(theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        let devices_are_same = || match but_for {
            Some(word) => node.device.same_state_but_for(&self.device, word),
            None => node.device.same_state(&self.device),
        };
        daemons_are_same
            && (self.crashed_ns, self.daemon_from_ns) == (node.crashed_ns, node.daemon_from_ns)
            && devices_are_same()
            && node.memory.equals(&self.memory)
    }
}

/// A world as it was at some time, to go back to and to compare with.
pub struct WorldSnapshot {
    nodes: [NodeSnapshot; 2],
    link: Link,
    now_ns: u64,
}

impl WorldSnapshot {
    /// Its virtual time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Instructions that an interface had done.
    pub fn instruction_count(&self, place: usize) -> u64 {
        self.nodes[place].device.instruction_count()
    }
}

/// The world.
pub struct World {
    /// The two hosts.
    pub nodes: [Node; 2],
    link: Link,
    now_ns: u64,
}

impl World {
    /// Two hosts with their interfaces running.
    ///
    /// # Errors
    /// When the memory is too small for the daemon's port.
    pub fn new(config: &WorldConfig) -> Result<Self, OpenError> {
        let nodes = [Node::new(0, config)?, Node::new(1, config)?];
        Ok(World { nodes, link: Link::new(config.faults, config.seed), now_ns: 0 })
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What the link did.
    pub fn link_counts(&self) -> LinkCounts {
        self.link.counts
    }

    /// The whole state. The applications' ports are no part of it: [`traffic::Traffic::snapshot`] is of them.
    pub fn snapshot(&self) -> WorldSnapshot {
        let nodes = [NodeSnapshot::of(&self.nodes[0]), NodeSnapshot::of(&self.nodes[1])];
        WorldSnapshot { nodes, link: self.link.clone(), now_ns: self.now_ns }
    }

    /// Goes back to a state that this world had.
    pub fn restore(&mut self, snapshot: &WorldSnapshot) {
        for (node, of) in self.nodes.iter_mut().zip(&snapshot.nodes) {
            of.restore(node);
        }
        self.link.clone_from(&snapshot.link);
        self.now_ns = snapshot.now_ns;
    }

    /// Whether everything will be from now on as it was after the snapshot. Of the interface at a place one word of memory
    /// may be another one, of which the caller knows that nobody will look at it.
    pub fn same_state(&self, snapshot: &WorldSnapshot, but_for: Option<(usize, u32)>) -> bool {
        let word = |place: usize| but_for.filter(|(of, _)| *of == place).map(|(_, word)| word);
        self.now_ns == snapshot.now_ns
            && self.link == snapshot.link
            && (0..2).all(|place| snapshot.nodes[place].is_of(&self.nodes[place], word(place)))
    }

    /// One step of the interfaces, the daemons and the link. Time goes to the next step, or further when nobody has
    /// anything to do before `idle_until_ns`.
    pub fn step(&mut self, idle_until_ns: u64) {
        let until_ns = self.now_ns + STEP_NS;
        let mut next_ns = idle_until_ns.max(until_ns);
        for place in 0..2 {
            let node = &mut self.nodes[place];
            if node.crashed_ns.is_some() {
                continue;
            }
            let before = node.device.instruction_count();
            match node.run(until_ns) {
                Stop::Reached => next_ns = until_ns,
                Stop::Idle { until_ns: wakes_ns } => next_ns = next_ns.min(wakes_ns.unwrap_or(u64::MAX)),
                Stop::Halted(_) => next_ns = next_ns.min(node.device.next_event_ns().unwrap_or(u64::MAX)),
            }
            // Whoever waits for what the interface just did looks in the next step.
            if node.device.instruction_count() != before {
                next_ns = until_ns;
            }
            if node.daemon_step(until_ns) || (next_ns > until_ns && node.has_news()) {
                next_ns = until_ns;
            }
            if let Some(daemon) = &node.daemon {
                next_ns = next_ns.min(daemon.next_ns().max(node.daemon_from_ns));
                if node.daemon_from_ns > until_ns {
                    next_ns = next_ns.min(node.daemon_from_ns);
                }
            }
            while let Some(packet) = self.nodes[place].device.outgoing() {
                self.link.carry(packet);
                next_ns = until_ns;
            }
        }
        for (to, at_ns, packet) in self.link.due() {
            if self.nodes[to].crashed_ns.is_none() {
                self.nodes[to].device.deliver(at_ns, packet);
            }
        }
        self.now_ns = next_ns.max(until_ns);
    }
}
