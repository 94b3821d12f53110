//! Files that are no good histories, and histories that are in use.

use crate::any_event::{plausible_gap, plausible_host, plausible_window};
use crate::child;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_store::Error;
use surefoot_store::cases::CaseStore;
use surefoot_store::history::{GapFilter, History, Limits, Resolution, View};
use surefoot_testkit::not_run::not_run;

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;

fn open(path: &Path) -> surefoot_store::Result<History> {
    History::open(path, Limits::default())
}

/// A closed history with a hundred windows.
fn filled(path: &Path) {
    let mut history = open(path).unwrap();
    history.record(&plausible_host(2)).unwrap();
    for second in 0..100 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.record(&plausible_gap(second, 1_000 + second)).unwrap();
    }
    history.commit().unwrap();
}

#[test]
fn a_history_is_private_to_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let mut history = open(&path).unwrap();
    history.record(&plausible_host(2)).unwrap();
    history.record(&plausible_window(0, 2)).unwrap();
    history.commit().unwrap();
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert!(files.len() >= 3, "the log is missing");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[test]
fn what_is_no_history_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let foreign = directory.path().join("foreign.sqlite");
    let sql = "CREATE TABLE precious (thing TEXT); INSERT INTO precious VALUES ('x');";
    rusqlite::Connection::open(&foreign).unwrap().execute_batch(sql).unwrap();
    let newer = directory.path().join("newer.sqlite");
    filled(&newer);
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 9).unwrap();
    fs::write(&path, "a text of more than a hundred bytes, which is as long as the header of a database ".repeat(9))
        .unwrap();

    for (file, word) in [
        (&path, "no SQLite database"),
        (&foreign, "the database of another program"),
        (&newer, "schema version 9, this program knows up to 5"),
    ] {
        let before = fs::read(file).unwrap();
        let error = open(file).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(file.to_str().unwrap()), "{error}");
        assert!(fs::read(file).unwrap() == before, "{error}: the file was changed");
    }
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("a directory"), "{error}");
    let nowhere = directory.path().join("no/such/place/history.sqlite");
    assert!(matches!(open(&nowhere), Err(Error::Open { .. })));
}

/// Everything that can be asked of a history.
fn ask_everything(history: &History) -> surefoot_store::Result<()> {
    let view = history.open_view()?;
    view.windows(ALL, Resolution::Second)?;
    view.windows(ALL, Resolution::Minute)?;
    view.gaps(&GapFilter::default())?;
    view.notices(ALL)?;
    view.hosts()?;
    Ok(())
}

/// Ruins one page after the other. Left behind by a process that died, the history is refused at once and not changed;
/// closed in order, it says so when it meets the page.
#[test]
fn a_damaged_history_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let damaged = directory.path().join("damaged.sqlite");
    let lock = directory.path().join("damaged.sqlite.lock");
    filled(&path);
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    let (mut refused, mut found_in_use) = (0, 0);
    for page in 0..pages {
        let mut bytes = whole.clone();
        // The first page keeps the header that makes it a database.
        let start = page * 4096 + if page == 0 { 100 } else { 0 };
        bytes[start..start + 64].fill(0xa5);
        fs::write(&damaged, &bytes).unwrap();
        fs::write(&lock, "4000000\n").unwrap();
        if let Err(error) = open(&damaged) {
            assert!(matches!(error, Error::Corrupt { .. }), "page {page}: {error}");
            assert!(fs::read(&damaged).unwrap() == bytes, "page {page}: the file was changed");
            refused += 1;
        }
        fs::write(&lock, "").unwrap();
        if let Err(error) = open(&damaged).and_then(|history| ask_everything(&history)) {
            assert!(matches!(error, Error::Corrupt { .. }), "page {page}: {error}");
            found_in_use += 1;
        }
    }
    // A page may be free or belong to an index that no question needs.
    assert!(refused > pages * 9 / 10, "only {refused} of {pages} damaged pages were found");
    assert!(found_in_use > pages / 2, "only {found_in_use} of {pages} damaged pages were met");
    for length in [1, 50, 100, 511, 512, 4096, whole.len() / 2, whole.len() - 4096] {
        fs::write(&damaged, &whole[..length]).unwrap();
        fs::write(&lock, "").unwrap();
        let error = open(&damaged).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. } | Error::NotAHistory { .. }), "cut at {length}: {error}");
        assert!(fs::read(&damaged).unwrap() == whole[..length], "cut at {length}: the file was changed");
    }
}

#[test]
#[ignore = "runs in a child process that is killed"]
fn child_that_holds_a_history() {
    let _history = open(&child::file()).unwrap();
    println!("\nHOLDING");
    // Ends with its parent at the latest, however that ends.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_second_process_is_told_who_has_the_history_and_a_dead_one_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let link = directory.path().join("link.sqlite");
    filled(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut holder = child::command(&[], "history_files::child_that_holds_a_history", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "HOLDING"), "the child has no history");
    let refused = [&path, &link].map(|path| open(path).err());
    holder.kill().unwrap();
    holder.wait().unwrap();
    for error in refused {
        let error = error.expect("opened twice").to_string();
        assert!(error.contains(&format!("process {}", holder.id())), "{error}");
    }
    let history = open(&path).unwrap();
    assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len(), 100);
}

