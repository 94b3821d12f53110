//! Finds the newest checkpoint that all ranks can prove intact, and restores it.

use crate::generation::{Age, GenerationId, Manifest};
use crate::image::{Healer, Tally};
use crate::session::Checkpointer;
use crate::session::bytes::Bytes;
use crate::session::clock;
use crate::session::files::Incoming;
use crate::session::nodes::{Held, Inventory, Wanted};
use crate::session::ranks::{Call, Message};
use crate::session::resized::{Breadth, Key};
use crate::session::tiers::{Target, drain};
use crate::tier::{Durable, SlotId, SlotImage, Stored};
use crate::{Disk, Error, Storage, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

/// Generations that are looked at, newest first.
const CANDIDATES_MAX: usize = 64;

/// Generations that a report names as passed over.
const PASSED_OVER_MAX: usize = 4;

/// Generations of which a message says where the missing parts lie.
const WHEREABOUTS_MAX: usize = 4;

/// What a rank says of a generation of which it finds nothing where it runs.
pub(super) const NOTHING_OF_IT: &str = "it has nothing of it";

/// A checkpoint that was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Which.
    pub generation: GenerationId,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds.
    pub taken_realtime_ns: u64,
    /// What this rank met: where it read, what it repaired, what it refused before. One line.
    pub report: String,
}

/// What bringing back one generation gave on one rank: its manifest, what was met, and the files that are to get their
/// names.
pub(super) type Attempt = Result<(Manifest, String, Incoming), Error>;

/// Where a rank has a generation.
enum Copy {
    Memory(SlotId, Manifest),
    Durable(Tier, Durable, Manifest),
}

impl Checkpointer {
    /// Brings back the newest checkpoint that all ranks can prove intact: from memory first, repaired where it is bad,
    /// else from the SSD, else from the shared directory, else from another node of the job, else an older one. `None` when no rank has any; then nothing was touched.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks when there are checkpoints but none can be proved on every rank, with what
    /// each failed at; the regions then hold nothing useful. [`Error::OtherRanks`] when the newest was saved by another
    /// number of ranks, see [`Checkpointer::restart_resized`]; nothing was touched. [`Error::Group`].
    pub fn restart(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.collective(Call::Restart, Self::restart_newest);
        self.record_restart(&restored);
        self.make_ahead_for_regions();
        restored
    }

    fn restart_newest(&mut self) -> Result<Option<Restored>, Error> {
        self.run.unasked = None;
        self.end_drains()?;
        let inventory = self.inventory(Breadth::SameRanks)?;
        if self.begins_after_completion(&inventory)? {
            return Ok(None);
        }
        let size = self.ranks.size();
        let (own, others): (Vec<Key>, Vec<Key>) = inventory.keys(size).into_iter().partition(|key| key.ranks == size);
        self.expect_no_newer_of_others(&inventory, own.first(), others.first())?;
        self.restart_from(own, &inventory)
    }

