//! What becomes of the files of a store of cases that is damaged, lost, or being made.

use crate::cases::alert;
use crate::child;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use surefoot_store::Error;
use surefoot_store::cases::{Address, CaseStore, Opening};
use surefoot_store::history::{History, Limits, View};
use surefoot_testkit::not_run::not_run;

pub fn address(path: &Path) -> Address {
    format!("sqlite:{}", path.display()).parse().unwrap()
}

/// All files of a folder. The index of a log is built anew whenever it is needed.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Copies what is open now, as a process leaves it that is killed.
pub fn killed(path: &Path, to: &Path) {
    for ending in ["", "-wal", "-shm"] {
        fs::copy(format!("{}{ending}", path.display()), format!("{}{ending}", to.display())).unwrap();
    }
}

/// A store as a killed controller leaves it: of its 300 alerts most are in the log alone.
fn left_by_a_killed_controller(folder: &Path) -> PathBuf {
    let (path, left) = (folder.join("open.db"), folder.join("left.db"));
    let mut store = CaseStore::open(&address(&path), None).unwrap();
    let alerts = |from: u64| (from..from + 150).map(|key| alert("a", &format!("k{key}"), 5, true)).collect::<Vec<_>>();
    store.take(&alerts(0)).unwrap();
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    store.take(&alerts(150)).unwrap();
    killed(&path, &left);
    left
}

/// Cuts, blanks or replaces something of the files of a store.
type Damage = dyn Fn(&Path);

fn cut(length: u64) -> Box<Damage> {
    Box::new(move |path| File::options().write(true).open(path).unwrap().set_len(length).unwrap())
}

fn blank(ending: &'static str, range: std::ops::Range<usize>) -> Box<Damage> {
    Box::new(move |path| {
        let path = format!("{}{ending}", path.display());
        let mut bytes = fs::read(&path).unwrap();
        bytes[range.clone()].fill(0);
        fs::write(&path, bytes).unwrap();
    })
}

/// SQLite folds a log into a file that it has just refused, and deletes it beside one that is empty.
#[test]
fn a_store_that_is_refused_is_left_as_it_is_and_so_is_its_log() {
    let home = tempfile::tempdir().unwrap();
    let left = left_by_a_killed_controller(home.path());
    let length = fs::metadata(&left).unwrap().len();
    assert!(length > 90_000, "{length}");
    let cuts = [50, 100, 511, 512, 4_096, 5_000, 60_000];
    let mut cases: Vec<(String, Box<Damage>, &str)> =
        cuts.iter().map(|&length| (format!("cut to {length}"), cut(length), "is damaged (")).collect();
    cases.push(("no log, a page less".into(), cut(length - 4_096), "is damaged ("));
    cases.push(("no log, a byte less".into(), cut(length - 1), "is damaged ("));
    cases.push(("empty".into(), cut(0), "the file is empty: any cases"));
    cases.push(("no tree of tables".into(), blank("", 100..4_096), "is damaged ("));
    cases.push(("no cells".into(), blank("", 103..105), "is damaged ("));
    cases.push(("no header".into(), blank("", 0..100), "not a store of cases (it is no SQLite database)"));
    cases.push(("another program's".into(), blank("", 68..72), "not a store of cases (it is the database of another"));
    let cut_and_stray: Box<Damage> = Box::new(|path| {
        blank("-wal", 0..32)(path);
        cut(60_000)(path);
    });
    cases.push((
        "the header of its log, and a page".into(),
        cut_and_stray,
        "its log (-wal) is none: it does not begin as",
    ));
    let rollback = |path: &Path| {
        let other = path.with_file_name("other");
        let open = Connection::open(&other).unwrap();
        open.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(90000))").unwrap();
        // Pages that do not fit the cache go to the file before the transaction ends, and the journal is synced before that.
        open.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE t SET x = randomblob(90000)").unwrap();
        fs::copy(other.with_file_name("other-journal"), format!("{}-journal", path.display())).unwrap();
        drop(open);
        fs::remove_file(other).unwrap();
    };
    cases.push((
        "another's rollback journal".into(),
        Box::new(rollback),
        "a rollback journal (-journal) lies beside it",
    ));
    for (what, damage, word) in cases {
        for opening in [Opening::existing(), Opening::create()] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            killed(&left, &path);
            // A page of the list of tables that is in the log is whole.
            if what.starts_with("no ") || what.starts_with("another program") {
                fs::remove_file(home.path().join("cases.db-wal")).unwrap();
            }
            damage(&path);
            let before = files(home.path());
            let refused = CaseStore::open_as(&address(&path), None, &opening).unwrap_err().to_string();
            assert!(refused.contains(word) && refused.contains(path.to_str().unwrap()), "{what}: {refused}");
            assert!(!refused.contains("history"), "{what}: {refused}");
            if !word.starts_with("not a store") {
                is_told_to_keep_all(&refused, &path);
            }
            assert!(files(home.path()) == before, "{what}: something was changed");
        }
    }
}

