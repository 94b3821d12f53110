//! Takes a checkpoint: into memory, to the partner, to the durable tier.

use super::drain::{self, Content, Drain};
use super::files::Contents;
use super::target::{Kind, Which};
use super::{Checkpointer, agreement, clock, facts};
use crate::Error;
use crate::controller::{Decision, Place, Situation};
use crate::generation::{GenerationId, Manifest};
use crate::image::Protection;
use crate::tier::{SlotId, SlotImage, Written, node};
use std::time::Instant;

/// A checkpoint that was taken, or the decision to take none.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Which one it is; `None` when none was taken.
    pub generation: Option<GenerationId>,
    /// Where it went, and why. With [`Place::Both`], it is in memory now and on its way to the durable tier.
    pub decision: Decision,
    /// Bytes of this rank's payload.
    pub payload_bytes: u64,
    /// Seconds that this call took.
    pub visible_s: f64,
}

impl Checkpointer {
    /// Takes the checkpoint that was decided on; `is_shared` says that the shared directory gets it, too.
    pub(super) fn take(
        &mut self,
        decision: Decision,
        is_shared: bool,
        situation: &Situation,
        begun: Instant,
    ) -> Result<Saved, Error> {
        if decision.place == Place::Skip {
            let payload_bytes = self.regions.bytes() + self.files.bytes();
            return Ok(Saved { generation: None, decision, payload_bytes, visible_s: begun.elapsed().as_secs_f64() });
        }
        let contents = agreement::all_or_none(&*self.group, self.files.contents())?;
        self.forget_what_was_refused();
        let manifest = self.new_manifest(&contents)?;
        let payload_bytes = manifest.payload_bytes;
        let generation = manifest.generation;
        match decision.place {
            Place::Durable => self.save_durable(&manifest, &contents, situation, begun)?,
            _ => self.save_in_memory(manifest, &contents, (decision.place == Place::Both).then_some(begun))?,
        }
        self.unshared_count = self.unshared_count.saturating_add(u64::from(decision.place.is_durable()));
        if is_shared {
            self.unshared_count = 0;
            self.to_share = Some((generation, begun));
            self.share(decision.place == Place::Both)?;
        }
        let visible_s = begun.elapsed().as_secs_f64();
        self.course.took(decision.place, visible_s, self.now_s());
        self.release_memory(generation);
        Ok(Saved { generation: Some(generation), decision, payload_bytes, visible_s })
    }

    /// After a restart with fewer ranks, gives back the memory of those that are no more, when two newer checkpoints are
    /// complete.
    fn release_memory(&mut self, complete: GenerationId) {
        let is_due = self.resized_at.is_some_and(|count| self.course.taken_count >= count + 2);
        let Some(memory) = self.config.memory.as_ref().filter(|_| is_due) else { return };
        self.resized_at = None;
        if self.nodes.is_first_here {
            let released = node::release_beyond(&memory.directory, &self.config.job, self.group.size(), complete);
            if let Err(error) = released {
                self.note(format!("memory of ranks that are no more is still taken: {error}"));
            }
        }
    }

    /// The manifest of the next generation, whose identity rank 0 draws.
    fn new_manifest(&mut self, files: &Contents) -> Result<Manifest, Error> {
        self.number += 1;
        let nonce = agreement::of_root(&*self.group, clock::nonce())?;
        let taken_realtime_ns = agreement::of_root(&*self.group, clock::realtime_ns())?;
        let mut regions = self.regions.entries();
        regions.extend(files.entries());
        Ok(Manifest {
            job: self.config.job.clone(),
            generation: GenerationId { number: self.number, nonce },
            rank: self.group.rank(),
            ranks: self.group.size(),
            taken_realtime_ns,
            payload_bytes: regions.iter().map(|region| region.bytes).sum(),
            protection: self.config.memory.as_ref().map_or(Protection::Checked, |memory| memory.protection),
            table_crc32c: 0,
            regions,
        })
    }

