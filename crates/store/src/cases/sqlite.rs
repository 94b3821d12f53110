//! Cases in SQLite: one host, or one controller.

use super::sql::{Answer, Row, Sql, Trouble, Value};
use crate::history::schema::{check_existing, create_private};
use crate::{Error, Result, database};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement, ToSql};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `SFCA` in ASCII, in `application_id`: tells a file of cases from any other database.
const APPLICATION_ID: i64 = 0x5346_4341;
/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The log of writes is folded into the file when it has this many pages.
const LOG_PAGES_MAX: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Opens the file, or creates it, readable by its owner alone.
    pub(super) fn open(path: &Path) -> Result<Sqlite> {
        check_existing(path).and_then(|()| create_private(path)).map_err(no_history)?;
        let failed = |doing: &'static str| {
            move |source: rusqlite::Error| match source.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => not_cases(path, "it is no SQLite database"),
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
        Ok(Sqlite { connection })
    }
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

    fn begin(&mut self, _alone: bool) -> Answer<()> {
        // There is one writer at a time anyway.
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(trouble)
    }

    fn commit(&mut self) -> Answer<()> {
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
        _ => Trouble::Other(error.to_string()),
    }
}
