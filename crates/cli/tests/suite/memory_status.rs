//! `surefoot memory status`: the whole output on fixtures of every layout, and on this host.
#![allow(clippy::unwrap_used)]

use super::golden::compare;
use rustix::fs::inotify;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_testkit::HostTree;

fn fixture(name: &str) -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../memory/tests/fixtures/{name}.tree")))
}

fn status(tree: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["memory", "status", "--host-root"]).arg(tree).args(options).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

const LAYOUTS: [&str; 4] = ["intel-icelake-16dimm", "amd-zen-ranks", "intel-nehalem-csrow", "hpe-ghes-4dimm"];

#[test]
fn every_layout_is_shown_as_its_golden_files_say() {
    for name in LAYOUTS {
        let tree = fixture(name);
        let here = tree.path().display().to_string();
        for (ending, options) in [("txt", &[][..]), ("jsonl", &["--json"])] {
            let output = status(tree.path(), options);
            assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
            let text = stdout(&output).replace(&here, "").replace(env!("CARGO_PKG_VERSION"), "VERSION");
            compare(&format!("memory-status-{name}.{ending}"), &text);
        }
    }
}

#[test]
fn an_empty_tree_is_not_supported_and_says_what_to_do() {
    let tree = HostTree::new();
    for options in [&[][..], &["--json"]] {
        let output = status(tree.path(), options);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("not supported here") && why.contains("load"), "{why}");
    }
    let nowhere = status(&tree.path().join("none"), &[]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
}

#[test]
fn the_fixed_names_are_on_every_line() {
    for name in LAYOUTS {
        let output = status(fixture(name).path(), &["--json"]);
        let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &lines[1..] {
            let fields: &[&str] = match line["type"].as_str().unwrap() {
                "dimm" => {
                    &["id", "label", "corrected_count", "uncorrected_count", "rate_per_s", "fault_mode", "fidelity"]
                }
                "controller" => &["id", "corrected_count", "uncorrected_count", "no_information_count", "adds_up"],
                "problem" => &["path", "why"],
                other => panic!("{other}"),
            };
            assert!(fields.iter().all(|field| line.get(field).is_some()), "{line}");
        }
    }
}

/// This host is what it is: either there are modules, or the reason why not.
#[test]
fn this_host_is_looked_at_or_says_why_not() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    let output = command.args(["memory", "status", "--json"]).output().unwrap();
    match output.status.code() {
        Some(0) => assert!(stdout(&output).contains(r#""type":"dimm""#), "{output:?}"),
        Some(3) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(why.contains("memory errors are not supported here: "), "{why}");
        }
        _ => panic!("{output:?}"),
    }
}

/// The running host with the tree in the place of /sys: errors of the time between the looks are seen.
#[test]
fn what_happens_between_two_looks_of_a_running_host_is_seen() {
    let name = "what_happens_between_two_looks_of_a_running_host_is_seen";
    let tree = fixture("intel-icelake-16dimm");
    let script = "mount --bind \"$1/sys\" /sys && exec \"$2\" memory status --json --duration 3s";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(tree.path()).arg(env!("CARGO_BIN_EXE_surefoot"));
    let errors = tree.path().join("sys/devices/system/edac/mc");
    let reads = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&reads, errors.join("mc1/dimm0/dimm_ce_count"), inotify::WatchFlags::ACCESS).unwrap();
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut running) = running else { return surefoot_testkit::not_run::not_run(name, "unshare is not installed") };
    let mut bytes = [std::mem::MaybeUninit::uninit(); 4096];
    let begun = Instant::now();
    // Its first look reads them, three seconds before the second one.
    while inotify::Reader::new(&reads, &mut bytes).next().is_err() && running.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(90), "it reads no counter");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    // In place, as the kernel does: a file that is open shows it.
    std::fs::write(errors.join("mc1/dimm0/dimm_ce_count"), "48811\n").unwrap();
    std::fs::write(errors.join("mc1/ce_count"), "48818\n").unwrap();
    let output = running.wait_with_output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("unshare") {
        return surefoot_testkit::not_run::not_run(name, &format!("a mount namespace needs root: {output:?}"));
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bad = lines.iter().find(|line| line["id"] == "03A10004").unwrap();
    assert_eq!(bad["corrected_count"], 48_811);
    let rate = bad["rate_per_s"].as_f64().unwrap();
    // 600 errors in three seconds, or more on a busy machine.
    assert!((6.0..=200.1).contains(&rate), "{bad}");
    assert!(!lines.iter().any(|line| line["type"] == "problem"), "{lines:?}");
}