#[test]
fn a_lock_file_with_rubbish_in_it_does_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let lock = directory.path().join("history.sqlite.lock");
    fs::write(&lock, [0xff; 100]).unwrap();
    let first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::InUse { pid: Some(_), .. })));
    drop(first);
    assert_eq!(fs::metadata(&lock).unwrap().len(), 0, "a history that was closed in order is left in doubt");
    open(&path).unwrap();
}

#[test]
#[ignore = "runs in a child process that is killed"]
fn child_that_writes_until_it_is_killed() {
    let mut history = open(&child::file()).unwrap();
    history.record(&plausible_host(4)).unwrap();
    println!();
    for second in 0.. {
        history.record(&plausible_window(second, 4)).unwrap();
        history.commit().unwrap();
        println!("COMMITTED {second}");
    }
}

/// Kills the writer at ten different moments; what it said was committed is there, whole, each time.
#[test]
fn what_was_committed_survives_a_sudden_death() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = directory.path().join(format!("history{round}.sqlite"));
        let mut writer = child::command(&[], "history_files::child_that_writes_until_it_is_killed", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut committed = 0u64;
        for line in lines {
            let Ok(line) = line else { break };
            let Some(second) = line.strip_prefix("COMMITTED ").and_then(|number| number.parse().ok()) else { continue };
            committed = second;
            if committed == 20 + round * 37 {
                writer.kill().unwrap();
            }
        }
        writer.wait().unwrap();
        assert!(committed >= 20, "the child wrote nothing");

        let mut history = open(&path).unwrap();
        let windows = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap();
        // One more may have been committed than the child could say.
        assert!((committed + 1..=committed + 2).contains(&(windows.len() as u64)), "{} {committed}", windows.len());
        assert!(windows.iter().all(|window| window.cores.len() == 4));
        history.record(&plausible_host(4)).unwrap();
        history.record(&plausible_window(10_000, 4)).unwrap();
        history.commit().unwrap();
        let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
        let wall_ns: u64 = minutes.iter().map(|minute| minute.cores[0].wall_ns).sum();
        assert_eq!(wall_ns, windows.len() as u64 * 1_000_000_000, "minutes lost or doubled seconds");
    }
}

#[test]
fn another_program_can_read_the_tables() {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        not_run("another_program_can_read_the_tables", "sqlite3 is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    filled(&path);
    let query = "SELECT kind, name, sum(total_ns) FROM span JOIN lost ON span = span.id JOIN cause ON cause = cause.id
                 WHERE resolution_s = 1 AND kind = 'tlb_shootdown' GROUP BY cause.id";
    let output = Command::new("sqlite3").arg(&path).arg(query).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "tlb_shootdown|flush_tlb_func|8000000");
}

#[test]
fn a_file_of_another_user_and_a_link_of_his_are_no_history_to_write_into() {
    use std::os::unix::fs::{chown, lchown, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (own, his, link) = (folder.path().join("own.db"), folder.path().join("his.db"), folder.path().join("link.db"));
    drop(History::open(&own, Limits::default()).unwrap());
    drop(History::open(&his, Limits::default()).unwrap());
    symlink(&own, &link).unwrap();
    drop(History::open(&link, Limits::default()).unwrap());
    if chown(&his, Some(65_534), None).and_then(|()| lchown(&link, Some(65_534), None)).is_err() {
        return surefoot_testkit::not_run::not_run(
            "a_file_of_another_user_and_a_link_of_his_are_no_history_to_write_into",
            "only root gives files to others",
        );
    }
    for path in [&his, &link] {
        let error = History::open(path, Limits::default()).err().unwrap().to_string();
        assert!(error.contains("belongs to user 65534"), "{error}");
    }
    drop(History::open(&own, Limits::default()).unwrap());
}

/// The kernel drops the locks of a process on a file when it closes any descriptor of it. Without its lock another program
/// takes the log for one that nobody uses and deletes it, with everything that is written from then on.
#[test]
fn a_second_look_at_an_open_database_leaves_sqlite_its_locks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    filled(&path);
    let history = open(&path).unwrap();
    assert!(locks_on(&path) > 0, "SQLite holds a lock while the history is open");
    History::check(&path).unwrap();
    assert!(locks_on(&path) > 0, "after a check");
    View::open(&path).unwrap();
    assert!(locks_on(&path) > 0, "after a reader");
    let cases = directory.path().join("cases.sqlite");
    let address = format!("sqlite:{}", cases.display()).parse().unwrap();
    let first = CaseStore::open(&address, None).unwrap();
    assert!(locks_on(&cases) > 0, "SQLite holds a lock while the cases are open");
    CaseStore::open(&address, None).unwrap();
    assert!(locks_on(&cases) > 0, "after a second connection");
    drop((first, history));
}

/// POSIX locks of this process on a file.
fn locks_on(path: &Path) -> usize {
    let (inode, pid) = (fs::metadata(path).unwrap().ino().to_string(), std::process::id().to_string());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let is_own = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"POSIX")
            && words.get(4) == Some(&pid.as_str())
            && words.get(5).is_some_and(|file| file.rsplit(':').next() == Some(&inode))
    };
    locks.lines().filter(is_own).count()
}

