//! Checkpoints that were there and of which nothing is left to be listed: what a job keeps beside them says so.
//!
//! The file of nodes says whether a checkpoint was ever complete beside it, and goes first when a job is removed; the journal
//! says which was saved where, since the job last began without one. What came before the end of a completed job is a result,
//! and may be taken away.

use super::files::{is_absent as is_absent_in, open_of};
use super::jobs::is_job_running;
use super::survey::{Survey, Tier};
use crate::medium::Medium;
use crate::session::journal::{Claim, Claims, History, JournalEvent, claims};
use crate::session::{WasComplete, was_complete};
use crate::settings::{Told, read_published};
use crate::storage::Directory;
use crate::tier::{COMPLETED, Completed, NODES};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Checkpoints of a job that one of its directories had and has no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The job.
    pub job: String,
    /// The user whose directory it is.
    pub owner: u32,
    /// In which tier.
    pub tier: Tier,
    /// The job's directory in it.
    pub directory: PathBuf,
    /// The number of the newest that was there, where that is known.
    pub number: Option<u64>,
    /// Whether older complete ones are left there.
    pub has_older: bool,
    /// What was there and how that is known, one sentence without its full stop.
    pub why: String,
}

/// What lies beside the checkpoints of a job in one directory.
struct Beside<'a> {
    directory: &'a Path,
    owner: u32,
    job: String,
    completed: Option<Completed>,
    /// Whether there is a mark of the end that cannot be read.
    is_end_unknown: bool,
    history: Option<History>,
}

/// What a survey should have found and did not. `history` reads the journal in a directory of this user's.
pub fn lost(survey: &Survey, history: &mut dyn FnMut(&Path, u32) -> Option<History>) -> Vec<Lost> {
    let mut directories: BTreeMap<&Path, u32> = BTreeMap::new();
    directories.extend(survey.journals.iter().map(|(directory, owner)| (directory.as_path(), *owner)));
    directories.extend(survey.placements.iter().map(|(directory, owner)| (directory.as_path(), *owner)));
    let mut found: Vec<Lost> = Vec::new();
    for (directory, owner) in directories {
        let Some(beside) = Beside::of(survey, directory, owner, history) else { continue };
        // The journal knows the number.
        let of_it: Vec<Lost> = beside.by_journal(survey).into_iter().chain(beside.by_placement(survey)).collect();
        // A job that runs may have saved since its directory was looked at.
        let is_said = !of_it.is_empty() && !is_job_running(directory, &beside.job);
        // What could not be looked at may be where it was, and is a problem of the survey's.
        let is_seen = |lost: &Lost| !survey.unlisted.iter().any(|(path, _)| path.starts_with(&lost.directory));
        for lost in of_it.into_iter().filter(|lost| is_said && is_seen(lost)) {
            // The file of nodes and the journal may both know of it.
            if found.iter().all(|known| (&known.directory, known.tier) != (&lost.directory, lost.tier)) {
                found.push(lost);
            }
        }
    }
    found
}

impl<'a> Beside<'a> {
    fn of(
        survey: &Survey,
        directory: &'a Path,
        owner: u32,
        history: &mut dyn FnMut(&Path, u32) -> Option<History>,
    ) -> Option<Self> {
        let open = Directory::open(directory).ok().filter(|open| open.owner() == owner)?;
        let completed = open_of(&open, COMPLETED, owner).ok().and_then(|(file, _)| Completed::from_file(&file));
        let is_end_unknown = completed.is_none() && !is_absent_in(&open, COMPLETED);
        let is_here = |(known, _): &&(PathBuf, u32)| known == directory;
        let history = survey.journals.iter().find(is_here).and_then(|_| history(directory, owner));
        let by_copy = survey.copies.iter().find(|copy| copy.job_directory == directory && copy.manifest.is_ok());
        let by_journal = || {
            let opened = history.iter().flat_map(|history| history.entries.iter().rev());
            let names = opened.filter_map(|entry| match &entry.event {
                JournalEvent::Opened { job, .. } => Some(job.clone()),
                _ => None,
            });
            names.into_iter().find(|name| directory.ends_with(name))
        };
        let last = || directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let job = by_copy.map(super::Copy::job).or_else(by_journal).unwrap_or_else(last);
        Some(Beside { directory, owner, job, completed, is_end_unknown, history })
    }

    fn lost(&self, tier: Tier, directory: &Path, number: Option<u64>, why: String) -> Lost {
        let unsure = match self.is_end_unknown {
            true => {
                format!("; the file {COMPLETED} cannot be read, so they may have been a finished job's, and no loss")
            }
            false => String::new(),
        };
        let why = format!("{why}{unsure}");
        Lost {
            number,
            has_older: false,
            job: self.job.clone(),
            owner: self.owner,
            tier,
            directory: directory.to_owned(),
            why,
        }
    }

