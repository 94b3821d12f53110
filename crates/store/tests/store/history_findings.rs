//! Findings that come and go, records, and what bounds them.

use crate::any_event::{self, OFFSET_NS, SECOND_NS, plausible_gap, plausible_host, plausible_window, realtime_ns};
use crate::child;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use surefoot_model::{
    Actor, Certainty, CheckState, CheckpointEvent, Decided, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget,
    Event, Finding, HostCheck, JournalEntry, JournalEvent, Notice, Room, Severity, SourceReport, SourceState, Subject,
    SubjectKind,
};
use surefoot_store::Error;
use surefoot_store::history::{GapFilter, History, KeptFinding, Limits, Resolution, View};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;

fn open(path: &Path) -> History {
    History::open(path, Limits::default()).unwrap()
}

fn finding(rule: &str, severity: Severity, sentence: &str) -> Finding {
    let subject = Subject::new(SubjectKind::Core, "3");
    Finding::new(Room::Stall, rule, subject, severity, sentence).with_evidence(vec![format!("evidence of {rule}")])
}

/// Sentence, severity, from and until in seconds of the plausible host.
fn kept(history: &History) -> Vec<(String, Severity, i64, Option<i64>)> {
    let second = |at_ns: i64| (at_ns - OFFSET_NS) / SECOND_NS as i64;
    let row = |kept: KeptFinding| {
        let (from, until) = (second(kept.from_realtime_ns), kept.until_realtime_ns.map(second));
        (kept.finding.sentence, kept.finding.severity, from, until)
    };
    history.open_view().unwrap().findings(ALL).unwrap().into_iter().map(row).collect()
}

#[test]
fn findings_come_change_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory.path().join("history.db"));
    let lost = |severity| finding("lost", severity, "Time is lost.");
    let quiet = finding("quiet", Severity::Ok, "All is well.");
    history.record_findings(realtime_ns(10), &[quiet.clone(), lost(Severity::Notice)]).unwrap();
    history
        .record_findings(realtime_ns(11), &[lost(Severity::Notice), finding("late", Severity::Warning, "Late.")])
        .unwrap();
    history.record_findings(realtime_ns(20), &[lost(Severity::Critical)]).unwrap();
    history.record_findings(realtime_ns(30), &[quiet]).unwrap();
    history.record_findings(realtime_ns(40), &[lost(Severity::Critical).with_certainty(Certainty::Probable)]).unwrap();
    history.commit().unwrap();
    assert_eq!(
        kept(&history),
        [
            ("Time is lost.".into(), Severity::Notice, 10, Some(20)),
            ("Late.".into(), Severity::Warning, 11, Some(20)),
            ("Time is lost.".into(), Severity::Critical, 20, Some(30)),
            ("Time is lost.".into(), Severity::Critical, 40, None),
        ]
    );
    let found = history.open_view().unwrap().findings(realtime_ns(40)..realtime_ns(41)).unwrap();
    let whole = lost(Severity::Critical).with_certainty(Certainty::Probable);
    assert_eq!(found[0].finding, whole, "a finding comes back as it was");
    let in_range = |from, to| history.open_view().unwrap().findings(realtime_ns(from)..realtime_ns(to)).unwrap().len();
    // A row that holds is in the range for as long as it was seen, and a minute longer.
    assert_eq!([in_range(0, 10), in_range(12, 15), in_range(31, 40), in_range(50, 60)], [0, 2, 0, 1]);
    assert_eq!(in_range(101, 200), 0);
}

