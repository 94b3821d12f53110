//! A workload with and without a disturbance, again and again.
//!
//! After a run to warm up, each repetition is a pair of runs, one undisturbed and one disturbed, in an order that the seed
//! chooses. What was done is told as it happens ([`Told`]); the effect is over all pairs.

pub(crate) mod once;
mod share;
pub(crate) mod timing;

pub use timing::Timing;

use crate::Fault;
use crate::disturbance::{Chosen, Losses, Spec, Stall};
use crate::effect::{self, Effect, PAIRS_MAX, PAIRS_MIN, outliers};
use crate::workload::{Metric, Workload};
use once::Once;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_model::time_words;
use surefoot_random::Random;
use timing::Timings;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The disturbance.
    pub spec: Spec,
    /// What it is done to.
    pub workload: Workload,
    /// The number that a run comes to.
    pub metric: Metric,
    /// What both are called where they are told: a ready-made workload by its name, its number by one that ends in the unit.
    pub names: Names,
    /// Pairs of runs.
    pub repetitions: usize,
    /// Of the order of the runs and of the moments of the stalls.
    pub seed: u64,
    /// A run may take so long.
    pub time_limit: Duration,
    /// All of it may take so long.
    pub total_limit: Duration,
}

/// What a workload and its number are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The workload.
    pub workload: String,
    /// The number; `wall` for nanoseconds.
    pub metric: String,
}

impl Names {
    /// A command by itself.
    pub fn of(workload: &Workload, metric: &Metric) -> Names {
        Names { workload: workload.command.clone(), metric: metric.words() }
    }
}

/// Which kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The first one, which counts for nothing.
    WarmUp,
    /// Nothing is done.
    Undisturbed,
    /// Something is.
    Disturbed,
}

impl Condition {
    /// The word in the output.
    pub fn name(self) -> &'static str {
        match self {
            Condition::WarmUp => "warm_up",
            Condition::Undisturbed => "undisturbed",
            Condition::Disturbed => "disturbed",
        }
    }
}

/// A run that is complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Which one, from 0.
    pub number: u64,
    /// The pair that it belongs to, from 0; that to warm up belongs to none.
    pub repetition: Option<u64>,
    /// Which kind.
    pub condition: Condition,
    /// The metric; nanoseconds for the wall time.
    pub value: f64,
    /// When it began, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How long it took.
    pub wall_ns: u64,
    /// Stalls that touched it.
    pub stall_count: u64,
    /// The share of its time that the disturbed cores stood still, by what the injector did.
    pub injected_share: f64,
    /// What went otherwise than planned.
    pub losses: Losses,
    /// Processes that the workload left behind and that were ended.
    pub left_behind: u64,
    /// Output beyond what is kept.
    pub dropped_bytes: u64,
    /// The load of the machine before it, over one minute.
    pub load: Option<f64>,
}

/// What is told while it goes on.
pub enum Told<'a> {
    /// A run is complete, with its stalls in the order of their start.
    Run(&'a Run, &'a [Stall]),
}

/// What all of it comes to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The runs, in the order in which they were.
    pub runs: Vec<Run>,
    /// For each run whether it lies far from the others of its kind.
    pub outliers: Vec<bool>,
    /// Over all pairs.
    pub effect: Effect,
    /// The share of the disturbed runs' time that the disturbed cores stood still.
    pub injected_share: f64,
    /// All stalls that touched a run.
    pub stall_count: u64,
    /// What went otherwise than planned, in all runs.
    pub losses: Losses,
    /// How exactly the stalls came.
    pub timing: Timing,
}

impl Outcome {
    /// The medians of the undisturbed and of the disturbed runs.
    pub fn medians(&self) -> [f64; 2] {
        [Condition::Undisturbed, Condition::Disturbed].map(|condition| {
            let of = self.runs.iter().filter(|run| run.condition == condition);
            effect::median(of.map(|run| run.value).collect())
        })
    }
}

