//! Directories that outlive the machine's power: the SSD of a node, or a shared file system.

mod bands;
mod budget;
mod probe;
mod proved;
mod writer;

pub use budget::Budget;
pub(crate) use budget::{BUDGET, BUDGET_NEW};
pub(crate) use probe::is_probe;
use proved::Proved;
pub use proved::{StoredPart, Written};
use writer::Fill;
pub use writer::Pace;

use super::{create_directories, directory_name, generation_of, lock_patiently};
use crate::generation::{Age, Commit, GenerationId, Manifest, OtherVersion, check_name};
use crate::image::{Geometry, Protection, Source};
use crate::storage::Directory;
use crate::{Error, Storage, StoredFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a durable tier writes.
#[derive(Debug, Clone)]
pub struct DurableOptions {
    /// Committed generations that are kept, at least 1.
    pub keep: usize,
    /// Writes under way at once.
    pub queue_depth: usize,
    /// What protects a checkpoint there, whatever protects it in memory. Without parity, a sixth less is written; drives
    /// have codes of their own.
    pub protection: Protection,
    /// The most bytes per second of this rank; `None` for as fast as it goes.
    pub limit_bytes_per_s: Option<u64>,
    /// Whether its directory may be in memory, for tests. Its copies are then reported as not durable.
    pub allow_memory: bool,
}

impl Default for DurableOptions {
    fn default() -> Self {
        DurableOptions {
            keep: 2,
            queue_depth: 4,
            protection: Protection::Checked,
            limit_bytes_per_s: None,
            allow_memory: false,
        }
    }
}

/// The durable tier of one rank.
#[derive(Clone)]
pub struct Durable {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    options: DurableOptions,
    fault: Option<Arc<Fault>>,
    _lock: Option<Arc<dyn Send + Sync>>,
    /// Why this rank could write nothing there when it opened, where its lock said so.
    unwritable: Option<String>,
    /// Keeps the descriptor by which `directory` leads there.
    _held: Option<Arc<Directory>>,
}

/// The most checkpoints of other releases that are named.
const LEFT_ALONE_NAMED_MAX: usize = 8;

/// Why a tier was not opened. Nothing is written to it then.
struct Fault {
    action: &'static str,
    path: PathBuf,
    kind: io::ErrorKind,
    why: String,
    /// Whether what is there may be read: it is this user's.
    is_readable: bool,
}

impl Fault {
    fn error(&self) -> Error {
        Error::storage(self.action, &self.path)(io::Error::new(self.kind, self.why.clone()))
    }
}

/// A generation in a durable tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Which.
    pub generation: GenerationId,
    /// How many ranks it has, when rank 0 has marked it as complete.
    pub committed_ranks: Option<u32>,
    /// The run that took it, when it is marked as complete; else 0.
    pub epoch: u64,
    /// Whether its mark is of a version that this release does not know: it may be complete.
    pub is_of_other_version: bool,
}

impl Stored {
    /// How new it is.
    pub(crate) fn age(&self) -> Age {
        Age { epoch: self.epoch, generation: self.generation }
    }
}

impl Durable {
    /// Opens or creates the directory of a job below `base`.
    ///
    /// # Errors
    /// [`Error::Option`] for a name or options that cannot be used, [`Error::Storage`].
    pub fn open(storage: Arc<dyn Storage>, base: &Path, job: &str, options: DurableOptions) -> Result<Self, Error> {
        check_name(job).map_err(|why| Error::Option { option: "job", why })?;
        if options.keep == 0 || !(1..=64).contains(&options.queue_depth) {
            let why = format!("{} to keep and {} writes at once are not possible", options.keep, options.queue_depth);
            return Err(Error::Option { option: "durable", why });
        }
        let directory = create_directories(&*storage, base, Path::new(job))?;
        Ok(Durable { storage, directory, options, fault: None, _lock: None, unwritable: None, _held: None })
    }

    /// The same tier by the descriptor of the job's directory: whatever takes the directory's name.
    pub(crate) fn within(self, directory: Directory) -> Self {
        Durable { directory: directory.held_path(), _held: Some(Arc::new(directory)), ..self }
    }

