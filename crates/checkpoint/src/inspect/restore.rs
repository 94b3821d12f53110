//! Writes what a checkpoint holds as plain files.

use super::Progress;
use super::jobs::renamed;
use super::newer::{Newer, newer};
use super::survey::{Copy, Survey, Tier};
use super::verify::{expect_enough, held, is_unfinished, open_image};
use crate::generation::{Age, GenerationId, Manifest};
use crate::image::{Healer, Tally};
use crate::storage::{Directory, Kind, beneath, open_at};
use crate::{Disk, Error, Storage, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_heal::sidecar;
use surefoot_model::did_you_mean;

/// Generations that are tried before giving up.
const GENERATIONS_TRIED_MAX: usize = 16;

/// What follows the name of a directory while it is filled, before the number of the process.
const RESTORING: &str = ".restoring-";

/// Directories that killed restores left half filled, and that the next one takes away.
const LEFT_MAX: usize = 8;

/// Which checkpoint is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of which job.
    pub job: String,
    /// Its number; the newest that proves whole without one.
    pub generation: Option<u64>,
    /// Only this rank's part.
    pub rank: Option<u32>,
    /// Only of a job of this user; without one it must be clear whose it is.
    pub owner: Option<u32>,
}

impl Wanted {
    /// Whether a copy is of this job, whatever its number; one that cannot be read is of the job whose directory it is in.
    pub(super) fn is(&self, copy: &Copy) -> bool {
        let is_of_job = match &copy.manifest {
            Ok(manifest) => manifest.job == self.job,
            Err(_) => copy.job_directory.ends_with(&self.job),
        };
        is_of_job
            && self.owner.is_none_or(|owner| owner == copy.owner)
            && self.rank.is_none_or(|rank| rank == copy.rank)
    }
}

/// What one rank's part became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankFiles {
    /// The rank.
    pub rank: u32,
    /// Where it was read.
    pub tier: Tier,
    /// The image there.
    pub image: PathBuf,
    /// The user that the job's directory belongs to.
    pub owner: u32,
    /// The job's directory.
    pub job_directory: PathBuf,
    /// What was met on the way.
    pub tally: Tally,
    /// How many files there are.
    pub file_count: u64,
    /// Bytes in them.
    pub payload_bytes: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredFiles {
    /// Which checkpoint.
    pub generation: GenerationId,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds.
    pub taken_realtime_ns: u64,
    /// By rank.
    pub ranks: Vec<RankFiles>,
    /// What was tried before and could not be proved.
    pub refused: Vec<String>,
    /// What was once complete and is newer, or may be: work since this checkpoint is lost. Empty where its number was asked for.
    pub newer: Vec<Newer>,
}

/// Writes a checkpoint of a job into a new directory, whole or not at all: `rank-00000/regions/NAME` and
/// `rank-00000/files/NAME`, with `,` for each `/` of a name, and `rank-00000/manifest.json`.
///
/// # Errors
/// [`Error::Option`] when there is no such job, generation or rank, or several users have such a job; [`Error::Storage`] when the directory is there
/// already or cannot be written; [`Error::NoRoom`]; [`Error::NothingIntact`] with what each copy failed at.
pub fn restore(survey: &Survey, wanted: &Wanted, to: &Path, progress: Progress<'_>) -> Result<RestoredFiles, Error> {
    if fs::symlink_metadata(to).is_ok() {
        let why = io::Error::new(io::ErrorKind::AlreadyExists, "it is there already; name a new directory");
        return Err(Error::storage("create", to)(why));
    }
    let mut refused = links_of(survey, wanted);
    // A newer one that lacks the wanted rank is newer all the same.
    let of_job = Wanted { rank: None, ..wanted.clone() };
    refused.extend(unread_of(survey, &of_job));
    let is_of_job = |copy: &Copy| copy.manifest.as_ref().is_ok_and(|manifest| manifest.job == wanted.job);
    let candidates = match candidates(survey, wanted) {
        // It is there, and none of it can be read.
        Err(_) if !refused.is_empty() && !survey.copies.iter().any(is_of_job) => {
            return Err(Error::NothingIntact { why: refused.join("; ") });
        }
        found => found?,
    };
    for (age, copies) in candidates.into_iter().take(GENERATIONS_TRIED_MAX) {
        let generation = age.generation;
        let outcome = Building::new(to).and_then(|building| {
            let written = write_ranks(&building, wanted, generation, &copies, &mut refused, progress)
                .map_err(|error| building.named(error))?;
            written.map(|ranks| building.put(to).map(|()| ranks)).transpose()
        })?;
        if let Some((taken_realtime_ns, ranks)) = outcome {
            let newer =
                if wanted.generation.is_some() { Vec::new() } else { newer(survey, &|copy| of_job.is(copy), age) };
            return Ok(RestoredFiles { generation, taken_realtime_ns, ranks, refused, newer });
        }
    }
    Err(Error::NothingIntact { why: refused.join("; ") })
}

