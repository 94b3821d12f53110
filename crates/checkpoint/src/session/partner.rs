//! A copy of each rank's checkpoint in another rank's memory, so that a node may be lost with what it held.

use super::agreement;
use crate::generation::{GenerationId, Manifest};
use crate::tier::{Memory, SlotId};
use crate::{Error, Group, StoredFile};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// Bytes that go between two ranks at once.
const PIECE_BYTES: usize = 16 << 20;

/// What this rank holds for another, and who holds for it.
pub(super) struct Partner {
    store: Memory,
    /// Who gets this rank's copy.
    holder: u32,
    /// Whose copy this rank gets.
    owner: u32,
}

impl Partner {
    /// Finds the partner: the rank as many further as the fullest node has ranks, so that where ranks are placed node by
    /// node it is on another one.
    pub(super) fn new(group: &dyn Group, host: &str, store: Memory) -> Result<Self, Error> {
        let mut ranks_of_host: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for host in group.gather_all(host.as_bytes())? {
            *ranks_of_host.entry(host).or_default() += 1;
        }
        let (rank, size) = (group.rank(), group.size());
        let fullest = ranks_of_host.values().copied().max().unwrap_or(1);
        // On one node alone there is no better place than the next rank.
        let distance = if fullest < size { fullest } else { 1 };
        Ok(Partner { store, holder: (rank + distance) % size, owner: (rank + size - distance) % size })
    }

    /// Gives this rank's image to its holder, and takes the owner's; the same generation for all.
    pub(super) fn hand_over(&mut self, group: &dyn Group, manifest: &Manifest, image: &[u8]) -> Result<(), Error> {
        let manifests = group.gather_all(&manifest.to_bytes()?)?;
        let theirs = manifests.get(self.owner as usize).map(|bytes| Manifest::from_bytes(bytes));
        let theirs = match theirs {
            Some(Ok(manifest)) => manifest,
            Some(Err(why)) => return Err(Error::Group { why: format!("rank {} sent a manifest: {why}", self.owner) }),
            None => return Err(Error::Group { why: format!("rank {} sent no manifest", self.owner) }),
        };
        let room = agreement::all_or_none(group, self.store.begin_receiving(&theirs))?;
        let mut target = self.store.receiving(room, &theirs)?;
        exchange(group, (self.holder, image), (self.owner, target.bytes_mut()))?;
        self.store.end_receiving(room, theirs)
    }

    /// The generations of its owner that this rank holds, and whose they are.
    pub(super) fn held(&self) -> (u32, Vec<GenerationId>) {
        let of_owner = self.store.manifests().filter(|(_, manifest)| manifest.rank == self.owner);
        (self.owner, of_owner.map(|(_, manifest)| manifest.generation).collect())
    }

    /// Forgets what is held of newer generations than the one that all ranks came back to.
    pub(super) fn forget_newer(&mut self, restored: GenerationId) -> Result<(), Error> {
        self.store.forget_newer(restored)
    }

    /// Gives back what is held to the owners that need it. Every rank says whether it needs its own; one that does gets
    /// manifest and image, if its holder has them.
    pub(super) fn give_back(
        &mut self,
        group: &dyn Group,
        generation: GenerationId,
        needs: bool,
    ) -> Result<Option<(Manifest, Received)>, Error> {
        let needing = group.gather_all(&[u8::from(needs)])?;
        if needing.iter().all(|word| word.first() != Some(&1)) {
            return Ok(None);
        }
        let is_asked = needing.get(self.owner as usize).and_then(|word| word.first()) == Some(&1);
        let slot = self.slot_of(generation).filter(|_| is_asked);
        // What cannot be read, nor repaired, is not there: the others are waiting for an answer.
        let image = slot.and_then(|slot| self.store.image(slot).ok());
        let held = slot.filter(|_| image.is_some()).and_then(|slot| self.store.manifests().find(|(of, _)| *of == slot));
        let own_bytes = held.map(|(_, manifest)| manifest.to_bytes()).transpose()?.unwrap_or_default();
        let manifests = group.gather_all(&own_bytes)?;
        let theirs = manifests.get(self.holder as usize).filter(|bytes| needs && !bytes.is_empty());
        let theirs = theirs
            .map(|bytes| Manifest::from_bytes(bytes))
            .transpose()
            .map_err(|why| Error::Group { why: format!("rank {} gave back a manifest: {why}", self.holder) })?;
        let bytes = theirs.as_ref().map(|manifest| manifest.geometry()).transpose()?;
        let mut received = vec![0; bytes.map_or(0, |geometry| geometry.file_bytes())];
        let sent = image.as_ref().map_or(&[][..], |image| image.bytes());
        exchange(group, (self.owner, sent), (self.holder, &mut received))?;
        Ok(theirs.map(|manifest| (manifest, Received(Mutex::new(received)))))
    }

    fn slot_of(&self, generation: GenerationId) -> Option<SlotId> {
        let mut of_owner = self.store.manifests().filter(|(_, manifest)| manifest.rank == self.owner);
        of_owner.find(|(_, manifest)| manifest.generation == generation).map(|(slot, _)| slot)
    }
}

/// Exchanges images of different lengths, a piece at a time; all ranks make as many calls as the longest needs.
fn exchange(group: &dyn Group, to: (u32, &[u8]), from: (u32, &mut [u8])) -> Result<(), Error> {
    let ((to, sent), (from, received)) = (to, from);
    let longest = agreement::most(group, sent.len().max(received.len()) as u64)? as usize;
    for start in (0..longest).step_by(PIECE_BYTES) {
        let range = |length: usize| start.min(length)..(start + PIECE_BYTES).min(length);
        let piece = range(received.len());
        group.exchange(to, &sent[range(sent.len())], from, &mut received[piece])?;
    }
    Ok(())
}

/// An image that came from another rank.
pub(super) struct Received(Mutex<Vec<u8>>);

impl Received {
    pub(super) fn new(image: Vec<u8>) -> Self {
        Received(Mutex::new(image))
    }
}

impl StoredFile for Received {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().map_err(|_| io::ErrorKind::Other)?.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let from = content.get(start..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