    /// The tier that could not be opened, so that a job goes on with the others: nothing is written to it, and what is
    /// there is read as far as that goes.
    pub(crate) fn unopened(
        storage: Arc<dyn Storage>,
        base: &Path,
        job: &str,
        options: DurableOptions,
        error: Error,
    ) -> Result<Self, Error> {
        let Error::Storage { action, path, source } = error else { return Err(error) };
        let mut directory = base.to_owned();
        let is_readable = Path::new(job).components().all(|part| {
            directory.push(part);
            storage.expect_own_directory(&directory).is_ok()
        });
        let fault = Fault { action, path, kind: source.kind(), why: surefoot_heal::error::said(&source), is_readable };
        Ok(Durable {
            storage,
            directory: base.join(job),
            options,
            fault: Some(Arc::new(fault)),
            _lock: None,
            unwritable: None,
            _held: None,
        })
    }

    /// Why nothing is written to it, where it could not be opened.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.fault.as_ref().map(|fault| fault.error())
    }

    fn expect_opened(&self) -> Result<(), Error> {
        self.fault().map_or(Ok(()), Err)
    }

    fn expect_readable(&self) -> Result<(), Error> {
        self.fault.as_ref().filter(|fault| !fault.is_readable).map_or(Ok(()), |fault| Err(fault.error()))
    }

    /// Makes sure that no other process writes as this rank of this job here, for as long as this value or a clone of it
    /// lives: two would remove each other's checkpoints. Where the file system has no locks, has no room for one or can
    /// only be read, it is done without.
    ///
    /// # Errors
    /// [`Error::Storage`], of kind `WouldBlock` when another process runs the same rank of the same job here.
    pub fn take(self, rank: u32) -> Result<Self, Error> {
        let path = self.directory.join(format!("rank-{rank:05}.lock"));
        let without = [libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP, libc::EROFS, libc::ENOSPC, libc::EDQUOT];
        match lock_patiently(&*self.storage, &path) {
            Ok(lock) => Ok(Durable { _lock: Some(Arc::from(lock)), ..self }),
            Err(error) if error.raw_os_error().is_some_and(|error| without.contains(&error)) => {
                let cannot_write = [libc::EROFS, libc::ENOSPC, libc::EDQUOT].map(Some).contains(&error.raw_os_error());
                let unwritable = cannot_write.then(|| surefoot_heal::error::said(&error));
                Ok(Durable { unwritable, ..self })
            }
            Err(error) => Err(Error::storage("take", &path)(error)),
        }
    }

    /// Why this rank could write nothing there when it opened; `None` where nothing said so.
    pub(crate) fn unwritable(&self) -> Option<&str> {
        self.unwritable.as_deref()
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is there, newest first; what is not marked as complete comes last.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn generations(&self) -> Result<Vec<Stored>, Error> {
        self.expect_readable()?;
        let names = self.storage.list_directory(&self.directory).map_err(Error::storage("list", &self.directory))?;
        let mut generations = Vec::new();
        for generation in names.iter().filter_map(|name| generation_of(name)) {
            let directory = self.directory.join(directory_name(generation));
            match self.storage.expect_own_directory(&directory) {
                Ok(()) => {}
                // That it cannot be looked at does not say that there is nothing in it.
                Err(error) if error.raw_os_error().is_some_and(|number| number != libc::ENOENT) => {
                    return Err(Error::storage("look at", &directory)(error));
                }
                // What is behind a link is not ours to remove, nor to count on.
                Err(_) => continue,
            }
            let path = self.path(generation, "commit");
            let commit = Commit::read(&*self.storage, &path);
            let other = commit.as_ref().err().and_then(|_| OtherVersion::of_commit(&*self.storage, &path));
            let committed = commit.ok().filter(|commit| commit.generation == generation);
            let told_epoch = other.as_ref().and_then(|other| other.age).map_or(0, |age| age.epoch);
            let epoch = committed.map_or(told_epoch, |commit| commit.epoch);
            let committed_ranks = committed.map(|commit| commit.ranks);
            generations.push(Stored { generation, committed_ranks, epoch, is_of_other_version: other.is_some() });
        }
        generations.sort_by_key(|stored| std::cmp::Reverse(stored.age()));
        Ok(generations)
    }

    /// What has the name of a generation and is left out of [`Durable::generations`], with the reason: a link, or of another user.
    pub(crate) fn left_out(&self) -> Option<Error> {
        let names = self.storage.list_directory(&self.directory).ok()?;
        names.iter().filter_map(|name| generation_of(name)).find_map(|generation| {
            let directory = self.directory.join(directory_name(generation));
            let error = self.storage.expect_own_directory(&directory).err()?;
            (error.kind() != io::ErrorKind::NotFound).then(|| Error::storage("look into", &directory)(error))
        })
    }

    /// What says that another release wrote a generation: its mark, or the manifests of its parts where none of them can be read.
    pub(crate) fn other_version(&self, generation: GenerationId) -> Option<OtherVersion> {
        let of_mark = OtherVersion::of_commit(&*self.storage, &self.path(generation, "commit"));
        of_mark.or_else(|| {
            let ranks = self.ranks(generation).unwrap_or_default();
            let path = |rank: u32| self.path(generation, &format!("rank-{rank:05}.manifest"));
            // All parts are of one release: one that can be read, or is of another version, tells it of all.
            ranks.into_iter().map(path).find_map(|path| match Manifest::read(&*self.storage, &path) {
                Ok(_) => Some(None),
                Err(_) => OtherVersion::of_manifest(&*self.storage, &path).map(Some),
            })?
        })
    }

    /// The checkpoints that another release wrote and that are left alone, in words, each with what can be done.
    pub(crate) fn left_alone_said(&self) -> Vec<String> {
        let said = |stored: &Stored| {
            let other = self.other_version(stored.generation)?;
            Some(format!(
                "{}; generation {} is left alone: run that release to go on from it, or remove {}",
                other.said(),
                stored.generation.number,
                self.directory.join(directory_name(stored.generation)).display()
            ))
        };
        self.generations().unwrap_or_default().iter().filter_map(said).take(LEFT_ALONE_NAMED_MAX).collect()
    }

    /// Refuses to write over a part that another release wrote.
    fn expect_no_other_version(&self, generation: GenerationId, rank: u32) -> Result<(), Error> {
        let path = self.path(generation, &format!("rank-{rank:05}.manifest"));
        match OtherVersion::of_manifest(&*self.storage, &path) {
            None => Ok(()),
            Some(other) => {
                let why = format!("it has version {:?} of the format, and is not overwritten", other.version);
                Err(Error::Damaged { path, why })
            }
        }
    }

    /// Whether a generation is marked as complete here.
    pub fn is_committed(&self, generation: GenerationId) -> bool {
        let commit = Commit::read(&*self.storage, &self.path(generation, "commit"));
        commit.is_ok_and(|commit| commit.generation == generation)
    }

    /// The manifest of a rank in a generation.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Damaged`] when it is of something else.
    pub fn manifest(&self, generation: GenerationId, rank: u32) -> Result<Manifest, Error> {
        self.expect_readable()?;
        let path = self.path(generation, &format!("rank-{rank:05}.manifest"));
        let manifest = Manifest::read(&*self.storage, &path)?;
        if (manifest.generation, manifest.rank) != (generation, rank) {
            let why = format!("it is of rank {} of generation {:?}", manifest.rank, manifest.generation);
            return Err(Error::Damaged { path, why });
        }
        Ok(manifest)
    }

    /// The ranks that have a manifest in a generation, good or bad, in order.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn ranks(&self, generation: GenerationId) -> Result<Vec<u32>, Error> {
        self.expect_readable()?;
        let directory = self.directory.join(directory_name(generation));
        let names = self.storage.list_directory(&directory).map_err(Error::storage("list", &directory))?;
        let rank_of = |name: &PathBuf| {
            let digits = name.to_str()?.strip_prefix("rank-")?.strip_suffix(".manifest")?;
            digits.parse().ok().filter(|rank: &u32| format!("{rank:05}") == digits)
        };
        let mut ranks: Vec<u32> = names.iter().filter_map(rank_of).collect();
        ranks.sort_unstable();
        Ok(ranks)
    }

    /// The image of a rank in a generation.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn image(&self, generation: GenerationId, rank: u32, writable: bool) -> Result<Box<dyn StoredFile>, Error> {
        self.expect_readable()?;
        let path = self.path(generation, &format!("rank-{rank:05}.image"));
        self.storage.open_file(&path, writable).map_err(Error::storage("open", &path))
    }

    /// The part of a rank in a generation, for whoever copies it elsewhere.
    ///
    /// # Errors
    /// As [`Durable::manifest`] and [`Durable::image`].
    pub fn part(&self, generation: GenerationId, rank: u32) -> Result<StoredPart, Error> {
        let manifest = self.manifest(generation, rank)?;
        let path = self.path(generation, &format!("rank-{rank:05}.image"));
        Ok(StoredPart::new(manifest, self.image(generation, rank, false)?, path))
    }

    /// Complete generations that are kept.
    pub(crate) fn keep(&self) -> usize {
        self.options.keep
    }

    /// What protects what it writes.
    pub fn protection(&self) -> Protection {
        self.options.protection
    }

    /// Bytes that a rank writes for a payload of this geometry.
    ///
    /// # Errors
    /// [`Error::Option`] for an impossible payload.
    pub fn bytes_for(&self, payload_bytes: u64) -> Result<u64, Error> {
        Ok(Geometry::new(payload_bytes, self.options.protection)?.file_bytes() as u64)
    }

    /// Whether that many bytes fit.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when not, [`Error::Storage`].
    pub fn room(&self, needed_bytes: u64) -> Result<(), Error> {
        let free = self.free_bytes()?;
        if needed_bytes > free {
            return Err(Error::NoRoom { path: self.directory.clone(), needed_bytes, available_bytes: free });
        }
        Ok(())
    }

    /// Bytes that can still be written.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn free_bytes(&self) -> Result<u64, Error> {
        self.expect_opened()?;
        self.storage.free_bytes(&self.directory).map_err(Error::storage("look at", &self.directory))
    }

    /// Writes one rank's part of a generation, durably, with this tier's protection, from what another tier holds of it. Each
    /// page is proved by the checksums that the part's manifest vouches for, and where it went bad meanwhile it is repaired
    /// from the part's parity: nothing is written that was not saved. When it fails nothing of it counts, and what can
    /// be removed is removed.
    ///
    /// # Errors
    /// [`Error::Storage`] with the first failure; nothing is tried twice. [`Error::Damaged`] for a page that is bad and
    /// cannot be repaired.
    pub fn write(&self, part: &StoredPart) -> Result<Written, Error> {
        self.or_abandon(&part.manifest, self.write_part(part, self.options.protection))
    }

    /// As [`Durable::write`], with the parity that the part has; with this tier's where it has none.
    ///
    /// # Errors
    /// As [`Durable::write`].
    pub fn write_copy(&self, part: &StoredPart) -> Result<Written, Error> {
        let protection = match part.manifest.protection {
            Protection::Checked => self.options.protection,
            had @ (Protection::Shard | Protection::Chip) => had,
        };
        self.or_abandon(&part.manifest, self.write_part(part, protection))
    }

    /// As [`Durable::write`], straight from the program's memory: for when the memory tier is not used.
    ///
    /// # Errors
    /// As [`Durable::write`].
    pub fn write_source(&self, manifest: &Manifest, source: &Source<'_>) -> Result<u64, Error> {
        self.or_abandon(manifest, self.try_write_source(manifest, source))
    }

    fn or_abandon<T>(&self, manifest: &Manifest, written: Result<T, Error>) -> Result<T, Error> {
        written.inspect_err(|_| self.abandon(manifest.generation, manifest.rank))
    }

    fn write_part(&self, part: &StoredPart, protection: Protection) -> Result<Written, Error> {
        let proved = Proved::open(part)?;
        let manifest = Manifest { protection, ..part.manifest.clone() };
        let read = |offset: u64, piece: &mut [u8]| proved.read(offset, piece);
        let is_kept = protection == part.manifest.protection;
        // The columns of data come first, with parity and without.
        let given = if is_kept { Given::DataAndParity(&read) } else { Given::Data(&read) };
        let written = self.write_pages(manifest, given, &|table| proved.expect_table(table, is_kept));
        proved.say(written)
    }

    fn try_write_source(&self, manifest: &Manifest, source: &Source<'_>) -> Result<u64, Error> {
        let manifest = Manifest { protection: self.options.protection, ..manifest.clone() };
        let copy = |offset: u64, piece: &mut [u8]| {
            source.copy_to(offset, piece);
            Ok(())
        };
        self.write_pages(manifest, Given::Data(&copy), &|_| Ok(()))
    }

    /// Writes an image page by page. `prove` sees the table of what was written before anything says that it is there; the
    /// manifest's digest is filled in.
    fn write_pages(
        &self,
        manifest: Manifest,
        given: Given<'_>,
        prove: &dyn Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let geometry = manifest.geometry()?;
        let (directory, file, path) = self.begin(&manifest)?;
        let (depth, pace) = (self.options.queue_depth, Pace::new(self.options.limit_bytes_per_s));
        let table = match given {
            Given::Data(data) if manifest.protection != Protection::Checked => {
                bands::write_protected(&*file, data, &geometry, depth, &pace)
            }
            Given::Data(pages) | Given::DataAndParity(pages) => {
                writer::write_pages(&*file, pages, &geometry, depth, &pace)
            }
        };
        let table = table.map_err(Error::storage("write", &path))?;
        prove(&table)?;
        let manifest = Manifest { table_crc32c: crate::image::crc32c(&table[..geometry.pages() * 4]), ..manifest };
        writer::write_tables(&*file, &table, geometry.body_bytes() as u64).map_err(Error::storage("write", &path))?;
        self.finish(&manifest, &directory, file, &path)?;
        Ok(geometry.file_bytes() as u64)
    }

    /// The directory and the new image file of a generation, with its path.
    fn begin(&self, manifest: &Manifest) -> Result<(PathBuf, Box<dyn StoredFile>, PathBuf), Error> {
        self.expect_opened()?;
        self.expect_no_other_version(manifest.generation, manifest.rank)?;
        let name = directory_name(manifest.generation);
        let directory = create_directories(&*self.storage, &self.directory, Path::new(&name))?;
        let path = self.path(manifest.generation, &format!("rank-{:05}.image", manifest.rank));
        let bytes = manifest.geometry()?.file_bytes() as u64;
        let file = self.storage.create_file(&path, bytes, true).map_err(Error::storage("create", &path))?;
        Ok((directory, file, path))
    }

    /// Data first, then the manifest that says that it is there, then both names.
    fn finish(
        &self,
        manifest: &Manifest,
        directory: &Path,
        file: Box<dyn StoredFile>,
        path: &Path,
    ) -> Result<(), Error> {
        file.sync().map_err(Error::storage("sync", path))?;
        drop(file);
        self.put(manifest.generation, &format!("rank-{:05}.manifest", manifest.rank), &manifest.to_bytes()?)?;
        self.storage.sync_directory(directory).map_err(Error::storage("sync", directory))
    }

    /// Marks a generation as complete; for rank 0, when all ranks have written.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn commit(&self, commit: Commit) -> Result<(), Error> {
        let directory = self.directory.join(directory_name(commit.generation));
        let bytes = commit.to_bytes()?;
        let put = self
            .put(commit.generation, "commit", &bytes)
            .and_then(|()| self.storage.sync_directory(&directory).map_err(Error::storage("sync", &directory)));
        // A mark of which nobody knows whether it is on the disk must not count as one that is.
        put.inspect_err(|_| self.unmark(commit.generation))
    }

    /// Removes the mark that a generation is complete, as far as it can be removed.
    fn unmark(&self, generation: GenerationId) {
        for kind in ["commit", "commit.new"] {
            let _ = self.storage.remove_file(&self.path(generation, kind));
        }
    }

    /// Removes committed generations beyond those to keep, and parts of older ones that were never committed, the
    /// oldest first. For rank 0, after a commit: the old is removed last.
    pub fn prune(&self) -> Result<usize, Error> {
        let (_, surplus) = self.surplus()?;
        surplus.iter().try_for_each(|stored| self.remove(stored.generation))?;
        Ok(surplus.len())
    }

    /// As [`Durable::prune`], but only what is older than this generation.
    pub(crate) fn prune_before(&self, proved: Age) -> Result<(), Error> {
        let (_, surplus) = self.surplus()?;
        surplus.iter().filter(|stored| stored.age() < proved).try_for_each(|stored| self.remove(stored.generation))
    }

    /// The newest complete generation up to this one, where [`Durable::prune`] would remove any before it: that is to be proved
    /// first.
    pub(crate) fn to_prove(&self, restored: Age) -> Result<Option<Stored>, Error> {
        let (committed, surplus) = self.surplus()?;
        let newest = committed.into_iter().find(|stored| stored.age() <= restored);
        Ok(newest.filter(|newest| surplus.iter().any(|stored| stored.age() < newest.age())))
    }

    /// The complete generations, the newest first, and what is beyond those to keep, the oldest first.
    fn surplus(&self) -> Result<(Vec<Stored>, Vec<Stored>), Error> {
        let generations = self.generations()?;
        let committed: Vec<Stored> = generations
            .iter()
            .filter(|stored| stored.committed_ranks.is_some())
            // A mark without any rank's part, which was given up and could not all be removed, keeps nothing.
            .filter(|stored| self.ranks(stored.generation).is_ok_and(|ranks| !ranks.is_empty()))
            .copied()
            .collect();
        let Some(&oldest_kept) = committed.get(self.options.keep - 1).or(committed.last()) else {
            return Ok((committed, Vec::new()));
        };
        let is_older = |stored: &&Stored| match stored.committed_ranks {
            Some(_) => stored.age() < oldest_kept.age(),
            // Which run began it is not known here.
            None => stored.generation < oldest_kept.generation,
        };
        // What another release wrote is that release's to remove.
        let is_of_ours = |stored: &&Stored| self.other_version(stored.generation).is_none();
        let surplus = generations.iter().rev().filter(is_older).filter(is_of_ours).copied().collect();
        Ok((committed, surplus))
    }

    /// Removes what one rank wrote of a generation, as far as it can be removed; the mark first, for it is not complete then.
    pub fn abandon(&self, generation: GenerationId, rank: u32) {
        if self.fault.is_some() || self.expect_no_other_version(generation, rank).is_err() {
            return;
        }
        self.unmark(generation);
        for kind in ["manifest", "manifest.new", "image"] {
            let _ = self.remove_file(&self.path(generation, &format!("rank-{rank:05}.{kind}")));
        }
        let _ = self.storage.remove_directory(&self.directory.join(directory_name(generation)));
    }

    /// Removes a generation; the commit first, so that half of it never counts as whole.
    fn remove(&self, generation: GenerationId) -> Result<(), Error> {
        let directory = self.directory.join(directory_name(generation));
        let commit = self.path(generation, "commit");
        match self.storage.remove_file(&commit) {
            Ok(()) => self.storage.sync_directory(&directory).map_err(Error::storage("sync", &directory))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::storage("remove", &commit)(error)),
        }
        for name in self.storage.list_directory(&directory).map_err(Error::storage("list", &directory))? {
            let path = directory.join(name);
            self.remove_file(&path).map_err(Error::storage("remove", &path))?;
        }
        self.storage.remove_directory(&directory).map_err(Error::storage("remove", &directory))
    }

    /// Removes a file; the room of an image is free afterwards, whoever still has it open.
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if path.extension().is_some_and(|kind| kind == "image") {
            // Where it cannot be released it may still be removed.
            let _ = self.storage.open_file(path, true).and_then(|file| file.release());
        }
        self.storage.remove_file(path)
    }

    /// Puts a small file in place: whole and durable, or not at all.
    fn put(&self, generation: GenerationId, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.put_at(&self.path(generation, name), &self.path(generation, &format!("{name}.new")), bytes)
    }

    /// The same by the names of the file and of one that becomes it.
    fn put_at(&self, path: &Path, new: &Path, bytes: &[u8]) -> Result<(), Error> {
        let _ = self.storage.remove_file(new);
        let file = self.storage.create_file(new, 0, false).map_err(Error::storage("create", new))?;
        file.write_at(bytes, 0).map_err(Error::storage("write", new))?;
        file.sync().map_err(Error::storage("sync", new))?;
        drop(file);
        self.storage.rename(new, path).map_err(Error::storage("rename", new))
    }

    fn path(&self, generation: GenerationId, name: &str) -> PathBuf {
        self.directory.join(directory_name(generation)).join(name)
    }
}

/// What is known of an image's pages before it is written, by their offset in the image.
enum Given<'a> {
    /// Those of data; parity, where there is to be any, is computed from them.
    Data(&'a Fill<'a>),
    /// All.
    DataAndParity(&'a Fill<'a>),
}
