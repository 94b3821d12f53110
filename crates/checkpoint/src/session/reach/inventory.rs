//! What all ranks of a job reach together: one message of each, of a few numbers per generation.

use super::scan::{self, Breadth, Reachable, Told};
use crate::Error;
use crate::generation::{Age, GenerationId, Key};
use crate::session::nodes::Nodes;
use crate::session::ranks::Ranks;
use crate::session::redundancy::{Redundancy, parity};
use crate::session::tiers::{Reached, Tiers};
use std::collections::BTreeSet;

/// Stretches of ranks of one generation that are told; more are left out. Where ranks lie on nodes in order there is one.
const STRETCHES_MAX: usize = 4096;

/// Bytes of a record before its stretches.
const RECORD_BYTES: usize = 1 + 4 * 8 + 4 + 4;

/// What one rank tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Heard {
    /// Parts that it reaches.
    parts: Told,
    /// Rows of parity that it reaches, by the rank that kept them.
    rows: Told,
    /// Ranks whose parts such rows help to rebuild.
    rebuilt: Told,
    /// Generations of which it knows that all ranks had them.
    marked: Told,
}

impl Heard {
    fn lists(&self) -> [&Told; 4] {
        [&self.parts, &self.rows, &self.rebuilt, &self.marked]
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, list) in self.lists().into_iter().enumerate() {
            for (key, stretches) in list {
                let stretches = &stretches[..stretches.len().min(STRETCHES_MAX)];
                bytes.push(kind as u8);
                for word in [key.epoch, key.generation.number, key.generation.nonce, key.taken_realtime_ns] {
                    bytes.extend(word.to_le_bytes());
                }
                bytes.extend(key.ranks.to_le_bytes());
                bytes.extend((stretches.len() as u32).to_le_bytes());
                for (first, last) in stretches {
                    bytes.extend(first.to_le_bytes());
                    bytes.extend(last.to_le_bytes());
                }
            }
        }
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut heard = Heard::default();
        while !bytes.is_empty() {
            let (record, rest) = bytes.split_at_checked(RECORD_BYTES)?;
            let long = |at: usize| Some(u64::from_le_bytes(record.get(at..at + 8)?.try_into().ok()?));
            let short = |from: &[u8], at: usize| Some(u32::from_le_bytes(from.get(at..at + 4)?.try_into().ok()?));
            let key = Key {
                epoch: long(1)?,
                generation: GenerationId { number: long(9)?, nonce: long(17)? },
                taken_realtime_ns: long(25)?,
                ranks: short(record, 33)?,
            };
            let count = usize::try_from(short(record, 37)?).ok().filter(|count| *count <= STRETCHES_MAX)?;
            let (stretches, rest) = rest.split_at_checked(8 * count)?;
            let stretches = stretches.chunks(8).map(|stretch| Some((short(stretch, 0)?, short(stretch, 4)?)));
            let list = match record[0] {
                0 => &mut heard.parts,
                1 => &mut heard.rows,
                2 => &mut heard.rebuilt,
                3 => &mut heard.marked,
                _ => return None,
            };
            list.push((key, stretches.collect::<Option<_>>()?));
            bytes = rest;
        }
        Some(heard)
    }
}

/// What all ranks reach, and this one itself.
#[derive(Default)]
pub struct Inventory {
    pub(super) job: String,
    pub(super) found: Reachable,
    pub(super) parts: Vec<Told>,
    pub(super) rows: Vec<Told>,
    rebuilt: Vec<Told>,
    marked: BTreeSet<Key>,
}

impl Inventory {
    /// Generations that can be brought back whole, the newest first: every part is within reach of a rank or, for a job of
    /// `size` ranks, may be rebuilt from parity.
    pub fn keys(&self, size: u32) -> Vec<Key> {
        let mut keys: BTreeSet<Key> = scan::complete(&self.parts).into_iter().collect();
        let with_rebuilt: Vec<Told> = self.parts.iter().chain(&self.rebuilt).cloned().collect();
        keys.extend(scan::complete(&with_rebuilt).into_iter().filter(|key| key.ranks == size));
        keys.into_iter().rev().collect()
    }

    /// All generations of which any rank reaches anything, the newest first.
    pub fn seen(&self) -> Vec<Key> {
        let all: BTreeSet<Key> = self.parts.iter().chain(&self.rows).flatten().map(|(key, _)| *key).collect();
        all.into_iter().rev().collect()
    }

    /// Whether it is known that all ranks had this one.
    pub(super) fn is_marked(&self, key: &Key) -> bool {
        self.marked.contains(key)
    }

    /// All generations of which any rank reaches anything, the newest first, with the ranks whose parts nobody reaches.
    pub fn all_missing(&self) -> Vec<(Key, Vec<(u32, u32)>)> {
        self.seen().iter().map(|key| (*key, self.missing(key))).collect()
    }

