//! A workload with and without a disturbance, again and again.
//!
//! After a run to warm up, each repetition is a pair of runs, one undisturbed and one disturbed, in an order that the seed
//! chooses. What was done is told as it happens ([`Told`]); the effect is over all pairs.

mod share;
mod timing;

pub use timing::Timing;

use crate::Fault;
use crate::disturbance::{Chosen, Losses, Schedule, Spec, Stall, schedule};
use crate::effect::{self, Effect, PAIRS_MAX, PAIRS_MIN, outliers};
use crate::random::Random;
use crate::workload::{Ended, Metric, Printed, Running, Waited, Workload};
use share::share;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;
use timing::Timings;

/// From arming to the earliest stall: every core is armed by then, also on a busy machine.
const ARMING_NS: u64 = 20_000_000;
/// Stalls of one run that are kept; of more only the number and the share are known.
const STALLS_MAX: usize = 1 << 20;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The disturbance.
    pub spec: Spec,
    /// What it is done to.
    pub workload: Workload,
    /// The number that a run comes to.
    pub metric: Metric,
    /// Pairs of runs.
    pub repetitions: usize,
    /// Of the order of the runs and of the moments of the stalls.
    pub seed: u64,
    /// A run may take so long.
    pub time_limit: Duration,
    /// All of it may take so long.
    pub total_limit: Duration,
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
                    "{number} of {} runs took {} s, which is all that --total-limit allows",
                    self.run_count(),
                    self.total_limit.as_secs()
                )));
            }
            let one = One {
                experiment: self,
                number: number as u64,
                condition,
                repetition,
                limit: left.min(self.time_limit),
            };
            let (run, stalls) = one.run(chosen, stop, &mut random, &mut timings)?;
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

/// One run.
struct One<'a> {
    experiment: &'a Experiment,
    number: u64,
    condition: Condition,
    repetition: Option<u64>,
    limit: Duration,
}

impl One<'_> {
    fn run(
        &self,
        chosen: &mut Chosen,
        stop: &AtomicBool,
        random: &mut Random,
        timings: &mut Timings,
    ) -> Result<(Run, Vec<Stall>), Fault> {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped { runs: self.number });
        }
        let load = load();
        // Drawn for each run alike, so that what a run is does not move the numbers of those after it.
        let span_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
        let workload = Workload { cgroup: chosen.injector.home()?, ..self.experiment.workload.clone() };
        let mut running = Running::prepare(&workload)?;
        let from_ns = monotonic_ns() + ARMING_NS;
        let schedule = schedule(&self.experiment.spec, &chosen.cores, from_ns, span_ns, random);
        let mut stalls = Vec::new();
        let waited = if self.condition == Condition::Disturbed {
            self.disturbed(&mut running, chosen, &schedule, stop, &mut stalls)?
        } else {
            running.begin()?;
            (running.wait(self.limit, || !stop.load(Ordering::Relaxed))?, Losses::default())
        };
        let (ended, losses) = match waited {
            (Waited::Ended(ended), losses) => (ended, losses),
            (Waited::Stopped, _) => return Err(Fault::Stopped { runs: self.number }),
            (Waited::TimeLimit, _) => {
                let (run, condition) = (self.number, self.condition.name());
                return Err(Fault::TimeLimit { run, condition, limit_s: self.limit.as_secs() });
            }
        };
        let (left_behind, printed) = running.finish()?;
        let value = self.value(&ended, &printed)?;
        timings.add(&stalls, &schedule);
        stalls.retain(|stall| stall.start_ns < ended.end_ns && stall.end_ns() > ended.start_ns);
        stalls.sort_by_key(|stall| (stall.start_ns, stall.cpu));
        let injected_share = share(&stalls, ended.start_ns, ended.end_ns, chosen.cores.len());
        let run = Run {
            number: self.number,
            repetition: self.repetition,
            condition: self.condition,
            value,
            start_ns: ended.start_ns,
            wall_ns: ended.end_ns - ended.start_ns,
            stall_count: stalls.len() as u64,
            injected_share,
            losses,
            left_behind,
            dropped_bytes: printed.dropped_bytes,
            load,
        };
        Ok((run, stalls))
    }

    fn disturbed(
        &self,
        running: &mut Running,
        chosen: &mut Chosen,
        schedule: &Schedule,
        stop: &AtomicBool,
        stalls: &mut Vec<Stall>,
    ) -> Result<(Waited, Losses), Fault> {
        let injector = &mut chosen.injector;
        injector.arm(schedule)?;
        let mut over = 0;
        let waited = running.begin().and_then(|group| {
            injector.workload_began(group);
            running.wait(self.limit, || {
                injector.collect(stalls);
                over += keep(stalls);
                !stop.load(Ordering::Relaxed)
            })
        });
        // Whatever happened, it ends here.
        let losses = injector.end(stalls);
        over += keep(stalls);
        let (waited, losses) = (waited?, losses?);
        Ok((waited, Losses { dropped: losses.dropped + over, ..losses }))
    }

    fn value(&self, ended: &Ended, printed: &Printed) -> Result<f64, Fault> {
        if ended.code != 0 {
            let words = match printed.errors.trim() {
                "" => String::new(),
                errors => format!(": {}", errors.lines().last().unwrap_or_default()),
            };
            let (run, condition, code) = (self.number, self.condition.name(), ended.code);
            return Err(Fault::Failed { run, condition, code, words });
        }
        let value = self.experiment.metric.of(ended.end_ns - ended.start_ns, &printed.text);
        value.map_err(|why| {
            let more = match printed.dropped_bytes {
                0 => String::new(),
                dropped => format!(" ({dropped} bytes of its output were beyond what is kept)"),
            };
            Fault::Metric { run: self.number, why: why + &more }
        })
    }
}

/// Leaves what is over the limit away; returns how many these were.
fn keep(stalls: &mut Vec<Stall>) -> u64 {
    let over = stalls.len().saturating_sub(STALLS_MAX);
    stalls.truncate(STALLS_MAX);
    over as u64
}

fn load() -> Option<f64> {
    let root = surefoot_hostfs::Root::host();
    root.read(root.proc("loadavg")).ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::{Phase, What};
    use crate::workload::Guard;

    fn experiment(repetitions: usize, seed: u64) -> Experiment {
        Experiment {
            spec: Spec { what: What::Freeze(None), length_ns: 1, period_ns: 10, cores: vec![], phase: Phase::Same },
            workload: Workload {
                command: "true".into(),
                guard: Guard { program: "none".into(), arguments: vec![] },
                cgroup: None,
            },
            metric: Metric::Wall,
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
