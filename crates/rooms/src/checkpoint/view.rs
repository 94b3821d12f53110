//! The answer of `/api/v1/checkpoints`. Times are absolute, so that an answer says the same however late it is read.

use super::findings;
use super::state::{Job, Standing, State};
use crate::answer::{Header, Limited};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use surefoot_model::{
    CheckpointDirectory, CheckpointDrives, CheckpointJob, CheckpointLook, CheckpointProblem, Finding, JournalEntry,
    Severity,
};

/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 6 << 20;

/// Everything about checkpoints at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Checkpoints")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
    pub looked_realtime_ns: Option<u64>,
    /// How long it took.
    pub look_ns: u64,
    /// The directories that were named.
    pub directories: Vec<CheckpointDirectory>,
    /// The jobs, by name.
    pub jobs: Vec<JobView>,
    /// Jobs beyond those.
    pub jobs_left_out: u64,
    /// Whether a limit ended the look before it had seen everything.
    pub is_cut: bool,
    /// What is not as it should be.
    pub problems: Vec<CheckpointProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// The wear of the drives beneath these directories; `null` where nobody publishes it.
    pub drives: Option<CheckpointDrives>,
}

/// A job.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobView {
    /// What lies there.
    #[serde(flatten)]
    pub seen: CheckpointJob,
    /// Ranks of the newest checkpoint.
    pub ranks: u32,
    /// When the newest checkpoint in memory was taken that is whole here.
    pub memory_realtime_ns: Option<u64>,
    /// The same of the newest complete one on an SSD or shared file system.
    pub durable_realtime_ns: Option<u64>,
    /// Bytes that lie there, by tier.
    pub stored_bytes: BTreeMap<&'static str, u64>,
    /// What is to be said of the job; at least one.
    pub findings: Vec<Finding>,
    /// What the newest lines of its journal say; `null` without a decision in them.
    pub state: Option<JournalState>,
    /// The journal, oldest line first.
    pub events: Vec<EntryView>,
    /// Lines before those.
    pub events_left_out: u64,
    /// Lines of the journal that could not be read.
    pub events_skipped: u64,
}

/// A line of the journal, and how bad what it says is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EntryView {
    /// The line.
    #[serde(flatten)]
    pub entry: JournalEntry,
    /// A warning where it says that something failed.
    pub severity: Severity,
}

impl EntryView {
    fn of(entry: &JournalEntry) -> Self {
        let severity = if entry.event.is_failure() { Severity::Warning } else { Severity::Ok };
        EntryView { entry: entry.clone(), severity }
    }
}

/// Where a job stands, as its newest decision says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JournalState {
    /// The word for its policy; empty where the line that says it is gone.
    pub policy: String,
    /// When the session began.
    pub began_realtime_ns: u64,
    /// The bound on the age of the durable copy; `null` where the policy has none.
    pub staleness_max_s: Option<f64>,
    /// Decisions of the session, by place.
    pub decided: BTreeMap<String, u64>,
    /// Bytes that the durable tier took on one node since the session began.
    pub durable_bytes: u64,
    /// Seconds of the session that went into checkpoints.
    pub checkpoint_s: f64,
    /// Seconds of the session.
    pub session_s: f64,
    /// What the drive bears until the planned end of its life; `null` where its endurance is not known.
    pub budget_bytes_per_s: Option<f64>,
    /// When the drive's rating is used up at the rate of this job alone; `null` where that is not known.
    pub drive_ends_realtime_ns: Option<u64>,
    /// Lines that the job could not write.
    pub lost_count: u64,
}

impl Answer {
    /// The answer at a time. `directories` are those that will be looked into, for the time before the first look.
    pub fn of(state: &State, directories: &[PathBuf], why: Option<String>, now_realtime_ns: u64) -> Self {
        let named = |path: &PathBuf| CheckpointDirectory {
            path: path.to_string_lossy().into_owned(),
            ..CheckpointDirectory::default()
        };
        let waiting = || CheckpointLook { directories: directories.iter().map(named).collect(), ..Default::default() };
        let look = state.look().cloned().unwrap_or_else(waiting);
        Answer {
            header: Header::new(why),
            looked_realtime_ns: state.look().map(|look| look.looked_realtime_ns),
            look_ns: look.look_ns,
            directories: look.directories,
            jobs: state.jobs.values().map(|job| JobView::of(job, now_realtime_ns)).collect(),
            jobs_left_out: look.jobs_left_out.saturating_add(state.jobs_dropped),
            is_cut: look.is_cut,
            problems: look.problems,
            problems_left_out: look.problems_left_out,
            drives: look.drives,
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State, end_realtime_ns: u64) -> Self {
        Answer::of(state, &[], None, end_realtime_ns)
    }

    /// Leaves half of what is long out.
    pub fn cut(&mut self) {
        for job in &mut self.jobs {
            Limited(&mut job.events, &mut job.events_left_out).halve_oldest();
            Limited(&mut job.seen.generations, &mut job.seen.generations_left_out).halve();
        }
        Limited(&mut self.problems, &mut self.problems_left_out).halve();
        if self.jobs.iter().all(|job| job.events.is_empty()) {
            Limited(&mut self.jobs, &mut self.jobs_left_out).halve();
            self.drives = None;
        }
    }
}

impl JobView {
    fn of(job: &Job, now_realtime_ns: u64) -> Self {
        let generations = &job.seen.generations;
        JobView {
            ranks: generations.iter().map(|one| one.ranks).find(|&ranks| ranks > 0).unwrap_or(0),
            memory_realtime_ns: job.memory_realtime_ns(),
            durable_realtime_ns: job.durable_realtime_ns(),
            stored_bytes: stored_bytes(job),
            findings: findings::of_job(job, now_realtime_ns),
            state: job.standing().map(JournalState::of),
            events: job.entries.iter().map(EntryView::of).collect(),
            events_left_out: job.entries_left_out,
            events_skipped: job.entries_skipped,
            seen: job.seen.clone(),
        }
    }
}

impl JournalState {
    fn of(standing: Standing) -> Self {
        let decided = standing.decided;
        JournalState {
            policy: standing.policy,
            began_realtime_ns: standing.began_realtime_ns,
            staleness_max_s: standing.staleness_max_s,
            decided: decided.decided,
            durable_bytes: decided.durable_bytes,
            checkpoint_s: decided.checkpoint_s,
            session_s: decided.session_s,
            budget_bytes_per_s: decided.budget_bytes_per_s,
            drive_ends_realtime_ns: standing.drive_ends_realtime_ns,
            lost_count: standing.lost_count,
        }
    }
}

/// What a job's checkpoints take, by the word for their tier.
pub fn stored_bytes(job: &Job) -> BTreeMap<&'static str, u64> {
    let mut stored: BTreeMap<&'static str, u64> = BTreeMap::new();
    for generation in &job.seen.generations {
        let sum = stored.entry(generation.tier.as_str()).or_default();
        *sum = sum.saturating_add(generation.stored_bytes);
    }
    stored
}
