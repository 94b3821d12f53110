//! Computes the parity of a checkpoint: every member gets the chunks of its stripes in pieces, and keeps its rows.

use super::layout::Role;
use super::{MEMBERS, Members, PIECE_BYTES, Parity, ROWS, agreement, piece_of_chunk};
use crate::generation::{Manifest, RegionEntry};
use crate::image::{Protection, seal};
use crate::tier::SlotId;
use crate::{Error, Group};
use surefoot_ecc::{Batch, Code};

impl Parity {
    /// Computes and keeps this rank's share of the parity of a generation that all ranks have in memory. All ranks call
    /// it, with their own image; it counts on all or on none.
    ///
    /// # Errors
    /// On all ranks when it fails on one; the shares of former generations are as they were.
    pub(in super::super) fn build(
        &mut self,
        group: &dyn Group,
        manifest: &Manifest,
        image: &[u8],
    ) -> Result<(), Error> {
        let all = group.gather_all(&manifest.to_bytes()?)?;
        let members = self.members_of(group, &all);
        let members = agreement::all_or_none(group, members)?;
        let ready = self.ready(manifest, &members);
        let (slot, held) = agreement::all_or_none(group, ready)?;
        let rows = self.rows_of(group, &members, image, slot, &held)?;
        let sealed = agreement::all_or_none(group, rows)?;
        // From here on all ranks have theirs, and each makes its own count.
        let kept = self.store.end_receiving(slot, Manifest { table_crc32c: sealed, ..held });
        agreement::all_or_none(group, kept)
    }

    fn members_of(&self, group: &dyn Group, all: &[Vec<u8>]) -> Result<Members, Error> {
        let nowhere = || Error::Group { why: "this rank is in no group".into() };
        let (ranks, _) = self.own(group.rank()).ok_or_else(nowhere)?;
        let read = |&rank: &u32| {
            let bytes = all.get(rank as usize).map_or(&[][..], Vec::as_slice);
            Manifest::from_bytes(bytes)
                .map_err(|why| Error::Group { why: format!("rank {rank} sent a manifest: {why}") })
        };
        let manifests = ranks.iter().map(read).collect::<Result<Vec<Manifest>, Error>>()?;
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
        group: &dyn Group,
        members: &Members,
        image: &[u8],
        slot: SlotId,
        held: &Manifest,
    ) -> Result<Result<u32, Error>, Error> {
        let largest = self.groups.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let longest = agreement::most(group, members.chunk_bytes)?;
        let Some((ranks, own)) = self.own(group.rank()) else {
            return Err(Error::Group { why: "this rank is in no group".into() });
        };
        let (ranks, rows) = (ranks.to_vec(), self.rows);
        let mut exchange = Exchange { group, members, ranks: &ranks, own, image, buffers: Vec::new() };
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
        let sealed = held.geometry().and_then(|geometry| seal(&geometry, room.bytes_mut()));
        Ok(failed.map_or(sealed, Err))
    }
}

/// One member's side of the exchange of chunks.
struct Exchange<'a> {
    group: &'a dyn Group,
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
        let rank = self.group.rank();
        for distance in 1..largest {
            if distance >= layout.members {
                self.group.exchange(rank, &[], rank, &mut [])?;
                continue;
            }
            let to = (own + distance) % layout.members;
            let from = (own + layout.members - distance) % layout.members;
            let sent = match layout.role(own, layout.stripe_of_row(to, row)) {
                Role::Data(chunk) => self.range(own, chunk, at),
                Role::Parity(_) => 0..0,
            };
            let mut none = [];
            let place = match layout.role(from, layout.stripe_of_row(own, row)) {
                Role::Data(chunk) => {
                    let received = self.range(from, chunk, at).len();
                    let (place, rest) = self.buffers[chunk as usize].split_at_mut(received);
                    // Beyond the end of a shorter image there are zeros, not what was here before.
                    rest.fill(0);
                    place
                }
                Role::Parity(_) => &mut none,
            };
            self.group.exchange(self.ranks[to as usize], &self.image[sent], self.ranks[from as usize], place)?;
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
