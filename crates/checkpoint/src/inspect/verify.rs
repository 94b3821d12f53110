//! Reads copies whole and says whether they are good; repairs those that can be, in place.

use super::Progress;
use super::files::read_manifest;
use super::survey::{Copy, Tier};
use crate::generation::{Manifest, OtherVersion};
use crate::image::{COLUMNS_DATA, Geometry, Healer, Tally};
use crate::storage::{Directory, beneath};
use crate::{Disk, Error, Storage, StoredFile};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::{About, said};
use surefoot_heal::limits::memory_available_bytes;

/// Rows that are named where they cannot be repaired.
const ROWS_NAMED_MAX: usize = 4;

/// How a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Every page is as it was written.
    Whole,
    /// Some is bad, and a restart or a scrub can repair it.
    Repairable,
    /// Some was bad, and was repaired in place.
    Repaired,
    /// It cannot be brought back.
    Lost,
    /// It was never written to its end, and nobody was told that it was.
    Unfinished,
    /// It was taken away or written to meanwhile by a running job; nothing can be said.
    Changed,
}

impl State {
    /// A word for tables and JSON.
    pub fn label(self) -> &'static str {
        match self {
            State::Whole => "whole",
            State::Repairable => "repairable",
            State::Repaired => "repaired",
            State::Lost => "lost",
            State::Unfinished => "unfinished",
            State::Changed => "changed",
        }
    }
}

/// What was found in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How it is.
    pub state: State,
    /// Pages, by what they were.
    pub tally: Tally,
    /// Rows that cannot be repaired.
    pub rows_lost: u64,
    /// What is wrong, one sentence; empty where nothing is.
    pub why: String,
}

impl Verdict {
    fn of(state: State, why: impl Into<String>) -> Self {
        Verdict { state, tally: Tally::default(), rows_lost: 0, why: why.into() }
    }
}

/// Reads a copy whole.
pub fn verify(copy: &Copy, progress: Progress<'_>) -> Verdict {
    match held(copy) {
        Ok((directory, held)) => read(&held, &directory, false, progress),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Verdict::of(State::Changed, "it was removed since it was listed")
        }
        Err(error) => Verdict::of(State::Lost, format!("its directory cannot be opened: {}", said(&error))),
    }
}

/// Reads a copy whole and repairs in place what is bad, in the directory that is locked, whichever has its name by now.
pub fn scrub(copy: &Copy, locks: &Locks, progress: Progress<'_>) -> Verdict {
    match locks.of(copy) {
        Some(directory) => read(&below(copy, directory), directory, true, progress),
        None => Verdict::of(State::Changed, "its directory is not locked"),
    }
}

/// The locks of some copies, which keep the jobs in memory from starting, and the directories that they are in.
pub struct Locks {
    directories: BTreeMap<PathBuf, Directory>,
    /// Held for as long as this lives.
    #[allow(dead_code, reason = "a lock ends with its file")]
    files: Vec<File>,
}

impl Locks {
    fn of(&self, copy: &Copy) -> Option<&Directory> {
        self.directories.get(&copy.directory)
    }
}

/// Holds the directories of all copies, and takes the locks of those in memory. One that is no copy's any more is left out.
///
/// # Errors
/// [`Error::Storage`] of kind `WouldBlock` when a job is running there.
pub fn lock(copies: &[Copy]) -> Result<Locks, Error> {
    let mut locks = Locks { directories: BTreeMap::new(), files: Vec::new() };
    for copy in copies {
        if locks.of(copy).is_some() {
            continue;
        }
        let path = copy.directory.join("lock");
        let directory = match held(copy) {
            Ok((directory, _)) => directory,
            // A running job has removed what it needs no more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::storage("open", &copy.directory)(error)),
        };
        if copy.tier == Tier::Memory {
            let file = lock_file(&directory).map_err(Error::storage("take", &path))?;
            match file.try_lock() {
                Ok(()) => locks.files.push(file),
                Err(TryLockError::WouldBlock) => {
                    let why = "its lock is held: the job is running, or another command is at work on it; scrub it after that";
                    return Err(Error::storage("take", &path)(io::Error::new(io::ErrorKind::WouldBlock, why)));
                }
                Err(TryLockError::Error(error)) => return Err(Error::storage("take", &path)(error)),
            }
        }
        locks.directories.insert(copy.directory.clone(), directory);
    }
    Ok(locks)
}

/// The lock's file in a directory, which belongs to the directory's user also where root creates it.
fn lock_file(directory: &Directory) -> io::Result<File> {
    let file = beneath::open_or_create(directory.as_file(), OsStr::new("lock"))?;
    expect_plain(&About::of(&file)?)?;
    give(&file, directory.owner())?;
    Ok(file)
}

/// Refuses what may be a file of somewhere else, too.
fn expect_plain(found: &About) -> io::Result<()> {
    match found.is_regular() && found.names == 1 {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file with one name")),
    }
}

