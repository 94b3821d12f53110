//! How the ranks communicate after each piece of work.

use super::engine::{rank_of, sides_of};
use std::fmt;
use std::str::FromStr;

/// A pattern of communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Dissemination: in round k each rank tells the one 2^k after it.
    Barrier,
    /// Recursive doubling; where the ranks are no power of two, those beyond it hand theirs to a neighbour before and get
    /// the result after.
    Allreduce,
    /// Bruck: in round k each rank sends the one 2^k after it all blocks whose number has bit k.
    Alltoall,
    /// A message goes once round all ranks.
    Ring,
    /// Each rank exchanges a message with its four neighbours on a torus as square as the number of ranks allows; with two,
    /// where that is a prime.
    Halo,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 5] =
        [Pattern::Barrier, Pattern::Allreduce, Pattern::Alltoall, Pattern::Ring, Pattern::Halo];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Barrier => "barrier",
            Pattern::Allreduce => "allreduce",
            Pattern::Alltoall => "alltoall",
            Pattern::Ring => "ring",
            Pattern::Halo => "halo",
        }
    }

    /// The steps of one iteration for so many ranks and messages of so many bytes, in order.
    pub(super) fn steps(self, ranks: u64, bytes: u64) -> Vec<Step> {
        let distances = || (0..64).map(|round| 1u64 << round).take_while(|distance| *distance < ranks);
        match self {
            _ if ranks < 2 => Vec::new(),
            Pattern::Barrier => distances().map(|distance| Step::Shift { distance, bytes: 0 }).collect(),
            Pattern::Alltoall => distances()
                .map(|distance| Step::Shift { distance, bytes: bytes.saturating_mul(numbers_with(distance, ranks)) })
                .collect(),
            Pattern::Allreduce => {
                let core = 1 << ranks.ilog2();
                let beyond = ranks - core;
                let doubling = distances().take_while(|distance| *distance < core).map(|distance| Step::Double {
                    distance,
                    beyond,
                    bytes,
                });
                let fold = (beyond > 0).then_some(Step::Fold { beyond, bytes });
                let unfold = (beyond > 0).then_some(Step::Unfold { beyond, bytes });
                fold.into_iter().chain(doubling).chain(unfold).collect()
            }
            Pattern::Ring => vec![Step::Round { bytes }],
            Pattern::Halo => vec![Step::Halo { width: width(ranks), bytes }],
        }
    }
}

/// A message of a rank to another one, or from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) is_send: bool,
    pub(super) peer: u64,
    /// Messages of the same two ranks that must not be mistaken for each other have different tags.
    pub(super) tag: u64,
}

/// What all ranks do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Each sends to the one so far after it, then receives from the one so far before.
    Shift { distance: u64, bytes: u64 },
    /// Each of the power of two exchanges with the one whose number differs in this bit.
    Double { distance: u64, beyond: u64, bytes: u64 },
    /// The even ones of the first pairs give theirs to the odd ones.
    Fold { beyond: u64, bytes: u64 },
    /// And get the result.
    Unfold { beyond: u64, bytes: u64 },
    /// One message, from rank to rank and back to the first.
    Round { bytes: u64 },
    /// To the left and right, up and down, then from there.
    Halo { width: u64, bytes: u64 },
}

