//! Computes cells on all cores. What is computed does not depend on how many there are.

use super::cells::{Cell, Key, Selection};
use super::text::share_text;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use surefoot_ecc::LocationCheck;
use surefoot_ecc::coverage::explain::{Explained, explain};
use surefoot_ecc::coverage::monte_carlo::{Outcomes, Trials};
use surefoot_ecc::coverage::random::Stream;
use surefoot_ecc::coverage::shards::{with_checksums, without_checksums};
use surefoot_ecc::coverage::stripe_trials::StripeTrials;
use surefoot_ecc::coverage::{Convention, Fault, Layout, Method, Rules, Scheme, closed_form, interval95};
use surefoot_store::shards::ShardChoice;

/// Trials in one piece of work: some ten milliseconds of a core.
const BLOCKS_PER_PIECE: u64 = 1 << 18;
const STRIPES_PER_PIECE: u64 = 64;

/// The layouts of the chosen codes: with location check, without.
struct Layouts(Vec<(Scheme, Layout, Layout)>);

impl Layouts {
    fn of(schemes: &[Scheme]) -> Layouts {
        let both = |&scheme| (scheme, Layout::new(scheme, LocationCheck::On), Layout::new(scheme, LocationCheck::Off));
        Layouts(schemes.iter().map(both).collect())
    }

    fn both(&self, scheme: Scheme) -> (&Layout, &Layout) {
        let found = self.0.iter().find(|known| known.0 == scheme);
        let (_, checked, unchecked) = found.expect("the layouts were made for the same selection");
        (checked, unchecked)
    }

    fn of_key(&self, key: &Key) -> (&Layout, Rules) {
        let (checked, unchecked) = self.both(key.scheme);
        if key.convention == Convention::Paper { (unchecked, Rules::PAPER) } else { (checked, Rules::PHYSICAL) }
    }
}

/// A piece of work.
enum Task {
    /// Both conventions of a memory code at once.
    Explain(Scheme, Fault),
    /// A software cell by its formula.
    Stripe(Key),
    /// Some trials of the cell with this number.
    Trials(usize, Key, Range<u64>),
}

/// What it led to.
enum Done {
    Explained(Scheme, Fault, Box<Explained>),
    Stripe(Key, [f64; 3]),
    Trials(usize, Outcomes),
}

/// Computes the table. The counts of the trials are given if they come from shards.
pub fn run(selection: &Selection, counts: Option<Vec<Outcomes>>) -> anyhow::Result<Vec<Cell>> {
    let layouts = Layouts::of(&selection.schemes);
    let mut tasks = exact_tasks(selection);
    let keys = selection.trial_keys();
    if counts.is_none() {
        tasks.extend(trial_tasks(selection, &keys, ShardChoice::WHOLE));
    }
    let results = run_tasks(&layouts, selection.seed, &tasks);
    let counts = counts.unwrap_or_else(|| sum_up(&results, keys.len()));
    let mut cells = Vec::new();
    for (number, key) in selection.keys().into_iter().enumerate() {
        for &method in &selection.methods {
            match method {
                Method::Exact => cells.extend(exact_cell(key, &results)),
                Method::ClosedForm => cells.extend(closed_cell(key, &layouts, &results)),
                Method::MonteCarlo => cells.extend(counts.get(number).map(|counts| trial_cell(key, *counts))),
            }
        }
    }
    Ok(cells)
}

/// Runs the trials of a shard: the counts of each cell of [`Selection::trial_keys`].
pub fn run_trials(selection: &Selection, shard: ShardChoice) -> anyhow::Result<Vec<Outcomes>> {
    let keys = selection.trial_keys();
    anyhow::ensure!(!keys.is_empty(), "--shard divides Monte Carlo trials, and --method leaves them out");
    let layouts = Layouts::of(&selection.schemes);
    let results = run_tasks(&layouts, selection.seed, &trial_tasks(selection, &keys, shard));
    Ok(sum_up(&results, keys.len()))
}

fn exact_tasks(selection: &Selection) -> Vec<Task> {
    let mut tasks = Vec::new();
    let is_wanted = |method| selection.methods.contains(&method);
    for key in selection.keys() {
        match key.scheme {
            // The formulas of the layouts with checksums are approximate where two coincidences meet.
            Scheme::Shards if is_wanted(Method::Exact) => tasks.push(Task::Stripe(key)),
            Scheme::ShardsCrc if is_wanted(Method::ClosedForm) => tasks.push(Task::Stripe(key)),
            Scheme::Shards | Scheme::ShardsCrc => {}
            _ if is_wanted(Method::Exact) => {
                let is_known = |task: &Task| matches!(task, Task::Explain(scheme, fault) if (*scheme, *fault) == (key.scheme, key.fault));
                if !tasks.iter().any(is_known) {
                    tasks.push(Task::Explain(key.scheme, key.fault));
                }
            }
            _ => {}
        }
    }
    // The faults that reach far take longest: they come first, so that no core ends up alone with one.
    tasks.reverse();
    tasks
}

