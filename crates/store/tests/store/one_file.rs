//! Stores and histories whose log was damaged, or is not found under the name by which they are opened, and those that are only read.

use crate::any_event::{plausible_host, plausible_window};
use crate::case_files::{address, files, killed};
use crate::cases::alert;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_store::Error;
use surefoot_store::cases::{CaseStore, Opening};
use surefoot_store::history::{History, Limits, Resolution, View};

fn ways() -> [Opening; 3] {
    [Opening::to_read(), Opening::existing(), Opening::create()]
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    format!("{}{ending}", path.display()).into()
}

/// A store as a killed controller leaves it: ten commits of an alert each, all of them in the log.
fn ten_commits(folder: &Path) -> PathBuf {
    let (path, left) = (folder.join("open.db"), folder.join("left.db"));
    let mut store = CaseStore::open(&address(&path), None).unwrap();
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    for key in 0..10 {
        store.take(&[alert("a", &format!("k{key}"), 5, true)]).unwrap();
    }
    killed(&path, &left);
    left
}

/// A bit that flipped early in the log made SQLite forget all commits behind it, and delete them.
#[test]
fn a_log_that_was_damaged_is_refused_or_all_but_its_last_commit_are_there() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    let log = fs::read(beside(&left, "-wal")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.db");
    let (mut refused, mut read) = (0, 0);
    let flips = (40..log.len()).step_by(1_709).map(|at| (at, 1));
    for (at, length) in flips.chain((4_096..log.len()).step_by(4_096).map(|at| (at, 4_096))) {
        killed(&left, &path);
        let mut damaged = log.clone();
        let end = log.len().min(at + length);
        damaged[at..end].iter_mut().for_each(|byte| *byte = if length == 1 { *byte ^ 1 } else { 0 });
        fs::write(beside(&path, "-wal"), damaged).unwrap();
        let before = files(folder.path());
        match CaseStore::open_as(&address(&path), None, &Opening::to_read()) {
            Ok(mut store) => {
                read += 1;
                let alerts = store.counts().unwrap().alerts;
                assert!(alerts >= 9, "{alerts} alerts are left of 10: {length} bytes at {at} of {}", log.len());
            }
            Err(error) => {
                refused += 1;
                let told = error.to_string();
                assert!(told.contains("cases.db-wal is damaged at frame"), "{told}");
            }
        }
        assert!(files(folder.path()) == before, "{length} bytes at {at}: something was changed");
    }
    assert!(refused > 10 && read > 0, "{refused} were refused, {read} read");
}

#[test]
fn a_store_with_a_damaged_log_is_refused_whoever_opens_it_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    let log = beside(&left, "-wal");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&log, bytes).unwrap();
    let before = files(home.path());
    for opening in ways() {
        let refused = CaseStore::open_as(&address(&left), None, &opening).unwrap_err();
        assert!(matches!(refused, Error::CasesDamaged { .. }), "{refused}");
        let told = refused.to_string();
        let words =
            ["left.db-wal is damaged at frame", "later commits lie behind it", "Stop all controllers", "backup"];
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert!(files(home.path()) == before, "something was changed");
    }
}

#[test]
fn a_store_that_is_only_read_stays_as_it_is_with_its_log_and_without_an_index() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    for has_index in [true, false] {
        if !has_index {
            fs::remove_file(beside(&left, "-shm")).unwrap();
        }
        let before = files(home.path());
        let mut store = CaseStore::open_as(&address(&left), None, &Opening::to_read()).unwrap();
        assert_eq!(store.counts().unwrap().alerts, 10);
        store.take(&[alert("b", "k", 5, true)]).expect_err("what is written to a copy is lost");
        drop(store);
        assert!(files(home.path()) == before, "something was changed");
    }
}

#[test]
fn a_store_that_another_program_has_locked_for_itself_is_read() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    let locking = Connection::open(&left).unwrap();
    locking.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let mut store = CaseStore::open_as(&address(&left), None, &Opening::to_read()).unwrap();
    assert_eq!(store.counts().unwrap().alerts, 10);
}

#[test]
fn a_database_with_our_mark_and_without_our_tables_keeps_its_journal_mode() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 0x53464341").unwrap();
    drop(other);
    let before = files(home.path());
    for opening in ways() {
        let refused = CaseStore::open_as(&address(&path), None, &opening).unwrap_err().to_string();
        assert!(refused.contains("it has no table remedy_meta"), "{refused}");
        assert!(files(home.path()) == before, "something was changed");
    }
}

/// The log lies beside one of the names.
#[test]
fn a_store_with_two_names_is_refused_and_so_is_a_history() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    let other = home.path().join("other.db");
    fs::hard_link(&left, &other).unwrap();
    let history = home.path().join("history");
    drop(History::open(&history, Limits::default()).unwrap());
    fs::hard_link(&history, home.path().join("history.2")).unwrap();
    let before = files(home.path());
    let refused = |told: Result<(), Error>| {
        let error = told.unwrap_err();
        assert!(matches!(error, Error::SeveralNames { names: 2, .. }), "{error}");
        assert!(error.to_string().contains("has 2 names") && files(home.path()) == before, "{error}");
    };
    for path in [&left, &other] {
        ways().iter().for_each(|opening| refused(CaseStore::open_as(&address(path), None, opening).map(drop)));
    }
    refused(History::open(&history, Limits::default()).map(drop));
    refused(View::open(home.path().join("history.2")).map(drop));
    fs::remove_file(&other).unwrap();
    let mut store = CaseStore::open_as(&address(&left), None, &Opening::to_read()).unwrap();
    assert_eq!(store.counts().unwrap().alerts, 10);
}

