//! Ranks of which a checkpoint has nothing where it should have something.
//!
//! In a durable tier rank 0 marks a checkpoint as complete on so many ranks. In memory a slot is marked when all ranks had
//! theirs, and the file of nodes says which of them ran here: the newest checkpoint that is marked has them all. Older ones
//! may be on some ranks alone, when a job was killed between two saves.

use super::files::{is_absent, open_of};
use super::survey::{Copy, Survey, Tier};
use crate::GenerationId;
use crate::generation::Age;
use crate::session::ranks_here;
use crate::storage::Directory;
use crate::tier::NODES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use surefoot_foreign::said;

/// Missing ranks that are named.
const NAMED_MAX: u64 = 8;

/// Ranks that a checkpoint should have here and has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The job.
    pub job: String,
    /// In which tier.
    pub tier: Tier,
    /// The generation's directory; in memory the job's.
    pub directory: PathBuf,
    /// Which checkpoint.
    pub generation: GenerationId,
    /// How many ranks it has.
    pub ranks: u32,
    /// How many are missing.
    pub missing_count: u64,
    /// The first of them.
    pub first_missing: Vec<u32>,
    /// Whether they are known to have been here. Without the file of nodes they may be in the memory of other nodes.
    pub were_here: bool,
    /// Why that file says nothing, where it is there and cannot be read.
    pub nodes_unreadable: Option<String>,
}

/// Copies of one checkpoint in one directory.
struct Group<'a> {
    first: &'a Copy,
    ranks: u32,
    epoch: u64,
    here: BTreeSet<u32>,
}

/// What is missing of all checkpoints that a survey found.
pub fn missing(survey: &Survey) -> Vec<Missing> {
    let mut found = of_memory(survey);
    found.extend(of_durable(survey));
    found.retain(|missing| !is_whole_elsewhere(survey, missing));
    found
}

/// Whether all ranks of the same checkpoint are in the directories that were looked at: a restart takes each from where it is.
fn is_whole_elsewhere(survey: &Survey, missing: &Missing) -> bool {
    let is_complete = |copy: &Copy| copy.committed_ranks == Some(missing.ranks) || copy.is_marked();
    let is_part = |copy: &&Copy| {
        let is_same = copy.generation == Some(missing.generation) && copy.job() == missing.job;
        is_same && is_complete(copy) && copy.manifest.is_ok() && copy.image_bad.is_none() && !copy.is_astray()
    };
    let ranks: BTreeSet<u32> = survey.copies.iter().filter(is_part).map(|copy| copy.rank).collect();
    ranks.len() as u64 == u64::from(missing.ranks)
}

fn of_durable(survey: &Survey) -> Vec<Missing> {
    let mut groups: BTreeMap<(&Path, GenerationId), Group<'_>> = BTreeMap::new();
    for copy in survey.copies.iter().filter(|copy| copy.tier == Tier::Durable) {
        let (Some(generation), Some(ranks)) = (copy.generation, copy.committed_ranks) else { continue };
        let epoch = copy.manifest.as_ref().map_or(0, |manifest| manifest.epoch);
        let new = || Group { first: copy, ranks, epoch, here: BTreeSet::new() };
        let group = groups.entry((&copy.directory, generation)).or_insert_with(new);
        group.epoch = group.epoch.max(epoch);
        group.here.insert(copy.rank);
    }
    let missing = groups.into_iter().filter_map(|((directory, generation), group)| {
        let all = [(0, group.ranks.saturating_sub(1))];
        let found = group.missing(&all, directory, generation)?;
        // Of a drive that only this node sees, the others' parts are on theirs.
        let (own, nodes_unreadable) = group.ranks_of_this_node();
        let is_own_drive = own.as_ref().is_some_and(|own| {
            group.here.iter().all(|rank| holds(own, *rank)) && group.missing(own, directory, generation).is_none()
        });
        (!is_own_drive).then_some(Missing { nodes_unreadable, ..found })
    });
    missing.collect()
}

fn of_memory(survey: &Survey) -> Vec<Missing> {
    let mut newest: BTreeMap<&Path, Age> = BTreeMap::new();
    let marked = |copy: &&Copy| copy.tier == Tier::Memory && copy.is_marked();
    for copy in survey.copies.iter().filter(marked) {
        if let Ok(manifest) = &copy.manifest {
            let age = newest.entry(&copy.job_directory).or_insert(manifest.age());
            *age = manifest.age().max(*age);
        }
    }
    let missing = newest.into_iter().filter_map(|(directory, age)| {
        let of_it = |copy: &&Copy| {
            let is_it = copy.manifest.as_ref().is_ok_and(|manifest| manifest.age() == age);
            is_it && copy.tier == Tier::Memory && copy.job_directory == directory
        };
        let first = survey.copies.iter().find(of_it)?;
        let ranks = first.manifest.as_ref().map_or(0, |manifest| manifest.ranks);
        let here = survey.copies.iter().filter(of_it).map(|copy| copy.rank).collect();
        let group = Group { first, ranks, epoch: age.epoch, here };
        match group.ranks_of_this_node() {
            (Some(own), _) => group.missing(&own, directory, age.generation),
            (None, nodes_unreadable) => {
                let all = group.missing(&[(0, ranks.saturating_sub(1))], directory, age.generation);
                all.map(|all| Missing { were_here: false, nodes_unreadable, ..all })
            }
        }
    });
    missing.collect()
}

fn holds(stretches: &[(u32, u32)], rank: u32) -> bool {
    stretches.iter().any(|(first, last)| (*first..=*last).contains(&rank))
}

impl Group<'_> {
    /// The ranks that ran on this node, as the file of nodes beside the checkpoint says; or why it cannot be read, where
    /// it is there.
    fn ranks_of_this_node(&self) -> (Option<Vec<(u32, u32)>>, Option<String>) {
        let directory = match Directory::open(&self.first.job_directory) {
            Ok(directory) => directory,
            Err(error) => return (None, Some(said(&error))),
        };
        if is_absent(&directory, NODES) {
            return (None, None);
        }
        let file = open_of(&directory, NODES, self.first.owner);
        match file.and_then(|(file, _)| ranks_here(&file, self.epoch)) {
            Ok(own) => (own, None),
            Err(why) => (None, Some(why)),
        }
    }

    /// What is missing of these ranks.
    fn missing(&self, stretches: &[(u32, u32)], directory: &Path, generation: GenerationId) -> Option<Missing> {
        let last_rank = self.ranks.checked_sub(1)?;
        let within: Vec<(u32, u32)> = stretches
            .iter()
            .map(|(first, last)| (*first, (*last).min(last_rank)))
            .filter(|(first, last)| first <= last)
            .collect();
        let expected: u64 = within.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
        let here = self.here.iter().filter(|rank| holds(&within, **rank)).count() as u64;
        let missing_count = expected.saturating_sub(here);
        let ranks = within.iter().flat_map(|(first, last)| *first..=*last).filter(|rank| !self.here.contains(rank));
        (missing_count > 0).then(|| Missing {
            job: self.first.job(),
            tier: self.first.tier,
            directory: directory.to_owned(),
            generation,
            ranks: self.ranks,
            missing_count,
            first_missing: ranks.take(missing_count.min(NAMED_MAX) as usize).collect(),
            were_here: true,
            nodes_unreadable: None,
        })
    }
}