    /// Brings back the first candidate that all ranks can prove.
    pub(super) fn restart_from(
        &mut self,
        candidates: Vec<Key>,
        inventory: &Inventory,
    ) -> Result<Option<Restored>, Error> {
        let whereabouts = self.whereabouts(inventory)?;
        let unlooked = self.unlooked()?;
        let mut refused = Vec::new();
        for key in candidates {
            let generation = key.generation;
            self.run.read_from = None;
            let attempt = match key.ranks == self.ranks.size() {
                true => self.bring_back_own(inventory, key)?,
                false => self.bring_back_resized(inventory, key)?,
            };
            match attempt {
                Ok(mut restored) => {
                    if !refused.is_empty() {
                        restored.report = format!("{}; refused before: {}", restored.report, refused.join("; "));
                    }
                    restored.report = self.with_unreadable(restored.report, "not readable");
                    if let Some(unlooked) = unlooked {
                        restored.report = format!("{}; {unlooked}: a newer one may be there", restored.report);
                    }
                    let out_of_reach = newest_of(inventory, &whereabouts, Some(key));
                    if !out_of_reach.is_empty() {
                        restored.report =
                            format!("{}; newer and not within reach: {}", restored.report, out_of_reach.join("; "));
                    }
                    let passed_over = passed_over(inventory, key);
                    if !passed_over.is_empty() {
                        restored.report = format!("{}; passed over: {passed_over}", restored.report);
                    }
                    let gone = self.gone(inventory, key);
                    if !gone.is_empty() {
                        restored.report =
                            format!("{}; once complete, and no part of it is left: {gone}", restored.report);
                    }
                    if let Some(doubt) = clock_doubt(inventory, key) {
                        restored.report = format!("{}; {doubt}", restored.report);
                    }
                    restored.report = self.with_weakness(restored.report);
                    self.come_back_to(generation);
                    self.prune_before(key)?;
                    return Ok(Some(restored));
                }
                Err(why) => {
                    let missing =
                        whereabouts.get(&key).map(|missing| format!("; job {:?}, {missing}", self.config.job));
                    let missing = missing.unwrap_or_default();
                    refused.push(format!("generation {}: {why}{missing}", generation.number));
                }
            }
        }
        let mut why = match (refused.is_empty(), inventory.seen().len()) {
            (true, 0) => {
                self.expect_nothing_unlooked(&unlooked)?;
                self.expect_nothing_unreadable()?;
                if !self.was_any_complete()? {
                    return self.expect_nothing_elsewhere().map(|()| None);
                }
                "a checkpoint was completed here, and no rank finds a part of it any more".to_owned()
            }
            (true, _) if !self.was_any_complete()? => {
                self.expect_nothing_unlooked(&unlooked)?;
                self.expect_nothing_unreadable()?;
                self.expect_nothing_elsewhere()?;
                self.begin_anew();
                return Ok(None);
            }
            (true, seen) => {
                let ranks = self.ranks.size();
                let newest = newest_of(inventory, &whereabouts, None).join("; ");
                let why = format!(
                    "{seen} generations of job {:?} are there, none of them whole within reach of these {ranks} ranks: \
                     {newest}",
                    self.config.job
                );
                self.with_unreadable(why, "not readable here")
            }
            (false, _) => refused.join("; "),
        };
        if let Some(unlooked) = unlooked {
            why = format!("{why}; {unlooked}");
        }
        Err(self.nothing_intact(&why))
    }

    /// Generations that are newer than what comes back, marked as complete on this rank's drive, and of which no rank finds a part.
    fn gone(&self, inventory: &Inventory, restored: Key) -> String {
        let than = Age { epoch: restored.epoch, generation: restored.generation };
        let seen: BTreeSet<GenerationId> = inventory.seen().iter().map(|key| key.generation).collect();
        let stored = self.tiers.targets().filter_map(|target| Some((target, target.tier.generations().ok()?)));
        let gone = stored.flat_map(|(target, all)| {
            let newer = all.into_iter().filter(|one| one.committed_ranks.is_some() && one.age() > than);
            // Of one that cannot be listed it is not known what is left.
            let listed = newer.filter(|one| target.tier.ranks(one.generation).is_ok());
            listed.map(|one| (one, target.kind.place()))
        });
        let gone = gone.filter(|(one, _)| !seen.contains(&one.generation) && !self.is_past(one.age()));
        let mut said: Vec<String> =
            gone.map(|(one, place)| format!("generation {} {place}", one.generation.number)).collect();
        let more = said.len().saturating_sub(PASSED_OVER_MAX);
        said.truncate(PASSED_OVER_MAX);
        if more > 0 {
            said.push(format!("{more} more"));
        }
        said.join(", ")
    }

    /// Whether any rank finds a checkpoint that all ranks of the job had, be it whole or not now. What a job leaves that was
    /// killed in its first save is none.
    pub(super) fn was_any_complete(&self) -> Result<bool, Error> {
        Ok(self.ranks.sum(u64::from(self.sees_complete()))? > 0)
    }

    /// Goes on from nothing, beside parts of a first save that never came to its end: the next save forgets them.
    pub(super) fn begin_anew(&mut self) {
        // After a run that was completed, what that one left is kept until the next save.
        let nonce = if self.run.completed.generation.number > 0 { u64::MAX } else { 0 };
        self.run.came_back_to = Some(GenerationId { number: self.run.completed.generation.number, nonce });
        self.note("a first checkpoint was begun and not completed on all ranks: there is nothing to go back to".into());
    }