/// A rate in the sentence is another number each second; the file has one row and two writings of it.
#[test]
fn a_sentence_whose_numbers_change_is_one_row() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory.path().join("history.db"));
    let mut sentences = Vec::new();
    for second in 0..90 {
        let lost = finding("lost", Severity::Warning, &format!("Core 3 lost {second} ms."));
        history.record_findings(realtime_ns(second), &[lost]).unwrap();
        history.commit().unwrap();
        let found = kept(&history);
        assert_eq!(found.len(), 1);
        if sentences.last() != Some(&found[0].0) {
            sentences.push(found[0].0.clone());
        }
    }
    assert_eq!(sentences, ["Core 3 lost 0 ms.", "Core 3 lost 60 ms."]);
    let last_seen_ns = history.open_view().unwrap().findings(ALL).unwrap()[0].last_seen_realtime_ns;
    assert!(last_seen_ns > realtime_ns(79), "the row does not say that it still holds");
    history.record_findings(realtime_ns(90), &[]).unwrap();
    history.commit().unwrap();
    assert_eq!(kept(&history)[0].0, "Core 3 lost 89 ms.", "a finding that went keeps its last words");
}

#[test]
fn findings_of_a_watch_that_ends_end_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut history = open(&path);
    history.record_findings(realtime_ns(10), &[finding("lost", Severity::Warning, "Lost.")]).unwrap();
    history.record_findings(realtime_ns(13), &[finding("lost", Severity::Warning, "Lost.")]).unwrap();
    drop(history);
    let mut history = open(&path);
    assert_eq!(kept(&history), [("Lost.".into(), Severity::Warning, 10, Some(13))]);
    history.record_findings(realtime_ns(99), &[finding("lost", Severity::Warning, "Lost.")]).unwrap();
    history.commit().unwrap();
    assert_eq!(kept(&history).len(), 2, "the same trouble of the next watch is a row of its own");
}

#[test]
#[ignore = "runs in a child process that is killed"]
fn child_that_is_killed_while_a_finding_holds() {
    let mut history = open(&child::file());
    history.record(&plausible_host(1)).unwrap();
    history.record_findings(realtime_ns(10), &[finding("lost", Severity::Warning, "Lost.")]).unwrap();
    // The board holds until the next one: whatever is recorded later shows that it still does.
    for second in 10..35 {
        history.record(&plausible_window(second, 1)).unwrap();
        history.commit().unwrap();
    }
    println!("\nHOLDING");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn a_finding_that_a_dead_process_left_open_ends_when_it_was_last_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut holder = child::command(&[], "history_findings::child_that_is_killed_while_a_finding_holds", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "HOLDING"), "the child has no history");
    // The time that it was seen last, so that only its writer tells whether it holds.
    let holds = || {
        let view = View::open(&path).unwrap();
        let found = view.findings(ALL).unwrap();
        (view.has_writer(), found[0].holds(view.has_writer(), found[0].last_seen_realtime_ns))
    };
    assert_eq!(holds(), (Some(true), Some(true)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(holds(), (Some(false), None), "who would have written its end is gone");
    let history = open(&path);
    let found = kept(&history);
    assert_eq!((found[0].2, found.len()), (10, 1));
    // Within ten seconds of the last window, which ended at second 35.
    assert!((25..=35).contains(&found[0].3.expect("it still holds")), "{found:?}");
}

#[test]
fn boards_and_findings_are_bounded_and_what_goes_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { findings_max: 20, body_bytes_max: 1_000, ..Limits::default() };
    let mut history = History::open(directory.path().join("history.db"), limits).unwrap();
    let of_core = |core: u32| {
        let subject = Subject::new(SubjectKind::Core, core.to_string());
        Finding::new(Room::Stall, "lost", subject, Severity::Warning, "Lost.")
    };
    let board: Vec<Finding> = (0..700).map(of_core).collect();
    for second in 0..3 {
        history.record_findings(realtime_ns(second), &board).unwrap();
    }
    assert_eq!(history.dropped().findings, 200, "each finding that is left out counts once");
    history.record_findings(realtime_ns(5), &[]).unwrap();
    let long = of_core(9).with_evidence(vec!["x".repeat(600); 9]);
    history.record_findings(realtime_ns(6), &[long]).unwrap();
    let too_long = Finding { key: "k".repeat(5_000), ..of_core(1) };
    history.record_findings(realtime_ns(7), &[too_long]).unwrap();
    assert_eq!(history.dropped().findings, 201);
    history.prune(realtime_ns(8)).unwrap();
    let found = history.open_view().unwrap().findings(ALL).unwrap();
    assert_eq!((found.len(), history.pruned().rows_by_age), (20, 501 - 20));
    let last = &found.last().unwrap().finding;
    assert_eq!(last.evidence.len(), 2);
    assert_eq!(last.evidence[1], "(8 more lines were too long to keep)");
    history.prune(realtime_ns(40 * 86_400)).unwrap();
    assert!(history.open_view().unwrap().findings(ALL).unwrap().is_empty(), "age does not take findings that are over");
}