/// Links in directories of the wanted job: a newer checkpoint may be behind one.
fn links_of(survey: &Survey, wanted: &Wanted) -> Vec<String> {
    let is_of = |path: &Path| path.parent().is_some_and(|parent| parent.ends_with(&wanted.job));
    let links = survey.problems.iter().filter(|problem| problem.is_link && is_of(&problem.path));
    links.map(|link| format!("{}: {}", link.path.display(), link.why)).collect()
}

/// Copies of the wanted job whose manifests cannot be read: any of them may be of a newer checkpoint.
pub(super) fn unread_of(survey: &Survey, wanted: &Wanted) -> Vec<String> {
    let is_of = |copy: &&Copy| {
        copy.job_directory.ends_with(&wanted.job)
            && wanted.owner.is_none_or(|owner| owner == copy.owner)
            && wanted.rank.is_none_or(|rank| rank == copy.rank)
            && !is_unfinished(copy)
    };
    let why = |copy: &Copy| {
        let why = copy.manifest.as_ref().err()?;
        match (copy.generation, wanted.generation) {
            (Some(found), Some(number)) if found.number != number => None,
            (Some(found), _) => Some(format!("generation {} in {}: {why}", found.number, copy.manifests[0].display())),
            (None, _) => Some(format!("{}: {why}; which generation it is of is unknown", copy.manifests[0].display())),
        }
    };
    survey.copies.iter().filter(is_of).filter_map(why).collect()
}

type Copies<'a> = BTreeMap<u32, Vec<(&'a Copy, &'a Manifest)>>;

/// Generations that are wanted, the newest first, with their copies by rank, those in memory first.
fn candidates<'a>(survey: &'a Survey, wanted: &Wanted) -> Result<Vec<(Age, Copies<'a>)>, Error> {
    let (mut jobs, mut owners): (Vec<&str>, BTreeSet<u32>) = (Vec::new(), BTreeSet::new());
    let mut found: BTreeMap<Age, Copies<'a>> = BTreeMap::new();
    for copy in &survey.copies {
        let Ok(manifest) = &copy.manifest else { continue };
        if !jobs.contains(&manifest.job.as_str()) {
            jobs.push(&manifest.job);
        }
        if manifest.job != wanted.job {
            continue;
        }
        owners.insert(copy.owner);
        if wanted.owner.is_none_or(|owner| owner == copy.owner)
            && wanted.generation.is_none_or(|number| number == manifest.generation.number)
        {
            found.entry(manifest.age()).or_default().entry(copy.rank).or_default().push((copy, manifest));
        }
    }
    // What is wanted may be where nothing could be read.
    let unread = match survey.problems.as_slice() {
        [] => String::new(),
        [first, ..] => {
            let count = survey.problems.len() as u64 + survey.problems_left_out;
            format!("; {count} paths could not be read, the first: {}: {}", first.path.display(), first.why)
        }
    };
    let unread_of =
        unread_of(survey, wanted).into_iter().map(|why| format!("; cannot be read: {why}")).collect::<String>();
    let refuse = |option: &'static str, why: String| Err(Error::Option { option, why: why + &unread + &unread_of });
    if !jobs.contains(&wanted.job.as_str()) {
        let known = match jobs.is_empty() {
            true => "no checkpoint was found".to_owned(),
            false => format!("jobs found: {}", jobs.join(", ")),
        };
        let meant = did_you_mean(&wanted.job, jobs.iter().copied());
        let renamed = renamed(survey).into_iter().find(|renamed| renamed.directory.ends_with(&wanted.job));
        let renamed = renamed.map(|renamed| format!("; {renamed}")).unwrap_or_default();
        return refuse("job", format!("no job {:?} is here; {known}{meant}{renamed}", wanted.job));
    }
    let users = |owners: &BTreeSet<u32>| owners.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match wanted.owner {
        Some(owner) if !owners.contains(&owner) => {
            let why = format!("{:?} belongs to user {}, not to user {owner}", wanted.job, users(&owners));
            return refuse("job", why + "; --user UID restores the job of another user");
        }
        None if owners.len() > 1 => {
            let why = format!("the users {} each have a job {:?}", users(&owners), wanted.job);
            return refuse("job", why + "; choose one with --user UID");
        }
        _ => {}
    }
    if found.is_empty() {
        return refuse("generation", format!("there is no number {}", wanted.generation.unwrap_or_default()));
    }
    let has_rank = |rank: &u32| found.values().any(|copies| copies.contains_key(rank));
    if let Some(rank) = wanted.rank.filter(|rank| !has_rank(rank)) {
        return refuse("rank", format!("there is no copy of rank {rank}"));
    }
    Ok(found.into_iter().rev().collect())
}

