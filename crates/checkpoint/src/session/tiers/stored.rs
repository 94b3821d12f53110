//! What of a job's checkpoints this rank sees in its tiers, and what it cannot look at or read there.

use super::Tiers;
use crate::generation::{Age, GenerationId, Manifest};
use crate::session::ranks::{Message, Ranks};
use crate::tier::{Durable, Memory, NodePart, Stored, node};
use crate::{Disk, Error, Storage, StoredFile};
use std::path::PathBuf;
use surefoot_model::CheckpointTier as Tier;

/// Unreadable generations of a tier that are named.
const UNREADABLE_MAX: usize = 64;

/// Where a part lies.
#[derive(Clone)]
pub enum StoredIn {
    /// In the memory of this node.
    Memory(PathBuf),
    /// There, too, as what a rank keeps for its partner.
    Partner(PathBuf),
    /// In a durable tier.
    Durable(Tier, Durable),
}

/// A part that this rank can reach.
#[derive(Clone)]
pub struct Reached {
    pub manifest: Manifest,
    pub place: StoredIn,
    /// Whether others are given the file as it is, not the payload in it.
    pub is_raw: bool,
}

impl Reached {
    pub fn new(manifest: Manifest, place: StoredIn) -> Self {
        Reached { manifest, place, is_raw: false }
    }

    pub fn open(&self) -> Result<Box<dyn StoredFile>, Error> {
        match &self.place {
            StoredIn::Memory(path) | StoredIn::Partner(path) => {
                Disk.open_file(path, false).map_err(Error::storage("open", path))
            }
            StoredIn::Durable(_, tier) => tier.image(self.manifest.generation, self.manifest.rank, false),
        }
    }

    pub fn tier(&self) -> Tier {
        match &self.place {
            StoredIn::Memory(_) | StoredIn::Partner(_) => Tier::Memory,
            StoredIn::Durable(tier, _) => *tier,
        }
    }

    pub fn place_name(&self) -> &'static str {
        match &self.place {
            StoredIn::Partner(_) => "its partner",
            _ => self.tier().name(),
        }
    }
}

/// Whether it was complete. One of another release may be.
fn is_marked(stored: &Stored) -> bool {
    stored.committed_ranks.is_some() || stored.is_of_other_version
}

impl Tiers {
    /// Whether a manifest is of this rank of a job of this size.
    pub fn is_ours(&self, manifest: &Manifest) -> bool {
        let own = &self.own;
        manifest.job == own.job && manifest.rank == own.rank && manifest.ranks == own.ranks
    }

    /// This rank's copies of a generation, the fastest first.
    pub fn copies(&self, generation: GenerationId) -> Vec<Reached> {
        let in_memory = self.memory.iter().flat_map(|memory| {
            let found = memory.manifests().filter(|(_, manifest)| manifest.generation == generation);
            found.map(|(slot, manifest)| Reached::new(manifest.clone(), StoredIn::Memory(memory.image_path(slot))))
        });
        let durable = self.targets().filter_map(|target| {
            let manifest = target.tier.manifest(generation, self.own.rank).ok()?;
            Some(Reached::new(manifest, StoredIn::Durable(target.kind, target.tier.clone())))
        });
        in_memory.chain(durable).filter(|copy| self.is_ours(&copy.manifest)).collect()
    }

    /// The parts of all ranks in the memory of this node. What cannot be looked at offers none.
    pub fn parts_on_node(&self) -> Vec<NodePart> {
        let opened = self.memory.as_ref().filter(|memory| memory.fault().is_none());
        let directory = self.own.memory.as_ref().filter(|_| opened.is_some());
        directory.and_then(|directory| node::parts(directory, &self.own.job).ok()).unwrap_or_default()
    }

    /// Whether there is anything of this job that one might go on from.
    pub(super) fn hold_any(&self) -> bool {
        let in_memory = |of: &Memory| of.manifests().next().is_some() || !of.unreadable().is_empty();
        self.memory.as_ref().is_some_and(in_memory)
            || self.targets().any(|target| target.tier.generations().is_ok_and(|found| !found.is_empty()))
            || self.on_node(Age::default()).is_ok_and(|found| found)
    }

    /// Whether this rank sees a checkpoint that was complete and is newer than the mark of a completed job, where it can look.
    /// That it cannot is for [`Tiers::unlooked`] to say.
    pub fn sees_complete(&self, completed: Age) -> bool {
        let mut durable = self.targets().flat_map(|target| target.tier.generations().unwrap_or_default());
        self.on_node(completed).is_ok_and(|found| found)
            || durable.any(|stored| is_marked(&stored) && !stored.age().is_past(completed))
    }

