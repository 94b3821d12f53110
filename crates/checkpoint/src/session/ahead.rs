//! Has the slots of memory made before the saves that need them; how is `tier/ahead.rs`.
//!
//! For how many bytes: for what is registered, as of a restart, of a question whether a checkpoint is due, and of the end of
//! a save. At the opening nothing is registered yet, and it is for as many bytes as this rank saved last, where there is
//! such a checkpoint. A new job that is never asked anything makes its second slot from the end of its first save on.

use super::Checkpointer;
use super::schedule::facts;
use crate::controller::{Fixed, Policy};
use crate::tier::Allowance;

impl Checkpointer {
    /// At the opening: slots as long as those of the newest checkpoint of this rank.
    pub(super) fn make_ahead_as_before(&mut self) {
        let in_memory = self.tiers.memory.iter().flat_map(|memory| memory.manifests().map(|(_, manifest)| manifest));
        let newest = in_memory.max_by_key(|manifest| manifest.age()).map(|manifest| manifest.payload_bytes);
        if let Some(payload_bytes) = newest.or_else(|| self.last_durable_bytes()) {
            self.make_ahead(payload_bytes);
        }
    }

    /// Once regions are registered: slots for them.
    pub(super) fn make_ahead_for_regions(&mut self) {
        if self.regions.bytes() > 0 {
            self.make_ahead(self.regions.bytes() + self.files.bytes());
        }
    }

    fn last_durable_bytes(&self) -> Option<u64> {
        let rank = self.ranks.rank();
        self.tiers.targets().find_map(|target| {
            let newest = target.tier.generations().ok()?.into_iter().find(|stored| stored.committed_ranks.is_some())?;
            target.tier.manifest(newest.generation, rank).ok().map(|manifest| manifest.payload_bytes)
        })
    }

    fn make_ahead(&mut self, payload_bytes: u64) {
        let saves_in_memory =
            !matches!(self.schedule.controller.policy(), Policy::Fixed(Fixed::Durable | Fixed::Never));
        let Some(config) = self.config.memory.as_ref().filter(|_| saves_in_memory) else { return };
        let allowance = Allowance {
            bytes_max: config.ahead_bytes_max.unwrap_or(u64::MAX),
            ranks_here: self.nodes.ranks_here.max(1) as u64,
        };
        if allowance.bytes_max == 0 || !facts::memory_suspect(&self.config.health_file).is_empty() {
            return;
        }
        let Ok(geometry) = self.geometry(payload_bytes) else { return };
        if let Some(memory) = &mut self.tiers.memory {
            memory.make_ahead(geometry.file_bytes(), allowance);
        }
    }
}
