//! What a job decided, and what became of it: a few lines of JSON beside its checkpoints, for whoever looks from outside.
//!
//! # The file
//! Rank 0 writes `journal.jsonl` in the job's directory of the memory tier, or of the durable one without a memory tier:
//! one JSON object per line, [`Entry`], whose shape is shared with who reads it. At [`JOURNAL_BYTES_MAX`] it becomes `journal.1.jsonl` in place of the one before,
//! so there are never more than two. It is private to the user and is never synced: it tells, and nothing depends on it.
//! What cannot be written is counted in the next line that can, and is no error of the save.
//!
//! A reader takes every line for hostile: what is too long, cut or something else is skipped and counted.

mod answers;
mod claims;
mod missed;
mod read;
mod record;
mod tail;
mod write;

pub(crate) use claims::{Claim, Claims, claims, is_strange};
pub(super) use missed::{is_all_removed, newer_that_is_gone};
pub use read::{Followed, History, read, read_of};
pub use tail::Skipped;
pub(super) use write::Journal;
pub(crate) use write::note_removal;

use surefoot_journal::Limits;
pub use surefoot_model::{Answered, Decided, JournalEntry as Entry, JournalEvent};

/// The name of the file that is written to.
pub const JOURNAL_NAME: &str = "journal.jsonl";

/// The name of the one before it.
pub const OLDER_NAME: &str = "journal.1.jsonl";

/// Length of one file, bytes: over a thousand decisions.
pub const JOURNAL_BYTES_MAX: u64 = 512 << 10;

/// The longest line that is written or read, bytes.
pub const LINE_BYTES_MAX: usize = 4096;

const LIMITS: Limits = Limits { line_bytes: LINE_BYTES_MAX, file_bytes: JOURNAL_BYTES_MAX };

/// The most reasons of a decision.
const REASONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Config;
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use surefoot_model::RestartOutcome;

    pub(super) fn decision(number: u64) -> JournalEvent {
        JournalEvent::Decision(Box::new(Decided {
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

    pub(super) fn opened(is_repeated: bool) -> JournalEvent {
        let (job, policy, shared) = ("job".into(), "surefoot".into(), "/scratch".into());
        let weakness = Some("partner=yes protects nothing".into());
        JournalEvent::Opened { job, ranks: 4, policy, shared, weakness, is_repeated }
    }

    pub(super) fn journal(directory: &Path) -> Journal {
        Journal::new(&Config::new("job", directory, None), 0)
    }

    /// A tier's directory with that of a job in it.
    pub(super) fn tier() -> tempfile::TempDir {
        let tier = crate::testing::folder();
        fs::create_dir(tier.path().join("job")).unwrap();
        tier
    }

    pub(super) fn numbers(history: &History) -> Vec<u64> {
        let number = |entry: &Entry| match &entry.event {
            JournalEvent::Decision(decided) => decided.generation,
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
            JournalEvent::Durable {
                tier: "durable".into(),
                generation: 1,
                age_s: 2.5,
                took_s: 2.0,
                bytes: 4 << 30,
                is_durable: Some(true),
            },
            JournalEvent::NotDurable { tier: "shared".into(), generation: 2, why: "no room; \"quoted\"\n\u{0}".into() },
            JournalEvent::Restart {
                generation: Some(1),
                report: "rank 0: 4 pages, intact".into(),
                outcome: None,
                tier: None,
            },
            JournalEvent::Restart {
                generation: None,
                report: String::new(),
                outcome: Some(RestartOutcome::Failed),
                tier: Some("memory".into()),
            },
            JournalEvent::Asked(Box::new(Answered {
                place: "skip".into(),
                asked_count: u64::MAX,
                ..Answered::default()
            })),
        ];
        let directory = tier.path().join("job");
        assert_eq!(read(&directory, 10).unwrap(), None, "nothing there is not an empty journal");
        let mut journal = journal(tier.path());
        for event in events.clone() {
            journal.append(event);
        }
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!(found.entries.iter().map(|entry| entry.event.clone()).collect::<Vec<_>>(), events);
        assert!(found.entries.is_sorted_by_key(|entry| entry.realtime_ns) && found.skipped_count() == 0);
        let newest = read(&directory, 2).unwrap().unwrap();
        assert_eq!((newest.entries.len(), newest.left_out_count), (2, 5));
        assert_eq!(newest.entries[1].event, events[6]);
        let mode = fs::metadata(directory.join(JOURNAL_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "private, as the checkpoints are");
    }
}
