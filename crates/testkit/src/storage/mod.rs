//! A made-up disk that stops, tears, drops, reorders and refuses as a real one may, by plan and seed.
//!
//! # What it holds true to
//! - Until a file is synced, any part of what was written to it may be lost in a crash, in any order and torn at any
//!   sector; its length too. Until its directory is synced, a name that was made, replaced or removed may be as before;
//!   names of one directory change in order.
//! - After a sync that failed the data counts as clean: it can still be read, it is not on the disk, and a second sync
//!   succeeds without writing it. So do Linux file systems (Rebello et al., "Can Applications Recover from fsync
//!   Failures?", USENIX ATC 2020).
//! - A process that is killed loses nothing that it wrote; a machine that loses power does.
//!
//! Every operation has a number, from 0. [`Plan`] says what happens at which.

mod inode;

use inode::Inode;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surefoot_random::Random;

/// Unit of a torn write.
pub const SECTOR_BYTES: usize = 512;

/// Unit of memory that can be poisoned.
pub const PAGE_BYTES: u64 = 4096;

/// What happens at which operation.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The process ends just before this operation: it and all later ones fail.
    pub kill_at: Option<u64>,
    /// These operations fail with this error number, and only they.
    pub failures: BTreeMap<u64, i32>,
    /// The disk takes no more bytes than this.
    pub room_bytes: Option<u64>,
}

/// A made-up disk; copies share it.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    operations: u64,
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Directory>,
}

#[derive(Clone, Default)]
struct Directory {
    now: BTreeMap<PathBuf, Entry>,
    durable: BTreeMap<PathBuf, Entry>,
    /// Changes since the last sync, in order: the name and what it stands for after it.
    pending: Vec<(PathBuf, Option<Entry>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    File(usize),
    Directory,
}

/// A file of a [`FaultyDisk`].
pub struct FaultyFile {
    disk: FaultyDisk,
    inode: usize,
    writable: bool,
}

impl FaultyDisk {
    /// A disk with one durable directory, `/`.
    pub fn new(plan: Plan) -> Self {
        let directories = BTreeMap::from([(PathBuf::from("/"), Directory::default())]);
        FaultyDisk { state: Arc::new(Mutex::new(State { plan, operations: 0, inodes: Vec::new(), directories })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The same disk for the next process, with a new plan and counting from 0. Nothing is lost.
    pub fn restarted(&self, plan: Plan) -> FaultyDisk {
        let state = self.state();
        FaultyDisk::of(plan, state.inodes.clone(), state.directories.clone())
    }

    /// What is left when the machine loses power now; what of the unsynced is on the disk is drawn by the seed.
    pub fn after_power_loss(&self, seed: u64, plan: Plan) -> FaultyDisk {
        let state = self.state();
        let mut random = Random::new(seed);
        let inodes = state.inodes.iter().map(|inode| inode.after_power_loss(&mut random)).collect();
        let mut directories = BTreeMap::new();
        for (path, directory) in &state.directories {
            let mut names = directory.durable.clone();
            let survived = random.below(directory.pending.len() as u64 + 1) as usize;
            for (name, entry) in &directory.pending[..survived] {
                match entry {
                    Some(entry) => names.insert(name.clone(), *entry),
                    None => names.remove(name),
                };
            }
            directories.insert(path.clone(), Directory { now: names.clone(), durable: names, pending: Vec::new() });
        }
        drop_lost_directories(&mut directories);
        FaultyDisk::of(plan, inodes, directories)
    }

    fn of(plan: Plan, inodes: Vec<Inode>, directories: BTreeMap<PathBuf, Directory>) -> FaultyDisk {
        FaultyDisk { state: Arc::new(Mutex::new(State { plan, operations: 0, inodes, directories })) }
    }

    /// Changes a file behind everybody's back, as bad memory or a bad disk does.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.file(path)?;
        state.inodes[inode].corrupt(change);
        Ok(())
    }

    /// From now on, reading this page of a file gives EIO.
    pub fn poison(&self, path: &Path, page: u64) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.file(path)?;
        state.inodes[inode].poisoned.insert(page);
        Ok(())
    }

    /// Every file, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let all = state.directories.iter().flat_map(|(path, directory)| {
            let files = directory.now.iter().filter(|(_, entry)| matches!(entry, Entry::File(_)));
            files.map(move |(name, _)| path.join(name))
        });
        all.collect()
    }

    /// Creates a directory.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        if state.directories.contains_key(path) || state.file(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change(path, Some(Entry::Directory))?;
        state.directories.insert(path.to_owned(), Directory::default());
        Ok(())
    }

    /// Creates a file with room for `bytes`.
    pub fn create_file(&self, path: &Path, bytes: u64) -> io::Result<FaultyFile> {
        let mut state = self.state();
        state.operate()?;
        if state.file(path).is_ok() || state.directories.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.take_room(bytes)?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::with_room(bytes));
        state.change(path, Some(Entry::File(inode)))?;
        Ok(FaultyFile { disk: self.clone(), inode, writable: true })
    }

    /// Opens a file.
    pub fn open_file(&self, path: &Path, writable: bool) -> io::Result<FaultyFile> {
        let mut state = self.state();
        state.operate()?;
        let inode = state.file(path)?;
        Ok(FaultyFile { disk: self.clone(), inode, writable })
    }

    /// Renames a file or directory within the disk.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        let entry = state.entry(from)?;
        state.change(to, Some(entry))?;
        state.change(from, None)?;
        if entry == Entry::Directory {
            let inside: Vec<PathBuf> =
                state.directories.keys().filter(|path| path.starts_with(from)).cloned().collect();
            for path in inside {
                let rest = path.strip_prefix(from).map(Path::to_owned).unwrap_or_default();
                let target = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
                let directory = state.directories.remove(&path).unwrap_or_default();
                state.directories.insert(target, directory);
            }
        }
        Ok(())
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.file(path)?;
        state.change(path, None)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        match state.directories.get(path) {
            None => return Err(io::ErrorKind::NotFound.into()),
            Some(directory) if !directory.now.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Some(_) => {}
        }
        state.change(path, None)?;
        state.directories.remove(path);
        Ok(())
    }

    /// Makes the names in a directory durable.
    pub fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        let directory = state.directories.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        directory.durable = directory.now.clone();
        directory.pending.clear();
        Ok(())
    }

    /// Names in a directory, sorted.
    pub fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.operate()?;
        let directory = state.directories.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.now.keys().cloned().collect())
    }

    /// Bytes that can still be written.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.operate()?;
        let used = state.used_bytes();
        Ok(state.plan.room_bytes.map_or(1 << 40, |room| room.saturating_sub(used)))
    }
}

