//! What a job decided, and what became of it: a few lines of JSON beside its checkpoints, for whoever looks from outside.
//!
//! # The file
//! Rank 0 writes `journal.jsonl` in the job's directory of the memory tier, or of the durable one without a memory tier:
//! one JSON object per line, [`Entry`]. At [`JOURNAL_BYTES_MAX`] it becomes `journal.1.jsonl` in place of the one before,
//! so there are never more than two. It is private to the user and is never synced: it tells, and nothing depends on it.
//! What cannot be written is counted in the next line that can, and is no error of the save.
//!
//! A reader takes every line for hostile: what is too long, cut or something else is skipped and counted.

mod answers;
mod read;
mod record;
mod write;

pub use read::{History, read};
pub(super) use write::Journal;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the file that is written to.
pub const JOURNAL_NAME: &str = "journal.jsonl";

/// The name of the one before it.
pub const OLDER_NAME: &str = "journal.1.jsonl";

/// Length of one file, bytes: over a thousand decisions.
pub const JOURNAL_BYTES_MAX: u64 = 512 << 10;

/// The longest line that is written or read, bytes.
pub const LINE_BYTES_MAX: usize = 4096;

/// The most reasons of a decision.
const REASONS_MAX: usize = 8;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// `CLOCK_REALTIME` of the writing, nanoseconds.
    pub realtime_ns: u64,
    /// Lines before this one that could not be written, since the session began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_count: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A session began.
    Opened {
        /// The job.
        job: String,
        /// Its ranks.
        ranks: u32,
        /// The word for the policy.
        policy: String,
        /// The directory that several nodes share, where there is one: below it the job's copies are no SSD's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        shared: String,
        /// Whether it began in the file before this one, and the line is here so that it is not forgotten.
        #[serde(default, skip_serializing_if = "is_no")]
        is_repeated: bool,
    },
    /// It was decided where a checkpoint goes, and it went there or failed.
    Decision(Box<Decided>),
    /// The job asked whether a checkpoint pays, and the answer is another than the last that was written.
    Asked(Box<Answered>),
    /// A checkpoint that was written in the background is durable.
    Durable {
        /// `durable` on the node's own drive, `shared` in the shared directory.
        tier: String,
        /// Its number.
        generation: u64,
        /// Seconds from the moment at which it was taken to this line.
        age_s: f64,
        /// Seconds that writing took.
        took_s: f64,
        /// Bytes that all ranks wrote.
        bytes: u64,
    },
    /// A checkpoint on its way did not become durable.
    NotDurable {
        /// As above.
        tier: String,
        /// Its number.
        generation: u64,
        /// Why.
        why: String,
    },
    /// The job asked for its newest checkpoint.
    Restart {
        /// The one that came back; `None` when there was none, or none was intact.
        generation: Option<u64>,
        /// What rank 0 met, or why nothing came back.
        report: String,
    },
}

/// An answer to whether a checkpoint pays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Where one would go that were taken then, as in [`Decided`]; `skip` when none pays.
    pub place: String,
    /// Why, the deciding reason first.
    pub reasons: Vec<String>,
    /// How often the job asked since the last such line, this time included. The answers between were the same but for
    /// their numbers, or changed too often to be written each time.
    pub asked_count: u64,
    /// Age of the newest durable copy; of the session where it has none.
    pub durable_age_s: f64,
    /// Seconds since the session began.
    pub session_s: f64,
}

/// A decision, with what was known and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Where it went: the label of the place in lower case, with `_` for spaces.
    pub place: String,
    /// Its number; `None` when none was taken.
    pub generation: Option<u64>,
    /// Why, the deciding reason first.
    pub reasons: Vec<String>,
    /// Why it could not be saved; empty when it was, or none was to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Bytes of rank 0's payload.
    pub payload_bytes: u64,
    /// Bytes of the whole checkpoint on one node in the durable tier; the maximum over nodes.
    pub node_bytes: u64,
    /// Seconds that the call took.
    pub visible_s: f64,
    /// Age of the newest durable copy before the decision; of the session where it has none.
    pub durable_age_s: f64,
    /// The bound on that age, where the policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_max_s: Option<f64>,
    /// Bytes that the durable tier took on one node since the session began; the maximum over nodes.
    pub durable_bytes: u64,
    /// Seconds since the session began.
    pub session_s: f64,
    /// Of these, visible in checkpoints.
    pub checkpoint_s: f64,
    /// Where the drive's endurance is known: bytes per second that it bears until the wished end of its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes_per_s: Option<f64>,
    /// Where it is known: bytes that may still be written before the rating is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_left_bytes: Option<f64>,
    /// Decisions of the session so far by place, this one included.
    pub decided: BTreeMap<String, u64>,
}

fn is_no(value: &bool) -> bool {
    !value
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Config;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    pub(super) fn decision(number: u64) -> Event {
        Event::Decision(Box::new(Decided {
            place: "memory".into(),
            generation: Some(number),
            reasons: vec!["the durable copy is 12 s old; every 900 s wastes least".into()],
            payload_bytes: 1 << 30,
            visible_s: 0.1 + 0.2,
            durable_age_s: 12.0,
            staleness_max_s: Some(3600.0),
            decided: BTreeMap::from([("memory".to_owned(), number)]),
            ..Decided::default()
        }))
    }

    pub(super) fn opened(is_repeated: bool) -> Event {
        let (job, policy, shared) = ("job".into(), "surefoot".into(), "/scratch".into());
        Event::Opened { job, ranks: 4, policy, shared, is_repeated }
    }

    pub(super) fn journal(directory: &Path) -> Journal {
        Journal::new(&Config::new("job", directory, None), 0)
    }

    /// A tier's directory with that of a job in it.
    pub(super) fn tier() -> tempfile::TempDir {
        let tier = tempfile::tempdir().unwrap();
        fs::create_dir(tier.path().join("job")).unwrap();
        tier
    }

    pub(super) fn numbers(history: &History) -> Vec<u64> {
        let number = |entry: &Entry| match &entry.event {
            Event::Decision(decided) => decided.generation,
            _ => None,
        };
        history.entries.iter().filter_map(number).collect()
    }

    #[test]
    fn what_happened_is_read_back_as_it_was_written() {
        let tier = tier();
        let events = [
            opened(false),
            decision(1),
            Event::Durable { tier: "durable".into(), generation: 1, age_s: 2.5, took_s: 2.0, bytes: 4 << 30 },
            Event::NotDurable { tier: "shared".into(), generation: 2, why: "no room; \"quoted\"\n\u{0}".into() },
            Event::Restart { generation: Some(1), report: "rank 0: all good".into() },
            Event::Restart { generation: None, report: String::new() },
            Event::Asked(Box::new(Answered { place: "skip".into(), asked_count: u64::MAX, ..Answered::default() })),
        ];
        let directory = tier.path().join("job");
        assert_eq!(read(&directory, 10).unwrap(), None, "nothing there is not an empty journal");
        let mut journal = journal(tier.path());
        for event in events.clone() {
            journal.append(event);
        }
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!(found.entries.iter().map(|entry| entry.event.clone()).collect::<Vec<_>>(), events);
        assert!(found.entries.is_sorted_by_key(|entry| entry.realtime_ns) && found.skipped_count == 0);
        let newest = read(&directory, 2).unwrap().unwrap();
        assert_eq!((newest.entries.len(), newest.left_out_count), (2, 5));
        assert_eq!(newest.entries[1].event, events[6]);
        let mode = fs::metadata(directory.join(JOURNAL_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "private, as the checkpoints are");
    }
}
