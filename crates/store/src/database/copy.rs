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

/// How often, and how far apart, a file that is being written is read again.
const TRIES: usize = 40;
const WAIT: Duration = Duration::from_millis(50);

/// Two changes within this time may bear the same time stamp.
const STAMP: Duration = Duration::from_millis(20);

/// What a journal that must be rolled back begins with.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The bytes of the database with its log folded in.
pub(super) fn copy(path: &Path) -> Result<Vec<u8>> {
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
            Ok(Moment::Whole(bytes)) => return Ok(bytes),
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
    Whole(Vec<u8>),
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
    let mut bytes = whole(database, 0)?;
    let log = match beside.find("-wal")? {
        Some(log) => Some((log.about().inode, whole(&log.open()?, bytes.len() as u64)?)),
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
    if let Some((_, log)) = log {
        log::fold(&mut bytes, &log, BYTES_MAX).map_err(io::Error::other)?;
    }
    log::without_log(&mut bytes);
    Ok(Moment::Whole(bytes))
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

fn is_unchanged(before: &Metadata, after: &Metadata) -> bool {
    let stamp = |of: &Metadata| (of.len(), of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
    let age = after.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    // A clock that was set back makes no file new for ever.
    stamp(before) == stamp(after) && age.is_none_or(|age| age >= STAMP)
}
