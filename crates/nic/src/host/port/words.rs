//! What an application says to its port, and what it hears.

use super::super::layout::service;
use super::super::streams::Peer;
use std::ops::Range;
use std::sync::Arc;

/// How a port is used.
#[derive(Debug, Clone, Copy)]
pub struct PortConfig {
    /// Pages of registered memory.
    pub pages: u32,
    /// Numbers of messages are made here (FTGM) and not by the interface (GM).
    pub numbers: bool,
    /// Each message is checked from library to library, and acknowledged when it was found right.
    pub verifies: bool,
    /// The first request of a kind of service waits until a self-test of it has passed.
    pub waits_for_test: bool,
    /// A verified message that has not arrived after this long is sent again by the library itself.
    pub resend_ns: u64,
    /// Of the time between two calls so much counts at most as time in which a message could have arrived. An application that did
    /// not look for longer, or a host that was frozen, has waited for nobody.
    pub pause_ns_max: u64,
    /// A copy of each verified message is kept in the library until it has arrived, for a failing interface may write over it in
    /// the port's memory. Without one, its sender is told of that ([`SendFailure::Changed`]).
    pub keeps_copies: bool,
}

impl PortConfig {
    /// As the fault-tolerant interface is used.
    pub fn tolerant(pages: u32) -> Self {
        PortConfig {
            pages,
            numbers: true,
            verifies: true,
            waits_for_test: true,
            resend_ns: 50_000_000,
            pause_ns_max: u64::MAX,
            keeps_copies: true,
        }
    }

    /// As the interface without fault tolerance is used.
    pub fn plain(pages: u32) -> Self {
        PortConfig {
            pages,
            numbers: false,
            verifies: false,
            waits_for_test: false,
            resend_ns: u64::MAX,
            pause_ns_max: u64::MAX,
            keeps_copies: false,
        }
    }
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The application's own number for it; it comes back with the event.
    pub token: u32,
    /// Where it lies, a port address. It must not change before it is sent.
    pub address: u32,
    /// Its length, bytes.
    pub length: u32,
    /// To whom.
    pub to: Peer,
    /// How.
    pub service: Service,
}

impl Message {
    /// Where it lies.
    pub(super) fn range(&self) -> Range<u32> {
        self.address..self.address.saturating_add(self.length)
    }

    /// Where it goes, if that is for the sender to say; else an empty range.
    pub(super) fn remote_range(&self) -> Range<u32> {
        match self.service {
            Service::Directed { remote } => remote..remote.saturating_add(self.length),
            _ => 0..0,
        }
    }
}

/// The kinds of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Into a buffer of this size class (2^class bytes) that the receiver provided.
    Normal {
        /// The class.
        size_class: u8,
    },
    /// To this port address of the receiver.
    Directed {
        /// The address.
        remote: u32,
    },
    /// At most once, into a buffer of this size class.
    Datagram {
        /// The class.
        size_class: u8,
    },
}

impl Service {
    pub(super) fn kind(self) -> u32 {
        match self {
            Service::Normal { .. } => service::NORMAL,
            Service::Directed { .. } => service::DIRECTED,
            Service::Datagram { .. } => service::DATAGRAM,
        }
    }

    pub(super) fn size_class(self) -> u8 {
        match self {
            Service::Normal { size_class } | Service::Datagram { size_class } => size_class,
            Service::Directed { .. } => 0,
        }
    }

    /// The bit of this kind at a priority among the services that a port uses.
    pub fn bit(self, priority: u8) -> u32 {
        1 << ((self.kind() - 1) * 2 + u32::from(priority))
    }
}

/// Why a request is refused; nothing has changed then.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// All tokens are in use.
    #[error("all {0} tokens are in use: poll for events, which bring them back")]
    NoToken(usize),
    /// The message is too long.
    #[error("{length} bytes are too many: at most {most}")]
    TooLong {
        /// Its length.
        length: u32,
        /// What is possible.
        most: u32,
    },
    /// The message is too long for the buffers of its class.
    #[error("{length} bytes are too many for size class {size_class}: at most {most}")]
    TooLongForClass {
        /// Its length.
        length: u32,
        /// The class.
        size_class: u8,
        /// What a buffer of it holds.
        most: u32,
    },
    /// There is no such size class.
    #[error("there is no size class {0}: classes are 0 to 16")]
    BadClass(u8),
    /// There is no such priority.
    #[error("there is no priority {0}: 0 is low, 1 is high")]
    BadPriority(u8),
    /// The port is not an application's.
    #[error("port {0} is the daemon's: applications have the ports 1 to 6")]
    OfDaemon(u8),
    /// The memory is in use already.
    #[error(
        "{length} bytes at {address:#x} overlap those of token {token}, which the interface may read or write at any time"
    )]
    Overlaps {
        /// Where.
        address: u32,
        /// How many.
        length: u32,
        /// Of which buffer or message.
        token: u32,
    },
    /// The memory is not the port's.
    #[error("{length} bytes at {address:#x} are not inside the port's {registered} registered bytes")]
    BadAddress {
        /// Where.
        address: u32,
        /// How many.
        length: u32,
        /// What there is.
        registered: u32,
    },
    /// There is no such target.
    #[error(
        "there is no port {port} on node {node} at priority {priority}: nodes and ports are 0 to 7, priorities 0 and 1"
    )]
    BadTarget {
        /// Its node.
        node: u8,
        /// Its port.
        port: u8,
        /// Its priority.
        priority: u8,
    },
    /// The token is in use.
    #[error("token {0} is in use by another request; give each its own")]
    SameToken(u32),
}

