//! Checkpoints in a version of the format that this release does not know: what a newer release wrote is not written over, and what
//! is said of it is true. And a checkpoint that is gone altogether, of which only the journal knows.

use super::session::{Rank, Tiers, job, restarted};
use std::fs;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::inspect::{State, survey, verify};
use surefoot_checkpoint::{Alone, Config, Policy};
use surefoot_testkit::not_run::not_run;

const NEWER: &[u8] = b"99";

/// Makes a manifest or a mark one of another version.
fn of_version(path: &Path, version: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[6..8].copy_from_slice(version);
    fs::write(path, bytes).unwrap();
}

/// The same with both manifests of a slot.
fn slot_of_version(directory: &Path, slot: usize) {
    for kind in ["manifest", "copy"] {
        of_version(&directory.join(format!("slot-{slot}.{kind}")), NEWER);
    }
}

fn save_all(rank: &mut Rank, steps: impl Iterator<Item = u64>) {
    for step in steps {
        rank.save(step);
    }
}

fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[20] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

/// All files of a directory, by path.
fn content(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(PathBuf, Vec<u8>)> =
        entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    all.sort();
    all
}

/// The files of a slot.
fn slot_of(directory: &Path, slot: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let is_of = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("slot-{slot}."));
    content(directory).into_iter().filter(|(path, _)| is_of(path)).collect()
}

