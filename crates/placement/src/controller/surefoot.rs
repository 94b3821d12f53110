//! Our controller: optimal intervals, a budget from real wear, a bound on how old the durable copy may be.

use super::interval::{self, DRAIN_PRICE_SHARE, Intervals, Tiers};
use super::loss::GAPS_LEAST;
use super::{Bucket, Decision, Drive, Place, Situation};

/// What goes first where the drive cannot bear what the bound on the durable copy's age asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// The durable copy never gets older than its bound; the drive wears out sooner.
    #[default]
    Staleness,
    /// The drive lasts to the end of its planned life; the durable copy gets older.
    Endurance,
}

/// Our controller's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surefoot {
    /// Failures per second that memory survives: a process that ends, a job that is stopped.
    pub soft_failures_per_s: f64,
    /// Failures per second that only the durable tier survives: loss of power, a node that starts anew.
    pub hard_failures_per_s: f64,
    /// How old the durable copy may get, seconds.
    pub staleness_max_s: f64,
    /// The share of the drive's rating that checkpoints and all else may use up by the end of its planned life.
    pub granted_share: f64,
    /// How many seconds of the bearable rate may be written in one burst.
    pub burst_s: f64,
    /// What goes first.
    pub priority: Priority,
}

impl Default for Surefoot {
    fn default() -> Self {
        Surefoot {
            soft_failures_per_s: 1.0 / 86_400.0,
            hard_failures_per_s: 1.0 / (7.0 * 86_400.0),
            staleness_max_s: 3_600.0,
            granted_share: 1.0,
            burst_s: 3_600.0,
            priority: Priority::Staleness,
        }
    }
}

impl Surefoot {
    /// Whether a checkpoint pays now. What the bound or the budget cannot have is no reason to ask for one at each call.
    pub(super) fn is_due(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let decision = self.decide(bucket, situation);
        let is_overdue = self.is_overdue(situation);
        let (wished_s, is_wanted) = match decision.place {
            Place::Skip => return decision,
            Place::Memory => (self.memory_interval_s(situation), false),
            // A durable one is one of those in memory: it pays with the next of them.
            Place::Both => (self.intervals(situation).memory_s, is_overdue),
            Place::Durable => (self.only_interval_s(situation), is_overdue),
        };
        let (memory_s, failures) = (situation.memory_cost_s, self.soft_failures_per_s + self.hard_failures_per_s);
        let why = match decision.place {
            Place::Durable => format!(
                "every {wished_s:.0} s on the SSD wastes least (cost {:.2} s, a failure every {:.0} s)",
                situation.durable_alone_s,
                1.0 / failures
            ),
            Place::Both if wished_s < self.memory_interval_s(situation) => format!(
                "every {wished_s:.0} s in both wastes least (cost {:.2} s, a failure every {:.0} s)",
                memory_s + durable_extra_s(situation),
                1.0 / failures
            ),
            _ => format!(
                "every {wished_s:.0} s in memory wastes least (cost {memory_s:.2} s, a soft failure every {:.0} s)",
                1.0 / self.soft_failures_per_s
            ),
        };
        if is_wanted || situation.since_any_s + 1e-9 >= wished_s {
            return decision.because(why);
        }
        let wait_s = if situation.fits_durable { wished_s.min(self.latest_s(situation)) } else { wished_s };
        let pays = format!("the last one is {:.0} s old; the next pays at {wait_s:.0} s", situation.since_any_s);
        Decision::new(Place::Skip, pays)
    }

    pub(super) fn decide(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let decision = self.decide_by_tiers(bucket, situation);
        match decision.place {
            Place::Memory if situation.memory_wear_bytes > 0.0 => self.within_wear(bucket, situation, decision),
            _ => decision,
        }
    }

    /// A memory tier that lies on a disk gets no more than the drive bears.
    fn within_wear(&self, bucket: &mut Bucket, situation: &Situation, decision: Decision) -> Decision {
        let budget = self.budget(bucket, situation, situation.memory_wear_bytes);
        let why =
            format!("{}; the memory tier is on a disk or an unknown medium, so its checkpoints count", budget.text);
        if budget.is_enough { decision.because(why) } else { Decision::new(Place::Skip, why) }
    }

