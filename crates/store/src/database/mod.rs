//! Every way in which this crate opens SQLite, and the defences against a database that another program or user wrote.
//!
//! SQLite opens files by path, several times, and creates `FILE-wal` and `FILE-shm` with the mode and owner of the database. In a
//! directory that another user controls it would write wherever that user leads it. So only files of this user in directories of
//! this user (or of root) are opened by path. Every other database is copied into memory through checked descriptors
//! ([`copy`]), its log with it, and SQLite gets the copy.

mod belongs;
mod copy;
mod damage;
mod in_place;
mod judge;
mod log;
mod names;

pub(crate) use damage::{LogDamage, log_damage};
pub(crate) use in_place::{Content, InPlace, Marks};
pub(crate) use judge::{Fitness, judge};
pub(crate) use names::refuse_other_names;

use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_foreign::{About, Regular, way};

/// What every SQLite database begins with.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The longest value of a database that another program wrote; its rows have no more either.
const VALUE_BYTES_MAX: i32 = 1 << 20;

/// How long such a database may be read in all: so long, and for each MiB so much longer.
const TIME_MAX: Duration = Duration::from_secs(60);
const TIME_PER_MIB: Duration = Duration::from_secs(1);

/// Why such a database was given up at its deadline.
pub(crate) const ENDLESS: &str =
    "reading it takes longer than its size explains; it is damaged, or was made to harm: do not use it";

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;

/// Opens a file that this process writes. The caller has made sure that it and its directory are this user's.
pub(crate) fn to_write(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Of a database that was found damaged: closing this connection then leaves the log as it is, if anything is in it. SQLite would fold it
/// into the file and delete it.
pub(crate) fn leave_log(path: &Path, connection: &Connection) -> rusqlite::Result<()> {
    let log = std::fs::canonicalize(path).map(|path| beside(&path, "-wal"));
    let is_empty = log.and_then(std::fs::metadata).is_ok_and(|log| log.len() == 0);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_empty).map(drop)
}

/// Whether a file of this user's that is written without a log lacks a table, as far as can be told without opening it for writing.
pub(crate) fn lacks_table(path: &Path, table: &str) -> bool {
    let has_log = std::fs::canonicalize(path).is_ok_and(|path| beside(&path, "-wal").exists());
    let words = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let ask = || without_writer(path)?.query_row(words, [table], |row| row.get::<_, i64>(0));
    !has_log && ask() == Ok(0)
}

/// Says in the bytes of a database that it is written through a log.
pub(crate) fn with_log(database: &mut [u8]) {
    log::with_log(database);
}

/// Opens a database of this process's own in its memory, by a name; connections to the same name share it.
pub(crate) fn in_memory(name: &str, is_writer: bool) -> rusqlite::Result<Connection> {
    let may = if is_writer {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let flags = may | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:/{name}?vfs=memdb"), flags)
}

/// Opens a file of this user's beside its writer, whose log is followed.
pub(crate) fn beside_writer(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Opens a file of this user's that nobody writes and that has no log: SQLite makes no file beside it.
pub(crate) fn without_writer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(immutable(path), flags)
}

/// Whether a file of this user's begins as a database does.
///
/// SQLite reads it, because a descriptor of ours must not be closed here: the kernel drops all locks that a process has on a file when
/// it closes any descriptor of the file. A connection that this process has open would lose its lock, and another process would take
/// the log for one that nobody uses, and delete it with all that is written from then on.
pub(crate) fn is_own_database(path: &Path) -> rusqlite::Result<bool> {
    match without_writer(path)?.query_row("PRAGMA application_id", [], |row| row.get::<_, i64>(0)) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(false),
        // Any other fault is found again, and told, when it is opened.
        _ => Ok(true),
    }
}

/// Opens a copy in memory of a database that anybody may have written, with its log, as of one moment. Nothing is created, changed
/// or locked. Also returns the length of the copy, which with a log is another than the file's, and whether what lies in the log's place is
/// none and was left out.
///
/// # Errors
/// [`Error::Open`], [`Error::NotAFile`]; [`Error::Unreadable`] for one that is too large, or is written all the time.
pub(crate) fn copied(path: &Path) -> Result<(Connection, u64, bool)> {
    let (bytes, is_log_stray) = copy::copy(path)?;
    let failed = |source| Error::Sqlite { path: path.to_path_buf(), doing: "opening a copy of it", source };
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    connection.deserialize_read_exact("main", &*bytes, bytes.len(), true).map_err(failed)?;
    Ok((connection, bytes.len() as u64, is_log_stray))
}