impl Experiment {
    /// Whether the numbers are possible.
    ///
    /// # Errors
    /// [`Fault::Refused`].
    pub fn check(&self) -> Result<(), Fault> {
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&self.repetitions) {
            let found = self.repetitions;
            return Err(Fault::Refused(format!("{found} repetitions: {PAIRS_MIN} to {PAIRS_MAX} are possible")));
        }
        Ok(())
    }

    /// Runs that there are: one to warm up, and the pairs.
    pub fn run_count(&self) -> u64 {
        1 + 2 * self.repetitions as u64
    }

    /// The conditions in the order of the runs, each with its pair.
    fn order(&self, random: &mut Random) -> Vec<(Condition, Option<u64>)> {
        let mut order = vec![(Condition::WarmUp, None)];
        for repetition in 0..self.repetitions as u64 {
            let mut pair = [Condition::Undisturbed, Condition::Disturbed];
            if random.below(2) == 1 {
                pair.reverse();
            }
            order.extend(pair.map(|condition| (condition, Some(repetition))));
        }
        order
    }

    /// Does it. `stop` ends it early.
    ///
    /// # Errors
    /// A run failed, took too long or had no metric; the workload is ended then and nothing is disturbed any more.
    pub fn run(
        &self,
        chosen: &mut Chosen,
        stop: &AtomicBool,
        mut tell: impl FnMut(Told<'_>),
    ) -> Result<Outcome, Fault> {
        self.check()?;
        let mut random = Random::new(self.seed);
        let began = Instant::now();
        let (mut runs, mut timings) = (Vec::<Run>::new(), Timings::default());
        for (number, (condition, repetition)) in self.order(&mut random).into_iter().enumerate() {
            let left = self.total_limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(Fault::Refused(format!(
                    "{number} of {} runs took {}, which is all that --total-limit allows",
                    self.run_count(),
                    time_words(u64::try_from(self.total_limit.as_nanos()).unwrap_or(u64::MAX))
                )));
            }
            let (limit, limited_by) = once::limit_of(self.time_limit, left);
            let once = Once {
                spec: &self.spec,
                workload: &self.workload,
                number: number as u64,
                condition,
                repetition,
                limit,
                limited_by,
            };
            let (mut run, printed, stalls) = once.run(chosen, stop, &mut random, &mut timings)?;
            run.value = once::value(&run, &self.metric, &printed)?;
            tell(Told::Run(&run, &stalls));
            runs.push(run);
        }
        self.outcome(runs, timings.told())
    }

    fn outcome(&self, runs: Vec<Run>, timing: Timing) -> Result<Outcome, Fault> {
        let of = |condition: Condition| runs.iter().filter(move |run| run.condition == condition);
        let value = |condition: Condition, repetition: u64| {
            of(condition).find(|run| run.repetition == Some(repetition)).map(|run| run.value)
        };
        let pairs: Vec<(f64, f64)> = (0..self.repetitions as u64)
            .filter_map(|pair| Some((value(Condition::Undisturbed, pair)?, value(Condition::Disturbed, pair)?)))
            .collect();
        let effect = Effect::of(&pairs).ok_or_else(|| Fault::Refused(format!("{} pairs of runs", pairs.len())))?;
        let mut far = vec![false; runs.len()];
        for condition in [Condition::Undisturbed, Condition::Disturbed] {
            let values: Vec<f64> = of(condition).map(|run| run.value).collect();
            let places = runs.iter().enumerate().filter(|(_, run)| run.condition == condition).map(|(place, _)| place);
            places.zip(outliers(&values)).for_each(|(place, is_far)| far[place] = is_far);
        }
        let (wall_ns, stalled_ns) = of(Condition::Disturbed).fold((0.0, 0.0), |(wall, stalled), run| {
            (wall + run.wall_ns as f64, stalled + run.wall_ns as f64 * run.injected_share)
        });
        let mut losses = Losses::default();
        runs.iter().for_each(|run| losses.add(run.losses));
        let stall_count = runs.iter().map(|run| run.stall_count).sum();
        Ok(Outcome {
            outliers: far,
            effect,
            injected_share: stalled_ns / f64::max(wall_ns, 1.0),
            stall_count,
            losses,
            timing,
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::{Phase, What};
    use crate::workload::Guard;

    fn experiment(repetitions: usize, seed: u64) -> Experiment {
        Experiment {
            spec: Spec {
                what: What::Freeze(None),
                length_ns: 1,
                period_ns: 10,
                cores: vec![],
                phase: Phase::Same,
                guest: None,
                even_on_bare_metal: false,
            },
            workload: Workload {
                command: "true".into(),
                guard: Guard { program: "none".into(), arguments: vec![] },
                cgroup: None,
                release: None,
            },
            metric: Metric::Wall,
            names: Names { workload: "true".into(), metric: "wall".into() },
            repetitions,
            seed,
            time_limit: Duration::from_secs(1),
            total_limit: Duration::from_secs(1),
        }
    }

    #[test]
    fn every_pair_has_one_of_each_and_the_seed_chooses_which_is_first() {
        let orders: Vec<Vec<(Condition, Option<u64>)>> =
            (0..20).map(|seed| experiment(8, seed).order(&mut Random::new(seed))).collect();
        for order in &orders {
            assert_eq!(order.len() as u64, experiment(8, 0).run_count());
            assert_eq!(order[0], (Condition::WarmUp, None));
            for (pair, runs) in order[1..].chunks(2).enumerate() {
                assert!(runs.iter().all(|run| run.1 == Some(pair as u64)) && runs[0].0 != runs[1].0, "{runs:?}");
            }
        }
        let firsts: usize = orders
            .iter()
            .flat_map(|order| order[1..].chunks(2))
            .filter(|pair| pair[0].0 == Condition::Disturbed)
            .count();
        assert!((55..105).contains(&firsts), "{firsts} of 160 begin disturbed");
        assert_eq!(orders[3], experiment(8, 3).order(&mut Random::new(3)));
        assert_ne!(orders[3], orders[4]);
    }

    #[test]
    fn a_number_of_repetitions_that_says_nothing_is_refused() {
        for repetitions in [0, 1, 201] {
            assert!(experiment(repetitions, 1).check().is_err(), "{repetitions}");
        }
        assert!(experiment(2, 1).check().is_ok());
    }
}