    /// Manifests on this rank that are there and cannot be read, such as those of another version of the format, and
    /// generations that cannot be listed.
    pub(super) fn unreadable(&self) -> Vec<String> {
        let mut unreadable: Vec<String> =
            self.tiers.memory.iter().flat_map(|memory| memory.unreadable()).cloned().collect();
        let rank = self.ranks.rank();
        for target in self.tiers.targets() {
            let generations = target.tier.generations().unwrap_or_default();
            let errors = generations.iter().filter_map(|stored| {
                // Of a shared directory this rank reads its own part without listing those of all.
                let listed = match target.is_shared() {
                    true => Ok(()),
                    false => target.tier.ranks(stored.generation).map(drop),
                };
                listed.and_then(|()| target.tier.manifest(stored.generation, rank).map(drop)).err()
            });
            let errors = errors.filter(|error| !error.is_absence());
            unreadable.extend(errors.take(CANDIDATES_MAX).map(|error| error.to_string()));
        }
        unreadable
    }

    /// Refuses to begin anew beside checkpoints that cannot be read: they would be written over.
    pub(super) fn expect_nothing_unreadable(&self) -> Result<(), Error> {
        let unreadable = self.unreadable();
        let own = match unreadable.is_empty() {
            true => Ok(()),
            false => Err(self.nothing_intact(&unreadable.join("; "))),
        };
        self.ranks.all_or_none(own).map_err(|error| match error {
            Error::OtherRank { rank, why } => Error::NothingIntact { why: format!("rank {rank}: {why}") },
            error => error,
        })
    }

    /// Brings back a generation of as many ranks as there are. The inner error says why it cannot be.
    fn bring_back_own(&mut self, inventory: &Inventory, key: Key) -> Result<Result<Restored, String>, Error> {
        let generation = key.generation;
        let attempt = self.bring_back(generation);
        let attempt = self.or_from_nodes(inventory, key, attempt)?;
        let attempt = self.or_from_parity(inventory, key, attempt)?;
        let (manifest, report, incoming) = match self.ranks.all_or_none(attempt) {
            Ok(attempt) => attempt,
            Err(Error::Group { why }) => return Err(Error::Group { why }),
            Err(error) => return Ok(Err(error.reason())),
        };
        // Only now: files of a generation that another rank refuses must not join later checkpoints.
        match self.ranks.all_or_none(self.files.put(incoming)) {
            Ok(names) => {
                self.files.own(names);
                Ok(Ok(Restored { generation, taken_realtime_ns: manifest.taken_realtime_ns, report }))
            }
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(error) => Ok(Err(error.reason())),
        }
    }

    /// What follows from here on is newer than this generation.
    pub(super) fn come_back_to(&mut self, generation: GenerationId) {
        self.run.came_back_to = Some(generation);
        self.run.newest = Some((generation, Instant::now()));
        self.run.number = self.run.number.max(generation.number);
        self.schedule.course.last_any_s = self.schedule.now_s();
    }

    /// Removes from the durable tiers what is older than the checkpoint that came back and beyond those to keep: `keep` may be less
    /// than it was, and a full drive gets room before the next is written. Not before all ranks have proved the newest that
    /// stays there, because what came back may have been read elsewhere.
    fn prune_before(&mut self, restored: Key) -> Result<(), Error> {
        let restored = Age { epoch: restored.epoch, generation: restored.generation };
        let (mut doubts, mut notes) = ([0; 2], Vec::new());
        let mut proved = [None; 2];
        for (at, target) in [&self.tiers.durable, &self.tiers.shared].into_iter().enumerate() {
            let Some(target) = target else { continue };
            match target.tier.to_prove(restored) {
                Ok(Some(newest)) => match self.prove_stored(target, &newest) {
                    Ok(()) => proved[at] = Some(newest.age()),
                    Err(why) => {
                        doubts[at] = 1;
                        notes.push(format!(
                            "generation {} {} is not intact: {why}. Older ones stay there until the next is written, also \
                             beyond the {} to keep",
                            newest.generation.number,
                            target.kind.place(),
                            target.tier.keep()
                        ));
                    }
                },
                Ok(None) => {}
                // Why it cannot be looked at is said elsewhere.
                Err(_) => doubts[at] = 1,
            }
        }
        let doubts = self.ranks.tell(Message { sums: doubts, ..Message::default() }, |_| ())?.sums;
        for (at, target) in [&self.tiers.durable, &self.tiers.shared].into_iter().enumerate() {
            let Some((target, proved)) = target.as_ref().zip(proved[at]) else { continue };
            if doubts[at] == 0 && drain::prunes(&self.ranks, target.kind, &self.nodes) {
                // What cannot be removed now is tried again after the next commit.
                let _ = target.tier.prune_before(proved);
            }
        }
        notes.into_iter().for_each(|note| self.note(note));
        Ok(())
    }

