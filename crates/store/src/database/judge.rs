//! Whether a database of this user's is fit to be opened for writing, from its file and its log, both of which stay as they are.
//!
//! SQLite must not find that out: on opening a file that is empty it deletes the log, and on closing it folds the log into a file that it
//! has just refused. What was committed and is in the log alone is gone then.
//!
//! The file is read through SQLite, whose locks a descriptor of ours would drop when it is closed; the log has no such locks.

use super::belongs::{Base, Logged};
use super::copy::{JOURNAL_MAGIC, TRIES, WAIT, is_unchanged};
use super::in_place::Marks;
use super::log::{Frames, HEADER_BYTES};
use super::{beside, without_writer};
use crate::{Error, Result};
use rusqlite::ErrorCode;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::{fs, thread};

/// Where the first page says which program's database it is, and where its tree of tables has its kind and count of cells.
const APPLICATION_AT: usize = 68;
const KIND_AT: usize = 100;
const CELLS_AT: usize = 103;
/// The kinds of a page of a table.
const TABLE_KINDS: [u8; 2] = [5, 13];

/// SQLite never writes the page with the byte by which it locks.
const LOCK_BYTE: u64 = 0x4000_0000;

/// What a database and its log say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fitness {
    /// The header, the length and the log fit each other.
    Fit {
        /// Which program's it is.
        application: i64,
        /// Whether there is any table.
        has_tables: bool,
    },
    /// It is no database.
    NoDatabase,
    /// They do not; what is wrong.
    Damaged(String),
    /// The log is that of another database, or of another state of this one; by what that shows.
    LogOfAnother(String),
    /// What lies in the log's place is none, and the file is whole without it; by what that shows.
    LogStray(String),
}

/// Judges a file that is there. One that another process writes all the time is fit as far as can be told: that process has it open.
///
/// # Errors
/// [`Error::Open`] and [`Error::Sqlite`], where it cannot be read.
pub(crate) fn judge(path: &Path, marks: &'static Marks) -> Result<Fitness> {
    let failed = |source| Error::Open { path: path.to_path_buf(), source };
    for attempt in 0..TRIES {
        if attempt > 0 {
            thread::sleep(WAIT);
        }
        let before = fs::metadata(path).map_err(failed)?;
        let file = of_file(path, marks).map_err(|source| Error::Sqlite {
            path: path.into(),
            doing: "reading its header",
            source,
        })?;
        let [log_path, journal_path] =
            ["-wal", "-journal"].map(|ending| fs::canonicalize(path).map(|real| beside(&real, ending)));
        let (log_path, journal_path) = (log_path.map_err(failed)?, journal_path.map_err(failed)?);
        let log_failed = |source| Error::Open { path: log_path.clone(), source };
        let journal_failed = |source| Error::Open { path: journal_path.clone(), source };
        let begin = begin_of(&log_path).map_err(log_failed)?;
        let log = of_log(&log_path, &before, &file).map_err(log_failed)?;
        let fitness = match (together(&file, &log, before.len()), has_journal(&journal_path).map_err(journal_failed)?) {
            (Fitness::Fit { has_tables: true, .. }, true) => Fitness::Damaged(ROLLBACK.to_owned()),
            (fitness, _) => fitness,
        };
        // The log is what came after the file where neither was begun anew meanwhile.
        let is_one_moment =
            || -> io::Result<bool> { Ok(begin_of(&log_path)? == begin && is_unchanged(&before, &fs::metadata(path)?)) };
        if matches!(fitness, Fitness::Fit { has_tables: true, .. } | Fitness::NoDatabase)
            || is_one_moment().map_err(failed)?
        {
            return Ok(match fitness {
                Fitness::LogStray(what) if !is_whole(path) => {
                    Fitness::Damaged(format!("its log (-wal) is none: {what}"))
                }
                fitness => fitness,
            });
        }
    }
    Ok(Fitness::Fit { application: of_file(path, marks).map_or(0, |file| file.application), has_tables: true })
}

/// A database of ours has a log from its first table on, and never a rollback journal.
const ROLLBACK: &str = "a rollback journal (-journal) lies beside it, which no release of this store writes; SQLite would write \
                        its pages over the store. Move the journal away, and the store may be whole";

/// Whether a file has no fault without its log.
fn is_whole(path: &Path) -> bool {
    without_writer(path).and_then(|file| super::fault(&file)).is_ok_and(|fault| fault.is_none())
}

