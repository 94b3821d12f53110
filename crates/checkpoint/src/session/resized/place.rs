//! What of a checkpoint each rank gets when there are more or fewer ranks than saved it. Pure.
//!
//! A region is found by its name:
//! - **An array**: the parts that the old ranks saved under the name, one after the other in the order of the ranks, are
//!   as long as the parts that the new ranks registered under it. Then they are the same array, and each new rank gets
//!   its stretch. A region that one rank saved and one rank registers is the smallest such array.
//! - **The same everywhere**: every old rank saved it and every new rank registered it, all of one length, and the
//!   contents do not differ, as those of a step counter. Then each new rank gets it.
//! - What is neither, what nobody registered and what nobody saved is refused by name.
//!
//! A routed file of old rank r goes to new rank r mod M: under its name where r is below M, else as `NAME.rank-00007`,
//! because the name may be taken.

use crate::generation::{Manifest, NAME_BYTES_MAX, RegionEntry};
use crate::session::files::PREFIX;
use std::collections::{BTreeMap, BTreeSet};

/// A stretch of an old rank's payload, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The old rank.
    pub(super) part: u32,
    /// From where in its payload.
    pub(super) offset: u64,
    /// How long.
    pub(super) bytes: u64,
    /// The name of the region or file here that gets it.
    pub(super) name: String,
    /// From where in that.
    pub(super) into: u64,
}

/// What one new rank gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Where all of it comes from.
    pub(super) stretches: Vec<Stretch>,
    /// Files, under the names and with the lengths that they have here.
    pub(super) files: Vec<RegionEntry>,
    /// Regions that are the same everywhere if the contents do not differ, which is to be proved; each with the offset
    /// in every old rank's payload.
    pub(super) same: Vec<(String, Vec<u64>)>,
}

/// Where a region lies in the old ranks' payloads: rank, offset and length, in the order of the ranks.
type Saved<'a> = BTreeMap<&'a str, Vec<(u32, u64, u64)>>;

/// What new rank `own` gets of the parts of all old ranks, by what all new ranks registered, without what is left out.
///
/// # Errors
/// What cannot be placed, by name; the same on all ranks.
pub(super) fn plan(
    parts: &[Manifest],
    registered: &[Vec<RegionEntry>],
    own: u32,
    is_left_out: &dyn Fn(&str) -> bool,
) -> Result<Plan, String> {
    let mut saved = saved(parts);
    saved.retain(|name, _| !is_left_out(name));
    let mut wanted: BTreeMap<&str, Vec<(u32, u64)>> = BTreeMap::new();
    for (rank, regions) in registered.iter().enumerate() {
        for region in regions {
            wanted.entry(&region.name).or_default().push((rank as u32, region.bytes));
        }
    }
    let regions = saved.keys().filter(|name| !name.starts_with(PREFIX));
    if let Some(name) = regions.clone().find(|name| !wanted.contains_key(*name)) {
        return Err(format!("it has a region {name:?} that no rank registered"));
    }
    let mut plan = Plan::default();
    for (name, of_ranks) in &wanted {
        let Some(found) = saved.get(name) else { return Err(format!("it has no region {name:?}")) };
        let bytes = sum(found.iter().map(|(_, _, bytes)| *bytes));
        let room = sum(of_ranks.iter().map(|(_, bytes)| *bytes));
        if bytes == room {
            plan.stretches.extend(array(name, found, of_ranks, own));
        } else if is_everywhere(found, parts.len(), of_ranks, registered.len()) {
            // All from one old rank: whoever compares, compares with the same.
            if let Some((part, offset, bytes)) = found.first().copied() {
                plan.stretches.push(Stretch { part, offset, bytes, name: (*name).to_owned(), into: 0 });
            }
            plan.same.push(((*name).to_owned(), found.iter().map(|(_, offset, _)| *offset).collect()));
        } else {
            return Err(format!(
                "region {name:?} has {bytes} bytes on its {} ranks there, and {room} on {} ranks here",
                found.len(),
                of_ranks.len()
            ));
        }
    }
    files(parts, registered.len() as u32, own, &mut plan)?;
    Ok(plan)
}

fn saved(parts: &[Manifest]) -> Saved<'_> {
    let mut saved = Saved::new();
    for part in parts {
        let mut offset = 0;
        for region in &part.regions {
            saved.entry(&region.name).or_default().push((part.rank, offset, region.bytes));
            offset += region.bytes;
        }
    }
    saved
}

/// A sum that no list of lengths brings past its end.
fn sum(lengths: impl Iterator<Item = u64>) -> u128 {
    lengths.map(u128::from).sum()
}

