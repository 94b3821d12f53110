//! Directories that are full, small, read-only, shared, or laid with traps.

use super::super::mounted::{apart, mount};
use super::super::payload::payload;
use super::super::session::{Rank, Tiers, always_both, job, restarted};
use super::{Outcome, Row, Seed};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Place, Policy};
use surefoot_testkit::not_run::not_run;

use Outcome::{Elsewhere, Older, Refused, Whole};

fn memory_only() -> Policy {
    Policy::Fixed(Fixed::Memory)
}

/// Saves step after step; returns those that were saved, where the last was, and what the others were refused with.
fn save_all(rank: &mut Rank, steps: std::ops::RangeInclusive<u64>) -> (u64, Option<Place>, Vec<String>) {
    let (mut saved, mut place, mut refused) = (0, None, Vec::new());
    for step in steps {
        rank.compute(step);
        match rank.job.checkpoint() {
            Ok(done) if done.generation.is_some() => (saved, place) = (step, Some(done.decision.place)),
            Ok(done) => refused.push(done.decision.reasons.join("; ")),
            Err(error) => refused.push(error.to_string()),
        }
    }
    (saved, place, refused)
}

/// What was refused must say why in words that name the file or the room.
fn is_clear(why: &str) -> bool {
    ["cannot ", "are needed", "no room", "does not fit", "fit"].iter().any(|word| why.contains(word))
}

/// A memory file system that is full at a size that the seed chooses, from nothing to all slots.
fn full_memory(has_ssd: bool, seed: &mut Seed) -> Result<Outcome, String> {
    let kibibytes = 64 + 4 * seed.below(500);
    apart(|| {
        let tiers = Tiers::new();
        let memory = fs::canonicalize(tiers.home.path().join("memory")).unwrap();
        mount("tmpfs", None, &memory, 0, &format!("size={kibibytes}k,mode=0700"))?;
        let mut config = tiers.config(memory_only());
        if !has_ssd {
            config.durable = None;
        }
        let (saved, place, refused) = job(1, &config, |mut rank| save_all(&mut rank, 1..=5)).remove(0);
        assert!(refused.iter().all(|why| is_clear(why)), "{refused:?}");
        let (found, restored) = restarted(1, &config, 5).remove(0);
        assert!(found.unwrap_or(0) >= saved, "{saved} was saved, {found:?} came back: {restored:?} {refused:?}");
        Ok(match (saved, place) {
            (5, Some(Place::Memory)) => Whole,
            (5, _) => Elsewhere,
            _ => Refused,
        })
    })
}

#[test]
fn ranks_of_one_node_that_fit_alone_but_not_together_are_not_sent_into_memory() {
    // The image of one rank is 388 KiB.
    for (kibibytes, expected) in [(600, Place::Durable), (900, Place::Memory)] {
        let places = apart(|| {
            let tiers = Tiers::new();
            let memory = fs::canonicalize(tiers.home.path().join("memory")).unwrap();
            mount("tmpfs", None, &memory, 0, &format!("size={kibibytes}k,mode=0700"))?;
            Ok(job(2, &tiers.config(memory_only()), |mut rank| {
                rank.compute(1);
                let saved = rank.job.checkpoint().unwrap();
                (saved.decision.place, saved.decision.reasons.join("; "))
            }))
        });
        let places = match places {
            Ok(places) => places,
            Err(why) => {
                return not_run("ranks_of_one_node_that_fit_alone_but_not_together_are_not_sent_into_memory", &why);
            }
        };
        assert!(places.iter().all(|(place, _)| *place == expected), "{kibibytes} KiB: {places:?}");
    }
}

#[test]
fn memory_with_room_for_two_of_three_slots_uses_these_two() {
    let places = apart(|| {
        let tiers = Tiers::new();
        let memory = fs::canonicalize(tiers.home.path().join("memory")).unwrap();
        mount("tmpfs", None, &memory, 0, "size=900k,mode=0700")?;
        let places =
            job(1, &tiers.config(memory_only()), |mut rank| (1..=5).map(|step| rank.save(step)).collect::<Vec<_>>());
        let back = restarted(1, &tiers.config(memory_only()), 5);
        assert_eq!(back[0].0, Some(5), "{back:?}");
        Ok(places)
    });
    match places {
        Ok(places) => assert_eq!(places, [[Place::Memory; 5]]),
        Err(why) => not_run("memory_with_room_for_two_of_three_slots_uses_these_two", &why),
    }
}

