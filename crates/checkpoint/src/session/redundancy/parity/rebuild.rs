//! Rebuilds the images of members that are lost, from the others' images and their rows of parity.

use super::layout::{Layout, Role};
use super::{DATA_MAX, Members, PARITY_MAX, PIECE_BYTES, Parity, members, piece_of_chunk};
use crate::Error;
use crate::generation::{GenerationId, Manifest};
use crate::session::bytes::{Bytes, Held};
use crate::session::ranks::Ranks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use surefoot_ecc::{Batch, Code, Mode};

/// What a rank says before a rebuilding.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Told {
    /// Whether it needs its own image.
    needs: bool,
    /// Whether it has its own image, whole.
    has_image: bool,
    /// The ranks that share the parity of which it holds rows, and how many rows.
    shares: Option<(Vec<u32>, u32)>,
}

/// A group of which a member needs its image, as it was when that was saved.
struct Damaged {
    members: Members,
    /// By member: whether it has its image, whether it has its rows, whether it needs its image and can get it.
    has_image: Vec<bool>,
    has_rows: Vec<bool>,
    gets: Vec<bool>,
}

/// What came of it for this rank: its manifest and image, or why it cannot be rebuilt.
pub type Rebuilt = Result<(Manifest, Vec<u8>), String>;

impl Damaged {
    fn layout(&self) -> Layout {
        self.members.layout()
    }

    /// Members whose shards of a stripe are gone.
    fn lost(&self, stripe: u32) -> usize {
        let is_lost = |member: &u32| match self.layout().role(*member, stripe) {
            Role::Data(_) => !self.has_image[*member as usize],
            Role::Parity(_) => !self.has_rows[*member as usize],
        };
        (0..self.layout().members).filter(is_lost).count()
    }

    /// Whether every chunk of a member can be computed.
    fn is_within_reach(&self, member: u32) -> bool {
        let layout = self.layout();
        (0..layout.data()).all(|chunk| self.lost(layout.stripe_of_chunk(member, chunk)) <= layout.parity as usize)
    }

    fn why_not(&self) -> String {
        let images = self.has_image.iter().filter(|has| !**has).count();
        let rows = self.has_rows.iter().filter(|has| !**has).count();
        format!(
            "of the {} ranks that share parity, {images} have no image and {rows} no parity; {} may be missing of each \
             stripe",
            self.has_image.len(),
            self.members.rows
        )
    }

    fn image_bytes(&self, member: u32) -> u64 {
        let manifest = self.members.manifests.get(member as usize);
        manifest.and_then(|manifest| manifest.geometry().ok()).map_or(0, |geometry| geometry.file_bytes() as u64)
    }
}

impl Parity {
    /// Gives back the images of ranks that need theirs. Every rank says whether it needs its own, and brings it if it
    /// has it whole, and its rows of parity with their manifest. `None` where this rank needs nothing.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn give_back(
        &self,
        group: &Ranks,
        generation: GenerationId,
        needs: bool,
        image: Option<&Held>,
        rows: Option<&(Manifest, Held)>,
    ) -> Result<Option<Rebuilt>, Error> {
        let held = rows.and_then(|(manifest, rows)| {
            let is_it = manifest.generation == generation && manifest.rank == group.rank();
            members(manifest, &Bytes(rows.bytes())).ok().filter(|_| is_it)
        });
        let rows = rows.filter(|_| held.is_some()).map(|(_, rows)| rows);
        let shares = held.as_ref().map(|members| (members.ranks(), members.rows));
        let all = group.gather(&Told { needs, has_image: image.is_some() && !needs, shares })?;
        if all.iter().all(|told| !told.needs) {
            return Ok(None);
        }
        let groups = damaged(group, generation, &all, held.as_ref())?;
        let own = groups.iter().find_map(|damaged| {
            let ranks = damaged.members.ranks();
            ranks.iter().position(|&rank| rank == group.rank()).map(|member| (damaged, member as u32))
        });
        let rebuilt = exchange(group, &groups, own, image, rows)?;
        if !needs {
            return Ok(None);
        }
        Ok(Some(match (own, rebuilt) {
            (Some((damaged, member)), Some(image)) => Ok((damaged.members.manifests[member as usize].clone(), image)),
            (Some((damaged, _)), None) => Err(damaged.why_not()),
            (None, _) => Err("no rank holds parity of it".into()),
        }))
    }
}

