//! A file and its sidecar as one image, for the code that heals images.

use super::label::Places;
use crate::StoredFile;
use crate::image::{COLUMNS_DATA, Geometry};
use std::io;

/// The file is read, the sidecar too; neither is written to.
pub(super) struct Pair<'a> {
    pub(super) geometry: Geometry,
    pub(super) places: Places,
    pub(super) file: &'a dyn StoredFile,
    /// Bytes that the file has now.
    pub(super) found_bytes: u64,
    pub(super) sidecar: &'a dyn StoredFile,
}

impl Pair<'_> {
    /// Which part of which file an offset of the image is in: the offset there, and how many bytes follow.
    fn find(&self, offset: u64) -> io::Result<Backing> {
        let data = (COLUMNS_DATA * self.geometry.column_bytes()) as u64;
        let body = self.geometry.body_bytes() as u64;
        let table = self.geometry.table_bytes() as u64;
        // What the file lacks now reads as zeros, which the checksums judge.
        let content = self.geometry.payload_bytes().min(self.found_bytes);
        let beyond = || io::Error::from(io::ErrorKind::UnexpectedEof);
        Ok(match offset {
            _ if offset < content => Backing::File(offset, content - offset),
            _ if offset < data => Backing::Zeros(data - offset),
            _ if offset < body => Backing::Sidecar(self.places.parity + (offset - data), body - offset),
            _ => {
                let (number, within) = ((offset - body) / table, (offset - body) % table);
                let place = self.places.tables.get(usize::try_from(number).map_err(|_| beyond())?);
                Backing::Sidecar(place.ok_or_else(beyond)? + within, table - within)
            }
        })
    }
}

enum Backing {
    File(u64, u64),
    Zeros(u64),
    Sidecar(u64, u64),
}

impl StoredFile for Pair<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.geometry.file_bytes() as u64)
    }

    fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let found = self.find(offset)?;
            let (Backing::File(_, follow) | Backing::Zeros(follow) | Backing::Sidecar(_, follow)) = found;
            let count = follow.min(bytes.len() as u64);
            let (now, later) = bytes.split_at_mut(count as usize);
            match found {
                Backing::File(at, _) => self.file.read_at(now, at)?,
                Backing::Zeros(_) => now.fill(0),
                Backing::Sidecar(at, _) => self.sidecar.read_at(now, at)?,
            }
            bytes = later;
            offset += count;
        }
        Ok(())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
