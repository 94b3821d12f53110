//! Takes a checkpoint: into memory, to the partner, to the durable tier.

use crate::Error;
use crate::controller::{Decision, Place, Situation, Visible};
use crate::generation::{GenerationId, Manifest};
use crate::image::Protection;
use crate::session::Checkpointer;
use crate::session::files::Contents;
use crate::session::ranks::OfRoot;
use crate::session::schedule::decide::Decided;
use crate::session::tiers::drain::{self, Content, Drain};
use crate::session::tiers::{Target, Which};
use crate::tier::{SlotId, SlotImage, Written, node};
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

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
    /// Takes the checkpoint that was decided on, after waiting so long for the former.
    pub(super) fn take(
        &mut self,
        decided: Decided,
        contents: Result<Contents, Error>,
        begun: Instant,
        waited_s: f64,
    ) -> Result<Saved, Error> {
        let Decided { decision, situation, is_shared, told, .. } = decided;
        let situation = &situation;
        if decision.place == Place::Skip {
            let payload_bytes = self.regions.bytes() + self.files.bytes();
            return Ok(Saved { generation: None, decision, payload_bytes, visible_s: begun.elapsed().as_secs_f64() });
        }
        let contents = contents?;
        let of_root = told.expect_all()?.of_root;
        self.note_unasked();
        self.forget_what_was_refused();
        let manifest = self.new_manifest(&contents, &of_root);
        let payload_bytes = manifest.payload_bytes;
        let generation = manifest.generation;
        let is_beside_write = self.tiers.is_writing();
        let (mut preparing_s, mut starting_s) = (0.0, 0.0);
        match decision.place {
            Place::Durable => self.save_durable(&manifest, &contents, situation, begun)?,
            place => {
                self.spend_memory(situation);
                let slot = self.save_in_memory(manifest, &contents)?;
                preparing_s = self.tiers.memory.as_ref().map_or(0.0, |memory| memory.preparing().as_secs_f64());
                if place == Place::Both {
                    let starting = Instant::now();
                    self.start_drain(slot, situation, begun)?;
                    starting_s = starting.elapsed().as_secs_f64();
                }
            }
        }
        self.schedule.unshared_count =
            self.schedule.unshared_count.saturating_add(u64::from(decision.place.is_durable()));
        if is_shared {
            self.schedule.unshared_count = 0;
            self.tiers.to_share = Some((generation, begun));
            self.share(decision.place == Place::Both)?;
        }
        let visible_s = begun.elapsed().as_secs_f64();
        let durable_s = waited_s + starting_s;
        let cost = Visible { all_s: visible_s, preparing_s, durable_s, is_beside_write };
        self.schedule.course.took(decision.place, cost, self.schedule.now_s());
        #[cfg(test)]
        (self.schedule.cost = cost);
        self.run.newest = Some((generation, begun));
        self.release_memory(generation);
        self.write_placement(decision.place != Place::Durable);
        Ok(Saved { generation: Some(generation), decision, payload_bytes, visible_s })
    }

    /// After a restart with fewer ranks, or on other nodes, gives back the memory of those that do not run where they ran,
    /// when two newer checkpoints are complete.
    fn release_memory(&mut self, complete: GenerationId) {
        let is_due = self.run.resized_at.is_some_and(|count| self.schedule.course.taken_count >= count + 2);
        let Some(memory) = self.config.memory.as_ref().filter(|_| is_due) else { return };
        self.run.resized_at = None;
        if self.nodes.is_first_in_memory {
            let released = node::release_unused(&memory.directory, &self.config.job, complete);
            if let Err(error) = released {
                self.note(format!("memory of ranks that run here no more is still taken: {error}"));
            }
        }
    }

    /// The manifest of the next generation, whose identity rank 0 drew.
    fn new_manifest(&mut self, files: &Contents, of_root: &OfRoot) -> Manifest {
        self.run.number += 1;
        let mut regions = self.regions.entries();
        regions.extend(files.entries());
        Manifest {
            job: self.config.job.clone(),
            generation: GenerationId { number: self.run.number, nonce: of_root.nonce },
            rank: self.ranks.rank(),
            ranks: self.ranks.size(),
            taken_realtime_ns: of_root.realtime_ns,
            payload_bytes: regions.iter().map(|region| region.bytes).sum(),
            protection: self.config.memory.as_ref().map_or(Protection::Checked, |memory| memory.protection),
            table_crc32c: 0,
            regions,
            epoch: self.run.epoch,
        }
    }

    /// Saves in memory on all ranks, and returns where.
    fn save_in_memory(&mut self, manifest: Manifest, files: &Contents) -> Result<SlotId, Error> {
        let saved = self.save_own_in_memory(manifest, files);
        let slot = match self.ranks.all_or_none(saved) {
            Ok(slot) => slot,
            // The others may have heard that all have theirs, and count on this rank's part.
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => {
                self.forget_number();
                return Err(error);
            }
        };
        if let Some(Err(error)) = self.tiers.memory.as_mut().map(|memory| memory.complete(slot)) {
            self.note(format!("generation {} is not marked as complete: {error}", self.run.number));
        }
        self.hand_over(slot)?;
        Ok(slot)
    }

    /// Lets what is in a slot, taken at `begun`, go on to the durable tier in the background.
    fn start_drain(&mut self, slot: SlotId, situation: &Situation, begun: Instant) -> Result<(), Error> {
        let generation = self.tiers.memory.iter().flat_map(|memory| memory.manifests()).find(|(of, _)| *of == slot);
        let generation = generation.map(|(_, manifest)| manifest.generation);
        let content = generation.ok_or_else(gone).and_then(|generation| self.in_memory(generation));
        let content = self.ranks.all_or_none(content)?;
        let left = self.spend(situation);
        if let Some(durable) = &mut self.tiers.durable {
            durable.drain = Some(Drain::start(&durable.tier, content, begun, left));
        }
        Ok(())
    }

    /// A generation that is in memory, for whoever writes it elsewhere.
    pub(super) fn in_memory(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let memory = self.tiers.memory.as_mut().ok_or_else(gone)?;
        let slot = memory.slot_of(generation).ok_or_else(gone)?;
        memory.part(slot).map(Content::Slot)
    }

    /// Begins to copy the generation that the shared directory is to get: from the SSD when it is there, so that memory
    /// is free again, else from memory. That it fails is a notice.
    fn share(&mut self, waits_for_ssd: bool) -> Result<(), Error> {
        let is_on_its_way = self.tiers.durable.as_ref().is_some_and(|durable| durable.drain.is_some());
        if waits_for_ssd && is_on_its_way {
            return Ok(());
        }
        let Some((generation, taken)) = self.tiers.to_share.take() else { return Ok(()) };
        let content = self.content_to_share(generation);
        let content = match self.ranks.all_or_none(content) {
            Ok(content) => content,
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => {
                self.note(not_there(Tier::Shared, generation, &error));
                return Ok(());
            }
        };
        if let Some(shared) = &mut self.tiers.shared {
            shared.drain = Some(Drain::start(&shared.tier, content, taken, None));
        }
        Ok(())
    }

    fn content_to_share(&mut self, generation: GenerationId) -> Result<Content, Error> {
        let rank = self.ranks.rank();
        let (Some(durable), Some(shared)) = (&self.tiers.durable, &self.tiers.shared) else { return Err(gone()) };
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
        if !self.redundancy.is_any() {
            return Ok(());
        }
        let image = self.image_in(slot);
        let kept = self.redundancy.keep(&self.ranks, image);
        match kept {
            Ok(()) => Ok(()),
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(error) => {
                let what = self.redundancy.missing();
                self.note(format!("generation {} has {what}: {error}", self.run.number));
                Ok(())
            }
        }
    }

    /// The image in a slot, and what it is.
    fn image_in(&mut self, slot: SlotId) -> Result<(Manifest, SlotImage), Error> {
        let memory = self.tiers.memory.as_mut().ok_or_else(gone)?;
        let manifest = memory.manifests().find(|(of, _)| *of == slot).map(|(_, manifest)| manifest.clone());
        Ok((manifest.ok_or_else(gone)?, memory.image(slot)?))
    }

    fn save_own_in_memory(&mut self, manifest: Manifest, files: &Contents) -> Result<SlotId, Error> {
        let no_tier = || Error::Option { option: "memory", why: "there is no such tier".into() };
        let memory = self.tiers.memory.as_mut().ok_or_else(no_tier)?;
        memory.save(manifest, &self.regions.source(files), &mut |_| {})
    }

    /// Forgets the generation that failed, where this rank has it.
    fn forget_number(&mut self) {
        if let Some(memory) = &mut self.tiers.memory {
            let slot = memory.manifests().find(|(_, manifest)| manifest.generation.number == self.run.number);
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
        let left = self.spend(situation);
        let Some(durable) = &mut self.tiers.durable else {
            return Err(Error::Option { option: "durable", why: "there is no such tier".into() });
        };
        let unkept = left.and_then(|left| durable.tier.keep_budget(&left).err());
        let written = durable.tier.write_source(manifest, &self.regions.source(files));
        let written = self.ranks.all_or_none(written).and_then(|bytes| {
            drain::commit(&self.ranks, &durable.tier, durable.kind, manifest.generation, &self.nodes).map(|()| bytes)
        });
        let bytes = match written {
            Ok(bytes) => bytes,
            // As in memory: it may be complete.
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => {
                durable.tier.abandon(manifest.generation, manifest.rank);
                durable.failed();
                return Err(error);
            }
        };
        durable.worked();
        durable.copies.written(begun.saturating_duration_since(self.schedule.began).as_secs_f64(), bytes);
        self.note_unkept(unkept);
        self.write_durable(Which::Durable);
        Ok(())
    }

    /// Waits for what is on its way on any rank, and takes note that it has arrived.
    pub(super) fn end_drains(&mut self) -> Result<(), Error> {
        self.end_drain(Which::Durable)?;
        self.end_drain(Which::Shared).map(drop)
    }

    /// As [`Checkpointer::end_drains`], for one of the tiers; returns why what was on its way did not arrive, which is a
    /// notice, too.
    pub(super) fn end_drain(&mut self, which: Which) -> Result<Option<Error>, Error> {
        let Some(target) = self.tiers.target_mut(which) else { return Ok(None) };
        let Some(mut drain) = target.drain.take() else { return Ok(None) };
        drain.wait();
        // Not before it is written: another file system may have been mounted there meanwhile.
        let medium = target.look();
        let outcome = drain.outcome(&self.ranks, medium);
        target.saw_free_bytes(drain.free_bytes());
        let (kind, generation, unkept) = (target.kind, drain.generation(), drain.take_unkept());
        let committed = outcome.and_then(|written| {
            drain::commit(&self.ranks, &target.tier, kind, generation, &self.nodes).map(|()| written)
        });
        let failed = match committed {
            Ok((written, [all_bytes, worst])) => {
                target.worked();
                target.told(worst);
                target.copies.arrived(drain.began_s(self.schedule.began), drain.took_s(), written.bytes);
                if which == Which::Durable {
                    self.schedule.course.arrived(drain.took_s());
                }
                self.write_durable(which);
                self.note_arrival(kind, &drain, written, all_bytes);
                None
            }
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => {
                target.tier.abandon(generation, self.ranks.rank());
                let again = target.failed();
                if which == Which::Durable {
                    self.schedule.course.failed();
                }
                self.record_failed_drain(kind, generation, &error);
                self.note(format!("{}; {again}", not_there(kind, generation, &error)));
                Some(error)
            }
        };
        if which == Which::Durable {
            self.share(false)?;
        }
        self.note_unkept(unkept);
        Ok(failed)
    }

    /// Says that a checkpoint is written on all ranks, so many bytes.
    fn note_arrival(&mut self, kind: Tier, drain: &Drain, written: Written, size_bytes: u64) {
        let (number, took_s) = (drain.generation().number, drain.took_s());
        let target = self.tiers.targets().find(|target| target.kind == kind);
        let (volatile, place) = target.map(|target| (target.is_volatile(), target.place())).unwrap_or_default();
        let is_durable = target.and_then(Target::is_durable);
        let is_known = is_durable.is_some();
        match &volatile {
            None => self.record_drain(kind, drain, size_bytes, is_durable),
            Some(why) => self.record_not_durable(kind, drain.generation(), why),
        }
        let healed = match written.healed_pages {
            0 => String::new(),
            pages => format!("; {pages} of its pages had gone bad before and were repaired on the way"),
        };
        self.note(match (kind, volatile) {
            (_, Some(why)) => format!("generation {number} is written, after {took_s:.1} s; {why}{healed}"),
            (Tier::Memory | Tier::Durable, None) if !is_known => {
                format!("generation {number} is {place}, after {took_s:.1} s: whether it survives a loss of power is not known{healed}")
            }
            (Tier::Memory | Tier::Durable, None) => {
                format!("generation {number} is durable, after {took_s:.1} s{healed}")
            }
            (Tier::Shared, None) => {
                format!("generation {number} is in the shared directory, after {took_s:.1} s{healed}")
            }
        });
    }
}

fn not_there(kind: Tier, generation: GenerationId, error: &Error) -> String {
    let number = generation.number;
    match kind {
        Tier::Memory | Tier::Durable => format!("generation {number} did not become durable: {error}"),
        Tier::Shared => format!("generation {number} did not get to the shared directory: {error}"),
    }
}

fn gone() -> Error {
    Error::Option { option: "slot", why: "the checkpoint is gone".into() }
}
