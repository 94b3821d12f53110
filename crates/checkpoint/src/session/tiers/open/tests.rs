//! Tiers that fail to be opened, read or written to.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::{Policy, Surefoot};
use crate::session::{Checkpointer, Saved, clock};
use crate::testing::failing::{ALL, CREATING, Failing, LISTING, LISTING_SECOND, LOOKING, NOTHING, SYNCING};
use crate::testing::{Home, make_memory};
use crate::{Alone, Place};
use std::sync::atomic::Ordering;

/// Opens a job whose state, which outlives it, is left alone during its calls.
fn opened(storage: &Arc<dyn Storage>, config: &Config, state: &mut [u8]) -> Result<Checkpointer, Error> {
    let mut job = Checkpointer::open_with(storage, clock::host(), "here", config.clone(), Box::new(Alone))?;
    // SAFETY: the callers keep the promise above.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
    Ok(job)
}

#[test]
fn a_drive_that_fails_to_be_read_stops_no_restart_and_is_no_beginning() {
    let (home, config) = with_durable_saves();
    let memory = home.path().join("memory");
    let drive = Arc::new(Failing::default());
    let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
    let mut state = vec![0u8; 100_000];
    let mut open = |fails: u32| {
        drive.0.store(fails, Ordering::Relaxed);
        opened(&storage, &config, &mut state)
    };
    let mut job = open(NOTHING).unwrap();
    assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
    job.wait_for_copies().unwrap();
    // It fails while the job runs, and before it begins.
    drive.0.store(ALL, Ordering::Relaxed);
    let report = job.restart().unwrap().unwrap().report;
    assert!(report.contains("from memory") && report.contains("cannot look at the SSD"), "{report}");
    drop(job);
    for fails in [LISTING, LOOKING, ALL] {
        let mut job = open(fails).unwrap();
        let restored = job.restart().unwrap().unwrap();
        let words = ["from memory", "cannot look at the SSD", "a newer one may be there"];
        assert!(words.iter().all(|word| restored.report.contains(word)), "{fails}: {restored:?}");
        assert!(!restored.report.contains("os error"), "{restored:?}");
        assert_eq!(restored.generation.number, 1);
        assert!(job.restart_resized().unwrap().is_some() && job.open_resized().unwrap().is_some());
    }
    // Memory is gone, too: what can be read is read, and else it is no beginning.
    std::fs::remove_dir_all(memory.join("job")).unwrap();
    let restored = open(SYNCING).unwrap().restart().unwrap().unwrap();
    assert!(restored.report.contains("from the SSD"), "what cannot be written to may still be read: {restored:?}");
    for fails in [LISTING, LOOKING, ALL] {
        std::fs::remove_dir_all(memory.join("job")).unwrap();
        let refused = open(fails).err().unwrap().to_string();
        assert!(refused.contains("ssd/job") && refused.contains("kernel's log"), "{fails}: {refused}");
    }
    let mut job = open(NOTHING).unwrap();
    drive.0.store(LISTING, Ordering::Relaxed);
    for refused in [job.restart().map(drop), job.restart_resized().map(drop), job.open_resized().map(drop)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("cannot look at the SSD") && refused.contains("start over"), "{refused}");
    }
}

/// A restart may go on from an older one, and says which could not be looked at, and not that nothing of it is left.
#[test]
fn a_generation_that_cannot_be_listed_is_not_readable_and_not_gone() {
    let (home, config) = with_durable_saves();
    let drive = Arc::new(Failing::default());
    let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
    let mut state = vec![0u8; 100_000];
    let mut open = || opened(&storage, &config, &mut state).unwrap();
    let mut job = open();
    for _ in 0..2 {
        assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
        job.wait_for_copies().unwrap();
    }
    drop(job);
    std::fs::remove_dir_all(home.path().join("memory/job")).unwrap();
    drive.0.store(LISTING_SECOND, Ordering::Relaxed);
    let restored = open().restart().unwrap().unwrap();
    assert_eq!(restored.generation.number, 1);
    let words = ["not readable: cannot list ", "0000000002-", "Input/output error"];
    assert!(words.iter().all(|word| restored.report.contains(word)), "{restored:?}");
    assert!(!restored.report.contains("no part of it is left"), "{restored:?}");
}

/// A job of two tiers whose every save asks for a durable copy.
fn with_durable_saves() -> (Home, Config) {
    let home = Home::new();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    make_memory(&memory);
    std::fs::create_dir(&ssd).unwrap();
    let mut config = Config { drive_file: None, ..Config::new("job", &memory, Some(ssd)) };
    config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() });
    config.health_file = home.path().join("health.json");
    (home, config)
}

