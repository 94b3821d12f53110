//! The processor's loads and stores outside of the SRAM: the special registers and the mailboxes.

use super::registers::{COMMAND_WORDS, NAMES, PORTS, REGISTERS, dma, isr, link, offset};
use super::timers::TIMERS;
use super::{Bus, Device};
use crate::cpu::{Cause, Trap};

/// One past the last mailbox's window.
const WINDOWS_END: u32 = offset::MAILBOX_WINDOW + PORTS * COMMAND_WORDS * 4;

/// Whether a word below the mailboxes is a special register: this is asked at every access.
const IS_REGISTER: [bool; offset::MAILBOX_WINDOW as usize / 4] = {
    let mut is_register = [false; offset::MAILBOX_WINDOW as usize / 4];
    let mut at = 0;
    while at < NAMES.len() {
        is_register[NAMES[at].0 as usize / 4] = true;
        at += 1;
    }
    is_register
};

/// The special register or word of a mailbox at an address.
fn register_at(address: u32) -> Option<u32> {
    let register = address.wrapping_sub(REGISTERS);
    let is_register = IS_REGISTER.get(register as usize / 4).is_some_and(|is_register| *is_register);
    (register & 3 == 0 && (is_register || (offset::MAILBOX_WINDOW..WINDOWS_END).contains(&register)))
        .then_some(register)
}

impl Device {
    /// Does the load at the program counter. Says whether the processor may go on without a look at the engines.
    pub(super) fn load_register(&mut self, bus: &mut impl Bus, rd: u8, address: u32, instruction_ns: u64) -> bool {
        let Some(register) = register_at(address) else {
            let trap = Trap { cause: Cause::LoadFault, pc: self.state.core.pc, value: address };
            return self.halt(bus, trap);
        };
        let value = self.read_register(bus, register);
        let core = &mut self.state.core;
        core.x[usize::from(rd & 31)] = value;
        core.x[0] = 0;
        self.finish_access(address, value, false, Some(rd), instruction_ns);
        true
    }

    /// Does the store at the program counter. Says whether the processor may go on without a look at the engines.
    pub(super) fn store_register(&mut self, bus: &mut impl Bus, address: u32, value: u32, instruction_ns: u64) -> bool {
        let Some(register) = register_at(address) else {
            let trap = Trap { cause: Cause::StoreFault, pc: self.state.core.pc, value: address };
            return self.halt(bus, trap);
        };
        self.finish_access(address, value, true, None, instruction_ns);
        self.write_register(bus, register, value);
        false
    }

    fn finish_access(&mut self, address: u32, value: u32, is_store: bool, rd: Option<u8>, instruction_ns: u64) {
        let pc = self.state.core.pc;
        if let Some(observation) = &mut self.observation {
            observation.access(
                self.counts.instructions,
                self.state.now_ns,
                pc,
                &self.sram,
                (address, value, is_store),
                rd,
            );
        }
        self.state.core.pc = pc.wrapping_add(4);
        self.advance(1, instruction_ns);
    }

    fn read_register(&mut self, bus: &mut impl Bus, register: u32) -> u32 {
        match register {
            // In virtual time the host stands still while the interface runs.
            offset::ISR | offset::MAILBOX_READY | offset::PING if !self.has_looked => self.look_at_host(bus),
            offset::MAILBOX_WINDOW.. => {
                let word = (register - offset::MAILBOX_WINDOW) / 4;
                return bus.mailbox_word(word / COMMAND_WORDS, (word % COMMAND_WORDS) as usize);
            }
            _ => {}
        }
        self.peek(register)
    }

    /// What a register holds now, as far as the device knows without asking the host's side.
    pub fn peek(&self, register: u32) -> u32 {
        let registers = &self.state.registers;
        let now_ns = self.state.now_ns;
        match register {
            offset::RTC => {
                let (one, zero) = registers.stuck(offset::RTC);
                (self.state.timers.clock(now_ns) | one) & !zero
            }
            offset::IT0 | offset::IT1 | offset::IT2 => {
                self.state.timers.remaining((register - offset::IT0) as usize / 4, now_ns, registers)
            }
            _ => registers.get(register),
        }
    }

    fn write_register(&mut self, bus: &mut impl Bus, register: u32, value: u32) {
        match register {
            // Read only.
            offset::RTC
            | offset::DMA_STATUS
            | offset::DMA_SUM
            | offset::SEND_STATUS
            | offset::RECEIVE_BYTES0
            | offset::RECEIVE_BYTES1
            | offset::RECEIVE_STATUS0
            | offset::RECEIVE_STATUS1
            | offset::MAILBOX_READY
            | offset::PING
            | offset::NODE
            | offset::EPOCH
            | offset::MAILBOX_WINDOW.. => return,
            offset::ISR => {
                let status = self.state.registers.get(offset::ISR);
                self.state.registers.set(offset::ISR, status & !value);
            }
            _ => self.state.registers.set(register, value),
        }
        self.written(bus, register);
    }

    /// What follows from a register's new value.
    fn written(&mut self, bus: &mut impl Bus, register: u32) {
        let value = self.state.registers.get(register);
        match register {
            offset::IT0 | offset::IT1 | offset::IT2 => self.restart_timer(register),
            offset::ISR | offset::IMR => self.update_interrupts(bus),
            offset::WAIT => self.state.waiting = true,
            offset::HOST_INTERRUPT => self.interrupt_host(bus, value),
            offset::DMA_CONTROL if value & dma::START != 0 => self.start_dma(),
            offset::SEND_BYTES => self.start_send(),
            offset::RECEIVE_POINTER0 => self.arm(bus, 0),
            offset::RECEIVE_POINTER1 => self.arm(bus, 1),
            // A command that came since is for the program of the new epoch.
            offset::MAILBOX_POP if !self.is_stale(bus) => {
                bus.mailbox_pop(value);
                // What else waits there is news again, so that none is left behind by a program that looks once.
                self.state.mailboxes_seen &= !1_u32.checked_shl(value).unwrap_or(0);
                self.has_looked = false;
            }
            offset::PONG if !self.is_stale(bus) => bus.pong(value),
            _ => {}
        }
    }

    /// Whether the host has reset the interface since this program was started.
    fn is_stale(&mut self, bus: &mut impl Bus) -> bool {
        let is_stale = bus.epoch() != self.state.epoch;
        self.counts.fenced += u64::from(is_stale);
        is_stale
    }

    pub(super) fn restart_timer(&mut self, register: u32) {
        if let Some(index) = TIMERS.iter().position(|timer| *timer == register) {
            self.state.timers.start(index, self.state.now_ns, &self.state.registers);
        }
    }

    /// The bit of ISR that tells of a receive buffer.
    pub(super) fn received_bit(buffer: usize) -> u32 {
        if buffer == 0 { isr::RECEIVED0 } else { isr::RECEIVED1 }
    }

    /// The registers of a receive buffer: pointer, bytes, status.
    pub(super) fn receive_registers(buffer: usize) -> [u32; 3] {
        match buffer {
            0 => [offset::RECEIVE_POINTER0, offset::RECEIVE_BYTES0, offset::RECEIVE_STATUS0],
            _ => [offset::RECEIVE_POINTER1, offset::RECEIVE_BYTES1, offset::RECEIVE_STATUS1],
        }
    }

    /// Whether a receive buffer may be filled.
    pub(super) fn is_armed(&self, buffer: usize) -> bool {
        let [_, _, status] = Device::receive_registers(buffer);
        self.state.registers.get(status) & link::ARMED != 0
    }
}
