//! What is said of a restart beside what came back: what is out of reach, passed over or gone, and why another checkpoint
//! may be the newest.

use super::Inventory;
use crate::generation::{Age, GenerationId, Key};
use crate::session::clock;
use crate::session::tiers::Tiers;
use crate::tier::Stored;
use std::collections::{BTreeMap, BTreeSet};

/// Generations that a report names as passed over.
const PASSED_OVER_MAX: usize = 4;

/// Generations of which a message says where the missing parts lie.
const WHEREABOUTS_MAX: usize = 4;

impl Inventory {
    /// What is said where this generation comes back. `whereabouts` says of each that is not whole within reach what is missing,
    /// `completed` is the age of the mark of a completed job.
    pub fn doubts(
        &self,
        tiers: &Tiers,
        completed: Age,
        whereabouts: &BTreeMap<Key, String>,
        restored: Key,
    ) -> Vec<String> {
        let said = [
            ("newer and not within reach", self.newest_of(whereabouts, Some(restored)).join("; ")),
            ("passed over", self.passed_over(restored)),
            ("newer, and no part of it can be read", self.gone(tiers, completed, restored, true)),
            ("once complete, and no part of it is left", self.gone(tiers, completed, restored, false)),
        ];
        let said = said.into_iter().filter(|(_, which)| !which.is_empty());
        said.map(|(what, which)| format!("{what}: {which}")).chain(self.clock_doubt(restored)).collect()
    }

    /// What is missing of the newest generations that all ranks had and that are not whole within reach, down to this one; where
    /// none is known to have been on all ranks, of the newest.
    pub fn newest_of(&self, whereabouts: &BTreeMap<Key, String>, until: Option<Key>) -> Vec<String> {
        let said = |(key, missing): (&Key, &String)| format!("generation {}: {missing}", key.generation.number);
        let newer = || whereabouts.iter().rev().filter(|(key, _)| until.is_none_or(|until| **key > until));
        let mut lines: Vec<String> =
            newer().filter(|(key, _)| self.is_marked(key)).take(WHEREABOUTS_MAX).map(said).collect();
        if lines.is_empty() && until.is_none() {
            lines.extend(newer().next().map(said));
        }
        lines
    }

    /// What is newer than the generation that comes back and was never on all of its ranks, the newest first.
    fn passed_over(&self, restored: Key) -> String {
        let newer: Vec<Key> = self.seen().into_iter().filter(|key| *key > restored && !self.is_marked(key)).collect();
        let said = |key: &Key| {
            let number = key.generation.number;
            match self.missing(key).first() {
                Some((rank, _)) if key.ranks == restored.ranks => {
                    Some(format!("generation {number}, of which rank {rank} has no part"))
                }
                Some(_) => {
                    Some(format!("generation {number}, saved by {} ranks, of which not all parts are there", key.ranks))
                }
                // It was tried, and stands among those that were refused.
                None => None,
            }
        };
        let said = newer.iter().filter_map(said).collect();
        first(said)
    }

    /// Generations that are newer than what comes back, marked as complete on this rank's drive, and of which no rank can read a
    /// part: those whose parts lie there, or those without any.
    fn gone(&self, tiers: &Tiers, completed: Age, restored: Key, has_parts: bool) -> String {
        let than = restored.age();
        let seen: BTreeSet<GenerationId> = self.seen().iter().map(|key| key.generation).collect();
        let stored = tiers.targets().filter_map(|target| Some((target, target.tier.generations().ok()?)));
        let gone = stored.flat_map(|(target, all)| {
            let is_marked = |one: &Stored| one.committed_ranks.is_some() || one.is_of_other_version;
            let newer = all.into_iter().filter(move |one| is_marked(one) && one.age() > than);
            // Of one that cannot be listed it is not known what is left.
            let is_it = move |ranks: Vec<u32>| ranks.is_empty() != has_parts;
            let listed = newer.filter(move |one| target.tier.ranks(one.generation).is_ok_and(is_it));
            listed.map(|one| (one, target.kind.place()))
        });
        let gone = gone.filter(|(one, _)| !seen.contains(&one.generation) && !one.age().is_past(completed));
        let said = gone.map(|(one, place)| format!("generation {} {place}", one.generation.number)).collect();
        first(said)
    }

    /// Why another checkpoint may be the newest: the one that comes back was taken under a clock that was ahead, and another one
    /// with a higher number counts as older only by that clock. So it is where that run's tier was away from the run between.
    fn clock_doubt(&self, restored: Key) -> Option<String> {
        if restored.epoch <= clock::realtime_ns() {
            return None;
        }
        let seen = self.seen();
        let other = seen.iter().find(|key| **key < restored && key.generation.number > restored.generation.number)?;
        Some(format!(
            "its run began in the future by this machine's clock, so generation {} with its higher number may be the newer one: check \
             the clocks, and `surefoot checkpoint list`",
            other.generation.number
        ))
    }
}

/// The first of these, and how many more there are.
fn first(mut said: Vec<String>) -> String {
    let more = said.len().saturating_sub(PASSED_OVER_MAX);
    said.truncate(PASSED_OVER_MAX);
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}
