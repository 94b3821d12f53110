//! The interface's hardware: processor, local memory, timers, host DMA and link, as firmware/ncp/include/device.h
//! describes it to the control program.
//!
//! Time is virtual and counted in nanoseconds. [`Device::run`] ties it to the instructions; [`Device::run_slice`] takes
//! it from the caller, for an interface that runs beside a real clock.

mod access;
mod bus;
mod dma;
mod fault;
mod link;
mod observe;
pub mod registers;
mod snapshot;
pub(crate) mod sram;
mod timers;

pub use bus::{Bus, BusFault, HostEvent, HostEventKind};
pub use fault::{Damage, Space};
pub use link::Packet;
pub use observe::{Access, Step};
pub use registers::Stuck;
pub use snapshot::Snapshot;

use crate::cpu::execute::{Exit, execute};
use crate::cpu::{Core, Trap};
use bus::HostEvents;
use link::Link;
use observe::Observation;
use registers::{INSTRUCTION_NS, Registers, SRAM_BYTES, interrupt, isr, offset};
use sram::Sram;
use timers::Timers;

/// What a device is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The interface's number, which the control program reads in NODE.
    pub node: u32,
    /// What happens beside the halt when the processor traps.
    pub trap_policy: TrapPolicy,
    /// How long the engines take.
    pub timing: Timing,
}

impl Default for DeviceConfig {
    fn default() -> DeviceConfig {
        DeviceConfig { node: 0, trap_policy: TrapPolicy::Halt, timing: Timing::hardware() }
    }
}

/// What happens when the processor traps. It halts in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrapPolicy {
    /// Nothing: only a watchdog can notice, as on the interface of the paper.
    #[default]
    Halt,
    /// The host is interrupted with [`interrupt::TRAP`], as by a modern interface.
    Interrupt,
}

/// How long the engines take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the start of a host DMA to its first byte.
    pub dma_setup_ns: u64,
    /// Bytes that a host DMA moves in a microsecond; 0 for no time at all.
    pub dma_bytes_per_us: u64,
    /// From the start of a send to its first byte at the other end.
    pub link_latency_ns: u64,
    /// Bytes that the link moves in a microsecond; 0 for no time at all.
    pub link_bytes_per_us: u64,
}

impl Timing {
    /// The paper's generation of hardware: PCI with 64 bit at 33 MHz (264 MB/s) after a set-up of 1 us, and Myrinet's
    /// 1.28 Gb/s (160 MB/s) with one switch of 300 ns.
    pub const fn hardware() -> Timing {
        Timing { dma_setup_ns: 1000, dma_bytes_per_us: 264, link_latency_ns: 300, link_bytes_per_us: 160 }
    }

    /// No time: the engines are done with the instruction that starts them.
    pub const fn immediate() -> Timing {
        Timing { dma_setup_ns: 0, dma_bytes_per_us: 0, link_latency_ns: 0, link_bytes_per_us: 0 }
    }

    fn dma_ns(&self, bytes: u32) -> u64 {
        self.dma_setup_ns + transfer_ns(bytes, self.dma_bytes_per_us)
    }

    fn link_ns(&self, bytes: u32) -> u64 {
        self.link_latency_ns + transfer_ns(bytes, self.link_bytes_per_us)
    }
}

fn transfer_ns(bytes: u32, bytes_per_us: u64) -> u64 {
    if bytes_per_us == 0 { 0 } else { (u64::from(bytes) * 1000).div_ceil(bytes_per_us) }
}

/// Why a run came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time, or the number of instructions, was reached; the processor would go on.
    Reached,
    /// The time was reached and the processor waits. Unless the host or the link does something, nothing will happen
    /// before this time; `None` for ever.
    Idle {
        /// When the next timer or engine ends, or the next packet arrives.
        until_ns: Option<u64>,
    },
    /// The time was reached; at some moment before, now or in an earlier run, the processor halted. Timers and engines
    /// went on.
    Halted(Trap),
}

/// What the device counted since it was made. No part of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; the comments are for those that do not")]
pub struct Counts {
    pub instructions: u64,
    pub resets: u64,
    pub dma_transfers: u64,
    /// Ended with DMA_FAULT: the host's side refused, or the local range is not SRAM.
    pub dma_faults: u64,
    pub wild_reads: u64,
    pub wild_writes: u64,
    pub refused: u64,
    /// DMA, sends, interrupts and what else reaches the host, that a device of an older epoch did not do.
    pub fenced: u64,
    pub interrupts: u64,
    pub sent: u64,
    /// Sends of what is not in the SRAM, or of no bytes.
    pub send_faults: u64,
    /// Starts of an engine that was busy; they have no effect.
    pub starts_while_busy: u64,
    pub received: u64,
    pub received_damaged: u64,
    /// Packets that waited for a buffer.
    pub receive_waited: u64,
    /// Dropped because too many waited for a buffer.
    pub receive_dropped: u64,
    /// Dropped because they were longer than a packet may be.
    pub receive_too_long: u64,
    /// Dropped because the armed buffer is not in the SRAM.
    pub receive_faults: u64,
    /// Dropped because the link held too many at once in either direction.
    pub link_dropped: u64,
}