fn decision(realtime_ns: u64, reason: &str) -> JournalEntry {
    let decided = Decided { place: "ssd".into(), reasons: vec![reason.into()], ..Decided::default() };
    JournalEntry { realtime_ns, lost_count: 0, event: JournalEvent::Decision(Box::new(decided)) }
}

fn journal(job: &str, entries: Vec<JournalEntry>) -> Event {
    Event::Checkpoint(CheckpointEvent::Journal {
        job: job.into(),
        entries,
        left_out_count: 0,
        skipped_count: 0,
        is_another: false,
    })
}

#[test]
fn a_journal_that_is_read_again_is_recorded_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let at = |second| realtime_ns(second) as u64;
    let opened = |is_repeated| JournalEvent::Opened {
        job: "train".into(),
        ranks: 4,
        policy: "endurance".into(),
        shared: String::new(),
        weakness: None,
        is_repeated,
    };
    let not_durable = |tier: &str| JournalEvent::NotDurable { tier: tier.into(), generation: 7, why: "full".into() };
    let mut entries = vec![
        JournalEntry { realtime_ns: at(1), lost_count: 0, event: opened(false) },
        decision(at(2), "cheap"),
        JournalEntry { realtime_ns: at(3), lost_count: 0, event: opened(true) },
        JournalEntry { realtime_ns: at(2), lost_count: 0, event: not_durable("durable") },
        JournalEntry { realtime_ns: at(2), lost_count: 0, event: not_durable("memory") },
    ];
    for _ in 0..2 {
        let mut history = open(&path);
        // A journal has times of day of its own, so that it needs no host before it.
        history.record(&journal("train", entries.clone())).unwrap();
        history.record(&journal("train/2", vec![decision(at(2), "another job")])).unwrap();
        entries.push(decision(at(9), "due"));
    }
    let history = open(&path);
    let records = history.open_view().unwrap().records(ALL, Some(Room::Checkpoint)).unwrap();
    let second = SECOND_NS as i64;
    let shown: Vec<(&str, &str, i64)> = records
        .iter()
        .map(|record| (record.subject.name.as_str(), record.kind.as_str(), record.at_realtime_ns - realtime_ns(0)))
        .collect();
    assert_eq!(
        shown,
        [
            ("train", "opened", second),
            ("train", "decision", 2 * second),
            ("train", "not_durable", 2 * second),
            ("train", "not_durable", 2 * second),
            ("train/2", "decision", 2 * second),
            ("train", "decision", 9 * second),
        ]
    );
    let back: JournalEntry = serde_json::from_value(records[1].body.clone()).unwrap();
    assert_eq!(back, entries[1], "an entry comes back as it was");
    assert!(history.open_view().unwrap().records(ALL, Some(Room::Watch)).unwrap().is_empty());
    assert_eq!(history.open_view().unwrap().records(realtime_ns(2)..realtime_ns(9), None).unwrap().len(), 4);
}

