//! What is in memory, for whoever writes it elsewhere.

use super::Tiers;
use super::drain::Content;
use crate::Error;
use crate::generation::{GenerationId, Manifest};
use crate::image::{Protection, Source};
use crate::tier::{SlotId, SlotImage};

impl Tiers {
    /// Saves this rank's part in memory.
    pub fn save_in_memory(&mut self, manifest: Manifest, source: &Source<'_>) -> Result<SlotId, Error> {
        let no_tier = || Error::Option { option: "memory", why: "there is no such tier".into() };
        self.memory.as_mut().ok_or_else(no_tier)?.save(manifest, source, &mut |_| {})
    }

    /// Forgets the generation that failed, where this rank has it.
    pub fn forget_number(&mut self, number: u64) {
        let slot = self.in_memory().find(|(_, manifest)| manifest.generation.number == number).map(|(slot, _)| slot);
        if let (Some(memory), Some(slot)) = (&mut self.memory, slot) {
            let _ = memory.forget(slot);
        }
    }

    /// A generation that is in memory.
    pub fn content_of(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let memory = self.memory.as_mut().ok_or_else(gone)?;
        let slot = memory.slot_of(generation).ok_or_else(gone)?;
        memory.part(slot).map(Content::Slot)
    }

    /// What the shared directory is to get: from the SSD when it is there, so that memory is free again, else from memory.
    pub fn content_to_share(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let (Some(durable), Some(shared)) = (&self.durable, &self.shared) else { return Err(gone()) };
        let wants_parity = shared.tier.protection() != Protection::Checked;
        match durable.tier.part(generation, self.own.rank) {
            // What the SSD has without parity, memory may still have with it.
            Ok(part) if wants_parity && part.manifest.protection == Protection::Checked => {
                self.content_of(generation).or(Ok(Content::Part(part)))
            }
            Ok(part) => Ok(Content::Part(part)),
            Err(_) => self.content_of(generation),
        }
    }

    /// The image in a slot, and what it is.
    pub fn image_in(&mut self, slot: SlotId) -> Result<(Manifest, SlotImage), Error> {
        let manifest = self.in_memory().find(|(of, _)| *of == slot).map(|(_, manifest)| manifest.clone());
        let memory = self.memory.as_mut().ok_or_else(gone)?;
        Ok((manifest.ok_or_else(gone)?, memory.image(slot)?))
    }

    /// The payload of the newest checkpoint of this rank, in memory or durable.
    pub fn last_payload_bytes(&self) -> Option<u64> {
        let newest = self.in_memory().map(|(_, manifest)| manifest).max_by_key(|manifest| manifest.age());
        newest.map(|manifest| manifest.payload_bytes).or_else(|| {
            self.targets().find_map(|target| {
                let stored = target.tier.generations().ok()?;
                let newest = stored.into_iter().find(|stored| stored.committed_ranks.is_some())?;
                let manifest = target.tier.manifest(newest.generation, self.own.rank).ok()?;
                Some(manifest.payload_bytes)
            })
        })
    }
}

fn gone() -> Error {
    Error::Option { option: "slot", why: "the checkpoint is gone".into() }
}
