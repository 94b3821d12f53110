//! A restart with another number of ranks than saved: N saved, M restart.
//!
//! All M ranks agree on one generation whose N parts are all within reach of some of them: in the memory of a node, on a
//! node's SSD, in the shared directory. Each part is proved by one of the ranks that reach it, read to its end with its
//! checksums and repaired, before anything of it is used. Then every rank may read any part of any of them, from who
//! proved it ([`crate::Checkpointer::read_resized`]), or has its regions and files filled by their names
//! ([`crate::Checkpointer::restart_resized`]; the module `place` has the rules).
//!
//! Old and new parts keep out of each other's way: a part belongs to a generation with its random number, its time and
//! its number of ranks, and is only put together with others that say the same. The slots of the old ranks are written
//! over when a newer generation is complete, as ever, and those of ranks that are no more are given back after the second
//! checkpoint.

mod place;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::generation::{GenerationId, Key, Manifest, RegionEntry};
use crate::image::Healer;
use crate::session::files::Files;
use crate::session::nodes::Nodes;
use crate::session::outcomes::Restored;
use crate::session::ranks::{Ranks, told_on_all};
use crate::session::reach::{Inventory, Wish, fetch};
use crate::session::regions::Regions;
use crate::session::tiers::Reached;
use place::Plan;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most ranks that are asked to prove one part.
const PROVERS_MAX: usize = 16;

/// Bytes that are compared at once where a region is to be the same on all ranks.
const COMPARED_BYTES: u64 = 1 << 20;

/// A checkpoint of any number of ranks, proved intact, from which all ranks of this job may read.
pub struct Resized {
    /// Which.
    pub generation: GenerationId,
    /// How many ranks saved it.
    pub ranks: u32,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds.
    pub taken_realtime_ns: u64,
    /// What this rank met while it proved its share of the parts. One line.
    pub report: String,
    /// By the rank that saved it.
    parts: Vec<Manifest>,
    /// Who proved each part, and gives of it.
    servers: Vec<u32>,
    /// The parts that this rank proved.
    mine: BTreeMap<u32, Reached>,
}

/// A stretch of a region, or of a routed file, of one of the ranks that saved; and room for it.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The rank that saved it.
    pub rank: u32,
    /// The region's name; of a routed file `file:` and its name.
    pub name: &'a str,
    /// From where in it.
    pub offset: u64,
    /// Room for as many bytes as are wanted.
    pub into: &'a mut [u8],
}

