//! Opens the tiers of a rank, each by itself: one that is dead, missing or another user's keeps nobody from the others.

use crate::config::{Config, MemoryConfig};
use crate::generation::{Age, check_job_name};
use crate::medium::Media;
use crate::session::Checkpointer;
use crate::session::files::Files;
use crate::session::finish::NOT_COMPLETED;
use crate::session::ranks::{Message, Ranks};
use crate::session::schedule::Wear;
use crate::session::schedule::ending::Ending;
use crate::session::tiers::{Target, Tiers};
use crate::tier::{Durable, DurableOptions, Memory, node};
use crate::{Error, Storage};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use surefoot_model::CheckpointTier as Tier;

/// How far the numbers of generations go on beside a tier that cannot be looked at: more than any job is ahead there.
pub(in crate::session) const UNSEEN_NUMBERS: u64 = 1_000_000;

/// What was opened of a rank's tiers.
pub(in crate::session) struct Opened {
    pub(in crate::session) tiers: Tiers,
    pub(in crate::session) files: Files,
    pub(in crate::session) ending: Ending,
    /// What the tiers lie on.
    pub(in crate::session) media: Media,
    pub(in crate::session) wear: Wear,
    /// Why the first of those could not be opened that could not.
    fault: Option<Error>,
    /// Whether there is anything of this job that one might go on from.
    holds_any: bool,
}

impl Opened {
    /// Opens what is configured.
    ///
    /// # Errors
    /// When no tier can be used; when a setting is wrong, or another process runs the same rank of the same job.
    pub(in crate::session) fn open(config: &Config, storage: &Arc<dyn Storage>, rank: u32) -> Result<Self, Error> {
        check_job_name(&config.job).map_err(|why| Error::Option { option: "job", why })?;
        let media = config.check()?;
        let mut fault = None;
        let memory = config.memory.as_ref().map(|memory| open_memory(memory, &config.job, rank, &mut fault));
        let memory = memory.transpose()?;
        let mut target = |directory: &Path, options: &DurableOptions, kind: Tier| {
            let tier = open_durable(storage, directory, &config.job, options, rank)?;
            fault = fault.take().or(tier.fault());
            Ok::<_, Error>(Target::new(tier, kind, media.of(kind).cloned()))
        };
        let ssd = config.durable.as_ref().map(|durable| target(&durable.directory, &durable.options, Tier::Durable));
        let ssd = ssd.transpose()?;
        let shared = config.shared.as_ref().map(|shared| target(&shared.directory, &shared.options, Tier::Shared));
        let shared = shared.transpose()?;
        let is_open = |target: &Option<Target>| target.as_ref().is_some_and(|target| target.tier.fault().is_none());
        let directories = [
            config.memory.as_ref().map(|of| (&of.directory, memory.as_ref().is_some_and(|of| of.fault().is_none()))),
            config.durable.as_ref().map(|of| (&of.directory, is_open(&ssd))),
            config.shared.as_ref().map(|of| (&of.directory, is_open(&shared))),
        ];
        let base = directories.into_iter().flatten().find_map(|(directory, is_open)| is_open.then_some(directory));
        let files = match (base, fault.take()) {
            (None, Some(error)) => return Err(error),
            (base, error) => {
                fault = error;
                let base = base.map_or(Path::new(""), |base| base.as_path());
                Files::new(base, &config.job, rank)?
            }
        };
        let in_memory =
            memory.as_ref().is_some_and(|of| of.manifests().next().is_some() || !of.unreadable().is_empty());
        let is_on_node =
            || memory.as_ref().is_some_and(|memory| on_node(config, memory, NOT_COMPLETED).is_ok_and(|found| found));
        let in_target = |target: &Target| target.tier.generations().is_ok_and(|found| !found.is_empty());
        let holds_any = in_memory || ssd.iter().chain(&shared).any(in_target) || is_on_node();
        // Without an SSD the shared directory takes its place.
        let (durable, shared) = if ssd.is_some() { (ssd, shared) } else { (shared, None) };
        let ending = Ending::watching(config.sigterm)?;
        let tiers = Tiers { memory, durable, shared, to_share: None };
        Ok(Opened { tiers, files, ending, media, wear: Wear::default(), fault, holds_any })
    }