/// Docker's /dev/shm, and a state of which one image fits, and no second.
fn small_shm(has_ssd: bool) -> Result<Outcome, String> {
    apart(|| {
        let tiers = Tiers::new();
        mount("tmpfs", None, Path::new("/dev/shm"), 0, "size=64m,mode=1777")?;
        let mut config = Config::new("job", "/dev/shm", has_ssd.then(|| tiers.home.path().join("ssd")));
        config.policy = memory_only();
        config.health_file = tiers.home.path().join("health.json");
        let mut state = vec![0; 40 << 20];
        let mut saved = 0;
        let mut place = None;
        let mut open = || {
            let mut job = Checkpointer::open(config.clone(), Box::new(Alone)).unwrap();
            // SAFETY: the state outlives the job and is left alone during calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
            job
        };
        let mut job = open();
        let content = |step: u64| payload(1 << 20, step).repeat(40);
        for step in 1..=3 {
            state.copy_from_slice(&content(step));
            match job.checkpoint() {
                Ok(done) if done.generation.is_some() => (saved, place) = (step, Some(done.decision.place)),
                Ok(done) => assert!(is_clear(&done.decision.reasons.join("; ")), "{done:?}"),
                Err(error) => assert!(is_clear(&error.to_string()), "{error}"),
            }
        }
        drop(job);
        state.fill(0xAA);
        let restored = Checkpointer::open(config.clone(), Box::new(Alone)).and_then(|mut job| {
            // SAFETY: as above.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
            job.restart()
        });
        assert!(saved > 0 && state == content(saved), "{saved} was saved: {restored:?}");
        Ok(match (saved, place) {
            (3, Some(Place::Memory)) => Whole,
            (3, _) => Elsewhere,
            _ => Refused,
        })
    })
}

/// Everything is on a disk that can only be read: a restart works, a save is refused.
fn read_only_disk() -> Result<Outcome, String> {
    apart(|| {
        let tiers = Tiers::new();
        let mut config = tiers.config(Policy::Fixed(Fixed::Durable));
        config.memory = None;
        job(1, &config, |mut rank| (1..=2).for_each(|step| _ = rank.save(step)));
        let disk = tiers.home.path().join("ssd");
        mount("tmpfs", Some(&disk), &disk, libc::MS_BIND, "")?;
        mount("tmpfs", None, &disk, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY, "")?;
        let refused = job(1, &config, |mut rank| {
            rank.job.restart().unwrap().unwrap();
            assert!(rank.is_at(2), "wrong data");
            save_all(&mut rank, 3..=3).2
        });
        assert!(refused[0].len() == 1 && refused[0][0].contains("Read-only file system"), "{refused:?}");
        Ok(Refused)
    })
}

/// All that a job has made, below these directories.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            all.extend(all_below(&path));
        }
        all.push(path);
    }
    all.sort();
    all
}

/// Whatever a job makes is for its user alone, whatever the mask of permissions lets through.
fn private_files() -> Result<Outcome, String> {
    apart(|| {
        // The folder is the test's, and in one that others may write to root follows no link.
        let tiers = Tiers::new();
        // SAFETY: the mask is this thread's own, and its threads'.
        unsafe { libc::umask(0) };
        let mut config = tiers.config(always_both());
        config.partner = true;
        let own = job(2, &config, |mut rank| {
            let file = rank.job.route_file("output").unwrap();
            fs::write(&file, "mine").unwrap();
            for step in 1..=3 {
                rank.save(step);
                rank.job.wait_for_copies().unwrap();
            }
            rank.job.restart().unwrap().unwrap();
            file
        });
        let below = ["memory", "ssd"].map(|tier| all_below(&tiers.home.path().join(tier)));
        let all: Vec<&PathBuf> = below.iter().flatten().collect();
        assert!(all.len() > 30, "{all:?}");
        for path in all.iter().filter(|path| !path.is_file() || !own.contains(path)) {
            let mode = fs::symlink_metadata(path).unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        }
        Ok(Whole)
    })
}

