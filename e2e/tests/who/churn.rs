//! Programs that come and go beside a watch that stays: what is read of each must not stay with it.

use super::PATIENCE;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use surefoot_e2e::actor::{Actor, RAISER, start_file};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{number, of_type};

/// How many programs come and go in an ordinary run; `make soak` asks for more.
const PROGRAMS: usize = 300;

/// So many live at a time, so that their names can be read.
const LIVING: usize = 8;

/// Memory that the watch may come to hold between the first third and the end, bytes: raisers that are told apart, 10,000 at
/// the most, and windows, which the page shows.
const GROWTH_BYTES_MAX: u64 = 24 << 20;

/// Descriptors that may be open more or fewer at a moment.
const FILES_APART_MAX: usize = 16;

/// What the process that reads names may hold at any time: what it keeps, the file that it reads and its program. What it
/// holds at a moment depends on which programs raised something last.
const READER_BYTES_MAX: u64 = 256 << 20;

/// What a watch holds.
struct Held {
    bytes: u64,
    reader_bytes: u64,
    files: usize,
}

/// What a process, and those that it started, hold.
fn held(pid: u32) -> Held {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let resident = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    Held { bytes: resident(&pid), reader_bytes: children.iter().map(resident).sum(), files }
}

#[test]
fn programs_that_come_and_go_leave_nothing_with_a_watch() {
    const NAME: &str = "programs_that_come_and_go_leave_nothing_with_a_watch";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let programs = std::env::var("SUREFOOT_SOAK").ok().and_then(|count| count.parse().ok()).unwrap_or(PROGRAMS);
    let folder = tempfile::tempdir().unwrap();
    let program = std::fs::read(RAISER.path()).unwrap();
    let run_directory = folder.path().join("run");
    let mut watch = surefoot("watch --who 1 --no-page --no-history --json --run-directory")
        .arg(&run_directory)
        .going_first()
        .start();
    watch.line_where(|line| line.contains("\"type\":\"window\""));
    let mut living: VecDeque<Actor> = VecDeque::new();
    let mut warm = None;
    for number in 0..programs {
        // Another file each time, as far as anybody can tell.
        let path = folder.path().join(format!("program-{number}"));
        std::fs::write(&path, &program).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut process = start_file(&path, "stdio 3 100 1 0");
        process.answer();
        living.push_back(process);
        std::fs::remove_file(&path).unwrap();
        if living.len() > LIVING {
            living.pop_front();
        }
        if number == programs / 3 {
            warm = Some(held(watch.pid()));
        }
        if number % 100 == 99 {
            let Held { bytes, reader_bytes, files } = held(watch.pid());
            println!("{number} programs: {} and {} KiB, {files} descriptors", bytes >> 10, reader_bytes >> 10);
            assert!(reader_bytes < READER_BYTES_MAX, "{reader_bytes}");
        }
    }
    drop(living);
    let (warm, Held { bytes, reader_bytes, files }) = (warm.unwrap(), held(watch.pid()));
    println!("{programs} programs: {} and {} KiB, {files} descriptors", bytes >> 10, reader_bytes >> 10);
    watch.ask_to_end();
    let finished = watch.finish();
    finished.expect_code(0);
    let lines = finished.json();
    let raised: usize = of_type(&lines, "who").last().unwrap()["interrupts"].as_array().unwrap().len();
    assert!(raised > 0, "it saw who raised what");
    assert!(files.abs_diff(warm.files) <= FILES_APART_MAX, "{} descriptors, then {files}", warm.files);
    assert!(bytes < warm.bytes + GROWTH_BYTES_MAX, "{} bytes, then {bytes}", warm.bytes);
}

/// A limit of open files that is reached is no end: what cannot be read now is read later.
#[test]
fn a_watch_that_can_open_no_file_for_a_while_goes_on() {
    const NAME: &str = "a_watch_that_can_open_no_file_for_a_while_goes_on";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut watch =
        surefoot("watch --who 1 --no-page --no-history --json --run-directory").arg(folder.path().join("run")).start();
    let is_window = |line: &str| line.contains("\"type\":\"window\"");
    watch.line_where(is_window);
    let pid = watch.pid();
    let limit = |limits: &str| {
        let pid = format!("--pid={pid}");
        let done = std::process::Command::new("prlimit").arg(pid).arg(format!("--nofile={limits}")).status();
        assert!(done.unwrap().success());
    };
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", watch.pid())).unwrap();
    let open_files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = open_files.split_whitespace().collect();
    assert_eq!(words[3], words[4], "it takes what it may have: {open_files}");
    limit("3:");
    let mut raiser = RAISER.start("stdio 100 100 1 0");
    raiser.answer();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert!(watch.is_running(), "{}", watch.stderr());
        std::thread::sleep(Duration::from_millis(50));
    }
    limit(&format!("{}:", words[4]));
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..3 {
        watch.line_where(is_window);
        assert!(Instant::now() < deadline);
    }
    watch.ask_to_end();
    let finished = watch.finish();
    finished.expect_code(0);
    let windows = of_type(&finished.json(), "window").iter().filter(|window| number(window, "end_ns") > 0).count();
    assert!(windows >= 4, "{windows}");
}
