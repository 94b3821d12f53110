//! A restart with another number of ranks than saved: N saved, M restart.
//!
//! All M ranks agree on one generation whose N parts are all within reach of some of them: in the memory of a node, on a
//! node's SSD, in the shared directory. Each part is proved by one of the ranks that reach it, read to its end with its
//! checksums and repaired, before anything of it is used. Then every rank may read any part of any of them, from who
//! proved it ([`Checkpointer::read_resized`]), or has its regions and files filled by their names
//! ([`Checkpointer::restart_resized`]; the module `place` has the rules).
//!
//! Old and new parts keep out of each other's way: a part belongs to a generation with its random number, its time and
//! its number of ranks, and is only put together with others that say the same. The slots of the old ranks are written
//! over when a newer generation is complete, as ever, and those of ranks that are no more are given back after the second
//! checkpoint.

mod place;
mod read;
pub(super) mod scan;
#[cfg(test)]
mod tests;

pub(super) use read::{Wish, fetch};
pub(super) use scan::{Breadth, Key, Place, Reached, reachers};

use crate::generation::{GenerationId, Manifest, RegionEntry};
use crate::image::Healer;
use crate::session::Checkpointer;
use crate::session::nodes::Inventory;
use crate::session::ranks::Call;
use crate::session::restart::Restored;
use crate::{Error, StoredFile};
use place::Plan;
use serde::{Deserialize, Serialize};
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
        let of = |part: &Manifest, entry: &RegionEntry| (part.rank, entry.bytes);
        self.parts.iter().flat_map(move |part| {
            part.regions.iter().map(move |entry| {
                let (rank, bytes) = of(part, entry);
                (rank, entry.name.as_str(), bytes)
            })
        })
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

/// What a rank tells of its try to prove some parts.
#[derive(Default, Serialize, Deserialize)]
struct Proofs {
    /// Each with what was met.
    proved: Vec<(Manifest, String)>,
    refused: Vec<(u32, String)>,
}

/// Parts that ranks proved, the same on all ranks but for what each has itself.
#[derive(Default)]
pub(super) struct Proved {
    /// By part: its manifest, the rank that proved it and gives of it, and what that met.
    pub(super) parts: BTreeMap<u32, (Manifest, u32, String)>,
    /// Those that this rank proved.
    pub(super) mine: BTreeMap<u32, Reached>,
    /// By part, what a copy was refused for.
    pub(super) refused: Vec<(u32, String)>,
}

impl Proved {
    /// By part, who gives of it; of a part that nobody proved no rank does.
    pub(super) fn servers(&self, parts: u32) -> Vec<u32> {
        (0..parts).map(|part| self.parts.get(&part).map_or(u32::MAX, |(_, server, _)| *server)).collect()
    }
}

impl Checkpointer {
    /// Brings back the newest checkpoint that can be proved intact, of however many ranks. With as many as there are now
    /// it does what [`Checkpointer::restart`] does. With more or fewer, regions are found by their names: the parts that
    /// the old ranks saved under a name, in the order of the ranks, are one array of which each rank here gets as much as
    /// it registered, if that is all of it; what all had, of one length and content, everybody gets. A routed file of old
    /// rank r goes to rank r mod M, and from ranks that are no more as `NAME.rank-00007`. `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks, with what each checkpoint failed at; the regions then hold nothing useful.
    /// [`Error::Group`].
    pub fn restart_resized(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.collective(Call::RestartResized, Self::restart_of_any_size);
        self.record_restart(&restored);
        self.make_ahead_for_regions();
        restored
    }

    /// As [`Checkpointer::restart_resized`], without the regions whose names begin with this: what a layer above keeps
    /// for itself. With as many ranks as saved nothing is left out.
    ///
    /// # Errors
    /// As [`Checkpointer::restart_resized`].
    pub fn restart_resized_without(&mut self, beginning: &str) -> Result<Option<Restored>, Error> {
        self.left_out = Some(beginning.to_owned());
        let restored = self.restart_resized();
        self.left_out = None;
        restored
    }