fn is_told_to_keep_all(told: &str, path: &Path) {
    let path = path.display();
    let away = format!(
        "Stop all controllers of the store. Move {path}, {path}-wal and {path}-shm away together and keep them"
    );
    let words = [
        away,
        format!("the newest cases may be in {path}-wal alone"),
        format!("Then copy a backup to {path}, or start `surefoot remedy serve` without one"),
    ];
    assert!(words.iter().all(|words| told.contains(words)), "{told}");
}

/// A database of another program, of pages of this size, that somebody has open: only its log is of interest.
fn log_of_another(page_bytes: u32) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("other");
    let open = Connection::open(&path).unwrap();
    let begin = format!("PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    open.execute_batch(&begin).unwrap();
    fs::read(home.path().join("other-wal")).unwrap()
}

/// The advice to put a backup back, followed without moving the log away: SQLite would read the log into the backup, and once it was
/// noticed that the file is another one the log was deleted, by commands that only read.
#[test]
fn a_log_that_does_not_belong_to_the_file_beside_it_is_refused_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let open = home.path().join("open.db");
    let alerts = |from: u64| (from..from + 150).map(|key| alert("a", &format!("k{key}"), 5, true)).collect::<Vec<_>>();
    let fold = || Connection::open(&open).unwrap().query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    let backup = |name: &str| {
        let to = home.path().join(name);
        Connection::open(&open).unwrap().execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
        to
    };
    let copy = |name: &str| {
        let to = home.path().join(name);
        fs::copy(&open, &to).unwrap();
        to
    };
    let mut store = CaseStore::open(&address(&open), None).unwrap();
    fold();
    let first = copy("first");
    store.take(&alerts(0)).unwrap();
    store.take(&alerts(0)).unwrap();
    fold();
    let base = copy("base");
    store.take(&alerts(150)).unwrap();
    let within = backup("within");
    // Changes of rows alone: the first page is not in the log.
    store.take(&alerts(150)).unwrap();
    let left = home.path().join("left.db");
    killed(&open, &left);
    fold();
    store.take(&alerts(300)).unwrap();
    fold();
    let later = copy("later");
    // A log that has no first page.
    let steady = home.path().join("steady.db");
    store.take(&[alert("a", "k0", 5, true)]).unwrap();
    killed(&open, &steady);
    let before_steady = backup("before steady");
    drop(store);
    let other = home.path().join("other.db");
    CaseStore::open(&address(&other), None).unwrap().take(&alerts(7)).unwrap();
    for (what, log, file) in [
        ("an older backup", &left, &first),
        ("another store", &left, &other),
        ("a newer state", &left, &later),
        ("a backup of within the log, by VACUUM INTO", &left, &within),
        ("a backup by VACUUM INTO, and rows that changed", &steady, &before_steady),
    ] {
        for opening in [Opening::existing(), Opening::create()] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            killed(log, &path);
            fs::copy(file, &path).unwrap();
            let before = files(home.path());
            let refused = CaseStore::open_as(&address(&path), None, &opening).map(|_| ()).expect_err(what).to_string();
            assert!(files(home.path()) == before, "{what}: something was changed");
            assert!(refused.contains("-wal does not belong to it"), "{what}: {refused}");
            is_told_to_keep_all(&refused, &path);
        }
    }
    // Copies of the file itself, page by page.
    for (what, log, file, alerts) in [("the file", &left, &base, 300), ("the file", &steady, &later, 450)] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cases.db");
        killed(log, &path);
        fs::copy(file, &path).unwrap();
        let mut store = CaseStore::open_as(&address(&path), None, &Opening::existing()).unwrap();
        assert_eq!(store.counts().unwrap().alerts, alerts, "{what}");
    }
}

