//! Whether what is in a tier is whole: at a scrub, which repairs it, and before older checkpoints go.

use super::{Target, Tiers};
use crate::generation::{Age, GenerationId, Manifest};
use crate::image::{Healer, Tally};
use crate::session::nodes::Nodes;
use crate::session::ranks::{Message, Ranks};
use crate::tier::{SlotId, SlotImage, Stored};
use crate::{Disk, Error, Storage, StoredFile};
use surefoot_model::CheckpointTier as Tier;

impl Tiers {
    /// Checks and repairs what this rank keeps in memory and in the durable tiers. A line per copy.
    pub fn scrub(&self) -> Vec<String> {
        let mut lines = self.scrub_memory();
        for target in self.targets() {
            for stored in target.tier.generations().unwrap_or_default() {
                let Ok(manifest) = target.tier.manifest(stored.generation, self.own.rank) else { continue };
                let file = target.tier.image(stored.generation, self.own.rank, true).map_err(|error| error.to_string());
                let (number, place) = (stored.generation.number, target.kind.place());
                lines.push(format!("generation {number} {place}: {}", scrubbed(&manifest, file)));
            }
        }
        lines
    }

    /// The same of what is in memory alone.
    pub fn scrub_memory(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for memory in self.memory.iter() {
            for (slot, manifest) in memory.manifests() {
                let file = Disk.open_file(&memory.image_path(slot), true).map_err(|error| error.to_string());
                let number = manifest.generation.number;
                lines.push(format!("generation {number} in memory: {}", scrubbed(manifest, file)));
            }
        }
        lines
    }

    /// This rank's image of a generation, if memory has it and it is whole, or can be made whole.
    pub fn whole_in_memory(&mut self, generation: GenerationId) -> Option<SlotImage> {
        let is_it = |(_, manifest): &(SlotId, &Manifest)| manifest.generation == generation && self.is_ours(manifest);
        let (slot, manifest) = self.in_memory().find(is_it).map(|(slot, manifest)| (slot, manifest.clone()))?;
        let memory = self.memory.as_mut()?;
        let file = Disk.open_file(&memory.image_path(slot), true).ok()?;
        Healer::open(manifest.geometry().ok()?, &*file, manifest.table_crc32c).ok()?.scrub().ok()?;
        memory.image(slot).ok()
    }

    /// Removes from the durable tiers what is older than the checkpoint that came back and beyond those to keep: `keep` may be less
    /// than it was, and a full drive gets room before the next is written. Not before all ranks have proved the newest that
    /// stays there, because what came back may have been read elsewhere; `read_from` is what this rank read. Returns notices.
    pub fn prune_before(
        &self,
        ranks: &Ranks,
        nodes: &Nodes,
        restored: Age,
        read_from: Option<(Tier, GenerationId)>,
    ) -> Result<Vec<String>, Error> {
        let (mut doubts, mut notes) = ([0; 2], Vec::new());
        let mut proved = [None; 2];
        for (at, target) in [&self.durable, &self.shared].into_iter().enumerate() {
            let Some(target) = target else { continue };
            match target.tier.to_prove(restored) {
                Ok(Some(newest)) if read_from == Some((target.kind, newest.generation)) => {
                    proved[at] = Some(newest.age());
                }
                Ok(Some(newest)) => match self.prove_stored(target, &newest) {
                    Ok(()) => proved[at] = Some(newest.age()),
                    Err(why) => {
                        doubts[at] = 1;
                        notes.push(format!(
                            "generation {} {} is not intact: {why}. Older ones stay there until the next is written, also \
                             beyond the {} to keep",
                            newest.generation.number,
                            target.kind.place(),
                            target.tier.keep()
                        ));
                    }
                },
                Ok(None) => {}
                // Why it cannot be looked at is said elsewhere.
                Err(_) => doubts[at] = 1,
            }
        }
        let doubts = ranks.tell(Message { sums: doubts, ..Message::default() }, |_| ())?.sums;
        for (at, target) in [&self.durable, &self.shared].into_iter().enumerate() {
            let Some((target, proved)) = target.as_ref().zip(proved[at]) else { continue };
            if doubts[at] == 0 && target.is_pruned_here(ranks, nodes) {
                // What cannot be removed now is tried again after the next commit.
                let _ = target.tier.prune_before(proved);
            }
        }
        Ok(notes)
    }

    /// Whether this rank's part of a generation in a durable tier is whole, or why it counts as not whole.
    fn prove_stored(&self, target: &Target, stored: &Stored) -> Result<(), String> {
        let (rank, ranks) = (self.own.rank, self.own.ranks);
        if let Some(saved) = stored.committed_ranks.filter(|saved| *saved != ranks) {
            return Err(format!("{saved} ranks saved it, and {ranks} cannot prove it"));
        }
        let manifest = target.tier.manifest(stored.generation, rank).map_err(|error| error.to_string())?;
        if !self.is_ours(&manifest) {
            return Err(format!("the part of rank {rank} is of something else"));
        }
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let file = target.tier.image(stored.generation, rank, false).map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, &*file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        healer.read(&mut |_, _| ()).map_err(|lost| lost.to_string())
    }
}

fn scrubbed(manifest: &Manifest, file: Result<Box<dyn StoredFile>, String>) -> String {
    let outcome = file.and_then(|file| {
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, &*file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        healer.scrub().map_err(|lost| lost.to_string())
    });
    outcome.map_or_else(|why| why, |tally| describe(&tally))
}

pub fn describe(tally: &Tally) -> String {
    if tally.is_clean() {
        let pages = if tally.pages_read == 1 { "page" } else { "pages" };
        return format!("{} {pages}, intact", tally.pages_read);
    }
    format!(
        "{} pages, {} bad ({} of them refused by the kernel), {} repaired, {} copies of the table bad",
        tally.pages_read, tally.pages_bad, tally.pages_refused, tally.pages_repaired, tally.tables_bad
    )
}
