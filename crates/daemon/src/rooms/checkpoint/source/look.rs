//! One look at everything: directories, copies, journals, locks, drives.

use super::jobs::{self, FoundJob, Journal};
use super::locks::Locks;
use super::{drives, mounts as file_systems, text};
use crate::rooms::turns::in_turn;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_checkpoint::inspect::{self, Copy, Survey, SurveyLimits};
use surefoot_checkpoint::session::journal::Followed;
use surefoot_checkpoint::{Disk, Storage};
use surefoot_hostfs::mounts::Mounts;
use surefoot_hostfs::{Root, clock};
use surefoot_model::{CheckpointDirectory, CheckpointJob, CheckpointLook, CheckpointProblem, CheckpointTier};
use surefoot_rooms::checkpoint::{JOBS_MAX, ROWS_MAX, ROWS_OF_JOB_MAX};

/// Copies that are looked at: so many ranks times so many generations.
const COPIES_MAX: usize = 20_000;
/// Entries of directories that are looked at.
const ENTRIES_MAX: usize = 400_000;
/// Memory for paths, names and manifests.
const MEMORY_BYTES_MAX: usize = 32 << 20;
/// The part of these limits that the files of one user may take: half.
const PART_OF_USER: usize = 2;
/// Looking for copies ends after this time.
const SURVEY_TIME: Duration = Duration::from_secs(5);
/// Journals that are read.
const JOURNALS_MAX: usize = 256;
/// Bytes of journals that one look reads: some ten thousand lines.
const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// Problems that are shown.
const PROBLEMS_MAX: usize = 100;

/// Where to look.
pub(in crate::rooms) struct Looker {
    root: Root,
    directories: Vec<PathBuf>,
    /// The user who looks.
    own: u32,
    /// The journals of the last look.
    journals: Followed,
    /// Looks so far.
    looks: usize,
}

impl Looker {
    pub(in crate::rooms) fn new(root: Root, directories: Vec<PathBuf>) -> Self {
        let own = surefoot_hostfs::privilege::effective_user();
        Looker { root, directories, own, journals: Followed::default(), looks: 0 }
    }

    /// Looks into these directories from now on.
    pub(in crate::rooms) fn look_into(&mut self, directories: Vec<PathBuf>) {
        self.directories = directories;
    }

    /// What there is to be seen now, and the jobs. `begins` is told the number of a directory before anything is asked for
    /// there.
    pub(in crate::rooms) fn look(&mut self, begins: &mut dyn FnMut(usize)) -> (CheckpointLook, Vec<FoundJob>) {
        let begun = Instant::now();
        let mut answer = CheckpointLook { looked_realtime_ns: clock::realtime_ns(), ..CheckpointLook::default() };
        let mounts = Mounts::read(&self.root).unwrap_or_default();
        let (mut copies, mut placements, mut unlisted) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut journals = BTreeSet::new();
        let mut places = Vec::new();
        for (at, directory) in self.directories.iter().enumerate() {
            begins(at);
            let path = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
            let view = self.survey(
                directory,
                &path,
                (&mounts, begun),
                &mut copies,
                [&mut journals, &mut placements, &mut unlisted],
                &mut answer,
            );
            answer.directories.push(view);
            places.push(path);
        }
        let mut begins_below = |path: &Path| {
            if let Some(at) = places.iter().position(|place| path.starts_with(place)) {
                begins(at);
            }
        };
        let told = journals.iter().cloned().collect();
        self.looks = self.looks.wrapping_add(1);
        let journals = read_journals((&mut self.journals, self.looks), journals, &mut begins_below, &mut answer);
        let shared = jobs::shared(&journals);
        let tier_of = |path: &Path, owner: u32| {
            let is_said = |(who, known): &(u32, PathBuf)| *who == owner && path.starts_with(known);
            match file_systems::tier(&mounts, path) {
                Some(CheckpointTier::Memory) => CheckpointTier::Memory,
                _ if shared.iter().any(is_said) => CheckpointTier::Shared,
                found => found.unwrap_or(CheckpointTier::Durable),
            }
        };
        see_tiers(&places, &copies, &tier_of, &mounts, &mut answer);
        // Of directories within each other, a copy is found twice.
        let mut seen = BTreeSet::new();
        copies.retain(|copy| seen.insert((copy.directory.clone(), copy.image.clone())));
        let mut found = jobs::jobs(&copies, &journals, &tier_of, self.own);
        // What was not read may hold what seems to be gone.
        if !answer.is_cut {
            let survey = Survey {
                copies: std::mem::take(&mut copies),
                journals: told,
                placements: placements.into_iter().collect(),
                unlisted: unlisted.into_iter().collect(),
                directories: places.clone(),
                ..Survey::default()
            };
            let is_it = |directory: &Path, owner: u32, journal: &&Journal| journal.0 == directory && journal.1 == owner;
            let mut history = |directory: &Path, owner: u32| {
                journals.iter().find(|journal| is_it(directory, owner, journal)).map(|(.., history)| history.clone())
            };
            jobs::add_lost(&mut found, inspect::lost(&survey, &mut history), &tier_of, self.own);
            copies = survey.copies;
        }
        say_astray(&copies, &mut answer);
        self.see_who_runs(&copies, &mut begins_below, &mut found);
        cut(&mut answer, &mut found);
        match drives::read(&self.root) {
            Some(Ok(report)) => answer.drives = Some(drives::beneath(report, &mut answer.directories)),
            Some(Err(why)) => problem(&mut answer, &self.root.path(surefoot_model::DriveReport::FILE), 0, why),
            None => {}
        }
        answer.look_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        answer.at_ns = clock::monotonic_ns();
        (answer, found)
    }

