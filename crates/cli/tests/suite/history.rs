//! `surefoot history`: the whole output over a made-up night, ranges, refusals, and a writer at work.

use super::golden::compare;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use surefoot_model::{
    Cause, CauseKind, Certainty, CheckpointEvent, CoreLedger, CpuId, Decided, Event, Finding, Gap, GapCause, GapSource,
    HostDescription, JournalEntry, JournalEvent, Lost, Notice, Room, SelfCost, Severity, SourceReport, SourceState,
    Subject, SubjectKind, Vendor, Verdict, Window,
};
use surefoot_store::history::{History, Limits};
use surefoot_testkit::HostTree;
use surefoot_testkit::not_run::not_run;

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

/// The part of the first line of JSON that changes from release to release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const SECOND_NS: u64 = 1_000_000_000;

/// 2026-09-21T02:50:00Z.
const NIGHT_S: u64 = 1_789_959_000;

/// From the beginning of the night.
fn realtime_ns(second: u64) -> u64 {
    (NIGHT_S + second) * SECOND_NS
}

fn host() -> Event {
    Event::Host(HostDescription {
        hostname: "node17".into(),
        kernel: "6.12.0".into(),
        processor: "a processor".into(),
        vendor: Vendor::Amd,
        hypervisor: None,
        cpus: vec![CpuId(0), CpuId(1)],
        workload: String::new(),
        gap_threshold_ns: 100_000,
        source: "eBPF (BTF)".into(),
        missing: String::new(),
        realtime_offset_ns: realtime_ns(0) as i64,
    })
}

/// A second of two cores; from 03:00 to 03:02, core 1 loses time to shootdowns, most in the second minute.
fn window(second: u64) -> Event {
    let core = |cpu: u32| {
        let mut lost = vec![Lost {
            while_idle_ns: 100_000,
            ..Lost::new(Cause::new(CauseKind::Timer, "local_timer"), 250, 500_000, 9_000)
        }];
        if cpu == 1 && (600..720).contains(&second) {
            let total_ns = if second < 660 { 10_000_000 } else { 30_000_000 };
            lost.insert(0, Lost::new(Cause::new(CauseKind::TlbShootdown, "flush_tlb\u{1b}[2J"), 900, total_ns, 40_000));
        }
        let lost_ns: u64 = lost.iter().map(|lost| lost.total_ns).sum();
        CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: SECOND_NS,
            idle_ns: 200_000_000,
            user_ns: SECOND_NS - 200_000_000 - 50_000_000 - 1_000 - lost_ns,
            kernel_ns: 50_000_000,
            lost,
            unexplained_ns: 1_000,
            waiting: None,
        }
    };
    Event::Window(Window {
        start_ns: second * SECOND_NS,
        end_ns: (second + 1) * SECOND_NS,
        cores: vec![core(0), core(1)],
        faulty: Vec::new(),
        untimed: vec![],
        completeness: vec![],
        cost: SelfCost::default(),
    })
}

fn gap(second: u64, cpu: u32, duration_ns: u64) -> Event {
    Event::Gap(Gap {
        cpu: CpuId(cpu),
        source: GapSource::TimerLateness,
        start_ns: second * SECOND_NS,
        duration_ns,
        causes: vec![GapCause { cause: Cause::new(CauseKind::Timer, "local_timer"), duration_ns: 9_000 }],
        unexplained_ns: duration_ns - 9_000,
        verdict: Verdict::SmiLike,
        certainty: Certainty::Probable,
        evidence: vec!["all cores stopped together".into()],
    })
}

fn entry(second: u64, event: JournalEvent) -> JournalEntry {
    JournalEntry { realtime_ns: realtime_ns(second), lost_count: 0, event }
}

fn decided(place: &str, generation: Option<u64>, reason: &str) -> JournalEvent {
    let reasons = vec![reason.to_owned()];
    JournalEvent::Decision(Box::new(Decided { place: place.into(), generation, reasons, ..Decided::default() }))
}

