//! Reads a journal, which anybody may have written.

use super::tail::{Known, Skipped, Tail, Wanted};
use super::{Entry, JOURNAL_NAME, JournalEvent, OLDER_NAME, REASONS_MAX};
use crate::Error;
use crate::storage::Directory;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_journal::GrowingFile;

/// The older file and the newer one.
type Both = (Option<File>, Option<File>);

/// The journal of a job as it is read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Lines that could be read, oldest first.
    pub entries: Vec<Entry>,
    /// Lines that could not, of the older file and of the newer one.
    pub skipped: [Skipped; 2],
    /// Lines before those, left out because there are more than were asked for.
    pub left_out_count: u64,
    /// How many of the lines, the last ones, this look read for the first time.
    pub fresh_count: usize,
    /// Whether the newer of its two files is empty beside the older one.
    pub is_newer_empty: bool,
}

impl History {
    /// Lines that could not be read.
    pub fn skipped_count(&self) -> u64 {
        self.skipped.iter().map(|skipped| skipped.count()).fold(0, u64::saturating_add)
    }
}

/// Reads the journal in a job's directory: the newest `entries_max` lines. `None` when there is no journal.
///
/// # Errors
/// [`Error::Storage`] when a file is there and cannot be read, or is no regular file.
pub fn read(job_directory: &Path, entries_max: usize) -> Result<Option<History>, Error> {
    let both = open_both(|name| open_to_read(&job_directory.join(name)))?;
    history_of(&mut Tail::default(), both, job_directory, newest(entries_max))
}

/// The newest lines, and no others.
fn newest(entries_max: usize) -> Wanted {
    Wanted { newest: entries_max, fresh: false, bytes_max: u64::MAX }
}

fn history_of(
    tail: &mut Tail,
    (older, newer): Both,
    job_directory: &Path,
    wanted: Wanted,
) -> Result<Option<History>, Error> {
    if older.is_none() && newer.is_none() {
        *tail = Tail::default();
        return Ok(None);
    }
    let length = |file: &File| file.metadata().map_or(u64::MAX, |found| found.len());
    let is_newer_empty = older.is_some() && newer.as_ref().is_some_and(|newer| length(newer) == 0);
    let paths = [OLDER_NAME, JOURNAL_NAME].map(|name| job_directory.join(name));
    let [of_older, of_newer] = &paths;
    let files = [
        older.map(|file| GrowingFile::of_file(of_older, file)),
        newer.map(|file| GrowingFile::of_file(of_newer, file)),
    ];
    let known = tail.read(files, wanted, &parse).map_err(Error::storage("read", job_directory))?;
    let Known { entries, fresh_count, skipped, left_out_count } = known;
    Ok(Some(History { entries, skipped, left_out_count, fresh_count, is_newer_empty }))
}

/// The journals of several jobs, read again and again: each time only what was appended.
#[derive(Debug, Default)]
pub struct Followed {
    tails: BTreeMap<(PathBuf, u32), Tail>,
    read_bytes: u64,
}

impl Followed {
    /// As [`read_of`], and all lines that were appended since the last look, with the one before them, however many they are; of more than
    /// `bytes_max` the rest comes with the next look. What is known of the journal is held until [`Followed::keep_only`] forgets it.
    ///
    /// # Errors
    /// As [`read_of`]; the next time it is read whole.
    pub fn read_of(
        &mut self,
        job_directory: &Path,
        owner: u32,
        entries_max: usize,
        bytes_max: u64,
    ) -> Result<Option<History>, Error> {
        let key = (job_directory.to_owned(), owner);
        let mut tail = self.tails.remove(&key).unwrap_or_default();
        let before = tail.read_bytes;
        let wanted = Wanted { newest: entries_max, fresh: true, bytes_max };
        let read = open_of(job_directory, owner).and_then(|both| history_of(&mut tail, both, job_directory, wanted));
        self.read_bytes += tail.read_bytes.saturating_sub(before);
        if matches!(read, Ok(Some(_))) {
            self.tails.insert(key, tail);
        }
        read
    }

