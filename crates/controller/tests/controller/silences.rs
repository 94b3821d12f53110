//! A real Alertmanager: what is silenced there opens no case, whoever told of it, and what agents find is shown there.

use crate::remedies::{Ask, Setup};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use surefoot_controller::{Config, Fleet, Notifier};
use surefoot_outside::http::Trust;
use surefoot_testkit::alertmanager::Alertmanager;
use surefoot_testkit::not_run::not_run;

const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An agent's word: one module has errors, or nothing is found.
fn board(host: &str, is_bad: bool) -> String {
    let finding = json!({"key": "memory/rate/dimm/A1", "room": "memory", "subject": {"kind": "dimm", "name": "A1"},
        "severity": "critical", "certainty": "certain", "sentence": "It has errors.", "since_realtime_ns": 5});
    let findings = if is_bad { json!([finding]) } else { json!([]) };
    json!({"host": host, "service": "web", "findings": findings, "findings_left_out": {"memory": 0, "remedy": 0}})
        .to_string()
}

fn silence(host: &str) -> String {
    let matchers = json!([{"name": "host", "value": host, "isRegex": false, "isEqual": true},
        {"name": "alertname", "value": "SurefootMemory.*", "isRegex": true, "isEqual": true}]);
    json!({"matchers": matchers, "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z", "createdBy": "anna",
        "comment": "the module is on its way"})
    .to_string()
}

fn hosts(ask: &Ask) -> Vec<String> {
    let cases = ask.get("/api/v1/cases?state=all").1["cases"].as_array().cloned().unwrap_or_default();
    cases.iter().map(|case| case["host"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_silenced_opens_no_case_until_the_silence_ends() {
    const TEST: &str = "silences::what_is_silenced_opens_no_case_until_the_silence_ends";
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\"]\napprove = [\"drain\"]\nhosts_at_once = 10\n");
    let configuration = |webhooks: &str| {
        let route = "route: {receiver: r, group_by: [host], group_wait: 0s, group_interval: 1s}";
        format!("{route}\nreceivers:\n  - name: r\n    webhook_configs: [{webhooks}]\n")
    };
    let alertmanager = match Alertmanager::start(&configuration("")) {
        Ok(alertmanager) => alertmanager,
        Err(why) => return not_run(TEST, &why),
    };
    let there = Ask::at(alertmanager.port());
    until("ready", || {
        let is_listening = std::net::TcpStream::connect(("127.0.0.1", alertmanager.port())).is_ok();
        (is_listening && there.get_text("/-/ready").0 == 200).then_some(())
    });
    let (status, made) = there.post("/api/v2/silences", &silence("node1"));
    assert_eq!(status, 200, "{made}");
    let notifier = Notifier {
        url: alertmanager.url(),
        token_file: None,
        trust: Trust::System,
        period: Duration::from_millis(200),
    };
    let fleet = Fleet::start(Config { notifier: Some(notifier), ..setup.config() }).unwrap();
    let ask = Ask::of(&fleet);
    // It tells this server of everything, also of what this server told it.
    let own = format!("{{url: 'http://{}/api/v1/alertmanager'}}", ask.address());
    alertmanager.configure(&configuration(&own)).unwrap();
    assert_eq!(there.post("/-/reload", "").0, 200);
    for host in ["node1", "node2"] {
        assert_eq!(ask.post("/api/v1/findings", &board(host, true)).0, 200);
    }
    ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    // There both are shown, and one is suppressed; it tells of the other in turn, and that opens no second case.
    let shown = |host: &str| -> Option<Value> {
        let all = there.get("/api/v2/alerts").1;
        all.as_array()?.iter().find(|alert| alert["labels"]["host"] == host).cloned()
    };
    let suppressed = until("suppressed", || shown("node1").filter(|alert| alert["status"]["state"] == "suppressed"));
    assert_eq!(suppressed["labels"]["alertname"], "SurefootMemoryCritical");
    assert_eq!(suppressed["annotations"]["summary"], "It has errors.");
    until("active", || shown("node2").filter(|alert| alert["status"]["state"] == "active"));
    until("told in turn", || {
        let metrics = ask.get_text("/metrics").1;
        let has = |line: &str| metrics.lines().any(|one| one == line);
        (has("surefoot_remedy_alerts_silenced 1") && has("surefoot_remedy_alertmanager_up 1")).then_some(())
    });
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(hosts(&ask), ["node2"]);
    let trail = ask.get("/api/v1/trail").1.to_string();
    assert!(trail.contains("\"silenced\"") && trail.contains("of anna: the module is on its way"), "{trail}");

    // What is found no more ends there.
    assert_eq!(ask.post("/api/v1/findings", &board("node2", false)).0, 200);
    until("ended there", || shown("node2").is_none().then_some(()));
    // The silence ends, and the fault still holds.
    let id = made["silenceID"].as_str().unwrap();
    assert_eq!(there.ask("DELETE", &format!("/api/v2/silence/{id}"), "").0, 200);
    until("opened", || hosts(&ask).contains(&"node1".to_owned()).then_some(()));
    // Without Alertmanager everything goes on.
    drop(alertmanager);
    until("missed", || fleet.alertmanager_error());
    assert_eq!(ask.post("/api/v1/findings", &board("node3", true)).0, 200);
    until("opened", || hosts(&ask).contains(&"node3".to_owned()).then_some(()));
}