/// Twenty minutes, of which the seconds are kept for five.
fn night(path: &Path) {
    let limits = Limits { second_spans_kept_s: 300, ..Limits::default() };
    let mut history = History::open(path, limits).unwrap();
    history.record(&host()).unwrap();
    let lost = Finding::new(
        Room::Stall,
        "lost-time",
        Subject::new(SubjectKind::Core, "1"),
        Severity::Warning,
        "Core 1 lost 30 ms per second, 3.7 % of its busy time.",
    );
    let stale = Finding::new(
        Room::Checkpoint,
        "stale",
        Subject::new(SubjectKind::Job, "train"),
        Severity::Critical,
        "The durable copy is older than its bound.",
    );
    for second in 0..1_200 {
        history.record(&window(second)).unwrap();
        let mut board = Vec::new();
        if (605..730).contains(&second) {
            board.push(lost.clone());
        }
        if second >= 1_100 {
            board.push(stale.clone().since(realtime_ns(900)));
        }
        history.record_findings(realtime_ns(second) as i64, &board).unwrap();
    }
    for event in [gap(300, 0, 180_000), gap(610, 1, 2_000_000), gap(620, 0, 1_000_000)] {
        history.record(&event).unwrap();
    }
    history.record(&Event::Notice(Notice { at_ns: 700 * SECOND_NS, text: "core 3 went offline".into() })).unwrap();
    let source = SourceReport {
        at_ns: 800 * SECOND_NS,
        source: "checkpoint".into(),
        state: SourceState::Failed,
        why: "/ckpt: permission denied".into(),
    };
    history.record(&Event::Source(source)).unwrap();
    let entries = vec![
        entry(10, decided("memory", Some(41), "a copy in memory costs 0.2 s")),
        entry(
            600,
            JournalEvent::Restart {
                generation: Some(41),
                report: "rank 2 was repaired\u{1b}[31m from parity".into(),
                outcome: None,
                tier: None,
            },
        ),
        entry(650, decided("memory_and_ssd", Some(42), "the durable copy is 900 s old")),
        entry(651, JournalEvent::NotDurable { tier: "durable".into(), generation: 42, why: "the disk is full".into() }),
        entry(900, decided("skip", None, "nothing is gained")),
    ];
    let journal = CheckpointEvent::Journal {
        job: "train".into(),
        entries,
        left_out_count: 0,
        skipped_count: 0,
        is_another: false,
    };
    history.record(&Event::Checkpoint(journal)).unwrap();
    history.prune(realtime_ns(1_200) as i64).unwrap();
}

fn history(path: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["history", "--file"]).arg(path).args(options).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[test]
fn a_night_is_told_as_its_golden_files_say() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    night(&path);
    let range = ["--from", "2026-09-21 02:55", "--to", "2026-09-21T03:10:00Z"];
    let output = history(&path, &range);
    let text = stdout(&output);
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
    compare("history-night.txt", &text);
    let output = history(&path, &[&range[..], &["--json"]].concat());
    compare("history-night.jsonl", &stdout(&output).replace(VERSION, "VERSION"));
}

/// The sums of `--json` are those of the windows, whether they are kept by the second or by the minute.
#[test]
fn what_is_lost_adds_up_by_the_second_and_by_the_minute() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    night(&path);
    // The last five minutes are there by the second; those before by the minute, and the last minute has no end yet.
    for (from, to, seconds, minutes, watched_s) in [
        ("03:06:10", "03:07:40", 90, 0, 90),
        ("02:52", "03:02", 0, 10, 600),
        ("02:00", "04:00", 60, 19, 1_200),
        // The minute in which the range begins is in it.
        ("02:59:30", "03:00:30", 0, 2, 120),
    ] {
        let from_to = [&format!("2026-09-21 {from}"), &format!("2026-09-21 {to}")];
        let output = history(&path, &["--from", from_to[0], "--to", from_to[1], "--json"]);
        let lines = lines(&output);
        let head = of_type(&lines, "history")[0];
        let found = (head["second_count"].as_u64(), head["minute_count"].as_u64(), head["watched_ns"].as_u64());
        assert_eq!(found, (Some(seconds), Some(minutes), Some(watched_s * SECOND_NS)), "{from} to {to}");
        for core in of_type(&lines, "core") {
            let lost: u64 =
                core["lost"].as_array().unwrap().iter().map(|lost| lost["total_ns"].as_u64().unwrap()).sum();
            let parts = ["idle_ns", "user_ns", "kernel_ns", "unexplained_ns"];
            let parts: u64 = parts.iter().map(|part| core[part].as_u64().unwrap()).sum();
            assert_eq!(core["wall_ns"].as_u64(), Some(parts + lost), "{core}");
        }
    }
    let output = history(&path, &["--from", "2026-09-21", "--to", "2026-09-22", "--json", "--cpu", "1", "--gaps", "1"]);
    let lines = lines(&output);
    assert_eq!(of_type(&lines, "core").len(), 1);
    let gaps = of_type(&lines, "gap");
    assert_eq!((gaps.len(), gaps[0]["cpu"].as_u64(), gaps[0]["duration_ns"].as_u64()), (1, Some(1), Some(2_000_000)));
    let worst = of_type(&lines, "cause").into_iter().find(|cause| cause["kind"] == "tlb_shootdown").unwrap();
    assert_eq!(worst["total_ns"].as_u64(), Some(60 * 10_000_000 + 60 * 30_000_000));
    assert_eq!(worst["worst_minute"]["total_ns"].as_u64(), Some(60 * 30_000_000));
    assert_eq!(worst["worst_minute"]["start_realtime"], "2026-09-21T03:01:00Z");
}

