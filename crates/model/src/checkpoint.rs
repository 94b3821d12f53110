use crate::{DriveWear, Happened, JournalEntry};
use serde::{Deserialize, Serialize};

/// What a look into the directories of checkpoints found. Only what changed since the look before is sent, so that a
/// stream that runs for days stays small.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum CheckpointEvent {
    /// A look has ended; replaces the one before.
    Look(CheckpointLook),
    /// What lies there of a job now; replaces what was said of the job before.
    Job(CheckpointJob),
    /// New lines of a job's journal, oldest first.
    Journal {
        /// The job.
        job: String,
        /// The lines.
        entries: Vec<JournalEntry>,
        /// Lines of the journal before these that were left out, since the watch began.
        left_out_count: u64,
        /// Lines that could not be read, since the watch began.
        skipped_count: u64,
        /// Whether this is another journal than the one before, whose lines are void.
        #[serde(default)]
        is_another: bool,
    },
    /// Nothing is left of a job.
    Gone {
        /// The job.
        job: String,
    },
}

impl CheckpointEvent {
    /// See [`crate::Event::comes_to_ns`].
    pub(crate) fn comes_to_ns(&self) -> Option<u64> {
        if let CheckpointEvent::Look(look) = self { Some(look.at_ns) } else { None }
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            CheckpointEvent::Look(look) => {
                let problems = look.problems.iter().map(|problem| problem.path.len() + problem.why.len());
                let drives = look.drives.iter().flat_map(|drives| &drives.drives).map(size_of_val);
                size_of_val(look.directories.as_slice())
                    + size_of_val(look.problems.as_slice())
                    + problems.chain(drives).sum::<usize>()
            }
            CheckpointEvent::Job(job) => {
                let texts = |one: &Generation| one.missing.len() + one.directory.len() + one.nonce.len();
                size_of_val(job.generations.as_slice()) + job.generations.iter().map(texts).sum::<usize>()
            }
            CheckpointEvent::Journal { entries, .. } => entries.iter().map(JournalEntry::held_bytes).sum(),
            CheckpointEvent::Gone { job } => job.len(),
        }
    }

    /// The lines of journals; see [`crate::Event::happened`].
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        let CheckpointEvent::Journal { job, entries, .. } = self else { return Vec::new() };
        let happened = |entry| JournalEntry::happened(entry, job);
        entries.iter().filter_map(happened).collect()
    }
}

/// The frame of one look: where it looked, and what is not as it should be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CheckpointLook {
    /// When it ended, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When it began, `CLOCK_REALTIME`.
    pub looked_realtime_ns: u64,
    /// How long it took.
    pub look_ns: u64,
    /// The directories that were named.
    pub directories: Vec<CheckpointDirectory>,
    /// Jobs beyond those that are told of.
    pub jobs_left_out: u64,
    /// Whether a limit ended the look before it had seen everything.
    pub is_cut: bool,
    /// What is not as it should be.
    pub problems: Vec<CheckpointProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// The wear of the drives beneath these directories; `None` where nobody publishes it.
    pub drives: Option<CheckpointDrives>,
}

/// A directory that was named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CheckpointDirectory {
    /// As it was named, absolute.
    pub path: String,
    /// What is kept there, or could be.
    pub tiers: Vec<CheckpointTier>,
    /// The kernel's word for its file system; `None` where it is not known.
    pub file_system: Option<String>,
    /// What may still be written there; `None` where it is not known.
    pub free_bytes: Option<u64>,
    /// Names of the drives beneath it, where they are known.
    pub drives: Vec<String>,
    /// Why it could not be looked at.
    pub problem: Option<String>,
}

/// Something in the directories of checkpoints that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CheckpointProblem {
    /// Where.
    pub path: String,
    /// What.
    pub why: String,
    /// The user whose directory it is in; `None` in recordings of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// The wear of drives at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CheckpointDrives {
    /// When it was read, `CLOCK_REALTIME`.
    pub read_realtime_ns: u64,
    /// The drives.
    pub drives: Vec<DriveWear>,
}

/// Where a copy of a checkpoint lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckpointTier {
    /// In memory.
    Memory,
    /// On the node's own drive.
    Durable,
    /// In a directory that all nodes see.
    Shared,
}

impl CheckpointTier {
    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckpointTier::Memory => "memory",
            CheckpointTier::Durable => "durable",
            CheckpointTier::Shared => "shared",
        }
    }

    /// What it is called within a sentence.
    pub fn name(self) -> &'static str {
        match self {
            CheckpointTier::Memory => "memory",
            CheckpointTier::Durable => "the SSD",
            CheckpointTier::Shared => "the shared directory",
        }
    }

    /// The place within a sentence.
    pub fn place(self) -> &'static str {
        match self {
            CheckpointTier::Memory => "in memory",
            CheckpointTier::Durable => "on the SSD",
            CheckpointTier::Shared => "in the shared directory",
        }
    }
}

/// What lies there of a job, without its journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CheckpointJob {
    /// The job's name; with the number of its user where that is not who looked.
    pub name: String,
    /// The user whose directories these are; `None` in recordings of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Where its checkpoints lie, one directory per tier.
    pub directories: Vec<String>,
    /// Whether a process holds the lock of a rank; `None` where there is no lock to be seen. A job in another container
    /// is not seen to run.
    pub is_running: Option<bool>,
    /// Newest first.
    pub generations: Vec<Generation>,
    /// Generations beyond those.
    pub generations_left_out: u64,
    /// What it had here and of which nothing is left, a sentence for each tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// A checkpoint in one tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Generation {
    /// Its number, which grows with each checkpoint of the job.
    pub number: u64,
    /// Sixteen hexadecimal digits, because a number of 64 bits does not survive every reader of JSON.
    pub nonce: String,
    /// Where this copy lies.
    pub tier: CheckpointTier,
    /// How whole it is.
    pub state: GenerationState,
    /// What is missing or wrong, one sentence; empty where nothing is.
    pub missing: String,
    /// When it was taken, `CLOCK_REALTIME`; `None` where no manifest says it.
    pub taken_realtime_ns: Option<u64>,
    /// Ranks that are here.
    pub ranks_here: u32,
    /// Ranks that it has; 0 where no manifest says it.
    pub ranks: u32,
    /// Payload of the ranks that are here; `None` where the manifest of one cannot be read.
    pub payload_bytes: Option<u64>,
    /// What the parts that are here take in the tier.
    pub stored_bytes: u64,
    /// `shard`, `chip` or `checked`; empty where no manifest says it.
    pub protection: String,
    /// Where the first of its copies lies.
    pub directory: String,
}

/// How whole a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
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
    /// Every state.
    pub const ALL: [GenerationState; 4] =
        [GenerationState::Complete, GenerationState::Partial, GenerationState::Unfinished, GenerationState::Damaged];

    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            GenerationState::Complete => "complete",
            GenerationState::Partial => "partial",
            GenerationState::Unfinished => "unfinished",
            GenerationState::Damaged => "damaged",
        }
    }
}