/// The slot of a rank whose manifest holds this text.
fn slot_with(directory: &Path, text: &str) -> usize {
    let holds = |slot: &usize| {
        let bytes = fs::read(directory.join(format!("slot-{slot}.manifest"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    };
    (0..16).find(holds).unwrap()
}

fn in_memory(tiers: &Tiers, slots: usize) -> Config {
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.set("durable", "none").unwrap();
    config.set("memory.slots", &slots.to_string()).unwrap();
    config
}

#[test]
fn a_slot_of_another_release_is_told_and_never_written_to() {
    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 4] = [
        ("both", |manifest, copy| [manifest, copy].iter().for_each(|path| of_version(path, NEWER))),
        ("manifest bad", |manifest, copy| {
            spoil(manifest);
            of_version(copy, NEWER);
        }),
        ("copy bad", |manifest, copy| {
            of_version(manifest, NEWER);
            spoil(copy);
        }),
        ("copy gone", |manifest, copy| {
            of_version(manifest, NEWER);
            fs::remove_file(copy).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let tiers = Tiers::new();
        let config = in_memory(&tiers, 3);
        job(1, &config, |mut rank| save_all(&mut rank, 1..=4));
        let directory = tiers.home.path().join("memory/job/rank-00000");
        let slot = slot_with(&directory, "\"number\":4");
        let [manifest, copy] = ["manifest", "copy"].map(|kind| directory.join(format!("slot-{slot}.{kind}")));
        damage(&manifest, &copy);
        let before = slot_of(&directory, slot);
        job(1, &config, |mut rank| {
            let notices = rank.job.take_notices().join("\n");
            let asterisk = format!("slot-{slot}.*");
            assert!(notices.contains("version \"99\"") && notices.contains(&asterisk), "{what}: {notices}");
            let restored = rank.job.restart().unwrap().unwrap();
            assert!(restored.generation.number == 3 && rank.is_at(3), "{what}: {restored:?}");
            // The number goes on after the one that it tells.
            for number in 5..9 {
                rank.compute(number);
                assert_eq!(rank.job.checkpoint().unwrap().generation.unwrap().number, number, "{what}");
            }
        });
        assert_eq!(slot_of(&directory, slot), before, "{what}");
        // Its own release finds it as it was.
        let newest = restarted(1, &config, 9);
        assert_eq!(newest[0].0, Some(8), "{what}");
    }
}

#[test]
fn a_save_without_a_slot_beside_those_of_another_release_says_so_with_their_files() {
    let tiers = Tiers::new();
    let config = in_memory(&tiers, 2);
    job(1, &config, |mut rank| save_all(&mut rank, 1..=4));
    let directory = tiers.home.path().join("memory/job/rank-00000");
    let slot = slot_with(&directory, "\"number\":4");
    slot_of_version(&directory, slot);
    let before = slot_of(&directory, slot);
    job(1, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        let error = rank.job.checkpoint().unwrap_err().to_string();
        let wanted = [
            format!("slot-{slot}.manifest has version \"99\""),
            format!("remove {}/slot-{slot}.*", directory.canonicalize().unwrap_or_default().display()),
        ];
        let shown = error.replace(
            &*tiers.home.path().join("memory").to_string_lossy(),
            &fs::canonicalize(tiers.home.path().join("memory")).unwrap().to_string_lossy(),
        );
        assert!(wanted.iter().all(|wanted| shown.contains(wanted)), "{error}");
    });
    assert_eq!(slot_of(&directory, slot), before);
    // Removed, its slot is used again.
    for (path, _) in before {
        fs::remove_file(path).unwrap();
    }
    job(1, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        rank.job.checkpoint().unwrap();
    });
}

#[test]
fn what_partners_keep_of_another_release_is_never_written_to() {
    for (setting, value, room) in [("partner", "yes", "partner"), ("parity", "1+1", "parity")] {
        let tiers = Tiers::new();
        let mut config = in_memory(&tiers, 3);
        config.set(setting, value).unwrap();
        job(2, &config, |mut rank| save_all(&mut rank, 1..=4));
        let of_job = tiers.home.path().join("memory/job");
        for others in ["rank-00000".to_owned(), "rank-00001".to_owned(), format!("{room}-00000")] {
            let others = of_job.join(others);
            let newest = slot_of(&others, slot_with(&others, "\"number\":4"));
            newest.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        }
        let directory = of_job.join(format!("{room}-00001"));
        let slot = slot_with(&directory, "\"number\":4");
        slot_of_version(&directory, slot);
        let before = slot_of(&directory, slot);
        job(2, &config, |mut rank| {
            let notices = rank.job.take_notices().join("\n");
            assert_eq!(notices.contains("version \"99\""), rank.rank == 1, "{room}: {notices}");
            assert_eq!(rank.job.restart().unwrap().unwrap().generation.number, 3);
            // The number goes on after the one that it tells, which nothing else does.
            let saved = rank.job.checkpoint().unwrap();
            assert_eq!(saved.generation.unwrap().number, 5, "{room}");
            save_all(&mut rank, 6..9);
        });
        assert_eq!(slot_of(&directory, slot), before, "{room}");
    }
}

#[test]
fn a_durable_checkpoint_of_another_release_stays_and_is_not_called_gone() {
    for with_mark in [false, true] {
        let tiers = Tiers::new();
        let mut config = tiers.config(Policy::Fixed(Fixed::Durable));
        config.set("durable.keep", "1").unwrap();
        config.set("memory", "none").unwrap();
        job(1, &config, |mut rank| save_all(&mut rank, 1..=1));
        // Both stay.
        config.set("durable.keep", "2").unwrap();
        job(1, &config, |mut rank| {
            rank.job.restart().unwrap().unwrap();
            rank.save(2);
        });
        config.set("durable.keep", "1").unwrap();
        let newest = tiers.durable_files("manifest").pop().unwrap();
        of_version(&newest, NEWER);
        let directory = newest.parent().unwrap();
        if with_mark {
            of_version(&directory.join("commit"), NEWER);
        }
        let before = content(directory);
        job(1, &config, |mut rank| {
            let notices = rank.job.take_notices().join("\n");
            assert!(notices.contains("generation 2 is left alone"), "{notices}");
            let restored = rank.job.restart().unwrap().unwrap();
            let report = &restored.report;
            assert!(restored.generation.number == 1 && report.contains("version \"99\""), "{report}");
            assert!(!report.contains("no part of it is left"), "{report}");
            assert!(report.contains("newer, and no part of it can be read: generation 2 on the SSD"), "{report}");
            save_all(&mut rank, 3..7);
        });
        assert_eq!(content(directory), before, "with mark {with_mark}");
        let left = tiers.durable_files("manifest");
        assert_eq!(left.len(), 2, "the newest of this release and that of the other: {left:?}");
    }
}

#[test]
fn the_files_of_nodes_and_of_the_end_of_another_release_are_told() {
    let tiers = Tiers::new();
    let config = in_memory(&tiers, 3);
    job(1, &config, |mut rank| {
        save_all(&mut rank, 1..=2);
        rank.job.complete().unwrap();
    });
    let of_job = tiers.home.path().join("memory/job");
    for name in ["nodes", "completed"] {
        of_version(&of_job.join(name), NEWER);
    }
    let nodes = fs::read(of_job.join("nodes")).unwrap();
    job(1, &config, |mut rank| {
        let restored = rank.job.restart().unwrap().unwrap();
        assert_eq!(restored.generation.number, 2, "the job goes on from its end");
        rank.save(3);
        let notices = rank.job.take_notices().join("\n");
        let wanted = ["completed has version \"99\"", "cannot record the nodes of this job"];
        assert!(wanted.iter().all(|wanted| notices.contains(wanted)), "{notices}");
    });
    assert_eq!(fs::read(of_job.join("nodes")).unwrap(), nodes);
}

#[test]
fn a_newest_checkpoint_that_is_gone_altogether_is_missed_by_the_journal() {
    let tiers = Tiers::new();
    let config = in_memory(&tiers, 3);
    job(2, &config, |mut rank| save_all(&mut rank, 1..=5));
    for rank in 0..2 {
        let directory = tiers.home.path().join(format!("memory/job/rank-{rank:05}"));
        let slot = slot_with(&directory, "\"number\":5");
        slot_of(&directory, slot).iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
    }
    let said = "generation 5, which its journal says was saved in memory, is gone; the job goes on from generation 4";
    let back = job(2, &config, |mut rank: Rank| {
        let restored = rank.job.restart().unwrap().unwrap();
        (rank.rank, restored, rank.job.take_notices().join("\n"))
    });
    for (rank, restored, notices) in back {
        assert_eq!(restored.generation.number, 4);
        assert_eq!(restored.report.contains(said), rank == 0, "{}", restored.report);
        assert_eq!(notices.contains(said), rank == 0, "{notices}");
    }
    // It is said once: the job went on from there.
    for (_, restored) in restarted(2, &config, 5) {
        assert!(!restored.unwrap().unwrap().report.contains("is gone"));
    }
}

#[test]
fn a_manifest_of_another_user_is_lost_and_not_changed_meanwhile() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Durable));
    config.set("memory", "none").unwrap();
    let mut rank = Rank::open(config, Alone).unwrap();
    rank.save(1);
    drop(rank);
    let manifest = tiers.durable_files("manifest").pop().unwrap();
    if let Err(error) = std::os::unix::fs::chown(&manifest, Some(54_321), None) {
        return not_run("a_manifest_of_another_user_is_lost_and_not_changed_meanwhile", &error.to_string());
    }
    let found = survey(&[tiers.home.path().join("ssd")]).unwrap();
    let verdict = verify(&found.copies[0], &mut |_, _| {});
    assert!(verdict.state == State::Lost && verdict.why.contains("54321"), "{verdict:?}");
}
