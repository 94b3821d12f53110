//! Tests of the journal of deeds.

#![allow(clippy::unwrap_used)]
use super::locked::Journal;
use super::read::{BACK_NS, CLOCK_IS_SET_NS, clock_ns};
use super::*;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use surefoot_model::{Actor, DeedAction, DeedOutcome, DeedReason, DeedTarget, Room, Subject, SubjectKind};
use surefoot_testkit::durable::{calls_of, is_synced_after};

fn deed(at_realtime_ns: u64) -> Deed {
    Deed {
        at_realtime_ns,
        begun_realtime_ns: at_realtime_ns,
        room: Room::Nic,
        subject: Subject::new(SubjectKind::Interface, "eth0"),
        actor: Actor::Command { uid: 0 },
        action: DeedAction::LinkCycle,
        target: DeedTarget::Subject,
        reason: DeedReason::Seen { evidence: vec!["its send queue is stuck".into()] },
        outcome: DeedOutcome::Begun,
    }
}

fn host(home: &tempfile::TempDir) -> Record {
    Record::OfHost(home.path().to_owned())
}

fn times(read: &Read) -> Vec<u64> {
    read.deeds.iter().map(|deed| deed.at_realtime_ns).collect()
}

#[test]
#[ignore = "runs in a child process under strace"]
fn child_records_two_deeds_and_begins_a_new_file() {
    let root = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
    let record = Record::OfHost(root.clone());
    record.append(&deed(1)).unwrap();
    record.append(&deed(2)).unwrap();
    let full = fs::OpenOptions::new().write(true).open(below(&root, FILE)).unwrap();
    full.set_len(LIMITS.file_bytes).unwrap();
    record.append(&deed(3)).unwrap();
}

#[test]
fn a_new_journal_s_name_is_on_the_medium_before_its_first_line() {
    let test = "deeds::tests::a_new_journal_s_name_is_on_the_medium_before_its_first_line";
    let child = "deeds::tests::child_records_two_deeds_and_begins_a_new_file";
    let home = tempfile::tempdir().unwrap();
    let Some(calls) = calls_of(test, child, home.path()) else { return };
    let path = below(home.path(), FILE);
    let is_line = |call: &str| call.contains("write(") && call.contains(&format!("<{}>", path.display()));
    let lines: Vec<usize> = (0..calls.len()).filter(|&at| is_line(&calls[at])).collect();
    assert_eq!(lines.len(), 3, "{calls:#?}");
    let is_made = |call: &str| call.contains("openat(") && call.contains("O_CREAT") && call.contains("deeds.jsonl");
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(home.path())) {
        assert!(is_synced_after(&calls[..lines[0]], is_made, folder), "{}: {calls:#?}", folder.display());
    }
    let is_renamed = |call: &str| call.contains("rename(");
    assert!(is_synced_after(&calls[..lines[2]], is_renamed, path.parent().unwrap()), "{calls:#?}");
    // A journal that has lines has its name.
    let between = &calls[lines[0]..lines[1]];
    assert!(!between.iter().any(|call| call.contains("fsync(")), "{between:#?}");
}

#[test]
fn what_was_written_is_read_in_the_next_run_and_torn_lines_take_no_other_with_them() {
    let home = tempfile::tempdir().unwrap();
    assert!(host(&home).look().unwrap().deeds.is_empty());
    let at = |number| CLOCK_IS_SET_NS + number;
    host(&home).append(&deed(at(1))).unwrap();
    let path = below(home.path(), FILE);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_realtime_ns\":2,").unwrap();
    host(&home).append(&deed(at(3))).unwrap();
    let read = host(&home).look().unwrap();
    assert_eq!((times(&read), read.skipped_count), (vec![at(1), at(3)], 1));
    assert_eq!(read.deeds[0], deed(at(1)));
    // The torn line is before the line of 3.
    assert_eq!([2, 3, 4].map(|since| read.unread_since(at(since))), [1, 1, 0]);
}

/// As many lines of one deed as leave room for less than one more.
fn full(at_realtime_ns: u64) -> Vec<u8> {
    let line = [&serde_json::to_vec(&deed(at_realtime_ns)).unwrap()[..], b"\n"].concat();
    line.repeat(usize::try_from(LIMITS.file_bytes).unwrap() / line.len())
}

