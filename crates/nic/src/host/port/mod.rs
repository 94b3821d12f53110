//! The library of an application: a port, its tokens, and what happens on it.
//!
//! The life of a port is that of GM: open, hold tokens, provide buffers, send with a token, poll for events, close. What the
//! application does not know goes to [`Port::unknown`], which is where a failed interface is brought back: the application
//! sees neither the failure nor the recovery. [`Port::poll`] does so by itself.
//!
//! # What outlives the interface
//! The library keeps a copy of every token that the interface holds (sends that have not arrived, buffers that were
//! provided), the number of each stream's next message, and the number of the last message of each stream that it gave to
//! the application. These are all that `recover.rs` needs.

mod arrivals;
mod content;
mod words;

pub use words::{Event, Message, PortConfig, PortCounts, RequestError, SendFailure, Service, Unknown};
pub(super) use words::{Outstanding, Provided};

use super::driver::{self, Granted, OpenError};
use super::layout::*;
use super::mailbox::{self, Words};
use super::memory::{HostMemory, block, port_word};
use super::streams::{Outgoing, Peer, Streams};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// How often in a row the interface may say that a stream cannot go on before it is believed.
const DOUBTS_MAX: u32 = 3;

/// How long daemons have to look into such a word before the messages are handed over again: longer than a self-test in
/// which a message is missing, so that the daemon at the other end hears of it and reloads before it is believed.
const DOUBT_NS: u64 = 6_000_000;

/// A stream of which nothing came, and that has carried messages for so long since, was held up and not lost: its messages waited for a
/// processor, here or there. An interface that goes on losing some is suspected again before.
const CARRIES_NS: u64 = 1_000_000_000;

/// For so long after it was believed that a port is closed, it is believed without a doubt: a program that tries again and again
/// costs nobody a self-test.
const BELIEVED_NS: u64 = 1_000_000_000;

/// The control program sends a message 4,096 times, one in 2 ms, before it says that nobody answers. Before most of that time
/// is over it is not believed.
const TRIES_NS: u64 = 6_000_000_000;

/// The longest alarm of an interface: half a round of its clock of microseconds would lie in the past.
const ALARM_US_MAX: u64 = 1 << 30;

/// Messages that are further apart than this are acknowledged each, with the application's next call.
const ACCEPT_APART_NS: u64 = 40_000;
/// How long an acknowledgement of one that came sooner waits for the next.
const ACCEPT_NS: u64 = 15_000;

/// What the interface is to acknowledge yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Accepts {
    /// Streams and the last message of each that was found right, in the words of the command.
    pub(super) words: Vec<[u32; 5]>,
    /// How many messages these are, and when the last one came.
    count: u32,
    came_ns: u64,
    /// When the interface was told last.
    said_ns: u64,
}

impl Accepts {
    fn are_due(&self, now_ns: u64) -> bool {
        let are_apart = self.came_ns.saturating_sub(self.said_ns) >= ACCEPT_APART_NS;
        self.count > 1 || self.count == 1 && (are_apart || now_ns.saturating_sub(self.came_ns) >= ACCEPT_NS)
    }
}

/// A port of an interface.
#[derive(Debug)]
pub struct Port {
    pub(super) memory: Arc<HostMemory>,
    pub(super) granted: Granted,
    pub(super) config: PortConfig,
    pub(super) node: u8,
    pub(super) streams: Streams,
    pub(super) outstanding: VecDeque<Outstanding>,
    pub(super) provided: Vec<Provided>,
    pub(super) alarm: Option<(u32, u64)>,
    /// Commands for which the mailbox has no room yet.
    pub(super) outbox: VecDeque<Words>,
    pub(super) accepts: Accepts,
    /// Events that were found and not given to the application yet.
    pub(super) found: VecDeque<Event>,
    pub(super) consumed: u32,
    pub(super) consumed_told: u32,
    pub(super) epoch: u32,
    pub(super) now_ns: u64,
    /// For how long the application has waited: the time, without the pauses in which it did not look.
    waited_ns: u64,
    /// Something worse was suspected of this interface than that nothing came.
    pub(super) has_seen_worse: bool,
    next_restate_ns: u64,
    pub(super) counts: PortCounts,
}

