//! The host as an interface beside a real clock reaches it: as in virtual time, and who sleeps is woken.

use crate::device::registers::interrupt;
use crate::device::{Bus, BusFault};
use crate::host::bus::HostBus;
use crate::host::layout::{MAILBOX_COMMANDS, PORTS};
use crate::host::mailbox;

pub(super) struct LiveBus<'a>(pub HostBus<'a>);

impl Bus for LiveBus<'_> {
    fn read(&mut self, address: u32, into: &mut [u8]) -> Result<(), BusFault> {
        self.0.read(address, into)
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        self.0.write(address, bytes)
    }

    fn mailbox_ready(&mut self) -> u32 {
        self.0.mailbox_ready()
    }

    fn mailbox_first(&mut self, port: u32) -> [u32; 16] {
        self.0.mailbox_first(port)
    }

    fn mailbox_pop(&mut self, port: u32) {
        let was_full = (port as usize) < PORTS && mailbox::waiting(self.0.memory, port as usize) == MAILBOX_COMMANDS;
        self.0.mailbox_pop(port);
        if was_full {
            self.0.memory.wake_port(port as usize);
        }
    }

    fn ping(&mut self) -> u32 {
        self.0.ping()
    }

    fn pong(&mut self, word: u32) {
        self.0.pong(word);
        self.0.memory.wake_daemon();
    }

    fn interrupt(&mut self, cause: u32) {
        if cause & 0xff == interrupt::EVENTS {
            let port = (cause >> 8) as usize;
            if port < PORTS {
                self.0.memory.wake_port(port);
            }
            return;
        }
        self.0.interrupt(cause);
        self.0.memory.wake_daemon();
    }

    fn epoch(&mut self) -> u32 {
        self.0.epoch()
    }
}
