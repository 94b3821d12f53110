//! From what the looks told to the jobs as they are now; pure, so that a recording folds to the same.

use super::ids::Ids;
use super::{JOBS_MAX, ROWS_OF_JOB_MAX};
use crate::CHART_POINTS_MAX;
use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use surefoot_model::{
    CheckpointEvent, CheckpointJob, CheckpointLook, CheckpointTier, Decided, GenerationState, JournalEntry,
    JournalEvent,
};

/// Sessions shorter than this say nothing about the rate at which a job writes.
const RATE_SESSION_S_MIN: f64 = 60.0;

/// Jobs of one user that have series of their own within the time for which a name is remembered.
const LABELS_OF_USER_MAX: usize = 64;
/// Users of whom that is remembered.
const LABELLED_USERS_MAX: usize = 256;
/// How long a name is remembered after it was last seen: a day.
const LABEL_NS: u64 = 86_400_000_000_000;

/// Directories of one job that are kept: more than there are tiers.
const DIRECTORIES_MAX: usize = 64;
/// A longer name is no job's: the library refuses it.
const NAME_BYTES_MAX: usize = 1 << 10;

/// The checkpoints of a host.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest look; `None` before the first has ended.
    pub look: Option<CheckpointLook>,
    /// The jobs, by name.
    pub jobs: BTreeMap<String, Job>,
    /// When each look ended, and the age of the oldest durable copy of a running job then, seconds.
    pub ages: VecDeque<(u64, f64)>,
    /// Names that have series of their own, by user, and when each was last seen.
    labels: BTreeMap<Option<u32>, BTreeMap<String, u64>>,
    /// Jobs beyond those that are kept.
    pub jobs_dropped: u64,
    /// Makes the IDs of jobs.
    ids: Arc<Ids>,
}

/// What is known of one job.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// As the newest look found it.
    pub seen: CheckpointJob,
    /// The lines of its journal, oldest first.
    pub entries: VecDeque<JournalEntry>,
    /// Lines before those, which are dropped.
    pub entries_left_out: u64,
    /// Lines that could not be read.
    pub entries_skipped: u64,
    /// Makes its ID.
    pub ids: Arc<Ids>,
}

/// Where a job stands, as its newest decision says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// The policy, in words.
    pub policy: String,
    /// When the session began.
    pub began_realtime_ns: u64,
    /// The bound on the age of the durable checkpoint.
    pub staleness_max_s: Option<f64>,
    /// What was decided since then.
    pub decided: Decided,
    /// When the drive wears out at this rate.
    pub drive_ends_realtime_ns: Option<u64>,
    /// Lines that the job could not write.
    pub lost_count: u64,
}

impl State {
    /// Nothing yet; jobs get these IDs.
    pub fn with_ids(ids: Ids) -> Self {
        State { ids: Arc::new(ids), ..State::default() }
    }

    /// Takes what a look told.
    pub fn take(&mut self, event: &CheckpointEvent) {
        match event {
            CheckpointEvent::Look(look) => {
                let now_ns = look.looked_realtime_ns;
                let ages = self.jobs.values().filter(|job| job.seen.is_running == Some(true));
                let oldest_s = ages
                    .filter_map(|job| job.durable_age_s(now_ns))
                    .fold(None, |oldest, age_s| Some(oldest.map_or(age_s, |oldest: f64| oldest.max(age_s))));
                if let Some(oldest_s) = oldest_s {
                    self.ages.push_back((now_ns, oldest_s));
                    self.ages.drain(..self.ages.len().saturating_sub(CHART_POINTS_MAX));
                }
                self.label(now_ns);
                self.look = Some(look.clone());
            }
            CheckpointEvent::Job(seen) => {
                if let Some(job) = self.job(&seen.name) {
                    let kept = &seen.generations[..seen.generations.len().min(ROWS_OF_JOB_MAX)];
                    let gone = (seen.generations.len() - kept.len()) as u64;
                    job.seen = CheckpointJob {
                        name: seen.name.clone(),
                        uid: seen.uid,
                        directories: seen.directories.iter().take(DIRECTORIES_MAX).cloned().collect(),
                        is_running: seen.is_running,
                        generations: kept.to_vec(),
                        generations_left_out: seen.generations_left_out.saturating_add(gone),
                        lost: seen.lost.iter().take(DIRECTORIES_MAX).cloned().collect(),
                    };
                }
            }
            CheckpointEvent::Journal { job, entries, left_out_count, skipped_count, is_another } => {
                let Some(job) = self.job(job) else { return };
                if *is_another {
                    (job.entries, job.entries_left_out) = (VecDeque::new(), 0);
                }
                let newest = &entries[entries.len().saturating_sub(ROWS_OF_JOB_MAX)..];
                job.entries_left_out = job.entries_left_out.saturating_add((entries.len() - newest.len()) as u64);
                job.entries.extend(newest.iter().cloned());
                let gone = job.entries.len().saturating_sub(ROWS_OF_JOB_MAX);
                job.entries.drain(..gone);
                let left_out = left_out_count.saturating_add(gone as u64);
                job.entries_left_out = job.entries_left_out.saturating_add(left_out);
                job.entries_skipped = *skipped_count;
            }
            CheckpointEvent::Gone { job } => {
                self.jobs.remove(job);
            }
        }
    }