/// What the file says without its log.
struct OfFile {
    application: i64,
    page_bytes: u64,
    /// The tables and the pages that its header counts, or why they cannot be counted; `None` where it is no database.
    counted: Option<Result<(i64, u64), String>>,
    /// By which a log shows that it belongs to it; `None` where it has none, or it cannot be read now.
    base: Option<Base>,
}

fn of_file(path: &Path, marks: &'static Marks) -> rusqlite::Result<OfFile> {
    let connection = without_writer(path)?;
    let ask = |words: &str| connection.query_row(words, [], |row| row.get::<_, i64>(0));
    let counted = ask("SELECT count(*) FROM sqlite_schema").and_then(|tables| Ok((tables, ask("PRAGMA page_count")?)));
    let counted = match counted {
        Ok((tables, pages)) => Some(Ok((tables, pages.unsigned_abs()))),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => None,
            Some(ErrorCode::DatabaseCorrupt) => Some(Err(error.to_string())),
            _ => return Err(error),
        },
    };
    if counted.is_none() {
        return Ok(OfFile { application: 0, page_bytes: 0, counted, base: None });
    }
    // With this SQLite looks at a file that is shorter than its header says.
    connection.pragma_update(None, "writable_schema", true)?;
    let application = ask("PRAGMA application_id")?;
    let page_bytes = ask("PRAGMA page_size")?.unsigned_abs().max(1);
    let base = Base::of(path, &connection, marks).ok().flatten();
    Ok(OfFile { application, page_bytes, counted, base })
}

/// What the log says.
enum OfLog {
    /// There is none, or nothing was committed in it.
    Nothing,
    /// It is no log of this database's.
    Stray(&'static str),
    /// It is the log of another database, or of another state of this one.
    OfAnother(String),
    /// Its last commit.
    Commit {
        /// The pages of the database.
        pages: u64,
        /// Those of them that are not in the file as a whole, and are in the log.
        beyond: BTreeSet<u32>,
        /// Program, kind and cells of the first page, where it is in the log.
        first: Option<(i64, u8, u16)>,
    },
}

fn begin_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = opened(path)? else { return Ok(None) };
    let mut begin = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64).read_to_end(&mut begin)?;
    Ok(Some(begin))
}

/// Whether a rollback journal that SQLite would follow is there.
fn has_journal(path: &Path) -> io::Result<bool> {
    Ok(begin_of(path)?.is_some_and(|begin| begin.starts_with(&JOURNAL_MAGIC)))
}

