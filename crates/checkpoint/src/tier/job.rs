//! All that a job keeps in one directory of a tier: found, measured and removed by descriptors, so that no link leads
//! anywhere else, and only as far as it is known to be the job's.

use super::completed::{COMPLETED, COMPLETED_NEW, Completed};
use super::durable::{BUDGET, BUDGET_NEW, is_probe};
use super::{NODES, NODES_NEW, generation_of};
use crate::generation::{Manifest, check_job_name};
use crate::session::journal::{JOURNAL_NAME, OLDER_NAME};
use crate::settings::published::{NEW_NAME, PUBLISHED_NAME};
use crate::storage::{Directory, Kind, LISTED_MAX, beneath};
use crate::{Disk, Error, Storage, StoredFile};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of what is not the job's that are told.
const STRANGE_MAX: usize = 20;

/// How often a lock that another process holds is asked for again, and how long after the time before.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Who holds a lock, nobody can tell: commands hold it, too, to keep the job from starting.
const LOCKED: &str = "its lock is held: the job is running, or another command is at work on it";

/// What a job occupies in one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occupied {
    /// Bytes in slots: those of the ranks, and what they keep for others.
    pub memory_bytes: u64,
    /// Bytes of checkpoints in a durable tier.
    pub durable_bytes: u64,
    /// Bytes of routed files and the journal.
    pub other_bytes: u64,
    /// When the newest checkpoint was taken, as its manifest says, `CLOCK_REALTIME` nanoseconds; `None` without one.
    pub checkpoint_realtime_ns: Option<u64>,
    /// Whether that checkpoint may be older: its manifests cannot be read, and the times of its files say only that it is no younger.
    pub is_checkpoint_time_a_bound: bool,
    /// When the newest checkpoint was written, or without one anything, `CLOCK_REALTIME` nanoseconds.
    pub newest_realtime_ns: u64,
    /// Set where the job was marked as completed.
    pub completed: Option<Completed>,
}

impl Occupied {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        [self.durable_bytes, self.other_bytes].into_iter().fold(self.memory_bytes, u64::saturating_add)
    }
}

/// What became of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Bytes that were given back.
    pub bytes: u64,
    /// What lies there and is not the job's; it stays, and so does the directory.
    pub left: Vec<PathBuf>,
}

impl Removed {
    /// Adds what became of another directory of the job.
    pub fn add(&mut self, other: Removed) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.left.extend(other.left);
    }
}

/// What a directory in a job's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryKind {
    Slots,
    Generation,
    Files,
}

/// A directory in a job's, and the files in it that are the job's.
struct Held {
    name: OsString,
    directory: Directory,
    room: DirectoryKind,
    files: Vec<OsString>,
}

/// A job's directory in one tier, held open.
pub struct JobDirectory {
    path: PathBuf,
    /// The directories above, from the base on, with the name of the next.
    above: Vec<(Directory, OsString)>,
    directory: Directory,
    held: Vec<Held>,
    files: Vec<OsString>,
    strange: Vec<PathBuf>,
    occupied: Occupied,
}

/// The locks of a job; as long as they are held it does not start.
pub struct JobLocks {
    _files: Vec<File>,
}

impl JobDirectory {
    /// Opens the directory of a job below `base`, a directory of a tier. `None` where there is none, or nothing of a job is in
    /// it.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that cannot be one; [`Error::Storage`] when a directory is a link, belongs to somebody
    /// else than the one in it, or cannot be read.
    pub fn open(base: &Path, job: &str) -> Result<Option<Self>, Error> {
        check_job_name(job).map_err(|why| Error::Option { option: "job", why })?;
        let real = match surefoot_foreign::way::plain(base) {
            Ok(real) if !real.exists() => return Ok(None),
            Ok(real) => real,
            Err(error) => return Err(Error::storage("open", base)(error)),
        };
        let mut directory = Directory::open(&real).map_err(Error::storage("open", base))?;
        let (mut path, mut above) = (real, Vec::new());
        for part in job.split('/') {
            let below = match directory.below(OsStr::new(part)) {
                Ok(below) => below,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::storage("open", &path.join(part))(error)),
            };
            path.push(part);
            // The base may be everybody's; what is below it is of one user.
            if !above.is_empty() && directory.owner() != below.owner() {
                let why = io::Error::new(io::ErrorKind::PermissionDenied, "it is in a directory of another user");
                return Err(Error::storage("use", &path)(why));
            }
            above.push((directory, OsString::from(part)));
            directory = below;
        }
        let mut found = JobDirectory {
            path,
            above,
            directory,
            held: Vec::new(),
            files: Vec::new(),
            strange: Vec::new(),
            occupied: Occupied::default(),
        };
        found.look(job)?;
        Ok((!found.held.is_empty() || !found.files.is_empty()).then_some(found))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It by its descriptor.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Refuses a job of another user, by the directory's descriptor: its name may lead to another one by now.
    ///
    /// # Errors
    /// [`Error::Storage`] with `action`, a verb.
    pub(crate) fn expect_own(&self, action: &'static str) -> Result<(), Error> {
        expect_own(&self.directory, &self.path, action)
    }

