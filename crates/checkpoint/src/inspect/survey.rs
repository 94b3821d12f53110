//! Finds checkpoints below directories.
//!
//! Whoever may write there may put anything there: trees without an end, links, pipes, files of other users. So the walk
//! goes by descriptors, holds a bounded amount of memory, and counts what each user's part of it takes: nobody's files
//! keep those of others from being found.

use super::files::{bad_manifest, is_absent, of_image, open_of, read_manifest};
use crate::Error;
use crate::generation::{Commit, GenerationId, Manifest};
use crate::session::journal::{JOURNAL_NAME, OLDER_NAME};
use crate::session::{may_be_placement, was_complete};
use crate::storage::{Directory, Kind};
use crate::tier::{COMPLETED, Completed, NODES, SLOTS_MAX, effective_user, generation_of};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_foreign::said;

/// Directories below each other that are looked into: names of jobs may have slashes.
const DEPTH_MAX: usize = 72;

/// A longer path cannot be opened by its name.
const PATH_BYTES_MAX: usize = 4095;

/// Entries that are looked at.
const ENTRIES_MAX: usize = 1 << 20;

/// Problems that are kept; more are counted.
const PROBLEMS_MAX: usize = 1000;

/// Where a copy lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// In a slot of a memory tier.
    Memory,
    /// In a durable tier.
    Durable,
}

impl Tier {
    /// A word for tables.
    pub fn label(self) -> &'static str {
        match self {
            Tier::Memory => "memory",
            Tier::Durable => "durable",
        }
    }
}

/// One rank's part of one checkpoint, in one place.
#[derive(Debug, Clone)]
pub struct Copy {
    /// In which tier.
    pub tier: Tier,
    /// The directory of the job in that tier.
    pub job_directory: PathBuf,
    /// The user whose that directory is. All below it that is taken for the job's is that user's, or root's.
    pub owner: u32,
    /// The directory that it lies in: of the rank in memory, of the generation in a durable tier.
    pub directory: PathBuf,
    /// The rank, as the name says.
    pub rank: u32,
    /// The generation, as the name or the manifest says.
    pub generation: Option<GenerationId>,
    /// What it says of itself, or why that cannot be read.
    pub manifest: Result<Manifest, String>,
    /// When the manifest was written or moved here, as the kernel says, `CLOCK_REALTIME` nanoseconds; 0 where it cannot
    /// be read. No checkpoint was taken later.
    pub written_realtime_ns: u64,
    /// The manifest's file, the copies in the order in which they are believed.
    pub manifests: Vec<PathBuf>,
    /// In memory, where a manifest is there twice: which of the two cannot be read, and why. A scrub writes it anew.
    pub manifest_bad: Option<(PathBuf, String)>,
    /// What the image's owner or length alone says is wrong with it.
    pub image_bad: Option<String>,
    /// The image's file.
    pub image: PathBuf,
    /// Bytes that the image takes there.
    pub stored_bytes: u64,
    /// How many ranks the generation has, when rank 0 has marked it as complete; in a durable tier only.
    pub committed_ranks: Option<u32>,
}

/// Something that is not as it should be, or could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: PathBuf,
    /// One sentence.
    pub why: String,
    /// The user whose directory it is in.
    pub owner: u32,
    /// Whether it is a symbolic link, which was not followed.
    pub is_link: bool,
}

/// What is there.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Copies by job, the newest generation first, then by rank and tier.
    pub copies: Vec<Copy>,
    /// Directories of jobs that hold a journal, and their users; see [`crate::session::journal::read_of`].
    pub journals: Vec<(PathBuf, u32)>,
    /// Directories of jobs that hold a file of the nodes on which the job saved, and their users.
    pub placements: Vec<(PathBuf, u32)>,
    /// What was looked into, without links.
    pub directories: Vec<PathBuf>,
    /// Files of nodes that cannot be read, each of which is a problem, too.
    pub unread: Vec<super::Unread>,
    /// Directories below those that could not be listed, each of which is a problem, too, and the users whose they are, or
    /// whose the directories above are: what is in them is not known.
    pub unlisted: Vec<(PathBuf, u32)>,
    /// What is not as it should be.
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// Whether a limit was reached, so that copies are missing here.
    pub is_cut: bool,
}

