//! Where a rank saves to: memory, the SSD, a directory that all nodes see. Each is opened by itself (`open`) and fails by
//! itself; what goes to a durable one goes in the background (`drain`).

pub(in crate::session) mod drain;
mod open;
mod same;
pub(in crate::session) mod target;

pub(in crate::session) use open::{Opened, UNSEEN_NUMBERS};
pub(in crate::session) use target::{Target, Which};

use crate::generation::{Age, GenerationId};
use crate::session::run::NUMBER_FOUND_MAX;
use crate::tier::Memory;
use std::time::Instant;

/// The tiers of one rank.
#[derive(Default)]
pub(in crate::session) struct Tiers {
    pub(in crate::session) memory: Option<Memory>,
    /// The SSD; where there is none, the shared directory.
    pub(in crate::session) durable: Option<Target>,
    /// The shared directory beside an SSD.
    pub(in crate::session) shared: Option<Target>,
    /// The generation that the shared directory is to get as soon as the SSD has it, and when it was taken.
    pub(in crate::session) to_share: Option<(GenerationId, Instant)>,
}

impl Tiers {
    /// The durable tiers: the SSD, then the shared directory.
    pub(in crate::session) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.durable.iter().chain(&self.shared)
    }

    pub(in crate::session) fn target(&self, which: Which) -> Option<&Target> {
        match which {
            Which::Durable => self.durable.as_ref(),
            Which::Shared => self.shared.as_ref(),
        }
    }

    pub(in crate::session) fn target_mut(&mut self, which: Which) -> Option<&mut Target> {
        match which {
            Which::Durable => self.durable.as_mut(),
            Which::Shared => self.shared.as_mut(),
        }
    }

    /// Whether a copy is on its way there.
    pub(in crate::session) fn is_on_its_way(&self, which: Which) -> bool {
        self.target(which).is_some_and(|target| target.drain.is_some())
    }

    /// Whether anything that was taken is on its way to another tier.
    pub(in crate::session) fn is_writing(&self) -> bool {
        self.targets().any(|target| target.drain.is_some())
    }

    /// Where they are, in words.
    pub(in crate::session) fn directories(&self) -> String {
        let memory = self.memory.iter().map(|memory| memory.directory().display().to_string());
        let targets = self.targets().map(|target| target.tier.directory().display().to_string());
        memory.chain(targets).collect::<Vec<_>>().join(" and ")
    }

    /// Those that could not be opened, and why.
    pub(in crate::session) fn unopened(&self) -> Vec<String> {
        let memory =
            self.memory.iter().filter_map(|memory| Some(format!("memory cannot be used: {}", memory.fault()?)));
        let targets = self
            .targets()
            .filter_map(|target| Some(format!("{} cannot be used: {}", target.kind.name(), target.tier.fault()?)));
        memory.chain(targets).collect()
    }

    /// The highest number of a generation of its own that this rank sees anywhere, and the newest run. What others left on
    /// its node a restart finds.
    pub(in crate::session) fn newest_seen(&self) -> Age {
        let mut seen = Age { epoch: 0, generation: GenerationId { number: 0, nonce: 0 } };
        let mut see = |age: Age| {
            seen.generation.number = seen.generation.number.max(age.generation.number.min(NUMBER_FOUND_MAX));
            seen.epoch = seen.epoch.max(age.epoch);
        };
        self.memory.iter().flat_map(|memory| memory.manifests()).for_each(|(_, manifest)| see(manifest.age()));
        for target in self.targets() {
            target.tier.generations().unwrap_or_default().iter().for_each(|stored| see(stored.age()));
        }
        seen
    }
}
