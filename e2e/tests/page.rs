//! The page, its API, its live events and its metrics, over plain HTTP.

use serde_json::Value;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

#[test]
fn the_page_answers_on_loopback_only() {
    let Some(_turn) = turn("the_page_answers_on_loopback_only", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let running = surefoot("watch --port 0 --no-history --interval 200ms --run-directory").arg(folder.path());
    let mut running = running.start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");

    let window: Value = serde_json::from_str(&http::event(address, "/api/v1/events", "window")).unwrap();
    assert!(window["end_ns"].as_u64() > window["start_ns"].as_u64(), "{window}");

    let page = http::get(address, "/");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<html") && page.head.contains("content-security-policy"), "{}", page.head);
    let snapshot = http::get(address, "/api/v1/snapshot");
    assert_eq!(snapshot.status, 200, "{}", snapshot.body);
    let snapshot: Value = serde_json::from_str(&snapshot.body).unwrap();
    assert!(snapshot.as_object().is_some_and(|fields| fields.len() > 3), "{snapshot}");
    let metrics = http::get(address, "/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.contains("openmetrics-text") && metrics.body.ends_with("# EOF\n"), "{}", metrics.head);
    assert!(metrics.body.contains("surefoot_"), "{}", metrics.body);
    assert_eq!(http::get(address, "/nowhere").status, 404);
    assert_eq!(http::get(address, "/api/v1/snapshot?cpus=x").status, 400);

    running.ask_to_end();
    running.finish().expect_code(0);
}

#[test]
fn a_recording_has_a_page_too() {
    let Some(_turn) = turn("a_recording_has_a_page_too", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("night.surefoot");
    let recorded = surefoot("stall record --duration 400ms --interval 100ms --output").arg(&file).run();
    recorded.expect_code(0);
    let mut running = surefoot("watch --port 0 --replay").arg(&file).start();
    let line = running.line_where(|line| line.contains("http://127.0.0.1:"));
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let snapshot = http::get(address, "/api/v1/snapshot");
    assert_eq!(snapshot.status, 200, "{}", snapshot.body);
    assert!(snapshot.body.contains("night.surefoot") && snapshot.body.contains("replay"), "{}", snapshot.body);
    running.ask_to_end();
    running.finish().expect_code(0);
}