/// The time of the checkpoint, and what each rank's part became.
type Written = (u64, Vec<RankFiles>);

/// Writes all wanted ranks; `None` where one has no copy that proves whole, and why is among the refused.
fn write_ranks(
    building: &Building,
    wanted: &Wanted,
    generation: GenerationId,
    copies: &Copies<'_>,
    refused: &mut Vec<String>,
    progress: Progress<'_>,
) -> Result<Option<Written>, Error> {
    let first = copies.values().flatten().next();
    let (taken_realtime_ns, count) = first.map_or((0, 0), |(_, manifest)| (manifest.taken_realtime_ns, manifest.ranks));
    // A hostile manifest may speak of billions of ranks: the first that is missing ends it.
    let ranks = wanted.rank.map_or(0..count, |rank| rank..rank.saturating_add(1));
    let total: u64 =
        copies.values().filter_map(|copies| copies.first()).map(|(_, manifest)| manifest.payload_bytes).sum();
    let mut done_before = 0;
    let mut written = Vec::new();
    for rank in ranks {
        let mut ready = None;
        for (copy, manifest) in copies.get(&rank).into_iter().flatten() {
            let mut here = |done: u64, _: u64| progress(done_before + done, total);
            match building.write_rank(copy, manifest, &mut here)? {
                Ok(files) => {
                    ready = Some(files);
                    break;
                }
                Err(why) => {
                    refused.push(format!(
                        "generation {} rank {rank} in {}: {why}",
                        generation.number,
                        copy.tier.label()
                    ));
                }
            }
        }
        let Some(files) = ready else {
            if !copies.contains_key(&rank) {
                refused.push(format!("generation {} has no copy of rank {rank} here", generation.number));
            }
            return Ok(None);
        };
        done_before += files.payload_bytes;
        written.push(files);
    }
    Ok(Some((taken_realtime_ns, written)))
}

/// A directory that is being filled under another name, and the one that it lies in, both held: whoever owns that one can
/// put links in their places, and they lead nowhere. Dropping it takes it away.
struct Building {
    /// The directory as this process reaches it: below a descriptor of its own.
    path: PathBuf,
    /// Where that is for people.
    shown: PathBuf,
    own: File,
    parent: File,
    name: OsString,
    is_put: bool,
}

impl Building {
    fn new(to: &Path) -> Result<Self, Error> {
        let Some(name) = to.file_name() else {
            return Err(Error::storage("create", to)(io::ErrorKind::InvalidInput.into()));
        };
        let add = |path: &OsStr| {
            let mut path = path.to_owned();
            path.push(format!("{RESTORING}{}", std::process::id()));
            path
        };
        let (name, shown) = (add(name), PathBuf::from(add(to.as_os_str())));
        let parent = sidecar::held_directory_of(to)?;
        sweep(&parent, to.file_name().unwrap_or_default());
        let failed = Error::storage("create", &shown);
        let own = Disk.create_directory(&below(&parent).join(&name)).and_then(|()| {
            let own = File::from(open_at(parent.as_raw_fd(), &name, libc::O_DIRECTORY)?);
            Disk.expect_own_directory(&below(&own).join(".")).map(|()| own)
        });
        let own = own.map_err(failed)?;
        // Without locks it cannot be mistaken for what a killed run left.
        let _ = own.try_lock();
        Ok(Building { path: below(&own), shown, own, parent, name, is_put: false })
    }

