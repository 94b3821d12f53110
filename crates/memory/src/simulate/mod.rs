//! A simulator of how corrected errors are reported: by polling, by corrected-error interrupts (CMCI), by SMIs.
//!
//! Errors arrive at counters; a report reads and clears them and stalls a core, or all of them, while it does so. What a
//! full counter cannot hold is lost. Time is skipped from error to error: a quiet year costs nothing. Everything here is
//! pure: the same settings and seed give the same numbers.
//!
//! ```
//! use surefoot_memory::simulate::{Arrivals, Mechanism, Path, Pattern, run};
//! let path = Path { mechanism: Mechanism::Polling, interval_ns: 60_000_000_000, ..Path::example() };
//! let steady = Pattern::Steady { per_s: 10.0 };
//! let outcome = run(&path, Arrivals::new(&steady, &path, 1, 0));
//! assert_eq!(outcome.arrived_count, outcome.reported_count + outcome.missed_count);
//! ```

mod arrivals;
mod costs;
mod figures;
mod fleet;
mod heavy_tail;
mod load;
mod polling;
mod raised;
mod service;
mod shape;
mod stalls;
mod storm;
mod trace;

pub use arrivals::{Arrival, Arrivals, Pattern};
pub use costs::{Costs, Work};
pub use figures::{Diagram, FIGURES, Figure, Scene, Series, figure};
pub use fleet::{Fleet, FleetOutcome, HOSTS_MAX};
pub use heavy_tail::{HeavyTail, MEAN_OVER_MEDIAN};
pub use load::Load;
pub use service::{Answered, Service};
pub use shape::{Shape, best_interval, shape};
pub use stalls::{SPANS_MAX, Span, Stalls};
pub use storm::StormRule;
pub use surefoot_random::Random as Stream;
pub use trace::{LINE_BYTES_MAX, LINES_MAX, Trace};

use crate::Error;

/// More counters than this no host has.
pub const BANKS_MAX: u32 = 4096;
/// A counter that has more than this many times another's errors has all of them.
pub const HOT_MAX: u32 = 1_000_000;
/// More cores than this no host has.
pub const CORES_MAX: u32 = 65_536;
/// A simulated time is at most this long: ten years.
pub const DURATION_MAX_NS: u64 = 10 * 366 * 86_400 * 1_000_000_000;

/// How errors come to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The counters are read at an interval.
    Polling,
    /// Corrected machine-check interrupts.
    Cmci,
    /// System management interrupts: firmware reads the counters while all cores stand still.
    Smi,
}

impl Mechanism {
    /// All.
    pub const ALL: [Mechanism; 3] = [Mechanism::Polling, Mechanism::Cmci, Mechanism::Smi];

    /// Its name in options and lines.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Polling => "polling",
            Mechanism::Cmci => "cmci",
            Mechanism::Smi => "smi",
        }
    }
}

/// The way of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Who starts it.
    pub mechanism: Mechanism,
    /// Bits of a counter, 0 to 32. With 0 there is one bit that says whether anything came.
    pub counter_bits: u32,
    /// Errors that raise an interrupt, or an SMI (its every-Nth rule); polling does without.
    pub threshold: u32,
    /// Between polls, nanoseconds; of polling only.
    pub interval_ns: u64,
    /// The simulated time, nanoseconds.
    pub duration_ns: u64,
    /// Counters that errors come to.
    pub banks: u32,
    /// How many times as many errors come to the first counter as to each other.
    pub hot: u32,
    /// Cores that a poll looks at, and that an SMI stops.
    pub cores: u32,
    /// What each report costs.
    pub costs: Costs,
    /// How interrupts are held back; of CMCI only.
    pub storms: StormRule,
}

impl Path {
    /// Polling of one 15-bit counter every 30 s on 36 cores for an hour.
    pub fn example() -> Path {
        Path {
            mechanism: Mechanism::Polling,
            counter_bits: 15,
            threshold: 1,
            interval_ns: 30_000_000_000,
            duration_ns: 3_600_000_000_000,
            banks: 1,
            hot: 1,
            cores: 36,
            costs: Costs::LITERATURE,
            storms: StormRule::Never,
        }
    }

    /// The highest count of a counter.
    pub fn capacity(&self) -> u64 {
        ((1u64 << self.counter_bits.min(63)) - 1).max(1)
    }

    /// How many cores a report stops.
    pub fn stalled_cores(&self) -> u32 {
        if self.mechanism == Mechanism::Smi { self.cores } else { 1 }
    }

