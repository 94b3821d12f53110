//! The content of one file: as it reads now, as it is on the disk, and what lies between.

use super::{PAGE_BYTES, SECTOR_BYTES};
use std::collections::BTreeSet;
use std::io;
use surefoot_random::Random;

#[derive(Clone, Default)]
pub(super) struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Written since the last sync: offset and bytes, in order.
    pending: Vec<(usize, Vec<u8>)>,
    pub(super) poisoned: BTreeSet<u64>,
}

impl Inode {
    pub(super) fn with_room(bytes: u64) -> Self {
        Inode { now: vec![0; bytes as usize], ..Inode::default() }
    }

    pub(super) fn length(&self) -> u64 {
        self.now.len() as u64
    }

    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        if end > self.length() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !bytes.is_empty() && self.poisoned.range(offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES).next().is_some() {
            return Err(io::Error::from_raw_os_error(5));
        }
        bytes.copy_from_slice(&self.now[offset as usize..end as usize]);
        Ok(())
    }

    pub(super) fn write_at(&mut self, bytes: &[u8], offset: u64) {
        let (offset, end) = (offset as usize, offset as usize + bytes.len());
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.pending.push((offset, bytes.to_vec()));
        // Writing anew is what heals a poisoned page.
        self.poisoned.retain(|page| {
            let start = page * PAGE_BYTES;
            !((offset as u64) <= start && (end as u64) >= start + PAGE_BYTES)
        });
    }

    pub(super) fn corrupt(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.now);
        self.durable = self.now.clone();
        self.pending.clear();
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for (offset, bytes) in self.pending.drain(..) {
            self.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// What a failed sync does: the pages count as clean and are not written.
    pub(super) fn lose_unsynced(&mut self) {
        self.pending.clear();
    }

    pub(super) fn after_power_loss(&self, random: &mut Random) -> Inode {
        let mut content = self.durable.clone();
        // The length may have got to the disk before, or without, the data.
        if self.now.len() > content.len() && random.below(2) == 0 {
            content.resize(self.now.len(), 0);
        }
        let fate = random.below(3);
        for (offset, bytes) in &self.pending {
            for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let survives = match fate {
                    0 => false,
                    1 => true,
                    _ => random.below(2) == 0,
                };
                if survives {
                    let start = offset + number * SECTOR_BYTES;
                    if content.len() < start + sector.len() {
                        content.resize(start + sector.len(), 0);
                    }
                    content[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Inode { now: content.clone(), durable: content, pending: Vec::new(), poisoned: self.poisoned.clone() }
    }
}