/// The groups in which a member needs its image, the same on all ranks: as those say that hold rows of them.
fn damaged(
    group: &Ranks,
    generation: GenerationId,
    all: &[Told],
    held: Option<&Members>,
) -> Result<Vec<Damaged>, Error> {
    let mut shares: Vec<(Vec<u32>, u32)> = Vec::new();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for (ranks, rows) in all.iter().filter_map(|told| told.shares.clone()) {
        let is_needed = ranks.iter().any(|&rank| all.get(rank as usize).is_some_and(|told| told.needs));
        // A rank is in one group; what says otherwise is not believed.
        if is_needed && !shares.contains(&(ranks.clone(), rows)) && ranks.iter().all(|rank| seen.insert(*rank)) {
            shares.push((ranks, rows));
        }
    }
    // The first that holds rows of each group tells what all members' images were.
    let teller = |share: &(Vec<u32>, u32)| all.iter().position(|told| told.shares.as_ref() == Some(share));
    let tellers: Vec<Option<usize>> = shares.iter().map(teller).collect();
    let is_teller = tellers.contains(&Some(group.rank() as usize));
    let told: Vec<Option<Members>> = group.gather(&held.filter(|_| is_teller).cloned())?;
    let mut groups = Vec::new();
    for (share, teller) in shares.iter().zip(tellers) {
        let members: Option<Members> = teller.and_then(|teller| told.get(teller).cloned().flatten());
        let Some(members) = members.filter(|members| members.check(generation).is_ok() && members.ranks() == share.0)
        else {
            continue;
        };
        let of = |is: &dyn Fn(&Told) -> bool| -> Vec<bool> {
            share.0.iter().map(|&rank| all.get(rank as usize).is_some_and(is)).collect()
        };
        let mut damaged = Damaged {
            has_image: of(&|told| told.has_image),
            has_rows: of(&|told| told.shares.as_ref() == Some(share)),
            gets: Vec::new(),
            members,
        };
        let needs = of(&|told| told.needs);
        damaged.gets = (0..).zip(needs).map(|(member, needs)| needs && damaged.is_within_reach(member)).collect();
        groups.push(damaged);
    }
    Ok(groups)
}

/// Has every member that can get its image get it. All ranks make the same number of exchanges, whether they have
/// anything to do with them or not.
fn exchange(
    group: &Ranks,
    groups: &[Damaged],
    own: Option<(&Damaged, u32)>,
    image: Option<&Held>,
    rows: Option<&Held>,
) -> Result<Option<Vec<u8>>, Error> {
    let at_work = || groups.iter().filter(|damaged| damaged.gets.contains(&true));
    let chunks = at_work().map(|damaged| damaged.layout().data()).max().unwrap_or(0);
    let longest = at_work().map(|damaged| damaged.members.chunk_bytes).max().unwrap_or(0);
    let largest = at_work().map(|damaged| damaged.layout().members).max().unwrap_or(0);
    let own = own.filter(|(damaged, _)| damaged.gets.contains(&true));
    let mut member = own.map(|(damaged, number)| Member {
        group,
        damaged,
        number,
        ranks: damaged.members.ranks(),
        image,
        rows,
        shards: Vec::new(),
        rebuilt: match damaged.gets[number as usize] {
            true => Some(vec![0; damaged.image_bytes(number) as usize]),
            false => None,
        },
    });
    for chunk in 0..chunks {
        for at in (0..longest).step_by(PIECE_BYTES as usize) {
            let has_part =
                |member: &Member<'_>| chunk < member.damaged.layout().data() && at < member.damaged.members.chunk_bytes;
            match member.as_mut().filter(|member| has_part(member)) {
                Some(member) => member.piece(chunk, at, largest)?,
                None => group.exchange_nothing(largest.saturating_sub(1))?,
            }
        }
    }
    Ok(member.and_then(|member| member.rebuilt))
}

/// One member's side of a rebuilding.
struct Member<'a> {
    group: &'a Ranks,
    damaged: &'a Damaged,
    number: u32,
    ranks: Vec<u32>,
    image: Option<&'a Held>,
    rows: Option<&'a Held>,
    shards: Vec<Vec<u8>>,
    rebuilt: Option<Vec<u8>>,
}

