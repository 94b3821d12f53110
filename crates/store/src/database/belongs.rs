//! Whether a log belongs to the file beside it. SQLite does not ask: it reads any whole log into any file with pages of the same size, also
//! one that a backup was copied over, and what comes out is neither.
//!
//! Each commit of ours counts itself in the table of marks ([`Marks`]), so the page of that table is in each log: its first commit says after
//! which write the log was begun, the last one how many there are. A file that fits has at least the write before the first, because a log
//! is begun only once all of the former one is in the file, and no more than the last.

use super::in_place::{Mark, Marks};
use super::log::Frame;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// Where the first page counts the changes of the tables.
const SCHEMA_AT: usize = 40;

/// What a file says without its log.
pub(super) struct Base {
    marks: &'static Marks,
    mark: Mark,
    /// The page of the table of marks.
    root: u32,
    schema: i64,
    page_bytes: i64,
}

impl Base {
    /// `None` of a file without marks: a release before them wrote it.
    pub(super) fn of(path: &Path, file: &Connection, marks: &'static Marks) -> rusqlite::Result<Option<Base>> {
        let Some(mark) = marks.read(path)? else { return Ok(None) };
        let root = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let ask = |words: &str| file.query_row(words, [], |row| row.get(0));
        Ok(Some(Base {
            marks,
            mark,
            root: file.query_row(root, [marks.table], |row| row.get(0))?,
            schema: ask("PRAGMA schema_version")?,
            page_bytes: ask("PRAGMA page_size")?,
        }))
    }
}

/// What the commits of a log say of the same.
pub(super) struct Logged<'a> {
    base: &'a Base,
    pending: Option<Vec<u8>>,
    pending_schema: Option<i64>,
    /// The page of the marks as the first commit and as the last left it.
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    /// What the first page counts in the last commit that has it.
    schema: Option<i64>,
}

impl Logged<'_> {
    pub(super) fn beside(base: &Base) -> Logged<'_> {
        Logged { base, pending: None, pending_schema: None, first: None, last: None, schema: None }
    }

    pub(super) fn note(&mut self, frame: &Frame, page: &[u8]) {
        if frame.number == self.base.root {
            self.pending = Some(page.to_vec());
        }
        if frame.number == 1 {
            let counted = [0, 1, 2, 3].map(|byte| page[SCHEMA_AT + byte]);
            self.pending_schema = Some(u32::from_be_bytes(counted).into());
        }
        if frame.commits.is_some() {
            if let Some(page) = self.pending.take() {
                self.first.get_or_insert_with(|| page.clone());
                self.last = Some(page);
            }
            self.schema = self.pending_schema.take().or(self.schema);
        }
    }

    /// By what it shows that the log does not belong to the file. Where no commit says anything of the marks, nothing does.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (first, last) = self.first.as_ref().zip(self.last.as_ref())?;
        let foreign = || Some("it is the log of another file".to_owned());
        let (Ok(first), Ok(last)) = (self.read(first), self.read(last)) else { return foreign() };
        let Base { mark, schema, .. } = self.base;
        if last.id != Some(mark.id) {
            return foreign();
        }
        let begun_after = first.written.saturating_sub(1);
        if mark.written < begun_after {
            return Some(format!("the file holds {} writes, and the log was begun after {begun_after}", mark.written));
        }
        if mark.written > last.written {
            return Some(format!(
                "the file holds {} writes, and the log ends with write {}",
                mark.written, last.written
            ));
        }
        (*schema > self.schema.or(last.schema)?)
            .then(|| "VACUUM wrote this file, and its pages lie elsewhere".to_owned())
    }

    /// Has SQLite read one page of the marks, in the place of the root of a table that is made for it.
    fn read(&self, page: &[u8]) -> rusqlite::Result<Row> {
        let Marks { number, is_without_rowid, .. } = self.base.marks;
        let columns = match is_without_rowid {
            true => format!("(name TEXT PRIMARY KEY, {number}) WITHOUT ROWID"),
            false => format!("(name, {number})"),
        };
        let mut made = Connection::open_in_memory()?;
        made.execute_batch(&format!("PRAGMA page_size = {}; CREATE TABLE marks {columns}", self.base.page_bytes))?;
        let mut bytes = made.serialize("main")?.to_vec();
        let length = bytes.len();
        // The table is the second of two pages.
        bytes[length - page.len()..].copy_from_slice(page);
        let mut copy = Connection::open_in_memory()?;
        copy.deserialize_read_exact("main", &*bytes, length, true)?;
        let ask = |name: &str| {
            let words = format!("SELECT {number} FROM marks WHERE name = ?1");
            copy.query_row(&words, [name], |row| row.get::<_, i64>(0)).optional()
        };
        Ok(Row { id: ask("file")?, written: ask("written")?.unwrap_or(0), schema: ask("schema")? })
    }
}

/// What one page of the marks says.
struct Row {
    id: Option<i64>,
    written: i64,
    schema: Option<i64>,
}