    fn survey(
        &self,
        directory: &Path,
        path: &Path,
        (mounts, begun): (&Mounts, Instant),
        copies: &mut Vec<Copy>,
        [journals, placements, unlisted]: [&mut BTreeSet<(PathBuf, u32)>; 3],
        answer: &mut CheckpointLook,
    ) -> CheckpointDirectory {
        let mut view = CheckpointDirectory { path: text(directory), ..CheckpointDirectory::default() };
        let limits = SurveyLimits {
            entries_max: ENTRIES_MAX,
            copies_max: COPIES_MAX.saturating_sub(copies.len()),
            memory_bytes_max: MEMORY_BYTES_MAX / self.directories.len().max(1),
            part_of_user: PART_OF_USER,
            until: Some(begun + SURVEY_TIME),
        };
        let mut survey = match inspect::survey_within(&[directory.to_owned()], limits) {
            Ok(survey) => survey,
            Err(error) => {
                view.problem = Some(error.to_string());
                return view;
            }
        };
        view.file_system = mounts.on(path).map(|mount| mount.kind.clone());
        view.free_bytes = Disk.free_bytes(path).ok().filter(|bytes| *bytes != u64::MAX);
        copies.append(&mut survey.copies);
        journals.extend(survey.journals);
        placements.extend(survey.placements);
        unlisted.extend(survey.unlisted);
        answer.is_cut |= survey.is_cut;
        answer.problems_left_out += survey.problems_left_out;
        for found in survey.problems {
            problem(answer, &found.path, found.owner, found.why);
        }
        view
    }

    /// Looks whether somebody holds the lock of one of the ranks in memory.
    fn see_who_runs(&self, copies: &[Copy], begins: &mut dyn FnMut(&Path), jobs: &mut [FoundJob]) {
        let locks = Locks::read(&self.root);
        for FoundJob { job, .. } in jobs {
            let directories = job.directories.iter().map(PathBuf::from);
            let first = directories.map(|directory| directory.join("rank-00000"));
            let of_job = copies.iter().filter(|copy| job.directories.contains(&text(&copy.job_directory)));
            let ranks: BTreeSet<PathBuf> = of_job.map(|copy| copy.directory.clone()).chain(first).collect();
            let held = ranks.iter().filter_map(|directory| {
                begins(directory);
                locks.holds(&directory.join("lock"))
            });
            job.is_running = held.fold(None, |any, is_held| Some(any.unwrap_or(false) || is_held));
        }
    }
}

/// Says what is kept in each directory, or could be; `places` are these without links.
fn see_tiers(
    places: &[PathBuf],
    copies: &[Copy],
    tier_of: jobs::TierOf<'_>,
    mounts: &Mounts,
    answer: &mut CheckpointLook,
) {
    for (view, path) in answer.directories.iter_mut().zip(places) {
        let below = copies.iter().filter(|copy| copy.directory.starts_with(path));
        let tiers: BTreeSet<CheckpointTier> = below.map(|copy| jobs::tier(copy, tier_of)).collect();
        view.tiers = match tiers.is_empty() {
            true => file_systems::tier(mounts, path).into_iter().collect(),
            false => tiers.into_iter().collect(),
        };
    }
}

/// Reads on in the journals, in turn of each user, so that one who has many keeps nobody else's from being read. What one look has no time
/// for is read by the next, which begins with another journal.
fn read_journals(
    (followed, looks): (&mut Followed, usize),
    directories: BTreeSet<(PathBuf, u32)>,
    begins: &mut dyn FnMut(&Path),
    answer: &mut CheckpointLook,
) -> Vec<Journal> {
    let lines_max = (ROWS_MAX / directories.len().clamp(1, JOURNALS_MAX)).min(ROWS_OF_JOB_MAX);
    let mut journals = Vec::new();
    answer.is_cut |= directories.len() > JOURNALS_MAX;
    let mut read = in_turn(directories.into_iter().collect(), |(_, owner)| *owner);
    read.truncate(JOURNALS_MAX);
    let is_read: BTreeSet<(&Path, u32)> = read.iter().map(|(directory, owner)| (&**directory, *owner)).collect();
    followed.keep_only(|directory, owner| is_read.contains(&(directory, owner)));
    let first = looks % read.len().max(1);
    read.rotate_left(first);
    let mut left = JOURNAL_BYTES_MAX;
    for (directory, owner) in read {
        begins(&directory);
        let before = followed.read_bytes();
        let found = followed.read_of(&directory, owner, lines_max, left);
        let read_bytes = followed.read_bytes() - before;
        // What this look had no room for is read by the next.
        if found.is_ok() && read_bytes < left {
            let unread = inspect::unread_journal(&Survey::default(), &directory, owner, &found);
            unread.into_iter().for_each(|unread| problem(answer, &unread.path, owner, unread.why));
        }
        left = left.saturating_sub(read_bytes);
        match found {
            Ok(Some(history)) => journals.push((directory, owner, history)),
            Ok(None) => {}
            Err(error) => problem(answer, &directory, owner, error.to_string()),
        }
    }
    journals
}

