//! The times of all ranks, step by step.

use super::network::{Message, Network};
use super::noise::Clocks;
use super::pattern::Step;
use super::progress::Movers;

/// All ranks of a job.
pub(super) struct Engine {
    clocks: Clocks,
    /// Where the cores move the bytes.
    movers: Option<Movers>,
    /// When each rank has done what it did.
    at_ns: Vec<u64>,
    /// When the interface of each may take the next message.
    wire_ns: Vec<u64>,
    /// When the message that each sent arrives.
    arrival_ns: Vec<u64>,
    events: u64,
}

impl Engine {
    pub(super) fn new(clocks: Clocks, movers: Option<Movers>, ranks: usize) -> Engine {
        let zeroes = || vec![0; ranks];
        Engine { clocks, movers, at_ns: zeroes(), wire_ns: zeroes(), arrival_ns: zeroes(), events: 0 }
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// When the last rank is done.
    pub(super) fn end_ns(&self) -> u64 {
        self.at_ns.iter().copied().max().unwrap_or(0)
    }

    /// How far each rank and its interface are behind the first rank: where two iterations leave the same, and nothing
    /// disturbs, all that follow do.
    pub(super) fn shape(&self) -> Vec<i128> {
        let first = i128::from(self.at_ns.first().copied().unwrap_or(0));
        let ahead = self.at_ns.iter().zip(&self.wire_ns);
        // An interface that is free before its rank can send does not matter.
        ahead.flat_map(|(at, wire)| [i128::from(*at) - first, i128::from(*wire.max(at)) - first]).collect()
    }

    pub(super) fn compute(&mut self, work_ns: u64) {
        for rank in 0..self.at_ns.len() {
            self.at_ns[rank] = self.clocks.done(rank, self.at_ns[rank], work_ns);
        }
        self.events += self.at_ns.len() as u64;
    }

    pub(super) fn step(&mut self, step: Step, network: &Network) {
        let message = network.message(step.bytes());
        let ranks = self.at_ns.len();
        match step {
            Step::Shift { distance, .. } => {
                let distance = distance as usize;
                for rank in 0..ranks {
                    let to = if rank + distance < ranks { rank + distance } else { rank + distance - ranks };
                    self.send(rank, to, message);
                }
                for rank in 0..ranks {
                    let from = if rank >= distance { rank - distance } else { rank + ranks - distance };
                    self.receive(rank, self.arrival_ns[from], message);
                }
            }
            Step::Double { distance, beyond, .. } => {
                let (distance, beyond) = (distance as usize, beyond as usize);
                let core = ranks - beyond;
                for number in 0..core {
                    self.send(rank_of(number, beyond), rank_of(number ^ distance, beyond), message);
                }
                for number in 0..core {
                    let from = rank_of(number ^ distance, beyond);
                    self.receive(rank_of(number, beyond), self.arrival_ns[from], message);
                }
            }
            Step::Fold { beyond, .. } => {
                for pair in 0..beyond as usize {
                    self.pass(2 * pair, 2 * pair + 1, message);
                }
            }
            Step::Unfold { beyond, .. } => {
                for pair in 0..beyond as usize {
                    self.pass(2 * pair + 1, 2 * pair, message);
                }
            }
            Step::Round { .. } => {
                for rank in 0..ranks {
                    self.pass(rank, (rank + 1) % ranks, message);
                }
            }
            Step::Halo { width, .. } => self.halo(width as usize, message),
        }
        self.events += 2 * step.messages(ranks as u64);
    }

    /// All send to all sides, and then receive from these in the same order. A torus of one column has no left and right.
    fn halo(&mut self, width: usize, message: Message) {
        let ranks = self.at_ns.len();
        let first = if width > 1 { 0 } else { 2 };
        let mut arrivals = vec![[0; 4]; ranks];
        for (rank, to_sides) in arrivals.iter_mut().enumerate() {
            let sides = sides_of(rank, width, ranks);
            for (arrival, to) in to_sides.iter_mut().zip(sides).skip(first) {
                self.send(rank, to, message);
                *arrival = self.arrival_ns[rank];
            }
        }
        for rank in 0..ranks {
            for (side, from) in sides_of(rank, width, ranks).into_iter().enumerate().skip(first) {
                // What the left one sent to its right, and so on.
                self.receive(rank, arrivals[from][side ^ 1], message);
            }
        }
    }

    fn pass(&mut self, from: usize, to: usize, message: Message) {
        self.send(from, to, message);
        self.receive(to, self.arrival_ns[from], message);
    }

    #[inline]
    fn send(&mut self, rank: usize, to: usize, message: Message) {
        let done_ns = self.clocks.done(rank, self.at_ns[rank], message.overhead_ns);
        self.at_ns[rank] = done_ns;
        let may_leave_ns = done_ns.max(self.wire_ns[rank]);
        let (free_ns, arrival_ns) = match &self.movers {
            None => (may_leave_ns + message.busy_ns, may_leave_ns + message.flight_ns),
            Some(movers) => movers.carry(rank, to, may_leave_ns, message),
        };
        self.wire_ns[rank] = free_ns;
        self.arrival_ns[rank] = arrival_ns;
    }

    #[inline]
    fn receive(&mut self, rank: usize, arrival_ns: u64, message: Message) {
        let from_ns = self.at_ns[rank].max(arrival_ns);
        self.at_ns[rank] = self.clocks.done(rank, from_ns, message.overhead_ns);
    }
}

/// The rank that has this number among the power of two: the odd ones of the first pairs, then all others.
pub(super) fn rank_of(number: usize, beyond: usize) -> usize {
    if number < beyond { 2 * number + 1 } else { number + beyond }
}

/// Who is to the left, right, above and below, on a torus of this width.
pub(super) fn sides_of(rank: usize, width: usize, ranks: usize) -> [usize; 4] {
    let height = ranks / width;
    let (row, column) = (rank / width, rank % width);
    [
        row * width + (column + width - 1) % width,
        row * width + (column + 1) % width,
        (row + height - 1) % height * width + column,
        (row + 1) % height * width + column,
    ]
}
