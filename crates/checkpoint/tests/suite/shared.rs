//! The third tier: a directory that all nodes see.

use super::durable;
use super::faulty::Faulty;
use super::mounted::{apart, mount};
use super::session::{Rank, Tiers, always_both, files, flip, job, restarted};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surefoot_checkpoint::controller::{Fixed, Surefoot};
use surefoot_checkpoint::generation::Commit;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::image::Protection;
use surefoot_checkpoint::inspect::{State, Wanted, restore, survey, verify};
use surefoot_checkpoint::tier::{Durable, DurableOptions};
use surefoot_checkpoint::{Config, Disk, Place, Policy};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::storage::{FaultyDisk, Plan};

/// A job with a third tier, which gets a copy of every checkpoint.
fn config(tiers: &Tiers, policy: Policy) -> Config {
    let directory = directory(tiers);
    fs::create_dir_all(&directory).unwrap();
    let mut config = tiers.config(policy);
    config.set("shared", directory.to_str().unwrap()).unwrap();
    config.set("shared.staleness_max_s", "0.000001").unwrap();
    config
}

fn directory(tiers: &Tiers) -> PathBuf {
    tiers.home.path().join("pfs")
}

fn images(tiers: &Tiers) -> Vec<PathBuf> {
    let Ok(generations) = fs::read_dir(directory(tiers).join("job")) else { return Vec::new() };
    let mut all: Vec<PathBuf> =
        generations.flat_map(|generation| files(&generation.unwrap().path(), "image")).collect();
    all.sort();
    all
}

fn lose(tiers: &Tiers, name: &str) {
    fs::remove_dir_all(tiers.home.path().join(name).join("job")).unwrap();
}

/// Saves and waits until all of it has arrived; returns where it went and the notices.
fn save(rank: &mut Rank, step: u64) -> (Place, Vec<String>) {
    let place = rank.save(step);
    rank.job.wait_for_copies().unwrap();
    (place, rank.job.take_notices())
}

#[test]
fn it_gets_what_the_ssd_got_and_gives_it_back_when_all_else_is_lost() {
    for policy in [always_both(), Policy::Fixed(Fixed::Durable), Policy::Fixed(Fixed::Memory)] {
        let tiers = Tiers::new();
        let config = config(&tiers, policy);
        job(3, &config, |mut rank| {
            for step in 1..=4 {
                let (_, notices) = save(&mut rank, step);
                let arrived = format!("generation {step} is in the shared directory");
                assert!(notices.iter().any(|notice| notice.starts_with(&arrived)), "{notices:?}");
            }
        });
        assert_eq!(images(&tiers).len(), 6, "two generations of three ranks are kept");
        let back = restarted(3, &config, 4);
        assert!(back.iter().all(|(step, _)| *step == Some(4)), "{back:?}");
        for name in ["memory", "ssd"] {
            let _ = fs::remove_dir_all(tiers.home.path().join(name).join("job"));
        }
        for (step, restored) in restarted(3, &config, 4) {
            let report = restored.unwrap().unwrap().report;
            assert_eq!(step, Some(4));
            assert!(report.contains("generation 4 from the shared directory: "), "{report}");
        }
    }
}

#[test]
fn restart_asks_memory_then_the_ssd_then_the_shared_directory_then_an_older_one() {
    let tiers = Tiers::new();
    let config = config(&tiers, always_both());
    job(2, &config, |mut rank| {
        for step in 1..=3 {
            save(&mut rank, step);
        }
    });
    let said = |word: &str, wanted: u64| {
        let back = restarted(2, &config, 3);
        assert!(back.iter().all(|(step, _)| *step == Some(wanted)), "{back:?}");
        let report = back[0].1.as_ref().unwrap().as_ref().unwrap().report.clone();
        assert!(report.contains(word), "{report}");
        report
    };
    said("from memory", 3);
    lose(&tiers, "memory");
    said("generation 3 from the SSD", 3);
    let of_rank_0 = |images: Vec<PathBuf>| images.into_iter().rfind(|path| path.ends_with("rank-00000.image")).unwrap();
    flip(&of_rank_0(tiers.durable_files("image")), 5);
    let report = said("generation 3 from the shared directory", 3);
    assert!(report.contains("refused: the SSD: "), "{report}");
    flip(&of_rank_0(images(&tiers)), 5);
    let report = said("generation 2 from the SSD", 2);
    assert!(report.contains("the shared directory: 1 of the 16 pages"), "{report}");
}