    /// The same error, with the path as people know it.
    fn named(&self, error: Error) -> Error {
        let shown = |path: PathBuf| path.strip_prefix(&self.path).map_or(path.clone(), |rest| self.shown.join(rest));
        match error {
            Error::Storage { action, path, source } => Error::Storage { action, path: shown(path), source },
            Error::NoRoom { path, needed_bytes, available_bytes } => {
                Error::NoRoom { path: shown(path), needed_bytes, available_bytes }
            }
            other => other,
        }
    }

    fn put(mut self, to: &Path) -> Result<(), Error> {
        self.own.sync_all().map_err(Error::storage("sync", &self.shown))?;
        let target = to.file_name().unwrap_or_default();
        let held = beneath::hold(&self.parent, &self.name).and_then(|held| held.metadata());
        let own = self.own.metadata().map_err(Error::storage("look at", &self.shown))?;
        if !held.is_ok_and(|held| (held.dev(), held.ino()) == (own.dev(), own.ino())) {
            let why = io::Error::other("somebody has put something else in its place");
            return Err(Error::storage("rename", &self.shown)(why));
        }
        beneath::rename(&self.parent, &self.name, target).map_err(Error::storage("rename", &self.shown))?;
        self.is_put = true;
        self.parent.sync_all().map_err(Error::storage("sync", to))
    }

    /// Writes one rank's files from one copy. The inner error is what is wrong with the copy.
    fn write_rank(
        &self,
        copy: &Copy,
        manifest: &Manifest,
        progress: Progress<'_>,
    ) -> Result<Result<RankFiles, String>, Error> {
        let directory = self.path.join(format!("rank-{:05}", copy.rank));
        let free = Disk.free_bytes(&self.path).map_err(Error::storage("look at", &self.path))?;
        if manifest.payload_bytes > free {
            let needed_bytes = manifest.payload_bytes;
            return Err(Error::NoRoom { path: self.path.clone(), needed_bytes, available_bytes: free });
        }
        match self.write_files(copy, manifest, &directory, progress) {
            Ok(files) => Ok(Ok(files)),
            Err(Failed::Copy(why)) => {
                fs::remove_dir_all(&directory).or_else(not_there).map_err(Error::storage("remove", &directory))?;
                Ok(Err(why))
            }
            Err(Failed::Here(error)) => Err(error),
        }
    }

    fn write_files(
        &self,
        copy: &Copy,
        manifest: &Manifest,
        directory: &Path,
        progress: Progress<'_>,
    ) -> Result<RankFiles, Failed> {
        let geometry = manifest.geometry().map_err(|error| Failed::Copy(error.to_string()))?;
        let (shown, owner, job_directory) = (copy.image.clone(), copy.owner, copy.job_directory.clone());
        let (_directory, copy) = held(copy).map_err(|error| Failed::Copy(error.to_string()))?;
        let image = open_image(&copy, false).map_err(|error| Failed::Copy(surefoot_foreign::said(&error)))?;
        expect_enough(&geometry, &image).map_err(Failed::Copy)?;
        let mut healer =
            Healer::open(geometry, &image, manifest.table_crc32c).map_err(|lost| Failed::Copy(lost.to_string()))?;
        let mut files = Files::create(directory, manifest).map_err(Failed::Here)?;
        let mut failed = None;
        let read = healer.read(&mut |offset, piece| {
            if failed.is_none() {
                failed = files.put(offset, piece).err();
                progress(offset + piece.len() as u64, manifest.payload_bytes);
            }
        });
        if let Some(error) = failed {
            return Err(Failed::Here(error));
        }
        read.map_err(|lost| Failed::Copy(lost.to_string()))?;
        let file_count = files.finish().map_err(Failed::Here)?;
        let (rank, tier, tally) = (copy.rank, copy.tier, healer.tally());
        let payload_bytes = manifest.payload_bytes;
        Ok(RankFiles { rank, tier, image: shown, owner, job_directory, tally, file_count, payload_bytes })
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.is_put {
            // It follows no link, wherever one is.
            let _ = fs::remove_dir_all(below(&self.parent).join(&self.name));
        }
    }
}

