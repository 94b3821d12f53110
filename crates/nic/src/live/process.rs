//! A process that is watched and may be killed, never one that got its number since.

use super::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::tasks::TaskStat;

/// A process, by a descriptor that keeps its number from being taken by another one.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it was started, clock ticks since boot.
    pub started: u64,
    descriptor: OwnedFd,
}

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs or sleeps, or waits for a processor.
    Alive,
    /// It was stopped by a signal.
    Stopped,
    /// It has ended.
    Dead,
}

impl Process {
    /// A process that is there.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn open(id: u32) -> Result<Self, Error> {
        // SAFETY: takes two numbers and returns a descriptor of its own or -1.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
        let Ok(descriptor) = i32::try_from(descriptor) else { return Err(Error::last("open a process")) };
        if descriptor < 0 {
            return Err(Error::last(format!("watch the process {id}")));
        }
        // SAFETY: the kernel has just given it to us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Process { id, started: started(id).unwrap_or(0), descriptor })
    }

    /// The one of this number, if it was started then.
    pub fn open_same(id: u32, started: u64) -> Option<Self> {
        Process::open(id).ok().filter(|process| started != 0 && process.started == started)
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        if self.wait(Duration::ZERO) {
            return State::Dead;
        }
        match TaskStat::of_process(&Root::host(), self.id) {
            None => State::Dead,
            Some(stat) if stat.has_ended() => State::Dead,
            Some(stat) if matches!(stat.state, 'T' | 't') => State::Stopped,
            Some(_) => State::Alive,
        }
    }

    /// Kills it and waits until it is gone: until it can do nothing any more.
    ///
    /// # Errors
    /// When it may not be killed, or does not go away.
    pub fn kill(&self) -> Result<(), Error> {
        self.signal(libc::SIGKILL)?;
        if self.wait(Duration::from_secs(10)) {
            return Ok(());
        }
        Err(Error::Failed(format!("process {} was killed and is still there after 10 s", self.id)))
    }

    /// Sends it a signal; one that is gone needs none.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and no information is passed.
        let failed =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.descriptor.as_raw_fd(), signal, none, 0) };
        match io::Error::last_os_error() {
            error if failed != 0 && error.raw_os_error() != Some(libc::ESRCH) => {
                Err(Error::system(format!("send a signal to process {}", self.id))(error))
            }
            _ => Ok(()),
        }
    }

    /// Whether it ends within this time.
    pub fn wait(&self, time: Duration) -> bool {
        let mut polled = libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: one entry is passed, and it and the time outlive the call.
        unsafe { libc::ppoll(&raw mut polled, 1, &raw const time, std::ptr::null()) > 0 }
    }

    /// Becomes readable when it ends.
    pub fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}

/// When a process was started, clock ticks since boot.
pub fn started(id: u32) -> Option<u64> {
    TaskStat::of_process(&Root::host(), id).map(|stat| stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_seen_alive_stopped_and_dead_and_no_other_is_taken_for_it() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert_eq!(process.state(), State::Alive);
        assert!(Process::open_same(process.id, process.started).is_some());
        assert!(Process::open_same(process.id, process.started + 1).is_none());
        process.signal(libc::SIGSTOP).unwrap();
        while process.state() != State::Stopped {
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill().unwrap();
        assert_eq!(process.state(), State::Dead);
        child.wait().unwrap();
        process.signal(libc::SIGTERM).unwrap();
    }
}