/// The commands of docs/guide/remedy.md, on an intact store and on one with a page that cannot be read.
#[test]
fn what_a_damaged_store_still_holds_can_be_made_a_store() {
    let test = "case_files::what_a_damaged_store_still_holds_can_be_made_a_store";
    if let Err(error) = Command::new("sqlite3").arg("--version").output() {
        return not_run(test, &format!("sqlite3 cannot be run ({error}); install sqlite3"));
    }
    let guide = include_str!("../../../../docs/guide/remedy.md");
    let section = guide.split("### What a damaged store still holds").nth(1).unwrap();
    let commands: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("    sqlite3 ")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    let home = tempfile::tempdir().unwrap();
    let left = left_by_a_killed_controller(home.path());
    let root: u32 = Connection::open(home.path().join("open.db"))
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'remedy_host'", [], |row| row.get(0))
        .unwrap();
    let begin = (root as usize - 1) * 4_096;
    for (what, damage) in [("intact", None), ("damaged", Some(blank("", begin..begin + 200)))] {
        let home = tempfile::tempdir().unwrap();
        killed(&left, &home.path().join("COPY"));
        if let Some(damage) = damage {
            damage(&home.path().join("COPY"));
            fs::remove_file(home.path().join("COPY-shm")).unwrap();
        }
        for command in &commands {
            let ran = Command::new("sh").arg("-c").arg(format!("sqlite3 {command}")).current_dir(home.path()).output();
            let said = String::from_utf8_lossy(&ran.unwrap().stderr).into_owned();
            assert!(said.is_empty() || what == "damaged", "{what}: {command}: {said}");
        }
        let mut store = CaseStore::open_as(&address(&home.path().join("NEW")), None, &Opening::existing()).unwrap();
        assert_eq!(store.counts().unwrap().alerts, 300, "{what}");
    }
}

/// Copies of what a store held are found by their number alone.
#[test]
fn saved_copies_beside_a_store_are_found() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    CaseStore::open(&address(&path), None).unwrap();
    assert_eq!(CaseStore::saved_beside(&address(&path)).unwrap(), [""; 0].map(PathBuf::from));
    for name in
        ["cases.db.saved-2", "cases.db.saved-1", "cases.db.saved-1-wal", "cases.db-wal.saved-1", "cases.db.saved-"]
    {
        fs::write(home.path().join(name), "it").unwrap();
    }
    fs::write(home.path().join("cases.db.saved-3"), "").unwrap();
    let saved = ["cases.db.saved-1", "cases.db.saved-2"].map(|name| home.path().join(name));
    assert_eq!(CaseStore::saved_beside(&address(&path)).unwrap(), saved);
}

/// A file that is no log, beside a store that is whole without it.
#[test]
fn a_stray_log_beside_a_whole_store_is_what_is_to_go() {
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole.db");
    CaseStore::open(&address(&whole), None).unwrap().take(&[alert("a", "k", 5, true)]).unwrap();
    let garbage: Vec<u8> = (0..9_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for (what, log, word) in [
        ("garbage", garbage, "it does not begin as a log does"),
        ("another's", log_of_another(512), "it is of another database: the sizes of their pages differ"),
    ] {
        for opening in [Opening::existing(), Opening::create()] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            fs::copy(&whole, &path).unwrap();
            fs::write(home.path().join("cases.db-wal"), &log).unwrap();
            let before = files(home.path());
            let refused = CaseStore::open_as(&address(&path), None, &opening).unwrap_err().to_string();
            let path = path.display();
            for words in [
                format!("{path}-wal is not a log of this store ({word})"),
                format!("{path} itself looks whole"),
                format!("move {path}-wal and {path}-shm away (keep them"),
            ] {
                assert!(refused.contains(&words), "{what}: {words}\n{refused}");
            }
            assert!(!refused.contains("damaged") && !refused.contains("backup"), "{what}: {refused}");
            assert!(files(home.path()) == before, "{what}: something was changed");
        }
    }
}

