//! What ranks say to each other while a job runs, counted and reckoned: for a job of any size.
//!
//! A decision takes one agreement, a checkpoint a few more, and each is a message of a fixed length on its way up a tree and
//! on its way down. What every rank says to every other one, only an opening and a restart have.

use crate::session::ranks::{BYTES, Tree};

#[cfg(test)]
mod tests;

/// What one agreement costs: its messages go up a tree, and rank 0's word goes down the same tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The most messages that a rank sends, and receives.
    pub sent_max: u64,
    /// As above.
    pub received_max: u64,
    /// The most bytes that a rank sends and receives.
    pub bytes_max: u64,
    /// Messages that wait for one another, from the first that a rank sends to the last that one receives.
    pub steps: u64,
}

/// What an agreement of so many ranks costs that are placed node by node, so many on each.
///
/// ```
/// use surefoot_checkpoint::session::scale;
/// let [small, large] = [64, 65_536].map(|ranks| scale::of_agreement(ranks, 64));
/// assert!(large.bytes_max <= small.bytes_max + 5 * scale::MESSAGE_BYTES as u64);
/// assert_eq!((small.steps, large.steps), (24, 64));
/// ```
pub fn of_agreement(ranks: u32, ranks_per_node: u32) -> Cost {
    let of_ranks: Vec<u32> = (0..ranks).map(|rank| rank / ranks_per_node.max(1)).collect();
    let (mut sent_max, mut received_max, mut bytes_max) = (0, 0, 0);
    // The first rank of a node has the most below it, and rank 0 of all: no other has more than these.
    for rank in (0..ranks).step_by(ranks_per_node.max(1) as usize).take(4).chain(0..ranks.min(4)) {
        let (taken, passed) = Tree::new(&of_ranks, rank).messages();
        // Each takes from those below it what it passes on to them later.
        let both = (passed + taken) as u64;
        let (sent, received) = (both, both);
        sent_max = sent_max.max(sent);
        received_max = received_max.max(received);
        bytes_max = bytes_max.max((sent + received) * BYTES as u64);
    }
    let up = Tree::new(&of_ranks, 0).rounds;
    Cost { sent_max, received_max, bytes_max, steps: u64::from(2 * up) }
}

/// Bytes of what a rank says in an agreement.
pub const MESSAGE_BYTES: usize = BYTES;

/// Agreements with which any call begins: that all ranks are in the same call. On one node a decision and a save say that in
/// their first agreement.
pub const OF_A_CALL: u64 = 1;

/// Agreements of a decision, be it to take a checkpoint or to take none.
pub const OF_A_DECISION: u64 = 1;

/// Agreements of a checkpoint in memory, the decision included.
pub const OF_A_SAVE_IN_MEMORY: u64 = 2;

/// The same, with a copy at a partner.
pub const OF_A_SAVE_WITH_PARTNER: u64 = 4;

/// The same, with parity.
pub const OF_A_SAVE_WITH_PARITY: u64 = 6;