    /// The user whose it is.
    pub fn owner(&self) -> u32 {
        self.directory.owner()
    }

    /// What the job occupies here.
    pub fn occupied(&self) -> &Occupied {
        &self.occupied
    }

    /// What is here and not the job's.
    pub fn strange(&self) -> &[PathBuf] {
        &self.strange
    }

    fn look(&mut self, job: &str) -> Result<(), Error> {
        let mut newest = None;
        for (name, kind) in listed(&self.directory, &self.path)? {
            let text = name.to_str().unwrap_or_default();
            match room_of(text).filter(|_| kind.may_be_directory()) {
                Some(room) => self.hold(name, room, &mut newest)?,
                None if kind != Kind::Directory && is_of_job(text) => {
                    let bytes = self.directory.stored_bytes(&name);
                    self.occupied.other_bytes = self.occupied.other_bytes.saturating_add(bytes);
                    self.files.push(name);
                }
                None => self.say_strange(Path::new(&name)),
            }
        }
        let found = self.directory.found();
        let begun_ns = ns_of(found.mtime(), found.mtime_nsec());
        self.occupied.checkpoint_realtime_ns = newest.map(|(at_ns, _)| at_ns);
        self.occupied.is_checkpoint_time_a_bound = newest.is_some_and(|(_, is_bound)| is_bound);
        self.occupied.newest_realtime_ns = self.occupied.checkpoint_realtime_ns.unwrap_or(begun_ns);
        let mark = self.directory.file(OsStr::new(COMPLETED)).ok();
        let mark = mark.filter(|(_, found)| found.uid() == self.owner() || found.uid() == 0);
        let mark = mark.and_then(|(file, _)| Completed::from_file(&file as &dyn StoredFile));
        self.occupied.completed = mark.filter(|mark| mark.job == job);
        Ok(())
    }

    fn hold(&mut self, name: OsString, room: DirectoryKind, newest: &mut Option<(u64, bool)>) -> Result<(), Error> {
        let path = self.path.join(&name);
        let Ok(directory) = self.directory.below(&name) else {
            self.say_strange(Path::new(&name));
            return Ok(());
        };
        if directory.owner() != self.owner() {
            self.say_strange(Path::new(&name));
            return Ok(());
        }
        let mut files = Vec::new();
        for (file, kind) in listed(&directory, &path)? {
            let text = file.to_str().unwrap_or_default();
            if kind == Kind::Directory || !is_of_room(room, text) {
                self.say_strange(&Path::new(&name).join(&file));
                continue;
            }
            let bytes = directory.stored_bytes(&file);
            let sum = match room {
                DirectoryKind::Slots => &mut self.occupied.memory_bytes,
                DirectoryKind::Generation => &mut self.occupied.durable_bytes,
                DirectoryKind::Files => &mut self.occupied.other_bytes,
            };
            *sum = sum.saturating_add(bytes);
            files.push(file);
        }
        let times = match room {
            DirectoryKind::Generation => generation_time(&directory, &name, &files).into_iter().collect(),
            DirectoryKind::Slots => slot_times(&directory, &files),
            DirectoryKind::Files => Vec::new(),
        };
        *newest = times.into_iter().chain(*newest).max();
        self.held.push(Held { name, directory, room, files });
        Ok(())
    }

    fn say_strange(&mut self, below: &Path) {
        if self.strange.len() < STRANGE_MAX {
            self.strange.push(self.path.join(below));
        }
    }

