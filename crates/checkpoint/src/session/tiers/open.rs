//! Opens the tiers of a rank, each by itself: one that is dead, missing or another user's keeps nobody from the others.

use crate::config::{Config, MemoryConfig};
use crate::generation::check_job_name;
use crate::medium::Media;
use crate::session::files::Files;
use crate::session::ranks::{Message, Ranks};
use crate::session::tiers::{Own, Target, Tiers};
use crate::tier::{Durable, DurableOptions, Memory};
use crate::{Error, Storage};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use surefoot_model::CheckpointTier as Tier;

/// How far the numbers of generations go on beside a tier that cannot be looked at: more than any job is ahead there.
pub const UNSEEN_NUMBERS: u64 = 1_000_000;

/// Whether the memory tier lies on a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wear {
    /// Of this rank.
    pub is_here: bool,
    /// Of any rank.
    pub is_anywhere: bool,
}

/// What was opened of a rank's tiers.
pub struct Opened {
    pub tiers: Tiers,
    pub files: Files,
    /// What the tiers lie on.
    pub media: Media,
    pub wear: Wear,
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
    pub fn open(config: &Config, storage: &Arc<dyn Storage>, ranks: &Ranks) -> Result<Self, Error> {
        let rank = ranks.rank();
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
        // Without an SSD the shared directory takes its place.
        let (durable, shared) = if ssd.is_some() { (ssd, shared) } else { (shared, None) };
        let of_job = config.memory.as_ref().map(|memory| memory.directory.join(&config.job));
        let own = Own { job: config.job.clone(), rank, ranks: ranks.size(), memory: of_job };
        let tiers = Tiers { own, memory, durable, shared, to_share: None };
        let holds_any = tiers.hold_any();
        Ok(Opened { tiers, files, media, wear: Wear::default(), fault, holds_any })
    }

    /// The settings without the tiers that could not be opened: nothing else is written there, either.
    pub fn usable(&self, config: &Config) -> Config {
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
    pub fn expect_a_reason_to_go_on(&mut self, ranks: &Ranks) -> Result<Option<String>, Error> {
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

/// Why other users could remove or replace checkpoints, for each such directory of a tier.
pub fn open_to_others(config: &Config) -> Vec<String> {
    let said = config.directories().filter_map(|path| match surefoot_foreign::way::others_replace_in(path) {
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

#[cfg(test)]
mod tests;
