//! Applications that send and receive, and write down what they did: the history that the checker judges.

use super::World;
use crate::check::{self, Verdict};
use crate::host::driver::OpenError;
use crate::host::port::{Event, Message, Port, PortConfig, SendFailure, Service};
use crate::host::streams::Peer;
use std::collections::HashMap;
use std::sync::Arc;
use surefoot_random::Random;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct TrafficConfig {
    /// Messages in each direction that is used.
    pub message_count: u32,
    /// Their length, bytes; at least 12.
    pub message_bytes: u32,
    /// How many are under way at once, at most [`WINDOW_MAX`].
    pub window: u32,
    /// Both hosts send, or node 0 alone.
    pub both_ways: bool,
    /// By which service.
    pub kind: Kind,
    /// Of the content.
    pub seed: u64,
}

/// The kinds of service that traffic uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Normal delivery.
    Normal,
    /// Directed delivery.
    Directed,
}

/// The largest window: each message has a slot of its own in the memory of either side.
pub const WINDOW_MAX: u32 = 8;

/// What directed messages write: an area of all slots, and another one each time that so many messages were refused.
const DIRECTED_AREAS: u32 = 3;

/// How many areas of so many slots an application takes of the interface's memory.
pub fn areas(kind: Kind) -> u32 {
    match kind {
        Kind::Normal => 2,
        Kind::Directed => 1 + DIRECTED_AREAS,
    }
}

/// The same of [`Traffic::with_slots`]: as many messages as a port has tokens to send.
pub const SLOTS_MAX: u32 = 16;

/// Without failures a message is there long before, also where some of its packets are lost.
const BUFFER_PATIENCE_NS: u64 = 200_000_000;

/// A message as an application saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its number, as the sending application counted it from 0.
    pub id: u32,
    /// Of its content.
    pub checksum: u32,
    /// When.
    pub at_ns: u64,
    /// Its length.
    pub bytes: u32,
}

/// What one application sent, and the other one received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In the order of sending.
    pub sent: Vec<Seen>,
    /// In the order of delivery.
    pub delivered: Vec<Seen>,
    /// Callbacks of sends that said the message arrived.
    pub confirmed_count: u32,
    /// Callbacks that said it did not.
    pub failed_count: u32,
    /// Numbers of the messages whose callbacks these were, in their order, and what they said.
    pub told: Vec<(u32, Result<(), SendFailure>)>,
}

#[derive(Clone, PartialEq, Eq)]
struct Slots {
    /// Free ones, and the message in each that is not.
    free: Vec<u32>,
    holds: [u32; SLOTS_MAX as usize],
}

struct Application {
    port: Port,
    looks: Option<Looks>,
    /// Messages sent so far, and how many it has to send.
    sent: u32,
    to_send: u32,
    slots: Slots,
    /// When its first message was handed over: a self-test may come before it.
    begun_ns: Option<u64>,
}

impl Application {
    fn duplicate(&self) -> Application {
        Application { port: self.port.duplicate(), looks: self.looks.clone(), slots: self.slots.clone(), ..*self }
    }

    /// When its next message is to be sent; `None` while its first one waits.
    fn next_ns(&self, every_ns: u64) -> Option<u64> {
        if self.sent == 0 || every_ns == 0 { Some(0) } else { Some(self.begun_ns? + u64::from(self.sent) * every_ns) }
    }
}

/// When an application that has other things to do looks at its port: many times in a row, after microseconds, milliseconds or a second.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Looks {
    random: Random,
    next_ns: u64,
    /// Looks that are left of a burst.
    burst: u32,
}

/// The shortest and the longest time from one look of a slow application to its next, but for a stop.
const LOOKS_NS: [f64; 2] = [500.0, 10_000_000.0];
/// Of so many pauses one is a stop.
const STOP_OF: u64 = 400;
/// A program that is swapped in, stopped by a debugger, or behind another one.
pub(super) const STOP_NS: u64 = 1_000_000_000;
/// The most looks of a burst.
const BURST_MAX: u64 = 64;

impl Looks {
    fn new(seed: u64) -> Looks {
        Looks { random: Random::new(seed), next_ns: 0, burst: 0 }
    }

