//! Computes the parity of a checkpoint: every member gets the chunks of its stripes in pieces, and keeps its rows.

use super::layout::Role;
use super::{MEMBERS, Members, PIECE_BYTES, Parity, ROWS, Ranks, piece_of_chunk};
use crate::Error;
use crate::generation::{Manifest, RegionEntry};
use crate::image::{Protection, seal};
use crate::tier::SlotId;
use std::collections::BTreeMap;
use surefoot_ecc::{Batch, Code};

impl Parity {
    /// Computes and keeps this rank's share of the parity of a generation that all ranks have in memory. All ranks call
    /// it, with their own image; it counts on all or on none.
    ///
    /// # Errors
    /// On all ranks when it fails on one; the shares of former generations are as they were.
    pub fn build(&mut self, group: &Ranks, manifest: &Manifest, image: &[u8]) -> Result<(), Error> {
        let members = self.members(group, manifest)?;
        let ready = members.and_then(|members| {
            let (slot, held) = self.ready(manifest, &members)?;
            Ok((members, slot, held))
        });
        let chunk_bytes = ready.as_ref().map_or(0, |(members, ..)| members.chunk_bytes);
        let ((members, slot, held), longest) = group.all_and_most(ready, chunk_bytes)?;
        let rows = self.rows_of(group, &members, image, (slot, &held), longest)?;
        let sealed = group.all_or_none(rows)?;
        // From here on all ranks have theirs, and each makes its own count.
        let kept = self.store.end_receiving(slot, Manifest { table_crc32c: sealed, ..held });
        group.all_or_none(kept)
    }

    /// What the images of the group's members are. The outer error means that ranks cannot talk.
    fn members(&self, group: &Ranks, manifest: &Manifest) -> Result<Result<Members, Error>, Error> {
        let own = manifest.to_bytes()?;
        let count = self.members.len() as u32;
        let mut manifests = BTreeMap::from([(self.own, Ok(manifest.clone()))]);
        for distance in 1..self.largest {
            if distance >= count {
                // A larger group has more to tell.
                group.exchange_nothing(2)?;
                continue;
            }
            let (to, from) = ((self.own + distance) % count, (self.own + count - distance) % count);
            let theirs = group.exchange_manifest(self.members[to as usize], &own, self.members[from as usize])?;
            manifests.insert(from, theirs);
        }
        Ok(manifests.into_values().collect::<Result<Vec<Manifest>, Error>>().and_then(|all| self.members_of(all)))
    }

    fn members_of(&self, manifests: Vec<Manifest>) -> Result<Members, Error> {
        let mut members = Members { rows: self.rows, chunk_bytes: 0, manifests };
        let lengths = members.manifests.iter().map(|manifest| Ok(manifest.geometry()?.file_bytes() as u64));
        let longest = lengths.collect::<Result<Vec<u64>, Error>>()?.into_iter().max().unwrap_or(0);
        members.chunk_bytes = members.layout().chunk_bytes(longest);
        Ok(members)
    }

    /// The slot for this rank's rows, and the manifest that they get.
    fn ready(&mut self, manifest: &Manifest, members: &Members) -> Result<(SlotId, Manifest), Error> {
        let told = serde_json::to_vec(members).map_err(|error| Error::Group { why: error.to_string() })?;
        let regions = vec![
            RegionEntry { name: ROWS.into(), bytes: u64::from(self.rows) * members.chunk_bytes },
            RegionEntry { name: MEMBERS.into(), bytes: told.len() as u64 },
        ];
        let payload_bytes = regions.iter().map(|region| region.bytes).sum();
        let held =
            Manifest { regions, payload_bytes, protection: Protection::Checked, table_crc32c: 0, ..manifest.clone() };
        let slot = self.store.begin_receiving(&held)?;
        let mut room = self.store.receiving(slot, &held)?;
        let start = held.regions[0].bytes as usize;
        room.bytes_mut()[start..start + told.len()].copy_from_slice(&told);
        Ok((slot, held))
    }

