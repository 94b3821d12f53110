//! `surefoot stall audit`: the whole output on a recorded tree, and the exit codes on this host and without one.
#![allow(clippy::unwrap_used)]

use super::golden::compare;
use serde_json::Value;
use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use surefoot_testkit::HostTree;
use surefoot_testkit::not_run::not_run;

/// The part of the first line of JSON that changes from release to release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

fn surefoot() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["stall", "audit"]);
    command
}

/// A machine whose cores 1 to 3 are isolated, with some things forgotten.
fn isolated_intel() -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join("../hostfs/tests/fixtures/isolated-intel.tree"))
}

fn audit_of(tree: &Path, options: &[&str]) -> Output {
    surefoot().arg("--root").arg(tree).args(options).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_recorded_machine_is_audited_as_its_golden_files_say() {
    let tree = isolated_intel();
    let here = tree.path().display().to_string();
    for (name, options) in [
        ("audit-isolated-intel.txt", &["--cpu", "1-3"][..]),
        ("audit-isolated-intel.jsonl", &["--cpu", "1-3", "--json"]),
    ] {
        let output = audit_of(tree.path(), options);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        // Reasons name the real path, which differs from run to run.
        compare(name, &stdout(&output).replace(&here, "").replace(VERSION, "VERSION"));
    }
}

/// `--cpus` was the option's name in some commands before.
#[test]
fn the_former_spelling_of_the_option_still_works() {
    let tree = isolated_intel();
    let [now, former] = ["--cpu", "--cpus"].map(|option| audit_of(tree.path(), &[option, "1"]));
    assert_eq!(stdout(&now), stdout(&former));
    let help = stdout(&surefoot().arg("--help").output().unwrap());
    assert!(help.contains("--cpu <LIST>") && !help.contains("--cpus"), "{help}");
}

#[test]
fn what_the_commands_of_the_recorded_machine_change_is_then_fine() {
    let tree = isolated_intel()
        .file("proc/irq/132/smp_affinity_list", "0,4-7\n")
        .file("proc/irq/133/smp_affinity_list", "0,4-7\n")
        .file("proc/irq/134/smp_affinity_list", "0,4-7\n")
        .file("proc/irq/134/effective_affinity_list", "4\n")
        .file("sys/bus/workqueue/devices/writeback/cpumask", "f1\n")
        .file("proc/sys/kernel/sched_rt_runtime_us", "-1\n")
        .file("proc/sys/kernel/numa_balancing", "0\n")
        .file("sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0\n")
        .file("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=1-3\n")
        .file("sys/devices/system/cpu/cpu3/cpuidle/state2/disable", "1\n")
        .file("sys/devices/system/cpu/cpu3/cpuidle/state3/disable", "1\n")
        .without("proc/75")
        .without("proc/1200");
    for core in 1..=3 {
        tree.write(format!("sys/devices/system/machinecheck/machinecheck{core}/check_interval"), "0\n");
    }
    let output = audit_of(tree.path(), &["--cpu", "1-3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).starts_with("Isolation of cores 1-3: 35 checks, 0 with something to fix"));
}

#[test]
fn the_exit_code_tells_wrong_use_from_an_empty_tree() {
    let tree = HostTree::new();
    let output = audit_of(tree.path(), &["--cpu", "1"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing can be checked here"), "{output:?}");
    let offline = audit_of(isolated_intel().path(), &["--cpu", "9"]);
    assert_eq!(offline.status.code(), Some(2), "{offline:?}");
    assert!(String::from_utf8_lossy(&offline.stderr).contains("core 9 does not exist"), "{offline:?}");
    let nowhere = audit_of(&tree.path().join("none"), &["--cpu", "1"]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    let without_cores = surefoot().output().unwrap();
    assert_eq!(without_cores.status.code(), Some(2));
}

#[test]
fn hostile_files_are_named_and_move_no_cursor() {
    let tree = isolated_intel()
        .file("proc/1200/stat", "1200 (\u{1b}[2Jx) S 1 0 0 0 -1 4194304 ".to_owned() + &"0 ".repeat(40))
        .file("sys/devices/virtual/workqueue/cpumask", "\u{1b}[31mzz\n")
        .file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "\u{7}\n")
        .file("proc/irq/default_smp_affinity", vec![b'f'; 100_000])
        .file("proc/sys/kernel/watchdog_cpumask", "3-1\n")
        .file("proc/sys/vm/stat_interval", "99999999999999999999\n")
        .file("proc/interrupts", [0xffu8; 64]);
    let output = audit_of(tree.path(), &["--cpu", "1-3"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = stdout(&output);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    for named in [
        "workqueue/cpumask, line 1",
        "default_smp_affinity, line 1",
        "watchdog_cpumask, line 1",
        "stat_interval, line 1",
    ] {
        assert!(text.contains(named), "{named} in {text}");
    }
}

/// Every check is there for the core, with evidence that says what was measured or why nothing was.
fn check_live(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let mut found = lines(output);
    let first = found.remove(0);
    let said = ["type", "schema", "command"].map(|name| &first[name]);
    assert_eq!(said, [&Value::from("stream"), &Value::from(2), &Value::from("stall audit")]);
    let by_name: HashMap<&str, &Value> = found.iter().map(|line| (line["name"].as_str().unwrap(), line)).collect();
    assert_eq!((found.len(), by_name.len()), (35, 35));
    for line in &found {
        assert_eq!((&line["type"], &line["cpu"]), (&Value::from("check"), &Value::from(0)));
        for field in ["state", "actual", "expected", "why", "evidence", "source"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {line}");
        }
        assert!(!line["evidence"].as_str().unwrap().contains("recorded tree"), "{line}");
        assert_eq!(line["state"] == "fix", line["fix"] != "", "{line}");
    }
    // The machine counts its interrupts for everybody, so these were measured.
    for name in ["interrupts", "softirqs"] {
        assert_ne!(by_name[name]["state"], "cannot_be_checked", "{}", by_name[name]);
    }
}

#[test]
fn this_host_is_audited_with_measured_evidence() {
    check_live(&surefoot().args(["--cpu", "0", "--json", "--duration", "300ms"]).output().unwrap());
}

#[test]
fn this_host_is_audited_without_privilege() {
    let name = "this_host_is_audited_without_privilege";
    let folder = tempfile_that_everybody_reads();
    let binary = folder.path().join("surefoot");
    std::fs::copy(env!("CARGO_BIN_EXE_surefoot"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["stall", "audit", "--cpu", "0", "--json", "--duration", "300ms"]).uid(NOBODY).gid(NOBODY);
    match command.output() {
        Ok(output) => check_live(&output),
        Err(error) => not_run(name, &format!("becoming user {NOBODY} needs root: {error}")),
    }
}

fn tempfile_that_everybody_reads() -> HostTree {
    let tree = HostTree::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(tree.path(), open).unwrap();
    tree
}
