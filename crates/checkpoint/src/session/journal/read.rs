//! Reads a journal, which anybody may have written.

use super::{Entry, Event, JOURNAL_NAME, LIMITS, OLDER_NAME, REASONS_MAX};
use crate::Error;
use crate::storage::Directory;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_journal::newest;

/// The older file and the newer one.
type Both = (Option<File>, Option<File>);

/// The journal of a job as it is read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Lines that could be read, oldest first.
    pub entries: Vec<Entry>,
    /// Lines that could not.
    pub skipped_count: u64,
    /// Lines before those, left out because there are more than were asked for.
    pub left_out_count: u64,
}

/// Reads the journal in a job's directory: the newest `entries_max` lines. `None` when there is no journal.
///
/// # Errors
/// [`Error::Storage`] when a file is there and cannot be read, or is no regular file.
pub fn read(job_directory: &Path, entries_max: usize) -> Result<Option<History>, Error> {
    history_of(open_both(|name| open_to_read(&job_directory.join(name)))?, job_directory, entries_max)
}

fn history_of((older, newer): Both, job_directory: &Path, entries_max: usize) -> Result<Option<History>, Error> {
    if older.is_none() && newer.is_none() {
        return Ok(None);
    }
    let mut history = History::default();
    for (file, name) in [(older, OLDER_NAME), (newer, JOURNAL_NAME)] {
        let Some(file) = file else { continue };
        let path = job_directory.join(name);
        let read = newest(&file, LIMITS, parse).map_err(Error::storage("read", &path))?;
        history.entries.extend(read.lines);
        history.skipped_count += read.skipped_count;
    }
    let left_out = history.entries.len().saturating_sub(entries_max);
    history.entries.drain(..left_out);
    history.left_out_count = left_out as u64;
    Ok(Some(history))
}

/// As [`read`], where the directory and the journal are this user's and no part of the path is a symbolic link: so that
/// nobody has the journal of another user read as his own.
///
/// # Errors
/// As [`read`], and when something belongs to another user.
pub fn read_of(job_directory: &Path, owner: u32, entries_max: usize) -> Result<Option<History>, Error> {
    let directory = Directory::open(job_directory).map_err(Error::storage("open", job_directory))?;
    let refuse = |path: &Path, uid: u32| match uid == owner {
        true => Ok(()),
        false => {
            let why = format!("it belongs to the user with number {uid}, not {owner}");
            Err(Error::storage("use", path)(io::Error::new(io::ErrorKind::PermissionDenied, why)))
        }
    };
    refuse(job_directory, directory.owner())?;
    let open = |name: &str| match directory.file(OsStr::new(name)) {
        Ok((file, found)) => refuse(&job_directory.join(name), found.uid()).map(|()| Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::storage("open", &job_directory.join(name))(error)),
    };
    history_of(open_both(open)?, job_directory, entries_max)
}

/// Both files as of one moment: when one is renamed meanwhile, it would be both.
fn open_both(open: impl Fn(&str) -> Result<Option<File>, Error>) -> Result<Both, Error> {
    let mut both = (None, None);
    for _ in 0..3 {
        let newer = open(JOURNAL_NAME)?;
        let older = open(OLDER_NAME)?;
        let inode = |file: &Option<File>| file.as_ref().and_then(|file| file.metadata().ok()).map(|found| found.ino());
        let is_renamed = newer.is_some() && inode(&newer) == inode(&older);
        both = (older, newer);
        if !is_renamed {
            return Ok(both);
        }
    }
    both.1 = None;
    Ok(both)
}

fn open_to_read(path: &Path) -> Result<Option<File>, Error> {
    let failed = Error::storage("open", path);
    match surefoot_foreign::hold_name(path).and_then(|held| held.regular()?.open()) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn parse(line: &[u8]) -> Option<Entry> {
    let entry: Entry = serde_json::from_slice(line).ok()?;
    let is_ours = match &entry.event {
        Event::Decision(decided) => decided.reasons.len() <= REASONS_MAX && decided.decided.len() <= REASONS_MAX,
        Event::Asked(answered) => answered.reasons.len() <= REASONS_MAX,
        _ => true,
    };
    is_ours.then_some(entry)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{decision, journal, numbers, tier};
    use super::super::{Answered, Decided};
    use super::*;
    use std::fs;

    #[test]
    fn hostile_lines_are_skipped_and_counted() {
        let tier = tier();
        let directory = tier.path().join("job");
        let path = directory.join(JOURNAL_NAME);
        journal(tier.path()).append(decision(1));
        let good = fs::read(&path).unwrap();
        let many = serde_json::to_string(&Entry {
            realtime_ns: 1,
            lost_count: 0,
            event: Event::Decision(Box::new(Decided { reasons: vec![String::new(); 100], ..Decided::default() })),
        });
        let many_told = serde_json::to_string(&Entry {
            realtime_ns: 1,
            lost_count: 0,
            event: Event::Asked(Box::new(Answered { reasons: vec![String::new(); 100], ..Answered::default() })),
        });
        let long = format!("{{\"realtime_ns\":1,\"event\":\"restart\",\"report\":\"{}\"}}", "x".repeat(5_000));
        let hostile = [
            "{}",
            "null",
            "{\"realtime_ns\":1,\"event\":\"unheard_of\"}",
            "{\"realtime_ns\":-1,\"event\":\"opened\",\"job\":\"j\",\"ranks\":1,\"policy\":\"x\"}",
            "{\"realtime_ns\":1,\"event\":\"durable\",\"tier\":\"shared\",\"generation\":1,\"age_s\":1e999,\"took_s\":1,\"bytes\":1}",
            &"[".repeat(4_000),
            &many.unwrap(),
            &many_told.unwrap(),
            &long,
            "\u{feff}\u{202e}",
        ];
        let mut text = good.clone();
        for line in hostile {
            text.extend(line.as_bytes());
            text.push(b'\n');
        }
        text.extend(b"\xFF\xFE\x00\n\n\n");
        text.extend(&good);
        fs::write(&path, &text).unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!((numbers(&found), found.skipped_count), (vec![1, 1], hostile.len() as u64 + 1));
        // A file that is longer than any of ours is read from its end.
        fs::write(&path, [vec![b'z'; 3 << 20], b"\n".to_vec(), good].concat()).unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!((numbers(&found), found.skipped_count), (vec![1], 1));
    }
}
