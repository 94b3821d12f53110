//! How the parts of a host sleep and wake one another, where they run beside a real clock.
//!
//! Who sleeps sets a word to 1, looks once more whether there is something to do, and sleeps as long as the word is 1. Who has
//! something for him sets it to 0 and wakes him. Where nobody sleeps this costs a fence and a load.

use super::layout::*;
use super::mailbox;
use super::memory::{HostMemory, port_word};
use super::port::Port;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Sleeps while the word is 1, this long at most. May come back early.
pub fn sleep(word: &AtomicU32, time_ns: u64) {
    let time = libc::timespec { tv_sec: (time_ns / 1_000_000_000) as i64, tv_nsec: (time_ns % 1_000_000_000) as i64 };
    // SAFETY: the word outlives the call, which only reads it; the time is a local. The futex is shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 1, &raw const time) };
}

/// Sets the word to 0; whether somebody slept on it, who is woken then.
fn wake(word: &AtomicU32) -> bool {
    // What was written before is seen by who looks once more after he set the word, or he is seen here.
    fence(Ordering::SeqCst);
    let sleeps = word.load(Ordering::Relaxed) == 1 && word.swap(0, Ordering::SeqCst) == 1;
    if sleeps {
        // SAFETY: the word outlives the call, which only compares its address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
    sleeps
}

impl HostMemory {
    /// Says how to wake an interface that sleeps. The first word counts.
    pub fn set_bell(&self, bell: Box<dyn Fn() + Send + Sync>) {
        let _ = self.bell.set(bell);
    }

    /// Wakes the interface, if it sleeps.
    pub fn ring(&self) {
        let Some(bell) = self.bell.get() else { return };
        if wake(self.word(control::INTERFACE_SLEEPS)) {
            bell();
        }
    }

    /// Wakes the daemon, if it sleeps.
    pub fn wake_daemon(&self) {
        wake(self.word(control::DAEMON_SLEEPS));
    }

    /// Wakes the application of a port, if it sleeps.
    pub fn wake_port(&self, port: usize) {
        wake(self.word(port_word(port, port_word::SLEEPS)));
        if !APPLICATION_PORTS.contains(&port) {
            self.wake_daemon();
        }
    }
}

impl Port {
    /// Sleeps until [`Port::poll`] may have something, this long at most.
    pub fn wait(&self, time_ns: u64) {
        let memory = &self.memory;
        let sleeps = memory.word(port_word(self.granted.number, port_word::SLEEPS));
        sleeps.store(1, Ordering::SeqCst);
        if !self.is_ready() {
            sleep(sleeps, time_ns);
        }
        sleeps.store(0, Ordering::Relaxed);
    }

    /// Whether an event, a recovery or room for a command waits.
    pub fn is_ready(&self) -> bool {
        let memory = &self.memory;
        let word = |word| memory.word(port_word(self.granted.number, word)).load(Ordering::Acquire);
        let failed = word(port_word::FAULT_EPOCH);
        let tested = if self.config.waits_for_test { word(port_word::SERVICES_TESTED) } else { u32::MAX };
        let may_post = |one: &super::port::Outstanding| {
            !one.is_posted && tested & one.message.service.bit(one.message.to.priority) != 0
        };
        !self.found.is_empty()
            || !self.accepts.words.is_empty()
            || self.has_event()
            || (failed != 0 && failed != self.epoch)
            || (!self.outbox.is_empty() && mailbox::waiting(memory, self.granted.number) < MAILBOX_COMMANDS)
            || self.outstanding.iter().any(may_post)
            || (!self.outstanding.is_empty() && memory.word(control::GIVEN_UP).load(Ordering::Relaxed) != 0)
            || self.has_ended()
    }

    /// Whether everybody who shares the memory was told to end.
    pub fn has_ended(&self) -> bool {
        self.memory.word(control::ENDING).load(Ordering::Relaxed) != 0
    }

    /// Lets whoever watches over ports know which process has this one, so that it is closed when the process dies.
    pub fn owned_since(&self, started: u64) {
        let at = port_word(self.granted.number, port_word::OWNER_STARTED);
        self.memory.word(at).store(started as u32, Ordering::Relaxed);
        self.memory.word(at + 4).store((started >> 32) as u32, Ordering::Release);
    }
}
