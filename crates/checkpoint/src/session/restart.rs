//! Finds the newest checkpoint that all ranks can prove intact, and restores it.

use crate::generation::{GenerationId, Key, Manifest};
use crate::image::{Healer, Tally};
use crate::session::Checkpointer;
use crate::session::bytes::{Bytes, Held};
use crate::session::files::Incoming;
use crate::session::journal;
use crate::session::outcomes::Restored;
use crate::session::ranks::{Call, told_on_all};
use crate::session::reach::{Breadth, Inventory, Proved, Wanted, Wish, fetch};
use crate::session::regions::{Placing, Targets};
use crate::session::resized::{Piece, Resized};
use crate::session::tiers::{describe, expect_nothing_unlooked};
use crate::{Error, StoredFile};
use std::collections::BTreeMap;
use std::time::Instant;

/// The most ranks that are asked to prove one part: it lies on one node, or on two where a partner has it, too.
const PROVERS_MAX: usize = 2;

/// Lines of the journal, the newest, that are asked which checkpoints were saved.
const CLAIMS_MAX: usize = 1_000;

/// What a rank says of a generation of which it finds nothing where it runs.
const NOTHING_OF_IT: &str = "it has nothing of it";

/// What bringing back one generation gave on one rank: its manifest, what was met, and the files that are to get their
/// names.
type Attempt = Result<(Manifest, String, Incoming), Error>;

