//! From errors and bounds to an interval.

use super::bins::{Bins, Bounds, Fails};
use crate::Error;
use crate::simulate::{Outcome, Path};

const NS_PER_S: f64 = 1e9;
const SECOND_NS: u64 = 1_000_000_000;

/// A day in seconds, and some more.
const STEPS_MAX: u64 = 100_000;
const DAY_NS: f64 = 86.4e12;

/// What an interval has to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// The longest stall that is allowed; `None` for any.
    pub stall_longest_ns: Option<u64>,
    /// The rate of errors that has to be seen as such, per second: 10 in ICPE'20.
    pub threshold_per_s: f64,
    /// When a module that crosses it has to be known at the latest.
    pub detect_ns: u64,
    /// The shortest interval that can be set; a whole number of the bins' ticks, and the step between intervals.
    pub shortest_ns: u64,
    /// The longest interval to look at.
    pub longest_ns: u64,
    /// Whether the bounds hold whatever moment the polls begin at, which nobody knows of a running host.
    pub any_phase: bool,
}

/// What keeps an interval from being longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// A counter would run full, and errors be lost.
    Loss,
    /// A poll would stall a core for too long.
    Stall,
    /// A module that crosses the threshold would be known too late.
    Detection,
    /// A full counter would no longer prove that rate.
    Proof,
    /// No longer one was to be looked at, or can be set.
    Range,
    /// A longer one stalls more in sum, by how the errors fall into its windows.
    Total,
}

impl Constraint {
    /// Its name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Constraint::Loss => "loss",
            Constraint::Stall => "longest_stall",
            Constraint::Detection => "detection",
            Constraint::Proof => "proof_of_rate",
            Constraint::Range => "range",
            Constraint::Total => "total_stall",
        }
    }

    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            Constraint::Loss => "a longer interval lets a counter overflow and lose errors",
            Constraint::Stall => "with a longer interval one poll has more to log and stalls longer than allowed",
            Constraint::Detection => "with a longer interval a module over the threshold is detected too late",
            Constraint::Proof => "with a longer interval a full counter no longer proves the threshold's rate",
            Constraint::Range => "--longest, or the file that sets it, allows no longer interval",
            Constraint::Total => "longer intervals that are allowed stall more in total",
        }
    }
}

/// The interval, and why it is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The interval; `None` where even the shortest breaks a bound.
    pub interval_ns: Option<u64>,
    /// What keeps it from being longer, or from being at all.
    pub binding: Constraint,
    /// What comes of it; of the shortest interval where there is none.
    pub outcome: Outcome,
    /// The longest interval that keeps the bounds whatever moment the polls begin at; `None` where none does.
    pub any_phase_ns: Option<u64>,
}

/// Chooses the interval with the least stall among those that keep the wish; of equals the longest.
///
/// # Errors
/// [`Error::Option`] for a wish that cannot be.
pub fn choose(path: &Path, bins: &Bins, wish: &Wish) -> Result<Choice, Error> {
    check(path, bins, wish)?;
    let step_ns = wish.shortest_ns;
    let bounds = Bounds { stall_longest_ns: wish.stall_longest_ns.unwrap_or(u64::MAX), missed: 0 };
    let ticks_per_step = step_ns / bins.tick_ns();
    let (longest, limit) = longest(path, wish);
    let longest_step = longest / step_ns;
    let any_phase = any_phase(path, bins, ticks_per_step, longest_step, bounds);
    if wish.any_phase {
        let step = any_phase.unwrap_or(1);
        let outcome = free(path, bins, step * ticks_per_step);
        let binding = match step {
            _ if longest_step == 0 => limit,
            step if step == longest_step && any_phase.is_some() => limit,
            step => {
                let next = if any_phase.is_some() { step + 1 } else { step };
                broken(path, bins, next * ticks_per_step, wish)
            }
        };
        let found = any_phase.map(|step| step * step_ns);
        return Ok(Choice { interval_ns: found, binding, outcome, any_phase_ns: found });
    }
    let any_phase_ns = any_phase.map(|step| step * step_ns);
    let mut search = Search::default();
    for step in (1..=longest_step).rev() {
        if search.is_over(path, step * step_ns) {
            break;
        }
        search.take(step, bins.polled(path, step * ticks_per_step, Some(bounds)));
    }
    Ok(match search.best {
        Some((step, outcome)) => {
            let binding = match search.failed_above(step) {
                _ if step == longest_step => limit,
                Some(constraint) => constraint,
                None => Constraint::Total,
            };
            Choice { interval_ns: Some(step * step_ns), binding, outcome, any_phase_ns }
        }
        None => {
            let binding = search.failed.last().map_or(limit, |failed| failed.1);
            Choice { interval_ns: None, binding, outcome: free(path, bins, ticks_per_step), any_phase_ns }
        }
    })
}

fn check(path: &Path, bins: &Bins, wish: &Wish) -> Result<(), Error> {
    let no = |option, why: &str| Err(Error::Option { option, why: why.into() });
    if !(wish.threshold_per_s.is_finite() && wish.threshold_per_s >= 0.0) {
        return no("--threshold-rate", "it is not a rate from 0 up");
    }
    if wish.shortest_ns == 0 || !wish.shortest_ns.is_multiple_of(bins.tick_ns()) {
        return no("--shortest", "it is not a whole number of the seconds that errors are counted in");
    }
    if wish.longest_ns < wish.shortest_ns {
        return no("--longest", "it is shorter than the shortest interval");
    }
    if longest(path, wish).0 / wish.shortest_ns > STEPS_MAX {
        return no(
            "--longest",
            "more than 100,000 steps from the shortest; name a shorter one, or a longer --shortest",
        );
    }
    Path { interval_ns: wish.shortest_ns, ..path.clone() }.check()
}