fn put(path: &Path, bytes: &[u8]) {
    make_folder(path).unwrap();
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_full_journal_becomes_the_older_one_and_both_are_read() {
    let home = tempfile::tempdir().unwrap();
    let (path, bytes) = (below(home.path(), FILE), full(1));
    put(&path, &bytes);
    host(&home).append(&deed(2)).unwrap();
    assert_eq!(fs::read(below(home.path(), OLDER)).unwrap().len(), bytes.len());
    assert_eq!(times(&look(&path).unwrap()), [2]);
    host(&home).append(&deed(3)).unwrap();
    let found = times(&host(&home).look().unwrap());
    assert_eq!((found[0], &found[found.len() - 3..]), (1, &[1, 2, 3][..]));
    // A file that a command named is the user's: it is not renamed.
    let own = home.path().join("own");
    put(&own, &bytes);
    let refused = Record::File(own).append(&deed(2)).unwrap_err().to_string();
    assert!(refused.ends_with("the journal has reached its size limit; move it away first"), "{refused}");
}

#[test]
fn a_decision_sees_every_deed_of_the_last_hour_however_long_those_after_it_are() {
    let home = tempfile::tempdir().unwrap();
    let now_ns = clock_ns();
    host(&home).append(&deed(now_ns - 20)).unwrap();
    for at in 1..=20 {
        let reason = DeedReason::Seen { evidence: vec!["x".repeat(60_000)] };
        host(&home).append(&Deed { reason, ..deed(now_ns - 20 + at) }).unwrap();
    }
    let decide = |read: &Read| {
        assert_eq!((read.deeds.len(), read.deeds[0].at_realtime_ns), (21, now_ns - 20));
        None
    };
    assert_eq!(host(&home).decide(decide).unwrap(), None);
}

#[test]
fn what_lies_beyond_what_is_read_counts_as_unread() {
    let home = tempfile::tempdir().unwrap();
    let now_ns = clock_ns();
    let path = home.path().join("own");
    let bytes = full(now_ns);
    put(&path, &[&bytes[..], &bytes[..]].concat());
    assert_eq!(look(&path).unwrap().unread_since(now_ns - 1), 1);
    // Unless the part that was read reaches back further.
    put(&path, &[full(now_ns - 2 * BACK_NS), bytes].concat());
    assert_eq!(look(&path).unwrap().unread_since(now_ns - BACK_NS / 2), 1);
    let old = full(now_ns - 2 * BACK_NS);
    put(&path, &[&old[..], &old[..]].concat());
    assert_eq!(look(&path).unwrap().unread_since(now_ns - BACK_NS / 2), 0);
}

#[test]
fn a_clock_that_was_set_back_makes_no_unreadable_line_an_old_one() {
    let now_ns = clock_ns();
    let since_ns = now_ns - 3_600_000_000_000;
    let unread = |deeds: &[u64], place: usize| {
        let deeds = deeds.iter().map(|at| deed(*at)).collect();
        Read { deeds, skipped_count: 1, places: vec![place] }.unread_since(since_ns)
    };
    assert_eq!(unread(&[since_ns - 1, now_ns], 0), 0, "it stands before a deed of long ago");
    assert_eq!(unread(&[now_ns], 0), 1);
    assert_eq!(unread(&[1_000, now_ns], 0), 1, "a clock that was not set");
    assert_eq!(unread(&[now_ns - 2, since_ns - 1, now_ns], 1), 1, "a clock that went back");
    assert_eq!(unread(&[since_ns - 2, since_ns - 1, now_ns], 1), 0);
    let ahead_ns = now_ns + 10 * BACK_NS;
    assert_eq!(unread(&[ahead_ns, since_ns - 1, now_ns], 1), 0, "a clock that was ahead once ages it all the same");
}

#[test]
fn a_line_without_end_counts_as_unread_once_nobody_writes_it() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    fs::OpenOptions::new().append(true).open(below(home.path(), FILE)).unwrap().write_all(b"{\"at_").unwrap();
    assert_eq!(host(&home).look().unwrap().skipped_count, 0, "it may still be being written");
    let mut skipped = Vec::new();
    for at in 2..4 {
        let decide = |read: &Read| {
            skipped.push((read.skipped_count, read.unread_since(1)));
            Some(deed(at))
        };
        assert_eq!(host(&home).decide(decide).unwrap(), Some(deed(at)));
    }
    assert_eq!(skipped, [(1, 1), (1, 1)]);
}

#[test]
fn who_may_only_read_the_hosts_journal_cannot_lock_it() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let path = below(home.path(), FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    host(&home).append(&deed(2)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_folder_where_others_may_make_files_is_refused() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let folder = below(home.path(), FILE).parent().unwrap().to_owned();
    for mode in [0o777, 0o770, 0o1777] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let refused = host(&home).append(&deed(2)).unwrap_err().to_string();
        assert!(refused.contains("other users can create files in"), "{mode:o}: {refused}");
        let named = Record::File(folder.join(format!("named-{mode:o}"))).append(&deed(2));
        assert_eq!(named.is_ok(), mode == 0o1777, "{mode:o}: {named:?}");
    }
}

#[test]
fn one_that_waits_while_the_journal_is_rotated_writes_to_the_new_one() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let of = host(&home);
    let first = of.locked(PATIENCE).unwrap();
    let record = host(&home);
    let (sender, begun) = std::sync::mpsc::channel();
    let second = std::thread::spawn(move || {
        sender.send(()).unwrap();
        record.append(&deed(2))
    });
    begun.recv().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
    drop(first);
    second.join().unwrap().unwrap();
    assert_eq!(times(&look(&below(home.path(), FILE)).unwrap()), [2]);
}

