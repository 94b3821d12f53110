//! What a job's checkpoints will cost, how old the durable copy gets, and when the drive wears out. Pure.
//!
//! The waste of two tiers is C1/t1 + C2/t2 + l1 t1/2 + l2 t2/2; the intervals are those of [`interval::Tiers`], as in the
//! controller. The durable one has two bounds: the drive bears one every size/B seconds, where B is what may still be written per
//! second until the end of its planned life; and the user may bound the age of the durable copy. Where both cannot be kept
//! the trade is shown.

use crate::controller::{Drive, YEAR_S, interval};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// What is known beforehand. Seconds and bytes; per node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Bytes of one checkpoint.
    pub size_bytes: f64,
    /// Seconds of work between two moments at which a checkpoint is possible.
    pub compute_s: f64,
    /// Seconds between failures that memory survives.
    pub memory_mtbf_s: f64,
    /// Seconds between failures that only the durable tier survives.
    pub durable_mtbf_s: f64,
    /// Speed of the memory tier.
    pub memory_bytes_per_s: f64,
    /// Speed of the durable tier.
    pub durable_bytes_per_s: f64,
    /// The share of a durable write's time that the program loses: 1 where it stops, less in the background, where it waits
    /// for little and is slower meanwhile.
    pub waiting_share: f64,
    /// The drive, where its endurance is known.
    pub drive: Option<Drive>,
    /// How old the durable copy may get.
    pub staleness_max_s: Option<f64>,
}

/// A choice of intervals, and what it leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Seconds between checkpoints in memory.
    pub memory_interval_s: f64,
    /// Seconds between durable checkpoints.
    pub durable_interval_s: f64,
    /// The share of the time that checkpoints take.
    pub checkpoint_share: f64,
    /// The share of the time that goes to work that failures take back.
    pub lost_work_share: f64,
    /// How old the durable copy gets: an interval, and the time that the next one takes to be written.
    pub staleness_s: f64,
    /// Bytes written to the drive per day.
    pub bytes_per_day: f64,
    /// Seconds until the drive's rating is used up; `None` where it is not known.
    pub drive_left_s: Option<f64>,
}

impl Outcome {
    /// The share of the time that is no useful work.
    pub fn waste(&self) -> f64 {
        self.checkpoint_share + self.lost_work_share
    }
}

/// What stands between a job and its best intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Nothing.
    None,
    /// The drive's endurance.
    Endurance,
    /// The bound on the age of the durable copy.
    Staleness,
    /// Both: what one asks for the other forbids.
    Conflict,
}

impl Bound {
    /// A word for JSON.
    pub fn label(self) -> &'static str {
        match self {
            Bound::None => "none",
            Bound::Endurance => "endurance",
            Bound::Staleness => "staleness",
            Bound::Conflict => "conflict",
        }
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What would waste least if the drive bore everything and no age were bounded.
    pub unbounded: Outcome,
    /// What keeps the drive to the end of its planned life.
    pub endurance: Option<Outcome>,
    /// What keeps the durable copy as young as wished.
    pub staleness: Option<Outcome>,
    /// What stands in the way.
    pub bound: Bound,
    /// Bytes per second that the drive bears.
    pub bearable_bytes_per_s: Option<f64>,
    /// What there is to know, a sentence each.
    pub notes: Vec<String>,
}

impl Plan {
    /// What will happen: the staleness bound goes first where both are impossible, as in the controller.
    pub fn chosen(&self) -> &Outcome {
        let bounded = match self.bound {
            Bound::None => None,
            Bound::Endurance => self.endurance.as_ref(),
            Bound::Staleness | Bound::Conflict => self.staleness.as_ref(),
        };
        bounded.unwrap_or(&self.unbounded)
    }
}

/// Plans a job.
pub fn plan(job: &Job) -> Plan {
    let write_s = job.size_bytes / job.durable_bytes_per_s;
    let bearable = job.drive.map(|drive| drive.bearable_bytes_per_s(1.0));
    let borne_s = bearable.map_or(0.0, |rate| if rate > 0.0 { job.size_bytes / rate } else { f64::INFINITY });
    let (memory_s, wished_s) = intervals(job, write_s);
    // The age counts the time on the way to the drive.
    let oldest_s = job.staleness_max_s.map_or(f64::INFINITY, |staleness| (staleness - write_s).max(0.0));
    let unbounded = outcome(job, memory_s, wished_s);
    let endurance = bearable.map(|_| {
        let (memory_s, durable_s) = intervals(job, write_s.max(borne_s));
        outcome(job, memory_s, durable_s)
    });
    let staleness = job.staleness_max_s.map(|_| {
        let durable_s = wished_s.min(oldest_s).max(write_s);
        outcome(job, memory_s.min(durable_s).max(job.compute_s.min(durable_s)), durable_s)
    });
    let bound = match (wished_s < borne_s, wished_s > oldest_s, borne_s > oldest_s) {
        (true, _, true) | (_, true, true) => Bound::Conflict,
        (true, _, false) => Bound::Endurance,
        (false, true, false) => Bound::Staleness,
        (false, false, _) => Bound::None,
    };
    let mut plan = Plan { unbounded, endurance, staleness, bound, bearable_bytes_per_s: bearable, notes: Vec::new() };
    plan.notes = notes(job, &plan, write_s);
    plan
}

