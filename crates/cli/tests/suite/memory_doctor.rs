//! `surefoot memory doctor`: the whole output on fixtures, and the exit codes.
#![allow(clippy::unwrap_used)]

use super::golden::compare;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use surefoot_testkit::HostTree;

fn fixture(name: &str) -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../memory/tests/fixtures/{name}.tree")))
}

fn doctor(tree: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["memory", "doctor", "--host-root"]).arg(tree).args(options).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A host whose counts are not to be believed: the collector runs, somebody turned CMCI off, and set an interval that nobody reads.
fn unsound() -> HostTree {
    fixture("intel-icelake-16dimm")
        .folder("sys/kernel/debug/ras/cec")
        .file("sys/devices/system/machinecheck/machinecheck0/cmci_disabled", "1\n")
        .file("sys/module/edac_core/parameters/edac_mc_poll_msec", "100\n")
        .file("dev/kmsg", "6,1,1,-;Linux version 6.1.0\n")
}

#[test]
fn an_unsound_host_is_told_as_its_golden_files_say() {
    let tree = unsound();
    let here = tree.path().display().to_string();
    for (ending, options) in [("txt", &[][..]), ("jsonl", &["--json"])] {
        let output = doctor(tree.path(), options);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = stdout(&output).replace(&here, "").replace(env!("CARGO_PKG_VERSION"), "VERSION");
        compare(&format!("memory-doctor-unsound.{ending}"), &text);
    }
}

#[test]
fn the_exit_code_says_whether_something_is_wrong() {
    let sound = fixture("intel-icelake-16dimm").file("dev/kmsg", "6,1,1,-;Linux version 6.1.0\n");
    assert_eq!(doctor(sound.path(), &[]).status.code(), Some(0));
    // Missing labels and full blocks are worth knowing, and nothing is wrong.
    assert_eq!(doctor(fixture("amd-zen-ranks").path(), &[]).status.code(), Some(0));
    let nothing = doctor(HostTree::new().path(), &["--json"]);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing can be checked here"), "{nothing:?}");
    assert_eq!(doctor(&sound.path().join("none"), &[]).status.code(), Some(2));
}

#[test]
fn every_line_is_a_check_with_its_fields() {
    let output = doctor(unsound().path(), &["--json"]);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 22);
    for line in &lines[1..] {
        assert_eq!(line["type"], "check");
        for field in ["rule", "result", "severity", "certainty", "evidence", "consequence", "remedy"] {
            assert!(line[field].is_string(), "{field} of {line}");
        }
    }
}

/// A tree without a kernel log, ACPI tables or tracefs: four rules were not held, and have not passed.
#[test]
fn what_was_not_checked_has_not_passed() {
    let tree = fixture("intel-icelake-16dimm");
    let output = doctor(tree.path(), &["--json"]);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of =
        |result: &str| lines.iter().filter(|line| line["result"] == result).map(|line| line["rule"].clone()).collect();
    let not_checked: Vec<Value> = of("not_checked");
    let unseen = ["banks-masked", "storm-mode", "records-lost", "trace-overruns", "other-collector"];
    assert_eq!(not_checked[0], "firmware-first");
    assert_eq!(not_checked[1..], unseen);
    let (passed, found): (Vec<Value>, Vec<Value>) = (of("passed"), of("found"));
    assert_eq!((passed.len() + found.len() + not_checked.len(), found.len()), (21, 0));
    let text = stdout(&doctor(tree.path(), &[]));
    assert!(
        text.starts_with("Accounting of memory errors: 21 checks: 0 found something, 15 passed, 6 not checked\n"),
        "{text}"
    );
    let (not_checked, passed) = (text.find("\nNot checked:\n").unwrap(), text.find("\nPassed:\n").unwrap());
    let at = text.find("  storm-mode: ").unwrap();
    assert!(not_checked < at && at < passed, "{text}");
}

#[test]
fn this_host_is_checked_or_says_why_not() {
    let output = Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["memory", "doctor"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{output:?}");
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
}
