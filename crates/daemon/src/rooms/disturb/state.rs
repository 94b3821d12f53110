//! The fold over what journals say of experiments; pure, so that a recording folds to the same.

use super::stalls::{CoreStalls, by_core};
use crate::http::access::Viewer;
use std::collections::BTreeMap;
use surefoot_model::{
    CpuId, DisturbEvent, ExperimentBegan, ExperimentEnded, ExperimentLook, ExperimentRow, ExperimentRun, InjectedStall,
};

/// Experiments that are kept: the newest.
pub(super) const EXPERIMENTS_MAX: usize = 128;
/// Runs of one that are kept.
const RUNS_MAX: usize = 512;
/// Stalls of one that are kept.
const STALLS_MAX: usize = 1 << 14;
/// Rows of one that are kept.
const ROWS_MAX: usize = 1024;
/// Cores whose stalls are counted one by one.
const CORES_MAX: usize = 1024;

/// What is known of one experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Experiment {
    /// What is done, and to what.
    pub began: ExperimentBegan,
    /// The runs that are complete, in their order.
    pub runs: Vec<ExperimentRun>,
    /// Runs beyond those that are kept.
    pub runs_left_out: u64,
    /// The stalls of these runs, in the order of their start.
    pub stalls: Vec<InjectedStall>,
    /// Stalls beyond those.
    pub stalls_left_out: u64,
    /// What the numbers of one with several workloads or disturbances came to.
    pub rows: Vec<ExperimentRow>,
    /// Rows beyond those that are kept.
    pub rows_left_out: u64,
    /// How it ended; `None` while it runs.
    pub ended: Option<ExperimentEnded>,
}

impl Experiment {
    /// Runs that are complete.
    pub fn runs_done(&self) -> u64 {
        self.runs.len() as u64 + self.runs_left_out
    }

    /// Whether it has several workloads or disturbances, so that no one number is its own.
    pub fn is_of_several(&self) -> bool {
        let ExperimentBegan { series, part, .. } = &self.began;
        (!series.is_empty() && part.is_empty()) || !self.rows.is_empty()
    }

    /// Its stalls core by core; none where they were of several lengths.
    pub fn stalls_by_core(&self) -> Vec<CoreStalls> {
        if self.began.period_ns == 0 { Vec::new() } else { by_core(&self.stalls, self.began.length_ns) }
    }

    /// How it stands, in one word.
    pub fn standing(&self) -> &'static str {
        self.ended.as_ref().map_or("running", |ended| ended.outcome.as_str())
    }
}

/// Sums since this fold began.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) began: u64,
    pub(super) ended: BTreeMap<&'static str, u64>,
    pub(super) runs: u64,
    pub(super) stalls: u64,
    pub(super) stalled_ns: BTreeMap<CpuId, u64>,
}

/// What is known of the experiments of a host.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest look; `None` where nothing lies that could be looked at.
    pub(super) look: Option<ExperimentLook>,
    /// By their names, which are in the order of time.
    pub(super) experiments: BTreeMap<String, Experiment>,
    /// Experiments that had no room here.
    pub(super) dropped: u64,
    pub(super) totals: Totals,
}