    /// The work that reports on this path take time for.
    pub fn paid(&self) -> &'static [Work] {
        match self.mechanism {
            Mechanism::Polling => &[Work::PollWake, Work::PollCore, Work::PollRecord, Work::Line],
            // In a storm a core's banks are polled.
            Mechanism::Cmci if self.storms != StormRule::Never => &[Work::PollCore, Work::Interrupt, Work::Line],
            Mechanism::Cmci => &[Work::Interrupt, Work::Line],
            Mechanism::Smi => &[Work::Smi],
        }
    }

    /// The part of the stall, nanoseconds, that printing the lines of so many reports on the console took.
    pub fn stall_of_lines_ns(&self, report_count: u64) -> u64 {
        match self.mechanism {
            Mechanism::Smi => 0,
            Mechanism::Polling | Mechanism::Cmci => self.costs.line_ns.saturating_mul(report_count),
        }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`Error::Option`] names the option, says why and what can be.
    pub fn check(&self) -> Result<(), Error> {
        let no = |option, why: String| Err(Error::Option { option, why });
        if self.counter_bits > 32 {
            return no("--counter-bits", format!("{} bits, but counters have 0 to 32", self.counter_bits));
        }
        if !(1..=BANKS_MAX).contains(&self.banks) {
            return no("--banks", format!("{} counters, but 1 to {BANKS_MAX} are possible", self.banks));
        }
        if !(1..=HOT_MAX).contains(&self.hot) {
            return no("--hot", format!("{} times, but 1 to {HOT_MAX} are possible", self.hot));
        }
        if !(1..=CORES_MAX).contains(&self.cores) {
            return no("--cores", format!("{} cores, but 1 to {CORES_MAX} are possible", self.cores));
        }
        if !(1..=DURATION_MAX_NS).contains(&self.duration_ns) {
            return no("--duration", "a run is longer than nothing and at most ten years long".into());
        }
        match self.mechanism {
            Mechanism::Polling => self.check_interval(),
            _ if !(1..=self.capacity()).contains(&u64::from(self.threshold)) => {
                let (bits, capacity) = (self.counter_bits, self.capacity());
                no(
                    "--threshold",
                    format!(
                        "{} errors, but a {bits}-bit counter holds {capacity}; use 1 to {capacity}, or more bits",
                        self.threshold
                    ),
                )
            }
            _ => Ok(()),
        }
    }

    fn check_interval(&self) -> Result<(), Error> {
        let empty_ns = self.costs.empty_poll_ns(self.cores);
        if self.interval_ns == 0 || empty_ns >= self.interval_ns {
            let why = format!(
                "a poll that finds nothing takes {empty_ns} ns, and the next one comes after {} ns, so that the core does \
                 nothing else; name a longer interval",
                self.interval_ns
            );
            return Err(Error::Option { option: "--interval", why });
        }
        Ok(())
    }
}

/// What came of a run, or of several put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Errors that happened.
    pub arrived_count: u64,
    /// Errors that a report told.
    pub reported_count: u64,
    /// Errors that no report told: `arrived_count` less `reported_count`.
    pub missed_count: u64,
    /// Of these, the ones that still stood in a counter below its threshold at the end.
    pub below_threshold_count: u64,
    /// Records that were made: one for each counter that was read and not 0.
    pub report_count: u64,
    /// Of these, the ones whose counter was full, so that they say "at least".
    pub saturated_count: u64,
    /// Polls, whether they found something or not; those of storms as well.
    pub poll_count: u64,
    /// Storms.
    pub storm_count: u64,
    /// Stall of a core that reports stop, nanoseconds; an SMI stops all cores for as long.
    pub stall_total_ns: u64,
    /// The longest unbroken stall.
    pub stall_longest_ns: u64,
}

impl Outcome {
    /// Puts another host's beside it.
    pub fn add(&mut self, other: &Outcome) {
        let sums = [
            (&mut self.arrived_count, other.arrived_count),
            (&mut self.reported_count, other.reported_count),
            (&mut self.missed_count, other.missed_count),
            (&mut self.below_threshold_count, other.below_threshold_count),
            (&mut self.report_count, other.report_count),
            (&mut self.saturated_count, other.saturated_count),
            (&mut self.poll_count, other.poll_count),
            (&mut self.storm_count, other.storm_count),
            (&mut self.stall_total_ns, other.stall_total_ns),
        ];
        for (sum, part) in sums {
            *sum = sum.saturating_add(part);
        }
        self.stall_longest_ns = self.stall_longest_ns.max(other.stall_longest_ns);
    }
}

/// Runs errors, in the order of their time, through a path that [`Path::check`] has passed. Errors at counters that the path
/// does not have, and from its end on, must not be among them.
pub fn run(path: &Path, arrivals: impl Iterator<Item = Arrival>) -> Outcome {
    run_into(path, arrivals, &mut Stalls::default())
}

/// As [`run`], and keeps each stall.
pub fn run_with_spans(path: &Path, arrivals: impl Iterator<Item = Arrival>) -> (Outcome, Vec<Span>) {
    let mut stalls = Stalls::new(true);
    let outcome = run_into(path, arrivals, &mut stalls);
    (outcome, stalls.into_spans())
}

fn run_into(path: &Path, arrivals: impl Iterator<Item = Arrival>, stalls: &mut Stalls) -> Outcome {
    let outcome = match path.mechanism {
        Mechanism::Polling => polling::run(path, arrivals, stalls),
        Mechanism::Cmci | Mechanism::Smi => raised::run(path, arrivals, stalls),
    };
    Outcome { stall_total_ns: stalls.total_ns, stall_longest_ns: stalls.longest_ns, ..outcome }
}
