//! One interface beside a real clock: it runs the device in slices and moves packets between it and the link.

use super::bus::LiveBus;
use super::wire::{Arrival, FRAME_BYTES_MAX, Wire};
use crate::device::registers::offset;
use crate::device::{Device, DeviceConfig, Packet, Stop, Timing, TrapPolicy};
use crate::firmware::Firmware;
use crate::host::bus::{Guard, HostBus};
use crate::host::layout::{PORTS, control, inject};
use crate::host::mailbox;
use crate::host::memory::HostMemory;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_sys::thread::set_timer_slack;

/// Instructions of a slice: some tens of microseconds.
const SLICE_INSTRUCTIONS: u64 = 4_000;
/// The interface's clock goes on by this at most from one slice to the next: what is over it did not run. Well below the time
/// of the watchdog, which is not to call it a failure.
const CLOCK_STEP_NS: u64 = 400_000;
/// Of a slice so much counts at most as time in which a question could have been answered, so that seven of them must have run
/// before a silence counts: after a pause all that has piled up comes first, and L_timer is asked once in a round of everything else.
const ANSWERING_NS_MAX: u64 = 16_000;
/// The longest sleep, well below the watchdog's time.
const SLEEP_NS_MAX: u64 = 500_000;
/// After so long without anything to do it sleeps so long, and not only to the next tick of its timer.
const IDLE_NS: u64 = 2_000_000;
/// Packets that wait in the device while the link holds back the next.
const WAITING_MAX: usize = 3;
/// Every so many rounds it looks whether its owner is still there.
const OWNER_ROUNDS: u32 = 8192;
/// Packets to itself on their way.
const LOOPED_MAX: usize = 64;

/// What an interface is made of.
pub struct InterfaceConfig {
    /// Its memory in the host.
    pub memory: Arc<HostMemory>,
    /// Its control program.
    pub firmware: Arc<Firmware>,
    /// The link.
    pub wire: Wire,
    /// What wakes it.
    pub doorbell: UnixDatagram,
    /// How long it looks for something to do before it sleeps.
    pub spin_ns: u64,
    /// It ends when this becomes readable.
    pub until: Option<OwnedFd>,
}

/// An interface that runs.
pub struct Interface {
    config: InterfaceConfig,
    node: u32,
    device: Device,
    /// The interface's own clock, and when it was read last.
    clock_ns: u64,
    seen_ns: u64,
    /// What the daemon asked last, and for how long the control program could have answered since.
    asked: (u32, u64),
    /// When the last slice ran, by the own clock.
    sliced_ns: u64,
    /// When it last had something to do.
    busy_ns: u64,
    looped: std::collections::VecDeque<Packet>,
    frame: Vec<u8>,
    buffer: Vec<u8>,
    is_loaded: bool,
}

impl Interface {
    /// One whose control program starts with the first slice.
    pub fn new(config: InterfaceConfig) -> Self {
        let node = config.memory.word(control::NODE).load(Ordering::Relaxed);
        let device = Device::new(DeviceConfig { node, trap_policy: TrapPolicy::Halt, timing: Timing::immediate() });
        let now_ns = monotonic_ns();
        Interface {
            config,
            node,
            device,
            clock_ns: 0,
            seen_ns: now_ns,
            asked: (0, 0),
            sliced_ns: 0,
            busy_ns: now_ns,
            looped: std::collections::VecDeque::new(),
            frame: Vec::with_capacity(FRAME_BYTES_MAX),
            buffer: vec![0; FRAME_BYTES_MAX + 64],
            is_loaded: false,
        }
    }

