//! Experiments as a watch, a recording, the history and a page of HTML tell of them.
//!
//! What is stopped is the workload alone, by signals: that needs no privilege and disturbs no other test.

mod page;

use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{Finished, PATIENCE, Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

/// A workload with words of its own that nobody may take for more than words.
pub const HOSTILE: &str = "sleep 0.15 # <img src=x onerror=alert(1)>";

/// An experiment whose journal is kept there.
pub fn experiment(journals: &Path, more: &str) -> Finished {
    let words = "disturb run --disturbance stop:length=20ms,period=60ms --repetitions 3 --json --journals";
    surefoot(words).arg(journals).arg("--workload").arg(HOSTILE).words(more).run()
}

/// One of two workloads under one disturbance, one of which fails.
pub fn several(folder: &Path, journals: &Path) {
    let file = folder.join("several.json");
    let experiment = serde_json::json!({
        "name": "two <b>workloads</b>",
        "repetitions": 2,
        "disturbances": [{"name": "half", "spec": "stop:length=20ms,period=50ms"}],
        "workloads": [{"name": "sleeper", "command": "sleep 0.2"}, {"name": "broken", "command": "exit 7"}],
    });
    std::fs::write(&file, experiment.to_string()).unwrap();
    let words = surefoot("disturb run --json --experiment").arg(&file).arg("--journals").arg(journals);
    assert_eq!(words.run().code, Some(1), "one of its workloads fails");
}

/// One that is killed while it runs.
pub fn killed(journals: &Path) {
    let words = "disturb run --disturbance stop:length=5ms,period=500ms --repetitions 200 --json --journals";
    let mut running = surefoot(words).arg(journals).arg("--workload").arg("sleep 0.3").start();
    running.line_where(|line| line.contains(r#""type":"run""#));
    running.signal("KILL");
    let _ = running.finish();
}

fn address_of(watch: &mut Running) -> String {
    let line = watch.line_where(|line| line.contains("http://127.0.0.1:"));
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

/// What the API says, as soon as it says of so many experiments that they have ended.
fn answer(address: &str, ended: usize) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer: Value = serde_json::from_str(&http::get(address, "/api/v1/disturb").body).unwrap();
        let experiments = answer["experiments"].as_array().unwrap();
        if experiments.iter().filter(|one| !one["ended"].is_null()).count() >= ended {
            return answer;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_experiment_is_recorded_replayed_and_told_as_a_page_alike() {
    const TEST: &str = "an_experiment_is_recorded_replayed_and_told_as_a_page_alike";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (recording, page) = (file("recording"), file("page.html"));
    let finished =
        experiment(&file("journals"), &format!("--record {} --html {}", recording.display(), page.display()));
    finished.expect_code(0);
    std::fs::write(file("lines.jsonl"), &finished.stdout).unwrap();
    let effect = finished.json().pop().unwrap();
    let reported = |name: &str| {
        let report = surefoot("disturb report --json").arg(file(name)).run();
        report.expect_code(0);
        let lines = report.json();
        let [answer] = &lines[..] else { panic!("{lines:?}") };
        answer["experiments"][0]["ended"]["effect"].clone()
    };
    for name in ["lines.jsonl", "recording"] {
        let mut told = reported(name);
        told["type"] = "effect".into();
        assert_eq!(told, effect, "{name}");
    }
    let replayed = surefoot("stall replay --rooms all --json").arg(&recording).run();
    replayed.expect_code(0);
    let replayed = replayed.json();
    let line = replayed.iter().find(|line| line["type"] == "disturb").unwrap();
    assert_eq!(line["experiments"][0]["ended"]["effect"]["ratio"], effect["ratio"]);
    let again = surefoot("disturb report --html").arg(file("again.html")).arg(file("lines.jsonl")).run();
    again.expect_code(0);
    for name in ["page.html", "again.html"] {
        let page = std::fs::read_to_string(file(name)).unwrap();
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && !page.contains("<img"), "{page}");
        assert!(page.contains("times as large") && page.contains("<svg") && !page.contains("<script"), "{page}");
    }
    // A recording that is there already is not written over, and nothing is disturbed for it.
    let refused = experiment(&file("journals"), &format!("--record {}", recording.display()));
    refused.expect_refusal(2, &["--record", "exists"]);
}

#[test]
fn a_watch_tells_of_experiments_that_finished_were_refused_or_were_killed() {
    const TEST: &str = "a_watch_tells_of_experiments_that_finished_were_refused_or_were_killed";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let journals = folder.path().join("journals");
    experiment(&journals, "").expect_code(0);
    killed(&journals);
    let words = "disturb run --disturbance stop:length=900ms,period=1s --workload true --journals";
    let refused = surefoot(words).arg(&journals).run();
    assert_ne!(refused.code, Some(0));
    // A stranger's file among them is told of, and hurts nothing.
    std::fs::write(journals.join("20200101T000000-1-0.jsonl"), "<b>nothing</b>\n").unwrap();
    let (history, run) = (folder.path().join("history.db"), folder.path().join("run"));
    let words = "watch --port 0 --source counters --interval 200ms --history";
    let watch = surefoot(words).arg(&history).arg("--run-directory").arg(&run).arg("--experiments").arg(&journals);
    let mut watch = watch.start();
    let address = address_of(&mut watch);
    let told = answer(&address, 3);
    let of = |standing: &str| {
        let all = told["experiments"].as_array().unwrap();
        all.iter().find(|one| one["standing"] == standing).unwrap_or_else(|| panic!("{standing}: {told}")).clone()
    };
    assert!(of("finished")["ended"]["effect"]["ratio"].as_f64().unwrap() > 0.0);
    assert!(of("refused")["ended"]["why"].as_str().unwrap().contains("900 ms"), "{told}");
    let vanished = of("vanished");
    assert!(vanished["runs_done"].as_u64().unwrap() >= 1, "{vanished}");
    assert!(told["problems"][0].as_str().unwrap().contains("line 1: not of a journal"), "{told}");
    let name = of("finished")["experiment"].as_str().unwrap().to_owned();
    let detail = http::get(&address, &format!("/api/v1/disturb?experiment={name}")).body;
    let detail: Value = serde_json::from_str(&detail).unwrap();
    assert_eq!(detail["detail"]["runs"].as_array().unwrap().len(), 7);
    let stalls = detail["detail"]["cores"][0]["count"].as_u64().unwrap();
    assert_eq!(stalls, of("finished")["ended"]["effect"]["stall_count"].as_u64().unwrap(), "{detail}");
    assert_eq!(http::get(&address, "/api/v1/disturb?experiment=none").status, 404);
    let metrics = http::get(&address, "/metrics").body;
    for wanted in [
        "surefoot_disturb_experiments_total 3",
        r#"surefoot_disturb_experiments_ended_total{outcome="vanished"} 1"#,
        &format!(r#"surefoot_disturb_effect_ratio{{experiment="{name}"}}"#),
    ] {
        assert!(metrics.contains(wanted), "{wanted}: {metrics}");
    }
    // Long enough for the history to commit.
    std::thread::sleep(Duration::from_millis(1500));
    watch.ask_to_end();
    watch.finish().expect_code(0);
    let past = surefoot("history --last 1h --file").arg(&history).run();
    assert!(past.stdout.contains(&format!("experiment {name} finished: ratio")), "{past:?}");
    assert!(past.stdout.contains("refused"), "{past:?}");
}

#[test]
fn lost_time_names_the_experiment_that_takes_the_cores() {
    const TEST: &str = "lost_time_names_the_experiment_that_takes_the_cores";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let journals = folder.path().join("journals");
    let words = "disturb run --disturbance timer:rate=20,cores=0 --even-if-in-use --repetitions 200 --json --journals";
    let mut running = surefoot(words).arg(&journals).arg("--workload").arg("sleep 1").start();
    if running.line().is_none_or(|line| !line.contains("stream")) {
        let ended = running.finish();
        ended.expect_code(3);
        return surefoot_testkit::not_run::not_run(TEST, &format!("cores cannot be disturbed here: {}", ended.stderr));
    }
    let words = "watch --port 0 --no-history --source counters --interval 200ms --run-directory";
    let watch = surefoot(words).arg(folder.path().join("run")).arg("--experiments").arg(&journals);
    let mut watch = watch.start();
    let address = address_of(&mut watch);
    let until = Instant::now() + PATIENCE;
    loop {
        let overview: Value = serde_json::from_str(&http::get(&address, "/api/v1/overview").body).unwrap();
        let findings: Vec<&Value> = overview["rooms"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|room| room["findings"].as_array().unwrap())
            .collect();
        let has = |key: &str, words: &str| {
            findings.iter().any(|one| one["key"].as_str().unwrap().starts_with(key) && one.to_string().contains(words))
        };
        let words = "disturbs core 0 by timer 20 times a second";
        if has("disturb/runs/experiment/", words) && has("stall/lost-time", words) {
            break;
        }
        assert!(Instant::now() < until, "{overview}");
        std::thread::sleep(Duration::from_millis(100));
    }
    running.ask_to_end();
    let _ = running.finish();
    watch.ask_to_end();
    watch.finish().expect_code(0);
}
