//! Programs of others that know what we do not: their answer, or why there is none.
//!
//! None is waited for longer than it was given, and none may say more than a limit.

mod pipes;

use crate::children::{self, Signal};
use pipes::Pipes;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use surefoot_foreign::said;

/// The most text that is taken of an answer.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How often a run that may be stopped is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// What is still waited for from the pipes of a program that has ended: somebody whom it left behind may hold them open.
const PIPE_PATIENCE: Duration = Duration::from_millis(500);

/// How long a process that was told to end may take for it; one that a hung device holds in the kernel is left.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Where distributions put a program; no search path is used, because who asks has privilege.
pub fn find(name: &str) -> Option<PathBuf> {
    const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/usr/local/sbin"];
    FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
}

/// The standard output of a program that reads this on its standard input. It is ended by its id when it takes longer than
/// `patience` or says more than [`ANSWER_BYTES_MAX`]. How it ended is not asked: what it said tells more.
///
/// # Errors
/// Why there is no answer, in words.
pub fn answer(mut command: Command, input: &[u8], patience: Duration) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begun = Instant::now();
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{name} cannot be run: {}", said(&error)))?;
    let Some(pipe) = child.stdout.take() else { return Err(format!("{name} has no output")) };
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // A program that reads nothing holds this thread until it ends; one that has ended already is told nothing.
        std::thread::spawn(move || _ = stdin.write_all(&input));
    }
    let (send, receive) = mpsc::sync_channel(1);
    // Reading may last as long as the program; the thread ends with it.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let outcome = pipe.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut text).map(|_| text);
        let _ = send.send(outcome);
    });
    let answer = receive.recv_timeout(patience);
    let ended = end(&mut child, patience.saturating_sub(begun.elapsed()), answer.is_ok());
    match answer {
        Err(_) if !ended => Err(format!(
            "{name} gave no answer in {patience:.0?} and did not end when it was killed: it waits in the kernel for its device, or this machine is too busy"
        )),
        Err(_) => Err(format!("{name} gave no answer in {patience:.0?}")),
        Ok(Err(error)) => Err(format!("{name}: {}", said(&error))),
        Ok(Ok(text)) if text.len() as u64 > ANSWER_BYTES_MAX => {
            Err(format!("{name} said more than {ANSWER_BYTES_MAX} bytes"))
        }
        Ok(Ok(text)) => Ok(text),
    }
}

/// How a program ended that was run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, or 128 and the signal that ended it, as a shell says it.
    pub code: i32,
    /// What it wrote to standard output: the first bytes, up to the limit.
    pub output: Vec<u8>,
    /// What it wrote to standard error: the first bytes, up to the limit.
    pub complaint: Vec<u8>,
    /// Bytes of both that were read and thrown away.
    pub dropped_bytes: u64,
    /// The processor time that it took, with that of whom it started and waited for.
    pub processor: Duration,
}

/// Why a program was not run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It did not start.
    #[error("{0}")]
    NotStarted(String),
    /// It took longer than it was given, and was ended with all that it started.
    #[error("it took longer than {0:?} and was ended")]
    TookTooLong(Duration),
    /// It was ended because the caller asked for that.
    #[error("it was ended because the caller stopped")]
    Stopped,
}

/// Runs a program that does something, in a group of processes of its own, and says how it ended. The group is killed when it takes longer
/// than `patience` or `stop` is set; it is also killed with whoever started it. What it says beyond the limit is read on and dropped, so that it
/// is not held up. Whoever it leaves behind with its pipes in hand keeps nothing of them open here.
///
/// # Errors
/// [`Broken`], where it did not start or was ended.
pub fn run(command: Command, input: &[u8], patience: Duration, stop: &AtomicBool) -> Result<Ended, Broken> {
    run_up_to(ANSWER_BYTES_MAX, command, input, patience, stop)
}

