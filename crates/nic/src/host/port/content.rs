//! The port's memory, and the checksums of what lies in it.

use super::super::layout::*;
use super::{Message, Port, SendFailure, Service, service_word, stream_word};
use std::sync::Arc;

impl Port {
    /// Reads from the port's memory.
    pub fn read(&self, address: u32, into: &mut [u8]) -> bool {
        self.pieces(address, into.len()).is_some_and(|pieces| {
            let mut at = 0;
            pieces.iter().all(|&(offset, length)| {
                at += length;
                self.memory.read(offset, &mut into[at - length..at])
            })
        })
    }

    /// Writes into the port's memory.
    pub fn write(&self, address: u32, bytes: &[u8]) -> bool {
        self.pieces(address, bytes.len()).is_some_and(|pieces| {
            let mut at = 0;
            pieces.iter().all(|&(offset, length)| {
                at += length;
                self.memory.write(offset, &bytes[at - length..at])
            })
        })
    }

    /// Where a range of the port's memory lies, page by page.
    pub(super) fn pieces(&self, address: u32, length: usize) -> Option<Vec<(u32, usize)>> {
        self.inside(address, u32::try_from(length).ok()?).ok()?;
        let (mut at, end) = (address, address + length as u32);
        let mut pieces = Vec::new();
        while at < end {
            let bytes = (PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            let page = *self.granted.pages.get((at / PAGE_BYTES) as usize)?;
            pieces.push((page * PAGE_BYTES - HOST_BASE + at % PAGE_BYTES, bytes as usize));
            at += bytes;
        }
        Some(pieces)
    }

    /// A copy of a message, where they are kept.
    pub(super) fn copy_of(&self, message: &Message) -> Option<Arc<[u8]>> {
        let is_kept = self.config.verifies && self.config.keeps_copies && self.granted.number != 0;
        let is_numbered = !matches!(message.service, Service::Datagram { .. });
        (is_kept && is_numbered).then(|| {
            let mut bytes = vec![0; message.length as usize];
            self.read(message.address, &mut bytes);
            bytes.into()
        })
    }

    /// Before messages are handed over again: one that is not in memory as it was sent is put back. Where there is no copy of
    /// it, its stream cannot go on, and the application is told so.
    pub(in crate::host) fn mend_messages(&mut self) {
        if !self.config.verifies {
            return;
        }
        let mut lost = None;
        for place in 0..self.outstanding.len() {
            let one = &self.outstanding[place];
            let (message, number, checksum) = (one.message, one.number, one.checksum);
            if one.is_posted || number == 0 || self.checksum_of(&message, one.generation, number) == checksum {
                continue;
            }
            let copy = one.copy.clone();
            self.suspect(None);
            match copy.is_some_and(|bytes| self.write(message.address, &bytes)) {
                true => self.counts.mended_count += 1,
                false => lost = Some(message.to),
            }
        }
        if let Some(to) = lost {
            self.end_stream(to, SendFailure::Changed);
        }
    }

    pub(super) fn checksum_of(&self, message: &Message, generation: u32, number: u32) -> u32 {
        if !self.config.verifies {
            return 0;
        }
        let stream = stream_word(self.node, self.granted.number, message.to);
        let remote = if let Service::Directed { remote } = message.service { remote } else { 0 };
        let addresses = [stream, service_word(message), message.length, remote];
        self.sum_of(message.address, message.length, &self.numbered(addresses, generation, number))
    }

    pub(super) fn numbered(&self, [a, b, c, d]: [u32; 4], generation: u32, number: u32) -> [u32; 6] {
        [a, b, c, d, generation, number]
    }

    /// The checksum of a message and its addresses.
    pub(super) fn sum_of(&self, address: u32, length: u32, words: &[u32]) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        for word in words {
            sum.update(&word.to_le_bytes());
        }
        let mut piece = [0; 1024];
        let mut at = 0;
        while at < length {
            let bytes = (length - at).min(1024) as usize;
            if !self.read(address + at, &mut piece[..bytes]) {
                break;
            }
            sum.update(&piece[..bytes]);
            at += bytes as u32;
        }
        sum.finalize()
    }
}
