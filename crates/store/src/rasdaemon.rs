//! The rows of rasdaemon's database, `ras-mc_event.db`, as they are.
//!
//! The file is another program's, and nothing in it is trusted: it is copied into memory first (`database/copy.rs`), SQLite's defences
//! are on, with a limit for the length of a value and for the time; what is no plain table (a view, a table with computed columns) is
//! refused, because reading it runs what its author wrote; and there are no more rows than the file has room for.
//!
//! Tables and columns come and go with rasdaemon's releases (0.6 to 0.8): a column that is missing reads as nothing.

use crate::database::{self, Shape};
use crate::{Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use surefoot_foreign::Regular;
pub use surefoot_model::rasdaemon::{Row, Table, Value};

/// The longest text, and bytes, that are handed out.
const TEXT_BYTES_MAX: usize = 4096;
/// A row takes more than this; a file that claims more rows is damaged.
const ROW_BYTES_MIN: u64 = 8;

/// Tables that tell of memory as well and are not read: that they have rows is said.
const UNREAD: [&str; 5] = [
    "cxl_generic_event",
    "cxl_memory_module_event",
    "cxl_memory_sparing_event",
    "cxl_overflow_event",
    "cxl_poison_event",
];

/// What was left out of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Tables that tell of memory and cannot be read, with the reason.
    pub tables: Vec<(&'static str, String)>,
}

/// Whether a file begins as an SQLite database does. `false` for what cannot be read.
pub fn is_database(path: &Path) -> bool {
    database::hold(path).is_ok_and(|file| begins_as_database(&file))
}

fn begins_as_database(file: &Regular) -> bool {
    let mut begin = [0; database::MAGIC.len()];
    file.open().is_ok_and(|mut file| file.read_exact(&mut begin).is_ok()) && &begin == database::MAGIC
}

/// Calls for each row of the tables that tell of memory, table by table, each in the order of its ids.
///
/// # Errors
/// [`Error::Open`], [`Error::NotAFile`]; [`Error::Foreign`] where it is no database, has none of the tables, or is damaged: rows
/// before the damage have been handed out.
pub fn for_each_row(path: &Path, mut each: impl FnMut(&Row<'_>) -> ControlFlow<()>) -> Result<Skipped> {
    let foreign = |why: String| Error::Foreign { path: path.to_path_buf(), of: "rasdaemon", why };
    let found = database::hold(path)?;
    if !begins_as_database(&found) {
        return Err(foreign(
            "it is no SQLite database; rasdaemon keeps one in /var/lib/rasdaemon/ras-mc_event.db".into(),
        ));
    }
    let explained = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => foreign(database::ENDLESS.into()),
        _ => foreign(format!("SQLite says: {error}")),
    };
    let (mut connection, bytes, _) = database::copied(path)?;
    database::defend(&mut connection, bytes).map_err(explained)?;
    let mut skipped = Skipped::default();
    let mut tables = 0;
    for table in Table::ALL {
        match database::shape(&connection, table.name()).map_err(explained)? {
            Shape::Missing => {}
            Shape::Refused(why) => skipped.tables.push((table.name(), why)),
            Shape::Plain(columns) => {
                tables += 1;
                let rows_max = bytes / ROW_BYTES_MIN;
                match read(&connection, table, &columns, rows_max, &mut each).map_err(explained)? {
                    End::All => {}
                    End::Stopped => return Ok(skipped),
                    End::TooMany => {
                        return Err(foreign(format!(
                            "{} has more rows than the file has room for; it is damaged, or was made to harm",
                            table.name()
                        )));
                    }
                }
            }
        }
    }
    for table in UNREAD {
        let why = match database::shape(&connection, table).map_err(explained)? {
            Shape::Missing => continue,
            Shape::Refused(why) => why,
            Shape::Plain(_) if has_rows(&connection, table).map_err(explained)? => {
                "it has rows that tell of memory, in a form that is not known here".to_owned()
            }
            Shape::Plain(_) => continue,
        };
        skipped.tables.push((table, why));
    }
    if tables == 0 && skipped.tables.is_empty() {
        return Err(foreign("none of its tables is one of rasdaemon's that tell of memory".to_owned()));
    }
    Ok(skipped)
}

fn has_rows(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection.prepare(&format!("SELECT 1 FROM main.{table} LIMIT 1"))?.exists([])
}

enum End {
    All,
    Stopped,
    TooMany,
}

fn read(
    connection: &Connection,
    table: Table,
    columns: &[String],
    rows_max: u64,
    each: &mut impl FnMut(&Row<'_>) -> ControlFlow<()>,
) -> rusqlite::Result<End> {
    let names = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let mut select = connection.prepare(&format!("SELECT {names} FROM main.{} ORDER BY rowid", table.name()))?;
    let mut rows = select.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if count > rows_max {
            return Ok(End::TooMany);
        }
        let mut values = BTreeMap::new();
        for (place, name) in columns.iter().enumerate() {
            let value = match row.get_ref(place)? {
                ValueRef::Integer(number) => Value::Number(number),
                ValueRef::Text(bytes) => {
                    Value::Text(String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned())
                }
                ValueRef::Blob(bytes) => Value::Bytes(bytes[..bytes.len().min(TEXT_BYTES_MAX)].to_vec()),
                ValueRef::Real(_) => Value::Fraction,
                ValueRef::Null => continue,
            };
            values.insert(name.as_str(), value);
        }
        if each(&Row { table, values }).is_break() {
            return Ok(End::Stopped);
        }
    }
    Ok(End::All)
}