/// What a killed controller leaves is read whole, also where it was killed while it folded the log in.
#[test]
fn a_store_whose_log_has_what_its_file_lacks_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let left = left_by_a_killed_controller(home.path());
    let begun = fs::read(&left).unwrap();
    let folded = home.path().join("folded.db");
    killed(&left, &folded);
    Connection::open(&folded).unwrap().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let folded = fs::read(&folded).unwrap();
    assert!(folded.len() > begun.len() + 8 * 4_096, "{} of {}", begun.len(), folded.len());
    let mut begun_folding = begun.clone();
    begun_folding[..8 * 4_096].copy_from_slice(&folded[..8 * 4_096]);
    let half = begun.len() + 3 * 4_096 + 7;
    for bytes in [&begun, &begun_folding, &folded[..half].to_vec(), &folded] {
        for opening in [Opening::existing(), Opening::create()] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            killed(&left, &path);
            fs::write(&path, bytes).unwrap();
            let mut store = CaseStore::open_as(&address(&path), None, &opening).unwrap();
            assert_eq!(store.counts().unwrap().alerts, 300, "{} bytes", bytes.len());
        }
    }
}

/// Damage that only reading a page shows: the log stays apart from the file.
#[test]
fn the_log_of_a_store_that_turns_out_to_be_damaged_is_not_folded_in() {
    let home = tempfile::tempdir().unwrap();
    let left = left_by_a_killed_controller(home.path());
    let length = fs::metadata(&left).unwrap().len() as usize;
    // Behind the list of tables, which is read when the store is opened.
    let new = home.path().join("new.db");
    CaseStore::open(&address(&new), None).unwrap();
    blank("", fs::metadata(&new).unwrap().len() as usize..length)(&left);
    let before = files(home.path());
    let mut store = CaseStore::open_as(&address(&left), None, &Opening::existing()).unwrap();
    let refused = (0..300).find_map(|key| store.take(&[alert("a", &format!("k{key}"), 5, true)]).err());
    let refused = refused.expect("no page that was blanked is read").to_string();
    drop(store);
    assert!(refused.contains("is damaged ("), "{refused}");
    let log = home.path().join("left.db-wal");
    for path in [&left, &log] {
        assert!(fs::read(path).is_ok_and(|bytes| bytes == before[path]), "{}: it was changed", path.display());
    }
}

/// A store whose tables are gone, and a database that never had any, hold no cases, and whoever asks is told the same.
#[test]
fn a_file_without_tables_is_no_new_store() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x); DROP TABLE t").unwrap();
    let before = files(home.path());
    let [first, second] = [Opening::existing(), Opening::create()]
        .map(|opening| CaseStore::open_as(&address(&path), None, &opening).unwrap_err().to_string());
    assert!(first == second && first.contains("the file has no tables"), "{first}\n{second}");
    assert!(files(home.path()) == before);
    // One of ours that lost its tables to others.
    let open = Connection::open(&path).unwrap();
    open.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 0x53464341").unwrap();
    drop(open);
    for opening in [Opening::existing(), Opening::create()] {
        let refused = CaseStore::open_as(&address(&path), None, &opening).unwrap_err();
        assert!(matches!(refused, Error::CasesDamaged { .. }), "{refused}");
    }
}

/// Whoever looks at a store that is gone, and whoever would begin it, are told the same.
#[test]
fn a_lost_store_is_told_in_the_same_words_to_all() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let saved = home.path().join("cases.db.saved-1796000000");
    let asked =
        || [Opening::existing(), Opening::create()].map(|opening| CaseStore::open_as(&address(&path), None, &opening));
    fs::write(&saved, "what was in it").unwrap();
    let [first, second] = asked().map(|asked| asked.unwrap_err().to_string());
    assert!(first == second && first.contains("cases.db.saved-1796000000 holds what was in it"), "{first}\n{second}");
    // Nothing is in an empty one, and in a folder.
    fs::write(&saved, "").unwrap();
    fs::create_dir(home.path().join("cases.db.saved-1796000001")).unwrap();
    let [first, second] = asked();
    let first = first.unwrap_err().to_string();
    assert!(first.contains("there is no such file; `surefoot remedy serve --store` makes a new one"), "{first}");
    assert_eq!(second.unwrap().counts().unwrap().alerts, 0);
}

