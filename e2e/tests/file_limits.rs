//! A limit on the size of files (`ulimit -f`, `LimitFSIZE=`): the kernel's signal for it ends nothing, each writer says what it could not
//! write, and what was written before is whole.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_testkit::not_run::not_run;

#[test]
fn a_recording_at_the_limit_of_files_is_told_and_replays() {
    const TEST: &str = "a_recording_at_the_limit_of_files_is_told_and_replays";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("night");
    let words = "stall record --source counters --duration 60s --interval 100ms --experiments /var/empty/surefoot --json --output";
    let recording = surefoot(words).inside("--mount", "ulimit -f 16").arg(&file).run();
    assert_eq!(recording.code, Some(2), "{recording:#?}");
    let message = recording.stderr.lines().find(|line| line.contains(file.to_str().unwrap()));
    assert!(message.is_some_and(|line| line.contains("File too large")), "{recording:#?}");
    assert!(recording.json().iter().any(|line| line["type"] == "core"), "what was seen is told: {recording:#?}");
    let replayed = surefoot("stall replay --json").arg(&file).run();
    assert!(matches!(replayed.code, Some(0 | 1)), "{replayed:#?}");
    assert!(replayed.json().iter().any(|line| line["type"] == "core"), "what was seen before is gone: {replayed:#?}");
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_history_at_the_limit_of_files_ends_no_watch_and_is_told() {
    const TEST: &str = "a_history_at_the_limit_of_files_ends_no_watch_and_is_told";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    if !has_program("prlimit") {
        return not_run(TEST, "prlimit of util-linux is needed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, history) = (folder.path().join("run"), folder.path().join("history.db"));
    let words = "watch --source counters --port 0 --interval 100ms --experiments /var/empty/surefoot";
    let mut running = surefoot(words).arg("--run-directory").arg(&run).arg("--history").arg(&history).start();
    let address = address(&mut running);
    until("a window in the history", || is_kept(&address));
    limit(running.pid(), "4096");
    running.line_where(|line| line.contains("history is not being written"));
    assert_eq!(http::get(&address, "/api/v1/snapshot").status, 200, "everything else goes on");
    limit(running.pid(), "0");
    running.line_where(|line| line.contains("health.json cannot be written") && line.contains("File too large"));
    let health = run.join("health.json");
    let read =
        || fs::read(&health).ok().map(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).expect("whole"));
    let told_ns = |told: serde_json::Value| told["updated_realtime_ns"].as_u64().expect("a time");
    let before_ns = read().map_or(0, told_ns);
    limit(running.pid(), "unlimited");
    running.line_where(|line| line.contains("history is being written again"));
    until("health.json is written again", || read().map_or(0, told_ns) > before_ns);
    let snapshot: serde_json::Value = serde_json::from_str(&http::get(&address, "/api/v1/snapshot").body).unwrap();
    assert!(snapshot["dropped"]["health"].as_u64().unwrap() >= 1, "{}", snapshot["dropped"]);
    running.ask_to_end();
    running.finish().expect_code(0);
}

/// The soft limit of a running process.
fn limit(pid: u32, bytes: &str) {
    let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:unlimited")]).status();
    assert!(set.is_ok_and(|status| status.success()), "prlimit");
}

fn address(running: &mut surefoot_e2e::command::Running) -> String {
    let page = running.line_where(|line| line.starts_with("page: http://127.0.0.1:"));
    page.trim_end().trim_end_matches('/').rsplit('/').next().unwrap().to_owned()
}

fn is_kept(address: &str) -> bool {
    let answer = http::get(address, "/api/v1/history");
    answer.status == 200 && answer.body.contains("\"windows\":") && !answer.body.contains("\"windows\":0")
}