    /// By the file of nodes: that nothing is left of what was complete beside it.
    fn by_placement(&self, survey: &Survey) -> Vec<Lost> {
        let open = Directory::open(self.directory).ok().filter(|open| open.owner() == self.owner);
        let file = open.and_then(|open| open_of(&open, NODES, self.owner).ok());
        let Some((file, _)) = file.filter(|_| survey.placements.iter().any(|(known, _)| known == self.directory))
        else {
            return Vec::new();
        };
        let epoch = self.completed.as_ref().map_or(0, |completed| completed.epoch);
        // One that cannot be read is a problem of the survey's.
        let Ok(WasComplete { in_memory, durable }) = was_complete(&file, epoch) else { return Vec::new() };
        let mut lost = Vec::new();
        let claimed = || self.history.as_ref().and_then(|history| self.claims(survey, history).memory);
        let is_durable = || claimed().is_some_and(|claim| self.is_durable(survey, claim.number));
        let was_in_memory = in_memory.unwrap_or_else(|| !durable && is_in_memory(self.directory));
        if was_in_memory && !self.is_in_memory(survey) && !is_durable() {
            lost.push(self.lost(
                Tier::Memory,
                self.directory,
                None,
                format!("the file {NODES} says so{}", self.kept_for()),
            ));
        }
        if durable && !is_complete(survey, self.directory, 0, 0) {
            lost.push(self.lost(Tier::Durable, self.directory, None, format!("the file {NODES} says so")));
        }
        lost
    }

    /// By the journal, as far as it speaks of the time since the job last began without a checkpoint.
    fn by_journal(&self, survey: &Survey) -> Vec<Lost> {
        let Some(history) = &self.history else { return Vec::new() };
        let Claims { memory, durable } = self.claims(survey, history);
        let mut lost = Vec::new();
        let memory = memory.filter(|claim| !self.is_durable(survey, claim.number));
        if let Some(Claim { number, is_read, .. }) = memory {
            let is_any = self.is_in_memory(survey);
            if !is_any || self.has_only_older(survey, number) {
                let how = if is_read { "read by a restart" } else { "saved" };
                let why = format!("its journal says that number {number} was {how} there{}", self.kept_for());
                lost.push(Lost { has_older: is_any, ..self.lost(Tier::Memory, self.directory, Some(number), why) });
            }
        }
        let told = if durable.is_empty() { None } else { read_published(self.directory).ok().flatten() };
        let told = told.as_deref().unwrap_or_default();
        let removals = history.entries.iter().enumerate().filter_map(|(at, entry)| match &entry.event {
            JournalEvent::Removed { tier, .. } => Some((at, self.directory_of(tier, told)?)),
            _ => None,
        });
        let removals: Vec<(usize, PathBuf)> = removals.collect();
        for (tier, Claim { number, line, at_ns, .. }) in durable {
            let Some(directory) = self.directory_of(&tier, told) else { continue };
            if removals.iter().any(|(at, removed)| *at > line && *removed == directory) {
                continue;
            }
            let why = format!("its journal says that number {number} was complete there");
            let is_looked_at = survey.directories.iter().any(|looked| directory.starts_with(looked));
            let is_there = match is_looked_at {
                true => is_complete(survey, &directory, number, at_ns),
                // Of what was not looked at only that it is gone is known, and only its user may have it looked for.
                false => self.owner != crate::tier::effective_user() || !is_absent(&directory),
            };
            // A tier that was moved or is mounted elsewhere is found by who looks there.
            if !is_there && !self.is_elsewhere(survey, number, at_ns) {
                let has_older = is_complete(survey, &directory, 0, 0);
                lost.push(Lost { has_older, ..self.lost(Tier::Durable, &directory, Some(number), why) });
            }
        }
        lost
    }

    /// What the journal says should be here. What came before the mark of a completed job is a result, and may be taken away, unless a later
    /// run began: that is told by the runs, and only where nothing of a later one is left by the clock, which may have been set back.
    fn claims(&self, survey: &Survey, history: &History) -> Claims {
        let is_later = |completed: &Completed| {
            let mut ages = survey.copies.iter().filter(|copy| copy.owner == self.owner && copy.job() == self.job);
            ages.any(|copy| copy.manifest.as_ref().is_ok_and(|manifest| manifest.age() > completed.age()))
        };
        let completed = self.completed.as_ref().filter(|completed| !is_later(completed));
        let since_ns = completed.map_or(0, |completed| completed.realtime_ns);
        claims(history.entries.iter().enumerate().filter(|(_, entry)| entry.realtime_ns > since_ns))
    }

