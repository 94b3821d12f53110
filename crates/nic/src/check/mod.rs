//! An independent judge of message histories: lost, duplicated, reordered, corrupted, unexpected.
//!
//! It knows nothing of the protocol, of ports or of recovery: only what the applications on both sides wrote down. Its
//! questions are those of a total queue (what goes in comes out, once, and nothing else does), and the order within each
//! stream. It uses nothing else of this crate, so that what it judges cannot lead it astray.
//!
//! Each message that came in or went out has exactly one fate, so that the counts add up:
//!
//! - What was delivered is, in this order: *unexpected* if nobody sent that id on that stream, or the sender was told that it
//!   was refused; *duplicated* if it came before; *corrupted* if its length or checksum is another one; *reordered* if an
//!   earlier delivery of the stream had been sent later; else in order.
//! - What was sent and never delivered is *lost* if the sender was told that it arrived, *pending* if it was told nothing.
//!
//! ```
//! use surefoot_nic::check::{Delivered, Outcome, Sent, check};
//!
//! let sent = |id| Sent { stream: 1, id, bytes: 4, checksum: 7, outcome: Outcome::Arrived };
//! let delivered = |id| Delivered { stream: 1, id, bytes: 4, checksum: 7 };
//! let verdict = check(&[sent(1), sent(2), sent(3)], &[delivered(1), delivered(3), delivered(3)]);
//! assert_eq!((verdict.lost_count, verdict.duplicated_count), (1, 1));
//! assert!(!verdict.is_perfect());
//! ```

use std::collections::HashMap;

#[cfg(test)]
mod tests;

/// What the sender was told of a message, in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its callback ran, and said that the message arrived.
    Arrived,
    /// Nothing until the history ended: the message may or may not have arrived.
    Pending,
    /// The send was refused or given up with an error.
    Refused {
        /// Whether the message may have arrived all the same; if not, its delivery is unexpected.
        may_have_arrived: bool,
    },
}

/// A message as the sending application wrote it down, in the order of its sends within each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Messages of one stream arrive in the order in which they were sent.
    pub stream: u64,
    /// Names the message; no other of this stream has it.
    pub id: u64,
    /// Length of the content.
    pub bytes: u64,
    /// Of the content, by any function that both sides share.
    pub checksum: u64,
    /// What the sender was told.
    pub outcome: Outcome,
}

/// A message as the receiving application wrote it down, in the order of the deliveries within each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// As the receiver knows it, from whom the message came and to which port.
    pub stream: u64,
    /// As read from the message.
    pub id: u64,
    /// Length of what came.
    pub bytes: u64,
    /// Computed by the receiver from what came.
    pub checksum: u64,
}

/// How many messages met each fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Messages that the senders wrote down.
    pub sent_count: u64,
    /// Messages that the receivers wrote down, whatever is wrong with them.
    pub delivered_count: u64,
    /// Told to have arrived, and never delivered.
    pub lost_count: u64,
    /// Delivered again.
    pub duplicated_count: u64,
    /// Delivered after one that was sent later.
    pub reordered_count: u64,
    /// Delivered with another length or checksum.
    pub corrupted_count: u64,
    /// Delivered, and never sent.
    pub unexpected_count: u64,
    /// Neither delivered nor told to have arrived when the history ended.
    pub pending_count: u64,
    /// Sends that ended with an error and were not delivered.
    pub refused_count: u64,
    /// Sends whose stream and id an earlier send has: the history itself is wrong, and nothing can be said of these.
    pub ambiguous_count: u64,
    /// The first few things that are wrong, for a person.
    pub violations: Vec<Violation>,
}

/// One thing that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it is.
    pub kind: Kind,
    /// The stream.
    pub stream: u64,
    /// The message.
    pub id: u64,
    /// Its place among all deliveries, or among all sends where it is lost or ambiguous; counted from 0.
    pub place: u64,
}

/// The ways in which a history can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// See `Verdict::lost_count`.
    Lost,
    /// See `Verdict::duplicated_count`.
    Duplicated,
    /// See `Verdict::reordered_count`.
    Reordered,
    /// See `Verdict::corrupted_count`.
    Corrupted,
    /// See `Verdict::unexpected_count`.
    Unexpected,
    /// See `Verdict::ambiguous_count`.
    Ambiguous,
}

