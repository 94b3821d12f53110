//! Brings a part to the rank that needs it from the node on which it lies.

use super::Inventory;
use super::read::{Wish, fetch};
use super::scan::reachers;
use crate::generation::{Key, Manifest};
use crate::image::Healer;
use crate::session::nodes::Nodes;
use crate::session::ranks::{Ranks, told_on_all};
use crate::session::tiers::{Reached, StoredIn};
use crate::{Disk, Error, Storage};
use std::collections::{BTreeMap, BTreeSet};

/// Which file of a rank is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Its image in memory, with its own parity.
    Image,
    /// The rows that it keeps of the parity of its group.
    Rows,
}

impl Inventory {
    /// Brings files to ranks that need them, as they lie in the memory of whatever node: what parity is rebuilt from. A bad
    /// page stays a bad page. Collective; `None` where none is wanted here, or nobody has it.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn bring(
        &self,
        ranks: &Ranks,
        nodes: &Nodes,
        key: Key,
        file: Wanted,
        is_wanted: bool,
    ) -> Result<Option<(Manifest, Vec<u8>)>, Error> {
        let needing = ranks.gather_all(&[u8::from(is_wanted)])?;
        let (told, reach) = match file {
            Wanted::Image => (&self.parts, &self.found.reach),
            Wanted::Rows => (&self.rows, &self.found.rows),
        };
        let rank = ranks.rank();
        let mut mine: BTreeMap<u32, Reached> = BTreeMap::new();
        for (part, _) in (0..).zip(&needing).filter(|(_, word)| word.first() == Some(&1)) {
            // One rank of each node that reaches it offers it, and the first that does gives it.
            let order = reachers(told, nodes.of_ranks(), key, part);
            let nodes: BTreeSet<u32> =
                order.iter().filter_map(|&of| nodes.of_ranks().get(of as usize)).copied().collect();
            if order.iter().take(nodes.len()).any(|of| *of == rank) {
                let copies = reach.get(&key).and_then(|of_key| of_key.get(&part)).into_iter().flatten();
                mine.extend(copies.filter_map(|copy| raw(copy, file)).next().map(|reached| (part, reached)));
            }
        }
        let offers: Vec<Manifest> = mine.values().map(|reached| reached.manifest.clone()).collect();
        let mut servers = vec![u32::MAX; ranks.size() as usize];
        let mut wanted = None;
        for (server, offers) in ranks.gather(&offers)?.into_iter().enumerate() {
            for manifest in offers {
                let Some(known) = servers.get_mut(manifest.rank as usize) else { continue };
                if *known == u32::MAX && Key::of(&manifest) == key && manifest.job == self.job {
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
        let brought = told_on_all(fetch(ranks, &servers, &mine, &wishes))?;
        Ok(wanted.filter(|_| brought.is_ok()).map(|manifest| (manifest, content)))
    }
}

/// A file in memory that can be given as it is; nothing else. An image is repaired where it lies, or it is not given. Rows
/// have no parity of their own: what is bad there the image that is rebuilt repairs.
fn raw(reached: &Reached, file: Wanted) -> Option<Reached> {
    let StoredIn::Memory(path) = &reached.place else { return None };
    let geometry = reached.manifest.geometry().ok()?;
    if file == Wanted::Image {
        let image = Disk.open_file(path, true).ok()?;
        Healer::open(geometry, &*image, reached.manifest.table_crc32c).ok()?.scrub().ok()?;
    }
    let length = Disk.open_file(path, false).and_then(|file| file.length()).ok()?;
    (length >= geometry.file_bytes() as u64).then(|| Reached { is_raw: true, ..reached.clone() })
}
