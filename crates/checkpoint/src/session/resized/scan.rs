//! What parts of which generations a rank can reach, of however many ranks they are.

use super::super::Checkpointer;
use super::super::target::Kind;
use crate::generation::{GenerationId, Manifest};
use crate::tier::{Durable, node};
use crate::{Disk, Error, Storage, StoredFile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Generations of each rank that are looked at, newest first.
const KEYS_MAX: usize = 64;

/// A generation as its parts describe it. Parts that differ in any of this are never put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in super::super) struct Key {
    pub(in super::super) generation: GenerationId,
    pub(in super::super) taken_realtime_ns: u64,
    pub(in super::super) ranks: u32,
}

impl Key {
    pub(in super::super) fn generation(&self) -> GenerationId {
        self.generation
    }

    pub(in super::super) fn of(manifest: &Manifest) -> Self {
        Key { generation: manifest.generation, taken_realtime_ns: manifest.taken_realtime_ns, ranks: manifest.ranks }
    }
}

/// Where a part lies.
#[derive(Clone)]
pub(in super::super) enum Place {
    /// In the memory of this node.
    Memory(PathBuf),
    /// In a durable tier.
    Durable(Kind, Durable),
}

/// A part that this rank can reach.
#[derive(Clone)]
pub(in super::super) struct Reached {
    pub(in super::super) manifest: Manifest,
    pub(in super::super) place: Place,
}

impl Reached {
    pub(super) fn open(&self) -> Result<Box<dyn StoredFile>, Error> {
        match &self.place {
            Place::Memory(path) => Disk.open_file(path, false).map_err(Error::storage("open", path)),
            Place::Durable(_, tier) => tier.image(self.manifest.generation, self.manifest.rank, false),
        }
    }

    pub(super) fn place_name(&self) -> &'static str {
        match &self.place {
            Place::Memory(_) => "memory",
            Place::Durable(kind, _) => kind.name(),
        }
    }
}

/// By generation and rank, the copies that this rank can reach, the fastest first.
pub(in super::super) type Reach = BTreeMap<Key, BTreeMap<u32, Vec<Reached>>>;

/// Parts by generation, as ranks of a job tell each other: stretches of ranks, the last one included.
pub(super) type Told = Vec<(Key, Vec<(u32, u32)>)>;

impl Checkpointer {
    /// The parts that this rank can reach: in the memory of its node, on its SSD, and its share of those in the shared
    /// directory, which all ranks see.
    pub(in super::super) fn reach(&self) -> Result<Reach, Error> {
        let mut reach = Reach::new();
        let mut add = |manifest: Manifest, place: Place| {
            let of_key = reach.entry(Key::of(&manifest)).or_default();
            of_key.entry(manifest.rank).or_default().push(Reached { manifest, place });
        };
        if let Some(memory) = &self.config.memory {
            for part in node::parts(&memory.directory, &self.config.job)? {
                add(part.manifest, Place::Memory(part.image));
            }
        }
        let (own, size) = (self.group.rank(), self.group.size());
        for target in self.targets() {
            for stored in target.tier.generations()?.iter().take(KEYS_MAX) {
                // One that cannot be listed has no parts to offer; the others may.
                for rank in target.tier.ranks(stored.generation).unwrap_or_default() {
                    if target.kind == Kind::Shared && rank % size != own {
                        continue;
                    }
                    let Ok(manifest) = target.tier.manifest(stored.generation, rank) else { continue };
                    if manifest.job == self.config.job {
                        add(manifest, Place::Durable(target.kind, target.tier.clone()));
                    }
                }
            }
        }
        while reach.len() > KEYS_MAX {
            reach.pop_first();
        }
        Ok(reach)
    }
}

/// What this rank tells the others of what it can reach.
pub(super) fn told(reach: &Reach) -> Told {
    let stretches = |parts: &BTreeMap<u32, Vec<Reached>>| {
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        for &rank in parts.keys() {
            match stretches.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
                _ => stretches.push((rank, rank)),
            }
        }
        stretches
    };
    reach.iter().map(|(key, parts)| (*key, stretches(parts))).collect()
}