    /// Saves in memory on all ranks; what was begun to be taken at `drains` goes on to the durable tier.
    fn save_in_memory(&mut self, manifest: Manifest, files: &Contents, drains: Option<Instant>) -> Result<(), Error> {
        let saved = self.save_own_in_memory(manifest, files);
        let slot = match agreement::all_or_none(&*self.group, saved) {
            Ok(slot) => slot,
            Err(error) => {
                self.forget_number();
                return Err(error);
            }
        };
        if let Some(Err(error)) = self.memory.as_mut().map(|memory| memory.complete(slot)) {
            self.note(format!("generation {} is not marked as complete: {error}", self.number));
        }
        self.hand_over(slot)?;
        if let Some(begun) = drains {
            let generation = self.memory.iter().flat_map(|memory| memory.manifests()).find(|(of, _)| *of == slot);
            let generation = generation.map(|(_, manifest)| manifest.generation);
            let content = generation.ok_or_else(gone).and_then(|generation| self.in_memory(generation));
            let content = agreement::all_or_none(&*self.group, content)?;
            if let Some(durable) = &mut self.durable {
                durable.drain = Some(Drain::start(&durable.tier, content, begun));
            }
        }
        Ok(())
    }

    /// A generation that is in memory, for whoever writes it elsewhere.
    fn in_memory(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let memory = self.memory.as_mut().ok_or_else(gone)?;
        let slot = memory.slot_of(generation).ok_or_else(gone)?;
        memory.part(slot).map(Content::Slot)
    }

    /// Begins to copy the generation that the shared directory is to get: from the SSD when it is there, so that memory
    /// is free again, else from memory. That it fails is a notice.
    fn share(&mut self, waits_for_ssd: bool) -> Result<(), Error> {
        let is_on_its_way = self.durable.as_ref().is_some_and(|durable| durable.drain.is_some());
        if waits_for_ssd && is_on_its_way {
            return Ok(());
        }
        let Some((generation, taken)) = self.to_share.take() else { return Ok(()) };
        let content = self.content_to_share(generation);
        let content = match agreement::all_or_none(&*self.group, content) {
            Ok(content) => content,
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => {
                self.note(not_there(Kind::Shared, generation, &error));
                return Ok(());
            }
        };
        if let Some(shared) = &mut self.shared {
            shared.drain = Some(Drain::start(&shared.tier, content, taken));
        }
        Ok(())
    }

    fn content_to_share(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let rank = self.group.rank();
        let (Some(durable), Some(shared)) = (&self.durable, &self.shared) else { return Err(gone()) };
        let wants_parity = shared.tier.protection() != Protection::Checked;
        let part = durable.tier.part(generation, rank);
        match part {
            // What the SSD has without parity, memory may still have with it.
            Ok(part) if wants_parity && part.manifest.protection == Protection::Checked => {
                self.in_memory(generation).or(Ok(Content::Part(part)))
            }
            Ok(part) => Ok(Content::Part(part)),
            Err(_) => self.in_memory(generation),
        }
    }

    /// Gives the new checkpoint to the partner as well, or has the ranks compute parity of it. That it fails is a notice:
    /// the checkpoint itself is taken.
    fn hand_over(&mut self, slot: SlotId) -> Result<(), Error> {
        if self.partner.is_none() && self.parity.is_none() {
            return Ok(());
        }
        let image = self.image_in(slot);
        let kept = agreement::all_or_none(&*self.group, image).and_then(|(manifest, image)| {
            match (&mut self.parity, &mut self.partner) {
                (Some(parity), _) => parity.build(&*self.group, &manifest, image.bytes()),
                (None, Some(partner)) => partner.hand_over(&*self.group, &manifest, image.bytes()),
                (None, None) => Ok(()),
            }
        });
        match kept {
            Ok(()) => Ok(()),
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(error) => {
                let what = if self.parity.is_some() { "no parity" } else { "no copy at a partner" };
                self.note(format!("generation {} has {what}: {error}", self.number));
                Ok(())
            }
        }
    }

    /// The image in a slot, and what it is.
    fn image_in(&mut self, slot: SlotId) -> Result<(Manifest, SlotImage), Error> {
        let memory = self.memory.as_mut().ok_or_else(gone)?;
        let manifest = memory.manifests().find(|(of, _)| *of == slot).map(|(_, manifest)| manifest.clone());
        Ok((manifest.ok_or_else(gone)?, memory.image(slot)?))
    }

    fn save_own_in_memory(&mut self, manifest: Manifest, files: &Contents) -> Result<SlotId, Error> {
        let no_tier = || Error::Option { option: "memory", why: "there is no such tier".into() };
        let memory = self.memory.as_mut().ok_or_else(no_tier)?;
        memory.save(manifest, &self.regions.source(files), &mut |_| {})
    }