/// The intervals that waste least, in memory and durable, where durable ones are no closer than `least_s`: those that the
/// controller goes by, and no shorter than the moments at which a checkpoint is possible.
fn intervals(job: &Job, least_s: f64) -> (f64, f64) {
    let tiers = interval::Tiers {
        memory_cost_s: job.size_bytes / job.memory_bytes_per_s,
        durable_extra_s: job.size_bytes / job.durable_bytes_per_s * job.waiting_share,
        durable_least_s: least_s,
        drain_s: job.size_bytes / job.durable_bytes_per_s,
        soft_failures_per_s: 1.0 / job.memory_mtbf_s,
        hard_failures_per_s: 1.0 / job.durable_mtbf_s,
    };
    let intervals = tiers.intervals();
    let memory_s = intervals.memory_s.max(job.compute_s);
    (memory_s, intervals.durable_s.max(memory_s))
}

/// What a durable interval of so many seconds leads to, all else as planned; for charts.
pub fn at_interval(job: &Job, durable_interval_s: f64) -> Outcome {
    outcome(job, plan(job).unbounded.memory_interval_s.min(durable_interval_s), durable_interval_s)
}

fn outcome(job: &Job, memory_interval_s: f64, durable_interval_s: f64) -> Outcome {
    let memory_cost_s = job.size_bytes / job.memory_bytes_per_s;
    let write_s = job.size_bytes / job.durable_bytes_per_s;
    let durable_cost_s = write_s * job.waiting_share;
    let per_s = |cost_s: f64, interval_s: f64| interval::waste(cost_s, interval_s, 0.0);
    let rate = if durable_interval_s.is_finite() { job.size_bytes / durable_interval_s } else { 0.0 };
    Outcome {
        memory_interval_s,
        durable_interval_s,
        checkpoint_share: per_s(memory_cost_s, memory_interval_s) + per_s(durable_cost_s, durable_interval_s),
        lost_work_share: memory_interval_s / (2.0 * job.memory_mtbf_s)
            + durable_interval_s / (2.0 * job.durable_mtbf_s),
        staleness_s: durable_interval_s + write_s,
        bytes_per_day: rate * DAY_S,
        drive_left_s: job.drive.map(|drive| {
            let left_bytes = (drive.rated_bytes - drive.written_bytes).max(0.0);
            match () {
                () if left_bytes == 0.0 => 0.0,
                () if rate > 0.0 => left_bytes / rate,
                () => f64::INFINITY,
            }
        }),
    }
}

