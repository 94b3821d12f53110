//! What another tier holds of a checkpoint, read to be written again: proved page by page, and healed.
//!
//! Memory has no checksums of its own and a drive may give back what was not written. A page that is written on as it was
//! found gets a checksum of its own there, and so becomes true for good. So each page is compared with the checksums that the
//! manifest vouches for before it goes on.

use crate::Error;
use crate::StoredFile;
use crate::generation::Manifest;
use crate::image::{COLUMNS_DATA, Healer, Lost, PAGE_BYTES, crc32c};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// One rank's part of a generation, open: it can be read even after it was removed.
pub struct StoredPart {
    /// What it is.
    pub manifest: Manifest,
    image: Box<dyn StoredFile>,
    path: PathBuf,
    _kept: Option<Arc<dyn Send + Sync>>,
}

impl StoredPart {
    /// The part that this manifest describes, whose image is in this file.
    pub fn new(manifest: Manifest, image: Box<dyn StoredFile>, path: PathBuf) -> Self {
        StoredPart { manifest, image, path, _kept: None }
    }

    /// Keeps something for as long as the part is open: the slot, which is not to be written to meanwhile.
    pub(crate) fn keeping(self, kept: Arc<dyn Send + Sync>) -> Self {
        StoredPart { _kept: Some(kept), ..self }
    }
}

/// What was written of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the new image.
    pub bytes: u64,
    /// Pages that had gone bad where they were read, and were repaired on the way. They are still bad there.
    pub healed_pages: u64,
}

/// A part whose checksums are proved.
pub(super) struct Proved<'a> {
    part: &'a StoredPart,
    table: Vec<u32>,
    healer: Mutex<Healer<'a>>,
    lost: Mutex<Option<Lost>>,
}

impl<'a> Proved<'a> {
    /// Proves the checksums by the digest in the manifest.
    pub(super) fn open(part: &'a StoredPart) -> Result<Self, Error> {
        let healer = Healer::open(part.manifest.geometry()?, &*part.image, part.manifest.table_crc32c);
        let healer = healer.map_err(|lost| damaged(part, &lost))?;
        let table = healer.table().to_vec();
        Ok(Proved { part, table, healer: Mutex::new(healer), lost: Mutex::new(None) })
    }

    /// Reads whole pages from an offset in the image, as they were when they were saved.
    pub(super) fn read(&self, offset: u64, pages: &mut [u8]) -> io::Result<()> {
        // One page that the kernel refuses fails the whole read: then each is asked for by itself.
        let is_read = self.part.image.read_at(pages, offset).is_ok();
        let first = offset as usize / PAGE_BYTES;
        for (number, page) in pages.chunks_exact_mut(PAGE_BYTES).enumerate() {
            if !is_read || crc32c(page) != self.table[first + number] {
                self.heal(first + number, page)?;
            }
        }
        Ok(())
    }

    fn heal(&self, number: usize, page: &mut [u8]) -> io::Result<()> {
        let mut healer = self.healer.lock().unwrap_or_else(PoisonError::into_inner);
        healer.read_pages(number, page).map_err(|lost| {
            let why = lost.to_string();
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(lost);
            io::Error::other(why)
        })
    }

    /// Refuses a table of what was written that is not the proved one, as far as both go: data comes first in both, and
    /// parity only where it was copied.
    pub(super) fn expect_table(&self, written: &[u8], protection_is_kept: bool) -> Result<(), Error> {
        let geometry = self.part.manifest.geometry()?;
        let count = match protection_is_kept {
            true => geometry.pages(),
            false => COLUMNS_DATA * geometry.rows(),
        };
        let same =
            self.table[..count].iter().zip(written.chunks_exact(4)).all(|(sum, bytes)| bytes == sum.to_le_bytes());
        match same {
            true => Ok(()),
            false => {
                let why = "its pages changed while they were written elsewhere; that copy is given up".into();
                Err(Error::Damaged { path: self.part.path.clone(), why })
            }
        }
    }

    /// What became of it, with the name of the file that is at fault.
    pub(super) fn say(&self, written: Result<u64, Error>) -> Result<Written, Error> {
        if let (Err(_), Some(lost)) = (&written, &*self.lost.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Err(damaged(self.part, lost));
        }
        let tally = self.healer.lock().unwrap_or_else(PoisonError::into_inner).tally();
        Ok(Written { bytes: written?, healed_pages: tally.pages_repaired })
    }
}

fn damaged(part: &StoredPart, lost: &Lost) -> Error {
    Error::Damaged { path: part.path.clone(), why: format!("{lost}; it is not written elsewhere") }
}