#[test]
fn without_an_ssd_it_is_the_durable_tier_with_or_without_memory() {
    for (memory, place) in [(true, Place::Both), (false, Place::Durable)] {
        let tiers = Tiers::new();
        let mut config = config(&tiers, Policy::Surefoot(Surefoot::default()));
        config.set("durable", "none").unwrap();
        if !memory {
            config.set("memory", "none").unwrap();
        }
        job(2, &config, |mut rank| {
            for step in 1..=3 {
                let (went, notices) = save(&mut rank, step);
                assert_eq!(went, place);
                assert_eq!(notices.iter().any(|notice| notice.contains("in the shared directory")), memory);
            }
        });
        if memory {
            lose(&tiers, "memory");
        }
        for (step, restored) in restarted(2, &config, 3) {
            let report = restored.unwrap().unwrap().report;
            assert!(step == Some(3) && report.contains("from the shared directory"), "{report}");
        }
    }
}

#[test]
fn it_gets_no_more_than_its_rule_says() {
    let tiers = Tiers::new();
    let mut config = config(&tiers, always_both());
    config.set("shared.staleness_max_s", "100000").unwrap();
    job(1, &config, |mut rank| {
        rank.compute(1);
        let saved = rank.job.checkpoint().unwrap();
        assert!(saved.decision.reasons.iter().any(|reason| reason.contains("may get 100000 s")), "{saved:?}");
        rank.job.wait_for_copies().unwrap();
    });
    assert!(images(&tiers).is_empty());
    config.set("shared.every", "3").unwrap();
    config.set("shared.keep", "9").unwrap();
    job(1, &config, |mut rank| {
        for step in 2..=8 {
            save(&mut rank, step);
        }
    });
    let found: Vec<String> = images(&tiers)
        .iter()
        .map(|path| path.parent().unwrap().file_name().unwrap().to_string_lossy()[..10].to_owned())
        .collect();
    assert_eq!(found, ["0000000004", "0000000007"]);
}

#[test]
fn that_it_fails_is_a_notice_and_the_job_goes_on() {
    let tiers = Tiers::new();
    let config = config(&tiers, always_both());
    let blocked = directory(&tiers).join("job");
    job(2, &config, |mut rank| {
        save(&mut rank, 1);
        if rank.rank == 0 {
            // Nothing can be created there any more: what was a directory is a file.
            fs::rename(&blocked, blocked.with_extension("away")).unwrap();
            fs::write(&blocked, "a file").unwrap();
        }
        let (place, notices) = save(&mut rank, 2);
        assert_eq!(place, Place::Both);
        let failed = |notice: &String| notice.starts_with("generation 2 did not get to the shared directory");
        assert!(notices.iter().any(failed), "{notices:?}");
        if rank.rank == 0 {
            fs::remove_file(&blocked).unwrap();
            fs::rename(blocked.with_extension("away"), &blocked).unwrap();
        }
        // It is left alone for a minute.
        let (_, notices) = save(&mut rank, 3);
        assert!(!notices.iter().any(|notice| notice.contains("shared directory")), "{notices:?}");
    });
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        let (_, notices) = save(&mut rank, 4);
        assert!(notices.iter().any(|notice| notice.contains("4 is in the shared directory")), "{notices:?}");
    });
    let numbers: Vec<bool> =
        images(&tiers).iter().map(|path| path.to_string_lossy().contains("/0000000002-")).collect();
    assert_eq!(numbers, [false; 4]);
}