    fn decide_by_tiers(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        match (situation.can_use_memory(), situation.fits_durable) {
            (true, true) => self.decide_of_both(bucket, situation),
            (false, true) => self.decide_without_memory(bucket, situation),
            (true, false) if situation.durable_rest.is_empty() => {
                Decision::new(Place::Memory, "only memory can take it")
            }
            (true, false) => Decision::new(Place::Memory, situation.durable_rest.clone()),
            // What keeps it from either is said by who looks at the tiers.
            (false, false) => Decision::new(Place::Memory, "a checkpoint is asked for"),
        }
    }

    fn decide_of_both(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let budget = self.budget(bucket, situation, situation.size_bytes + situation.memory_wear_bytes);
        let is_overdue = self.is_overdue(situation);
        if situation.is_draining {
            // The program never waits for the drive. A bound that the drive is too slow for is kept as well as it can be:
            // the next copy begins as soon as this one is there.
            let decision = Decision::new(Place::Memory, "the former one is still on its way to the SSD");
            return if is_overdue { decision.because(self.not_kept(situation)) } else { decision };
        }
        if is_overdue && (self.priority == Priority::Staleness || budget.is_enough) {
            let decision = Decision::new(
                Place::Both,
                format!("{} and would pass its bound of {:.0} s", durable_age(situation), self.staleness_max_s),
            );
            return if budget.is_enough { decision } else { decision.because(budget.text) };
        }
        if !budget.is_enough {
            let decision = Decision::new(Place::Memory, budget.text);
            return if is_overdue { decision.because(self.not_kept(situation)) } else { decision };
        }
        let wished_s = self.intervals(situation).durable_s;
        let age = durable_age(situation);
        if situation.since_written_s + 1e-9 < wished_s {
            let why = format!("{age}; every {wished_s:.0} s wastes least");
            return Decision::new(Place::Memory, why).because(cost(situation));
        }
        Decision::new(Place::Both, format!("{age}, and every {wished_s:.0} s pays"))
            .because(cost(situation))
            .because(budget.text)
    }

    /// Each checkpoint is a write to the drive then: as many as it bears.
    fn decide_without_memory(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let budget = self.budget(bucket, situation, situation.size_bytes);
        let goes_first = self.is_overdue(situation) && self.priority == Priority::Staleness;
        let why = format!("{}, so each goes to the SSD", situation.memory_fault().unwrap_or_default());
        match (budget.is_enough, goes_first) {
            (true, _) => Decision::new(Place::Durable, why).because(budget.text),
            (false, true) => {
                let bound =
                    format!("{} and would pass its bound of {:.0} s", durable_age(situation), self.staleness_max_s);
                Decision::new(Place::Durable, bound).because(budget.text).because(why)
            }
            (false, false) => Decision::new(Place::Skip, budget.text).because(why),
        }
    }

    /// Why the durable copy gets older than wished.
    fn not_kept(&self, situation: &Situation) -> String {
        let (bound_s, drain_s) = (self.staleness_max_s, situation.drain_s);
        let age = durable_age(situation);
        match situation.is_draining {
            true => {
                format!("its bound of {bound_s:.0} s cannot be kept: {age}, and one takes {drain_s:.1} s to the SSD")
            }
            false => format!("its bound of {bound_s:.0} s cannot be kept: {age}, and the drive's life goes first"),
        }
    }

    /// The interval between checkpoints in memory where none of them becomes durable.
    fn memory_interval_s(&self, situation: &Situation) -> f64 {
        interval::optimal_s(situation.memory_cost_s, self.soft_failures_per_s)
    }

    /// The interval between checkpoints where only the durable tier can take them, which guards against all failures.
    fn only_interval_s(&self, situation: &Situation) -> f64 {
        interval::optimal_s(situation.durable_alone_s, self.soft_failures_per_s + self.hard_failures_per_s)
    }

    /// The intervals where both tiers can take them, without bounds by age and budget.
    fn intervals(&self, situation: &Situation) -> Intervals {
        // Where no step was free of writes yet, a few are waited for after the first copy: what a write costs is seen beside
        // them. The first is not put off, because until then nothing survives the machine.
        let is_first = situation.durable_bytes <= 0.0;
        let quiet_s = match situation.drain_loss_s {
            None if !is_first => GAPS_LEAST as f64 * situation.step_s,
            _ => 0.0,
        };
        let tiers = Tiers {
            memory_cost_s: situation.memory_cost_s,
            durable_extra_s: durable_extra_s(situation),
            durable_least_s: situation.drain_s + quiet_s,
            drain_s: situation.drain_s,
            soft_failures_per_s: self.soft_failures_per_s,
            hard_failures_per_s: self.hard_failures_per_s,
        };
        tiers.intervals()
    }