/// What can be asked of a device in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A control program that does not fit.
    #[error("the firmware image has {bytes} bytes, and the interface's memory {SRAM_BYTES}: link a smaller one")]
    ImageTooLarge {
        /// The image's length.
        bytes: usize,
    },
    /// An address outside of the SRAM and of the registers.
    #[error("{address:#010x} with {bytes} bytes is not in the interface's memory of {SRAM_BYTES:#x} bytes")]
    NoSuchAddress {
        /// Where the access begins.
        address: u32,
        /// How many bytes it has.
        bytes: usize,
    },
    /// A flip or a stuck bit where there is no bit.
    #[error(
        "{space:?} has no bit {bit} at {location:#x}: registers are x1 to x31, bits 0 to 31, and special registers those of device.h"
    )]
    NoSuchBit {
        /// The space that was named.
        space: Space,
        /// The place in it.
        location: u32,
        /// The bit.
        bit: u8,
    },
}

/// All that decides what the device does next, but for the SRAM.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    core: Core,
    now_ns: u64,
    halted: Option<Trap>,
    waiting: bool,
    /// How often the host had reset the interface when this program was started.
    epoch: u32,
    registers: Registers,
    timers: Timers,
    /// When the host DMA ends.
    dma_end_ns: Option<u64>,
    link: Link,
    /// The mailboxes that were not empty when the processor was last told.
    mailboxes_seen: u32,
    ping_seen: u32,
    /// The bits of ISR and IMR that the host was interrupted for.
    interrupted: u32,
}

/// One interface.
pub struct Device {
    config: DeviceConfig,
    sram: Sram,
    state: State,
    counts: Counts,
    host_events: HostEvents,
    observation: Option<Box<Observation>>,
    /// What the host did is known, and it does nothing more before this run is over.
    has_looked: bool,
    planned: Option<(u64, Damage)>,
    damaged_ns: Option<u64>,
}

/// How far a run goes.
#[derive(Clone, Copy)]
enum Extent {
    /// To this time, at one instruction per [`INSTRUCTION_NS`].
    Until(u64),
    /// This many more instructions, which take no time.
    Instructions(u64),
}

impl Device {
    /// A device with empty memory, not reset yet: it belongs to epoch 0.
    pub fn new(config: DeviceConfig) -> Device {
        let mut device = Device {
            state: State {
                core: Core::default(),
                now_ns: 0,
                halted: None,
                waiting: false,
                epoch: 0,
                registers: Registers::new(),
                timers: Timers::default(),
                dma_end_ns: None,
                link: Link::default(),
                mailboxes_seen: 0,
                ping_seen: 0,
                interrupted: 0,
            },
            config,
            sram: Sram::new(),
            counts: Counts::default(),
            host_events: HostEvents::default(),
            observation: None,
            has_looked: false,
            planned: None,
            damaged_ns: None,
        };
        device.state.registers.set(offset::NODE, device.config.node);
        device
    }

    /// Puts a control program at address 0 and zeroes the memory behind it.
    pub fn load(&mut self, image: &[u8]) -> Result<(), Error> {
        let fits = self.sram.fill_with(0, SRAM_BYTES as usize, |memory| {
            let (program, rest) = memory.split_at_mut_checked(image.len())?;
            program.copy_from_slice(image);
            rest.fill(0);
            Some(())
        });
        fits.flatten().ok_or(Error::ImageTooLarge { bytes: image.len() })
    }

    /// Starts the processor at address 0 with all registers zero, as an interface of this epoch. Engines stop in the
    /// middle, packets that wait for a buffer are lost; those on the link still arrive. Stuck bits stay, and so does the
    /// memory.
    pub fn reset(&mut self, epoch: u32) {
        let state = &mut self.state;
        state.core = Core::default();
        state.halted = None;
        state.waiting = false;
        state.epoch = epoch;
        state.registers.clear();
        state.registers.set(offset::NODE, self.config.node);
        state.registers.set(offset::EPOCH, epoch);
        state.timers = Timers::new(state.now_ns);
        state.dma_end_ns = None;
        state.link.reset();
        state.mailboxes_seen = 0;
        state.interrupted = 0;
        self.counts.resets += 1;
    }