    /// Whether this rank's part of a generation in a durable tier is whole, or why it counts as not whole.
    fn prove_stored(&self, target: &Target, stored: &Stored) -> Result<(), String> {
        let (rank, ranks) = (self.ranks.rank(), self.ranks.size());
        if self.run.read_from == Some((target.kind, stored.generation)) {
            return Ok(());
        }
        if let Some(saved) = stored.committed_ranks.filter(|saved| *saved != ranks) {
            return Err(format!("{saved} ranks saved it, and {ranks} cannot prove it"));
        }
        let manifest = target.tier.manifest(stored.generation, rank).map_err(|error| error.to_string())?;
        if !self.is_ours(&manifest) {
            return Err(format!("the part of rank {rank} is of something else"));
        }
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let file = target.tier.image(stored.generation, rank, false).map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, &*file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        healer.read(&mut |_, _| ()).map_err(|lost| lost.to_string())
    }

    /// Refuses to go on from an older checkpoint, or from none, where a newer one of another number of ranks is: it would
    /// be written over.
    fn expect_no_newer_of_others(
        &self,
        inventory: &Inventory,
        newest: Option<&Key>,
        whole: Option<&Key>,
    ) -> Result<(), Error> {
        let size = self.ranks.size();
        // Half of a save that was killed is not worth a refusal where there is something to go on from.
        let found = match whole.filter(|whole| newest.is_none_or(|newest| *whole > newest)) {
            Some(whole) => Some(*whole),
            None if newest.is_none() => inventory.seen().into_iter().find(|key| key.ranks != size),
            None => None,
        };
        match found {
            Some(key) if whole.is_some() || self.was_any_complete()? => {
                Err(Error::OtherRanks { number: key.generation.number, saved: key.ranks, ranks: size })
            }
            _ => Ok(()),
        }
    }

    /// Forgets what is newer in memory than the generation that all ranks came back to: the parts of a save that was
    /// killed, or was refused. Otherwise the next save would keep them as the newest, and write over the restored one.
    ///
    /// Not before that save: what was refused for a reason that passes, such as a lack of room, is there for the next
    /// restart.
    pub(super) fn forget_what_was_refused(&mut self) {
        let Some(restored) = self.run.came_back_to.take() else { return };
        let own = self.tiers.memory.as_mut().map(|memory| memory.forget_newer(restored));
        let held = self.redundancy.forget_newer(restored);
        for failed in own.into_iter().chain([held]).filter_map(Result::err) {
            self.note(format!("what is newer than generation {} stays in memory: {failed}", restored.number));
        }
    }

    /// Checks and repairs what this rank keeps in memory and in the durable tiers; not collective. Returns a line per
    /// copy, and one where redundancy does not protect from what it is there for.
    pub fn scrub(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let slots: Vec<(SlotId, Manifest)> = self
            .tiers
            .memory
            .iter()
            .flat_map(|memory| memory.manifests())
            .map(|(slot, found)| (slot, found.clone()))
            .collect();
        for (slot, manifest) in slots {
            let Some(memory) = &self.tiers.memory else { break };
            let file = Disk.open_file(&memory.image_path(slot), true).map_err(|error| error.to_string());
            lines.push(format!("generation {} in memory: {}", manifest.generation.number, scrubbed(&manifest, file)));
        }
        let rank = self.ranks.rank();
        for target in self.tiers.targets() {
            for stored in target.tier.generations().unwrap_or_default() {
                let Ok(manifest) = target.tier.manifest(stored.generation, rank) else { continue };
                let file = target.tier.image(stored.generation, rank, true).map_err(|error| error.to_string());
                let (number, place) = (stored.generation.number, target.kind.place());
                lines.push(format!("generation {number} {place}: {}", scrubbed(&manifest, file)));
            }
        }
        lines.extend(self.weakness.clone());
        lines
    }