#[test]
fn a_journal_that_is_rotated_while_it_is_read_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let rotations = std::cell::Cell::new(1);
    let rotate = || {
        if rotations.get() > 0 {
            rotations.set(rotations.get() - 1);
            fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
            host(&home).append(&deed(2)).unwrap();
        }
    };
    assert_eq!(times(&host(&home).look_while(rotate).unwrap()), [1, 2]);
    rotations.set(usize::MAX);
    let refused = host(&home).look_while(rotate).unwrap_err().to_string();
    assert!(refused.contains("rotated each time"), "{refused}");
}

/// Both would decide by what the other does not know: two steps where the limit is one.
#[test]
fn nobody_decides_between_another_s_decision_and_its_line_in_a_new_journal() {
    let home = tempfile::tempdir().unwrap();
    put(&below(home.path(), FILE), &full(1));
    let (first, mut rotating) = (host(&home), None);
    // The first has decided, and renamed the full journal; it does not hold the new one yet.
    let journal = first.locked(PATIENCE).unwrap();
    fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
    rotating.replace(journal);
    let second = host(&home);
    let decided = std::thread::spawn(move || {
        let mut seen = 0;
        let decide = |read: &Read| {
            seen = read.deeds.iter().filter(|deed| deed.at_realtime_ns == 2).count();
            None
        };
        second.decide(decide).unwrap();
        seen
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut journal = rotating.take().unwrap();
    let opened = first.opened(&journal.path).unwrap();
    journal = Journal::locked(&first, &opened, journal.path.clone(), PATIENCE).unwrap();
    journal.write(&deed(2)).unwrap();
    drop(journal);
    assert_eq!(decided.join().unwrap(), 1, "it waits for the line of the first");
}

#[test]
fn the_journal_is_free_while_somebody_acts_alone() {
    let home = tempfile::tempdir().unwrap();
    let first = host(&home).alone().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let refused = host(&home).alone_within(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(refused.contains("another surefoot process has held it"), "{refused}");
    drop(first);
    host(&home).alone().unwrap();
}

#[test]
fn steps_of_earlier_releases_are_read_as_deeds() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(9)).unwrap();
    let step = |at: u64, kind: &str, target: &str, outcome: &str, detail: &str| {
        format!(
            "{{\"at_realtime_ns\":{at},\"interface\":\"eth0\",\"kind\":\"{kind}\",\"target\":\"{target}\",\
             \"reason\":\"a; b\",\"outcome\":\"{outcome}\",\"detail\":\"{detail}\"}}\n"
        )
    };
    let text = [
        step(1, "reporter_recover", "pci/0 tx", "failed", "no"),
        step(2, "link_cycle", "eth0", "begun", ""),
        step(2, "link_cycle", "eth0", "planets", ""),
        step(3, "function_reset", "pci/0", "withheld", "in use"),
    ];
    fs::write(below(home.path(), before::FILE), text.concat()).unwrap();
    let read = host(&home).look().unwrap();
    assert_eq!((times(&read), read.skipped_count), (vec![1, 2, 3, 9], 1));
    assert_eq!(read.deeds[0].outcome, DeedOutcome::Failed { error: "no".into() });
    assert_eq!(read.deeds[0].target, DeedTarget::Part { name: "pci/0 tx".into() });
    assert_eq!((&read.deeds[1].target, &read.deeds[1].outcome), (&DeedTarget::Subject, &DeedOutcome::Begun));
    assert_eq!(read.deeds[2].outcome.detail(), "in use");
}

#[test]
fn a_journal_that_is_no_file_or_that_others_may_write_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let said = |error: Unusable| error.to_string();
    assert!(Record::File(home.path().to_owned()).append(&deed(1)).is_err(), "a folder");
    host(&home).append(&deed(1)).unwrap();
    let path = below(home.path(), FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("other users may write"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(host(&home).append(&deed(2)).is_err(), "no link is followed");
    fs::remove_file(&path).unwrap();
    fs::write(home.path().join("precious"), "").unwrap();
    fs::hard_link(home.path().join("precious"), &path).unwrap();
    assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("another name"));
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("not a regular file"));
    assert!(said(host(&home).look().unwrap_err()).contains("not a regular file"));
}

#[test]
fn another_process_that_holds_the_journal_is_waited_for_and_then_told() {
    let home = tempfile::tempdir().unwrap();
    host(&home).append(&deed(1)).unwrap();
    let of = host(&home);
    let _first = of.locked(PATIENCE).unwrap();
    let other = Record::File(of.path());
    let refused = other.locked(Duration::from_millis(50)).map(drop).unwrap_err().to_string();
    assert!(refused.ends_with("another surefoot process holds the journal"), "{refused}");
}