/// A backup that is put back under a watch that runs, by a copy over it or by a rename, and a file that is emptied: what was there since
/// is lost and counted, and nothing of it is mixed into what was put back.
#[test]
fn a_history_that_was_overwritten_under_its_writer_is_told_and_what_was_put_back_stays_as_it_is() {
    type Spoil = fn(&Path, &Path);
    let spoils: [(Spoil, bool); 4] = [
        (|backup, path| assert!(fs::copy(backup, path).unwrap() > 0), true),
        (|backup, path| fs::rename(backup, path).unwrap(), true),
        (|_, path| fs::write(path, "").unwrap(), false),
        (|_, path| fs::File::options().write(true).open(path).unwrap().set_len(4096).unwrap(), false),
    ];
    for (number, (spoil, is_restored)) in spoils.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let [path, backup, kept] = ["history.sqlite", "backup", "kept"].map(|name| directory.path().join(name));
        filled(&path);
        fs::copy(&path, &backup).unwrap();
        fs::copy(&path, &kept).unwrap();
        let saved = fs::read(&backup).unwrap();
        let mut history = open(&path).unwrap();
        history.record(&plausible_host(2)).unwrap();
        // Into the log, and some of it into the database.
        for second in 200.. {
            history.record(&plausible_window(second, 2)).unwrap();
            history.commit().unwrap();
            // Before that a copy of the backup changes nothing.
            if second > 260 && fs::read(&path).unwrap() != saved {
                break;
            }
        }
        history.record(&plausible_window(9_000, 2)).unwrap();
        // Within one tick of the kernel's clock a file keeps its time of writing.
        std::thread::sleep(std::time::Duration::from_millis(20));
        spoil(&backup, &path);
        let said = history.commit().unwrap_err();
        assert!(matches!(&said, Error::Gone { what } if what.contains("history.sqlite")), "{number}: {said}");
        assert_eq!(history.dropped().windows, 1, "{number}");
        assert!(matches!(history.commit(), Err(Error::Gone { .. })), "{number}: it stays so");
        drop(history);
        if !is_restored {
            // What is left is no history, or an empty file; the log of the former one is not read into it.
            assert!(!path.with_file_name("history.sqlite-wal").exists(), "{number}");
            continue;
        }
        assert!(fs::read(&path).unwrap() == saved, "{number}: what was put back was written to");
        let mut anew = open(&path).unwrap();
        let rows =
            |history: &History| history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().rows.len();
        let before = rows(&open(&kept).unwrap());
        assert_eq!(rows(&anew), before, "{number}: what was put back is not alone");
        anew.record(&plausible_host(2)).unwrap();
        anew.record(&plausible_window(400, 2)).unwrap();
        anew.commit().unwrap();
        assert_eq!(rows(&anew), before + 1, "{number}: only what came after is added");
    }
}

/// A backup program that sets back the times of what it read, or `touch`: the log holds what was committed, and stays.
#[test]
fn a_history_that_is_only_touched_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let mut history = open(&path).unwrap();
    history.record(&plausible_host(2)).unwrap();
    for second in 0..50 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.commit().unwrap();
        let touched = Command::new("touch").arg("-d").arg(format!("2020-01-01 00:00:{second:02}")).arg(&path).status();
        assert!(touched.unwrap().success());
    }
    history.commit().unwrap();
    assert_eq!(history.dropped().windows, 0);
    drop(history);
    assert_eq!(open(&path).unwrap().open_view().unwrap().windows(ALL, Resolution::Second).unwrap().rows.len(), 50);
}

/// SQLite writes on to a file without a name, and all of that is gone with the process.
#[test]
fn a_history_that_was_deleted_or_replaced_under_its_writer_takes_nothing_more_and_says_how_much_it_lost() {
    type Spoil = fn(&Path);
    let spoils: [Spoil; 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        },
        |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
    ];
    for spoil in spoils {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("surefoot");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("history.sqlite");
        filled(&path);
        let mut history = open(&path).unwrap();
        history.record(&plausible_host(2)).unwrap();
        history.commit().unwrap();
        spoil(&path);
        // Nothing waits, and it is noticed all the same.
        assert!(matches!(history.commit(), Err(Error::Gone { .. })));
        history.record(&plausible_window(200, 2)).unwrap();
        history.record(&plausible_gap(200, 5_000)).unwrap();
        let said = history.commit().unwrap_err();
        assert!(matches!(&said, Error::Gone { what } if what.contains("history.sqlite")), "{said}");
        let dropped = history.dropped();
        assert_eq!((dropped.windows, dropped.gaps), (1, 1), "{dropped:?}");
        drop(history);
        fs::create_dir_all(&folder).unwrap();
        let mut anew = open(&path).unwrap();
        anew.record(&plausible_host(2)).unwrap();
        anew.record(&plausible_window(300, 2)).unwrap();
        anew.commit().unwrap();
        assert!(!anew.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().rows.is_empty());
    }
}