    /// Takes the locks of all ranks that have anything here. With `patiently`, waits a second for one that is held: a
    /// process that was killed keeps its own until the last of its memory is given back.
    ///
    /// # Errors
    /// [`Error::Storage`], of kind `WouldBlock` when the job is running.
    pub fn lock(&self, patiently: bool) -> Result<JobLocks, Error> {
        let mut locks = Vec::new();
        for held in self.held.iter().filter(|held| held.room == DirectoryKind::Slots) {
            let path = self.path.join(&held.name).join("lock");
            locks.push(self.take(&held.directory, OsStr::new("lock"), &path, patiently)?);
        }
        for name in self.files.iter().filter(|name| name.to_str().is_some_and(is_lock)) {
            locks.push(self.take(&self.directory, name, &self.path.join(name), patiently)?);
        }
        Ok(JobLocks { _files: locks })
    }

    /// Whether a process holds a lock here. Nothing is created, and nothing kept.
    pub fn is_running(&self) -> bool {
        let is_held = |directory: &Directory, name: &OsStr| {
            let lock = directory.file(name).map(|(file, _)| file);
            lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
        };
        let of_ranks = self.held.iter().filter(|held| held.room == DirectoryKind::Slots);
        let mut here = self.files.iter().filter(|name| name.to_str().is_some_and(is_lock));
        of_ranks.into_iter().any(|held| is_held(&held.directory, OsStr::new("lock")))
            || here.any(|name| is_held(&self.directory, name))
    }

    fn take(&self, directory: &Directory, name: &OsStr, path: &Path, patiently: bool) -> Result<File, Error> {
        let refused = |error: io::Error| Error::storage("take", path)(error);
        let file = beneath::open_or_create(directory.as_file(), name).map_err(refused)?;
        let found = file.metadata().map_err(refused)?;
        if !found.is_file() || found.nlink() != 1 || (found.uid() != self.owner() && found.uid() != effective_user()) {
            let why = "it is not a regular file with one name, or is not the job's user's";
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        if found.uid() != self.owner() && found.len() == 0 {
            // Made by root: the job could not take its own lock, should it not be removed after all.
            std::os::unix::fs::fchown(&file, Some(self.owner()), None).map_err(refused)?;
        }
        for attempt in 1..=if patiently { LOCK_ATTEMPTS } else { 1 } {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if patiently && attempt < LOCK_ATTEMPTS => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(refused(io::Error::new(io::ErrorKind::WouldBlock, LOCKED)));
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
            }
        }
        Err(refused(io::ErrorKind::WouldBlock.into()))
    }

    /// Removes what the job has here, and the directories that are empty then. What says that a checkpoint is whole goes
    /// first, on all ranks, so that half a removal leaves nothing to go on from; the locks and the mark of a completed job go
    /// last.
    ///
    /// # Errors
    /// [`Error::Storage`] with what could not be removed.
    pub fn remove(self, _locks: &JobLocks) -> Result<Removed, Error> {
        let refused = |path: PathBuf| move |error: io::Error| Error::storage("remove", &path)(error);
        let gone = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let of = |held: &Held, name: &OsStr| self.path.join(&held.name).join(name);
        // Left behind, it would say that checkpoints were lost.
        if self.files.iter().any(|name| name == NODES) {
            gone(beneath::remove(self.directory.as_file(), OsStr::new(NODES)))
                .map_err(refused(self.path.join(NODES)))?;
        }
        for held in self.held.iter().filter(|held| held.room != DirectoryKind::Files) {
            let mut marks: Vec<&OsString> = held.files.iter().filter(|name| is_mark(&name.to_string_lossy())).collect();
            // The mark that all ranks' parts are there before what says that one is.
            marks.sort_by_key(|name| *name != "commit" && !name.to_string_lossy().ends_with(".copy"));
            for name in marks {
                gone(beneath::remove(held.directory.as_file(), name)).map_err(refused(of(held, name)))?;
            }
            if held.room == DirectoryKind::Generation {
                let path = self.path.join(&held.name);
                held.directory.as_file().sync_all().map_err(Error::storage("sync", &path))?;
            }
        }
        for held in &self.held {
            let rest = held.files.iter().filter(|name| *name != "lock");
            for name in rest.chain(held.files.iter().filter(|name| *name == "lock")) {
                gone(beneath::remove(held.directory.as_file(), name)).map_err(refused(of(held, name)))?;
            }
            if held.room == DirectoryKind::Slots {
                // Made to be held while this runs, where there was none.
                gone(beneath::remove(held.directory.as_file(), OsStr::new("lock")))
                    .map_err(refused(of(held, OsStr::new("lock"))))?;
            }
            remove_if_empty(&self.directory, &held.name).map_err(refused(self.path.join(&held.name)))?;
        }
        let is_late = |name: &&OsString| name.to_str().is_some_and(|name| name == COMPLETED || is_lock(name));
        let (late, early): (Vec<&OsString>, Vec<&OsString>) = self.files.iter().partition(is_late);
        for name in early.into_iter().chain(late) {
            gone(beneath::remove(self.directory.as_file(), name)).map_err(refused(self.path.join(name)))?;
        }
        for (directory, name) in self.above.iter().rev() {
            if !remove_if_empty(directory, name).map_err(refused(self.path.clone()))? {
                break;
            }
        }
        Ok(Removed { bytes: self.occupied.bytes(), left: self.strange })
    }
}