impl Port {
    /// Opens a port of the interface whose memory this is.
    ///
    /// # Errors
    /// As [`driver::open`].
    pub fn open(memory: Arc<HostMemory>, number: usize, owner: u32, config: PortConfig) -> Result<Self, OpenError> {
        let granted = driver::open(&memory, number, owner, config.pages)?;
        Ok(Port::begin(memory, granted, config))
    }

    /// Opens a port of the daemon's in the place of a daemon that died.
    ///
    /// # Errors
    /// As [`driver::inherit`].
    pub(super) fn inherit(
        memory: Arc<HostMemory>,
        number: usize,
        owner: u32,
        config: PortConfig,
    ) -> Result<Self, OpenError> {
        let granted = driver::inherit(&memory, number, owner, config.pages)?;
        Ok(Port::begin(memory, granted, config))
    }

    fn begin(memory: Arc<HostMemory>, granted: Granted, config: PortConfig) -> Self {
        let node = memory.word(control::NODE).load(Ordering::Relaxed) as u8;
        let epoch = memory.word(control::EPOCH).load(Ordering::Acquire);
        let consumed = granted.events_before;
        let mut port = Port {
            memory,
            granted,
            config,
            node,
            streams: Streams::default(),
            outstanding: VecDeque::new(),
            provided: Vec::new(),
            alarm: None,
            outbox: VecDeque::new(),
            accepts: Accepts::default(),
            found: VecDeque::new(),
            consumed,
            consumed_told: consumed,
            epoch,
            now_ns: 0,
            waited_ns: 0,
            has_seen_worse: false,
            next_restate_ns: config.resend_ns,
            counts: PortCounts::default(),
        };
        port.say_open();
        port.say_start();
        port
    }

    /// Whether it is still this port's, and not closed by the daemon or opened by somebody else since.
    pub fn is_open(&self) -> bool {
        let word = |word| self.memory.word(port_word(self.granted.number, word)).load(Ordering::Acquire);
        word(port_word::OWNER) != 0 && (word(port_word::GENERATION) == self.granted.generation || !self.config.numbers)
    }

    /// The same port once more, for a snapshot of a world; of the two only one may be used at a time.
    pub(crate) fn duplicate(&self) -> Port {
        Port {
            memory: Arc::clone(&self.memory),
            granted: self.granted.clone(),
            config: self.config,
            node: self.node,
            streams: self.streams.clone(),
            outstanding: self.outstanding.clone(),
            provided: self.provided.clone(),
            alarm: self.alarm,
            outbox: self.outbox.clone(),
            accepts: self.accepts.clone(),
            found: self.found.clone(),
            consumed: self.consumed,
            consumed_told: self.consumed_told,
            epoch: self.epoch,
            now_ns: self.now_ns,
            waited_ns: self.waited_ns,
            has_seen_worse: self.has_seen_worse,
            next_restate_ns: self.next_restate_ns,
            counts: self.counts,
        }
    }

    /// Whether this port will do from now on what the other one would. The counts decide nothing.
    pub(crate) fn same_state(&self, other: &Port) -> bool {
        self.granted == other.granted
            && self.streams == other.streams
            && self.outstanding == other.outstanding
            && self.provided == other.provided
            && self.alarm == other.alarm
            && self.outbox == other.outbox
            && self.accepts == other.accepts
            && self.found == other.found
            && (self.consumed, self.consumed_told) == (other.consumed, other.consumed_told)
            && (self.epoch, self.now_ns, self.next_restate_ns) == (other.epoch, other.now_ns, other.next_restate_ns)
            && (self.waited_ns, self.has_seen_worse) == (other.waited_ns, other.has_seen_worse)
    }

