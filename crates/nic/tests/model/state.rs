//! What a state of the model holds: per stream the two hosts, the two halves of the interfaces and the link; per node the
//! interface as a whole. Everything is `Copy` and small, because there are millions of them.

/// The most messages of a stream.
pub const MESSAGES: usize = 3;
/// Where an interface that makes the numbers itself begins after a reload: the receiver expects none of these.
pub const NUMBER_OF_ITS_OWN: u8 = MESSAGES as u8 + 1;
/// The most packets of a message.
pub const PARTS: usize = 2;
/// The most streams, each of a port of its own.
pub const PORTS: usize = 2;
/// The most receive buffers of a port.
pub const BUFFERS: usize = 2;
/// Places of an event ring that an interface may fill; the daemon finds room beyond.
const RING_OF_INTERFACE: usize = 3;
const RING: usize = 8;

/// What an interface, or the daemon, posts in the event ring of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Event {
    /// No event: an empty place of the ring.
    #[default]
    None,
    /// Every message up to this number was acknowledged; whether with the proof that the receiving library made.
    Sent { number: u8, proven: bool },
    /// A message lies in this buffer.
    Received { number: u8, buffer: u8 },
    /// The daemon has fenced and reloaded the interface, which now has this epoch.
    FaultDetected { epoch: u8 },
}

/// A short queue; in a port's event ring it is host memory, so that no crash of an interface empties it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ring {
    length: u8,
    events: [Event; RING],
}

impl Ring {
    /// Whether an interface must wait before it posts.
    pub fn is_full(&self) -> bool {
        self.length as usize >= RING_OF_INTERFACE
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn push(&mut self, event: Event) {
        self.events[self.length as usize] = event;
        self.length += 1;
    }

    pub fn events(&self) -> &[Event] {
        &self.events[..self.length as usize]
    }

    pub fn take(&mut self, at: usize) -> Event {
        let event = self.events[at];
        self.events.copy_within(at + 1..self.length as usize, at);
        self.length -= 1;
        self.events[self.length as usize] = Event::None;
        event
    }
}

/// The receive buffers that an interface holds, in the order in which it will fill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Buffers {
    length: u8,
    buffers: [u8; BUFFERS],
}

impl Buffers {
    pub fn all(count: u8) -> Self {
        let mut all = Self::default();
        (0..count).for_each(|buffer| all.provide(buffer));
        all
    }

    pub fn len(&self) -> u8 {
        self.length
    }

    pub fn first(&self) -> Option<u8> {
        (self.length > 0).then_some(self.buffers[0])
    }

    pub fn holds(&self, buffer: u8) -> bool {
        self.buffers[..self.length as usize].contains(&buffer)
    }

    /// A buffer that is there already is not taken twice.
    pub fn provide(&mut self, buffer: u8) {
        if !self.holds(buffer) && (self.length as usize) < BUFFERS {
            self.buffers[self.length as usize] = buffer;
            self.length += 1;
        }
    }

    pub fn take_first(&mut self) -> Option<u8> {
        let first = self.first()?;
        self.buffers.copy_within(1..self.length as usize, 0);
        self.length -= 1;
        self.buffers[self.length as usize] = 0;
        Some(first)
    }
}

/// A packet of data. Content 0 is garbage; any other is the number that the sending application gave to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    pub sequence: u8,
    pub content: u8,
    pub part: u8,
}

impl Packet {
    fn bit(self) -> u64 {
        let contents = MESSAGES + 1;
        let index = ((self.sequence as usize - 1) * contents + self.content as usize) * PARTS + self.part as usize;
        1 << index
    }

    fn of_bit(index: usize) -> Self {
        let (rest, part) = (index / PARTS, index % PARTS);
        let contents = MESSAGES + 1;
        Self { sequence: (rest / contents + 1) as u8, content: (rest % contents) as u8, part: part as u8 }
    }
}

/// What was ever put on the link for one stream, and never leaves it (`model/mod.rs` says why that is enough).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    data: u64,
    acknowledged: u8,
    acknowledged_unproven: u8,
    wanted: u8,
}

impl Link {
    pub fn put(&mut self, packet: Packet) {
        self.data |= packet.bit();
    }

    /// Only for the fair completion, in which nothing is delivered twice.
    pub fn remove(&mut self, packet: Packet) {
        self.data &= !packet.bit();
    }