/// How much a survey may look at; what is beyond is left out, and a problem says so.
#[derive(Debug, Clone, Copy)]
pub struct SurveyLimits {
    /// Entries of directories.
    pub entries_max: usize,
    /// Copies.
    pub copies_max: usize,
    /// About how much memory all that is found may take: paths, names and manifests.
    pub memory_bytes_max: usize,
    /// When to end.
    pub until: Option<Instant>,
    /// The part of each of these limits that one user's files may take, as a divisor: 1 is all of it. Root's may take all.
    pub part_of_user: usize,
}

impl Default for SurveyLimits {
    fn default() -> Self {
        SurveyLimits {
            entries_max: ENTRIES_MAX,
            copies_max: usize::MAX,
            memory_bytes_max: usize::MAX,
            until: None,
            part_of_user: 1,
        }
    }
}

/// Looks for checkpoints in directories and all below them.
///
/// # Errors
/// [`Error::Storage`] when one of the directories cannot be read, or none is there. One of several that is not there, as memory after a
/// reboot, and what cannot be read below them are problems in the result.
pub fn survey(directories: &[PathBuf]) -> Result<Survey, Error> {
    survey_within(directories, SurveyLimits::default())
}

/// As [`survey`], for one who must come to an end in any case.
///
/// # Errors
/// As [`survey`]. That a limit was reached is no error.
pub fn survey_within(directories: &[PathBuf], limits: SurveyLimits) -> Result<Survey, Error> {
    let mut walk =
        Walk { found: Survey::default(), limits, begun: Instant::now(), all: Taken::default(), users: BTreeMap::new() };
    let mut seen = Vec::new();
    let mut absent = None;
    for directory in directories {
        let path = surefoot_foreign::way::plain(directory).map_err(Error::storage("open", directory))?;
        let open = match Directory::open(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                let why = "there is no such directory; memory is empty after a reboot".to_owned();
                let owner = effective_user();
                walk.found.unlisted.push((path.clone(), owner));
                walk.found.problems.push(Problem { path, why, owner, is_link: false });
                absent.get_or_insert((directory, source));
                continue;
            }
            opened => opened.map_err(Error::storage("list", directory))?,
        };
        // The same directory twice would be the same copies twice.
        if !seen.iter().any(|known| path.starts_with(known)) {
            walk.visit_all(&path, open);
            seen.push(path);
        }
    }
    if let Some((directory, source)) = absent.filter(|_| seen.is_empty()) {
        return Err(Error::storage("list", directory)(source));
    }
    let mut survey = walk.found;
    survey.directories = seen;
    let epochs = survey.epochs();
    survey.copies.sort_by_cached_key(|copy| {
        let epoch = copy.generation.and_then(|of| epochs.get(&of)).copied().unwrap_or(0);
        (copy.job_directory.clone(), Reverse((epoch, copy.generation)), copy.rank, copy.tier)
    });
    Ok(survey)
}

impl Survey {
    /// As [`epochs_of`] all copies.
    pub fn epochs(&self) -> BTreeMap<GenerationId, u64> {
        epochs_of(&self.copies)
    }
}

/// The run that took each generation: it decides before the number which of two checkpoints is the newer one. Of a
/// generation without a manifest that can be read it is taken to be the newest run of the job that had come to no higher number.
pub fn epochs_of(copies: &[Copy]) -> BTreeMap<GenerationId, u64> {
    let manifests = copies.iter().filter_map(|copy| copy.manifest.as_ref().ok());
    let mut epochs: BTreeMap<GenerationId, u64> =
        manifests.map(|manifest| (manifest.generation, manifest.epoch)).collect();
    let unread: Vec<(GenerationId, &Path)> = copies
        .iter()
        .filter_map(|copy| Some((copy.generation?, copy.job_directory.as_path())))
        .filter(|(generation, _)| !epochs.contains_key(generation))
        .collect();
    // By directory, the newest run that had come to each number.
    let mut known: BTreeMap<&Path, BTreeMap<u64, u64>> = BTreeMap::new();
    for (copy, manifest) in copies.iter().filter_map(|copy| Some((copy, copy.manifest.as_ref().ok()?))) {
        let of_directory = known.entry(&copy.job_directory).or_default();
        let epoch = of_directory.entry(manifest.generation.number).or_default();
        *epoch = manifest.epoch.max(*epoch);
    }
    for of_directory in known.values_mut() {
        let mut newest = 0;
        for epoch in of_directory.values_mut() {
            newest = newest.max(*epoch);
            *epoch = newest;
        }
    }
    for (generation, directory) in unread {
        let before = known.get(directory).and_then(|known| known.range(..=generation.number).next_back());
        if let Some((_, epoch)) = before {
            epochs.insert(generation, *epoch);
        }
    }
    epochs
}

