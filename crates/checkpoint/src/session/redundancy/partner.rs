//! A copy of each rank's checkpoint in another rank's memory, so that a node may be lost with what it held. A restart finds
//! the copies as any other part that is not where its rank runs; see the module `nodes`.

use crate::Error;
use crate::generation::Manifest;
use crate::session::nodes::Nodes;
use crate::session::ranks::{Ranks, ranks_in_words};
use crate::tier::Memory;
use std::collections::BTreeMap;

/// Bytes that go between two ranks at once: as many as stay in a core's cache between two copies, and enough for a
/// network.
const PIECE_BYTES: usize = 256 << 10;

/// What this rank holds for another, and who holds for it.
pub struct Partner {
    pub(super) store: Memory,
    /// Who gets this rank's copy.
    holder: u32,
    /// Whose copy this rank gets.
    owner: u32,
}

/// How many ranks further the holder of a rank's copy is.
fn distance(of_ranks: &[u32]) -> u32 {
    let mut ranks_of_node: BTreeMap<u32, u32> = BTreeMap::new();
    for &node in of_ranks {
        *ranks_of_node.entry(node).or_default() += 1;
    }
    let fullest = ranks_of_node.values().copied().max().unwrap_or(1);
    // On one node alone there is no better place than the next rank.
    if (fullest as usize) < of_ranks.len() { fullest } else { 1 }
}

/// Which ranks lose their copy with their own node.
fn unprotected(of_ranks: &[u32]) -> Vec<u32> {
    let (distance, size) = (distance(of_ranks) as usize, of_ranks.len());
    (0..size).filter(|&rank| of_ranks[rank] == of_ranks[(rank + distance) % size]).map(|rank| rank as u32).collect()
}

/// Says which ranks a partner does not protect from the loss of a node.
pub fn weakness(nodes: &Nodes) -> Option<String> {
    let unprotected = unprotected(nodes.of_ranks());
    if !nodes.are_several() {
        return Some(format!(
            "partner=yes does not protect from the loss of a node: all {} ranks and their copies are on {}. Start ranks on \
             a second node, or set shared",
            nodes.of_ranks().len(),
            nodes.name_of(0)
        ));
    }
    (!unprotected.is_empty()).then(|| {
        format!(
            "partner=yes does not protect {} from the loss of a node: the copy is on the same node. Start as many ranks on \
             each node, node by node",
            ranks_in_words(&unprotected)
        )
    })
}

impl Partner {
    /// Finds the partner: the rank as many further as the fullest node has ranks, so that where ranks are placed node by
    /// node it is on another one.
    pub fn new(ranks: &Ranks, nodes: &Nodes, store: Memory) -> Self {
        let (rank, size, distance) = (ranks.rank(), ranks.size(), distance(nodes.of_ranks()));
        Partner { store, holder: (rank + distance) % size, owner: (rank + size - distance) % size }
    }

    /// Gives this rank's image to its holder, and takes the owner's; the same generation for all.
    pub fn hand_over(&mut self, ranks: &Ranks, manifest: &Manifest, image: &[u8]) -> Result<(), Error> {
        let theirs = ranks.exchange_manifest(self.holder, &manifest.to_bytes()?, self.owner)?;
        let room = theirs.and_then(|theirs| {
            let (slot, bytes) = (self.store.begin_receiving(&theirs)?, theirs.geometry()?.file_bytes());
            Ok((self.store.receiving(slot, &theirs)?, bytes, slot, theirs))
        });
        let longest = image.len().max(room.as_ref().map_or(0, |(_, bytes, ..)| *bytes));
        let ((mut room, _, slot, theirs), longest) = ranks.all_and_most(room, longest as u64)?;
        let received = room.bytes_mut();
        // Images differ in length; all ranks make as many calls as the longest needs.
        for start in (0..longest as usize).step_by(PIECE_BYTES) {
            let range = |length: usize| start.min(length)..(start + PIECE_BYTES).min(length);
            let piece = range(received.len());
            ranks.exchange(self.holder, &image[range(image.len())], self.owner, &mut received[piece])?;
        }
        self.store.end_receiving(slot, theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_the_copy_with_the_node_is_known() {
        assert!(unprotected(&[0, 0, 1, 1]).is_empty());
        assert_eq!(unprotected(&[0, 1, 0, 1]), [0, 1, 2, 3], "dealt out in turns");
        assert_eq!(unprotected(&[0, 0, 1]), [1], "rank 1's holder is rank 0");
        assert_eq!(unprotected(&[0, 0, 0]), [0, 1, 2]);
        assert!(unprotected(&[0, 1, 2]).is_empty());
    }
}