#[test]
#[ignore = "runs in a child process that is killed"]
fn child_that_makes_a_store() {
    CaseStore::open(&address(&child::file()), None).unwrap();
    println!("{}", child::DONE);
}

/// Kills the process that makes a store at each of its calls that change a file.
#[test]
fn a_process_that_is_killed_while_it_makes_a_store_leaves_a_whole_one_or_none() {
    let test = "case_files::a_process_that_is_killed_while_it_makes_a_store_leaves_a_whole_one_or_none";
    let mut kills = 0;
    for call in ["pwrite64", "write", "fsync", "fdatasync", "rename,renameat,renameat2", "ftruncate", "unlink,unlinkat"]
    {
        for place in 1..=60 {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("cases.db");
            let (traced, killed) = (format!("trace={call}"), format!("inject={call}:signal=SIGKILL:when={place}"));
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &killed];
            let ran = match child::command(&strace, "case_files::child_that_makes_a_store", &path).output() {
                Ok(ran) => ran,
                Err(error) => return not_run(test, &format!("strace cannot be run ({error}); install strace")),
            };
            let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            if said.contains("PTRACE") {
                return not_run(test, &format!("no process can be traced here: {}", said.trim()));
            }
            let is_over = said.contains(child::DONE);
            kills += u32::from(!is_over);
            // Who only looks finds a store, or none.
            match CaseStore::open_as(&address(&path), None, &Opening::existing()) {
                Ok(mut store) => assert_eq!(store.counts().unwrap().alerts, 0),
                Err(Error::NoStore { why, .. }) if why.contains("there is no such file;") => {}
                Err(error) => panic!("killed at {call} {place}: {error}"),
            }
            let mut store = CaseStore::open(&address(&path), None)
                .unwrap_or_else(|error| panic!("killed at {call} {place}: {error}"));
            assert_eq!(store.take(&[alert("a", "k", 5, true)]).unwrap(), 1);
            drop(store);
            let left: Vec<_> = files(home.path()).into_keys().collect();
            assert_eq!(left, [path], "killed at {call} {place}");
            if is_over {
                break;
            }
        }
    }
    assert!(kills > 5, "it was killed {kills} times");
}

/// What a killed process left beside the store goes with the next one that makes it; what another writes stays.
#[test]
fn only_what_a_process_left_that_is_gone_is_swept() {
    let home = tempfile::tempdir().unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    let dead = gone.id();
    gone.wait().unwrap();
    let [left, own, other] =
        [format!("cases.db.{dead}.0"), format!("cases.db.{}.7", std::process::id()), "cases.db.x".into()]
            .map(|name| home.path().join(name));
    [&left, &own, &other].iter().for_each(|path| fs::write(path, "begun").unwrap());
    CaseStore::open(&address(&home.path().join("cases.db")), None).unwrap();
    assert_eq!([&left, &own, &other].map(|path| path.exists()), [false, true, true]);
}

#[test]
fn those_who_make_one_store_at_the_same_time_all_use_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    let all = Barrier::new(6);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (all, path) = (&all, &path);
            scope.spawn(move || {
                all.wait();
                let mut store = CaseStore::open(&address(path), None);
                let taken = store.as_mut().map(|store| store.take(&[alert("a", &format!("k{number}"), 5, true)]));
                all.wait();
                assert!(matches!(taken, Ok(Ok(_))), "{taken:?}");
            });
        }
    });
    assert_eq!(CaseStore::open(&address(&path), None).unwrap().counts().unwrap().alerts, 6);
    assert_eq!(files(home.path()).into_keys().collect::<Vec<_>>(), [path]);
}

