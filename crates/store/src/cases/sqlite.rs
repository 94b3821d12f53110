//! Cases in SQLite: one host, or one controller.

use super::opening::Opening;
use super::sql::{Answer, Row, Sql, Trouble, Value};
use super::{Connected, schema};
use crate::database::{self, Content, Fitness, InPlace, LogDamage, Marks};
use crate::error::{Kept, put_back};
use crate::history::schema::{check_existing, create_private};
use crate::output::Replaced;
use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement, ToSql};
use std::cell::Cell;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `SFCA` in ASCII, in `application_id`: tells a file of cases from any other database.
const APPLICATION_ID: i64 = 0x5346_4341;
/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The log of writes is folded into the file when it has this many pages.
const LOG_PAGES_MAX: i64 = 1_000;

/// Where the file says which store it is.
const MARKS: Marks = Marks { table: "remedy_meta", number: "number", is_without_rowid: false };

#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    connection: Connection,
    /// Set once its tables are there: then its log is there, too.
    in_place: Option<Arc<InPlace>>,
    opening: Opening,
    /// Whether SQLite found it damaged: its log then stays apart from it.
    is_damaged: Cell<bool>,
    /// Whether this is a copy, or a connection that writes nothing.
    is_read_only: bool,
}

impl Sqlite {
    /// Opens the file, once it was judged to be a whole store. Where there is none and `opening` says so it is created first, with its
    /// tables, readable by its owner alone.
    pub(super) fn open(path: &Path, opening: &Opening) -> Result<Sqlite> {
        check_existing(path).map_err(|error| in_words_of_cases(path, error))?;
        let may_create = opening.may_create()?;
        if std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            refuse_loss(path)?;
            if !may_create {
                let why = "there is no such file; `surefoot remedy serve --store` makes a new one. If it was here before, restore a backup first";
                return Err(no_store(path, why));
            }
            create(path)?;
        }
        judge(path)?;
        if opening.reads() {
            return Sqlite::copied(path, opening);
        }
        refuse_unwritable(path)?;
        let failed = |trouble| trouble_of(path, "opening it", trouble);
        let connection = database::to_write(path).map_err(|error| failed(Trouble::Other(said(&error))))?;
        let sqlite = Sqlite::of(path, connection, opening);
        let journal = sqlite.prepare().map_err(|error| failed(sqlite.trouble(error)))?;
        if journal != "wal" {
            let why = format!("its file system has no shared memory for SQLite's log (journal mode {journal})");
            return Err(Error::Unsupported { path: path.to_owned(), why });
        }
        Ok(sqlite)
    }

    /// A copy in memory. A store that is too large for that, or changes all the time, is read beside its writers: SQLite folds no log in
    /// through a connection that may not write.
    fn copied(path: &Path, opening: &Opening) -> Result<Sqlite> {
        let failed = |error| trouble_of(path, "opening it to read", Trouble::Other(said(&error)));
        let connection = match database::copied(path) {
            Ok((connection, ..)) => connection,
            Err(Error::Unreadable { .. }) => {
                let connection = database::beside_writer(path).map_err(failed)?;
                connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
                connection
            }
            Err(error) => return Err(in_words_of_cases(path, error)),
        };
        let mut sqlite = Sqlite::of(path, connection, opening);
        sqlite.is_read_only = true;
        Ok(sqlite)
    }

    fn of(path: &Path, connection: Connection, opening: &Opening) -> Sqlite {
        let opening = opening.clone();
        Sqlite {
            path: path.to_owned(),
            connection,
            in_place: None,
            opening,
            is_damaged: Cell::new(false),
            is_read_only: false,
        }
    }

    fn prepare(&self) -> rusqlite::Result<String> {
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        let journal = self.connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        // A step that is written down as begun must be so after a loss of power, too.
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
        Ok(journal)
    }

    fn trouble(&self, error: rusqlite::Error) -> Trouble {
        match error.sqlite_error().map(|error| error.extended_code) {
            Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => {
                Trouble::Twice
            }
            _ => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    self.is_damaged.set(true);
                    Trouble::Ours(damaged(&self.path, &error.to_string()))
                }
                _ => Trouble::Other(said(&error)),
            },
        }
    }

    /// Leaves a file that was written over as it is: what is in the log belongs to the one before, and SQLite would write it there. The log
    /// was moved aside when that was noticed.
    fn let_go(&mut self) {
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        if let Ok(nothing) = Connection::open_in_memory() {
            drop(std::mem::replace(&mut self.connection, nothing));
        }
    }

    /// Copies all that the open file holds into a new one beside it.
    fn save(&self) -> std::result::Result<PathBuf, String> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let beside = database::beside(&self.path, &format!(".saved-{seconds}"));
        match create_private(&beside) {
            Ok(true) => {}
            Ok(false) => return Err(format!("{} exists already", beside.display())),
            Err(error) => return Err(error.to_string()),
        }
        let saved = self.connection.execute("VACUUM INTO ?1", [beside.to_string_lossy()]);
        saved.map(|_| beside.clone()).map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            format!("{}: {error}", beside.display())
        })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.is_damaged.get() {
            let _ = database::leave_log(&self.path, &self.connection);
        }
        let Some(in_place) = self.in_place.clone() else { return };
        if self.opening.is_overwritten(&in_place) {
            self.let_go();
        } else {
            // What was deleted since it was last asked is saved now; the next start finds the copy and says so.
            let _ = self.opening.check(&in_place, || self.save());
        }
    }
}