/// Copies in the directory of another job, which no restart would look at, and copies that nothing is known of.
fn say_astray(copies: &[Copy], answer: &mut CheckpointLook) {
    for copy in copies {
        match &copy.manifest {
            Ok(manifest) if copy.is_astray() => {
                let why = format!("it is of the job {:?} and lies in another's", manifest.job);
                problem(answer, &copy.directory, copy.owner, why);
            }
            Err(why) if copy.generation.is_none() => problem(answer, &copy.directory, copy.owner, why.clone()),
            _ => {}
        }
    }
}

/// Shares what may be told between the users, and what is each user's between his jobs; the oldest goes.
fn cut(answer: &mut CheckpointLook, found: &mut Vec<FoundJob>) {
    answer.jobs_left_out = found.len().saturating_sub(JOBS_MAX) as u64;
    let owner = |found: &FoundJob| found.job.uid.unwrap_or(0);
    // Whoever fills a directory with names that come first must not push a job out that runs.
    found.sort_by_key(|found| (found.job.is_running != Some(true), Reverse(newest_ns(&found.job))));
    *found = in_turn(std::mem::take(found), owner);
    found.truncate(JOBS_MAX);
    found.sort_by(|a, b| a.job.name.cmp(&b.job.name));
    let mut jobs_of: BTreeMap<u32, usize> = BTreeMap::new();
    found.iter().for_each(|found| *jobs_of.entry(owner(found)).or_default() += 1);
    for one in found {
        let rows_max = (ROWS_MAX / jobs_of.len().max(1) / jobs_of[&owner(one)]).min(ROWS_OF_JOB_MAX);
        let FoundJob { job, entries, fresh_count, left_out_count, .. } = one;
        job.generations_left_out = job.generations.len().saturating_sub(rows_max) as u64;
        job.generations.truncate(rows_max);
        // All that is new is told, and the line before it shows where it goes on.
        let gone = entries.len().saturating_sub(rows_max.max(fresh_count.saturating_add(1)));
        entries.drain(..gone);
        *left_out_count += gone as u64;
    }
}

/// When the newest checkpoint of a job was taken; times to come, which nobody has taken one at, count for nothing.
fn newest_ns(job: &CheckpointJob) -> u64 {
    let now_ns = clock::realtime_ns();
    let taken = job.generations.iter().filter_map(|one| one.taken_realtime_ns);
    taken.filter(|&taken_ns| taken_ns <= now_ns).max().unwrap_or(0)
}

fn problem(answer: &mut CheckpointLook, path: &Path, owner: u32, why: String) {
    let of_user = answer.problems.iter().filter(|problem| problem.uid == Some(owner)).count();
    if answer.problems.len() < PROBLEMS_MAX && of_user < PROBLEMS_MAX / PART_OF_USER {
        let why = surefoot_model::one_line(&why);
        answer.problems.push(CheckpointProblem { path: text(path), why, uid: Some(owner) });
    } else {
        answer.problems_left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A journal that was emptied tells of nothing, and that is told; one for which a look had no room is not judged.
    #[test]
    fn an_emptied_journal_is_a_problem() {
        let home = tempfile::tempdir().unwrap();
        let directories = ["emptied", "written"].map(|name| home.path().join(name));
        directories.iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::write(directories[0].join("journal.jsonl"), "").unwrap();
        let line = r#"{"realtime_ns":1,"event":"restart","generation":null,"step":null,"report":"begun"}"#;
        fs::write(directories[1].join("journal.jsonl"), format!("{line}\n")).unwrap();
        let own = inspect::own_user();
        let journals = directories.iter().map(|path| (path.clone(), own)).collect();
        let mut answer = CheckpointLook::default();
        let read = read_journals((&mut Followed::default(), 0), journals, &mut |_| {}, &mut answer);
        let told: Vec<(&str, bool)> = answer
            .problems
            .iter()
            .map(|problem| (problem.path.as_str(), problem.why.contains("is not known")))
            .collect();
        let lines: Vec<u64> =
            read.iter().map(|(.., history)| history.entries.len() as u64 + history.skipped_count()).collect();
        assert_eq!((told, lines), (vec![(directories[0].join("journal.jsonl").to_str().unwrap(), true)], vec![0, 1]));
    }
}
