//! A database and its log as of one moment, read through descriptors.
//!
//! A writer may be at work: it appends to the log, and at times folds the log into the database and begins it anew. What is read is of
//! one moment if, from before the database is read until after the log is, the database did not change and the log was not begun anew:
//! the log is then what came after the database. Otherwise it is read again.

use super::log;
use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use surefoot_foreign::{Regular, way};

/// The most that a database and its log may take in memory: twice what a history of ours has.
const BYTES_MAX: u64 = 512 << 20;

/// A longer file is looked at before its bytes are read.
const SMALL_BYTES: u64 = 16 << 20;

/// A database whose file takes less room than this part of its length consists of holes. SQLite leaves none but pages that it never used, and
/// a file system that compresses rarely saves as much.
const ROOM_PART_MIN: u64 = 16;

/// How often, and how far apart, a file that is being written is read again.
pub(super) const TRIES: usize = 40;
pub(super) const WAIT: Duration = Duration::from_millis(50);

/// Two changes within this time may bear the same time stamp.
const STAMP: Duration = Duration::from_millis(20);

/// What a journal that must be rolled back begins with.
pub(super) const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The bytes of the database with its log folded in, and whether what lies in the log's place is none.
pub(super) fn copy(path: &Path) -> Result<(Vec<u8>, bool)> {
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    let database = super::hold(path)?;
    let plain = way::plain(path).map_err(open_error)?;
    let beside =
        Beside { directory: way::parent(&plain).map_err(open_error)?, path: &plain, owner: database.about().owner };
    let file = database.open().map_err(open_error)?;
    let mut why = "another program writes it all the time; try again, or stop that program".to_owned();
    for attempt in 0..TRIES {
        if attempt > 0 {
            std::thread::sleep(WAIT);
        }
        match moment(&file, &beside) {
            Ok(Moment::Whole(bytes, is_log_stray)) => return Ok((bytes, is_log_stray)),
            Ok(Moment::Changed) => {}
            Ok(Moment::HalfWritten) => {
                "a journal lies beside it: its writer is in the middle of a change, or died there; open it once with the \
                 program that wrote it, or try again"
                    .clone_into(&mut why);
            }
            Err(error) => return Err(Error::Unreadable { path: path.to_path_buf(), why: error.to_string() }),
        }
    }
    Err(Error::Unreadable { path: path.to_path_buf(), why })
}

enum Moment {
    /// Its bytes, and whether what lies in its log's place is none.
    Whole(Vec<u8>, bool),
    Changed,
    HalfWritten,
}

/// The files beside the database.
struct Beside<'a> {
    directory: File,
    path: &'a Path,
    owner: u32,
}

impl Beside<'_> {
    /// One of them, if it is there. It must be of the database's owner: in a directory such as /tmp anybody could add one.
    fn find(&self, ending: &str) -> io::Result<Option<Regular>> {
        let path = super::beside(self.path, ending);
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let found = surefoot_foreign::hold_in(&self.directory, name)
            .and_then(|held| held.regular())
            .and_then(|regular| regular.of_user(self.owner));
        match found {
            Ok(regular) => Ok(Some(regular)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(io::Error::new(error.kind(), format!("{} beside it: {error}", Path::new(name).display())))
            }
        }
    }

    fn has_hot_journal(&self) -> io::Result<bool> {
        let mut begin = Vec::new();
        match self.find("-journal")? {
            Some(journal) => journal.open()?.take(JOURNAL_MAGIC.len() as u64).read_to_end(&mut begin)?,
            None => return Ok(false),
        };
        Ok(begin == JOURNAL_MAGIC)
    }
}

fn moment(database: &File, beside: &Beside<'_>) -> io::Result<Moment> {
    let before = database.metadata()?;
    if beside.has_hot_journal()? {
        return Ok(Moment::HalfWritten);
    }
    judge(database, &before)?;
    let mut bytes = whole(database, 0)?;
    let log = match beside.find("-wal")? {
        Some(log) => {
            let file = log.open()?;
            refuse_holes(&file, &file.metadata()?)?;
            Some((log.about().inode, whole(&file, bytes.len() as u64)?))
        }
        None => None,
    };
    let log_now = match (&log, beside.find("-wal")?) {
        (None, None) => true,
        (Some((inode, read)), Some(now)) => {
            let mut header = vec![0; log::HEADER_BYTES.min(read.len())];
            now.about().inode == *inode
                && now.open()?.read_exact_at(&mut header, 0).is_ok()
                && read.starts_with(&header)
        }
        _ => false,
    };
    if !log_now || !is_unchanged(&before, &database.metadata()?) || beside.has_hot_journal()? {
        return Ok(Moment::Changed);
    }
    let mut is_log_stray = false;
    if let Some((_, log)) = log {
        is_log_stray = !log::fold(&mut bytes, &log, BYTES_MAX).map_err(io::Error::other)?;
    }
    log::without_log(&mut bytes);
    Ok(Moment::Whole(bytes, is_log_stray))
}

