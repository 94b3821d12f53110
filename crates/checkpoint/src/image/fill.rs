//! Copies a payload into an image and protects it on the way, while it is in the cache.

use super::chip;
use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use super::source::Source;
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
    let mut row = 0;
    while row < geometry.rows() {
        let rows = ROWS_AT_ONCE.min(geometry.rows() - row);
        let (start, end) = (row * PAGE_BYTES, (row + rows) * PAGE_BYTES);
        for (number, column) in columns[..COLUMNS_DATA].iter_mut().enumerate() {
            source.copy_to((number * geometry.column_bytes() + start) as u64, &mut column[start..end]);
        }
        protect(geometry.protection(), &mut columns, start..end)?;
        for (number, column) in columns.iter().enumerate() {
            for (at, page) in column[start..end].chunks_exact(PAGE_BYTES).enumerate() {
                entries[table::index(geometry, number, row + at)] = crc32c(page);
            }
        }
        row += rows;
        step(row);
    }
    let (first, second) = tables.split_at_mut(geometry.table_bytes());
    table::store(&entries, first);
    table::store(&entries, second);
    Ok(table::digest(&entries))
}

/// Computes the parity of some rows.
fn protect(protection: Protection, columns: &mut [&mut [u8]], rows: std::ops::Range<usize>) -> Result<(), Error> {
    let (data, parity) = columns.split_at_mut(COLUMNS_DATA);
    let data: [&[u8]; COLUMNS_DATA] = std::array::from_fn(|column| &data[column][rows.clone()]);
    let mut parity = parity.iter_mut();
    let encoded = match protection {
        Protection::Checked => return Ok(()),
        Protection::Shard => {
            let mut parity: [&mut [u8]; COLUMNS_PARITY] =
                std::array::from_fn(|_| parity.next().map_or(&mut [][..], |column| &mut column[rows.clone()]));
            Batch::new(Code::Rs19_16).encode(&data, &mut parity)
        }
        Protection::Chip => {
            let mut parity: Vec<&mut [u8]> = parity.map(|column| &mut column[rows.clone()]).collect();
            (0..rows.len()).step_by(PAGE_BYTES).try_for_each(|at| {
                let pages = data.map(|column| &column[at..at + PAGE_BYTES]);
                let checks = chip::protect(&pages)?;
                for (column, page) in parity.iter_mut().zip(checks.chunks_exact(PAGE_BYTES)) {
                    column[at..at + PAGE_BYTES].copy_from_slice(page);
                }
                Ok(())
            })
        }
    };
    encoded.map_err(|error| Error::Option { option: "protection", why: error.to_string() })
}