    /// The settings without the tiers that could not be opened: nothing else is written there, either.
    pub(in crate::session) fn usable(&self, config: &Config) -> Config {
        let mut usable = config.clone();
        if self.tiers.memory.as_ref().is_some_and(|memory| memory.fault().is_some()) {
            usable.memory = None;
        }
        for target in self.tiers.targets().filter(|target| target.tier.fault().is_some()) {
            match target.kind {
                Tier::Memory | Tier::Durable => usable.durable = None,
                Tier::Shared => usable.shared = None,
            }
        }
        usable
    }

    /// Continues without a tier that could not be opened where the job has a checkpoint to continue from; a new job gets the
    /// error instead. Returns what every rank says of such tiers: the first rank that lacks one, which, and why.
    ///
    /// # Errors
    /// On all ranks, with what is wrong with the tier.
    pub(in crate::session) fn expect_a_reason_to_go_on(&mut self, ranks: &Ranks) -> Result<Option<String>, Error> {
        let told = u64::from(self.fault.is_some()) | u64::from(self.holds_any) << 32;
        let is_here = self.media.may_memory_wear_a_drive();
        let media =
            [&self.tiers.durable, &self.tiers.shared].map(|target| target.as_ref().map_or(0, Target::medium_number));
        let mut message = Message { sums: [told, u64::from(is_here)], mosts: media, ..Message::default() };
        let unopened = self.tiers.unopened();
        if !unopened.is_empty() {
            message.fail(ranks.rank(), &unopened.join("; "));
        }
        let all = ranks.tell(message, |_| ())?;
        let (told, worst) = (all.sums, all.mosts);
        for (target, worst) in [&mut self.tiers.durable, &mut self.tiers.shared].into_iter().zip(worst) {
            target.iter_mut().for_each(|target| target.told(worst));
        }
        self.wear = Wear { is_here, is_anywhere: told[1] > 0 };
        let told = told[0];
        let (unopened_count, holding_count) = (told as u32, told >> 32);
        if unopened_count > 0 && holding_count == 0 {
            ranks.all_or_none(self.fault.take().map_or(Ok(()), Err))?;
        }
        let others = match unopened_count {
            0 | 1 => String::new(),
            count => format!(" ({count} ranks lack a tier)"),
        };
        Ok(all.first_failure().map(|(rank, why)| format!("rank {rank}: {why}{others}")))
    }
}

fn open_memory(of: &MemoryConfig, job: &str, rank: u32, fault: &mut Option<Error>) -> Result<Memory, Error> {
    match of.make_default().and_then(|()| Memory::open(&of.directory, job, rank, of.slots)) {
        Err(error) if error.is_of_its_tier() => {
            let why = error.to_string();
            *fault = Some(error);
            Ok(Memory::unopened(&of.directory, job, why))
        }
        opened => opened,
    }
}

fn open_durable(
    storage: &Arc<dyn Storage>,
    base: &Path,
    job: &str,
    options: &DurableOptions,
    rank: u32,
) -> Result<Durable, Error> {
    let opened = Durable::open(Arc::clone(storage), base, job, options.clone()).and_then(|tier| tier.take(rank));
    match opened.and_then(|tier| tier.generations().map(|_| tier)) {
        Err(error) if error.is_of_its_tier() => {
            Durable::unopened(Arc::clone(storage), base, job, options.clone(), error)
        }
        opened => opened,
    }
}

/// Whether the memory of this node holds any checkpoint that is newer than `after` and was complete, or why that cannot
/// be seen.
fn on_node(config: &Config, memory: &Memory, after: Age) -> Result<bool, String> {
    if let Some(fault) = memory.fault() {
        return Err(fault.to_owned());
    }
    let Some(of) = &config.memory else { return Ok(false) };
    node::has_complete(&of.directory.join(&config.job), after).map_err(|error| error.to_string())
}

impl Checkpointer {
    /// Whether this rank sees a checkpoint that was complete, where it can look. That it cannot is for
    /// [`Checkpointer::unlooked`] to say.
    pub(in crate::session) fn sees_complete(&self) -> bool {
        let in_memory = self.tiers.memory.as_ref().is_some_and(|memory| self.on_node(memory).is_ok_and(|found| found));
        let mut durable = self.tiers.targets().flat_map(|target| target.tier.generations().unwrap_or_default());
        in_memory || durable.any(|stored| stored.committed_ranks.is_some() && !self.is_past(stored.age()))
    }

    fn on_node(&self, memory: &Memory) -> Result<bool, String> {
        on_node(&self.config, memory, self.run.completed)
    }

