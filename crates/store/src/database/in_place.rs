//! Whether the files of an open database are still where they were opened. SQLite goes on writing to a file that was deleted, and all
//! that it writes then is gone with the process.

use super::beside;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// Device and inode of a file.
type FileId = (u64, u64);

/// A database, its log and its index, as they were when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct InPlace {
    files: Vec<(PathBuf, FileId)>,
    /// The database's file, held without being open: to close such a descriptor takes no lock away.
    held: Arc<File>,
}

/// What became of a file under an open database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    /// In words, with the path.
    pub(crate) what: String,
    /// Whether it is certain that the open file is not the one at the path; otherwise it cannot be told now.
    pub(crate) is_certain: bool,
}

impl InPlace {
    /// The database and those files beside it that are there now.
    ///
    /// # Errors
    /// What the kernel says of the database itself.
    pub(crate) fn of(path: &Path) -> io::Result<InPlace> {
        let path = std::path::absolute(path)?;
        let held = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path)?;
        let about = held.metadata()?;
        let mut files = vec![(path.clone(), (about.dev(), about.ino()))];
        for ending in ["-wal", "-shm"] {
            let path = beside(&fs::canonicalize(&path)?, ending);
            match id(&path) {
                Ok(id) => files.push((path, id)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(InPlace { files, held: Arc::new(held) })
    }

    /// The database alone.
    pub(crate) fn without_log(&self) -> InPlace {
        InPlace { files: self.files.iter().take(1).cloned().collect(), held: Arc::clone(&self.held) }
    }

    /// The first file that is no longer the one that was opened; `None` while all are.
    pub(crate) fn moved(&self) -> Option<Moved> {
        self.files.iter().find_map(|(path, opened)| {
            let name = path.display();
            let (what, is_certain) = match id(path) {
                Ok(found) if found == *opened => return None,
                Ok(_) => (format!("{name} was replaced by another file"), true),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    (format!("{name} was deleted or moved away"), true)
                }
                Err(error) => (format!("{name} cannot be checked: {}", surefoot_foreign::said(&error)), false),
            };
            Some(Moved { what, is_certain })
        })
    }
}

/// How often a file that looks foreign is read again, how far apart, and how often it must look so and be the same before and after: another
/// process that folds its first log in may be held up in the middle.
const READ_AGAIN: usize = 30;
const READ_PAUSE: Duration = Duration::from_millis(25);
const FOREIGN_MIN: usize = 20;

/// Length and times of a file.
type Stamp = (u64, [i64; 4]);

/// What a database's file says without its log: whose it is, and how often it was written to until what it holds now. Both are rows of a
/// table of names and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: i64,
    pub(super) written: i64,
}

/// Tells a database that another program wrote over in place from one that was only touched, or whose log was folded in: that brings its
/// file forward, and nothing brings it back. Where the file carries no mark yet, it may be any.
#[derive(Debug)]
pub(crate) struct Content {
    path: PathBuf,
    marks: &'static Marks,
    id: i64,
    seen: Option<(Stamp, Option<Mark>)>,
    is_foreign: bool,
}

/// The table that holds the marks: names and numbers. One page has room for all of its rows.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) table: &'static str,
    pub(crate) number: &'static str,
    /// Whether its rows lie in the tree of its names.
    pub(crate) is_without_rowid: bool,
}

impl Marks {
    /// Counts a write, in the transaction that writes.
    pub(crate) fn count(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Marks { table, number, .. } = self;
        let words = format!(
            "INSERT INTO {table} (name, {number}) VALUES ('written', 1) ON CONFLICT (name) DO UPDATE SET {number} = {number} + 1"
        );
        connection.execute(&words, [])?;
        // A log says with this which layout of pages it rests on: VACUUM, and a backup by it, lays them anew and counts this up.
        let words = format!(
            "INSERT INTO {table} (name, {number}) SELECT 'schema', schema_version FROM pragma_schema_version WHERE true \
             ON CONFLICT (name) DO UPDATE SET {number} = excluded.{number}"
        );
        connection.execute(&words, []).map(drop)
    }