/// Generations of which every part is within reach of some rank, newest first.
pub(in super::super) fn complete(all: &[Told]) -> Vec<Key> {
    let mut of_keys: BTreeMap<Key, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for (key, stretches) in all.iter().flatten() {
        of_keys.entry(*key).or_default().extend(stretches.iter().filter(|(first, last)| first <= last));
    }
    let is_complete = |key: &Key, stretches: &BTreeSet<(u32, u32)>| {
        // The next rank that is not known to be there.
        let next = stretches.iter().fold(0u64, |next, &(first, last)| match u64::from(first) <= next {
            true => next.max(u64::from(last) + 1),
            false => next,
        });
        key.ranks > 0 && next >= u64::from(key.ranks)
    };
    let complete = of_keys.iter().rev().filter(|(key, stretches)| is_complete(key, stretches));
    complete.map(|(key, _)| *key).collect()
}

/// Which ranks of the job can reach a part, one of each machine before the second of any.
pub(super) fn reachers(all: &[Told], hosts: &[Vec<u8>], key: Key, part: u32) -> Vec<u32> {
    let has = |told: &Told| {
        told.iter()
            .any(|(of, stretches)| *of == key && stretches.iter().any(|&(first, last)| (first..=last).contains(&part)))
    };
    let mut of_hosts: BTreeMap<&[u8], u32> = BTreeMap::new();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (rank, _) in all.iter().enumerate().filter(|(_, told)| has(told)) {
        let before = of_hosts.entry(hosts.get(rank).map_or(&[], Vec::as_slice)).or_default();
        found.push((*before, rank as u32));
        *before += 1;
    }
    found.sort_unstable();
    // Each part begins with another rank, so that all have something to do.
    let first_count = found.iter().filter(|(before, _)| *before == 0).count();
    if first_count > 0 && of_hosts.len() == 1 {
        let length = found.len();
        found.rotate_left(part as usize % length);
    } else if first_count > 0 {
        found[..first_count].rotate_left(part as usize % first_count);
    }
    found.into_iter().map(|(_, rank)| rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64, ranks: u32) -> Key {
        Key { generation: GenerationId { number, nonce: 1 }, taken_realtime_ns: 5, ranks }
    }

    #[test]
    fn only_what_is_whole_together_counts_and_nothing_is_mixed() {
        let all = vec![
            vec![(key(1, 4), vec![(0, 1)]), (key(2, 4), vec![(0, 2)]), (key(2, 3), vec![(0, 0), (2, 2)])],
            vec![(key(1, 4), vec![(1, 3)]), (key(2, 3), vec![(0, 0)]), (key(3, u32::MAX), vec![(0, 70_000)])],
            vec![(key(0, 1), vec![(0, 0)]), (key(5, 0), vec![]), (key(6, 2), vec![(1, 0), (1, 1)])],
        ];
        assert_eq!(complete(&all), [key(1, 4), key(0, 1)]);
        let later = Key { taken_realtime_ns: 6, ..key(2, 3) };
        let mixed = [all[0].clone(), vec![(later, vec![(1, 1)])]];
        assert_eq!(complete(&mixed), [], "the missing part was taken at another time");
    }

    #[test]
    fn every_machine_is_asked_before_the_same_one_again() {
        let told: Told = vec![(key(1, 9), vec![(0, 8)])];
        let all = vec![told.clone(), told.clone(), told.clone(), Vec::new(), told];
        let hosts: Vec<Vec<u8>> = ["a", "a", "b", "b", "b"].iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(reachers(&all, &hosts, key(1, 9), 0), [0, 2, 1, 4]);
        assert_eq!(reachers(&all, &hosts, key(1, 9), 1), [2, 0, 1, 4]);
        assert_eq!(reachers(&all, &vec![b"a".to_vec(); 5], key(1, 9), 2), [2, 4, 0, 1]);
        assert!(reachers(&all, &hosts, key(1, 8), 0).is_empty());
    }
}