/// Whether a large file can be a database: one of holes alone takes no room on the disk, and all of its length in memory.
fn judge(file: &File, about: &Metadata) -> io::Result<()> {
    if about.len() <= SMALL_BYTES {
        return Ok(());
    }
    let mut begin = [0; super::MAGIC.len()];
    file.read_exact_at(&mut begin, 0)?;
    if begin != *super::MAGIC {
        return Err(io::Error::other("it is not an SQLite database"));
    }
    refuse_holes(file, about)
}

fn refuse_holes(file: &File, about: &Metadata) -> io::Result<()> {
    let taken = about.blocks().saturating_mul(512);
    if is_of_holes(about.len(), taken, || begins_with_zeros(file))? {
        let why = format!(
            "its {} MiB take {} MiB on the disk: it consists of holes, as no database does",
            about.len() >> 20,
            taken >> 20
        );
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// Whether a file of so many bytes consists of holes, by what it takes on the disk. Some file systems (of FUSE, of networks) report no
/// blocks of any file: that is not known to be a hole where the file begins with data, which takes a block wherever blocks are counted.
fn is_of_holes(length: u64, taken: u64, begins_with_zeros: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
    match taken {
        _ if length <= SMALL_BYTES => Ok(false),
        0 => begins_with_zeros(),
        _ => Ok(taken < length / ROOM_PART_MIN),
    }
}

fn begins_with_zeros(file: &File) -> io::Result<bool> {
    let mut begin = [0; 16];
    file.read_exact_at(&mut begin, 0)?;
    Ok(begin == [0; 16])
}

/// All bytes of a file, if it and what is read already fit.
fn whole(file: &File, taken: u64) -> io::Result<Vec<u8>> {
    let room = BYTES_MAX.saturating_sub(taken);
    let too_large = || {
        io::Error::other(format!(
            "it has more than {} MiB, the most that is copied into memory; copy it, and its -wal, to a directory of your own",
            BYTES_MAX >> 20
        ))
    };
    let length = file.metadata()?.len();
    if length > room {
        return Err(too_large());
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| too_large())?];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], read as u64)? {
            0 => break,
            count => read += count,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

pub(super) fn is_unchanged(before: &Metadata, after: &Metadata) -> bool {
    let stamp = |of: &Metadata| (of.len(), of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
    let age = after.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    // A clock that was set back makes no file new for ever.
    stamp(before) == stamp(after) && age.is_none_or(|age| age >= STAMP)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::io::Write;

    /// A file of 8 KiB on the disk took 1 GiB of memory.
    #[test]
    fn a_file_of_holes_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, begin: &[u8], bytes: u64| {
            let path = folder.path().join(name);
            let mut file = File::create(&path).unwrap();
            file.write_all(begin).unwrap();
            file.set_len(bytes).unwrap();
            path
        };
        let why = |path: &Path| copy(path).unwrap_err().to_string();
        let holes = file("holes", super::super::MAGIC, BYTES_MAX - 4096);
        assert!(why(&holes).contains("consists of holes"), "{}", why(&holes));
        let other = file("other", b"PK\x03\x04", BYTES_MAX - 4096);
        assert!(why(&other).contains("not an SQLite database"), "{}", why(&other));
        // A log of holes beside a database that is one.
        let whole = folder.path().join("whole");
        rusqlite::Connection::open(&whole)
            .unwrap()
            .execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (1)")
            .unwrap();
        assert!(copy(&whole).is_ok());
        file("whole-wal", b"", BYTES_MAX / 2);
        assert!(why(&whole).contains("consists of holes"), "{}", why(&whole));
    }

    #[test]
    fn a_file_system_that_reports_no_blocks_does_not_make_a_database_of_holes() {
        let is_of_holes = |taken, zeros| is_of_holes(SMALL_BYTES + 1, taken, || Ok(zeros)).unwrap();
        assert!(!is_of_holes(0, false), "it begins with data, so that blocks are not counted");
        assert!(is_of_holes(0, true) && is_of_holes(8192, false));
        assert!(!is_of_holes(SMALL_BYTES, true));
    }

    #[test]
    fn a_large_database_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        let made = rusqlite::Connection::open(&path).unwrap();
        made.execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (randomblob(20000000))").unwrap();
        drop(made);
        let bytes = copy(&path).unwrap().0;
        assert!(bytes.len() as u64 > SMALL_BYTES && bytes.starts_with(super::super::MAGIC));
    }
}
