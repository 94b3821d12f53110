//! How long a program of many ranks takes whose nodes stop now and then.
//!
//! Each rank computes for a while, then all communicate by a [`Pattern`], again and again. What a message costs says
//! [`Network`]; when nodes stop, [`Noise`]. All of it happens once undisturbed and then in several *draws*, each with other
//! phases; the [`Summary`] tells how many times as long the disturbed ones took.

mod engine;
pub mod goal;
mod network;
mod noise;
mod pattern;
mod progress;
pub mod shard;
mod summary;
#[cfg(test)]
mod tests;

pub use network::Network;
pub use noise::{Freeze, Group, Noise, PERIOD_MAX_NS, Phase, Recorded};
pub use pattern::Pattern;
pub use progress::Progress;
pub use summary::{DRAWS_FOR_ANY, Method, Summary};

use crate::Error;
use engine::Engine;
use noise::Clocks;
use pattern::Step;
use progress::Movers;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes, and ranks of a node, at most.
pub const NODES_MAX: u64 = 1 << 20;
/// Ranks in all, at most; each takes about 60 bytes.
pub const RANKS_MAX: u64 = 1 << 24;
/// Iterations at most.
pub const ITERATIONS_MAX: u64 = 1_000_000_000;
/// Draws at most.
pub const DRAWS_MAX: u64 = 10_000;
/// Bytes of a message at most.
pub const BYTES_MAX: u64 = 1 << 40;
/// A cost of a message, or a piece of work, at most: one hour, or one microsecond for a byte.
pub const COST_MAX_NS: u64 = 3_600_000_000_000;
/// A cost for a byte at most.
pub const PER_BYTE_MAX_PS: u64 = 1_000_000;
/// Events of one prediction at most: days, at the tens of millions a second that a core does.
const EVENTS_MAX: u64 = 1 << 44;
/// Where the clock of a simulation ends, 73 years.
const CLOCK_MAX_NS: u128 = 1 << 61;

/// What the ranks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// How they communicate.
    pub pattern: Pattern,
    /// The nodes.
    pub nodes: u64,
    /// The ranks of each; rank r of the job is on node r / `ranks_per_node`.
    pub ranks_per_node: u64,
    /// The work of each rank before it communicates.
    pub compute_ns: u64,
    /// The size of a message, or of a block of `alltoall`; a barrier's messages are empty.
    pub bytes: u64,
    /// How often.
    pub iterations: u64,
}

/// All that a prediction depends on, but for its draws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What the ranks do.
    pub job: Job,
    /// What messages cost.
    pub network: Network,
    /// What stops which nodes: the first group the first ones, and so on; the others never stop.
    pub groups: Vec<Group>,
    /// Of the random phases.
    pub seed: u64,
}

/// One disturbed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// How long it took.
    pub end_ns: u64,
    /// Pieces of work done, messages sent and messages received.
    pub event_count: u64,
}

/// What was simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// How long the undisturbed run takes.
    pub base_ns: u64,
    /// The draws, in order.
    pub draws: Vec<Draw>,
}

impl Prediction {
    /// What it comes to.
    ///
    /// # Errors
    /// Fewer than two draws.
    pub fn summary(&self) -> Result<Summary, Error> {
        Summary::of(self.base_ns, &self.draws)
    }

    /// All events of the draws.
    pub fn event_count(&self) -> u64 {
        self.draws.iter().map(|draw| draw.event_count).sum()
    }
}

/// Simulates these draws on so many threads.
///
/// # Errors
/// A number is out of its range, the stalls leave no time, or it would take too long.
pub fn predict(setting: &Setting, draws: Range<u64>, threads: usize) -> Result<Prediction, Error> {
    setting.check(draws.end - draws.start)?;
    simulate(draws, threads, || setting.base_ns(), |draw| setting.draw(draw))
}

/// The undisturbed run, and these draws, each by itself.
fn simulate(
    draws: Range<u64>,
    threads: usize,
    base_ns: impl Fn() -> Result<u64, Error>,
    run: impl Fn(u64) -> Result<Draw, Error> + Sync,
) -> Result<Prediction, Error> {
    let next = AtomicU64::new(draws.start);
    let work = || {
        let mut done = Vec::new();
        loop {
            let draw = next.fetch_add(1, Ordering::Relaxed);
            if draw >= draws.end {
                return done;
            }
            done.push((draw, run(draw)));
        }
    };
    let mut found: Vec<(u64, Result<Draw, Error>)> = Vec::new();
    let base_ns = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.clamp(1, 1024)).map(|_| scope.spawn(work)).collect();
        let base_ns = base_ns();
        found.extend(work());
        for other in others {
            // A panic of a thread is one of this program.
            found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        base_ns
    })?;
    found.sort_by_key(|(draw, _)| *draw);
    let draws = found.into_iter().map(|(_, draw)| draw).collect::<Result<_, Error>>()?;
    Ok(Prediction { base_ns, draws })
}

fn check_range(what: &'static str, value: u64, low: u64, high: u64) -> Result<(), Error> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Error::OutOfRange { what, value, low, high }) }
}

fn check_costs(network: &Network) -> Result<(), Error> {
    check_range("nanoseconds of latency", network.latency_ns, 0, COST_MAX_NS)?;
    check_range("nanoseconds of overhead", network.overhead_ns, 0, COST_MAX_NS)?;
    check_range("nanoseconds between messages", network.gap_ns, 0, COST_MAX_NS)?;
    check_range("picoseconds for a byte", network.gap_per_byte_ps, 0, PER_BYTE_MAX_PS)?;
    check_range("picoseconds of a core for a byte", network.overhead_per_byte_ps, 0, PER_BYTE_MAX_PS)
}