    /// Has what ranks could not restore themselves rebuilt from the others' images and parity.
    fn or_from_parity(&mut self, inventory: &Inventory, key: Key, own: Attempt) -> Result<Attempt, Error> {
        let generation = key.generation;
        if self.redundancy.parity().is_none() {
            return Ok(own);
        }
        let needing = self.ranks.sum(u64::from(own.is_err()))?;
        if needing == 0 {
            return Ok(own);
        }
        let image = if own.is_ok() { self.whole_in_memory(generation) } else { None };
        let rank = self.ranks.rank();
        let rows = self.redundancy.parity_mut().and_then(|parity| parity.own_rows(generation, rank));
        // What lies on another node is brought here first.
        let brought = self.bring(inventory, key, Wanted::Image, own.is_ok() && image.is_none())?;
        let image = image.map(Held::Slot).or(brought.map(|(_, image)| Held::Brought(image)));
        let brought = self.bring(inventory, key, Wanted::Rows, rows.is_none())?;
        let brought = brought.map(|(manifest, rows)| (manifest, Held::Brought(rows)));
        let rows = rows.map(|(manifest, rows)| (manifest, Held::Slot(rows))).or(brought);
        let Some(parity) = self.redundancy.parity() else { return Ok(own) };
        let rebuilt = parity.give_back(&self.ranks, generation, own.is_err(), image.as_ref(), rows.as_ref())?;
        let (Err(refused), Some(rebuilt)) = (&own, rebuilt) else { return Ok(own) };
        let restored = rebuilt.and_then(|(manifest, image)| {
            if manifest.generation != generation || !self.is_ours(&manifest) {
                return Err("it is of something else".into());
            }
            self.restore(&manifest, &Bytes(&image)).map(|restored| (manifest, restored))
        });
        Ok(match restored {
            Ok((manifest, (tally, incoming))) => {
                let number = generation.number;
                let report = format!("rank {rank}: generation {number} rebuilt from parity: {}", describe(&tally));
                let refused = refused.reason();
                let is_absence = refused.ends_with(NOTHING_OF_IT);
                Ok((manifest, if is_absence { report } else { format!("{report}; refused: {refused}") }, incoming))
            }
            Err(why) => Err(Error::NothingIntact { why: format!("{}; rebuilt from parity: {why}", refused.reason()) }),
        })
    }

    /// This rank's image of a generation, if memory has it and it is whole, or can be made whole.
    fn whole_in_memory(&mut self, generation: GenerationId) -> Option<SlotImage> {
        let is_it = |(_, manifest): &(SlotId, &Manifest)| manifest.generation == generation && self.is_ours(manifest);
        let found = self.tiers.memory.iter().flat_map(|memory| memory.manifests()).find(is_it);
        let (slot, manifest) = found.map(|(slot, manifest)| (slot, manifest.clone()))?;
        let memory = self.tiers.memory.as_mut()?;
        let file = Disk.open_file(&memory.image_path(slot), true).ok()?;
        Healer::open(manifest.geometry().ok()?, &*file, manifest.table_crc32c).ok()?.scrub().ok()?;
        memory.image(slot).ok()
    }

    pub(super) fn is_ours(&self, manifest: &Manifest) -> bool {
        manifest.job == self.config.job && manifest.rank == self.ranks.rank() && manifest.ranks == self.ranks.size()
    }

    /// Copies of a generation, the fastest first.
    fn copies(&self, generation: GenerationId) -> Vec<Copy> {
        let in_memory = self.tiers.memory.iter().flat_map(|memory| memory.manifests());
        let in_memory = in_memory.filter(|(_, manifest)| manifest.generation == generation && self.is_ours(manifest));
        let mut copies: Vec<Copy> = in_memory.map(|(slot, manifest)| Copy::Memory(slot, manifest.clone())).collect();
        copies.extend(self.tiers.targets().filter_map(|target| {
            let manifest = target.tier.manifest(generation, self.ranks.rank()).ok()?;
            self.is_ours(&manifest).then(|| Copy::Durable(target.kind, target.tier.clone(), manifest))
        }));
        copies
    }