/// Holds a database; the path is followed by the rule of [`way`].
///
/// # Errors
/// [`Error::Open`], [`Error::NotAFile`].
pub(crate) fn hold(path: &Path) -> Result<Regular> {
    let held = surefoot_foreign::hold(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
    match held.about().not_regular() {
        Some(what) => Err(Error::NotAFile { path: path.to_path_buf(), what }),
        None => held.regular().map_err(|source| Error::Open { path: path.to_path_buf(), source }),
    }
}

/// Why SQLite must not open a file by path: another user can write it, its directory, or a file beside it that SQLite takes for its
/// own. Whoever can write `FILE-shm` can end the process that maps it (SIGBUS). `None` if only this user and root can.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::NotFound`] if the directory is missing. A missing file is no error.
pub(crate) fn others_reach(path: &Path) -> io::Result<Option<String>> {
    let plain = way::plain(path)?;
    let folder = plain.parent().unwrap_or(Path::new("/"));
    if let Some(why) = way::others_in(folder)? {
        return Ok(Some(why));
    }
    let directory = way::directory(folder)?;
    for ending in ["", "-wal", "-shm", "-journal"] {
        let path = beside(&plain, ending);
        let about = match About::in_directory(&directory, path.file_name().unwrap_or(OsStr::new(""))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            about => about?,
        };
        let (path, mode) = (path.display(), about.mode & 0o7777);
        if ![0, way::own_user()].contains(&about.owner) {
            return Ok(Some(format!("{path} belongs to user {}", about.owner)));
        }
        if !about.is_regular() {
            return Ok(Some(format!("{path} is not a regular file")));
        }
        if about.mode & way::OTHERS_WRITE != 0 {
            return Ok(Some(format!("other users can write {path} (mode {mode:o})")));
        }
    }
    Ok(None)
}

/// A file beside a database, such as its log.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Sets SQLite's defences on a connection to a database that another program wrote: no view or trigger of its is run, no value is longer
/// than 1 MiB, nothing is written, and whatever is asked ends with `OperationInterrupted` at a deadline.
pub(crate) fn defend(connection: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    defend_until(connection, Instant::now() + TIME_MAX + TIME_PER_MIB.saturating_mul(mebibytes))
}

fn defend_until(connection: &mut Connection, deadline: Instant) -> rusqlite::Result<()> {
    connection.progress_handler(STEPS_PER_LOOK, Some(move || Instant::now() >= deadline))?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // What does not fit into memory goes to no file either.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// What a table is, before anything of it is read.
pub(crate) enum Shape {
    /// There is none of this name.
    Missing,
    /// It runs what its author wrote, or cannot be named; why.
    Refused(String),
    /// Its columns.
    Plain(Vec<String>),
}

/// The shape of a table. Whatever else it is (a view, a virtual table, one with computed columns) runs what its author wrote
/// when it is read.
pub(crate) fn shape(connection: &Connection, table: &str) -> rusqlite::Result<Shape> {
    // Not from pragma_table_list, which works out the columns of every view in the file.
    let mut kinds = connection.prepare("SELECT type, rootpage FROM sqlite_schema WHERE name = ?1")?;
    let kind = match kinds.query([table])?.next()? {
        Some(row) => (row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?),
        None => return Ok(Shape::Missing),
    };
    match (kind.0.as_str(), kind.1.unwrap_or(0)) {
        ("table", 1..) => {}
        ("table", _) => return Ok(Shape::Refused("it is a virtual table".to_owned())),
        (kind, _) => return Ok(Shape::Refused(format!("it is a {kind}, not a table"))),
    }
    let mut list = connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let mut rows = list.query([table])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, hidden) = (row.get::<_, String>(0)?, row.get::<_, i64>(1)?);
        if hidden != 0 {
            return Ok(Shape::Refused("it has computed columns".to_owned()));
        }
        // Names of columns go into statements.
        if name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            names.push(name);
        }
    }
    Ok(if names.is_empty() { Shape::Refused("it has no columns".to_owned()) } else { Shape::Plain(names) })
}

/// The first fault in the structure of a database: a page that is used twice, for instance, by which a small file has rows without end. Its
/// own constraints are not run.
pub(crate) fn fault(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.pragma_update(None, "ignore_check_constraints", true)?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((verdict != "ok").then(|| plain_fault(&verdict.replace('\n', " "))))
}

