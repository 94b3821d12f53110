//! The answer of `/api/v1/checkpoints`. Times are absolute, so that an answer says the same however late it is read.

use axum::body::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::session::journal::Entry;
use surefoot_model::DriveWear;

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 6 << 20;

/// A sentence about a stale copy names no longer name than this.
const NAME_CHARACTERS_MAX: usize = 128;

/// Everything about checkpoints at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Answer {
    pub(super) version: &'static str,
    /// Why there is nothing to see, and what to do; absent where directories are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<&'static str>,
    /// When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
    pub(super) looked_realtime_ns: Option<u64>,
    /// How long it took.
    pub(super) look_ns: u64,
    /// The directories that were named.
    pub(super) directories: Vec<DirectoryView>,
    /// The jobs, by name.
    pub(super) jobs: Vec<JobView>,
    pub(super) jobs_left_out: u64,
    /// Whether a limit ended the look before it had seen everything.
    pub(super) is_cut: bool,
    /// What is not as it should be.
    pub(super) problems: Vec<ProblemView>,
    pub(super) problems_left_out: u64,
    /// The wear of the drives beneath these directories; `null` where nobody publishes it.
    pub(super) drives: Option<DrivesView>,
}

/// A directory that was named.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DirectoryView {
    pub(super) path: String,
    /// What is kept there: `memory`, `durable`, `shared`.
    pub(super) tiers: Vec<&'static str>,
    /// The word of the kernel for its file system; `null` where it is not known.
    pub(super) file_system: Option<String>,
    /// What may still be written there; `null` where it is not known.
    pub(super) free_bytes: Option<u64>,
    /// Names of the drives beneath it, where they are known.
    pub(super) drives: Vec<String>,
    /// Why it could not be looked at.
    pub(super) problem: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ProblemView {
    pub(super) path: String,
    pub(super) why: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct DrivesView {
    pub(super) read_realtime_ns: u64,
    pub(super) drives: Vec<DriveWear>,
}

/// A job.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct JobView {
    pub(super) name: String,
    /// Where its checkpoints lie, one directory per tier.
    pub(super) directories: Vec<String>,
    /// Ranks of the newest checkpoint.
    pub(super) ranks: u32,
    /// Whether a process holds the lock of a rank; `null` where there is no lock to be seen. A job in another container
    /// is not seen to run.
    pub(super) is_running: Option<bool>,
    /// When the newest checkpoint in memory was taken that is whole here.
    pub(super) memory_realtime_ns: Option<u64>,
    /// The same of the newest complete one on an SSD or shared file system.
    pub(super) durable_realtime_ns: Option<u64>,
    /// Bytes that lie there, by tier.
    pub(super) stored_bytes: BTreeMap<&'static str, u64>,
    /// Newest first.
    pub(super) generations: Vec<GenerationView>,
    pub(super) generations_left_out: u64,
    /// What the newest lines of its journal say; `null` without a decision in them.
    pub(super) state: Option<JournalState>,
    /// The journal, oldest line first.
    pub(super) events: Vec<Entry>,
    pub(super) events_left_out: u64,
    /// Lines of the journal that could not be read.
    pub(super) events_skipped: u64,
}

/// Where a job stands, as its newest decision says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct JournalState {
    /// The word for its policy; empty where the line that says it is gone.
    pub(super) policy: String,
    /// When the session began.
    pub(super) began_realtime_ns: u64,
    /// The bound on the age of the durable copy; `null` where the policy has none.
    pub(super) staleness_max_s: Option<f64>,
    /// Decisions of the session, by place.
    pub(super) decided: BTreeMap<String, u64>,
    /// Bytes that the durable tier took on one node since the session began.
    pub(super) durable_bytes: u64,
    /// Seconds of the session that went into checkpoints.
    pub(super) checkpoint_s: f64,
    /// Seconds of the session.
    pub(super) session_s: f64,
    /// What the drive bears until the wished end of its life; `null` where its endurance is not known.
    pub(super) budget_bytes_per_s: Option<f64>,
    /// When the drive's rating is used up at the rate of this job alone; `null` where that is not known.
    pub(super) drive_ends_realtime_ns: Option<u64>,
    /// Lines that the job could not write.
    pub(super) lost_count: u64,
}