    /// A text with what is on this rank and cannot be read.
    pub(in crate::session) fn with_unreadable(&self, text: String, are: &str) -> String {
        let unreadable = self.unreadable();
        if unreadable.is_empty() { text } else { format!("{text}; {are}: {}", unreadable.join("; ")) }
    }

    /// Why no checkpoint comes back, where they were looked for, and what can be done.
    pub(in crate::session) fn nothing_intact(&self, why: &str) -> Error {
        let why = format!(
            "{why}; looked in {}: `surefoot checkpoint verify` shows what is there. As the last way, \
             `surefoot checkpoint remove` removes it, and the job starts over",
            self.tiers.directories()
        );
        Error::NothingIntact { why }
    }

    /// Refuses to begin anew beside a tier that could not be looked at.
    pub(in crate::session) fn expect_nothing_unlooked(&self, unlooked: &Option<String>) -> Result<(), Error> {
        let Some(unlooked) = unlooked else { return Ok(()) };
        let why = format!(
            "there is none where it was looked, but {unlooked}: mend that, or remove this tier from the settings to start over"
        );
        Err(Error::NothingIntact { why })
    }

    /// Why other users could remove or replace checkpoints, for each such directory of a tier.
    pub(in crate::session) fn open_to_others(&self) -> Vec<String> {
        let memory = self.config.memory.as_ref().map(|of| &of.directory);
        let durable = self.config.durable.as_ref().map(|of| &of.directory);
        let shared = self.config.shared.as_ref().map(|of| &of.directory);
        let all = memory.into_iter().chain(durable).chain(shared);
        let said = all.filter_map(|path| match surefoot_foreign::way::others_replace_in(path) {
            Ok(why) => Some(format!(
                "{}, so that other users can remove or replace checkpoints in {}: run `chmod go-w` on it (or set the sticky bit), and `chown` it where it is another user's",
                why?,
                path.display()
            )),
            // The notice of a tier that cannot be used says why.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => Some(format!(
                "could not check who can remove or replace checkpoints in {}: {}",
                path.display(),
                surefoot_heal::error::said(&error)
            )),
        });
        said.collect()
    }

    /// What any rank cannot look at now, in words; the same on all. There may be checkpoints there.
    pub(in crate::session) fn unlooked(&self) -> Result<Option<String>, Error> {
        let memory = self.tiers.memory.as_ref().and_then(|memory| {
            let why = self.on_node(memory).err()?;
            Some(format!("memory ({why})"))
        });
        let targets = self.tiers.targets().filter_map(|target| {
            let error = target.tier.generations().err().or_else(|| target.tier.left_out())?;
            Some(format!("{} ({error})", target.kind.name()))
        });
        let own: Vec<String> = memory.into_iter().chain(targets).collect();
        let mut message = Message { sums: [u64::from(!own.is_empty()), 0], ..Message::default() };
        if !own.is_empty() {
            message.fail(self.ranks.rank(), &own.join(" and "));
        }
        let told = self.ranks.tell(message, |_| ())?;
        let others = match told.sums[0] {
            0 | 1 => String::new(),
            count => format!(", and {} more ranks cannot look at all directories", count - 1),
        };
        Ok(told.first_failure().map(|(rank, why)| format!("rank {rank} cannot look at {why}{others}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::controller::{Policy, Surefoot};
    use crate::session::{Saved, clock};
    use crate::testing::failing::{ALL, CREATING, Failing, LISTING, LISTING_SECOND, LOOKING, NOTHING, SYNCING};
    use crate::testing::{Home, make_memory};
    use crate::{Alone, Place};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_drive_that_fails_to_be_read_stops_no_restart_and_is_no_beginning() {
        let home = Home::new();
        let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
        make_memory(&memory);
        std::fs::create_dir(&ssd).unwrap();
        let mut config = Config { drive_file: None, ..Config::new("job", &memory, Some(ssd)) };
        config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() });
        let drive = Arc::new(Failing::default());
        let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
        let mut state = vec![0u8; 100_000];
        let mut open = |fails: u32| {
            drive.0.store(fails, Ordering::Relaxed);
            let mut job = Checkpointer::open_with(&storage, clock::host(), "here", config.clone(), Box::new(Alone))?;
            // SAFETY: `state` outlives the job, and is left alone during its calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
            Ok::<_, Error>(job)
        };
        let mut job = open(NOTHING).unwrap();
        assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
        job.wait_for_copies().unwrap();
        // It fails while the job runs, and before it begins.
        drive.0.store(ALL, Ordering::Relaxed);
        let report = job.restart().unwrap().unwrap().report;
        assert!(report.contains("from memory") && report.contains("cannot look at the SSD"), "{report}");
        drop(job);
        for fails in [LISTING, LOOKING, ALL] {
            let mut job = open(fails).unwrap();
            let restored = job.restart().unwrap().unwrap();
            let words = ["from memory", "cannot look at the SSD", "a newer one may be there"];
            assert!(words.iter().all(|word| restored.report.contains(word)), "{fails}: {restored:?}");
            assert!(!restored.report.contains("os error"), "{restored:?}");
            assert_eq!(restored.generation.number, 1);
            assert!(job.restart_resized().unwrap().is_some() && job.open_resized().unwrap().is_some());
        }
        // Memory is gone, too: what can be read is read, and else it is no beginning.
        std::fs::remove_dir_all(memory.join("job")).unwrap();
        let restored = open(SYNCING).unwrap().restart().unwrap().unwrap();
        assert!(restored.report.contains("from the SSD"), "what cannot be written to may still be read: {restored:?}");
        for fails in [LISTING, LOOKING, ALL] {
            std::fs::remove_dir_all(memory.join("job")).unwrap();
            let refused = open(fails).err().unwrap().to_string();
            assert!(refused.contains("ssd/job") && refused.contains("kernel's log"), "{fails}: {refused}");
        }
        let mut job = open(NOTHING).unwrap();
        drive.0.store(LISTING, Ordering::Relaxed);
        for refused in [job.restart().map(drop), job.restart_resized().map(drop), job.open_resized().map(drop)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("cannot look at the SSD") && refused.contains("start over"), "{refused}");
        }
    }

    /// A restart may go on from an older one, and says which could not be looked at, and not that nothing of it is left.
    #[test]
    fn a_generation_that_cannot_be_listed_is_not_readable_and_not_gone() {
        let (home, config) = with_durable_saves();
        let drive = Arc::new(Failing::default());
        let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
        let mut state = vec![0u8; 100_000];
        let mut open = || {
            let mut job =
                Checkpointer::open_with(&storage, clock::host(), "here", config.clone(), Box::new(Alone)).unwrap();
            // SAFETY: `state` outlives the job, and is left alone during its calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
            job
        };
        let mut job = open();
        for _ in 0..2 {
            assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
            job.wait_for_copies().unwrap();
        }
        drop(job);
        std::fs::remove_dir_all(home.path().join("memory/job")).unwrap();
        drive.0.store(LISTING_SECOND, Ordering::Relaxed);
        let restored = open().restart().unwrap().unwrap();
        assert_eq!(restored.generation.number, 1);
        let words = ["not readable: cannot list ", "0000000002-", "Input/output error"];
        assert!(words.iter().all(|word| restored.report.contains(word)), "{restored:?}");
        assert!(!restored.report.contains("no part of it is left"), "{restored:?}");
    }

    /// A job of two tiers whose every save asks for a durable copy.
    fn with_durable_saves() -> (Home, Config) {
        let home = Home::new();
        let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
        make_memory(&memory);
        std::fs::create_dir(&ssd).unwrap();
        let mut config = Config { drive_file: None, ..Config::new("job", &memory, Some(ssd)) };
        config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() });
        config.health_file = home.path().join("health.json");
        (home, config)
    }

    #[test]
    fn a_drive_to_which_writes_fail_is_left_alone_for_a_while_and_then_tried_again() {
        let (_home, config) = with_durable_saves();
        let drive = Arc::new(Failing::default());
        let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
        let mut state = vec![0u8; 100_000];
        let mut job = Checkpointer::open_with(&storage, clock::host(), "here", config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        let save = |job: &mut Checkpointer, count: usize| -> (Vec<Place>, String) {
            let mut places = Vec::new();
            for _ in 0..count {
                places.push(job.checkpoint().unwrap().decision.place);
                job.wait_for_copies().unwrap();
            }
            (places, job.take_notices().join("\n"))
        };
        let tries = || drive.1.load(Ordering::Relaxed);
        drive.0.store(CREATING, Ordering::Relaxed);
        let (places, said) = save(&mut job, 20);
        assert_eq!(places[0], Place::Both);
        assert!(places[1..].iter().all(|place| *place == Place::Memory) && tries() == 1, "{places:?}");
        assert!(said.lines().count() == 1 && said.contains("tried again in 60 s"), "said once: {said}");
        let why = job.checkpoint().unwrap().decision.reasons.join("; ");
        assert!(why.contains("the SSD is left alone, because the last write failed"), "{why}");
        // Each try that fails in a row is followed by a longer rest, up to an hour.
        for (number, rest_s) in [(2, 120), (3, 240), (4, 480), (5, 960), (6, 1_920), (7, 3_600), (8, 3_600)] {
            job.tiers.durable.as_mut().unwrap().end_rest();
            let (_, said) = save(&mut job, 3);
            let wanted = format!("{number} writes in a row have failed; the SSD is tried again in {rest_s} s");
            assert!(tries() == number && said.lines().count() == 1 && said.contains(&wanted), "{said}");
        }
        // Who says so himself tries at once, and what works ends the rest.
        assert!(job.checkpoint_to(Place::Durable).is_err() && tries() == 9);
        assert!(job.finish().is_err() && tries() == 10);
        job.take_notices();
        drive.0.store(NOTHING, Ordering::Relaxed);
        assert_ne!(job.finish().unwrap().is_durable, Some(false));
        let (places, said) = save(&mut job, 2);
        assert_eq!(places, [Place::Both; 2], "{said}");
    }

    #[test]
    fn a_tier_that_could_not_be_opened_is_not_tried_again_and_nothing_says_that_it_is() {
        let (_home, config) = with_durable_saves();
        let drive = Arc::new(Failing::default());
        let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
        let mut state = vec![0u8; 100_000];
        let mut open = || {
            let mut job =
                Checkpointer::open_with(&storage, clock::host(), "here", config.clone(), Box::new(Alone)).unwrap();
            // SAFETY: `state` outlives the job, and is left alone during its calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
            job
        };
        let mut job = open();
        job.checkpoint().unwrap();
        job.wait_for_copies().unwrap();
        drop(job);
        drive.0.store(LISTING, Ordering::Relaxed);
        let mut job = open();
        // What it could not be opened for is mended, and it stays closed all the same.
        drive.0.store(NOTHING, Ordering::Relaxed);
        job.restart().unwrap().unwrap();
        let Saved { decision, .. } = job.checkpoint().unwrap();
        let why = decision.reasons.join("; ");
        assert!(decision.place == Place::Memory && why.contains("is not tried again until it restarts"), "{why}");
        assert!(job.checkpoint_to(Place::Durable).is_err());
        job.checkpoint_to(Place::Both).unwrap();
        job.wait_for_copies().unwrap();
        assert!(job.finish().is_err());
        let said = job.take_notices().join("\n");
        assert!(
            said.contains("until the job restarts") && said.contains("is not tried again until it restarts"),
            "{said}"
        );
        assert!(!said.contains("tried again in") && !said.contains("at once"), "{said}");
        drop(job);
        assert_eq!(open().checkpoint().unwrap().decision.place, Place::Both, "after the restart it is used again");
    }

    #[test]
    fn the_small_files_beside_an_image_need_room_too() {
        let (home, config) = with_durable_saves();
        let drive = Arc::new(Failing::default());
        let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
        let mut state = vec![0u8; 4_000];
        let mut job = Checkpointer::open_with(&storage, clock::host(), "here", config, Box::new(Alone)).unwrap();
        for number in 0..4_000 {
            // SAFETY: `state` outlives the job, and is left alone during its calls.
            unsafe { job.protect(&format!("{number:0>100}"), state.as_mut_ptr().add(number), 1).unwrap() };
        }
        let routed = job.route_file("log").unwrap();
        std::fs::write(routed, "a line").unwrap();
        let image_bytes = job.tiers.durable.as_ref().unwrap().tier.bytes_for(4_006).unwrap();
        drive.2.store(image_bytes + 100_000, Ordering::Relaxed);
        let taken = job.checkpoint().unwrap();
        assert_eq!(taken.decision.place, Place::Memory, "its manifest alone has half a megabyte: {taken:?}");
        drive.2.store(image_bytes + 700_000, Ordering::Relaxed);
        assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
        job.wait_for_copies().unwrap();
        let written: u64 = std::fs::read_dir(home.path().join("ssd/job"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let files = std::fs::read_dir(&path)
                    .map(|found| found.map(|file| file.unwrap().metadata().unwrap().len()).sum());
                files.unwrap_or_else(|_| std::fs::metadata(&path).unwrap().len())
            })
            .sum();
        assert!(written > image_bytes + 400_000 && written <= image_bytes + 700_000, "{written} beside {image_bytes}");
    }
}
