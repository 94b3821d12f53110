//! Whoever reads standard output may stop reading and stay: the process still ends at the first signal, and cleanly.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_testkit::HostTree;

/// For what a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bit of SIGTERM in /proc/PID/status.
const SIGTERM: u64 = 1 << (15 - 1);

fn wait_for(what: &str, child: &mut Child, mut is_so: impl FnMut(&mut Child) -> bool) {
    let begun = Instant::now();
    while !is_so(child) {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("waited in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn catches_sigterm(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & SIGTERM != 0)
}

/// Runs a command into a pipe that is full and that nobody reads, and ends it by one SIGTERM.
fn end_unread(words: &[&str]) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // As much as a pipe holds; it waits for ever where it holds less.
    let (filled, is_filled) = std::sync::mpsc::channel();
    std::thread::spawn(move || filled.send(filler.write_all(&[b'x'; 1 << 16])));
    let _ = is_filled.recv_timeout(Duration::from_secs(1));
    let directory = HostTree::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(words).stdout(writer).stderr(Stdio::null());
    if words[0] == "watch" {
        command.arg("--run-directory").arg(directory.path());
    }
    let mut child = command.spawn().unwrap();
    drop(command);
    wait_for("the handler", &mut child, |child| catches_sigterm(child));
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let mut status = None;
    wait_for("its end", &mut child, |child| {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{words:?}: {status:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{words:?}: health.json was left behind");
    drop(reader);
}

#[test]
fn a_watch_whose_output_nobody_reads_ends_at_the_first_signal() {
    end_unread(&["watch", "--source", "counters", "--no-page", "--no-history", "--json"]);
    end_unread(&["watch", "--source", "counters", "--no-page", "--no-history"]);
}

#[test]
fn a_report_that_nobody_reads_ends_at_the_first_signal() {
    end_unread(&["stall", "report", "--source", "counters", "--duration", "1h", "--json"]);
}
