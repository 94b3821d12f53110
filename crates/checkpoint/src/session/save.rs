//! Takes a checkpoint: into memory, to the partner, to the durable tier.

use crate::Error;
use crate::controller::{Place, Situation, Visible};
use crate::generation::{GenerationId, Manifest};
use crate::session::Checkpointer;
use crate::session::files::Contents;
use crate::session::outcomes::Saved;
use crate::session::ranks::{OfRoot, told_on_all};
use crate::session::schedule::Schedule;
use crate::session::schedule::decide::{Around, Decided, Question};
use crate::session::schedule::drive::DriveFacts;
use crate::session::tiers::drain::Drain;
use crate::session::tiers::{Target, Which};
use crate::tier::{SlotId, Written, node};
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

/// How often a decision is put again because what was on its way has arrived meanwhile.
const ARRIVALS_MAX: usize = 4;

impl Checkpointer {
    /// What decides, and what it looks at.
    pub(super) fn scheduling(&mut self) -> (&mut Schedule, Around<'_>) {
        let Checkpointer { config, ranks, nodes, regions, files, tiers, schedule, .. } = self;
        (schedule, Around { config, ranks, nodes, regions, files, tiers })
    }

    /// What is known of the drive now.
    pub(super) fn look_at_drive(&mut self) -> DriveFacts {
        let (facts, notice) = self.schedule.look_at_drive(&self.config);
        self.journal.notes(notice);
        facts
    }

