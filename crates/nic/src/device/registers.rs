//! The numbers of firmware/ncp/include/device.h, and the special registers as storage whose bits may be stuck.

/// Bytes of local memory.
pub const SRAM_BYTES: u32 = 0x20000;
/// Where the special registers begin in the processor's address space.
pub const REGISTERS: u32 = 0x8000_0000;
/// Virtual time of one instruction.
pub const INSTRUCTION_NS: u64 = 8;

/// Offsets of the special registers from [`REGISTERS`].
#[allow(missing_docs, reason = "explained in firmware/ncp/include/device.h")]
pub mod offset {
    pub const RTC: u32 = 0x00;
    pub const IT0: u32 = 0x04;
    pub const IT1: u32 = 0x08;
    pub const IT2: u32 = 0x0c;
    pub const ISR: u32 = 0x10;
    pub const IMR: u32 = 0x14;
    pub const WAIT: u32 = 0x18;
    pub const HOST_INTERRUPT: u32 = 0x1c;
    pub const DMA_HOST: u32 = 0x20;
    pub const DMA_LOCAL: u32 = 0x24;
    pub const DMA_COUNT: u32 = 0x28;
    pub const DMA_CONTROL: u32 = 0x2c;
    pub const DMA_STATUS: u32 = 0x30;
    pub const DMA_SUM: u32 = 0x34;
    pub const SEND_POINTER: u32 = 0x40;
    pub const SEND_BYTES: u32 = 0x44;
    pub const SEND_STATUS: u32 = 0x48;
    pub const RECEIVE_POINTER0: u32 = 0x50;
    pub const RECEIVE_POINTER1: u32 = 0x54;
    pub const RECEIVE_BYTES0: u32 = 0x58;
    pub const RECEIVE_BYTES1: u32 = 0x5c;
    pub const RECEIVE_STATUS0: u32 = 0x60;
    pub const RECEIVE_STATUS1: u32 = 0x64;
    pub const MAILBOX_READY: u32 = 0x70;
    pub const MAILBOX_POP: u32 = 0x74;
    pub const PING: u32 = 0x78;
    pub const PONG: u32 = 0x7c;
    pub const NODE: u32 = 0x80;
    pub const EPOCH: u32 = 0x84;
    pub const MAILBOX_WINDOW: u32 = 0x100;
}

/// Bits of ISR and IMR.
#[allow(missing_docs, reason = "explained in firmware/ncp/include/device.h")]
pub mod isr {
    pub const IT0: u32 = 0x0001;
    pub const IT1: u32 = 0x0002;
    pub const IT2: u32 = 0x0004;
    pub const DMA: u32 = 0x0010;
    pub const SENT: u32 = 0x0020;
    pub const RECEIVED0: u32 = 0x0040;
    pub const RECEIVED1: u32 = 0x0080;
    pub const MAILBOX: u32 = 0x0100;
    pub const PING: u32 = 0x0200;
}

/// Why the host is interrupted.
pub mod interrupt {
    /// Interval timer 1 reached zero while the mask allowed it: the control program did not come round in time.
    pub const WATCHDOG: u32 = 1;
    /// The control program posted an event for a port that sleeps.
    pub const EVENTS: u32 = 2;
    /// The control program found itself damaged.
    pub const FATAL: u32 = 3;
    /// The processor halted in a trap; only with [`TrapPolicy::Interrupt`](crate::device::TrapPolicy).
    pub const TRAP: u32 = 4;
    /// Another bit was set in both ISR and IMR.
    pub const STATUS: u32 = 5;
}

/// Bits of DMA_CONTROL and DMA_STATUS, and the limit of DMA_COUNT.
#[allow(missing_docs, reason = "explained in firmware/ncp/include/device.h")]
pub mod dma {
    pub const TO_HOST: u32 = 1;
    pub const START: u32 = 2;
    pub const BUSY: u32 = 1;
    pub const FAULT: u32 = 2;
    pub const BYTES_MAX: u32 = 4096;
}

/// Bits of SEND_STATUS and RECEIVE_STATUS0 and 1, and the sizes of packets.
#[allow(missing_docs, reason = "explained in firmware/ncp/include/device.h")]
pub mod link {
    pub const BUSY: u32 = 1;
    pub const ARMED: u32 = 2;
    pub const DAMAGED: u32 = 4;
    pub const PACKET_HEADER_BYTES: u32 = 64;
    pub const PACKET_DATA_BYTES: u32 = 4096;
    pub const PACKET_BYTES_MAX: u32 = PACKET_HEADER_BYTES + PACKET_DATA_BYTES;
}

