//! Finds the newest checkpoint that all ranks can prove intact, and restores it.

use super::parity::Parity;
use super::partner::Partner;
use super::resized::{Key, Reach};
use super::target::Kind;
use super::{Checkpointer, agreement};
use crate::generation::{GenerationId, Manifest};
use crate::image::{Healer, Tally};
use crate::tier::{Durable, SlotId, SlotImage, node};
use crate::{Disk, Error, Group, Storage, StoredFile};
use std::collections::BTreeSet;

/// Generations that are looked at, newest first.
const CANDIDATES_MAX: usize = 64;

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

/// What bringing back one generation gave on one rank: its manifest, and what was met.
type Attempt = Result<(Manifest, String), Error>;

/// What a restart may come back to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Candidate {
    /// A generation of as many ranks as there are.
    Own(GenerationId),
    /// One of another number of ranks.
    Other(Key),
}

impl Candidate {
    pub(super) fn generation(&self) -> GenerationId {
        match self {
            Candidate::Own(generation) => *generation,
            Candidate::Other(key) => key.generation(),
        }
    }
}

/// Where a rank has a generation.
enum Copy {
    Memory(SlotId, Manifest),
    Durable(Kind, Durable, Manifest),
}

impl Checkpointer {
    /// Brings back the newest checkpoint that all ranks can prove intact: from memory first, repaired where it is bad,
    /// else from the SSD, else from the shared directory, else an older one. `None` when no rank has any; then nothing was touched.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks when there are checkpoints but none can be proved on every rank, with what
    /// each failed at; the regions then hold nothing useful. [`Error::OtherRanks`] when the newest was saved by another
    /// number of ranks, see [`Checkpointer::restart_resized`]; nothing was touched. [`Error::Group`].
    pub fn restart(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.restart_newest();
        self.record_restart(&restored);
        restored
    }

    fn restart_newest(&mut self) -> Result<Option<Restored>, Error> {
        self.finish_drains(true)?;
        let (own, seen) = self.own_generations()?;
        self.expect_no_newer_of_others(own.first().copied())?;
        self.restart_from(own.into_iter().map(Candidate::Own).collect(), &Reach::default(), seen)
    }

    /// Brings back the first candidate that all ranks can prove; `seen` says how many there are on any rank.
    pub(super) fn restart_from(
        &mut self,
        candidates: Vec<Candidate>,
        reach: &Reach,
        seen: usize,
    ) -> Result<Option<Restored>, Error> {
        let mut refused = Vec::new();
        for candidate in candidates {
            let generation = candidate.generation();
            let attempt = match candidate {
                Candidate::Own(_) => self.bring_back_own(generation)?,
                Candidate::Other(key) => self.bring_back_resized(reach, key)?,
            };
            match attempt {
                Ok(mut restored) => {
                    if !refused.is_empty() {
                        restored.report = format!("{}; refused before: {}", restored.report, refused.join("; "));
                    }
                    let unreadable = self.unreadable();
                    if !unreadable.is_empty() {
                        restored.report = format!("{}; not readable: {}", restored.report, unreadable.join("; "));
                    }
                    self.come_back_to(generation);
                    return Ok(Some(restored));
                }
                Err(why) => refused.push(format!("generation {}: {why}", generation.number)),
            }
        }
        match (refused.is_empty(), seen) {
            (true, 0) => {
                self.expect_nothing_unreadable()?;
                if self.was_any_complete()? {
                    let why = "a checkpoint was completed here, and no rank finds a part of it any more: look with \
                               `surefoot checkpoint list`, and remove what is left of it to begin anew"
                        .to_owned();
                    return Err(Error::NothingIntact { why });
                }
                Ok(None)
            }
            (true, _) if !self.was_any_complete()? => self.expect_nothing_unreadable().map(|()| {
                self.begin_anew();
                None
            }),
            (true, seen) => {
                let mut why = format!("{seen} generations are there, none of them on all {} ranks", self.group.size());
                let unreadable = self.unreadable();
                if !unreadable.is_empty() {
                    why = format!("{why}; not readable here: {}", unreadable.join("; "));
                }
                Err(Error::NothingIntact { why })
            }
            (false, _) => Err(Error::NothingIntact { why: refused.join("; ") }),
        }
    }

