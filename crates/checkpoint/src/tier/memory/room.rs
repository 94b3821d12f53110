//! The room of slots: taken when a save needs it, or ahead of that by a thread; see `tier/ahead.rs`.

use super::super::ahead::{Ahead, Allowance, Making, Wish};
use super::super::mapping::Mapping;
use super::{MANIFESTS, Memory, SlotId};
use crate::storage::Named;
use crate::{Disk, Error, Storage};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use surefoot_heal::limits;

impl Memory {
    /// Whether slots are being made ahead.
    #[cfg(test)]
    pub(crate) fn is_making_ahead(&self) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| !ahead.is_over())
    }

    /// Has the slots for images of so many bytes made by a thread, those that are used next first, as far as there is room
    /// to spare: whole slots, and none where it would leave less than it took. A save stops it; saying so again goes on.
    pub(crate) fn make_ahead(&mut self, bytes: usize, allowance: Allowance) {
        let is_busy = self.ahead.as_ref().is_some_and(Ahead::is_busy);
        if self.fault.is_some() || bytes == 0 || (is_busy && bytes <= self.ahead_bytes) {
            return;
        }
        self.end_making();
        self.ahead_bytes = bytes;
        let number = |slot: &SlotId| self.slots[slot.0].manifest.as_ref().map(|manifest| manifest.generation.number);
        let is_made =
            |slot: &SlotId| self.slots[slot.0].mapping.as_ref().is_some_and(|mapping| mapping.bytes().len() >= bytes);
        let mut slots: Vec<SlotId> = (0..self.slots.len()).map(SlotId).filter(|slot| !is_made(slot)).collect();
        slots.retain(|slot| self.is_usable(*slot));
        slots.sort_by_key(number);
        let wishes = slots.into_iter().map(|slot| {
            let path = self.path(slot, "image");
            let is_empty = MANIFESTS.iter().all(|kind| !self.path(slot, kind).exists());
            if is_empty {
                self.unused.add(slot, path.clone());
            }
            let begun = self.begun.iter().position(|begun| begun.slot == slot).map(|at| self.begun.swap_remove(at));
            Wish { slot, path, begun, is_empty }
        });
        let wishes: VecDeque<Wish> = wishes.collect();
        if !wishes.is_empty() {
            self.ahead = Ahead::start(wishes, bytes, &self.directory, allowance, self.taken_ahead);
        }
    }

    /// Takes the slots that are made where the thread has ended.
    pub(super) fn take_all_made(&mut self) {
        if self.ahead.as_ref().is_some_and(Ahead::is_over) {
            self.end_making();
        }
    }

    /// Ends the thread that makes slots, and takes those that are made.
    fn end_making(&mut self) {
        let Some(ahead) = self.ahead.take() else { return };
        let (made, taken) = ahead.end();
        self.taken_ahead = taken;
        for making in made {
            let (slot, lost_bytes) = (making.slot, making.lost_bytes);
            match self.slots[slot.0].mapping {
                // Somebody looked at what is in it meanwhile.
                Some(_) => drop(making),
                None if making.is_made() => self.take_made(slot, making.finish(), lost_bytes),
                None => self.begun.push(making),
            }
        }
    }

    fn take_made(&mut self, slot: SlotId, made: io::Result<Mapping>, lost_bytes: Option<u64>) {
        if let Ok(mapping) = made {
            self.slots[slot.0].mapping = Some(Arc::new(mapping));
            self.slots[slot.0].lost_bytes = lost_bytes;
        }
    }

    /// What was made ahead of a slot that somebody needs now. The thread stops.
    fn take_begun(&mut self, slot: SlotId) -> Option<Making> {
        let of_thread = self.ahead.as_mut().and_then(|ahead| ahead.take(slot));
        let begun = self.begun.iter().position(|begun| begun.slot == slot).map(|at| self.begun.swap_remove(at));
        of_thread.or(begun)
    }

    /// Makes sure that a slot, whose content is not needed any more, is mapped and has room: what was made ahead of it and
    /// the rest, else new room where what there is cannot all be used.
    pub(super) fn make_room(&mut self, slot: SlotId, bytes: usize) -> Result<(), Error> {
        let begun = self.take_begun(slot);
        self.unused.remove(slot);
        let (path, found_bytes) = (self.path(slot, "image"), self.slot_bytes(slot));
        if begun.is_none() && found_bytes >= bytes as u64 && self.map(slot, bytes).is_ok() {
            return Ok(());
        }
        self.slots[slot.0].mapping = None;
        if begun.is_some() || (1..bytes as u64).contains(&found_bytes) {
            let making = begun.map_or_else(|| Making::open(slot, &path, bytes), |begun| begun.made_for(bytes));
            let lost_bytes = making.as_ref().map_or(None, |making| making.lost_bytes);
            self.take_made(slot, making.and_then(Making::finish), lost_bytes);
            // A page may have been lost since the thread touched it.
            if self.slots[slot.0].mapping.is_some() && self.map(slot, bytes).is_ok() {
                return Ok(());
            }
            self.slots[slot.0].mapping = None;
        }
        match Disk.remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::storage("remove", &path)(error)),
        }
        Disk.create_file(&path, bytes as u64, false).map_err(Error::storage("create", &path))?;
        self.map(slot, bytes).map_err(Error::storage("map", &path))
    }

    /// Makes sure that a slot, which is long enough, is mapped and can all be read: touching a page that the kernel has
    /// given up would end the program. Between here and the end of a save one can still be lost; so it is with the
    /// program's own memory.
    pub(super) fn map(&mut self, slot: SlotId, bytes: usize) -> io::Result<()> {
        let lost_bytes = limits::memory_lost_bytes(Path::new("/"));
        let path = self.path(slot, "image");
        let slot = &mut self.slots[slot.0];
        match &slot.mapping {
            Some(mapping) if mapping.bytes().len() >= bytes => {
                // As long as no page of the machine was lost none of these was, and asking for each takes time.
                if lost_bytes != slot.lost_bytes {
                    mapping.check()?;
                }
            }
            _ => {
                slot.mapping = None;
                slot.mapping = Some(Arc::new(Mapping::new(&open_for_mapping(&path)?, bytes)?));
            }
        }
        slot.lost_bytes = lost_bytes;
        Ok(())
    }
}

fn open_for_mapping(path: &Path) -> io::Result<File> {
    surefoot_foreign::hold_name(&Named::of(path)?)?.regular()?.open_to_write()
}