#[test]
fn a_part_is_copied_byte_by_byte_or_not_at_all() {
    let tiers = Tiers::new();
    let config = config(&tiers, Policy::Fixed(Fixed::Durable));
    let without = Config { shared: None, ..config.clone() };
    job(1, &without, |mut rank| {
        rank.save(1);
    });
    let open = |name: &str| {
        let base = tiers.home.path().join(name);
        Durable::open(Arc::new(Disk), &base, "job", DurableOptions::default()).unwrap()
    };
    let (ssd, shared) = (open("ssd"), open("pfs"));
    let generation = ssd.generations().unwrap()[0].generation;
    let image = tiers.durable_files("image").remove(0);
    let part = ssd.part(generation, 0).unwrap();
    flip(&image, 200_000);
    let error = shared.write_copy(&part).unwrap_err().to_string();
    assert!(
        error.contains("rank-00000.image: 1 of the 16 pages of row") && error.contains("not written elsewhere"),
        "{error}"
    );
    assert!(images(&tiers).is_empty() && shared.generations().unwrap().is_empty());
    flip(&image, 200_000);
    shared.write_copy(&part).unwrap();
    assert!(fs::read(&images(&tiers)[0]).unwrap() == fs::read(&image).unwrap());
    assert_eq!(shared.manifest(generation, 0).unwrap(), part.manifest);
}

/// Copies generations from one disk to another; returns the number of the last that was reported as copied.
fn copy(from: &FaultyDisk, to: &FaultyDisk, numbers: std::ops::RangeInclusive<u64>) -> u64 {
    let open = |disk: &FaultyDisk| {
        let options = DurableOptions { queue_depth: 1, ..DurableOptions::default() };
        Durable::open(Arc::new(Faulty(disk.clone())), Path::new("/ssd"), "job", options)
    };
    let (Ok(source), Ok(target)) = (open(from), open(to)) else { return 0 };
    let stored = source.generations().unwrap();
    let mut reported = 0;
    for number in numbers {
        let generation = stored.iter().find(|stored| stored.generation.number == number).unwrap().generation;
        let part = source.part(generation, 0).unwrap();
        if target.write_copy(&part).and_then(|_| target.commit(Commit { generation, ranks: 1, epoch: 0 })).is_ok() {
            reported = number;
            let _ = target.prune();
        }
    }
    reported
}

#[test]
fn a_copy_that_is_killed_or_loses_power_or_fails_at_any_operation_loses_nothing_that_was_reported() {
    let source = durable::disk();
    durable::save(&source, 1..=2, Protection::Checked);
    let whole = durable::disk();
    assert_eq!(copy(&source, &whole, 1..=2), 2);
    assert_eq!(durable::newest(&whole, Protection::Checked), 2);
    for at in 0..whole.operations() {
        let plan = |kill_at: Option<u64>, failures: BTreeMap<u64, i32>| Plan { kill_at, failures, ..Plan::default() };
        for plan in [plan(Some(at), BTreeMap::new()), plan(None, BTreeMap::from([(at, 5)]))] {
            let disk = durable::disk().restarted(plan);
            let reported = copy(&source, &disk, 1..=2);
            let found = durable::newest(&disk.restarted(Plan::default()), Protection::Checked);
            assert!(found >= reported, "stopped at {at}: {reported} reported, {found} found");
            for seed in 0..4 {
                let found = durable::newest(&disk.after_power_loss(seed, Plan::default()), Protection::Checked);
                assert!(found >= reported, "power lost at {at}, seed {seed}: {reported} reported, {found} found");
            }
        }
    }
}

