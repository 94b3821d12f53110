//! Several workloads, each with and without several disturbances, again and again.
//!
//! A *case* is a workload with its measures and the *treatments* that it gets. A repetition runs every case, and each case once
//! undisturbed and once under each of its treatments; the seed shuffles the cases and the runs of each. So whatever
//! changes slowly on a machine is in all of them, and where the time ends early, what was done is whole repetitions. Each
//! treatment is compared with the undisturbed run of its own repetition.
//!
//! A case that fails is given up with its reason, and the others go on.

mod injectors;
mod outcome;

pub use outcome::{CaseOutcome, How, MeasureOutcome, NoResult, TreatmentOutcome};

use crate::Fault;
use crate::disturbance::{Chosen, Spec, Stall};
use crate::effect::{PAIRS_MAX, PAIRS_MIN};
use crate::experiment::once::{Once, limit_of, no_metric};
use crate::experiment::timing::Timings;
use crate::experiment::{Condition, Run};
use crate::workload::{Metric, Printed, Workload};
use injectors::Injectors;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;
use surefoot_random::Random;

/// Cases of a plan at most.
pub const CASES_MAX: usize = 100;
/// Treatments of a case at most.
pub const TREATMENTS_MAX: usize = 100;
/// Measures of a case at most.
pub const MEASURES_MAX: usize = 20;

/// How a disturbed number is compared with an undisturbed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Disturbed over undisturbed; both are above 0.
    Ratio,
    /// Disturbed less undisturbed: for shares and counts, which may be 0.
    Difference,
}

/// A number of a run.
#[derive(Debug, Clone)]
pub struct Measure {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub metric: Metric,
    /// How it is compared.
    pub compared: Compared,
}

/// A disturbance with a name.
#[derive(Debug, Clone)]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// What it is.
    pub spec: Spec,
}

/// A workload, what is measured of it, and what is done to it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// The numbers of a run; one at least.
    pub measures: Vec<Measure>,
    /// The disturbances.
    pub treatments: Vec<Treatment>,
    /// Why this host cannot do it.
    pub unsupported: Option<String>,
    /// About how long a run takes, where somebody knows; for the time left.
    pub lasts: Option<Duration>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// How often each is done.
    pub repetitions: usize,
    /// Each case is run once before, which counts for nothing.
    pub warms_up: bool,
    /// Of the order and of the moments of the stalls.
    pub seed: u64,
    /// A run may take so long.
    pub time_limit: Duration,
    /// No run begins that would probably end later than this.
    pub total_limit: Duration,
}

/// Which run of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// The case.
    pub case: usize,
    /// The repetition; none for the run that warms up.
    pub repetition: Option<u64>,
    /// The treatment; none for an undisturbed run.
    pub treatment: Option<usize>,
}

/// A run that is complete, with the numbers of its measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Which one.
    pub place: RunId,
    /// The run; its value is that of the first measure.
    pub run: Run,
    /// The numbers.
    pub values: Vec<f64>,
}

/// What is told while it goes on.
pub enum Told<'a> {
    /// A run is complete, with its stalls.
    Run {
        /// The run.
        done: &'a Done,
        /// Its stalls, in the order of their start.
        stalls: &'a [Stall],
        /// Runs that are left.
        left: u64,
        /// About how long they take.
        left_time: Duration,
    },
    /// A case failed and is left out from now on.
    GaveUp {
        /// Which case.
        case: usize,
        /// Why.
        why: &'a str,
    },
}

/// Who does the disturbances.
pub struct Prepared {
    injectors: Injectors,
    /// What this host cannot do: by case and treatment, with the reason.
    unsupported: BTreeMap<(usize, usize), String>,
    /// Whether cores are disturbed, for everybody, and not the workloads alone.
    pub is_of_cores: bool,
    /// Which ones, in their order.
    pub cores: BTreeSet<CpuId>,
}

/// What all of it comes to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Of each case.
    pub cases: Vec<CaseOutcome>,
    /// Runs that were left when the time was over.
    pub left_out: u64,
    /// The highest load before a run.
    pub load_max: f64,
    /// What injectors counted beside the stalls, of all runs that were done now.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Whether any number was compared.
    pub fn has_answer(&self) -> bool {
        let measures = self.cases.iter().flat_map(|case| &case.treatments).flat_map(|treated| &treated.measures);
        measures.into_iter().any(|measure| measure.effect.is_some() || measure.shift.is_some())
    }
}

impl Plan {
    /// Whether the numbers are possible.
    ///
    /// # Errors
    /// [`Fault::Refused`].
    pub fn check(&self) -> Result<(), Fault> {
        let within = |what: &str, found: usize, least: usize, most: usize| {
            let is_within = (least..=most).contains(&found);
            is_within
                .then_some(())
                .ok_or_else(|| Fault::Refused(format!("{found} {what}: {least} to {most} are possible")))
        };
        within("repetitions", self.repetitions, PAIRS_MIN, PAIRS_MAX)?;
        within("workloads", self.cases.len(), 1, CASES_MAX)?;
        for case in &self.cases {
            let of = |what: &str| format!("{what} of workload '{}'", case.name);
            within(&of("disturbances"), case.treatments.len(), 1, TREATMENTS_MAX)?;
            within(&of("measures"), case.measures.len(), 1, MEASURES_MAX)?;
        }
        Ok(())
    }

