//! Jobs as GOAL files (Group Operation Assembly Language: Hoefler, Siebert, Lumsdaine, ICPP '09), in the text form that
//! LogGOPSim's tools read and write.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1000
//! l2: send 8b to 1 tag 0
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 8b from 0 tag 0
//! }
//! ```
//!
//! `calc` is work in nanoseconds, `requires` waits for an operation's end, `irequires` for its start; what nothing makes wait
//! begins at once. `cpu N` and `nic N` after an operation name one of several cores and interfaces of a rank; without them it
//! is 0. A receive takes the messages of its sender and tag in the order of their sending; it may be larger than its message, as in
//! MPI, and what it costs is the message's. Comments are `// …` and `/* … */`. A receive from any source (`-1`) is not read, because which message it takes would
//! hang on the noise.

mod link;
mod parse;
mod run;
#[cfg(test)]
mod tests;
mod write;

pub use write::write;

use super::noise::{self, Group};
use super::progress::{Movers, Progress};
use super::{
    CLOCK_MAX_NS, DRAWS_MAX, Draw, EVENTS_MAX, NODES_MAX, Network, Prediction, RANKS_MAX, check_costs, check_range,
    simulate, stretch_of, too_far,
};
use crate::Error;
use noise::Clocks;
use std::io::BufRead;
use std::ops::Range;

/// Operations of a file at most; each takes about 60 bytes, and its label 100 more while its rank is read.
pub const OPERATIONS_MAX: u64 = 1 << 24;
/// Dependencies of a file at most.
pub const DEPENDENCIES_MAX: u64 = 1 << 26;
/// No file is longer.
pub const FILE_BYTES_MAX: u64 = 4 << 30;
/// No line is longer.
pub const LINE_BYTES_MAX: u64 = 64 << 10;
/// Cores, and interfaces, of a rank at most.
pub const CPUS_MAX: u64 = 256;

/// A job that was read from a GOAL file: every message has its receive, and no operation waits for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goal {
    ranks: u64,
    /// Of a rank that has the most.
    cpus: u64,
    nics: u64,
    operations: Vec<Operation>,
    /// Where in the file each stands.
    lines: Vec<u32>,
    /// Those that wait for operation n: from place n on to that of n + 1.
    dependents: Vec<Dependent>,
    dependents_from: Vec<u32>,
    /// For how many each waits.
    dependency_count: Vec<u32>,
    channel_count: usize,
    calc_max_ns: u64,
    bytes_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Calc,
    Send,
    Receive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    kind: Kind,
    cpu: u8,
    nic: u8,
    rank: u32,
    peer: u32,
    /// Of a message: one for each sender, receiver and tag. While the file is read, its tag.
    channel: u32,
    /// Nanoseconds, or bytes; of a receive, the most that it takes.
    amount: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dependent {
    operation: u32,
    /// It waits for the start, not for the end.
    is_on_start: bool,
}

impl Goal {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no GOAL file or too large a one; a message has no receive or the other way round, or a smaller one; operations of a
    /// rank wait for each other. Says the line.
    pub fn parse(text: impl BufRead) -> Result<Goal, Error> {
        parse::parse(text)
    }

    /// All ranks.
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Pieces of work, messages sent and messages received.
    pub fn operation_count(&self) -> u64 {
        self.operations.len() as u64
    }

    /// A number that another job hardly has.
    pub fn digest(&self) -> u64 {
        let mut state = surefoot_random::word_of(self.ranks, [self.cpus, self.nics, self.operation_count()]);
        for operation in &self.operations {
            let &Operation { kind, cpu, nic, rank, peer, channel, amount } = operation;
            let small = u64::from(cpu) << 16 | u64::from(nic) << 8 | kind as u64;
            let parties = u64::from(rank) << 32 | u64::from(peer);
            state = surefoot_random::word_of(state ^ small, [parties, channel.into(), amount]);
        }
        for (place, dependent) in self.dependents.iter().enumerate() {
            let edge = u64::from(dependent.operation) << 1 | u64::from(dependent.is_on_start);
            state = surefoot_random::word_of(state, [edge, place as u64, 1]);
        }
        self.dependents_from.iter().fold(state, |state, from| surefoot_random::word_of(state, [u64::from(*from), 0, 2]))
    }
}

