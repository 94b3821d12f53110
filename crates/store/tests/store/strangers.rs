//! Databases that another user made: nothing is created, changed or run for them.

use crate::any_event::{plausible_host, plausible_window};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_store::Error;
use surefoot_store::history::{History, Limits, Resolution, View};
use surefoot_store::rasdaemon::for_each_row;
use surefoot_testkit::not_run::not_run;
use tempfile::TempDir;

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;
const NOBODY: u32 = 65_534;

fn is_root(test: &str) -> bool {
    let is = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is {
        not_run(test, "only root can give files to another user");
    }
    is
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Every file of a directory with its owner, mode and content.
fn content(directory: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let one = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).unwrap();
        let bytes = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        (path, (found.uid(), found.mode(), bytes))
    };
    fs::read_dir(directory).unwrap().map(|entry| one(entry.unwrap().path())).collect()
}

/// A history whose newest half is in its log alone, as it lies while it is being written, in a directory of `nobody`.
fn history_of_nobody() -> (TempDir, PathBuf) {
    let (own, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = own.path().join("h.db");
    let write = |history: &mut History, seconds: std::ops::Range<u64>| {
        history.record(&plausible_host(1)).unwrap();
        seconds.for_each(|second| history.record(&plausible_window(second, 1)).unwrap());
        history.commit().unwrap();
    };
    let mut history = History::open(&path, Limits::default()).unwrap();
    write(&mut history, 0..30);
    drop(history);
    let mut history = History::open(&path, Limits::default()).unwrap();
    write(&mut history, 30..50);
    for ending in ["", "-wal"] {
        let to = theirs.path().join(format!("h.db{ending}"));
        fs::copy(own.path().join(format!("h.db{ending}")), &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        give(&to);
    }
    give(theirs.path());
    fs::set_permissions(theirs.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = theirs.path().join("h.db");
    (theirs, path)
}

#[test]
fn reading_a_database_of_another_user_creates_nothing_and_sees_its_log() {
    if !is_root("store::strangers::reading_a_database_of_another_user_creates_nothing_and_sees_its_log") {
        return;
    }
    let (theirs, path) = history_of_nobody();
    let before = content(theirs.path());
    assert_eq!(View::open(&path).unwrap().windows(ALL, Resolution::Second).unwrap().len(), 50);
    // What rasdaemon's reader makes of it does not matter; that it leaves everything as it is does.
    assert!(matches!(for_each_row(&path, |_| std::ops::ControlFlow::Continue(())), Err(Error::Foreign { .. })));
    assert!(content(theirs.path()) == before, "reading changed the directory");
}

#[test]
fn a_log_that_is_a_link_or_of_a_third_user_is_not_read() {
    if !is_root("store::strangers::a_log_that_is_a_link_or_of_a_third_user_is_not_read") {
        return;
    }
    let (theirs, path) = history_of_nobody();
    let log = theirs.path().join("h.db-wal");
    chown(&log, Some(4_242), Some(4_242)).unwrap();
    let refused = |what: &str| {
        let why = View::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains("h.db-wal") && why.contains(what), "{why}");
    };
    refused("belongs to user 4242");
    let moved = theirs.path().join("moved");
    fs::rename(&log, &moved).unwrap();
    symlink(&moved, &log).unwrap();
    refused("h.db-wal");
    fs::remove_file(&log).unwrap();
    assert_eq!(View::open(&path).unwrap().windows(ALL, Resolution::Second).unwrap().len(), 30);
}

#[test]
fn no_history_is_written_where_others_can_put_files() {
    if !is_root("store::strangers::no_history_is_written_where_others_can_put_files") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let below = home.path().join("below");
    fs::create_dir(&below).unwrap();
    let refused = |mode: u32, owner: u32| {
        chown(home.path(), Some(owner), Some(owner)).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        for path in [home.path().join("h.db"), below.join("h.db")] {
            // In a directory of root's below one of another user everything may be exchanged; below /tmp it may not.
            if mode == 0o1777 && path.parent() == Some(&below) {
                continue;
            }
            let error = History::open(&path, Limits::default()).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::OfOthers { .. }), "{mode:o} {owner}: {error}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "something was created");
        assert_eq!(fs::read_dir(&below).unwrap().count(), 0, "something was created");
    };
    refused(0o755, NOBODY);
    refused(0o777, 0);
    refused(0o1777, 0);
    // Root's group has other members too.
    refused(0o775, 0);
    refused(0o2770, 0);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    drop(History::open(below.join("h.db"), Limits::default()).unwrap());
}

/// Whoever owns `-shm` ends its reader by cutting it (SIGBUS), and whoever owns `-wal` reads what is written.
#[test]
fn no_history_is_opened_whose_companions_another_user_can_write() {
    if !is_root("store::strangers::no_history_is_opened_whose_companions_another_user_can_write") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("h.db");
    let mut history = History::open(&path, Limits::default()).unwrap();
    history.record(&plausible_host(1)).unwrap();
    drop(history);
    for ending in ["", "-wal", "-shm", "-journal"] {
        let beside = PathBuf::from(format!("{}{ending}", path.display()));
        for (owner, mode) in [(NOBODY, 0o644), (0, 0o620), (0, 0o602)] {
            if ending.is_empty() && owner == NOBODY {
                continue;
            }
            if !ending.is_empty() {
                fs::write(&beside, "").unwrap();
            }
            fs::set_permissions(&beside, fs::Permissions::from_mode(mode)).unwrap();
            chown(&beside, Some(owner), Some(0)).unwrap();
            let error = History::open(&path, Limits::default()).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::OfOthers { .. }), "{ending} {owner} {mode:o}: {error}");
            assert!(error.to_string().contains(&format!("h.db{ending} ")), "{error}");
            if ending.is_empty() {
                fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
            } else {
                assert_eq!(fs::read(&beside).unwrap(), b"", "something was written");
                fs::remove_file(&beside).unwrap();
            }
        }
    }
    drop(History::open(&path, Limits::default()).unwrap());
}

