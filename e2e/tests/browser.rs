//! The page in a real browser: e2e/browser/page.mjs and who.mjs drive Chromium against the real command.
//!
//! Needs Node, a Chromium and the packages of ui/; where one is missing the tests say so and count as not run.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_e2e::actor::RAISER;
use surefoot_e2e::command::{Running, binary, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_model::{
    Advice, Cause, CauseKind, Certainty, CpuId, Event, Interrupt, LoopGap, LoopSummary, Raiser, WhoReport,
};
use surefoot_store::recording::{Existing, Reader, Writer};
use surefoot_testkit::not_run::not_run;

/// The oldest Node that the driver of the browser runs on.
const NODE_MAJOR_MIN: u32 = 20;

/// The names under which a Chromium is installed; e2e/browser/launch.mjs looks for the same.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

#[test]
fn the_live_page_works_in_a_browser() {
    const TEST: &str = "the_live_page_works_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let running = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path()).start();
    let commands = drive(running, "live", folder.path());
    for command in &commands {
        assert!(command.starts_with("surefoot stall report "), "{command}");
        let (words, duration) = command.rsplit_once(" --duration ").unwrap_or_else(|| panic!("no duration: {command}"));
        assert!(duration.strip_suffix('s').is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{command}");
        let finished = in_a_shell(&format!("{words} --duration 200ms"), folder.path());
        assert!(!finished.stdout.is_empty(), "{command}: {finished:?}");
    }
    has_flags(&commands);
}

#[test]
fn the_page_of_a_recording_works_in_a_browser() {
    const TEST: &str = "the_page_of_a_recording_works_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let recordings = top().join("docs/recordings");
    let running = surefoot("watch --port 0 --replay").arg(recordings.join("troubled.surefoot")).start();
    let commands = drive(running, "replay", folder.path());
    let mut answers = Vec::new();
    for command in &commands {
        assert!(command.starts_with("surefoot stall replay troubled.surefoot"), "{command}");
        // The page knows the name of the file and not its folder.
        answers.push(in_a_shell(command, &recordings).stdout);
    }
    has_flags(&commands);
    answers.sort();
    answers.dedup();
    assert!(answers.len() > 1, "the filters in the command change nothing: {commands:?}");
}

#[test]
fn the_live_page_names_who_interrupts_in_a_browser() {
    const TEST: &str = "the_live_page_names_who_interrupts_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    RAISER.path();
    let folder = tempfile::tempdir().unwrap();
    let running = surefoot("watch --port 0 --no-history --who 1 --run-directory").arg(folder.path()).start();
    // More than it can raise in the time that a browser takes; it is ended with this test.
    let _raiser = RAISER.start("stdio 10000000 500 1 0");
    run_script("who.mjs", running, "live", folder.path());
}

#[test]
fn the_page_of_a_recording_names_who_interrupted_in_a_browser() {
    const TEST: &str = "the_page_of_a_recording_names_who_interrupted_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("raisers.surefoot");
    let mut writer = Writer::create(&file, Existing::Refuse).unwrap();
    let troubled = Reader::open(top().join("docs/recordings/troubled.surefoot")).unwrap();
    let mut end_ns = 0;
    for event in troubled {
        if let Event::Window(window) = &event {
            end_ns = window.end_ns;
        }
        writer.append(&event).unwrap();
    }
    writer.append(&Event::Who(made_up_raisers(end_ns).into())).unwrap();
    writer.finish().unwrap();
    let running = surefoot("watch --port 0 --replay").arg(&file).start();
    run_script("who.mjs", running, "replay", folder.path());
}

/// A report with shootdowns, one raiser of which has a hostile name, and with three thousand raisers of another kind.
fn made_up_raisers(end_ns: u64) -> WhoReport {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let stats = Raiser {
        certainty: Certainty::Certain,
        function: "flush_tlb_func".into(),
        syscall: "munmap".into(),
        comm: "stats".into(),
        pid: 70,
        tid: 71,
        wakee: String::new(),
        count: 900,
        kernel_stack: words(&["flush_tlb_mm_range", "do_vmi_munmap", "__x64_sys_munmap", "do_syscall_64"]),
        user_stack: words(&["munmap", "close_counter", "read_counter_by_stdio", "main"]),
        is_sum: false,
    };
    let hostile = Raiser {
        comm: "<img src=x onerror=alert(1)>".into(),
        tid: 72,
        count: 40,
        user_stack: words(&["<script>document.title='taken over'</script>", "\u{202e}nrut"]),
        ..stats.clone()
    };
    let many = (1..=3_000).map(|tid| Raiser {
        comm: format!("worker{}", tid % 50),
        tid,
        function: "do_sync_core".into(),
        syscall: "membarrier".into(),
        count: u64::from(1 + 4_000 / tid),
        user_stack: (0..8).map(|depth| format!("call_{depth}_{}", tid % (depth * 40 + 3))).collect(),
        ..stats.clone()
    });
    let interrupt = |kind, name: &str, raisers: Vec<Raiser>, advice| {
        let count = raisers.iter().map(|raiser| raiser.count).sum();
        Interrupt {
            cpu: CpuId(1),
            cause: Cause::new(kind, name),
            handler: name.into(),
            count,
            total_ns: count * 2_000,
            p50_ns: 1_900,
            p99_ns: 4_100,
            max_ns: 9_000,
            while_idle_ns: 0,
            entry_exit_ns: None,
            intruders: Vec::new(),
            share_of_lost_ppm: 340_000,
            detail: Vec::new(),
            raisers,
            unknown_raisers: 0,
            advice,
        }
    };
    let advice = Advice {
        rule: "memory-mapping-beside-a-polling-thread".into(),
        remedy: "keep the memory".into(),
        evidence: "900 of 940 arrivals from stats in munmap".into(),
        source: "mmap(2)".into(),
        ..Advice::default()
    };
    let (pid, tid, name) = (70, 75, "<b>rx</b>".to_owned());
    let summary = LoopSummary {
        pid,
        tid,
        name: name.clone(),
        threshold_ns: 2_000,
        gap_count: 1,
        total_ns: 5_000,
        overwritten: 0,
        not_listed: 0,
    };
    let gap = LoopGap {
        pid,
        tid,
        name,
        cpu: Some(CpuId(1)),
        start_ns: end_ns,
        duration_ns: 5_000,
        parts: Vec::new(),
        unexplained_ns: 5_000,
    };
    WhoReport {
        end_ns,
        interrupts: vec![
            interrupt(CauseKind::CallFunction, "do_sync_core", many.collect(), Vec::new()),
            interrupt(CauseKind::TlbShootdown, "flush_tlb_func", vec![stats.clone(), hostile], vec![advice]),
        ],
        joined_count: 999,
        called_count: 1_000,
        loops: vec![summary],
        loop_gaps: vec![gap],
        ..WhoReport::default()
    }
}

/// Runs page.mjs against the page of this run; returns the commands that the page offered to copy.
fn drive(running: Running, mode: &str, folder: &Path) -> Vec<String> {
    let said: Value = serde_json::from_str(&run_script("page.mjs", running, mode, folder)).unwrap();
    let commands: Vec<String> = serde_json::from_value(said["commands"].clone()).unwrap();
    assert!(commands.len() >= 5, "{commands:?}");
    commands
}

/// Runs a script of e2e/browser against the page of this run, which ends with it; returns what the script said.
pub fn run_script(script: &str, mut running: Running, mode: &str, folder: &Path) -> String {
    let line = running.line_where(|line| line.contains("http://127.0.0.1:"));
    let port: String =
        line.split("http://127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    run_script_at(script, &port, running, mode, folder)
}

/// As [`run_script`], at this port.
pub fn run_script_at(script: &str, port: &str, mut running: Running, mode: &str, folder: &Path) -> String {
    let script = top().join("e2e/browser").join(script);
    let address = format!("http://127.0.0.1:{port}/");
    let driven = Command::new("node").arg(script).args([&address, mode]).arg(folder).output().unwrap();
    let (said, checks) = (String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    eprint!("{checks}");
    if !driven.status.success() {
        keep_picture(folder);
        panic!("the {mode} page failed: {checks}\n{}", running.stderr());
    }
    for theme in ["light", "dark"] {
        let picture = std::fs::read(folder.join(format!("{mode}-{theme}.png"))).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{theme}: {} bytes", picture.len());
    }
    assert!(running.is_running(), "the page ended its server: {}", running.stderr());
    running.ask_to_end();
    running.finish().expect_code(0);
    said.trim().to_owned()
}

/// Leaves the picture of the moment of the failure where it outlives the test.
fn keep_picture(folder: &Path) {
    let kept = std::env::temp_dir().join("surefoot-page-failed.png");
    if std::fs::copy(folder.join("failed.png"), &kept).is_ok() {
        eprintln!("what the page looked like: {}", kept.display());
    }
}

/// Each filter of the page has its option in one of the commands.
fn has_flags(commands: &[String]) {
    for flag in ["--cpu", "--kinds", "--min-gap"] {
        assert!(commands.iter().any(|command| command.contains(flag)), "no {flag} in {commands:?}");
    }
}

/// Runs a command as somebody who pastes it into a shell would.
pub fn in_a_shell(command: &str, folder: &Path) -> Output {
    let mut path = vec![binary().parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", std::env::join_paths(path).unwrap());
    let finished = shell.output().unwrap();
    assert_eq!(finished.status.code(), Some(0), "{command}: {finished:?}");
    finished
}

/// The top of the repository.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What the browser needs and this machine lacks, if anything.
pub fn missing() -> Option<String> {
    let version = Command::new("node").arg("--version").output().map(|said| said.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Some(format!("node {NODE_MAJOR_MIN} or newer is not installed"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if std::env::var_os("CHROMIUM").is_none() && !BROWSERS.iter().any(has) {
        return Some("no Chromium is installed; `make setup` installs one".into());
    }
    let driver = top().join("ui/node_modules/playwright-core/package.json");
    (!driver.is_file()).then(|| "the packages of ui/ are not installed; run `npm ci` there".into())
}