#[test]
fn parity_there_comes_from_memory_where_the_ssd_has_none() {
    let tiers = Tiers::new();
    let mut config = config(&tiers, always_both());
    config.set("shared.protection", "shard").unwrap();
    job(1, &config, |mut rank| {
        save(&mut rank, 1);
    });
    lose(&tiers, "memory");
    lose(&tiers, "ssd");
    let image = images(&tiers).remove(0);
    (1..4).for_each(|page| flip(&image, page * 5 * 4096 * 5 + 7));
    let (step, restored) = restarted(1, &config, 1).remove(0);
    let report = restored.unwrap().unwrap().report;
    assert!(step == Some(1) && report.contains("3 repaired"), "{report}");
}

#[test]
fn the_command_s_tools_take_it_as_any_other_directory() {
    let tiers = Tiers::new();
    let config = config(&tiers, always_both());
    job(2, &config, |mut rank| {
        save(&mut rank, 1);
    });
    let found = survey(&[directory(&tiers)]).unwrap();
    assert_eq!((found.copies.len(), found.problems.len()), (2, 0));
    assert!(found.copies.iter().all(|copy| copy.committed_ranks == Some(2) && !copy.is_astray()));
    assert!(found.copies.iter().all(|copy| verify(copy, &mut |_, _| {}).state == State::Whole));
    let to = tiers.home.path().join("back");
    let wanted = Wanted { job: "job".into(), ..Wanted::default() };
    let back = restore(&found, &wanted, &to, &mut |_, _| {}).unwrap();
    assert_eq!((back.generation.number, back.ranks.len()), (1, 2));
}

/// The notices of a rank that opened, or why it did not.
type Opened = Result<String, String>;

/// Opens a job of four ranks, some of which have another directory mounted where the shared one is; returns what each says.
fn opened_apart(config: &Config, elsewhere: &[u32]) -> Result<Vec<Opened>, String> {
    let (there, other) =
        (config.shared.as_ref().unwrap().directory.clone(), config.health_file.with_file_name("other"));
    fs::create_dir_all(&other).unwrap();
    let (there, other) = (&there, &other);
    std::thread::scope(|scope| {
        let group = thread_group(4, Some(Duration::from_secs(60)));
        let open = |(rank, group)| {
            scope.spawn(move || {
                apart(|| {
                    if elsewhere.contains(&rank) {
                        mount("none", Some(other), there, libc::MS_BIND, "")?;
                    }
                    let opened = Rank::open(config.clone(), group);
                    Ok(opened.map(|mut rank| rank.job.take_notices().join("; ")).map_err(|error| error.to_string()))
                })
            })
        };
        let threads: Vec<_> = (0..).zip(group).map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_with_another_directory_under_the_same_path_opens_on_no_rank() {
    if let Err(why) = apart(|| Ok(())) {
        return not_run("shared::a_rank_with_another_directory_under_the_same_path_opens_on_no_rank", &why);
    }
    for is_beside_ssd in [true, false] {
        let tiers = Tiers::new();
        let mut config = config(&tiers, Policy::Surefoot(Surefoot::default()));
        config.set("shared.allow_memory", "yes").unwrap();
        if !is_beside_ssd {
            config.set("durable", "none").unwrap();
        }
        for (elsewhere, who) in
            [(&[2][..], "for rank 2 on"), (&[1, 2, 3], "for ranks 1-3 on"), (&[0], "for ranks 1-3 on")]
        {
            let told = opened_apart(&config, elsewhere).unwrap();
            for said in &told {
                let said = said.as_ref().unwrap_err();
                let path = directory(&tiers).display().to_string();
                let words = [&*path, "is not the same directory on all ranks", who, "Mount the same file system"];
                assert!(words.iter().all(|word| said.contains(word)), "{said}");
            }
        }
        let told = opened_apart(&config, &[]).unwrap();
        assert!(told.iter().all(|said| said.as_ref().is_ok_and(|said| !said.contains("same"))), "{told:?}");
        let left =
            [directory(&tiers).join("job"), tiers.home.path().join("other/job")].map(|job| fs::read_dir(job).unwrap());
        let left: Vec<_> = left.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with("probe")), "{left:?}");
    }
}