/// Gives a file to a user, if it is not that user's.
fn give(file: &File, owner: u32) -> io::Result<()> {
    if file.metadata()?.uid() == owner { Ok(()) } else { std::os::unix::fs::fchown(file, Some(owner), None) }
}

/// Refuses a directory that took the name of the one that was found.
fn expect_owner(directory: &Directory, owner: u32) -> io::Result<()> {
    match directory.owner() == owner {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "its directory belongs to another user now")),
    }
}

/// A copy by the descriptor of its directory, and that: its user can lead it nowhere else any more.
pub(super) fn held(copy: &Copy) -> io::Result<(Directory, Copy)> {
    let directory = Directory::open(&copy.directory)?;
    expect_owner(&directory, copy.owner)?;
    let held = below(copy, &directory);
    Ok((directory, held))
}

/// A copy by the descriptor of a directory, which must stay open.
fn below(copy: &Copy, directory: &Directory) -> Copy {
    let path = directory.held_path();
    let below =
        |file: &PathBuf| file.strip_prefix(&copy.directory).map_or_else(|_| file.clone(), |name| path.join(name));
    let (image, manifests) = (below(&copy.image), copy.manifests.iter().map(below).collect());
    Copy { directory: path, image, manifests, ..copy.clone() }
}

/// Opens an image that belongs to the job's user or to root; for repair, only one that belongs to the job's user.
pub(super) fn open_image(copy: &Copy, mends: bool) -> io::Result<File> {
    let found = surefoot_foreign::hold_name(&copy.image)?.regular()?;
    if ![copy.owner, 0].contains(&found.about().owner) {
        let why = format!("it belongs to the user with number {}, its job to {}", found.about().owner, copy.owner);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if !mends {
        return found.open();
    }
    expect_plain(found.about())?;
    if found.about().owner != copy.owner {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user than its job"));
    }
    found.open_to_write()
}

fn read(copy: &Copy, directory: &Directory, mends: bool, progress: Progress<'_>) -> Verdict {
    let manifest = match &copy.manifest {
        Ok(manifest) => manifest,
        // The manifest of a durable copy gets its name when the image is on the disk, and the mark comes after all of them.
        Err(_) if copy.tier == Tier::Durable && is_absent(&copy.manifests[0]) => {
            return match copy.committed_ranks {
                None => Verdict::of(State::Unfinished, "it has no manifest: it was not written to its end"),
                // A removal begins with the mark.
                Some(_) if is_absent(&copy.directory.join("commit")) => {
                    Verdict::of(State::Changed, "a running job removed it in between")
                }
                Some(ranks) => {
                    let of = if ranks == 1 { "its rank".to_owned() } else { format!("all {ranks} ranks") };
                    Verdict::of(State::Lost, format!("its manifest is gone: the checkpoint was once complete on {of}"))
                }
            };
        }
        // Read as it was when it was listed: what was refused then and is refused now has not changed.
        Err(_) if copy.manifests.iter().any(|path| is_readable_now(copy, directory, path)) => {
            return Verdict::of(State::Changed, "a running job has written it since it was listed");
        }
        Err(why) => return Verdict::of(State::Lost, format!("its manifest: {why}")),
    };
    let mut verdict = match read_image(copy, manifest, mends, progress) {
        Ok(verdict) => verdict,
        Err(why) => Verdict::of(State::Lost, why),
    };
    if verdict.state == State::Lost && !is_still(copy, manifest) {
        return Verdict::of(State::Changed, "a running job replaced it in between");
    }
    // Without a mark it was never reported as complete.
    if verdict.state == State::Lost && copy.tier == Tier::Durable && is_absent(&copy.directory.join("commit")) {
        let why = format!("it has no mark of rank 0: it was not written to its end; {}", verdict.why);
        return Verdict { state: State::Unfinished, why, ..verdict };
    }
    if copy.tier == Tier::Memory && verdict.state != State::Lost {
        mend_manifests(copy, manifest, mends, &mut verdict);
    }
    verdict
}

/// Whether there is a manifest now that belongs there.
fn is_readable_now(copy: &Copy, directory: &Directory, manifest: &Path) -> bool {
    let name = manifest.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let found = read_manifest(directory, name, copy.owner).0;
    found.is_ok_and(|manifest| {
        manifest.rank == copy.rank && copy.generation.is_none_or(|generation| generation == manifest.generation)
    })
}

/// Whether a copy was never written to its end, and nobody was told that it was.
pub(super) fn is_unfinished(copy: &Copy) -> bool {
    copy.tier == Tier::Durable
        && copy.manifest.is_err()
        && copy.committed_ranks.is_none()
        && is_absent(&copy.manifests[0])
}

fn is_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether the manifest is as it was before the image was read.
fn is_still(copy: &Copy, manifest: &Manifest) -> bool {
    copy.manifests.iter().any(|path| Manifest::read(&Disk, path).is_ok_and(|now| now == *manifest))
}

fn read_image(copy: &Copy, manifest: &Manifest, mends: bool, progress: Progress<'_>) -> Result<Verdict, String> {
    let geometry = manifest.geometry().map_err(|error| error.to_string())?;
    let file = open_image(copy, mends).map_err(|error| format!("its image cannot be opened: {}", said(&error)))?;
    let length = expect_enough(&geometry, &file)?;
    let mut healer = Healer::open(geometry, &file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
    let (mut rows_lost, mut named) = (0, Vec::new());
    for row in 0..geometry.rows() {
        let seen = if mends { healer.mend_row(row) } else { healer.row(row).map(drop) };
        if let Err(lost) = seen {
            rows_lost += 1;
            if named.len() < ROWS_NAMED_MAX {
                named.push(lost.to_string());
            }
        }
        let done = manifest.payload_bytes * (row as u64 + 1) / geometry.rows() as u64;
        progress(done, manifest.payload_bytes);
    }
    let tally = healer.tally();
    let mut why = named.join("; ");
    if rows_lost > named.len() as u64 {
        why += &format!("; and {} more rows", rows_lost - named.len() as u64);
    }
    if length < geometry.file_bytes() as u64 {
        let cut = format!("its image was cut to {length} of {} bytes", geometry.file_bytes());
        why = if why.is_empty() { cut } else { format!("{cut}; {why}") };
    }
    let mut state = match () {
        () if rows_lost > 0 => State::Lost,
        () if tally.is_clean() => State::Whole,
        () if mends => State::Repaired,
        () => State::Repairable,
    };
    if mends && !tally.is_clean() {
        healer.mend_tables();
        if let Err(error) = file.sync_all() {
            (state, why) = (State::Lost, format!("what was repaired cannot be made durable: {}", said(&error)));
        } else if rows_lost == 0 && tally.pages_repaired < tally.pages_bad {
            (state, why) = (State::Repairable, "some of what was repaired could not be written back".into());
        }
    }
    Ok(Verdict { state, tally, rows_lost, why })
}

/// Whether a manifest is of a version that this release does not know, and not the one that it should be with bad letters.
fn is_of_another_release(path: &Path, manifest: &Manifest) -> bool {
    let is_it = |other: OtherVersion| other.age.is_none_or(|age| age != manifest.age());
    OtherVersion::of_manifest(&Disk, path).is_some_and(is_it)
}

/// A slot has its manifest twice; a scrub writes the bad one anew from the other.
fn mend_manifests(copy: &Copy, manifest: &Manifest, mends: bool, verdict: &mut Verdict) {
    let is_good = |path: &&PathBuf| Manifest::read(&Disk, path).is_ok_and(|found| found == *manifest);
    let Some(bad) = copy.manifests.iter().find(|path| !is_good(path)) else { return };
    let mends = mends && !is_of_another_release(bad, manifest);
    let also = "one of the two copies of its manifest is bad";
    verdict.why = if verdict.why.is_empty() { also.into() } else { format!("{}; {also}", verdict.why) };
    if !mends {
        verdict.state = State::Repairable;
        return;
    }
    let new = copy.directory.join("slot.scrubbed");
    let written = manifest.to_bytes().map_err(|error| error.to_string()).and_then(|bytes| {
        let _ = Disk.remove_file(&new);
        let mut options = OpenOptions::new();
        let written = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|file| file.write_at(&bytes, 0).and_then(|()| give(&file, copy.owner)))
            .and_then(|()| Disk.rename(&new, bad));
        written.map_err(|error| said(&error))
    });
    match written {
        // What is bad in the image may be so still.
        Ok(()) if verdict.state == State::Whole => verdict.state = State::Repaired,
        Ok(()) => {}
        Err(error) => {
            verdict.state = State::Repairable;
            verdict.why += &format!("; it could not be rewritten: {error}");
        }
    }
}

/// Refuses an image before any work is done for it that its length alone condemns, or for whose tables of checksums there
/// is no memory: a manifest can say anything. Returns the length.
pub(super) fn expect_enough(geometry: &Geometry, image: &dyn StoredFile) -> Result<u64, String> {
    let length = image.length().map_err(|error| said(&error))?;
    // With less than the columns of data some row lacks more pages than there are of parity.
    if length < (COLUMNS_DATA * geometry.column_bytes()) as u64 {
        let whole = geometry.file_bytes();
        return Err(format!("its image was cut to {length} of {whole} bytes, more than can be repaired"));
    }
    let needed_bytes = 3 * geometry.table_bytes() as u64;
    match memory_available_bytes(Path::new("/")) {
        Some(available_bytes) if available_bytes < needed_bytes => Err(format!(
            "its tables of checksums would need {needed_bytes} bytes of memory, {available_bytes} are available"
        )),
        _ => Ok(length),
    }
}