fn trial_tasks(selection: &Selection, keys: &[Key], shard: ShardChoice) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let range = shard.range(selection.trials_of(key));
        let step = if key.scheme.is_software() { STRIPES_PER_PIECE } else { BLOCKS_PER_PIECE };
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + step);
            tasks.push(Task::Trials(number, *key, start..end));
            start = end;
        }
    }
    tasks
}

fn sum_up(results: &[Done], cells: usize) -> Vec<Outcomes> {
    let mut sums = vec![Outcomes::default(); cells];
    for result in results {
        if let Done::Trials(number, part) = result {
            sums[*number].add(*part);
        }
    }
    sums
}

/// Does all tasks, on as many threads as there are cores. The results come in no order.
fn run_tasks(layouts: &Layouts, seed: u64, tasks: &[Task]) -> Vec<Done> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len().max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(tasks.len()));
    let progress = Progress { total: tasks.len(), shown: std::io::stderr().is_terminal() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = task.run(layouts, seed);
                    let mut results = results.lock().expect("no thread panics while it holds the list");
                    results.push(result);
                    progress.show(results.len());
                }
            });
        }
    });
    results.into_inner().expect("no thread panics while it holds the list")
}

impl Task {
    fn run(&self, layouts: &Layouts, seed: u64) -> Done {
        match self {
            Task::Explain(scheme, fault) => {
                let (checked, unchecked) = layouts.both(*scheme);
                Done::Explained(*scheme, *fault, Box::new(explain(*scheme, checked, unchecked, *fault)))
            }
            Task::Stripe(key) => {
                let layout = layouts.both(key.scheme).0;
                let shares = match key.scheme {
                    Scheme::ShardsCrc => with_checksums(key.fault, key.convention),
                    _ => without_checksums(layout, key.fault, key.convention),
                };
                Done::Stripe(*key, shares)
            }
            Task::Trials(number, key, range) => {
                let stream = Stream::new(seed, &key.stream_name());
                let (layout, rules) = layouts.of_key(key);
                let outcomes = if key.scheme.is_software() {
                    let has_checksums = key.scheme == Scheme::ShardsCrc;
                    StripeTrials::new(layout, has_checksums, key.fault, key.convention, stream).run(range.clone())
                } else {
                    Trials::new(layout, key.fault, rules, stream).run(range.clone())
                };
                Done::Trials(*number, outcomes)
            }
        }
    }
}

fn explained<'a>(key: &Key, results: &'a [Done]) -> Option<&'a Explained> {
    results.iter().find_map(|result| match result {
        Done::Explained(scheme, fault, explained) if (*scheme, *fault) == (key.scheme, key.fault) => Some(&**explained),
        _ => None,
    })
}

fn stripe_shares(key: &Key, results: &[Done]) -> Option<[f64; 3]> {
    results.iter().find_map(|result| match result {
        Done::Stripe(other, shares) if other == key => Some(*shares),
        _ => None,
    })
}

fn exact_cell(key: Key, results: &[Done]) -> Option<Cell> {
    if key.scheme == Scheme::Shards {
        let shares = stripe_shares(&key, results)?;
        return Some(Cell { key, method: Method::Exact, shares, ci95: None, why: String::new() });
    }
    let explained = explained(&key, results)?;
    let (counts, why) = match key.convention {
        Convention::Paper => (explained.paper, why(explained)),
        _ => (explained.physical, String::new()),
    };
    Some(Cell { key, method: Method::Exact, shares: counts.shares(), ci95: None, why })
}

fn closed_cell(key: Key, layouts: &Layouts, results: &[Done]) -> Option<Cell> {
    let shares = if key.scheme.is_software() {
        (key.scheme == Scheme::ShardsCrc).then(|| stripe_shares(&key, results)).flatten()?
    } else {
        let (layout, rules) = layouts.of_key(&key);
        closed_form::counts(layout, key.fault, rules)?.shares()
    };
    Some(Cell { key, method: Method::ClosedForm, shares, ci95: None, why: String::new() })
}

fn trial_cell(key: Key, counts: Outcomes) -> Cell {
    let total = counts.total();
    let each = [counts.corrected, counts.detected, counts.silent];
    Cell {
        key,
        method: Method::MonteCarlo,
        shares: each.map(|count| count as f64 / total.max(1) as f64),
        ci95: Some(each.map(|count| interval95(count, total))),
        why: String::new(),
    }
}

/// The line on a cell in which the conventions differ.
fn why(explained: &Explained) -> String {
    let mut before = explained.physical.shares();
    let mut parts = Vec::new();
    for (step, counts) in &explained.steps {
        let after = counts.shares();
        let names = ["corrected", "detected", "silent"];
        let changes: Vec<String> = (0..3)
            .map(|index| (names[index], share_text(before[index]), share_text(after[index])))
            .filter(|(_, before, after)| before != after)
            .map(|(name, before, after)| format!("{name} {before} -> {after}"))
            .collect();
        parts.push(format!("{} ({})", step.text(), changes.join(", ")));
        before = after;
    }
    parts.join("; ")
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