    /// Fills the rows of this rank, piece by piece, and seals them. The outer error means that ranks cannot talk.
    fn rows_of(
        &mut self,
        group: &Ranks,
        members: &Members,
        image: &[u8],
        (slot, held): (SlotId, &Manifest),
        longest: u64,
    ) -> Result<Result<u32, Error>, Error> {
        let (largest, rows) = (self.largest, self.rows);
        let mut exchange = Exchange { group, members, ranks: &self.members, own: self.own, image, buffers: Vec::new() };
        let mut room = self.store.receiving(slot, held)?;
        let mut failed = None;
        let batch = Batch::new(Code::Rs19_16);
        for at in (0..longest).step_by(PIECE_BYTES as usize) {
            for row in 0..rows {
                exchange.collect(row, at, largest)?;
                let bytes = members.chunk_bytes.saturating_sub(at).min(PIECE_BYTES) as usize;
                if bytes == 0 {
                    continue;
                }
                let start = (u64::from(row) * members.chunk_bytes + at) as usize;
                let place = &mut room.bytes_mut()[start..start + bytes];
                // The symbols that the code has beyond those of the group are zeros.
                if let Err(error) = batch.encode_row(row as usize, &exchange.buffers, place) {
                    failed.get_or_insert(Error::Option { option: "parity", why: error.to_string() });
                }
            }
        }
        let sealed = held.geometry().and_then(|geometry| Ok(seal(&geometry, room.bytes_mut())?));
        Ok(failed.map_or(sealed, Err))
    }
}

/// One member's side of the exchange of chunks.
struct Exchange<'a> {
    group: &'a Ranks,
    members: &'a Members,
    ranks: &'a [u32],
    own: u32,
    image: &'a [u8],
    /// A piece of each symbol of a stripe.
    buffers: Vec<Vec<u8>>,
}

impl Exchange<'_> {
    /// Gets the pieces, from `at` on, of the chunks in the stripe of which this rank keeps a row, and gives the others
    /// theirs. All ranks make as many exchanges as the largest group needs.
    fn collect(&mut self, row: u32, at: u64, largest: u32) -> Result<(), Error> {
        let (layout, own) = (self.members.layout(), self.own);
        let bytes = self.members.chunk_bytes.saturating_sub(at).min(PIECE_BYTES) as usize;
        self.buffers.resize(layout.data() as usize, Vec::new());
        self.buffers.iter_mut().for_each(|buffer| buffer.resize(bytes, 0));
        for distance in 1..largest {
            if distance >= layout.members {
                self.group.exchange_nothing(1)?;
                continue;
            }
            let to = (own + distance) % layout.members;
            let from = (own + layout.members - distance) % layout.members;
            let sent = match layout.role(own, layout.stripe_of_row(to, row)) {
                Role::Data(chunk) => self.range(own, chunk, at),
                Role::Parity(_) => 0..0,
            };
            let (to, from_rank) = (self.ranks[to as usize], self.ranks[from as usize]);
            let sent = &self.image[sent];
            let Role::Data(chunk) = layout.role(from, layout.stripe_of_row(own, row)) else {
                self.group.exchange(to, sent, from_rank, &mut [])?;
                continue;
            };
            let mut buffer = std::mem::take(&mut self.buffers[chunk as usize]);
            buffer.resize(self.range(from, chunk, at).len(), 0);
            let mut buffer = self.group.exchange_buffer(to, sent, from_rank, buffer)?;
            // Beyond the end of a shorter image there are zeros.
            buffer.resize(bytes, 0);
            self.buffers[chunk as usize] = buffer;
        }
        Ok(())
    }

    /// Where a piece of a member's chunk lies in its image.
    fn range(&self, member: u32, chunk: u32, at: u64) -> std::ops::Range<usize> {
        let manifest = self.members.manifests.get(member as usize);
        let geometry = manifest.and_then(|manifest| manifest.geometry().ok());
        let bytes = geometry.map_or(0, |geometry| geometry.file_bytes() as u64);
        piece_of_chunk(bytes, self.members.chunk_bytes, chunk, at)
    }
}
