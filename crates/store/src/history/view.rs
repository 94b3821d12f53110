//! Reading a history that this process does not write.

use super::clock::{self, KeptClockChange};
use super::findings::{self, KeptFinding};
use super::query::{self, Answer, GapFilter, HistoryWindow, KeptGap, Resolution};
use super::records::{self, KeptRecord};
use super::schema::{self, BUSY_TIMEOUT, Content};
use super::{migration, sqlite_error};
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
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
    /// Of a file that nobody wrote when it was opened: where its log would be.
    log_to_come: Option<PathBuf>,
}

impl View {
    /// Opens the history for reading alone, without the lock of its writer, who may be at work.
    ///
    /// The file is neither created nor changed. SQLite follows a writer's log with the help of two files beside the
    /// history, and leaves them there when it is asked for a file that nobody writes; such a file is read without
    /// them. Who reads it so asks [`View::has_changed`] at the end.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::NotAFile`], [`Error::NotAHistory`], [`Error::HistoryVersion`], [`Error::Corrupt`];
    /// [`Error::Unreadable`] where the file has a log that cannot be followed, on a read-only file system for
    /// instance; [`Error::Sqlite`].
    pub fn open(path: impl AsRef<Path>) -> Result<View> {
        let path = path.as_ref();
        schema::check_readable(path)?;
        // SQLite puts the log beside the file itself, not beside a link to it.
        let real = path.canonicalize().map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
        let log = log_of(&real);
        let view = match log.exists() {
            true => View::connect(path, &real, None)?,
            false => View::connect(path, &real, Some(log))?,
        };
        let content = schema::identify(&view.connection, path).map_err(|error| view.without_log(error))?;
        let Content::History { version } = content else { return Err(schema::empty(path)) };
        schema::check_tables(&view.connection, path, version)?;
        Ok(View { version, ..view })
    }

    /// A second connection to a history that this process has open.
    pub(super) fn beside_writer(path: &Path) -> Result<View> {
        View::connect(path, path, None)
    }

    fn connect(path: &Path, real: &Path, log_to_come: Option<PathBuf>) -> Result<View> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match log_to_come {
            Some(_) => Connection::open_with_flags(immutable(real), flags | OpenFlags::SQLITE_OPEN_URI),
            None => Connection::open_with_flags(real, flags),
        };
        let connection = connection.map_err(sqlite_error(path, "opening it to read"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite_error(path, "setting the time to wait"))?;
        Ok(View { path: path.to_path_buf(), connection, version: migration::SCHEMA_VERSION, log_to_come })
    }

    /// Says what a reader lacks whom SQLite cannot let follow the log.
    fn without_log(&self, error: Error) -> Error {
        let is_refused =
            |code| matches!(code, ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied);
        match error {
            Error::Sqlite { source, .. } if source.sqlite_error_code().is_some_and(is_refused) => Error::Unreadable {
                path: self.path.clone(),
                why: format!("it has a log beside it that this process cannot follow ({source})"),
            },
            error => error,
        }
    }

    /// Whether a writer has come since a file was opened that nobody wrote. What was read in between may be of two
    /// moments; a view that is opened now follows the writer.
    pub fn has_changed(&self) -> bool {
        self.log_to_come.as_ref().is_some_and(|log| log.exists())
    }

    /// As [`super::History::windows`].
    ///
    /// # Errors
    /// As there.
    pub fn windows(&self, range: Range<i64>, resolution: Resolution) -> Result<Answer<HistoryWindow>> {
        query::windows(&self.connection, &self.path, range, resolution)
    }

    /// As [`super::History::for_each_window`].
    ///
    /// # Errors
    /// As there.
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

    /// As [`super::History::gaps`].
    ///
    /// # Errors
    /// As there.
    pub fn gaps(&self, filter: &GapFilter) -> Result<Answer<KeptGap>> {
        query::gaps(&self.connection, &self.path, filter)
    }

    /// As [`super::History::notices`].
    ///
    /// # Errors
    /// As there.
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

    /// As [`super::History::clock_changes`]; none of a file that is older than these.
    ///
    /// # Errors
    /// As there.
    pub fn clock_changes(&self, range: Range<i64>) -> Result<Answer<KeptClockChange>> {
        match self.version {
            ..VERSION_WITH_CLOCK => Ok(Answer::default()),
            _ => clock::read(&self.connection, &self.path, range),
        }
    }

    /// As [`super::History::hosts`].
    ///
    /// # Errors
    /// As there.
    pub fn hosts(&self) -> Result<Answer<(i64, HostDescription)>> {
        query::hosts(&self.connection, &self.path)
    }

    /// As [`super::History::findings`]; none of a file that is older than findings.
    ///
    /// # Errors
    /// As there.
    pub fn findings(&self, range: Range<i64>) -> Result<Answer<KeptFinding>> {
        match self.version {
            ..VERSION_WITH_FINDINGS => Ok(Answer::default()),
            _ => findings::read(&self.connection, &self.path, range),
        }
    }

    /// As [`super::History::records`]; none of a file that is older than records.
    ///
    /// # Errors
    /// As there.
    pub fn records(&self, range: Range<i64>, room: Option<Room>) -> Result<Answer<KeptRecord>> {
        match self.version {
            ..VERSION_WITH_FINDINGS => Ok(Answer::default()),
            _ => records::read(&self.connection, &self.path, range, room),
        }
    }
}

/// The log of a history, which is there while somebody has it open for writing, and after a writer died.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// The name of a file that nobody writes, as SQLite wants to be told.
fn immutable(path: &Path) -> String {
    let mut name = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_address_would_cut_are_escaped() {
        assert_eq!(immutable(Path::new("/a b/h?i#s%t.db")), "file:/a%20b/h%3Fi%23s%25t.db?immutable=1");
    }
}