    /// The runs in their order. That of cases which cannot be done are not among them.
    pub fn places(&self) -> Vec<RunId> {
        let mut random = Random::new(self.seed);
        let mut places = Vec::new();
        for repetition in 0..self.repetitions as u64 {
            let mut cases: Vec<usize> = (0..self.cases.len()).collect();
            random.shuffle(&mut cases);
            for case in cases {
                let mut runs: Vec<Option<usize>> = vec![None];
                runs.extend((0..self.cases[case].treatments.len()).map(Some));
                random.shuffle(&mut runs);
                if self.cases[case].unsupported.is_some() {
                    continue;
                }
                if repetition == 0 && self.warms_up {
                    places.push(RunId { case, repetition: None, treatment: None });
                }
                places.extend(runs.into_iter().map(|treatment| RunId {
                    case,
                    repetition: Some(repetition),
                    treatment,
                }));
            }
        }
        places
    }

    /// What runs come to that are known, without any that is not.
    pub fn outcome_of(&self, known: Vec<Done>) -> Outcome {
        State::new(self, known).outcome()
    }

    /// Finds out who does the disturbances, and which of them this host cannot do.
    ///
    /// # Errors
    /// The numbers are impossible, or the machine refuses a disturbance.
    pub fn prepare(&self, root: &Root) -> Result<Prepared, Fault> {
        self.check()?;
        let mut prepared = Prepared {
            injectors: Injectors::default(),
            unsupported: BTreeMap::new(),
            is_of_cores: false,
            cores: BTreeSet::new(),
        };
        for (number, case) in self.cases.iter().enumerate().filter(|(_, case)| case.unsupported.is_none()) {
            for (place, treatment) in case.treatments.iter().enumerate() {
                match prepared.injectors.of(&treatment.spec, root) {
                    Ok(chosen) if chosen.is_of_cores => {
                        prepared.is_of_cores = true;
                        prepared.cores.extend(&chosen.cores);
                    }
                    Ok(_) => {}
                    Err(fault) if fault.is_unsupported() => {
                        prepared.unsupported.insert((number, place), fault.to_string());
                    }
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(prepared)
    }

    /// Does it, but for the runs that are `known` from before. `stop` ends it early.
    ///
    /// # Errors
    /// It was stopped, or the machine refuses a disturbance.
    pub fn run(
        &self,
        root: &Root,
        prepared: Prepared,
        known: Vec<Done>,
        stop: &AtomicBool,
        mut tell: impl FnMut(Told<'_>),
    ) -> Result<Outcome, Fault> {
        let began = Instant::now();
        let Prepared { mut injectors, unsupported, .. } = prepared;
        let mut state = State::new(self, known);
        state.leave_out(unsupported);
        let places = self.places();
        for (number, place) in places.iter().enumerate() {
            if !state.is_wanted(place) {
                continue;
            }
            let left = self.total_limit.saturating_sub(began.elapsed());
            if left < state.lasts(place) {
                state.left_out += 1;
                continue;
            }
            let once = self.once(place, number as u64, left);
            let chosen = injectors.of(once.spec, root)?;
            let mut random = Random::new(self.seed ^ (number as u64 + 1).rotate_left(32));
            let timings = state.timings.entry((place.case, place.treatment)).or_default();
            let outcome = once.run(chosen, stop, &mut random, timings);
            if place.treatment.is_some() {
                state.how.insert((place.case, place.treatment), how(chosen));
            }
            match outcome.and_then(|(run, printed, stalls)| Ok((self.done(place, run, &printed)?, stalls))) {
                Ok((done, stalls)) => {
                    state.add(done.clone());
                    let rest = places[number + 1..].iter().filter(|place| state.is_wanted(place));
                    let (mut left, mut left_time) = (0, Duration::ZERO);
                    rest.for_each(|place| {
                        left += 1;
                        left_time += state.lasts(place);
                    });
                    tell(Told::Run { done: &done, stalls: &stalls, left, left_time });
                }
                Err(fault) if is_of_workload(&fault) => {
                    let why = fault.to_string();
                    tell(Told::GaveUp { case: place.case, why: &why });
                    state.gave_up.insert(place.case, NoResult::Failed(why));
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(Outcome { notes: injectors.notes(), ..state.outcome() })
    }

    fn once(&self, place: &RunId, number: u64, left: Duration) -> Once<'_> {
        let case = &self.cases[place.case];
        let condition = match (place.repetition, place.treatment) {
            (None, _) => Condition::WarmUp,
            (Some(_), None) => Condition::Undisturbed,
            (Some(_), Some(_)) => Condition::Disturbed,
        };
        let (limit, limited_by) = limit_of(self.time_limit, left.max(Duration::from_secs(1)));
        Once {
            spec: &case.treatments[place.treatment.unwrap_or(0)].spec,
            workload: &case.workload,
            number,
            condition,
            repetition: place.repetition,
            limit,
            limited_by,
        }
    }

    /// The numbers of a run.
    fn done(&self, place: &RunId, mut run: Run, printed: &Printed) -> Result<Done, Fault> {
        let value = |measure: &Measure| {
            let read = match measure.compared {
                Compared::Ratio => measure.metric.of(run.wall_ns, &printed.text),
                Compared::Difference => measure.metric.number(run.wall_ns, &printed.text),
            };
            read.map_err(|why| no_metric(&run, printed, why))
        };
        let values = self.cases[place.case].measures.iter().map(value).collect::<Result<Vec<f64>, Fault>>()?;
        run.value = values[0];
        Ok(Done { place: *place, run, values })
    }
}

/// Whether a fault is one of the workload, and says nothing of the others.
fn is_of_workload(fault: &Fault) -> bool {
    matches!(fault, Fault::Failed { .. } | Fault::TimeLimit { .. } | Fault::Metric { .. } | Fault::Start(_))
}

/// How it is done, after a run, so that what was counted in that is in it.
fn how(chosen: &Chosen) -> How {
    How {
        method: Some(chosen.method),
        words: chosen.words,
        cores: if chosen.is_of_cores { chosen.cores.clone() } else { Vec::new() },
        not_used: chosen.not_used.clone(),
        notes: chosen.injector.notes(),
    }
}

/// What is known while the runs go on.
struct State<'a> {
    plan: &'a Plan,
    done: BTreeMap<RunId, Done>,
    gave_up: BTreeMap<usize, NoResult>,
    /// Treatments that this host cannot do.
    unsupported: BTreeMap<(usize, usize), String>,
    timings: BTreeMap<(usize, Option<usize>), Timings>,
    how: BTreeMap<(usize, Option<usize>), How>,
    left_out: u64,
}

impl<'a> State<'a> {
    fn new(plan: &'a Plan, known: Vec<Done>) -> State<'a> {
        let done = known.into_iter().map(|done| (done.place, done)).collect();
        State {
            plan,
            done,
            gave_up: BTreeMap::new(),
            unsupported: BTreeMap::new(),
            timings: BTreeMap::new(),
            how: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Runs nothing of what this host cannot do.
    fn leave_out(&mut self, unsupported: BTreeMap<(usize, usize), String>) {
        self.unsupported = unsupported;
        for (number, case) in self.plan.cases.iter().enumerate().filter(|(_, case)| case.unsupported.is_none()) {
            if (0..case.treatments.len()).all(|place| self.unsupported.contains_key(&(number, place))) {
                let why = self.unsupported.get(&(number, 0)).cloned().unwrap_or_default();
                self.gave_up.insert(number, NoResult::Unsupported(why));
            }
        }
    }

    fn is_wanted(&self, place: &RunId) -> bool {
        !self.done.contains_key(place)
            && !self.gave_up.contains_key(&place.case)
            && place.treatment.is_none_or(|treatment| !self.unsupported.contains_key(&(place.case, treatment)))
    }

    fn add(&mut self, done: Done) {
        self.done.insert(done.place, done);
    }

    /// About how long a run takes: as the longest of its case did, or as somebody said.
    fn lasts(&self, place: &RunId) -> Duration {
        let of_case =
            self.done.values().filter(|done| done.place.case == place.case).map(|done| done.run.wall_ns).max();
        let all = || self.done.values().map(|done| done.run.wall_ns).sum::<u64>() / self.done.len().max(1) as u64;
        let said = self.plan.cases[place.case].lasts;
        of_case.map(Duration::from_nanos).or(said).unwrap_or_else(|| Duration::from_nanos(all()))
    }

    fn outcome(self) -> Outcome {
        let load_max = self.done.values().filter_map(|done| done.run.load).fold(0.0, f64::max);
        let timings: BTreeMap<_, _> = self.timings.into_iter().map(|(key, timings)| (key, timings.told())).collect();
        let of = |number: usize, case: &Case| {
            let runs: Vec<Done> = self.done.values().filter(|done| done.place.case == number).cloned().collect();
            let unsupported = |treatment| self.unsupported.get(&(number, treatment)).cloned();
            let how = |treatment| self.how.get(&(number, Some(treatment))).cloned().unwrap_or_default();
            let timing = |treatment| timings.get(&(number, Some(treatment))).copied().unwrap_or_default();
            let gave_up = case.unsupported.clone().map(NoResult::Unsupported);
            let gave_up = gave_up.or_else(|| self.gave_up.get(&number).cloned());
            outcome::of(case, runs, gave_up, unsupported, how, timing)
        };
        let cases = self.plan.cases.iter().enumerate().map(|(number, case)| of(number, case)).collect();
        Outcome { cases, left_out: self.left_out, load_max, notes: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
