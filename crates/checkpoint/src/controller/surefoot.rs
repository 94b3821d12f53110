//! Our controller: optimal intervals, a budget from real wear, a bound on how old the durable copy may be.

use super::{Bucket, Decision, Place, Situation, interval};

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
        let (wished_s, is_wanted) = match decision.place {
            Place::Skip => return decision,
            Place::Memory => (self.memory_interval_s(situation), false),
            Place::Both => (self.memory_interval_s(situation), true),
            Place::Durable => (self.only_interval_s(situation), self.is_overdue(situation)),
        };
        let why = match decision.place {
            Place::Durable => format!(
                "every {wished_s:.0} s on the SSD wastes least (cost {:.2} s, a failure every {:.0} s)",
                situation.durable_cost_s,
                1.0 / (self.soft_failures_per_s + self.hard_failures_per_s)
            ),
            _ => format!(
                "every {wished_s:.0} s in memory wastes least (cost {:.2} s, a soft failure every {:.0} s)",
                situation.memory_cost_s,
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
        match (situation.can_use_memory(), situation.fits_durable) {
            (true, true) => self.decide_of_both(bucket, situation),
            (false, true) => self.decide_without_memory(bucket, situation),
            (true, false) => Decision::new(Place::Memory, "only memory can take it"),
            // What keeps it from either is said by who looks at the tiers.
            (false, false) => Decision::new(Place::Memory, "a checkpoint is asked for"),
        }
    }

    fn decide_of_both(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let budget = self.budget(bucket, situation);
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
                format!(
                    "the durable copy is {:.0} s old and would pass its bound of {:.0} s",
                    situation.since_durable_s, self.staleness_max_s
                ),
            );
            return if budget.is_enough { decision } else { decision.because(budget.text) };
        }
        if !budget.is_enough {
            let decision = Decision::new(Place::Memory, budget.text);
            return if is_overdue { decision.because(self.not_kept(situation)) } else { decision };
        }
        let wished_s = self.durable_interval_s(situation);
        let age_s = situation.since_durable_s;
        if situation.since_written_s + 1e-9 < wished_s {
            let why = format!("the durable copy is {age_s:.0} s old; every {wished_s:.0} s wastes least");
            return Decision::new(Place::Memory, why);
        }
        Decision::new(Place::Both, format!("the durable copy is {age_s:.0} s old, and every {wished_s:.0} s pays"))
            .because(budget.text)
    }

    /// Each checkpoint is a write to the drive then: as many as it bears.
    fn decide_without_memory(&self, bucket: &mut Bucket, situation: &Situation) -> Decision {
        let budget = self.budget(bucket, situation);
        let goes_first = self.is_overdue(situation) && self.priority == Priority::Staleness;
        let why = format!("{}, so each goes to the SSD", situation.memory_fault().unwrap_or_default());
        match (budget.is_enough, goes_first) {
            (true, _) => Decision::new(Place::Durable, why).because(budget.text),
            (false, true) => {
                let bound = format!(
                    "the durable copy is {:.0} s old and would pass its bound of {:.0} s",
                    situation.since_durable_s, self.staleness_max_s
                );
                Decision::new(Place::Durable, bound).because(budget.text).because(why)
            }
            (false, false) => Decision::new(Place::Skip, budget.text).because(why),
        }
    }

    /// Why the durable copy gets older than wished.
    fn not_kept(&self, situation: &Situation) -> String {
        let (bound_s, drain_s) = (self.staleness_max_s, situation.drain_s);
        let age_s = situation.since_durable_s;
        match situation.is_draining {
            true => format!(
                "its bound of {bound_s:.0} s cannot be kept: the durable copy is {age_s:.0} s old, and one takes {drain_s:.1} s to the SSD"
            ),
            false => format!(
                "its bound of {bound_s:.0} s cannot be kept: the durable copy is {age_s:.0} s old, and the drive's life goes first"
            ),
        }
    }

    /// The interval between checkpoints in memory.
    fn memory_interval_s(&self, situation: &Situation) -> f64 {
        interval::optimal_s(situation.memory_cost_s, self.soft_failures_per_s)
    }

    /// The interval between checkpoints where only the durable tier can take them, which guards against all failures.
    fn only_interval_s(&self, situation: &Situation) -> f64 {
        interval::optimal_s(situation.durable_cost_s, self.soft_failures_per_s + self.hard_failures_per_s)
    }

    /// The interval between durable checkpoints, without bounds by budget: no shorter than the drain takes.
    fn durable_interval_s(&self, situation: &Situation) -> f64 {
        interval::optimal_s(situation.durable_cost_s, self.hard_failures_per_s).max(situation.drain_s)
    }

    /// When the next checkpoint has to be taken so that the durable copy keeps its bound, seconds after the last one.
    fn latest_s(&self, situation: &Situation) -> f64 {
        (self.staleness_max_s - age_if_put_off_s(situation)).max(0.0) + situation.since_any_s
    }

    /// Whether waiting for the next call would make the durable copy too old.
    fn is_overdue(&self, situation: &Situation) -> bool {
        age_if_put_off_s(situation) >= self.staleness_max_s
    }

    fn budget(&self, bucket: &mut Bucket, situation: &Situation) -> Budget {
        let Some(drive) = situation.drive else {
            let text = "the drive's wear is not known, so its endurance limits nothing".to_owned() + &said(situation);
            return Budget { is_enough: true, text };
        };
        let rate = drive.bearable_bytes_per_s(self.granted_share);
        let most_bytes = (rate * self.burst_s).max(situation.size_bytes);
        let tokens_bytes = bucket.fill(situation.now_s, rate, most_bytes);
        Budget {
            is_enough: tokens_bytes >= situation.size_bytes,
            text: format!(
                "the drive bears {:.2} MB/s until the end of its life; {:.2} GB may be written now, {:.2} are needed{}",
                rate / 1e6,
                tokens_bytes / 1e9,
                situation.size_bytes / 1e9,
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
    use crate::controller::{Controller, Drive, Policy, YEAR_S, tests::calm};

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
                controller.written(size_bytes);
                written += size_bytes;
                durable_s = now_s;
            }
            oldest_s = oldest_s.max(now_s + situation.drain_s - durable_s);
        }
        (written, oldest_s)
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
        controller.written(worn.size_bytes);
        let decision = controller.decide(&worn);
        assert_eq!(decision.place, Place::Memory);
        assert!(decision.reasons[0].contains("0.00 MB/s"), "{decision:?}");
    }
}