    fn restart_of_any_size(&mut self) -> Result<Option<Restored>, Error> {
        self.run.unasked = None;
        self.end_drains()?;
        let inventory = self.inventory(Breadth::AnyRanks)?;
        if self.begins_after_completion(&inventory)? {
            return Ok(None);
        }
        let keys = inventory.keys(self.ranks.size());
        self.restart_from(keys, &inventory)
    }

    /// Finds the newest checkpoint of any number of ranks whose parts all prove intact, for a program that reads them
    /// itself with [`Checkpointer::read_resized`]. `None` when there is no checkpoint at all. Collective. The next
    /// checkpoint counts as taken after this one.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks, with what each failed at; [`Error::Group`].
    pub fn open_resized(&mut self) -> Result<Option<Resized>, Error> {
        self.collective(Call::OpenResized, Self::open_of_any_size)
    }

    fn open_of_any_size(&mut self) -> Result<Option<Resized>, Error> {
        self.run.unasked = None;
        self.end_drains()?;
        let inventory = self.inventory(Breadth::AnyRanks)?;
        if self.begins_after_completion(&inventory)? {
            return Ok(None);
        }
        let whereabouts = self.whereabouts(&inventory)?;
        let mut refused = Vec::new();
        for key in inventory.keys(self.ranks.size()) {
            match self.prove(&inventory, key)? {
                Ok(mut resized) => {
                    resized.report = self.with_weakness(resized.report);
                    self.come_back_to(key.generation);
                    if key.ranks != self.ranks.size() {
                        self.run.resized_at = Some(self.schedule.course.taken_count);
                    }
                    return Ok(Some(resized));
                }
                Err(why) => refused.push(format!("generation {}: {why}", key.generation.number)),
            }
        }
        match (refused.is_empty(), inventory.seen().is_empty()) {
            (true, is_empty) if is_empty || !self.was_any_complete()? => {
                self.expect_nothing_unlooked(&self.unlooked()?)?;
                self.expect_nothing_unreadable()?;
                self.expect_nothing_elsewhere()?;
                if !is_empty {
                    self.begin_anew();
                }
                Ok(None)
            }
            (true, _) => {
                let newest = crate::session::restart::newest_of(&inventory, &whereabouts, None);
                let why =
                    format!("there are parts of checkpoints, and of none all are within reach: {}", newest.join("; "));
                Err(Error::NothingIntact { why })
            }
            (false, _) => Err(Error::NothingIntact { why: refused.join("; ") }),
        }
    }

