//! Copies the newest checkpoint of a job that is dead from memory to its SSD, as its session would have at its end.

use super::Progress;
use super::jobs::renamed;
use super::newer::newer;
use super::restore::{Wanted, unread_of};
use super::survey::survey;
use super::verify::expect_enough;
use crate::config::Config;
use crate::generation::{Age, Commit, GenerationId, Manifest};
use crate::image::Healer;
use crate::medium::Medium;
use crate::storage::Directory;
use crate::tier::{
    Budget, Completed, Durable, DurableOptions, JobDirectory, KeptFor, NodePart, StoredPart, expect_own, has_complete,
    node_parts, small_bytes,
};
use crate::{Disk, Error, Storage};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surefoot_model::CheckpointTier;

/// Generations that are tried before giving up.
const GENERATIONS_TRIED_MAX: usize = 16;

/// What is to be drained, and where to.
#[derive(Debug, Clone)]
pub struct Drains {
    /// The job.
    pub job: String,
    /// The directory of the memory tier.
    pub memory: PathBuf,
    /// The directory of the durable tier.
    pub durable: PathBuf,
    /// How it is written.
    pub options: DurableOptions,
    /// Whether the ranks that are here are enough: the others are drained on their own nodes.
    pub is_part: bool,
    /// Whether more than are to be kept go from the durable tier; not where nobody said how many that are.
    pub prunes: bool,
}

/// What was drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// Which checkpoint.
    pub generation: GenerationId,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds.
    pub taken_realtime_ns: u64,
    /// Ranks whose parts were here.
    pub ranks_here: Vec<u32>,
    /// Ranks that it has.
    pub ranks: u32,
    /// Bytes that were written; 0 where the durable tier had it already.
    pub bytes: u64,
    /// Pages that had gone bad in memory, and were repaired on the way.
    pub healed_pages: u64,
    /// What the durable tier had of it that was damaged, and was written anew.
    pub replaced: Vec<String>,
    /// Newer ones that were not taken, and those that cannot be read, and why.
    pub refused: Vec<String>,
    /// Whether memory has what was complete and is newer, or may be, so that this is not the newest that the job had.
    pub is_older: bool,
    /// The number of the newest checkpoint in the durable tier that is complete and newer than this one, where there is one: a
    /// restart takes that.
    pub newer_there: Option<u64>,
    /// Whether the durable tier has the mark of the same or a later run of the job that came to its end: no restart takes this one.
    pub is_ended_there: bool,
    /// What the durable tier lies on; `None` where it could not be looked at.
    pub medium: Option<Medium>,
}

/// The parts of a generation in the memory of this node, by rank, the one to try first first.
type Parts = BTreeMap<u32, Vec<NodePart>>;

/// Copies the newest complete generation of a job from memory to its durable tier, every page proved on the way. The job
/// must not be running, and does not start meanwhile.
///
/// # Errors
/// [`Error::Storage`] of kind `WouldBlock` when the job is running; [`Error::Option`] when memory has nothing of it;
/// [`Error::NothingIntact`] with what each generation failed at; [`Error::NoRoom`] and [`Error::Storage`] when the durable
/// tier does not take it. What is in memory stays in each case.
///
/// Whose directories these are is checked on descriptors, and all is read and written through the same ones: a directory that takes the
/// name of another one meanwhile is not touched.
pub fn drain(wish: &Drains, progress: Progress<'_>) -> Result<Drained, Error> {
    let mut names = Names::default();
    let drained = drain_held(wish, &mut names, progress).map_err(|error| names.in_error(error))?;
    let shown = |texts: &[String]| texts.iter().map(|text| names.shown(text)).collect();
    Ok(Drained { refused: shown(&drained.refused), replaced: shown(&drained.replaced), ..drained })
}

/// Directories by descriptor, and what they were named.
#[derive(Default)]
struct Names(Vec<(PathBuf, PathBuf)>);

impl Names {
    /// The path of a held directory.
    fn add(&mut self, directory: &Directory, named: &Path) -> PathBuf {
        let held = directory.held_path();
        self.0.push((held.clone(), named.to_owned()));
        held
    }

