//! Appends lines to the journal, and puts a new file in its place when it is full.

use super::answers::Answers;
use super::{Entry, Event, JOURNAL_BYTES_MAX, JOURNAL_NAME, LINE_BYTES_MAX, OLDER_NAME};
use crate::Config;
use crate::session::clock;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Notices that wait for [`crate::Checkpointer::take_notices`]; of more the oldest go.
const NOTICES_MAX: usize = 100;

/// Writes the journal of one session; does nothing on other ranks than the first. The notices are each rank's own.
pub(in super::super) struct Journal {
    pub(super) directory: Option<PathBuf>,
    pub(super) file: Option<File>,
    bytes: u64,
    /// Whether the file may end in half a line.
    is_torn: bool,
    lost_count: u64,
    pub(super) decided: BTreeMap<String, u64>,
    pub(super) answers: Answers,
    /// What a new file begins with.
    pub(super) opening: Option<Event>,
    /// What the program is told, on every rank.
    notices: Vec<String>,
}

impl Journal {
    /// The journal of this rank; the job's directories are there already.
    pub(in super::super) fn new(config: &Config, rank: u32) -> Self {
        let directories = [
            config.memory.as_ref().map(|memory| &memory.directory),
            config.durable.as_ref().map(|durable| &durable.directory),
            config.shared.as_ref().map(|shared| &shared.directory),
        ];
        let base = directories.into_iter().flatten().next().filter(|_| rank == 0);
        Journal {
            directory: base.map(|base| base.join(&config.job)),
            file: None,
            bytes: 0,
            is_torn: true,
            lost_count: 0,
            decided: BTreeMap::new(),
            answers: Answers::default(),
            opening: None,
            notices: Vec::new(),
        }
    }

    /// Keeps a line for the program; of too many the oldest go.
    pub(in super::super) fn note(&mut self, text: String) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.remove(0);
        }
        self.notices.push(text);
    }

    /// Lines that the program was not told yet.
    pub(in super::super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Writes nothing more.
    pub(in super::super) fn close(&mut self) {
        (self.directory, self.file) = (None, None);
    }

    /// Lines that could not be written.
    pub(super) fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Appends a line, or counts it.
    pub(super) fn append(&mut self, event: Event) {
        let Some(directory) = self.directory.clone() else { return };
        let entry = Entry { realtime_ns: clock::realtime_ns(), lost_count: self.lost_count, event };
        if self.try_append(&directory, &entry).is_err() {
            self.lost_count += 1;
            self.file = None;
        }
    }

    fn try_append(&mut self, directory: &Path, entry: &Entry) -> io::Result<()> {
        let mut line = Vec::with_capacity(1024);
        line.push(b'\n');
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        if line.len() > LINE_BYTES_MAX {
            return Err(io::Error::other("the line is too long"));
        }
        if self.file.is_none() {
            self.open(directory)?;
        }
        if self.bytes + line.len() as u64 > JOURNAL_BYTES_MAX {
            self.file = None;
            fs::rename(directory.join(JOURNAL_NAME), directory.join(OLDER_NAME))?;
            self.open(directory)?;
            if let Some(event) = self.opening.clone() {
                let repeated = Entry { event, ..entry.clone() };
                self.try_append(directory, &repeated)?;
            }
        }
        let line = if self.is_torn { &line[..] } else { &line[1..] };
        let Some(file) = &mut self.file else { return Err(io::Error::other("there is no file")) };
        // One write of the whole line, so that a reader never sees another's line within it.
        self.is_torn = true;
        file.write_all(line)?;
        self.is_torn = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn open(&mut self, directory: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
        let file = options.open(directory.join(JOURNAL_NAME))?;
        let found = file.metadata()?;
        // The directory was found to be ours when its tier was opened.
        if !found.is_file() || found.uid() != fs::symlink_metadata(directory)?.uid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not ours"));
        }
        self.bytes = found.len();
        self.is_torn = self.bytes > 0;
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::read;
    use super::super::tests::{decision, journal, numbers, opened, tier};
    use super::*;
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
        assert_eq!(journal.lost_count, 0);
        let directory = tier.path().join("job");
        let lengths = [JOURNAL_NAME, OLDER_NAME].map(|name| fs::metadata(directory.join(name)).unwrap().len());
        assert!(lengths.iter().all(|&length| length <= JOURNAL_BYTES_MAX), "{lengths:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        let found = read(&directory, usize::MAX).unwrap().unwrap();
        let openings = found.entries.iter().filter(|entry| entry.event == opened(true)).count();
        assert_eq!((openings, found.skipped_count), (2, 0), "each file says what session it is of");
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
            assert_eq!((numbers(&before).len(), before.skipped_count), (lines, 0), "cut at {cut}");
            journal(tier.path()).append(decision(9));
            let after = read(&directory, 100).unwrap().unwrap();
            assert_eq!(numbers(&after).last(), Some(&9), "cut at {cut}");
            // A line that lacks nothing but its end is whole again.
            let is_whole = whole.get(cut) == Some(&b'\n');
            let torn = u64::from(cut > 0 && whole[cut - 1] != b'\n' && !is_whole);
            assert_eq!((numbers(&after).len() - 1 - lines, after.skipped_count), (usize::from(is_whole), torn));
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
        assert!(journal.lost_count == 1 && read(&directory, 9).unwrap_err().to_string().contains(JOURNAL_NAME));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"untouched");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        journal.append(decision(2));
        assert!(journal.lost_count == 2 && read(&directory, 9).is_err());
        fs::remove_dir(&path).unwrap();
        // From here on it works again, and says what was lost.
        journal.append(decision(3));
        let found = read(&directory, 9).unwrap().unwrap();
        assert_eq!((numbers(&found), found.entries[0].lost_count), (vec![3], 2));
    }
}