/// All that a prediction of a GOAL file depends on, but for its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoalSetting<'a> {
    /// What the ranks do.
    pub goal: &'a Goal,
    /// The ranks of each node but the last, which may have fewer; rank r is on node r / `ranks_per_node`.
    pub ranks_per_node: u64,
    /// What messages cost.
    pub network: Network,
    /// What stops which nodes. With recorded noise, the cores of a node are those of its first rank, then of its second, and
    /// so on.
    pub groups: &'a [Group],
    /// Of the random phases.
    pub seed: u64,
}

/// Simulates these draws on so many threads.
///
/// # Errors
/// A number is out of its range, the stalls leave no time, it would take too long, or the ranks wait for each other for ever.
pub fn predict_goal(setting: &GoalSetting<'_>, draws: Range<u64>, threads: usize) -> Result<Prediction, Error> {
    setting.check(draws.end - draws.start)?;
    simulate(draws, threads, || Ok(setting.run(&[], 0)?.end_ns), |draw| setting.run(setting.groups, draw))
}

impl GoalSetting<'_> {
    /// The nodes.
    pub fn nodes(&self) -> u64 {
        self.goal.ranks.div_ceil(self.ranks_per_node.max(1))
    }

    /// Whether it can be simulated with so many draws.
    ///
    /// # Errors
    /// It cannot; says why.
    pub fn check(&self, draws: u64) -> Result<(), Error> {
        check_range("ranks per node", self.ranks_per_node, 1, NODES_MAX)?;
        if self.nodes() > NODES_MAX {
            return Err(Error::GoalNodes { ranks: self.goal.ranks, nodes: self.nodes(), most: NODES_MAX });
        }
        check_range("cores", self.cores(), 1, RANKS_MAX)?;
        check_range("draws", draws, 1, DRAWS_MAX)?;
        check_costs(&self.network)?;
        noise::sizes(self.groups, self.nodes())?;
        let (period_ns, stretch) = stretch_of(self.groups)?;
        let message = self.network.message(self.goal.bytes_max);
        let times = [self.goal.calc_max_ns, message.overhead_ns, message.wire_ns].into_iter().max().unwrap_or(0);
        // What one operation and its message take at most; the clock is watched in the run.
        let longest_ns = 2 * (u128::from(times) * u128::from(stretch) + 2 * u128::from(period_ns));
        if longest_ns + u128::from(message.flight_ns) + u128::from(message.busy_ns) >= CLOCK_MAX_NS {
            return Err(too_far());
        }
        let events = u128::from(self.goal.operation_count()) * u128::from(draws + 1);
        if events > u128::from(EVENTS_MAX) {
            return Err(Error::TooLong { events: u64::try_from(events).unwrap_or(u64::MAX), most: EVENTS_MAX });
        }
        Ok(())
    }

    fn cores(&self) -> u64 {
        self.nodes().saturating_mul(self.ranks_per_node).saturating_mul(self.goal.cpus)
    }

    fn run(&self, groups: &[Group], draw: u64) -> Result<Draw, Error> {
        let cores = self.ranks_per_node * self.goal.cpus;
        let clocks = Clocks::new(groups, self.nodes(), cores, self.seed, draw)?;
        let movers = match self.network.progress {
            // Where nothing stops, both are the same.
            Progress::Host if !groups.is_empty() => Some(Movers::new(groups, self.nodes(), cores, self.seed, draw)?),
            _ => None,
        };
        run::Run::new(self.goal, self.network, clocks, movers).run()
    }
}