    /// Runs to `until_ns` of virtual time, at most one instruction beyond. A processor that waits costs nothing.
    pub fn run(&mut self, bus: &mut impl Bus, until_ns: u64) -> Stop {
        self.go(bus, Extent::Until(until_ns))
    }

    /// Sets the time and executes at most so many instructions, all at this one time. A time that goes back counts as
    /// the time of the call before.
    pub fn run_slice(&mut self, bus: &mut impl Bus, now_ns: u64, instructions_max: u64) -> Stop {
        self.state.now_ns = self.state.now_ns.max(now_ns);
        self.go(bus, Extent::Instructions(instructions_max))
    }

    fn go(&mut self, bus: &mut impl Bus, extent: Extent) -> Stop {
        self.look_at_host(bus);
        self.has_looked = matches!(extent, Extent::Until(_));
        let stop = self.go_on(bus, extent);
        self.has_looked = false;
        stop
    }

    fn go_on(&mut self, bus: &mut impl Bus, mut extent: Extent) -> Stop {
        // What was flipped since the last run may have let an interrupt through, or armed a buffer.
        self.update_interrupts(bus);
        self.fill_buffers(bus);
        loop {
            self.damage_when_due(bus);
            self.end_what_is_due(bus);
            if self.state.waiting && self.state.registers.get(offset::ISR) & self.state.registers.get(offset::WAIT) != 0
            {
                self.state.waiting = false;
            }
            let next_ns = self.next_event_ns();
            let is_over = match extent {
                Extent::Until(until_ns) => self.state.now_ns >= until_ns,
                Extent::Instructions(left) => left == 0,
            };
            let stands = self.state.waiting || self.state.halted.is_some();
            if is_over || (stands && matches!(extent, Extent::Instructions(_))) {
                return self.stop(next_ns);
            }
            match &mut extent {
                Extent::Until(until_ns) if stands => {
                    self.state.now_ns = next_ns.map_or(*until_ns, |next_ns| next_ns.min(*until_ns));
                }
                Extent::Until(until_ns) => {
                    let to_ns = next_ns.map_or(*until_ns, |next_ns| next_ns.min(*until_ns));
                    let budget = (to_ns - self.state.now_ns).div_ceil(INSTRUCTION_NS);
                    self.execute(bus, budget.min(self.until_damage()), INSTRUCTION_NS);
                }
                Extent::Instructions(left) => *left -= self.execute(bus, (*left).min(self.until_damage()), 0),
            }
        }
    }

    fn stop(&self, next_ns: Option<u64>) -> Stop {
        match self.state.halted {
            Some(trap) => Stop::Halted(trap),
            None if self.state.waiting => Stop::Idle { until_ns: next_ns },
            None => Stop::Reached,
        }
    }

    /// Executes instructions until the budget is used, the processor stops, or an access may have changed what comes
    /// next. Gives how many were done, never 0 unless the processor halts.
    fn execute(&mut self, bus: &mut impl Bus, budget: u64, instruction_ns: u64) -> u64 {
        let start_ns = self.state.now_ns;
        let before = self.counts.instructions;
        loop {
            let left = budget - (self.counts.instructions - before);
            let core = &mut self.state.core;
            let (done, exit) = match &mut self.observation {
                None => execute(core, &mut self.sram, left, &mut ()),
                Some(observation) => {
                    observation.begin(self.counts.instructions, self.state.now_ns, instruction_ns);
                    execute(core, &mut self.sram, left, &mut **observation)
                }
            };
            self.advance(done, instruction_ns);
            let goes_on = match exit {
                Exit::Budget => false,
                Exit::Trap(trap) => self.halt(bus, trap),
                Exit::Load { rd, address } => self.load_register(bus, rd, address, instruction_ns),
                Exit::Store { address, value } => self.store_register(bus, address, value, instruction_ns),
            };
            let executed = self.counts.instructions - before;
            if !goes_on || executed == budget {
                debug_assert_eq!(self.state.now_ns - start_ns, executed * instruction_ns);
                return executed;
            }
        }
    }

    fn advance(&mut self, instructions: u64, instruction_ns: u64) {
        self.counts.instructions += instructions;
        self.state.now_ns += instructions * instruction_ns;
    }

    fn halt(&mut self, bus: &mut impl Bus, trap: Trap) -> bool {
        self.state.halted = Some(trap);
        self.note_trapped_fetch(trap.pc);
        if self.config.trap_policy == TrapPolicy::Interrupt {
            self.interrupt_host(bus, interrupt::TRAP);
        }
        false
    }