    /// Gives jobs series of their own, so many to each user: a series stays where the metrics are kept, so that names that
    /// come and go are as many as there ever were.
    fn label(&mut self, now_ns: u64) {
        for names in self.labels.values_mut() {
            names.retain(|_, seen_ns| seen_ns.saturating_add(LABEL_NS) > now_ns);
        }
        self.labels.retain(|_, names| !names.is_empty());
        for job in self.jobs.values() {
            if self.labels.len() == LABELLED_USERS_MAX && !self.labels.contains_key(&job.seen.uid) {
                continue;
            }
            let names = self.labels.entry(job.seen.uid).or_default();
            if names.len() < LABELS_OF_USER_MAX || names.contains_key(&job.seen.name) {
                names.insert(job.seen.name.clone(), now_ns);
            }
        }
    }

    /// Whether a job has series of its own.
    pub fn is_labelled(&self, job: &Job) -> bool {
        self.labels.get(&job.seen.uid).is_some_and(|names| names.contains_key(&job.seen.name))
    }

    /// The newest look; `None` before the first has ended.
    pub fn look(&self) -> Option<&CheckpointLook> {
        self.look.as_ref()
    }

    /// The job of this name; a recording may name any number of them.
    fn job(&mut self, name: &str) -> Option<&mut Job> {
        let is_refused = name.len() > NAME_BYTES_MAX || self.jobs.len() >= JOBS_MAX;
        if is_refused && !self.jobs.contains_key(name) {
            self.jobs_dropped = self.jobs_dropped.saturating_add(1);
            return None;
        }
        let new = || Job {
            seen: CheckpointJob { name: name.to_owned(), ..CheckpointJob::default() },
            ids: Arc::clone(&self.ids),
            ..Job::default()
        };
        Some(self.jobs.entry(name.to_owned()).or_insert_with(new))
    }
}

/// Users see their own jobs and problems, and what stands around them.
impl Private for State {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if viewer.sees_all {
            return self;
        }
        // A job of which the recording does not say whose it is may be anybody's.
        let may_see = |uid: Option<u32>| uid.is_some() && viewer.may_see(uid);
        self.jobs.retain(|_, job| may_see(job.seen.uid));
        if let Some(look) = &mut self.look {
            look.problems.retain(|problem| may_see(problem.uid));
        }
        self
    }
}

impl Job {
    /// What it is called to users who may not know its name.
    pub fn id(&self) -> String {
        self.ids.of(self.seen.uid, &self.seen.name)
    }

    /// Whether others meet its ID, in `health.json`.
    pub fn has_published_id(&self) -> bool {
        self.ids.are_published()
    }

    /// When the newest whole checkpoint in these tiers was taken.
    fn newest_ns(
        &self,
        is_tier: impl Fn(CheckpointTier) -> bool,
        is_whole: impl Fn(GenerationState) -> bool,
    ) -> Option<u64> {
        let whole = self.seen.generations.iter().filter(|one| is_tier(one.tier) && is_whole(one.state));
        whole.filter_map(|one| one.taken_realtime_ns).max()
    }

