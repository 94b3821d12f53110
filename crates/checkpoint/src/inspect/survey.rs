//! Finds checkpoints below directories.

use crate::generation::{Commit, GenerationId, Manifest};
use crate::session::journal::{JOURNAL_NAME, OLDER_NAME};
use crate::tier::{SLOTS_MAX, generation_of};
use crate::{Disk, Error};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Directories below each other that are looked into: names of jobs may have slashes.
const DEPTH_MAX: usize = 72;

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
    /// The directory that it lies in: of the rank in memory, of the generation in a durable tier.
    pub directory: PathBuf,
    /// The rank, as the name says.
    pub rank: u32,
    /// The generation, as the name or the manifest says.
    pub generation: Option<GenerationId>,
    /// What it says of itself, or why that cannot be read.
    pub manifest: Result<Manifest, String>,
    /// The manifest's file, the copies in the order in which they are believed.
    pub manifests: Vec<PathBuf>,
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
}

/// What is there.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Copies by job, the newest generation first, then by rank and tier.
    pub copies: Vec<Copy>,
    /// Directories of jobs that hold a journal; see [`crate::session::journal`].
    pub journals: Vec<PathBuf>,
    /// What is not as it should be.
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// Whether a limit was reached, so that copies are missing here.
    pub is_cut: bool,
    entries: usize,
    manifest_bytes: usize,
    limits: SurveyLimits,
}

/// How much a survey may look at; what is beyond is left out, and a problem says so.
#[derive(Debug, Clone, Copy)]
pub struct SurveyLimits {
    /// Entries of directories.
    pub entries_max: usize,
    /// Copies.
    pub copies_max: usize,
    /// About how much memory their manifests may take.
    pub manifest_bytes_max: usize,
    /// When to end.
    pub until: Option<Instant>,
}

impl Default for SurveyLimits {
    fn default() -> Self {
        SurveyLimits { entries_max: ENTRIES_MAX, copies_max: usize::MAX, manifest_bytes_max: usize::MAX, until: None }
    }
}

/// Looks for checkpoints in directories and all below them.
///
/// # Errors
/// [`Error::Storage`] when one of the directories is not there or cannot be read. What cannot be read below them is a
/// problem in the result.
pub fn survey(directories: &[PathBuf]) -> Result<Survey, Error> {
    survey_within(directories, SurveyLimits::default())
}

/// As [`survey`], for one who must come to an end in any case.
///
/// # Errors
/// As [`survey`]. That a limit was reached is no error.
pub fn survey_within(directories: &[PathBuf], limits: SurveyLimits) -> Result<Survey, Error> {
    let mut survey = Survey { limits, ..Survey::default() };
    let mut seen = Vec::new();
    for directory in directories {
        let path = fs::canonicalize(directory).map_err(Error::storage("open", directory))?;
        fs::read_dir(&path).map_err(Error::storage("list", directory))?;
        // The same directory twice would be the same copies twice.
        if !seen.iter().any(|known| path.starts_with(known)) {
            survey.visit(&path, 0);
            seen.push(path);
        }
    }
    survey.copies.sort_by(|left, right| {
        let key = |copy: &Copy| (copy.job_directory.clone(), std::cmp::Reverse(copy.generation), copy.rank, copy.tier);
        key(left).cmp(&key(right))
    });
    Ok(survey)
}

