//! The names of the journals in one directory, by their users. A directory with very many entries is read in several looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, ReadDir};
use std::io;
use std::path::{Path, PathBuf};
use surefoot_foreign::About;
use surefoot_hostfs::privilege::effective_user;
use surefoot_model::ExperimentBegan;

/// Names of one user that are kept: the newest.
const NAMES_MAX: usize = super::look::JOURNALS_MAX;
/// Users other than root and this process's whose names are kept.
const USERS_MAX: usize = 256;
/// Stands for the owner of what could not be looked at; the kernel gives no file to this user.
const UNKNOWN_USER: u32 = u32::MAX;

/// The names of one reading of a directory.
#[derive(Default)]
pub(super) struct Names {
    users: BTreeMap<u32, OfUser>,
    /// Journals of users beyond those.
    pub(super) others: u64,
}

/// The journals of one user.
#[derive(Default)]
pub(super) struct OfUser {
    pub(super) newest: BTreeSet<String>,
    /// All of them.
    pub(super) count: u64,
}

/// Whether a user's journals have room before those of others: root's, and this process's user's.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == effective_user()
}

impl Names {
    pub(super) fn add(&mut self, uid: u32, name: String) {
        if !is_trusted(uid) && !self.users.contains_key(&uid) && self.users.len() >= USERS_MAX {
            self.others += 1;
            return;
        }
        let of_user = self.users.entry(uid).or_default();
        of_user.count += 1;
        of_user.newest.insert(name);
        if of_user.newest.len() > NAMES_MAX {
            of_user.newest.pop_first();
        }
    }
}

/// One directory, read again and again.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The rest of a reading that has not ended.
    entries: Option<ReadDir>,
    /// What this reading found.
    reading: Names,
    /// What the one before found.
    last: Names,
}

impl Directory {
    pub(super) fn of(path: &Path) -> Self {
        Directory { path: path.to_owned(), entries: None, reading: Names::default(), last: Names::default() }
    }

    /// Reads on, at most this many entries. Whether the directory was read to its end.
    pub(super) fn read_on(&mut self, held: &File, entries_max: usize) -> io::Result<bool> {
        let mut entries = match self.entries.take() {
            Some(entries) => entries,
            None => {
                self.reading = Names::default();
                self.path.read_dir()?
            }
        };
        for _ in 0..entries_max {
            match entries.next() {
                // What cannot be read now is read by the next reading.
                Some(entry) => entry.iter().for_each(|entry| self.see(held, &entry.path())),
                None => {
                    self.last = std::mem::take(&mut self.reading);
                    return Ok(true);
                }
            }
        }
        self.entries = Some(entries);
        Ok(false)
    }

    /// The newest journals of each user: of the last whole reading, and of this one so far.
    pub(super) fn newest(&self) -> BTreeSet<(u32, String)> {
        let of = |names: &Names| {
            let named = |(uid, of_user): (&u32, &OfUser)| {
                of_user.newest.iter().map(|name| (*uid, name.clone())).collect::<Vec<_>>()
            };
            names.users.iter().flat_map(named).collect::<Vec<_>>()
        };
        of(&self.last).into_iter().chain(of(&self.reading)).collect()
    }

    /// How many journals each user has here.
    pub(super) fn counts(&self) -> BTreeMap<u32, u64> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for (uid, of_user) in self.last.users.iter().chain(&self.reading.users) {
            let count = counts.entry(*uid).or_default();
            *count = of_user.count.max(*count);
        }
        counts
    }

    /// Journals of users of whom nothing is kept.
    pub(super) fn others(&self) -> u64 {
        self.last.others.max(self.reading.others)
    }

    #[cfg(test)]
    pub(super) fn add(&mut self, uid: u32, name: &str) {
        self.reading.add(uid, name.to_owned());
    }

    fn see(&mut self, held: &File, path: &Path) {
        let (Some(name), Some(file)) = (ExperimentBegan::name_of(path), path.file_name()) else { return };
        let uid = match About::in_directory(held, file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => UNKNOWN_USER,
            // One in which there is nothing yet takes no other's place.
            Ok(about) if about.is_regular() && about.bytes == 0 => return,
            Ok(about) => about.owner,
        };
        self.reading.add(uid, name.to_owned());
    }
}