/// Refuses a directory of another user; `named` is where it was found.
pub(crate) fn expect_own(directory: &Directory, named: &Path, action: &'static str) -> Result<(), Error> {
    if directory.owner() == effective_user() {
        return Ok(());
    }
    let why = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
    Err(Error::storage(action, named)(why))
}

/// Removes all of a job of the user's own below a base, for its session that has just ended.
///
/// # Errors
/// As [`JobDirectory::open`], [`JobDirectory::lock`] and [`JobDirectory::remove`]; [`Error::Storage`] for a job of
/// another user.
pub(crate) fn remove_own(base: &Path, job: &str) -> Result<Removed, Error> {
    let Some(directory) = JobDirectory::open(base, job)? else { return Ok(Removed::default()) };
    directory.expect_own("remove")?;
    let locks = directory.lock(true)?;
    directory.remove(&locks)
}

/// Removes the empty directories and the locks of a rank in a job's directory, and that, if nothing else is in it: what a session
/// made that only read. The locks are held.
pub(crate) fn leave_nothing(of_job: &Path, job: &str, rank: u32) {
    let is_empty = |directory: &Path, is_kept: &dyn Fn(&str) -> bool| {
        let names = Disk.list_directory(directory);
        names.is_ok_and(|names| names.iter().all(|name| name.to_str().is_some_and(is_kept)))
    };
    // What is not empty stays, and so does what cannot be looked at.
    let _ = Disk.remove_directory(&of_job.join(format!("files-{rank:05}")));
    for room in ["rank", "partner", "parity"] {
        let directory = of_job.join(format!("{room}-{rank:05}"));
        if is_empty(&directory, &|name| name == "lock") {
            let _ = Disk.remove_file(&directory.join("lock"));
            let _ = Disk.remove_directory(&directory);
        }
    }
    // Those of other ranks that only read are theirs to remove.
    if is_empty(of_job, &is_lock) {
        let _ = Disk.remove_file(&of_job.join(format!("rank-{rank:05}.lock")));
    }
    for directory in of_job.ancestors().take(job.split('/').count()) {
        if Disk.remove_directory(directory).is_err() {
            break;
        }
    }
}

fn listed(directory: &Directory, path: &Path) -> Result<Vec<(OsString, Kind)>, Error> {
    let (mut names, mut is_cut) = (Vec::new(), false);
    let told = |name, kind| {
        is_cut = names.len() == LISTED_MAX;
        if is_cut {
            return ControlFlow::Break(());
        }
        names.push((name, kind));
        ControlFlow::Continue(())
    };
    let listed = directory.list(told);
    let listed = match is_cut {
        true => Err(io::Error::other(format!("it has more than {LISTED_MAX} entries"))),
        false => listed,
    };
    listed.map_err(Error::storage("list", path))?;
    names.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(names)
}

/// Removes a directory unless something is in it; returns whether it is gone.
fn remove_if_empty(directory: &Directory, name: &OsStr) -> io::Result<bool> {
    match beneath::remove_directory(directory.as_file(), name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) => Err(error),
    }
}

/// When the checkpoint in a directory of the durable tier was taken, and whether that is only the latest possible time. The manifest of any
/// rank says it for all of them. Without one that can be read, no file's last change was before it: that of the file that was changed first is
/// nearest, so that damage to one file makes no checkpoint young.
fn generation_time(directory: &Directory, name: &OsStr, files: &[OsString]) -> Option<(u64, bool)> {
    if !files.iter().any(|file| is_mark(&file.to_string_lossy())) {
        return None;
    }
    let generation = generation_of(Path::new(name));
    let manifests = files.iter().filter(|file| file.to_string_lossy().ends_with(".manifest"));
    let mut read = manifests.filter_map(|file| manifest(directory, file));
    match read.find(|manifest| Some(manifest.generation) == generation) {
        Some(manifest) => Some((manifest.taken_realtime_ns, false)),
        None => files.iter().filter_map(|file| changed_ns(directory, file)).min().map(|at_ns| (at_ns, true)),
    }
}