impl Survey {
    fn problem(&mut self, path: &Path, why: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { path: path.to_owned(), why: why.into() });
        } else {
            self.problems_left_out += 1;
        }
    }

    /// Whether a limit is reached; the first time it says so.
    fn is_over(&mut self, directory: &Path) -> bool {
        let is_late = || self.limits.until.is_some_and(|until| Instant::now() >= until);
        let is_much = self.copies.len() >= self.limits.copies_max;
        let is_over = self.is_cut || is_much || self.manifest_bytes > self.limits.manifest_bytes_max || is_late();
        if is_over && !self.is_cut {
            self.is_cut = true;
            self.problem(directory, format!("what comes after the first {} copies is left out", self.copies.len()));
        }
        is_over
    }

    fn push(&mut self, copy: Copy) {
        let names = |manifest: &Manifest| manifest.regions.iter().map(|region| region.name.len() + 32).sum::<usize>();
        self.manifest_bytes += size_of::<Copy>() + copy.manifest.as_ref().map_or(0, names);
        self.copies.push(copy);
    }

    fn visit(&mut self, directory: &Path, depth: usize) {
        if self.is_over(directory) {
            return;
        }
        let name = Path::new(directory.file_name().unwrap_or_default());
        let (entries, names) = match self.list(directory) {
            Ok(found) => found,
            Err(why) => return self.problem(directory, why),
        };
        if let Some(generation) = generation_of(name) {
            return self.generation(directory, generation, &names);
        }
        if let Some(rank) = rank_of(name, "") {
            return self.slots(directory, rank, &names);
        }
        if depth == DEPTH_MAX {
            return self
                .problem(directory, format!("more than {DEPTH_MAX} directories deep; what is below is left out"));
        }
        if names.iter().any(|name| name == JOURNAL_NAME || name == OLDER_NAME) {
            self.journals.push(directory.to_owned());
        }
        for below in entries {
            // Files that a program writes are its own until they are part of a checkpoint.
            if below.file_name().is_some_and(|name| rank_of_files(Path::new(name))) {
                continue;
            }
            self.visit(&below, depth + 1);
        }
    }

    /// Directories in a directory, without links; and all names.
    fn list(&mut self, directory: &Path) -> Result<(Vec<PathBuf>, Vec<String>), String> {
        let (mut below, mut names) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(directory).map_err(|error| format!("it cannot be listed: {error}"))? {
            let entry = entry.map_err(|error| format!("it cannot be listed: {error}"))?;
            self.entries += 1;
            if self.entries > self.limits.entries_max {
                self.is_cut = true;
                let most = self.limits.entries_max;
                return Err(format!("more than {most} files were looked at; the rest is left out"));
            }
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_dir() {
                below.push(entry.path());
            }
            names.extend(entry.file_name().into_string().ok());
        }
        below.sort();
        names.sort();
        Ok((below, names))
    }

    fn generation(&mut self, directory: &Path, generation: GenerationId, names: &[String]) {
        let commit_path = directory.join("commit");
        let committed_ranks = match Commit::read(&Disk, &commit_path) {
            Ok(commit) if commit.generation == generation => Some(commit.ranks),
            Ok(_) => {
                self.problem(&commit_path, "it is the mark of another generation");
                None
            }
            Err(error) => {
                if names.iter().any(|name| name == "commit") {
                    self.problem(&commit_path, reason(&error));
                }
                None
            }
        };
        let mut ranks: Vec<u32> = Vec::new();
        for name in names {
            let rank = [".manifest", ".image"].iter().find_map(|end| rank_of(Path::new(name), end));
            ranks.extend(rank.filter(|rank| ranks.last() != Some(rank)));
        }
        for rank in ranks {
            if self.is_over(directory) {
                return;
            }
            let manifest_path = directory.join(format!("rank-{rank:05}.manifest"));
            let image = directory.join(format!("rank-{rank:05}.image"));
            let manifest = Manifest::read(&Disk, &manifest_path).map_err(|error| reason(&error)).and_then(|manifest| {
                match (manifest.generation, manifest.rank) == (generation, rank) {
                    true => Ok(manifest),
                    false => {
                        Err(format!("it is of rank {} of generation {}", manifest.rank, manifest.generation.number))
                    }
                }
            });
            self.push(Copy {
                tier: Tier::Durable,
                job_directory: directory.parent().unwrap_or(directory).to_owned(),
                directory: directory.to_owned(),
                rank,
                generation: Some(generation),
                manifest,
                manifests: vec![manifest_path],
                stored_bytes: stored_bytes(&image),
                image,
                committed_ranks,
            });
        }
    }

    fn slots(&mut self, directory: &Path, rank: u32, names: &[String]) {
        for slot in 0..SLOTS_MAX {
            if self.is_over(directory) {
                return;
            }
            let of = |kind: &str| directory.join(format!("slot-{slot}.{kind}"));
            let is_there = |kind: &str| names.iter().any(|name| *name == format!("slot-{slot}.{kind}"));
            // Without a manifest an image is room for the next checkpoint.
            if !is_there("manifest") && !is_there("copy") {
                continue;
            }
            let manifests = vec![of("manifest"), of("copy")];
            let read = |path: &PathBuf| Manifest::read(&Disk, path).map_err(|error| reason(&error));
            let manifest = read(&manifests[0]).or_else(|why| read(&manifests[1]).map_err(|_| why));
            let manifest = manifest.and_then(|manifest| match manifest.rank == rank {
                true => Ok(manifest),
                false => Err(format!("it is of rank {}", manifest.rank)),
            });
            let image = of("image");
            self.push(Copy {
                tier: Tier::Memory,
                job_directory: directory.parent().unwrap_or(directory).to_owned(),
                directory: directory.to_owned(),
                rank,
                generation: manifest.as_ref().ok().map(|manifest| manifest.generation),
                manifest,
                manifests,
                stored_bytes: stored_bytes(&image),
                image,
                committed_ranks: None,
            });
        }
    }
}