    /// Whether the memory of this node holds any checkpoint that is newer than `after` and was complete, or why that cannot
    /// be seen.
    fn on_node(&self, after: Age) -> Result<bool, String> {
        let (Some(memory), Some(directory)) = (&self.memory, &self.own.memory) else { return Ok(false) };
        match memory.fault() {
            Some(fault) => Err(fault.to_owned()),
            None => node::has_complete(directory, after).map_err(|error| error.to_string()),
        }
    }

    /// Whether a checkpoint of this number is in a tier of this rank, be it readable or not. A slot that cannot be read may hold it.
    pub fn has_number(&self, number: u64) -> bool {
        let unknown = |memory: &Memory| !memory.unreadable().is_empty();
        let mut durable = self.targets().flat_map(|target| target.tier.generations().unwrap_or_default());
        self.in_memory().any(|(_, manifest)| manifest.generation.number == number)
            || self.memory.as_ref().is_some_and(unknown)
            || durable.any(|stored| is_marked(&stored) && stored.generation.number == number)
    }

    /// What any rank cannot look at now, in words; the same on all. There may be checkpoints there.
    pub fn unlooked(&self, ranks: &Ranks, completed: Age) -> Result<Option<String>, Error> {
        let memory = self.on_node(completed).err().map(|why| format!("memory ({why})"));
        let targets = self.targets().filter_map(|target| {
            let error = target.tier.generations().err().or_else(|| target.tier.left_out())?;
            Some(format!("{} ({error})", target.kind.name()))
        });
        let own: Vec<String> = memory.into_iter().chain(targets).collect();
        let mut message = Message { sums: [u64::from(!own.is_empty()), 0], ..Message::default() };
        if !own.is_empty() {
            message.fail(ranks.rank(), &own.join(" and "));
        }
        let told = ranks.tell(message, |_| ())?;
        let others = match told.sums[0] {
            0 | 1 => String::new(),
            count => format!(", and {} more ranks cannot look at all directories", count - 1),
        };
        Ok(told.first_failure().map(|(rank, why)| format!("rank {rank} cannot look at {why}{others}")))
    }

    /// Manifests on this rank that are there and cannot be read, such as those of another version of the format, and
    /// generations that cannot be listed.
    fn unreadable(&self) -> Vec<String> {
        let mut unreadable: Vec<String> = self.memory.iter().flat_map(|memory| memory.unreadable()).cloned().collect();
        for target in self.targets() {
            let generations = target.tier.generations().unwrap_or_default();
            let errors = generations.iter().filter_map(|stored| {
                // Of a shared directory this rank reads its own part without listing those of all.
                let listed = match target.is_shared() {
                    true => Ok(()),
                    false => target.tier.ranks(stored.generation).map(drop),
                };
                listed.and_then(|()| target.tier.manifest(stored.generation, self.own.rank).map(drop)).err()
            });
            let errors = errors.filter(|error| !error.is_absence());
            unreadable.extend(errors.take(UNREADABLE_MAX).map(|error| error.to_string()));
        }
        unreadable
    }

    /// A text with what is on this rank and cannot be read.
    pub fn with_unreadable(&self, text: String, are: &str) -> String {
        let unreadable = self.unreadable();
        if unreadable.is_empty() { text } else { format!("{text}; {are}: {}", unreadable.join("; ")) }
    }

    /// Refuses to begin anew beside checkpoints that cannot be read: they would be written over.
    pub fn expect_nothing_unreadable(&self, ranks: &Ranks) -> Result<(), Error> {
        let unreadable = self.unreadable();
        let own = match unreadable.is_empty() {
            true => Ok(()),
            false => Err(self.nothing_intact(&unreadable.join("; "))),
        };
        ranks.all_or_none(own).map_err(|error| match error {
            Error::OtherRank { rank, why } => Error::NothingIntact { why: format!("rank {rank}: {why}") },
            error => error,
        })
    }

    /// Why no checkpoint comes back, where they were looked for, and what can be done.
    pub fn nothing_intact(&self, why: &str) -> Error {
        let why = format!(
            "{why}; looked in {}: `surefoot checkpoint verify` shows what is there. To give all of it up and start over, run \
             `{}`",
            self.directories(),
            self.removal()
        );
        Error::NothingIntact { why }
    }
}

/// Refuses to begin anew beside a tier that could not be looked at.
pub fn expect_nothing_unlooked(unlooked: &Option<String>) -> Result<(), Error> {
    let Some(unlooked) = unlooked else { return Ok(()) };
    let why = format!(
        "there is none where it was looked, but {unlooked}: mend that, or remove this tier from the settings to start over"
    );
    Err(Error::NothingIntact { why })
}