fn notes(job: &Job, plan: &Plan, write_s: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let points = |more: &Outcome, less: &Outcome| 100.0 * (more.waste() - less.waste());
    let rate = |outcome: &Outcome| outcome.bytes_per_day / DAY_S;
    if let (Some(borne), Some(bearable)) = (&plan.endurance, plan.bearable_bytes_per_s)
        && plan.unbounded.durable_interval_s < borne.durable_interval_s
    {
        notes.push(match bearable > 0.0 {
            true => format!(
                "the drive bears {:.2} MB/s, and the best interval writes {:.1} MB/s: buy {:.1} times the endurance, or \
                 accept {:.0} points more waste",
                bearable / 1e6,
                rate(&plan.unbounded) / 1e6,
                rate(&plan.unbounded) / bearable,
                points(borne, &plan.unbounded)
            ),
            false => "nothing is left of the drive's rating: it bears no durable checkpoint".into(),
        });
    }
    if let (Bound::Conflict, Some(borne), Some(young), Some(bound_s)) =
        (plan.bound, &plan.endurance, &plan.staleness, job.staleness_max_s)
    {
        let years = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY) / YEAR_S;
        let wished = job.drive.map(|drive| drive.remaining_s);
        notes.push(format!(
            "a durable copy never older than {bound_s:.0} s wears the drive out in {:.2} years instead of {:.2}; a drive \
             that lasts lets the copy get {:.0} s old",
            years(young.drive_left_s),
            years(wished),
            borne.staleness_s
        ));
    }
    if let Some(bound_s) = job.staleness_max_s.filter(|&bound_s| bound_s < 2.0 * write_s) {
        notes.push(format!(
            "writing one takes {write_s:.0} s, so a copy is never younger than that when the next is there: an age of \
             {bound_s:.0} s cannot be promised"
        ));
    }
    if plan.chosen().waste() >= 1.0 {
        notes.push("overhead exceeds 100 %: the job would never finish".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn job(size_bytes: f64, memory_mtbf_s: f64, durable_mtbf_s: f64) -> Job {
        Job {
            size_bytes,
            compute_s: 5.0,
            memory_mtbf_s,
            durable_mtbf_s,
            memory_bytes_per_s: 2.7e9,
            durable_bytes_per_s: 0.25e9,
            waiting_share: 1.0,
            drive: None,
            staleness_max_s: None,
        }
    }

    fn drive(rated_bytes: f64) -> Option<Drive> {
        let remaining_s = 5.0 * YEAR_S;
        Some(Drive { rated_bytes, written_bytes: 0.0, remaining_s, rated_life_s: remaining_s })
    }

    fn near(value: f64, wanted: f64, share: f64) {
        assert!((value - wanted).abs() <= share * wanted.abs(), "{value} instead of {wanted}");
    }

    #[test]
    fn large_checkpoints_and_frequent_failures_outrun_a_cheap_drive() {
        let large = job(64e9, 3_600.0, 10_800.0);
        let plan = super::plan(&Job { drive: drive(14.6e15), ..large });
        near(plan.unbounded.durable_interval_s, 2_352.0, 0.001);
        near(plan.unbounded.bytes_per_day / DAY_S, 27.2e6, 0.01);
        near(plan.unbounded.waste(), 0.33, 0.02);
        assert_eq!((plan.bound, plan.notes.len()), (Bound::None, 0), "free on the paper's drive");
        let plan = super::plan(&Job { drive: drive(1_200e12), ..large });
        assert_eq!(plan.bound, Bound::Endurance);
        near(plan.chosen().durable_interval_s, 8_421.0, 0.001);
        near(plan.chosen().waste(), 0.53, 0.01);
        near(plan.chosen().drive_left_s.unwrap(), 5.0 * YEAR_S, 1e-9);
        assert!(plan.notes[0].contains("3.6 times") && plan.notes[0].contains("20 points"), "{:?}", plan.notes);
    }

    #[test]
    fn small_checkpoints_and_rare_failures_ask_little_of_any_drive() {
        let plan = super::plan(&Job { drive: drive(600e12), ..job(8e9, DAY_S, 7.0 * DAY_S) });
        near(plan.unbounded.memory_interval_s, 716.0, 0.001);
        near(plan.unbounded.durable_interval_s, 6_222.0, 0.001);
        near(plan.unbounded.bytes_per_day / DAY_S, 1.3e6, 0.02);
        assert_eq!(plan.bound, Bound::None);
    }

    #[test]
    fn where_cap_and_budget_conflict_both_ways_are_shown_and_the_cap_goes_first() {
        let large = Job { drive: drive(1_200e12), staleness_max_s: Some(3_600.0), ..job(64e9, 3_600.0, 10_800.0) };
        let plan = super::plan(&large);
        assert_eq!(plan.bound, Bound::Conflict);
        assert!(plan.chosen().staleness_s <= 3_600.0 + 1e-6);
        assert!(plan.endurance.unwrap().staleness_s > 8_000.0);
        // 64 GB every 2,352 s, which the bound allows, use up 1,200 TB in 1.4 years.
        near(plan.chosen().drive_left_s.unwrap() / YEAR_S, 1.4, 0.02);
        assert!(plan.notes.iter().any(|note| note.contains("1.40 years instead of 5.00")), "{:?}", plan.notes);
        let impossible = super::plan(&Job { staleness_max_s: Some(300.0), drive: None, ..large });
        assert!(impossible.notes[0].contains("cannot be promised"), "{:?}", impossible.notes);
        let worn = Drive { written_bytes: 1_200e12, ..drive(1_200e12).unwrap() };
        let plan = super::plan(&Job { drive: Some(worn), staleness_max_s: None, ..large });
        assert!(plan.notes[0].contains("nothing is left"), "{:?}", plan.notes);
        assert_eq!(plan.chosen().bytes_per_day, 0.0);
    }

    #[test]
    fn no_other_interval_wastes_less_within_the_bounds() {
        let large = job(64e9, 3_600.0, 10_800.0);
        let best = super::plan(&large).unbounded.waste();
        for factor in [0.5, 0.8, 1.25, 2.0] {
            assert!(at_interval(&large, 2_352.0 * factor).waste() > best);
        }
    }
}
