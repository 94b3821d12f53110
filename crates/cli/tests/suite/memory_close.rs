//! `surefoot memory repaired`, `replaced` and `cleared` on a recorded tree with its own journal of deeds.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Output};
use surefoot_testkit::HostTree;

const JOURNAL: &str = "var/lib/surefoot/deeds.jsonl";

fn fixture() -> HostTree {
    let name = "intel-icelake-16dimm";
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../memory/tests/fixtures/{name}.tree")))
}

fn memory(tree: &HostTree, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.arg("memory").args(arguments).arg("--host-root").arg(tree.path()).output().unwrap()
}

fn line(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn closes(tree: &HostTree, arguments: &[&str]) -> Value {
    let fixed = ["--reason", "bank 3 repaired at boot", "--json"];
    line(&memory(tree, &[arguments, &fixed].concat()))
}

fn deeds(tree: &HostTree) -> Vec<Value> {
    let text = std::fs::read_to_string(tree.path().join(JOURNAL)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn status(tree: &HostTree) -> (Value, String) {
    let json = memory(tree, &["status", "--json"]);
    let text = String::from_utf8(json.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let dimm = lines.into_iter().find(|line| line["id"] == "03A10004").unwrap();
    (dimm, String::from_utf8(memory(tree, &["status"]).stdout).unwrap())
}

fn errors(tree: &HostTree, name: &str, count: u64) {
    let controller = "sys/devices/system/edac/mc/mc1";
    tree.write(format!("{controller}/dimm0/dimm_{name}"), format!("{count}\n"));
    tree.write(format!("{controller}/{name}"), format!("{count}\n"));
}

#[test]
fn a_fault_is_closed_once_and_reopens_when_it_comes_back() {
    let tree = fixture();
    errors(&tree, "ue_count", 2);
    let planned = closes(&tree, &["repaired", "DIMM_C1"]);
    assert_eq!((&planned["outcome"], &planned["module"]), (&"planned".into(), &"03A10004".into()), "{planned}");
    assert_eq!(planned["found"]["label"], "DIMM_C1");
    assert!(deeds(&tree).is_empty(), "a dry run records nothing");
    assert!(status(&tree).1.contains("CRITICAL: Memory module DIMM_C1 (03A10004) had at least 2 uncorrected errors"));
    let closed = closes(&tree, &["repaired", "03A10004", "--yes"]);
    assert_eq!(closed["outcome"], "closed", "{closed}");
    let written = deeds(&tree);
    let outcomes: Vec<&Value> = written.iter().map(|deed| &deed["outcome"]["kind"]).collect();
    assert_eq!(outcomes, ["begun", "done"]);
    assert_eq!(written[1]["action"], "fault_repaired");
    assert_eq!(written[1]["reason"]["text"], "bank 3 repaired at boot");
    let (dimm, text) = status(&tree);
    assert_eq!((&dimm["uncorrected_count"], &dimm["closed"]["uncorrected_since"]), (&2.into(), &0.into()));
    assert!(!text.contains("03A10004) had") && text.contains("with a closed fault (03A10004)"), "{text}");
    assert!(text.contains("Fault of 03A10004 closed ") && text.contains("(bank 3 repaired at boot)"), "{text}");
    // The same closing twice.
    for verb in ["repaired", "cleared"] {
        let again = closes(&tree, &[verb, "DIMM_C1", "--yes"]);
        assert_eq!(again["outcome"], "not_needed", "{again}");
        assert!(again["evidence"].as_str().unwrap().contains("closed already, as repaired"), "{again}");
    }
    assert_eq!(deeds(&tree).len(), 2);
    // It comes back.
    errors(&tree, "ue_count", 3);
    let (dimm, text) = status(&tree);
    assert_eq!((&dimm["closed"]["uncorrected_since"], &dimm["closed"]["back_count"]), (&1.into(), &1.into()));
    let text = text.replace("\n  ", " ");
    assert!(text.contains("DIMM_C1 (03A10004) had at least 1 uncorrected error: the data"), "{text}");
    assert!(text.contains("as repaired; came back after "), "{text}");
    assert_eq!(closes(&tree, &["cleared", "DIMM_C1", "--yes"])["outcome"], "closed");
    assert_eq!(status(&tree).0["closed"]["closed_count"], 2);
}

#[test]
fn what_cannot_be_closed_is_refused_and_nothing_is_recorded() {
    let tree = fixture();
    let refused = |arguments: &[&str]| {
        let output = memory(&tree, &[arguments, &["--reason", "x", "--yes"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let unknown = refused(&["repaired", "03A1000X"]);
    assert!(
        unknown.contains("03A1000X: no such module; known here: ") && unknown.contains("did you mean"),
        "{unknown}"
    );
    let same = refused(&["replaced", "DIMM_C1"]);
    assert!(same.contains("03A10004 is still in DIMM_C1 by its serial number"), "{same}");
    assert!(deeds(&tree).is_empty());
    for reason in ["", "  ", &"x".repeat(513)] {
        let output = memory(&tree, &["cleared", "DIMM_C1", "--reason", reason, "--yes"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let without = memory(&tree, &["cleared", "DIMM_C1"]);
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    let clean = closes(&tree, &["repaired", "DIMM_A1", "--yes"]);
    assert_eq!(clean["outcome"], "not_needed", "{clean}");
}

/// Killed between its two lines.
#[test]
fn a_closing_that_was_cut_short_is_told_and_can_be_done_again() {
    let tree = fixture();
    closes(&tree, &["cleared", "DIMM_C1", "--yes"]);
    let text = std::fs::read_to_string(tree.path().join(JOURNAL)).unwrap();
    std::fs::write(tree.path().join(JOURNAL), format!("{}\n", text.lines().next().unwrap())).unwrap();
    assert!(status(&tree).0["closed"].is_null());
    let again = memory(&tree, &["cleared", "DIMM_C1", "--reason", "x", "--yes"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("an earlier `memory cleared` of 03A10004 was cut short"), "{said}");
    assert_eq!(status(&tree).0["closed"]["closed_count"], 1);
}

/// Of many at once one closes the fault, and the others find it closed.
#[test]
fn two_closings_at_once_are_one() {
    let tree = fixture();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
        command.args(["memory", "cleared", "DIMM_C1", "--reason", "x", "--yes", "--json", "--host-root"]);
        command.arg(tree.path()).stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..4).map(|_| start()).collect();
    let outcomes: Vec<Value> =
        all.into_iter().map(|one| line(&one.wait_with_output().unwrap())["outcome"].clone()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "closed").count(), 1, "{outcomes:?}");
    assert_eq!(deeds(&tree).len(), 2);
}

/// The watch alone writes the counts, the command alone the journal; and the watch takes the closing over while it runs.
#[test]
fn a_running_watch_takes_a_closing_over() {
    let tree = fixture();
    let state = tree.path().join("counts");
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["memory", "watch", "--json", "--duration", "10min", "--state"]).arg(&state);
    command.arg("--host-root").arg(tree.path()).stdout(std::process::Stdio::piped());
    let mut watch = command.spawn().unwrap();
    let mut lines = std::io::BufReader::new(watch.stdout.take().unwrap()).lines();
    // A line of the module; the watch ends by itself where none comes.
    let mut next = || {
        let line = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        line.into_iter().find(|line| line["id"] == "03A10004").unwrap()
    };
    assert!(next()["closed"].is_null());
    closes(&tree, &["cleared", "DIMM_C1", "--yes"]);
    let taken = next();
    assert_eq!(taken["closed"]["closing"], "cleared", "{taken}");
    assert_eq!((&taken["corrected_count"], &taken["closed"]["corrected_since"]), (&48211.into(), &0.into()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    // What it kept knows the closing, also without the journal.
    std::fs::remove_file(tree.path().join(JOURNAL)).unwrap();
    let json = memory(&tree, &["status", "--json", "--state", &state.display().to_string()]);
    let text = String::from_utf8(json.stdout).unwrap();
    let dimm =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["id"] == "03A10004");
    assert_eq!(dimm.unwrap()["closed"]["closed_count"], 1);
}

#[test]
fn the_slots_are_shown_with_what_is_unknown() {
    let tree = fixture();
    let text = String::from_utf8(memory(&tree, &["status", "--slots"]).stdout).unwrap();
    let row = |place: &str| text.lines().find(|line| line.starts_with(place) && line.contains("still there")).unwrap();
    assert!(row("mc1/dimm0").contains("03A10004"), "{text}");
    let blind = HostTree::unpacked(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../memory/tests/fixtures/intel-nehalem-csrow.tree"),
    );
    let shown = String::from_utf8(memory(&blind, &["status", "--slots"]).stdout).unwrap();
    assert!(shown.lines().any(|line| line.contains("still there") && line.contains("unknown")), "{shown}");
    let json = String::from_utf8(memory(&tree, &["status", "--slots", "--json"]).stdout).unwrap();
    assert!(json.lines().filter(|line| line.contains(r#""type":"slot""#)).count() >= 16, "{json}");
}
