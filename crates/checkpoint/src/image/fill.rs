//! Copies a payload into an image and protects it on the way, while it is in the cache.

use super::chip;
use super::fused::{Fused, Row};
use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use super::source::Source;
use super::stream::{self, LINE_BYTES};
use super::table::{self, crc32c};
use crate::Error;
use surefoot_ecc::{Batch, Code};

/// Rows that are copied and protected at once: 19 shards of 16 KiB stay in the second-level cache.
const ROWS_AT_ONCE: usize = 4;

/// Fills an image and returns the digest of its table.
///
/// `image` is as long as [`Geometry::file_bytes`]. `step` is called after every few rows, with how many are done: a
/// test stops there.
///
/// # Errors
/// [`Error::Option`] when the image or the source has another length than the geometry says.
pub fn fill(
    geometry: &Geometry,
    source: &Source<'_>,
    image: &mut [u8],
    step: &mut dyn FnMut(usize),
) -> Result<u32, Error> {
    let is_aligned = image.as_ptr().align_offset(LINE_BYTES) == 0;
    let fused = Fused::available().first().copied();
    fill_with(fused.filter(|_| is_aligned), geometry, source, image, step)
}

/// As [`fill`], in one pass where one is given that knows the protection, and else step by step.
fn fill_with(
    fused: Option<Fused>,
    geometry: &Geometry,
    source: &Source<'_>,
    image: &mut [u8],
    step: &mut dyn FnMut(usize),
) -> Result<u32, Error> {
    if image.len() != geometry.file_bytes() || source.bytes() != geometry.payload_bytes() {
        let why = format!(
            "{} bytes of {} for an image of {} bytes of {}",
            source.bytes(),
            geometry.payload_bytes(),
            image.len(),
            geometry.file_bytes()
        );
        return Err(Error::Option { option: "image", why });
    }
    let (body, tables) = image.split_at_mut(geometry.body_bytes());
    let mut columns: Vec<&mut [u8]> = body.chunks_exact_mut(geometry.column_bytes()).collect();
    let mut entries = vec![0u32; geometry.pages()];
    let mut scratch = Scratch::new();
    let fused = fused.filter(|_| geometry.protection() != Protection::Chip);
    let mut row = 0;
    while row < geometry.rows() {
        let rows = ROWS_AT_ONCE.min(geometry.rows() - row);
        let pieces = scratch.pieces(geometry, source, row, rows);
        let place = Place { geometry, columns: &mut columns, entries: &mut entries, row, rows };
        match fused {
            Some(fused) => place.fill_at_once(fused, &pieces),
            None => place.fill_by_steps(pieces)?,
        }
        row += rows;
        step(row);
    }
    stream::finish();
    let (first, second) = tables.split_at_mut(geometry.table_bytes());
    table::store(&entries, first);
    table::store(&entries, second);
    Ok(table::digest(&entries))
}

/// Where a few rows go.
struct Place<'a, 'b> {
    geometry: &'a Geometry,
    columns: &'a mut [&'b mut [u8]],
    entries: &'a mut [u32],
    row: usize,
    rows: usize,
}

impl Place<'_, '_> {
    /// Copies, protects and sums each line while it is in a register.
    fn fill_at_once(self, fused: Fused, pieces: &Pieces<'_>) {
        let protects = self.geometry.protection().parity_columns() > 0;
        for at in 0..self.rows {
            let data = pieces.data.map(|piece| &piece[at * PAGE_BYTES..][..PAGE_BYTES]);
            let start = (self.row + at) * PAGE_BYTES;
            let mut targets: Row<&mut [u8]> = Default::default();
            for (target, column) in targets.iter_mut().zip(self.columns.iter_mut()) {
                *target = &mut column[start..start + PAGE_BYTES];
            }
            let sums = fused.row(&data, &mut targets[..self.geometry.columns()], protects);
            for (column, sum) in sums.into_iter().take(self.geometry.columns()).enumerate() {
                self.entries[table::index(self.geometry, column, self.row + at)] = sum;
            }
        }
    }