pub(super) fn opened(path: &Path) -> io::Result<Option<fs::File>> {
    match surefoot_foreign::hold(path).and_then(|held| held.regular()) {
        Ok(file) => file.open().map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_log(path: &Path, about: &Metadata, file: &OfFile) -> io::Result<OfLog> {
    let Some(log) = opened(path)? else { return Ok(OfLog::Nothing) };
    let bytes = log.metadata()?.len();
    let Some(mut frames) = Frames::of(BufReader::with_capacity(1 << 16, log))? else {
        // SQLite writes nothing behind a header before that is on the disk.
        let is_begun = bytes <= HEADER_BYTES as u64;
        return Ok(if is_begun { OfLog::Nothing } else { OfLog::Stray("it does not begin as a log does") });
    };
    let page_bytes = file.page_bytes;
    if frames.page_bytes() as u64 != page_bytes {
        return Ok(OfLog::Stray("it is of another database: the sizes of their pages differ"));
    }
    let whole_pages = about.len() / page_bytes;
    let mut logged = file.base.as_ref().map(Logged::beside);
    let (mut pending, mut pending_first) = (Vec::new(), None);
    let (mut beyond, mut first, mut pages) = (BTreeSet::new(), None, 0);
    while let Some(frame) = frames.next()? {
        if u64::from(frame.number) > whole_pages {
            pending.push(frame.number);
        }
        if frame.number == 1 {
            let page = frames.page();
            let application = i32::from_be_bytes([0, 1, 2, 3].map(|byte| page[APPLICATION_AT + byte]));
            let cells = u16::from_be_bytes([0, 1].map(|byte| page[CELLS_AT + byte]));
            pending_first = Some((i64::from(application), page[KIND_AT], cells));
        }
        if let Some(logged) = &mut logged {
            logged.note(&frame, frames.page());
        }
        if let Some(pages_now) = frame.commits {
            pages = pages_now.into();
            beyond.extend(pending.drain(..));
            first = pending_first.take().or(first);
        }
    }
    let contradiction = logged.and_then(|logged| logged.contradiction());
    Ok(match contradiction {
        _ if pages == 0 => OfLog::Nothing,
        Some(what) => OfLog::OfAnother(what),
        None => OfLog::Commit { pages, beyond, first },
    })
}

fn together(file: &OfFile, log: &OfLog, bytes: u64) -> Fitness {
    let Some(counted) = &file.counted else { return Fitness::NoDatabase };
    let whole_pages = bytes / file.page_bytes;
    let lock_page = LOCK_BYTE / file.page_bytes + 1;
    let (pages, beyond, first) = match log {
        OfLog::Stray(what) => return Fitness::LogStray((*what).to_owned()),
        OfLog::OfAnother(what) => return Fitness::LogOfAnother(what.clone()),
        OfLog::Nothing => (None, &BTreeSet::new(), None),
        OfLog::Commit { pages, beyond, first } => (Some(*pages), beyond, *first),
    };
    let (application, has_tables) = match (first, counted) {
        (Some((application, kind, cells)), _) if TABLE_KINDS.contains(&kind) => {
            (application, cells > 0 || kind == TABLE_KINDS[0])
        }
        (Some(_), _) => return Fitness::Damaged("the list of its tables is none".to_owned()),
        (None, Ok((tables, _))) => (file.application, *tables > 0),
        (None, Err(what)) => return Fitness::Damaged(what.clone()),
    };
    let pages = pages.or(counted.as_ref().ok().map(|(_, pages)| *pages)).unwrap_or(0);
    let lacking = whole_pages + 1..=pages;
    let logged =
        beyond.iter().filter(|&&page| lacking.contains(&page.into()) && u64::from(page) != lock_page).count() as u64;
    let unwritten = u64::from(lacking.contains(&lock_page));
    let missing = pages.saturating_sub(whole_pages) - logged - unwritten;
    if missing > 0 {
        return Fitness::Damaged(format!("{missing} of its {pages} pages are gone: the file has {bytes} bytes"));
    }
    Fitness::Fit { application, has_tables }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use rusqlite::Connection;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    const MARKS: Marks = Marks { table: "t", number: "id", is_without_rowid: false };

    /// The file grows and shrinks, and the log is folded in and begun anew all the time.
    #[test]
    fn a_database_that_is_being_written_is_never_called_damaged() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("written");
        let writer = Connection::open(&path).unwrap();
        let begin = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 10; PRAGMA synchronous = OFF; \
                     PRAGMA auto_vacuum = FULL; VACUUM; CREATE TABLE t (id INTEGER PRIMARY KEY, bytes BLOB)";
        writer.execute_batch(begin).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_over = &is_over;
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let grow = "INSERT INTO t (bytes) VALUES (randomblob(30000)), (randomblob(9000))";
                    let change = if turn % 20 == 19 { "DELETE FROM t" } else { grow };
                    writer.execute_batch(change).unwrap();
                    thread::sleep(Duration::from_millis(if turn % 50 == 0 { 150 } else { 0 }));
                }
            });
            let begun = Instant::now();
            loop {
                let fitness = judge(&path, &MARKS);
                let is_fit = matches!(fitness, Ok(Fitness::Fit { has_tables: true, .. }));
                is_over.store(!is_fit || begun.elapsed() > Duration::from_secs(6), Ordering::Relaxed);
                assert!(is_fit, "{fitness:?}");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn pages_that_are_in_the_log_and_the_page_of_the_lock_are_not_missing() {
        let file = |pages| OfFile { application: 7, page_bytes: 4_096, counted: Some(Ok((1, pages))), base: None };
        let commit =
            |pages, beyond: &[u32]| OfLog::Commit { pages, beyond: beyond.iter().copied().collect(), first: None };
        let is_fit = |file: &OfFile, log: &OfLog, bytes| {
            together(file, log, bytes) == Fitness::Fit { application: 7, has_tables: true }
        };
        assert!(is_fit(&file(2), &OfLog::Nothing, 8_192) && !is_fit(&file(2), &OfLog::Nothing, 8_191));
        assert!(is_fit(&file(2), &commit(4, &[3, 4]), 8_192) && !is_fit(&file(2), &commit(4, &[4, 5]), 8_192));
        // A commit that made it shorter.
        assert!(is_fit(&file(2), &commit(1, &[]), 8_192));
        let lock_page = LOCK_BYTE / 4_096 + 1;
        let after = u32::try_from(lock_page).unwrap() + 1;
        assert!(is_fit(&file(2), &commit(lock_page + 1, &[after]), (lock_page - 1) * 4_096));
        // Nobody counts to the end of what a log claims.
        assert!(!is_fit(&file(2), &commit(u64::from(u32::MAX), &[]), 8_192));
    }
}
