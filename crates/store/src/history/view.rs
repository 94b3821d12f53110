//! Reading a history that this process does not write.

use super::clock::{self, KeptClockChange};
use super::findings::{self, KeptFinding};
use super::lock::Writer;
use super::query::{self, Answer, GapFilter, HistoryWindow, KeptGap, Resolution};
use super::records::{self, KeptRecord};
use super::schema::{self, BUSY_TIMEOUT, Content};
use super::{migration, sqlite_error};
use crate::database::Fitness;
use crate::{Error, Result, database};
use rusqlite::Connection;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_foreign::way;
use surefoot_model::{HostDescription, Room};

/// The version of the schema that brought findings and records.
const VERSION_WITH_FINDINGS: i64 = 2;

/// The version of the schema that brought changes of the wall clock.
const VERSION_WITH_CLOCK: i64 = 3;

/// A read-only connection to a history that another thread writes, or another process.
#[derive(Debug)]
pub struct View {
    path: PathBuf,
    connection: Connection,
    version: i64,
    /// See [`View::has_writer`].
    has_writer: Option<bool>,
    /// Of a file that nobody wrote when it was opened: where its log would be.
    log_to_come: Option<PathBuf>,
    /// See [`View::unread_log`].
    unread_log: Option<String>,
    /// See [`View::log_damage`].
    log_damage: Option<String>,
}