/// The stretches of an array that one new rank gets.
fn array(name: &str, found: &[(u32, u64, u64)], of_ranks: &[(u32, u64)], own: u32) -> Vec<Stretch> {
    let before = |rank: &&(u32, u64)| rank.0 < own;
    let start = sum(of_ranks.iter().filter(before).map(|(_, bytes)| *bytes));
    let length = of_ranks.iter().find(|(rank, _)| *rank == own).map_or(0, |(_, bytes)| *bytes);
    let end = start + u128::from(length);
    let mut stretches = Vec::new();
    let mut at = 0u128;
    for &(part, offset, bytes) in found {
        let (from, to) = (at.max(start), (at + u128::from(bytes)).min(end));
        if from < to {
            stretches.push(Stretch {
                part,
                // Differences within one part and one region: they fit.
                offset: offset + (from - at) as u64,
                bytes: (to - from) as u64,
                name: name.to_owned(),
                into: (from - start) as u64,
            });
        }
        at += u128::from(bytes);
    }
    stretches
}

fn is_everywhere(found: &[(u32, u64, u64)], saved_ranks: usize, of_ranks: &[(u32, u64)], ranks: usize) -> bool {
    let lengths: BTreeSet<u64> =
        found.iter().map(|(_, _, bytes)| *bytes).chain(of_ranks.iter().map(|(_, bytes)| *bytes)).collect();
    lengths.len() == 1 && found.len() == saved_ranks && of_ranks.len() == ranks
}

