use crate::client::{get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, core, host, lost, window};
use serde_json::Value;
use std::path::Path;
use surefoot_daemon::{Config, Error, Mode, Server};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{CauseKind, Event};

fn read(directory: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(directory.join("health.json")).ok()?;
    Some(serde_json::from_str(&text).expect("the file is never half written"))
}

fn start(directory: &Path) -> Server {
    Server::start(Config { run_directory: Some(directory.into()), ..Config::default() }).unwrap()
}

#[test]
fn the_health_file_follows_the_data_and_goes_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let health = wait_for("the file", || read(directory.path()));
    assert_eq!((&health["version"], &health["state"]), (&1.into(), &"degraded".into()));
    assert_eq!(health["reasons"], serde_json::json!(["There is no data yet."]));
    assert_eq!(health["lost_share_ppm"], Value::Null);
    assert!(health["updated_realtime_ns"].as_u64().unwrap() > 1_700_000_000 * SECOND_NS);

    server.publish(Event::Host(host()));
    server.publish(Event::Window(busy_window(monotonic_ns().max(2 * SECOND_NS))));
    // The sources dropped events in this window, which is a reason for one second.
    let health = wait_for("a healthy host", || read(directory.path()).filter(|health| health["state"] == "healthy"));
    assert_eq!(health["host"], "node17");
    assert_eq!(health["reasons"], serde_json::json!([]));
    assert_eq!(health["lost_share_ppm"], 2_000, "4 ms of 2 s");

    let shootdowns = lost(CauseKind::TlbShootdown, "", 10_000, 10_000);
    let loud = core(0, 0, vec![shootdowns], 0);
    server.publish(Event::Window(window(monotonic_ns().max(3 * SECOND_NS), vec![loud])));
    let health = wait_for("a troubled host", || {
        read(directory.path()).filter(|health| health["reasons"].to_string().contains("TLB shootdowns"))
    });
    assert_eq!(health["state"], "degraded");
    assert!(health["lost_share_ppm"].as_u64().unwrap() > 30_000);

    server.stop();
    assert!(read(directory.path()).is_none());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn old_data_is_not_healthy() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let now_ns = monotonic_ns();
    assert!(now_ns > 20 * SECOND_NS, "the machine has just started; run this again later");
    server.publish(Event::Window(busy_window(now_ns - 15 * SECOND_NS)));
    let health = wait_for("the old window", || {
        read(directory.path()).filter(|health| health["reasons"].to_string().contains("s old"))
    });
    assert_eq!(health["state"], "degraded");
    assert_eq!(health["lost_share_ppm"], Value::Null, "what was true then says nothing about now");
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
        let kept = get_json(server.address(), "/api/v1/snapshot");
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
    wait_for("the window", || (get_json(server.address(), "/api/v1/snapshot")["sequence"] == 1).then_some(()));
    server.stop();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
