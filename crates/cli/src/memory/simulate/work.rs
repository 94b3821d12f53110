//! Simulates on all cores. What comes out does not depend on how many there are.

use super::errors::{Errors, Kind, read_trace};
use super::options::{ErrorOptions, PathOptions};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use surefoot_memory::simulate::{Arrival, Arrivals, DURATION_MAX_NS, Fleet, FleetOutcome, Path, Pattern};
use surefoot_store::shards::ShardChoice;

/// Hosts in one piece of work.
const HOSTS_PER_PIECE: u64 = 256;
const HOUR_NS: u64 = 3_600_000_000_000;

/// What arrives.
pub enum Load {
    Pattern(Pattern),
    Trace(Vec<Arrival>),
}

impl Load {
    /// Reads what is named, and completes the path by it.
    pub fn of(named: &Errors, errors: &ErrorOptions, banks: &PathOptions, path: &mut Path) -> anyhow::Result<Load> {
        match &named.kind {
            Kind::Pattern(pattern) => {
                path.duration_ns = errors.duration.unwrap_or(HOUR_NS);
                path.banks = banks.banks.unwrap_or(1);
                Ok(Load::Pattern(*pattern))
            }
            Kind::Trace(file) => {
                let mut arrivals = read_trace(file)?;
                let last_ns = arrivals.last().map_or(0, |last| last.at_ns);
                path.duration_ns = errors.duration.unwrap_or(last_ns.saturating_add(1));
                anyhow::ensure!(
                    path.duration_ns <= DURATION_MAX_NS,
                    "--errors: {}: its last error comes after more than ten years; its times count from the beginning of the \
                     run, so take the first one off each, or name a --duration",
                    file.display()
                );
                let before = arrivals.len();
                arrivals.retain(|arrival| arrival.at_ns < path.duration_ns);
                if arrivals.len() < before {
                    let beyond = before - arrivals.len();
                    surefoot_console::tell!("surefoot: {beyond} of {before} lines of the trace are beyond --duration");
                }
                let named = arrivals.iter().map(|arrival| arrival.bank + 1).max().unwrap_or(1);
                path.banks = banks.banks.unwrap_or(named);
                anyhow::ensure!(
                    path.banks >= named,
                    "--banks: {} counters, but the trace names counter {}; leave the option out",
                    path.banks,
                    named - 1
                );
                Ok(Load::Trace(arrivals))
            }
        }
    }

    /// The errors of the first host.
    pub fn arrivals(&self, path: &Path, seed: u64) -> Box<dyn Iterator<Item = Arrival> + '_> {
        match self {
            Load::Pattern(pattern) => Box::new(Arrivals::new(pattern, path, seed, 0)),
            Load::Trace(arrivals) => Box::new(arrivals.iter().copied()),
        }
    }
}

/// Simulates a part of a fleet.
pub fn run_fleet(path: &Path, fleet: &Fleet, shard: ShardChoice) -> FleetOutcome {
    let hosts = shard.range(fleet.hosts);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(hosts.start);
    let sum = Mutex::new(FleetOutcome::default());
    let progress = Progress { total: hosts.end - hosts.start, shown: std::io::stderr().is_terminal() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let start = next.fetch_add(HOSTS_PER_PIECE, Ordering::Relaxed);
                    if start >= hosts.end {
                        return;
                    }
                    let end = hosts.end.min(start + HOSTS_PER_PIECE);
                    let part = fleet.run(path, start..end);
                    sum.lock().expect("no thread panics while it holds the sum").add(&part);
                    progress.show(end - hosts.start);
                }
            });
        }
    });
    progress.clear();
    sum.into_inner().expect("no thread panics while it holds the sum")
}

/// A count on the terminal.
struct Progress {
    total: u64,
    shown: bool,
}

impl Progress {
    fn show(&self, done: u64) {
        if self.shown {
            // A terminal that went away is no reason to stop.
            let _ = write!(std::io::stderr(), "\r{done} of {} hosts", self.total);
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r{:40}\r", "");
        }
    }
}