/// A directory whose name was lost is lost with all below it.
fn drop_lost_directories(directories: &mut BTreeMap<PathBuf, Directory>) {
    let paths: Vec<PathBuf> = directories.keys().cloned().collect();
    for path in paths {
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { continue };
        let is_there =
            directories.get(parent).is_some_and(|parent| parent.now.get(Path::new(name)) == Some(&Entry::Directory));
        if !is_there {
            directories.remove(&path);
        }
    }
    // A name that survived its directory's loss stands for an empty one.
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, directory) in directories.iter() {
        let inside = directory.now.iter().filter(|(_, entry)| **entry == Entry::Directory);
        known.extend(inside.map(|(name, _)| path.join(name)));
    }
    for path in known {
        directories.entry(path).or_default();
    }
}

impl State {
    fn operate(&mut self) -> io::Result<()> {
        let number = self.operations;
        if self.plan.kill_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the process was killed"));
        }
        self.operations += 1;
        match self.plan.failures.get(&number) {
            Some(&error) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(()),
        }
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.directories.get(parent).ok_or(io::ErrorKind::NotFound)?;
        directory.now.get(Path::new(name)).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.entry(path)? {
            Entry::File(inode) => Ok(inode),
            Entry::Directory => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn change(&mut self, path: &Path, entry: Option<Entry>) -> io::Result<()> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.directories.get_mut(parent).ok_or(io::ErrorKind::NotFound)?;
        let name = PathBuf::from(name);
        match entry {
            Some(entry) => directory.now.insert(name.clone(), entry),
            None => directory.now.remove(&name),
        };
        directory.pending.push((name, entry));
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        let files = self.directories.values().flat_map(|directory| directory.now.values());
        let inodes = files.filter_map(|entry| if let Entry::File(inode) = entry { Some(*inode) } else { None });
        inodes.map(|inode| self.inodes[inode].length()).sum()
    }

    fn take_room(&self, bytes: u64) -> io::Result<()> {
        match self.plan.room_bytes {
            Some(room) if self.used_bytes() + bytes > room => Err(io::Error::from_raw_os_error(28)),
            _ => Ok(()),
        }
    }
}