    /// Closes it. Messages that have not arrived may or may not arrive yet; of those that the application was given, the
    /// senders learn that they arrived.
    pub fn close(mut self) {
        if !self.is_open() {
            return;
        }
        self.say_accepts();
        driver::close(&self.memory, self.granted.number);
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.granted.number
    }

    /// Its memory on the bus: page numbers, in the order of port addresses.
    pub fn pages(&self) -> &[u32] {
        &self.granted.pages
    }

    /// The number of its interface.
    pub fn node(&self) -> u8 {
        self.node
    }

    /// What it has counted.
    pub fn counts(&self) -> PortCounts {
        self.counts
    }

    /// How many sends have not arrived.
    pub fn outstanding_count(&self) -> usize {
        self.outstanding.len()
    }

    /// Whether a message was not handed over yet, because its kind of service was not tested, or because of a doubt.
    pub(crate) fn is_waiting_for_test(&self) -> bool {
        self.outstanding.iter().any(|one| !one.is_posted)
    }

    /// How many buffers the interface has.
    pub fn provided_count(&self) -> usize {
        self.provided.len()
    }

    /// Lets the daemon know whether the interface has buffers of this port.
    pub(super) fn note_buffers(&self) {
        let count = self.provided.len() as u32;
        self.memory.word(port_word(self.granted.number, port_word::BUFFERS)).store(1 + count, Ordering::Release);
    }