/// Ports of an interface.
pub const PORTS: u32 = 8;
/// Interfaces of a network.
pub const NODES: u32 = 8;
/// Commands that a mailbox holds.
pub const MAILBOX_COMMANDS: u32 = 64;
/// Words of a command.
pub const COMMAND_WORDS: u32 = 16;

/// Every special register and its name in the header file.
pub const NAMES: &[(u32, &str)] = &[
    (offset::RTC, "RTC"),
    (offset::IT0, "IT0"),
    (offset::IT1, "IT1"),
    (offset::IT2, "IT2"),
    (offset::ISR, "ISR"),
    (offset::IMR, "IMR"),
    (offset::WAIT, "WAIT"),
    (offset::HOST_INTERRUPT, "HOST_INTERRUPT"),
    (offset::DMA_HOST, "DMA_HOST"),
    (offset::DMA_LOCAL, "DMA_LOCAL"),
    (offset::DMA_COUNT, "DMA_COUNT"),
    (offset::DMA_CONTROL, "DMA_CONTROL"),
    (offset::DMA_STATUS, "DMA_STATUS"),
    (offset::DMA_SUM, "DMA_SUM"),
    (offset::SEND_POINTER, "SEND_POINTER"),
    (offset::SEND_BYTES, "SEND_BYTES"),
    (offset::SEND_STATUS, "SEND_STATUS"),
    (offset::RECEIVE_POINTER0, "RECEIVE_POINTER0"),
    (offset::RECEIVE_POINTER1, "RECEIVE_POINTER1"),
    (offset::RECEIVE_BYTES0, "RECEIVE_BYTES0"),
    (offset::RECEIVE_BYTES1, "RECEIVE_BYTES1"),
    (offset::RECEIVE_STATUS0, "RECEIVE_STATUS0"),
    (offset::RECEIVE_STATUS1, "RECEIVE_STATUS1"),
    (offset::MAILBOX_READY, "MAILBOX_READY"),
    (offset::MAILBOX_POP, "MAILBOX_POP"),
    (offset::PING, "PING"),
    (offset::PONG, "PONG"),
    (offset::NODE, "NODE"),
    (offset::EPOCH, "EPOCH"),
];

/// The name of a special register, for people; `None` where there is none.
pub fn name(register: u32) -> Option<&'static str> {
    NAMES.iter().find(|(offset, _)| *offset == register).map(|(_, name)| *name)
}

/// What a stuck bit always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stuck {
    /// Always zero.
    Zero,
    /// Always one.
    One,
}

/// Words of register storage: up to the mailbox windows, which are the host's memory.
const STORED_WORDS: usize = offset::MAILBOX_WINDOW as usize / 4;

/// The storage of the special registers. Every read and write, by the processor and by the engines, goes through the
/// stuck bits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Registers {
    values: [u32; STORED_WORDS],
    stuck_at_one: [u32; STORED_WORDS],
    stuck_at_zero: [u32; STORED_WORDS],
}

impl Registers {
    pub fn new() -> Registers {
        let none = [0; STORED_WORDS];
        Registers { values: none, stuck_at_one: none, stuck_at_zero: none }
    }

    /// A register of [`NAMES`]; zero for any other offset.
    pub fn get(&self, register: u32) -> u32 {
        let at = register as usize / 4;
        self.values.get(at).map_or(0, |value| (value | self.stuck_at_one[at]) & !self.stuck_at_zero[at])
    }

    pub fn set(&mut self, register: u32, value: u32) {
        let at = register as usize / 4;
        if let Some(stored) = self.values.get_mut(at) {
            *stored = (value | self.stuck_at_one[at]) & !self.stuck_at_zero[at];
        }
    }

    /// Forgets the values, not the stuck bits: those are damage to the hardware.
    pub fn clear(&mut self) {
        for at in 0..STORED_WORDS {
            self.values[at] = self.stuck_at_one[at];
        }
    }

    pub fn stick(&mut self, register: u32, bit: u8, stuck: Stuck) {
        let (at, mask) = (register as usize / 4, 1 << (bit & 31));
        if at >= STORED_WORDS {
            return;
        }
        let (now, other) = match stuck {
            Stuck::One => (&mut self.stuck_at_one, &mut self.stuck_at_zero),
            Stuck::Zero => (&mut self.stuck_at_zero, &mut self.stuck_at_one),
        };
        now[at] |= mask;
        other[at] &= !mask;
        self.set(register, self.values[at]);
    }

    pub fn release_stuck(&mut self) {
        self.stuck_at_one = [0; STORED_WORDS];
        self.stuck_at_zero = [0; STORED_WORDS];
    }

