//! The tables, and opening a file that may or may not hold them.

use super::lock::LeftBehind;
use super::{Limits, sqlite_error};
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The version of the tables below, in `user_version`.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// `SFHI` in ASCII, in `application_id`: tells a history from any other database.
const APPLICATION_ID: i64 = 0x5346_4849;

/// How long to wait for another connection. Readers never block a writer, so only a foreign writer can.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// The log is folded into the database when it has this many pages, as SQLite does by itself.
const LOG_PAGES_MAX: u64 = 1_000;

/// What every SQLite database begins with, and the shortest that one can be.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
const SQLITE_BYTES_MIN: u64 = 512;

const TABLES: &str = "
CREATE TABLE host (
    id INTEGER PRIMARY KEY,
    since_ns INTEGER NOT NULL,
    hostname TEXT NOT NULL,
    description TEXT NOT NULL
) STRICT;
CREATE TABLE cause (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
) STRICT;
-- AUTOINCREMENT, so that a number is never given twice: `state` remembers the last one rolled up.
CREATE TABLE span (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resolution_s INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX span_by_time ON span (resolution_s, start_ns);
CREATE TABLE core (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    user_ns INTEGER NOT NULL,
    kernel_ns INTEGER NOT NULL,
    unexplained_ns INTEGER NOT NULL,
    PRIMARY KEY (span, cpu)
) STRICT, WITHOUT ROWID;
CREATE TABLE lost (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    count INTEGER NOT NULL,
    total_ns INTEGER NOT NULL,
    max_ns INTEGER NOT NULL,
    while_idle_ns INTEGER NOT NULL,
    PRIMARY KEY (span, cpu, cause)
) STRICT, WITHOUT ROWID;
CREATE TABLE gap (
    id INTEGER PRIMARY KEY,
    day INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    duration_ns INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    description TEXT NOT NULL
) STRICT;
CREATE INDEX gap_by_length ON gap (day, duration_ns);
CREATE INDEX gap_by_time ON gap (start_ns);
CREATE TABLE notice (
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE state (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES ('rolled_up_span', 0);
";

/// Opens the file, checks it, and lays the tables if it is new. Nothing is written before all checks have passed.
pub(super) fn open(path: &Path, limits: &Limits, left_behind: LeftBehind) -> Result<Connection> {
    create_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite_error(path, "opening it"))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite_error(path, "setting the time to wait"))?;
    let content = identify(&connection, path)?;
    if content == Content::History {
        check_tables(&connection, path)?;
    }
    if content == Content::History && left_behind == LeftBehind::InDoubt {
        check(&connection, path)?;
    }
    prepare(&connection, path, limits)?;
    if content == Content::Nothing {
        lay_tables(&connection).map_err(sqlite_error(path, "creating its tables"))?;
    }
    Ok(connection)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    History,
}

/// Creates the file before SQLite does, which would make it readable by everybody; SQLite gives its log the same mode.
fn create_private(path: &Path) -> Result<()> {
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::metadata(path).map_err(open_error)?;
            match crate::file_kind::not_regular(&found) {
                Some(what) => Err(Error::NotAFile { path: path.to_path_buf(), what }),
                None if found.len() == 0 => Ok(()),
                None => check_first_bytes(path, found.len()),
            }
        }
        Err(source) => Err(open_error(source)),
    }
}

/// Refuses a file that is there and cannot be a history, before anything is written beside it.
pub(crate) fn check_existing(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) => match crate::file_kind::not_regular(&found) {
            Some(what) => Err(Error::NotAFile { path: path.to_path_buf(), what }),
            None if found.len() == 0 => Ok(()),
            None => check_first_bytes(path, found.len()),
        },
        // Whether it can be created is for the creation to say.
        Err(_) => Ok(()),
    }
}

/// SQLite takes a file that is shorter than a page for an empty database and would write over it.
fn check_first_bytes(path: &Path, length: u64) -> Result<()> {
    let mut first = Vec::with_capacity(SQLITE_MAGIC.len());
    File::open(path)
        .and_then(|file| file.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut first))
        .map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
    if first != SQLITE_MAGIC {
        return Err(Error::NotAHistory { path: path.to_path_buf(), why: "it is no SQLite database".into() });
    }
    if length < SQLITE_BYTES_MIN {
        return Err(Error::Corrupt { path: path.to_path_buf(), what: format!("only {length} bytes of it are left") });
    }
    Ok(())
}

fn identify(connection: &Connection, path: &Path) -> Result<Content> {
    let ask = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let not_a_history = |why: String| Error::NotAHistory { path: path.to_path_buf(), why };
    let asked = || -> rusqlite::Result<(i64, i64, i64)> {
        Ok((ask("SELECT count(*) FROM sqlite_schema")?, ask("PRAGMA application_id")?, ask("PRAGMA user_version")?))
    };
    let (tables, application, version) = asked().map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => not_a_history("it is no SQLite database".into()),
        _ => sqlite_error(path, "reading its header")(error),
    })?;
    if (tables, application, version) == (0, 0, 0) {
        return Ok(Content::Nothing);
    }
    if application != APPLICATION_ID {
        return Err(not_a_history("it is the database of another program".into()));
    }
    if version > SCHEMA_VERSION {
        return Err(Error::HistoryVersion { path: path.to_path_buf(), found: version, known: SCHEMA_VERSION });
    }
    Ok(Content::History)
}

/// Whether all tables are there; costs nothing. SQLite itself finds a file that was cut.
fn check_tables(connection: &Connection, path: &Path) -> Result<()> {
    let query = "SELECT 1 FROM host, cause, span, core, lost, gap, notice, state LIMIT 0";
    let found = connection.prepare(query).and_then(|mut all| all.exists([]));
    found.map(|_| ()).map_err(|error| Error::Corrupt { path: path.to_path_buf(), what: error.to_string() })
}

/// Reads every page and row; takes some seconds for a large file.
fn check(connection: &Connection, path: &Path) -> Result<()> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(sqlite_error(path, "checking it"))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(Error::Corrupt { path: path.to_path_buf(), what: verdict.replace('\n', " ") })
    }
}

fn prepare(connection: &Connection, path: &Path, limits: &Limits) -> Result<()> {
    let set = || -> rusqlite::Result<String> {
        // Takes effect only before the first table.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let journal = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let page_bytes = page_bytes.unsigned_abs().max(1);
        let log_bytes = limits.log_bytes_max() / 2;
        connection.execute_batch(&format!(
            "PRAGMA max_page_count = {}; PRAGMA journal_size_limit = {log_bytes}; PRAGMA wal_autocheckpoint = {};",
            limits.database_bytes_max() / page_bytes,
            (log_bytes / page_bytes).min(LOG_PAGES_MAX),
        ))?;
        Ok(journal)
    };
    let journal = set().map_err(sqlite_error(path, "preparing it"))?;
    if journal == "wal" {
        return Ok(());
    }
    Err(Error::Unsupported {
        path: path.to_path_buf(),
        why: format!("its file system has no shared memory for SQLite's log (journal mode {journal})"),
    })
}

fn lay_tables(connection: &Connection) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}
