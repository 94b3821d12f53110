//! Disks that are really full: a small tmpfs in a mount name space of the child's own, which vanishes with it.

use crate::any_event::{SECOND_NS, plausible_gap, plausible_host, plausible_window};
use crate::child;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use surefoot_model::{Cause, CauseKind, Event, Notice};
use surefoot_store::Error;
use surefoot_store::cases::{Address, CaseStore};
use surefoot_store::history::{History, Limits, Resolution};
use surefoot_store::recording::{End, Existing, Reader, Writer};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;

/// Mounts 3 MiB over the directory of the file and runs the words after it there.
const SMALL_DISK: &str =
    "mount -t tmpfs -o size=3m,mode=700 surefoot-test \"$(dirname \"$SUREFOOT_TEST_FILE\")\" && exec \"$@\"";

/// Runs a child test on a small disk; says so when this machine allows none.
fn run_on_small_disk(test: &str) {
    let directory = tempfile::tempdir().unwrap();
    child::run_with_mount(SMALL_DISK, test, &directory.path().join("file"));
}

/// Fills the disk of the directory to the last byte.
fn fill(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("filler");
    let mut filler = File::create(&path).unwrap();
    for block_bytes in [64 << 10, 4096, 1] {
        while filler.write_all(&vec![0; block_bytes]).is_ok() {}
    }
    path
}

/// A cause that was given its number in a transaction that failed must be given one again.
fn window_with_a_new_cause(second: u64) -> Event {
    let mut event = plausible_window(second, 8);
    if let Event::Window(window) = &mut event {
        window.cores[0].lost[0].cause = Cause::new(CauseKind::KernelThread, format!("thread {second}"));
    }
    event
}

