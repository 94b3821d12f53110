//! Jobs as a whole: what each occupies, and its removal.

use super::survey::{Survey, survey};
use crate::Error;
use crate::session::journal::{self, JournalEvent};
use crate::settings::{Told, read_published};
use crate::tier::{JobDirectory, Removed};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A job of one user, with what it keeps in each directory that was looked at.
pub struct Job {
    /// Its name.
    pub name: String,
    /// The user whose it is.
    pub owner: u32,
    /// Its directories, one for each tier.
    pub directories: Vec<JobDirectory>,
}

impl Job {
    /// Bytes in memory, in durable tiers, and of routed files and journals.
    pub fn bytes(&self) -> [u64; 3] {
        self.directories.iter().map(JobDirectory::occupied).fold([0; 3], |[memory, durable, other], found| {
            [
                memory.saturating_add(found.memory_bytes),
                durable.saturating_add(found.durable_bytes),
                other.saturating_add(found.other_bytes),
            ]
        })
    }

    /// When its newest checkpoint was taken, `CLOCK_REALTIME` nanoseconds; `None` without one.
    pub fn checkpoint_realtime_ns(&self) -> Option<u64> {
        self.newest_checkpoint().map(|(at_ns, _)| at_ns)
    }

    /// Whether its newest checkpoint may be older than that, because the manifest cannot be read.
    pub fn is_checkpoint_time_a_bound(&self) -> bool {
        self.newest_checkpoint().is_some_and(|(_, is_bound)| is_bound)
    }

    fn newest_checkpoint(&self) -> Option<(u64, bool)> {
        let occupied = self.directories.iter().map(JobDirectory::occupied);
        occupied.filter_map(|found| Some((found.checkpoint_realtime_ns?, found.is_checkpoint_time_a_bound))).max()
    }

    /// When its newest checkpoint was written, or without one anything, `CLOCK_REALTIME` nanoseconds.
    pub fn newest_realtime_ns(&self) -> u64 {
        self.directories.iter().map(|found| found.occupied().newest_realtime_ns).max().unwrap_or(0)
    }

    /// Whether it was marked as completed.
    pub fn is_completed(&self) -> bool {
        self.directories.iter().any(|found| found.occupied().completed.is_some())
    }

    /// Whether a process of it holds a lock here.
    pub fn is_running(&self) -> bool {
        self.directories.iter().any(JobDirectory::is_running)
    }

    /// What in its directories says that it is another job's, as after a rename by hand; `None` where nothing does.
    ///
    /// # Errors
    /// Where a directory cannot be looked at.
    pub fn expect_named(&self) -> Result<(), Error> {
        let refuse = |renamed: &Renamed| Err(Error::Option { option: "job", why: renamed.to_string() });
        for directory in &self.directories {
            let path = directory.path();
            if let Some(renamed) = renamed(&survey(&[path.to_owned()])?).first() {
                return refuse(renamed);
            }
            let history = journal::read_of(path, self.owner, usize::MAX).ok().flatten();
            let opened = history.iter().flat_map(|history| history.entries.iter().rev());
            let named = opened.into_iter().find_map(|entry| match &entry.event {
                JournalEvent::Opened { job, .. } => Some(job.clone()),
                _ => None,
            });
            if let Some(job) = named.filter(|job| !path.ends_with(job)) {
                return refuse(&Renamed { directory: path.to_owned(), owner: self.owner, job });
            }
        }
        Ok(())
    }

    /// Removes it from all these directories, after the locks of all of them were taken, and writes so into the job's journal where that
    /// is in another one. A directory that was renamed is another job's, and is left.
    ///
    /// # Errors
    /// As [`Job::expect_named`];
    /// [`Error::Storage`]: of kind `WouldBlock` when it is running, of kind `PermissionDenied` when it is another user's
    /// and `of_any_user` was not said; else with what could not be removed.
    pub fn remove(self, of_any_user: bool) -> Result<Removal, Error> {
        self.remove_telling(of_any_user, &mut false)
    }

