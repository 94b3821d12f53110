//! Checkpoints looked at from outside: found, checked, scrubbed, written out as files; hostile ones refused.

use super::payload::payload;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::inspect::{Newer, State, Survey, Tier, Wanted, lock, restore, scrub, survey, verify};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Error, Manifest, Policy};

fn quiet(_: u64, _: u64) {}

struct Home(tempfile::TempDir);

impl Home {
    /// A job of two ranks with a region and a file each, and checkpoints 1 to 3: the second on the SSD, the others in memory.
    fn with_job() -> Self {
        let home = Home(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        fs::create_dir(home.path("memory")).unwrap();
        fs::create_dir(home.path("ssd")).unwrap();
        let mut config = Config::new("group/job", home.path("memory"), Some(home.path("ssd")));
        config.policy = Policy::Fixed(Fixed::PaperNth(2));
        std::thread::scope(|scope| {
            for (rank, group) in thread_group(2, None).into_iter().enumerate() {
                let config = config.clone();
                scope.spawn(move || {
                    let mut state = vec![0; 200_000];
                    let mut job = Checkpointer::open(config, Box::new(group)).unwrap();
                    // SAFETY: the state outlives the job and is left alone during calls.
                    unsafe { job.protect("model/w[0]", state.as_mut_ptr(), state.len()).unwrap() };
                    let file = job.route_file("notes.txt").unwrap();
                    for step in 1..=3 {
                        state.copy_from_slice(&content(rank, step));
                        fs::write(&file, format!("rank {rank} step {step}")).unwrap();
                        job.checkpoint().unwrap();
                    }
                    job.wait_for_copies().unwrap();
                });
            }
        });
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn survey(&self) -> Survey {
        survey(&[self.0.path().to_owned()]).unwrap()
    }

    fn states(&self) -> Vec<(Tier, u64, u32, State)> {
        let survey = self.survey();
        let copies = survey.copies.iter();
        let state = |copy| verify(copy, &mut quiet).state;
        copies
            .map(|copy| (copy.tier, copy.generation.map_or(0, |generation| generation.number), copy.rank, state(copy)))
            .collect()
    }

    fn image(&self, tier: Tier, number: u64, rank: u32) -> PathBuf {
        let survey = self.survey();
        let mut copies = survey.copies.into_iter();
        let is_it = |copy: &surefoot_checkpoint::inspect::Copy| {
            (copy.tier, copy.rank) == (tier, rank) && copy.generation.is_some_and(|found| found.number == number)
        };
        copies.find(is_it).unwrap().image
    }
}

fn content(rank: usize, step: u64) -> Vec<u8> {
    payload(200_000, step * 10 + rank as u64)
}

fn spoil(path: &Path, page: u64) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(&[0x77; 4096], page * 4096).unwrap();
}

fn wanted(generation: Option<u64>) -> Wanted {
    Wanted { job: "group/job".into(), generation, ..Wanted::default() }
}

#[test]
fn what_is_there_is_found_from_any_directory_above_or_in_it() {
    let home = Home::with_job();
    let all = home.survey();
    assert_eq!((all.copies.len(), all.problems.len()), (6, 0), "{all:?}");
    for below in ["memory", "memory/group", "memory/group/job"] {
        assert_eq!(survey(&[home.path(below)]).unwrap().copies.len(), 4, "{below}");
    }
    assert_eq!(survey(&[home.path("memory/group/job/rank-00001")]).unwrap().copies.len(), 2);
    assert_eq!(survey(&[home.0.path().to_owned(), home.path("ssd")]).unwrap().copies.len(), 6, "each once");
    let durable = all.copies.iter().find(|copy| copy.tier == Tier::Durable).unwrap();
    assert_eq!((durable.committed_ranks, durable.job(), durable.is_astray()), (Some(2), "group/job".into(), false));
    let none = survey(&[home.path("none")]).unwrap_err().to_string();
    assert!(none.contains("none") && none.contains("No such file"), "{none}");
}

#[test]
fn damage_is_told_apart_and_a_scrub_repairs_what_it_can() {
    let home = Home::with_job();
    assert!(home.states().iter().all(|found| found.3 == State::Whole));
    let memory = home.image(Tier::Memory, 3, 0);
    let durable = home.image(Tier::Durable, 2, 1);
    spoil(&memory, 5);
    spoil(&durable, 5);
    let copy = home.path("memory/group/job/rank-00001/slot-0.copy");
    fs::write(&copy, "garbage").unwrap();
    let bad = |home: &Home| -> Vec<PathBuf> {
        home.survey().copies.into_iter().filter_map(|copy| Some(copy.manifest_bad?.0)).collect()
    };
    assert_eq!(bad(&home), std::slice::from_ref(&copy), "one of two manifests is no redundancy");
    let states = home.states();
    let count = |state| states.iter().filter(|found| found.3 == state).count();
    assert_eq!((count(State::Repairable), count(State::Lost)), (2, 1), "{states:?}");
    assert!(states.contains(&(Tier::Durable, 2, 1, State::Lost)), "no parity there: {states:?}");
    let survey = home.survey();
    let held = lock(&survey.copies).unwrap();
    let again = lock(&survey.copies).err().unwrap().to_string();
    assert!(again.contains("running"), "{again}");
    let done: Vec<State> = survey.copies.iter().map(|copy| scrub(copy, &held, &mut quiet).state).collect();
    assert_eq!(done.iter().filter(|&&state| state == State::Repaired).count(), 2, "{done:?}");
    drop(held);
    let states = home.states();
    assert_eq!(states.iter().filter(|found| found.3 == State::Whole).count(), 5, "{states:?}");
    assert!(Manifest::read(&surefoot_checkpoint::Disk, &copy).is_ok() && bad(&home).is_empty());
    // The first of the two, and none where there was one.
    let first = copy.with_extension("manifest");
    fs::write(&first, "garbage").unwrap();
    assert_eq!(bad(&home), std::slice::from_ref(&first));
    fs::remove_file(&first).unwrap();
    assert_eq!(bad(&home), [first]);
}

/// What was not written to its end is nobody's loss; what was complete and cannot be read any more is.
#[test]
fn only_what_was_complete_is_newer_than_what_is_restored() {
    let home = Home::with_job();
    let newer = |to: &str| {
        let restored = restore(&home.survey(), &wanted(None), &home.path(to), &mut quiet).unwrap();
        assert_eq!(restored.generation.number, 2);
        restored.newer.into_iter().map(|newer| newer.generation).collect::<Vec<_>>()
    };
    let third: Vec<PathBuf> = (0..2).map(|rank| home.image(Tier::Memory, 3, rank)).collect();
    // No manifest of it can be read on one rank: its number is not known there.
    for kind in ["manifest", "copy"] {
        fs::write(third[1].with_extension(kind), "garbage").unwrap();
    }
    assert_eq!(newer("one"), [Some(3), None]);
    // A save that was under way: no rank has the mark.
    fs::remove_file(third[1].with_extension("copy")).unwrap();
    fs::rename(third[0].with_extension("copy"), third[0].with_extension("pending")).unwrap();
    assert_eq!(newer("two"), [None], "a manifest that cannot be read may be of a newer one");
    fs::remove_file(third[1].with_extension("manifest")).unwrap();
    assert_eq!(newer("three"), []);
}

#[test]
fn a_checkpoint_becomes_files_whole_or_not_at_all() {
    let home = Home::with_job();
    // Another job beside it that is further on.
    let mut other = Checkpointer::open(Config::new("second", home.path("memory"), None), Box::new(Alone)).unwrap();
    (0..5).for_each(|_| drop(other.checkpoint().unwrap()));
    drop(other);
    let out = home.path("out");
    let restored = restore(&home.survey(), &wanted(None), &out, &mut quiet).unwrap();
    assert_eq!((restored.generation.number, restored.ranks.len()), (3, 2));
    assert_eq!(restored.newer, []);
    for rank in 0..2 {
        let below = out.join(format!("rank-0000{rank}"));
        assert!(fs::read(below.join("regions/model,w[0]")).unwrap() == content(rank, 3));
        assert_eq!(fs::read_to_string(below.join("files/notes.txt")).unwrap(), format!("rank {rank} step 3"));
        assert!(fs::read_to_string(below.join("manifest.json")).unwrap().contains("model/w[0]"));
    }
    let again = restore(&home.survey(), &wanted(None), &out, &mut quiet).unwrap_err().to_string();
    assert!(again.contains("there already"), "{again}");
    // The newest is beyond repair on one rank: the one before it is whole everywhere.
    (0..4).for_each(|column| spoil(&home.image(Tier::Memory, 3, 1), column * 4));
    let other = home.path("other");
    let restored = restore(&home.survey(), &wanted(None), &other, &mut quiet).unwrap();
    assert_eq!(restored.generation.number, 2, "{restored:?}");
    assert!(restored.refused[0].contains("generation 3 rank 1 in memory"), "{restored:?}");
    assert!(
        matches!(restored.newer[..], [Newer { generation: Some(3), taken_realtime_ns: Some(1..) }]),
        "{restored:?}"
    );
    assert!(fs::read(other.join("rank-00001/regions/model,w[0]")).unwrap() == content(1, 2));
    let chosen = restore(&home.survey(), &wanted(Some(2)), &home.path("chosen"), &mut quiet).unwrap();
    assert_eq!(chosen.newer, [], "it was asked for by its number");
    let third = home.path("third");
    let refused = restore(&home.survey(), &wanted(Some(3)), &third, &mut quiet);
    assert!(matches!(refused, Err(Error::NothingIntact { .. })), "{refused:?}");
    let alone = Wanted { rank: Some(0), ..wanted(Some(3)) };
    assert_eq!(restore(&home.survey(), &alone, &third, &mut quiet).unwrap().ranks.len(), 1);
    // Nothing half-done is left beside.
    let names = fs::read_dir(home.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["chosen", "memory", "other", "out", "ssd", "third"]);
    for (odd, said) in [
        (Wanted { job: "other".into(), ..Wanted::default() }, "jobs found: group/job, second"),
        (Wanted { job: "secnod".into(), ..Wanted::default() }, "did you mean 'second'?"),
        (wanted(Some(99)), "no number 99"),
        (Wanted { rank: Some(7), ..wanted(None) }, "no copy of rank 7"),
        (Wanted { owner: Some(4_242), ..wanted(None) }, "not to user 4242"),
    ] {
        let why = restore(&home.survey(), &odd, &home.path("fourth"), &mut quiet).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn hostile_directories_get_clear_words() {
    let home = Home::with_job();
    let directory = home.image(Tier::Durable, 2, 0).parent().unwrap().to_owned();
    let manifest_path = directory.join("rank-00000.manifest");
    let manifest = Manifest::read(&surefoot_checkpoint::Disk, &manifest_path).unwrap();
    let why = |write: &dyn Fn()| {
        write();
        let survey = survey(&[home.path("ssd")]).unwrap();
        let copy = survey.copies.iter().find(|copy| copy.rank == 0).unwrap();
        let verdict = verify(copy, &mut quiet);
        (verdict.state, verdict.why)
    };
    let put = |manifest: &Manifest| fs::write(&manifest_path, manifest.to_bytes().unwrap()).unwrap();
    // A payload of 16 TiB, well-formed.
    let mut huge = Manifest { payload_bytes: 1 << 44, ..manifest.clone() };
    huge.regions.truncate(1);
    huge.regions[0].bytes = 1 << 44;
    let (state, said) = why(&|| put(&huge));
    assert_eq!(state, State::Lost);
    assert!(said.contains("more than can be repaired"), "{said}");
    let (state, said) = why(&|| put(&Manifest { rank: 1, ..manifest.clone() }));
    assert!(state == State::Lost && said.contains("of rank 1"), "{said}");
    let mut bytes = manifest.to_bytes().unwrap();
    bytes[7] = b'9';
    let (state, said) = why(&|| fs::write(&manifest_path, &bytes).unwrap());
    assert!(state == State::Lost && said.contains("version \"09\""), "{said}");
    let (state, said) = why(&|| {
        fs::remove_file(&manifest_path).unwrap();
        symlink("/etc/passwd", &manifest_path).unwrap();
    });
    assert!(state == State::Lost && said.contains("symbolic link"), "{said}");
    let (state, said) = why(&|| fs::remove_file(&manifest_path).unwrap());
    assert!(state == State::Lost && said.contains("its manifest is gone"), "{said}");
    put(&manifest);
    let image = directory.join("rank-00000.image");
    let (state, said) = why(&|| fs::File::options().write(true).open(&image).unwrap().set_len(5000).unwrap());
    assert!(state == State::Lost && said.contains("cut to 5000 of"), "{said}");
    // A directory that leads back to itself, one that is a link, and a name that is almost one.
    symlink(home.0.path(), home.path("ssd/loop")).unwrap();
    fs::create_dir(home.path("ssd/0000000009-00zz00zz00zz00zz")).unwrap();
    fs::write(directory.join("commit"), "nonsense").unwrap();
    let survey = survey(&[home.path("ssd")]).unwrap();
    assert_eq!(survey.copies.len(), 2);
    assert!(survey.problems.iter().any(|problem| problem.path.ends_with("commit")), "{:?}", survey.problems);
}

/// What was marked as complete was written to its end: parts that it has no more are lost, not unfinished.
#[test]
fn a_complete_checkpoint_without_its_manifests_is_lost_and_a_restart_names_it() {
    let home = Home(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    fs::create_dir(home.path("ssd")).unwrap();
    let mut config = Config::new("job", home.path("memory"), Some(home.path("ssd")));
    config.memory = None;
    config.policy = Policy::Fixed(Fixed::Durable);
    let mut state = payload(200_000, 1);
    let open = || Checkpointer::open(config.clone(), Box::new(Alone)).unwrap();
    let mut job = open();
    // SAFETY: the state outlives the job and is left alone during calls.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    for _ in 0..2 {
        job.checkpoint().unwrap();
    }
    job.wait_for_copies().unwrap();
    drop(job);
    let newest = home.survey().copies.into_iter().max_by_key(|copy| copy.generation).unwrap();
    assert_eq!((newest.generation.unwrap().number, newest.committed_ranks), (2, Some(1)));
    let verdict = |home: &Home| {
        let survey = home.survey();
        let copy = survey.copies.iter().find(|copy| copy.directory == newest.directory).unwrap();
        verify(copy, &mut quiet)
    };
    // One that was never marked was never reported as written.
    let (commit, aside) = (newest.directory.join("commit"), newest.directory.join("aside"));
    fs::remove_file(&newest.manifests[0]).unwrap();
    fs::rename(&commit, &aside).unwrap();
    assert_eq!(verdict(&home).state, State::Unfinished);
    fs::rename(&aside, &commit).unwrap();
    let lost = verdict(&home);
    assert_eq!(lost.state, State::Lost);
    assert!(lost.why.contains("its manifest is gone"), "{lost:?}");
    // The mark alone is left.
    fs::remove_file(&newest.image).unwrap();
    let problems = home.survey().problems;
    assert!(problems.len() == 1 && problems[0].why.contains("no part of it is left"), "{problems:?}");
    let mut job = open();
    // SAFETY: as above.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    let restored = job.restart().unwrap().unwrap();
    assert_eq!(restored.generation.number, 1);
    let said = "once complete, and no part of it is left: generation 2 on the SSD";
    assert!(restored.report.contains(said), "{}", restored.report);
}

/// A generation that is a link is neither followed nor left out in silence, whoever looks: what is behind it may be newer, and another's.
#[test]
fn a_link_in_the_place_of_a_checkpoint_is_told_and_not_followed() {
    let home = Home::with_job();
    let elsewhere = home.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let before = home.survey();
    assert_eq!(before.problems, []);
    let generation = home.image(Tier::Durable, 2, 0).parent().unwrap().to_owned();
    let rank = home.image(Tier::Memory, 3, 1).parent().unwrap().to_owned();
    for path in [&generation, &rank] {
        let target = elsewhere.join(path.file_name().unwrap());
        fs::rename(path, &target).unwrap();
        symlink(&target, path).unwrap();
    }
    // A file in the place of a directory says nothing, either.
    let file = home.path("ssd/group/job/rank-00007");
    fs::write(&file, "").unwrap();
    // What is a directory of a tier may be one, too.
    symlink(&elsewhere, home.path("other-job")).unwrap();
    let tiers = ["memory", "ssd"].map(|tier| home.path(tier));
    let found = survey(&tiers).unwrap();
    let links: Vec<(&Path, bool)> = found.problems.iter().map(|problem| (&*problem.path, problem.is_link)).collect();
    assert_eq!(links, [(&*rank, true), (&*generation, true), (&*file, false)], "{:?}", found.problems);
    assert!(found.copies.iter().all(|copy| copy.tier == Tier::Memory && copy.rank == 0), "{:?}", found.copies);
    let whole = home.survey();
    assert!(whole.problems.iter().any(|problem| problem.path == home.path("other-job")), "{:?}", whole.problems);
    // Restored is what can be proved, and that there may be more is said.
    let all = Wanted { rank: Some(0), ..wanted(None) };
    let restored = restore(&found, &all, &home.path("out"), &mut quiet).unwrap();
    assert_eq!(restored.generation.number, 3);
    assert_eq!(
        restored.refused.iter().filter(|line| line.contains("symbolic link")).count(),
        2,
        "{:?}",
        restored.refused
    );
    // Removed is what is the job's; the links stay.
    let config = Config::new("group/job", home.path("memory"), Some(home.path("ssd")));
    let removed = surefoot_checkpoint::inspect::job(&[home.path("ssd")], &config.job).unwrap();
    let strange: Vec<&PathBuf> =
        removed.iter().flat_map(|job| &job.directories).flat_map(|one| one.strange()).collect();
    assert_eq!(strange, [&generation, &file]);
    assert!(elsewhere.join(generation.file_name().unwrap()).join("commit").exists());
}

/// A job that comes back says of a link that a newer checkpoint may be behind it, and does not begin anew beside one.
#[test]
fn a_job_comes_back_beside_a_link_and_says_so() {
    let home = Home(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    for tier in ["memory", "ssd", "elsewhere"] {
        fs::create_dir(home.path(tier)).unwrap();
    }
    let config = || {
        let mut config = Config::new("job", home.path("memory"), Some(home.path("ssd")));
        config.policy = Policy::Fixed(Fixed::PaperNth(2));
        config
    };
    let run = |saves: u64| {
        let mut state = vec![0u8; 50_000];
        let mut job = Checkpointer::open(config(), Box::new(Alone)).unwrap();
        // SAFETY: the state outlives the job and is left alone during calls.
        unsafe { job.protect("w", state.as_mut_ptr(), state.len()).unwrap() };
        let restored = job.restart();
        for step in 0..saves {
            state.fill(step as u8);
            job.checkpoint().unwrap();
        }
        job.wait_for_copies().unwrap();
        restored
    };
    run(5).unwrap();
    let move_away = |number: u64| {
        let path = home.image(Tier::Durable, number, 0).parent().unwrap().to_owned();
        let target = home.path("elsewhere").join(path.file_name().unwrap());
        fs::rename(&path, &target).unwrap();
        symlink(&target, &path).unwrap();
        path
    };
    fs::remove_dir_all(home.path("memory/job")).unwrap();
    let link = move_away(4);
    let restored = run(0).unwrap().unwrap();
    assert_eq!(restored.generation.number, 2);
    assert!(restored.report.contains("symbolic link") && restored.report.contains("newer"), "{}", restored.report);
    move_away(2);
    let error = run(0).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    assert!(fs::read_link(&link).is_ok());
    // A rank's memory behind a link, the same.
    fs::remove_dir_all(home.path("ssd/job")).unwrap();
    fs::create_dir_all(home.path("memory/job")).unwrap();
    symlink(home.path("elsewhere"), home.path("memory/job/partner-00000")).unwrap();
    let error = run(0).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
}
