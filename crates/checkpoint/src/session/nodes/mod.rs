//! Ranks and the nodes that they run on. A rank need not run where it ran when it saved: another order of the nodes, a spare
//! one among them, or fewer ranks on each, and its part lies in the memory or on the drive of a node on which others run now.
//!
//! Which parts are within reach all the same is in the module `reach`. What lies on no node of the job is not lost silently:
//! each tier keeps a small file that says on which nodes the runs of the job saved (`placement`), and a restart that finds
//! nothing whole names these nodes and refuses.

mod placement;
#[cfg(test)]
mod tests;

pub(crate) use placement::{WasComplete, may_be_placement, ranks_here, was_complete};

use crate::Error;
use crate::config::Config;
use crate::session::ranks::{Ranks, digest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_model::CheckpointTier as Tier;

/// The longest name of a node that is told and written down.
const NAME_BYTES_MAX: usize = 64;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Host {
    /// What people call it.
    name: String,
    /// What tells it from others until it boots again, whatever containers on it are called.
    id: String,
}

impl Host {
    /// As it may stand in a message.
    fn plain(name: &str, id: &str) -> Self {
        let plain = |text: &str| -> String {
            text.chars().filter(|letter| !letter.is_control()).take(NAME_BYTES_MAX).collect()
        };
        let (name, id) = (plain(name), plain(id));
        Host { name: if name.is_empty() { "an unnamed node".into() } else { name }, id }
    }
}

/// Bytes that tell one directory of a node from another.
const PLACE_BYTES: usize = 16;

/// What tells a directory from others of its node, whatever path leads there: in another container the same path may be another
/// one, and another path the same. One that cannot be looked at is known by its path.
fn place(directory: &Path) -> [u8; PLACE_BYTES] {
    let [device, number] = match std::fs::metadata(directory) {
        Ok(found) => [found.dev(), found.ino()],
        Err(_) => [u64::MAX, digest(directory.as_os_str().as_bytes())],
    };
    let mut bytes = [0; PLACE_BYTES];
    bytes[..8].copy_from_slice(&device.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The nodes of a job, which rank runs on which, and this rank's place among them.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    all: Vec<Host>,
    /// The number of each rank's node, from 0 in the order of their first ranks.
    of_ranks: Vec<u32>,
    /// This rank.
    own: u32,
    /// Whether this rank is the first of those whose checkpoints lie in the same directory: in memory, and on the SSD. Ranks
    /// of one node need not have the same ones, as in containers, or with a drive for each.
    is_first_in_memory: bool,
    is_first_on_ssd: bool,
    /// What is written down of this run beside its checkpoints.
    written: placement::WrittenDown,
    /// Directories on SSDs that ranks have, of all nodes.
    pub(super) ssd_count: usize,
    /// Ranks on this one's.
    pub(super) ranks_here: usize,
}

impl Nodes {
    /// Asks all ranks where they run. `id` tells nodes apart, `name` is what people call this one. It is the only time
    /// that every rank hears something of each other one while a job runs on: a hundred bytes of each, at the start.
    pub(super) fn of(ranks: &Ranks, id: &str, name: &str, config: &Config) -> Result<Self, Error> {
        let mut end = name.len().min(NAME_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let places = [
            config.memory.as_ref().map(|memory| &memory.directory),
            config.durable.as_ref().map(|durable| &durable.directory),
        ];
        let [memory, ssd] = places.map(|directory| directory.map_or([0; PLACE_BYTES], |directory| place(directory)));
        let all = ranks.gather_all(&[&memory, &ssd, id.as_bytes(), &[0], &name.as_bytes()[..end]].concat())?;
        let mut numbers: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut nodes = Nodes { own: ranks.rank(), ..Nodes::default() };
        let (mut in_memory, mut on_ssds) = (Vec::new(), Vec::new());
        for message in &all {
            let short = || Error::Group { why: "a rank said where it runs in a way that cannot be read".into() };
            let (places, message) = message.split_at_checked(2 * PLACE_BYTES).ok_or_else(short)?;
            let mut halves = message.splitn(2, |byte| *byte == 0);
            let (id, name) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
            let number = *numbers.entry(id).or_insert_with(|| {
                nodes.all.push(Host::plain(&String::from_utf8_lossy(name), &String::from_utf8_lossy(id)));
                nodes.all.len() as u32 - 1
            });
            nodes.of_ranks.push(number);
            in_memory.push((number, places[..PLACE_BYTES].to_vec()));
            on_ssds.push((number, places[PLACE_BYTES..].to_vec()));
        }
        let own = nodes.own as usize;
        let is_first = |of: &[(u32, Vec<u8>)]| of.iter().position(|place| Some(place) == of.get(own)) == Some(own);
        (nodes.is_first_in_memory, nodes.is_first_on_ssd) = (is_first(&in_memory), is_first(&on_ssds));
        nodes.ssd_count = on_ssds.iter().collect::<BTreeSet<_>>().len();
        let here = nodes.of_ranks.get(own).copied();
        nodes.ranks_here = nodes.of_ranks.iter().filter(|of| Some(**of) == here).count();
        Ok(nodes)
    }

    /// Whether this rank is the first of those whose checkpoints lie in the same directory of a tier.
    pub(super) fn is_first_at(&self, tier: Tier) -> bool {
        match tier {
            Tier::Memory => self.is_first_in_memory,
            Tier::Durable => self.is_first_on_ssd,
            Tier::Shared => self.own == 0,
        }
    }

    /// Whether there are several.
    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// What people call this rank's node.
    fn own_name(&self) -> &str {
        self.name_of(self.own)
    }

    /// What people call the node of a rank.
    pub(super) fn name_of(&self, rank: u32) -> &str {
        self.all.get(self.of_rank(rank) as usize).map_or("an unknown node", |node| &node.name)
    }

    /// By rank, the number of its node.
    pub(super) fn of_ranks(&self) -> &[u32] {
        &self.of_ranks
    }

    /// The number of a rank's node.
    pub(super) fn of_rank(&self, rank: u32) -> u32 {
        self.of_ranks.get(rank as usize).copied().unwrap_or(u32::MAX)
    }

    /// Whether a node of an earlier run is one of these: under its name after a boot, under its number in a new container.
    fn has(&self, node: &Host) -> bool {
        self.all.iter().any(|known| known.name == node.name || known.id == node.id)
    }
}