    /// The bits of a register that are stuck at one and at zero.
    pub fn stuck(&self, register: u32) -> (u32, u32) {
        let at = register as usize / 4;
        match (self.stuck_at_one.get(at), self.stuck_at_zero.get(at)) {
            (Some(one), Some(zero)) => (*one, *zero),
            _ => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const HEADER: &str = include_str!("../../../../firmware/ncp/include/device.h");

    /// The numbers of the header, evaluated: hexadecimal, decimal, and sums of names in parentheses.
    fn defines() -> HashMap<&'static str, u32> {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for line in HEADER.lines() {
            let Some(rest) = line.strip_prefix("#define ") else { continue };
            let Some((name, value)) = rest.split_once(' ') else { continue };
            let value = value.split("/*").next().unwrap().trim().trim_matches(['(', ')']);
            let sum = value.split('+').map(|term| term.trim()).map(|term| match term.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
                None => term.parse().ok().or_else(|| numbers.get(term).copied()).unwrap(),
            });
            let sum = sum.sum();
            assert!(numbers.insert(name, sum).is_none(), "{name} is defined twice");
        }
        numbers
    }

    #[test]
    fn the_numbers_are_those_of_the_header_file() {
        let ours: Vec<(&str, u32)> = [
            ("SRAM_BYTES", SRAM_BYTES),
            ("REGISTERS", REGISTERS),
            ("INSTRUCTION_NS", INSTRUCTION_NS as u32),
            ("ISR_IT0", isr::IT0),
            ("ISR_IT1", isr::IT1),
            ("ISR_IT2", isr::IT2),
            ("ISR_DMA", isr::DMA),
            ("ISR_SENT", isr::SENT),
            ("ISR_RECEIVED0", isr::RECEIVED0),
            ("ISR_RECEIVED1", isr::RECEIVED1),
            ("ISR_MAILBOX", isr::MAILBOX),
            ("ISR_PING", isr::PING),
            ("HOST_INTERRUPT_WATCHDOG", interrupt::WATCHDOG),
            ("HOST_INTERRUPT_EVENTS", interrupt::EVENTS),
            ("HOST_INTERRUPT_FATAL", interrupt::FATAL),
            ("HOST_INTERRUPT_TRAP", interrupt::TRAP),
            ("HOST_INTERRUPT_STATUS", interrupt::STATUS),
            ("DMA_BYTES_MAX", dma::BYTES_MAX),
            ("DMA_TO_HOST", dma::TO_HOST),
            ("DMA_START", dma::START),
            ("DMA_BUSY", dma::BUSY),
            ("DMA_FAULT", dma::FAULT),
            ("LINK_BUSY", link::BUSY),
            ("LINK_ARMED", link::ARMED),
            ("LINK_DAMAGED", link::DAMAGED),
            ("PACKET_HEADER_BYTES", link::PACKET_HEADER_BYTES),
            ("PACKET_DATA_BYTES", link::PACKET_DATA_BYTES),
            ("PACKET_BYTES_MAX", link::PACKET_BYTES_MAX),
            ("MAILBOX_WINDOW", offset::MAILBOX_WINDOW),
            ("MAILBOX_COMMANDS", MAILBOX_COMMANDS),
            ("PORTS", PORTS),
            ("NODES", NODES),
        ]
        .into_iter()
        .chain(NAMES.iter().map(|(offset, name)| (*name, *offset)))
        .collect();
        let header = defines();
        for (name, number) in &ours {
            assert_eq!(header.get(name), Some(number), "{name}");
        }
        let names: Vec<_> = ours.iter().map(|(name, _)| *name).collect();
        let missing: Vec<_> = header.keys().filter(|name| !names.contains(name)).collect();
        assert!(missing.is_empty(), "only in the header: {missing:?}");
    }

    #[test]
    fn a_stuck_bit_holds_at_every_write_and_through_a_reset() {
        let mut registers = Registers::new();
        registers.set(offset::DMA_HOST, 0b0110);
        registers.stick(offset::DMA_HOST, 0, Stuck::One);
        registers.stick(offset::DMA_HOST, 1, Stuck::Zero);
        assert_eq!(registers.get(offset::DMA_HOST), 0b0101);
        registers.set(offset::DMA_HOST, 0b1010);
        assert_eq!(registers.get(offset::DMA_HOST), 0b1001);
        registers.clear();
        assert_eq!(registers.get(offset::DMA_HOST), 1);
        registers.release_stuck();
        registers.set(offset::DMA_HOST, 0b1010);
        assert_eq!(registers.get(offset::DMA_HOST), 0b1010);
    }
}
