//! Histories of earlier releases: a file of each, written by that release, and what it must still say.

use crate::any_event::{SECOND_NS, plausible_gap, plausible_host, plausible_window, realtime_ns};
use crate::child;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use surefoot_model::{
    Cause, CauseKind, CoreLedger, CpuId, Event, Finding, Gap, Lost, Notice, Room, Severity, SourceReport, SourceState,
    Subject, Verdict,
};
use surefoot_store::Error;
use surefoot_store::history::{GapFilter, History, HistoryWindow, Limits, Resolution, SCHEMA_VERSION, View};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store/fixtures").join(name)
}

/// A copy of the file that this version of the schema left behind; the number of another version panics.
fn copy_of(version: i64, directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("history.db");
    fs::copy(fixture(&format!("history-v{version}.db")), &path).expect("each earlier version has its fixture");
    path
}

const SECOND: (&str, Resolution) = ("second", Resolution::Second);
const MINUTE: (&str, Resolution) = ("minute", Resolution::Minute);

/// All that a history holds, a line each; windows of these resolutions.
fn text_of(view: &View, resolutions: &[(&str, Resolution)]) -> String {
    let mut text = String::new();
    for (since_ns, host) in view.hosts().unwrap() {
        writeln!(text, "host {since_ns} {}", serde_json::to_string(&host).unwrap()).unwrap();
    }
    for (name, resolution) in resolutions {
        for HistoryWindow { start_ns, end_ns, cores, faulty } in view.windows(ALL, *resolution).unwrap() {
            assert!(cores.iter().all(CoreLedger::sums_up) && faulty.is_empty());
            writeln!(text, "{name} {start_ns} {end_ns}").unwrap();
            for CoreLedger { cpu, wall_ns, idle_ns, user_ns, kernel_ns, lost, unexplained_ns, waiting } in cores {
                write!(text, "  {cpu} {wall_ns} {idle_ns} {user_ns} {kernel_ns} {unexplained_ns}").unwrap();
                for Lost { cause, count, total_ns, max_ns, while_idle_ns, .. } in lost {
                    write!(text, " [{} {} {count} {total_ns} {max_ns} {while_idle_ns}]", cause.kind, cause.name)
                        .unwrap();
                }
                if let Some(waiting) = waiting {
                    write!(text, " waited {}", serde_json::to_string(&waiting).unwrap()).unwrap();
                }
                text.push('\n');
            }
        }
    }
    for gap in view.gaps(&GapFilter::default()).unwrap() {
        writeln!(text, "gap {} {}", gap.start_ns, serde_json::to_string(&gap.gap).unwrap()).unwrap();
    }
    for (at_ns, notice) in view.notices(ALL).unwrap() {
        writeln!(text, "notice {at_ns} {notice}").unwrap();
    }
    for finding in view.findings(ALL).unwrap() {
        writeln!(text, "finding {}", serde_json::to_string(&finding).unwrap()).unwrap();
    }
    for record in view.records(ALL, None).unwrap() {
        writeln!(text, "record {}", serde_json::to_string(&record).unwrap()).unwrap();
    }
    text
}

fn compare(name: &str, found: &str) {
    let golden = fixture(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, found).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}, line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}: length");
}

#[test]
fn a_history_of_every_earlier_version_opens_and_goes_on() {
    for version in 1..SCHEMA_VERSION {
        let directory = tempfile::tempdir().unwrap();
        let path = copy_of(version, &directory);
        let before = fs::read(&path).unwrap();
        compare(&format!("history-v{version}.txt"), &text_of(&View::open(&path).unwrap(), &[SECOND, MINUTE]));
        assert!(fs::read(&path).unwrap() == before, "version {version}: reading it changed it");

        let mut history = History::open(&path, Limits::default()).unwrap();
        compare(&format!("history-v{version}.txt"), &text_of(&history.open_view().unwrap(), &[SECOND, MINUTE]));
        history.record(&plausible_host(2)).unwrap();
        for second in 100..150 {
            history.record(&plausible_window(second, 2)).unwrap();
        }
        let source = SourceReport {
            at_ns: 110 * SECOND_NS,
            source: "checkpoint".into(),
            state: SourceState::Failed,
            why: "/ckpt: permission denied".into(),
        };
        history.record(&Event::Source(source)).unwrap();
        let finding = Finding::new(Room::Stall, "lost-time", Subject::host(), Severity::Warning, "It is lost.");
        history.record_findings(realtime_ns(105), &[finding.with_evidence(vec!["a line".into()])]).unwrap();
        history.record_findings(realtime_ns(115), &[]).unwrap();
        drop(history);
        compare(&format!("history-v{version}-continued.txt"), &text_of(&View::open(&path).unwrap(), &[MINUTE]));
    }
}