/// The longest interval before any error is looked at, and what keeps it from being longer.
fn longest(path: &Path, wish: &Wish) -> (u64, Constraint) {
    // A full counter proves `capacity` errors in an interval.
    let proves_ns = match path.capacity() as f64 / wish.threshold_per_s * NS_PER_S {
        ns if ns < u64::MAX as f64 => ns as u64,
        _ => u64::MAX,
    };
    let limits =
        [(wish.detect_ns, Constraint::Detection), (proves_ns, Constraint::Proof), (wish.longest_ns, Constraint::Range)];
    limits.into_iter().min_by_key(|limit| limit.0).unwrap_or((wish.longest_ns, Constraint::Range))
}

/// The longest step that keeps the bounds at any phase: it is the only one to look for, because more ticks hold more.
fn any_phase(path: &Path, bins: &Bins, ticks: u64, longest: u64, bounds: Bounds) -> Option<u64> {
    let (mut keeps, mut breaks) = (0, longest + 1);
    while breaks - keeps > 1 {
        let middle = keeps + (breaks - keeps) / 2;
        if bins.keeps_at_any_phase(path, middle * ticks, bounds) { keeps = middle } else { breaks = middle }
    }
    (keeps > 0).then_some(keeps)
}

/// What an interval breaks at some phase.
fn broken(path: &Path, bins: &Bins, ticks: u64, wish: &Wish) -> Constraint {
    let loss_only = Bounds { stall_longest_ns: u64::MAX, missed: 0 };
    let loses = !bins.keeps_at_any_phase(path, ticks, loss_only);
    if loses || wish.stall_longest_ns.is_none() { Constraint::Loss } else { Constraint::Stall }
}

fn free(path: &Path, bins: &Bins, ticks: u64) -> Outcome {
    // Nothing is bounded, so nothing fails.
    bins.polled(path, ticks, None).unwrap_or_default()
}

/// Intervals from the longest down.
#[derive(Default)]
struct Search {
    best: Option<(u64, Outcome)>,
    /// The most records that an interval had.
    records: u64,
    /// Those that broke a bound, the latest last.
    failed: Vec<(u64, Constraint)>,
}

impl Search {
    fn take(&mut self, step: u64, found: Result<Outcome, Fails>) {
        match found {
            Err(Fails::Loss) => self.failed.push((step, Constraint::Loss)),
            Err(Fails::Stall) => self.failed.push((step, Constraint::Stall)),
            Ok(outcome) => {
                self.records = self.records.max(outcome.report_count);
                if self.best.is_none_or(|(_, best)| outcome.stall_total_ns < best.stall_total_ns) {
                    self.best = Some((step, outcome));
                }
            }
        }
    }

    /// Whether no interval up to this one stalls less than the best so far. A window meets at most two of a longer
    /// interval, so a shorter interval has at least half the records of any longer one.
    fn is_over(&self, path: &Path, interval_ns: u64) -> bool {
        let Some((_, best)) = self.best else { return false };
        let empty_ns = path.duration_ns.div_ceil(interval_ns).saturating_mul(path.costs.empty_poll_ns(path.cores));
        let records_ns = path.costs.record_ns().saturating_mul(self.records / 2);
        empty_ns.saturating_add(records_ns) >= best.stall_total_ns
    }

    /// What the shortest interval broke that is longer than this one.
    fn failed_above(&self, step: u64) -> Option<Constraint> {
        self.failed.iter().rev().find(|failed| failed.0 > step).map(|failed| failed.1)
    }
}

/// What an interval comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Between polls.
    pub interval_ns: u64,
    /// Stall of a core per day.
    pub stall_ns_per_day: f64,
    /// Of that, what printing the lines of records takes; without console logging it is saved.
    pub lines_ns_per_day: f64,
    /// The longest unbroken stall.
    pub stall_longest_ns: u64,
    /// Errors that were lost.
    pub missed_count: u64,
    /// The share of all that is.
    pub missed_share: f64,
}

/// What each interval comes to; those that are no whole number of the bins' ticks are rounded up to one.
pub fn curve(path: &Path, bins: &Bins, intervals_ns: &[u64]) -> Vec<Point> {
    let point = |&interval_ns: &u64| {
        let ticks = interval_ns.div_ceil(bins.tick_ns()).max(1);
        let outcome = free(path, bins, ticks);
        let days = path.duration_ns as f64 / DAY_NS;
        Point {
            interval_ns: ticks * bins.tick_ns(),
            stall_ns_per_day: outcome.stall_total_ns as f64 / days,
            lines_ns_per_day: path.costs.line_ns.saturating_mul(outcome.report_count) as f64 / days,
            stall_longest_ns: outcome.stall_longest_ns,
            missed_count: outcome.missed_count,
            missed_share: outcome.missed_count as f64 / outcome.arrived_count.max(1) as f64,
        }
    };
    intervals_ns.iter().map(point).collect()
}

/// The intervals that a curve shows, nanoseconds: about ones, twos and fives up to the longest, and the one that was chosen.
pub fn intervals_shown(wish: &Wish, chosen: Option<u64>) -> Vec<u64> {
    let steps = [1u64, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 60, 90, 120, 180, 300, 600, 900, 1800, 3600];
    let known =
        steps.iter().map(|step| step * SECOND_NS).filter(|ns| (wish.shortest_ns..=wish.longest_ns).contains(ns));
    let mut all: Vec<u64> = known.chain(chosen).collect();
    all.sort_unstable();
    all.dedup();
    all
}
