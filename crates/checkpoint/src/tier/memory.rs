//! Memory: a few slots on a memory file system, taken once and used again and again.

mod room;
#[cfg(test)]
mod tests;

use super::ahead::{Ahead, Making, Unused};
use super::mapping::Mapping;
use super::{StoredPart, create_directories, lock_patiently};
use crate::generation::{GenerationId, Manifest, OtherVersion};
use crate::image::{Geometry, Healer, Source, fill_together};
use crate::{Disk, Error, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_heal::limits;

/// The most slots of a rank.
pub const SLOTS_MAX: usize = 16;

/// Number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub usize);

/// The image in a slot. While somebody holds it, the slot is not written to.
#[derive(Clone)]
pub struct SlotImage {
    mapping: Arc<Mapping>,
    bytes: usize,
}

impl SlotImage {
    /// The image's bytes; page-aligned.
    pub fn bytes(&self) -> &[u8] {
        &self.mapping.bytes()[..self.bytes]
    }
}

/// What an image takes of the memory file system. Ranks of one node share what is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySpace {
    /// Bytes that are still to be taken; 0 where the slot has been used before.
    pub needed_bytes: u64,
    /// Bytes that can be taken; 0 when every slot is being read or holds the only checkpoint.
    pub available_bytes: u64,
}

/// Room for an image that comes from elsewhere.
pub struct Receiving<'a>(&'a mut [u8]);

impl Receiving<'_> {
    /// The room.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

struct Slot {
    mapping: Option<Arc<Mapping>>,
    /// What the kernel had given up of the machine's memory when the mapping was last found to be whole.
    lost_bytes: Option<u64>,
    manifest: Option<Manifest>,
    /// Why nothing is written to it, where no manifest of it can be read and one is of another version.
    other_version: Option<OtherVersion>,
}

/// The memory tier of one rank.
pub struct Memory {
    directory: PathBuf,
    slots: Vec<Slot>,
    /// Slots that have manifests of which none can be read, and why.
    unreadable: Vec<String>,
    /// Why it was not opened, where it was not.
    fault: Option<String>,
    threads: usize,
    /// See [`Memory::preparing`].
    preparing: Duration,
    /// The thread that makes slots, see [`Memory::make_ahead`]; for images of how many bytes, and what it took so far.
    ahead: Option<Ahead>,
    ahead_bytes: usize,
    taken_ahead: u64,
    /// Slots of which a part was made ahead.
    begun: Vec<Making>,
    /// After the thread, and before the lock.
    unused: Unused,
    _lock: Option<Box<dyn Send + Sync>>,
}

impl Memory {
    /// Opens or creates the slots of a rank below `base`, such as `/dev/shm`.
    ///
    /// # Errors
    /// [`Error::Option`] for fewer than 2 or too many slots; [`Error::Storage`], with `WouldBlock` when another process
    /// runs the same rank of the same job there.
    pub fn open(base: &Path, job: &str, rank: u32, slots: usize) -> Result<Self, Error> {
        Memory::open_named(base, job, &format!("rank-{rank:05}"), slots)
    }

    /// Opens or creates the slots in which a rank keeps what it holds for another.
    ///
    /// # Errors
    /// As [`Memory::open`].
    pub fn open_for_partner(base: &Path, job: &str, rank: u32, slots: usize) -> Result<Self, Error> {
        Memory::open_named(base, job, &format!("partner-{rank:05}"), slots)
    }

    /// Opens or creates the slots in which a rank keeps its share of the parity of several.
    ///
    /// # Errors
    /// As [`Memory::open`].
    pub fn open_for_parity(base: &Path, job: &str, rank: u32, slots: usize) -> Result<Self, Error> {
        Memory::open_named(base, job, &format!("parity-{rank:05}"), slots)
    }

    fn open_named(base: &Path, job: &str, name: &str, slots: usize) -> Result<Self, Error> {
        if !(2..=SLOTS_MAX).contains(&slots) {
            return Err(Error::Option { option: "slots", why: format!("{slots} is outside 2 to {SLOTS_MAX}") });
        }
        crate::generation::check_name(job).map_err(|why| Error::Option { option: "job", why })?;
        let below = Path::new(job).join(name);
        let directory = create_directories(&Disk, base, &below)?;
        let lock_path = directory.join("lock");
        let lock = lock_patiently(&Disk, &lock_path).map_err(Error::storage("take", &lock_path))?;
        let mut memory = Memory { _lock: Some(lock), ..Memory::without_slots(directory) };
        // Slots of a run with more of them are looked at, too: the newest checkpoint may be there.
        let is_taken = |number: &usize| MANIFESTS.iter().any(|kind| memory.path(SlotId(*number), kind).exists());
        let found = (slots..SLOTS_MAX).rev().find(is_taken);
        let count = found.map_or(slots, |last| last + 1);
        for number in 0..count {
            let manifest = memory.read_manifest(SlotId(number));
            let other_version = manifest.as_ref().err().and_then(|_| memory.other_version(SlotId(number)));
            memory.unreadable.extend(manifest.as_ref().err().cloned());
            let slot = Slot { mapping: None, lost_bytes: None, manifest: manifest.ok().flatten(), other_version };
            memory.slots.push(slot);
        }
        Ok(memory)
    }