    /// The number by which a database is known, which it gets here if it has none. It is in the file itself from then on, unless somebody
    /// reads there just now.
    pub(crate) fn id(&self, connection: &Connection) -> rusqlite::Result<i64> {
        let Marks { table, number, .. } = self;
        let ask = || {
            let words = format!("SELECT {number} FROM {table} WHERE name = 'file'");
            connection.query_row(&words, [], |row| row.get::<_, i64>(0)).optional()
        };
        if let Some(id) = ask()? {
            return Ok(id);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let new = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let made = connection
            .execute(&format!("INSERT OR IGNORE INTO {table} (name, {number}) VALUES ('file', ?1)"), [new])?;
        if made > 0 {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
        ask()?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// What the file says without its log; `None` where it has no such table or row.
    pub(super) fn read(&self, path: &Path) -> rusqlite::Result<Option<Mark>> {
        let file = super::without_writer(path)?;
        // While somebody reads, the log is folded in as far as that one allows: the file may lack pages at its end that its header counts.
        // With this SQLite reads it all the same.
        file.pragma_update(None, "writable_schema", true)?;
        let is_laid = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        if file.query_row(is_laid, [self.table], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(None);
        }
        let words = format!("SELECT {} FROM {} WHERE name = ?1", self.number, self.table);
        let ask = |name: &str| file.query_row(&words, [name], |row| row.get::<_, i64>(0)).optional();
        let id = ask("file")?;
        let written = ask("written")?.unwrap_or(0);
        Ok(id.map(|id| Mark { id, written }))
    }
}

impl Content {
    /// Of a database that is open, known by this number.
    pub(crate) fn of(path: &Path, marks: &'static Marks, id: i64) -> Content {
        let mut content = Content { path: path.to_owned(), marks, id, seen: None, is_foreign: false };
        content.is_overwritten();
        content
    }

    /// Whether it was noticed already that another program wrote over it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether another program wrote over it since; what cannot be told now shows later. Once it was, it stays so.
    pub(crate) fn is_overwritten(&mut self) -> bool {
        let mut foreign = 0;
        for attempt in 0..READ_AGAIN {
            let Ok(before) = stamp(&self.path) else { break };
            if self.is_foreign || self.seen.is_some_and(|(seen, _)| seen == before) {
                break;
            }
            if attempt > 0 {
                std::thread::sleep(READ_PAUSE);
            }
            let read = self.marks.read(&self.path);
            if stamp(&self.path).ok() != Some(before) {
                continue;
            }
            match read {
                Ok(mark) if self.follows(mark) => self.seen = Some((before, mark)),
                // It cannot be read now. A log that was folded in half, because the disk is full, looks damaged without its log, but no
                // shorter, and is ours.
                Err(error) if !is_other(&error) && self.seen.is_none_or(|(seen, _)| before.0 >= seen.0) => break,
                Ok(_) | Err(_) => foreign += 1,
            }
            self.is_foreign = foreign >= FOREIGN_MIN;
        }
        self.is_foreign
    }

    fn follows(&self, mark: Option<Mark>) -> bool {
        let before = self.seen.and_then(|(_, mark)| mark);
        match mark {
            Some(mark) => mark.id == self.id && before.is_none_or(|before| mark.written >= before.written),
            None => before.is_none(),
        }
    }
}

/// By name, and never by a descriptor: closing one would drop SQLite's locks.
fn stamp(path: &Path) -> io::Result<Stamp> {
    let about = fs::metadata(path)?;
    Ok((about.len(), [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()]))
}

/// Whether an error says that the file is no database at all.
fn is_other(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::NotADatabase)
}

impl InPlace {
    /// Whether the database has no name any more: nobody can put it back where its log is.
    pub(crate) fn is_deleted(&self) -> bool {
        self.held.metadata().is_ok_and(|about| about.nlink() == 0)
    }

    /// Moves the log of what was open out of the way of a database that was written over it, into which SQLite would read it, and says
    /// where to, or why not. `None` where the log is gone.
    pub(crate) fn set_log_aside(&self) -> Option<std::result::Result<PathBuf, String>> {
        let mut still_there =
            self.files.iter().skip(1).filter(|(path, opened)| id(path).is_ok_and(|found| found == *opened));
        let (log, _) = still_there.find(|(path, _)| path.to_string_lossy().ends_with("-wal"))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let aside = beside(log, &format!(".saved-{seconds}"));
        if aside.exists() {
            return Some(Err(format!("{} exists already", aside.display())));
        }
        let moved = fs::rename(log, &aside).map_err(|error| surefoot_foreign::said(&error).to_string());
        if moved.is_ok() {
            self.remove_log();
        }
        Some(moved.map(|()| aside))
    }

    /// Removes the log and the index that belong to what was open, where the database at the path is another one by now: SQLite would
    /// write them over it. Files that somebody put there with the new one stay.
    pub(crate) fn remove_log(&self) {
        for (path, opened) in self.files.iter().skip(1) {
            if id(path).is_ok_and(|found| found == *opened) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn id(path: &Path) -> io::Result<FileId> {
    fs::metadata(path).map(|about| (about.dev(), about.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_file_that_was_deleted_replaced_or_moved_is_noticed_and_one_that_came_back_is_in_place() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let open = Connection::open(&path).unwrap();
        open.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        for ending in ["", "-wal", "-shm"] {
            let (file, aside) = (beside(&path, ending), home.path().join("aside"));
            let in_place = InPlace::of(&path).unwrap();
            assert_eq!(in_place.moved(), None);
            fs::rename(&file, &aside).unwrap();
            let moved = in_place.moved().unwrap();
            assert!(moved.is_certain && moved.what.ends_with("was deleted or moved away"), "{ending}: {moved:?}");
            fs::copy(&aside, &file).unwrap();
            let moved = in_place.moved().unwrap();
            assert!(moved.is_certain && moved.what.ends_with("was replaced by another file"), "{ending}: {moved:?}");
            fs::rename(&aside, &file).unwrap();
            assert_eq!(in_place.moved(), None, "{ending}");
        }
        let in_place = InPlace::of(&path).unwrap();
        drop(open);
        fs::remove_dir_all(home.path()).unwrap();
        assert!(in_place.moved().unwrap().is_certain);
    }
}