#[test]
fn a_drive_to_which_writes_fail_is_left_alone_for_a_while_and_then_tried_again() {
    let (_home, config) = with_durable_saves();
    let drive = Arc::new(Failing::default());
    let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
    let mut state = vec![0u8; 100_000];
    let mut job = opened(&storage, &config, &mut state).unwrap();
    let save = |job: &mut Checkpointer, count: usize| -> (Vec<Place>, String) {
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(job.checkpoint().unwrap().decision.place);
            job.wait_for_copies().unwrap();
        }
        (places, job.take_notices().join("\n"))
    };
    let tries = || drive.1.load(Ordering::Relaxed);
    drive.0.store(CREATING, Ordering::Relaxed);
    let (places, said) = save(&mut job, 20);
    assert_eq!(places[0], Place::Both);
    assert!(places[1..].iter().all(|place| *place == Place::Memory) && tries() == 1, "{places:?}");
    assert!(said.lines().count() == 1 && said.contains("tried again in 60 s"), "said once: {said}");
    let why = job.checkpoint().unwrap().decision.reasons.join("; ");
    assert!(why.contains("the SSD is left alone, because the last write failed"), "{why}");
    // Each try that fails in a row is followed by a longer rest, up to an hour.
    for (number, rest_s) in [(2, 120), (3, 240), (4, 480), (5, 960), (6, 1_920), (7, 3_600), (8, 3_600)] {
        job.tiers.durable.as_mut().unwrap().end_rest();
        let (_, said) = save(&mut job, 3);
        let wanted = format!("{number} writes in a row have failed; the SSD is tried again in {rest_s} s");
        assert!(tries() == number && said.lines().count() == 1 && said.contains(&wanted), "{said}");
    }
    // Who says so himself tries at once, and what works ends the rest.
    assert!(job.checkpoint_to(Place::Durable).is_err() && tries() == 9);
    assert!(job.finish().is_err() && tries() == 10);
    job.take_notices();
    drive.0.store(NOTHING, Ordering::Relaxed);
    assert_ne!(job.finish().unwrap().is_durable, Some(false));
    let (places, said) = save(&mut job, 2);
    assert_eq!(places, [Place::Both; 2], "{said}");
}

#[test]
fn a_tier_that_could_not_be_opened_is_not_tried_again_and_nothing_says_that_it_is() {
    let (_home, config) = with_durable_saves();
    let drive = Arc::new(Failing::default());
    let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
    let mut state = vec![0u8; 100_000];
    let mut open = || opened(&storage, &config, &mut state).unwrap();
    let mut job = open();
    job.checkpoint().unwrap();
    job.wait_for_copies().unwrap();
    drop(job);
    drive.0.store(LISTING, Ordering::Relaxed);
    let mut job = open();
    // What it could not be opened for is mended, and it stays closed all the same.
    drive.0.store(NOTHING, Ordering::Relaxed);
    job.restart().unwrap().unwrap();
    let Saved { decision, .. } = job.checkpoint().unwrap();
    let why = decision.reasons.join("; ");
    assert!(decision.place == Place::Memory && why.contains("is not tried again until it restarts"), "{why}");
    assert!(job.checkpoint_to(Place::Durable).is_err());
    job.checkpoint_to(Place::Both).unwrap();
    job.wait_for_copies().unwrap();
    assert!(job.finish().is_err());
    let said = job.take_notices().join("\n");
    assert!(said.contains("until the job restarts") && said.contains("is not tried again until it restarts"), "{said}");
    assert!(!said.contains("tried again in") && !said.contains("at once"), "{said}");
    drop(job);
    assert_eq!(open().checkpoint().unwrap().decision.place, Place::Both, "after the restart it is used again");
}

#[test]
fn the_small_files_beside_an_image_need_room_too() {
    let (home, config) = with_durable_saves();
    let drive = Arc::new(Failing::default());
    let storage: Arc<dyn Storage> = Arc::clone(&drive) as _;
    let mut state = vec![0u8; 4_000];
    let mut job = Checkpointer::open_with(&storage, clock::host(), "here", config, Box::new(Alone)).unwrap();
    for number in 0..4_000 {
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { job.protect(&format!("{number:0>100}"), state.as_mut_ptr().add(number), 1).unwrap() };
    }
    let routed = job.route_file("log").unwrap();
    std::fs::write(routed, "a line").unwrap();
    let image_bytes = job.tiers.durable.as_ref().unwrap().tier.bytes_for(4_006).unwrap();
    drive.2.store(image_bytes + 100_000, Ordering::Relaxed);
    let taken = job.checkpoint().unwrap();
    assert_eq!(taken.decision.place, Place::Memory, "its manifest alone has half a megabyte: {taken:?}");
    drive.2.store(image_bytes + 700_000, Ordering::Relaxed);
    assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
    job.wait_for_copies().unwrap();
    let written: u64 = std::fs::read_dir(home.path().join("ssd/job"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let files =
                std::fs::read_dir(&path).map(|found| found.map(|file| file.unwrap().metadata().unwrap().len()).sum());
            files.unwrap_or_else(|_| std::fs::metadata(&path).unwrap().len())
        })
        .sum();
    assert!(written > image_bytes + 400_000 && written <= image_bytes + 700_000, "{written} beside {image_bytes}");
}
