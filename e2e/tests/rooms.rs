//! Rooms in one stream: lost time, memory errors and checkpoints are recorded, replayed and kept alike.

use crate::memory::recorded;
use crate::strangers::wait_for;
use serde_json::Value;
use std::path::Path;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::command::{Finished, Running, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

/// A job with four checkpoints, every other one on the SSD, that goes on running.
fn job(tiers: &Path) -> Checkpointer {
    for tier in ["memory", "ssd"] {
        std::fs::create_dir(tiers.join(tier)).unwrap();
    }
    let mut config = Config::new("cfd/wing", tiers.join("memory"), Some(tiers.join("ssd")));
    config.policy = Policy::Fixed(Fixed::PaperNth(2));
    config.set("drive_file", "none").unwrap();
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    std::fs::write(job.route_file("state").unwrap(), [7; 50_000]).unwrap();
    job.restart().unwrap();
    (0..4).for_each(|_| assert!(job.checkpoint().unwrap().generation.is_some()));
    job
}

fn record(file: &Path, tiers: &Path, options: &str) -> Finished {
    let finished =
        surefoot("stall record --rooms all --output").arg(file).arg("--checkpoints").arg(tiers).words(options).run();
    finished.expect_code(0);
    finished
}

fn checkpoints_of(page: &mut Running) -> Value {
    let page = page.line_where(|line| line.contains("http://"));
    let address = page.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    look_of(&address, "/api/v1/checkpoints")
}

/// The answer of a page of a recording at this address, once it has come to a look.
fn look_of(address: &str, path: &str) -> Value {
    wait_for(&format!("a look in {path}"), || {
        let answer: Value = serde_json::from_str(&http::get(address, path).body).unwrap();
        (!answer["looked_realtime_ns"].is_null()).then_some(answer)
    })
}

/// The same without the texts that the API gives beside times of the wall clock.
fn without_texts(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_texts).collect(),
        Value::Object(members) => {
            let is_text = |name: &str| name.ends_with("realtime") && members.contains_key(&format!("{name}_ns"));
            let kept = members.iter().filter(|(name, _)| !is_text(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_texts(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn a_recording_of_two_rooms_replays_both_to_the_byte() {
    let Some(_turn) = turn("a_recording_of_two_rooms_replays_both_to_the_byte", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tiers = tempfile::tempdir().unwrap();
    let mut running = job(tiers.path());
    let file = folder.path().join("text");
    let live = record(&file, tiers.path(), "--duration 3s --source counters");
    assert!(live.stdout.contains("cfd/wing") && live.stdout.contains("core"), "{}", live.stdout);
    let replayed = surefoot("stall replay --rooms all").arg(&file).run();
    replayed.expect_code(0);
    assert_eq!(replayed.stdout, live.stdout);

    // While it is recorded, the job decides.
    let file = folder.path().join("json");
    let recorder = {
        let (file, tiers) = (file.clone(), tiers.path().to_owned());
        std::thread::spawn(move || record(&file, &tiers, "--duration 5s --source counters --json"))
    };
    while !recorder.is_finished() {
        assert!(running.checkpoint().unwrap().generation.is_some());
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let live = recorder.join().unwrap();
    assert_eq!(surefoot("stall replay --rooms all").arg(&file).words("--json").run().stdout, live.stdout);
    let line = live.json().into_iter().find(|line| line["type"] == "checkpoints").unwrap();
    let decisions = line["jobs"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == "decision");
    assert!(decisions.count() > 4, "those before the recording and those during it: {line:#}");

    // The page of a recording shows the same, each time, long after the job is gone.
    drop(running);
    drop(tiers);
    let answer = || {
        let mut page = surefoot("watch --port 0 --replay").arg(&file).start();
        let answer = checkpoints_of(&mut page);
        page.signal("TERM");
        page.finish().expect_code(0);
        answer
    };
    let first = answer();
    assert_eq!(first, answer());
    assert_eq!(without_texts(&first["jobs"]), line["jobs"]);
    assert_eq!(first["why"], Value::Null);
}

/// The reports of the trace, the looks and what the doctor says are in the recording, and fold to the same.
#[test]
fn a_recording_of_memory_errors_replays_to_the_byte() {
    let Some(_turn) = turn("a_recording_of_memory_errors_replays_to_the_byte", Need::Nothing) else { return };
    let (tree, folder) = (recorded::host(), tempfile::tempdir().unwrap());
    let record = |name: &str, options: &str| {
        let file = folder.path().join(name);
        let command =
            surefoot("stall record --rooms all --source counters --duration 2s --output").arg(&file).words(options);
        let live = command.arg("--host-root").arg(tree.path()).run();
        live.expect_code(0);
        let replayed = surefoot("stall replay --rooms all").arg(&file).words(options).run();
        replayed.expect_code(0);
        assert_eq!(replayed.stdout, live.stdout);
        (file, live)
    };
    let (_, text) = record("text", "");
    for word in ["DIMM_C1", "48211", "row", "11 more modules without errors", "1 uncorrected error"] {
        assert!(text.stdout.contains(word), "{word} in {}", text.stdout);
    }
    let (file, json) = record("json", "--json");
    let line = json.json().into_iter().find(|line| line["type"] == "memory").unwrap();
    assert_eq!(line["reports_count"], 9, "{line:#}");
    assert_eq!(line["reports"][0]["location"]["row"], recorded::ROW);
    assert_eq!((&line["lost"][0]["kind"], &line["lost"][0]["count"]), (&"not_understood".into(), &1.into()));
    // Long after the tree is gone, the page of the recording says the same.
    drop(tree);
    let mut page = surefoot("watch --port 0 --replay").arg(&file).start();
    let said = page.line_where(|line| line.contains("http://"));
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let answer = look_of(&address, "/api/v1/memory");
    for part in ["dimms", "controllers", "checks", "reports", "lost"] {
        assert_eq!(without_texts(&answer[part]), line[part], "{part}");
    }
    page.signal("TERM");
    page.finish().expect_code(0);
}

#[test]
fn a_host_without_a_page_keeps_its_history_and_its_health() {
    let Some(_turn) = turn("a_host_without_a_page_keeps_its_history_and_its_health", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (history, run) = (folder.path().join("history.db"), folder.path().join("run"));
    let mut running = surefoot("watch --no-page --source counters --interval 100ms --history")
        .arg(&history)
        .arg("--run-directory")
        .arg(&run)
        .start();
    running.line_where(|line| !line.starts_with("reduced: "));
    let health = run.join("health.json");
    wait_for("the room of stalls in health.json", || {
        std::fs::read_to_string(&health).is_ok_and(|text| text.contains("\"stall\"")).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.signal("TERM");
    running.finish().expect_code(0);
    assert!(!health.exists(), "nobody believes in it after the end");
    let kept = surefoot_store::history::History::open(&history, Default::default()).unwrap();
    let windows = kept.open_view().unwrap().windows(0..i64::MAX, surefoot_store::history::Resolution::Second).unwrap();
    assert!(!windows.is_empty());
}
