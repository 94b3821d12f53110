//! What a cycle of the self-test sends, and where it lies in the memory of its two ports.
//!
//! The messages are chosen so that what depends on a value meets more than one: each bit of a length, of an address in the
//! sender's and in the receiver's memory and of a port's number is set in one message and clear in another; messages begin at
//! the first byte of memory and at odd ones; they are alone, both ways at once, and so many at once that tokens, send and
//! receive buffers and places in the event ring are taken while others are in use.

use super::super::layout::{PAGE_BYTES, PORTS};

/// The daemon's port, and a second one for the self-test: none of the bits of their numbers agree.
pub const TEST_PORTS: [usize; 2] = [0, PORTS - 1];
/// Pages that each of the two registers.
pub const PAGES: u32 = 42;
/// What both of them take of the interface's memory.
pub const DAEMON_BYTES: u32 = 2 * PAGES * PAGE_BYTES;
/// Size classes that hold the messages.
pub(super) const CLASSES: [u8; 3] = [7, 12, 14];
/// Buffers of each class, for each priority; as many as come to one port at once.
const BUFFERS: [u32; 3] = [8, 2, 2];
/// From one buffer of a class to the next, so that they begin at odd places.
const STRIDES: [u32; 3] = [419, 5461, 19_114];
/// Where those of each class begin.
const BUFFERS_AT: [u32; 3] = [0xf001, 0x1_1003, 0x1_7005];
/// What directed messages write: an area for each of the two senders.
const DIRECTED_AT: [u32; 2] = [0x4155, 0x9155];
/// The word to other daemons, and the buffer for theirs.
pub(super) const WORD_AT: u32 = 0xe000;
pub(super) const WORD_BUFFER_AT: u32 = 0xe800;

/// One message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// From the first or the second port, and to which.
    pub from: usize,
    pub to: usize,
    /// Its length, and where it lies in the sender's memory.
    pub length: u32,
    pub address: u32,
    /// It is lost once, on purpose.
    pub is_lost: bool,
}

impl Plan {
    /// Where a directed message goes.
    pub fn remote(&self) -> u32 {
        DIRECTED_AT[self.from % 2] + self.address
    }

    /// The class of its buffer.
    pub fn size_class(&self) -> u8 {
        CLASSES.into_iter().find(|&class| self.length <= 1 << class).unwrap_or(14)
    }
}

const fn plan(from: usize, to: usize, length: u32, address: u32) -> Plan {
    Plan { from, to, length, address, is_lost: false }
}

const fn lost(from: usize, to: usize, length: u32, address: u32) -> Plan {
    Plan { is_lost: true, ..plan(from, to, length, address) }
}

/// The rounds of a normal or directed service: about 24 KB.
const ROUNDS: [&[Plan]; 6] = [
    &[plan(0, 1, 1, 0x2d)],
    &[plan(1, 0, 100, 0x7f9)],
    // Each bit of length and address in one of the two.
    &[plan(0, 1, 0x555, 0x2aa), plan(1, 0, 0xaaa, 0x1555)],
    // From the first byte of memory, in whole pages.
    &[plan(1, 0, 9000, 0)],
    // More than there are buffers in the interface.
    &[
        plan(0, 1, 3, 0x40),
        plan(1, 0, 128, 0x41),
        plan(0, 1, 127, 0xcd),
        plan(1, 0, 1, 0xce),
        plan(0, 1, 64, 0x15a),
        plan(1, 0, 85, 0x15b),
        plan(0, 0, 90, 0x400),
        plan(1, 1, 33, 0x400),
        plan(0, 1, 12, 0x1e7),
        plan(1, 0, 42, 0x1e8),
        plan(0, 1, 0, 0x274),
        plan(1, 0, 17, 0x275),
    ],
    // And of more than one packet.
    &[plan(0, 1, 5000, 0xa10), plan(1, 0, 4097, 0x2400), plan(0, 1, 12, 0x2000), plan(1, 0, 16, 0x3abc)],
];

/// The round in which messages are lost: one that is asked for again, and one that is sent again when its time is over.
const LOSSES: &[Plan] = &[lost(0, 1, 8192, 0x1800), lost(1, 0, 100, 0x3c0)];

/// Datagrams, of a packet at most, and no more at once than wait for a buffer.
const DATAGRAMS: [&[Plan]; 5] = [
    &[plan(0, 1, 1, 0x2d)],
    &[plan(1, 0, 100, 0x7f9)],
    &[plan(0, 1, 0x555, 0x2aa), plan(1, 0, 0xaaa, 0x555)],
    &[plan(1, 0, 4096, 0)],
    &[plan(0, 1, 4001, 0xabc), plan(0, 1, 12, 0x1fff), plan(1, 0, 42, 0x3041)],
];