    /// Timers, engines and arrivals whose time has come.
    fn end_what_is_due(&mut self, bus: &mut impl Bus) {
        let now_ns = self.state.now_ns;
        if self.soonest_ns() > now_ns {
            return;
        }
        let timers = self.state.timers.fire(now_ns, &mut self.state.registers);
        self.raise(bus, timers);
        if self.state.dma_end_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            self.end_dma(bus);
        }
        if self.state.link.send_end_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            self.end_send(bus);
        }
        self.take_arrivals(bus);
    }

    /// When something will happen by itself; a time that is past if it is due.
    pub fn next_event_ns(&self) -> Option<u64> {
        let soonest_ns = self.soonest_ns();
        (soonest_ns != u64::MAX).then_some(soonest_ns)
    }

    /// The same with the end of time for nothing: this is asked at every access to a special register.
    #[inline(always)]
    fn soonest_ns(&self) -> u64 {
        let link = &self.state.link;
        let or_never = |at_ns: Option<u64>| at_ns.unwrap_or(u64::MAX);
        let engines_ns = or_never(self.state.dma_end_ns).min(or_never(link.send_end_ns));
        engines_ns.min(or_never(link.next_arrival_ns())).min(self.state.timers.soonest_ns())
    }

    /// Sets bits of ISR, and interrupts the host for those that the mask lets through.
    fn raise(&mut self, bus: &mut impl Bus, bits: u32) {
        if bits != 0 {
            let status = self.state.registers.get(offset::ISR);
            self.state.registers.set(offset::ISR, status | bits);
            self.update_interrupts(bus);
        }
    }

    /// Interrupts the host once for every bit that came to be set in both ISR and IMR.
    fn update_interrupts(&mut self, bus: &mut impl Bus) {
        let pending = self.state.registers.get(offset::ISR) & self.state.registers.get(offset::IMR);
        let new = pending & !self.state.interrupted;
        self.state.interrupted = pending;
        if new & isr::IT1 != 0 {
            self.interrupt_host(bus, interrupt::WATCHDOG);
        }
        if new & !isr::IT1 != 0 {
            self.interrupt_host(bus, interrupt::STATUS);
        }
    }

    fn interrupt_host(&mut self, bus: &mut impl Bus, cause: u32) {
        if self.is_fenced(bus, HostEventKind::Interrupt(cause)) {
            return;
        }
        self.counts.interrupts += 1;
        self.note_host_event(HostEventKind::Interrupt(cause));
        bus.interrupt(cause);
    }

    /// Whether the host has reset the interface since this program was started; what was about to happen must not.
    fn is_fenced(&mut self, bus: &mut impl Bus, what: HostEventKind) -> bool {
        let is_fenced = bus.epoch() != self.state.epoch;
        if is_fenced {
            self.counts.fenced += 1;
            self.host_events.push(HostEvent { at_ns: self.state.now_ns, kind: what, fenced: true });
        }
        is_fenced
    }

    fn note_host_event(&mut self, kind: HostEventKind) {
        self.host_events.push(HostEvent { at_ns: self.state.now_ns, kind, fenced: false });
    }

    /// Sees what the host did since: mailboxes that are no longer empty, and a new word in PING.
    fn look_at_host(&mut self, bus: &mut impl Bus) {
        let ready = bus.mailbox_ready();
        let ping = bus.ping();
        let mut bits = 0;
        if ready & !self.state.mailboxes_seen != 0 {
            bits |= isr::MAILBOX;
        }
        if ping != self.state.ping_seen {
            bits |= isr::PING;
        }
        self.state.mailboxes_seen = ready;
        self.state.ping_seen = ping;
        self.state.registers.set(offset::MAILBOX_READY, ready);
        self.state.registers.set(offset::PING, ping);
        self.raise(bus, bits);
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.state.now_ns
    }

    /// The processor's registers.
    pub fn core(&self) -> &Core {
        &self.state.core
    }

    /// The trap in which the processor halted.
    pub fn halted(&self) -> Option<Trap> {
        self.state.halted
    }

    /// Whether the processor waits.
    pub fn is_waiting(&self) -> bool {
        self.state.waiting
    }

    /// Instructions that were done since the device was made; the one that traps is not done.
    pub fn instruction_count(&self) -> u64 {
        self.counts.instructions
    }

    /// What was counted since the device was made.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the device did to the host since the last call, oldest first, and how much more did not fit.
    pub fn host_events(&mut self) -> (Vec<HostEvent>, u64) {
        self.host_events.take()
    }
}