impl Member<'_> {
    /// Exchanges a piece of the stripe of this chunk of every member that gets its image, and computes its own.
    fn piece(&mut self, chunk: u32, at: u64, largest: u32) -> Result<(), Error> {
        let layout = self.damaged.layout();
        let bytes = self.damaged.members.chunk_bytes.saturating_sub(at).min(PIECE_BYTES) as usize;
        let is_ours = self.rebuilt.is_some();
        if is_ours {
            self.shards.resize((DATA_MAX + PARITY_MAX) as usize, Vec::new());
            for shard in &mut self.shards {
                shard.clear();
                shard.resize(bytes, 0);
            }
        }
        for distance in 1..largest {
            if distance >= layout.members {
                self.group.exchange_nothing(1)?;
                continue;
            }
            let mut shards = std::mem::take(&mut self.shards);
            let to = (self.number + distance) % layout.members;
            let from = (self.number + layout.members - distance) % layout.members;
            let sent: &[u8] = match self.damaged.gets[to as usize] {
                true => self.shard(layout.stripe_of_chunk(to, chunk), at, bytes),
                false => &[],
            };
            let stripe = layout.stripe_of_chunk(self.number, chunk);
            let (symbol, length) = if is_ours { self.expected(from, stripe, at, bytes) } else { (0, 0) };
            let (to, from) = (self.ranks[to as usize], self.ranks[from as usize]);
            let mut none = [];
            let place = shards.get_mut(symbol).and_then(|shard| shard.get_mut(..length)).unwrap_or(&mut none);
            let done = self.group.exchange(to, sent, from, place);
            self.shards = shards;
            done?;
        }
        self.compute(chunk, at);
        Ok(())
    }

    /// This member's shard of a stripe, as far as it has it.
    fn shard(&self, stripe: u32, at: u64, bytes: usize) -> &[u8] {
        let chunk_bytes = self.damaged.members.chunk_bytes;
        match self.damaged.layout().role(self.number, stripe) {
            Role::Data(chunk) => self.image.map_or(&[], |image| {
                let image = image.bytes();
                &image[piece_of_chunk(image.len() as u64, chunk_bytes, chunk, at)]
            }),
            Role::Parity(row) => self.rows.map_or(&[], |rows| {
                let start = (u64::from(row) * chunk_bytes + at) as usize;
                rows.bytes().get(start..start + bytes).unwrap_or(&[])
            }),
        }
    }

    /// Which symbol of a stripe another member sends, and how much of it.
    fn expected(&self, from: u32, stripe: u32, at: u64, bytes: usize) -> (usize, usize) {
        let chunk_bytes = self.damaged.members.chunk_bytes;
        match self.damaged.layout().role(from, stripe) {
            Role::Data(chunk) if self.damaged.has_image[from as usize] => {
                let range = piece_of_chunk(self.damaged.image_bytes(from), chunk_bytes, chunk, at);
                (chunk as usize, range.len())
            }
            Role::Parity(row) if self.damaged.has_rows[from as usize] => ((DATA_MAX + row) as usize, bytes),
            _ => (0, 0),
        }
    }

    /// Computes the piece of this member's chunk from what came.
    fn compute(&mut self, chunk: u32, at: u64) {
        let (layout, damaged) = (self.damaged.layout(), self.damaged);
        let Some(rebuilt) = &mut self.rebuilt else { return };
        let stripe = layout.stripe_of_chunk(self.number, chunk);
        let mut erased: Vec<usize> = (layout.parity..PARITY_MAX).map(|row| (DATA_MAX + row) as usize).collect();
        erased.extend((0..layout.members).filter_map(|member| match layout.role(member, stripe) {
            Role::Data(symbol) if !damaged.has_image[member as usize] => Some(symbol as usize),
            Role::Parity(row) if !damaged.has_rows[member as usize] => Some((DATA_MAX + row) as usize),
            _ => None,
        }));
        // What was bad in a shard makes bad pages here, which the image's own code repairs, or its table refuses.
        let _ = Batch::new(Code::Rs19_16).repair(&mut self.shards, &erased, Mode::Detect);
        let range = piece_of_chunk(rebuilt.len() as u64, damaged.members.chunk_bytes, chunk, at);
        let length = range.len();
        rebuilt[range].copy_from_slice(&self.shards[chunk as usize][..length]);
    }
}