impl State {
    /// Takes in what was said.
    pub fn take(&mut self, seen: &DisturbEvent) {
        match seen {
            DisturbEvent::Look(look) => self.look = Some(look.clone()),
            DisturbEvent::Began(began) => self.begin(began),
            DisturbEvent::Gone { experiment } => drop(self.experiments.remove(experiment)),
            DisturbEvent::Run { experiment, run } => {
                self.totals.runs += 1;
                self.totals.stalls = self.totals.stalls.saturating_add(run.stall_count);
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                match kept.runs.len() < RUNS_MAX {
                    true => kept.runs.push((**run).clone()),
                    false => kept.runs_left_out += 1,
                }
            }
            DisturbEvent::Row { experiment, row } => {
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                match kept.rows.len() < ROWS_MAX {
                    true => kept.rows.push((**row).clone()),
                    false => kept.rows_left_out += 1,
                }
            }
            DisturbEvent::Stalls { experiment, stalls, left_out_count } => {
                stalls.iter().for_each(|stall| self.count(stall));
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                let room = STALLS_MAX.saturating_sub(kept.stalls.len());
                kept.stalls.extend(stalls.iter().take(room));
                let over = stalls.len().saturating_sub(room) as u64;
                kept.stalls_left_out = kept.stalls_left_out.saturating_add(*left_out_count).saturating_add(over);
            }
            DisturbEvent::Ended(ended) => {
                *self.totals.ended.entry(ended.outcome.as_str()).or_default() += 1;
                if let Some(kept) = self.experiments.get_mut(&ended.experiment) {
                    kept.ended = Some(ended.clone());
                }
            }
        }
    }

    fn begin(&mut self, began: &ExperimentBegan) {
        self.totals.began += 1;
        let experiment = Experiment { began: began.clone(), ..Experiment::default() };
        self.experiments.insert(began.experiment.clone(), experiment);
        if self.experiments.len() > EXPERIMENTS_MAX {
            self.experiments.pop_first();
            self.dropped += 1;
        }
    }

    fn count(&mut self, stall: &InjectedStall) {
        let Some(core) = stall.core else { return };
        let stalled = &mut self.totals.stalled_ns;
        if stalled.len() < CORES_MAX || stalled.contains_key(&core) {
            let sum = stalled.entry(core).or_default();
            *sum = sum.saturating_add(stall.length_ns);
        }
    }

    /// The experiments that ran at some time between these two, `CLOCK_REALTIME`, and how many others there are. One without a time
    /// is among them.
    pub fn between(&self, from_realtime_ns: u64, until_realtime_ns: u64) -> (State, usize) {
        let mut state = self.clone();
        state.experiments.retain(|_, one| {
            let ended_ns = one.ended.as_ref().map_or(u64::MAX, |ended| match ended.at_realtime_ns {
                0 => u64::MAX,
                at_ns => at_ns,
            });
            one.began.at_realtime_ns <= until_realtime_ns && ended_ns >= from_realtime_ns
        });
        let left_out = self.experiments.len() - state.experiments.len();
        (state, left_out)
    }

    /// Whether nobody has said anything of any experiment.
    pub fn is_empty(&self) -> bool {
        self.experiments.is_empty()
    }

    /// The experiments, oldest first.
    pub fn experiments(&self) -> impl DoubleEndedIterator<Item = &Experiment> {
        self.experiments.values()
    }

    /// One of them.
    pub fn experiment(&self, name: &str) -> Option<&Experiment> {
        self.experiments.get(name)
    }

    /// Those that run now.
    pub(super) fn running(&self) -> impl Iterator<Item = &Experiment> {
        self.experiments.values().filter(|one| one.ended.is_none())
    }