    /// Sums and copies, column by column, and then protects what is in the cache.
    fn fill_by_steps(self, pieces: Pieces<'_>) -> Result<(), Error> {
        let Place { geometry, columns, entries, row, rows } = self;
        let mut sum = |column: usize, piece: &[u8]| {
            for (at, page) in piece.chunks_exact(PAGE_BYTES).enumerate() {
                entries[table::index(geometry, column, row + at)] = crc32c(page);
            }
        };
        let (start, end) = (row * PAGE_BYTES, (row + rows) * PAGE_BYTES);
        // The checksum is what brings a piece into the cache, in order, as memory likes to be read.
        for (number, piece) in pieces.data.iter().enumerate() {
            sum(number, piece);
            stream::copy(piece, &mut columns[number][start..end]);
        }
        let parity_columns = geometry.protection().parity_columns();
        protect(geometry.protection(), &pieces.data, pieces.parity)?;
        for (number, piece) in pieces.parity.chunks_exact(rows * PAGE_BYTES).take(parity_columns).enumerate() {
            sum(COLUMNS_DATA + number, piece);
            stream::copy(piece, &mut columns[COLUMNS_DATA + number][start..end]);
        }
        Ok(())
    }
}

/// Room for a few rows: for the payload where it does not lie in one piece, and for parity.
struct Scratch {
    data: Vec<u8>,
    parity: Vec<u8>,
}

/// A few rows of the payload, and room for their parity.
struct Pieces<'a> {
    data: [&'a [u8]; COLUMNS_DATA],
    parity: &'a mut [u8],
}

impl Scratch {
    fn new() -> Self {
        let piece_bytes = ROWS_AT_ONCE * PAGE_BYTES;
        Scratch { data: vec![0; COLUMNS_DATA * piece_bytes], parity: vec![0; COLUMNS_PARITY * piece_bytes] }
    }

    fn pieces<'a>(&'a mut self, geometry: &Geometry, source: &Source<'a>, row: usize, rows: usize) -> Pieces<'a> {
        let bytes = rows * PAGE_BYTES;
        let mut room = self.data.chunks_exact_mut(bytes);
        let data = std::array::from_fn(|column| {
            let offset = (column * geometry.column_bytes() + row * PAGE_BYTES) as u64;
            let room = room.next().unwrap_or_default();
            source.piece(offset, bytes).unwrap_or_else(|| {
                source.copy_to(offset, room);
                room
            })
        });
        Pieces { data, parity: &mut self.parity[..COLUMNS_PARITY * bytes] }
    }
}

/// Computes the parity of some rows: of each column of parity one piece after the other.
fn protect(protection: Protection, data: &[&[u8]; COLUMNS_DATA], parity: &mut [u8]) -> Result<(), Error> {
    let bytes = parity.len() / COLUMNS_PARITY;
    let mut parity: Vec<&mut [u8]> = parity.chunks_exact_mut(bytes).collect();
    let encoded = match protection {
        Protection::Checked => return Ok(()),
        Protection::Shard => Batch::new(Code::Rs19_16).encode(data, &mut parity),
        Protection::Chip => (0..bytes).step_by(PAGE_BYTES).try_for_each(|at| {
            let pages = data.map(|column| &column[at..at + PAGE_BYTES]);
            let checks = chip::protect(&pages)?;
            for (column, page) in parity.iter_mut().zip(checks.chunks_exact(PAGE_BYTES)) {
                column[at..at + PAGE_BYTES].copy_from_slice(page);
            }
            Ok(())
        }),
    };
    encoded.map_err(|error| Error::Option { option: "protection", why: error.to_string() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn at_once_and_by_steps_are_the_same_image() {
        let payload: Vec<u8> =
            (0..1_000_003u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        for protection in [Protection::Shard, Protection::Checked, Protection::Chip] {
            for bytes in [0, 1, 4095, 65_536, 65_537, payload.len()] {
                let geometry = Geometry::new(bytes as u64, protection).unwrap();
                let (left, right) = payload[..bytes].split_at(bytes / 3);
                let source = Source::new(vec![left, right]);
                let image = |fused| {
                    let mut room = vec![0xEEu8; geometry.file_bytes() + LINE_BYTES];
                    let start = room.as_ptr().align_offset(LINE_BYTES);
                    let image = &mut room[start..start + geometry.file_bytes()];
                    let digest = fill_with(fused, &geometry, &source, image, &mut |_| {}).unwrap();
                    (image.to_vec(), digest)
                };
                let by_steps = image(None);
                for fused in Fused::available() {
                    assert!(image(Some(fused)) == by_steps, "{fused:?} {protection:?} {bytes}");
                }
            }
        }
    }
}
