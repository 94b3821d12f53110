//! Opening a file that may or may not be a history, of this or of an earlier version.

use super::lock::LeftBehind;
use super::migration::{self, SCHEMA_VERSION};
use super::{Limits, sqlite_error};
use crate::database::{self, Fitness, MAGIC, Shape};
use crate::error::Kept;
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_foreign::{Regular, way};

/// `SFHI` in ASCII, in `application_id`: tells a history from any other database.
pub(super) const APPLICATION_ID: i64 = 0x5346_4849;

/// How long to wait for another connection. Readers never block a writer, so only a foreign writer can.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// The log is folded into the database when it has this many pages, as SQLite does by itself.
const LOG_PAGES_MAX: u64 = 1_000;

/// The shortest that a database can be.
const SQLITE_BYTES_MIN: u64 = 512;

/// Opens the file, checks it, and lays the tables if it is new or of an earlier version. Nothing is written before all
/// checks have passed.
///
/// A file that it created and could lay no tables in, on a full disk for instance, is taken away again: the caller holds
/// the lock.
pub(super) fn open(path: &Path, limits: &Limits, left_behind: LeftBehind) -> Result<Connection> {
    refuse_unfit(path)?;
    let is_new = create_private(path)?;
    let opened = open_found(path, limits, left_behind);
    if opened.is_err() && is_new {
        let _ = std::fs::remove_file(path);
    }
    opened
}

/// How long connections to a history in memory wait for each other: there a reader keeps the writer waiting.
pub(super) const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a history in the memory of this process and lays its tables. The path stands for it in messages.
pub(super) fn open_in_memory(name: &str, path: &Path, limits: &Limits) -> Result<Connection> {
    let failed = |doing| sqlite_error(path, doing);
    let mut connection = database::in_memory(name, true).map_err(failed("making it"))?;
    connection.busy_timeout(MEMORY_TIMEOUT).map_err(failed("setting the time to wait"))?;
    migration::migrate(&mut connection, 0).map_err(failed("laying its tables"))?;
    limit(&connection, limits).map_err(failed("setting its limits"))?;
    Ok(connection)
}

fn open_found(path: &Path, limits: &Limits, left_behind: LeftBehind) -> Result<Connection> {
    let mut connection = database::to_write(path).map_err(sqlite_error(path, "opening it"))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite_error(path, "setting the time to wait"))?;
    let version = checked(&connection, path, left_behind).inspect_err(|_| {
        let _ = database::leave_log(path, &connection);
    })?;
    prepare(&connection, path)?;
    migration::migrate(&mut connection, version).map_err(sqlite_error(path, "laying its tables"))?;
    // After the tables are laid: a file that is at its limit must not be kept from having new ones.
    limit(&connection, limits).map_err(sqlite_error(path, "setting its limits"))?;
    Ok(connection)
}

/// The version of a history that may be written to; 0 where it has no tables yet.
fn checked(connection: &Connection, path: &Path, left_behind: LeftBehind) -> Result<i64> {
    let Content::History { version } = identify(connection, path)? else { return Ok(0) };
    check_tables(connection, path, version)?;
    // A file of an earlier version is about to be changed for good: it is read from end to end once.
    if left_behind == LeftBehind::InDoubt || version < SCHEMA_VERSION {
        check(connection, path)?;
    }
    Ok(version)
}

/// Refuses a file that is no whole history, before SQLite opens it for writing and folds its log in or deletes it.
fn refuse_unfit(path: &Path) -> Result<()> {
    let corrupt = |what: String| Err(Error::Corrupt { path: path.to_path_buf(), what });
    let not_a_history = |why: &str| Err(Error::NotAHistory { path: path.to_path_buf(), why: why.to_owned() });
    if std::fs::metadata(path).map_or(0, |about| about.len()) == 0 {
        let log = database::beside(&std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()), "-wal");
        if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return corrupt(format!("it is gone or empty, and its log {} is not", log.display()));
        }
        return Ok(());
    }
    match database::judge(path, &super::MARKS)? {
        Fitness::NoDatabase => not_a_history("it is no SQLite database"),
        Fitness::Damaged(what) => corrupt(what),
        Fitness::LogOfAnother(what) => Err(Error::LogOfAnother { path: path.to_path_buf(), what, kept: Kept::History }),
        Fitness::LogStray(what) => Err(Error::LogStray { path: path.to_path_buf(), what, kept: Kept::History }),
        Fitness::Fit { application: APPLICATION_ID, .. } | Fitness::Fit { application: 0, has_tables: false } => {
            keep_damaged_log(path)
        }
        Fitness::Fit { .. } => not_a_history("it is the database of another program"),
    }
}