/// The longest period of these noises, and how many times as long as undisturbed a piece of work may take at most.
fn stretch_of(groups: &[Group]) -> Result<(u64, u64), Error> {
    groups.iter().try_fold((0, 1), |(period_ns, stretch), group| {
        let (period, times) = group.noise.worst()?;
        Ok((period_ns.max(period), stretch.max(times)))
    })
}

fn too_far() -> Error {
    Error::TooFar { years: (CLOCK_MAX_NS / 1_000_000_000 / 86_400 / 365) as u64 }
}

impl Job {
    /// All ranks.
    pub fn ranks(&self) -> u64 {
        self.nodes.saturating_mul(self.ranks_per_node)
    }

    fn check(&self) -> Result<(), Error> {
        check_range("nodes", self.nodes, 1, NODES_MAX)?;
        check_range("ranks per node", self.ranks_per_node, 1, NODES_MAX)?;
        check_range("ranks", self.nodes.saturating_mul(self.ranks_per_node), 1, RANKS_MAX)?;
        check_range("iterations", self.iterations, 1, ITERATIONS_MAX)?;
        check_range("bytes", self.bytes, 0, BYTES_MAX)?;
        check_range("nanoseconds of work", self.compute_ns, 0, COST_MAX_NS)
    }

    /// Pieces of work, messages sent and messages received in one run; [`Setting::check`] says whether the job is possible.
    pub fn event_count(&self) -> u64 {
        let messages = self.steps().iter().map(|step| step.messages(self.ranks())).fold(0, u64::saturating_add);
        self.iterations.saturating_mul(messages.saturating_mul(2).saturating_add(self.ranks()))
    }

    fn steps(&self) -> Vec<Step> {
        self.pattern.steps(self.ranks(), self.bytes)
    }
}

impl Setting {
    /// Whether it can be simulated with so many draws.
    ///
    /// # Errors
    /// It cannot; says why.
    pub fn check(&self, draws: u64) -> Result<(), Error> {
        let job = &self.job;
        job.check()?;
        check_costs(&self.network)?;
        check_range("draws", draws, 1, DRAWS_MAX)?;
        noise::sizes(&self.groups, job.nodes)?;
        let (period_ns, stretch) = stretch_of(&self.groups)?;
        let steps = job.steps();
        let ranks = job.ranks();
        // Every piece of work and every message in one row, each at a stall: nothing takes longer.
        let mut row_ns = u128::from(job.compute_ns) * u128::from(stretch) + u128::from(period_ns);
        let mut events = u128::from(ranks);
        for step in &steps {
            let message = self.network.message(step.bytes());
            let cpu_ns = u128::from(message.overhead_ns) * u128::from(stretch) + u128::from(period_ns);
            let wire_ns = match self.network.progress {
                Progress::Nic => u128::from(message.flight_ns) + u128::from(message.busy_ns),
                Progress::Host => {
                    let moved_ns = u128::from(message.wire_ns) * u128::from(stretch) + 2 * u128::from(period_ns);
                    2 * moved_ns + u128::from(message.latency_ns) + u128::from(message.gap_ns)
                }
            };
            row_ns += u128::from(step.depth(ranks)) * (2 * cpu_ns + wire_ns);
            events += 2 * u128::from(step.messages(ranks));
        }
        if row_ns * u128::from(job.iterations) >= CLOCK_MAX_NS {
            return Err(too_far());
        }
        let events = events * u128::from(job.iterations) * u128::from(draws + 1);
        if events > u128::from(EVENTS_MAX) {
            let events = u64::try_from(events).unwrap_or(u64::MAX);
            return Err(Error::TooLong { events, most: EVENTS_MAX });
        }
        Ok(())
    }

    fn engine(&self, groups: &[Group], draw: u64) -> Result<Engine, Error> {
        let job = &self.job;
        let clocks = Clocks::new(groups, job.nodes, job.ranks_per_node, self.seed, draw)?;
        let movers = match self.network.progress {
            // Where nothing stops, both are the same.
            Progress::Host if !groups.is_empty() => {
                Some(Movers::new(groups, job.nodes, job.ranks_per_node, self.seed, draw)?)
            }
            _ => None,
        };
        Ok(Engine::new(clocks, movers, job.ranks() as usize))
    }

    fn draw(&self, draw: u64) -> Result<Draw, Error> {
        let (mut engine, steps) = (self.engine(&self.groups, draw)?, self.job.steps());
        for _ in 0..self.job.iterations {
            self.iterate(&mut engine, &steps);
        }
        Ok(Draw { end_ns: engine.end_ns(), event_count: engine.events() })
    }

    /// The undisturbed run, until all iterations are alike.
    fn base_ns(&self) -> Result<u64, Error> {
        let (mut engine, steps) = (self.engine(&[], 0)?, self.job.steps());
        let (mut end_ns, mut shape) = (0, Vec::new());
        for done in 1..=self.job.iterations {
            self.iterate(&mut engine, &steps);
            let (before_ns, before) = (end_ns, shape);
            (end_ns, shape) = (engine.end_ns(), engine.shape());
            if shape == before {
                return Ok(end_ns + (self.job.iterations - done) * (end_ns - before_ns));
            }
        }
        Ok(end_ns)
    }

    fn iterate(&self, engine: &mut Engine, steps: &[Step]) {
        engine.compute(self.job.compute_ns);
        steps.iter().for_each(|step| engine.step(*step, &self.network));
    }
}