    /// Has all ranks decide, in one agreement. `hindrance` is why this rank could not save.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub(super) fn decide(&mut self, question: &Question, hindrance: Option<&Error>) -> Result<Decided, Error> {
        let drive = self.look_at_drive();
        let mut arrivals = 0;
        loop {
            let (schedule, around) = self.scheduling();
            let asked = schedule.ask(&around, question, drive.clone(), hindrance)?;
            let arrived = asked.arrived(around.tiers);
            if arrived.is_empty() || arrivals == ARRIVALS_MAX {
                return schedule.decided(&around, question, asked);
            }
            arrivals += 1;
            let arriving = Instant::now();
            for which in arrived {
                self.end_drain(which)?;
            }
            if matches!(question, Question::Need) {
                // A save counts all of its time.
                self.schedule.course.checkpoint_s += arriving.elapsed().as_secs_f64();
            }
        }
    }

    /// Says that the drive's budget could not be kept.
    fn note_unkept(&mut self, unkept: Option<Error>) {
        let said = |error| format!("the drive's budget is not kept for the next start: {error}");
        self.journal.notes(unkept.map(said));
    }

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
                let durable = self.tiers.durable.as_ref().map(|durable| &durable.tier);
                let unkept = self.schedule.spend_memory(situation, durable);
                self.note_unkept(unkept);
                self.save_in_memory(manifest, &contents)?;
                preparing_s = self.tiers.memory.as_ref().map_or(0.0, |memory| memory.preparing().as_secs_f64());
                if place == Place::Both {
                    let starting = Instant::now();
                    self.start_drain(generation, situation, begun)?;
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
        let (directories, is_in_memory) = (self.tiers.job_directories(), decision.place != Place::Durable);
        self.journal.notes(self.nodes.write_placement(&directories, self.run.epoch, is_in_memory));
        Ok(Saved { generation: Some(generation), decision, payload_bytes, visible_s })
    }

    /// After a restart with fewer ranks, or on other nodes, gives back the memory of those that do not run where they ran,
    /// when two newer checkpoints are complete.
    fn release_memory(&mut self, complete: GenerationId) {
        let is_due = self.run.resized_at.is_some_and(|count| self.schedule.course.taken_count >= count + 2);
        let Some(memory) = self.config.memory.as_ref().filter(|_| is_due) else { return };
        self.run.resized_at = None;
        if self.nodes.is_first_at(Tier::Memory) {
            let released = node::release_unused(&memory.directory, &self.config.job, complete);
            if let Err(error) = released {
                self.journal.note(format!("memory of ranks that run here no more is still taken: {error}"));
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
            protection: self.config.protection(),
            table_crc32c: 0,
            regions,
            epoch: self.run.epoch,
        }
    }

    /// Saves in memory on all ranks.
    fn save_in_memory(&mut self, manifest: Manifest, files: &Contents) -> Result<(), Error> {
        let saved = self.tiers.save_in_memory(manifest, &self.regions.source(files));
        // Where ranks cannot talk, the others may have heard that all have theirs, and count on this rank's part.
        let slot =
            told_on_all(self.ranks.all_or_none(saved))?.inspect_err(|_| self.tiers.forget_number(self.run.number))?;
        if let Some(Err(error)) = self.tiers.memory.as_mut().map(|memory| memory.complete(slot)) {
            self.journal.note(format!("generation {} is not marked as complete: {error}", self.run.number));
        }
        self.hand_over(slot)
    }

    /// Lets what is in memory, taken at `begun`, go on to the durable tier in the background.
    fn start_drain(&mut self, generation: GenerationId, situation: &Situation, begun: Instant) -> Result<(), Error> {
        let content = self.ranks.all_or_none(self.tiers.content_of(generation))?;
        let left = self.schedule.spend(situation);
        if let Some(durable) = &mut self.tiers.durable {
            durable.drain = Some(Drain::start(&durable.tier, content, begun, left));
        }
        Ok(())
    }

    /// Begins to copy the generation that the shared directory is to get: from the SSD when it is there, so that memory
    /// is free again, else from memory. That it fails is a notice.
    fn share(&mut self, waits_for_ssd: bool) -> Result<(), Error> {
        if waits_for_ssd && self.tiers.is_on_its_way(Which::Durable) {
            return Ok(());
        }
        let Some((generation, taken)) = self.tiers.to_share.take() else { return Ok(()) };
        let content = self.tiers.content_to_share(generation);
        let content = match told_on_all(self.ranks.all_or_none(content))? {
            Ok(content) => content,
            Err(error) => {
                self.journal.note(not_there(Tier::Shared, generation, &error));
                return Ok(());
            }
        };
        if let Some(shared) = &mut self.tiers.shared {
            shared.drain = Some(Drain::start(&shared.tier, content, taken, None));
        }
        Ok(())
    }

    /// Gives the new checkpoint to the partner as well, or has the ranks compute parity of it. That it fails is a notice:
    /// the checkpoint itself is taken.
    fn hand_over(&mut self, slot: SlotId) -> Result<(), Error> {
        if !self.redundancy.is_any() {
            return Ok(());
        }
        let image = self.tiers.image_in(slot);
        if let Err(error) = told_on_all(self.redundancy.keep(&self.ranks, image))? {
            let what = self.redundancy.missing();
            self.journal.note(format!("generation {} has {what}: {error}", self.run.number));
        }
        Ok(())
    }

    fn save_durable(
        &mut self,
        manifest: &Manifest,
        files: &Contents,
        situation: &Situation,
        begun: Instant,
    ) -> Result<(), Error> {
        let left = self.schedule.spend(situation);
        let Some(durable) = &mut self.tiers.durable else {
            return Err(Error::Option { option: "durable", why: "there is no such tier".into() });
        };
        let unkept = left.and_then(|left| durable.tier.keep_budget(&left).err());
        let written = durable.tier.write_source(manifest, &self.regions.source(files));
        let written = self.ranks.all_or_none(written);
        let written =
            written.and_then(|bytes| durable.commit(&self.ranks, &self.nodes, manifest.generation).map(|()| bytes));
        // As in memory: where ranks cannot talk, it may be complete.
        let bytes = match told_on_all(written)? {
            Ok(bytes) => bytes,
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

    /// Writes down that a checkpoint is complete in one of the durable tiers, once in a run.
    fn write_durable(&mut self, which: Which) {
        let Some(target) = self.tiers.target_mut(which).filter(|target| !target.is_noted) else { return };
        target.is_noted = true;
        self.journal.notes(self.nodes.write_durable(target.kind, target.tier.directory(), self.run.epoch));
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
        let committed =
            outcome.and_then(|written| target.commit(&self.ranks, &self.nodes, generation).map(|()| written));
        let failed = match told_on_all(committed)? {
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
            Err(error) => {
                target.tier.abandon(generation, self.ranks.rank());
                let again = target.failed();
                if which == Which::Durable {
                    self.schedule.course.failed();
                }
                self.journal.not_durable(kind, generation, &error.to_string());
                self.journal.note(format!("{}; {again}", not_there(kind, generation, &error)));
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
            None => {
                let age_s = (self.schedule.now_s() - drain.began_s(self.schedule.began)).max(0.0);
                self.journal.arrived(kind, drain.generation(), [age_s, took_s], size_bytes, is_durable);
            }
            Some(why) => self.journal.not_durable(kind, drain.generation(), why),
        }
        let healed = match written.healed_pages {
            0 => String::new(),
            pages => format!("; {pages} of its pages had gone bad before and were repaired on the way"),
        };
        self.journal.note(match (kind, volatile) {
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
