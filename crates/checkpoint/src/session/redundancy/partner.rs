//! A copy of each rank's checkpoint in another rank's memory, so that a node may be lost with what it held. A restart finds
//! the copies as any other part that is not where its rank runs; see the module `nodes`.

use crate::Error;
use crate::generation::{GenerationId, Manifest};
use crate::session::nodes::Nodes;
use crate::session::ranks::Ranks;
use crate::tier::Memory;
use std::collections::BTreeMap;

/// Bytes that go between two ranks at once: as many as stay in a core's cache between two copies, and enough for a
/// network.
const PIECE_BYTES: usize = 256 << 10;

/// What this rank holds for another, and who holds for it.
pub(in crate::session) struct Partner {
    store: Memory,
    /// Who gets this rank's copy.
    holder: u32,
    /// Whose copy this rank gets.
    owner: u32,
}

impl Partner {
    /// Finds the partner: the rank as many further as the fullest node has ranks, so that where ranks are placed node by
    /// node it is on another one.
    pub(in crate::session) fn new(ranks: &Ranks, nodes: &Nodes, store: Memory) -> Self {
        let mut ranks_of_node: BTreeMap<u32, u32> = BTreeMap::new();
        for &node in nodes.of_ranks() {
            *ranks_of_node.entry(node).or_default() += 1;
        }
        let (rank, size) = (ranks.rank(), ranks.size());
        let fullest = ranks_of_node.values().copied().max().unwrap_or(1);
        // On one node alone there is no better place than the next rank.
        let distance = if fullest < size { fullest } else { 1 };
        Partner { store, holder: (rank + distance) % size, owner: (rank + size - distance) % size }
    }

    /// Gives this rank's image to its holder, and takes the owner's; the same generation for all.
    pub(in crate::session) fn hand_over(
        &mut self,
        ranks: &Ranks,
        manifest: &Manifest,
        image: &[u8],
    ) -> Result<(), Error> {
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

    /// Forgets what is held of newer generations than the one that all ranks came back to.
    pub(in crate::session) fn forget_newer(&mut self, restored: GenerationId) -> Result<(), Error> {
        self.store.forget_newer(restored)
    }
}