impl Step {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Step::Shift { bytes, .. }
            | Step::Double { bytes, .. }
            | Step::Fold { bytes, .. }
            | Step::Unfold { bytes, .. }
            | Step::Round { bytes }
            | Step::Halo { bytes, .. } => bytes,
        }
    }

    /// The messages of all ranks.
    pub(super) fn messages(self, ranks: u64) -> u64 {
        match self {
            Step::Shift { .. } | Step::Round { .. } => ranks,
            Step::Double { beyond, .. } => ranks - beyond,
            Step::Fold { beyond, .. } | Step::Unfold { beyond, .. } => beyond,
            Step::Halo { width, .. } => sides(width) * ranks,
        }
    }

    /// What one rank does, in order.
    pub(super) fn of_rank(self, rank: u64, ranks: u64) -> Vec<Exchange> {
        let send = |peer, tag| Exchange { is_send: true, peer, tag };
        let receive = |peer, tag| Exchange { is_send: false, peer, tag };
        match self {
            Step::Shift { distance, .. } => {
                vec![send((rank + distance) % ranks, 0), receive((rank + ranks - distance) % ranks, 0)]
            }
            Step::Double { distance, beyond, .. } => {
                let number = match rank {
                    _ if rank >= 2 * beyond => rank - beyond,
                    _ if rank % 2 == 1 => rank / 2,
                    _ => return Vec::new(),
                };
                let partner = rank_of((number ^ distance) as usize, beyond as usize) as u64;
                vec![send(partner, 0), receive(partner, 0)]
            }
            Step::Fold { beyond, .. } | Step::Unfold { beyond, .. } if rank < 2 * beyond => {
                let is_giver = rank.is_multiple_of(2) == matches!(self, Step::Fold { .. });
                vec![if is_giver { send(rank ^ 1, 0) } else { receive(rank ^ 1, 0) }]
            }
            Step::Fold { .. } | Step::Unfold { .. } => Vec::new(),
            Step::Round { .. } => {
                let (to, from) = (send((rank + 1) % ranks, 0), receive((rank + ranks - 1) % ranks, 0));
                if rank == 0 { vec![to, from] } else { vec![from, to] }
            }
            Step::Halo { width, .. } => {
                let sides = sides_of(rank as usize, width as usize, ranks as usize);
                let sides = || sides.into_iter().enumerate().skip(if width > 1 { 0 } else { 2 });
                // What goes to one side comes from the opposite one.
                let sent = sides().map(|(side, peer)| send(peer as u64, side as u64));
                sent.chain(sides().map(|(side, peer)| receive(peer as u64, side as u64 ^ 1))).collect()
            }
        }
    }

    /// How many of its messages follow one another at most.
    pub(super) fn depth(self, ranks: u64) -> u64 {
        match self {
            Step::Round { .. } => ranks,
            Step::Halo { width, .. } => sides(width),
            _ => 1,
        }
    }
}

/// How many of the numbers below `ranks` have this bit.
fn numbers_with(bit: u64, ranks: u64) -> u64 {
    ranks / (2 * bit) * bit + (ranks % (2 * bit)).saturating_sub(bit)
}

/// A torus of one column has no left and right.
fn sides(width: u64) -> u64 {
    if width > 1 { 4 } else { 2 }
}

/// The width of the torus: the largest divisor up to the square root.
fn width(ranks: u64) -> u64 {
    (1..=ranks.isqrt()).rev().find(|width| ranks.is_multiple_of(*width)).unwrap_or(1)
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Pattern::ALL.into_iter().find(|pattern| pattern.name() == text);
        found.ok_or_else(|| format!("'{text}' is no pattern: barrier, allreduce, alltoall, ring or halo"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_as_one_would() {
        for ranks in 1..100u64 {
            for bit in [1, 2, 4, 8, 64] {
                assert_eq!(numbers_with(bit, ranks), (0..ranks).filter(|number| number & bit != 0).count() as u64);
            }
        }
    }

    #[test]
    fn a_torus_is_as_square_as_it_can_be() {
        let widths = [1, 2, 12, 16, 17, 65_536].map(width);
        assert_eq!(widths, [1, 1, 3, 4, 1, 256]);
    }

    #[test]
    fn names_are_read_and_one_rank_has_nobody_to_talk_to() {
        for pattern in Pattern::ALL {
            assert_eq!(pattern.name().parse(), Ok(pattern));
            assert!(pattern.steps(1, 8).is_empty());
        }
        assert!("gather".parse::<Pattern>().unwrap_err().contains("halo"));
    }
}
