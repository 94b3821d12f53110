//! Files on a file system that does not answer: commands say so, and end when they are asked to.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, binary, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::hanging::HangingFileSystem;
use surefoot_testkit::not_run::not_run;

const LINE: &str =
    "[    1.0] EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x1 offset:0x0 grain:32 syndrome:0x0)\n";

/// A file system with a kernel's log in it.
fn mounted(home: &Path, test: &str) -> Option<HangingFileSystem> {
    let log = home.join("log");
    fs::write(&log, LINE).unwrap();
    HangingFileSystem::mount(&log).map_err(|why| not_run(test, &why)).ok()
}

/// Runs the command, whose child may keep its output open for ever: how it ended, and what it said.
fn ended(words: &[&str], file: &Path, home: &Path, mut while_it_runs: impl FnMut(u32)) -> (ExitStatus, String) {
    let said = home.join("said");
    let mut command = Command::new(binary());
    command.args(words).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let mut running = command.spawn().unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = running.try_wait().unwrap() {
            return (status, fs::read_to_string(said).unwrap());
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} does not end");
        while_it_runs(running.id());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_system_that_does_not_answer_is_named_by_every_command() {
    const TEST: &str = "answering::a_file_system_that_does_not_answer_is_named_by_every_command";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(mounted) = mounted(home.path(), TEST) else { return };
    let file = mounted.program();
    let (status, said) = ended(&["memory", "import"], &file, home.path(), |_| {});
    assert!(status.success() && said.is_empty(), "{status}: {said}");
    mounted.hang();
    // One that reads and one that goes on for ever.
    for words in [&["memory", "import"][..], &["watch", "--no-page", "--checks"]] {
        let (status, said) = ended(words, &file, home.path(), |_| {});
        assert_eq!(status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("its file system did not answer") && said.contains("unmount it"), "{words:?}: {said}");
    }
}

#[test]
fn a_file_system_that_stops_answering_later_holds_no_command() {
    const TEST: &str = "answering::a_file_system_that_stops_answering_later_holds_no_command";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    for words in [&["memory", "import"][..], &["stall", "replay"], &["history", "--file"], &["disturb", "report"]] {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        // It answers when it is first looked at.
        mounted.hang_after_opens(1);
        let mut is_asked = false;
        let (status, said) = ended(words, &mounted.program(), home.path(), |process| {
            if !is_asked && mounted.unanswered() > 0 {
                is_asked = true;
                assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
            }
        });
        assert_eq!(status.signal(), Some(15), "{words:?}: {status}: {said}");
        assert!(said.contains("still waits for a file system that does not answer"), "{words:?}: {said}");
    }
}

#[test]
fn a_directory_that_does_not_answer_holds_no_command_that_reads_it() {
    const TEST: &str = "answering::a_directory_that_does_not_answer_holds_no_command_that_reads_it";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let all: [&[&str]; 5] = [
        &["checkpoint", "list"],
        &["checkpoint", "verify"],
        &["status", "--run-directory"],
        &["memory", "status", "--host-root"],
        &["remedy", "cases", "--store"],
    ];
    for words in all {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        mounted.hang();
        let mut is_asked = false;
        let directory = mounted.program().parent().unwrap().to_owned();
        let directory = match words.last() {
            Some(&"--store") => PathBuf::from(format!("sqlite:{}", directory.join("cases.db").display())),
            _ => directory,
        };
        let (status, said) = ended(words, &directory, home.path(), |process| {
            if !is_asked && mounted.unanswered() > 0 {
                is_asked = true;
                assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
            }
        });
        assert_eq!(status.signal(), Some(15), "{words:?}: {status}: {said}");
    }
}

#[test]
fn a_watch_of_a_directory_that_does_not_answer_fails_its_source_and_ends() {
    const TEST: &str = "answering::a_watch_of_a_directory_that_does_not_answer_fails_its_source_and_ends";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    for (option, sign) in [
        ("--experiments", "\"source\":\"disturb\",\"state\":\"failed\""),
        ("--checkpoints", "\"problem\":\"its file system does not answer\""),
    ] {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        mounted.hang();
        let directory = mounted.program().parent().unwrap().to_owned();
        let run = surefoot("watch --json --port 0 --interval 200ms --no-history --run-directory")
            .arg(home.path().join("run"));
        let mut running = run.arg(option).arg(&directory).start();
        let line = running.line_where(|line| line.contains(sign));
        assert!(line.contains("does not answer") && line.contains(directory.to_str().unwrap()), "{line}");
        assert!(mounted.unanswered() > 0, "it was never asked");
        running.ask_to_end();
        running.finish().expect_code(0);
    }
}