/// Two checks of one run, two ports of one interface, two steps of one remedy: a clock may give both the same time.
#[test]
fn two_things_of_one_time_are_both_kept_and_each_of_them_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let check = |name: &str, sentence: &str| {
        Event::Check(Box::new(HostCheck {
            at_ns: 5,
            at_realtime_ns: realtime_ns(1) as u64,
            name: name.into(),
            state: CheckState::Warning,
            sentence: sentence.into(),
            evidence: Vec::new(),
            since_realtime_ns: realtime_ns(1) as u64,
            is_change: true,
            took_ns: 1,
            processor_ns: 1,
            period_ns: 1,
        }))
    };
    let deed = |action: DeedAction, port: &str| {
        Event::Deed(Box::new(Deed {
            at_realtime_ns: realtime_ns(1) as u64,
            begun_realtime_ns: realtime_ns(1) as u64,
            room: Room::Nic,
            subject: Subject::new(SubjectKind::Interface, "eth0"),
            actor: Actor::Unknown,
            action,
            target: DeedTarget::Part { name: port.into() },
            reason: DeedReason::Asked,
            outcome: DeedOutcome::Failed { error: "no".into() },
        }))
    };
    let (cycle, reset) = (DeedAction::LinkCycle, DeedAction::FunctionReset);
    let happened = [
        check("ntp", "One."),
        check("raid", "One."),
        // A later release words the same thing in another way.
        check("raid", "Two."),
        deed(cycle, "1"),
        deed(cycle, "2"),
        deed(reset, "2"),
    ];
    for _ in 0..3 {
        let mut history = open(&path);
        happened.iter().for_each(|event| history.record(event).unwrap());
        history.commit().unwrap();
    }
    let records = open(&path).open_view().unwrap().records(ALL, None).unwrap();
    let told: Vec<String> = records
        .iter()
        .map(|record| {
            let word = |name: &str| record.body[name].to_string();
            format!("{} {} {}", word("name"), word("action"), record.body["target"]["name"])
        })
        .collect();
    assert_eq!(
        told,
        [
            "\"ntp\" null null",
            "\"raid\" null null",
            "null \"link_cycle\" \"1\"",
            "null \"link_cycle\" \"2\"",
            "null \"function_reset\" \"2\""
        ]
    );
}

#[test]
fn a_source_that_fails_is_recorded_once_its_time_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory.path().join("history.db"));
    let report = SourceReport {
        at_ns: 5 * SECOND_NS,
        source: "memory".into(),
        state: SourceState::Ended,
        why: "no EDAC driver is loaded".into(),
    };
    let event = Event::Source(report);
    assert!(matches!(history.record(&event), Err(Error::NoHostYet { .. })));
    assert_eq!(history.dropped().records, 1);
    history.record(&plausible_host(1)).unwrap();
    history.record(&event).unwrap();
    history.commit().unwrap();
    let records = history.open_view().unwrap().records(ALL, None).unwrap();
    assert_eq!((records.len(), records[0].room, records[0].kind.as_str()), (1, Room::Watch, "ended"));
    assert_eq!(records[0].at_realtime_ns, realtime_ns(5));
    assert_eq!(records[0].body["why"], "no EDAC driver is loaded");
}

#[test]
fn a_job_that_decides_often_does_not_oust_what_is_kept_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { records_max: 100, body_bytes_max: 1_000, ..Limits::default() };
    let mut history = History::open(directory.path().join("history.db"), limits).unwrap();
    let entries = |count: u64| (0..count).map(|second| decision(realtime_ns(second) as u64, "due")).collect();
    history.record(&journal("quiet", entries(30))).unwrap();
    history.record(&journal("loud", entries(3_000))).unwrap();
    history.record(&journal("also-loud", entries(2_000))).unwrap();
    let long = decision(realtime_ns(9_000) as u64, &"x".repeat(2_000));
    history.record(&journal("quiet", vec![long])).unwrap();
    assert_eq!(history.dropped().records, 1);
    history.prune(realtime_ns(9_000)).unwrap();
    let records = history.open_view().unwrap().records(ALL, None).unwrap();
    let of = |job: &str| records.iter().filter(|record| record.subject.name == job).count();
    assert_eq!((records.len(), of("quiet")), (100, 30));
    assert!(of("loud") >= 30 && of("also-loud") >= 30, "{} {}", of("loud"), of("also-loud"));
    let first = records.iter().find(|record| record.subject.name == "loud").unwrap();
    assert!(first.at_realtime_ns > realtime_ns(2_900), "the oldest do not go first");
    history.prune(realtime_ns(40 * 86_400)).unwrap();
    assert!(history.open_view().unwrap().records(ALL, None).unwrap().is_empty(), "age does not take records");
}

