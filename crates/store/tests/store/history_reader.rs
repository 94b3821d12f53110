//! Reading a history that another process writes, wrote, or left behind; the reader leaves nothing behind.

use crate::any_event::{plausible_host, plausible_window, realtime_ns};
use crate::child;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use surefoot_store::history::{History, Limits, Resolution, View};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;

fn open(path: &Path) -> History {
    History::open(path, Limits::default()).unwrap()
}

fn write(history: &mut History, seconds: std::ops::Range<u64>) {
    history.record(&plausible_host(1)).unwrap();
    for second in seconds {
        history.record(&plausible_window(second, 1)).unwrap();
    }
    history.commit().unwrap();
}

/// Every file of a directory with what it holds.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

fn seconds(view: &View) -> usize {
    view.windows(ALL, Resolution::Second).unwrap().len()
}

#[test]
fn a_reader_leaves_a_history_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let path = directory.path().join("a history?.db#1");
    write(&mut open(&path), 0..100);
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let before = content(directory.path());
    for path in [&path, &link] {
        let view = View::open(path).unwrap();
        assert_eq!(seconds(&view), 100);
        assert_eq!(view.kept_range(Resolution::Second).unwrap(), Some(realtime_ns(0)..realtime_ns(100)));
        assert!(!view.has_changed());
    }
    assert!(content(directory.path()) == before, "the reader changed something");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn a_reader_follows_a_writer_and_notices_one_that_comes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut history = open(&path);
    write(&mut history, 0..50);
    let early = View::open(&path).unwrap();
    assert_eq!(seconds(&early), 50);
    write(&mut history, 50..60);
    assert_eq!(seconds(&early), 60, "the reader does not see what was committed after it began");
    assert!(!early.has_changed());
    drop((early, history));

    let view = View::open(&path).unwrap();
    assert!(!view.has_changed());
    let mut history = open(&path);
    write(&mut history, 60..70);
    assert!(view.has_changed());
    assert_eq!(seconds(&View::open(&path).unwrap()), 70);
}

/// What a writer that died left in its log is there for the reader, who does not fold it into the file.
#[test]
fn a_reader_sees_what_a_dead_writer_left_in_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let left = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let copy = left.path().join("history.db");
    let mut history = open(&path);
    write(&mut history, 0..50);
    fs::copy(&path, &copy).unwrap();
    fs::copy(directory.path().join("history.db-wal"), left.path().join("history.db-wal")).unwrap();
    let before = fs::read(&copy).unwrap();
    assert_eq!(seconds(&View::open(&copy).unwrap()), 50);
    assert!(fs::read(&copy).unwrap() == before, "the reader changed the file");
}

#[test]
fn each_second_is_read_once_by_the_minute() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    write(&mut open(&path), 0..200);
    let view = View::open(&path).unwrap();
    let (mut wall_ns, mut lengths) = (0, BTreeMap::new());
    let unknown_count = view
        .for_each_minute(ALL, |window| {
            wall_ns += window.cores[0].wall_ns;
            *lengths.entry((window.end_ns - window.start_ns) / 1_000_000_000).or_insert(0) += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((wall_ns, unknown_count), (200_000_000_000, 0));
    // 1,790,000,000 s is 20 s before the end of a minute of the clock: a part of a minute, three whole ones, the rest.
    let minutes = view.windows(ALL, Resolution::Minute).unwrap().len();
    assert_eq!(lengths.get(&60), Some(&minutes));
    assert!(lengths[&1] < 60, "{lengths:?}");
}

#[test]
fn what_is_no_history_is_refused_by_a_reader_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("empty.db"), "").unwrap();
    fs::write(at("text.db"), "a text that is longer than the header of a database ".repeat(90)).unwrap();
    rusqlite::Connection::open(at("foreign.db")).unwrap().execute_batch("CREATE TABLE precious (x TEXT)").unwrap();
    for (name, sql) in [
        ("newer.db", "PRAGMA user_version = 9"),
        ("zero.db", "PRAGMA user_version = 0"),
        ("lacking.db", "DROP TABLE finding"),
    ] {
        write(&mut open(&at(name)), 0..5);
        rusqlite::Connection::open(at(name)).unwrap().execute_batch(sql).unwrap();
    }
    let whole = fs::read(at("newer.db")).unwrap();
    fs::write(at("cut.db"), &whole[..whole.len() / 2]).unwrap();
    fs::write(at("short.db"), &whole[..300]).unwrap();
    let before = content(directory.path());
    for (name, word) in [
        ("missing.db", "cannot be opened"),
        ("empty.db", "it is empty"),
        ("text.db", "no SQLite database"),
        ("foreign.db", "the database of another program"),
        ("newer.db", "schema version 9, this program knows up to 5"),
        ("zero.db", "its schema version is 0"),
        ("lacking.db", "no such table: finding"),
        ("cut.db", "damaged"),
        ("short.db", "only 300 bytes"),
        (".", "a directory"),
    ] {
        let error = View::open(at(name)).map(|_| ()).expect_err(name).to_string();
        assert!(error.contains(word) && error.contains(name), "{name}: {error}");
    }
    assert!(content(directory.path()) == before, "a refused file was changed, or another was made beside it");
}

/// Makes the directory of the file read-only.
const READ_ONLY: &str = "d=\"$(dirname \"$SUREFOOT_TEST_FILE\")\" && mount --bind \"$d\" \"$d\" \
     && mount -o remount,bind,ro \"$d\" && exec \"$@\"";

#[test]
#[ignore = "runs in a child process that sees its directory read-only"]
fn child_that_reads_where_nothing_can_be_written() {
    let path = child::file();
    assert!(fs::write(path.with_file_name("probe"), "").is_err(), "the directory can be written");
    assert_eq!(seconds(&View::open(&path).unwrap()), 50);
    // Its newest content is in the log that a writer left.
    assert_eq!(seconds(&View::open(path.with_file_name("left.db")).unwrap()), 50);
    println!("\n{}", child::DONE);
}

#[test]
fn a_history_on_a_read_only_file_system_is_read_with_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut history = open(&path);
    write(&mut history, 0..50);
    fs::copy(&path, directory.path().join("left.db")).unwrap();
    fs::copy(directory.path().join("history.db-wal"), directory.path().join("left.db-wal")).unwrap();
    drop(history);
    child::run_with_mount(READ_ONLY, "history_reader::child_that_reads_where_nothing_can_be_written", &path);
}
