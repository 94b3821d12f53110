//! The guard's side: starts the workload, tells when it began and ended, and ends it when nobody listens any more.
//!
//! Lines to the guard: the order (the command, its control group, and what is to be ended when nobody listens; JSON), `go`, `done`. Lines from it: `ready`, `started
//! GROUP`, `ended CODE START_NS END_NS`, `over LEFT_BEHIND`.

use crate::disturbance::Release;
use crate::{Fault, cgroup};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_sys::children::{self, Signal};

/// How often what remains of a workload is killed before it is given up: a process in an uninterruptible call stays.
const KILLS_MAX: u32 = 2_000;
const KILL_PAUSE: Duration = Duration::from_millis(1);
/// How often it is looked whether the parent stands still, and after how many looks it does.
const PARENT_LOOK: Duration = Duration::from_millis(200);
const STOPPED_LOOKS: u32 = 5;
/// The longest line of the other side.
const LINE_BYTES: u64 = 1 << 20;

/// Guards one workload, as who started this process says by standard input, a socket.
///
/// # Errors
/// [`Fault::Start`]; whoever started it reads the words.
pub fn guard() -> Result<(), Fault> {
    let words = |error: std::io::Error| Fault::Start(error.to_string());
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(words)?);
    children::adopt_orphans()?;
    let mut lines = BufReader::new(std::io::Read::take(socket.try_clone().map_err(words)?, LINE_BYTES));
    let say = |line: String| (&socket).write_all(format!("{line}\n").as_bytes());
    say("ready".into()).map_err(words)?;
    let Some(order) = line(&mut lines) else { return Ok(()) };
    let (command, cgroup, release): (String, Option<String>, serde_json::Value) =
        serde_json::from_str(&order).map_err(|error| Fault::Start(error.to_string()))?;
    let (cgroup, release) = (cgroup.map(PathBuf::from), Release::heard(&release));
    // Nobody says `go` any more: no workload is started, and what was begun beside it is ended.
    if line(&mut lines).is_none_or(|word| word != "go") {
        release.iter().for_each(Release::release);
        return Ok(());
    }
    let (mut child, start_ns) = match start(&command, cgroup.as_deref()) {
        Ok(started) => started,
        Err(fault) => {
            let _ = say(fault.to_string());
            return Ok(());
        }
    };
    let group = child.id();
    let _ = say(format!("started {group}"));
    std::thread::spawn(|| end_a_parent_that_stands_still(parent_id()));
    // Hears `done`, or that nobody is there any more: both end the workload. Its end ends the wait below.
    let freezer = cgroup.clone();
    let listener = std::thread::spawn(move || {
        if line(&mut lines).is_none() {
            release.iter().for_each(Release::release);
        }
        // Who stands still in a freezer of version 1 does not even end.
        freezer.iter().for_each(|path| cgroup::thaw(path));
        let _ = children::signal_group(group, Signal::Kill);
    });
    // Not collected yet: the workload's number is its own until then, so that whoever signals its group signals no other one.
    let code = children::wait_for_end(group)?;
    let end_ns = monotonic_ns();
    let _ = say(format!("ended {code} {start_ns} {end_ns}"));
    let _ = listener.join();
    let left_behind = end_all(group);
    let _ = child.wait();
    children::collect_ended();
    let _ = say(format!("over {left_behind}"));
    if let Some(path) = cgroup {
        // Whoever made it removes it; where he is gone, this does.
        let _ = std::fs::remove_dir(path);
    }
    Ok(())
}

fn line(lines: &mut impl BufRead) -> Option<String> {
    let mut text = String::new();
    let bytes = lines.read_line(&mut text).ok()?;
    (bytes > 0 && text.ends_with('\n')).then(|| text.trim_end().to_owned())
}

/// The workload as the leader of a group of its own, in its control group from its first instruction on.
fn start(command: &str, cgroup: Option<&Path>) -> Result<(Child, u64), Fault> {
    if let Some(path) = cgroup {
        cgroup::enter(path)?;
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).process_group(0).stdin(Stdio::null());
    children::kill_with_starter(&mut shell);
    let start_ns = monotonic_ns();
    let child = shell.spawn().map_err(|error| Fault::Start(format!("/bin/sh: {error}")))?;
    if let Some(parent) = cgroup.and_then(Path::parent) {
        // The guard itself must not stand still with the workload.
        cgroup::enter(parent)?;
    }
    Ok((child, start_ns))
}

/// Kills who disturbs where he was stopped (SIGSTOP, Ctrl-Z): he would end nothing any more, and what he does to cores would go on. With
/// him it ends, and this hears of it as of any other end.
fn end_a_parent_that_stands_still(parent: u32) {
    let root = Root::host();
    let is_stopped = || {
        let stat = root.read(root.proc(format!("{parent}/stat"))).ok();
        stat.is_some_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
    };
    let mut looks = 0;
    while parent_id() == parent {
        looks = if is_stopped() { looks + 1 } else { 0 };
        if looks == STOPPED_LOOKS {
            let _ = children::signal_process(parent, Signal::Kill);
        }
        std::thread::sleep(PARENT_LOOK);
    }
}

/// Ends the group and everything that descends from this process; returns how many processes the workload had left.
fn end_all(group: u32) -> u64 {
    let (root, own) = (Root::host(), std::process::id());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..KILLS_MAX {
        let left = children::descendants(&root, own);
        if left.is_empty() {
            break;
        }
        let _ = children::signal_group(group, Signal::Kill);
        for pid in left {
            seen.insert(pid);
            let _ = children::signal_process(pid, Signal::Kill);
        }
        std::thread::sleep(KILL_PAUSE);
    }
    seen.len() as u64
}
