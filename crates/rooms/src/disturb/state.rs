//! The fold over what journals say of experiments; pure, so that a recording folds to the same.

use super::stalls::{CoreStalls, by_core};
use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::BTreeMap;
use surefoot_model::{
    CpuId, DisturbEvent, ExperimentBegan, ExperimentEnded, ExperimentLook, ExperimentRow, ExperimentRun, InjectedStall,
};

/// Experiments that are kept: the newest.
pub const EXPERIMENTS_MAX: usize = 128;
/// Runs of one that are kept.
const RUNS_MAX: usize = 512;
/// Stalls of one that are kept.
const STALLS_MAX: usize = 1 << 14;
/// Rows of one that are kept.
const ROWS_MAX: usize = 1024;
/// Memory for the runs, stalls and rows of root's experiments.
const ROOT_BYTES_MAX: usize = 32 << 20;
/// The same for those of another user.
const USER_BYTES_MAX: usize = 8 << 20;
/// The same for those of all users but root.
const USERS_BYTES_MAX: usize = 32 << 20;
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
    /// Memory that its runs, stalls and rows take.
    bytes: usize,
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
pub struct Totals {
    /// Experiments that began.
    pub began: u64,
    /// Experiments that ended, by outcome.
    pub ended: BTreeMap<&'static str, u64>,
    /// Runs that ended.
    pub runs: u64,
    /// Stalls that were injected.
    pub stalls: u64,
    /// Time for which each core was stalled.
    pub stalled_ns: BTreeMap<CpuId, u64>,
}

/// What is known of the experiments of a host.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest look; `None` where nothing lies that could be looked at.
    pub look: Option<ExperimentLook>,
    /// When the first look was: what ended before ended before this watch.
    pub since_realtime_ns: Option<u64>,
    /// By their names, which are in the order of time.
    pub experiments: BTreeMap<String, Experiment>,
    /// Experiments that had no room here.
    pub dropped: u64,
    /// Sums since this fold began.
    pub totals: Totals,
}

