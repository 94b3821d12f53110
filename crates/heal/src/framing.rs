//! A text that says of itself how long it is and whether it is whole.
//!
//! # The bytes
//! | bytes | content |
//! |---|---|
//! | 0..8 | letters of its kind; the last two are the version of the format |
//! | 8..12 | length of the text, little endian |
//! | 12..16 | CRC32C of the text, little endian |
//! | 16.. | the text: one JSON object |
//!
//! Readers ignore what follows the text.

use crate::image::{PAGE_BYTES, crc32c};
use serde::{Deserialize, Serialize};

/// Bytes before the text.
const PRELUDE_BYTES: usize = 16;

/// A kind of framed text.
#[derive(Debug, Clone, Copy)]
pub struct Framing {
    /// Its first bytes.
    pub magic: [u8; 8],
    /// What messages call it.
    pub name: &'static str,
    /// The longest text that is written or read.
    pub text_bytes_max: usize,
}

impl Framing {
    /// Letters, length, checksum, text, filled up with zeros to whole pages, so that a direct file takes them.
    ///
    /// # Errors
    /// One sentence: the content is too long, or has no text form.
    pub fn write(&self, content: &impl Serialize) -> Result<Vec<u8>, String> {
        let text = serde_json::to_vec(content).map_err(|error| format!("it has no text form: {error}"))?;
        if text.len() > self.text_bytes_max {
            let (name, bytes_max) = (self.name, self.text_bytes_max);
            return Err(format!("the {name} has {} bytes, {bytes_max} are possible", text.len()));
        }
        let mut bytes = Vec::with_capacity((PRELUDE_BYTES + text.len()).next_multiple_of(PAGE_BYTES));
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c(&text).to_le_bytes());
        bytes.extend_from_slice(&text);
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
        Ok(bytes)
    }

    /// What [`Framing::write`] made; bytes from anywhere are taken.
    ///
    /// # Errors
    /// One sentence about what is wrong with them.
    pub fn read<T: for<'a> Deserialize<'a>>(&self, bytes: &[u8]) -> Result<T, String> {
        let (name, magic) = (self.name, &self.magic);
        let short = || match bytes.len() {
            0 => "it is empty".to_owned(),
            count => format!("it is cut to {count} bytes, fewer than a {name} begins with"),
        };
        let (prelude, text) = bytes.split_at_checked(PRELUDE_BYTES).ok_or_else(short)?;
        let word = |at: usize| u32::from_le_bytes([prelude[at], prelude[at + 1], prelude[at + 2], prelude[at + 3]]);
        if prelude[..6] != magic[..6] {
            return Err(format!("it is not a {name}"));
        }
        if prelude[6..8] != magic[6..] {
            let version = String::from_utf8_lossy(&prelude[6..8]).into_owned();
            return Err(format!("it has version {version:?} of the format, which this program does not know"));
        }
        let length = word(8) as usize;
        if length > self.text_bytes_max || length > text.len() {
            return Err(format!("it says that it has {length} bytes, {} are there", text.len()));
        }
        let text = &text[..length];
        if crc32c(text) != word(12) {
            return Err("its checksum is wrong".into());
        }
        serde_json::from_slice(text).map_err(|error| format!("it cannot be read: {error}"))
    }

    /// The most bytes of a file that [`Framing::read`] looks at.
    pub fn bytes_max(&self) -> usize {
        (PRELUDE_BYTES + self.text_bytes_max).next_multiple_of(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FRAMING: Framing = Framing { magic: *b"SFTEST01", name: "note", text_bytes_max: 100 };

    #[test]
    fn a_text_comes_back_and_each_fault_has_its_word() {
        let bytes = FRAMING.write(&"word").unwrap();
        assert_eq!((bytes.len(), FRAMING.bytes_max()), (PAGE_BYTES, PAGE_BYTES));
        assert_eq!(FRAMING.read::<String>(&bytes).unwrap(), "word");
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            FRAMING.read::<String>(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b'X'), "it is not a note");
        assert!(with(7, b'9').contains("version \"09\""), "{}", with(7, b'9'));
        assert!(with(10, 0xFF).contains("bytes, 4080 are there"), "{}", with(10, 0xFF));
        assert_eq!(with(17, b'W'), "its checksum is wrong");
        assert_eq!(FRAMING.read::<String>(&[]).unwrap_err(), "it is empty");
        assert!(FRAMING.read::<u32>(&bytes).unwrap_err().starts_with("it cannot be read: "));
        assert_eq!(FRAMING.write(&"x".repeat(99)).unwrap_err(), "the note has 101 bytes, 100 are possible");
    }
}
