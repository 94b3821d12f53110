//! What may go wrong, and what may come of it: one table, run many times by seed. Whatever was saved comes back bit by
//! bit, repaired, or from another copy; or an older one comes back, or a clear refusal. Wrong data never does: every run
//! compares all bytes with what was saved, and fails if they differ.
//!
//! SUREFOOT_SOAK=10000 sets how many runs there are in all; `make soak` does. A run that fails says which row and seed it
//! was; SUREFOOT_FAULT and SUREFOOT_SEED run those alone. The kernel's own lost pages are in `poison`, every system call in
//! turn is in `kill`.

mod files;
mod made_up_disk;
mod processes;
mod ranks;
mod rooms;

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use surefoot_random::Random;

/// Runs in an ordinary test: two of each row.
const RUNS: u64 = 250;

/// What came of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The newest that was reported as saved, or a newer one, without a word.
    Whole,
    /// The newest, after a repair by the code.
    Repaired,
    /// The newest, from another tier or a partner.
    Elsewhere,
    /// An older one that is intact, and the newest was refused.
    Older,
    /// Nothing was read or written, and it said why.
    Refused,
}

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Whole, "as saved"),
    (Outcome::Repaired, "repaired"),
    (Outcome::Elsewhere, "other copy"),
    (Outcome::Older, "older one"),
    (Outcome::Refused, "refused"),
];

/// Numbers from a seed.
pub struct Seed(Random);

impl Seed {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// A run: what came of it, or why it is not possible here; for a test that counts, see `rooms` and `kill`.
type Run = Box<dyn Fn(&mut Seed) -> Result<Outcome, String> + Send + Sync>;

/// A fault, and what may come of it.
pub struct Row {
    fault: &'static str,
    tier: &'static str,
    allowed: &'static [Outcome],
    /// The most runs that make sense: some rows take long and have nothing that a seed changes.
    runs_max: u64,
    run: Run,
}

impl Row {
    pub fn new(
        fault: &'static str,
        tier: &'static str,
        allowed: &'static [Outcome],
        run: impl Fn(&mut Seed) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Row::where_possible(fault, tier, allowed, move |seed| Ok(run(seed)))
    }

    pub fn where_possible(
        fault: &'static str,
        tier: &'static str,
        allowed: &'static [Outcome],
        run: impl Fn(&mut Seed) -> Result<Outcome, String> + Send + Sync + 'static,
    ) -> Self {
        Row { fault, tier, allowed, runs_max: u64::MAX, run: Box::new(run) }
    }

    pub fn at_most(self, runs_max: u64) -> Self {
        Row { runs_max, ..self }
    }
}

fn rows() -> Vec<Row> {
    let modules = [files::rows(), made_up_disk::rows(), processes::rows(), ranks::rows(), rooms::rows()];
    modules.into_iter().flatten().collect()
}

/// What a row came to.
#[derive(Default)]
struct Came {
    outcomes: BTreeMap<Outcome, u64>,
    not_run: Option<String>,
    failed: Option<String>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The runs of each row, so that in all there are as many as were asked for.
fn shares(rows: &[Row], all: u64) -> Vec<u64> {
    let mut shares = vec![0; rows.len()];
    let mut left = all;
    while left > 0 {
        let mut open: Vec<usize> = (0..rows.len()).filter(|&row| shares[row] < rows[row].runs_max).collect();
        open.truncate(left as usize);
        if open.is_empty() {
            break;
        }
        let each = (left / open.len() as u64).max(1);
        for row in open {
            let more = each.min(rows[row].runs_max - shares[row]);
            shares[row] += more;
            left -= more;
        }
    }
    shares
}

#[test]
fn whatever_goes_wrong_nothing_reported_is_lost_and_nothing_wrong_comes_back() {
    let mut rows = rows();
    if let Ok(fault) = std::env::var("SUREFOOT_FAULT") {
        rows.retain(|row| row.fault == fault);
    }
    let seeds: Vec<std::ops::Range<u64>> = match number("SUREFOOT_SEED") {
        Some(seed) => rows.iter().map(|_| seed..seed + 1).collect(),
        None => shares(&rows, number("SUREFOOT_SOAK").unwrap_or(RUNS)).into_iter().map(|share| 0..share).collect(),
    };
    let came: Vec<Mutex<Came>> = rows.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < rows.len()) {
                    *came[at].lock().unwrap() = run_row(&rows[at], seeds[at].clone());
                }
            });
        }
    });
    let came: Vec<Came> = came.into_iter().map(|came| came.into_inner().unwrap()).collect();
    // Past the test runner, which keeps to itself what a good test prints.
    std::io::stdout().write_all(table(&rows, &came).as_bytes()).unwrap();
    let failed: Vec<&str> = came.iter().filter_map(|came| came.failed.as_deref()).collect();
    assert!(failed.is_empty(), "{} rows:\n{}", failed.len(), failed.join("\n"));
}