impl View {
    /// Opens the history for reading alone, without the lock of its writer, who may be at work.
    ///
    /// Nothing is created, changed or locked. Beside a writer the file is followed; a file of this user's that nobody writes is read where
    /// it is, and who reads it so asks [`View::has_changed`] at the end. Every other file, of another user, in a directory of others, or with
    /// the log of a writer that died, is copied into memory first. What no writer on this host has made is looked at as what a stranger
    /// sent: its tables, its structure, and how long it takes.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NotAFile`], [`Error::NotAHistory`], [`Error::HistoryVersion`], [`Error::Corrupt`];
    /// [`Error::Unreadable`] for one that is too large to copy, or is written all the time; [`Error::Sqlite`].
    pub fn open(path: impl AsRef<Path>) -> Result<View> {
        let path = path.as_ref();
        schema::check_readable(path)?;
        let open_error = |source| Error::Open { path: path.to_path_buf(), source };
        // SQLite puts the log beside the file itself, not beside a link to it.
        let real = way::plain(path).map_err(open_error)?;
        let bytes = database::hold(&real)?.about().bytes;
        let log = log_of(&real);
        let is_own = database::others_reach(&real).map_err(open_error)?.is_none();
        let writer = if is_own { Writer::of(&real).map_err(open_error)? } else { Writer::Unknown };
        let failed = |error| sqlite_error(path, "opening it to read")(error);
        let (mut log_to_come, mut unread_log) = (None, None);
        let not_its_own =
            |what: &str| Some(format!("{} does not belong to {} ({what})", log.display(), path.display()));
        let (mut connection, bytes) = match writer {
            Writer::AtWork => (database::beside_writer(&real).map_err(failed)?, bytes),
            _ if is_own && !log.exists() => {
                log_to_come = Some(log.clone());
                (database::without_writer(&real).map_err(failed)?, bytes)
            }
            _ => {
                let fitness = if is_own { Some(database::judge(&real, &super::MARKS)?) } else { None };
                match fitness {
                    Some(Fitness::LogOfAnother(what) | Fitness::LogStray(what)) => {
                        unread_log = not_its_own(&what);
                        (database::without_writer(&real).map_err(failed)?, bytes)
                    }
                    Some(Fitness::Damaged(what)) => return Err(Error::Corrupt { path: path.to_path_buf(), what }),
                    _ => {
                        let (copied, bytes, is_log_stray) = database::copied(path)?;
                        unread_log = not_its_own("it does not begin as a log does").filter(|_| is_log_stray);
                        (copied, bytes)
                    }
                }
            }
        };
        let damage = match writer {
            Writer::AtWork => None,
            _ => database::log_damage(&log).map_err(open_error)?,
        };
        let log_damage = damage.map(|damage| {
            let (log, frame) = (log.display(), damage.frame);
            format!("{log} is damaged at frame {frame}: at least {} later writes in it cannot be read", damage.commits)
        });
        connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite_error(path, "setting the time to wait"))?;
        database::defend(&mut connection, bytes).map_err(sqlite_error(path, "setting its limits"))?;
        let Content::History { version } = schema::identify(&connection, path)? else {
            return Err(schema::empty(path));
        };
        schema::check_shapes(&connection, path, version)?;
        if writer == Writer::Unknown {
            schema::check(&connection, path)?;
        }
        let has_writer = match writer {
            Writer::AtWork => Some(true),
            Writer::Gone => Some(false),
            Writer::Unknown => None,
        };
        Ok(View { path: path.to_path_buf(), connection, version, has_writer, log_to_come, unread_log, log_damage })
    }

    /// A second connection to a history that this process has open.
    pub(super) fn beside_writer(path: &Path) -> Result<View> {
        View::second(path, database::beside_writer(path), BUSY_TIMEOUT)
    }

    /// A second connection to a history in the memory of this process.
    pub(super) fn of_memory(name: &str, path: &Path) -> Result<View> {
        View::second(path, database::in_memory(name, false), schema::MEMORY_TIMEOUT)
    }

    fn second(path: &Path, opened: rusqlite::Result<Connection>, patience: Duration) -> Result<View> {
        let connection = opened.map_err(sqlite_error(path, "opening it to read"))?;
        connection.busy_timeout(patience).map_err(sqlite_error(path, "setting the time to wait"))?;
        Ok(View {
            path: path.to_path_buf(),
            connection,
            version: migration::SCHEMA_VERSION,
            has_writer: Some(true),
            log_to_come: None,
            unread_log: None,
            log_damage: None,
        })
    }

    /// Whether a process wrote the history when it was opened to be read. A finding without an end holds only while one does. `None` where
    /// that cannot be told: the file is another user's, or no writer of this host ever had it.
    pub fn has_writer(&self) -> Option<bool> {
        self.has_writer
    }

    /// Which file lies in the place of its log without belonging to it, and by what that shows. It was not read.
    pub fn unread_log(&self) -> Option<&str> {
        self.unread_log.as_deref()
    }

    /// Where its log is damaged, and how much of it is lost by that. What comes before was read.
    pub fn log_damage(&self) -> Option<&str> {
        self.log_damage.as_deref()
    }

    /// Whether a writer has come since a file was opened that nobody wrote. What was read in between may be of two
    /// moments; a view that is opened now follows the writer.
    pub fn has_changed(&self) -> bool {
        self.log_to_come.as_ref().is_some_and(|log| log.exists())
    }

    /// The windows that begin in the range (nanoseconds since 1970), oldest first.
    ///
    /// # Errors
    /// [`Error::TooManyWindows`] over [`super::WINDOWS_MAX`]; [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn windows(&self, range: Range<i64>, resolution: Resolution) -> Result<Answer<HistoryWindow>> {
        query::windows(&self.connection, &self.path, range, resolution)
    }

    /// Gives the windows that begin in the range to `take`, oldest first, until it breaks off. Returns how many rows of
    /// lost time had a cause that only another release knows; their time is in `unexplained_ns`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn for_each_window(
        &self,
        range: Range<i64>,
        resolution: Resolution,
        take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
    ) -> Result<u64> {
        query::for_each_window(&self.connection, &self.path, range, resolution, take)
    }

    /// The minutes that begin in the range, and those of its seconds that are in no minute yet: each second once. Otherwise
    /// as [`View::for_each_window`].
    ///
    /// # Errors
    /// As there.
    pub fn for_each_minute(
        &self,
        range: Range<i64>,
        take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
    ) -> Result<u64> {
        query::for_each_minute(&self.connection, &self.path, range, take)
    }

    /// From the start of the first window of this resolution to the end of the last, nanoseconds since 1970; `None`
    /// where there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn kept_range(&self, resolution: Resolution) -> Result<Option<Range<i64>>> {
        query::kept_range(&self.connection, &self.path, resolution)
    }

    /// The gaps that pass the filter, longest first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn gaps(&self, filter: &GapFilter) -> Result<Answer<KeptGap>> {
        query::gaps(&self.connection, &self.path, filter)
    }

    /// The notices of the range, as nanoseconds since 1970 and text, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn notices(&self, range: Range<i64>) -> Result<Vec<(i64, String)>> {
        query::notices(&self.connection, &self.path, range)
    }

    /// The rooms that the file keeps anything of, at any time. Of lost time each window tells.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn rooms(&self) -> Result<Vec<Room>> {
        query::rooms(&self.connection, &self.path, self.version >= VERSION_WITH_FINDINGS)
    }

    /// The changes of the wall clock in the range, by the clock before or after them, oldest first; none of a file that
    /// is older than these.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn clock_changes(&self, range: Range<i64>) -> Result<Answer<KeptClockChange>> {
        match self.version {
            ..VERSION_WITH_CLOCK => Ok(Answer::default()),
            _ => clock::read(&self.connection, &self.path, range),
        }
    }

    /// The host's descriptions, each with the time from which it holds (nanoseconds since 1970), oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn hosts(&self) -> Result<Answer<(i64, HostDescription)>> {
        query::hosts(&self.connection, &self.path)
    }

    /// The findings that held at any time of the range (nanoseconds since 1970), by the time at which they came; the
    /// newest [`super::FINDINGS_MAX`]; none of a file that is older than findings.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn findings(&self, range: Range<i64>) -> Result<Answer<KeptFinding>> {
        match self.version {
            ..VERSION_WITH_FINDINGS => Ok(Answer::default()),
            _ => findings::read(&self.connection, &self.path, range),
        }
    }

    /// What was recorded in the range, of one room or of all, oldest first; the newest [`super::RECORDS_MAX`]; none of a file
    /// that is older than records.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Sqlite`].
    pub fn records(&self, range: Range<i64>, room: Option<Room>) -> Result<Answer<KeptRecord>> {
        match self.version {
            ..VERSION_WITH_FINDINGS => Ok(Answer::default()),
            _ => records::read(&self.connection, &self.path, range, room),
        }
    }
}

/// The log of a history, which is there while somebody has it open for writing, and after a writer died.
pub(super) fn log_of(path: &Path) -> PathBuf {
    database::beside(path, "-wal")
}