/// A link in the place of one of the names that a job opens or makes, which leads to what is not the job's.
fn planted_link(seed: &mut Seed) -> Outcome {
    let tiers = Tiers::new();
    let policies = [memory_only(), Policy::Fixed(Fixed::EveryNth(2)), Policy::Fixed(Fixed::Durable)];
    let config = tiers.config(seed.one_of(&policies).clone());
    job(1, &config, |mut rank| (1..=3).for_each(|step| _ = rank.save(step)));
    let home = tiers.home.path();
    let memory = fs::canonicalize(home.join("memory")).unwrap();
    let mut names: Vec<PathBuf> =
        [memory.join("job"), home.join("ssd/job")].iter().flat_map(|top| all_below(top)).collect();
    names.extend([memory.join("job"), home.join("ssd/job")]);
    // Names that a save uses for a moment.
    names.extend((0..3).map(|slot| memory.join(format!("job/rank-00000/slot-{slot}.new"))));
    let name = seed.one_of(&names).clone();
    // Beside the job's directory, since what was there is put aside.
    let victims = if name.starts_with(&memory) { memory.join("victims") } else { home.join("ssd/victims") };
    fs::create_dir(&victims).unwrap();
    let (file, directory) = (victims.join("file"), victims.join("directory"));
    fs::write(&file, "not the job's").unwrap();
    fs::create_dir(&directory).unwrap();
    let aside = victims.join("aside");
    let was_there = fs::rename(&name, &aside).is_ok();
    let target = seed.one_of(&[file.clone(), directory.clone(), aside.clone(), victims.join("none")]).clone();
    symlink(&target, &name).unwrap();
    let before = was_there.then(|| contents(&aside));

    let group = thread_group(1, None).remove(0);
    let outcome = match Rank::open(config.clone(), group) {
        Err(error) => {
            assert!(error.to_string().contains(&*name.file_name().unwrap().to_string_lossy()), "{error}");
            Refused
        }
        Ok(mut rank) => {
            rank.state.fill(0xAA);
            let outcome = match rank.job.restart() {
                Ok(Some(_)) => match (1..=3).rfind(|&step| rank.is_at(step)) {
                    Some(3) => Whole,
                    Some(_) => Older,
                    None => panic!("wrong data, with {} a link", name.display()),
                },
                // Where the only tier is behind the link there is nothing else to restart from.
                Ok(None) | Err(_) => Refused,
            };
            let (saved, ..) = save_all(&mut rank, 4..=6);
            if saved > 0 {
                drop(rank);
                let (found, restored) = restarted(1, &config, 6).remove(0);
                assert_eq!(found, Some(saved), "{restored:?}, with {} a link", name.display());
            }
            outcome
        }
    };
    let said = format!("{} was a link to {}", name.display(), target.display());
    assert_eq!(fs::read_to_string(&file).unwrap(), "not the job's", "{said}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{said}");
    assert!(!victims.join("none").exists(), "{said}");
    assert!(!was_there || Some(contents(&aside)) == before, "{said}");
    outcome
}

/// All names and bytes of a file, or of a directory's files.
fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if path.is_file() {
        return vec![(path.to_owned(), fs::read(path).unwrap())];
    }
    let all = all_below(path).into_iter();
    all.map(|path| (path.clone(), if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() })).collect()
}