#[test]
fn findings_and_records_stay_within_the_size_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { size_bytes_max: 1 << 20, ..Limits::default() };
    let mut history = History::open(directory.path().join("history.db"), limits).unwrap();
    for second in 0..600u64 {
        let severity = if second % 2 == 0 { Severity::Warning } else { Severity::Critical };
        let lost = finding("lost", severity, "Lost.").with_evidence(vec!["x".repeat(3_000)]);
        history.record_findings(realtime_ns(second), &[lost]).unwrap();
        let entry = decision(realtime_ns(second) as u64, &"y".repeat(3_000));
        history.record(&journal("train", vec![entry])).unwrap();
        history.commit().unwrap();
    }
    assert!(history.size_bytes().unwrap() <= 1 << 20, "{}", history.size_bytes().unwrap());
    assert!(history.pruned().rows_by_size > 100, "{:?}", history.pruned());
    let found = history.open_view().unwrap().findings(ALL).unwrap();
    assert!(found.last().unwrap().until_realtime_ns.is_none(), "what holds was pruned");
    assert!(found.len() > 50, "{}", found.len());
}

/// A filled history with one row of each table changed by SQL, as a newer release might have written it.
fn with_a_strange_row(sql: &str) -> (tempfile::TempDir, History) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut history = open(&path);
    history.record(&plausible_host(2)).unwrap();
    for second in 0..90 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.record(&plausible_gap(second, 1_000 + second)).unwrap();
    }
    history.record(&Event::Notice(Notice { at_ns: 1, text: "a notice".into() })).unwrap();
    let board = [finding("lost", Severity::Warning, "Lost."), finding("late", Severity::Warning, "Late.")];
    history.record_findings(realtime_ns(80), &board).unwrap();
    history
        .record(&journal("train", vec![decision(realtime_ns(1) as u64, "due"), decision(realtime_ns(2) as u64, "due")]))
        .unwrap();
    drop(history);
    let changed = rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
    assert_eq!(changed, 1, "{sql}");
    let history = open(&path);
    (directory, history)
}

/// The causes that are left, by the rows of the second windows, and whether the parts still add up.
#[test]
fn a_kind_of_cause_that_only_a_newer_release_knows_is_unexplained() {
    let (_directory, mut history) = with_a_strange_row("UPDATE cause SET kind = 'cxl_reset' WHERE kind = 'timer'");
    for resolution in [Resolution::Second, Resolution::Minute] {
        let windows = history.open_view().unwrap().windows(ALL, resolution).unwrap();
        assert_eq!(windows.unknown_count, windows.len() as u64 * 2, "a row of each core");
        for core in windows.iter().flat_map(|window| &window.cores) {
            assert!(core.sums_up());
            assert_eq!(core.lost.len(), 1);
        }
    }
    let first = &history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap()[0].cores[0];
    assert_eq!(first.unexplained_ns, 10_000 + 500_000);
    // And the history goes on: the same cause gets a number under the name that this release has for it.
    history.record(&plausible_host(2)).unwrap();
    history.record(&plausible_window(200, 2)).unwrap();
    history.commit().unwrap();
    assert_eq!(
        history.open_view().unwrap().windows(realtime_ns(200)..realtime_ns(201), Resolution::Second).unwrap()[0].cores
            [0]
        .lost
        .len(),
        2
    );
}

