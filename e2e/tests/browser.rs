//! The page in a real browser: e2e/browser/page.mjs drives Chromium against the real command.
//!
//! Needs Node, a Chromium and the packages of ui/; where one is missing the tests say so and count as not run.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_e2e::command::{Running, binary, surefoot};
use surefoot_e2e::machine::{Need, turn};
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

/// Runs the browser against the page of this run; returns the commands that the page offered to copy.
fn drive(mut running: Running, mode: &str, folder: &Path) -> Vec<String> {
    let line = running.line_where(|line| line.contains("http://127.0.0.1:"));
    let port: String =
        line.split("http://127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let script = top().join("e2e/browser/page.mjs");
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
    running.signal("INT");
    running.finish().expect_code(0);
    let said: Value = serde_json::from_str(said.trim()).unwrap_or_else(|error| panic!("{said}: {error}"));
    let commands: Vec<String> = serde_json::from_value(said["commands"].clone()).unwrap();
    assert!(commands.len() >= 5, "{commands:?}");
    commands
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
    for flag in ["--cpus", "--kinds", "--min-gap"] {
        assert!(commands.iter().any(|command| command.contains(flag)), "no {flag} in {commands:?}");
    }
}

/// Runs a command as somebody who pastes it into a shell would.
fn in_a_shell(command: &str, folder: &Path) -> Output {
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
fn missing() -> Option<String> {
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
