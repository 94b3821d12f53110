//! What a library remembers of its streams: the numbers of messages, and what proves that they arrived.
//!
//! A stream is (port here, node and port there, priority). Its numbers are made here, in the host, so that they outlive the
//! interface. The proof is a chain: each verified message's checksum, summed up with the proof before. Both ends compute
//! it, so an acknowledgement that the interface made up or garbled is not believed.

use super::layout::{NODES, PORTS};
use std::collections::BTreeMap;

/// The other end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Its node.
    pub node: u8,
    /// Its port.
    pub port: u8,
    /// 0 low, 1 high.
    pub priority: u8,
}

/// A stream that begins here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its generation.
    pub generation: u32,
    /// The number that the next message gets.
    pub next_number: u32,
    /// Messages up to this number have arrived.
    pub arrived: u32,
    /// The proof up to there.
    pub proof: u32,
    /// How often in a row the interface said that it cannot go on, without being believed.
    pub doubt_count: u32,
    /// Its library suspects it because nothing arrived.
    pub is_silent: bool,
    /// Since when messages arrive again that are sent once, by the time that its application has waited.
    pub carries_since_ns: Option<u64>,
    /// Nothing of it is handed over before.
    pub not_before_ns: u64,
    /// The one before it found its port closed, and that was believed: until then it is believed at once.
    pub closed_until_ns: u64,
    /// The same of a directed message that was refused.
    pub refused_until_ns: u64,
    /// Directed messages up to this address have arrived there.
    pub directed_end: u32,
    /// A directed message beyond that was refused: the target's memory may well end before.
    pub is_refused: bool,
}

impl Outgoing {
    /// A stream that begins.
    pub fn new(generation: u32) -> Self {
        Outgoing {
            generation,
            next_number: 1,
            arrived: 0,
            proof: 0,
            doubt_count: 0,
            is_silent: false,
            carries_since_ns: None,
            not_before_ns: 0,
            closed_until_ns: 0,
            refused_until_ns: 0,
            directed_end: 0,
            is_refused: false,
        }
    }
}

/// A stream that ends here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incoming {
    /// Its generation.
    pub generation: u32,
    /// The number of the last message that the application was given.
    pub delivered: u32,
    /// The proof up to there.
    pub proof: u32,
}

/// Whether a message that arrives is given to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// It was delivered before.
    Again,
    /// Others are missing before it.
    Gap,
    /// It belongs to a generation that is over.
    Old,
}

/// The streams of a port.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Streams {
    /// Those that begin here.
    pub outgoing: BTreeMap<Peer, Outgoing>,
    /// Those that end here.
    pub incoming: BTreeMap<Peer, Incoming>,
    /// Generations that a message claimed which was not what was sent, by who is said to have sent it. The interface may believe
    /// them, and then hears no older one.
    pub doubtful: BTreeMap<Peer, u32>,
}

impl Streams {
    /// What a message from a peer is. A newer generation begins with number 1. It changes nothing: the message is yet to be found
    /// right.
    pub fn arrives(&self, from: Peer, generation: u32, number: u32) -> Arrival {
        let delivered = match self.incoming.get(&from) {
            Some(stream) if stream.generation == generation => stream.delivered,
            Some(stream) if generation.wrapping_sub(stream.generation).cast_signed() < 0 => return Arrival::Old,
            Some(_) if number != 1 => return Arrival::Gap,
            _ => 0,
        };
        match number.wrapping_sub(delivered).cast_signed() {
            1 => Arrival::Next,
            ..=0 => Arrival::Again,
            _ => Arrival::Gap,
        }
    }

    /// Notes what a message claimed that was not right.
    pub fn doubts(&mut self, from: Peer, generation: u32) {
        // Of addresses that cannot be, the interface has no stream.
        if usize::from(from.node) < NODES && usize::from(from.port) < PORTS {
            self.doubtful.insert(from, generation);
        }
    }

    /// Counts a message as delivered; one of another generation begins it.
    pub fn delivered(&mut self, from: Peer, generation: u32, number: u32, checksum: u32) -> Incoming {
        let fresh = Incoming { generation, delivered: 0, proof: 0 };
        let stream = self.incoming.entry(from).or_insert(fresh);
        if stream.generation != generation {
            *stream = fresh;
        }
        stream.delivered = number;
        stream.proof = chained(stream.proof, checksum);
        self.doubtful.remove(&from);
        *stream
    }
}

/// The proof after a message of this checksum.
pub fn chained(proof: u32, checksum: u32) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(proof);
    sum.update(&checksum.to_le_bytes());
    // Zero means that there is no proof.
    sum.finalize().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_takes_its_messages_once_and_in_order() {
        let mut streams = Streams::default();
        let from = Peer { node: 1, port: 2, priority: 0 };
        assert_eq!(streams.arrives(from, 5, 1), Arrival::Next);
        streams.delivered(from, 5, 1, 9);
        assert_eq!(streams.arrives(from, 5, 1), Arrival::Again);
        assert_eq!(streams.arrives(from, 5, 3), Arrival::Gap);
        assert_eq!(streams.arrives(from, 4, 2), Arrival::Old);
        assert_eq!(streams.arrives(from, 6, 2), Arrival::Gap, "a new generation does not begin in its middle");
        assert_eq!(streams.arrives(from, 5, 2), Arrival::Next, "and did not end the old one by trying");
        assert_eq!(streams.arrives(from, 6, 1), Arrival::Next);
        assert_eq!(streams.arrives(from, 5, 2), Arrival::Next, "nor by claiming it in a message that may not be right");
        streams.delivered(from, 6, 1, 9);
        assert_eq!((streams.incoming[&from].generation, streams.incoming[&from].delivered), (6, 1));
        assert_eq!(streams.incoming[&from].proof, chained(0, 9));
    }

    #[test]
    fn a_proof_depends_on_every_message_and_their_order() {
        assert_ne!(chained(chained(0, 1), 2), chained(chained(0, 2), 1));
        assert_ne!(chained(0, 1), chained(chained(0, 0), 1));
    }
}
