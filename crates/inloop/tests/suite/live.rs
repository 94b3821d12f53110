//! Gaps that really happen, on a machine that may be busy with other things as well.

use super::{directory, only, open, options};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_inloop::{Error, Loop, Options, Reader, ticks};

/// How far two readings of the counter may move against each other and against what stands between them.
const UNORDERED_TICKS: u64 = 2_000;

#[test]
fn a_sleep_in_the_loop_is_a_gap_between_the_turns_around_it() {
    let directory = directory();
    let mut gaps = open(directory.path(), Duration::from_millis(1));
    let mut reader = Reader::open(directory.path()).unwrap();
    for _ in 0..10_000 {
        gaps.turn();
    }
    gaps.restart();
    let begin = ticks();
    gaps.turn();
    let asleep = ticks();
    std::thread::sleep(Duration::from_millis(5));
    let awake = ticks();
    assert!(gaps.turn());
    let end = ticks();
    for _ in 0..10_000 {
        gaps.turn();
    }
    let found = only(reader.poll());
    assert_eq!((found.pid, found.name.as_str()), (std::process::id(), "a test"));
    let mut around = found.gaps.iter().filter(|(before, after)| *before <= asleep + UNORDERED_TICKS && *after >= awake);
    let (before, after) = *around.next().unwrap_or_else(|| panic!("{begin} {asleep} {awake} {end}: {:?}", found.gaps));
    assert!(before + UNORDERED_TICKS >= begin && after <= end + UNORDERED_TICKS, "{begin} {before} {after} {end}");
    assert!(after - before > found.threshold_ticks && around.next().is_none());
}

#[test]
fn time_that_another_task_took_is_noted() {
    const TEST: &str = "time_that_another_task_took_is_noted";
    let directory = directory();
    let mut reader = Reader::open(directory.path()).unwrap();
    let (ready, stop, looked) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let (stolen_from, stolen_to, turns) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let path = directory.path();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to_first_core();
            let mut gaps = open(path, Duration::from_micros(500));
            ready.store(true, Ordering::Release);
            while !stop.load(Ordering::Relaxed) {
                gaps.turn();
                turns.fetch_add(1, Ordering::Release);
            }
            // The file stays until the reader looked.
            while !looked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let took_it = scope.spawn(|| {
            pin_to_first_core();
            let ahead = libc::sched_param { sched_priority: 10 };
            // SAFETY: for this thread only; `ahead` lives through the call.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &ahead) } != 0 {
                return false;
            }
            stolen_from.store(ticks(), Ordering::Relaxed);
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(5) {}
            stolen_to.store(ticks(), Ordering::Relaxed);
            true
        });
        let took_it = took_it.join().unwrap();
        // The turn after the theft notes it. Others may take the core meanwhile, so its end is waited for, not a time.
        let before = turns.load(Ordering::Acquire);
        while turns.load(Ordering::Acquire) < before + 2 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Release);
        let found = reader.poll();
        looked.store(true, Ordering::Release);
        if !took_it {
            surefoot_testkit::not_run::not_run(TEST, "real-time priority needs root");
            return;
        }
        let found = only(found);
        let (from, to) = (stolen_from.load(Ordering::Relaxed), stolen_to.load(Ordering::Relaxed));
        assert_ne!(found.pid, found.tid);
        let around = found.gaps.iter().find(|(before, after)| *before <= from + UNORDERED_TICKS && *after >= to);
        assert!(around.is_some(), "nothing around {from} to {to}: {:?}", found.gaps);
    });
}

fn pin_to_first_core() {
    // SAFETY: an empty set is valid; the calls read and write it within its size, for this thread only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

#[test]
fn the_ring_keeps_the_newest_gaps() {
    let directory = directory();
    let options = Options { capacity: 64, ..options(directory.path(), Duration::ZERO) };
    let mut gaps = Loop::open_with("a small ring", &options).unwrap();
    let mut reader = Reader::open(directory.path()).unwrap();
    for _ in 0..1_000 {
        gaps.turn();
    }
    let found = only(reader.poll());
    assert_eq!(found.gaps.len(), 63);
    assert_eq!(found.overwritten + 63, gaps.noted());
    assert!(found.gaps.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", found.gaps);
}

#[test]
fn a_loop_without_a_file_turns_and_notes_nothing() {
    let mut gaps = Loop::inert();
    for _ in 0..1_000 {
        assert!(!gaps.turn());
    }
    gaps.restart();
    assert_eq!((gaps.noted(), gaps.path()), (0, None));
}

#[test]
fn the_file_is_readable_for_all_and_writable_for_its_owner_and_goes_with_the_loop() {
    let parent = directory();
    let path = parent.path().join("made");
    let gaps = open(&path, Duration::from_micros(10));
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o1777);
    let file = gaps.path().unwrap().to_owned();
    let metadata = file.symlink_metadata().unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o644, 1));
    assert_eq!(metadata.len(), 192 + 4_096 * 16);
    drop(gaps);
    assert!(!file.exists() && path.exists());
}

#[test]
fn what_cannot_work_is_an_error_that_says_what_to_do() {
    let directory = directory();
    let fails = |name: &str, options: &Options| Loop::open_with(name, options).unwrap_err();
    let good = options(directory.path(), Duration::from_micros(10));
    for name in ["", "a\nb", "\u{e9}", &"x".repeat(64)] {
        assert!(matches!(fails(name, &good), Error::Name { .. }), "{name:?}");
    }
    for capacity in [0, 1, 8, 100, 32_768, u32::MAX] {
        let error = fails("a test", &Options { capacity, ..good.clone() });
        assert!(error.to_string().contains("a power of two from 16 to 16384"), "{error}");
    }
    let missing = fails("a test", &options(Path::new("/dev/shm/surefoot-none/deeper"), Duration::ZERO));
    assert!(missing.to_string().contains("SUREFOOT_LOOP_DIR"), "{missing}");
    assert!(matches!(fails("a test", &options(Path::new("relative"), Duration::ZERO)), Error::Directory { .. }));
    let not_in_memory = fails("a test", &options(Path::new("/proc"), Duration::ZERO));
    assert!(matches!(not_in_memory, Error::NotInMemory { .. }), "{not_in_memory}");

    let open_to_all = directory.path().join("open");
    std::fs::create_dir(&open_to_all).unwrap();
    std::fs::set_permissions(&open_to_all, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = fails("a test", &options(&open_to_all, Duration::ZERO));
    assert!(matches!(error, Error::UnsafeDirectory { .. }) && error.to_string().contains("chmod +t"), "{error}");

    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    assert!(matches!(fails("a test", &options(&link, Duration::ZERO)), Error::Directory { .. }));
    assert!(matches!(Reader::open(&link), Err(Error::Directory { .. })));
}
