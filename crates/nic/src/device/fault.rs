//! What the host and the fault injector do to the device from outside: programmed I/O, flipped and stuck bits.

use super::registers::{NAMES, REGISTERS, Stuck, dma, offset};
use super::{Bus, Device, Error};

/// Where a bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The word at `location`, an address that is a multiple of four.
    Sram,
    /// One of the processor's registers x1 to x31; the location counts for nothing.
    Register(u8),
    /// The program counter; the location counts for nothing.
    Pc,
    /// The special register with this offset; the location counts for nothing.
    Device(u32),
}

/// What a fault does to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// As [`Device::flip`].
    Flip {
        /// Where.
        space: Space,
        /// The place in it.
        location: u32,
        /// Which bit.
        bit: u8,
    },
    /// As [`Device::stick`].
    Stick {
        /// The special register.
        register: u32,
        /// Which bit.
        bit: u8,
        /// What it always is from then on.
        stuck: Stuck,
    },
}

impl Device {
    /// Does damage as soon as so many instructions were done since the device was made: before the next one. What was
    /// planned before is forgotten; so it is by [`Device::restore`].
    ///
    /// # Errors
    /// When there is no such bit; nothing is planned then.
    pub fn plan(&mut self, at_instruction: u64, damage: Damage) -> Result<(), Error> {
        let (space, location, bit) = match damage {
            Damage::Flip { space, location, bit } => (space, location, bit),
            Damage::Stick { register, bit, .. } => (Space::Device(register), 0, bit),
        };
        let is_there = match space {
            Space::Sram => self.sram.word(location).is_some(),
            Space::Register(number) => (1..=31).contains(&number),
            Space::Pc => true,
            Space::Device(register) => NAMES.iter().any(|(offset, _)| *offset == register),
        };
        if bit > 31 || !is_there {
            return Err(Error::NoSuchBit { space, location, bit });
        }
        self.planned = Some((at_instruction, damage));
        self.damaged_ns = None;
        Ok(())
    }

    /// Forgets planned damage.
    pub fn release_damage(&mut self) {
        self.planned = None;
        self.damaged_ns = None;
    }

    /// When the planned damage was done.
    pub fn damaged_ns(&self) -> Option<u64> {
        self.damaged_ns
    }

    /// How many instructions may be done until there is damage to be done.
    pub(super) fn until_damage(&self) -> u64 {
        self.planned.map_or(u64::MAX, |(at, _)| at.saturating_sub(self.counts.instructions).max(1))
    }

    pub(super) fn damage_when_due(&mut self, bus: &mut impl Bus) {
        let Some((_, damage)) = self.planned.take_if(|(at, _)| *at <= self.counts.instructions) else { return };
        // That there is such a bit was found when it was planned.
        let _ = self.damage(damage);
        self.damaged_ns = Some(self.state.now_ns);
        self.update_interrupts(bus);
        self.fill_buffers(bus);
    }

    /// Does it now.
    ///
    /// # Errors
    /// When there is no such bit.
    pub fn damage(&mut self, damage: Damage) -> Result<(), Error> {
        match damage {
            Damage::Flip { space, location, bit } => self.flip(space, location, bit),
            Damage::Stick { register, bit, stuck } => self.stick(register, bit, stuck),
        }
    }

    /// A word of the SRAM, or a special register as far as the device knows without asking the host's side.
    pub fn read_word(&self, address: u32) -> Result<u32, Error> {
        let register = address.wrapping_sub(REGISTERS);
        if NAMES.iter().any(|(offset, _)| *offset == register) {
            return Ok(self.peek(register));
        }
        self.sram.word(address).ok_or(Error::NoSuchAddress { address, bytes: 4 })
    }

    /// Bytes of the SRAM.
    pub fn read_sram(&self, address: u32, length: usize) -> Result<&[u8], Error> {
        self.sram.slice(address, length).ok_or(Error::NoSuchAddress { address, bytes: length })
    }

    /// Stores bytes in the SRAM; where they are code, the processor executes them from now on.
    pub fn write_sram(&mut self, address: u32, bytes: &[u8]) -> Result<(), Error> {
        self.sram.put(address, bytes).ok_or(Error::NoSuchAddress { address, bytes: bytes.len() })
    }

    /// Inverts one bit, from the next instruction on. A flip of what the hardware sets anew at each look
    /// (MAILBOX_READY, PING) is gone with the next look. A flip that starts an engine starts it, and one of a timer
    /// makes it count on from there.
    pub fn flip(&mut self, space: Space, location: u32, bit: u8) -> Result<(), Error> {
        let no_such_bit = Error::NoSuchBit { space, location, bit };
        if bit > 31 {
            return Err(no_such_bit);
        }
        let mask = 1 << bit;
        match space {
            Space::Sram => {
                let word = self.sram.word(location).ok_or(no_such_bit.clone())?;
                self.sram.put_word(location, word ^ mask).ok_or(no_such_bit)
            }
            Space::Register(number @ 1..=31) => {
                self.state.core.x[usize::from(number)] ^= mask;
                Ok(())
            }
            Space::Register(_) => Err(no_such_bit),
            Space::Pc => {
                self.state.core.pc ^= mask;
                Ok(())
            }
            Space::Device(register) if NAMES.iter().any(|(offset, _)| *offset == register) => {
                let before = self.peek(register);
                self.change_register(register, before, before ^ mask);
                Ok(())
            }
            Space::Device(_) => Err(no_such_bit),
        }
    }

    /// Makes a bit of a special register stuck, until [`Device::release_stuck`]; a reset does not help.
    pub fn stick(&mut self, register: u32, bit: u8, stuck: Stuck) -> Result<(), Error> {
        if bit > 31 || !NAMES.iter().any(|(offset, _)| *offset == register) {
            return Err(Error::NoSuchBit { space: Space::Device(register), location: 0, bit });
        }
        let before = self.peek(register);
        self.state.registers.stick(register, bit, stuck);
        self.change_register(register, before, before);
        Ok(())
    }

    /// No bit is stuck any more. The registers keep the values that the stuck bits gave them.
    pub fn release_stuck(&mut self) {
        self.state.registers.release_stuck();
    }

    /// A register changes without a store of the processor.
    fn change_register(&mut self, register: u32, before: u32, value: u32) {
        if register == offset::RTC {
            self.state.timers.set_clock(self.state.now_ns, value);
            return;
        }
        self.state.registers.set(register, value);
        self.restart_timer(register);
        let rose = self.state.registers.get(register) & !before;
        if register == offset::DMA_CONTROL && rose & dma::START != 0 {
            self.start_dma();
        }
    }
}