    /// Brings this rank's part back from the first copy that proves intact.
    fn bring_back(&mut self, generation: GenerationId) -> Attempt {
        let mut refused = Vec::new();
        for copy in self.copies(generation) {
            let (kind, place, manifest, file) = match copy {
                Copy::Memory(slot, manifest) => {
                    let path = self.tiers.memory.as_ref().map(|memory| memory.image_path(slot)).unwrap_or_default();
                    (
                        Tier::Memory,
                        "memory",
                        manifest,
                        Disk.open_file(&path, false).map_err(Error::storage("open", &path)),
                    )
                }
                Copy::Durable(kind, tier, manifest) => {
                    let file = tier.image(generation, self.ranks.rank(), false);
                    (kind, kind.name(), manifest, file)
                }
            };
            match file.map_err(|error| error.to_string()).and_then(|file| self.restore(&manifest, &*file)) {
                Ok((tally, incoming)) => {
                    self.run.read_from = Some((kind, generation));
                    let mut report = format!(
                        "rank {}: generation {} from {place}: {}",
                        self.ranks.rank(),
                        generation.number,
                        describe(&tally)
                    );
                    if !refused.is_empty() {
                        report += &format!("; refused: {}", refused.join(", "));
                    }
                    return Ok((manifest, report, incoming));
                }
                Err(why) => refused.push(format!("{place}: {why}")),
            }
        }
        let why = if refused.is_empty() { NOTHING_OF_IT.to_owned() } else { refused.join(", ") };
        Err(Error::NothingIntact { why: format!("rank {}: {why}", self.ranks.rank()) })
    }

    fn restore(&mut self, manifest: &Manifest, file: &dyn StoredFile) -> Result<(Tally, Incoming), String> {
        // First, whether the image is one at all: then what the manifest says is true, and room is made for it.
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        let mut incoming = self.files.incoming(&manifest.regions).map_err(|error| error.to_string())?;
        let targets = self.regions.targets(manifest, &mut incoming)?;
        healer.read(&mut |offset, piece| targets.put(offset, piece)).map_err(|lost| lost.to_string())?;
        Ok((healer.tally(), incoming))
    }
}

/// What is missing of the newest generations that all ranks had and that are not whole within reach, down to this one; where
/// none is known to have been on all ranks, of the newest.
pub(super) fn newest_of(inventory: &Inventory, whereabouts: &BTreeMap<Key, String>, until: Option<Key>) -> Vec<String> {
    let said = |(key, missing): (&Key, &String)| format!("generation {}: {missing}", key.generation.number);
    let newer = || whereabouts.iter().rev().filter(|(key, _)| until.is_none_or(|until| **key > until));
    let mut lines: Vec<String> =
        newer().filter(|(key, _)| inventory.is_marked(key)).take(WHEREABOUTS_MAX).map(said).collect();
    if lines.is_empty() && until.is_none() {
        lines.extend(newer().next().map(said));
    }
    lines
}

/// What is newer than the generation that comes back and was never on all of its ranks, the newest first.
fn passed_over(inventory: &Inventory, restored: Key) -> String {
    let newer: Vec<Key> =
        inventory.seen().into_iter().filter(|key| *key > restored && !inventory.is_marked(key)).collect();
    let said = |key: &Key| {
        let number = key.generation.number;
        match inventory.missing(key).first() {
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
    let mut said: Vec<String> = newer.iter().filter_map(said).collect();
    let more = said.len().saturating_sub(PASSED_OVER_MAX);
    said.truncate(PASSED_OVER_MAX);
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}

/// Why another checkpoint may be the newest: the one that comes back was taken under a clock that was ahead, and another one
/// with a higher number counts as older only by that clock. So it is where that run's tier was away from the run between.
fn clock_doubt(inventory: &Inventory, restored: Key) -> Option<String> {
    if restored.epoch <= clock::realtime_ns() {
        return None;
    }
    let seen = inventory.seen();
    let other = seen.iter().find(|key| **key < restored && key.generation.number > restored.generation.number)?;
    Some(format!(
        "its run began in the future by this machine's clock, so generation {} with its higher number may be the newer one: check \
         the clocks, and `surefoot checkpoint list`",
        other.generation.number
    ))
}

fn scrubbed(manifest: &Manifest, file: Result<Box<dyn StoredFile>, String>) -> String {
    let outcome = file.and_then(|file| {
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, &*file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        healer.scrub().map_err(|lost| lost.to_string())
    });
    outcome.map_or_else(|why| why, |tally| describe(&tally))
}

pub(super) fn describe(tally: &Tally) -> String {
    if tally.is_clean() {
        return format!("{} pages, all good", tally.pages_read);
    }
    format!(
        "{} pages, {} bad ({} of them refused by the kernel), {} repaired, {} copies of the table bad",
        tally.pages_read, tally.pages_bad, tally.pages_refused, tally.pages_repaired, tally.tables_bad
    )
}