    fn path(&self, path: &Path) -> PathBuf {
        let below = |(held, named): &(PathBuf, PathBuf)| path.strip_prefix(held).ok().map(|below| named.join(below));
        self.0.iter().find_map(below).unwrap_or_else(|| path.to_owned())
    }

    fn shown(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (held, named)| {
            text.replace(&format!("{}/", held.display()), &format!("{}/", named.display()))
        })
    }

    fn in_error(&self, error: Error) -> Error {
        match error {
            Error::Storage { action, path, source } => Error::Storage { action, path: self.path(&path), source },
            Error::Damaged { path, why } => Error::Damaged { path: self.path(&path), why },
            Error::NoRoom { path, needed_bytes, available_bytes } => {
                Error::NoRoom { path: self.path(&path), needed_bytes, available_bytes }
            }
            Error::NothingIntact { why } => Error::NothingIntact { why: self.shown(&why) },
            other => other,
        }
    }
}

fn drain_held(wish: &Drains, names: &mut Names, progress: Progress<'_>) -> Result<Drained, Error> {
    let refuse = |why: String| Err(Error::Option { option: "job", why });
    let (memory, durable) = (real(&wish.memory)?, real(&wish.durable)?);
    let mut config = Config::new(&wish.job, &memory, Some(durable.clone()));
    config.durable.iter_mut().for_each(|durable| durable.options = wish.options.clone());
    let medium = config.check()?.of(CheckpointTier::Durable).cloned();
    let Some(directory) = JobDirectory::open(&memory, &wish.job)? else {
        return refuse(format!("{} holds nothing of {:?}", wish.memory.display(), wish.job));
    };
    directory.expect_own("use")?;
    let in_memory = names.add(directory.directory(), directory.path());
    // Held to the end: a job that started now would write over what is read.
    let _memory_locks = directory.lock(false)?;
    let there = match JobDirectory::open(&durable, &wish.job)? {
        Some(there) => Some((there.lock(false)?, there)),
        None => None,
    };
    let mut generations: BTreeMap<Age, Parts> = BTreeMap::new();
    // Rows of parity are no part of a checkpoint.
    for part in node_parts(&in_memory, &wish.job)?.into_iter().filter(|part| part.kept_for != KeptFor::Group) {
        let of_rank = generations.entry(part.manifest.age()).or_default();
        of_rank.entry(part.manifest.rank).or_default().push(part);
    }
    let seen = survey(&[memory.join(&wish.job)])?;
    let of_job = Wanted { job: wish.job.clone(), ..Wanted::default() };
    let mut refused = unread_of(&seen, &of_job);
    if generations.is_empty() && !refused.is_empty() {
        return Err(Error::NothingIntact { why: refused.join("; ") });
    }
    if generations.is_empty() {
        let renamed = renamed(&seen).into_iter().next();
        let renamed = renamed.map(|renamed| format!(": {renamed}")).unwrap_or_default();
        return refuse(format!("{} holds no checkpoint of {:?}{renamed}", wish.memory.display(), wish.job));
    }
    let mut tier = None;
    for (age, parts) in generations.into_iter().rev().take(GENERATIONS_TRIED_MAX) {
        let (generation, number) = (age.generation, age.generation.number);
        match expect_whole(&parts, wish.is_part) {
            Ok(()) => {}
            Err(why) => {
                refused.push(format!("generation {number}: {why}"));
                continue;
            }
        }
        let tier = match &mut tier {
            Some(tier) => tier,
            none => none.insert(open_tier(wish, &durable, there.as_ref().map(|(_, there)| there.directory()), names)?),
        };
        match write(tier, generation, &parts, [wish.is_part, wish.prunes], progress) {
            Ok(written) => {
                let is_older = has_complete(&in_memory, age)? || !newer(&seen, &|copy| of_job.is(copy), age).is_empty();
                return Ok(Drained { refused, medium, is_older, ..written });
            }
            Err(Error::Damaged { path, why }) => {
                refused.push(format!("generation {number}: {}: {why}", path.display()));
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::NothingIntact { why: refused.join("; ") })
}

/// The durable tier by the descriptor of the job's directory, which must be the one that is locked, if that was there.
fn open_tier(wish: &Drains, durable: &Path, locked: Option<&Directory>, names: &mut Names) -> Result<Durable, Error> {
    let base = match Directory::open(durable) {
        Ok(base) => base,
        // The tier says what to do about it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Durable::open(Arc::new(Disk), durable, &wish.job, wish.options.clone());
        }
        Err(error) => return Err(Error::storage("open", durable)(error)),
    };
    let held = names.add(&base, durable);
    let tier = Durable::open(Arc::new(Disk), &held, &wish.job, wish.options.clone())?;
    let named = durable.join(&wish.job);
    let below = |above: io::Result<Directory>, part: &str| above.and_then(|above| above.below(OsStr::new(part)));
    let directory = wish.job.split('/').fold(Directory::of(base.as_file()), below);
    let directory = directory.map_err(Error::storage("open", &named))?;
    expect_own(&directory, &named, "use")?;
    let number = |directory: &Directory| (directory.found().dev(), directory.found().ino());
    if locked.is_some_and(|locked| number(locked) != number(&directory)) {
        let why = "another directory took its name in between";
        return Err(Error::storage("use", &named)(io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    names.add(&directory, &named);
    Ok(tier.within(directory))
}

fn real(path: &Path) -> Result<PathBuf, Error> {
    surefoot_foreign::way::plain(path).map_err(Error::storage("open", path))
}

/// Whether the parts are all of one checkpoint that every rank completed.
fn expect_whole(parts: &Parts, is_part: bool) -> Result<(), String> {
    let ranks = parts.values().flatten().map(|part| part.manifest.ranks).max().unwrap_or(0);
    if parts.values().flatten().any(|part| part.manifest.ranks != ranks) {
        return Err("its parts are of jobs of different sizes".into());
    }
    let here = parts.len() as u64;
    // Of a job that was killed in the middle of a save some ranks have the mark and some not: one is enough, because it
    // is set only when all have their parts.
    if !parts.values().flatten().any(|part| part.is_complete) {
        return Err("it was not completed on all ranks".into());
    }
    match here == u64::from(ranks) || is_part {
        true => Ok(()),
        false => Err(format!(
            "{here} of its {ranks} ranks are in the memory of this node; drain the others on theirs, each with --part"
        )),
    }
}

fn write(
    tier: &Durable,
    generation: GenerationId,
    parts: &Parts,
    [is_part, prunes]: [bool; 2],
    progress: Progress<'_>,
) -> Result<Drained, Error> {
    let first = parts.values().flatten().next().map(|part| part.manifest.clone());
    let first = first.ok_or_else(|| Error::Option { option: "job", why: "it has no part".into() })?;
    let mut drained = Drained {
        generation,
        taken_realtime_ns: first.taken_realtime_ns,
        ranks_here: parts.keys().copied().collect(),
        ranks: first.ranks,
        bytes: 0,
        healed_pages: 0,
        medium: None,
        refused: Vec::new(),
        is_older: false,
        newer_there: None,
        is_ended_there: false,
        replaced: Vec::new(),
    };
    let mut missing: Vec<(u32, &[NodePart])> = Vec::new();
    for (rank, parts) in parts {
        match is_whole(tier, generation, *rank, &first) {
            Ok(()) => {}
            Err(why) => {
                drained.replaced.extend(why);
                missing.push((*rank, parts.as_slice()));
            }
        }
    }
    let payload = |parts: &[NodePart]| parts.first().map_or(0, |part| part.manifest.payload_bytes);
    let bytes = missing.iter().map(|(_, parts)| tier.bytes_for(payload(parts)));
    let bytes = bytes.sum::<Result<u64, Error>>()?;
    let small = missing.iter().filter_map(|(_, parts)| parts.first()).map(|part| {
        let regions = &part.manifest.regions;
        small_bytes([regions.len() as u64, regions.iter().map(|region| region.name.len() as u64).sum()], [0; 2])
    });
    tier.room(bytes.saturating_add(small.sum()))?;
    charge(tier, bytes)?;
    let total = missing.iter().map(|(_, parts)| payload(parts)).fold(0, u64::saturating_add);
    let mut done = 0;
    for (count, (rank, copies)) in missing.iter().enumerate() {
        // What a run that was killed left of it.
        tier.abandon(generation, *rank);
        let written = match write_first(tier, copies) {
            Ok(written) => written,
            Err(error) => {
                missing[..count].iter().for_each(|(rank, _)| tier.abandon(generation, *rank));
                return Err(error);
            }
        };
        drained.bytes = drained.bytes.saturating_add(written.bytes);
        drained.healed_pages += written.healed_pages;
        done += payload(copies);
        progress(done, total);
    }
    if !tier.is_committed(generation) {
        tier.commit(Commit { generation, ranks: first.ranks, epoch: first.epoch })?;
    }
    let own = Age { epoch: first.epoch, generation };
    let newest = tier.generations()?.into_iter().find(|stored| stored.committed_ranks.is_some());
    // What a run left that came to its end is a result, and no restart takes it; a mark that cannot be read marks nothing.
    let ended = Completed::read(&Disk, tier.directory(), &first.job).map(|completed| completed.age());
    let is_ended = |age: Age| ended.is_some_and(|ended| age <= ended);
    drained.is_ended_there = is_ended(own);
    let newest = newest.filter(|stored| stored.age() > own && !is_ended(stored.age()));
    drained.newer_there = newest.map(|stored| stored.generation.number);
    // Beside newer ones this could be among those that go.
    if prunes && !is_part && drained.newer_there.is_none() && !drained.is_ended_there {
        // What cannot be removed now is tried again by the next.
        let _ = tier.prune();
    }
    Ok(drained)
}

/// Whether the durable tier has this rank's part already, and a restart could read all of it. What is wrong with one that is there; nothing
/// where there is none.
fn is_whole(tier: &Durable, generation: GenerationId, rank: u32, first: &Manifest) -> Result<(), Option<String>> {
    let manifest = match tier.manifest(generation, rank) {
        Ok(manifest) if manifest.job == first.job && manifest.ranks == first.ranks => manifest,
        _ => return Err(None),
    };
    let read = || -> Result<(), String> {
        let geometry = manifest.geometry().map_err(|error| error.to_string())?;
        let image = tier.image(generation, rank, false).map_err(|error| error.to_string())?;
        expect_enough(&geometry, &*image)?;
        let mut healer = Healer::open(geometry, &*image, manifest.table_crc32c).map_err(|lost| lost.to_string())?;
        (0..geometry.rows()).try_for_each(|row| healer.row(row).map(drop).map_err(|lost| lost.to_string()))
    };
    read().map_err(|why| Some(format!("generation {} rank {rank} was there and is damaged: {why}", generation.number)))
}

/// Takes what is about to be written off the drive's budget where the job keeps one, as its session would have. A budget that
/// cannot be read stays as it is: the next session begins with an empty one.
fn charge(tier: &Durable, bytes: u64) -> Result<(), Error> {
    match tier.kept_budget() {
        Ok(Some(budget)) if bytes > 0 => {
            tier.keep_budget(&Budget { left_bytes: budget.left_bytes - bytes as f64, ..budget })
        }
        _ => Ok(()),
    }
}

/// Writes the first of a rank's copies that proves whole.
fn write_first(tier: &Durable, copies: &[NodePart]) -> Result<crate::tier::Written, Error> {
    let mut lost = None;
    for copy in copies {
        let opened = Disk.open_file(&copy.image, false).map_err(Error::storage("open", &copy.image));
        let manifest: Manifest = copy.manifest.clone();
        let written = opened.and_then(|image| tier.write(&StoredPart::new(manifest, image, copy.image.clone())));
        match written {
            Err(error @ Error::Damaged { .. }) => lost = Some(error),
            Err(Error::Storage { path, source, .. }) if path == copy.image => {
                lost = Some(Error::Damaged { path, why: source.to_string() });
            }
            other => return other,
        }
    }
    Err(lost.unwrap_or_else(|| Error::storage("find", Path::new("its part"))(io::ErrorKind::NotFound.into())))
}