    /// Whether it looks now; the next time is drawn then.
    fn take(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        if self.burst > 0 {
            self.burst -= 1;
            return true;
        }
        let pause_ns = match self.random.below(STOP_OF) {
            0 => STOP_NS,
            // As many below 70 us as above.
            _ => (LOOKS_NS[0] * (LOOKS_NS[1] / LOOKS_NS[0]).powf(self.random.unit())) as u64,
        };
        self.burst = if self.random.below(2) == 0 { self.random.below(BURST_MAX) as u32 } else { 0 };
        self.next_ns = now_ns + pause_ns;
        true
    }
}

/// When messages are sent, and how long they are.
#[derive(Debug, Clone, Default)]
struct Pace {
    /// From one message of an application to its next one, at least.
    every_ns: u64,
    /// Lengths in turn; empty where all are alike.
    sizes: Vec<u32>,
}

/// Traffic as it was at some time.
pub struct TrafficSnapshot {
    applications: [Application; 2],
    histories: [History; 2],
}

/// The traffic of a world: an application on port 1 of each host.
pub struct Traffic {
    config: TrafficConfig,
    slot_count: u32,
    pace: Pace,
    applications: [Application; 2],
    /// From node 0 to node 1, and back.
    pub histories: [History; 2],
}

impl Traffic {
    /// Opens a port on each host.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn new(world: &World, port: PortConfig, config: TrafficConfig) -> Result<Self, OpenError> {
        Traffic::with_slots(world, port, config, WINDOW_MAX)
    }

    /// The same with so many slots in the memory of either side, at most [`SLOTS_MAX`], and a window of up to as many.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn with_slots(
        world: &World,
        port: PortConfig,
        config: TrafficConfig,
        slot_count: u32,
    ) -> Result<Self, OpenError> {
        let slot_bytes = slot_bytes(config.message_bytes);
        let slot_count = slot_count.clamp(1, SLOTS_MAX);
        let pages = (areas(config.kind) * slot_count * slot_bytes).div_ceil(4096);
        let open = |place: usize| -> Result<Application, OpenError> {
            let of_port = PortConfig { pages, ..port };
            let mut port = Port::open(Arc::clone(&world.nodes[place].memory), 1, 2, of_port)?;
            if config.kind == Kind::Normal {
                for slot in 0..slot_count {
                    // A fresh port has the tokens.
                    let _ = port.provide(slot, (slot_count + slot) * slot_bytes, class_of(slot_bytes), 0);
                }
            }
            let to_send = if place == 0 || config.both_ways { config.message_count } else { 0 };
            let free = (0..config.window.clamp(1, slot_count)).rev().collect();
            Ok(Application {
                port,
                looks: None,
                sent: 0,
                to_send,
                slots: Slots { free, holds: [0; SLOTS_MAX as usize] },
                begun_ns: None,
            })
        };
        let pace = Pace::default();
        Ok(Traffic { config, slot_count, pace, applications: [open(0)?, open(1)?], histories: Default::default() })
    }

    /// The same with a pause from each message to the next, and lengths in turn, none above that of the configuration and
    /// none under 12 bytes.
    pub fn paced(mut self, every_ns: u64, sizes: &[u32]) -> Self {
        let most = self.config.message_bytes;
        self.pace = Pace { every_ns, sizes: sizes.iter().map(|&bytes| bytes.clamp(12, most.max(12))).collect() };
        self
    }

    /// The same of applications that look at their ports when they come to it: after half a microsecond to 10 ms, in bursts, and now and then after a second.
    pub fn slow(mut self, seed: u64) -> Self {
        for (place, application) in (0u64..).zip(&mut self.applications) {
            application.looks = Some(Looks::new(seed ^ (place + 1) << 32));
        }
        self
    }

    /// When the next message is to be sent, if a slot is free for it.
    pub fn next_ns(&self) -> u64 {
        let next = |application: &Application| {
            let is_over = application.sent == application.to_send || application.slots.free.is_empty();
            if is_over { u64::MAX } else { application.next_ns(self.pace.every_ns).unwrap_or(u64::MAX) }
        };
        self.applications.iter().map(next).min().unwrap_or(u64::MAX)
    }

    /// The whole state.
    pub fn snapshot(&self) -> TrafficSnapshot {
        let [one, other] = &self.applications;
        TrafficSnapshot { applications: [one.duplicate(), other.duplicate()], histories: self.histories.clone() }
    }

    /// Goes back to a state that this traffic had.
    pub fn restore(&mut self, snapshot: &TrafficSnapshot) {
        for (ours, theirs) in self.applications.iter_mut().zip(&snapshot.applications) {
            *ours = theirs.duplicate();
        }
        self.histories.clone_from(&snapshot.histories);
    }

    /// Whether the applications have seen the same, and will do the same from now on.
    pub fn same_state(&self, snapshot: &TrafficSnapshot) -> bool {
        let is_same = |(ours, theirs): (&Application, &Application)| {
            (ours.sent, ours.begun_ns) == (theirs.sent, theirs.begun_ns)
                && ours.looks == theirs.looks
                && ours.slots == theirs.slots
                && ours.port.same_state(&theirs.port)
        };
        self.histories == snapshot.histories && self.applications.iter().zip(&snapshot.applications).all(is_same)
    }

    /// What the checker says of the messages of both directions.
    pub fn verdict(&self) -> Verdict {
        let (mut sent, mut delivered) = (Vec::new(), Vec::new());
        for (stream, history) in (0u64..).zip(&self.histories) {
            let told: HashMap<u32, Result<(), SendFailure>> = history.told.iter().copied().collect();
            sent.extend(history.sent.iter().map(|seen| check::Sent {
                stream,
                id: seen.id.into(),
                bytes: seen.bytes.into(),
                checksum: seen.checksum.into(),
                outcome: match told.get(&seen.id) {
                    None => check::Outcome::Pending,
                    Some(Ok(())) => check::Outcome::Arrived,
                    Some(Err(_)) => check::Outcome::Refused { may_have_arrived: true },
                },
            }));
            delivered.extend(history.delivered.iter().map(|seen| check::Delivered {
                stream,
                id: seen.id.into(),
                bytes: seen.bytes.into(),
                checksum: seen.checksum.into(),
            }));
        }
        check::check(&sent, &delivered)
    }

    /// What both applications do in a step of time; whether they did anything.
    pub fn step(&mut self, now_ns: u64) -> bool {
        let mut did = false;
        for place in 0..2 {
            if self.applications[place].looks.as_mut().is_some_and(|looks| !looks.take(now_ns)) {
                continue;
            }
            while let Some(event) = self.applications[place].port.poll(now_ns) {
                did = true;
                self.happened(place, event, now_ns);
            }
            did |= self.send(place, now_ns);
            let application = &mut self.applications[place];
            if application.begun_ns.is_none() && application.sent > 0 && !application.port.is_waiting_for_test() {
                application.begun_ns = Some(now_ns);
            }
        }
        did
    }

    /// Whether everything was sent, delivered and confirmed. Where libraries verify nothing, a message is confirmed when its event is in the host, and a
    /// slow program looks at it later; one that was refused may have arrived all the same, so their count alone does not say that none waits.
    pub fn is_done(&self) -> bool {
        self.applications.iter().zip(&self.histories).all(|(application, history)| {
            application.sent == application.to_send
                && application.port.outstanding_count() == 0
                && !application.port.has_news()
                && history.delivered.len() as u32 >= application.to_send - history.failed_count.min(application.to_send)
        })
    }

    /// Sends as many messages as either side gave buffers, one after the other, while no buffer is given back: whether all arrive, so that no
    /// interface has lost a buffer, and none has one twice. For traffic of normal delivery that is done; it has no buffers afterwards.
    pub fn has_all_buffers(&mut self, world: &mut World) -> bool {
        (0..2).all(|place| self.has_buffers_of(1 - place, world))
    }

    fn has_buffers_of(&mut self, from: usize, world: &mut World) -> bool {
        let slot_bytes = slot_bytes(self.config.message_bytes);
        let service = Service::Normal { size_class: class_of(slot_bytes) };
        let to = Peer { node: 1 - from as u8, port: 1, priority: 0 };
        let mut came = Vec::new();
        for token in 0..self.slot_count {
            let message = Message { token, address: 0, length: 12, to, service };
            let until_ns = world.now_ns() + BUFFER_PATIENCE_NS;
            if self.applications[from].port.send(message).is_err() {
                return false;
            }
            loop {
                let now_ns = world.now_ns();
                while let Some(event) = self.applications[1 - from].port.poll(now_ns) {
                    if let Event::Received { token, .. } = event {
                        came.push(token);
                    }
                }
                match self.applications[from].port.poll(now_ns) {
                    Some(Event::Sent { outcome: Ok(()), .. }) => break,
                    Some(Event::Sent { outcome: Err(_), .. }) => return false,
                    Some(_) => {}
                    None if now_ns >= until_ns => return false,
                    None => world.step(now_ns + 100_000),
                }
            }
        }
        while let Some(event) = self.applications[1 - from].port.poll(world.now_ns()) {
            if let Event::Received { token, .. } = event {
                came.push(token);
            }
        }
        came.sort_unstable();
        came == (0..self.slot_count).collect::<Vec<_>>()
    }

    /// How many messages were delivered, in both directions.
    pub fn delivered_count(&self) -> usize {
        self.histories.iter().map(|history| history.delivered.len()).sum()
    }

    /// The library of a host's application.
    pub fn port(&self, place: usize) -> &Port {
        &self.applications[place].port
    }

    fn send(&mut self, place: usize, now_ns: u64) -> bool {
        let slot_bytes = slot_bytes(self.config.message_bytes);
        let mut did = false;
        while self.applications[place].sent < self.applications[place].to_send {
            let application = &mut self.applications[place];
            let id = application.sent;
            if application.next_ns(self.pace.every_ns).is_none_or(|at_ns| now_ns < at_ns) {
                break;
            }
            let Some(slot) = application.slots.free.pop() else { break };
            let sizes = &self.pace.sizes;
            let length = sizes.get(id as usize % sizes.len().max(1)).copied().unwrap_or(self.config.message_bytes);
            let content = content(self.config.seed ^ place as u64, id, length);
            let address = slot * slot_bytes;
            application.port.write(address, &content);
            let service = match self.config.kind {
                Kind::Normal => Service::Normal { size_class: class_of(slot_bytes) },
                Kind::Directed => {
                    // Into memory of a message that was refused and may have arrived nothing else is written.
                    let refused = self.histories[place].failed_count.div_ceil(self.slot_count);
                    let area = 1 + refused.min(DIRECTED_AREAS - 1);
                    Service::Directed { remote: (area * self.slot_count + id % self.slot_count) * slot_bytes }
                }
            };
            let to = Peer { node: 1 - place as u8, port: 1, priority: 0 };
            let message = Message { token: slot, address, length, to, service };
            if application.port.send(message).is_err() {
                application.slots.free.push(slot);
                break;
            }
            application.sent += 1;
            application.slots.holds[slot as usize] = id;
            did = true;
            self.histories[place].sent.push(Seen {
                id,
                checksum: crc32fast::hash(&content),
                at_ns: now_ns,
                bytes: length,
            });
        }
        did
    }

    fn happened(&mut self, place: usize, event: Event, now_ns: u64) {
        let application = &mut self.applications[place];
        match event {
            Event::Received { token, address, length, .. } => {
                self.histories[1 - place].delivered.push(seen(&application.port, address, length, now_ns));
                let class = class_of(slot_bytes(self.config.message_bytes));
                let _ = application.port.provide(token, address, class, 0);
            }
            Event::Directed { address, length, .. } => {
                self.histories[1 - place].delivered.push(seen(&application.port, address, length, now_ns));
            }
            Event::Sent { token, outcome } => {
                application.slots.free.push(token);
                let id = application.slots.holds.get(token as usize).copied().unwrap_or(u32::MAX);
                self.histories[place].told.push((id, outcome));
                match outcome {
                    Ok(()) => self.histories[place].confirmed_count += 1,
                    Err(_) => self.histories[place].failed_count += 1,
                }
            }
            Event::MemorySuspect | Event::BufferRefused { .. } | Event::Alarm { .. } | Event::Unknown(_) => {}
        }
    }
}

fn seen(port: &Port, address: u32, length: u32, at_ns: u64) -> Seen {
    let mut bytes = vec![0; length as usize];
    port.read(address, &mut bytes);
    let id = bytes.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
    Seen { id, checksum: crc32fast::hash(&bytes), at_ns, bytes: length }
}

pub(crate) fn slot_bytes(message_bytes: u32) -> u32 {
    message_bytes.max(64).next_power_of_two()
}

pub(crate) fn class_of(slot_bytes: u32) -> u8 {
    slot_bytes.trailing_zeros() as u8
}

pub(crate) fn receive_slot(slot: u32, slot_bytes: u32) -> u32 {
    (WINDOW_MAX + slot) * slot_bytes
}

/// A message: its number first, then bytes that no other message has in this place. Not of `surefoot_random`: campaigns that were recorded are
/// replayed with these bytes.
pub fn content(seed: u64, id: u32, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize + 8);
    bytes.extend_from_slice(&id.to_le_bytes());
    let mut state = (seed ^ u64::from(id) << 32 ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < length as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}
