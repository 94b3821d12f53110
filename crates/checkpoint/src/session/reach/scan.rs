//! What parts of which generations a rank can reach, of however many ranks they are.

use crate::generation::{Age, Key, Manifest};
use crate::session::ranks::{Ranks, stretches};
use crate::session::tiers::{Reached, StoredIn, Tiers};
use crate::tier::node::KeptFor;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::CheckpointTier as Tier;

/// Generations of each rank that are looked at, newest first.
const KEYS_MAX: usize = 64;

/// By generation and rank, the copies that this rank can reach, the fastest first.
pub type Reach = BTreeMap<Key, BTreeMap<u32, Vec<Reached>>>;

/// Parts by generation, as ranks of a job tell each other: stretches of ranks, the last one included.
pub type Told = Vec<(Key, Vec<(u32, u32)>)>;

/// What this rank can reach.
#[derive(Default)]
pub struct Reachable {
    /// Parts.
    pub reach: Reach,
    /// Rows of parity, by generation and the rank that kept them.
    pub rows: Reach,
    /// Generations that all ranks had, as marks here say.
    pub marked: BTreeSet<Key>,
}

/// How much of the shared directory each rank looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// Its own part of each generation of as many ranks as there are, and its share of those of others.
    SameRanks,
    /// Its share of all, whichever ranks there were.
    AnyRanks,
}

impl Reachable {
    /// What this rank can reach: in the memory of its node, on its SSD, and its share of what is in the shared directory,
    /// which all ranks see. What cannot be looked at offers nothing.
    /// What a run came to its end with is a result, and nothing to go on from: `completed` is the age of its mark.
    pub(super) fn of(tiers: &Tiers, ranks: &Ranks, job: &str, breadth: Breadth, completed: Age) -> Self {
        let mut found = Reachable::default();
        let add = |reach: &mut Reach, manifest: Manifest, place: StoredIn| {
            let of_key = reach.entry(Key::of(&manifest)).or_default();
            of_key.entry(manifest.rank).or_default().push(Reached::new(manifest, place));
        };
        for part in tiers.parts_on_node() {
            if part.is_complete {
                found.marked.insert(Key::of(&part.manifest));
            }
            match part.kept_for {
                KeptFor::Itself => add(&mut found.reach, part.manifest, StoredIn::Memory(part.image)),
                KeptFor::Partner => add(&mut found.reach, part.manifest, StoredIn::Partner(part.image)),
                KeptFor::Group => add(&mut found.rows, part.manifest, StoredIn::Memory(part.image)),
            }
        }
        let (own, size) = (ranks.rank(), ranks.size());
        for target in tiers.targets() {
            for stored in target.tier.generations().unwrap_or_default().iter().take(KEYS_MAX) {
                let is_listed = target.kind == Tier::Durable
                    || breadth == Breadth::AnyRanks
                    || stored.committed_ranks.is_some_and(|ranks| ranks != size);
                // One that cannot be listed has no parts to offer; the others may.
                let ranks = match is_listed {
                    true => target.tier.ranks(stored.generation).unwrap_or_default(),
                    false => vec![own],
                };
                for rank in ranks {
                    if target.kind == Tier::Shared && rank % size != own {
                        continue;
                    }
                    let Ok(manifest) = target.tier.manifest(stored.generation, rank) else { continue };
                    if manifest.job == job {
                        if stored.committed_ranks == Some(manifest.ranks) {
                            found.marked.insert(Key::of(&manifest));
                        }
                        add(&mut found.reach, manifest, StoredIn::Durable(target.kind, target.tier.clone()));
                    }
                }
            }
        }
        for reach in [&mut found.reach, &mut found.rows] {
            reach.retain(|key, _| !key.age().is_past(completed));
            while reach.len() > KEYS_MAX {
                reach.pop_first();
            }
        }
        let (reach, rows) = (&found.reach, &found.rows);
        found.marked.retain(|key| reach.contains_key(key) || rows.contains_key(key));
        found
    }
}

/// What this rank tells the others of what it can reach.
pub fn told(reach: &Reach) -> Told {
    reach.iter().map(|(key, parts)| (*key, stretches(parts.keys()))).collect()
}

/// Generations of which every part is within reach of some rank, newest first.
pub fn complete(all: &[Told]) -> Vec<Key> {
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
///
/// `hosts` has a number for the machine of each rank.
pub fn reachers(all: &[Told], hosts: &[u32], key: Key, part: u32) -> Vec<u32> {
    let has = |told: &Told| {
        told.iter()
            .any(|(of, stretches)| *of == key && stretches.iter().any(|&(first, last)| (first..=last).contains(&part)))
    };
    let mut of_hosts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for (rank, _) in all.iter().enumerate().filter(|(_, told)| has(told)) {
        let before = of_hosts.entry(hosts.get(rank).copied().unwrap_or_default()).or_default();
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
    use crate::generation::GenerationId;

    fn key(number: u64, ranks: u32) -> Key {
        Key { epoch: 1, generation: GenerationId { number, nonce: 1 }, taken_realtime_ns: 5, ranks }
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
        let whole = |epoch: u64, number: u64| (Key { epoch, ..key(number, 1) }, vec![(0, 0)]);
        let runs = [vec![whole(1, 900), whole(2, 3), whole(2, 4)]];
        let numbers: Vec<u64> = complete(&runs).iter().map(|key| key.generation.number).collect();
        assert_eq!(numbers, [4, 3, 900], "the newest run comes first, whatever its numbers");
    }

    #[test]
    fn every_machine_is_asked_before_the_same_one_again() {
        let told: Told = vec![(key(1, 9), vec![(0, 8)])];
        let all = vec![told.clone(), told.clone(), told.clone(), Vec::new(), told];
        let hosts = [0, 0, 1, 1, 1];
        assert_eq!(reachers(&all, &hosts, key(1, 9), 0), [0, 2, 1, 4]);
        assert_eq!(reachers(&all, &hosts, key(1, 9), 1), [2, 0, 1, 4]);
        assert_eq!(reachers(&all, &[0; 5], key(1, 9), 2), [2, 4, 0, 1]);
        assert!(reachers(&all, &hosts, key(1, 8), 0).is_empty());
    }
}