    /// Forgets the generation that failed, where this rank has it.
    fn forget_number(&mut self) {
        if let Some(memory) = &mut self.memory {
            let slot = memory.manifests().find(|(_, manifest)| manifest.generation.number == self.number);
            if let Some(slot) = slot.map(|(slot, _)| slot) {
                let _ = memory.forget(slot);
            }
        }
    }

    fn save_durable(
        &mut self,
        manifest: &Manifest,
        files: &Contents,
        situation: &Situation,
        begun: Instant,
    ) -> Result<(), Error> {
        let Some(durable) = &mut self.durable else {
            return Err(Error::Option { option: "durable", why: "there is no such tier".into() });
        };
        let written = durable.tier.write_source(manifest, &self.regions.source(files));
        let bytes = match agreement::all_or_none(&*self.group, written) {
            Ok(bytes) => bytes,
            Err(error) => {
                durable.tier.abandon(manifest.generation, manifest.rank);
                return Err(error);
            }
        };
        drain::commit(&*self.group, &durable.tier, durable.kind, manifest.generation, self.nodes)?;
        durable.copies.written(begun.saturating_duration_since(self.began).as_secs_f64(), bytes);
        self.controller.written(situation.size_bytes);
        Ok(())
    }

    /// Takes note of what is written on all ranks of what was on its way, or waits for it.
    pub(super) fn finish_drains(&mut self, waits: bool) -> Result<(), Error> {
        self.finish_drain(Which::Durable, waits)?;
        self.finish_drain(Which::Shared, waits)
    }

    /// As [`Checkpointer::finish_drains`], for one of the tiers.
    pub(super) fn finish_drain(&mut self, which: Which, waits: bool) -> Result<(), Error> {
        let target = match which {
            Which::Durable => &mut self.durable,
            Which::Shared => &mut self.shared,
        };
        let Some(target) = target else { return Ok(()) };
        let Some(mut drain) = target.drain.take() else { return Ok(()) };
        let outcome = match drain.outcome(&*self.group, waits)? {
            Some(outcome) => outcome,
            None => {
                target.drain = Some(drain);
                return Ok(());
            }
        };
        target.saw_free_bytes(drain.free_bytes());
        let (kind, generation) = (target.kind, drain.generation());
        let committed = outcome.and_then(|written| {
            drain::commit(&*self.group, &target.tier, kind, generation, self.nodes).map(|()| written)
        });
        match committed {
            Ok(written) => {
                target.copies.arrived(drain.began_s(self.began), drain.took_s(), written.bytes);
                self.note_arrival(which, &drain, written)?;
            }
            Err(error) => {
                target.tier.abandon(generation, self.group.rank());
                self.record_failed_drain(kind, generation, &error);
                self.note(not_there(kind, generation, &error));
            }
        }
        if which == Which::Durable { self.share(false) } else { Ok(()) }
    }

    /// Says that a checkpoint is written on all ranks, and takes it off the drive's budget.
    fn note_arrival(&mut self, which: Which, drain: &Drain, written: Written) -> Result<(), Error> {
        let (number, took_s) = (drain.generation().number, drain.took_s());
        let (size_bytes, node_bytes) = facts::written_together(&*self.group, &self.host, written.bytes)?;
        if which == Which::Durable {
            self.controller.written(node_bytes as f64);
        }
        let kind = match which {
            Which::Durable => self.durable.as_ref().map_or(Kind::Ssd, |durable| durable.kind),
            Which::Shared => Kind::Shared,
        };
        self.record_drain(kind, drain, size_bytes);
        let healed = match written.healed_pages {
            0 => String::new(),
            pages => format!("; {pages} of its pages had gone bad before and were repaired on the way"),
        };
        self.note(match kind {
            Kind::Ssd => format!("generation {number} is durable, after {took_s:.1} s{healed}"),
            Kind::Shared => format!("generation {number} is in the shared directory, after {took_s:.1} s{healed}"),
        });
        Ok(())
    }
}

fn not_there(kind: Kind, generation: GenerationId, error: &Error) -> String {
    let number = generation.number;
    match kind {
        Kind::Ssd => format!("generation {number} did not become durable: {error}"),
        Kind::Shared => format!("generation {number} did not get to the shared directory: {error}"),
    }
}

fn gone() -> Error {
    Error::Option { option: "slot", why: "the checkpoint is gone".into() }
}