#[test]
fn gaps_and_hosts_of_a_newer_release_are_skipped_and_counted() {
    let strange_verdict = "UPDATE gap SET verdict = 'cosmic_ray',
                           description = replace(description, 'hypervisor_unaccounted', 'cosmic_ray') WHERE id = 90";
    let strange_source = "UPDATE gap SET description = replace(description, 'probe', 'oracle') WHERE id = 90";
    let strange_cause = "UPDATE gap SET description = replace(description, 'timer', 'cxl_reset') WHERE id = 90";
    let no_json = "UPDATE gap SET description = '{' WHERE id = 90";
    for sql in [strange_verdict, strange_source, strange_cause, no_json] {
        let (_directory, history) = with_a_strange_row(sql);
        let gaps = history.open_view().unwrap().gaps(&GapFilter { limit: 5, ..GapFilter::default() }).unwrap();
        // The 90th is the longest, so that an answer of five goes on behind it.
        assert_eq!((gaps.len(), gaps.unknown_count), (5, 1), "{sql}");
        assert_eq!(gaps[0].gap.duration_ns, 1_088, "{sql}");
    }
    let (_directory, history) =
        with_a_strange_row("UPDATE host SET description = replace(description, 'amd', 'riscv')");
    let hosts = history.open_view().unwrap().hosts().unwrap();
    assert_eq!((hosts.len(), hosts.unknown_count), (0, 1));
}

#[test]
fn findings_and_records_of_a_newer_release_are_skipped_and_counted() {
    for column in ["room", "subject_kind", "severity", "certainty", "body"] {
        let sql = format!("UPDATE finding SET {column} = 'unheard-of' WHERE sentence = 'Late.'");
        let (_directory, history) = with_a_strange_row(&sql);
        let findings = history.open_view().unwrap().findings(ALL).unwrap();
        assert_eq!((findings.len(), findings.unknown_count), (1, 1), "{sql}");
        assert_eq!(findings[0].finding.sentence, "Lost.");
    }
    for column in ["room", "subject_kind", "body"] {
        let sql = format!("UPDATE record SET {column} = 'unheard-of' WHERE id = 1");
        let (_directory, history) = with_a_strange_row(&sql);
        let records = history.open_view().unwrap().records(ALL, None).unwrap();
        assert_eq!((records.len(), records.unknown_count), (1, 1), "{sql}");
        assert_eq!(records[0].at_realtime_ns, realtime_ns(2));
    }
    // A kind is the room's own word, so that each is taken as it is.
    let (_directory, history) = with_a_strange_row("UPDATE record SET kind = 'unheard-of' WHERE id = 1");
    assert_eq!(history.open_view().unwrap().records(ALL, None).unwrap()[0].kind, "unheard-of");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever boards come, at whatever times: what holds in the file is what is on the last board, and no row ends
    /// before it begins.
    #[test]
    fn the_rows_that_hold_are_those_of_the_last_board(
        boards in prop::collection::vec((any::<i64>(), prop::collection::vec(any_event::finding(), 0..6)), 1..8),
        commits in any::<u8>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { minute_spans_kept_s: u64::MAX, ..Limits::default() };
        let mut history = History::open(directory.path().join("history.db"), limits).unwrap();
        for (number, (at_ns, board)) in boards.iter().enumerate() {
            history.record_findings(*at_ns, board).unwrap();
            if commits & 1 << number != 0 {
                history.commit().unwrap();
            }
        }
        history.commit().unwrap();
        let everything = history.open_view().unwrap().findings(ALL).unwrap();
        for kept in everything.iter() {
            prop_assert!(kept.from_realtime_ns <= kept.last_seen_realtime_ns);
            prop_assert!(kept.until_realtime_ns.is_none_or(|until_ns| kept.last_seen_realtime_ns <= until_ns));
            prop_assert!(kept.finding.severity > Severity::Ok);
        }
        let hold = everything.iter().filter(|kept| kept.until_realtime_ns.is_none());
        let hold: BTreeSet<&str> = hold.map(|kept| kept.finding.key.as_str()).collect();
        let last = boards.last().unwrap().1.iter().filter(|finding| finding.severity > Severity::Ok);
        prop_assert_eq!(hold, last.map(|finding| finding.key.as_str()).collect::<BTreeSet<&str>>());
    }
}