    /// The job's directory in a durable tier, as its settings say.
    fn directory_of(&self, tier: &str, told: &[Told]) -> Option<PathBuf> {
        let value = |name: &str| told.iter().find(|told| told.name == name && told.value != "none");
        // Without an SSD the shared directory takes its place.
        let told = value(tier).or_else(|| value("shared").filter(|_| tier == "durable"))?;
        let base = Path::new(&told.value);
        let base = surefoot_foreign::way::plain(base).ok().filter(|_| base.is_absolute())?;
        Some(base.join(&self.job))
    }

    /// Whether the job has such a checkpoint in another directory that was looked at.
    fn is_elsewhere(&self, survey: &Survey, number: u64, at_ns: u64) -> bool {
        let is_of_job = |copy: &&super::Copy| {
            copy.owner == self.owner && copy.manifest.as_ref().is_ok_and(|manifest| manifest.job == self.job)
        };
        survey.copies.iter().filter(is_of_job).any(|copy| is_complete_since(survey, copy, number, at_ns))
    }

    /// Whether a durable tier that was looked at has a checkpoint of this number or a higher one, of the last session: earlier runs may have
    /// had higher numbers.
    fn is_durable(&self, survey: &Survey, number: u64) -> bool {
        let opened = self.history.iter().flat_map(|history| history.entries.iter().rev());
        let opened = opened.into_iter().find(|entry| matches!(entry.event, JournalEvent::Opened { .. }));
        let Some(since_ns) = opened.map(|entry| entry.realtime_ns) else { return false };
        let is_it = |copy: &&super::Copy| {
            let is_of_session = |manifest: &crate::Manifest| {
                manifest.job == self.job
                    && manifest.generation.number >= number
                    && manifest.taken_realtime_ns >= since_ns
            };
            let is_complete = copy.tier == Tier::Durable && copy.committed_ranks.is_some();
            is_complete && copy.owner == self.owner && copy.manifest.as_ref().is_ok_and(is_of_session)
        };
        survey.copies.iter().any(|copy| is_it(&copy))
    }

    /// Whether memory holds only checkpoints older than this number. False if one cannot be read: that is reported on its own.
    fn has_only_older(&self, survey: &Survey, number: u64) -> bool {
        let here = |copy: &&super::Copy| copy.tier == Tier::Memory && copy.job_directory == self.directory;
        let mut numbers =
            survey.copies.iter().filter(here).map(|copy| Some(copy.manifest.as_ref().ok()?.generation.number));
        self.is_in_memory(survey) && numbers.all(|found| found.is_some_and(|found| found < number))
    }

    fn is_in_memory(&self, survey: &Survey) -> bool {
        survey.copies.iter().any(|copy| copy.tier == Tier::Memory && copy.job_directory == self.directory)
    }

    /// What is left of what ranks kept for others, which is in no list.
    fn kept_for(&self) -> &'static str {
        let mut is_any = false;
        let told = |name: OsString, _| {
            is_any |= name.to_str().is_some_and(|name| name.starts_with("partner-") || name.starts_with("parity-"));
            if is_any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let listed = Directory::open(self.directory).and_then(|directory| directory.list(told));
        match (listed, is_any) {
            (_, true) => "; a restart may bring it back from what ranks keep for others (partner-, parity-)",
            _ => "",
        }
    }
}

/// Whether a job's directory has a complete checkpoint in a durable tier of this number or a higher one, or taken after this time.
fn is_complete(survey: &Survey, directory: &Path, number: u64, at_ns: u64) -> bool {
    let of_it = survey.copies.iter().filter(|copy| copy.job_directory == directory);
    of_it.into_iter().any(|copy| is_complete_since(survey, copy, number, at_ns))
}

/// Whether a copy is of a complete checkpoint in a durable tier, and of this number or a higher one or taken after this time.
fn is_complete_since(survey: &Survey, copy: &super::Copy, number: u64, at_ns: u64) -> bool {
    let has_number = || copy.generation.is_some_and(|generation| generation.number >= number);
    let is_later = || copy.manifest.as_ref().is_ok_and(|manifest| manifest.taken_realtime_ns > at_ns);
    // A mark that cannot be read is a problem of the survey's, and may have said so.
    let is_unreadable = || survey.problems.iter().any(|problem| problem.path == copy.directory.join("commit"));
    let is_marked = || copy.committed_ranks.is_some() || is_unreadable();
    copy.tier == Tier::Durable && is_marked() && (has_number() || is_later())
}

fn is_in_memory(directory: &Path) -> bool {
    Medium::of_nearest(directory).ok().and_then(|medium| medium.is_durable()) != Some(true)
}

fn is_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
