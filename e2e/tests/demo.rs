//! `surefoot demo`: every room filled, named as made up everywhere, for anybody and without a trace.

use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

/// The user `nobody` of Debian.
const NOBODY: u32 = 65_534;

/// The address of the page, and what was printed until all of it was there.
fn opened(demo: &mut Running) -> (String, Vec<String>) {
    let mut printed = Vec::new();
    while printed.iter().filter(|line: &&String| line.starts_with("- ")).count() < 5 {
        printed.push(demo.line().unwrap());
    }
    let page = printed.iter().find_map(|line| line.strip_prefix("page: http://")?.split('/').next()).unwrap();
    (page.to_owned(), printed)
}

fn json(address: &str, path: &str) -> Value {
    let answer = http::get(address, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Files and directories where a program may leave some without a name for them.
fn left() -> BTreeSet<PathBuf> {
    let folders = ["/tmp", "/dev/shm", "/var/tmp", "/run"].map(std::fs::read_dir);
    folders.into_iter().flatten().flatten().map(|entry| entry.unwrap().path()).filter(of_nobody).collect()
}

/// Of nobody, as whom the demos run; what other tests do here meanwhile is root's.
#[allow(clippy::ptr_arg, reason = "a filter of paths")]
fn of_nobody(path: &PathBuf) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.uid() == NOBODY)
}

#[test]
fn two_demos_of_nobody_fill_every_room_and_leave_nothing() {
    let Some(_turn) = turn("two_demos_of_nobody_fill_every_room_and_leave_nothing", Need::Nothing) else { return };
    let before = left();
    let mut other = surefoot("demo").as_nobody().start();
    let mut demo = surefoot("demo").as_nobody().start();
    let (address, printed) = opened(&mut demo);
    let (other_address, _) = opened(&mut other);
    assert_ne!(address, other_address);
    assert!(printed[0].starts_with("Demo data: a made-up day of a made-up host."), "{printed:?}");
    // The address and how long it goes on come before the day is there.
    assert!(printed[1].starts_with("page: ") && printed[2].contains("five minutes"), "{printed:?}");
    assert!(printed[3].starts_with("Demo data: "), "{printed:?}");

    let overview = json(&address, "/api/v1/overview");
    assert_eq!((overview["mode"].as_str(), overview["access"]["sees_all"].as_bool()), (Some("demo"), Some(true)));
    assert!(overview["headline"]["sentence"].as_str().unwrap().starts_with("Demo data: "), "{overview}");
    assert!(overview["host"]["hostname"].as_str().unwrap().starts_with("demo-"), "{overview}");
    assert_eq!(overview["tour"].as_array().unwrap().len(), 5);
    let rooms = overview["rooms"].as_array().unwrap();
    assert_eq!(rooms.len(), 7);
    for room in rooms {
        assert!(room["is_watched"] == true && !room["findings"].as_array().unwrap().is_empty(), "{room}");
    }
    for (path, list) in [
        ("snapshot", "/windows"),
        ("snapshot", "/gaps"),
        ("snapshot", "/capabilities"),
        ("report", "/causes"),
        ("who", "/who/fix_first"),
        ("memory", "/dimms"),
        ("memory", "/reports"),
        ("memory", "/costs"),
        ("memory", "/checks"),
        ("checkpoints", "/jobs/0/generations"),
        ("nic", "/interfaces"),
        ("nic", "/changes"),
        ("disturb", "/experiments"),
        ("remedy", "/checks"),
        ("deeds", "/deeds"),
    ] {
        let answer = json(&address, &format!("/api/v1/{path}"));
        assert!(answer.pointer(list).and_then(Value::as_array).is_some_and(|list| !list.is_empty()), "{path}{list}");
    }
    let metrics = http::get(&address, "/metrics");
    assert!(metrics.body.contains("data=\"demo\""), "{}", metrics.body);

    let dropped = |line: &&str| line.starts_with("surefoot_watch_dropped_events") && !line.ends_with(" 0");
    assert_eq!(metrics.body.lines().filter(dropped).collect::<Vec<_>>(), Vec::<&str>::new());

    // The whole day is in the past that the page shows.
    let to_s = overview["now_realtime_ns"].as_u64().unwrap() / 1_000_000_000;
    let begun = Instant::now();
    let past = loop {
        let past = json(&address, &format!("/api/v1/history?from_s={}&to_s={to_s}", to_s - 86_400));
        // The history is written by a thread of its own, which may be hours of the day behind on a busy machine.
        let windows = past["windows"].as_array().unwrap().len();
        if windows > 1_400 {
            break past;
        }
        assert!(begun.elapsed() < PATIENCE, "{windows}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(past["headline"]["sentence"].as_str().unwrap().starts_with("Demo data: "));
    let found: BTreeSet<&str> =
        past["findings"].as_array().unwrap().iter().filter_map(|one| one["finding"]["room"].as_str()).collect();
    assert!(["stall", "memory", "nic", "disturb", "remedy"].iter().all(|room| found.contains(room)), "{found:?}");
    assert_eq!(past["unknown_count"], 0);

    demo.ask_to_end();
    other.ask_to_end();
    demo.finish().expect_code(0);
    other.finish().expect_code(0);
    assert_eq!(left(), before);
}
