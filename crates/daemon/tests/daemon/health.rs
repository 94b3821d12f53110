use crate::client::{address, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, core, host, lost, window};
use crate::schema;
use serde_json::Value;
use std::path::Path;
use surefoot_daemon::{Config, Error, Mode, Server};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{CauseKind, Event, Health};

fn read(directory: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(directory.join("health.json")).ok()?;
    let health = serde_json::from_str(&text).expect("the file is never half written");
    schema::hold("health.json", &health);
    Some(health)
}

fn start(directory: &Path) -> Server {
    Server::start(Config { run_directory: Some(directory.into()), ..Config::default() }).unwrap()
}

#[test]
fn the_health_file_follows_the_data_and_goes_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let health = wait_for("the file", || read(directory.path()));
    assert_eq!((&health["version"], &health["headline"]["severity"]), (&2.into(), &"notice".into()));
    assert_eq!(health["headline"]["sentence"], "There are no data yet.");
    assert_eq!(health["data_age_ns"], Value::Null);
    assert!(health["rooms"].get("checkpoint").is_none(), "nobody looks at checkpoints here");
    assert!(health["rooms"].get("stall").is_none(), "nothing was seen yet, which is not that all is well");
    assert!(health["updated_realtime_ns"].as_u64().unwrap() > 1_700_000_000 * SECOND_NS);

    server.publish(Event::Host(host()));
    server.publish(Event::Window(busy_window(monotonic_ns().max(2 * SECOND_NS))));
    let health = wait_for("the window", || read(directory.path()).filter(|health| health["data_age_ns"].is_u64()));
    assert_eq!(health["host"], "node17");
    assert_eq!(
        health["rooms"]["stall"],
        serde_json::json!({ "severity": "ok", "findings": [], "findings_left_out": 0, "evidence_left_out": 0 })
    );
    // The sources dropped events in this window.
    let watch = &health["rooms"]["watch"]["findings"];
    assert_eq!(watch[0]["key"], "watch/dropped/host", "{watch}");

    let shootdowns = lost(CauseKind::TlbShootdown, "", 10_000, 10_000);
    let loud = core(0, 0, vec![shootdowns], 0);
    server.publish(Event::Window(window(monotonic_ns().max(3 * SECOND_NS), vec![loud])));
    let health = wait_for("a troubled host", || {
        read(directory.path()).filter(|health| health["headline"]["sentence"].to_string().contains("TLB shootdowns"))
    });
    let finding = &health["rooms"]["stall"]["findings"][0];
    assert_eq!((&finding["severity"], &finding["key"]), (&"warning".into(), &"stall/lost-time/host".into()));
    assert!(finding["since_realtime_ns"].as_u64().unwrap() > 0);
    let read_by_jobs: Health = serde_json::from_value(health.clone()).unwrap();
    assert!(read_by_jobs.is_current(health["updated_realtime_ns"].as_u64().unwrap()));

    server.stop();
    assert!(read(directory.path()).is_none());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_second_server_in_the_directory_leaves_the_file_of_the_first_alone() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(directory.path());
    first.publish(Event::Host(host()));
    wait_for("the file", || read(directory.path()).filter(|health| health["host"] == "node17"));
    let second = start(directory.path());
    let said = || get_json(address(&second), "/api/v1/snapshot")["notices"].to_string();
    wait_for("its notice", || said().contains(&format!("Process {} publishes in", std::process::id())).then_some(()));
    second.stop();
    assert_eq!(read(directory.path()).unwrap()["host"], "node17", "it took the other one's file away");
    let third = start(directory.path());
    first.stop();
    wait_for("the file of who is left", || read(directory.path()).filter(|health| health["host"] == ""));
    third.stop();
    assert!(read(directory.path()).is_none());
}

#[test]
fn old_data_is_not_healthy() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let now_ns = monotonic_ns();
    assert!(now_ns > 20 * SECOND_NS, "the machine has just started; run this again later");
    server.publish(Event::Window(busy_window(now_ns - 15 * SECOND_NS)));
    let health = wait_for("the old window", || {
        read(directory.path()).filter(|health| health["headline"].to_string().contains("s old"))
    });
    assert_eq!(health["headline"]["severity"], "warning");
    assert_eq!(
        health["rooms"]["stall"]["findings"],
        serde_json::json!([]),
        "what was true then says nothing about now"
    );
    server.stop();
}

#[test]
fn a_run_directory_that_is_not_there_is_an_error_and_one_that_goes_is_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let config = || Config { run_directory: Some(path.clone()), ..Config::default() };
    let error = Server::start(config()).err().unwrap();
    assert!(matches!(error, Error::RunDirectory { .. }));
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");

    std::fs::create_dir(&path).unwrap();
    let server = Server::start(config()).unwrap();
    wait_for("the file", || read(&path));
    std::fs::remove_dir_all(&path).unwrap();
    let kept = wait_for("two failures", || {
        let kept = get_json(address(&server), "/api/v1/snapshot");
        (kept["dropped"]["health"].as_u64().unwrap() >= 2).then_some(kept)
    });
    let notices = kept["notices"].as_array().unwrap();
    assert_eq!(notices.len(), 1, "one notice, not one per try: {notices:?}");
    assert!(notices[0]["text"].as_str().unwrap().contains("health.json"));
    std::fs::create_dir(&path).unwrap();
    wait_for("the file again", || read(&path));
    server.stop();
}

#[test]
fn a_replay_says_nothing_about_this_host() {
    let directory = tempfile::tempdir().unwrap();
    let mode = Mode::Replay { file: "x".into() };
    let run_directory = Some(directory.path().to_path_buf());
    let server = Server::start(Config { mode, run_directory, ..Config::default() }).unwrap();
    server.publish(Event::Window(busy_window(2 * SECOND_NS)));
    wait_for("the window", || (get_json(address(&server), "/api/v1/snapshot")["sequence"] == 1).then_some(()));
    server.stop();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
