//! From copies and journals to jobs; pure.
//!
//! A job is a name of one user: what another user keeps under the same name is another job.

use super::text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::GenerationId;
use surefoot_checkpoint::generation::check_name;
use surefoot_checkpoint::inspect::{self, Copy, Lost, Tier};
use surefoot_checkpoint::session::journal::{Entry, History, JournalEvent};
use surefoot_model::{CheckpointJob, CheckpointTier, Generation, GenerationState};

/// The longest name of a job that a journal is believed.
const NAME_CHARACTERS_MAX: usize = 128;

/// Copies of one generation in one tier, those of the newest run first, and of one run the highest number.
type Group<'a> = BTreeMap<(Reverse<(u64, GenerationId)>, CheckpointTier), Vec<&'a Copy>>;

/// A journal, with the directory of the job that it lies in and the user whose that is.
pub(super) type Journal = (PathBuf, u32, History);

/// The copies and the journals of a job.
type Parts<'a> = (Vec<&'a Copy>, Vec<&'a Journal>);

/// What the job directory of a user is as a durable tier: the SSD, shared by several nodes, or in memory.
pub(super) type TierOf<'a> = &'a dyn Fn(&Path, u32) -> CheckpointTier;

/// A job as one look finds it.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(in crate::rooms) struct FoundJob {
    pub(super) job: CheckpointJob,
    /// The lines of its journal that were read, oldest first.
    pub(super) entries: Vec<Entry>,
    /// How many of them, the last ones, were read for the first time.
    pub(super) fresh_count: usize,
    /// Lines before these.
    pub(super) left_out_count: u64,
    /// Lines that could not be read.
    pub(super) skipped_count: u64,
}

/// The directories that jobs say several nodes share, each for the jobs of its user only.
pub(super) fn shared(journals: &[Journal]) -> BTreeSet<(u32, PathBuf)> {
    let opened = |entry: &Entry| match &entry.event {
        JournalEvent::Opened { shared, .. } if Path::new(shared).is_absolute() => Some(PathBuf::from(shared)),
        _ => None,
    };
    let of = |(_, owner, history): &Journal| -> Vec<(u32, PathBuf)> {
        history.entries.iter().filter_map(opened).map(|shared| (*owner, shared)).collect()
    };
    journals.iter().flat_map(of).collect()
}

/// The tier of a copy. What lies in memory is in memory, however it is kept there; whether another durable one is shared, its file
/// system or its job says.
pub(super) fn tier(copy: &Copy, tier_of: TierOf<'_>) -> CheckpointTier {
    match copy.tier {
        Tier::Memory => CheckpointTier::Memory,
        Tier::Durable => tier_of(&copy.job_directory, copy.owner),
    }
}

/// The jobs whose copies and journals these are, by user and name. `own` is the user who looks, whose own jobs need no
/// mark.
pub(super) fn jobs(copies: &[Copy], journals: &[Journal], tier_of: TierOf<'_>, own: u32) -> Vec<FoundJob> {
    let mut of_jobs: BTreeMap<(u32, String), Parts<'_>> = BTreeMap::new();
    let mut names: BTreeMap<&Path, String> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| !copy.is_astray()) {
        let name = copy.job();
        // A manifest that cannot be read gives the directory's last name, which need not be all of the job's.
        if copy.manifest.is_ok() {
            names.insert(&copy.job_directory, name.clone());
        }
    }
    for copy in copies.iter().filter(|copy| !copy.is_astray()) {
        let name = names.get(copy.job_directory.as_path()).cloned().unwrap_or_else(|| copy.job());
        of_jobs.entry((copy.owner, name)).or_default().0.push(copy);
    }
    for journal in journals {
        let name = names.get(journal.0.as_path()).cloned().or_else(|| job_of(&journal.2));
        let name = name.unwrap_or_else(|| journal.0.file_name().unwrap_or_default().to_string_lossy().into_owned());
        of_jobs.entry((journal.1, name)).or_default().1.push(journal);
    }
    // A name that no session takes is no job's; nor can any of these look like the mark of another user's job.
    of_jobs.retain(|(_, name), _| check_name(name).is_ok());
    let epochs = inspect::epochs_of(copies);
    let found = |((owner, name), (copies, journals)): ((u32, String), Parts<'_>)| {
        job(told_name(&name, owner, own), owner, &copies, &journals, (tier_of, &epochs))
    };
    of_jobs.into_iter().map(found).collect()
}