/// What SQLite found, in words, and its own behind.
fn plain_fault(verdict: &str) -> String {
    let page = verdict.split_once(": btreeInitPage()").and_then(|(before, _)| before.rsplit_once(' '));
    match page.and_then(|(_, page)| page.parse::<u64>().ok()) {
        Some(page) => format!("page {page} cannot be read; SQLite says: {verdict}"),
        None => format!("its pages contradict each other; SQLite says: {verdict}"),
    }
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn names_that_an_address_would_cut_are_escaped() {
        assert_eq!(immutable(Path::new("/a b/h?i#s%t.db")), "file:/a%20b/h%3Fi%23s%25t.db?immutable=1");
    }

    #[test]
    fn a_page_that_cannot_be_read_is_named() {
        let verdict = "*** in database main *** Tree 4 page 4: btreeInitPage() returns error code 11";
        assert_eq!(plain_fault(verdict), format!("page 4 cannot be read; SQLite says: {verdict}"));
        assert!(
            plain_fault("row 3 missing from index x")
                .starts_with("its pages contradict each other; SQLite says: row 3")
        );
    }

    #[test]
    fn whatever_is_asked_ends_at_the_deadline_and_writes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        defend_until(&mut connection, Instant::now()).unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let error = connection.query_row(endless, [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted), "{error}");
        assert!(connection.execute_batch("INSERT INTO t VALUES (1)").is_err(), "it can be written to");
    }

    fn rows(connection: &Connection) -> Vec<(i64, Vec<u8>)> {
        let mut select = connection.prepare("SELECT id, bytes FROM t ORDER BY id").unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    /// SQLite itself is the oracle: it opens another copy of the same two files.
    #[test]
    fn a_log_is_folded_in_as_sqlite_does_it_wherever_it_was_cut() {
        for page_bytes in [512, 4096, 65_536] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("written");
            let writer = Connection::open(&path).unwrap();
            let begin =
                format!("PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;");
            writer.execute_batch(&begin).unwrap();
            writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, bytes BLOB)").unwrap();
            writer.execute_batch("PRAGMA wal_checkpoint(RESTART)").unwrap();
            for turn in 0..12 {
                let grow = format!("INSERT INTO t (bytes) VALUES (randomblob({})), (randomblob(30))", 200 * turn + 1);
                writer.execute_batch(&grow).unwrap();
                writer
                    .execute_batch("UPDATE t SET bytes = randomblob(50) WHERE id % 3 = 0; DELETE FROM t WHERE id = 2")
                    .unwrap();
            }
            let log = fs::read(beside(&path, "-wal")).unwrap();
            let step = log.len() / 23;
            for cut in (0..=log.len()).step_by(step).chain([log.len()]) {
                let (ours, sqlites) = (home.path().join("ours"), home.path().join("sqlites"));
                for to in [&ours, &sqlites] {
                    fs::copy(&path, to).unwrap();
                    fs::write(beside(to, "-wal"), &log[..cut]).unwrap();
                }
                let ours = copied(&ours).unwrap().0;
                assert_eq!(fault(&ours).unwrap(), None, "{page_bytes} {cut}");
                assert_eq!(rows(&ours), rows(&Connection::open(&sqlites).unwrap()), "{page_bytes} {cut}");
                let _ = (fs::remove_file(beside(&sqlites, "-wal")), fs::remove_file(beside(&sqlites, "-shm")));
            }
        }
    }

    /// The writer keeps the sum, and folds its log in again and again.
    #[test]
    fn a_copy_beside_a_writer_is_of_one_moment() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("written");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 30; PRAGMA synchronous = OFF")
            .unwrap();
        writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, amount INTEGER, bytes BLOB)").unwrap();
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
                    INSERT INTO t SELECT i, 10, randomblob(500) FROM n";
        writer.execute_batch(fill).unwrap();
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stop = std::sync::Arc::clone(&is_over);
        let writing = std::thread::spawn(move || {
            let mut turn = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                turn += 1;
                let (from, to) = (1 + turn * 7 % 400, 1 + turn * 13 % 400);
                let step = format!(
                    "BEGIN; UPDATE t SET amount = amount - 1, bytes = randomblob(500) WHERE id = {from}; \
                     UPDATE t SET amount = amount + 1 WHERE id = {to}; COMMIT"
                );
                writer.execute_batch(&step).unwrap();
                std::thread::sleep(Duration::from_millis(if turn % 40 == 0 { 150 } else { 1 }));
            }
        });
        let (mut seen, mut tries, begun) = (0, 0, Instant::now());
        while tries < 15 || seen == 0 && begun.elapsed() < Duration::from_secs(60) {
            tries += 1;
            // That it is written all the time may be all that there is to say.
            let Ok((copy, ..)) = copied(&path) else { continue };
            seen += 1;
            assert_eq!(fault(&copy).unwrap(), None);
            assert_eq!(copy.query_row("SELECT sum(amount) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 4_000);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        writing.join().unwrap();
        assert!(seen > 0, "it was never read");
        assert_eq!(
            copied(&path).unwrap().0.query_row("SELECT sum(amount) FROM t", [], |row| row.get::<_, i64>(0)),
            Ok(4_000)
        );
    }

    #[test]
    fn a_journal_of_a_writer_that_died_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("written");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        fs::write(
            beside(&path, "-journal"),
            [&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7][..], &[0; 600]].concat(),
        )
        .unwrap();
        let why = copied(&path).unwrap_err().to_string();
        assert!(why.contains("a journal lies beside it"), "{why}");
        fs::write(beside(&path, "-journal"), [0; 600]).unwrap();
        assert!(copied(&path).is_ok(), "a journal that is over holds nothing back");
    }
}