/// As [`generation_time`], of the checkpoints in slots. Here the image says nothing: what is written to it through a mapping leaves its times.
fn slot_times(directory: &Directory, files: &[OsString]) -> Vec<(u64, bool)> {
    let slot_of = |file: &OsString| file.to_str().and_then(|name| Some(name.split_once('.')?.0.to_owned()));
    let mut slots: BTreeMap<String, Vec<&OsString>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_mark(&file.to_string_lossy())) {
        slots.entry(slot_of(file).unwrap_or_default()).or_default().push(file);
    }
    let time = |marks: Vec<&OsString>| {
        let taken = marks.iter().filter_map(|file| Some(manifest(directory, file)?.taken_realtime_ns)).max();
        let bound = || marks.iter().filter_map(|file| changed_ns(directory, file)).max();
        taken.map(|at_ns| (at_ns, false)).or_else(|| bound().map(|at_ns| (at_ns, true)))
    };
    slots.into_values().filter_map(time).collect()
}

fn manifest(directory: &Directory, name: &OsStr) -> Option<Manifest> {
    directory.file(name).ok().and_then(|(file, _)| Manifest::of_file(&file as &dyn StoredFile).ok())
}

/// When a file or what is said of it was last changed, which no program can set back. `None` if it is gone.
fn changed_ns(directory: &Directory, name: &OsStr) -> Option<u64> {
    let found = beneath::hold(directory.as_file(), name).and_then(|file| file.metadata()).ok()?;
    Some(ns_of(found.mtime(), found.mtime_nsec()).max(ns_of(found.ctime(), found.ctime_nsec())))
}

fn ns_of(seconds: i64, nanoseconds: i64) -> u64 {
    u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)).unwrap_or(0)
}

pub(crate) fn effective_user() -> u32 {
    // SAFETY: it only reads a number.
    unsafe { libc::geteuid() }
}

/// What a directory of this name in a job's is.
fn room_of(name: &str) -> Option<DirectoryKind> {
    if generation_of(Path::new(name)).is_some() {
        return Some(DirectoryKind::Generation);
    }
    let rooms = [
        ("rank-", DirectoryKind::Slots),
        ("partner-", DirectoryKind::Slots),
        ("parity-", DirectoryKind::Slots),
        ("files-", DirectoryKind::Files),
    ];
    rooms.into_iter().find(|(prefix, _)| is_numbered(name, prefix, "")).map(|(_, room)| room)
}

/// Whether a file of this name in a job's directory is the job's.
fn is_of_job(name: &str) -> bool {
    [JOURNAL_NAME, OLDER_NAME, COMPLETED, COMPLETED_NEW, BUDGET, BUDGET_NEW, NODES, PUBLISHED_NAME, NEW_NAME]
        .contains(&name)
        || name.starts_with(NODES_NEW)
        || is_lock(name)
        || is_probe(name)
}

fn is_lock(name: &str) -> bool {
    is_numbered(name, "rank-", ".lock")
}

/// Whether a file of this name in such a directory is the job's.
fn is_of_room(room: DirectoryKind, name: &str) -> bool {
    let name = name.strip_suffix(".new").filter(|_| room == DirectoryKind::Generation).unwrap_or(name);
    match room {
        DirectoryKind::Slots => name == "lock" || name.starts_with("slot-") || name == "slot.scrubbed",
        DirectoryKind::Generation => {
            name == "commit" || is_numbered(name, "rank-", ".manifest") || is_numbered(name, "rank-", ".image")
        }
        // The directory is the library's, and what the program wrote there is its checkpoints'.
        DirectoryKind::Files => true,
    }
}

/// Whether a file of this name says that a checkpoint is there.
fn is_mark(name: &str) -> bool {
    name == "commit" || [".manifest", ".copy", ".pending"].iter().any(|end| name.ends_with(end))
}

fn is_numbered(name: &str, prefix: &str, end: &str) -> bool {
    let digits = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(end));
    digits.is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
