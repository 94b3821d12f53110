//! The queue of commands of one port: filled by its library, emptied by the interface.
//!
//! One writer and one reader. Two counts, of what was put in and of what was taken out, are in the port's words.

use super::layout::*;
use super::memory::{HostMemory, block, port_word};
use std::sync::atomic::Ordering;

/// A command or an event, as the control program sees it.
pub type Words = [u32; 16];

/// Puts a command at the end; `false` when the mailbox is full.
pub fn put(memory: &HostMemory, port: usize, command: &Words) -> bool {
    let put = memory.word(port_word(port, port_word::MAILBOX_PUT));
    let taken = memory.word(port_word(port, port_word::MAILBOX_TAKEN)).load(Ordering::Acquire);
    let count = put.load(Ordering::Relaxed);
    if count.wrapping_sub(taken) >= MAILBOX_COMMANDS {
        return false;
    }
    let at = block(port) + PORT_MAILBOX + count % MAILBOX_COMMANDS * 64;
    for (word, value) in (0..).zip(command) {
        memory.word(at + word * 4).store(*value, Ordering::Relaxed);
    }
    put.store(count.wrapping_add(1), Ordering::Release);
    memory.ring();
    true
}

/// How many commands wait. A count that cannot be is taken for a full mailbox.
pub fn waiting(memory: &HostMemory, port: usize) -> u32 {
    let put = memory.word(port_word(port, port_word::MAILBOX_PUT)).load(Ordering::Acquire);
    let taken = memory.word(port_word(port, port_word::MAILBOX_TAKEN)).load(Ordering::Relaxed);
    put.wrapping_sub(taken).min(MAILBOX_COMMANDS)
}

/// The first command that waits, or zeros.
pub fn first(memory: &HostMemory, port: usize) -> Words {
    let mut command = [0; 16];
    if waiting(memory, port) > 0 {
        let taken = memory.word(port_word(port, port_word::MAILBOX_TAKEN)).load(Ordering::Relaxed);
        let at = block(port) + PORT_MAILBOX + taken % MAILBOX_COMMANDS * 64;
        for (word, value) in (0..).zip(&mut command) {
            *value = memory.word(at + word * 4).load(Ordering::Relaxed);
        }
    }
    command
}

/// One word of it.
pub fn first_word(memory: &HostMemory, port: usize, word: usize) -> u32 {
    if waiting(memory, port) == 0 {
        return 0;
    }
    let taken = memory.word(port_word(port, port_word::MAILBOX_TAKEN)).load(Ordering::Relaxed);
    let at = block(port) + PORT_MAILBOX + taken % MAILBOX_COMMANDS * 64;
    memory.word(at + (word % 16) as u32 * 4).load(Ordering::Relaxed)
}

/// Takes the first command away, if there is one.
pub fn pop(memory: &HostMemory, port: usize) {
    let taken = memory.word(port_word(port, port_word::MAILBOX_TAKEN));
    let before = taken.load(Ordering::Relaxed);
    if waiting(memory, port) > 0 {
        // Where the daemon emptied the mailbox in between, there is nothing to take any more.
        let _ = taken.compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Takes all commands away: they were meant for a control program that is no more.
pub fn empty(memory: &HostMemory, port: usize) {
    let put = memory.word(port_word(port, port_word::MAILBOX_PUT)).load(Ordering::Acquire);
    memory.word(port_word(port, port_word::MAILBOX_TAKEN)).store(put, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_out_as_they_went_in_and_a_full_mailbox_says_so() {
        let memory = HostMemory::private(0, 0).unwrap();
        for round in 0..5 {
            let first_of_round = round * MAILBOX_COMMANDS;
            for n in 0..MAILBOX_COMMANDS {
                assert!(put(&memory, 3, &[first_of_round + n; 16]));
            }
            assert!(!put(&memory, 3, &[0; 16]));
            assert_eq!(waiting(&memory, 2), 0);
            for n in 0..MAILBOX_COMMANDS {
                assert_eq!(first(&memory, 3), [first_of_round + n; 16]);
                pop(&memory, 3);
            }
            pop(&memory, 3);
            assert_eq!(first(&memory, 3), [0; 16]);
        }
        put(&memory, 3, &[1; 16]);
        empty(&memory, 3);
        assert_eq!(waiting(&memory, 3), 0);
    }

    #[test]
    fn counts_that_cannot_be_are_a_full_mailbox_and_no_more() {
        let memory = HostMemory::private(0, 0).unwrap();
        memory.word(port_word(1, port_word::MAILBOX_PUT)).store(u32::MAX - 5, Ordering::Relaxed);
        memory.word(port_word(1, port_word::MAILBOX_TAKEN)).store(7, Ordering::Relaxed);
        assert_eq!(waiting(&memory, 1), MAILBOX_COMMANDS);
    }
}