/// Who names a watch believes that it was asked.
#[test]
fn a_run_directory_that_no_watch_runs_from_is_a_problem_where_it_was_named() {
    let (tree, home) = (fixture("amd-zen-ranks"), tempfile::tempdir().unwrap());
    let text = stdout(&status(tree.path(), &["--run-directory", home.path().to_str().unwrap()]));
    assert!(text.contains(": no watch of root or of this user runs from it"), "{text}");
    assert!(!stdout(&status(tree.path(), &[])).contains("no watch of root"));
}

/// A full disk is told, and hides no error of the memory.
#[test]
fn what_was_seen_is_shown_where_the_counts_cannot_be_kept() {
    let name = "what_was_seen_is_shown_where_the_counts_cannot_be_kept";
    let tree = fixture("intel-icelake-16dimm");
    let home = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=4k none \"$1\" && exec \"$2\" memory status --json --host-root \"$3\" --state \"$1/state\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(home.path()).arg(env!("CARGO_BIN_EXE_surefoot")).arg(tree.path());
    let output = match command.output() {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("unshare") => output,
        other => return surefoot_testkit::not_run::not_run(name, &format!("a mount namespace needs root: {other:?}")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("stays as it was: No space left"), "{output:?}");
    assert!(stdout(&output).contains(r#""corrected_count":48211"#), "{output:?}");
}

/// A rename puts the counts in the place of whatever was there, as of /dev/null. Here the test's own device and pipe.
#[test]
fn the_state_file_takes_the_place_of_nothing_but_a_file_of_one_s_own() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let (tree, home) = (fixture("amd-zen-ranks"), tempfile::tempdir().unwrap());
    let made = |program: &str, name: &str, words: &[&str]| {
        let status = Command::new(program).arg(home.path().join(name)).args(words).status();
        status.is_ok_and(|status| status.success())
    };
    assert!(made("mkfifo", "pipe", &[]));
    std::fs::write(home.path().join("victim"), "precious").unwrap();
    symlink("victim", home.path().join("link")).unwrap();
    let mut names = vec![("pipe", "no regular file"), ("link", "symbolic link")];
    // Only root can make one.
    if made("mknod", "device", &["c", "1", "3"]) {
        names.push(("device", "no regular file"));
    }
    for (name, why) in names {
        let path = home.path().join(name);
        let output = status(tree.path(), &["--state", path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(why) && said.contains("--state") && output.stdout.is_empty(), "{name}: {said}");
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        assert!(kind.is_fifo() || kind.is_char_device() || kind.is_symlink(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(home.path().join("victim")).unwrap(), "precious");
    let path = home.path().join("state");
    for errors in ["1830", "1830"] {
        let output = status(tree.path(), &["--state", path.to_str().unwrap()]);
        assert!(output.status.success() && stdout(&output).contains(errors), "{output:?}");
    }
}

/// A trace in a recorded tree tells the failing part; the text says it with the worst first.
#[test]
fn a_recorded_trace_tells_the_fault_and_the_worst_stands_first() {
    let line = |column: u32| {
        format!(
            "     kworker/0:1-123     [000] .....   1.000000: mc_event: 1 Corrected error: memory read error on DIMM_C1 (mc:1 \
             location:0:0:-1 address:0x00000000 grain:32 syndrome:0x00000000  err_code:0x0101:0x0090 ProcessorSocketId:0x0 \
             MemoryControllerId:0x1 PhysicalRankId:0x0 Row:0x1a2b Column:{column:#x} Bank:0x3 BankGroup:0x1)\n"
        )
    };
    let trace: String = (0..9).map(|number| line(0x10 + 8 * number)).collect();
    let tree = fixture("intel-icelake-16dimm").file("sys/kernel/tracing/trace_pipe", trace);
    let text = stdout(&status(tree.path(), &[]));
    let first = text.lines().next().unwrap();
    assert_eq!(
        first,
        "CRITICAL: 16 modules: 1 lost data (mc2/dimm2), 2 with corrected errors only (03A10004, 03A10007), \
         2 possibly with errors whose module is unknown (03A10005, 03A10006), 11 without errors"
    );
    for words in [
        "03A10004 (DIMM_C1): row fault (certain)",
        "at   9 errors in 9 cells, 1 row, 9 columns, 1 bank, 1 rank",
        "map  rank 0 bank 7: errors by row and column",
        "Faults and places as reported to the recorded trace.",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let output = stdout(&status(tree.path(), &["--json"]));
    let bad = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let bad = bad.into_iter().find(|line| line["id"] == "03A10004").unwrap();
    assert_eq!((&bad["fault_mode"], &bad["spread"]["columns"]), (&"row".into(), &9.into()));
}

#[test]
fn a_second_look_at_a_tree_whose_clock_stands_still_says_that_it_gives_no_rate() {
    let tree = fixture("intel-icelake-16dimm");
    let output = status(tree.path(), &["--duration", "10ms"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    assert!(text.contains("--duration gives no rate here") && text.contains("proc/uptime"), "{text}");
    assert!(!stdout(&status(tree.path(), &[])).contains("--duration gives no rate"), "not without the option");
}

/// What a watch prints of a failing row: the place, what to do, and of a line that nobody understands that it was not understood.
#[test]
fn a_watch_tells_the_advice_of_a_row_and_a_line_that_it_does_not_understand() {
    let line = |column: u32| {
        format!(
            "     kworker/0:1-123     [000] .....   1.000000: mc_event: 1 Corrected error: memory read error on DIMM_C1 (mc:1 \
             location:0:0:-1 address:0x00000000 grain:32 syndrome:0x00000000  err_code:0x0101:0x0090 ProcessorSocketId:0x0 \
             MemoryControllerId:0x1 PhysicalRankId:0x0 Row:0x1a2b Column:{column:#x} Bank:0x3 BankGroup:0x1)\n"
        )
    };
    let trace: String = (0..9).map(|number| line(0x10 + 8 * number)).collect();
    let odd = "     kworker/0:1-123     [000] .....   1.000000: mc_event: what nobody understands\n";
    let tree = fixture("intel-icelake-16dimm").file("sys/kernel/tracing/trace_pipe", trace + odd);
    let watch = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
        command.args(["memory", "watch", "--duration", "300ms", "--host-root"]).arg(tree.path()).args(options);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        stdout(&output)
    };
    let text = watch(&[]);
    for words in [
        "1 corrected error on DIMM_C1, rank 0, bank 7 (bank 3 of group 1), row 0x1a2b, column 0x10",
        "03A10004 (DIMM_C1): row fault (certain), whether it stays is undetermined",
        "do   Nothing yet: it was not seen to come back.",
        "notice: 1 report of a memory error could not be understood",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("came too fast"), "{text}");
    let lost = watch(&["--json"]);
    let lost =
        lost.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["type"] == "lost");
    let lost = lost.unwrap();
    assert_eq!(
        (&lost["kind"], &lost["count"], &lost["source"]),
        (&"not_understood".into(), &1.into(), &"mc_event".into())
    );
}

/// A headline "OK: 16 modules: 16 without errors" must not stand above a counter that could not be read.
#[test]
fn a_counter_that_cannot_be_read_shows_as_a_dash_and_not_as_no_error() {
    let mc = "sys/devices/system/edac/mc";
    let tree = fixture("intel-icelake-16dimm");
    let label =
        |name: &str| std::fs::read_to_string(tree.path().join(mc).join("mc0").join(name).join("dimm_label")).unwrap();
    let label = label("dimm0").trim().to_owned();
    let tree = tree.without(format!("{mc}/mc0/dimm0/dimm_ue_count")).file(format!("{mc}/mc0/ue_count"), "many\n");
    let text = stdout(&status(tree.path(), &[]));
    assert!(text.contains("1 with counters that cannot be read ("), "{text}");
    let row = text.lines().find(|line| line.contains(&label)).unwrap();
    let end = text.lines().find(|line| line.contains("uncorrected") && line.starts_with("module")).unwrap();
    let at = end.find("uncorrected").unwrap();
    let cell: String = row.chars().skip(at).take("uncorrected".len()).collect();
    assert_eq!(cell.trim(), "-", "{text}");
    let lines = stdout(&status(tree.path(), &["--json"]));
    let controller = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["type"] == "controller");
    assert_eq!(controller.unwrap()["uncorrected_count"], Value::Null, "{lines}");
}

/// A module with corrected errors whose counter of uncorrected ones is gone may have lost data.
#[test]
fn what_is_half_known_is_not_only_corrected() {
    let tree = fixture("intel-icelake-16dimm");
    let controller = tree.path().join("sys/devices/system/edac/mc/mc1");
    let whole = stdout(&status(tree.path(), &[]));
    assert!(whole.contains("with corrected errors only"), "{whole}");
    std::fs::remove_file(controller.join("ue_count")).unwrap();
    for module in std::fs::read_dir(&controller).unwrap() {
        let counter = module.unwrap().path().join("dimm_ue_count");
        if counter.exists() {
            std::fs::remove_file(counter).unwrap();
        }
    }
    let said = stdout(&status(tree.path(), &[]));
    assert!(said.contains("with corrected errors, others not known"), "{said}");
    assert!(!said.contains("with corrected errors only"), "{said}");
}