/// As [`run`], with another limit for what it says.
///
/// # Errors
/// As [`run`].
pub fn run_up_to(
    bytes_max: u64,
    mut command: Command,
    input: &[u8],
    patience: Duration,
    stop: &AtomicBool,
) -> Result<Ended, Broken> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begun = Instant::now();
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    children::kill_with_starter(&mut command);
    let mut child =
        command.spawn().map_err(|error| Broken::NotStarted(format!("{name} cannot be run: {}", said(&error))))?;
    let mut pipes = Pipes::of(&mut child, input, bytes_max);
    let (status, processor) = loop {
        let broken = match children::ended(child.id()) {
            Ok(Some(ended)) => break ended,
            _ if stop.load(Ordering::Relaxed) => Broken::Stopped,
            _ if begun.elapsed() >= patience => Broken::TookTooLong(patience),
            _ => {
                pipes.turn(LOOK_PERIOD);
                continue;
            }
        };
        let _ = children::signal_group(child.id(), Signal::Kill);
        end(&mut child, Duration::ZERO, false);
        return Err(broken);
    };
    let (output, complaint, dropped_bytes) = pipes.rest(PIPE_PATIENCE);
    Ok(Ended { code: code_of(status), output, complaint, dropped_bytes, processor })
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Waits for a program, for as long as `patience` where it has answered, and else ends it. Whether it is gone.
fn end(child: &mut Child, patience: Duration, has_answered: bool) -> bool {
    let gone_within = |child: &mut Child, patience: Duration| {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(_)) | Err(_) => return true,
                Ok(None) if begun.elapsed() >= patience => return false,
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    if has_answered && gone_within(child, patience.min(END_PATIENCE)) {
        return true;
    }
    let _ = child.kill();
    gone_within(child, END_PATIENCE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shell(script: &str, input: &[u8], patience_ms: u64) -> Result<Vec<u8>, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        answer(command, input, Duration::from_millis(patience_ms))
    }

    #[test]
    fn a_program_is_told_and_heard() {
        assert_eq!(shell("tr a-z A-Z", b"what it reads", 20_000).unwrap(), b"WHAT IT READS");
        // Who reads nothing is told in vain.
        assert_eq!(shell("echo done", &[b'x'; 1 << 20], 20_000).unwrap(), b"done\n");
    }

    fn run_shell(script: &str, patience_ms: u64, stop: &AtomicBool) -> Result<Ended, Broken> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, b"", Duration::from_millis(patience_ms), stop)
    }

    #[test]
    fn a_run_tells_its_end_and_what_was_said() {
        let never = AtomicBool::new(false);
        let ended = run_shell("echo done; echo why >&2; exit 7", 20_000, &never).unwrap();
        assert_eq!((ended.code, &*ended.output, &*ended.complaint), (7, &b"done\n"[..], &b"why\n"[..]));
        assert_eq!(run_shell("kill -9 $$", 20_000, &never).unwrap().code, 137);
        let works = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        assert!(run_shell(works, 20_000, &never).unwrap().processor > Duration::from_millis(5));
        let talks = run_shell("head -c 3000000 /dev/zero", 20_000, &never).unwrap();
        assert_eq!((talks.output.len() as u64, talks.dropped_bytes), (ANSWER_BYTES_MAX, 3_000_000 - ANSWER_BYTES_MAX));
    }

    /// A service that a program starts goes on, in a session of its own, with the program's pipes in hand.
    #[test]
    fn what_a_program_leaves_behind_hides_nothing_that_it_said_and_keeps_nothing_open() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let never = AtomicBool::new(false);
        let script = format!(
            "setsid sh -c 'echo $$ > {0}; exec sleep 600' & while [ ! -s {0} ]; do sleep 0.01; done; echo said",
            pid.display()
        );
        let mine = || {
            let links = std::fs::read_dir("/proc/self/fd")
                .unwrap()
                .flatten()
                .flat_map(|entry| std::fs::read_link(entry.path()));
            links.map(|link| link.display().to_string()).filter(|link| link.starts_with("pipe:")).collect::<Vec<_>>()
        };
        let ended = run_shell(&script, 20_000, &never).unwrap();
        let left_behind = std::fs::read_to_string(&pid).unwrap();
        let left_behind: u32 = left_behind.trim().parse().unwrap();
        let its = std::fs::read_link(format!("/proc/{left_behind}/fd/1")).unwrap().display().to_string();
        let ours = mine();
        children::signal_process(left_behind, Signal::Kill).unwrap();
        assert_eq!(&*ended.output, b"said\n");
        assert!(its.starts_with("pipe:") && !ours.contains(&its), "{its}: {ours:?}");
    }

    #[test]
    fn a_run_is_told_what_is_longer_than_a_pipe_and_one_that_reads_nothing_is_not_waited_for() {
        let never = AtomicBool::new(false);
        let mut counts = Command::new("/bin/sh");
        counts.args(["-c", "wc -c"]);
        let long = vec![b'x'; 3_000_000];
        assert_eq!(run(counts, &long, Duration::from_secs(20), &never).unwrap().output, b"3000000\n");
        let mut deaf = Command::new("/bin/sh");
        deaf.args(["-c", "echo done"]);
        assert_eq!(run(deaf, &long, Duration::from_secs(20), &never).unwrap().output, b"done\n");
    }

    #[test]
    fn a_run_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let late = format!("(sleep 2; touch {}) & sleep 60", mark.display());
        let never = AtomicBool::new(false);
        assert!(matches!(run_shell(&late, 300, &never), Err(Broken::TookTooLong(_))));
        assert_eq!(run_shell("sleep 60", 60_000, &AtomicBool::new(true)), Err(Broken::Stopped));
        std::thread::sleep(Duration::from_millis(2_300));
        assert!(!mark.exists(), "what the program started went on");
    }

    #[test]
    fn a_program_that_hangs_or_never_stops_is_ended() {
        let begun = Instant::now();
        assert!(shell("exec sleep 60", b"", 200).unwrap_err().contains("no answer in 200ms"));
        assert!(shell("exec cat /dev/zero", b"", 60_000).unwrap_err().contains("said more than 1048576 bytes"));
        // It closes its output and stays.
        assert_eq!(shell("echo said; exec sleep 600 >/dev/null", b"", 60_000).unwrap(), b"said\n");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let none = answer(Command::new("/no/such/program"), b"", Duration::from_secs(1)).unwrap_err();
        assert!(none.starts_with("/no/such/program cannot be run"), "{none}");
    }
}