#[test]
fn one_room_is_shown_alone() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    night(&path);
    let day = ["--from", "2026-09-21", "--to", "2026-09-22", "--json"];
    for (room, cores, findings, records, notices) in
        [("checkpoint", 0, 1, 5, 0), ("stall", 2, 1, 0, 0), ("watch", 0, 0, 1, 1), ("nic", 0, 0, 0, 0)]
    {
        let lines = lines(&history(&path, &[&day[..], &["--room", room]].concat()));
        let counts = ["core", "finding", "record", "notice"].map(|kind| of_type(&lines, kind).len());
        assert_eq!(counts, [cores, findings, records, notices], "{room}");
    }
    let refused = history(&path, &["--room", "kitchen"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the rooms are stall, memory"), "{refused:?}");
}

#[test]
fn a_room_and_a_core_that_are_nowhere_in_the_history_are_said_to_be_unknown() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    night(&path);
    let said = |options: &[&str]| stdout(&history(&path, &[&["--from", "2026-09-21T02:50:00Z"], options].concat()));
    let text = said(&["--room", "nic"]);
    assert!(text.contains("This history keeps nothing of the room 'nic', at no time."), "{text}");
    let text = said(&["--cpu", "1,7"]);
    assert!(text.contains("No core 7 is known to this history; the cores that were watched are 0-1."), "{text}");
    let text = said(&["--room", "stall", "--cpu", "0"]);
    assert!(!text.contains("known to this history") && !text.contains("keeps nothing"), "{text}");
    // What others found is no answer to a question about a core that is nowhere.
    let text = said(&["--cpu", "7"]);
    assert!(text.contains("No core 7 is known") && text.contains("Nothing is kept for this range."), "{text}");
    assert!(!text.contains("Findings:") && !text.contains("What happened:"), "{text}");
    let output = history(&path, &["--cpu", "7", "--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("No core 7"), "{output:?}");
}

#[test]
fn an_empty_range_says_what_is_kept() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    night(&path);
    let text = stdout(&history(&path, &["--from", "2026-01-01", "--to", "2026-01-02 12:00 +01:00"]));
    assert!(text.contains("2026-01-01 00:00:00 to 2026-01-02 11:00:00 UTC"), "{text}");
    assert!(text.contains("Nothing is kept for this range."), "{text}");
    assert!(text.contains("by the second from 2026-09-21 03:05:00 to 2026-09-21 03:10:00 UTC"), "{text}");
    assert!(text.contains("by the minute from 2026-09-21 02:50:00 to"), "{text}");
}

#[test]
fn what_is_no_history_and_what_is_no_range_end_with_code_2() {
    let tree = HostTree::new();
    let at = |name: &str| tree.path().join(name);
    night(&at("history.db"));
    tree.write("text.db", "a text that is longer than the header of a database ".repeat(9));
    tree.write("empty.db", "");
    for (name, words) in [
        ("text.db", "not a history of Surefoot"),
        ("empty.db", "it is empty"),
        ("missing.db", "there is no such file"),
        (".", "a directory"),
    ] {
        let output = history(&at(name), &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(words) && said.contains(name) && output.stdout.is_empty(), "{name}: {said}");
    }
    for (options, words) in [
        (&["--from", "breakfast"][..], "--from: 'breakfast' is not a time"),
        (&["--to", "-9999999d"], "--to:"),
        (&["--from", "now", "--to", "-1h"], "not after its beginning"),
        (&["--last", "1h", "--from", "-2h"], "cannot be used with"),
        (&["--gaps", "100000"], "not a number of gaps from 0 to 10000"),
    ] {
        let output = history(&at("history.db"), options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(words), "{options:?}: {said}");
    }
    let mut names: Vec<_> = std::fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["empty.db", "history.db", "history.db.lock", "text.db"], "something was made beside them");
}

/// While another process holds the history and writes, its newest second is there for `--last`.
#[test]
fn a_history_that_is_being_written_is_read() {
    let tree = HostTree::new();
    let path = tree.path().join("history.db");
    let mut writer = History::open(&path, Limits::default()).unwrap();
    let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let Event::Host(described) = host() else { panic!("no host") };
    let realtime_offset_ns = now_ns - 30 * SECOND_NS as i64;
    writer.record(&Event::Host(HostDescription { realtime_offset_ns, ..described })).unwrap();
    (0..20).for_each(|second| writer.record(&window(second)).unwrap());
    let finding = Finding::new(Room::Watch, "late", Subject::host(), Severity::Notice, "Data are late.");
    writer.record_findings(now_ns, &[finding]).unwrap();
    writer.commit().unwrap();
    for options in [&["--last", "1m"][..], &["--from", "-1m"]] {
        let text = stdout(&history(&path, options));
        assert!(text.contains("2 cores were busy 80.0 % of the time"), "{text}");
        assert!(text.contains("Watched for 20 s") && text.contains("kept by the second."), "{text}");
        assert!(text.contains("it holds") && text.contains("Data are late."), "{text}");
    }
    writer.record(&window(20)).unwrap();
    writer.commit().unwrap();
}

#[test]
fn another_user_is_told_whose_history_it_is() {
    let tree = HostTree::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(tree.path(), open).unwrap();
    let path = tree.path().join("history.db");
    night(&path);
    let binary = tree.path().join("surefoot");
    std::fs::copy(env!("CARGO_BIN_EXE_surefoot"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["history", "--file"]).arg(&path).uid(NOBODY).gid(NOBODY);
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("private to the user who keeps it") && said.contains("as root"), "{said}");
        }
        Err(error) => {
            not_run("another_user_is_told_whose_history_it_is", &format!("becoming user {NOBODY} needs root: {error}"));
        }
    }
}
