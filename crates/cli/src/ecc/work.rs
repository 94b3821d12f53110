//! Computes the table on all cores, with a bar on the terminal.

use anyhow::ensure;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use surefoot_ecc::coverage::monte_carlo::Outcomes;
use surefoot_ecc::coverage::{Cell, Found, Selection, Sweep};
use surefoot_store::shards::ShardChoice;

/// Computes the table. The counts of the trials are given if they come from shards.
pub fn run(selection: &Selection, counts: Option<Vec<Outcomes>>) -> Vec<Cell> {
    let sweep = if counts.is_some() { Sweep::without_trials(selection) } else { Sweep::new(selection) };
    let found = on_all_cores(&sweep);
    let counts = counts.unwrap_or_else(|| sweep.counts(&found));
    sweep.cells(&found, &counts)
}

/// Runs the trials of a shard: the counts of each cell of [`Selection::trial_keys`].
pub fn run_trials(selection: &Selection, shard: ShardChoice) -> anyhow::Result<Vec<Outcomes>> {
    ensure!(!selection.trial_keys().is_empty(), "--shard divides Monte Carlo trials, and --method leaves them out");
    let sweep = Sweep::of_trials(selection, |trials| shard.range(trials));
    Ok(sweep.counts(&on_all_cores(&sweep)))
}

/// Runs all pieces, on as many threads as there are cores. The results are in no order.
fn on_all_cores(sweep: &Sweep) -> Vec<Found> {
    let total = sweep.piece_count();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(total.max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(total));
    let progress = Progress { total, shown: std::io::stderr().is_terminal() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= total {
                        return;
                    }
                    let result = sweep.run(piece);
                    let mut results = results.lock().expect("no thread panics while it holds the list");
                    results.push(result);
                    progress.show(results.len());
                }
            });
        }
    });
    results.into_inner().expect("no thread panics while it holds the list")
}

/// A bar on the terminal.
struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    fn show(&self, done: usize) {
        const WIDTH: usize = 40;
        let percent = |done: usize| done * 100 / self.total.max(1);
        if !self.shown || (done < self.total && percent(done) == percent(done - 1)) {
            return;
        }
        let filled = done * WIDTH / self.total.max(1);
        let bar = format!("\r[{}{}] {:3} %", "#".repeat(filled), ".".repeat(WIDTH - filled), percent(done));
        let end = if done == self.total { format!("\r{}\r", " ".repeat(bar.len())) } else { String::new() };
        // A terminal that went away is no reason to stop.
        let _ = write!(std::io::stderr(), "{bar}{end}");
    }
}
