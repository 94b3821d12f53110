//! Many hosts, each with its own random numbers, so that any part of them can be simulated anywhere.

use super::{Arrivals, HeavyTail, Outcome, Path, Pattern, Stream, run};
use crate::Error;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// More hosts than this are no fleet.
pub const HOSTS_MAX: u64 = 100_000_000;
/// All errors of a run; more take hours.
const ARRIVALS_MAX: f64 = 1e11;

/// Hosts in one piece of work.
const HOSTS_PER_PIECE: u64 = 256;

/// A fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// How many hosts it has.
    pub hosts: u64,
    /// The share of them that has errors at all.
    pub faulty_share: f64,
    /// When these have them.
    pub pattern: Pattern,
    /// What all random numbers follow from.
    pub seed: u64,
}

/// What came of some of its hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetOutcome {
    /// Their sums, and the longest stall of all.
    pub outcome: Outcome,
    /// Hosts that had an error.
    pub hosts_with_errors: u64,
    /// Hosts that missed one.
    pub hosts_with_misses: u64,
}

impl FleetOutcome {
    /// That of one host.
    pub fn of(outcome: &Outcome) -> FleetOutcome {
        let (hosts_with_errors, hosts_with_misses) =
            (u64::from(outcome.arrived_count > 0), u64::from(outcome.missed_count > 0));
        FleetOutcome { outcome: *outcome, hosts_with_errors, hosts_with_misses }
    }

    /// Puts that of other hosts beside it.
    pub fn add(&mut self, other: &FleetOutcome) {
        self.outcome.add(&other.outcome);
        self.hosts_with_errors += other.hosts_with_errors;
        self.hosts_with_misses += other.hosts_with_misses;
    }
}

impl Fleet {
    /// Refuses what cannot be, and what would take hours.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        path.check()?;
        self.pattern.check(path.duration_ns)?;
        let no = |option, why| Err(Error::Option { option, why });
        if !(1..=HOSTS_MAX).contains(&self.hosts) {
            return no("--hosts", format!("{} hosts, but 1 to {HOSTS_MAX} are possible", self.hosts));
        }
        if !(0.0..=1.0).contains(&self.faulty_share) {
            return no("--faulty-share", format!("{} is not a share from 0 to 1", self.faulty_share));
        }
        let all = self.pattern.mean_per_s() * path.duration_ns as f64 / 1e9 * self.faulty_share * self.hosts as f64;
        if all > ARRIVALS_MAX {
            return no(
                "--errors",
                format!("about {all:.1e} errors in all hosts, and more than {ARRIVALS_MAX:.0e} take hours; name fewer"),
            );
        }
        Ok(())
    }

    /// Like [`Fleet::run`] on as many threads as there are cores, with the same result. `done` gets the number of hosts that are done,
    /// after each piece and on any thread.
    pub fn run_on_all_cores(&self, path: &Path, hosts: Range<u64>, done: &(dyn Fn(u64) + Sync)) -> FleetOutcome {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicU64::new(hosts.start);
        let sum = Mutex::new(FleetOutcome::default());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let start = next.fetch_add(HOSTS_PER_PIECE, Ordering::Relaxed);
                        if start >= hosts.end {
                            return;
                        }
                        let end = hosts.end.min(start + HOSTS_PER_PIECE);
                        let part = self.run(path, start..end);
                        sum.lock().expect("no thread panics while it holds the sum").add(&part);
                        done(end - hosts.start);
                    }
                });
            }
        });
        sum.into_inner().expect("no thread panics while it holds the sum")
    }

    /// Simulates some of its hosts, numbered from 0. It must have passed [`Fleet::check`].
    pub fn run(&self, path: &Path, hosts: Range<u64>) -> FleetOutcome {
        let tail = match self.pattern {
            Pattern::HeavyTailed { mean_per_s, mean_over_median } => Some(HeavyTail::new(mean_per_s, mean_over_median)),
            _ => None,
        };
        let quiet = run(path, std::iter::empty());
        let mut sum = FleetOutcome::default();
        for host in hosts {
            // Whether a host has errors is drawn apart, so that those it has are the same whatever the share.
            if Stream::numbered(!self.seed, host).open_unit() >= self.faulty_share {
                sum.outcome.add(&quiet);
                continue;
            }
            // Its own stream begins with its rate, where rates differ.
            let mut stream = Stream::numbered(self.seed, host);
            let pattern =
                tail.map_or(self.pattern, |tail| Pattern::Steady { per_s: tail.quantile(stream.open_unit()) });
            let outcome = run(path, Arrivals::with_stream(&pattern, path, stream));
            sum.add(&FleetOutcome::of(&outcome));
        }
        sum
    }
}
