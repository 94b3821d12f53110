//! Ports that were closed, until the interface has let go of their memory.
//!
//! The interface may be in the middle of a packet for a port when it is told that the port is closed, and writes on. So the pages
//! of a closed port are nobody's until the interface has taken the command and its control program has answered some questions
//! after that, or until it was reloaded, which stops its engines.

use super::driver;
use super::layout::*;
use super::memory::{HostMemory, port_word};
use std::sync::atomic::Ordering;

/// So many answers after the command was taken. L_timer answers once in 100 us; the two packets that may be under way to the port
/// are written within some 60 us.
const ANSWERS: u8 = 3;
/// Where the control program is asked nothing, it is waited for so long.
const UNASKED_NS: u64 = 10_000_000;
/// How soon it is looked at again.
const LOOK_NS: u64 = 100_000;

/// How far each closed port has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Closing {
    /// 0 until the command was taken; then 1, and one more with each answer.
    steps: [u8; PORTS],
    taken_ns: [u64; PORTS],
    next_ns: Option<u64>,
}

impl Closing {
    /// Looks what the interface has taken. Whether its control program is to be asked.
    pub fn look(&mut self, memory: &HostMemory, now_ns: u64, is_asked: bool) -> bool {
        let closing = memory.word(control::CLOSING).load(Ordering::Acquire);
        if closing == 0 {
            (self.steps, self.next_ns) = ([0; PORTS], None);
            return false;
        }
        self.next_ns = Some(now_ns.saturating_add(LOOK_NS));
        let mut is_waiting = false;
        for port in (0..PORTS).filter(|port| closing >> port & 1 == 1) {
            let word = |word| memory.word(port_word(port, word)).load(Ordering::Acquire);
            let left = word(port_word::CLOSE_PUT).wrapping_sub(word(port_word::MAILBOX_TAKEN)).cast_signed();
            if self.steps[port] == 0 && left <= 0 {
                (self.steps[port], self.taken_ns[port]) = (1, now_ns);
            }
            if !is_asked && self.steps[port] > 0 && now_ns.saturating_sub(self.taken_ns[port]) >= UNASKED_NS {
                self.release(memory, port);
            }
            is_waiting |= self.steps[port] > 0;
        }
        is_asked && is_waiting
    }

    /// The control program answered.
    pub fn answered(&mut self, memory: &HostMemory) {
        for port in (0..PORTS).filter(|&port| self.steps[port] > 0).collect::<Vec<_>>() {
            self.steps[port] += 1;
            if self.steps[port] > ANSWERS {
                self.release(memory, port);
            }
        }
    }

    /// The interface that had the memory is no more.
    pub fn reloaded(&mut self, memory: &HostMemory) {
        let closing = memory.word(control::CLOSING).load(Ordering::Acquire);
        let epoch = memory.word(control::EPOCH).load(Ordering::Acquire);
        for port in (0..PORTS).filter(|port| closing >> port & 1 == 1) {
            if memory.word(port_word(port, port_word::CLOSE_EPOCH)).load(Ordering::Acquire) != epoch {
                self.release(memory, port);
            }
        }
    }

    fn release(&mut self, memory: &HostMemory, port: usize) {
        self.steps[port] = 0;
        driver::release(memory, port);
    }

    /// When it is to be looked at, where a port is closed.
    pub fn next_ns(&self) -> u64 {
        self.next_ns.unwrap_or(u64::MAX)
    }
}
