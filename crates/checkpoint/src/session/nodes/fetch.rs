//! Brings a part to the rank that needs it from the node on which it lies.

use super::Inventory;
use crate::generation::Manifest;
use crate::image::Healer;
use crate::session::Checkpointer;
use crate::session::regions::Targets;
use crate::session::resized::{Key, Place, Proved, Reached, Wish, fetch, gather, reachers};
use crate::session::restart::Attempt;
use crate::tier::SlotImage;
use crate::{Disk, Error, Storage};
use std::collections::{BTreeMap, BTreeSet};

/// The most ranks that are asked to prove one part: it lies on one node, or on two where a partner has it, too.
const PROVERS_MAX: usize = 2;

/// The bytes of a file: in a slot of this rank, or brought from another node.
pub(in super::super) enum Held {
    Slot(SlotImage),
    Brought(Vec<u8>),
}

impl Held {
    pub(in super::super) fn bytes(&self) -> &[u8] {
        match self {
            Held::Slot(image) => image.bytes(),
            Held::Brought(bytes) => bytes,
        }
    }
}

/// Which file of a rank is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Wanted {
    /// Its image in memory, with its own parity.
    Image,
    /// The rows that it keeps of the parity of its group.
    Rows,
}

impl Checkpointer {
    /// Reads what ranks could not restore themselves from whoever reaches it: on another node, or what a partner kept.
    /// The same on all ranks; the result is this rank's. Each part is proved before anything of it is used.
    pub(in super::super) fn or_from_nodes(
        &mut self,
        inventory: &Inventory,
        key: Key,
        own: Attempt,
    ) -> Result<Attempt, Error> {
        let needing = self.ranks.gather_all(&[u8::from(own.is_err())])?;
        let wanted: Vec<u32> =
            (0..).zip(&needing).filter(|(_, word)| word.first() == Some(&1)).map(|(rank, _)| rank).collect();
        if wanted.is_empty() {
            return Ok(own);
        }
        // The memory of ranks that ran on a node before is given back when newer checkpoints are complete.
        self.run.resized_at = Some(self.schedule.course.taken_count);
        let proved = self.prove_parts(inventory, key, &wanted, PROVERS_MAX)?;
        let rank = self.ranks.rank();
        let ready = match &own {
            Ok(_) => None,
            Err(_) => Some(self.room_for(&proved, rank)),
        };
        let wishes = match &ready {
            Some(Ok((targets, ..))) => {
                targets.places().map(|(offset, bytes, into)| Wish { part: rank, offset, bytes, into }).collect()
            }
            _ => Vec::new(),
        };
        let read = fetch(&self.ranks, &proved.servers(self.ranks.size()), &proved.mine, &wishes);
        if let Err(Error::Group { why }) = read {
            return Err(Error::Group { why });
        }
        let (Some(ready), Err(refused)) = (ready, &own) else { return Ok(own) };
        let kept = ready.and_then(|(_, incoming, manifest, met)| {
            read.map_err(|error| error.reason())?;
            Ok((manifest, met, incoming))
        });
        let refused = refused.reason();
        Ok(match kept {
            Ok((manifest, met, incoming)) => {
                let report = format!("rank {rank}: generation {} {met}", key.generation.number);
                let is_absence = refused.ends_with(crate::session::restart::NOTHING_OF_IT);
                Ok((manifest, if is_absence { report } else { format!("{report}; refused: {refused}") }, incoming))
            }
            Err(why) if why.is_empty() || refused.contains(&why) => Err(Error::NothingIntact { why: refused }),
            Err(why) => Err(Error::NothingIntact { why: format!("{refused}, elsewhere: {why}") }),
        })
    }

    /// Where this rank's part goes, if somebody proved it. An empty reason says that nobody has it.
    fn room_for(&mut self, proved: &Proved, rank: u32) -> Result<Ready, String> {
        let Some((manifest, server, met)) = proved.parts.get(&rank) else {
            let of_rank = proved.refused.iter().filter(|(part, _)| *part == rank);
            let mut refused: Vec<&str> = of_rank.map(|(_, why)| why.as_str()).collect();
            refused.dedup();
            return Err(refused.join(", "));
        };
        let mut incoming = self.files.incoming(&manifest.regions).map_err(|error| error.reason())?;
        let targets = self.regions.targets(manifest, &mut incoming)?;
        Ok((targets, incoming, manifest.clone(), format!("{met}, read on {}", self.nodes.name_of(*server))))
    }

