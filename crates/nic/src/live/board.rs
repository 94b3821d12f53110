//! What the daemon does to an interface beside a real clock.
//!
//! An interface whose process lives loads its control program anew by itself, which takes some tens of microseconds. One whose
//! process is stopped, dead, or does not do so in time is killed, and another one is started.

use super::Error;
use super::process::{Process, State};
use crate::host::daemon::Board;
use crate::host::layout::control;
use crate::host::memory::HostMemory;
use crate::host::wake;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_hostfs::clock::monotonic_ns;

/// An interface whose clock went on by so much since it was asked has had its chance to answer: L_timer does so every 100 us.
const ANSWER_US: u32 = 110;
/// And so has one whose process ran for so long, though its clock stands still.
const ANSWER_CPU_NS: u64 = 5_000_000;
/// How long an interface that does not get to run is waited for, at most.
const HELD_UP_NS_MAX: u64 = 500_000_000;
/// How long one that was started is waited for.
const START_NS_MAX: u64 = 10_000_000_000;

const NOT_BEGUN: &str = "the interface's process was started and did not load its control program within 10 s";

/// Starts the process of an interface.
pub type Start = Box<dyn FnMut() -> Result<Child, Error> + Send>;

/// The board of an interface in a process of its own, or in a thread of this one.
pub struct LiveBoard {
    memory: Arc<HostMemory>,
    /// `None` where the interface is a thread of this process.
    start: Option<Start>,
    child: Option<Child>,
    process: Option<Process>,
    asked_ns: u64,
    asked_cpu_ns: Option<u64>,
    /// Processes that were started anew.
    pub started_count: u64,
}

impl LiveBoard {
    /// A board; the interface is not started yet.
    pub fn new(memory: Arc<HostMemory>, start: Option<Start>) -> Self {
        let started_count = 0;
        LiveBoard { memory, start, child: None, process: None, asked_ns: 0, asked_cpu_ns: None, started_count }
    }

    /// Takes over the interface that a daemon before has started, or starts one.
    ///
    /// # Errors
    /// When none can be started.
    pub fn attach(&mut self) -> Result<(), Error> {
        if self.start.is_none() {
            return Ok(());
        }
        let word = |at: u32| u64::from(self.memory.word(control::INTERFACE + at).load(Ordering::Acquire));
        let (id, started) = (word(0) as u32, word(4) | word(8) << 32);
        self.process = Process::open_same(id, started);
        if self.process.is_some() {
            return Ok(());
        }
        self.renew()?;
        let epoch = self.memory.word(control::EPOCH).load(Ordering::Acquire);
        if self.wait(epoch, START_NS_MAX) { Ok(()) } else { Err(Error::Failed(NOT_BEGUN.to_owned())) }
    }

    /// Ends the interface that there is and starts another one, which begins with the epoch that it finds.
    fn renew(&mut self) -> Result<(), Error> {
        if let Some(process) = self.process.take() {
            process.kill()?;
        }
        if let Some(mut child) = self.child.take() {
            // Only its exit code is left of it.
            let _ = child.wait();
        }
        let Some(start) = &mut self.start else { return Ok(()) };
        let child = start()?;
        let process = Process::open(child.id())?;
        for (at, value) in [(0, process.id), (4, process.started as u32), (8, (process.started >> 32) as u32)] {
            self.memory.word(control::INTERFACE + at).store(value, Ordering::Release);
        }
        self.started_count += 1;
        (self.process, self.child) = (Some(process), Some(child));
        Ok(())
    }

    fn state(&self) -> State {
        match (&self.process, &self.start) {
            (Some(process), _) => process.state(),
            (None, Some(_)) => State::Dead,
            (None, None) => State::Alive,
        }
    }

    /// For how long the control program has run since it was asked.
    fn had_us(&self) -> u32 {
        let word = |word| self.memory.word(word).load(Ordering::Acquire);
        if word(control::ASKED) == word(control::PING) { word(control::ASKED_US) } else { 0 }
    }

    fn runs(&self, epoch: u32) -> bool {
        self.memory.word(control::RELOADED).load(Ordering::Acquire) == epoch
    }

    /// Waits until the interface runs this epoch.
    fn wait(&self, epoch: u32, patience_ns: u64) -> bool {
        let until_ns = monotonic_ns() + patience_ns;
        let sleeps = self.memory.word(control::DAEMON_SLEEPS);
        while monotonic_ns() < until_ns {
            sleeps.store(1, Ordering::SeqCst);
            if self.runs(epoch) {
                break;
            }
            wake::sleep(sleeps, 1_000_000);
            if self.state() != State::Alive {
                break;
            }
        }
        sleeps.store(0, Ordering::Relaxed);
        self.runs(epoch)
    }
}

impl Board for LiveBoard {
    fn reload(&mut self, epoch: u32) -> Result<(), String> {
        if self.state() == State::Alive {
            self.memory.word(control::RELOAD).store(epoch, Ordering::Release);
            self.memory.ring();
            if self.wait(epoch, HELD_UP_NS_MAX) {
                return Ok(());
            }
        }
        self.renew().map_err(|error| error.to_string())?;
        if self.wait(epoch, START_NS_MAX) {
            return Ok(());
        }
        Err(NOT_BEGUN.to_owned())
    }

    fn asked(&mut self) {
        self.asked_ns = monotonic_ns();
        self.asked_cpu_ns = self.process.as_ref().and_then(Process::cpu_ns);
    }

    fn is_held_up(&mut self) -> bool {
        if self.state() != State::Alive || monotonic_ns().saturating_sub(self.asked_ns) > HELD_UP_NS_MAX {
            return false;
        }
        let cpu_ns = |process: &Process| Some(process.cpu_ns()?.saturating_sub(self.asked_cpu_ns?));
        self.had_us() < ANSWER_US && self.process.as_ref().and_then(cpu_ns).unwrap_or(0) < ANSWER_CPU_NS
    }
}