/// Takes away what runs left that were killed while they filled this directory: each held a lock on its own as long as it ran.
fn sweep(parent: &File, name: &OsStr) {
    let mut left = Vec::new();
    let mut prefix = name.to_owned();
    prefix.push(RESTORING);
    let told = |entry: OsString, kind: Kind| {
        let process = entry.as_bytes().strip_prefix(prefix.as_bytes());
        let process = process.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
        let is_gone = process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists());
        if is_gone && kind == Kind::Directory {
            left.push(entry);
        }
        if left.len() < LEFT_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    // Leftovers do no harm.
    let _ = Directory::of(parent).and_then(|parent| parent.list(told));
    for name in left {
        let Ok(own) = open_at(parent.as_raw_fd(), &name, libc::O_DIRECTORY).map(File::from) else { continue };
        let is_own = own.metadata().is_ok_and(|found| found.uid() == crate::tier::effective_user());
        if is_own && own.try_lock().is_ok() {
            let _ = fs::remove_dir_all(below(parent).join(&name));
        }
    }
}

/// A directory by its descriptor, as a path.
fn below(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Whether the copy is bad, or it cannot be written here.
enum Failed {
    Copy(String),
    Here(Error),
}

fn not_there(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The files of a rank, filled one after the other.
struct Files {
    directories: Vec<PathBuf>,
    /// Where each begins in the payload, its length and its path.
    parts: Vec<(u64, u64, PathBuf)>,
    open: Option<(usize, Box<dyn StoredFile>)>,
}

impl Files {
    fn create(directory: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let directories = vec![directory.join("regions"), directory.join("files"), directory.to_owned()];
        for path in [&directories[2], &directories[0], &directories[1]] {
            Disk.create_directory(path).map_err(Error::storage("create", path))?;
        }
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| Error::Damaged { path: directory.to_owned(), why: error.to_string() })?;
        write_whole(&directory.join("manifest.json"), &text)?;
        let mut start = 0;
        let mut parts = Vec::new();
        for region in &manifest.regions {
            let (below, name) = match region.name.strip_prefix("file:") {
                Some(name) => (&directories[1], name),
                None => (&directories[0], region.name.as_str()),
            };
            // Names have no comma, so no two become one; and no slash is left that leads anywhere.
            let path = below.join(name.replace('/', ","));
            if region.bytes == 0 {
                write_whole(&path, &[])?;
            }
            parts.push((start, region.bytes, path));
            start += region.bytes;
        }
        Ok(Files { directories, parts, open: None })
    }

    fn put(&mut self, mut offset: u64, mut piece: &[u8]) -> Result<(), Error> {
        while !piece.is_empty() {
            // Of parts that begin at one place all but the last are empty.
            let number = self.parts.partition_point(|(start, _, _)| *start <= offset).saturating_sub(1);
            let (start, bytes, path) = self.parts[number].clone();
            let count = (start + bytes - offset).min(piece.len() as u64) as usize;
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                self.close()?;
                let file = Disk.create_file(&path, 0, false).map_err(Error::storage("create", &path))?;
                self.open = Some((number, file));
            }
            let (now, later) = piece.split_at(count);
            if let Some((_, file)) = &self.open {
                file.write_at(now, offset - start).map_err(Error::storage("write", &path))?;
            }
            piece = later;
            offset += count as u64;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        match self.open.take() {
            Some((number, file)) => file.sync().map_err(Error::storage("sync", &self.parts[number].2)),
            None => Ok(()),
        }
    }

    /// Makes all of them durable; returns how many they are.
    fn finish(mut self) -> Result<u64, Error> {
        self.close()?;
        for path in &self.directories {
            Disk.sync_directory(path).map_err(Error::storage("sync", path))?;
        }
        Ok(self.parts.len() as u64)
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let file = Disk.create_file(path, 0, false).map_err(Error::storage("create", path))?;
    file.write_at(bytes, 0).and_then(|()| file.sync()).map_err(Error::storage("write", path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_killed_run_left_half_filled_is_taken_away_and_what_another_fills_is_not() {
        let home = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("/bin/true").spawn().unwrap();
        let process = ended.id();
        ended.wait().unwrap();
        let left = home.path().join(format!("back{RESTORING}{process}"));
        fs::create_dir_all(left.join("rank-00000")).unwrap();
        let of_others = home.path().join(format!("other{RESTORING}{process}"));
        let of_living = home.path().join(format!("back{RESTORING}1"));
        [&of_others, &of_living].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        // One that another run holds, whose process is not to be seen from here.
        let held = File::open(&left).unwrap();
        held.lock().unwrap();
        drop(Building::new(&home.path().join("back")).unwrap());
        assert!(left.exists());
        drop(held);
        drop(Building::new(&home.path().join("back")).unwrap());
        assert!(!left.exists() && of_others.exists() && of_living.exists());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }
}