    /// Runs until the memory says that everybody is to end, or the owner is gone.
    pub fn run(&mut self) {
        set_timer_slack(Duration::from_nanos(1));
        let mut rounds: u32 = 0;
        while self.config.memory.word(control::ENDING).load(Ordering::Relaxed) == 0 {
            rounds = rounds.wrapping_add(1);
            // One that hangs never sleeps, where it would hear of its owner's end.
            if rounds.is_multiple_of(OWNER_ROUNDS) && self.poll(0) {
                return;
            }
            self.obey();
            self.advance(CLOCK_STEP_NS);
            self.note_question();
            let took = self.take_packets();
            let stop = self.slice();
            let sent = self.send_packets();
            let is_busy = took || sent || matches!(stop, Stop::Reached);
            let now_ns = monotonic_ns();
            if is_busy {
                self.busy_ns = now_ns;
            } else if now_ns.saturating_sub(self.busy_ns) >= self.config.spin_ns && self.sleep(stop) {
                return;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Does what the daemon and the fault injector ask for.
    fn obey(&mut self) {
        let memory = &self.config.memory;
        let epoch = memory.word(control::EPOCH).load(Ordering::Acquire);
        let asked = memory.word(control::RELOAD).load(Ordering::Acquire);
        let runs = memory.word(control::RELOADED).load(Ordering::Relaxed);
        if !self.is_loaded || (asked == epoch && runs != epoch) {
            self.is_loaded = true;
            // What still waits in the mailboxes comes before the ports' openings, and is not heard.
            // The image was read from an ELF file, which is checked to fit.
            if self.device.load(&self.config.firmware.image).is_ok() {
                self.device.reset(epoch);
            }
            memory.word(control::RELOADED).store(epoch, Ordering::Release);
            memory.wake_daemon();
        }
        let word = memory.word(control::INJECT);
        if word.load(Ordering::Acquire) == inject::HANG {
            let here = self.device.core().pc;
            // j .
            let _ = self.device.write_sram(here, &0x0000_006f_u32.to_le_bytes());
            let now_ns = monotonic_ns();
            memory.word(control::INJECTED_NS).store(now_ns as u32, Ordering::Relaxed);
            memory.word(control::INJECTED_NS + 4).store((now_ns >> 32) as u32, Ordering::Relaxed);
            word.store(0, Ordering::Release);
        }
    }

    /// The clock goes on, by so much at most.
    fn advance(&mut self, most_ns: u64) {
        let now_ns = monotonic_ns();
        self.clock_ns += now_ns.saturating_sub(self.seen_ns).min(most_ns);
        self.seen_ns = now_ns;
    }

    /// Lets the daemon know whether a control program that does not answer had the time to.
    fn note_question(&mut self) {
        let memory = &self.config.memory;
        let ping = memory.word(control::PING).load(Ordering::Acquire);
        if ping != self.asked.0 {
            self.asked = (ping, 0);
            memory.word(control::ASKED_US).store(0, Ordering::Relaxed);
            memory.word(control::ASKED).store(ping, Ordering::Release);
        }
    }

    fn slice(&mut self) -> Stop {
        let mut bus = LiveBus(HostBus { memory: &self.config.memory, guard: Guard::Iommu });
        let stop = self.device.run_slice(&mut bus, self.clock_ns, SLICE_INSTRUCTIONS);
        self.asked.1 += (self.clock_ns - self.sliced_ns).min(ANSWERING_NS_MAX);
        self.sliced_ns = self.clock_ns;
        let could_us = self.asked.1 / 1_000;
        self.config.memory.word(control::ASKED_US).store(could_us.min(u32::MAX.into()) as u32, Ordering::Release);
        stop
    }

    fn take_packets(&mut self) -> bool {
        let mut took = false;
        while self.device.packets_waiting() < WAITING_MAX {
            let packet = match self.looped.pop_front() {
                Some(packet) => packet,
                None => match self.config.wire.receive(&mut self.buffer) {
                    Arrival::Packet(packet) => packet,
                    Arrival::Nothing => break,
                    Arrival::Strange => {
                        self.config.memory.word(control::DROPPED).fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                },
            };
            self.device.deliver(self.clock_ns, packet);
            took = true;
        }
        took
    }

    fn send_packets(&mut self) -> bool {
        let mut sent = false;
        while let Some(packet) = self.device.outgoing() {
            sent = true;
            // HEADER_ROUTE: the destination is in its highest byte.
            let to = packet.bytes.get(7).copied().map(u32::from);
            if to == Some(self.node) {
                if self.looped.len() < LOOPED_MAX {
                    self.looped.push_back(packet);
                }
            } else {
                self.config.wire.send(&packet, &mut self.frame);
            }
        }
        sent
    }

    /// Whether something came since it was last looked.
    fn is_wanted(&self) -> bool {
        let memory = &self.config.memory;
        let word = |word| memory.word(word).load(Ordering::Acquire);
        (0..PORTS).any(|port| mailbox::waiting(memory, port) > 0)
            || word(control::PING) != self.device.peek(offset::PING)
            || word(control::INJECT) != 0
            || word(control::ENDING) != 0
            || word(control::EPOCH) != word(control::RELOADED)
    }

    /// Sleeps until the doorbell rings, a packet comes or a timer ends; whether the owner is gone.
    fn sleep(&mut self, stop: Stop) -> bool {
        let until_ns = match stop {
            Stop::Idle { until_ns } => until_ns.unwrap_or(u64::MAX),
            _ => self.device.next_event_ns().unwrap_or(u64::MAX),
        };
        let is_idle = self.seen_ns.saturating_sub(self.busy_ns) > IDLE_NS;
        let timer_ns = if is_idle { SLEEP_NS_MAX } else { until_ns.saturating_sub(self.clock_ns).min(SLEEP_NS_MAX) };
        if timer_ns == 0 {
            return false;
        }
        let sleeps = self.config.memory.word(control::INTERFACE_SLEEPS);
        sleeps.store(1, Ordering::SeqCst);
        let mut is_over = false;
        if !self.is_wanted() {
            is_over = self.poll(timer_ns);
        }
        self.config.memory.word(control::INTERFACE_SLEEPS).store(0, Ordering::Relaxed);
        let mut rings = [0; 8];
        while self.config.doorbell.recv(&mut rings).is_ok() {}
        self.advance(timer_ns.max(CLOCK_STEP_NS));
        is_over
    }

    fn poll(&self, time_ns: u64) -> bool {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let until = self.config.until.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let wire = self.config.wire.descriptor().unwrap_or(-1);
        // Descriptors below zero are passed over.
        let mut polled = [entry(self.config.doorbell.as_raw_fd()), entry(wire), entry(until)];
        let time = libc::timespec { tv_sec: 0, tv_nsec: time_ns.min(999_999_999) as i64 };
        // SAFETY: the array and the time outlive the call, which is told the array's length.
        unsafe { libc::ppoll(polled.as_mut_ptr(), 3, &raw const time, std::ptr::null()) };
        polled[2].revents != 0
    }
}
