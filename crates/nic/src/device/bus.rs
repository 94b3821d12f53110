//! The host's side of the interface, and what the device did to it.

use std::collections::VecDeque;

/// What the device reaches of its host. Addresses are the host's bus addresses.
pub trait Bus {
    /// Reads the host's memory.
    fn read(&mut self, address: u32, into: &mut [u8]) -> Result<(), BusFault>;
    /// Writes the host's memory; all of the bytes or none.
    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault>;
    /// A bit for each port whose mailbox is not empty.
    fn mailbox_ready(&mut self) -> u32;
    /// The first command of a port's mailbox; zeros where it is empty or the port does not exist.
    fn mailbox_first(&mut self, port: u32) -> [u32; 16];
    /// One word of it.
    fn mailbox_word(&mut self, port: u32, word: usize) -> u32 {
        self.mailbox_first(port)[word]
    }
    /// Takes the first command of a port's mailbox away, if there is one.
    fn mailbox_pop(&mut self, port: u32);
    /// The word that the host last wrote to the interface. A new question is a word that differs from the last.
    fn ping(&mut self) -> u32;
    /// The control program answers.
    fn pong(&mut self, word: u32);
    /// Interrupts the host, for a cause of [`interrupt`](super::registers::interrupt).
    fn interrupt(&mut self, cause: u32);
    /// How often the host has reset the interface; engines of another epoch are fenced.
    fn epoch(&mut self) -> u32;
}

/// Why the host's side did not do an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusFault {
    /// A read of what is not the interface's. Without an IOMMU a real host may fail by it.
    WildRead,
    /// A write to what is not the interface's. Without an IOMMU a real host fails by it.
    WildWrite,
    /// An IOMMU refused the access, and the host is unharmed.
    Refused,
}

/// What the device did to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostEventKind {
    /// An interrupt, with its cause.
    Interrupt(u32),
    /// A DMA, with its bus address; only where it failed or was fenced.
    Dma(u32, Option<BusFault>),
    /// A packet; only where it was fenced.
    Send,
}

/// What the device did to its host, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostEvent {
    /// Virtual time.
    pub at_ns: u64,
    /// What it was.
    pub kind: HostEventKind,
    /// It did not happen, because the host has reset the interface since.
    pub fenced: bool,
}

/// The last events that nobody has taken yet.
#[derive(Default)]
pub(super) struct HostEvents {
    events: VecDeque<HostEvent>,
    missed: u64,
}

/// More events than this between two calls are counted only; the oldest are kept.
const EVENTS_MAX: usize = 256;

impl HostEvents {
    pub fn push(&mut self, event: HostEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.missed += 1;
        }
    }

    pub fn take(&mut self) -> (Vec<HostEvent>, u64) {
        (self.events.drain(..).collect(), std::mem::take(&mut self.missed))
    }
}
