//! The local memory, and beside it the decoded form of each of its words.
//!
//! Every way to change a byte goes through this file and forgets the decoded form of the word, so that what is executed
//! is always what is stored.

use crate::cpu::Instruction;
use crate::cpu::decode::{UNDECODED, decode};
use crate::device::registers::SRAM_BYTES;

const BYTES: usize = SRAM_BYTES as usize;
const WORDS: usize = BYTES / 4;
/// What [`Sram::copy_from`] compares and copies at a time.
const PAGE_BYTES: usize = 1024;

/// The bytes and the decode cache.
pub(crate) struct Sram {
    bytes: Box<[u8; BYTES]>,
    decoded: Box<[Instruction; WORDS]>,
}

/// A copy of the bytes alone: the decode cache is derived from them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SramCopy(Box<[u8; BYTES]>);

/// An array on the heap that never was on the stack.
fn boxed<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    let boxed: Result<Box<[T; N]>, _> = vec![value; N].into_boxed_slice().try_into();
    boxed.unwrap_or_else(|_| unreachable!("the vector was made with the array's length"))
}

impl Sram {
    pub fn new() -> Sram {
        Sram { bytes: boxed(0), decoded: boxed(UNDECODED) }
    }

    /// What the decode cache has for an address that is a multiple of four; `None` outside of the SRAM.
    #[inline(always)]
    pub fn decoded(&self, address: u32) -> Option<Instruction> {
        self.decoded.get(address as usize >> 2).copied()
    }

    /// Decodes the word at this address into the cache.
    #[cold]
    pub fn decode_at(&mut self, address: u32) {
        if let (Some(word), Some(decoded)) = (self.word(address & !3), self.decoded.get_mut(address as usize >> 2)) {
            *decoded = decode(word);
        }
    }

    #[inline(always)]
    pub fn byte(&self, address: u32) -> Option<u8> {
        self.bytes.get(address as usize).copied()
    }

    /// `None` where the address is misaligned or outside.
    #[inline(always)]
    pub fn half(&self, address: u32) -> Option<u16> {
        let at = address as usize;
        let bytes = self.bytes.get(at..at + 2)?.first_chunk()?;
        (address & 1 == 0).then(|| u16::from_le_bytes(*bytes))
    }

    /// `None` where the address is misaligned or outside.
    #[inline(always)]
    pub fn word(&self, address: u32) -> Option<u32> {
        let at = address as usize;
        let bytes = self.bytes.get(at..at + 4)?.first_chunk()?;
        (address & 3 == 0).then(|| u32::from_le_bytes(*bytes))
    }

    #[inline(always)]
    pub fn put_byte(&mut self, address: u32, value: u8) -> Option<()> {
        *self.bytes.get_mut(address as usize)? = value;
        self.forget(address)
    }

    #[inline(always)]
    pub fn put_half(&mut self, address: u32, value: u16) -> Option<()> {
        let at = address as usize;
        let bytes = self.bytes.get_mut(at..at + 2)?;
        if address & 1 != 0 {
            return None;
        }
        bytes.copy_from_slice(&value.to_le_bytes());
        self.forget(address)
    }

    #[inline(always)]
    pub fn put_word(&mut self, address: u32, value: u32) -> Option<()> {
        let at = address as usize;
        let bytes = self.bytes.get_mut(at..at + 4)?;
        if address & 3 != 0 {
            return None;
        }
        bytes.copy_from_slice(&value.to_le_bytes());
        self.forget(address)
    }

    #[inline(always)]
    fn forget(&mut self, address: u32) -> Option<()> {
        *self.decoded.get_mut(address as usize >> 2)? = UNDECODED;
        Some(())
    }

    /// Any bytes; `None` where not all of them are in the SRAM.
    pub fn slice(&self, address: u32, length: usize) -> Option<&[u8]> {
        let at = address as usize;
        self.bytes.get(at..at.checked_add(length)?)
    }

    /// Stores bytes anywhere; `None`, and nothing stored, where not all of them fit.
    pub fn put(&mut self, address: u32, bytes: &[u8]) -> Option<()> {
        self.fill_with(address, bytes.len(), |into| into.copy_from_slice(bytes))
    }

    /// Lets `fill` write these bytes, all of which are in the SRAM, else `None`.
    pub fn fill_with<R>(&mut self, address: u32, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let at = address as usize;
        let end = at.checked_add(length)?;
        let filled = fill(self.bytes.get_mut(at..end)?);
        self.decoded.get_mut(at / 4..end.div_ceil(4))?.fill(UNDECODED);
        Some(filled)
    }

    pub fn copy(&self) -> SramCopy {
        SramCopy(self.bytes.clone())
    }

    /// Makes this memory equal to the copy. Pages that are equal already keep their decoded words.
    pub fn copy_from(&mut self, copy: &SramCopy) {
        let words = self.decoded.chunks_exact_mut(PAGE_BYTES / 4);
        let pages = self.bytes.chunks_exact_mut(PAGE_BYTES).zip(words);
        for ((page, words), saved) in pages.zip(copy.0.chunks_exact(PAGE_BYTES)) {
            if page != saved {
                page.copy_from_slice(saved);
                words.fill(UNDECODED);
            }
        }
    }

    pub fn equals(&self, copy: &SramCopy) -> bool {
        self.bytes == copy.0
    }

    /// Whether all bytes are equal but for those of the word at this address.
    pub fn equals_but_for(&self, copy: &SramCopy, word: u32) -> bool {
        let at = (word as usize & !3).min(BYTES - 4);
        self.bytes[..at] == copy.0[..at] && self.bytes[at + 4..] == copy.0[at + 4..]
    }

    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }
}