impl Copy {
    /// The job: what the manifest says, else the directory's name.
    pub fn job(&self) -> String {
        match &self.manifest {
            Ok(manifest) => manifest.job.clone(),
            Err(_) => self.job_directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Whether it lies in the directory of another job than it is of; such a job's restart does not look at it.
    pub fn is_astray(&self) -> bool {
        self.manifest.as_ref().is_ok_and(|manifest| !self.job_directory.ends_with(&manifest.job))
    }
}

/// What an error says besides its path.
fn reason(error: &Error) -> String {
    match error {
        Error::Storage { action, source, .. } => format!("cannot {action} it: {source}"),
        Error::Damaged { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

fn stored_bytes(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |found| if found.is_file() { found.blocks().saturating_mul(512) } else { 0 })
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_survey_ends_at_each_of_its_limits_and_says_so() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let directory = home.path().join(format!("job/rank-{number:05}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("slot-0.manifest"), "x").unwrap();
        }
        let directories = [home.path().to_owned()];
        let whole = survey(&directories).unwrap();
        assert_eq!((whole.copies.len(), whole.is_cut), (20, false));
        let some = SurveyLimits::default();
        for (limits, count) in [
            (SurveyLimits { copies_max: 7, ..some }, 7),
            (SurveyLimits { manifest_bytes_max: 3 * size_of::<Copy>(), ..some }, 4),
            (SurveyLimits { until: Some(Instant::now()), ..some }, 0),
            // The job, its twenty ranks, and one file in each of five.
            (SurveyLimits { entries_max: 26, ..some }, 5),
        ] {
            let found = survey_within(&directories, limits).unwrap();
            assert!(found.is_cut && found.copies.len() == count, "{limits:?}: {}", found.copies.len());
            assert!(found.problems.iter().any(|problem| problem.why.contains("left out")), "{limits:?}");
        }
    }

    #[test]
    fn only_the_one_name_of_a_rank_is_its_name() {
        assert_eq!(rank_of(Path::new("rank-00003.image"), ".image"), Some(3));
        assert_eq!(rank_of(Path::new("rank-100000"), ""), Some(100_000));
        for name in ["rank-3", "rank-000003", "rank-+0003", "rank-99999999999", "rank-00003.imagex", "rank-"] {
            assert_eq!(rank_of(Path::new(name), ""), None, "{name}");
        }
        assert!(rank_of_files(Path::new("files-00001")) && !rank_of_files(Path::new("files")));
    }
}
