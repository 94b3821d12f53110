//! The workload: a command under a guard, what it prints, and the number in it.
//!
//! Surefoot starts itself again as the *guard*, which starts the workload as a group of processes of its own, and holds one end
//! of a socket. When the other end closes, because Surefoot ended in whatever way, the guard ends the whole workload,
//! processes that left the group included. The guard also reads the clock at the workload's start and end.

mod guard;
mod metric;
mod output;
pub mod own;
pub mod ready;

pub use guard::guard;
pub use metric::Metric;

use crate::Fault;
use crate::disturbance::Release;
use output::{ERROR_BYTES, Kept, OUTPUT_BYTES};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_model::Digits;
use surefoot_sys::children::{self, Signal};

/// How long the guard may take for what it does at once, on a machine that is busy and stands still now and then.
const GUARD_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it has ended.
const GUARD_LOOK: Duration = Duration::from_millis(2);
/// How often who waits looks at other things.
const LOOK: Duration = Duration::from_millis(50);

/// The program that is the guard when it is started with these arguments: it calls [`guard`].
#[derive(Debug, Clone)]
pub struct Guard {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Workload {
    /// For the shell.
    pub command: String,
    /// Who starts and ends it.
    pub guard: Guard,
    /// A control group, by the folder that stands for it: the workload runs in it.
    pub cgroup: Option<PathBuf>,
    /// What the guard does when nobody is there any more to end what is done beside the workload.
    pub release: Option<Release>,
}

impl Workload {
    /// A command under a guard.
    pub fn new(command: String, guard: Guard) -> Workload {
        Workload { command, guard, cgroup: None, release: None }
    }
}

/// How a workload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; 128 and the signal, where one ended it.
    pub code: i32,
    /// `CLOCK_MONOTONIC`, when it was started.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Processes that it left behind and that were ended.
    pub left_behind: u64,
}

/// Why waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// The workload ended by itself.
    Ended(Ended),
    /// It was asked to end.
    Stopped,
    /// It took too long.
    TimeLimit,
}

/// A workload whose guard is there.
pub struct Running {
    guard: Child,
    lines: BufReader<UnixStream>,
    group: Option<u32>,
    stdout: Kept,
    stderr: Kept,
    begun: String,
}

impl Running {
    /// Starts the guard; the workload does not run yet.
    ///
    /// # Errors
    /// [`Fault::Start`].
    pub fn prepare(workload: &Workload) -> Result<Running, Fault> {
        let start = |why: String| Fault::Start(why);
        let (own, of_guard) = UnixStream::pair().map_err(|error| start(error.to_string()))?;
        let mut command = Command::new(&workload.guard.program);
        command.args(&workload.guard.arguments).process_group(0);
        command.stdin(OwnedFd::from(of_guard)).stdout(Stdio::piped()).stderr(Stdio::piped());
        // By this link also to a program that was replaced since it started.
        command.env("SUREFOOT", format!("/proc/{}/exe", std::process::id()));
        let program = workload.guard.program.display();
        let mut guard = command.spawn().map_err(|error| start(format!("{program}: {error}")))?;
        drop(command);
        let stdout = Kept::tail(guard.stdout.take(), OUTPUT_BYTES);
        let stderr = Kept::tail(guard.stderr.take(), ERROR_BYTES);
        let mut running =
            Running { guard, lines: BufReader::new(own), group: None, stdout, stderr, begun: String::new() };
        let cgroup = workload.cgroup.as_ref().map(|path| path.display().to_string());
        let release = workload.release.as_ref().map(Release::told);
        let order = serde_json::json!([workload.command, cgroup, release]);
        running.told_within(GUARD_PATIENCE, "ready")?;
        running.tell(&order.to_string())?;
        Ok(running)
    }

    /// Starts the workload; returns its group of processes.
    ///
    /// # Errors
    /// [`Fault::Start`].
    pub fn begin(&mut self) -> Result<u32, Fault> {
        self.tell("go")?;
        let line = self.told_within(GUARD_PATIENCE, "started")?;
        let group = line.split(' ').nth(1).and_then(|word| word.digits());
        let group = group.ok_or_else(|| Fault::Start(format!("its guard said: {line}")))?;
        self.group = Some(group);
        Ok(group)
    }

