//! A host with 64 KiB of memory at 0x10000000, and a device with a program.

use super::program::Program;
use std::collections::VecDeque;
use surefoot_nic::device::{Bus, BusFault, Device, DeviceConfig};

pub const HOST_BASE: u32 = 0x1000_0000;

pub struct Host {
    pub memory: Vec<u8>,
    pub mailboxes: Vec<VecDeque<[u32; 16]>>,
    pub ping: u32,
    pub pongs: Vec<u32>,
    pub interrupts: Vec<u32>,
    pub epoch: u32,
    pub has_iommu: bool,
}

impl Host {
    pub fn new() -> Host {
        Host {
            memory: vec![0; 0x10000],
            mailboxes: vec![VecDeque::new(); 8],
            ping: 0,
            pongs: Vec::new(),
            interrupts: Vec::new(),
            epoch: 1,
            has_iommu: false,
        }
    }

    fn range(&self, address: u32, length: usize, wild: BusFault) -> Result<std::ops::Range<usize>, BusFault> {
        let start = address.wrapping_sub(HOST_BASE) as usize;
        let fault = if self.has_iommu { BusFault::Refused } else { wild };
        if start + length <= self.memory.len() { Ok(start..start + length) } else { Err(fault) }
    }
}

impl Bus for Host {
    fn read(&mut self, address: u32, into: &mut [u8]) -> Result<(), BusFault> {
        let range = self.range(address, into.len(), BusFault::WildRead)?;
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), BusFault> {
        let range = self.range(address, bytes.len(), BusFault::WildWrite)?;
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    fn mailbox_ready(&mut self) -> u32 {
        let ready = self.mailboxes.iter().enumerate().filter(|(_, mailbox)| !mailbox.is_empty());
        ready.map(|(port, _)| 1 << port).sum()
    }

    fn mailbox_first(&mut self, port: u32) -> [u32; 16] {
        self.mailboxes.get(port as usize).and_then(|mailbox| mailbox.front().copied()).unwrap_or_default()
    }

    fn mailbox_pop(&mut self, port: u32) {
        if let Some(mailbox) = self.mailboxes.get_mut(port as usize) {
            mailbox.pop_front();
        }
    }

    fn ping(&mut self) -> u32 {
        self.ping
    }

    fn pong(&mut self, word: u32) {
        self.pongs.push(word);
    }

    fn interrupt(&mut self, cause: u32) {
        self.interrupts.push(cause);
    }

    fn epoch(&mut self) -> u32 {
        self.epoch
    }
}

pub fn device_with(config: DeviceConfig, program: &Program) -> Device {
    let mut device = Device::new(config);
    device.load(&program.image()).unwrap();
    device.reset(1);
    device
}

pub fn device(program: &Program) -> Device {
    device_with(DeviceConfig::default(), program)
}