    /// The tier that could not be opened, so that a job goes on with the others: it holds nothing, and has no room.
    pub(crate) fn unopened(base: &Path, job: &str, why: String) -> Self {
        Memory { fault: Some(why), ..Memory::without_slots(base.join(job)) }
    }

    fn without_slots(directory: PathBuf) -> Self {
        Memory {
            directory,
            slots: Vec::new(),
            unreadable: Vec::new(),
            fault: None,
            threads: 1,
            preparing: Duration::ZERO,
            ahead: None,
            ahead_bytes: 0,
            taken_ahead: 0,
            begun: Vec::new(),
            unused: Unused::default(),
            _lock: None,
        }
    }

    /// Whether it was opened and holds nothing.
    pub(crate) fn is_unused(&self) -> bool {
        self.fault.is_none() && self.unreadable.is_empty() && self.manifests().next().is_none()
    }

    /// Why it holds nothing, where it could not be opened.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Lets so many threads copy where a payload is long enough; without this call it is one.
    pub fn use_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The manifests that are there, by slot. That an image is there does not say that it is good.
    pub fn manifests(&self) -> impl Iterator<Item = (SlotId, &Manifest)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((SlotId(number), slot.manifest.as_ref()?)))
    }

    /// The path of a slot's image.
    pub fn image_path(&self, slot: SlotId) -> PathBuf {
        self.path(slot, "image")
    }

    /// What the next image of this geometry takes beyond what its slot has. `root` is `/` but in tests.
    ///
    /// # Errors
    /// [`Error::Storage`] when the file system does not say what it has.
    pub fn room(&self, geometry: &Geometry, root: &Path) -> Result<MemorySpace, Error> {
        let image_bytes = geometry.file_bytes() as u64;
        // Before what is free: a slot that is being made ahead takes of it, and must not count twice.
        let slot_bytes = self.all_slot_bytes();
        let free = Disk.free_bytes(&self.directory).map_err(Error::storage("look at", &self.directory))?;
        let available_bytes = free.min(limits::memory_available_bytes(root).unwrap_or(u64::MAX));
        let Some(slot) = self.next_slot(image_bytes, available_bytes, &slot_bytes) else {
            return Ok(MemorySpace { needed_bytes: image_bytes, available_bytes: 0 });
        };
        Ok(MemorySpace { needed_bytes: image_bytes.saturating_sub(slot_bytes[slot.0]), available_bytes })
    }

    /// The slot for an image of so many bytes, by what is free now.
    fn slot_now(&self, bytes: usize) -> Option<SlotId> {
        let slot_bytes = self.all_slot_bytes();
        let free = Disk.free_bytes(&self.directory).unwrap_or(u64::MAX);
        let limit = limits::memory_available_bytes(Path::new("/")).unwrap_or(u64::MAX);
        self.next_slot(bytes as u64, free.min(limit), &slot_bytes)
    }

    /// What holds all slots, and what can be done, where there is none to write to.
    pub(crate) fn held(&self) -> Option<String> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        let number = |slot: &usize| self.slots[*slot].manifest.as_ref().map(|manifest| manifest.generation.number);
        let newest = (0..self.slots.len()).filter(|slot| number(slot).is_some()).max_by_key(number);
        let left_alone = self.left_alone().count();
        let read: Vec<usize> = (0..self.slots.len()).filter(|slot| !self.is_idle(SlotId(*slot))).collect();
        let is_kept = newest.is_some_and(|newest| !read.contains(&newest));
        if left_alone + read.len() + usize::from(is_kept) < self.slots.len() {
            return None;
        }
        let of_generation = |slot: &usize| match number(slot) {
            Some(number) => format!("slot {slot} (generation {number})"),
            None => format!("slot {slot}"),
        };
        let mut held: Vec<String> =
            read.iter().map(|slot| format!("{} is still being copied elsewhere", of_generation(slot))).collect();
        held.extend(newest.filter(|_| is_kept).map(|slot| format!("{} holds the newest", of_generation(&slot))));
        held.extend(self.left_alone().map(|(_, other)| format!("{} and is left alone", other.said())));
        let ways = [
            (!read.is_empty()).then(|| "save again when the copies are written".to_owned()),
            self.left_alone().next().map(|(slot, _)| format!("remove {}", self.path(slot, "*").display())),
            (self.slots.len() < SLOTS_MAX)
                .then(|| format!("set memory.slots to {} at the next start", self.slots.len() + 1)),
        ];
        let ways = ways.into_iter().flatten().collect::<Vec<_>>().join(", or ");
        Some(format!("{}. What helps: {ways}", held.join(", ")))
    }

    fn no_slot(&self) -> Error {
        let why = self.held().unwrap_or_else(|| "they were held until now; save again".to_owned());
        Error::NoSlot { path: self.directory.clone(), why }
    }

    /// Makes all slots ready for images of this geometry, so that no checkpoint has to wait for memory.
    ///
    /// # Errors
    /// As [`Memory::save`].
    pub fn prepare(&mut self, geometry: &Geometry) -> Result<(), Error> {
        (0..self.slots.len())
            .map(SlotId)
            .filter(|&slot| self.is_usable(slot))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|slot| match self.slots[slot.0].manifest {
                Some(_) => Ok(()),
                None => self.make_room(slot, geometry.file_bytes()),
            })
    }

    /// Saves a payload into the slot whose checkpoint is the oldest, and returns the slot. The manifest's digest is
    /// filled in. `step` is called now and then, with the rows that are done.
    ///
    /// # Errors
    /// [`Error::NoSlot`] when every slot is being read or holds the newest checkpoint; [`Error::Storage`].
    pub fn save(
        &mut self,
        mut manifest: Manifest,
        source: &Source<'_>,
        step: &mut dyn FnMut(usize),
    ) -> Result<SlotId, Error> {
        let geometry = manifest.geometry()?;
        let bytes = geometry.file_bytes();
        let slot = self.slot_now(bytes).ok_or_else(|| self.no_slot())?;
        self.forget(slot)?;
        self.take_all_made();
        let (is_first_use, begun) = (self.slots[slot.0].mapping.is_none(), Instant::now());
        self.make_room(slot, bytes)?;
        self.preparing = if is_first_use { begun.elapsed() } else { Duration::ZERO };
        let Some(mapping) = self.slots[slot.0].mapping.as_mut().and_then(Arc::get_mut) else {
            return Err(Error::Option { option: "slots", why: "the slot is being read".into() });
        };
        manifest.table_crc32c =
            fill_together(&geometry, source, &mut mapping.bytes_mut()[..bytes], self.threads, step)?;
        self.write_manifest(slot, manifest)?;
        Ok(slot)
    }

    /// Of the last save, the time that went into taking a slot that this process had not used before: saves into it cost
    /// that once.
    pub fn preparing(&self) -> Duration {
        self.preparing
    }

    /// Marks the checkpoint in a slot as one that all ranks have. The mark takes no room, so that it cannot fail for the
    /// want of it.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn complete(&mut self, slot: SlotId) -> Result<(), Error> {
        let pending = self.path(slot, PENDING);
        Disk.rename(&pending, &self.path(slot, COPY)).map_err(Error::storage("rename", &pending))
    }

    /// Whether any checkpoint here is marked as one that all ranks had.
    pub fn has_complete(&self) -> bool {
        self.manifests().any(|(slot, _)| is_complete(&self.directory, slot.0))
    }

    /// Makes a slot ready for an image that comes from another rank, and returns which.
    ///
    /// # Errors
    /// As [`Memory::save`].
    pub fn begin_receiving(&mut self, manifest: &Manifest) -> Result<SlotId, Error> {
        let bytes = manifest.geometry()?.file_bytes();
        let slot = self.slot_now(bytes).ok_or_else(|| self.no_slot())?;
        self.forget(slot)?;
        self.make_room(slot, bytes)?;
        Ok(slot)
    }

    /// The room for an image that comes from another rank.
    ///
    /// # Errors
    /// [`Error::Option`] when the slot is being read, or was not made ready.
    pub fn receiving(&mut self, slot: SlotId, manifest: &Manifest) -> Result<Receiving<'_>, Error> {
        let bytes = manifest.geometry()?.file_bytes();
        let mapping = self.slots.get_mut(slot.0).and_then(|slot| slot.mapping.as_mut()).and_then(Arc::get_mut);
        let room = mapping.and_then(|mapping| mapping.bytes_mut().get_mut(..bytes));
        room.map(Receiving).ok_or_else(|| Error::Option { option: "slots", why: "the slot is not ready".into() })
    }

    /// Says that the image has come; all ranks have theirs then.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn end_receiving(&mut self, slot: SlotId, manifest: Manifest) -> Result<(), Error> {
        self.write_manifest(slot, manifest)?;
        self.complete(slot)
    }

    /// The image in a slot, for whoever copies it elsewhere. Pages of it that the kernel has given up are repaired first.
    ///
    /// # Errors
    /// [`Error::Option`] for an empty slot, [`Error::Storage`], [`Error::Damaged`] when it is cut or cannot be repaired.
    pub fn image(&mut self, slot: SlotId) -> Result<SlotImage, Error> {
        let manifest = self.slots.get(slot.0).and_then(|slot| slot.manifest.as_ref());
        let manifest =
            manifest.ok_or_else(|| Error::Option { option: "slot", why: format!("{} holds nothing", slot.0) })?;
        let (geometry, digest) = (manifest.geometry()?, manifest.table_crc32c);
        let bytes = geometry.file_bytes();
        let path = self.path(slot, "image");
        if self.slot_bytes(slot) < bytes as u64 {
            let why = format!("it has {} bytes instead of {bytes}", self.slot_bytes(slot));
            return Err(Error::Damaged { path, why });
        }
        if let Err(error) = self.map(slot, bytes) {
            if error.raw_os_error() != Some(libc::EHWPOISON) {
                return Err(Error::storage("map", &path)(error));
            }
            let file = Disk.open_file(&path, true).map_err(Error::storage("open", &path))?;
            let healed = Healer::open(geometry, &*file, digest).and_then(|mut healer| healer.scrub());
            healed.map_err(|lost| Error::Damaged { path: path.clone(), why: lost.to_string() })?;
            self.map(slot, bytes).map_err(Error::storage("map", &path))?;
        }
        let mapping = self.slots[slot.0].mapping.clone();
        mapping
            .map(|mapping| SlotImage { mapping, bytes })
            .ok_or_else(|| Error::Option { option: "slot", why: format!("{} is not mapped", slot.0) })
    }

    /// The checkpoint in a slot, for whoever writes it to another tier: what went bad of it is found and repaired on the way.
    /// The slot is not written to as long as it is open.
    ///
    /// # Errors
    /// As [`Memory::image`].
    pub fn part(&mut self, slot: SlotId) -> Result<StoredPart, Error> {
        let image = self.image(slot)?;
        let manifest = self.slots[slot.0].manifest.clone();
        let manifest =
            manifest.ok_or_else(|| Error::Option { option: "slot", why: format!("{} holds nothing", slot.0) })?;
        let path = self.path(slot, "image");
        let file = Disk.open_file(&path, false).map_err(Error::storage("open", &path))?;
        Ok(StoredPart::new(manifest, file, path).keeping(image.mapping))
    }

    /// Forgets the checkpoint in a slot; its room stays for the next.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn forget(&mut self, slot: SlotId) -> Result<(), Error> {
        for kind in MANIFESTS {
            let path = self.path(slot, kind);
            match Disk.remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::storage("remove", &path)(error)),
            }
        }
        self.slots[slot.0].manifest = None;
        Ok(())
    }

    /// Forgets every checkpoint that is newer than this one.
    ///
    /// # Errors
    /// [`Error::Storage`] for the last that could not be forgotten; all others are.
    pub fn forget_newer(&mut self, generation: GenerationId) -> Result<(), Error> {
        let newer: Vec<SlotId> =
            self.manifests().filter(|(_, found)| found.generation > generation).map(|(slot, _)| slot).collect();
        let mut outcome = Ok(());
        for slot in newer {
            if let Err(error) = self.forget(slot) {
                outcome = Err(error);
            }
        }
        outcome
    }

    /// The slot of a generation.
    pub fn slot_of(&self, generation: GenerationId) -> Option<SlotId> {
        self.manifests().find(|(_, manifest)| manifest.generation == generation).map(|(slot, _)| slot)
    }

    fn path(&self, slot: SlotId, kind: &str) -> PathBuf {
        self.directory.join(format!("slot-{}.{kind}", slot.0))
    }

    /// What was there and could not be read when the tier was opened: a line for each slot.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// The manifest of a slot, `None` where there is none, or why what there is cannot be read.
    fn read_manifest(&self, slot: SlotId) -> Result<Option<Manifest>, String> {
        let mut why = None;
        for kind in MANIFESTS {
            match Manifest::read(&Disk, &self.path(slot, kind)) {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(error) if error.is_absence() => {}
                Err(error) => why = why.or(Some(error.to_string())),
            }
        }
        why.map_or(Ok(None), Err)
    }

    /// What no manifest of a slot tells in a version that this release knows, and one tells in another.
    fn other_version(&self, slot: SlotId) -> Option<OtherVersion> {
        MANIFESTS.iter().find_map(|kind| OtherVersion::of_manifest(&Disk, &self.path(slot, kind)))
    }

    /// Slots that are not written to because another release wrote what is in them.
    pub(crate) fn left_alone(&self) -> impl Iterator<Item = (SlotId, &OtherVersion)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((SlotId(number), slot.other_version.as_ref()?)))
    }

    /// The same in words, each with what can be done.
    pub(crate) fn left_alone_said(&self) -> Vec<String> {
        let said = |(slot, other): (SlotId, &OtherVersion)| {
            format!(
                "{}; this checkpoint is left alone and its slot is not used: run that release to go on from it, or remove {}",
                other.said(),
                self.path(slot, "*").display()
            )
        };
        self.left_alone().map(said).collect()
    }

    /// Whether nobody reads it.
    fn is_idle(&self, slot: SlotId) -> bool {
        self.slots[slot.0].mapping.as_ref().is_none_or(|mapping| Arc::strong_count(mapping) == 1)
    }

    /// Whether it may be written to.
    fn is_usable(&self, slot: SlotId) -> bool {
        self.is_idle(slot) && self.slots[slot.0].other_version.is_none()
    }

    /// The slot to write to next: an empty one, or the oldest, but never the newest checkpoint, none that is read and none of
    /// another release.
    fn next_slot(&self, image_bytes: u64, available_bytes: u64, slot_bytes: &[u64]) -> Option<SlotId> {
        let number = |slot: &SlotId| self.slots[slot.0].manifest.as_ref().map(|manifest| manifest.generation.number);
        let newest = (0..self.slots.len()).map(SlotId).filter(|slot| number(slot).is_some()).max_by_key(number);
        let candidates = (0..self.slots.len()).map(SlotId).filter(|&slot| self.is_usable(slot) && Some(slot) != newest);
        let age = |slot: &SlotId| number(slot).map_or(0, |number| number.saturating_add(1));
        // Where there is no room for one more slot, the oldest of those that there are is used again.
        let has_room = |slot: &SlotId| image_bytes.saturating_sub(slot_bytes[slot.0]) <= available_bytes;
        candidates.clone().filter(has_room).min_by_key(age).or_else(|| candidates.min_by_key(age))
    }

    fn all_slot_bytes(&self) -> Vec<u64> {
        (0..self.slots.len()).map(|slot| self.slot_bytes(SlotId(slot))).collect()
    }

    fn slot_bytes(&self, slot: SlotId) -> u64 {
        std::fs::symlink_metadata(self.path(slot, "image")).map_or(0, |metadata| metadata.len())
    }

    fn write_manifest(&mut self, slot: SlotId, manifest: Manifest) -> Result<(), Error> {
        let bytes = manifest.to_bytes()?;
        // The copy first: from the moment the manifest has its name, both are there.
        for kind in [PENDING, MANIFEST] {
            let (path, new) = (self.path(slot, kind), self.path(slot, "new"));
            let _ = Disk.remove_file(&new);
            let file = Disk.create_file(&new, 0, false).map_err(Error::storage("create", &new))?;
            file.write_at(&bytes, 0).map_err(Error::storage("write", &new))?;
            Disk.rename(&new, &path).map_err(Error::storage("rename", &new))?;
        }
        self.slots[slot.0].manifest = Some(manifest);
        Ok(())
    }
}

/// The names of a slot's manifest: the first one, and the second by whether all ranks have theirs.
const MANIFEST: &str = "manifest";
const COPY: &str = "copy";
pub(crate) const PENDING: &str = "pending";

/// All of them, in the order in which they are read and removed.
pub(crate) const MANIFESTS: [&str; 3] = [MANIFEST, COPY, PENDING];

/// Whether the checkpoint in a slot of a directory is marked as one that all ranks had.
pub(crate) fn is_complete(directory: &Path, slot: usize) -> bool {
    std::fs::symlink_metadata(directory.join(format!("slot-{slot}.{COPY}"))).is_ok()
}