/// Adds what jobs had and have no more, also of jobs of which nothing else is there.
pub(super) fn add_lost(found: &mut Vec<FoundJob>, lost: Vec<Lost>, tier_of: TierOf<'_>, own: u32) {
    for lost in lost.into_iter().filter(|lost| check_name(&lost.job).is_ok()) {
        let name = surefoot_model::one_line(&told_name(&lost.job, lost.owner, own));
        let at = found.iter().position(|found| found.job.name == name && found.job.uid == Some(lost.owner));
        let at = at.unwrap_or_else(|| {
            let job = CheckpointJob { name, uid: Some(lost.owner), ..CheckpointJob::default() };
            found.push(FoundJob { job, ..FoundJob::default() });
            found.len() - 1
        });
        let job = &mut found[at].job;
        let directory = text(&lost.directory);
        let tier = match lost.tier {
            Tier::Memory => CheckpointTier::Memory,
            Tier::Durable => tier_of(&lost.directory, lost.owner),
        };
        job.lost.push(surefoot_model::one_line(&format!("{}, in {directory}: {}", tier.place(), lost.why)));
        if !job.directories.contains(&directory) {
            job.directories.push(directory);
        }
    }
}

/// The name under which a job is told of. No name of a job has a space in it, so that those of different users differ.
fn told_name(name: &str, owner: u32, own: u32) -> String {
    if owner == own { name.to_owned() } else { format!("{name} (user {owner})") }
}

/// When a checkpoint was taken: what its manifest says, but not after the kernel saw it written.
fn taken_ns(copy: &Copy) -> Option<u64> {
    let manifest = copy.manifest.as_ref().ok()?;
    Some(manifest.taken_realtime_ns.min(copy.written_realtime_ns))
}

fn job_of(history: &History) -> Option<String> {
    history.entries.iter().rev().find_map(|entry| match &entry.event {
        JournalEvent::Opened { job, .. } => Some(job.chars().take(NAME_CHARACTERS_MAX).collect()),
        _ => None,
    })
}

