//! Whether a job's tiers can be what they are called, by where their directories lie.

use super::{Kind, Medium};
use crate::Error;
use crate::config::{Config, memory_default};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_model::CheckpointTier as Tier;

/// Directories above a tier that are compared: more than a path of the kernel's limit has in practice.
const ABOVE_MAX: usize = 256;

/// What tells a directory from others, by whatever name, link or mount it is reached.
type Identity = (u64, u64);

/// One tier of a job.
#[derive(Debug, Clone, Copy)]
struct TierDirectory<'a> {
    tier: Tier,
    directory: &'a Path,
    allows_memory: bool,
}

/// What the tiers of a job lie on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Media {
    /// Of each tier that is set and could be looked at.
    found: Vec<(Tier, Medium)>,
    /// What could not be looked at, and why: the tier itself refuses that where a job is opened.
    pub unlooked: Vec<String>,
}

impl Media {
    /// What a tier lies on; `None` where it is not set or could not be looked at.
    pub fn of(&self, tier: Tier) -> Option<&Medium> {
        self.found.iter().find(|(of, _)| *of == tier).map(|(_, medium)| medium)
    }

    /// Whether checkpoints in the memory tier may be writes to a drive: on an unknown medium they count as such.
    pub fn may_memory_wear_a_drive(&self) -> bool {
        self.of(Tier::Memory).is_some_and(|medium| medium.kind != Kind::Memory)
    }

    /// What a user should know of them, a sentence each.
    pub fn notices(&self, config: &Config) -> Vec<String> {
        let notice = |place: TierDirectory<'_>| {
            let (Medium { kind, said }, shown) = (self.of(place.tier)?, place.directory.display());
            match (place.tier, kind) {
                (Tier::Memory, Kind::Memory) | (Tier::Durable | Tier::Shared, Kind::Disk) => None,
                (Tier::Memory, Kind::Disk) => Some(format!(
                    "the memory tier {shown} is on a disk ({said}): each checkpoint there wears the drive and counts \
                     against its budget. Set memory to a directory on tmpfs, such as /dev/shm"
                )),
                (Tier::Memory, Kind::Unknown) => Some(format!(
                    "the memory tier {shown} is on an unknown medium ({said}): each checkpoint there may wear a drive, and counts \
                     against its budget. Set memory to a directory on tmpfs, such as /dev/shm"
                )),
                (_, Kind::Memory) => Some(format!(
                    "{shown} is in memory ({said}), which {}.allow_memory permits: its copies are lost with the power and \
                     are not durable",
                    place.tier.as_str()
                )),
                (_, Kind::Unknown) => Some(format!(
                    "{shown} is on an unknown medium ({said}): whether its copies survive a loss of power is not known here"
                )),
            }
        };
        places(config).filter_map(notice).collect()
    }
}

impl Config {
    /// Refuses settings with which no session can be opened: no tier, redundancy that contradicts itself, a policy for a tier that is
    /// not configured, tiers that are one directory, and durable tiers in memory. Creates nothing. Returns what the tiers lie on.
    ///
    /// # Errors
    /// [`Error::Option`] with the setting.
    pub fn check(&self) -> Result<Media, Error> {
        if places(self).next().is_none() {
            let why = "no checkpoint directory configured: set memory, durable or shared".into();
            return Err(Error::Option { option: "memory", why });
        }
        self.check_redundancy()?;
        self.check_policy()?;
        expect_apart(self)?;
        let mut media = Media::default();
        for place in places(self) {
            let is_made_by_open = place.tier == Tier::Memory && place.directory == memory_default();
            let look = if is_made_by_open { Medium::of_nearest } else { Medium::of };
            // What is mounted at the job's own directory counts: there the bytes go.
            let own = place.directory.join(&self.job);
            let is_there = own.symlink_metadata().is_ok_and(|found| found.is_dir());
            let directory = if is_there { &own } else { place.directory };
            match look(directory) {
                Ok(medium) => {
                    expect_kept(place, directory, &medium)?;
                    media.found.push((place.tier, medium));
                }
                Err(error) => {
                    let why = match error.kind() {
                        io::ErrorKind::NotFound => "it does not exist; create or mount it".to_owned(),
                        _ => surefoot_heal::error::said(&error),
                    };
                    media.unlooked.push(format!("{}: {}: {why}", place.tier.as_str(), place.directory.display()));
                }
            }
        }
        Ok(media)
    }
}

/// The tiers that are set.
fn places(config: &Config) -> impl Iterator<Item = TierDirectory<'_>> {
    let place = |tier, directory, allows_memory| TierDirectory { tier, directory, allows_memory };
    let memory = config.memory.iter().map(move |of| place(Tier::Memory, &of.directory, true));
    let durable = config.durable.iter().map(move |of| place(Tier::Durable, &of.directory, of.options.allow_memory));
    let shared = config.shared.iter().map(move |of| place(Tier::Shared, &of.directory, of.options.allow_memory));
    memory.chain(durable).chain(shared)
}

/// Refuses to call durable what is in memory.
fn expect_kept(place: TierDirectory<'_>, directory: &Path, medium: &Medium) -> Result<(), Error> {
    if medium.kind != Kind::Memory || place.allows_memory {
        return Ok(());
    }
    let option = place.tier.as_str();
    let why = format!(
        "{} is in memory ({}), so its copies would be lost with the power. Name a directory on a disk; for tests, \
         {option}.allow_memory=yes takes it all the same, and calls nothing there durable",
        directory.display(),
        medium.said
    );
    Err(Error::Option { option, why })
}

/// Refuses two tiers in one directory, or one within what the other keeps of the job: each would take the other's files for its own, and
/// what is lost with one is lost with both.
fn expect_apart(config: &Config) -> Result<(), Error> {
    let all: Vec<TierDirectory<'_>> = places(config).collect();
    for (number, second) in all.iter().enumerate() {
        for first in &all[..number] {
            let (option, other) = (second.tier.as_str(), first.tier.as_str());
            let (own, others) = (second.directory.display(), first.directory.display());
            let is_same = match (identity(first.directory), identity(second.directory)) {
                (Some(first), Some(second)) => first == second,
                _ => first.directory == second.directory,
            };
            let refuse = |why: String| Err(Error::Option { option, why });
            if is_same && own.to_string() == others.to_string() {
                return refuse(format!("{own} is also the directory of {other}: each tier needs its own"));
            }
            if is_same {
                return refuse(format!(
                    "{own} is the same directory as {others} of {other}, through a link or a mount: each tier needs its own"
                ));
            }
            if is_within_job(config, first.directory, second.directory)
                || is_within_job(config, second.directory, first.directory)
            {
                return refuse(format!(
                    "of {own} and {others} of {other}, one lies within what the other keeps of job {:?}: name directories beside \
                     each other",
                    config.job
                ));
            }
        }
    }
    Ok(())
}

/// Whether a tier lies within what another one keeps of the job, or both keep it in one directory.
fn is_within_job(config: &Config, base: &Path, other: &Path) -> bool {
    let Some(kept) = (!config.job.is_empty()).then(|| identity(&base.join(&config.job))).flatten() else {
        return false;
    };
    identity(&other.join(&config.job)) == Some(kept) || above(other).contains(&kept)
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// A directory and those above it, as the kernel goes up: through mounts, and not by the words of a path with links.
fn above(path: &Path) -> Vec<Identity> {
    let (mut found, mut at) = (Vec::new(), path.to_owned());
    while let Some(identity) = identity(&at).filter(|_| found.len() < ABOVE_MAX) {
        if found.last() == Some(&identity) {
            break;
        }
        found.push(identity);
        at.push("..");
    }
    found
}