/// A backup, or a person with `sqlite3`, holds the lock: reading waits for nobody, and who writes is told who may have it.
#[test]
fn a_store_that_another_program_has_locked_is_read_and_who_writes_is_told_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    CaseStore::open(&address(&path), None).unwrap().take(&[alert("a", "k", 5, true)]).unwrap();
    let locking = Connection::open(&path).unwrap();
    locking.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = CaseStore::open_as(&address(&path), None, &Opening::existing()).unwrap();
    assert_eq!(store.counts().unwrap().alerts, 1);
    let refused = store.take(&[alert("b", "k", 5, true)]).unwrap_err().to_string();
    assert!(refused.contains("another program holds its lock") && refused.contains("stop that program"), "{refused}");
    locking.execute_batch("ROLLBACK").unwrap();
    store.take(&[alert("b", "k", 5, true)]).unwrap();
}

/// Who only reads a history has the file without what does not belong to it.
#[test]
fn a_history_beside_a_log_that_is_not_its_own_is_read_without_and_that_is_said() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("history");
    drop(History::open(&path, Limits::default()).unwrap());
    let is_said = || View::open(&path).unwrap().unread_log().map(str::to_owned);
    assert_eq!(is_said(), None);
    for (log, word) in
        [(vec![7; 9_000], "it does not begin as a log does"), (log_of_another(512), "sizes of their pages")]
    {
        fs::write(home.path().join("history-wal"), log).unwrap();
        let before = files(home.path());
        let said = is_said().unwrap_or_default();
        assert!(said.contains("history-wal does not belong to") && said.contains(word), "{said}");
        assert!(files(home.path()) == before);
    }
}

/// The history is opened for writing in the same way.
#[test]
fn a_history_that_is_refused_is_left_as_it_is_and_so_is_its_log() {
    let home = tempfile::tempdir().unwrap();
    let (open, left) = (home.path().join("open"), home.path().join("left"));
    let history = History::open(&open, Limits::default()).unwrap();
    let first = home.path().join("first");
    let fold = || Connection::open(&open).unwrap().query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    fold();
    fs::copy(&open, &first).unwrap();
    let written = "INSERT INTO state VALUES ('written', 5) ON CONFLICT (name) DO UPDATE SET value = value + 5";
    Connection::open(&open).unwrap().execute_batch(written).unwrap();
    fold();
    let change = "UPDATE state SET value = value + 1 WHERE name = 'written'; CREATE TABLE more (x); DROP TABLE more";
    Connection::open(&open).unwrap().execute_batch(change).unwrap();
    killed(&open, &left);
    drop(history);
    assert!(fs::metadata(home.path().join("left-wal")).unwrap().len() > 4_096);
    let gone: Box<Damage> = Box::new(|path| fs::remove_file(path).unwrap());
    let foreign: Box<Damage> = Box::new(|path| {
        fs::remove_file(format!("{}-wal", path.display())).unwrap();
        blank("", 68..72)(path);
    });
    let garbage: Box<Damage> = Box::new(blank("-wal", 0..32));
    let earlier: Box<Damage> = Box::new(move |path| assert!(fs::copy(&first, path).unwrap() > 0));
    let cases = [
        ("empty", cut(0)),
        ("cut", cut(4_096)),
        ("cut more", cut(5_000)),
        ("gone", gone),
        ("foreign", foreign),
        ("no log", garbage),
        ("an older backup", earlier),
    ];
    for (what, damage) in cases {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("history");
        killed(&left, &path);
        damage(&path);
        let before = files(home.path());
        let refused = History::open(&path, Limits::default()).unwrap_err();
        let is_of_log = matches!(refused, Error::LogOfAnother { .. } | Error::LogStray { .. });
        assert!(is_of_log || matches!(refused, Error::Corrupt { .. } | Error::NotAHistory { .. }), "{what}: {refused}");
        assert_eq!(is_of_log, ["no log", "an older backup"].contains(&what), "{what}: {refused}");
        let mut after = files(home.path());
        // The lock of the one who writes.
        after.remove(&home.path().join("history.lock"));
        assert!(after == before, "{what}: something was changed");
    }
    History::open(&left, Limits::default()).unwrap();
}