    /// The part of it that this viewer may see: what root did to the cores is for everybody, the workload is not; of other users'
    /// journals each user sees only his own.
    pub(super) fn seen_by(&self, viewer: Viewer) -> State {
        let mut state = self.clone();
        state.experiments.retain(|_, one| viewer.may_see(one.began.stranger()));
        for one in state.experiments.values_mut().filter(|one| !viewer.may_see(Some(one.began.uid.unwrap_or(0)))) {
            let began = &mut one.began;
            for text in [&mut began.workload, &mut began.metric, &mut began.series, &mut began.part] {
                text.clear();
            }
            one.rows.clear();
            for run in &mut one.runs {
                run.case.clear();
                run.treatment.clear();
            }
            if let Some(ended) = &mut one.ended {
                ended.why.clear();
                ended.summary.clear();
                ended.warnings.clear();
                if let Some(effect) = &mut ended.effect {
                    effect.workload.clear();
                    effect.metric.clear();
                    effect.warnings.clear();
                    effect.notes.clear();
                }
            }
        }
        if let Some(look) = state.look.as_mut().filter(|_| !viewer.sees_all) {
            look.directories.clear();
            look.problems.clear();
        }
        state
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use surefoot_model::ExperimentOutcome;

    /// An experiment of core 1 that ended so, or runs.
    pub(in crate::rooms::disturb) fn told(name: &str, outcome: Option<ExperimentOutcome>) -> Vec<DisturbEvent> {
        let began = ExperimentBegan {
            experiment: name.into(),
            at_ns: 1_000,
            at_realtime_ns: 5_000,
            pid: 7,
            uid: Some(1000),
            disturbance: "freeze".into(),
            method: "bpf".into(),
            is_of_cores: true,
            cores: vec![CpuId(1)],
            length_ns: 2_000_000,
            period_ns: 1_000_000_000,
            workload: "./secret --key 1".into(),
            metric: "wall".into(),
            run_count: 3,
            ..ExperimentBegan::default()
        };
        let run: ExperimentRun = serde_json::from_value(json!({
            "run": 2, "repetition": 0, "condition": "disturbed", "value": 1e9, "start_ns": 1_500, "wall_ns": 1_000_000_000u64,
            "stall_count": 2, "injected_share": 0.004, "missed_stalls": 0, "dropped_stalls": 0, "cut_stalls": 0,
            "left_behind": 0, "dropped_bytes": 0, "load": 0.1,
        }))
        .unwrap();
        let stall = |start_ns| InjectedStall {
            run: 2,
            core: Some(CpuId(1)),
            start_ns,
            length_ns: 2_000_100,
            target_ns: start_ns - 50,
        };
        let experiment = name.to_owned();
        let stalls = vec![stall(2_000), stall(1_000_002_000)];
        let mut events = vec![
            DisturbEvent::Began(began.into()),
            DisturbEvent::Stalls { experiment: experiment.clone(), stalls, left_out_count: 1 },
            DisturbEvent::Run { experiment: experiment.clone(), run: run.into() },
        ];
        let effect = (outcome == Some(ExperimentOutcome::Finished)).then(|| effect().into());
        events.extend(outcome.map(|outcome| {
            let why = if effect.is_some() { String::new() } else { "the workload ended with code 1".into() };
            DisturbEvent::Ended(ExperimentEnded {
                effect,
                ..ExperimentEnded::new(experiment, (9, 9_000), outcome, why)
            })
        }));
        events
    }

    fn effect() -> surefoot_model::ExperimentEffect {
        serde_json::from_value(json!({
            "ratio": 1.2, "interval_low": 1.1, "interval_high": 1.3, "confidence": 0.96, "effect_shown": true,
            "minimum_detectable_ratio": 1.1, "injected_share": 0.004, "stall_count": 2, "missed_stalls": 0,
            "dropped_stalls": 0, "cut_stalls": 0, "start_late_median_ns": 50, "end_late_median_ns": 150,
            "end_late_p90_ns": 150, "start_skew_median_ns": null, "end_skew_median_ns": null, "outlier_runs": [],
            "method": "bpf", "method_words": "interrupts off", "cores": [1], "length_ns": 2_000_000,
            "period_ns": 1_000_000_000, "workload": "./secret --key 1", "metric": "wall", "repetitions": 1, "seed": 1,
            "undisturbed_median": 1e9, "disturbed_median": 1.2e9, "notes": [], "warnings": ["one pair"],
        }))
        .unwrap()
    }

    pub(in crate::rooms::disturb) fn folded(events: &[DisturbEvent]) -> State {
        let mut state = State::default();
        events.iter().for_each(|event| state.take(event));
        state
    }

    #[test]
    fn runs_and_stalls_are_of_their_experiment_and_sums_outlive_it() {
        let mut state = folded(&told("a", None));
        let one = state.experiment("a").unwrap();
        assert_eq!((one.runs_done(), one.stalls.len(), one.stalls_left_out, one.standing()), (1, 2, 1, "running"));
        state.take(&DisturbEvent::Gone { experiment: "a".into() });
        assert!(state.is_empty());
        assert_eq!((state.totals.began, state.totals.runs, state.totals.stalls), (1, 1, 2));
        assert_eq!(state.totals.stalled_ns[&CpuId(1)], 4_000_200);
    }

    #[test]
    fn of_many_experiments_the_newest_are_kept_and_the_others_counted() {
        let mut state = State::default();
        for number in 0..EXPERIMENTS_MAX + 3 {
            told(&format!("{number:04}"), None).iter().for_each(|event| state.take(event));
        }
        assert_eq!((state.experiments.len(), state.dropped), (EXPERIMENTS_MAX, 3));
        assert!(state.experiment("0002").is_none() && state.experiment("0003").is_some());
    }

    /// One of two workloads that ended so.
    pub(in crate::rooms::disturb) fn several(name: &str) -> Vec<DisturbEvent> {
        let mut events = told(name, None);
        let DisturbEvent::Began(began) = &mut events[0] else { unreachable!() };
        began.series = "secret.json".into();
        (began.length_ns, began.period_ns, began.metric) = (0, 0, String::new());
        let experiment = name.to_owned();
        let row = |case: &str| ExperimentRow { case: case.into(), effect: Some(1.1), ..ExperimentRow::default() };
        events.extend(
            ["one", "two"].map(|case| DisturbEvent::Row { experiment: experiment.clone(), row: row(case).into() }),
        );
        let ended = ExperimentEnded::new(experiment, (9, 9_000), ExperimentOutcome::Finished, String::new());
        let (summary, warnings) = ("2 numbers, of which 1 shows an effect".to_owned(), vec!["a secret".to_owned()]);
        events.push(DisturbEvent::Ended(ExperimentEnded { summary, warnings, ..ended }));
        events
    }

    #[test]
    fn rows_are_kept_up_to_a_number_and_are_their_users_alone() {
        let mut state = folded(&of_root(several("a")));
        let row = DisturbEvent::Row { experiment: "a".into(), row: ExperimentRow::default().into() };
        (0..ROWS_MAX).for_each(|_| state.take(&row));
        let one = state.experiment("a").unwrap();
        assert_eq!((one.rows.len(), one.rows_left_out), (ROWS_MAX, 2));
        let seen = state.seen_by(Viewer { uid: Some(1001), sees_all: false });
        let one = seen.experiment("a").unwrap();
        let ended = one.ended.as_ref().unwrap();
        assert!(one.rows.is_empty() && one.began.series.is_empty(), "{one:?}");
        assert!(ended.summary.is_empty() && ended.warnings.is_empty(), "{ended:?}");
    }

    fn of_root(mut events: Vec<DisturbEvent>) -> Vec<DisturbEvent> {
        let DisturbEvent::Began(began) = &mut events[0] else { unreachable!() };
        began.uid = Some(0);
        events
    }

    #[test]
    fn what_root_does_to_the_cores_is_for_everybody_and_a_users_journal_for_himself() {
        let of_user = folded(&told("a", Some(ExperimentOutcome::Finished)));
        let shows = |uid, sees_all| of_user.seen_by(Viewer { uid: Some(uid), sees_all }).experiment("a").is_some();
        assert_eq!([shows(1000, false), shows(1001, false), shows(1001, true)], [true, false, true]);
        let state = folded(&of_root(told("a", Some(ExperimentOutcome::Finished))));
        let seen = |uid, sees_all| {
            let state = state.seen_by(Viewer { uid: Some(uid), sees_all });
            let one = state.experiment("a").unwrap().clone();
            let effect = one.ended.unwrap().effect.unwrap();
            (one.began.workload.is_empty(), effect.workload.is_empty(), effect.ratio, one.began.cores.len())
        };
        assert_eq!(seen(1001, false), (true, true, 1.2, 1));
        assert_eq!(seen(1001, true), (false, false, 1.2, 1));
    }
}