    /// Brings files to ranks that need them, as they lie in the memory of whatever node: what parity is rebuilt from. A bad
    /// page stays a bad page. Collective; `None` where none is wanted here, or nobody has it.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub(in super::super) fn bring(
        &self,
        inventory: &Inventory,
        key: Key,
        file: Wanted,
        is_wanted: bool,
    ) -> Result<Option<(Manifest, Vec<u8>)>, Error> {
        let needing = self.ranks.gather_all(&[u8::from(is_wanted)])?;
        let (told, reach) = match file {
            Wanted::Image => (inventory.parts(), &inventory.found.reach),
            Wanted::Rows => (inventory.rows(), &inventory.found.rows),
        };
        let rank = self.ranks.rank();
        let mut mine: BTreeMap<u32, Reached> = BTreeMap::new();
        for (part, _) in (0..).zip(&needing).filter(|(_, word)| word.first() == Some(&1)) {
            // One rank of each node that reaches it offers it, and the first that does gives it.
            let order = reachers(told, self.nodes.of_ranks(), key, part);
            let nodes: BTreeSet<u32> =
                order.iter().filter_map(|&of| self.nodes.of_ranks().get(of as usize)).copied().collect();
            if order.iter().take(nodes.len()).any(|of| *of == rank) {
                let copies = reach.get(&key).and_then(|of_key| of_key.get(&part)).into_iter().flatten();
                mine.extend(copies.filter_map(|copy| raw(copy, file)).next().map(|reached| (part, reached)));
            }
        }
        let offers: Vec<Manifest> = mine.values().map(|reached| reached.manifest.clone()).collect();
        let mut servers = vec![u32::MAX; self.ranks.size() as usize];
        let mut wanted = None;
        for (server, offers) in gather(self, &offers)?.into_iter().enumerate() {
            for manifest in offers {
                let Some(known) = servers.get_mut(manifest.rank as usize) else { continue };
                if *known == u32::MAX && Key::of(&manifest) == key && manifest.job == self.config.job {
                    *known = server as u32;
                    if manifest.rank == rank && is_wanted {
                        wanted = Some(manifest);
                    }
                }
            }
        }
        let bytes = wanted.as_ref().and_then(|manifest| manifest.geometry().ok()).map(|geometry| geometry.file_bytes());
        let mut content = vec![0; bytes.unwrap_or(0)];
        let wish = Wish { part: rank, offset: 0, bytes: content.len() as u64, into: content.as_mut_ptr() };
        let wishes = if content.is_empty() { Vec::new() } else { vec![wish] };
        match fetch(&self.ranks, &servers, &mine, &wishes) {
            Ok(()) => Ok(wanted.map(|manifest| (manifest, content))),
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(_) => Ok(None),
        }
    }
}

/// What is needed to take a part: its places, its files, its manifest, and what was met where it was proved.
type Ready = (Targets, crate::session::files::Incoming, Manifest, String);

/// A file in memory that can be given as it is; nothing else. An image is repaired where it lies, or it is not given. Rows
/// have no parity of their own: what is bad there the image that is rebuilt repairs.
fn raw(reached: &Reached, file: Wanted) -> Option<Reached> {
    let Place::Memory(path) = &reached.place else { return None };
    let geometry = reached.manifest.geometry().ok()?;
    if file == Wanted::Image {
        let image = Disk.open_file(path, true).ok()?;
        Healer::open(geometry, &*image, reached.manifest.table_crc32c).ok()?.scrub().ok()?;
    }
    let length = Disk.open_file(path, false).and_then(|file| file.length()).ok()?;
    (length >= geometry.file_bytes() as u64).then(|| Reached { is_raw: true, ..reached.clone() })
}
