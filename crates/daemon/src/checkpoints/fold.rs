//! From copies and journals to jobs; pure.

use super::shape::{GenerationState, GenerationView, JobView, JournalState, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::inspect::{Copy, Tier};
use surefoot_checkpoint::session::journal::{Decided, Entry, Event, History};

/// Sessions shorter than this say nothing about the rate at which a job writes.
const RATE_SESSION_S_MIN: f64 = 60.0;

/// The longest name of a job that a journal is believed.
const NAME_CHARACTERS_MAX: usize = 128;

/// Copies of one generation in one tier.
type Group<'a> = BTreeMap<(u64, u64, &'static str), Vec<&'a Copy>>;

/// A journal, with the directory of the job that it lies in.
pub(super) type Journal = (PathBuf, History);

/// The directories that jobs say several nodes share.
pub(super) fn shared(journals: &[Journal]) -> BTreeSet<PathBuf> {
    let opened = |entry: &Entry| match &entry.event {
        Event::Opened { shared, .. } if Path::new(shared).is_absolute() => Some(PathBuf::from(shared)),
        _ => None,
    };
    journals.iter().flat_map(|(_, history)| history.entries.iter().filter_map(opened)).collect()
}

/// The word for the tier of a copy. Whether a durable one is shared, its file system or its job says.
pub(super) fn tier(copy: &Copy, is_shared: &dyn Fn(&Path) -> bool) -> &'static str {
    match copy.tier {
        Tier::Memory => "memory",
        Tier::Durable if is_shared(&copy.job_directory) => "shared",
        Tier::Durable => "durable",
    }
}

/// The jobs whose copies and journals these are, by name.
pub(super) fn jobs(copies: &[Copy], journals: &[Journal], is_shared: &dyn Fn(&Path) -> bool) -> Vec<JobView> {
    let mut of_jobs: BTreeMap<String, (Vec<&Copy>, Vec<&Journal>)> = BTreeMap::new();
    let mut owners: BTreeMap<&Path, String> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| !copy.is_astray()) {
        let name = copy.job();
        // A manifest that cannot be read gives the directory's last name, which need not be all of the job's.
        if copy.manifest.is_ok() {
            owners.insert(&copy.job_directory, name.clone());
        }
    }
    for copy in copies.iter().filter(|copy| !copy.is_astray()) {
        let name = owners.get(copy.job_directory.as_path()).cloned().unwrap_or_else(|| copy.job());
        of_jobs.entry(name).or_default().0.push(copy);
    }
    for journal in journals {
        let name = owners.get(journal.0.as_path()).cloned().or_else(|| job_of(&journal.1));
        let name = name.unwrap_or_else(|| journal.0.file_name().unwrap_or_default().to_string_lossy().into_owned());
        of_jobs.entry(name).or_default().1.push(journal);
    }
    of_jobs.into_iter().map(|(name, (copies, journals))| job(name, &copies, &journals, is_shared)).collect()
}

fn job_of(history: &History) -> Option<String> {
    history.entries.iter().rev().find_map(|entry| match &entry.event {
        Event::Opened { job, .. } => Some(job.chars().take(NAME_CHARACTERS_MAX).collect()),
        _ => None,
    })
}

fn job(name: String, copies: &[&Copy], journals: &[&Journal], is_shared: &dyn Fn(&Path) -> bool) -> JobView {
    let directories: BTreeSet<&Path> = copies
        .iter()
        .map(|copy| copy.job_directory.as_path())
        .chain(journals.iter().map(|(directory, _)| directory.as_path()))
        .collect();
    let mut groups: Group<'_> = BTreeMap::new();
    for copy in copies {
        if let Some(generation) = copy.generation {
            groups.entry((generation.number, generation.nonce, tier(copy, is_shared))).or_default().push(copy);
        }
    }
    let generations: Vec<GenerationView> = groups.iter().rev().map(|(key, copies)| generation(*key, copies)).collect();
    let mut stored_bytes = BTreeMap::new();
    for generation in &generations {
        *stored_bytes.entry(generation.tier).or_insert(0u64) += generation.stored_bytes;
    }
    let newest = |wanted: &dyn Fn(&GenerationView) -> bool| {
        generations.iter().filter(|one| wanted(one)).filter_map(|one| one.taken_realtime_ns).max()
    };
    let is_whole = |state| matches!(state, GenerationState::Complete | GenerationState::Partial);
    let mut events: Vec<Entry> = journals.iter().flat_map(|(_, history)| history.entries.iter().cloned()).collect();
    if journals.len() > 1 {
        // A job that had its memory tier elsewhere before; otherwise the order of the lines is that of the file.
        events.sort_by_key(|entry| entry.realtime_ns);
    }
    JobView {
        name,
        directories: directories.into_iter().map(text).collect(),
        ranks: generations.iter().map(|one| one.ranks).find(|&ranks| ranks > 0).unwrap_or(0),
        is_running: None,
        memory_realtime_ns: newest(&|one| one.tier == "memory" && is_whole(one.state)),
        durable_realtime_ns: newest(&|one| one.tier != "memory" && one.state == GenerationState::Complete),
        stored_bytes,
        generations,
        generations_left_out: 0,
        state: state(&events),
        events_left_out: journals.iter().map(|(_, history)| history.left_out_count).sum(),
        events_skipped: journals.iter().map(|(_, history)| history.skipped_count).sum(),
        events,
    }
}