/// Refuses a file that is no whole store, before SQLite opens it for writing: nothing of it or beside it is changed.
fn judge(path: &Path) -> Result<()> {
    let about = std::fs::metadata(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    if about.len() == 0 {
        return Err(no_store(path, &lost(path, "is empty")));
    }
    match database::judge(path, &MARKS).map_err(|error| in_words_of_cases(path, error))? {
        Fitness::NoDatabase => Err(not_cases(path, "it is no SQLite database")),
        Fitness::Damaged(what) => Err(damaged(path, &what)),
        Fitness::LogOfAnother(what) => Err(Error::LogOfAnother { path: path.to_owned(), what, kept: Kept::Cases }),
        Fitness::LogStray(what) => Err(Error::LogStray { path: path.to_owned(), what, kept: Kept::Cases }),
        // A database that never had a table says nothing of whose it is.
        Fitness::Fit { application: 0 | APPLICATION_ID, has_tables: false } => {
            Err(no_store(path, &lost(path, "has no tables")))
        }
        Fitness::Fit { application: APPLICATION_ID, .. } if database::lacks_table(path, MARKS.table) => {
            Err(damaged(path, &format!("it has no table {}", MARKS.table)))
        }
        Fitness::Fit { application: APPLICATION_ID, .. } => refuse_damaged_log(path),
        Fitness::Fit { .. } => Err(not_cases(path, "it is the database of another program")),
    }
}

/// Refuses a file that its owner may not write, before SQLite opens it, root's as well: it then reads alone, and changes the log's index.
fn refuse_unwritable(path: &Path) -> Result<()> {
    let about = std::fs::metadata(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let mode = about.permissions().mode() & 0o7777;
    if mode & 0o600 == 0o600 {
        return Ok(());
    }
    let why =
        format!("its mode is {mode:03o}: its owner must be able to read and write it (`chmod 600 {}`)", path.display());
    Err(trouble_of(path, "opening it", Trouble::Other(why)))
}

/// Refuses a log that was damaged where commits lie behind. Each was on the disk before the next began.
fn refuse_damaged_log(path: &Path) -> Result<()> {
    let real = std::fs::canonicalize(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let log = database::beside(&real, "-wal");
    let found = database::log_damage(&log).map_err(|source| Error::Open { path: log.clone(), source })?;
    let Some(LogDamage { frame, commits }) = found else { return Ok(()) };
    let commits = if commits == 1 { "a later commit lies".to_owned() } else { format!("{commits} later commits lie") };
    let what = format!(
        "{} is damaged at frame {frame}, and at least {commits} behind it, which SQLite would not read, and then delete",
        log.display()
    );
    Err(damaged(path, &what))
}

/// What to do with a store that has lost its cases.
fn lost(path: &Path, how: &str) -> String {
    format!("the file {how}: any cases that it held are gone. {}", put_back(path))
}

/// Makes the file as a whole, with its tables: killed at any moment, it leaves a store or none. Another process may make it first.
fn create(path: &Path) -> Result<()> {
    let failed = |source: rusqlite::Error| Error::Sqlite { path: path.to_owned(), doing: "making it", source };
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("cases-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mut made = database::in_memory(&name, true).map_err(failed)?;
    made.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    let laying = database::in_memory(&name, true).map_err(failed)?;
    let sql = Box::new(Sqlite::of(path, laying, &Opening::create()));
    schema::lay(&mut Connected { name: address(path), sql }, true)?;
    let mut bytes = made.serialize("main").map_err(failed)?.to_vec();
    database::with_log(&mut bytes);
    let created = Replaced::open(path).and_then(|file| file.create(&bytes));
    created.map(drop).map_err(|source| Error::Create { path: path.to_owned(), source })
}

/// Refuses where a store was lost: its file is gone while its log, or a copy of what it held, lies beside it.
fn refuse_loss(path: &Path) -> Result<()> {
    let log = database::beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let why = format!(
            "there is no such file, and its log {} is there: the store was moved or deleted. If you have the file, put it back beside its \
             log. Otherwise: {}",
            log.display(),
            put_back(path)
        );
        return Err(no_store(path, &why));
    }
    if let Some(saved) = saved_beside(path)?.last() {
        let why = format!(
            "there is no such file, and {} holds what was in it: copy it back, or move it away so that `surefoot remedy serve` makes \
             a new store",
            saved.display()
        );
        return Err(no_store(path, &why));
    }
    Ok(())
}

/// Copies beside a store, the oldest first, of what it held when its file was deleted or replaced under a controller.
pub(super) fn saved_beside(path: &Path) -> Result<Vec<PathBuf>> {
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Ok(Vec::new()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |source| Error::Open { path: folder.to_owned(), source };
    let prefix = format!("{}.saved-", name.to_string_lossy());
    let entries = match std::fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(failed)?,
    };
    let mut saved = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        // One that is open has a log and an index.
        let is_one = name
            .to_string_lossy()
            .strip_prefix(&prefix)
            .is_some_and(|at| !at.is_empty() && at.bytes().all(|letter| letter.is_ascii_digit()));
        if is_one && entry.metadata().is_ok_and(|about| about.is_file() && about.len() > 0) {
            saved.push(path.with_file_name(name));
        }
    }
    saved.sort();
    Ok(saved)
}

fn address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn no_store(path: &Path, why: &str) -> Error {
    Error::NoStore { store: address(path), why: why.to_owned() }
}

/// The same refusal in the words of cases.
fn in_words_of_cases(path: &Path, error: Error) -> Error {
    match error {
        Error::NotAHistory { why, .. } | Error::OfOthers { why, .. } => not_cases(path, &why),
        Error::Corrupt { what, .. } => damaged(path, &what),
        Error::Sqlite { doing, source, .. } => trouble_of(path, doing, Trouble::Other(said(&source))),
        other => other,
    }
}

fn not_cases(path: &Path, why: &str) -> Error {
    Error::NotCases { store: address(path), why: why.to_owned() }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::CasesDamaged { path: path.to_owned(), what: what.to_owned() }
}

fn trouble_of(path: &Path, doing: &'static str, trouble: Trouble) -> Error {
    super::error_of(address(path), doing, trouble)
}

/// What SQLite said, and what to do.
fn said(error: &rusqlite::Error) -> String {
    let todo = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds its lock: a controller, a backup or a `sqlite3` in a transaction. Try again, or stop that program; \
             `fuser -v` of the file names it"
        }
        Some(ErrorCode::DiskFull) => "its disk is full, or a quota is used up: free space there (see `df`)",
        Some(ErrorCode::SystemIoFailure) => {
            "its disk is full or gives errors: free space there (see `df`), or look for errors of the disk (`dmesg`)"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "make the file, its -wal and -shm, and their directory writable for the user who runs this command"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {todo}")
}

impl Sql for Sqlite {
    fn own_number(&self) -> &'static str {
        "INTEGER PRIMARY KEY AUTOINCREMENT"
    }

    fn only_added_to(&self) -> &'static str {
        "CREATE TRIGGER remedy_audit_unchanged BEFORE UPDATE ON remedy_audit
           BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to'); END;
         CREATE TRIGGER remedy_audit_kept BEFORE DELETE ON remedy_audit
           WHEN OLD.at_ns >= (SELECT number FROM remedy_meta WHERE name = 'audit_kept_from_ns')
           BEGIN SELECT RAISE(ABORT, 'the audit trail is only added to'); END;"
    }

    fn without_tables(&self, _store: &str) -> Error {
        self.is_damaged.set(true);
        damaged(&self.path, "it has no table remedy_meta")
    }

    fn is_laid(&mut self) -> Answer<()> {
        if self.is_read_only {
            return self.connection.pragma_update(None, "query_only", true).map_err(|error| self.trouble(error));
        }
        let id = MARKS.id(&self.connection).map_err(|error| self.trouble(error))?;
        self.opening.marked(|| Content::of(&self.path, &MARKS, id));
        self.in_place = Some(self.opening.opened(&self.path).map_err(Trouble::Ours)?);
        Ok(())
    }

    fn check_in_place(&mut self) -> Answer<()> {
        let Some(in_place) = &self.in_place else { return Ok(()) };
        let checked = self.opening.check(in_place, || self.save());
        if matches!(checked, Err(Error::Overwritten { .. })) {
            self.let_go();
        }
        checked.map_err(Trouble::Ours)
    }

    fn begin(&mut self, _alone: bool) -> Answer<()> {
        // There is one writer at a time anyway.
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| self.trouble(error))
    }

    fn commit(&mut self) -> Answer<()> {
        if self.in_place.is_some() {
            MARKS.count(&self.connection).map_err(|error| self.trouble(error))?;
        }
        self.connection.execute_batch("COMMIT").map_err(|error| self.trouble(error))
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn run(&mut self, words: &str, values: &[Value]) -> Answer<u64> {
        let mut statement = self.connection.prepare(&numbered(words)).map_err(|error| self.trouble(error))?;
        statement.execute(given(values).as_slice()).map(|count| count as u64).map_err(|error| self.trouble(error))
    }

    fn rows(&mut self, words: &str, values: &[Value]) -> Answer<Vec<Row>> {
        let mut statement = self.connection.prepare(&numbered(words)).map_err(|error| self.trouble(error))?;
        all(&mut statement, values).map_err(|error| self.trouble(error))
    }

    fn rows_once(&mut self, words: &str) -> Answer<Vec<Row>> {
        self.connection.prepare(words).and_then(|mut asked| all(&mut asked, &[])).map_err(|error| self.trouble(error))
    }

    fn batch(&mut self, words: &str) -> Answer<()> {
        self.connection.execute_batch(words).map_err(|error| self.trouble(error))
    }

    fn now_ns(&mut self) -> Answer<u64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// SQLite writes numbered values as `?1`.
fn numbered(words: &str) -> String {
    words.replace('$', "?")
}

fn all(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|place| row.get_ref(place).map(taken)).collect::<Result<_, _>>().map(Row)
    };
    let rows = statement.query_map(given(values).as_slice(), row)?;
    rows.collect()
}

fn given(values: &[Value]) -> Vec<&dyn ToSql> {
    fn one(value: &Value) -> &dyn ToSql {
        match value {
            Value::Number(number) => number,
            Value::Text(text) => text,
        }
    }
    values.iter().map(one).collect()
}

fn taken(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Number(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        _ => Value::Number(0),
    }
}