    /// Counts what the application does, so that the daemon tests what is in use.
    fn is_active(&self) {
        self.memory.word(port_word(self.granted.number, port_word::ACTIVITY)).fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a message. The event [`Event::Sent`] brings the token back.
    ///
    /// # Errors
    /// [`RequestError`]; nothing is sent then.
    pub fn send(&mut self, message: Message) -> Result<(), RequestError> {
        self.send_flagged(message, 0)
    }

    pub(super) fn send_flagged(&mut self, message: Message, flags: u32) -> Result<(), RequestError> {
        self.check(&message)?;
        let (generation, number) = self.number_for(&message);
        let checksum = self.checksum_of(&message, generation, number);
        let (posted_ns, sent_ns) = (self.waited_ns, self.now_ns);
        self.outstanding.push_back(Outstanding {
            message,
            generation,
            number,
            checksum,
            is_posted: false,
            is_resent: false,
            posted_ns,
            sent_ns,
            flags,
            copy: self.copy_of(&message),
        });
        self.counts.sent_count += 1;
        self.is_active();
        self.use_services(message.service.bit(message.to.priority));
        self.post();
        self.say_due_accepts();
        Ok(())
    }

    /// Lets the daemon know which kinds of service are used, also by those who only receive.
    fn use_services(&self, bits: u32) {
        let used = self.memory.word(port_word(self.granted.number, port_word::SERVICES_USED));
        if used.load(Ordering::Relaxed) & bits != bits {
            used.fetch_or(bits, Ordering::Relaxed);
            // It tests them before the first request is posted.
            self.memory.wake_daemon();
        }
    }

    fn check(&self, message: &Message) -> Result<(), RequestError> {
        let Message { to, length, .. } = *message;
        if self.outstanding.len() >= SEND_TOKENS {
            return Err(RequestError::NoToken(SEND_TOKENS));
        }
        if usize::from(to.node) >= NODES || usize::from(to.port) >= PORTS || to.priority > 1 {
            return Err(RequestError::BadTarget { node: to.node, port: to.port, priority: to.priority });
        }
        let is_of_application = |port| APPLICATION_PORTS.contains(&port);
        if is_of_application(self.granted.number) && !is_of_application(usize::from(to.port)) {
            return Err(RequestError::OfDaemon(to.port));
        }
        if self.outstanding.iter().any(|one| one.message.token == message.token) {
            return Err(RequestError::SameToken(message.token));
        }
        let size_class = message.service.size_class();
        if u32::from(size_class) > SIZE_CLASS_MAX {
            return Err(RequestError::BadClass(size_class));
        }
        let of_class = 1 << u32::from(size_class);
        let most = match message.service {
            Service::Directed { .. } => MESSAGE_BYTES_MAX,
            Service::Normal { .. } => of_class,
            Service::Datagram { .. } => of_class.min(PACKET_DATA_BYTES),
        };
        if length > most && most == of_class {
            return Err(RequestError::TooLongForClass { length, size_class, most });
        }
        if length > most {
            return Err(RequestError::TooLong { length, most });
        }
        if let Service::Directed { remote } = message.service
            && remote.checked_add(length).is_none_or(|end| end > PORT_PAGES * PAGE_BYTES)
        {
            return Err(RequestError::BadAddress { address: remote, length, registered: PORT_PAGES * PAGE_BYTES });
        }
        self.inside(message.address, length)?;
        match self.provided.iter().find(|one| overlap(&one.range(), &message.range())) {
            Some(one) => Err(RequestError::Overlaps { address: message.address, length, token: one.token }),
            None => Ok(()),
        }
    }

    fn inside(&self, address: u32, length: u32) -> Result<(), RequestError> {
        let registered = self.granted.pages.len() as u32 * PAGE_BYTES;
        match address.checked_add(length) {
            Some(end) if end <= registered => Ok(()),
            _ => Err(RequestError::BadAddress { address, length, registered }),
        }
    }

    /// The generation and the number of a message in its stream.
    fn number_for(&mut self, message: &Message) -> (u32, u32) {
        if matches!(message.service, Service::Datagram { .. }) {
            return (self.granted.generation, 0);
        }
        let generation = self.granted.generation;
        let fresh = || Outgoing::new(generation);
        let stream = self.streams.outgoing.entry(message.to).or_insert_with(fresh);
        let number = stream.next_number;
        stream.next_number = number.wrapping_add(1);
        (stream.generation, number)
    }

    /// Tells the interface of what it was not told yet, in order, up to the first that has to wait.
    pub(super) fn post(&mut self) {
        let tested = self.memory.word(port_word(self.granted.number, port_word::SERVICES_TESTED));
        let tested = if self.config.waits_for_test { tested.load(Ordering::Acquire) } else { u32::MAX };
        for place in 0..self.outstanding.len() {
            // Most are, and this is asked at every poll.
            if self.outstanding[place].is_posted {
                continue;
            }
            if self.would_write_over(place) || self.is_behind(place) {
                continue;
            }
            let one = &mut self.outstanding[place];
            let stream = self.streams.outgoing.get(&one.message.to);
            if one.number != 0 && stream.is_some_and(|stream| stream.not_before_ns > self.now_ns) {
                continue;
            }
            if tested & one.message.service.bit(one.message.to.priority) == 0 {
                break;
            }
            one.is_posted = true;
            one.posted_ns = self.waited_ns;
            let command = command_of(one);
            self.outbox.push_back(command);
        }
        self.flush();
    }

    /// Whether an earlier message of its stream waits.
    fn is_behind(&self, place: usize) -> bool {
        let this = &self.outstanding[place];
        let is_before = |one: &Outstanding| one.message.to == this.message.to && one.number != 0 && !one.is_posted;
        this.number != 0 && self.outstanding.iter().take(place).any(is_before)
    }

    /// Whether a directed message goes where an earlier one goes that has not arrived: its bytes would be there before the earlier
    /// one is verified.
    fn would_write_over(&self, place: usize) -> bool {
        let this = &self.outstanding[place].message;
        let is_same_port = |to: Peer| (to.node, to.port) == (this.to.node, this.to.port);
        let range = this.remote_range();
        !range.is_empty()
            && self
                .outstanding
                .iter()
                .take(place)
                .any(|one| is_same_port(one.message.to) && overlap(&one.message.remote_range(), &range))
    }

    /// Gives the interface a buffer of 2^class bytes for messages of a priority.
    ///
    /// # Errors
    /// [`RequestError`]; the buffer stays the application's then.
    pub fn provide(&mut self, token: u32, address: u32, size_class: u8, priority: u8) -> Result<(), RequestError> {
        if u32::from(size_class) > SIZE_CLASS_MAX {
            return Err(RequestError::BadClass(size_class));
        }
        if priority > 1 {
            return Err(RequestError::BadPriority(priority));
        }
        if self.provided.len() >= RECEIVE_TOKENS {
            return Err(RequestError::NoToken(RECEIVE_TOKENS));
        }
        if self.provided.iter().any(|one| one.token == token) {
            return Err(RequestError::SameToken(token));
        }
        let length = 1 << size_class;
        self.inside(address, length)?;
        let one = Provided { token, address, size_class, priority };
        let of_buffers = self.provided.iter().map(|other| (other.token, other.range()));
        let of_sends = self.outstanding.iter().map(|other| (other.message.token, other.message.range()));
        if let Some((token, _)) = of_buffers.chain(of_sends).find(|(_, range)| overlap(range, &one.range())) {
            return Err(RequestError::Overlaps { address, length, token });
        }
        self.provided.push(one);
        self.note_buffers();
        match self.take_due_accept() {
            Some([stream, priority, generation, number, proof]) => self.say(
                command::PROVIDE,
                &[
                    token,
                    address,
                    size_class.into(),
                    one.priority.into(),
                    command::ACCEPT,
                    stream,
                    priority,
                    generation,
                    number,
                    proof,
                ],
            ),
            None => self.provide_again(one),
        }
        Ok(())
    }

    pub(super) fn provide_again(&mut self, one: Provided) {
        self.say(command::PROVIDE, &[one.token, one.address, one.size_class.into(), one.priority.into()]);
    }

    /// Says what time it is, where the last poll was a while ago.
    pub fn time_is(&mut self, now_ns: u64) {
        self.waited_ns += now_ns.saturating_sub(self.now_ns).min(self.config.pause_ns_max);
        self.now_ns = now_ns;
    }

    /// Asks for [`Event::Alarm`] after a time; one alarm at a time.
    pub fn alarm(&mut self, token: u32, after_us: u32) {
        self.alarm = Some((token, self.now_ns + u64::from(after_us) * 1_000));
        self.say_alarm();
    }

    /// Tells the interface of the alarm. Its clock wraps, so that one further off is asked for in parts.
    pub(super) fn say_alarm(&mut self) {
        let Some((token, at_ns)) = self.alarm else { return };
        let left_us = at_ns.saturating_sub(self.now_ns) / 1_000;
        self.say(command::ALARM, &[token, left_us.clamp(1, ALARM_US_MAX) as u32]);
    }

    pub(super) fn say(&mut self, kind: u32, rest: &[u32]) {
        let mut command = [0; 16];
        command[0] = kind;
        command[1..=rest.len()].copy_from_slice(rest);
        self.outbox.push_back(command);
        self.flush();
    }

    pub(super) fn say_open(&mut self) {
        let flags = if self.config.verifies { command::OPEN_VERIFIES } else { 0 };
        self.say(command::OPEN, &[self.granted.generation, self.consumed, flags]);
    }

    /// The last command of an opening. On the daemon's port it says which ports are open.
    pub(super) fn say_start(&mut self) {
        let open =
            (0..PORTS).filter(|&port| driver::is_open(&self.memory, port)).fold(0, |mask, port| mask | 1 << port);
        self.say(command::START, &[open]);
    }

    pub(super) fn flush(&mut self) {
        while let Some(command) = self.outbox.front() {
            if !mailbox::put(&self.memory, self.granted.number, command) {
                break;
            }
            self.outbox.pop_front();
        }
    }

    /// Whether the interface has taken every command.
    pub(crate) fn is_heard(&mut self) -> bool {
        self.flush();
        let is_heard = self.outbox.is_empty() && mailbox::waiting(&self.memory, self.granted.number) == 0;
        // What the caller reads next is no older than this.
        fence(Ordering::Acquire);
        is_heard
    }

    /// What happened next, with recovery done on the way; `None` when nothing has.
    pub fn poll(&mut self, now_ns: u64) -> Option<Event> {
        loop {
            match self.receive(now_ns)? {
                Event::Unknown(unknown) => self.unknown(unknown),
                event => return Some(event),
            }
        }
    }

    /// What happened next. [`Event::Unknown`] goes to [`Port::unknown`].
    pub fn receive(&mut self, now_ns: u64) -> Option<Event> {
        self.time_is(now_ns);
        self.say_due_accepts();
        self.flush();
        if let Some(event) = self.found.pop_front() {
            return Some(event);
        }
        let failed = self.memory.word(port_word(self.granted.number, port_word::FAULT_EPOCH)).load(Ordering::Acquire);
        if failed != 0 && failed != self.epoch {
            return Some(Event::Unknown(Unknown::FaultDetected { epoch: failed }));
        }
        self.post();
        self.resend();
        self.restate();
        self.look();
        if self.found.is_empty() && self.memory.word(control::GIVEN_UP).load(Ordering::Acquire) != 0 {
            self.finish(|_| true, Err(SendFailure::GivenUp));
        }
        self.found.pop_front()
    }

    /// What the application does not know.
    pub fn unknown(&mut self, unknown: Unknown) {
        match unknown {
            Unknown::FaultDetected { epoch } => self.restore(epoch),
        }
    }

    /// Takes events out of the ring until one is for the application, or none is there.
    pub(super) fn look(&mut self) {
        while self.found.is_empty() {
            let Some(words) = self.next_in_ring() else { break };
            self.happened(&words);
        }
        if self.consumed.wrapping_sub(self.consumed_told) >= PORT_EVENT_COUNT / 8 {
            self.consumed_told = self.consumed;
            self.say(command::CONSUMED, &[self.consumed]);
        }
    }

    /// Where the next event will be.
    fn next_at(&self) -> u32 {
        block(self.granted.number) + PORT_EVENTS + self.consumed % PORT_EVENT_COUNT * 64
    }

    /// Whether an event waits for the application.
    pub(crate) fn has_news(&self) -> bool {
        !self.found.is_empty() || self.has_event()
    }

    /// Whether the next event is there.
    pub(super) fn has_event(&self) -> bool {
        let number = self.memory.word(self.next_at() + event::NUMBER as u32 * 4).load(Ordering::Acquire);
        number == self.consumed.wrapping_add(1)
    }

    pub(super) fn next_in_ring(&mut self) -> Option<Words> {
        if !self.has_event() {
            return None;
        }
        let at = self.next_at();
        let number = self.consumed.wrapping_add(1);
        let mut words = [0; 16];
        for (word, value) in (0..).zip(&mut words) {
            *value = self.memory.word(at + word * 4).load(Ordering::Relaxed);
        }
        self.consumed = number;
        self.memory.word(port_word(self.granted.number, port_word::TAKEN)).store(number, Ordering::Release);
        Some(words)
    }
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    !one.is_empty() && !other.is_empty() && one.start < other.end && other.start < one.end
}

/// HEADER_STREAM of a stream that begins at a port.
fn stream_word(node: u8, port: usize, to: Peer) -> u32 {
    u32::from(node) << 24 | (port as u32) << 16 | u32::from(to.node) << 8 | u32::from(to.port)
}

fn service_word(message: &Message) -> u32 {
    message.service.kind() | u32::from(message.to.priority) << 8 | u32::from(message.service.size_class()) << 16
}

/// What the interface is told of a send.
fn command_of(one: &Outstanding) -> Words {
    let message = &one.message;
    let remote = if let Service::Directed { remote } = message.service { remote } else { 0 };
    let target = u32::from(message.to.node) << 8 | u32::from(message.to.port);
    let mut command = [0; 16];
    command[..11].copy_from_slice(&[
        command::SEND,
        message.token,
        message.address,
        message.length,
        target,
        service_word(message),
        one.number,
        one.checksum,
        remote,
        one.flags,
        one.generation,
    ]);
    command
}