/// Bytes of the payload in these copies together; `None` where the manifest of one cannot be read.
pub fn payload_bytes<'a>(mut copies: impl Iterator<Item = &'a Copy>) -> Option<u64> {
    copies.try_fold(0u64, |sum, copy| Some(sum.saturating_add(copy.manifest.as_ref().ok()?.payload_bytes)))
}

/// What was taken of each limit.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    entries: usize,
    copies: usize,
    bytes: usize,
    time: Duration,
    /// Whether it was said that there is more.
    is_told: bool,
}

/// A survey under way.
struct Walk {
    found: Survey,
    limits: SurveyLimits,
    begun: Instant,
    all: Taken,
    users: BTreeMap<u32, Taken>,
}

/// A directory that is being looked into, and what in it is still to be looked into.
struct Level {
    directory: Directory,
    /// Bytes of its path.
    path_bytes: usize,
    /// The last first.
    rest: Vec<OsString>,
}

/// What lies in a directory.
#[derive(Default)]
struct Listed {
    below: Vec<OsString>,
    names: Vec<String>,
    /// Symbolic links that may stand for checkpoints.
    links: Vec<OsString>,
    /// What has the name of a directory of checkpoints and is none.
    files: Vec<OsString>,
    /// Whether something in it says that it is a job's directory.
    is_of_job: bool,
}

impl Walk {
    fn problem(&mut self, path: &Path, owner: u32, why: impl Into<String>) {
        self.add_problem(Problem { path: path.to_owned(), why: why.into(), owner, is_link: false });
    }

    /// Notes a directory of which it is not known what is in it.
    fn unlisted(&mut self, path: &Path, owner: u32, why: String) {
        if self.found.unlisted.len() < PROBLEMS_MAX {
            self.take(owner, |taken| taken.bytes += path.as_os_str().len());
            self.found.unlisted.push((path.to_owned(), owner));
        }
        self.problem(path, owner, why);
    }

    /// Notes a file of a job's directory that says what was here, and cannot be read.
    fn unread(&mut self, directory: &Path, owner: u32, name: &str, why: String) {
        if self.found.unread.len() < PROBLEMS_MAX {
            self.take(owner, |taken| taken.bytes += 2 * directory.as_os_str().len() + why.len());
            let path = directory.join(name);
            self.found.unread.push(super::Unread { directory: directory.to_owned(), owner, path, why });
        }
    }

    fn add_problem(&mut self, problem: Problem) {
        let bytes = problem.path.as_os_str().len() + problem.why.len();
        if self.found.problems.len() < PROBLEMS_MAX && self.all.bytes < self.limits.memory_bytes_max {
            self.take(problem.owner, |taken| taken.bytes += bytes);
            self.found.problems.push(problem);
        } else {
            self.found.problems_left_out += 1;
        }
    }

    fn take(&mut self, owner: u32, add: impl Fn(&mut Taken)) {
        add(&mut self.all);
        add(self.users.entry(owner).or_default());
    }

    /// Whether a limit is reached, of all or of this user's part; the first time it says so.
    fn is_over(&mut self, directory: &Path, owner: u32) -> bool {
        let SurveyLimits { entries_max, copies_max, memory_bytes_max, until, part_of_user } = self.limits;
        let time = until.map(|until| until.saturating_duration_since(self.begun));
        let is_beyond = |taken: &Taken, part: usize| {
            taken.entries > entries_max / part
                || taken.copies >= copies_max / part
                || taken.bytes > memory_bytes_max / part
                || time.is_some_and(|time| taken.time >= time / u32::try_from(part).unwrap_or(1))
        };
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        let of_all = is_late || is_beyond(&self.all, 1);
        let part = if owner == 0 { 1 } else { part_of_user.max(1) };
        let of_user = self.users.get(&owner).is_some_and(|taken| is_beyond(taken, part));
        if !of_all && !of_user {
            return false;
        }
        self.found.is_cut = true;
        let is_told = match of_all {
            true => std::mem::replace(&mut self.all.is_told, true),
            false => std::mem::replace(&mut self.users.entry(owner).or_default().is_told, true),
        };
        if !is_told {
            let why = match of_all {
                true => format!("what comes after the first {} copies is left out", self.found.copies.len()),
                false => {
                    format!("there is more here of the user with number {owner} than is looked at; it is left out")
                }
            };
            // Said even where there is no memory left for other problems.
            self.found.problems.push(Problem { path: directory.to_owned(), why, owner, is_link: false });
        }
        true
    }