/// What is needed to take a part: its places, its files, its manifest, and what was met where it was proved.
type Ready = (Targets, Incoming, Manifest, String);

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
        self.journal.restarted(&restored, self.run.read_from);
        self.make_ahead_for_regions();
        restored
    }

    /// As [`Checkpointer::restart`], but into memory that the program finds for each region when it knows how long it
    /// was saved, instead of the registered ones. `place` is asked once for each copy that is tried.
    ///
    /// # Errors
    /// As [`Checkpointer::restart`]; what `place` refuses counts as not intact on all ranks.
    ///
    /// # Safety
    /// Every address that `place` returns has room for the bytes of its region, and nothing else uses that until this
    /// call returns.
    pub unsafe fn restart_into(&mut self, place: Box<Placing>) -> Result<Option<Restored>, Error> {
        self.regions.place = Some(place);
        let restored = self.restart();
        self.regions.place = None;
        restored
    }

    fn restart_newest(&mut self) -> Result<Option<Restored>, Error> {
        let Some(inventory) = self.inventory(Breadth::SameRanks)? else { return Ok(None) };
        let size = self.ranks.size();
        let (own, others): (Vec<Key>, Vec<Key>) = inventory.keys(size).into_iter().partition(|key| key.ranks == size);
        self.expect_no_newer_of_others(&inventory, own.first(), others.first())?;
        self.restart_from(own, &inventory)
    }

    /// Brings back the newest checkpoint that can be proved intact, of however many ranks. With as many as there are now
    /// it does what [`Checkpointer::restart`] does. With more or fewer, regions are found by their names: the parts that
    /// the old ranks saved under a name, in the order of the ranks, are one array of which each rank here gets as much as
    /// it registered, if that is all of it; what all had, of one length and content, everybody gets. A routed file of old
    /// rank r goes to rank r mod M, and from ranks that are no more as `NAME.rank-00007`. `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks, with what each checkpoint failed at; the regions then hold nothing useful.
    /// [`Error::Group`].
    pub fn restart_resized(&mut self) -> Result<Option<Restored>, Error> {
        let restored = self.collective(Call::RestartResized, Self::restart_of_any_size);
        self.journal.restarted(&restored, self.run.read_from);
        self.make_ahead_for_regions();
        restored
    }

    /// As [`Checkpointer::restart_resized`], without the regions whose names begin with this: what a layer above keeps
    /// for itself. With as many ranks as saved nothing is left out.
    ///
    /// # Errors
    /// As [`Checkpointer::restart_resized`].
    pub fn restart_resized_without(&mut self, beginning: &str) -> Result<Option<Restored>, Error> {
        self.left_out = Some(beginning.to_owned());
        let restored = self.restart_resized();
        self.left_out = None;
        restored
    }

    fn restart_of_any_size(&mut self) -> Result<Option<Restored>, Error> {
        let Some(inventory) = self.inventory(Breadth::AnyRanks)? else { return Ok(None) };
        self.restart_from(inventory.keys(self.ranks.size()), &inventory)
    }

    /// Finds the newest checkpoint of any number of ranks whose parts all prove intact, for a program that reads them
    /// itself with [`Checkpointer::read_resized`]. `None` when there is no checkpoint at all. Collective. The next
    /// checkpoint counts as taken after this one.
    ///
    /// # Errors
    /// [`Error::NothingIntact`] on all ranks, with what each failed at; [`Error::Group`].
    pub fn open_resized(&mut self) -> Result<Option<Resized>, Error> {
        self.collective(Call::OpenResized, Self::open_of_any_size)
    }

    fn open_of_any_size(&mut self) -> Result<Option<Resized>, Error> {
        let Some(inventory) = self.inventory(Breadth::AnyRanks)? else { return Ok(None) };
        let whereabouts = self.whereabouts(&inventory)?;
        let mut refused = Vec::new();
        for key in inventory.keys(self.ranks.size()) {
            match Resized::prove(&inventory, &self.ranks, &self.nodes, key)? {
                Ok(mut resized) => {
                    resized.report = self.with_weakness(resized.report);
                    self.come_back_to(key.generation);
                    if key.ranks != self.ranks.size() {
                        self.run.resized_at = Some(self.schedule.course.taken_count);
                    }
                    return Ok(Some(resized));
                }
                Err(why) => refused.push(format!("generation {}: {why}", key.generation.number)),
            }
        }
        match (refused.is_empty(), inventory.seen().is_empty()) {
            (true, is_empty) if is_empty || !self.was_any_complete()? => {
                let unlooked = self.tiers.unlooked(&self.ranks, self.run.completed)?;
                self.expect_nothing_there(&unlooked)?;
                if !is_empty {
                    self.begin_anew();
                }
                Ok(None)
            }
            (true, _) => {
                let newest = inventory.newest_of(&whereabouts, None);
                let why =
                    format!("there are parts of checkpoints, and of none all are within reach: {}", newest.join("; "));
                Err(Error::NothingIntact { why })
            }
            (false, _) => Err(Error::NothingIntact { why: refused.join("; ") }),
        }
    }

    /// Reads pieces of what the ranks of an older, smaller or larger job saved, checked and repaired. Collective: every
    /// rank passes the pieces that it wants, or none.
    ///
    /// # Errors
    /// [`Error::Option`] on all ranks when one asks for what is not there; [`Error::NothingIntact`] on all ranks when a
    /// part cannot be read any more, and then no piece holds anything useful; [`Error::Group`].
    pub fn read_resized(&mut self, resized: &Resized, pieces: &mut [Piece<'_>]) -> Result<(), Error> {
        self.collective_after(resized.generation, Call::ReadResized, |job| resized.read(&job.ranks, pieces))
    }

    /// Tells all ranks what this one reaches, and hears what they do; `None` where the job was completed and nothing was saved
    /// since, on any node that is looked at. Then it begins anew, and says so.
    fn inventory(&mut self, breadth: Breadth) -> Result<Option<Inventory>, Error> {
        self.run.unasked = None;
        self.end_drains()?;
        let among = (&self.ranks, &self.nodes, self.config.job.as_str());
        let inventory = Inventory::of(among, &self.tiers, &self.redundancy, breadth, self.run.completed)?;
        // What follows is newer than all that is there, whether it is whole or not.
        inventory.seen().iter().for_each(|key| self.run.goes_on_after(key.age()));
        let number = self.run.completed.generation.number;
        if number == 0 || !inventory.seen().is_empty() {
            return Ok(Some(inventory));
        }
        expect_nothing_unlooked(&self.tiers.unlooked(&self.ranks, self.run.completed)?)?;
        self.journal.note(format!(
            "the job was completed at generation {number}: it starts over; after_completion=continue goes on from there"
        ));
        Ok(None)
    }

    /// For each generation that is not whole within reach, what is missing and where it lies. Collective.
    fn whereabouts(&self, inventory: &Inventory) -> Result<BTreeMap<Key, String>, Error> {
        self.nodes.whereabouts(&self.ranks, &self.tiers.job_directories(), inventory.all_missing())
    }

    /// Brings back the first candidate that all ranks can prove.
    fn restart_from(&mut self, candidates: Vec<Key>, inventory: &Inventory) -> Result<Option<Restored>, Error> {
        let whereabouts = self.whereabouts(inventory)?;
        let unlooked = self.tiers.unlooked(&self.ranks, self.run.completed)?;
        let mut refused = Vec::new();
        for key in candidates {
            self.run.read_from = None;
            let attempt = match key.ranks == self.ranks.size() {
                true => self.bring_back_own(inventory, key)?,
                false => self.bring_back_resized(inventory, key)?,
            };
            match attempt {
                Ok(restored) => {
                    let mut report = restored.report;
                    if !refused.is_empty() {
                        report = format!("{report}; refused before: {}", refused.join("; "));
                    }
                    report = self.tiers.with_unreadable(report, "not readable");
                    if let Some(unlooked) = unlooked {
                        report = format!("{report}; {unlooked}: a newer one may be there");
                    }
                    let doubts = inventory.doubts(&self.tiers, self.run.completed, &whereabouts, key);
                    report = doubts.into_iter().fold(report, |report, doubt| format!("{report}; {doubt}"));
                    if let Some(gone) = self.newer_that_is_gone(inventory, key.generation.number) {
                        report = format!("{report}; {gone}");
                        self.journal.note(gone);
                    }
                    report = self.with_weakness(report);
                    self.come_back_to(key.generation);
                    let read_from = self.run.read_from;
                    self.journal.notes(self.tiers.prune_before(&self.ranks, &self.nodes, key.age(), read_from)?);
                    return Ok(Some(Restored { report, ..restored }));
                }
                Err(why) => {
                    let missing = whereabouts.get(&key);
                    let missing = missing.map(|missing| format!("; job {:?}, {missing}", self.config.job));
                    refused.push(format!("generation {}: {why}{}", key.generation.number, missing.unwrap_or_default()));
                }
            }
        }
        let mut why = match (refused.is_empty(), inventory.seen().len()) {
            (true, 0) => {
                expect_nothing_unlooked(&unlooked)?;
                self.tiers.expect_nothing_unreadable(&self.ranks)?;
                if !self.was_any_complete()? {
                    return self.expect_nothing_elsewhere().map(|()| None);
                }
                "a checkpoint was completed here, and no rank finds a part of it that it can read".to_owned()
            }
            (true, _) if !self.was_any_complete()? => {
                self.expect_nothing_there(&unlooked)?;
                self.begin_anew();
                return Ok(None);
            }
            (true, seen) => {
                let ranks = self.ranks.size();
                let newest = inventory.newest_of(&whereabouts, None).join("; ");
                let why = format!(
                    "{seen} generations of job {:?} are there, none of them whole within reach of these {ranks} ranks: \
                     {newest}",
                    self.config.job
                );
                self.tiers.with_unreadable(why, "not readable here")
            }
            (false, _) => refused.join("; "),
        };
        if let Some(unlooked) = unlooked {
            why = format!("{why}; {unlooked}");
        }
        Err(self.tiers.nothing_intact(&why))
    }

    /// On rank 0, that a checkpoint of which the job's journal tells is gone, where it is newer than the one that comes
    /// back.
    fn newer_that_is_gone(&self, inventory: &Inventory, restored: u64) -> Option<String> {
        let directory = self.journal.directory()?;
        let lines = match journal::read(directory, CLAIMS_MAX) {
            Ok(history) => history?.entries,
            Err(error) => return Some(format!("{error}: whether a newer checkpoint is gone is not known")),
        };
        let is_there = |number: u64| {
            inventory.seen().iter().any(|key| key.generation.number == number) || self.tiers.has_number(number)
        };
        journal::newer_that_is_gone(&lines, restored, is_there)
    }

    /// Refuses to begin anew beside what cannot be looked at or read, or may be elsewhere.
    fn expect_nothing_there(&mut self, unlooked: &Option<String>) -> Result<(), Error> {
        expect_nothing_unlooked(unlooked)?;
        self.tiers.expect_nothing_unreadable(&self.ranks)?;
        self.expect_nothing_elsewhere()
    }

    fn expect_nothing_elsewhere(&mut self) -> Result<(), Error> {
        let (job, directories) = (&self.config.job, self.tiers.job_directories());
        let gone = self.nodes.expect_nothing_elsewhere(&self.ranks, job, &directories, self.run.completed)?;
        self.journal.notes(gone);
        Ok(())
    }

    /// Whether any rank finds a checkpoint that all ranks of the job had, be it whole or not now. What a job leaves that was
    /// killed in its first save is none.
    fn was_any_complete(&self) -> Result<bool, Error> {
        Ok(self.ranks.sum(u64::from(self.tiers.sees_complete(self.run.completed)))? > 0)
    }

    /// Goes on from nothing, beside parts of a first save that never came to its end: the next save forgets them.
    fn begin_anew(&mut self) {
        // After a run that was completed, what that one left is kept until the next save.
        let nonce = if self.run.completed.generation.number > 0 { u64::MAX } else { 0 };
        self.run.came_back_to = Some(GenerationId { number: self.run.completed.generation.number, nonce });
        self.journal
            .note("a first checkpoint was begun and not completed on all ranks: there is nothing to go back to".into());
    }

    /// Brings back a generation of as many ranks as there are. The inner error says why it cannot be.
    fn bring_back_own(&mut self, inventory: &Inventory, key: Key) -> Result<Result<Restored, String>, Error> {
        let generation = key.generation;
        let attempt = self.bring_back(generation);
        let attempt = self.or_from_nodes(inventory, key, attempt)?;
        let attempt = self.or_from_parity(inventory, key, attempt)?;
        let (manifest, report, incoming) = match told_on_all(self.ranks.all_or_none(attempt))? {
            Ok(attempt) => attempt,
            Err(error) => return Ok(Err(error.reason())),
        };
        // Only now: files of a generation that another rank refuses must not join later checkpoints.
        let names = told_on_all(self.ranks.all_or_none(self.files.put(incoming)))?;
        Ok(names.map_err(|error| error.reason()).map(|names| {
            self.files.own(names);
            Restored { generation, taken_realtime_ns: manifest.taken_realtime_ns, report }
        }))
    }

    /// Brings back a generation of another number of ranks, by the names of regions and files. The inner error says why
    /// it cannot be.
    fn bring_back_resized(&mut self, inventory: &Inventory, key: Key) -> Result<Result<Restored, String>, Error> {
        let resized = match Resized::prove(inventory, &self.ranks, &self.nodes, key)? {
            Ok(resized) => resized,
            Err(why) => return Ok(Err(why)),
        };
        let is_left_out = |name: &str| self.left_out.as_ref().is_some_and(|beginning| name.starts_with(beginning));
        let restored = resized.bring_back(&self.ranks, &self.regions, &mut self.files, &is_left_out)?;
        if restored.is_ok() {
            self.run.resized_at = Some(self.schedule.course.taken_count);
        }
        Ok(restored)
    }

    /// What follows from here on is newer than this generation.
    fn come_back_to(&mut self, generation: GenerationId) {
        self.run.came_back_to = Some(generation);
        self.run.newest = Some((generation, Instant::now()));
        self.run.number = self.run.number.max(generation.number);
        self.schedule.course.last_any_s = self.schedule.now_s();
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
            self.journal.note(format!("what is newer than generation {} stays in memory: {failed}", restored.number));
        }
    }

    /// Checks and repairs what this rank keeps in memory and in the durable tiers; not collective. Returns a line per
    /// copy, and one where redundancy does not protect from what it is there for.
    pub fn scrub(&mut self) -> Vec<String> {
        self.tiers.scrub().into_iter().chain(self.weakness.clone()).collect()
    }

    /// Reads what ranks could not restore themselves from whoever reaches it: on another node, or what a partner kept.
    /// The same on all ranks; the result is this rank's. Each part is proved before anything of it is used.
    fn or_from_nodes(&mut self, inventory: &Inventory, key: Key, own: Attempt) -> Result<Attempt, Error> {
        let needing = self.ranks.gather_all(&[u8::from(own.is_err())])?;
        let wanted: Vec<u32> =
            (0..).zip(&needing).filter(|(_, word)| word.first() == Some(&1)).map(|(rank, _)| rank).collect();
        if wanted.is_empty() {
            return Ok(own);
        }
        // The memory of ranks that ran on a node before is given back when newer checkpoints are complete.
        self.run.resized_at = Some(self.schedule.course.taken_count);
        let proved = inventory.prove_parts(&self.ranks, &self.nodes, key, &wanted, PROVERS_MAX)?;
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
        let read = told_on_all(read)?;
        let (Some(ready), Err(refused)) = (ready, &own) else { return Ok(own) };
        let kept = ready.and_then(|(_, incoming, manifest, met)| {
            read.map_err(|error| error.reason())?;
            Ok((manifest, met, incoming))
        });
        let refused = refused.reason();
        Ok(match kept {
            Ok((manifest, met, incoming)) => {
                let report = format!("rank {rank}: generation {} {met}", key.generation.number);
                Ok((manifest, after(report, &refused), incoming))
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
        let image = if own.is_ok() { self.tiers.whole_in_memory(generation) } else { None };
        let rank = self.ranks.rank();
        let rows = self.redundancy.parity_mut().and_then(|parity| parity.own_rows(generation, rank));
        // What lies on another node is brought here first.
        let brought = inventory.bring(&self.ranks, &self.nodes, key, Wanted::Image, own.is_ok() && image.is_none())?;
        let image = image.map(Held::Slot).or(brought.map(|(_, image)| Held::Brought(image)));
        let brought = inventory.bring(&self.ranks, &self.nodes, key, Wanted::Rows, rows.is_none())?;
        let brought = brought.map(|(manifest, rows)| (manifest, Held::Brought(rows)));
        let rows = rows.map(|(manifest, rows)| (manifest, Held::Slot(rows))).or(brought);
        let Some(parity) = self.redundancy.parity() else { return Ok(own) };
        let rebuilt = parity.give_back(&self.ranks, generation, own.is_err(), image.as_ref(), rows.as_ref())?;
        let (Err(refused), Some(rebuilt)) = (&own, rebuilt) else { return Ok(own) };
        let restored = rebuilt.and_then(|(manifest, image)| {
            if manifest.generation != generation || !self.tiers.is_ours(&manifest) {
                return Err("it is of something else".into());
            }
            self.restore(&manifest, &Bytes(&image)).map(|restored| (manifest, restored))
        });
        Ok(match restored {
            Ok((manifest, (tally, incoming))) => {
                let number = generation.number;
                let report = format!("rank {rank}: generation {number} rebuilt from parity: {}", describe(&tally));
                Ok((manifest, after(report, &refused.reason()), incoming))
            }
            Err(why) => Err(Error::NothingIntact { why: format!("{}; rebuilt from parity: {why}", refused.reason()) }),
        })
    }

    /// Brings this rank's part back from the first copy that proves intact.
    fn bring_back(&mut self, generation: GenerationId) -> Attempt {
        let (rank, mut refused) = (self.ranks.rank(), Vec::new());
        for copy in self.tiers.copies(generation) {
            let place = copy.place_name();
            let file = copy.open().map_err(|error| error.to_string());
            match file.and_then(|file| self.restore(&copy.manifest, &*file)) {
                Ok((tally, incoming)) => {
                    self.run.read_from = Some((copy.tier(), generation));
                    let number = generation.number;
                    let mut report = format!("rank {rank}: generation {number} from {place}: {}", describe(&tally));
                    if !refused.is_empty() {
                        report += &format!("; refused: {}", refused.join(", "));
                    }
                    return Ok((copy.manifest, report, incoming));
                }
                Err(why) => refused.push(format!("{place}: {why}")),
            }
        }
        let why = if refused.is_empty() { NOTHING_OF_IT.to_owned() } else { refused.join(", ") };
        Err(Error::NothingIntact { why: format!("rank {rank}: {why}") })
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

/// A report, with why this rank's own copy was refused, if there is one.
fn after(report: String, refused: &str) -> String {
    if refused.ends_with(NOTHING_OF_IT) { report } else { format!("{report}; refused: {refused}") }
}