    /// When the newest checkpoint in memory was taken that is whole here.
    pub fn memory_realtime_ns(&self) -> Option<u64> {
        let is_whole = |state| matches!(state, GenerationState::Complete | GenerationState::Partial);
        self.newest_ns(|tier| tier == CheckpointTier::Memory, is_whole)
    }

    /// The same of the newest complete one on an SSD or shared file system.
    pub fn durable_realtime_ns(&self) -> Option<u64> {
        self.newest_ns(|tier| tier != CheckpointTier::Memory, |state| state == GenerationState::Complete)
    }

    /// Age of the newest durable copy; of the session where it has taken none.
    pub fn durable_age_s(&self, now_realtime_ns: u64) -> Option<f64> {
        let since = self.durable_realtime_ns().or_else(|| Some(self.standing()?.began_realtime_ns))?;
        Some(now_realtime_ns.saturating_sub(since) as f64 / 1e9)
    }

    /// What the newest session says that its redundancy does not protect from; empty where it does, `None` where it does not
    /// say.
    pub fn weakness(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| match &entry.event {
            JournalEvent::Opened { weakness, .. } => Some(weakness.as_deref()),
            _ => None,
        })?
    }

    /// What the newest decision says of the job.
    pub fn standing(&self) -> Option<Standing> {
        let policy = self.entries.iter().rev().find_map(|entry| match &entry.event {
            JournalEvent::Opened { policy, .. } => Some(policy.clone()),
            _ => None,
        });
        let (newest, decided) = self.entries.iter().rev().find_map(|entry| match &entry.event {
            JournalEvent::Decision(decided) => Some((entry, decided)),
            _ => None,
        })?;
        let session_ns = nanoseconds(decided.session_s)?;
        Some(Standing {
            policy: policy.unwrap_or_default(),
            began_realtime_ns: newest.realtime_ns.saturating_sub(session_ns),
            staleness_max_s: decided.staleness_max_s.filter(|bound_s| *bound_s > 0.0),
            decided: (**decided).clone(),
            drive_ends_realtime_ns: drive_ends(newest.realtime_ns, decided),
            lost_count: self.entries.iter().map(|entry| entry.lost_count).max().unwrap_or(0),
        })
    }
}

/// When the rating is used up, if this job goes on as it did so far and nobody else writes.
fn drive_ends(now_ns: u64, decided: &Decided) -> Option<u64> {
    let left_bytes = (decided.endurance_left_bytes? - decided.durable_bytes as f64).max(0.0);
    let is_enough = decided.session_s >= RATE_SESSION_S_MIN && decided.durable_bytes > 0;
    let left_s = is_enough.then(|| left_bytes / (decided.durable_bytes as f64 / decided.session_s))?;
    now_ns.checked_add(nanoseconds(left_s)?)
}

