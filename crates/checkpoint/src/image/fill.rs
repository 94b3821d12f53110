//! Copies a payload into an image and protects it on the way, while it is in the cache.

use super::chip;
use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use super::source::Source;
use super::stream;
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
    let mut row = 0;
    while row < geometry.rows() {
        let rows = ROWS_AT_ONCE.min(geometry.rows() - row);
        let pieces = scratch.pieces(geometry, source, row, rows);
        let sum = |entries: &mut [u32], column: usize, piece: &[u8]| {
            for (at, page) in piece.chunks_exact(PAGE_BYTES).enumerate() {
                entries[table::index(geometry, column, row + at)] = crc32c(page);
            }
        };
        let (start, end) = (row * PAGE_BYTES, (row + rows) * PAGE_BYTES);
        // The checksum is what brings a piece into the cache, in order, as memory likes to be read.
        for (number, piece) in pieces.data.iter().enumerate() {
            sum(&mut entries, number, piece);
            stream::copy(piece, &mut columns[number][start..end]);
        }
        let parity_columns = geometry.protection().parity_columns();
        protect(geometry.protection(), &pieces.data, pieces.parity)?;
        for (number, piece) in pieces.parity.chunks_exact(rows * PAGE_BYTES).take(parity_columns).enumerate() {
            sum(&mut entries, COLUMNS_DATA + number, piece);
            stream::copy(piece, &mut columns[COLUMNS_DATA + number][start..end]);
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