/// Why a message did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFailure {
    /// The target port is not open, or another process has it now.
    Closed,
    /// The target's memory is not where the message was to go.
    Refused,
    /// The memory that it lies in is not the port's.
    BadAddress,
    /// Nobody answered.
    TimedOut,
    /// Its memory, or that of a message before it to the same port, was changed before it was sent: by the application, or
    /// by a failing interface. It may or may not have arrived; write it again, and send it again.
    Changed,
    /// The interface failed again and again until the daemon gave it up; the message may or may not have arrived.
    GivenUp,
}

/// What happened on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message lies in a provided buffer, which is the application's again.
    Received {
        /// The buffer's token.
        token: u32,
        /// Its port address.
        address: u32,
        /// The message's length.
        length: u32,
        /// Who sent it.
        from: Peer,
        /// Its number in the stream, 0 for a datagram.
        number: u32,
    },
    /// A directed message was written into the port's memory.
    Directed {
        /// Where.
        address: u32,
        /// Its length.
        length: u32,
        /// Who sent it.
        from: Peer,
        /// Its number in the stream.
        number: u32,
    },
    /// A message was sent, or not; its token is free again.
    Sent {
        /// The token.
        token: u32,
        /// What became of it.
        outcome: Result<(), SendFailure>,
    },
    /// The alarm.
    Alarm {
        /// As it was set.
        token: u32,
    },
    /// A provided buffer cannot be used.
    BufferRefused {
        /// The buffer's token.
        token: u32,
    },
    /// The interface failed in a way in which it may have written into the port's memory what it should not. It is back, and
    /// messages go on as if nothing had been; but what else the application keeps in that memory is to be proved, or taken
    /// from a checkpoint.
    MemorySuspect,
    /// What an application does not know: it goes to [`Port::unknown`](super::Port::unknown).
    Unknown(Unknown),
}

/// What only the library understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The interface failed and is back; the port is to be restored.
    FaultDetected {
        /// The epoch of the interface that is there now.
        epoch: u32,
    },
}

/// A send that has not arrived: what the interface was told, and can be told again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::host) struct Outstanding {
    pub(in crate::host) message: Message,
    pub(in crate::host) generation: u32,
    pub(in crate::host) number: u32,
    pub(in crate::host) checksum: u32,
    pub(in crate::host) is_posted: bool,
    /// It was sent again because nothing had arrived.
    pub(in crate::host) is_resent: bool,
    pub(in crate::host) posted_ns: u64,
    /// When the application sent it.
    pub(in crate::host) sent_ns: u64,
    pub(in crate::host) flags: u32,
    /// What it was when it was sent, where copies are kept.
    pub(in crate::host) copy: Option<Arc<[u8]>>,
}

/// A buffer that the interface holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) struct Provided {
    pub(in crate::host) token: u32,
    pub(in crate::host) address: u32,
    pub(in crate::host) size_class: u8,
    pub(in crate::host) priority: u8,
}

impl Provided {
    pub(super) fn range(&self) -> Range<u32> {
        self.address..self.address.saturating_add(1 << self.size_class)
    }
}

/// What a library has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Messages sent.
    pub sent_count: u64,
    /// Messages given to the application.
    pub delivered_count: u64,
    /// Messages that came again and were dropped.
    pub repeated_count: u64,
    /// Messages that were not what was sent, and were asked for again.
    pub corrupted_count: u64,
    /// Messages before which others were missing.
    pub gap_count: u64,
    /// Events that nobody had asked for.
    pub strange_event_count: u64,
    /// Sends that the library repeated by itself.
    pub resent_count: u64,
    /// Messages that were changed in their sender's memory, and put back from the library's copy.
    pub mended_count: u64,
    /// Recoveries.
    pub recovery_count: u64,
}
