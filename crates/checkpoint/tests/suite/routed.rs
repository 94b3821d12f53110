//! Files that the program writes, and that belong to its checkpoints; and jobs with very many arrays.

use super::session::{Rank, Tiers, job};
use super::tiers::{as_stranger, give_to_stranger};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::{Checkpointer, Disk, Manifest, Policy};

#[test]
fn files_of_a_refused_checkpoint_neither_come_back_nor_join_later_ones() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| {
        for (name, step) in [("first", 1), ("second", 2)] {
            let path = rank.job.route_file(name).unwrap();
            fs::write(path, format!("{name} of step {step}")).unwrap();
            rank.save(step);
        }
    });
    // The newest is lost on rank 1 alone, and the new nodes have no files of the old ones.
    fs::write(&tiers.memory_files(1, "image")[1], b"short").unwrap();
    for rank in 0..2 {
        fs::remove_dir_all(tiers.home.path().join(format!("memory/job/files-{rank:05}"))).unwrap();
    }
    job(2, &config, |mut rank| {
        let restored = rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(1) && restored.report.contains("refused before: generation 2"), "{}", restored.report);
        let files = tiers.home.path().join(format!("memory/job/files-{:05}", rank.rank));
        let names: Vec<_> = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["first"]);
        rank.save(3);
        let manifests = tiers.memory_files(rank.rank, "manifest");
        let manifests = manifests.iter().map(|path| Manifest::read(&Disk, path).unwrap());
        let newest = manifests.max_by_key(|manifest| manifest.generation).unwrap();
        let regions: Vec<&str> = newest.regions.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(regions, ["left", "right", "file:first"]);
    });
}

#[test]
fn a_file_that_may_only_be_read_is_saved_and_comes_back() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.durable = None;
    // SAFETY: it only reads a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let run = || {
        let mut rank = Rank::open(config.clone(), thread_group(1, None).remove(0)).unwrap();
        let path = rank.job.route_file("input.dat").unwrap();
        fs::write(&path, b"as it was").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        rank.save(1);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"half of the next").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        rank.job.restart().unwrap().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"as it was");
    };
    // Root may write to any file.
    if is_root {
        give_to_stranger(&tiers);
        assert!(as_stranger(run).is_some());
    } else {
        run();
    }
}

#[test]
fn twenty_thousand_arrays_are_saved_and_come_back() {
    const ARRAYS: usize = 20_000;
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    let mut state: Vec<u64> = (0..ARRAYS as u64).collect();
    let open = |state: &mut [u64]| {
        let mut job = Checkpointer::open(config.clone(), Box::new(thread_group(1, None).remove(0))).unwrap();
        for (number, value) in state.iter_mut().enumerate() {
            // SAFETY: the state outlives the job, and is left alone during its calls.
            unsafe { job.protect(&format!("optimizer/{number}/step"), (&raw mut *value).cast(), 8).unwrap() };
        }
        job
    };
    let mut first = open(&mut state);
    assert_eq!(first.checkpoint().unwrap().payload_bytes, 8 * ARRAYS as u64);
    drop(first);
    let manifest = fs::metadata(&tiers.memory_files(0, "manifest")[0]).unwrap().len();
    assert!(manifest < 20 * ARRAYS as u64, "{manifest} bytes");
    state.fill(0);
    open(&mut state).restart().unwrap().unwrap();
    assert!(state.iter().enumerate().all(|(number, value)| *value == number as u64));
    state.fill(0);
    open(&mut state).restart_resized().unwrap().unwrap();
    assert!(state.iter().enumerate().all(|(number, value)| *value == number as u64));
}
