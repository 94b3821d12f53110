//! What survives a lost rank or node: a copy at a partner, or parity within a group. Neither says anything to other ranks
//! than those.

pub mod parity;
pub mod partner;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::config::{Config, MemoryConfig};
use crate::generation::{Age, GenerationId, Manifest};
use crate::session::nodes::Nodes;
use crate::session::ranks::Ranks;
use crate::tier::{Memory, SlotImage};
use parity::Parity;
use partner::Partner;
use std::path::Path;

/// How a rank's checkpoints are kept by others.
pub enum Redundancy {
    /// By nobody else.
    Own,
    /// As a copy in another rank's memory.
    Partner(Partner),
    /// By parity in the memory of a group of ranks.
    Parity(Parity),
}

impl Redundancy {
    /// What is wished, if there is another rank; and from which loss it does not protect that it is there for, in a sentence,
    /// the same on all ranks. `fault` is why memory could not be opened.
    ///
    /// # Errors
    /// On all ranks, [`Error::Option`] for what is not possible; [`Error::Storage`].
    pub fn open(
        ranks: &Ranks,
        nodes: &Nodes,
        config: &Config,
        fault: Option<&str>,
    ) -> Result<(Self, Option<String>), Error> {
        if let Some(wished) = config.parity {
            config.check_redundancy()?;
            let Some(memory) = &config.memory else { return Ok((Redundancy::Own, None)) };
            let store = open_store(ranks, memory, &config.job, fault, Memory::open_for_parity)?;
            let parity = Parity::new(nodes, ranks.rank(), store, wished.data, wished.parity)?;
            let weakness = parity.weakness(nodes);
            return Ok((Redundancy::Parity(parity), weakness));
        }
        let protects_nothing = |why: &str| Ok((Redundancy::Own, Some(format!("partner=yes protects nothing: {why}"))));
        let memory = match &config.memory {
            _ if !config.partner => return Ok((Redundancy::Own, None)),
            None => return protects_nothing("it copies checkpoints in memory, and no memory tier is set"),
            Some(_) if ranks.size() == 1 => {
                return protects_nothing("this job has one rank, and there is no other to keep a copy");
            }
            Some(memory) => memory,
        };
        let store = open_store(ranks, memory, &config.job, fault, Memory::open_for_partner)?;
        let weakness = partner::weakness(nodes);
        Ok((Redundancy::Partner(Partner::new(ranks, nodes, store)), weakness))
    }

    /// Whether others keep anything.
    pub fn is_any(&self) -> bool {
        !matches!(self, Redundancy::Own)
    }

    /// What is missing where it failed, in words.
    pub fn missing(&self) -> &'static str {
        match self {
            Redundancy::Parity(_) => "no parity",
            _ => "no copy at a partner",
        }
    }

    /// Has others keep a checkpoint that all ranks have.
    ///
    /// # Errors
    /// On all ranks when it fails on one; what was kept before is as it was. [`Error::Group`].
    pub fn keep(&mut self, ranks: &Ranks, image: Result<(Manifest, SlotImage), Error>) -> Result<(), Error> {
        // A manifest that cannot be told stops all ranks here: later ones would wait for it.
        let image = image.and_then(|(manifest, image)| manifest.to_bytes().map(|_| (manifest, image)));
        match self {
            Redundancy::Own => Ok(()),
            Redundancy::Partner(partner) => {
                let (manifest, image) = ranks.all_or_none(image)?;
                partner.hand_over(ranks, &manifest, image.bytes())
            }
            Redundancy::Parity(parity) => {
                let (manifest, image) = ranks.all_or_none(image)?;
                parity.build(ranks, &manifest, image.bytes())
            }
        }
    }

    /// The parity, where there is any.
    pub fn parity(&self) -> Option<&Parity> {
        match self {
            Redundancy::Parity(parity) => Some(parity),
            _ => None,
        }
    }

    /// As [`Redundancy::parity`].
    pub fn parity_mut(&mut self) -> Option<&mut Parity> {
        match self {
            Redundancy::Parity(parity) => Some(parity),
            _ => None,
        }
    }

    /// What another release wrote into this rank's slots for others and is left alone, with what can be done.
    pub fn left_alone(&self) -> Vec<String> {
        self.store().map(Memory::left_alone_said).unwrap_or_default()
    }

    /// How new that is, as far as it says so.
    pub fn ages_left_alone(&self) -> Vec<Age> {
        let left_alone = self.store().into_iter().flat_map(Memory::left_alone);
        left_alone.filter_map(|(_, other)| other.age).collect()
    }

    /// This rank's slots for others.
    fn store(&self) -> Option<&Memory> {
        match self {
            Redundancy::Own => None,
            Redundancy::Partner(Partner { store, .. }) | Redundancy::Parity(Parity { store, .. }) => Some(store),
        }
    }

    /// Forgets what is held of newer generations than the one that all ranks came back to.
    pub fn forget_newer(&mut self, restored: GenerationId) -> Result<(), Error> {
        match self {
            Redundancy::Own => Ok(()),
            Redundancy::Partner(Partner { store, .. }) | Redundancy::Parity(Parity { store, .. }) => {
                store.forget_newer(restored)
            }
        }
    }
}

/// The slots in memory for what this rank keeps of others.
fn open_store(
    ranks: &Ranks,
    memory: &MemoryConfig,
    job: &str,
    fault: Option<&str>,
    open: fn(&Path, &str, u32, usize) -> Result<Memory, Error>,
) -> Result<Memory, Error> {
    ranks.all_or_none(match fault {
        Some(why) => Ok(Memory::unopened(&memory.directory, job, why.to_owned())),
        None => open(&memory.directory, job, ranks.rank(), memory.slots.max(2)),
    })
}
