//! `memory status` beside a watch that runs, beside the history that it kept, and counts that outlive a watch.

use super::recorded::host;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{Finished, Running, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::HostTree;

fn watch(tree: &HostTree, folder: &Path) -> Running {
    let watch = surefoot("watch --port 0 --source counters --interval 200ms --run-directory").arg(folder.join("run"));
    watch.arg("--history").arg(folder.join("history.db")).arg("--host-root").arg(tree.path()).start()
}

fn status(tree: &HostTree, options: &[(&str, &Path)]) -> Finished {
    let command = surefoot("memory status --json --host-root").arg(tree.path());
    let finished = options.iter().fold(command, |command, (name, path)| command.arg(name).arg(path)).run();
    finished.expect_code(0);
    finished
}

fn module(finished: &Finished, label: &str) -> Value {
    let lines = finished.json();
    let found = lines.iter().find(|line| line["type"] == "dimm" && line["label"] == label);
    found.unwrap_or_else(|| panic!("no {label}: {lines:#?}")).clone()
}

#[test]
fn status_tells_the_fault_that_a_watch_or_its_history_knows() {
    let Some(_turn) = turn("status_tells_the_fault_that_a_watch_or_its_history_knows", Need::Nothing) else { return };
    let (tree, folder) = (host(), tempfile::tempdir().unwrap());
    let (run, history) = (folder.path().join("run"), folder.path().join("history.db"));
    let running = watch(&tree, folder.path());
    let begun = Instant::now();
    let bare = fixture_without_trace();
    // Before the watch has read its trace it knows of none.
    let known = loop {
        let known = module(&status(&bare, &[("--run-directory", &run)]), "DIMM_C1");
        if known["fault_mode"] == "row" {
            break known;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{known:#}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!((&known["spread"]["rows"], &known["spread"]["columns"]), (&1.into(), &9.into()), "{known:#}");
    assert!(known["fault"]["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
    running.ask_to_end();
    running.finish().expect_code(0);
    // The watch is gone, and what it kept is not.
    let kept = module(&status(&bare, &[("--history", &history)]), "DIMM_C1");
    assert_eq!((&kept["fault_mode"], &kept["spread"]["cells"]), (&"row".into(), &9.into()), "{kept:#}");
    // Without either, the counters tell no part, and the text says who would.
    assert_eq!(module(&status(&bare, &[]), "DIMM_C1")["fault_mode"], "undetermined");
    let text = surefoot("memory status --host-root").arg(bare.path()).run().stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("this tree has no trace of them") && words.contains("--history FILE"), "{text}");
    let nowhere = status(&bare, &[("--history", &folder.path().join("none.db"))]);
    assert!(
        nowhere
            .json()
            .iter()
            .any(|line| line["type"] == "problem" && line["path"].as_str().unwrap().ends_with("none.db"))
    );
}

fn fixture_without_trace() -> HostTree {
    let tree = host();
    std::fs::remove_file(tree.path().join("sys/kernel/tracing/trace_pipe")).unwrap();
    tree
}

#[test]
fn the_counts_of_a_watch_survive_its_end_and_a_reset_of_the_counters() {
    const TEST: &str = "the_counts_of_a_watch_survive_its_end_and_a_reset_of_the_counters";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let (tree, folder) = (fixture_without_trace(), tempfile::tempdir().unwrap());
    let state = folder.path().join("counts.json");
    let watch = || {
        let watch = surefoot("memory watch --json --duration 500ms --state").arg(&state);
        watch.arg("--host-root").arg(tree.path()).run()
    };
    let first = module(&watch(), "DIMM_C1");
    assert_eq!(first["corrected_count"], 48_211);
    // A minute later somebody loads the driver anew, and three more errors come.
    let uptime = tree.path().join("proc/uptime");
    let up_s: f64 = std::fs::read_to_string(&uptime).unwrap().split(' ').next().unwrap().parse().unwrap();
    std::fs::write(&uptime, format!("{:.2} 0.00\n", up_s + 60.0)).unwrap();
    let mc = tree.path().join("sys/devices/system/edac/mc/mc1");
    for (file, text) in [("dimm0/dimm_ce_count", "3\n"), ("ce_count", "10\n"), ("seconds_since_reset", "5\n")] {
        std::fs::write(mc.join(file), text).unwrap();
    }
    let second = module(&watch(), "DIMM_C1");
    assert_eq!(
        (&second["corrected_count"], &second["fidelity"]),
        (&48_214.into(), &"lower_bound".into()),
        "{second:#}"
    );
    // A file that is not believed is said, and counts begin anew.
    std::fs::write(&state, "{").unwrap();
    let third = watch();
    assert!(third.json().iter().any(|line| line["type"] == "problem" && line["path"] == state.to_str().unwrap()));
    assert_eq!(module(&third, "DIMM_C1")["corrected_count"], 3);
}