/// Runs a row for each seed, up to the first that fails.
fn run_row(row: &Row, seeds: std::ops::Range<u64>) -> Came {
    let mut came = Came::default();
    for seed in seeds {
        let words = format!("SUREFOOT_FAULT='{}' SUREFOOT_SEED={seed} (tier: {})", row.fault, row.tier);
        match catch_unwind(AssertUnwindSafe(|| (row.run)(&mut Seed(Random::new(seed))))) {
            Ok(Ok(outcome)) => {
                *came.outcomes.entry(outcome).or_default() += 1;
                if !row.allowed.contains(&outcome) {
                    came.failed = Some(format!("{words}: {outcome:?} is not among {:?}", row.allowed));
                    return came;
                }
            }
            Ok(Err(why)) => {
                came.not_run = Some(why);
                return came;
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                came.failed = Some(format!("{words}: {}", text.unwrap_or_default()));
                return came;
            }
        }
    }
    came
}

fn table(rows: &[Row], came: &[Came]) -> String {
    let names: Vec<&str> = OUTCOMES.iter().map(|(_, name)| *name).collect();
    let mut text =
        format!("\n| fault | tier | runs | {} | wrong data |\n|---|---|{}\n", names.join(" | "), "--:|".repeat(7));
    let mut all = 0;
    for (row, came) in rows.iter().zip(came) {
        let runs: u64 = came.outcomes.values().sum();
        all += runs;
        let cell = |outcome: &Outcome| match (came.outcomes.get(outcome), row.allowed.contains(outcome)) {
            (Some(count), _) => count.to_string(),
            (None, true) => "0".into(),
            (None, false) => String::new(),
        };
        let cells: Vec<String> = OUTCOMES.iter().map(|(outcome, _)| cell(outcome)).collect();
        let runs = if came.not_run.is_some() { "not run".into() } else { runs.to_string() };
        let wrong = if came.failed.is_some() { "FAILED" } else { "0" };
        text += &format!("| {} | {} | {runs} | {} | {wrong} |\n", row.fault, row.tier, cells.join(" | "));
    }
    for (row, came) in rows.iter().zip(came) {
        if let Some(why) = &came.not_run {
            text += &format!("not run: {}, {}: {why}\n", row.fault, row.tier);
        }
    }
    text + &format!("{all} runs; an empty cell is an outcome that the row does not allow.\n")
}

#[test]
fn every_run_finds_its_row() {
    let row = |runs_max| Row::new("", "", &[], |_| Outcome::Whole).at_most(runs_max);
    assert_eq!(shares(&[row(u64::MAX), row(2), row(u64::MAX)], 20), [9, 2, 9]);
    assert_eq!(shares(&[row(1), row(2)], 20), [1, 2]);
    assert_eq!(shares(&[row(u64::MAX), row(u64::MAX)], 1), [1, 0]);
}