fn generation((number, nonce, tier): (u64, u64, &'static str), copies: &[&Copy]) -> GenerationView {
    let manifests = || copies.iter().filter_map(|copy| copy.manifest.as_ref().ok());
    let ranks = manifests().map(|manifest| manifest.ranks).max().unwrap_or(0);
    let here: BTreeSet<u32> = manifests().map(|manifest| manifest.rank).collect();
    let ranks_here = u32::try_from(here.len()).unwrap_or(u32::MAX);
    let committed = copies.iter().find_map(|copy| copy.committed_ranks);
    let expected = committed.unwrap_or(ranks);
    let unreadable = copies.iter().find_map(|copy| copy.manifest.as_ref().err().map(|why| (copy.rank, why)));
    let absent = || {
        let first = (0..expected).find(|rank| !here.contains(rank)).unwrap_or(0);
        format!("{} of {expected} ranks are not here, rank {first} the first of them", expected - ranks_here)
    };
    let is_absent = ranks_here < expected;
    let (state, missing) = match (unreadable, tier, committed) {
        (_, "durable" | "shared", None) => {
            (GenerationState::Unfinished, "it is not marked as complete: being written, or given up".to_owned())
        }
        (Some((rank, why)), _, _) => (GenerationState::Damaged, format!("rank {rank}: {why}")),
        (None, "memory", _) if is_absent => (GenerationState::Partial, absent()),
        (None, _, _) if is_absent => (GenerationState::Damaged, absent()),
        _ => (GenerationState::Complete, String::new()),
    };
    GenerationView {
        number,
        nonce: format!("{nonce:016x}"),
        tier,
        state,
        missing,
        taken_realtime_ns: manifests().map(|manifest| manifest.taken_realtime_ns).max(),
        ranks_here,
        ranks: expected,
        payload_bytes: manifests().map(|manifest| manifest.payload_bytes).fold(0, u64::saturating_add),
        stored_bytes: copies.iter().map(|copy| copy.stored_bytes).fold(0, u64::saturating_add),
        protection: manifests().next().map_or("", |manifest| manifest.protection.label()),
        directory: copies.first().map(|copy| text(&copy.directory)).unwrap_or_default(),
    }
}

/// What the newest decision says of the job.
fn state(events: &[Entry]) -> Option<JournalState> {
    let policy = events.iter().rev().find_map(|entry| match &entry.event {
        Event::Opened { policy, .. } => Some(policy.clone()),
        _ => None,
    });
    let (newest, decided) = events.iter().rev().find_map(|entry| match &entry.event {
        Event::Decision(decided) => Some((entry, decided)),
        _ => None,
    })?;
    let session_ns = nanoseconds(decided.session_s)?;
    Some(JournalState {
        policy: policy.unwrap_or_default(),
        began_realtime_ns: newest.realtime_ns.saturating_sub(session_ns),
        staleness_max_s: decided.staleness_max_s.filter(|bound_s| *bound_s > 0.0),
        decided: decided.decided.clone(),
        durable_bytes: decided.durable_bytes,
        checkpoint_s: decided.checkpoint_s,
        session_s: decided.session_s,
        budget_bytes_per_s: decided.budget_bytes_per_s,
        drive_ends_realtime_ns: drive_ends(newest.realtime_ns, decided),
        lost_count: events.iter().map(|entry| entry.lost_count).max().unwrap_or(0),
    })
}

/// When the rating is used up, if this job goes on as it did so far and nobody else writes.
fn drive_ends(now_ns: u64, decided: &Decided) -> Option<u64> {
    let left_bytes = (decided.endurance_left_bytes? - decided.durable_bytes as f64).max(0.0);
    let is_enough = decided.session_s >= RATE_SESSION_S_MIN && decided.durable_bytes > 0;
    let left_s = is_enough.then(|| left_bytes / (decided.durable_bytes as f64 / decided.session_s))?;
    now_ns.checked_add(nanoseconds(left_s)?)
}

/// Whole nanoseconds of a number of seconds that somebody else wrote down.
fn nanoseconds(seconds: f64) -> Option<u64> {
    let nanoseconds = seconds * 1e9;
    // Up to there a float and an integer agree.
    (0.0..9e18).contains(&nanoseconds).then_some(nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_checkpoint::image::Protection;
    use surefoot_checkpoint::{GenerationId, Manifest};

    fn copy(tier: Tier, number: u64, rank: u32, ranks: u32, committed_ranks: Option<u32>) -> Copy {
        let base = match tier {
            Tier::Memory => "/dev/shm/a/job",
            Tier::Durable => "/ssd/a/job",
        };
        let generation = GenerationId { number, nonce: u64::MAX };
        Copy {
            tier,
            job_directory: base.into(),
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
            }),
            manifests: Vec::new(),
            image: "/image".into(),
            stored_bytes: 20,
            committed_ranks,
        }
    }

    fn unreadable(copy: Copy) -> Copy {
        Copy { manifest: Err("it is no manifest".into()), ..copy }
    }

    fn decided(realtime_ns: u64, decided: Decided) -> Entry {
        Entry { realtime_ns, lost_count: 0, event: Event::Decision(Box::new(decided)) }
    }

    fn states(job: &JobView) -> Vec<(u64, &'static str, GenerationState)> {
        job.generations.iter().map(|one| (one.number, one.tier, one.state)).collect()
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
        let found = jobs(&copies, &[], &|_| false);
        assert_eq!(found.len(), 1, "a manifest that cannot be read makes no other job: {found:#?}");
        let job = &found[0];
        assert_eq!(
            states(job),
            [
                (9, "memory", Partial),
                (9, "durable", Unfinished),
                (8, "memory", Complete),
                (7, "durable", Complete),
                (6, "durable", Damaged),
                (5, "durable", Damaged),
            ]
        );
        assert_eq!((job.name.as_str(), job.ranks), ("a/job", 2));
        assert_eq!((job.memory_realtime_ns, job.durable_realtime_ns), (Some(9_000), Some(7_000)));
        assert_eq!(job.stored_bytes, BTreeMap::from([("memory", 60), ("durable", 120)]));
        assert_eq!(job.directories, ["/dev/shm/a/job", "/ssd/a/job"]);
        assert_eq!(job.generations[0].missing, "1 of 2 ranks are not here, rank 1 the first of them");
        assert_eq!(job.generations[4].missing, "1 of 2 ranks are not here, rank 0 the first of them");
        assert_eq!(job.generations[5].missing, "rank 0: it is no manifest");
        assert_eq!((job.generations[2].payload_bytes, job.generations[2].nonce.as_str()), (20, "ffffffffffffffff"));
        let shared = jobs(&copies, &[], &|path| path.starts_with("/ssd"));
        assert_eq!(shared[0].durable_realtime_ns, Some(7_000));
        assert_eq!(states(&shared[0])[3], (7, "shared", Complete));
    }

    #[test]
    fn the_newest_decision_says_where_the_job_stands() {
        let newest = Decided {
            staleness_max_s: Some(600.0),
            session_s: 100.0,
            durable_bytes: 1_000,
            endurance_left_bytes: Some(11_000.0),
            decided: BTreeMap::from([("memory".to_owned(), 3)]),
            ..Decided::default()
        };
        let (job, policy, shared) = ("of/its/own".into(), "surefoot".into(), "/scratch/own".into());
        let opened = Event::Opened { job, ranks: 1, policy, shared, is_repeated: false };
        let opened = Entry { realtime_ns: 1, lost_count: 2, event: opened };
        let entries = vec![opened, decided(2, Decided::default()), decided(200_000_000_000, newest.clone())];
        let history = History { entries, skipped_count: 4, left_out_count: 5 };
        let journals = [("/dev/shm/own".into(), history)];
        assert_eq!(super::shared(&journals), BTreeSet::from([PathBuf::from("/scratch/own")]));
        let found = jobs(&[], &journals, &|_| false);
        let job = &found[0];
        assert_eq!(
            (job.name.as_str(), job.events.len(), job.events_skipped, job.events_left_out),
            ("of/its/own", 3, 4, 5)
        );
        let state = job.state.as_ref().unwrap();
        assert_eq!(
            (state.policy.as_str(), state.began_realtime_ns, state.lost_count),
            ("surefoot", 100_000_000_000, 2)
        );
        // 10,000 bytes are left, at 10 a second.
        assert_eq!(state.drive_ends_realtime_ns, Some(1_200_000_000_000));
        assert_eq!(job.durable_age_s(150_000_000_000), Some(50.0), "none is durable, so since the session began");
        for strange in [
            Decided { session_s: 59.0, ..newest.clone() },
            Decided { durable_bytes: 0, ..newest.clone() },
            Decided { endurance_left_bytes: None, ..newest.clone() },
            Decided { endurance_left_bytes: Some(1e300), ..newest.clone() },
        ] {
            assert_eq!(state_of(strange).unwrap().drive_ends_realtime_ns, None);
        }
        assert_eq!(state_of(Decided { session_s: -1.0, ..newest }), None, "a hostile line says nothing");
    }

    fn state_of(newest: Decided) -> Option<JournalState> {
        state(&[decided(200_000_000_000, newest)])
    }
}
