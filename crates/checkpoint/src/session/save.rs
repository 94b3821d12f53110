//! Takes a checkpoint: into memory, to the partner, to the durable tier.

use super::drain::{self, Drain};
use super::files::Contents;
use super::{Checkpointer, agreement, clock};
use crate::Error;
use crate::controller::{Decision, Place, Situation};
use crate::generation::{GenerationId, Manifest};
use crate::image::Protection;
use crate::tier::SlotId;
use std::time::Instant;

/// How much a new measurement counts against those before it.
const NEWEST_SHARE: f64 = 0.3;

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
    pub(super) fn take(&mut self, decision: Decision, situation: &Situation, begun: Instant) -> Result<Saved, Error> {
        if decision.place == Place::Skip {
            let payload_bytes = self.regions.bytes() + self.files.bytes();
            return Ok(Saved { generation: None, decision, payload_bytes, visible_s: begun.elapsed().as_secs_f64() });
        }
        let contents = agreement::all_or_none(&*self.group, self.files.contents())?;
        let manifest = self.new_manifest(&contents)?;
        let payload_bytes = manifest.payload_bytes;
        let generation = manifest.generation;
        match decision.place {
            Place::Durable => self.save_durable(&manifest, &contents, situation)?,
            _ => self.save_in_memory(manifest, &contents, decision.place == Place::Both)?,
        }
        let visible_s = begun.elapsed().as_secs_f64();
        let cost = match decision.place {
            Place::Memory => &mut self.memory_cost_s,
            _ => &mut self.durable_cost_s,
        };
        blend(cost, visible_s);
        self.taken_count += 1;
        self.last_any_s = self.now_s();
        Ok(Saved { generation: Some(generation), decision, payload_bytes, visible_s })
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

    fn save_in_memory(&mut self, manifest: Manifest, files: &Contents, drains: bool) -> Result<(), Error> {
        let saved = self.save_own_in_memory(manifest, files);
        let slot = match agreement::all_or_none(&*self.group, saved) {
            Ok(slot) => slot,
            Err(error) => {
                self.forget_number();
                return Err(error);
            }
        };
        self.hand_over(slot)?;
        if drains && let Some(memory) = &mut self.memory {
            let image = memory.image(slot);
            let manifest = memory.manifests().find(|(of, _)| *of == slot).map(|(_, manifest)| manifest.clone());
            let ready = match (image, manifest, &self.durable) {
                (Ok(image), Some(manifest), Some(durable)) => Ok(Drain::start(durable.clone(), manifest, image)),
                (Err(error), ..) => Err(error),
                _ => Err(Error::Option { option: "durable", why: "there is no such tier".into() }),
            };
            self.drain = Some(agreement::all_or_none(&*self.group, ready)?);
        }
        Ok(())
    }

    /// Gives the new checkpoint to the partner as well. That it fails is a notice: the checkpoint itself is taken.
    fn hand_over(&mut self, slot: SlotId) -> Result<(), Error> {
        let (Some(partner), Some(memory)) = (&mut self.partner, &mut self.memory) else { return Ok(()) };
        let manifest = memory.manifests().find(|(of, _)| *of == slot).map(|(_, manifest)| manifest.clone());
        let (image, manifest) = match (memory.image(slot), manifest) {
            (Ok(image), Some(manifest)) => (image, manifest),
            (Err(error), _) => return Err(error),
            (_, None) => return Err(Error::Option { option: "slot", why: "the checkpoint is gone".into() }),
        };
        match partner.hand_over(&*self.group, &manifest, image.bytes()) {
            Ok(()) => Ok(()),
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(error) => {
                self.note(format!("generation {} has no copy at a partner: {error}", manifest.generation.number));
                Ok(())
            }
        }
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

    fn save_durable(&mut self, manifest: &Manifest, files: &Contents, situation: &Situation) -> Result<(), Error> {
        let Some(durable) = &self.durable else {
            return Err(Error::Option { option: "durable", why: "there is no such tier".into() });
        };
        let written = durable.write_source(manifest, &self.regions.source(files));
        let bytes = match agreement::all_or_none(&*self.group, written) {
            Ok(bytes) => bytes,
            Err(error) => {
                durable.abandon(manifest.generation, manifest.rank);
                return Err(error);
            }
        };
        drain::commit(&*self.group, durable, manifest.generation)?;
        self.durable_bytes += bytes;
        self.controller.written(situation.size_bytes);
        self.last_durable_s = self.now_s();
        Ok(())
    }

    /// Takes note of a durable checkpoint that is written on all ranks, or waits for it.
    pub(super) fn finish_drain(&mut self, waits: bool) -> Result<(), Error> {
        let Some(drain) = &mut self.drain else { return Ok(()) };
        let begun = Instant::now();
        let Some(outcome) = drain.outcome(&*self.group, waits)? else { return Ok(()) };
        let Some(drain) = self.drain.take() else { return Ok(()) };
        let durable = self.durable.as_ref();
        let committed = outcome.and_then(|bytes| match durable {
            Some(durable) => drain::commit(&*self.group, durable, drain.generation()).map(|()| bytes),
            None => Ok(bytes),
        });
        match committed {
            Ok(bytes) => {
                self.durable_bytes += bytes;
                let size_bytes = agreement::sum(&*self.group, bytes)?;
                self.controller.written(size_bytes as f64);
                self.last_durable_s = drain.began_s(self.began);
                let age_s = self.now_s() - self.last_durable_s;
                self.record_drain(drain.generation(), age_s, drain.took_s(), Ok(size_bytes));
                blend(&mut self.drain_s, drain.took_s());
                self.note(format!(
                    "generation {} is durable, after {:.1} s",
                    drain.generation().number,
                    drain.took_s()
                ));
            }
            Err(error) => {
                if let Some(durable) = durable {
                    durable.abandon(drain.generation(), self.group.rank());
                }
                self.record_drain(drain.generation(), 0.0, drain.took_s(), Err(&error.to_string()));
                self.note(format!("generation {} did not become durable: {error}", drain.generation().number));
            }
        }
        self.checkpoint_s += begun.elapsed().as_secs_f64();
        Ok(())
    }
}

/// Blends a measurement into an average that forgets.
fn blend(average: &mut Option<f64>, newest: f64) {
    *average = Some(average.map_or(newest, |old| old + NEWEST_SHARE * (newest - old)));
}
