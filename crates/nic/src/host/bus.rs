//! The host as its interface reaches it.

use super::layout::*;
use super::mailbox;
use super::memory::HostMemory;
use crate::device::{Bus, BusFault};
use std::sync::atomic::Ordering;

/// What stands between the interface and the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: an access to what is not the interface's is a wild one, which a host may not survive.
    None,
    /// An IOMMU: such an access is refused.
    Iommu,
}

/// The host's side of one interface.
#[derive(Debug)]
pub struct HostBus<'a> {
    /// Its memory.
    pub memory: &'a HostMemory,
    /// What guards the rest.
    pub guard: Guard,
}

impl HostBus<'_> {
    fn fault(&self, wild: BusFault) -> BusFault {
        if self.guard == Guard::Iommu { BusFault::Refused } else { wild }
    }
}

impl Bus for HostBus<'_> {
    fn read(&mut self, address: u32, into: &mut [u8]) -> Result<(), BusFault> {
        let inside = address.checked_sub(HOST_BASE).is_some_and(|offset| self.memory.read(offset, into));
        if inside { Ok(()) } else { Err(self.fault(BusFault::WildRead)) }
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        let inside = address.checked_sub(HOST_BASE).is_some_and(|offset| self.memory.write(offset, bytes));
        if inside { Ok(()) } else { Err(self.fault(BusFault::WildWrite)) }
    }

    fn mailbox_ready(&mut self) -> u32 {
        (0..PORTS).filter(|&port| mailbox::waiting(self.memory, port) > 0).fold(0, |bits, port| bits | 1 << port)
    }

    fn mailbox_first(&mut self, port: u32) -> [u32; 16] {
        if (port as usize) < PORTS { mailbox::first(self.memory, port as usize) } else { [0; 16] }
    }

    fn mailbox_word(&mut self, port: u32, word: usize) -> u32 {
        if (port as usize) < PORTS { mailbox::first_word(self.memory, port as usize, word) } else { 0 }
    }

    fn mailbox_pop(&mut self, port: u32) {
        if (port as usize) < PORTS {
            mailbox::pop(self.memory, port as usize);
        }
    }

    fn ping(&mut self) -> u32 {
        self.memory.word(control::PING).load(Ordering::Acquire)
    }

    fn pong(&mut self, word: u32) {
        self.memory.word(control::PONG).store(word, Ordering::Release);
    }

    fn interrupt(&mut self, cause: u32) {
        // A bit for each cause, so that none hides another.
        self.memory.word(control::INTERRUPT).fetch_or(1 << (cause & 0xff).min(31), Ordering::AcqRel);
    }

    fn epoch(&mut self) -> u32 {
        self.memory.word(control::EPOCH).load(Ordering::Acquire)
    }
}