    /// The same; where it fails, `is_begun` says whether some of it may be gone.
    ///
    /// # Errors
    /// As [`Job::remove`].
    pub fn remove_telling(self, of_any_user: bool, is_begun: &mut bool) -> Result<Removal, Error> {
        for directory in self.directories.iter().filter(|_| !of_any_user) {
            directory.expect_own("remove")?;
        }
        self.expect_named()?;
        let elsewhere = self.elsewhere();
        if let Some(other) = elsewhere.iter().find(|other| is_job_running(other, &self.name)) {
            let why = io::Error::new(io::ErrorKind::WouldBlock, "the job is running with this directory");
            return Err(Error::storage("lock", other)(why));
        }
        let locks = self.directories.iter().map(|directory| directory.lock(false));
        let locks = locks.collect::<Result<Vec<_>, Error>>()?;
        // Before anything goes: a removal that is killed is no loss, either.
        let noted = elsewhere.iter().filter_map(|path| {
            let tiers = self.tiers_by(path);
            let noted = journal::note_removal(path, self.owner, &tiers);
            Some((path.join(journal::JOURNAL_NAME), noted.err()?.to_string()))
        });
        let not_noted: Vec<(PathBuf, String)> = noted.collect();
        let mut removed = Removed::default();
        for (directory, locks) in self.directories.into_iter().zip(&locks) {
            *is_begun = true;
            removed.add(directory.remove(locks)?);
        }
        Ok(Removal { removed, not_noted })
    }

    /// The job's directories of other tiers that are there, as the settings beside these name them; without settings the one in the user's
    /// own memory, where its settings name one of these.
    pub fn elsewhere(&self) -> Vec<PathBuf> {
        let settings = self.directories.iter().filter_map(|found| read_published(found.path()).ok().flatten());
        let named = settings.flatten().filter(is_tier).map(|told| Path::new(&told.value).join(&self.name));
        let by_default = crate::config::memory_of(self.owner).join(&self.name);
        let id = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        // One directory may have two paths, as by a bind mount.
        let known: Vec<Option<(u64, u64)>> = self.directories.iter().map(|found| id(found.path())).collect();
        let plain = |path: PathBuf| surefoot_foreign::way::plain(&path).ok().filter(|path| path.exists());
        let named = named.filter_map(plain).collect::<Vec<_>>();
        let by_default = plain(by_default).filter(|path| !self.tiers_by(path).is_empty());
        let mut others: Vec<PathBuf> =
            named.into_iter().chain(by_default).filter(|path| !known.contains(&id(path))).collect();
        others.sort();
        others.dedup();
        others
    }

    /// Whether the job may have another tier that nothing here names: it has neither settings nor its journal in these directories.
    pub fn may_be_elsewhere(&self) -> bool {
        let has_either = |found: &JobDirectory| {
            let has_journal = [journal::JOURNAL_NAME, journal::OLDER_NAME]
                .iter()
                .any(|name| std::fs::symlink_metadata(found.path().join(name)).is_ok());
            has_journal || read_published(found.path()).is_ok_and(|told| told.is_some())
        };
        !self.directories.iter().any(has_either) && self.elsewhere().is_empty()
    }

    /// Which tiers these directories are, by the settings in another one, or by those beside them.
    fn tiers_by(&self, other: &Path) -> Vec<String> {
        let by = |directory: &Path| {
            let told = read_published(directory).ok().flatten().unwrap_or_default();
            let is_here = |told: &Told| {
                let path = surefoot_foreign::way::plain(&Path::new(&told.value).join(&self.name));
                path.is_ok_and(|path| self.directories.iter().any(|found| found.path() == path))
            };
            told.into_iter().filter(is_tier).filter(is_here).map(|told| told.name).collect::<Vec<String>>()
        };
        let mut tiers = by(other);
        tiers.extend(self.directories.iter().flat_map(|found| by(found.path())));
        tiers.sort();
        tiers.dedup();
        tiers
    }
}

/// What a removal did.
#[derive(Debug, Default)]
pub struct Removal {
    /// What is gone, and what stays.
    pub removed: Removed,
    /// Journals in other directories of the job into which it could not be written, and why: by them, what was removed on purpose counts
    /// as lost.
    pub not_noted: Vec<(PathBuf, String)>,
}