    /// When the next checkpoint has to be taken so that the durable copy keeps its bound, seconds after the last one.
    fn latest_s(&self, situation: &Situation) -> f64 {
        (self.staleness_max_s - age_if_put_off_s(situation)).max(0.0) + situation.since_any_s
    }

    /// Whether waiting for the next call would make the durable copy too old.
    fn is_overdue(&self, situation: &Situation) -> bool {
        age_if_put_off_s(situation) >= self.staleness_max_s
    }

    /// Brings the budget up to now; nothing where the drive's wear is not known.
    pub(super) fn refill(&self, bucket: &mut Bucket, situation: &Situation) {
        if let Some(drive) = &situation.drive {
            self.fill(bucket, drive, situation);
        }
    }

    /// Fills the bucket up to now; the rate that the drive bears, and what may be written now.
    fn fill(&self, bucket: &mut Bucket, drive: &Drive, situation: &Situation) -> (f64, f64) {
        let rate = drive.bearable_bytes_per_s(self.granted_share);
        let most_bytes = (rate * self.burst_s).max(situation.size_bytes + situation.memory_wear_bytes);
        (rate, bucket.fill(situation.now_s, rate, most_bytes))
    }

    /// Whether the drive bears a write of so many bytes now.
    fn budget(&self, bucket: &mut Bucket, situation: &Situation, needed_bytes: f64) -> Budget {
        let Some(drive) = situation.drive else {
            let text = "the drive's wear is not known, so its endurance limits nothing".to_owned() + &said(situation);
            return Budget { is_enough: true, text };
        };
        let (rate, tokens_bytes) = self.fill(bucket, &drive, situation);
        Budget {
            is_enough: tokens_bytes >= needed_bytes,
            text: format!(
                "the drive bears {:.2} MB/s until the end of its life; {:.2} GB may be written now, {:.2} are needed{}",
                rate / 1e6,
                tokens_bytes / 1e9,
                needed_bytes / 1e9,
                said(situation)
            ),
        }
    }
}

/// How old the durable copy gets when the decision is put off to the next call: a step until then, the way to the SSD,
/// and up to another step until the call that finds it written and marks it as complete.
fn age_if_put_off_s(situation: &Situation) -> f64 {
    situation.since_written_s + 2.0 * situation.step_s + situation.drain_s
}

/// How old the durable copy is, the beginning of a sentence; or that this run has none yet.
fn durable_age(situation: &Situation) -> String {
    let age_s = situation.since_durable_s;
    match situation.durable_bytes > 0.0 {
        true => format!("the durable copy is {age_s:.0} s old"),
        false => format!("this run has no durable copy yet ({age_s:.0} s since its start)"),
    }
}

/// What a durable copy costs the program beyond the copy in memory: what it waits for, and what it loses while it is written.
fn durable_extra_s(situation: &Situation) -> f64 {
    situation.durable_extra_s + situation.drain_loss_s.unwrap_or(0.0)
}

/// The same as a sentence.
fn cost(situation: &Situation) -> String {
    let waits_s = situation.durable_extra_s;
    let price_s = DRAIN_PRICE_SHARE * situation.drain_s;
    match situation.drain_loss_s {
        Some(_) if durable_extra_s(situation) < price_s => format!(
            "a durable copy costs {:.2} s more than one in memory, counted as {price_s:.2} s ({:.0} % of its {:.0} s of \
             writing) for wear of the drive",
            durable_extra_s(situation),
            100.0 * DRAIN_PRICE_SHARE,
            situation.drain_s
        ),
        Some(lost_s) => format!(
            "a durable copy costs {:.2} s more than one in memory: {waits_s:.2} s of waiting and {lost_s:.2} s by which it \
             slows the program while it is written",
            durable_extra_s(situation)
        ),
        None => format!(
            "a durable copy costs {waits_s:.2} s more waiting than one in memory; how much it slows the program while it is \
             written is not known yet"
        ),
    }
}