/// The store was moved to a larger disk, and its log stayed behind.
#[test]
fn a_log_that_was_left_beside_a_link_is_told() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    let large = home.path().join("large");
    fs::create_dir(&large).unwrap();
    let moved = large.join("left.db");
    fs::rename(&left, &moved).unwrap();
    symlink("large/left.db", &left).unwrap();
    let history = home.path().join("history");
    drop(History::open(&history, Limits::default()).unwrap());
    fs::rename(&history, large.join("history")).unwrap();
    symlink("large/history", &history).unwrap();
    fs::copy(beside(&left, "-wal"), beside(&history, "-wal")).unwrap();
    let before = (files(home.path()), files(&large));
    let refused = |told: Result<(), Error>| {
        let error = told.unwrap_err();
        assert!(matches!(error, Error::LogOfLink { .. }), "{error}");
        assert!((files(home.path()), files(&large)) == before, "something was changed");
    };
    ways().iter().for_each(|opening| refused(CaseStore::open_as(&address(&left), None, opening).map(drop)));
    refused(History::open(&history, Limits::default()).map(drop));
    refused(View::open(&history).map(drop));
    fs::rename(beside(&left, "-wal"), beside(&moved, "-wal")).unwrap();
    for opening in ways() {
        let mut store = CaseStore::open_as(&address(&left), None, &opening).unwrap();
        assert_eq!(store.counts().unwrap().alerts, 10);
    }
}

/// What the file holds is shown, and that there was more is said.
#[test]
fn a_history_whose_log_is_damaged_is_not_read_as_one_without_a_log() {
    let home = tempfile::tempdir().unwrap();
    let (open, left) = (home.path().join("open"), home.path().join("left"));
    let mut history = History::open(&open, Limits::default()).unwrap();
    history.record(&plausible_host(2)).unwrap();
    (0..100).for_each(|second| history.record(&plausible_window(second, 2)).unwrap());
    history.commit().unwrap();
    killed(&open, &left);
    drop(history);
    let windows = |view: &View| view.windows(i64::MIN..i64::MAX, Resolution::Second).unwrap().rows.len();
    assert_eq!(windows(&View::open(&left).unwrap()), 100);
    let log = fs::read(beside(&left, "-wal")).unwrap();
    let garbage: Vec<u8> = (0..5_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let without_header = [&[0; 32], &log[32..]].concat();
    for (what, log) in [("garbage", &garbage), ("no header", &without_header)] {
        fs::write(beside(&left, "-wal"), log).unwrap();
        let before = files(home.path());
        let is_told = View::open(&left).map_or(true, |view| view.unread_log().is_some());
        assert!(is_told, "{what}: it is read as if it had no log");
        assert!(files(home.path()) == before, "{what}: something was changed");
    }
}

/// A flipped bit in the middle: SQLite reads the log up to there and deletes it. Who reads is told, and who writes keeps it.
#[test]
fn a_history_whose_log_is_damaged_in_the_middle_says_so_and_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    let (open, left) = (home.path().join("open"), home.path().join("left"));
    let mut history = History::open(&open, Limits::default()).unwrap();
    history.record(&plausible_host(2)).unwrap();
    for second in 0..60 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.commit().unwrap();
    }
    killed(&open, &left);
    drop(history);
    assert_eq!(View::open(&left).unwrap().log_damage(), None);
    let mut log = fs::read(beside(&left, "-wal")).unwrap();
    let middle = log.len() / 3;
    log[middle] ^= 1;
    fs::write(beside(&left, "-wal"), &log).unwrap();
    let view = View::open(&left).unwrap();
    let told = view.log_damage().unwrap().to_owned();
    assert!(told.contains("left-wal is damaged at frame") && told.contains("cannot be read"), "{told}");
    drop(view);
    drop(History::open(&left, Limits::default()).unwrap());
    let kept = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.to_str().unwrap().contains("left-wal.damaged-")).collect();
    assert!(kept.len() == 1 && fs::read(&kept[0]).unwrap() == log, "{kept:?}");
}

#[test]
fn a_store_that_its_owner_may_not_write_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let left = ten_commits(home.path());
    for mode in [0o000, 0o400] {
        fs::set_permissions(&left, fs::Permissions::from_mode(mode)).unwrap();
        for opening in [Opening::existing(), Opening::create()] {
            let before = fs::read(beside(&left, "-shm")).unwrap();
            CaseStore::open_as(&address(&left), None, &opening).map(drop).unwrap_err();
            assert!(fs::read(beside(&left, "-shm")).unwrap() == before, "the index was changed");
        }
    }
}
