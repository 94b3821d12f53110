//! Whether the files of an open database are still where they were opened. SQLite goes on writing to a file that was deleted, and all
//! that it writes then is gone with the process.

use super::beside;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Device and inode of a file.
type FileId = (u64, u64);

/// A database, its log and its index, as they were when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InPlace {
    files: Vec<(PathBuf, FileId)>,
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
        let mut files = vec![(path.clone(), id(&path)?)];
        for ending in ["-wal", "-shm"] {
            let path = beside(&fs::canonicalize(&path)?, ending);
            match id(&path) {
                Ok(id) => files.push((path, id)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(InPlace { files })
    }

    /// The database alone.
    pub(crate) fn without_log(&self) -> InPlace {
        InPlace { files: self.files.iter().take(1).cloned().collect() }
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

/// Length and time of writing of a database: of one that only this process writes, they change with its own writes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    written: (i64, i64),
}

impl Stamp {
    /// As it is now.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of(path: &Path) -> io::Result<Stamp> {
        // By name, and never by a descriptor: closing one would drop SQLite's locks.
        let about = fs::metadata(path)?;
        Ok(Stamp { bytes: about.len(), written: (about.mtime(), about.mtime_nsec()) })
    }

    /// Whether another program wrote to it since; what cannot be told now shows later.
    pub(crate) fn is_overwritten(&self, path: &Path) -> bool {
        Stamp::of(path).is_ok_and(|now| now != *self)
    }
}

impl InPlace {
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