    pub fn packets(self) -> impl Iterator<Item = Packet> {
        let mut left = self.data;
        std::iter::from_fn(move || {
            let index = (left != 0).then_some(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(Packet::of_bit(index))
        })
    }

    pub fn put_ack(&mut self, number: u8, proven: bool) {
        *self.acks(proven) |= 1 << number;
    }

    pub fn has_ack(mut self, number: u8, proven: bool) -> bool {
        *self.acks(proven) & (1 << number) != 0
    }

    pub fn remove_ack(&mut self, number: u8, proven: bool) {
        *self.acks(proven) &= !(1 << number);
    }

    fn acks(&mut self, proven: bool) -> &mut u8 {
        if proven { &mut self.acknowledged } else { &mut self.acknowledged_unproven }
    }

    pub fn put_nack(&mut self, number: u8) {
        self.wanted |= 1 << number;
    }

    pub fn has_nack(&self, number: u8) -> bool {
        self.wanted & (1 << number) != 0
    }
}

/// The sending library and its application: host memory, lost by no crash of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SendingHost {
    /// Messages that the application has sent; those above `called` have a shadow copy.
    pub sent: u8,
    /// Messages whose callback has run.
    pub called: u8,
    /// Messages handed to the interface, as far as the library knows.
    pub posted: u8,
    pub ring: Ring,
    /// A FAULT_DETECTED of this epoch was taken from the ring, and the restore comes next.
    pub restoring: Option<u8>,
}

/// What the sending interface knows of one stream: all of it is lost in a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SendingPort {
    pub open: bool,
    pub acknowledged: u8,
    pub posted: u8,
    /// Number on the link minus number of the message; not zero only where the interface makes the numbers.
    pub shift: i8,
}

/// What the receiving interface knows of one stream: all of it is lost in a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReceivingPort {
    pub open: bool,
    /// The next (message, packet) that it takes.
    pub expected: u8,
    pub part: u8,
    /// The last number that it may acknowledge.
    pub accepted: u8,
    pub buffers: Buffers,
}

/// The receiving library and its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReceivingHost {
    /// Messages handed to the application: the shadow of the stream's number.
    pub delivered: u8,
    pub ring: Ring,
    pub restoring: Option<u8>,
    /// The content of each packet's place in each buffer.
    pub memory: [[u8; PARTS]; BUFFERS],
}

/// One stream, from a port of node A to a port of node B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream {
    pub sender: SendingHost,
    pub sending: SendingPort,
    pub link: Link,
    pub receiving: ReceivingPort,
    pub receiver: ReceivingHost,
    /// Of the proof, not of the protocol: up to here the receiving host has committed every message.
    pub committed: u8,
}

/// What an interface as a whole does; `A` sends, `B` receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interface {
    pub alive: bool,
    /// How often it was reset.
    pub epoch: u8,
    /// The ports to which the daemon has yet to post FAULT_DETECTED.
    pub fault_owed: [bool; PORTS],
    pub crashes_left: u8,
}

/// What the receiving interface is at: one packet at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Work {
    /// Waits for a packet.
    #[default]
    Idle,
    /// A packet is in its memory, and goes to this place in the host next.
    InSram { port: u8, number: u8, buffer: u8, part: u8, content: u8 },
    /// The whole message is in the host; the event comes next.
    InHost { port: u8, number: u8, buffer: u8 },
    /// The event is posted; the ACK comes next.
    Posted { port: u8 },
}

/// What went wrong, where something did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// The application got a message that it had.
    Duplicate { port: u8, message: u8 },
    /// The application got a message before an earlier one.
    Gap { port: u8, message: u8 },
    /// The application got what nobody sent.
    Corrupted { port: u8 },
    /// The sender was told that a message had arrived which had not.
    EarlyCallback { port: u8, message: u8 },
}

/// The whole system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub a: Interface,
    pub b: Interface,
    pub work: Work,
    /// An interface of an earlier epoch that nobody fenced, and what it is at.
    pub ghost: Work,
    pub streams: [Stream; PORTS],
    pub corruptions_left: u8,
    /// A corrupted event named the wrong buffer: one may be missing until the next recovery.
    pub buffer_lost: bool,
    pub violation: Option<Violation>,
}