/// So many violations are kept for a person; all are counted.
pub const VIOLATIONS_MAX: usize = 20;

impl Verdict {
    /// Nothing lost, nothing twice, all in order and intact. Pending and refused messages are no fault.
    pub fn is_perfect(&self) -> bool {
        self.violation_count() == 0
    }

    /// How many things are wrong.
    pub fn violation_count(&self) -> u64 {
        self.lost_count
            + self.duplicated_count
            + self.reordered_count
            + self.corrupted_count
            + self.unexpected_count
            + self.ambiguous_count
    }

    fn blame(&mut self, kind: Kind, stream: u64, id: u64, place: usize) {
        let count = match kind {
            Kind::Lost => &mut self.lost_count,
            Kind::Duplicated => &mut self.duplicated_count,
            Kind::Reordered => &mut self.reordered_count,
            Kind::Corrupted => &mut self.corrupted_count,
            Kind::Unexpected => &mut self.unexpected_count,
            Kind::Ambiguous => &mut self.ambiguous_count,
        };
        *count += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { kind, stream, id, place: place as u64 });
        }
    }
}

/// What is known of one message that was sent.
struct Known<'a> {
    send: &'a Sent,
    /// Its place in its stream, from 1.
    place: u64,
    delivered: bool,
}

/// Judges what was delivered by what was sent. Time and memory grow with the length of both.
pub fn check(sent: &[Sent], delivered: &[Delivered]) -> Verdict {
    let mut verdict =
        Verdict { sent_count: sent.len() as u64, delivered_count: delivered.len() as u64, ..Verdict::default() };
    let mut known = read_sends(sent, &mut verdict);
    let mut newest: HashMap<u64, u64> = HashMap::new();
    for (place, delivery) in delivered.iter().enumerate() {
        let newest = newest.entry(delivery.stream).or_default();
        let message = known.get_mut(&(delivery.stream, delivery.id));
        if let Some(kind) = fault_of(delivery, message, newest) {
            verdict.blame(kind, delivery.stream, delivery.id, place);
        }
    }
    for (place, send) in sent.iter().enumerate() {
        // An ambiguous send stands for none of its own: the first with its id has the entry.
        let Some(message) = known.get(&(send.stream, send.id)) else { continue };
        if message.delivered || !std::ptr::eq(message.send, send) {
            continue;
        }
        match send.outcome {
            Outcome::Arrived => verdict.blame(Kind::Lost, send.stream, send.id, place),
            Outcome::Pending => verdict.pending_count += 1,
            Outcome::Refused { .. } => verdict.refused_count += 1,
        }
    }
    verdict
}

fn read_sends<'a>(sent: &'a [Sent], verdict: &mut Verdict) -> HashMap<(u64, u64), Known<'a>> {
    let mut known: HashMap<(u64, u64), Known<'a>> = HashMap::with_capacity(sent.len());
    let mut lengths: HashMap<u64, u64> = HashMap::new();
    for (place, send) in sent.iter().enumerate() {
        let length = lengths.entry(send.stream).or_default();
        *length += 1;
        let mut ambiguous = true;
        known.entry((send.stream, send.id)).or_insert_with(|| {
            ambiguous = false;
            Known { send, place: *length, delivered: false }
        });
        if ambiguous {
            verdict.blame(Kind::Ambiguous, send.stream, send.id, place);
        }
    }
    known
}

/// What is wrong with one delivery; `newest` is the place of the latest message that its stream has delivered in order.
fn fault_of(delivery: &Delivered, message: Option<&mut Known<'_>>, newest: &mut u64) -> Option<Kind> {
    let Some(message) = message else { return Some(Kind::Unexpected) };
    if message.send.outcome == (Outcome::Refused { may_have_arrived: false }) {
        return Some(Kind::Unexpected);
    }
    if std::mem::replace(&mut message.delivered, true) {
        return Some(Kind::Duplicated);
    }
    let late = message.place < *newest;
    *newest = message.place.max(*newest);
    if (delivery.bytes, delivery.checksum) != (message.send.bytes, message.send.checksum) {
        return Some(Kind::Corrupted);
    }
    late.then_some(Kind::Reordered)
}