/// Copies a log that is damaged in the middle to another name: SQLite reads it up to there, and deletes it with the rest. A loss of power can
/// leave such a log, too, so that the history is not refused.
fn keep_damaged_log(path: &Path) -> Result<()> {
    let failed = |source| Error::Open { path: path.to_path_buf(), source };
    let log = database::beside(&std::fs::canonicalize(path).map_err(failed)?, "-wal");
    if database::log_damage(&log).map_err(failed)?.is_none() {
        return Ok(());
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let kept = database::beside(&log, &format!(".damaged-{seconds}"));
    let failed = |source| Error::Open { path: kept.clone(), source };
    let mut from = database::hold(&log)?.open().map_err(failed)?;
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&kept).map_err(failed)?;
    io::copy(&mut from, &mut to).and_then(|_| to.sync_all()).map_err(failed)
}

/// What a database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// No table at all.
    Nothing,
    /// A history of this version of the schema or of an earlier one.
    History {
        /// The version.
        version: i64,
    },
}

/// Creates the file before SQLite does, which would make it readable by everybody; SQLite gives its log the same mode.
/// Whether it was not there before.
pub(crate) fn create_private(path: &Path) -> Result<bool> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_found(path, &database::hold(path)?).map(|()| false)
        }
        Err(source) => Err(Error::Open { path: path.to_path_buf(), source }),
    }
}

