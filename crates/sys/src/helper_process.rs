//! A child process that this one asks things and that may hang in the kernel, where even SIGKILL does not end it.
//!
//! None stays a zombie: one that outlives its kill is kept in a list and reaped once it has ended.

use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// How long a process may take to end after SIGKILL before it counts as hung.
const END: Duration = Duration::from_millis(200);

/// Killed, not yet ended, and no longer owned. As short as the process table: an entry goes when its process does.
static LEFT: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A running helper. Dropping it kills it.
#[derive(Debug)]
pub struct HelperProcess(Option<Child>);

/// A helper that was killed and has not ended. Dropping it leaves it to [`reap`].
#[derive(Debug)]
pub struct Hung(Option<Child>);

impl HelperProcess {
    /// Starts the program.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        reap();
        Ok(HelperProcess(Some(command.spawn()?)))
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// Kills it. Returns it where it does not end.
    pub fn kill(mut self) -> Option<Hung> {
        self.killed()
    }

    fn killed(&mut self) -> Option<Hung> {
        let mut process = self.0.take()?;
        // It may have ended already.
        let _ = process.kill();
        let begun = Instant::now();
        while runs(&mut process) {
            if begun.elapsed() >= END {
                return Some(Hung(Some(process)));
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        // A helper that hangs is left to `reap` by the drop of what this returns.
        drop(self.killed());
    }
}

impl Hung {
    /// Whether it still runs: its file system has neither answered nor gone.
    pub fn runs(&mut self) -> bool {
        self.0.as_mut().is_some_and(runs)
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take()
            && runs(&mut process)
        {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        }
    }
}

/// Reaps the helpers that have ended since they were left. Call it now and then where helpers are started.
pub fn reap() {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(runs);
}

fn runs(process: &mut Child) -> bool {
    matches!(process.try_wait(), Ok(None))
}

/// Whether a process is running or runnable, and the processor time that it has used, clock ticks.
pub fn activity(pid: u32) -> (bool, u64) {
    let root = Root::host();
    let stat = root.read(root.proc(format!("{pid}/stat"))).unwrap_or_default();
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let state = fields.next().unwrap_or("R");
    // After the state: ppid to cmajflt are ten, then utime and stime.
    let ticks = fields.skip(10).take(2).filter_map(|ticks| ticks.digits::<u64>()).sum();
    (state == "R", ticks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Stdio;
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    fn place(pid: u32) -> PathBuf {
        PathBuf::from(format!("/proc/{pid}"))
    }

    #[test]
    fn a_helper_that_is_dropped_or_killed_is_no_zombie() {
        let start = || HelperProcess::start(Command::new("sleep").arg("600")).unwrap();
        for end in [drop as fn(HelperProcess), |helper| assert!(helper.kill().is_none())] {
            let helper = start();
            let place = place(helper.pid());
            assert!(place.exists());
            end(helper);
            // On a machine that is very busy it may end later than it is waited for.
            let begun = Instant::now();
            while place.exists() {
                assert!(begun.elapsed() < Duration::from_secs(60), "nothing reaped it");
                reap();
            }
        }
    }

    #[test]
    fn a_helper_that_hangs_is_reaped_once_it_ends_whoever_dropped_it() {
        for is_killed_first in [true, false] {
            let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
                Ok(mounted) => mounted,
                Err(why) => {
                    return not_run(
                        "helper_process::a_helper_that_hangs_is_reaped_once_it_ends_whoever_dropped_it",
                        &why,
                    );
                }
            };
            mounted.hang();
            let helper =
                HelperProcess::start(Command::new("cat").arg(mounted.program()).stderr(Stdio::null())).unwrap();
            let place = place(helper.pid());
            while mounted.unanswered() == 0 {
                thread::yield_now();
            }
            match is_killed_first {
                true => {
                    let mut hung = helper.kill().expect("no signal ends it");
                    assert!(hung.runs());
                    drop(hung);
                }
                false => drop(helper),
            }
            assert!(place.exists());
            drop(mounted);
            let begun = Instant::now();
            while place.exists() {
                assert!(begun.elapsed() < Duration::from_secs(120), "nothing reaped it");
                reap();
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