impl Resized {
    /// What there is: the rank that saved it, the name of the region, or `file:` and that of the routed file, and its
    /// length; by rank, in the order in which each rank registered them.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &str, u64)> {
        self.parts
            .iter()
            .flat_map(|part| part.regions.iter().map(|entry| (part.rank, entry.name.as_str(), entry.bytes)))
    }

    /// Has every part of a generation proved by a rank that reaches it; says why where one cannot be.
    pub(super) fn prove(
        inventory: &Inventory,
        ranks: &Ranks,
        nodes: &Nodes,
        key: Key,
    ) -> Result<Result<Self, String>, Error> {
        // That every part is within reach of somebody was found before, so there are no more parts than files.
        let wanted: Vec<u32> = (0..key.ranks).collect();
        let proved = inventory.prove_parts(ranks, nodes, key, &wanted, PROVERS_MAX)?;
        if proved.parts.len() != wanted.len() {
            let mut refused: Vec<String> =
                proved.refused.into_iter().map(|(part, why)| format!("rank {part}'s part: {why}")).collect();
            refused.sort();
            refused.dedup();
            return Ok(Err(refused.join(", ")));
        }
        let report: Vec<String> = proved
            .mine
            .keys()
            .filter_map(|part| Some(format!("rank {part}'s part {}", proved.parts.get(part)?.2)))
            .collect();
        let report = format!(
            "rank {}: generation {} of {} ranks: {}",
            ranks.rank(),
            key.generation.number,
            key.ranks,
            if report.is_empty() { "proved by others".to_owned() } else { report.join(", ") }
        );
        let (servers, mine) = (proved.servers(key.ranks), proved.mine);
        let parts = proved.parts.into_values().map(|(manifest, ..)| manifest).collect();
        let Key { generation, ranks, taken_realtime_ns, .. } = key;
        Ok(Ok(Resized { generation, ranks, taken_realtime_ns, report, parts, servers, mine }))
    }

    /// Reads pieces of what the old ranks saved. Collective.
    ///
    /// # Errors
    /// On all ranks, [`Error::Option`] when one asks for what is not there; [`Error::NothingIntact`] when a part cannot be
    /// read any more; [`Error::Group`].
    pub(super) fn read(&self, ranks: &Ranks, pieces: &mut [Piece<'_>]) -> Result<(), Error> {
        let places = self.places(pieces);
        let wish = |piece: &mut Piece<'_>| {
            let refuse = |why: String| Error::Option { option: "piece", why };
            let (rank, name) = (piece.rank, piece.name);
            let found = places.get(&rank).and_then(|of_rank| of_rank.get(name)).copied();
            let (start, length) = found.ok_or_else(|| refuse(format!("rank {rank} saved nothing called {name:?}")))?;
            let bytes = piece.into.len() as u64;
            match piece.offset.checked_add(bytes) {
                Some(end) if end <= length => {
                    let into = piece.into.as_mut_ptr();
                    Ok(Wish { part: rank, offset: start + piece.offset, bytes, into })
                }
                _ => Err(refuse(format!(
                    "{name:?} of rank {rank} has {length} bytes, not {bytes} from {} on",
                    piece.offset
                ))),
            }
        };
        let wishes = pieces.iter_mut().map(wish).collect::<Result<Vec<Wish>, Error>>();
        let wishes = ranks.all_or_none(wishes)?;
        fetch(ranks, &self.servers, &self.mine, &wishes)
    }

    /// Brings a generation of another number of ranks back, by the names of regions and files. The inner error says why it
    /// cannot be. Collective.
    pub(super) fn bring_back(
        self,
        ranks: &Ranks,
        regions: &Regions,
        files: &mut Files,
        is_left_out: &dyn Fn(&str) -> bool,
    ) -> Result<Result<Restored, String>, Error> {
        let mut own = regions.entries();
        own.retain(|region| !is_left_out(&region.name));
        let registered: Vec<Vec<RegionEntry>> = ranks.gather(&own)?;
        let plan = place::plan(&self.parts, &registered, ranks.rank(), is_left_out);
        let plan = ranks.all_or_none(plan.map_err(|why| Error::NothingIntact { why }));
        let filled = plan.and_then(|plan| self.fill(ranks, regions, files, &plan));
        let Resized { generation, taken_realtime_ns, report, .. } = self;
        let restored = filled.map(|()| Restored { generation, taken_realtime_ns, report });
        Ok(told_on_all(restored)?.map_err(|error| error.reason()))
    }

    /// Fills regions and files.
    fn fill(&self, ranks: &Ranks, regions: &Regions, files: &mut Files, plan: &Plan) -> Result<(), Error> {
        let mut incoming = ranks.all_or_none(files.incoming(&plan.files))?;
        let starts: BTreeMap<&str, *mut u8> =
            plan.files.iter().map(|file| file.name.as_str()).zip(incoming.starts()).collect();
        let wish = |stretch: &place::Stretch| {
            let file = starts.get(stretch.name.as_str()).copied();
            let start = file.or_else(|| regions.start_of(&stretch.name));
            let start = start.filter(|start| !start.is_null() || stretch.bytes == 0);
            let gone = || Error::Option { option: "region", why: format!("there is none called {:?}", stretch.name) };
            let into = start.ok_or_else(gone)?.wrapping_add(stretch.into as usize);
            Ok(Wish { part: stretch.part, offset: stretch.offset, bytes: stretch.bytes, into })
        };
        let wishes = plan.stretches.iter().map(wish).collect::<Result<Vec<Wish>, Error>>();
        let wishes = ranks.all_or_none(wishes)?;
        fetch(ranks, &self.servers, &self.mine, &wishes)?;
        ranks.all_or_none(self.expect_the_same(ranks, regions, plan))?;
        let names = ranks.all_or_none(files.put(incoming))?;
        files.own(names);
        Ok(())
    }

    /// Whether the regions that every rank here got from one old rank are what all the old ranks had.
    fn expect_the_same(&self, ranks: &Ranks, regions: &Regions, plan: &Plan) -> Result<(), Error> {
        for (part, reached) in &self.mine {
            let file = reached.open()?;
            let manifest = &reached.manifest;
            let lost = |why: String| Error::NothingIntact { why: format!("rank {part}'s part: {why}") };
            let mut healer = Healer::open(manifest.geometry()?, &*file, manifest.table_crc32c)
                .map_err(|error| lost(error.to_string()))?;
            for (name, offsets) in &plan.same {
                let here = regions.content_of(name).unwrap_or_default();
                let start = offsets.get(*part as usize).copied().unwrap_or_default();
                let end = start + here.len() as u64;
                let mut is_same = true;
                let mut at = start;
                while at < end && is_same {
                    let stop = end.min(at + COMPARED_BYTES);
                    let compare = &mut |offset: u64, piece: &[u8]| {
                        is_same &= here[(offset - start) as usize..][..piece.len()] == *piece;
                    };
                    healer.read_range(at..stop, compare).map_err(|error| lost(error.to_string()))?;
                    at = stop;
                }
                if !is_same {
                    return Err(Error::NothingIntact {
                        why: format!(
                            "region {name:?} differs between the {} ranks there, and is not an array that these {} ranks \
                             could share",
                            self.ranks,
                            ranks.size()
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    /// Where entries begin in the payloads of the ranks that pieces are of, and their lengths.
    fn places(&self, pieces: &[Piece<'_>]) -> BTreeMap<u32, HashMap<&str, (u64, u64)>> {
        let ranks: BTreeSet<u32> = pieces.iter().map(|piece| piece.rank).collect();
        let mut places = BTreeMap::new();
        for (rank, part) in ranks.into_iter().filter_map(|rank| Some((rank, self.parts.get(rank as usize)?))) {
            let mut offset = 0;
            let of_part: &mut HashMap<_, _> = places.entry(rank).or_default();
            for entry in &part.regions {
                of_part.insert(entry.name.as_str(), (offset, entry.bytes));
                offset += entry.bytes;
            }
        }
        places
    }
}
