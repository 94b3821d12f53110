//! Cases in SQLite: one host, or one controller.

use super::opening::Opening;
use super::sql::{Answer, Row, Sql, Trouble, Value};
use crate::database::{self, Content, InPlace, Marks};
use crate::history::schema::{check_existing, create_private};
use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement, ToSql};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// `SFCA` in ASCII, in `application_id`: tells a file of cases from any other database.
const APPLICATION_ID: i64 = 0x5346_4341;
/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The log of writes is folded into the file when it has this many pages.
const LOG_PAGES_MAX: i64 = 1_000;

/// Of a store that is there and has nothing in it, and what to do.
const EMPTY: &str = "the file is empty: the cases that it held are gone; restore it, or remove it and start `surefoot remedy serve` for a new store";
/// Of a store whose pages SQLite cannot make sense of, and what to do. It says the same where the disk fails to read them.
const DAMAGED: &str = "the store is damaged, or its disk gives read errors (see `dmesg`): stop all controllers of it, then put a backup back, or move \
                       the file aside with its -wal and -shm; `sqlite3 FILE .recover` saves what can be read";
/// A file that stays empty for so long is not being made by another process.
const EMPTY_FOR: Duration = Duration::from_secs(2);

/// Where the file says which store it is.
const MARKS: Marks = Marks { table: "remedy_meta", number: "number" };

#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    connection: Connection,
    /// Set once its tables are there: then its log is there, too.
    in_place: Option<Arc<InPlace>>,
    opening: Opening,
}

impl Sqlite {
    /// Opens the file. Where `opening` says so it is created first, readable by its owner alone.
    pub(super) fn open(path: &Path, opening: &Opening) -> Result<Sqlite> {
        check_existing(path).map_err(no_history)?;
        if opening.may_create()? {
            refuse_loss(path)?;
            create_private(path).map_err(no_history)?;
        } else if std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(no_store(path, "there is no such file"));
        }
        let failed = |doing: &'static str| {
            move |source: rusqlite::Error| match source.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => not_cases(path, "it is no SQLite database"),
                Some(ErrorCode::DatabaseCorrupt) => not_cases(path, &format!("{source}: {DAMAGED}")),
                _ => Error::Sqlite { path: path.to_owned(), doing, source },
            }
        };
        let connection = database::to_write(path).map_err(failed("opening it"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed("setting the time to wait"))?;
        let ask = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
        let tables = ask("SELECT count(*) FROM sqlite_schema").map_err(failed("reading its header"))?;
        let application = ask("PRAGMA application_id").map_err(failed("reading its header"))?;
        if tables > 0 && application != APPLICATION_ID {
            return Err(not_cases(path, "it is the database of another program"));
        }
        if tables == 0 && !opening.may_create()? {
            // Where the file is not made of pages yet, `remedy serve` refuses it as well.
            return Err(Error::NoStore { store: format!("sqlite:{}", path.display()), why: EMPTY.into() });
        }
        let prepare = || -> rusqlite::Result<String> {
            if tables == 0 {
                connection.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            let journal = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            // A step that is written down as begun must be so after a loss of power, too.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
            Ok(journal)
        };
        let journal = prepare().map_err(failed("preparing it"))?;
        if journal != "wal" {
            let why = format!("its file system has no shared memory for SQLite's log (journal mode {journal})");
            return Err(Error::Unsupported { path: path.to_owned(), why });
        }
        Ok(Sqlite { path: path.to_owned(), connection, in_place: None, opening: opening.clone() })
    }

    /// Leaves a file that was written over as it is: what is in the log belongs to the one before, and SQLite would write it there.
    fn let_go(&mut self) {
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        if let Ok(nothing) = Connection::open_in_memory() {
            drop(std::mem::replace(&mut self.connection, nothing));
            self.in_place.iter().for_each(|in_place| in_place.remove_log());
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
        let Some(in_place) = self.in_place.clone() else { return };
        if self.opening.is_overwritten(&in_place) {
            self.let_go();
        } else {
            // What was deleted since it was last asked is saved now; the next start finds the copy and says so.
            let _ = self.opening.check(&in_place, || self.save());
        }
    }
}

/// Refuses to create a store where one was lost: its file is empty, or is gone while a copy of what it held lies beside it.
fn refuse_loss(path: &Path) -> Result<()> {
    let store = || format!("sqlite:{}", path.display());
    let length = || std::fs::metadata(path).map(|about| about.len());
    let begun = Instant::now();
    // Another process may be making it just now.
    while length().is_ok_and(|length| length == 0) {
        if begun.elapsed() > EMPTY_FOR {
            return Err(Error::NoStore { store: store(), why: EMPTY.into() });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if length().is_ok() {
        return Ok(());
    }
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |source| Error::Open { path: folder.to_owned(), source };
    let log = database::beside(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let why = format!(
            "there is no such file, and its log {} is there: the store was moved or deleted. Put it back beside its log, or put a backup \
             in its place and move the log and its -shm away; with both away, a new store is begun",
            log.display()
        );
        return Err(Error::NoStore { store: store(), why });
    }
    let prefix = format!("{}.saved-", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let saved = entry.path();
            let why = format!(
                "there is no such file, and {} holds what was in it: copy it back, or move it away to begin a new store",
                saved.display()
            );
            return Err(Error::NoStore { store: store(), why });
        }
    }
    Ok(())
}

fn no_store(path: &Path, what: &str) -> Error {
    super::opening::no_store(format!("sqlite:{}", path.display()), what)
}

/// The same refusal in the words of cases.
fn no_history(error: Error) -> Error {
    match error {
        Error::NotAHistory { path, why } | Error::OfOthers { path, why } => not_cases(&path, &why),
        other => other,
    }
}

fn not_cases(path: &Path, why: &str) -> Error {
    Error::NotCases { store: format!("sqlite:{}", path.display()), why: why.to_owned() }
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

    fn is_laid(&mut self) -> Answer<()> {
        let id = MARKS.id(&self.connection).map_err(trouble)?;
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
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(trouble)
    }

    fn commit(&mut self) -> Answer<()> {
        if self.in_place.is_some() {
            MARKS.count(&self.connection).map_err(trouble)?;
        }
        self.connection.execute_batch("COMMIT").map_err(trouble)
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn run(&mut self, words: &str, values: &[Value]) -> Answer<u64> {
        let mut statement = self.connection.prepare(&numbered(words)).map_err(trouble)?;
        statement.execute(given(values).as_slice()).map(|count| count as u64).map_err(trouble)
    }

    fn rows(&mut self, words: &str, values: &[Value]) -> Answer<Vec<Row>> {
        let mut statement = self.connection.prepare(&numbered(words)).map_err(trouble)?;
        all(&mut statement, values)
    }

    fn rows_once(&mut self, words: &str) -> Answer<Vec<Row>> {
        all(&mut self.connection.prepare(words).map_err(trouble)?, &[])
    }

    fn batch(&mut self, words: &str) -> Answer<()> {
        self.connection.execute_batch(words).map_err(trouble)
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

fn all(statement: &mut Statement<'_>, values: &[Value]) -> Answer<Vec<Row>> {
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|place| row.get_ref(place).map(taken)).collect::<Result<_, _>>().map(Row)
    };
    let rows = statement.query_map(given(values).as_slice(), row).map_err(trouble)?;
    rows.collect::<rusqlite::Result<_>>().map_err(trouble)
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

fn trouble(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => Trouble::Twice,
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Other(format!("{error}: {DAMAGED}")),
            _ => Trouble::Other(error.to_string()),
        },
    }
}