/// The second of two tables that a step lays is there already, as in a file that somebody else changed.
#[test]
fn a_step_that_fails_halfway_leaves_the_earlier_version_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy_of(1, &directory);
    let change = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    change("CREATE TABLE record (x TEXT)");
    let error = History::open(&path, Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Sqlite { .. }) && error.to_string().contains("laying its tables"), "{error}");
    let asked = rusqlite::Connection::open(&path).unwrap();
    let version: i64 = asked.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 1);
    assert!(asked.prepare("SELECT * FROM finding").is_err(), "half of the step stayed");
    drop(asked);
    change("DROP TABLE record");
    History::open(&path, Limits::default()).unwrap();
    compare("history-v1.txt", &text_of(&View::open(&path).unwrap(), &[SECOND, MINUTE]));
}

/// Version 1 wrote `host_unaccounted` for this verdict.
#[test]
fn gaps_of_a_verdict_that_was_renamed_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let view = View::open(copy_of(1, &directory)).unwrap();
    let verdict = Verdict::HypervisorUnaccounted;
    let found = view.gaps(&GapFilter { verdict: Some(verdict), ..GapFilter::default() }).unwrap();
    let all = view.gaps(&GapFilter::default()).unwrap();
    assert!(all.len() > found.len() && !found.is_empty(), "{} of {}", found.len(), all.len());
    assert!(found.iter().all(|kept| kept.gap.verdict == verdict));
}

#[test]
fn a_damaged_history_of_an_earlier_version_is_not_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy_of(1, &directory);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 64].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(History::open(&path, Limits::default()), Err(Error::Corrupt { .. })));
    assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
}

/// A host, 100 windows of two cores, eight gaps, three notices, and a second boot.
fn stream_of_version_1() -> Vec<Event> {
    let mut events = vec![plausible_host(2)];
    for second in 0..100 {
        let mut event = plausible_window(second, 2);
        if let Event::Window(window) = &mut event
            && second % 20 == 7
        {
            // A longest cause that most windows lack, taken from the time of tasks so that the parts add up.
            let thread =
                Lost::new(Cause::new(CauseKind::KernelThread, "kworker/1:2"), 3, 4_000_000 + second, 2_000_000);
            window.cores[1].user_ns -= thread.total_ns;
            window.cores[1].lost.insert(0, thread);
        }
        events.push(event);
        if second % 13 == 5
            && let Event::Gap(gap) = plausible_gap(second, 150_000 + second * 1_000)
        {
            let verdict = if second % 2 == 0 { Verdict::SmiLike } else { Verdict::HypervisorUnaccounted };
            events.push(Event::Gap(Gap { cpu: CpuId((second % 2) as u32), verdict, ..gap }));
        }
        if second % 40 == 10 {
            let text = format!("core {} went offline", second / 40);
            events.push(Event::Notice(Notice { at_ns: second * SECOND_NS + 5, text }));
        }
        if second == 60
            && let Event::Host(host) = plausible_host(2)
        {
            events.push(Event::Host(surefoot_model::HostDescription { kernel: "6.12.1".into(), ..host }));
        }
    }
    events
}

/// Writes a file of the version that this tree has; to be kept before the schema changes:
/// `SUREFOOT_TEST_FILE=FILE cargo test -p surefoot-store writes_a_file_of_this_version -- --ignored`
#[test]
#[ignore = "makes a fixture"]
fn writes_a_file_of_this_version() {
    write(&child::file());
}

fn write(path: &Path) {
    let mut history = History::open(path, Limits::default()).unwrap();
    for event in stream_of_version_1() {
        history.record(&event).unwrap();
    }
    // What version 2 brought.
    let why = "/sys/devices/system/edac: permission denied".to_owned();
    let source = "memory".to_owned();
    let report = SourceReport { at_ns: 90 * SECOND_NS, source, state: SourceState::Failed, why };
    history.record(&Event::Source(report)).unwrap();
    let finding = Finding::new(Room::Watch, "source", Subject::host(), Severity::Notice, "A source fails.");
    history.record_findings(realtime_ns(90), &[finding.with_evidence(vec!["a line".into()])]).unwrap();
    history.record_findings(realtime_ns(95), &[]).unwrap();
    history.commit().unwrap();
}
