//! Copies a payload into an image and protects it on the way, while it is in the cache.

use super::chip;
use super::fused::{Fused, Row};
use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use super::source::Source;
use super::stream::{self, LINE_BYTES};
use super::table::{self, crc32c};
use crate::Error;
use std::ops::Range;
use surefoot_ecc::{Batch, Code};

/// Rows that are copied and protected at once: 19 shards of 16 KiB stay in the second-level cache.
const ROWS_AT_ONCE: usize = 4;

/// Rows below which a further thread costs more than it saves: 16 MiB of payload.
const ROWS_OF_A_THREAD: usize = 256;

/// Fills an image on the calling thread, and returns the digest of its table.
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
    fill_together(geometry, source, image, 1, step)
}

/// As [`fill`], with the help of further threads where the payload is long enough; `step` speaks of the calling one.
///
/// # Errors
/// As [`fill`].
pub fn fill_together(
    geometry: &Geometry,
    source: &Source<'_>,
    image: &mut [u8],
    threads: usize,
    step: &mut dyn FnMut(usize),
) -> Result<u32, Error> {
    let is_aligned = image.as_ptr().align_offset(LINE_BYTES) == 0;
    let fused = Fused::available().first().copied();
    fill_with(fused.filter(|_| is_aligned), geometry, source, image, threads, step)
}

/// As [`fill`], in one pass where one is given that knows the protection, and else step by step.
fn fill_with(
    fused: Option<Fused>,
    geometry: &Geometry,
    source: &Source<'_>,
    image: &mut [u8],
    threads: usize,
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
    let mut entries = vec![0u32; geometry.pages()];
    let fused = fused.filter(|_| geometry.protection() != Protection::Chip);
    let task = Task { fused, geometry, source };
    let threads = threads.min(geometry.rows() / ROWS_OF_A_THREAD).max(1);
    let mut bands = bands(geometry, body, &mut entries, threads).into_iter();
    std::thread::scope(|scope| {
        let own = bands.next();
        let others: Vec<_> = bands.map(|band| scope.spawn(move || task.fill_band(band, &mut |_| {}))).collect();
        let own = own.map_or(Ok(()), |band| task.fill_band(band, step));
        let panicked = || Error::Option { option: "threads", why: "one that copied has panicked".into() };
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(panicked())));
        others.fold(own, |sofar, other| sofar.and(other))
    })?;
    let (first, second) = tables.split_at_mut(geometry.table_bytes());
    table::store(&entries, first);
    table::store(&entries, second);
    Ok(table::digest(&entries))
}

/// The rows of one thread: of each column its part, and of the table the entries of that part.
struct Band<'a> {
    first_row: usize,
    rows: usize,
    columns: Vec<&'a mut [u8]>,
    entries: Vec<&'a mut [u32]>,
}

/// Cuts an image into bands of rows, as equal as can be.
fn bands<'a>(geometry: &Geometry, body: &'a mut [u8], entries: &'a mut [u32], count: usize) -> Vec<Band<'a>> {
    let mut columns: Vec<&mut [u8]> = body.chunks_exact_mut(geometry.column_bytes()).collect();
    let mut entries: Vec<&mut [u32]> = entries.chunks_exact_mut(geometry.rows()).collect();
    let mut first_row = 0;
    let mut bands = Vec::with_capacity(count);
    for number in 0..count {
        let rows = geometry.rows() * (number + 1) / count - first_row;
        bands.push(Band {
            first_row,
            rows,
            columns: columns.iter_mut().filter_map(|column| column.split_off_mut(..rows * PAGE_BYTES)).collect(),
            entries: entries.iter_mut().filter_map(|column| column.split_off_mut(..rows)).collect(),
        });
        first_row += rows;
    }
    bands
}

/// What all threads of a filling know.
#[derive(Clone, Copy)]
struct Task<'a> {
    fused: Option<Fused>,
    geometry: &'a Geometry,
    source: &'a Source<'a>,
}

impl Task<'_> {
    fn fill_band(self, mut band: Band<'_>, step: &mut dyn FnMut(usize)) -> Result<(), Error> {
        let mut scratch = Scratch::new();
        let mut row = 0;
        while row < band.rows {
            let rows = ROWS_AT_ONCE.min(band.rows - row);
            let pieces = scratch.pieces(self.geometry, self.source, band.first_row + row, rows);
            match self.fused {
                Some(fused) => band.fill_at_once(fused, self.geometry, &pieces, row..row + rows),
                None => band.fill_by_steps(self.geometry, pieces, row..row + rows)?,
            }
            row += rows;
            step(row);
        }
        // Each thread sees to it that what it has copied is seen.
        stream::finish();
        Ok(())
    }
}

impl Band<'_> {
    /// Copies, protects and sums each line while it is in a register.
    fn fill_at_once(&mut self, fused: Fused, geometry: &Geometry, pieces: &Pieces<'_>, rows: Range<usize>) {
        let protects = geometry.protection().parity_columns() > 0;
        for (at, row) in rows.enumerate() {
            let data = pieces.data.map(|piece| &piece[at * PAGE_BYTES..][..PAGE_BYTES]);
            let mut targets: Row<&mut [u8]> = Default::default();
            for (target, column) in targets.iter_mut().zip(self.columns.iter_mut()) {
                *target = &mut column[row * PAGE_BYTES..][..PAGE_BYTES];
            }
            let sums = fused.row(&data, &mut targets[..geometry.columns()], protects);
            for (entries, sum) in self.entries.iter_mut().zip(sums) {
                entries[row] = sum;
            }
        }
    }

    /// Sums and copies, column by column, and then protects what is in the cache.
    fn fill_by_steps(&mut self, geometry: &Geometry, pieces: Pieces<'_>, rows: Range<usize>) -> Result<(), Error> {
        let (start, end) = (rows.start * PAGE_BYTES, rows.end * PAGE_BYTES);
        let mut keep = |column: usize, piece: &[u8]| {
            // The checksum is what brings a piece into the cache, in order, as memory likes to be read.
            for (entry, page) in self.entries[column][rows.clone()].iter_mut().zip(piece.chunks_exact(PAGE_BYTES)) {
                *entry = crc32c(page);
            }
            stream::copy(piece, &mut self.columns[column][start..end]);
        };
        for (column, piece) in pieces.data.iter().enumerate() {
            keep(column, piece);
        }
        protect(geometry.protection(), &pieces.data, pieces.parity)?;
        let parity = pieces.parity.chunks_exact(end - start).take(geometry.protection().parity_columns());
        for (number, piece) in parity.enumerate() {
            keep(COLUMNS_DATA + number, piece);
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
    fn bands_cover_every_row_once_and_threads_change_nothing() {
        let payload: Vec<u8> =
            (0..40_000_003u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        let geometry = Geometry::new(payload.len() as u64, Protection::Shard).unwrap();
        let source = Source::new(vec![&payload]);
        let image = |threads| {
            let mut image = vec![0xEEu8; geometry.file_bytes()];
            let mut steps = 0;
            let digest = fill_together(&geometry, &source, &mut image, threads, &mut |rows| steps = rows).unwrap();
            (image, digest, steps)
        };
        let (alone, digest, rows) = image(1);
        assert_eq!(rows, geometry.rows());
        for threads in [2, 3, 16] {
            let (together, same, rows) = image(threads);
            assert!(together == alone && same == digest, "{threads} threads");
            assert!(rows < geometry.rows(), "{threads} threads: the calling one has done {rows} rows");
        }
    }

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
                    let digest = fill_with(fused, &geometry, &source, image, 1, &mut |_| {}).unwrap();
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