impl FaultyFile {
    /// Length in bytes.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.inode].length())
    }

    /// Reads exactly as many bytes as the buffer holds.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        state.inodes[self.inode].read_at(bytes, offset)
    }

    /// Writes all bytes.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operate()?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let grows = (offset + bytes.len() as u64).saturating_sub(state.inodes[self.inode].length());
        state.take_room(grows)?;
        state.inodes[self.inode].write_at(bytes, offset);
        Ok(())
    }

    /// Makes content and length durable, or, when it fails, forgets that they are not.
    pub fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.operate() {
            Ok(()) => {
                state.inodes[self.inode].sync();
                Ok(())
            }
            Err(error) => {
                if error.raw_os_error().is_some() {
                    state.inodes[self.inode].lose_unsynced();
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_with(name: &str) -> (FaultyDisk, FaultyFile) {
        let disk = FaultyDisk::new(Plan::default());
        let file = disk.create_file(Path::new(name), 0).expect("a new file");
        (disk, file)
    }

    fn content(disk: &FaultyDisk, name: &str) -> Option<Vec<u8>> {
        let file = disk.open_file(Path::new(name), false).ok()?;
        let mut bytes = vec![0; file.length().ok()? as usize];
        file.read_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    #[test]
    fn what_is_synced_with_its_directory_survives_every_power_loss() {
        let (disk, file) = disk_with("/a");
        file.write_at(&[7; 5000], 0).expect("a write");
        file.sync().expect("a sync");
        disk.sync_directory(Path::new("/")).expect("a sync");
        for seed in 0..100 {
            assert_eq!(content(&disk.after_power_loss(seed, Plan::default()), "/a"), Some(vec![7; 5000]));
        }
    }

    #[test]
    fn what_is_not_synced_may_be_there_in_part_or_not_at_all() {
        let (disk, file) = disk_with("/a");
        file.write_at(&[7; 4096], 0).expect("a write");
        let outcomes: BTreeSet<Option<Vec<u8>>> =
            (0..200).map(|seed| content(&disk.after_power_loss(seed, Plan::default()), "/a")).collect();
        assert!(outcomes.contains(&None) && outcomes.contains(&Some(vec![7; 4096])), "{}", outcomes.len());
        assert!(outcomes.len() > 10, "torn in {} ways", outcomes.len());
        assert_eq!(content(&disk.restarted(Plan::default()), "/a"), Some(vec![7; 4096]), "a kill loses nothing");
    }

    #[test]
    fn a_rename_is_old_or_new_and_never_neither() {
        let (disk, file) = disk_with("/new");
        file.write_at(b"new", 0).expect("a write");
        file.sync().expect("a sync");
        let old = disk.create_file(Path::new("/name"), 0).expect("a file");
        old.write_at(b"old", 0).expect("a write");
        old.sync().expect("a sync");
        disk.sync_directory(Path::new("/")).expect("a sync");
        disk.rename(Path::new("/new"), Path::new("/name")).expect("a rename");
        let outcomes: BTreeSet<Vec<u8>> = (0..50)
            .map(|seed| content(&disk.after_power_loss(seed, Plan::default()), "/name").expect("a name"))
            .collect();
        assert_eq!(outcomes, BTreeSet::from([b"new".to_vec(), b"old".to_vec()]));
    }

    #[test]
    fn after_a_failed_sync_the_data_can_be_read_but_is_not_durable() {
        let disk = FaultyDisk::new(Plan { failures: BTreeMap::from([(3, 5)]), ..Plan::default() });
        let file = disk.create_file(Path::new("/a"), 0).expect("a file");
        disk.sync_directory(Path::new("/")).expect("a sync");
        file.write_at(b"data", 0).expect("a write");
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
        file.sync().expect("the second one succeeds");
        assert_eq!(content(&disk, "/a"), Some(b"data".to_vec()));
        for seed in 0..20 {
            assert_ne!(content(&disk.after_power_loss(seed, Plan::default()), "/a"), Some(b"data".to_vec()));
        }
    }

    #[test]
    fn kills_failures_room_and_poison_happen_where_the_plan_says() {
        let plan = Plan { kill_at: Some(2), failures: BTreeMap::from([(1, 28)]), ..Plan::default() };
        let disk = FaultyDisk::new(plan);
        disk.create_directory(Path::new("/d")).expect("a directory");
        assert_eq!(disk.create_file(Path::new("/d/a"), 0).err().and_then(|error| error.raw_os_error()), Some(28));
        assert!(disk.create_file(Path::new("/d/a"), 0).is_err());
        assert_eq!(disk.operations(), 2);
        let disk = disk.restarted(Plan { room_bytes: Some(8192), ..Plan::default() });
        let file = disk.create_file(Path::new("/d/a"), 8192).expect("it fits");
        assert_eq!(file.write_at(&[1], 8192).unwrap_err().raw_os_error(), Some(28));
        disk.poison(Path::new("/d/a"), 1).expect("it is there");
        assert!(file.read_at(&mut [0; 4096], 0).is_ok());
        assert_eq!(file.read_at(&mut [0; 2], 4095).unwrap_err().raw_os_error(), Some(5));
        disk.corrupt(Path::new("/d/a"), |bytes| bytes[3] ^= 1).expect("it is there");
        assert_eq!(disk.files(), [PathBuf::from("/d/a")]);
    }
}