    /// Reads pieces of what the ranks of an older, smaller or larger job saved, checked and repaired. Collective: every
    /// rank passes the pieces that it wants, or none.
    ///
    /// # Errors
    /// [`Error::Option`] on all ranks when one asks for what is not there; [`Error::NothingIntact`] on all ranks when a
    /// part cannot be read any more, and then no piece holds anything useful; [`Error::Group`].
    pub fn read_resized(&mut self, resized: &Resized, pieces: &mut [Piece<'_>]) -> Result<(), Error> {
        self.collective_after(resized.generation, Call::ReadResized, |job| job.read_pieces(resized, pieces))
    }

    fn read_pieces(&mut self, resized: &Resized, pieces: &mut [Piece<'_>]) -> Result<(), Error> {
        let places = resized.places(pieces);
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
        let wishes = self.ranks.all_or_none(wishes)?;
        read::fetch(&self.ranks, &resized.servers, &resized.mine, &wishes)
    }

    /// Has every part of a generation proved by a rank that reaches it; says why where one cannot be.
    fn prove(&self, inventory: &Inventory, key: Key) -> Result<Result<Resized, String>, Error> {
        // That every part is within reach of somebody was found before, so there are no more parts than files.
        let wanted: Vec<u32> = (0..key.ranks).collect();
        let proved = self.prove_parts(inventory, key, &wanted, PROVERS_MAX)?;
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
            self.ranks.rank(),
            key.generation.number,
            key.ranks,
            if report.is_empty() { "proved by others".to_owned() } else { report.join(", ") }
        );
        let (generation, ranks, taken_realtime_ns) = (key.generation, key.ranks, key.taken_realtime_ns);
        let (servers, mine) = (proved.servers(ranks), proved.mine);
        let parts = proved.parts.into_values().map(|(manifest, ..)| manifest).collect();
        Ok(Ok(Resized { generation, ranks, taken_realtime_ns, report, parts, servers, mine }))
    }

    /// Has these parts of a generation proved, each by a rank that reaches it; so many are asked one after the other, one of
    /// each node before the second of any. Collective.
    pub(super) fn prove_parts(
        &self,
        inventory: &Inventory,
        key: Key,
        wanted: &[u32],
        provers_max: usize,
    ) -> Result<Proved, Error> {
        let hosts = self.nodes.of_ranks();
        let mut all: Vec<scan::Told> = inventory.parts().to_vec();
        all.iter_mut().for_each(|told| told.retain(|(of, _)| *of == key));
        let reachers: Vec<(u32, Vec<u32>)> =
            wanted.iter().map(|&part| (part, scan::reachers(&all, hosts, key, part))).collect();
        let mut proved = Proved::default();
        for round in 0..provers_max {
            let left = reachers.iter().filter(|(part, _)| !proved.parts.contains_key(part));
            let asked: BTreeSet<(u32, u32)> =
                left.filter_map(|(part, ranks)| Some((*part, *ranks.get(round)?))).collect();
            if asked.is_empty() {
                break;
            }
            let mut own = Proofs::default();
            for (part, _) in asked.iter().filter(|(_, rank)| *rank == self.ranks.rank()) {
                let copies = inventory.reach().get(&key).and_then(|of_key| of_key.get(part));
                match self::proved(copies.map_or(&[][..], Vec::as_slice)) {
                    Ok((reached, met)) => {
                        own.proved.push((reached.manifest.clone(), met));
                        proved.mine.insert(*part, reached);
                    }
                    Err(why) => own.refused.push((*part, why)),
                }
            }
            for (server, proofs) in gather(self, &own)?.into_iter().enumerate() {
                for (manifest, met) in proofs.proved {
                    let is_asked = asked.contains(&(manifest.rank, server as u32));
                    if Key::of(&manifest) == key && is_asked && manifest.job == self.config.job {
                        proved.parts.insert(manifest.rank, (manifest, server as u32, met));
                    }
                }
                proved.refused.extend(proofs.refused);
            }
        }
        Ok(proved)
    }

    /// Brings back a generation of another number of ranks, by the names of regions and files. The inner error says why
    /// it cannot be.
    pub(super) fn bring_back_resized(
        &mut self,
        inventory: &Inventory,
        key: Key,
    ) -> Result<Result<Restored, String>, Error> {
        let resized = match self.prove(inventory, key)? {
            Ok(resized) => resized,
            Err(why) => return Ok(Err(why)),
        };
        let is_left_out = |name: &str| self.left_out.as_ref().is_some_and(|beginning| name.starts_with(beginning));
        let mut own = self.regions.entries();
        own.retain(|region| !is_left_out(&region.name));
        let registered: Vec<Vec<RegionEntry>> = gather(self, &own)?;
        let plan = place::plan(&resized.parts, &registered, self.ranks.rank(), &is_left_out);
        let plan = plan.map_err(|why| Error::NothingIntact { why });
        let plan = match told_on_all(self.ranks.all_or_none(plan))? {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(why)),
        };
        match told_on_all(self.fill(&resized, &plan))? {
            Ok(()) => {
                self.run.resized_at = Some(self.schedule.course.taken_count);
                let Resized { generation, taken_realtime_ns, report, .. } = resized;
                Ok(Ok(Restored { generation, taken_realtime_ns, report }))
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// Fills regions and files.
    fn fill(&mut self, resized: &Resized, plan: &Plan) -> Result<(), Error> {
        let incoming = self.files.incoming(&plan.files);
        let mut incoming = self.ranks.all_or_none(incoming)?;
        let files: BTreeMap<&str, *mut u8> =
            plan.files.iter().map(|file| file.name.as_str()).zip(incoming.starts()).collect();
        let wish = |stretch: &place::Stretch| {
            let file = files.get(stretch.name.as_str()).copied();
            let start = file.or_else(|| self.regions.start_of(&stretch.name));
            let start = start.filter(|start| !start.is_null() || stretch.bytes == 0);
            let gone = || Error::Option { option: "region", why: format!("there is none called {:?}", stretch.name) };
            let into = start.ok_or_else(gone)?.wrapping_add(stretch.into as usize);
            Ok(Wish { part: stretch.part, offset: stretch.offset, bytes: stretch.bytes, into })
        };
        let wishes = plan.stretches.iter().map(wish).collect::<Result<Vec<Wish>, Error>>();
        let wishes = self.ranks.all_or_none(wishes)?;
        read::fetch(&self.ranks, &resized.servers, &resized.mine, &wishes)?;
        self.ranks.all_or_none(self.expect_the_same(resized, plan))?;
        let names = self.ranks.all_or_none(self.files.put(incoming))?;
        self.files.own(names);
        Ok(())
    }

    /// Whether the regions that every rank here got from one old rank are what all the old ranks had.
    fn expect_the_same(&self, resized: &Resized, plan: &Plan) -> Result<(), Error> {
        for (part, reached) in &resized.mine {
            let file = reached.open()?;
            let manifest = &reached.manifest;
            let lost = |why: String| Error::NothingIntact { why: format!("rank {part}'s part: {why}") };
            let mut healer = Healer::open(manifest.geometry()?, &*file, manifest.table_crc32c)
                .map_err(|error| lost(error.to_string()))?;
            for (name, offsets) in &plan.same {
                let here = self.regions.content_of(name).unwrap_or_default();
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
                            resized.ranks,
                            self.ranks.size()
                        ),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Tells all ranks what each has to say.
pub(super) fn gather<T: Serialize + for<'a> Deserialize<'a>>(job: &Checkpointer, own: &T) -> Result<Vec<T>, Error> {
    let unreadable = |error: serde_json::Error| Error::Group { why: error.to_string() };
    let text = serde_json::to_vec(own).map_err(unreadable)?;
    job.ranks.gather_all(&text)?.iter().map(|text| serde_json::from_slice(text).map_err(unreadable)).collect()
}

/// The first copy of a part that proves intact, and what was met; else what each failed at.
fn proved(copies: &[Reached]) -> Result<(Reached, String), String> {
    let mut refused = Vec::new();
    for reached in copies {
        let place = reached.place_name();
        let outcome = reached.open().map_err(|error| error.to_string()).and_then(|file| tally(reached, &*file));
        match outcome {
            Ok(met) => return Ok((reached.clone(), format!("from {place}: {met}"))),
            Err(why) => refused.push(format!("{place}: {why}")),
        }
    }
    Err(if refused.is_empty() { "it is gone".to_owned() } else { refused.join(", ") })
}

fn tally(reached: &Reached, file: &dyn StoredFile) -> Result<String, String> {
    let geometry = reached.manifest.geometry().map_err(|error| error.to_string())?;
    let mut healer = Healer::open(geometry, file, reached.manifest.table_crc32c).map_err(|lost| lost.to_string())?;
    healer.read(&mut |_, _| {}).map_err(|lost| lost.to_string())?;
    Ok(crate::session::restart::describe(&healer.tally()))
}

/// Takes apart that ranks cannot talk, which ends a restart, and that something failed, of which all ranks know.
fn told_on_all<T>(outcome: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Group { why }) => Err(Error::Group { why }),
        Err(error) => Ok(Err(error.reason())),
    }
}