    /// Whether any rank finds a checkpoint that all ranks of the job had, be it whole or not now. What a job leaves that was
    /// killed in its first save is none.
    pub(super) fn was_any_complete(&self) -> Result<bool, Error> {
        let own = agreement::all_or_none(&*self.group, self.sees_complete())?;
        Ok(agreement::sum(&*self.group, u64::from(own))? > 0)
    }

    fn sees_complete(&self) -> Result<bool, Error> {
        if let Some(memory) = &self.config.memory
            && node::has_complete(&memory.directory, &self.config.job)?
        {
            return Ok(true);
        }
        for target in self.targets() {
            if target.tier.generations()?.iter().any(|stored| stored.committed_ranks.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on from nothing, beside parts of a first save that never came to its end: the next save forgets them.
    pub(super) fn begin_anew(&mut self) {
        self.came_back_to = Some(GenerationId { number: 0, nonce: 0 });
        self.note("a first checkpoint was begun and not completed on all ranks: there is nothing to go back to".into());
    }

    /// Manifests on this rank that are there and cannot be read, such as those of another version of the format.
    fn unreadable(&self) -> Vec<String> {
        let mut unreadable: Vec<String> = self.memory.iter().flat_map(|memory| memory.unreadable()).cloned().collect();
        let rank = self.group.rank();
        for target in self.targets() {
            let generations = target.tier.generations().unwrap_or_default();
            let manifests = generations.iter().map(|stored| target.tier.manifest(stored.generation, rank));
            let errors = manifests.filter_map(Result::err).filter(|error| !error.is_absence());
            unreadable.extend(errors.take(CANDIDATES_MAX).map(|error| error.to_string()));
        }
        unreadable
    }

    /// Refuses to begin anew beside checkpoints that cannot be read: they would be written over.
    fn expect_nothing_unreadable(&self) -> Result<(), Error> {
        let unreadable = self.unreadable();
        let own = match unreadable.is_empty() {
            true => Ok(()),
            false => Err(Error::NothingIntact { why: unreadable.join("; ") }),
        };
        agreement::all_or_none(&*self.group, own)
    }

    /// Brings back a generation of as many ranks as there are. The inner error says why it cannot be.
    fn bring_back_own(&mut self, generation: GenerationId) -> Result<Result<Restored, String>, Error> {
        let attempt = self.bring_back(generation);
        let attempt = self.or_from_partner(generation, attempt)?;
        let attempt = self.or_from_parity(generation, attempt)?;
        match agreement::all_or_none(&*self.group, attempt) {
            Ok((manifest, report)) => {
                let taken_realtime_ns = manifest.taken_realtime_ns;
                Ok(Ok(Restored { generation, taken_realtime_ns, report }))
            }
            Err(Error::Group { why }) => Err(Error::Group { why }),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// What follows from here on is newer than this generation.
    pub(super) fn come_back_to(&mut self, generation: GenerationId) {
        self.came_back_to = Some(generation);
        self.number = self.number.max(generation.number);
        self.course.last_any_s = self.now_s();
    }

    /// Generations of as many ranks as there are that every rank has, newest first, and how many there are on any.
    pub(super) fn own_generations(&self) -> Result<(Vec<GenerationId>, usize), Error> {
        let own = agreement::all_or_none(&*self.group, self.candidates())?;
        let mut held: Vec<(u32, Vec<GenerationId>)> = self.partner.iter().map(Partner::held).collect();
        held.extend(self.parity.iter().flat_map(Parity::held));
        common(&*self.group, &own, &held)
    }

    /// Refuses to go on from an older checkpoint, or from none, where a newer one of another number of ranks is: it would
    /// be written over.
    fn expect_no_newer_of_others(&self, newest: Option<GenerationId>) -> Result<(), Error> {
        let own = self.newest_of_others().filter(|found| newest.is_none_or(|newest| found.0 > newest));
        let own = own.map_or((0, 0), |(generation, ranks)| (generation.number, ranks));
        let newest_number = agreement::most(&*self.group, own.0)?;
        let saved = agreement::most(&*self.group, if own.0 == newest_number { u64::from(own.1) } else { 0 })?;
        if saved == 0 {
            return Ok(());
        }
        // Half of a save that was killed is not worth a refusal where there is something to go on from.
        let (_, others) = self.others()?;
        let size = self.group.size();
        let mut others = others.into_iter().filter(|key| key.ranks != size);
        let whole = others.find(|key| newest.is_none_or(|newest| key.generation > newest));
        let (number, saved) = match (whole, newest) {
            (Some(key), _) => (key.generation.number, key.ranks),
            (None, None) if self.was_any_complete()? => (newest_number, saved as u32),
            (None, _) => return Ok(()),
        };
        Err(Error::OtherRanks { number, saved, ranks: size })
    }

    /// The newest generation of another number of ranks among those that this rank has a part of.
    fn newest_of_others(&self) -> Option<(GenerationId, u32)> {
        let is_other = |manifest: &Manifest| {
            manifest.job == self.config.job && manifest.rank == self.group.rank() && manifest.ranks != self.group.size()
        };
        let in_memory = self.memory.iter().flat_map(|memory| memory.manifests()).map(|(_, manifest)| manifest.clone());
        let durable = self.targets().flat_map(|target| {
            let generations = target.tier.generations().unwrap_or_default();
            let rank = self.group.rank();
            generations
                .into_iter()
                .take(CANDIDATES_MAX)
                .filter_map(move |stored| target.tier.manifest(stored.generation, rank).ok())
        });
        let others = in_memory.chain(durable).filter(is_other);
        others.map(|manifest| (manifest.generation, manifest.ranks)).max()
    }

    /// Forgets what is newer in memory than the generation that all ranks came back to: the parts of a save that was
    /// killed, or was refused. Otherwise the next save would keep them as the newest, and write over the restored one.
    ///
    /// Not before that save: what was refused for a reason that passes, such as a lack of room, is there for the next
    /// restart.
    pub(super) fn forget_what_was_refused(&mut self) {
        let Some(restored) = self.came_back_to.take() else { return };
        let own = self.memory.as_mut().map(|memory| memory.forget_newer(restored));
        let held = self.partner.as_mut().map(|partner| partner.forget_newer(restored));
        let shares = self.parity.as_mut().map(|parity| parity.forget_newer(restored));
        for failed in [own, held, shares].into_iter().flatten().filter_map(Result::err) {
            self.note(format!("what is newer than generation {} stays in memory: {failed}", restored.number));
        }
    }

    /// Checks and repairs what this rank keeps in memory and in the durable tiers; not collective. Returns a line per
    /// copy.
    pub fn scrub(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let slots: Vec<(SlotId, Manifest)> = self
            .memory
            .iter()
            .flat_map(|memory| memory.manifests())
            .map(|(slot, found)| (slot, found.clone()))
            .collect();
        for (slot, manifest) in slots {
            let Some(memory) = &self.memory else { break };
            let file = Disk.open_file(&memory.image_path(slot), true).map_err(|error| error.to_string());
            lines.push(format!("generation {} in memory: {}", manifest.generation.number, scrubbed(&manifest, file)));
        }
        let rank = self.group.rank();
        for target in self.targets() {
            for stored in target.tier.generations().unwrap_or_default() {
                let Ok(manifest) = target.tier.manifest(stored.generation, rank) else { continue };
                let file = target.tier.image(stored.generation, rank, true).map_err(|error| error.to_string());
                let (number, place) = (stored.generation.number, target.kind.place());
                lines.push(format!("generation {number} {place}: {}", scrubbed(&manifest, file)));
            }
        }
        lines
    }

    /// Asks the partners for what ranks could not restore themselves.
    fn or_from_partner(&mut self, generation: GenerationId, own: Attempt) -> Result<Attempt, Error> {
        let Some(partner) = &mut self.partner else { return Ok(own) };
        let given = partner.give_back(&*self.group, generation, own.is_err())?;
        let (Err(refused), Some((manifest, image))) = (&own, given) else { return Ok(own) };
        let rank = self.group.rank();
        let is_right = manifest.generation == generation && self.is_ours(&manifest);
        let restored = if is_right { self.restore(&manifest, &image) } else { Err("it is of something else".into()) };
        Ok(match restored {
            Ok(tally) => {
                let number = generation.number;
                let report = format!("rank {rank}: generation {number} from its partner: {}", describe(&tally));
                Ok((manifest, format!("{report}; refused: {refused}")))
            }
            Err(why) => Err(Error::NothingIntact { why: format!("{refused}, its partner's: {why}") }),
        })
    }

    /// Has what ranks could not restore themselves rebuilt from the others' images and parity.
    fn or_from_parity(&mut self, generation: GenerationId, own: Attempt) -> Result<Attempt, Error> {
        if self.parity.is_none() {
            return Ok(own);
        }
        let needing = agreement::sum(&*self.group, u64::from(own.is_err()))?;
        if needing == 0 {
            return Ok(own);
        }
        let image = if own.is_ok() { self.whole_in_memory(generation) } else { None };
        let Some(parity) = &mut self.parity else { return Ok(own) };
        let rebuilt = parity.give_back(&*self.group, generation, own.is_err(), image.as_ref())?;
        let (Err(refused), Some(rebuilt)) = (&own, rebuilt) else { return Ok(own) };
        let rank = self.group.rank();
        let restored = rebuilt.and_then(|(manifest, image)| {
            if manifest.generation != generation || !self.is_ours(&manifest) {
                return Err("it is of something else".into());
            }
            self.restore(&manifest, &image).map(|tally| (manifest, tally))
        });
        Ok(match restored {
            Ok((manifest, tally)) => {
                let number = generation.number;
                let report = format!("rank {rank}: generation {number} rebuilt from parity: {}", describe(&tally));
                Ok((manifest, format!("{report}; refused: {refused}")))
            }
            Err(why) => Err(Error::NothingIntact { why: format!("{refused}; rebuilt from parity: {why}") }),
        })
    }

    /// This rank's image of a generation, if memory has it and it is whole, or can be made whole.
    fn whole_in_memory(&mut self, generation: GenerationId) -> Option<SlotImage> {
        let is_it = |(_, manifest): &(SlotId, &Manifest)| manifest.generation == generation && self.is_ours(manifest);
        let found = self.memory.iter().flat_map(|memory| memory.manifests()).find(is_it);
        let (slot, manifest) = found.map(|(slot, manifest)| (slot, manifest.clone()))?;
        let memory = self.memory.as_mut()?;
        let file = Disk.open_file(&memory.image_path(slot), true).ok()?;
        Healer::open(manifest.geometry().ok()?, &*file, manifest.table_crc32c).ok()?.scrub().ok()?;
        memory.image(slot).ok()
    }

    /// The generations that this rank has in any tier.
    fn candidates(&self) -> Result<BTreeSet<GenerationId>, Error> {
        let mut found = BTreeSet::new();
        for (_, manifest) in self.memory.iter().flat_map(|memory| memory.manifests()) {
            if self.is_ours(manifest) {
                found.insert(manifest.generation);
            }
        }
        for target in self.targets() {
            for stored in target.tier.generations()?.iter().take(CANDIDATES_MAX) {
                let manifest = target.tier.manifest(stored.generation, self.group.rank());
                if manifest.is_ok_and(|manifest| self.is_ours(&manifest)) {
                    found.insert(stored.generation);
                }
            }
        }
        Ok(found)
    }

    fn is_ours(&self, manifest: &Manifest) -> bool {
        manifest.job == self.config.job && manifest.rank == self.group.rank() && manifest.ranks == self.group.size()
    }

    /// Copies of a generation, the fastest first.
    fn copies(&self, generation: GenerationId) -> Vec<Copy> {
        let in_memory = self.memory.iter().flat_map(|memory| memory.manifests());
        let in_memory = in_memory.filter(|(_, manifest)| manifest.generation == generation && self.is_ours(manifest));
        let mut copies: Vec<Copy> = in_memory.map(|(slot, manifest)| Copy::Memory(slot, manifest.clone())).collect();
        copies.extend(self.targets().filter_map(|target| {
            let manifest = target.tier.manifest(generation, self.group.rank()).ok()?;
            self.is_ours(&manifest).then(|| Copy::Durable(target.kind, target.tier.clone(), manifest))
        }));
        copies
    }

    /// Brings this rank's part back from the first copy that proves intact.
    fn bring_back(&mut self, generation: GenerationId) -> Attempt {
        let mut refused = Vec::new();
        for copy in self.copies(generation) {
            let (place, manifest, file) = match copy {
                Copy::Memory(slot, manifest) => {
                    let path = self.memory.as_ref().map(|memory| memory.image_path(slot)).unwrap_or_default();
                    ("memory", manifest, Disk.open_file(&path, false).map_err(Error::storage("open", &path)))
                }
                Copy::Durable(kind, tier, manifest) => {
                    let file = tier.image(generation, self.group.rank(), false);
                    (kind.name(), manifest, file)
                }
            };
            match file.map_err(|error| error.to_string()).and_then(|file| self.restore(&manifest, &*file)) {
                Ok(tally) => {
                    let mut report = format!(
                        "rank {}: generation {} from {place}: {}",
                        self.group.rank(),
                        generation.number,
                        describe(&tally)
                    );
                    if !refused.is_empty() {
                        report += &format!("; refused: {}", refused.join(", "));
                    }
                    return Ok((manifest, report));
                }
                Err(why) => refused.push(format!("{place}: {why}")),
            }
        }
        let why = if refused.is_empty() { "it has nothing of it".to_owned() } else { refused.join(", ") };
        Err(Error::NothingIntact { why: format!("rank {}: {why}", self.group.rank()) })
    }

    fn restore(&mut self, manifest: &Manifest, file: &dyn StoredFile) -> Result<Tally, String> {
        // First, whether the image is one at all: then what the manifest says is true, and room is made for it.
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let mut healer = Healer::open(geometry, file, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        let mut incoming = self.files.incoming(&manifest.regions).map_err(|error| error.to_string())?;
        let targets = self.regions.targets(manifest, &mut incoming)?;
        healer.read(&mut |offset, piece| targets.put(offset, piece)).map_err(|lost| lost.to_string())?;
        incoming.keep().map_err(|error| error.to_string())?;
        Ok(healer.tally())
    }
}

/// Generations that every rank has, newest first, and how many there are on any.
fn common(
    group: &dyn Group,
    own: &BTreeSet<GenerationId>,
    held: &[(u32, Vec<GenerationId>)],
) -> Result<(Vec<GenerationId>, usize), Error> {
    let newest: Vec<GenerationId> = own.iter().rev().take(CANDIDATES_MAX).copied().collect();
    let unreadable = |error: serde_json::Error| Error::Group { why: error.to_string() };
    let text = serde_json::to_vec(&(newest, held)).map_err(unreadable)?;
    let mut of_ranks: Vec<BTreeSet<GenerationId>> = Vec::new();
    let mut of_others = Vec::new();
    for text in group.gather_all(&text)? {
        let (own, held): (BTreeSet<GenerationId>, Vec<(u32, Vec<GenerationId>)>) =
            serde_json::from_slice(&text).map_err(unreadable)?;
        of_ranks.push(own);
        of_others.extend(held);
    }
    for (owner, generations) in of_others {
        if let Some(of_rank) = of_ranks.get_mut(owner as usize) {
            of_rank.extend(generations);
        }
    }
    let mut all: BTreeSet<GenerationId> = BTreeSet::new();
    let mut on_every: Option<BTreeSet<GenerationId>> = None;
    for of_rank in of_ranks {
        all.extend(&of_rank);
        on_every = Some(match on_every {
            Some(sofar) => sofar.intersection(&of_rank).copied().collect(),
            None => of_rank,
        });
    }
    Ok((on_every.unwrap_or_default().into_iter().rev().collect(), all.len()))
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
