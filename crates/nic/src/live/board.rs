//! What the daemon does to an interface beside a real clock.
//!
//! An interface whose process lives loads its control program anew by itself, which takes some tens of microseconds. One whose
//! process is stopped, dead, or does not do so in time is killed, and another one is started.

use super::Error;
use super::own_clock::OwnClock;
use super::process::{Process, State};
use crate::host::daemon::Board;
use crate::host::layout::control;
use crate::host::memory::HostMemory;
use crate::host::wake;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_hostfs::clock::monotonic_ns;

/// An interface whose clock went on by so much since it was asked has had its chance to answer: L_timer does so every 100 us.
const ANSWER_US: u32 = 110;
/// How long an interface that does not get to run is waited for, at most, by the daemon's own clock.
const HELD_UP_NS_MAX: u64 = 500_000_000;
/// An interface that is stopped is none that was stopped with its daemon, and goes on a moment later, after the daemon has run again
/// for so long.
const RESUME_NS: u64 = 50_000_000;
/// The longest sleep of a daemon that waits for its interface to begin, and how late it may end.
const WAIT_STEP_NS: u64 = 1_000_000;
/// How long one that was started is waited for.
const START_NS_MAX: u64 = 10_000_000_000;

/// How often one that is stopped or killed before it has begun is started.
const STARTS_MAX: u32 = 10;

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
    /// By the daemon's own clock.
    asked_ns: u64,
    /// Until when a stopped interface may still go on; given once to a question, for on a busy machine a daemon is stopped again and again.
    resumes_until_ns: u64,
    has_resumed: bool,
    /// Processes that were started anew.
    pub started_count: u64,
}

impl LiveBoard {
    /// A board; the interface is not started yet.
    pub fn new(memory: Arc<HostMemory>, start: Option<Start>) -> Self {
        LiveBoard {
            memory,
            start,
            child: None,
            process: None,
            asked_ns: 0,
            resumes_until_ns: 0,
            has_resumed: false,
            started_count: 0,
        }
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
        let epoch = self.memory.word(control::EPOCH).load(Ordering::Acquire);
        self.begin(epoch)
    }

    /// Starts an interface that runs this epoch. One that somebody stops or kills before it does is replaced like any other.
    fn begin(&mut self, epoch: u32) -> Result<(), Error> {
        for _ in 0..STARTS_MAX {
            self.renew()?;
            if self.wait(epoch, START_NS_MAX) {
                return Ok(());
            }
            // One that is there and does nothing, or has ended by itself and said why, would do no more the next time.
            let is_killed =
                |child: &mut Child| child.try_wait().is_ok_and(|end| end.and_then(|end| end.signal()).is_some());
            if self.state() != State::Stopped && !self.child.as_mut().is_some_and(is_killed) {
                break;
            }
        }
        Err(Error::Failed(NOT_BEGUN.to_owned()))
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

    /// The daemon was stopped until now, perhaps with the whole host: its interface may go on a moment later than it does.
    pub fn was_stopped(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.has_resumed, true) {
            self.resumes_until_ns = now_ns + RESUME_NS;
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
        let mut clock = OwnClock::new(monotonic_ns());
        let until_ns = clock.ns() + patience_ns;
        let sleeps = self.memory.word(control::DAEMON_SLEEPS);
        while clock.ns() < until_ns {
            sleeps.store(1, Ordering::SeqCst);
            if self.runs(epoch) {
                break;
            }
            wake::sleep(sleeps, WAIT_STEP_NS);
            clock.go_on(monotonic_ns(), 2 * WAIT_STEP_NS);
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
        self.begin(epoch).map_err(|error| error.to_string())
    }

    fn asked(&mut self, now_ns: u64) {
        self.has_resumed = false;
        self.asked_ns = now_ns;
    }

    fn is_held_up(&mut self, now_ns: u64) -> bool {
        let may_run = match self.state() {
            State::Alive => true,
            State::Stopped => now_ns < self.resumes_until_ns,
            State::Dead => false,
        };
        if !may_run || now_ns.saturating_sub(self.asked_ns) > HELD_UP_NS_MAX {
            return false;
        }
        // Not the processor time of its process: to that the kernel adds what firmware or an interrupt took from it.
        self.had_us() < ANSWER_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_interface_that_is_stopped_or_killed_before_it_has_begun_is_started_again() {
        let memory = Arc::new(HostMemory::private(0, 0).unwrap());
        let epoch = memory.word(control::EPOCH).fetch_add(1, Ordering::AcqRel) + 1;
        let words = ["kill -STOP $$", "kill -KILL $$", "sleep 100"];
        let (shared, mut starts) = (Arc::clone(&memory), 0);
        let start: Start = Box::new(move || {
            let word = words[starts];
            starts += 1;
            if starts == words.len() {
                shared.word(control::RELOADED).store(epoch, Ordering::Release);
            }
            Command::new("sh").args(["-c", word]).spawn().map_err(Error::system("start"))
        });
        let mut board = LiveBoard::new(Arc::clone(&memory), Some(start));
        board.attach().unwrap();
        assert_eq!((board.started_count, board.state()), (3, State::Alive));
        board.process.as_ref().unwrap().kill().unwrap();
        board.child.take().unwrap().wait().unwrap();
        // One that ends by itself has said why, and is started once.
        memory.word(control::EPOCH).fetch_add(1, Ordering::AcqRel);
        let start: Start = Box::new(|| Command::new("false").spawn().map_err(Error::system("start")));
        let mut board = LiveBoard::new(memory, Some(start));
        assert!(board.attach().is_err() && board.started_count == 1);
    }

    #[test]
    fn an_interface_that_was_stopped_with_its_daemon_may_go_on_after_it_and_one_that_is_stopped_alone_may_not() {
        let memory = Arc::new(HostMemory::private(0, 0).unwrap());
        let start: Start = Box::new(|| Command::new("sleep").arg("100").spawn().map_err(Error::system("start")));
        let mut board = LiveBoard::new(Arc::clone(&memory), Some(start));
        board.renew().unwrap();
        memory.word(control::PING).store(7, Ordering::Release);
        board.asked(1_000);
        assert!(board.is_held_up(2_000), "it got no processor");
        memory.word(control::ASKED).store(7, Ordering::Release);
        memory.word(control::ASKED_US).store(ANSWER_US, Ordering::Release);
        assert!(!board.is_held_up(2_000), "it ran and did not answer");
        memory.word(control::ASKED_US).store(0, Ordering::Release);
        assert!(!board.is_held_up(2_000 + HELD_UP_NS_MAX));
        board.process.as_ref().unwrap().signal(libc::SIGSTOP).unwrap();
        while board.state() != State::Stopped {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!board.is_held_up(2_000));
        board.was_stopped(3_000);
        board.was_stopped(4_000);
        assert!(board.is_held_up(4_000) && !board.is_held_up(3_000 + RESUME_NS), "once to a question");
        board.asked(4_000 + RESUME_NS);
        board.was_stopped(4_000 + RESUME_NS);
        assert!(board.is_held_up(5_000 + RESUME_NS));
        board.process.as_ref().unwrap().kill().unwrap();
        assert!(!board.is_held_up(5_000 + RESUME_NS), "dead is dead");
        board.child.take().unwrap().wait().unwrap();
    }
}
