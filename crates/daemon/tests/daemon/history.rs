use crate::client::{address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, gap, host, notice};
use serde_json::Value;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::clock::{monotonic_ns, realtime_offset_ns};
use surefoot_model::{Event, HostDescription};
use surefoot_store::history::{History, Limits};

fn start(path: &std::path::Path) -> Server {
    let server = Server::start(Config { history: Some(path.into()), ..Config::default() }).unwrap();
    server.publish(Event::Host(HostDescription { realtime_offset_ns: realtime_offset_ns(), ..host() }));
    server
}

fn snapshot(server: &Server) -> Value {
    get_json(address(server), "/api/v1/snapshot?range_s=1")
}

fn history_notices(server: &Server) -> Vec<String> {
    let kept = snapshot(server);
    let texts = kept["notices"].as_array().unwrap().iter();
    texts.map(|notice| notice["text"].as_str().unwrap().to_owned()).filter(|text| text.contains("history")).collect()
}

#[test]
fn what_was_published_can_be_asked_for_and_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let server = start(&path);
    let end_ns = monotonic_ns();
    for second in (0..5).rev() {
        server.publish(Event::Window(busy_window(end_ns - second * SECOND_NS)));
    }
    server.publish(Event::Gap(gap(1, end_ns - SECOND_NS, 70_000)));
    server.publish(notice("core 3 went offline"));
    let ask = |server: &Server| {
        let answer = get(address(server), "/api/v1/history?resolution=second");
        (answer.status == 200).then(|| get_json(address(server), "/api/v1/history?resolution=second"))
    };
    // What was published together may be written in several transactions.
    let has = |past: &Value, what: &str, count: usize| past[what].as_array().unwrap().len() == count;
    let past = wait_for("the history", || {
        ask(&server).filter(|past| has(past, "notices", 1) && has(past, "windows", 5) && has(past, "gaps", 1))
    });
    assert_eq!(past["resolution"], "second");
    let windows = past["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 5);
    assert_eq!(windows[4]["cores"][1]["lost"].as_array().unwrap().len(), 2);
    assert_eq!(windows[4]["cores"][1]["wall_ns"], SECOND_NS);
    let real_ns = windows[4]["end_realtime_ns"].as_i64().unwrap();
    let expected_ns = end_ns as i64 + realtime_offset_ns();
    assert!((real_ns - expected_ns).abs() < SECOND_NS as i64, "{real_ns} is not about {expected_ns}");
    assert_eq!(past["gaps"][0]["duration_ns"], 70_000);
    assert_eq!(past["gaps"][0]["causes"][0]["kind"], "softirq");
    assert_eq!(past["notices"][0]["text"], "core 3 went offline");
    // As a watch that was killed leaves it.
    let killed = directory.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for name in ["history.sqlite", "history.sqlite-wal"] {
        std::fs::copy(directory.path().join(name), killed.join(name)).unwrap();
    }
    server.stop();
    let log = directory.path().join("history.sqlite-wal");
    assert!(!log.exists(), "the log is left though the page's connection has read");

    let server = start(&killed.join("history.sqlite"));
    let again = wait_for("the history", || ask(&server).filter(|past| !past["windows"].as_array().unwrap().is_empty()));
    assert_eq!(again["windows"], past["windows"], "what a log holds is taken up");
    server.stop();

    let server = start(&path);
    let again = wait_for("the history", || ask(&server));
    assert_eq!(again["windows"], past["windows"]);
    let nothing = get_json(address(&server), "/api/v1/history?from_s=1&to_s=2");
    assert_eq!(nothing["windows"], serde_json::json!([]));
    assert_eq!((&nothing["from_s"], &nothing["resolution"]), (&Value::from(1), &Value::from("minute")));
    server.stop();
}

#[test]
fn a_history_that_cannot_be_opened_is_one_notice_and_is_taken_up_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not-yet").join("history.sqlite");
    let server = start(&path);
    let notices = wait_for("the notice", || Some(history_notices(&server)).filter(|notices| !notices.is_empty()));
    assert!(notices[0].contains("not-yet") && notices[0].contains("goes on"), "{notices:?}");
    let answer = get(address(&server), "/api/v1/history");
    assert_eq!(answer.status, 503);
    assert!(answer.error().contains("not-yet"), "{}", answer.error());

    // More than the queue in front of the history holds: the rest is dropped and counted.
    let end_ns = monotonic_ns();
    for _ in 0..2_000 {
        server.publish(Event::Gap(gap(0, end_ns, 30_000)));
    }
    let kept = wait_for("drops", || {
        let kept = snapshot(&server);
        (kept["sequence"] == 2_001).then_some(kept)
    });
    let dropped = kept["dropped"]["history"].as_u64().unwrap();
    assert!((900..2_000).contains(&dropped), "{dropped} dropped of 2000 with a queue of 1024");
    assert_eq!(kept["dropped"]["queue"], 0, "everything else goes on");
    assert_eq!(history_notices(&server).len(), 1, "one notice, not one per event");

    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let past = wait_for("the history", || {
        let answer = get(address(&server), "/api/v1/history");
        (answer.status == 200).then(|| answer.json()).filter(|past| !past["gaps"].as_array().unwrap().is_empty())
    });
    assert_eq!(past["gaps"][0]["duration_ns"], 30_000, "what waited is written");
    let notices = wait_for("the good word", || Some(history_notices(&server)).filter(|notices| notices.len() == 2));
    assert!(notices[1].contains("written again") && notices[1].contains(&dropped.to_string()), "{notices:?}");
    server.stop();
}

#[test]
fn a_second_instance_leaves_the_history_to_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let first = History::open(&path, Limits::default()).unwrap();
    let server = start(&path);
    let notices = wait_for("the notice", || Some(history_notices(&server)).filter(|notices| !notices.is_empty()));
    assert!(notices[0].contains("is using it"), "{notices:?}");
    drop(first);
    wait_for("the history", || (get(address(&server), "/api/v1/history").status == 200).then_some(()));
    server.stop();
}

#[test]
fn a_file_that_is_no_history_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letters.txt");
    std::fs::write(&path, "dear diary, ".repeat(1_000)).unwrap();
    let server = start(&path);
    let notices = wait_for("the notice", || Some(history_notices(&server)).filter(|notices| !notices.is_empty()));
    assert!(notices[0].contains("letters.txt"), "{notices:?}");
    server.stop();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary, ".repeat(1_000));
}

#[test]
fn a_replay_writes_no_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let mode = Mode::Replay { file: "x".into() };
    let server = Server::start(Config { mode, history: Some(path.clone()), ..Config::default() }).unwrap();
    server.publish(Event::Host(host()));
    server.publish(Event::Window(busy_window(2 * SECOND_NS)));
    wait_for("the window", || (snapshot(&server)["sequence"] == 1).then_some(()));
    assert_eq!(get(address(&server), "/api/v1/history").status, 404);
    server.stop();
    assert!(!path.exists());
}