/// A history in the directory of this user that nobody here has written, changed by a line of SQL.
fn sent(directory: &TempDir, name: &str, sql: &str) -> PathBuf {
    let (made, path) = (directory.path().join("made.db"), directory.path().join(name));
    let mut history = History::open(&made, Limits::default()).unwrap();
    history.record(&plausible_host(1)).unwrap();
    (0..10).for_each(|second| history.record(&plausible_window(second, 1)).unwrap());
    drop(history);
    fs::copy(&made, &path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

#[test]
fn a_history_that_would_run_what_its_author_wrote_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for (name, sql, word) in [
        (
            "view",
            format!(
                "DROP TABLE notice; CREATE VIEW notice AS {ENDLESS} SELECT i AS id, i AS at_ns, 'x' AS text FROM n"
            ),
            "\"notice\": it is a view, not a table",
        ),
        (
            "computed",
            "DROP TABLE notice; CREATE TABLE notice (id INTEGER PRIMARY KEY, at_ns INTEGER, \
             text TEXT AS (hex(zeroblob(500000000))))"
                .into(),
            "\"notice\": it has computed columns",
        ),
        ("another view", format!("CREATE VIEW v AS {ENDLESS} SELECT i FROM n"), "\"v\": no history has this view"),
        (
            "trigger",
            "CREATE TRIGGER t BEFORE INSERT ON notice BEGIN SELECT 1; END".into(),
            "\"t\": no history has this trigger",
        ),
        ("table", "CREATE TABLE more (x)".into(), "\"more\": no history has this table"),
        (
            "shared page",
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = \
             (SELECT rootpage FROM sqlite_schema WHERE name = 'span') WHERE name = 'notice'"
                .into(),
            "2nd reference to page",
        ),
    ] {
        let path = sent(&directory, &format!("{name}.db"), &sql);
        let begun = Instant::now();
        let why = View::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains(word), "{name}: {why}");
        assert!(begun.elapsed() < Duration::from_secs(50), "{name} came near the deadline");
    }
    assert!(View::open(sent(&directory, "good.db", "SELECT 1")).is_ok());
}

/// As an enormous notice: a small file whose rows take gigabytes.
#[test]
fn a_value_that_is_longer_than_any_of_ours_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path =
        sent(&directory, "long.db", "INSERT INTO notice (at_ns, text) VALUES (1, CAST(zeroblob(30000000) AS TEXT))");
    let read = View::open(&path).and_then(|view| view.notices(ALL));
    assert!(read.is_err(), "{:?}", read.map(|notices| notices.len()));
}