/// A checkpoint in one tier.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GenerationView {
    pub(super) number: u64,
    /// Sixteen hexadecimal digits, because a number of 64 bits does not survive every reader of JSON.
    pub(super) nonce: String,
    pub(super) tier: &'static str,
    pub(super) state: GenerationState,
    /// What is missing or wrong, one sentence; empty where nothing is.
    pub(super) missing: String,
    pub(super) taken_realtime_ns: Option<u64>,
    /// Ranks that are here.
    pub(super) ranks_here: u32,
    /// Ranks that it has; 0 where no manifest says it.
    pub(super) ranks: u32,
    /// Payload of the ranks that are here.
    pub(super) payload_bytes: u64,
    /// What that takes in the tier.
    pub(super) stored_bytes: u64,
    /// `shard`, `chip` or `checked`; empty where no manifest says it.
    pub(super) protection: &'static str,
    pub(super) directory: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GenerationState {
    /// Every rank is here, and where there is a mark, it is marked as complete.
    Complete,
    /// In memory: the ranks that are here are whole, others are on other nodes or gone.
    Partial,
    /// In a durable tier: not marked as complete, because it is being written or was given up.
    Unfinished,
    /// Marked as complete, and ranks are missing; or a manifest cannot be read.
    Damaged,
}

impl GenerationState {
    pub(super) fn label(self) -> &'static str {
        match self {
            GenerationState::Complete => "complete",
            GenerationState::Partial => "partial",
            GenerationState::Unfinished => "unfinished",
            GenerationState::Damaged => "damaged",
        }
    }
}

impl Answer {
    /// What is said before the first look.
    pub(super) fn before_the_first(directories: &[PathBuf], why: Option<&'static str>) -> Self {
        let directories =
            directories.iter().map(|path| DirectoryView { path: text(path), ..DirectoryView::default() }).collect();
        Answer { version: env!("CARGO_PKG_VERSION"), why, directories, ..Answer::default() }
    }

    /// The answer with its text; the oldest of what is long goes until that is short enough.
    pub(super) fn within_limit(mut self) -> (Self, Bytes) {
        loop {
            // Plain structs and maps with string keys always have a JSON form.
            let body = serde_json::to_vec(&self).unwrap_or_default();
            if body.len() <= ANSWER_BYTES_MAX {
                return (self, Bytes::from(body));
            }
            for job in &mut self.jobs {
                let gone = job.events.len().div_ceil(2);
                job.events.drain(..gone);
                job.events_left_out += gone as u64;
                let kept = job.generations.len() / 2;
                job.generations_left_out += (job.generations.len() - kept) as u64;
                job.generations.truncate(kept);
            }
            let kept = self.problems.len() / 2;
            self.problems_left_out += (self.problems.len() - kept) as u64;
            self.problems.truncate(kept);
            if self.jobs.iter().all(|job| job.events.is_empty()) {
                let kept = self.jobs.len() / 2;
                self.jobs_left_out += (self.jobs.len() - kept) as u64;
                self.jobs.truncate(kept);
                self.drives = None;
            }
        }
    }

    /// A sentence for each running job whose durable copy is older than its bound.
    pub(super) fn stale(&self, now_realtime_ns: u64) -> Vec<String> {
        let sentence = |job: &JobView| {
            let bound_s = job.state.as_ref()?.staleness_max_s?;
            let age_s = job.durable_age_s(now_realtime_ns)?;
            (job.is_running == Some(true) && age_s > bound_s).then(|| {
                let name: String = job.name.chars().take(NAME_CHARACTERS_MAX).collect();
                format!("The durable checkpoint of the job '{name}' is {age_s:.0} s old; its bound is {bound_s:.0} s.")
            })
        };
        self.jobs.iter().filter_map(sentence).collect()
    }
}

impl JobView {
    /// Age of the newest durable copy; of the session where it has taken none.
    pub(super) fn durable_age_s(&self, now_realtime_ns: u64) -> Option<f64> {
        let since = self.durable_realtime_ns.or(self.state.as_ref().map(|state| state.began_realtime_ns))?;
        Some(now_realtime_ns.saturating_sub(since) as f64 / 1e9)
    }
}

/// A path as text; what is not UTF-8 is replaced.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