/// How many rounds a cycle has at most, for one kind of service.
pub(super) const ROUNDS_MAX: usize = ROUNDS.len() + 1;

/// The messages of a round; none behind the last one.
pub(super) fn round(is_datagram: bool, number: usize) -> &'static [Plan] {
    match is_datagram {
        true => DATAGRAMS.get(number).copied().unwrap_or_default(),
        false if number == ROUNDS.len() => LOSSES,
        false => ROUNDS.get(number).copied().unwrap_or_default(),
    }
}

/// How many rounds a kind of service has.
pub(super) fn round_count(is_datagram: bool, loses: bool) -> usize {
    match is_datagram {
        true => DATAGRAMS.len(),
        false => ROUNDS.len() + usize::from(loses),
    }
}

/// The buffers of a port: token, address, class and priority of each.
pub(super) fn buffers() -> impl Iterator<Item = (u32, u32, u8, u8)> {
    (0..2u8).flat_map(|priority| {
        (0..CLASSES.len()).flat_map(move |at| {
            (0..BUFFERS[at]).map(move |number| {
                let place = u32::from(priority) * BUFFERS[at] + number;
                let address = BUFFERS_AT[at] + place * STRIDES[at];
                (token_of(number, priority, CLASSES[at]), address, CLASSES[at], priority)
            })
        })
    })
}

/// The token of a buffer, from which [`class_and_priority`] gets back what it is.
pub(super) fn token_of(number: u32, priority: u8, class: u8) -> u32 {
    0x100_0000 | number << 16 | u32::from(priority) << 8 | u32::from(class)
}

/// What a buffer is, by its token.
pub(super) fn class_and_priority(token: u32) -> (u8, u8) {
    ((token & 0xff) as u8, (token >> 8 & 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::{RECEIVE_TOKENS, SEND_TOKENS};
    use super::*;

    fn all() -> impl Iterator<Item = &'static [Plan]> {
        let normal = (0..round_count(false, true)).map(|number| round(false, number));
        normal.chain((0..round_count(true, false)).map(|number| round(true, number)))
    }

    /// Ranges of memory by what they are for.
    fn must_be_apart(mut ranges: Vec<(u32, u32)>) {
        ranges.sort_unstable();
        assert!(ranges.is_sorted_by(|one, next| one.1 <= next.0), "{ranges:x?}");
        assert!(ranges.last().unwrap().1 <= PAGES * PAGE_BYTES, "{ranges:x?}");
    }

    #[test]
    fn messages_and_buffers_of_a_round_have_memory_of_their_own_and_tokens_enough() {
        let buffers: Vec<_> = buffers().collect();
        assert!(buffers.len() < RECEIVE_TOKENS, "one is left for a daemon's word");
        for round in all() {
            for port in 0..2 {
                let sent = round.iter().filter(|plan| plan.from == port);
                let mut ranges: Vec<(u32, u32)> =
                    sent.clone().map(|plan| (plan.address, plan.address + plan.length)).collect();
                assert!(sent.clone().count() < SEND_TOKENS);
                assert!(ranges.iter().all(|range| range.1 <= 0x4000));
                let come = || round.iter().filter(|plan| plan.to == port);
                ranges.extend(come().map(|plan| (plan.remote(), plan.remote() + plan.length)));
                ranges.extend(buffers.iter().map(|&(_, address, class, _)| (address, address + (1 << class))));
                ranges.extend([(WORD_AT, WORD_AT + 64), (WORD_BUFFER_AT, WORD_BUFFER_AT + 128)]);
                must_be_apart(ranges);
                for (at, class) in CLASSES.into_iter().enumerate() {
                    assert!(come().filter(|plan| plan.size_class() == class).count() as u32 <= BUFFERS[at]);
                }
            }
        }
    }

    #[test]
    fn each_bit_of_a_length_and_of_an_address_is_set_in_one_message_and_clear_in_another() {
        for rounds in [ROUNDS.to_vec(), DATAGRAMS.to_vec()] {
            let plans = || rounds.iter().flat_map(|round| round.iter());
            let set = |of: &dyn Fn(&Plan) -> u32| plans().fold(0, |bits, plan| bits | of(plan));
            let clear = |of: &dyn Fn(&Plan) -> u32| plans().fold(0, |bits, plan| bits | !of(plan));
            let of: [&dyn Fn(&Plan) -> u32; 4] =
                [&|plan| plan.length, &|plan| plan.address, &Plan::remote, &|plan| plan.to as u32 * 7];
            for (of, mask) in of.into_iter().zip([0xfff, 0x3fff, 0xfff, 7]) {
                assert_eq!((set(of) & mask, clear(of) & mask), (mask, mask));
            }
        }
    }
}