impl State {
    /// Takes in what was said.
    pub fn take(&mut self, seen: &DisturbEvent) {
        match seen {
            DisturbEvent::Look(look) => {
                self.since_realtime_ns.get_or_insert(look.looked_realtime_ns);
                self.look = Some(look.clone());
            }
            DisturbEvent::Began(began) => self.begin(began),
            // Each look counts those that are left out.
            DisturbEvent::Gone { experiment } | DisturbEvent::LeftOut { experiment } => {
                self.experiments.remove(experiment);
            }
            DisturbEvent::Run { experiment, run } => {
                self.totals.runs += 1;
                self.totals.stalls = self.totals.stalls.saturating_add(run.stall_count);
                let bytes = size_of::<ExperimentRun>() + run.case.len() + run.treatment.len();
                let has_room = self.room_of(experiment) >= bytes;
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                match has_room && kept.runs.len() < RUNS_MAX {
                    true => {
                        kept.bytes += bytes;
                        kept.runs.push((**run).clone());
                    }
                    false => kept.runs_left_out += 1,
                }
            }
            DisturbEvent::Row { experiment, row } => {
                let room = self.room_of(experiment);
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                let mut row = (**row).clone();
                let bytes =
                    size_of::<ExperimentRow>() + row.texts_mut().into_iter().map(|text| text.len()).sum::<usize>();
                match room >= bytes && kept.rows.len() < ROWS_MAX {
                    true => {
                        kept.bytes += bytes;
                        kept.rows.push(row);
                    }
                    false => kept.rows_left_out += 1,
                }
            }
            DisturbEvent::Stalls { experiment, stalls, left_out_count } => {
                stalls.iter().for_each(|stall| self.count(stall));
                let fit = self.room_of(experiment) / size_of::<InjectedStall>();
                let Some(kept) = self.experiments.get_mut(experiment) else { return };
                let room = STALLS_MAX.saturating_sub(kept.stalls.len()).min(fit);
                kept.stalls.extend(stalls.iter().take(room));
                let over = stalls.len().saturating_sub(room) as u64;
                kept.bytes += (stalls.len() - over as usize) * size_of::<InjectedStall>();
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
        if self.experiments.len() > EXPERIMENTS_MAX
            && let Some(name) = self.least()
        {
            self.experiments.remove(&name);
            self.dropped += 1;
        }
    }

    /// The one that gives its place to a new one: the oldest that has ended, of the user who has the most. Root and all others have
    /// half of the room each before one takes the other's.
    fn least(&self) -> Option<String> {
        let mut of_users: BTreeMap<Option<u32>, Vec<&Experiment>> = BTreeMap::new();
        for one in self.experiments.values() {
            of_users.entry(one.began.stranger()).or_default().push(one);
        }
        let of_root = of_users.remove(&None).unwrap_or_default();
        let most = match of_root.len() > EXPERIMENTS_MAX / 2 {
            true => of_root,
            false => of_users.into_values().max_by_key(Vec::len)?,
        };
        let least = most.iter().find(|one| one.ended.is_some()).or(most.first())?;
        Some(least.began.experiment.clone())
    }

    /// Memory that is left for more of this experiment.
    fn room_of(&self, experiment: &str) -> usize {
        let Some(of) = self.experiments.get(experiment).map(|one| one.began.stranger()) else { return 0 };
        let taken = |is_counted: &dyn Fn(Option<u32>) -> bool| {
            let counted = self.experiments.values().filter(|one| is_counted(one.began.stranger()));
            counted.map(|one| one.bytes).sum::<usize>()
        };
        match of {
            None => ROOT_BYTES_MAX.saturating_sub(taken(&|uid| uid.is_none())),
            Some(_) => {
                let of_user = USER_BYTES_MAX.saturating_sub(taken(&|uid| uid == of));
                USERS_BYTES_MAX.saturating_sub(taken(&|uid| uid.is_some())).min(of_user)
            }
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
        let ran = |one: &Experiment| {
            let ended_ns = one.ended.as_ref().map_or(u64::MAX, |ended| match ended.at_realtime_ns {
                0 => u64::MAX,
                at_ns => at_ns,
            });
            one.began.at_realtime_ns <= until_realtime_ns && ended_ns >= from_realtime_ns
        };
        let state = self.with(|_, one| ran(one).then(|| one.clone()));
        let left_out = self.experiments.len() - state.experiments.len();
        (state, left_out)
    }

    /// The same with other experiments. What is left out is not copied first: it may be most of the memory of a watch.
    fn with(&self, each: impl Fn(&str, &Experiment) -> Option<Experiment>) -> State {
        let kept = self.experiments.iter().filter_map(|(name, one)| Some((name.clone(), each(name, one)?)));
        State {
            look: self.look.clone(),
            since_realtime_ns: self.since_realtime_ns,
            experiments: kept.collect(),
            dropped: self.dropped,
            totals: self.totals.clone(),
        }
    }

    /// The last look at the journals.
    pub fn last_look(&self) -> Option<&ExperimentLook> {
        self.look.as_ref()
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
    pub fn running(&self) -> impl Iterator<Item = &Experiment> {
        self.experiments.values().filter(|one| one.ended.is_none())
    }

    /// All runs, stalls and rows of the experiment that is asked for, and the numbers of the others'.
    pub fn in_short(&self, wanted: Option<&str>) -> State {
        self.with(|name, one| Some(if wanted == Some(name) { one.clone() } else { one.in_short() }))
    }
}

/// What root did to the cores is for everybody, the workload is not; of other users' journals each user sees only his own.
impl Private for State {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        self.experiments.retain(|_, one| viewer.may_see(one.began.stranger()));
        let others = |one: &&mut Experiment| !viewer.may_see(Some(one.began.uid.unwrap_or(0)));
        self.experiments.values_mut().filter(others).for_each(Experiment::hide_words);
        if let Some(look) = self.look.as_mut().filter(|_| !viewer.sees_all) {
            look.directories.clear();
            look.problems.clear();
        }
        self
    }
}

impl Experiment {
    /// The same without its runs, stalls and rows, which are counted.
    fn in_short(&self) -> Experiment {
        Experiment {
            began: self.began.clone(),
            ended: self.ended.clone(),
            runs_left_out: self.runs_done(),
            stalls_left_out: self.stalls_left_out.saturating_add(self.stalls.len() as u64),
            rows_left_out: self.rows_left_out.saturating_add(self.rows.len() as u64),
            ..Experiment::default()
        }
    }

    /// Takes out what it runs and what that printed.
    fn hide_words(&mut self) {
        let began = &mut self.began;
        for text in [&mut began.workload, &mut began.metric, &mut began.series, &mut began.part] {
            text.clear();
        }
        self.rows.clear();
        for run in &mut self.runs {
            run.case.clear();
            run.treatment.clear();
        }
        let Some(ended) = &mut self.ended else { return };
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

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::ExperimentOutcome;
    pub(crate) use surefoot_testkit::experiments::told;

    pub(crate) fn folded(events: &[DisturbEvent]) -> State {
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

    #[test]
    fn very_many_experiments_of_users_leave_those_of_root() {
        let mut state = State::default();
        let mut add = |name: String, uid| {
            of(uid, told(&name, None)).iter().for_each(|event| state.take(event));
        };
        (0..80).for_each(|number| add(format!("2026-{number:03}"), 0));
        (0..300).for_each(|number| add(format!("9999-{number:03}"), 100_000 + number));
        assert_eq!(state.experiments.len(), EXPERIMENTS_MAX);
        let of_root: Vec<&String> = state.experiments.keys().filter(|name| name.starts_with("2026")).collect();
        assert_eq!((of_root.len(), of_root[0].as_str()), (EXPERIMENTS_MAX / 2, "2026-016"));
        assert_eq!(state.dropped, 80 + 300 - EXPERIMENTS_MAX as u64);
    }

    fn of(uid: u32, mut events: Vec<DisturbEvent>) -> Vec<DisturbEvent> {
        let DisturbEvent::Began(began) = &mut events[0] else { unreachable!() };
        began.uid = Some(uid);
        events
    }

    #[test]
    fn the_memory_of_users_has_a_limit_for_each_and_for_all_and_leaves_roots() {
        let mut state = State::default();
        let row = ExperimentRow { why: "w".repeat(64 << 10), ..ExperimentRow::default() };
        let mut add = |name: &str, uid: u32, count: u64| {
            of(uid, told(name, None)).iter().for_each(|event| state.take(event));
            let row = DisturbEvent::Row { experiment: name.into(), row: row.clone().into() };
            (0..count).for_each(|_| state.take(&row));
            let one = &state.experiments[name];
            assert_eq!(one.rows.len() as u64 + one.rows_left_out, count);
            one.rows.len()
        };
        // 64 KiB and a little more each.
        assert_eq!((add("a", 1000, 100), add("b", 1000, 100)), (100, 27), "8 MiB of one user, whatever the experiment");
        for uid in 0..10 {
            add(&format!("c{uid}"), 2000 + uid, 200);
        }
        assert_eq!(add("d", 0, 300), 300, "root's have room of their own");
        let of_users = |state: &State| -> usize {
            state.experiments().filter(|one| one.began.uid != Some(0)).map(|one| one.bytes).sum()
        };
        // What is shorter than a row still finds room.
        let of_last = told("c9", None);
        (0..RUNS_MAX).for_each(|_| state.take(&of_last[2]));
        let left = USERS_BYTES_MAX - of_users(&state);
        assert!(left < size_of::<ExperimentRun>() + 100, "{left}");
        let full = state.experiments["c9"].clone();
        (0..10).for_each(|_| state.take(&of_last[1]));
        let one = &state.experiments["c9"];
        assert!(full.runs_left_out > 0 && one.stalls_left_out > full.stalls_left_out, "{left}");
        assert!(of_users(&state) <= USERS_BYTES_MAX);
        // Memory that one leaves is there for others.
        state.take(&DisturbEvent::Gone { experiment: "a".into() });
        state.take(&of_last[2]);
        assert_eq!(state.experiments["c9"].runs.len(), full.runs.len() + 1);
    }

    #[test]
    fn the_list_has_no_copy_of_what_only_an_experiment_that_is_asked_for_shows() {
        let state = folded(&[told("a", None), told("b", None)].concat());
        let seen = state.in_short(Some("b")).seen_by(Viewer { uid: Some(1000), sees_all: true, named: None });
        let [a, b] = ["a", "b"].map(|name| seen.experiment(name).unwrap());
        assert_eq!((a.runs.len(), a.stalls.len(), a.runs_done(), a.stalls_left_out), (0, 0, 1, 3));
        assert_eq!(b, state.experiment("b").unwrap());
    }

    /// One of two workloads that ended so.
    pub(crate) fn several(name: &str) -> Vec<DisturbEvent> {
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
        let mut state = folded(&of(0, several("a")));
        let row = DisturbEvent::Row { experiment: "a".into(), row: ExperimentRow::default().into() };
        (0..ROWS_MAX).for_each(|_| state.take(&row));
        let one = state.experiment("a").unwrap();
        assert_eq!((one.rows.len(), one.rows_left_out), (ROWS_MAX, 2));
        let seen = state.in_short(Some("a")).seen_by(Viewer { uid: Some(1001), sees_all: false, named: None });
        let one = seen.experiment("a").unwrap();
        let ended = one.ended.as_ref().unwrap();
        assert!(one.rows.is_empty() && one.began.series.is_empty(), "{one:?}");
        assert!(ended.summary.is_empty() && ended.warnings.is_empty(), "{ended:?}");
    }

    #[test]
    fn what_root_does_to_the_cores_is_for_everybody_and_a_users_journal_for_himself() {
        let of_user = folded(&told("a", Some(ExperimentOutcome::Finished)));
        let shows = |uid, sees_all| {
            of_user.in_short(None).seen_by(Viewer { uid: Some(uid), sees_all, named: None }).experiment("a").is_some()
        };
        assert_eq!([shows(1000, false), shows(1001, false), shows(1001, true)], [true, false, true]);
        let state = folded(&of(0, told("a", Some(ExperimentOutcome::Finished))));
        let seen = |uid, sees_all| {
            let state = state.in_short(Some("a")).seen_by(Viewer { uid: Some(uid), sees_all, named: None });
            let one = state.experiment("a").unwrap().clone();
            let effect = one.ended.unwrap().effect.unwrap();
            (one.began.workload.is_empty(), effect.workload.is_empty(), effect.ratio, one.began.cores.len())
        };
        assert_eq!(seen(1001, false), (true, true, 1.2, 1));
        assert_eq!(seen(1001, true), (false, false, 1.2, 1));
    }
}