fn is_tier(told: &Told) -> bool {
    ["memory", "durable", "shared"].contains(&told.name.as_str()) && told.value != "none"
}

/// A directory with checkpoints of a job whose name it does not have: it was renamed, or they were moved there. That job does not find
/// them, and they are not the checkpoints of the job that the directory is called after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// The directory.
    pub directory: PathBuf,
    /// The user whose it is.
    pub owner: u32,
    /// The job whose checkpoints they are.
    pub job: String,
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Renamed { directory, job, .. } = self;
        write!(
            f,
            "{} has checkpoints of the job {job:?}, so it was renamed or copied, and that job does not find them here. Rename it back, unless \
             the job already has a new directory; then copy out what you need with `checkpoint restore --job {job}`, and delete this directory",
            directory.display()
        )
    }
}

/// Every such directory, once for each job.
pub fn renamed(survey: &Survey) -> Vec<Renamed> {
    let astray = survey.copies.iter().filter(|copy| copy.is_astray());
    let found: BTreeSet<(PathBuf, String, u32)> =
        astray.map(|copy| (copy.job_directory.clone(), copy.job(), copy.owner)).collect();
    found.into_iter().map(|(directory, job, owner)| Renamed { directory, owner, job }).collect()
}

/// The job of this name below directories of tiers, by user; nothing where there is none.
///
/// # Errors
/// As [`JobDirectory::open`].
pub fn job(bases: &[PathBuf], name: &str) -> Result<Vec<Job>, Error> {
    let places = bases.iter().map(|base| (base.clone(), name.to_owned()));
    opened(places, &mut |error| Err(error))
}

/// The jobs that a survey found a copy, a journal or a file of nodes of, by user and name. What cannot be opened is told to `problem`.
pub fn jobs(survey: &Survey, problem: &mut dyn FnMut(Error)) -> Vec<Job> {
    let mut names: BTreeMap<&Path, String> = BTreeMap::new();
    for copy in survey.copies.iter().filter(|copy| !copy.is_astray()) {
        // A manifest that cannot be read gives the directory's last name, which need not be all of the job's.
        if copy.manifest.is_ok() || !names.contains_key(copy.job_directory.as_path()) {
            names.insert(&copy.job_directory, copy.job());
        }
    }
    for (directory, _) in survey.journals.iter().chain(&survey.placements) {
        let last = || directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        names.entry(directory).or_insert_with(last);
    }
    let places = names.into_iter().filter_map(|(directory, name)| {
        let base = directory.ancestors().nth(name.split('/').count())?;
        directory.ends_with(&name).then(|| (base.to_owned(), name))
    });
    let told = &mut |error| {
        problem(error);
        Ok(())
    };
    opened(places, told).unwrap_or_default()
}

fn opened(
    places: impl Iterator<Item = (PathBuf, String)>,
    failed: &mut dyn FnMut(Error) -> Result<(), Error>,
) -> Result<Vec<Job>, Error> {
    let mut found: BTreeMap<(String, u32), Vec<JobDirectory>> = BTreeMap::new();
    for (base, name) in places {
        match JobDirectory::open(&base, &name) {
            Ok(Some(directory)) => {
                let of_job = found.entry((name, directory.owner())).or_default();
                // One directory may be memory and SSD at once.
                if of_job.iter().all(|known| known.path() != directory.path()) {
                    of_job.push(directory);
                }
            }
            Ok(None) => {}
            Err(error) => failed(error)?,
        }
    }
    Ok(found.into_iter().map(|((name, owner), directories)| Job { name, owner, directories }).collect())
}

/// Whether the job of this directory is running, as far as a lock in it says.
pub(super) fn is_job_running(directory: &Path, name: &str) -> bool {
    let base = directory.ancestors().nth(name.split('/').count());
    let opened = base.and_then(|base| JobDirectory::open(base, name).ok().flatten());
    opened.is_some_and(|opened| opened.is_running())
}

/// Whether an error says that a job is running.
pub fn is_running(error: &Error) -> bool {
    matches!(error, Error::Storage { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
}

/// The user that this process acts as.
pub fn own_user() -> u32 {
    crate::tier::effective_user()
}