/// Adds the files that one new rank gets.
fn files(parts: &[Manifest], ranks: u32, own: u32, plan: &mut Plan) -> Result<(), String> {
    let mut taken = BTreeSet::new();
    for part in parts.iter().filter(|part| part.rank % ranks.max(1) == own) {
        let mut offset = 0;
        for entry in &part.regions {
            if entry.name.starts_with(PREFIX) {
                let name = match part.rank < ranks {
                    true => entry.name.clone(),
                    false => format!("{}.rank-{:05}", entry.name, part.rank),
                };
                if name.len() > NAME_BYTES_MAX || !taken.insert(name.clone()) {
                    let file = &entry.name[PREFIX.len()..];
                    return Err(format!("there is no name here for the file {file:?} of rank {}", part.rank));
                }
                plan.stretches.push(Stretch {
                    part: part.rank,
                    offset,
                    bytes: entry.bytes,
                    name: name.clone(),
                    into: 0,
                });
                plan.files.push(RegionEntry { name, bytes: entry.bytes });
            }
            offset += entry.bytes;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generation::GenerationId;
    use crate::image::Protection;
    use proptest::prelude::*;

    fn entries(regions: &[(&str, u64)]) -> Vec<RegionEntry> {
        regions.iter().map(|&(name, bytes)| RegionEntry { name: name.into(), bytes }).collect()
    }

    fn part(rank: u32, ranks: u32, regions: &[(&str, u64)]) -> Manifest {
        Manifest {
            job: "job".into(),
            generation: GenerationId { number: 1, nonce: 1 },
            rank,
            ranks,
            taken_realtime_ns: 1,
            payload_bytes: regions.iter().map(|(_, bytes)| bytes).sum(),
            protection: Protection::Shard,
            table_crc32c: 0,
            regions: entries(regions),
            epoch: 1,
        }
    }

    fn stretch(part: u32, offset: u64, bytes: u64, name: &str, into: u64) -> Stretch {
        Stretch { part, offset, bytes, name: name.into(), into }
    }

    fn planned(parts: &[Manifest], here: &[Vec<RegionEntry>], own: u32) -> Result<Plan, String> {
        plan(parts, here, own, &|_| false)
    }

    #[test]
    fn arrays_are_cut_anew_names_are_found_and_what_is_the_same_is_given_to_all() {
        let parts = [
            part(0, 3, &[("step", 8), ("u", 10), ("field[0]", 5)]),
            part(1, 3, &[("u", 20), ("step", 8), ("field[1]", 6)]),
            part(2, 3, &[("step", 8), ("u", 30), ("field[2]", 7)]),
        ];
        let here = [
            entries(&[("step", 8), ("u", 25), ("field[0]", 5), ("field[2]", 7)]),
            entries(&[("field[1]", 6), ("u", 35), ("step", 8)]),
        ];
        let first = planned(&parts, &here, 0).unwrap();
        let wanted = [
            stretch(0, 18, 5, "field[0]", 0),
            stretch(2, 38, 7, "field[2]", 0),
            stretch(0, 0, 8, "step", 0),
            stretch(0, 8, 10, "u", 0),
            stretch(1, 0, 15, "u", 10),
        ];
        assert_eq!(first.stretches, wanted);
        assert_eq!(first.same, [("step".to_owned(), vec![0, 20, 0])]);
        let second = planned(&parts, &here, 1).unwrap();
        let wanted = [
            stretch(1, 28, 6, "field[1]", 0),
            stretch(0, 0, 8, "step", 0),
            stretch(1, 15, 5, "u", 0),
            stretch(2, 8, 30, "u", 5),
        ];
        assert_eq!(second.stretches, wanted);
    }

    #[test]
    fn what_has_no_place_is_refused_by_name() {
        let parts = [part(0, 2, &[("u", 10), ("v", 4)]), part(1, 2, &[("u", 10), ("v", 5)])];
        let refused = |here: &[Vec<RegionEntry>]| planned(&parts, here, 0).unwrap_err();
        assert!(refused(&[entries(&[("u", 20)])]).contains("\"v\" that no rank registered"));
        assert!(refused(&[entries(&[("u", 20), ("v", 9), ("w", 0)])]).contains("no region \"w\""));
        assert!(refused(&[entries(&[("u", 19), ("v", 9)])]).contains("20 bytes on its 2 ranks there, and 19 on 1"));
        assert!(refused(&[entries(&[("u", 20), ("v", 5)])]).contains("\"v\""), "it has two lengths there");
        let without = plan(&parts, &[entries(&[("u", 20)])], 0, &|name| name.starts_with('v')).unwrap();
        assert_eq!(without.stretches.len(), 2);
    }

    #[test]
    fn a_file_goes_to_the_rank_that_comes_round_and_keeps_its_name_where_it_can() {
        let parts: Vec<Manifest> = (0..5).map(|rank| part(rank, 5, &[("file:log", 10 + u64::from(rank))])).collect();
        let here = vec![Vec::new(); 2];
        let names: Vec<Vec<RegionEntry>> = (0..2).map(|own| planned(&parts, &here, own).unwrap().files).collect();
        assert_eq!(names[0], entries(&[("file:log", 10), ("file:log.rank-00002", 12), ("file:log.rank-00004", 14)]));
        assert_eq!(names[1], entries(&[("file:log", 11), ("file:log.rank-00003", 13)]));
        assert!(planned(&parts, &vec![Vec::new(); 9], 7).unwrap().files.is_empty());
        let long = "x".repeat(NAME_BYTES_MAX - PREFIX.len());
        let parts = [part(0, 2, &[]), part(1, 2, &[(&format!("{PREFIX}{long}"), 1)])];
        assert!(planned(&parts, &[Vec::new()], 0).unwrap_err().contains("of rank 1"));
        let parts = [part(0, 2, &[("file:a.rank-00001", 1)]), part(1, 2, &[("file:a", 1)])];
        assert!(planned(&parts, &[Vec::new()], 0).unwrap_err().contains("no name here for the file \"a\""));
    }

    proptest! {
        #[test]
        fn every_byte_of_an_array_goes_where_it_belongs(
            old in proptest::collection::vec(0u64..50, 1..8),
            cuts in proptest::collection::vec(0u64..400, 0..8),
        ) {
            let total: u64 = old.iter().sum();
            let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut.min(total)).collect();
            cuts.extend([0, total]);
            cuts.sort_unstable();
            let ranks = old.len() as u32;
            let parts: Vec<Manifest> = (0..ranks).map(|rank| part(rank, ranks, &[("u", old[rank as usize])])).collect();
            let here: Vec<Vec<RegionEntry>> = cuts.windows(2).map(|cut| entries(&[("u", cut[1] - cut[0])])).collect();
            let starts: Vec<u64> = old.iter().scan(0, |at, bytes| { *at += bytes; Some(*at - bytes) }).collect();
            for own in 0..here.len() {
                let got = planned(&parts, &here, own as u32).unwrap();
                // Which byte of the whole array each byte here is.
                let mut bytes = vec![None; here[own][0].bytes as usize];
                for stretch in &got.stretches {
                    for at in 0..stretch.bytes {
                        let of_whole = starts[stretch.part as usize] + stretch.offset + at;
                        prop_assert_eq!(bytes[(stretch.into + at) as usize].replace(of_whole), None);
                    }
                }
                let wanted: Vec<Option<u64>> = (cuts[own]..cuts[own + 1]).map(Some).collect();
                prop_assert_eq!(bytes, wanted);
            }
        }
    }
}