    /// Looks into a directory and all below it, one open directory per level.
    fn visit_all(&mut self, path: &Path, directory: Directory) {
        let mut path = path.to_owned();
        let parent = path.parent().and_then(|parent| Directory::open(parent).ok());
        let owner_above = parent.map_or(directory.owner(), |parent| parent.owner());
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.visit(&path, directory, owner_above, 0));
        while let Some(level) = levels.last_mut() {
            truncate(&mut path, level.path_bytes);
            let Some(name) = level.rest.pop() else {
                levels.pop();
                continue;
            };
            let owner_above = level.directory.owner();
            let opened = level.directory.below(&name);
            path.push(&name);
            let depth = levels.len();
            match opened {
                Ok(directory) => levels.extend(self.visit(&path, directory, owner_above, depth)),
                // It is gone or has become something else since it was listed, or may not be read.
                Err(error) => self.unlisted(&path, owner_above, format!("it cannot be listed: {}", said(&error))),
            }
        }
    }

    /// Looks at one directory; returns what is to be looked into below it.
    fn visit(&mut self, path: &Path, directory: Directory, owner_above: u32, depth: usize) -> Option<Level> {
        let begun = Instant::now();
        let owner = directory.owner();
        let level = self.look_into(path, directory, owner_above, depth);
        self.take(owner, |taken| taken.time += begun.elapsed());
        level
    }

    fn look_into(&mut self, path: &Path, directory: Directory, owner_above: u32, depth: usize) -> Option<Level> {
        let owner = directory.owner();
        if self.is_over(path, owner) {
            return None;
        }
        let path_bytes = path.as_os_str().len();
        if path_bytes > PATH_BYTES_MAX {
            let above = path.parent().unwrap_or(path);
            self.problem(above, owner, "the path of what is below it is too long; it is left out");
            return None;
        }
        let listed = match self.list(path, &directory, depth) {
            Ok(listed) => listed,
            Err(why) => {
                self.unlisted(path, owner, why);
                return None;
            }
        };
        for link in &listed.links {
            let why = "not looked at: it is a symbolic link, and links are not followed; name its target instead";
            self.add_problem(Problem { path: path.join(link), why: why.into(), owner, is_link: true });
        }
        for file in &listed.files {
            self.problem(
                &path.join(file),
                owner,
                "not looked at: it is no directory, and has the name of one with checkpoints",
            );
        }
        let name = Path::new(path.file_name().unwrap_or_default());
        if let Some(generation) = generation_of(name) {
            if self.is_of(path, owner, owner_above) {
                self.generation(path, &directory, owner_above, generation, &listed.names);
            }
            return None;
        }
        if let Some(rank) = rank_of(name, "") {
            if self.is_of(path, owner, owner_above) {
                self.slots(path, &directory, owner_above, rank, &listed.names);
            }
            return None;
        }
        if depth == DEPTH_MAX {
            let why = format!("more than {DEPTH_MAX} directories deep; what is below is left out");
            self.problem(path, owner, why);
            return None;
        }
        if listed.names.iter().any(|name| name == JOURNAL_NAME || name == OLDER_NAME) {
            self.take(owner, |taken| taken.bytes += path_bytes);
            self.found.journals.push((path.to_owned(), owner));
        }
        if listed.names.iter().any(|name| name == NODES) {
            self.placement(path, &directory, &listed);
        }
        if listed.is_of_job && listed.names.iter().any(|name| name == COMPLETED) {
            self.mark_of_end(path, &directory);
        }
        let mut rest = listed.below;
        // Files that a program writes are its own until they are part of a checkpoint.
        rest.retain(|name| !rank_of_files(Path::new(name)));
        rest.reverse();
        Some(Level { directory, path_bytes, rest })
    }

    /// Looks at the file of nodes. Other things than a job's directories may have a file of this name.
    fn placement(&mut self, path: &Path, directory: &Directory, listed: &Listed) {
        let owner = directory.owner();
        let opened = open_of(directory, NODES, owner);
        let may_be = match &opened {
            Ok((file, _)) => may_be_placement(file),
            Err(_) => false,
        };
        match opened.and_then(|(file, _)| was_complete(&file, 0)) {
            Ok(_) => {
                self.take(owner, |taken| taken.bytes += path.as_os_str().len());
                self.found.placements.push((path.to_owned(), owner));
            }
            // A link is a problem already, and a job that is removed takes it away first.
            Err(_) if listed.links.iter().any(|link| link == NODES) => {
                let why =
                    "it is a symbolic link, and is not followed: whether a newer checkpoint was here is not known";
                self.unread(path, owner, NODES, why.into());
            }
            Err(_) if is_absent(directory, NODES) => {}
            Err(why) if may_be || listed.is_of_job => {
                let why = format!(
                    "it records what the job saved and on which nodes, and cannot be read ({why}): whether a newer checkpoint was here is \
                     not known. Look in the job's other tiers and on its other nodes, run the job, and then delete this file; the job writes a \
                     new one"
                );
                self.unread(path, owner, NODES, why.clone());
                self.problem(&path.join(NODES), owner, why);
            }
            Err(_) => {}
        }
    }

    /// Looks at the mark that the job came to its end.
    fn mark_of_end(&mut self, path: &Path, directory: &Directory) {
        let owner = directory.owner();
        let why = match open_of(directory, COMPLETED, owner) {
            Ok((file, _)) if Completed::from_file(&file).is_some() => return,
            Ok(_) => "it is damaged".to_owned(),
            Err(_) if is_absent(directory, COMPLETED) => return,
            Err(why) => why,
        };
        let why = format!(
            "the mark that the job came to its end cannot be read ({why}): the next run goes on from its last checkpoint; remove the mark \
             if it should, or all of the job to start over"
        );
        self.problem(&path.join(COMPLETED), owner, why);
    }

    /// Whether what lies in a job's directory belongs to the user whose that is, or to root, who may write everywhere.
    fn is_of(&mut self, path: &Path, owner: u32, of_job: u32) -> bool {
        let is_of = owner == of_job || owner == 0;
        if !is_of {
            let why = format!("it belongs to the user with number {owner}, the directory that it is in to {of_job}");
            self.problem(path, owner, why);
        }
        is_of
    }

    /// Directories in a directory, without links; and the names that mean something, both sorted.
    fn list(&mut self, path: &Path, directory: &Directory, depth: usize) -> Result<Listed, String> {
        let owner = directory.owner();
        // Where others may make entries, each is charged to whose it is.
        let is_of_many = directory.found().mode() & surefoot_foreign::way::OTHERS_WRITE != 0;
        let mut listed = Listed::default();
        let mut is_cut = false;
        let told = |name: OsString, kind: Kind| {
            let is_directory = kind.may_be_directory();
            let owner = match is_of_many && is_directory {
                true => directory.owner_of(&name).unwrap_or(owner),
                false => owner,
            };
            // Deeper down, links of other names are somebody's own affair.
            let is_left_out = kind == Kind::Link && (depth == 0 || name.to_str().is_some_and(is_place));
            let is_file = kind == Kind::Other && name.to_str().is_some_and(|name| name != NODES && is_place(name));
            let is_wanted = is_directory || is_left_out || is_file || name.to_str().is_some_and(is_known);
            listed.is_of_job |= name.to_str().is_some_and(is_of_job);
            let bytes = if is_wanted { name.len() + size_of::<OsString>() } else { 0 };
            self.take(owner, |taken| (taken.entries, taken.bytes) = (taken.entries + 1, taken.bytes + bytes));
            if self.is_over(path, owner) {
                is_cut = true;
                // Of a directory of many, only what is this user's is left out.
                return match is_of_many && !self.is_over(path, 0) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                };
            }
            if is_directory {
                listed.below.push(name.clone());
            }
            if is_left_out {
                listed.links.push(name.clone());
            }
            if is_file {
                listed.files.push(name.clone());
            }
            if is_wanted {
                listed.names.extend(name.into_string().ok());
            }
            ControlFlow::Continue(())
        };
        directory.list(told).map_err(|error| format!("it cannot be listed: {}", said(&error)))?;
        listed.below.sort();
        listed.names.sort();
        listed.links.sort();
        Ok(listed)
    }

    fn push(&mut self, copy: Copy) {
        let names = |manifest: &Manifest| manifest.regions.iter().map(|region| region.name.len() + 32).sum::<usize>();
        let paths = [&copy.job_directory, &copy.directory, &copy.image].into_iter().chain(&copy.manifests);
        let paths: usize = paths.map(|path| path.as_os_str().len()).sum();
        let bytes = size_of::<Copy>() + paths + copy.manifest.as_ref().map_or_else(String::len, names);
        let owner = copy.owner;
        self.take(owner, |taken| (taken.copies, taken.bytes) = (taken.copies + 1, taken.bytes + bytes));
        self.found.copies.push(copy);
    }

    fn generation(
        &mut self,
        path: &Path,
        directory: &Directory,
        owner: u32,
        generation: GenerationId,
        names: &[String],
    ) {
        let commit_path = path.join("commit");
        let commit = match open_of(directory, "commit", owner) {
            Ok((file, _)) => Commit::of_file(&file),
            Err(why) => Err(why),
        };
        let committed_ranks = match commit {
            Ok(commit) if commit.generation == generation => Some(commit.ranks),
            Ok(_) => {
                self.problem(&commit_path, owner, "it is the mark of another generation");
                None
            }
            Err(why) => {
                if names.iter().any(|name| name == "commit") {
                    self.problem(&commit_path, owner, why);
                }
                None
            }
        };
        let mut ranks: Vec<u32> = Vec::new();
        for name in names {
            let rank = [".manifest", ".image"].iter().find_map(|end| rank_of(Path::new(name), end));
            ranks.extend(rank.filter(|rank| ranks.last() != Some(rank)));
        }
        // A job removes the mark first and writes it last.
        if let (Some(count), [], true) = (committed_ranks, &ranks[..], open_of(directory, "commit", owner).is_ok()) {
            let of = if count == 1 { "its rank".to_owned() } else { format!("all {count} ranks") };
            self.problem(path, owner, format!("it was once complete on {of}, and no part of it is left"));
        }
        for rank in ranks {
            if self.is_over(path, owner) {
                return;
            }
            let [manifest_name, image_name] = ["manifest", "image"].map(|kind| format!("rank-{rank:05}.{kind}"));
            let (manifest, written_realtime_ns) = read_manifest(directory, &manifest_name, owner);
            let manifest =
                manifest.and_then(|manifest| match (manifest.generation, manifest.rank) == (generation, rank) {
                    true => Ok(manifest),
                    false => {
                        Err(format!("it is of rank {} of generation {}", manifest.rank, manifest.generation.number))
                    }
                });
            // Without a mark it is being written or removed, or was given up.
            let is_marked = names.iter().any(|name| name == "commit") && !is_absent(directory, "commit");
            let image_bad = of_image(directory, &image_name, &manifest_name, &manifest, owner);
            if let Some(why) = image_bad.clone().filter(|_| is_marked) {
                self.problem(&path.join(&image_name), owner, why);
            }
            self.push(Copy {
                tier: Tier::Durable,
                job_directory: path.parent().unwrap_or(path).to_owned(),
                owner,
                directory: path.to_owned(),
                rank,
                generation: Some(generation),
                manifest,
                written_realtime_ns,
                manifests: vec![path.join(manifest_name)],
                manifest_bad: None,
                image_bad,
                stored_bytes: directory.stored_bytes(OsStr::new(&image_name)),
                image: path.join(image_name),
                committed_ranks,
            });
        }
    }

    fn slots(&mut self, path: &Path, directory: &Directory, owner: u32, rank: u32, names: &[String]) {
        for slot in 0..SLOTS_MAX {
            if self.is_over(path, owner) {
                return;
            }
            let of = |kind: &str| format!("slot-{slot}.{kind}");
            let is_there = |kind: &str| names.contains(&of(kind));
            // The second manifest's name says whether all ranks have theirs.
            let second_name = if is_there("copy") { "copy" } else { "pending" };
            // Without a manifest an image is room for the next checkpoint.
            if !is_there("manifest") && !is_there(second_name) {
                continue;
            }
            let (first, at_ns) = read_manifest(directory, &of("manifest"), owner);
            let (manifest, written_realtime_ns, believed) = match first {
                Ok(manifest) => (Ok(manifest), at_ns, of("manifest")),
                Err(why) => {
                    let (second, at_ns) = read_manifest(directory, &of(second_name), owner);
                    (second.map_err(|_| why), at_ns, of(second_name))
                }
            };
            let manifest = manifest.and_then(|manifest| match manifest.rank == rank {
                true => Ok(manifest),
                false => Err(format!("it is of rank {}", manifest.rank)),
            });
            let bad = manifest.as_ref().ok().and_then(|read| bad_manifest(directory, slot, &believed, read, owner));
            let why = of_image(directory, &of("image"), &believed, &manifest, owner);
            if let Some(why) = why.clone() {
                self.problem(&path.join(of("image")), owner, why);
            }
            self.push(Copy {
                tier: Tier::Memory,
                job_directory: path.parent().unwrap_or(path).to_owned(),
                owner,
                directory: path.to_owned(),
                rank,
                generation: manifest.as_ref().ok().map(|manifest| manifest.generation),
                manifest,
                written_realtime_ns,
                manifests: vec![path.join(of("manifest")), path.join(of(second_name))],
                manifest_bad: bad.map(|(name, why)| (path.join(name), why)),
                image_bad: why,
                stored_bytes: directory.stored_bytes(OsStr::new(&of("image"))),
                image: path.join(of("image")),
                committed_ranks: None,
            });
        }
    }
}

