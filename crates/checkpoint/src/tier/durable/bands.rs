//! Writes an image whose parity is computed on the way, a band of rows at a time, so that memory for it is bounded
//! however long the payload is.
//!
//! Parity and checksums are computed from one copy of the data pages, and that copy is what is written: memory that changes
//! meanwhile cannot make an image whose parts do not belong together.

use super::writer::{Fill, Pace, in_pieces};
use crate::StoredFile;
use crate::image::{COLUMNS_DATA, Geometry, PAGE_BYTES, Source, fill};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Rows of a band: 256 KiB of each column are one write. A thread holds 9 MiB: the band's data, and its image.
const ROWS_OF_A_BAND: usize = 64;

/// Writes the pages of an image, data as `data` gives them and their parity, and returns their table.
///
/// # Errors
/// The first error of a write, or what `data` says; writes that are under way are waited for, and none is begun after it.
pub(super) fn write_protected(
    file: &dyn StoredFile,
    data: &Fill<'_>,
    geometry: &Geometry,
    queue_depth: usize,
    pace: &Pace,
) -> io::Result<Vec<u8>> {
    let table = Mutex::new(vec![0; geometry.table_bytes()]);
    let count = geometry.rows().div_ceil(ROWS_OF_A_BAND);
    in_pieces(count, queue_depth, &|| {
        let (table, mut band) = (&table, Band::default());
        let write = move |number: usize| {
            let first_row = number * ROWS_OF_A_BAND;
            let rows = first_row..geometry.rows().min(first_row + ROWS_OF_A_BAND);
            band.fill(geometry, rows.clone(), data)?;
            band.note_sums(geometry, rows.start, &mut table.lock().unwrap_or_else(PoisonError::into_inner));
            for (column, pages) in band.columns().enumerate() {
                file.write_at(pages, (column * geometry.column_bytes() + rows.start * PAGE_BYTES) as u64)?;
                pace.wait(pages.len());
            }
            Ok(())
        };
        Box::new(write)
    })?;
    Ok(table.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Some rows of an image, which are an image by themselves.
#[derive(Default)]
struct Band {
    geometry: Option<Geometry>,
    data: Vec<u8>,
    /// The image, from `start` on: where a direct file takes it.
    room: Vec<u8>,
    start: usize,
}

impl Band {
    /// Reads these rows' data, and computes parity and checksums.
    fn fill(&mut self, whole: &Geometry, rows: Range<usize>, data: &Fill<'_>) -> io::Result<()> {
        let bytes = rows.len() * PAGE_BYTES;
        let geometry = Geometry::new((COLUMNS_DATA * bytes) as u64, whole.protection()).map_err(refused)?;
        self.data.resize(COLUMNS_DATA * bytes, 0);
        for (column, pages) in self.data.chunks_exact_mut(bytes).enumerate() {
            data((column * whole.column_bytes() + rows.start * PAGE_BYTES) as u64, pages)?;
        }
        self.room.resize(geometry.file_bytes() + PAGE_BYTES, 0);
        self.start = self.room.as_ptr().align_offset(PAGE_BYTES);
        let image = &mut self.room[self.start..][..geometry.file_bytes()];
        fill(&geometry, &Source::new(vec![&self.data]), image, &mut |_| {}).map_err(refused)?;
        self.geometry = Some(geometry);
        Ok(())
    }

    /// Copies the checksums to their places in the whole image's table.
    fn note_sums(&self, whole: &Geometry, first_row: usize, table: &mut [u8]) {
        let Some(geometry) = self.geometry else { return };
        let sums = &self.room[self.start + geometry.body_bytes()..];
        for (column, sums) in sums.chunks_exact(geometry.rows() * 4).take(geometry.columns()).enumerate() {
            table[(column * whole.rows() + first_row) * 4..][..sums.len()].copy_from_slice(sums);
        }
    }

    /// The pages of each column, those of parity last.
    fn columns(&self) -> impl Iterator<Item = &[u8]> {
        self.geometry
            .iter()
            .flat_map(|geometry| self.room[self.start..][..geometry.body_bytes()].chunks_exact(geometry.column_bytes()))
    }
}

fn refused(error: surefoot_heal::Error) -> io::Error {
    io::Error::other(error.to_string())
}