fn job(
    name: String,
    owner: u32,
    copies: &[&Copy],
    journals: &[&Journal],
    (tier_of, epochs): (TierOf<'_>, &BTreeMap<GenerationId, u64>),
) -> FoundJob {
    let directories: BTreeSet<&Path> = copies
        .iter()
        .map(|copy| copy.job_directory.as_path())
        .chain(journals.iter().map(|(directory, ..)| directory.as_path()))
        .collect();
    let mut groups: Group<'_> = BTreeMap::new();
    for copy in copies {
        if let Some(generation) = copy.generation {
            let epoch = epochs.get(&generation).copied().unwrap_or(0);
            groups.entry((Reverse((epoch, generation)), tier(copy, tier_of))).or_default().push(copy);
        }
    }
    let mut entries: Vec<Entry> = journals.iter().flat_map(|(.., history)| history.entries.iter().cloned()).collect();
    if journals.len() > 1 {
        // A job that had its memory tier elsewhere before; otherwise the order of the lines is that of the file.
        entries.sort_by_key(|entry| entry.realtime_ns);
    }
    let job = CheckpointJob {
        name: surefoot_model::one_line(&name),
        uid: Some(owner),
        directories: directories.into_iter().map(text).collect(),
        is_running: None,
        generations: groups.iter().map(|(key, copies)| generation(*key, copies)).collect(),
        generations_left_out: 0,
        lost: Vec::new(),
    };
    FoundJob {
        job,
        fresh_count: journals.iter().map(|(.., history)| history.fresh_count).sum(),
        entries,
        left_out_count: journals.iter().map(|(.., history)| history.left_out_count).sum(),
        skipped_count: journals.iter().map(|(.., history)| history.skipped_count()).sum(),
    }
}

fn generation((newest, tier): (Reverse<(u64, GenerationId)>, CheckpointTier), copies: &[&Copy]) -> Generation {
    let GenerationId { number, nonce } = newest.0.1;
    let manifests = || copies.iter().filter_map(|copy| copy.manifest.as_ref().ok());
    let ranks = manifests().map(|manifest| manifest.ranks).max().unwrap_or(0);
    let here: BTreeSet<u32> = manifests().map(|manifest| manifest.rank).collect();
    let ranks_here = u32::try_from(here.len()).unwrap_or(u32::MAX);
    let committed = copies.iter().find_map(|copy| copy.committed_ranks);
    let expected = committed.unwrap_or(ranks);
    let bad = |copy: &&Copy| Some((copy.rank, copy.manifest.as_ref().err().or(copy.image_bad.as_ref())?.clone()));
    let unreadable = copies.iter().find_map(bad);
    let absent = || {
        let first = (0..expected).find(|rank| !here.contains(rank)).unwrap_or(0);
        format!("{} of {expected} ranks are not here, rank {first} the first of them", expected - ranks_here)
    };
    let is_absent = ranks_here < expected;
    let (state, missing) = match (unreadable, tier, committed) {
        (_, CheckpointTier::Durable | CheckpointTier::Shared, None) => {
            (GenerationState::Unfinished, "it is not marked as complete: being written, or given up".to_owned())
        }
        (Some((rank, why)), _, _) => (GenerationState::Damaged, format!("rank {rank}: {why}")),
        (None, CheckpointTier::Memory, _) if is_absent => (GenerationState::Partial, absent()),
        (None, _, _) if is_absent => (GenerationState::Damaged, absent()),
        _ => (GenerationState::Complete, String::new()),
    };
    Generation {
        number,
        nonce: format!("{nonce:016x}"),
        tier,
        state,
        missing,
        taken_realtime_ns: copies.iter().filter_map(|copy| taken_ns(copy)).max(),
        ranks_here,
        ranks: expected,
        payload_bytes: inspect::payload_bytes(copies.iter().copied()),
        stored_bytes: copies.iter().map(|copy| copy.stored_bytes).fold(0, u64::saturating_add),
        protection: manifests().next().map_or("", |manifest| manifest.protection.label()).to_owned(),
        directory: copies.first().map(|copy| text(&copy.directory)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_checkpoint::image::Protection;
    use surefoot_checkpoint::session::journal::Skipped;
    use surefoot_checkpoint::{GenerationId, Manifest};

    const OWN: u32 = 7;

    fn copy(tier: Tier, number: u64, rank: u32, ranks: u32, committed_ranks: Option<u32>) -> Copy {
        let base = match tier {
            Tier::Memory => "/dev/shm/a/job",
            Tier::Durable => "/ssd/a/job",
        };
        let generation = GenerationId { number, nonce: u64::MAX };
        Copy {
            tier,
            job_directory: base.into(),
            owner: OWN,
            directory: format!("{base}/somewhere").into(),
            rank,
            generation: Some(generation),
            manifest: Ok(Manifest {
                job: "a/job".into(),
                generation,
                rank,
                ranks,
                taken_realtime_ns: number * 1_000,
                payload_bytes: 10,
                protection: Protection::Shard,
                table_crc32c: 0,
                regions: Vec::new(),
                epoch: 0,
            }),
            written_realtime_ns: u64::MAX,
            manifest_bad: None,
            image_bad: None,
            manifests: Vec::new(),
            image: "/image".into(),
            stored_bytes: 20,
            committed_ranks,
        }
    }

    fn unreadable(copy: Copy) -> Copy {
        Copy { manifest: Err("it is not a manifest".into()), ..copy }
    }

    fn states(found: &FoundJob) -> Vec<(u64, &'static str, GenerationState)> {
        found.job.generations.iter().map(|one| (one.number, one.tier.as_str(), one.state)).collect()
    }

    #[test]
    fn generations_are_whole_in_part_unfinished_or_damaged() {
        use GenerationState::{Complete, Damaged, Partial, Unfinished};
        let copies = [
            copy(Tier::Memory, 9, 0, 2, None),
            copy(Tier::Memory, 8, 0, 2, None),
            copy(Tier::Memory, 8, 1, 2, None),
            copy(Tier::Durable, 9, 0, 2, None),
            copy(Tier::Durable, 7, 0, 2, Some(2)),
            copy(Tier::Durable, 7, 1, 2, Some(2)),
            copy(Tier::Durable, 6, 1, 2, Some(2)),
            unreadable(copy(Tier::Durable, 5, 0, 2, Some(2))),
            copy(Tier::Durable, 5, 1, 2, Some(2)),
        ];
        let found = jobs(&copies, &[], &|_, _| CheckpointTier::Durable, OWN);
        assert_eq!(found.len(), 1, "a manifest that cannot be read makes no other job: {found:#?}");
        assert_eq!(
            states(&found[0]),
            [
                (9, "memory", Partial),
                (9, "durable", Unfinished),
                (8, "memory", Complete),
                (7, "durable", Complete),
                (6, "durable", Damaged),
                (5, "durable", Damaged),
            ]
        );
        let job = &found[0].job;
        assert_eq!(job.name, "a/job");
        assert_eq!(job.directories, ["/dev/shm/a/job", "/ssd/a/job"]);
        assert_eq!(job.generations[0].missing, "1 of 2 ranks are not here, rank 1 the first of them");
        assert_eq!(job.generations[4].missing, "1 of 2 ranks are not here, rank 0 the first of them");
        assert_eq!(job.generations[5].missing, "rank 0: it is not a manifest");
        assert_eq!(
            (job.generations[2].payload_bytes, job.generations[2].nonce.as_str()),
            (Some(20), "ffffffffffffffff")
        );
        assert_eq!(job.generations[5].payload_bytes, None, "of one rank it is not known");
        let shared = jobs(&copies, &[], &|_, _| CheckpointTier::Shared, OWN);
        assert_eq!(states(&shared[0])[3], (7, "shared", Complete));
    }

    #[test]
    fn a_journal_without_copies_is_a_job_by_the_name_that_it_gives() {
        let (job, policy, shared) = ("of/its/own".into(), "surefoot".into(), "/scratch/own".into());
        let opened = JournalEvent::Opened { job, ranks: 1, policy, shared, weakness: None, is_repeated: false };
        let entries = vec![Entry { realtime_ns: 1, lost_count: 2, event: opened }];
        let skipped = [Skipped { cut_count: 1, unknown_count: 0 }, Skipped { cut_count: 1, unknown_count: 2 }];
        let history = History { entries, skipped, left_out_count: 5, fresh_count: 0, is_newer_empty: false };
        let journals = [("/dev/shm/own".into(), OWN, history)];
        assert_eq!(super::shared(&journals), BTreeSet::from([(OWN, PathBuf::from("/scratch/own"))]));
        let found = jobs(&[], &journals, &|_, _| CheckpointTier::Durable, OWN);
        assert_eq!(found[0].job.name, "of/its/own");
        assert_eq!((found[0].entries.len(), found[0].skipped_count, found[0].left_out_count), (1, 4, 5));
    }

    #[test]
    fn what_another_user_keeps_under_the_name_of_a_job_is_another_job() {
        let theirs = Copy { owner: 1000, ..copy(Tier::Durable, 99, 0, 1, Some(1)) };
        let copies = [copy(Tier::Durable, 3, 0, 1, Some(1)), theirs];
        let found = jobs(&copies, &[], &|_, _| CheckpointTier::Durable, OWN);
        let told = |found: &FoundJob| (found.job.name.clone(), found.job.uid, found.job.generations[0].number);
        let both: Vec<_> = found.iter().map(told).collect();
        assert_eq!(both, [("a/job".into(), Some(OWN), 3), ("a/job (user 1000)".into(), Some(1000), 99)]);
        assert!(check_name("a/job (user 1000)").is_err(), "nobody can call a job so");
        let manifest = Manifest { job: "train (user 7)".into(), ..copies[0].manifest.clone().unwrap() };
        let forged = Copy { job_directory: "/ssd/train (user 7)".into(), manifest: Ok(manifest), ..copies[1].clone() };
        assert!(jobs(&[forged], &[], &|_, _| CheckpointTier::Durable, OWN).is_empty());
    }

    #[test]
    fn a_directory_is_shared_for_the_jobs_of_whom_says_so() {
        let (job, policy, shared) = ("a/job".into(), "surefoot".into(), "/ssd".into());
        let opened = JournalEvent::Opened { job, ranks: 1, policy, shared, weakness: None, is_repeated: false };
        let entries = vec![Entry { realtime_ns: 1, lost_count: 0, event: opened }];
        let journals = [("/tmp/x".into(), 1000, History { entries, ..History::default() })];
        assert_eq!(super::shared(&journals), BTreeSet::from([(1000, PathBuf::from("/ssd"))]));
    }

    #[test]
    fn a_time_to_come_is_not_believed() {
        let late = |copy: Copy| Copy { written_realtime_ns: 5, ..copy };
        let found = jobs(&[late(copy(Tier::Durable, 99, 0, 1, Some(1)))], &[], &|_, _| CheckpointTier::Durable, OWN);
        assert_eq!(found[0].job.generations[0].taken_realtime_ns, Some(5), "as the kernel saw it written");
    }
}