/// Refuses a file that is there and cannot be written as a database of ours, before anything is written beside it.
pub(crate) fn check_existing(path: &Path) -> Result<()> {
    check_owners(path)?;
    database::refuse_other_names(path)?;
    match database::hold(path) {
        Ok(found) => check_found(path, &found),
        // Whether it can be created is for the creation to say.
        Err(Error::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a file of another user, who would read what is written, a link of another user, who would choose the file, and whatever
/// [`database::others_reach`] refuses.
fn check_owners(path: &Path) -> Result<()> {
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    let user = way::own_user();
    let absolute = std::path::absolute(path).map_err(open_error)?;
    let of_link = std::fs::symlink_metadata(&absolute).ok().map(|found| found.uid());
    let of_file = database::hold(path).ok().map(|found| found.about().owner);
    if let Some(owner) = [of_link, of_file].into_iter().flatten().find(|&owner| owner != user && owner != 0) {
        return Err(Error::NotOwn { path: path.to_path_buf(), owner });
    }
    match database::others_reach(&absolute) {
        Ok(Some(why)) => Err(Error::OfOthers { path: path.to_path_buf(), why }),
        Ok(None) => Ok(()),
        // A directory that is not there is told by whoever creates the file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(open_error(source)),
    }
}

/// Refuses a file that is not there, holds nothing, or cannot be a history; for a reader, who creates none.
pub(super) fn check_readable(path: &Path) -> Result<()> {
    let found = database::hold(path)?;
    database::refuse_other_names(path)?;
    check_found(path, &found)?;
    if found.about().bytes == 0 { Err(empty(path)) } else { Ok(()) }
}

/// The error of a reader whose file has no tables.
pub(super) fn empty(path: &Path) -> Error {
    Error::NotAHistory { path: path.to_path_buf(), why: "it is empty".into() }
}

/// SQLite takes a file that is shorter than a page for an empty database and would write over it.
fn check_found(path: &Path, found: &Regular) -> Result<()> {
    let bytes = found.about().bytes;
    if bytes == 0 {
        return Ok(());
    }
    let open_error = |source| Error::Open { path: path.to_path_buf(), source };
    let begins_as_one = || -> Result<bool> {
        let mut first = Vec::with_capacity(MAGIC.len());
        let read = found.open().and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
        read.map_err(open_error)?;
        Ok(first == MAGIC)
    };
    // SQLite opens no file by its path that other users can replace, and has none open that is so short.
    let is_database = if bytes < SQLITE_BYTES_MIN || database::others_reach(path).map_err(open_error)?.is_some() {
        begins_as_one()?
    } else {
        match database::is_own_database(path) {
            // This process has no lock on a file that it cannot open; the system says why.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => begins_as_one()?,
            asked => asked.map_err(sqlite_error(path, "reading its header"))?,
        }
    };
    if !is_database {
        return Err(Error::NotAHistory { path: path.to_path_buf(), why: "it is no SQLite database".into() });
    }
    if bytes < SQLITE_BYTES_MIN {
        return Err(Error::Corrupt { path: path.to_path_buf(), what: format!("only {bytes} bytes of it are left") });
    }
    Ok(())
}

/// Refuses a file whose tables are not what a history has: nothing that another program put into it is run. Everything is looked at
/// where others may have written it.
pub(super) fn check_shapes(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let failed = |error| sqlite_error(path, "looking at its tables")(error);
    let tables = migration::tables_of(version);
    let refused =
        |table: &str, why: &str| Error::NotAHistory { path: path.to_path_buf(), why: format!("{table:?}: {why}") };
    for table in &tables {
        match database::shape(connection, table).map_err(failed)? {
            Shape::Plain(_) => {}
            Shape::Refused(why) => return Err(refused(table, &why)),
            Shape::Missing => {
                return Err(Error::Corrupt { path: path.to_path_buf(), what: format!("no such table: {table}") });
            }
        }
    }
    let read = || -> rusqlite::Result<Option<(String, String)>> {
        let mut select = connection.prepare("SELECT type, name FROM sqlite_schema WHERE type <> 'index'")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, name) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
            if kind != "table" || !(tables.contains(&name.as_str()) || name.starts_with("sqlite_")) {
                return Ok(Some((kind, name)));
            }
        }
        Ok(None)
    };
    match read().map_err(failed)? {
        Some((kind, name)) => Err(refused(&name, &format!("no history has this {kind}"))),
        None => Ok(()),
    }
}

/// Whose database it is, and of which version.
pub(super) fn identify(connection: &Connection, path: &Path) -> Result<Content> {
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
    match version {
        ..=0 => Err(Error::Corrupt { path: path.to_path_buf(), what: format!("its schema version is {version}") }),
        1..=SCHEMA_VERSION => Ok(Content::History { version }),
        _ => Err(Error::HistoryVersion { path: path.to_path_buf(), found: version, known: SCHEMA_VERSION }),
    }
}

/// Whether all tables of the version are there; costs nothing. SQLite itself finds a file that was cut.
pub(super) fn check_tables(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let query = format!("SELECT 1 FROM {} LIMIT 0", migration::tables_of(version).join(", "));
    let found = connection.prepare(&query).and_then(|mut all| all.exists([]));
    found.map(|_| ()).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::CannotOpen) => sqlite_error(path, "looking at its tables")(error),
        _ => Error::Corrupt { path: path.to_path_buf(), what: error.to_string() },
    })
}

/// Reads every page and row; takes some seconds for a large file.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<()> {
    match database::fault(connection).map_err(sqlite_error(path, "checking it"))? {
        None => Ok(()),
        Some(what) => Err(Error::Corrupt { path: path.to_path_buf(), what }),
    }
}

fn prepare(connection: &Connection, path: &Path) -> Result<()> {
    let set = || -> rusqlite::Result<String> {
        // Takes effect only before the first table.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let journal = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
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

pub(super) fn limit(connection: &Connection, limits: &Limits) -> rusqlite::Result<()> {
    let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let page_bytes = page_bytes.unsigned_abs().max(1);
    let log_bytes = limits.log_bytes_max() / 2;
    connection.execute_batch(&format!(
        "PRAGMA max_page_count = {}; PRAGMA journal_size_limit = {log_bytes}; PRAGMA wal_autocheckpoint = {};",
        limits.database_bytes_max() / page_bytes,
        (log_bytes / page_bytes).min(LOG_PAGES_MAX),
    ))
}
