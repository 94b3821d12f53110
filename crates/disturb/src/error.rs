//! What cannot be predicted, or told from a measurement.

use surefoot_model::time_words;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A number is out of its range.
    #[error("{what} {value}: {low} to {high} are possible")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// The lowest.
        low: u64,
        /// The highest.
        high: u64,
    },
    /// Stalls leave the cores no time.
    #[error("stalls of {} every {}: a stall must be shorter than its period", time_words(*length_ns), time_words(*period_ns))]
    NoTimeLeft {
        /// How long each is.
        length_ns: u64,
        /// From the start of one to the start of the next.
        period_ns: u64,
    },
    /// A recorded trace leaves the cores no time, is longer than what can be reckoned with, or is not in order.
    #[error("core {core} of the recorded noise: {why}")]
    Trace {
        /// Which of its cores, from 0.
        core: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Several groups of nodes were to have all that are left.
    #[error("{0} noises without a number of nodes: only one can have all nodes that are left")]
    SeveralRests(usize),
    /// The groups of nodes are larger than the job.
    #[error("the noises are on {wanted} nodes, the job has {nodes}")]
    TooManyNodes {
        /// All together.
        wanted: u64,
        /// What there are.
        nodes: u64,
    },
    /// It would take too long.
    #[error("{events} events in all: at most {most} are simulated; take fewer nodes, iterations or draws, or --shard")]
    TooLong {
        /// How many there would be.
        events: u64,
        /// How many may be.
        most: u64,
    },
    /// The clock of the simulation ends.
    #[error("the job takes longer than {years} years of simulated time")]
    TooFar {
        /// Where its clock ends.
        years: u64,
    },
    /// An interval needs two draws.
    #[error("{0} draws: an interval needs 2 or more")]
    TooFewDraws(usize),
    /// What takes no time undisturbed is not slowed down by anything.
    #[error("the job takes no time undisturbed: it does not work, nor send a message that costs something")]
    NoWork,
    /// A sweep has too few times between stalls.
    #[error("{steps} times between stalls: {least} or more say how long a stall is")]
    TooFewSteps {
        /// How many there are.
        steps: usize,
        /// How many are needed.
        least: usize,
    },
    /// No stall came, or a driver that does all but stall did not come either.
    #[error("nothing was counted with {} between stalls", time_words(*interval_ns))]
    NothingCounted {
        /// How long the driver was told to wait.
        interval_ns: u64,
    },
    /// From so few comparisons with a reference, or all at one time, no rate can be told.
    #[error("{count} comparisons with the reference: a rate needs {least} or more, at different times")]
    TooFewComparisons {
        /// How many there are.
        count: usize,
        /// How many are needed.
        least: usize,
    },
    /// The reference does not keep time.
    #[error("the reference {what} by {} ms against this host's monotonic clock: choose another reference", .by_ns / 1_000_000)]
    Reference {
        /// What it did.
        what: &'static str,
        /// By how much.
        by_ns: i64,
    },
    /// A drift is told per disturbance, and none came.
    #[error("nothing disturbed the clock: no disturbance was counted")]
    NoDisturbance,
    /// A GOAL file is none, or a job that cannot end.
    #[error("line {line}: {why}")]
    Goal {
        /// Where, from 1.
        line: u32,
        /// What is wrong.
        why: String,
    },
    /// A file is no shard of a prediction, or is damaged.
    #[error("line {line}: {why}")]
    Shard {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A GOAL file cannot be read.
    #[error("cannot read it: {0}")]
    GoalRead(String),
    /// A GOAL file cannot be written.
    #[error("cannot write it: {0}")]
    GoalWrite(String),
    /// The ranks of a GOAL file take too many nodes.
    #[error("a GOAL file of {ranks} ranks takes {nodes} nodes: at most {most} are possible; put more ranks on a node")]
    GoalNodes {
        /// What the file has.
        ranks: u64,
        /// What they take, by how many there are to be on each.
        nodes: u64,
        /// How many may be.
        most: u64,
    },
    /// A pattern's job is too large for a GOAL file.
    #[error("{operations} operations in all: a GOAL file has at most {most}; take fewer nodes or iterations")]
    GoalTooLarge {
        /// How many there would be.
        operations: u64,
        /// How many may be.
        most: u64,
    },
}