    /// Forgets all journals but these.
    pub fn keep_only(&mut self, is_kept: impl Fn(&Path, u32) -> bool) {
        self.tails.retain(|(directory, owner), _| is_kept(directory, *owner));
    }

    /// Bytes of journals that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }
}

/// As [`read`], where the directory and the journal are this user's and no part of the path is a symbolic link: so that
/// nobody has the journal of another user read as his own.
///
/// # Errors
/// As [`read`], and when something belongs to another user.
pub fn read_of(job_directory: &Path, owner: u32, entries_max: usize) -> Result<Option<History>, Error> {
    history_of(&mut Tail::default(), open_of(job_directory, owner)?, job_directory, newest(entries_max))
}

/// Opens both files of a user's journal.
fn open_of(job_directory: &Path, owner: u32) -> Result<Both, Error> {
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
    open_both(open)
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
        JournalEvent::Decision(decided) => decided.reasons.len() <= REASONS_MAX && decided.decided.len() <= REASONS_MAX,
        JournalEvent::Asked(answered) => answered.reasons.len() <= REASONS_MAX,
        _ => true,
    };
    is_ours.then_some(entry)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::session::journal::tests::{decision, journal, numbers, tier};
    use crate::session::journal::{Answered, Decided, LIMITS};
    use std::fs;
    use surefoot_random::Random;

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
            event: JournalEvent::Decision(Box::new(Decided {
                reasons: vec![String::new(); 100],
                ..Decided::default()
            })),
        });
        let many_told = serde_json::to_string(&Entry {
            realtime_ns: 1,
            lost_count: 0,
            event: JournalEvent::Asked(Box::new(Answered { reasons: vec![String::new(); 100], ..Answered::default() })),
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
        assert_eq!((numbers(&found), found.skipped_count()), (vec![1, 1], hostile.len() as u64 + 1));
        // A file that is longer than any of ours is read from its end.
        fs::write(&path, [vec![b'z'; 3 << 20], b"\n".to_vec(), good].concat()).unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        assert_eq!((numbers(&found), found.skipped_count()), (vec![1], 1));
    }

    /// This user.
    fn own() -> u32 {
        fs::metadata("/proc/self").unwrap().uid()
    }

    #[test]
    fn a_look_reads_no_more_than_was_appended() {
        let tier = tier();
        let directory = tier.path().canonicalize().unwrap().join("job");
        let mut writing = journal(tier.path());
        (1..=600).for_each(|number| writing.append(decision(number)));
        let mut followed = Followed::default();
        let mut look = || {
            let before = followed.read_bytes();
            let found = followed.read_of(&directory, own(), 1_000, u64::MAX).unwrap().unwrap();
            (followed.read_bytes() - before, found)
        };
        let length = fs::metadata(directory.join(JOURNAL_NAME)).unwrap().len();
        assert!((length..length + 1_000).contains(&look().0));
        assert_eq!(look().0, 128, "nothing was appended");
        writing.append(decision(601));
        let appended = fs::metadata(directory.join(JOURNAL_NAME)).unwrap().len() - length;
        let (read, found) = look();
        // The bytes that tell that it is the same file are read before and after.
        assert!((appended..=appended + 2 * 128).contains(&read), "{read} of {appended}");
        assert_eq!(numbers(&found).len(), 601);
        // A file that was renamed goes on where it was.
        let mut number = 601;
        while !directory.join(OLDER_NAME).exists() {
            number += 1;
            writing.append(decision(number));
        }
        let (read, found) = look();
        let all: u64 =
            [JOURNAL_NAME, OLDER_NAME].iter().map(|name| fs::metadata(directory.join(name)).unwrap().len()).sum();
        assert!((all - length - appended..=all - length - appended + 4 * 128).contains(&read), "{read} of {all}");
        assert_eq!(numbers(&found).last(), Some(&number));
    }

    #[test]
    fn a_burst_comes_whole_and_more_than_may_be_read_comes_with_the_next_look() {
        let tier = tier();
        let directory = tier.path().canonicalize().unwrap().join("job");
        let mut writing = journal(tier.path());
        let mut followed = Followed::default();
        let mut look = |bytes_max| {
            let found = followed.read_of(&directory, own(), 10, bytes_max).unwrap().unwrap();
            (numbers(&found), found.fresh_count, found.left_out_count)
        };
        writing.append(decision(1));
        assert_eq!(look(u64::MAX), (vec![1], 1, 0));
        (2..=500).for_each(|number| writing.append(decision(number)));
        let (burst, fresh_count, left_out_count) = look(u64::MAX);
        assert_eq!((burst, fresh_count, left_out_count), ((1..=500).collect(), 499, 0));
        assert_eq!(look(u64::MAX), ((491..=500).collect(), 0, 490), "what was told is not held");
        // The file becomes the older one while it is read.
        (501..=2_000).for_each(|number| writing.append(decision(number)));
        assert!(directory.join(OLDER_NAME).exists());
        let (mut next, mut looks) = (501, 0);
        while next <= 2_000 {
            let (found, fresh_count, _) = look(1);
            let fresh = &found[found.len() - fresh_count..];
            assert_eq!(fresh, (next..next + fresh_count as u64).collect::<Vec<_>>());
            assert_eq!(found[found.len() - fresh_count - 1], next - 1, "the one before them is there");
            (next, looks) = (next + fresh_count as u64, looks + 1);
        }
        assert!(looks > 1, "all of it at once");
    }

    #[test]
    fn what_is_followed_is_what_is_read_anew_whatever_becomes_of_the_files() {
        let tier = tier();
        let directory = tier.path().canonicalize().unwrap().join("job");
        let path = directory.join(JOURNAL_NAME);
        let line = |number: u64| {
            let entry = Entry { realtime_ns: number, lost_count: 0, event: decision(number) };
            serde_json::to_string(&entry).unwrap() + "\n"
        };
        let append = |text: &[u8]| {
            let mut all = fs::read(&path).unwrap_or_default();
            // In place: the same inode.
            all.extend(text);
            fs::write(&path, all).unwrap();
        };
        let mut followed = Followed::default();
        let mut random = Random::new(7);
        let mut draw = |below: u64| random.below(below);
        for round in 0..400u64 {
            match draw(10) {
                0 => fs::rename(&path, directory.join(OLDER_NAME)).unwrap_or_default(),
                1 => fs::write(&path, "").unwrap(),
                2 => {
                    // Another file of the same length under the name.
                    let other = fs::read(&path).unwrap_or_default().to_ascii_uppercase();
                    let _ = fs::remove_file(&path);
                    fs::write(&path, other).unwrap();
                }
                3 => {
                    // Written anew in place, longer than before.
                    let lines: String = (0..round + 5).map(|number| line(number + 1_000 * round)).collect();
                    fs::write(&path, lines).unwrap();
                }
                4 => append(b"torn"),
                5 => append(&[b'x'; 5_000]),
                6 => _ = fs::remove_file(directory.join(OLDER_NAME)),
                7 if draw(8) == 0 => append("y".repeat(600 << 10).as_bytes()),
                _ => append(line(round).as_bytes()),
            }
            let entries_max = [3, 50, 5_000][draw(3) as usize];
            let anew = read_of(&directory, own(), entries_max).unwrap();
            let read = followed.read_of(&directory, own(), entries_max, u64::MAX).unwrap().map(|mut found| {
                // The fresh ones come beside the newest.
                let surplus = found.entries.len().saturating_sub(entries_max);
                assert!(surplus <= found.fresh_count, "round {round}");
                found.entries.drain(..surplus);
                found.left_out_count += surplus as u64;
                found
            });
            let [anew, read] = [anew, read].map(|found| found.map(|found| History { fresh_count: 0, ..found }));
            let is_long = fs::metadata(&path).is_ok_and(|found| found.len() > LIMITS.file_bytes);
            match is_long {
                // Of a file longer than any of ours, who follows it knows more than who reads its end.
                true => drop(fs::remove_file(&path)),
                false => assert!(read == anew, "round {round}"),
            }
        }
    }
}
