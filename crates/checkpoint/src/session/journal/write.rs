//! What the session writes to its journal.

use super::answers::Answers;
use super::{Entry, JOURNAL_NAME, JournalEvent, LIMITS, OLDER_NAME};
use crate::Config;
use crate::session::clock;
use crate::storage::Directory;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use surefoot_foreign::Held;
use surefoot_journal::{Rotating, Writer};

/// Notices that wait for [`crate::Checkpointer::take_notices`]; of more the oldest go.
const NOTICES_MAX: usize = 100;

/// Writes the journal of one session; does nothing on other ranks than the first. The notices are each rank's own.
pub struct Journal {
    /// `None` on other ranks, and once it is closed.
    pub(super) file: Option<Rotating>,
    pub(super) decided: BTreeMap<String, u64>,
    pub(super) answers: Answers,
    /// What a new file begins with.
    pub(super) opening: Option<JournalEvent>,
    /// What the program is told, on every rank.
    notices: Vec<String>,
}

impl Journal {
    /// The journal of this rank; the job's directories are there already.
    pub fn new(config: &Config, rank: u32) -> Self {
        let base = config.directories().next().filter(|_| rank == 0);
        Journal {
            file: base.map(|base| Rotating::new(base.join(&config.job), JOURNAL_NAME, OLDER_NAME, LIMITS)),
            decided: BTreeMap::new(),
            answers: Answers::default(),
            opening: None,
            notices: Vec::new(),
        }
    }

    /// Keeps a line for the program; of too many the oldest go.
    pub fn note(&mut self, text: String) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.remove(0);
        }
        self.notices.push(text);
    }

    /// As [`Journal::note`], of each.
    pub fn notes(&mut self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.note(text));
    }

    /// Lines that the program was not told yet.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Writes nothing more.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Where the journal is; `None` on other ranks, and once it is closed.
    pub fn directory(&self) -> Option<&Path> {
        self.file.as_ref().map(Rotating::directory)
    }

    /// Lines that could not be written.
    pub fn lost_count(&self) -> u64 {
        self.file.as_ref().map_or(0, Rotating::lost_count)
    }

    /// Appends a line, or counts it.
    pub(super) fn append(&mut self, event: JournalEvent) {
        let Some(file) = &mut self.file else { return };
        let realtime_ns = clock::realtime_ns();
        let entry = |event| move |lost_count| Entry { realtime_ns, lost_count, event };
        file.append(entry(event), self.opening.clone().map(entry));
    }
}

/// Writes into the journal in a directory of this user's, if there is one, that a command removed all in these tiers. No file is made: one
/// that root made would not be the job's.
///
/// # Errors
/// When the journal belongs to another user, is no regular file, is full or cannot be written.
pub(crate) fn note_removal(job_directory: &Path, owner: u32, tiers: &[String]) -> io::Result<()> {
    let directory = Directory::open(job_directory)?;
    if directory.owner() != owner {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"));
    }
    let held = |name: &str| surefoot_foreign::hold_in(directory.as_file(), OsStr::new(name)).and_then(Held::regular);
    let is_absent = |name: &str| held(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let file = match held(JOURNAL_NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match is_absent(OLDER_NAME) {
            true => return Ok(()),
            // It was full, and the next session begins a new one; until then there is none to write to.
            false => return Err(io::Error::new(io::ErrorKind::NotFound, "there is only its older file")),
        },
        found => found?.of_user(owner)?.of_one_name()?.open_to_write()?,
    };
    let mut writer = Writer::reopen(&file, LIMITS)?;
    if tiers.is_empty() {
        return Err(io::Error::other("which tier was removed is not known"));
    }
    for tier in tiers {
        let event = JournalEvent::Removed { tier: tier.clone(), uid: crate::tier::effective_user() };
        let entry = Entry { realtime_ns: clock::realtime_ns(), lost_count: 0, event };
        writer.append(&entry).map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::session::journal::JOURNAL_BYTES_MAX;
    use crate::session::journal::read;
    use crate::session::journal::tests::{decision, journal, numbers, opened, tier};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_never_grows_beyond_two_files_and_the_newest_lines_stay() {
        let tier = tier();
        let mut journal = journal(tier.path());
        journal.append(opened(false));
        journal.opening = Some(opened(true));
        for number in 1..=5_000 {
            journal.append(decision(number));
        }
        assert_eq!(journal.lost_count(), 0);
        let directory = tier.path().join("job");
        let lengths = [JOURNAL_NAME, OLDER_NAME].map(|name| fs::metadata(directory.join(name)).unwrap().len());
        assert!(lengths.iter().all(|&length| length <= JOURNAL_BYTES_MAX), "{lengths:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        let found = read(&directory, usize::MAX).unwrap().unwrap();
        let openings = found.entries.iter().filter(|entry| entry.event == opened(true)).count();
        assert_eq!((openings, found.skipped_count()), (2, 0), "each file says what session it is of");
        let found = numbers(&found);
        assert!(found.len() > 1_000 && found.len() < 5_000, "{}", found.len());
        assert!(found.iter().copied().eq(5_001 - found.len() as u64..=5_000));
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_its_whole_lines_and_the_next_session_goes_on() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        let mut first = journal(tier.path());
        (1..=3).for_each(|number| first.append(decision(number)));
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let before = read(&directory, 100).unwrap().unwrap();
            assert_eq!((numbers(&before).len(), before.skipped_count()), (lines, 0), "cut at {cut}");
            journal(tier.path()).append(decision(9));
            let after = read(&directory, 100).unwrap().unwrap();
            assert_eq!(numbers(&after).last(), Some(&9), "cut at {cut}");
            // A line that lacks nothing but its end is whole again.
            let is_whole = whole.get(cut) == Some(&b'\n');
            let torn = u64::from(cut > 0 && whole[cut - 1] != b'\n' && !is_whole);
            assert_eq!((numbers(&after).len() - 1 - lines, after.skipped_count()), (usize::from(is_whole), torn));
        }
    }

    #[test]
    fn links_pipes_and_directories_in_its_place_are_refused_and_counted() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        let elsewhere = tier.path().join("elsewhere");
        fs::write(&elsewhere, "untouched").unwrap();
        symlink(&elsewhere, &path).unwrap();
        let mut journal = journal(tier.path());
        journal.append(decision(1));
        assert!(journal.lost_count() == 1 && read(&directory, 9).unwrap_err().to_string().contains(JOURNAL_NAME));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"untouched");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        journal.append(decision(2));
        assert!(journal.lost_count() == 2 && read(&directory, 9).is_err());
        fs::remove_dir(&path).unwrap();
        // From here on it works again, and says what was lost.
        journal.append(decision(3));
        let found = read(&directory, 9).unwrap().unwrap();
        assert_eq!((numbers(&found), found.entries[0].lost_count), (vec![3], 2));
    }
}