/// What the drive's wear is known from, to follow a sentence.
fn said(situation: &Situation) -> String {
    if situation.drive_said.is_empty() { String::new() } else { format!(": {}", situation.drive_said) }
}

struct Budget {
    is_enough: bool,
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Controller, Policy, YEAR_S, tests::calm};

    fn drive(rated_bytes: f64) -> Option<Drive> {
        Some(Drive { rated_bytes, written_bytes: 0.0, remaining_s: 5.0 * YEAR_S, rated_life_s: 5.0 * YEAR_S })
    }

    /// Takes a checkpoint every 5 s for a day; returns the bytes to the SSD and the greatest age of the durable copy.
    fn day(policy: Surefoot, size_bytes: f64, rated_bytes: f64) -> (f64, f64) {
        let mut controller = Controller::new(Policy::Surefoot(policy));
        let (mut written, mut durable_s, mut oldest_s) = (0.0, 0.0, 0.0f64);
        for step in 1..=17_280u64 {
            let now_s = step as f64 * 5.0;
            let situation = Situation {
                now_s,
                size_bytes,
                since_any_s: 5.0,
                since_durable_s: now_s - durable_s,
                since_written_s: now_s - durable_s,
                drive: drive(rated_bytes),
                ..calm()
            };
            let decision = controller.decide(&situation);
            assert!(!decision.reasons.is_empty());
            if decision.place.is_durable() {
                controller.spend(size_bytes);
                written += size_bytes;
                durable_s = now_s;
            }
            oldest_s = oldest_s.max(now_s + situation.drain_s - durable_s);
        }
        (written, oldest_s)
    }

    #[test]
    fn a_memory_tier_on_a_disk_gets_no_more_than_the_drive_bears() {
        let mut controller = Controller::new(Policy::Surefoot(Surefoot::default()));
        let (mut written, mut skipped, mut taken) = (0.0, 0, 0);
        for step in 1..=17_280u64 {
            let now_s = step as f64 * 5.0;
            let alone = Situation { has_durable: false, fits_durable: false, ..calm() };
            let situation = Situation { now_s, memory_wear_bytes: 1e9, drive: drive(600e12), ..alone };
            let decision = controller.decide(&situation);
            assert!(decision.reasons.join("; ").contains("the memory tier is on a disk"), "{decision:?}");
            match decision.place {
                Place::Memory => {
                    controller.spend(1e9);
                    (written, taken) = (written + 1e9, taken + 1);
                }
                _ => skipped += 1,
            }
        }
        // 3.8 MB/s is 328.5 GB a day, and a burst of an hour at the start.
        assert!((300e9..=342.2e9).contains(&written) && skipped > taken, "{written} {skipped} {taken}");
        // A durable copy pays every 602 s here.
        let both = Situation { memory_wear_bytes: 1e9, drive: drive(600e12), since_written_s: 700.0, ..calm() };
        let mut controller = Controller::new(Policy::Surefoot(Surefoot::default()));
        assert_eq!(controller.decide(&both).place, Place::Both);
        let unworn = Situation { drive: None, ..both };
        assert_eq!(controller.decide(&unworn).place, Place::Both, "an unknown wear limits nothing, and says so");
    }

    #[test]
    fn the_budget_is_kept_and_the_durable_copy_never_gets_too_old() {
        // 3.8 MB/s may be written, which is 328.5 GB a day, and a burst of an hour at the start.
        let (written, oldest_s) = day(Surefoot::default(), 8e9, 600e12);
        assert!(written <= 342.2e9 && oldest_s <= 3_600.0, "{written} {oldest_s}");
        // 64 GB each hour is more than the drive bears: what goes first decides.
        let (written, oldest_s) = day(Surefoot::default(), 64e9, 600e12);
        assert!(written > 1_300e9 && oldest_s <= 3_600.0, "{written} {oldest_s}");
        let endurance = Surefoot { priority: Priority::Endurance, ..Surefoot::default() };
        let (written, oldest_s) = day(endurance, 64e9, 600e12);
        assert!(written <= 328.5e9 + 64e9 && oldest_s > 3_600.0, "{written} {oldest_s}");
    }

    #[test]
    fn the_interval_of_durable_copies_is_the_plan_s_and_counts_only_what_they_cost_more() {
        use crate::plan::{Job, plan};
        for (memory_mtbf_s, durable_mtbf_s, waiting_share) in
            [(3_600.0, 10_800.0, 1.0), (3_600.0, 10_800.0, 0.1), (86_400.0, 604_800.0, 0.2), (86_400.0, 3_600.0, 0.01)]
        {
            // 20 s in memory, 250 s to the SSD.
            let job = Job {
                size_bytes: 50e9,
                compute_s: 1.0,
                memory_mtbf_s,
                durable_mtbf_s,
                memory_bytes_per_s: 2.5e9,
                durable_bytes_per_s: 0.2e9,
                waiting_share,
                drive: None,
                staleness_max_s: None,
            };
            let planned = plan(&job).unbounded;
            let policy = Surefoot {
                soft_failures_per_s: 1.0 / memory_mtbf_s,
                hard_failures_per_s: 1.0 / durable_mtbf_s,
                staleness_max_s: 1e12,
                ..Surefoot::default()
            };
            let mut controller = Controller::new(Policy::Surefoot(policy));
            let mut place = |since_s: f64| {
                let situation = Situation {
                    since_any_s: planned.memory_interval_s,
                    since_written_s: since_s,
                    since_durable_s: since_s,
                    memory_cost_s: 20.0,
                    durable_extra_s: 0.4 * waiting_share * 250.0,
                    drain_loss_s: Some(0.6 * waiting_share * 250.0),
                    drain_s: 250.0,
                    ..calm()
                };
                [controller.decide(&situation).place, controller.is_due(&situation).place]
            };
            let planned_s = planned.durable_interval_s;
            assert!(planned_s > 250.0 || waiting_share < 0.1, "{planned:?}");
            assert_eq!(place(planned_s * 0.999)[0], Place::Memory, "{planned:?}");
            assert_eq!(place(planned_s * 1.001), [Place::Both; 2], "{planned:?}");
        }
    }

    #[test]
    fn nobody_is_told_the_age_of_a_durable_copy_that_there_is_not() {
        let mut controller = Controller::new(Policy::Surefoot(Surefoot::default()));
        for (durable_bytes, begins) in [(0.0, "this run has no durable copy yet"), (1.0, "the durable copy is 0 s old")]
        {
            for since_written_s in [0.0, 1e9] {
                let situation = Situation { durable_bytes, since_durable_s: 0.0, since_written_s, ..calm() };
                let said = controller.decide(&situation).reasons.join("; ");
                assert!(said.starts_with(begins), "{said}");
            }
        }
    }

    #[test]
    fn a_checkpoint_pays_only_at_its_interval() {
        let mut controller = Controller::new(Policy::Surefoot(Surefoot::default()));
        let wished_s = interval::optimal_s(0.2, 1.0 / 86_400.0);
        let early = controller.is_due(&Situation { since_any_s: wished_s - 1.0, ..calm() });
        assert_eq!(early.place, Place::Skip, "{early:?}");
        let due = controller.is_due(&Situation { since_any_s: wished_s, ..calm() });
        assert_eq!(due.place, Place::Memory, "{due:?}");
        let old = controller.is_due(&Situation { since_any_s: 20.0, since_written_s: 3_590.0, ..calm() });
        assert_eq!(old.place, Place::Both, "{old:?}");
    }

    #[test]
    fn a_busy_drain_waits_and_unknown_wear_holds_nothing_back() {
        let policy = Surefoot { hard_failures_per_s: 1.0, ..Surefoot::default() };
        let mut controller = Controller::new(Policy::Surefoot(policy));
        assert_eq!(controller.decide(&calm()).place, Place::Both);
        assert_eq!(controller.decide(&Situation { is_draining: true, ..calm() }).place, Place::Memory);
        let worn = Drive { rated_bytes: 1e9, written_bytes: 2e9, remaining_s: 1.0, rated_life_s: 1.0 };
        // What is over the rating leaves no room but for the first one, with which the bucket begins.
        let worn = Situation { drive: Some(worn), ..calm() };
        assert_eq!(controller.decide(&worn).place, Place::Both);
        controller.spend(worn.size_bytes);
        let decision = controller.decide(&worn);
        assert_eq!(decision.place, Place::Memory);
        assert!(decision.reasons[0].contains("0.00 MB/s"), "{decision:?}");
    }
}
