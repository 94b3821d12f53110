//! Bytes that are already here, read as a file.

use crate::StoredFile;
use crate::tier::SlotImage;
use std::io;

/// The bytes of a file: in a slot of this rank, or brought from another node.
pub enum Held {
    Slot(SlotImage),
    Brought(Vec<u8>),
}

impl Held {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Held::Slot(image) => image.bytes(),
            Held::Brought(bytes) => bytes,
        }
    }
}

/// A file's content.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl StoredFile for Bytes<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let from = self.0.get(start..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
