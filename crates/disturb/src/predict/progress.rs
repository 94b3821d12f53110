//! Who moves the bytes of a message while its node stops: the interface alone, or the node's cores.

use super::network::Message;
use super::noise::{self, Group, Train};
use crate::Error;
use std::fmt;
use std::str::FromStr;

/// Whether messages make progress while a node stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Progress {
    /// The interface sends what was handed to it, and stores what arrives; the cores are needed for the overheads alone.
    #[default]
    Nic,
    /// The node's cores move every byte: while the node stops, nothing leaves it, and nothing that arrives is taken.
    Host,
}

impl Progress {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Progress::Nic => "nic",
            Progress::Host => "host",
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Progress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Progress::Nic, Progress::Host].into_iter().find(|progress| progress.name() == text);
        found.ok_or_else(|| format!("'{text}' is no progress: nic or host"))
    }
}

/// When the cores of all ranks have moved bytes, for any moment: messages do not come in the order in which their receiver
/// asks for them, so that the clocks of the ranks cannot tell.
#[derive(Debug)]
pub(super) struct Movers {
    cycles: Vec<Cycle>,
    /// Cycle of each rank, and how long ago it began.
    of_ranks: Vec<(u32, u64)>,
}

/// A train of stalls with the free time before each.
#[derive(Debug)]
struct Cycle {
    train: Train,
    free_before_ns: Vec<u64>,
}

/// A rank that nothing stops.
const NO_CYCLE: u32 = u32::MAX;

impl Movers {
    pub(super) fn new(groups: &[Group], nodes: u64, ranks_per_node: u64, seed: u64, draw: u64) -> Result<Self, Error> {
        let mut of_ranks = Vec::new();
        let begin = |_: &Train, train, turned_ns| of_ranks.push((train, turned_ns));
        let trains = noise::each_rank(groups, nodes, ranks_per_node, seed, draw, begin)?;
        of_ranks.resize((nodes * ranks_per_node) as usize, (NO_CYCLE, 0));
        let cycle = |train: Train| {
            let mut lost_ns = 0;
            let mut free_before_ns = Vec::with_capacity(train.stalls.len());
            for &(start_ns, length_ns) in &train.stalls {
                free_before_ns.push(start_ns - lost_ns);
                lost_ns += length_ns;
            }
            Cycle { train, free_before_ns }
        };
        Ok(Movers { cycles: trains.into_iter().map(cycle).collect(), of_ranks })
    }

    /// When the next message may leave, and when this one is taken, that may leave from a moment on. Its last byte is taken
    /// once it is there, and not before the receiver has run for as long as all of them take.
    pub(super) fn carry(&self, from: usize, to: usize, may_leave_ns: u64, message: Message) -> (u64, u64) {
        let leaves_ns = self.done(from, may_leave_ns, 0);
        let sent_ns = self.done(from, leaves_ns, message.wire_ns);
        let all_ns = self.done(to, leaves_ns + message.latency_ns, message.wire_ns);
        let last_ns = self.done(to, sent_ns + message.latency_ns, 0);
        (sent_ns.max(leaves_ns + message.gap_ns), last_ns.max(all_ns))
    }

    /// When `work_ns` of moving are done that begin at `from_ns` or as soon as the node runs.
    pub(super) fn done(&self, rank: usize, from_ns: u64, work_ns: u64) -> u64 {
        let (cycle, turned_ns) = self.of_ranks[rank];
        match self.cycles.get(cycle as usize) {
            Some(cycle) => cycle.done(from_ns + turned_ns, work_ns) - turned_ns,
            None => from_ns + work_ns,
        }
    }
}

impl Cycle {
    fn done(&self, from_ns: u64, work_ns: u64) -> u64 {
        let Train { period_ns, free_ns, ref stalls } = self.train;
        let (rounds, within_ns) = (from_ns / period_ns, from_ns % period_ns);
        let begun = stalls.partition_point(|(start_ns, _)| *start_ns <= within_ns);
        if work_ns == 0 {
            return rounds * period_ns + self.runs_from(begun, within_ns);
        }
        let before_ns = match begun.checked_sub(1) {
            Some(last) => {
                let (start_ns, length_ns) = stalls[last];
                self.free_before_ns[last] + within_ns.saturating_sub(start_ns + length_ns)
            }
            None => within_ns,
        };
        // The first moment at which so much of the time was free.
        let wanted_ns = before_ns + work_ns;
        let (rounds, wanted_ns) = (rounds + (wanted_ns - 1) / free_ns, (wanted_ns - 1) % free_ns + 1);
        let passed = self.free_before_ns.partition_point(|free_ns| *free_ns < wanted_ns);
        let lost_ns = passed.checked_sub(1).map_or(0, |last| {
            let (start_ns, length_ns) = stalls[last];
            start_ns + length_ns - self.free_before_ns[last]
        });
        rounds * period_ns + wanted_ns + lost_ns
    }

    /// The first moment from `within_ns` on at which no stall is, where so many have begun.
    fn runs_from(&self, begun: usize, within_ns: u64) -> u64 {
        let stalls = &self.train.stalls;
        let Some((start_ns, length_ns)) = begun.checked_sub(1).map(|last| stalls[last]) else { return within_ns };
        let mut at_ns = within_ns;
        if at_ns >= start_ns + length_ns {
            return at_ns;
        }
        at_ns = start_ns + length_ns;
        // One may follow at once, also the first of the next round.
        for (next_ns, length_ns) in &stalls[begun..] {
            if *next_ns != at_ns {
                return at_ns;
            }
            at_ns += length_ns;
        }
        for (next_ns, length_ns) in stalls {
            if next_ns + self.train.period_ns != at_ns {
                break;
            }
            at_ns += length_ns;
        }
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::noise::{Clocks, Noise, Phase, Recorded};
    use proptest::prelude::*;

    proptest! {
        /// Asked in order, the ranks' clocks say the same.
        #[test]
        fn moments_are_those_of_the_clocks(
            lengths in proptest::collection::vec((0u64..6, 1u64..9), 0..6), rest_ns in 1u64..20,
            asked in proptest::collection::vec((0u64..40, 0u64..60), 1..30), seed in any::<u64>(),
        ) {
            let (mut end_ns, mut stalls) = (0, Vec::new());
            for (gap_ns, length_ns) in lengths {
                stalls.push((end_ns + gap_ns, length_ns));
                end_ns += gap_ns + length_ns;
            }
            // Stalls may meet at the turn of the period, too.
            let recorded = Recorded { span_ns: end_ns + rest_ns, cores: vec![stalls], phase: Phase::Random };
            let groups = [Group { noise: Noise::Recorded(recorded), nodes: Some(2) }];
            let movers = Movers::new(&groups, 3, 1, seed, 0).unwrap();
            let mut clocks = Clocks::new(&groups, 3, 1, seed, 0).unwrap();
            for rank in 0..3 {
                let mut at_ns = 0;
                for &(idle_ns, work_ns) in &asked {
                    let from_ns = at_ns + idle_ns;
                    at_ns = clocks.done(rank, from_ns, work_ns);
                    prop_assert_eq!(movers.done(rank, from_ns, work_ns), at_ns);
                }
            }
        }
    }

    #[test]
    fn names_are_read() {
        for progress in [Progress::Nic, Progress::Host] {
            assert_eq!(progress.name().parse(), Ok(progress));
        }
        assert!("gpu".parse::<Progress>().unwrap_err().contains("nic or host"));
    }
}