/// Shortens a path to its first bytes, which end where a name does.
fn truncate(path: &mut PathBuf, bytes: usize) {
    while path.as_os_str().len() > bytes && path.pop() {}
}

/// Names under which a job keeps checkpoints, or that of its nodes.
fn is_place(name: &str) -> bool {
    let is_room = ["rank-", "partner-", "parity-"].iter().any(|room| {
        name.strip_prefix(room)
            .is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    is_room || name == NODES || generation_of(Path::new(name)).is_some()
}

/// Names that only a job's directory has, but for the file of its nodes.
fn is_of_job(name: &str) -> bool {
    let is_lock = || rank_of(Path::new(name), ".lock").is_some() || rank_of_files(Path::new(name));
    (is_place(name) && name != NODES) || is_lock() || name == JOURNAL_NAME || name == OLDER_NAME
}

/// Names of files that a survey looks at.
fn is_known(name: &str) -> bool {
    name == "commit"
        || name == JOURNAL_NAME
        || name == OLDER_NAME
        || name == NODES
        || name == COMPLETED
        || [".manifest", ".image"].iter().any(|end| rank_of(Path::new(name), end).is_some())
        || name
            .strip_prefix("slot-")
            .is_some_and(|rest| [".manifest", ".copy", ".pending"].iter().any(|end| rest.ends_with(end)))
}

impl Copy {
    /// The job: what the manifest says, else the directory's name.
    pub fn job(&self) -> String {
        match &self.manifest {
            Ok(manifest) => manifest.job.clone(),
            Err(_) => self.job_directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Whether it was never finished, and never reported as finished.
    pub fn is_unfinished(&self) -> bool {
        super::verify::is_unfinished(self)
    }

    /// Whether it is marked in memory as one that all ranks had.
    pub fn is_marked(&self) -> bool {
        self.manifests.iter().any(|path| path.extension().is_some_and(|kind| kind == "copy"))
    }

    /// Whether it lies in the directory of another job than it is of; such a job's restart does not look at it.
    pub fn is_astray(&self) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| !self.job_directory.ends_with(&manifest.job))
    }
}

/// The rank of `rank-00003` with this end.
fn rank_of(name: &Path, end: &str) -> Option<u32> {
    let digits = name.to_str()?.strip_prefix("rank-")?.strip_suffix(end)?;
    let is_plain = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    // One name for each rank, so that none is there twice.
    digits.parse().ok().filter(|rank: &u32| is_plain && format!("{rank:05}") == digits)
}

fn rank_of_files(name: &Path) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix("files-"))
        .is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