    /// Waits for the end, and meanwhile does something now and then that says whether to go on.
    ///
    /// # Errors
    /// [`Fault::Start`] when the guard ended.
    pub fn wait(&mut self, limit: Duration, mut goes_on: impl FnMut() -> bool) -> Result<Waited, Fault> {
        let began = Instant::now();
        loop {
            if let Some(line) = self.told(LOOK)? {
                let mut words = line.split(' ').skip(1).map(str::digits::<u64>);
                let mut next = || words.next().flatten();
                return match (next(), next(), next()) {
                    (Some(code), Some(start_ns), Some(end_ns)) if line.starts_with("ended ") => {
                        Ok(Waited::Ended(Ended { code: code as i32, start_ns, end_ns, left_behind: 0 }))
                    }
                    _ => Err(Fault::Start(format!("its guard said: {line}"))),
                };
            }
            if !goes_on() {
                return Ok(Waited::Stopped);
            }
            if began.elapsed() >= limit {
                return Ok(Waited::TimeLimit);
            }
        }
    }

    /// Ends whatever of the workload still runs; returns how much that was, and what it printed. Nothing may be signalled to
    /// its group from now on.
    ///
    /// # Errors
    /// [`Fault::Start`] when its output could not be read to its end.
    pub fn finish(mut self) -> Result<(u64, Printed), Fault> {
        self.group = None;
        self.tell("done")?;
        let line = self.told_within(GUARD_PATIENCE, "over")?;
        let left_behind = line.split(' ').nth(1).and_then(|word| word.digits()).unwrap_or(0);
        let _ = self.guard.wait();
        let (text, dropped_bytes) = self.stdout.taken();
        let (errors, _) = self.stderr.taken();
        Ok((left_behind, Printed { text, dropped_bytes, errors }))
    }

    fn tell(&mut self, line: &str) -> Result<(), Fault> {
        let told = self.lines.get_mut().write_all(format!("{line}\n").as_bytes());
        told.map_err(|error| Fault::Start(format!("its guard does not listen: {error}{}", self.errors())))
    }

    /// The next line, if one comes in this time.
    fn told(&mut self, within: Duration) -> Result<Option<String>, Fault> {
        let refused = |error: std::io::Error| Fault::Start(format!("its guard cannot be read: {error}"));
        self.lines.get_ref().set_read_timeout(Some(within)).map_err(refused)?;
        match self.lines.read_line(&mut self.begun) {
            Ok(0) => Err(Fault::Start(format!("its guard ended{}", self.errors()))),
            Ok(_) if self.begun.ends_with('\n') => Ok(Some(std::mem::take(&mut self.begun).trim_end().to_owned())),
            Ok(_) => Ok(None),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                // A workload can stop its parent, which would then hear nothing and end nothing.
                let _ = children::signal_process(self.guard.id(), Signal::Continue);
                Ok(None)
            }
            Err(error) => Err(refused(error)),
        }
    }

    fn told_within(&mut self, patience: Duration, word: &str) -> Result<String, Fault> {
        let began = Instant::now();
        while began.elapsed() < patience {
            match self.told(LOOK)? {
                Some(line) if line.starts_with(word) => return Ok(line),
                Some(line) => return Err(Fault::Start(line)),
                None => {}
            }
        }
        Err(Fault::Start(format!("its guard did not say '{word}' within {} s", patience.as_secs())))
    }

    /// What the guard said before it ended, as the end of a sentence.
    fn errors(&mut self) -> String {
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        match self.stderr.taken().0.trim() {
            "" => String::new(),
            words => format!(": {words}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The guard ends the workload when its socket closes, and collects it only then. Where the guard is gone, this ends it.
        if let Some(group) = self.group.take() {
            let _ = children::signal_group(group, Signal::Kill);
        }
        let _ = self.lines.get_ref().shutdown(std::net::Shutdown::Both);
        let began = Instant::now();
        while began.elapsed() < GUARD_PATIENCE {
            // The workload may have stopped it; what stands still does not end.
            let _ = children::signal_process(self.guard.id(), Signal::Continue);
            if !matches!(self.guard.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(GUARD_LOOK);
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

/// What a workload printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Printed {
    /// The end of its standard output.
    pub text: String,
    /// What it printed before that.
    pub dropped_bytes: u64,
    /// The end of its standard error.
    pub errors: String,
}
