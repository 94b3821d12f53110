//! The host DMA engine.
//!
//! It reads its registers when it starts, for how long it takes, and again when it ends, for what it moves: a bit that
//! flips while it is busy takes effect. Its counter stops at 4096.

use super::registers::{dma, isr, offset};
use super::{Bus, BusFault, Device, HostEventKind};

/// Why nothing was moved.
enum Failure {
    /// The local range is not SRAM.
    Local,
    Host(BusFault),
}

impl Device {
    pub(super) fn start_dma(&mut self) {
        if self.state.dma_end_ns.is_some() {
            self.counts.starts_while_busy += 1;
            return;
        }
        self.state.registers.set(offset::DMA_STATUS, dma::BUSY);
        self.state.dma_end_ns = Some(self.state.now_ns + self.config.timing.dma_ns(self.dma_bytes()));
    }

    fn dma_bytes(&self) -> u32 {
        self.state.registers.get(offset::DMA_COUNT).min(dma::BYTES_MAX)
    }

    pub(super) fn end_dma(&mut self, bus: &mut impl Bus) {
        self.state.dma_end_ns = None;
        let address = self.state.registers.get(offset::DMA_HOST);
        // A fenced engine moves nothing; that it says so can hurt nobody any more.
        let moved = !self.is_fenced(bus, HostEventKind::Dma(address, None)) && self.move_bytes(bus, address);
        let registers = &mut self.state.registers;
        let control = registers.get(offset::DMA_CONTROL);
        registers.set(offset::DMA_CONTROL, control & !dma::START);
        registers.set(offset::DMA_STATUS, if moved { 0 } else { dma::FAULT });
        self.raise(bus, isr::DMA);
    }

    fn move_bytes(&mut self, bus: &mut impl Bus, address: u32) -> bool {
        self.counts.dma_transfers += 1;
        let moved = if self.state.registers.get(offset::DMA_CONTROL) & dma::TO_HOST != 0 {
            self.move_to_host(bus, address)
        } else {
            self.move_from_host(bus, address)
        };
        match moved {
            Ok(sum) => {
                self.state.registers.set(offset::DMA_SUM, sum);
                return true;
            }
            Err(Failure::Local) => {}
            Err(Failure::Host(fault)) => {
                match fault {
                    BusFault::WildRead => self.counts.wild_reads += 1,
                    BusFault::WildWrite => self.counts.wild_writes += 1,
                    BusFault::Refused => self.counts.refused += 1,
                }
                self.note_host_event(HostEventKind::Dma(address, Some(fault)));
            }
        }
        self.counts.dma_faults += 1;
        false
    }

    fn move_to_host(&mut self, bus: &mut impl Bus, address: u32) -> Result<u32, Failure> {
        let local = self.state.registers.get(offset::DMA_LOCAL);
        let bytes = self.sram.slice(local, self.dma_bytes() as usize).ok_or(Failure::Local)?;
        bus.write(address, bytes).map_err(Failure::Host)?;
        Ok(crc32fast::hash(bytes))
    }

    fn move_from_host(&mut self, bus: &mut impl Bus, address: u32) -> Result<u32, Failure> {
        let local = self.state.registers.get(offset::DMA_LOCAL);
        // By way of a buffer: what the host's side refuses must leave the SRAM as it was.
        let mut buffer = [0; dma::BYTES_MAX as usize];
        let bytes = &mut buffer[..self.dma_bytes() as usize];
        self.sram.slice(local, bytes.len()).ok_or(Failure::Local)?;
        bus.read(address, bytes).map_err(Failure::Host)?;
        self.sram.put(local, bytes).ok_or(Failure::Local)?;
        Ok(crc32fast::hash(bytes))
    }
}