#[test]
#[ignore = "runs in a child process on a small disk"]
fn child_whose_history_meets_a_full_disk() {
    let path = child::file();
    let limits = Limits { waiting_bytes_max: 100_000, ..Limits::default() };
    let mut history = History::open(&path, limits).unwrap();
    history.record(&plausible_host(8)).unwrap();
    for second in 0..50 {
        history.record(&plausible_window(second, 8)).unwrap();
        history.commit().unwrap();
    }
    let filler = fill(path.parent().unwrap());

    // The log may have pages to spare, so that some commits still pass.
    let mut second = 50;
    let error = loop {
        history.record(&window_with_a_new_cause(second)).unwrap();
        second += 1;
        if let Err(error) = history.commit() {
            break error;
        }
        assert!(second < 5_000, "the disk is not full");
    };
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let Error::HistoryWrite { full, waiting, dropped_now, .. } = error else { panic!("{error}") };
    assert!(full);
    assert_eq!((waiting, dropped_now.total()), (1, 0));
    let committed = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() as u64;
    assert_eq!(committed, second - 1, "a committed window is gone");

    // Space comes back: what waited is written, nothing is lost.
    fs::remove_file(&filler).unwrap();
    history.record(&plausible_window(second, 8)).unwrap();
    second += 1;
    history.commit().unwrap();
    assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() as u64, second);
    assert_eq!(history.dropped().total(), 0);

    // Full again, for longer than memory lasts: the oldest waiting windows go, and are counted.
    let filler = fill(path.parent().unwrap());
    let (mut told, mut refused) = (0, 0);
    for later in second..second + 500 {
        history.record(&plausible_window(later, 8)).unwrap();
        match history.commit() {
            Ok(()) => assert_eq!(refused, 0, "a commit passed on the full disk"),
            Err(Error::HistoryWrite { dropped_now, .. }) => {
                told += dropped_now.windows;
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let dropped = history.dropped().windows;
    assert!(dropped > 100, "{dropped} of {refused}");
    assert_eq!(told, dropped, "the errors do not add up to the count");
    fs::remove_file(&filler).unwrap();
    history.record(&plausible_gap(9_000, 12_345)).unwrap();
    // The gap needs room, too, for which one more window may have gone.
    let dropped = history.dropped().windows;
    history.commit().unwrap();
    assert_eq!(
        history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() as u64,
        second + 500 - dropped
    );
    let notices = history.open_view().unwrap().notices(ALL).unwrap();
    let word = format!("{dropped} windows are not in the history");
    assert!(notices.iter().any(|notice| notice.1.contains(&word)), "{notices:?}");

    // Nothing of this hurt the file.
    drop(history);
    let history = History::open(&path, Limits::default()).unwrap();
    assert_eq!(
        history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() as u64,
        second + 500 - dropped
    );
    println!("{}", child::DONE);
}

#[test]
fn a_full_disk_under_the_history_loses_nothing_that_was_committed() {
    run_on_small_disk("full_disk::child_whose_history_meets_a_full_disk");
}

#[test]
#[ignore = "runs in a child process on a small disk"]
fn child_whose_recording_meets_a_full_disk() {
    let path = child::file();
    let mut writer = Writer::create(&path, Existing::Refuse).unwrap();
    writer.append(&plausible_host(8)).unwrap();
    writer.flush().unwrap();
    let filler = fill(path.parent().unwrap());
    let mut appended = 1;
    let error = loop {
        let text = format!("{appended} {}", appended * SECOND_NS);
        writer.append(&Event::Notice(Notice { at_ns: appended, text })).unwrap();
        appended += 1;
        if let Err(error) = writer.flush() {
            break error;
        }
    };
    let Error::RecordingWrite { safe_events, safe_bytes, waiting_events, dropped_events, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((safe_events + waiting_events, dropped_events), (appended, 0));
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.by_ref().count() as u64, safe_events);
    assert!(matches!(reader.end(), End::Torn { at_byte, .. } if at_byte == safe_bytes), "{}", reader.end());

    fs::remove_file(&filler).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!((written.events, written.dropped_events), (appended, 0));
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.by_ref().count() as u64, appended);
    assert_eq!(reader.end(), End::Complete);
    println!("{}", child::DONE);
}

#[test]
fn a_full_disk_under_a_recording_loses_nothing() {
    run_on_small_disk("full_disk::child_whose_recording_meets_a_full_disk");
}

#[test]
#[ignore = "runs in a child process on a small disk"]
fn child_that_has_no_room_to_migrate() {
    let path = child::file();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/fixtures/history-v1.db");
    fs::copy(&fixture, &path).unwrap();
    let filler = fill(path.parent().unwrap());
    // A little room, so that SQLite gets as far as it can: its log needs more.
    for room_bytes in [0u64, 4 << 10, 36 << 10, 48 << 10] {
        let length = fs::metadata(&filler).unwrap().len();
        File::options().write(true).open(&filler).unwrap().set_len(length - room_bytes).unwrap();
        let error = History::open(&path, Limits::default()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(without_counters(&path) == without_counters(&fixture), "{room_bytes}: {error}: the file was changed");
        fill_again(&filler);
    }
    fs::remove_file(&filler).unwrap();
    let history = History::open(&path, Limits::default()).unwrap();
    assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len(), 100);
    assert!(history.open_view().unwrap().findings(ALL).unwrap().is_empty());
    println!("\n{}", child::DONE);
}

/// A database but for the two places in its header where SQLite counts that it began to write.
fn without_counters(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes[24..28].fill(0);
    bytes[92..96].fill(0);
    bytes
}

/// Lets the filler take what has become free.
fn fill_again(filler: &Path) {
    let mut filler = File::options().append(true).open(filler).unwrap();
    for block_bytes in [4096, 1] {
        while filler.write_all(&vec![0; block_bytes]).is_ok() {}
    }
}

#[test]
fn a_full_disk_leaves_a_history_of_an_earlier_version_whole() {
    run_on_small_disk("full_disk::child_that_has_no_room_to_migrate");
}

#[test]
#[ignore = "runs in a child process on a small disk"]
fn child_that_has_no_room_for_a_new_store() {
    let path = child::file();
    let address: Address = format!("sqlite:{}", path.display()).parse().unwrap();
    let filler = fill(path.parent().unwrap());
    for room_bytes in [0, 4 << 10, 64 << 10] {
        let length = fs::metadata(&filler).unwrap().len();
        File::options().write(true).open(&filler).unwrap().set_len(length - room_bytes).unwrap();
        let error = CaseStore::open(&address, None).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("No space left"), "{room_bytes}: {error}");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [filler.as_path()], "{room_bytes}");
    }
    fs::remove_file(&filler).unwrap();
    assert_eq!(CaseStore::open(&address, None).unwrap().counts().unwrap().alerts, 0);
    println!("\n{}", child::DONE);
}

#[test]
fn a_full_disk_leaves_nothing_of_a_new_store_of_cases() {
    run_on_small_disk("full_disk::child_that_has_no_room_for_a_new_store");
}
