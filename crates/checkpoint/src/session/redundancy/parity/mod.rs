//! Parity between ranks: any M of a group's members may be lost with all that they held, at a cost in memory of M/K
//! instead of the whole copy that a partner keeps.
//!
//! Which ranks share parity, and how it is spread over them, is in the module `layout`. What a rank holds lies in slots
//! of its own, as images without parity of their own: a bad page there becomes a bad page of what is rebuilt from it,
//! which that image's own code repairs.
//!
//! Two phases: all members compute, and only when all have, each writes the manifest that makes its share count. The
//! shares of the generation before are in another slot. So a kill at any point leaves one of the two whole.

mod build;
mod layout;
mod rebuild;
#[cfg(test)]
mod tests;

pub use layout::{DATA_MAX, PARITY_MAX};

use crate::generation::{GenerationId, Manifest};
use crate::image::Healer;
use crate::session::nodes::Nodes;
use crate::session::ranks::Ranks;
use crate::tier::{Memory, SlotId, SlotImage};
use crate::{Error, StoredFile};
use layout::Layout;
use serde::{Deserialize, Serialize};

/// Bytes that go between two ranks at once: as many as stay in a core's cache from the copy to the sum, and enough for
/// a network.
const PIECE_BYTES: u64 = 256 << 10;

/// The regions of what is held: rows of parity one after the other, and what they are of.
const ROWS: &str = "parity";
const MEMBERS: &str = "members";

/// Parity between the ranks of one group.
pub struct Parity {
    pub(super) store: Memory,
    rows: u32,
    /// The ranks that share parity with this one, as they lie on machines now, and this one's number among them. What
    /// was saved before says itself which ranks shared it.
    members: Vec<u32>,
    own: u32,
    /// Members of the largest group of all.
    largest: u32,
    /// The most members of any group that run on one node.
    most_together: u32,
}

/// What some rows of parity are of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Members {
    /// Rows of parity.
    rows: u32,
    /// Bytes of a chunk, and of a row.
    chunk_bytes: u64,
    /// The manifests of the members' images, in the order of the members.
    manifests: Vec<Manifest>,
}

impl Members {
    fn ranks(&self) -> Vec<u32> {
        self.manifests.iter().map(|manifest| manifest.rank).collect()
    }

    fn layout(&self) -> Layout {
        Layout { members: self.manifests.len() as u32, parity: self.rows }
    }

    /// Refuses what no rank would have written, so that nothing that follows runs astray.
    fn check(&self, generation: GenerationId) -> Result<(), String> {
        let count = self.manifests.len() as u32;
        if !(1..=PARITY_MAX).contains(&self.rows) || count <= self.rows || count > DATA_MAX + self.rows {
            return Err(format!("{} members with {} rows of parity are not possible", count, self.rows));
        }
        let mut longest = 0;
        for manifest in &self.manifests {
            if manifest.generation != generation {
                return Err("its members are of several generations".into());
            }
            longest = longest.max(manifest.geometry().map_err(|error| error.to_string())?.file_bytes() as u64);
        }
        let mut ranks = self.ranks();
        ranks.sort_unstable();
        ranks.dedup();
        if ranks.len() as u32 != count || self.chunk_bytes != self.layout().chunk_bytes(longest) {
            return Err("its members do not fit together".into());
        }
        Ok(())
    }
}

impl Parity {
    /// Puts the ranks into groups.
    ///
    /// # Errors
    /// [`Error::Option`] on all ranks when there are not enough of them.
    pub fn new(nodes: &Nodes, rank: u32, store: Memory, data: u32, rows: u32) -> Result<Self, Error> {
        let refuse = |why| Error::Option { option: "parity", why };
        let groups = layout::groups(nodes.of_ranks(), data, rows).map_err(refuse)?;
        let largest = groups.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let together = |members: &Vec<u32>, node: u32| {
            members.iter().filter(|&&member| nodes.of_rank(member) == node).count() as u32
        };
        let most_together = groups
            .iter()
            .flat_map(|members| members.iter().map(|&member| together(members, nodes.of_rank(member))))
            .max()
            .unwrap_or(0);
        let own = groups.into_iter().find_map(|members| {
            let own = members.iter().position(|&member| member == rank)?;
            Some((members, own as u32))
        });
        let (members, own) = own.ok_or_else(|| refuse("this rank is in no group".into()))?;
        Ok(Parity { store, rows, members, own, largest, most_together })
    }

    /// Says that the loss of one node may take more members of a group than parity makes good.
    pub fn weakness(&self, nodes: &Nodes) -> Option<String> {
        let (rows, most) = (self.rows, self.most_together);
        if most <= rows {
            return None;
        }
        let may = if rows == 1 { "1 may be lost".to_owned() } else { format!("{rows} may be lost") };
        Some(match nodes.are_several() {
            true => format!(
                "parity does not protect from the loss of every node: {most} of the ranks that share parity are on one \
                 node, and {may}. Start more nodes with fewer ranks each, or ask for less data to a stripe"
            ),
            false => format!(
                "parity does not protect from the loss of a node: all {} ranks are on {}, and {may}. Start ranks on more \
                 nodes, or set shared",
                nodes.of_ranks().len(),
                nodes.name_of(0)
            ),
        })
    }

    /// This rank's rows of the parity of a generation, where it runs.
    pub fn own_rows(&mut self, generation: GenerationId, rank: u32) -> Option<(Manifest, SlotImage)> {
        let is_it = |(_, manifest): &(SlotId, &Manifest)| manifest.generation == generation && manifest.rank == rank;
        let (slot, manifest) = self.store.manifests().find(is_it).map(|(slot, manifest)| (slot, manifest.clone()))?;
        Some((manifest, self.store.image(slot).ok()?))
    }
}

/// The ranks of which a file that a rank keeps for its group has rows.
pub fn members_of(manifest: &Manifest, file: &dyn StoredFile) -> Result<Vec<u32>, String> {
    members(manifest, file).map(|members| members.ranks())
}

/// What the rows in a file are of.
fn members(manifest: &Manifest, file: &dyn StoredFile) -> Result<Members, String> {
    let [rows, told] = &manifest.regions[..] else { return Err("it does not hold parity".into()) };
    if rows.name != ROWS || told.name != MEMBERS {
        return Err("it does not hold parity".into());
    }
    let geometry = manifest.geometry().map_err(|error| error.to_string())?;
    let mut healer = Healer::open(geometry, file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
    let mut text = Vec::new();
    let range = rows.bytes..rows.bytes + told.bytes;
    healer.read_range(range, &mut |_, piece| text.extend_from_slice(piece)).map_err(|lost| lost.to_string())?;
    let members: Members = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    members.check(manifest.generation)?;
    let is_fit = rows.bytes == u64::from(members.rows).saturating_mul(members.chunk_bytes)
        && members.ranks().contains(&manifest.rank);
    if is_fit { Ok(members) } else { Err("its rows do not fit its members".into()) }
}

/// The part of a chunk of an image that is one piece: from where in the image, and how long. Beyond the image's end
/// there are zeros, which are not sent.
fn piece_of_chunk(image_bytes: u64, chunk_bytes: u64, chunk: u32, at: u64) -> std::ops::Range<usize> {
    let start = (u64::from(chunk) * chunk_bytes + at).min(image_bytes);
    let end = (start + PIECE_BYTES.min(chunk_bytes.saturating_sub(at))).min(image_bytes);
    start as usize..end as usize
}