/// Whole nanoseconds of a number of seconds that somebody else wrote down.
fn nanoseconds(seconds: f64) -> Option<u64> {
    let nanoseconds = seconds * 1e9;
    // Up to there a float and an integer agree.
    (0.0..9e18).contains(&nanoseconds).then_some(nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn decided(realtime_ns: u64, decided: Decided) -> JournalEntry {
        JournalEntry { realtime_ns, lost_count: 0, event: JournalEvent::Decision(Box::new(decided)) }
    }

    fn with_lines(entries: Vec<JournalEntry>) -> Job {
        Job { entries: entries.into(), ..Job::default() }
    }

    #[test]
    fn the_newest_decision_says_where_the_job_stands() {
        let newest = Decided {
            staleness_max_s: Some(600.0),
            session_s: 100.0,
            durable_bytes: 1_000,
            endurance_left_bytes: Some(11_000.0),
            decided: BTreeMap::from([("memory".to_owned(), 3)]),
            ..Decided::default()
        };
        let (job, policy, shared) = ("of/its/own".into(), "surefoot".into(), "/scratch/own".into());
        let opened = JournalEvent::Opened { job, ranks: 1, policy, shared, weakness: None, is_repeated: false };
        let opened = JournalEntry { realtime_ns: 1, lost_count: 2, event: opened };
        let job = with_lines(vec![opened, decided(2, Decided::default()), decided(200_000_000_000, newest.clone())]);
        let standing = job.standing().unwrap();
        assert_eq!(
            (standing.policy.as_str(), standing.began_realtime_ns, standing.lost_count),
            ("surefoot", 100_000_000_000, 2)
        );
        // 10,000 bytes are left, at 10 a second.
        assert_eq!(standing.drive_ends_realtime_ns, Some(1_200_000_000_000));
        assert_eq!(job.durable_age_s(150_000_000_000), Some(50.0), "none is durable, so since the session began");
        let of = |newest: Decided| with_lines(vec![decided(200_000_000_000, newest)]).standing();
        for strange in [
            Decided { session_s: 59.0, ..newest.clone() },
            Decided { durable_bytes: 0, ..newest.clone() },
            Decided { endurance_left_bytes: None, ..newest.clone() },
            Decided { endurance_left_bytes: Some(1e300), ..newest.clone() },
        ] {
            assert_eq!(of(strange).unwrap().drive_ends_realtime_ns, None);
        }
        assert_eq!(of(Decided { session_s: -1.0, ..newest }), None, "a hostile line says nothing");
    }

    #[test]
    fn names_that_come_and_go_get_no_series_without_end() {
        let mut state = State::default();
        let mut labelled = 0;
        for number in 0..1_000_u64 {
            let job = format!("job-{number}");
            state.take(&CheckpointEvent::Job(CheckpointJob {
                name: job.clone(),
                uid: Some(1000),
                ..Default::default()
            }));
            state.take(&CheckpointEvent::Look(CheckpointLook { looked_realtime_ns: number + 1, ..Default::default() }));
            labelled += usize::from(state.is_labelled(&state.jobs[&job]));
            state.take(&CheckpointEvent::Gone { job });
        }
        assert_eq!(labelled, LABELS_OF_USER_MAX);
        let look = |at_ns| CheckpointEvent::Look(CheckpointLook { looked_realtime_ns: at_ns, ..Default::default() });
        let of = |uid| CheckpointJob { name: "train".into(), uid: Some(uid), ..CheckpointJob::default() };
        state.take(&CheckpointEvent::Job(of(7)));
        state.take(&look(2_000));
        assert!(state.is_labelled(&state.jobs["train"]), "another user has his own");
        state.take(&CheckpointEvent::Job(of(1000)));
        state.take(&look(2_001 + LABEL_NS));
        assert!(state.is_labelled(&state.jobs["train"]), "a day later there is room again");
    }

    #[test]
    fn jobs_and_lines_have_a_limit_and_the_rest_is_counted() {
        let mut state = State::default();
        for number in 0..JOBS_MAX + 5 {
            let seen = CheckpointJob { name: format!("job-{number:03}"), ..CheckpointJob::default() };
            state.take(&CheckpointEvent::Job(seen));
        }
        assert_eq!((state.jobs.len(), state.jobs_dropped), (JOBS_MAX, 5));
        let journal = |from: u64, count: u64| CheckpointEvent::Journal {
            job: "job-000".into(),
            entries: (from..from + count).map(|at| decided(at, Decided::default())).collect(),
            left_out_count: 0,
            skipped_count: 3,
            is_another: false,
        };
        state.take(&journal(0, 1_000));
        state.take(&journal(1_000, 1_000));
        let job = &state.jobs["job-000"];
        assert_eq!((job.entries.len(), job.entries_left_out, job.entries_skipped), (ROWS_OF_JOB_MAX, 800, 3));
        assert_eq!(job.entries.back().unwrap().realtime_ns, 1_999);
        let (entries, left_out_count, skipped_count) = (Vec::new(), 0, 0);
        let job = "job-000".into();
        state.take(&CheckpointEvent::Journal { job, entries, left_out_count, skipped_count, is_another: true });
        assert_eq!(state.jobs["job-000"].entries.len(), 0, "the lines of a journal that is gone say nothing");
        state.take(&CheckpointEvent::Gone { job: "job-000".into() });
        assert_eq!(state.jobs.len(), JOBS_MAX - 1);
    }
}
