//! Tiers of a job that were not looked at: the settings beside its checkpoints name them.

use super::files::{is_absent, open_of};
use super::survey::{Copy, Survey, Tier, survey};
use crate::generation::Age;
use crate::settings::read_published;
use crate::storage::Directory;
use crate::tier::{COMPLETED, Completed, effective_user};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A tier of this user's job that was not looked at, and what that means for what was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The job.
    pub job: String,
    /// Its directory in that tier.
    pub directory: PathBuf,
    /// The number of a checkpoint there that is newer than all that was looked at; `None` where the directory is gone.
    pub newer: Option<u64>,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, directory) = (&self.job, self.directory.display());
        match self.newer {
            Some(number) => write!(
                f,
                "job {job:?} has generation {number} in {directory}, which was not looked at and is newer: name that directory, too"
            ),
            None => write!(
                f,
                "job {job:?} also kept checkpoints in {directory}, and that is gone (memory is empty after a reboot): what it saved only \
                 there is lost"
            ),
        }
    }
}

/// Tiers of this user's jobs that have something newer than what a survey found, or are gone. Of other users' jobs nothing is followed: their
/// settings could lead anywhere.
pub fn elsewhere(survey: &Survey) -> Vec<Elsewhere> {
    let of_copies = survey.copies.iter().filter(|copy| !copy.is_astray() && copy.manifest.is_ok());
    let of_copies = of_copies.map(|copy| (copy.job_directory.clone(), copy.owner, copy.job()));
    let jobs: BTreeSet<(PathBuf, u32, String)> = of_copies.collect();
    let mut found: Vec<Elsewhere> = Vec::new();
    for (beside, owner, job) in jobs.into_iter().filter(|(_, owner, _)| *owner == effective_user()) {
        let Ok(Some(told)) = read_published(&beside) else { continue };
        let is_over = is_completed(&beside, owner);
        for told in told.iter().filter(|told| ["memory", "durable", "shared"].contains(&told.name.as_str())) {
            let Ok(base) = surefoot_foreign::way::plain(Path::new(&told.value)) else { continue };
            let directory = base.join(&job);
            let is_looked_at = survey.directories.iter().any(|looked| directory.starts_with(looked));
            if told.value == "none" || is_looked_at || found.iter().any(|known| known.directory == directory) {
                continue;
            }
            let newer = match std::fs::symlink_metadata(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && told.name == "memory" && !is_over => None,
                Err(_) => continue,
                Ok(_) => match newest_beyond(survey, &directory, owner, &job) {
                    Some(number) => Some(number),
                    None => continue,
                },
            };
            found.push(Elsewhere { job: job.clone(), directory, newer });
        }
    }
    found
}

/// The number of the newest complete checkpoint in another directory of a job, where it is newer than all that a survey found of the job.
fn newest_beyond(looked_at: &Survey, directory: &Path, owner: u32, job: &str) -> Option<u64> {
    let there = survey(&[directory.to_owned()]).ok()?;
    let newest = |survey: &Survey| {
        let is_of_job = |copy: &&Copy| copy.owner == owner && copy.job() == job && is_complete(copy);
        let ages = survey.copies.iter().filter(is_of_job).filter_map(|copy| Some(copy.manifest.as_ref().ok()?.age()));
        ages.max()
    };
    let (there, here): (Age, Option<Age>) = (newest(&there)?, newest(looked_at));
    (here.is_none_or(|here| here < there)).then_some(there.generation.number)
}

fn is_complete(copy: &Copy) -> bool {
    copy.committed_ranks.is_some() || (copy.tier == Tier::Memory && copy.is_marked())
}

/// Whether the job came to its end, or may have: what it kept in memory may be taken away then.
fn is_completed(directory: &Path, owner: u32) -> bool {
    let Ok(open) = Directory::open(directory) else { return false };
    let read = || open_of(&open, COMPLETED, owner).ok().and_then(|(file, _)| Completed::from_file(&file));
    read().is_some() || !is_absent(&open, COMPLETED)
}