/// Two jobs of different names beside each other, in both tiers.
fn two_jobs(seed: &mut Seed) -> Outcome {
    let tiers = Tiers::new();
    let policy = Policy::Fixed(*seed.one_of(&[Fixed::Memory, Fixed::Durable, Fixed::EveryNth(2)]));
    let names = *seed.one_of(&[["one", "two"], ["one", "one/inner"], ["a", "a-b"]]);
    let configs = names.map(|name| Config { job: name.into(), ..tiers.config(policy.clone()) });
    let steps = [1 + seed.below(5), 1 + seed.below(5)];
    std::thread::scope(|scope| {
        for (config, last) in configs.iter().zip(steps) {
            scope.spawn(move || job(2, config, |mut rank| (1..=last).for_each(|step| _ = rank.save(step))));
        }
    });
    for (config, last) in configs.iter().zip(steps) {
        let back = restarted(2, config, 6);
        assert!(back.iter().all(|(step, _)| *step == Some(last)), "{}: {back:?}", config.job);
    }
    Whole
}

/// A second job of the same name, while the first runs, in each tier.
fn same_job_twice(policy: fn() -> Policy, has_memory: bool) -> Outcome {
    let tiers = Tiers::new();
    let mut config = tiers.config(policy());
    if !has_memory {
        config.memory = None;
    }
    job(1, &config, |mut first| {
        first.save(1);
        let second = Rank::open(config.clone(), thread_group(1, None).remove(0));
        let error = second.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("the same job is running here"), "the second job may begin: {error}");
        (2..=4).for_each(|step| _ = first.save(step));
    });
    assert_eq!(restarted(1, &config, 4)[0].0, Some(4));
    Refused
}

/// A directory of somebody else's where the job's own should be.
fn foreign_directory(below: &'static str) -> Result<Outcome, String> {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(1, &config, |mut rank| _ = rank.save(1));
    let path = tiers.home.path().join(below);
    std::os::unix::fs::chown(&path, Some(65_534), None)
        .map_err(|error| format!("files cannot be given away: {error}"))?;
    // Memory is intact where the SSD is not.
    let opened = Rank::open(config, thread_group(1, None).remove(0)).and_then(|mut rank| {
        rank.state.fill(0);
        let restored = rank.job.restart()?.unwrap();
        assert!(rank.is_at(1));
        Ok(restored.report)
    });
    let (said, outcome) = match opened {
        Ok(report) => (report, Elsewhere),
        Err(error) => (error.to_string(), Refused),
    };
    assert!(said.contains("belongs to another user"), "{said}");
    Ok(outcome)
}

#[test]
fn a_test_may_have_mounts_of_its_own_and_give_files_away() {
    let possible = apart(|| Ok(())).and_then(|()| foreign_directory("memory/job").map(drop));
    if let Err(why) = possible {
        let test = "suite::reliability::rooms::a_test_may_have_mounts_of_its_own_and_give_files_away";
        not_run(test, &format!("rows of the table of faults are left out: {why}"));
    }
}

pub fn rows() -> Vec<Row> {
    vec![
        Row::where_possible("full memory file system", "memory", &[Whole, Refused], |seed| full_memory(false, seed)),
        Row::where_possible("full memory file system", "memory and SSD", &[Whole, Elsewhere], |seed| {
            full_memory(true, seed)
        }),
        Row::where_possible("/dev/shm of 64 MB", "memory", &[Refused], |_| small_shm(false)).at_most(2),
        Row::where_possible("/dev/shm of 64 MB", "memory and SSD", &[Elsewhere], |_| small_shm(true)).at_most(2),
        Row::where_possible("read-only disk", "SSD", &[Refused], |_| read_only_disk()).at_most(10),
        Row::where_possible("files private with umask 0", "all", &[Whole], |_| private_files()).at_most(10),
        Row::new("link planted at a name that is used", "memory, SSD", &[Whole, Older, Refused], planted_link),
        Row::new("two jobs in one directory", "memory, SSD", &[Whole], two_jobs),
        Row::new("the same job twice", "memory", &[Refused], |_| same_job_twice(memory_only, true)).at_most(10),
        Row::new("the same job twice", "SSD", &[Refused], |_| same_job_twice(|| Policy::Fixed(Fixed::Durable), false))
            .at_most(10),
        Row::where_possible("directory of another user", "memory", &[Refused], |_| foreign_directory("memory/job"))
            .at_most(10),
        Row::where_possible("directory of another user", "SSD", &[Elsewhere], |_| foreign_directory("ssd/job"))
            .at_most(10),
    ]
}