    /// The ranks of a generation whose parts nobody reaches, as stretches with the last one included.
    pub(super) fn missing(&self, key: &Key) -> Vec<(u32, u32)> {
        let of_key = self.parts.iter().flatten().filter(|(of, _)| of == key);
        let there: BTreeSet<(u32, u32)> = of_key.flat_map(|(_, stretches)| stretches.iter().copied()).collect();
        let (mut missing, mut next) = (Vec::new(), 0u64);
        for (first, last) in there.into_iter().filter(|(first, last)| first <= last && *last < key.ranks) {
            if u64::from(first) > next {
                missing.push((next as u32, first - 1));
            }
            next = next.max(u64::from(last) + 1);
        }
        if next < u64::from(key.ranks) {
            missing.push((next as u32, key.ranks - 1));
        }
        missing
    }
}

impl Inventory {
    /// Tells all ranks what this one reaches, and hears what they do. Collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn of(
        (ranks, nodes, job): (&Ranks, &Nodes, &str),
        tiers: &Tiers,
        redundancy: &Redundancy,
        breadth: Breadth,
        completed: Age,
    ) -> Result<Self, Error> {
        let found = Reachable::of(tiers, ranks, job, breadth, completed);
        let own = Heard {
            parts: scan::told(&found.reach),
            rows: scan::told(&found.rows),
            rebuilt: redundancy.parity().map_or_else(Told::new, |_| helps_to_rebuild(&found, ranks, nodes)),
            marked: found.marked.iter().map(|key| (*key, Vec::new())).collect(),
        };
        let mut inventory = Inventory { job: job.to_owned(), found, ..Inventory::default() };
        for message in ranks.gather_all(&own.to_bytes())? {
            let why = || Error::Group { why: "a rank said what it reaches in a way that cannot be read".into() };
            let heard = Heard::from_bytes(&message).ok_or_else(why)?;
            inventory.parts.push(heard.parts);
            inventory.rows.push(heard.rows);
            inventory.rebuilt.push(heard.rebuilt);
            inventory.marked.extend(heard.marked.iter().map(|(key, _)| *key));
        }
        Ok(inventory)
    }
}

/// Whose parts may be rebuilt with the rows of parity that this rank reaches.
fn helps_to_rebuild(found: &Reachable, ranks: &Ranks, nodes: &Nodes) -> Told {
    let (hosts, own) = (nodes.of_ranks(), ranks.rank() as usize);
    let here: Vec<usize> = (0..hosts.len()).filter(|&rank| hosts[rank] == hosts[own]).collect();
    let turn = here.iter().position(|rank| *rank == own).unwrap_or(0);
    // Rows of a rank that runs here it reads itself; those of others the ranks here read in turns, because each takes
    // the reading of a table.
    let is_its = |rank: u32| match here.contains(&(rank as usize)) {
        true => rank as usize == own,
        false => rank as usize % here.len() == turn,
    };
    let mut rebuilt = Told::new();
    for (key, rows) in &found.rows {
        let rows = rows.iter().filter(|(rank, _)| is_its(**rank)).map(|(_, rows)| rows);
        let of_rows = |reached: &Reached| parity::members_of(&reached.manifest, &*reached.open().ok()?).ok();
        let ranks: BTreeSet<u32> = rows.flatten().filter_map(of_rows).flatten().collect();
        rebuilt.push((*key, ranks.into_iter().map(|rank| (rank, rank)).collect()));
    }
    rebuilt
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn key(number: u64, ranks: u32) -> Key {
        Key { epoch: 7, generation: GenerationId { number, nonce: u64::MAX }, taken_realtime_ns: 5, ranks }
    }

    #[test]
    fn what_is_told_comes_back_in_few_bytes() {
        let heard = Heard {
            parts: vec![(key(1, 4000), vec![(0, 63)]), (key(2, 4000), vec![(0, 63)])],
            rows: Vec::new(),
            rebuilt: Vec::new(),
            marked: vec![(key(1, 4000), Vec::new())],
        };
        let bytes = heard.to_bytes();
        assert_eq!(Heard::from_bytes(&bytes), Some(heard));
        assert!(bytes.len() <= 160, "two generations of a node with 64 ranks take {} bytes", bytes.len());
    }

    #[test]
    fn the_parts_that_nobody_reaches_are_named() {
        let told = |stretches: Vec<(u32, u32)>| vec![(key(1, 9), stretches)];
        let inventory = |parts: Vec<Told>| Inventory { parts, ..Inventory::default() };
        let some = inventory(vec![told(vec![(1, 2), (2, 3)]), told(vec![(5, 5), (12, 13), (8, 7)])]);
        assert_eq!(some.missing(&key(1, 9)), [(0, 0), (4, 4), (6, 8)]);
        assert_eq!(inventory(vec![told(vec![(0, 8)])]).missing(&key(1, 9)), []);
        assert_eq!(inventory(Vec::new()).missing(&key(2, u32::MAX)), [(0, u32::MAX - 1)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(heard) = Heard::from_bytes(&bytes) {
                prop_assert_eq!(Heard::from_bytes(&heard.to_bytes()), Some(heard));
            }
        }
    }
}
