//! A watch tells a real Alertmanager what it finds: the sentence, what is over, and what holds once it answers again.

use crate::remedy::server::executable;
use crate::strangers::wait_for;
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, TcpStream};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::alertmanager::Alertmanager;
use surefoot_testkit::not_run::not_run;

const CONFIGURATION: &str = "route:\n  receiver: nobody\nreceivers:\n  - name: nobody\n";

/// The alerts that are active there, by subject, with their sentence.
fn active(port: u16) -> Vec<(String, String)> {
    if TcpStream::connect(("127.0.0.1", port)).is_err() {
        return Vec::new();
    }
    let answer = http::get(&format!("127.0.0.1:{port}"), "/api/v2/alerts?active=true");
    let alerts: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let of = |alert: &Value| {
        let text = |place: &str| alert.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(
            (text("/labels/surefoot_origin"), text("/labels/room")),
            ("watch".into(), "remedy".into()),
            "{alert}"
        );
        assert!(text("/annotations/runbook_url").ends_with("/findings.md#remedycheck-name"), "{alert}");
        (text("/labels/severity"), text("/annotations/summary"))
    };
    alerts.as_array().map(|alerts| alerts.iter().map(of).collect()).unwrap_or_default()
}

/// A number of the metrics; 0 where it is not there.
fn number(address: &str, name: &str) -> f64 {
    let metrics = http::get(address, "/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[test]
fn a_watch_tells_alertmanager_its_findings_and_an_outage_ends_in_one_push() {
    const TEST: &str = "alerts::a_watch_tells_alertmanager_its_findings_and_an_outage_ends_in_one_push";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let state = home.path().join("fans.state");
    let fan = |now: &str| fs::write(&state, now).unwrap();
    fan("critical");
    let script = format!(
        "echo \"{{\\\"state\\\":\\\"$(cat {})\\\",\\\"sentence\\\":\\\"Fan 3 has stopped.\\\"}}\"",
        state.display()
    );
    let fans = executable(home.path(), "fans", &script);
    let off: String = ["read-only", "clock", "bmc-log"]
        .map(|name| format!("[[check]]\nname = \"{name}\"\nenabled = false\n"))
        .concat();
    let checks = home.path().join("checks.toml");
    fs::write(&checks, format!("{off}[[check]]\nname = \"fans\"\nrun = \"{}\"\nperiod = \"1s\"\n", fans.display()))
        .unwrap();
    let settings = home.path().join("s.toml");
    let text = format!(
        "[page]\nport = 0\n[history]\nkept = false\n[watch]\nrun_directory = \"{}\"\n[stall]\nwatched = false\n[memory]\nwatched = \
         false\n[nic]\nwatched = false\n[alerts]\nurl = \"http://127.0.0.1:{port}/\"\ninterval = \"1s\"\n",
        home.path().join("run").display()
    );
    fs::write(&settings, text).unwrap();
    let mut running = surefoot("watch --config").arg(&settings).arg("--checks").arg(&checks).without_terminal().start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    let severity = || {
        let answer: Value = serde_json::from_str(&http::get(&address, "/api/v1/overview").body).unwrap();
        let rooms = answer["rooms"].as_array().unwrap();
        let card = rooms.iter().find(|card| card["room"] == "remedy").unwrap();
        let found =
            card["findings"].as_array().unwrap().iter().find(|finding| finding["rule"].as_str() == Some("check-fans"));
        found.map_or(String::new(), |finding| finding["severity"].as_str().unwrap().to_owned())
    };
    // Nobody answers there: what comes and goes is counted.
    wait_for("the finding", || (severity() == "critical").then_some(()));
    wait_for("a push that failed", || (number(&address, "surefoot_alerts_failed_pushes_total") > 0.0).then_some(()));
    fan("ok");
    wait_for("its end", || (severity() != "critical").then_some(()));
    wait_for("the count", || (number(&address, "surefoot_alerts_untold_total") >= 1.0).then_some(()));
    assert_eq!(number(&address, "surefoot_alerts_pushed_total"), 0.0);
    fan("warning");
    wait_for("the finding", || (severity() == "warning").then_some(()));
    let alertmanager = match Alertmanager::start_at(port, CONFIGURATION) {
        Ok(alertmanager) => alertmanager,
        Err(why) => {
            not_run(TEST, &why);
            return;
        }
    };
    let told = vec![("warning".to_owned(), "Fan 3 has stopped.".to_owned())];
    wait_for("the alert", || (active(port) == told).then_some(()));
    assert_eq!(number(&address, "surefoot_alerts_up"), 1.0);
    fan("ok");
    wait_for("the end of the alert", || active(port).is_empty().then_some(()));
    // Another Alertmanager, which knows nothing, is told what holds.
    fan("warning");
    wait_for("the alert", || (active(port) == told).then_some(()));
    drop(alertmanager);
    wait_for("the outage", || (number(&address, "surefoot_alerts_up") == 0.0).then_some(()));
    let again = Alertmanager::start_at(port, CONFIGURATION).unwrap();
    wait_for("the alert", || (active(port) == told).then_some(()));
    running.ask_to_end();
    running.finish().expect_code(0);
    drop(again);
}
