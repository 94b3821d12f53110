//! Writes a sidecar, from the file's bytes as they pass by.

use super::Progress;
use super::label::{Label, Places, bytes_of, geometry_of};
use super::place::{Part, Place};
use crate::image::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, crc32c, digest, store};
use crate::{Error, StoredFile};
use std::io;
use std::path::Path;
use surefoot_ecc::{Batch, Code};

/// Rows that are read and protected at once: 1 MiB of the file in 16 reads.
const ROWS_AT_ONCE: usize = 16;

/// Writes the sidecar of a file beside its place and puts it there if the file is still what it was: as the place says,
/// and where `expected` says the checksum of its table, by that.
///
/// # Errors
/// [`Error::Storage`], [`Error::Option`] for a file that is too long, [`Error::Damaged`] for one that changed. The former
/// sidecar is as before then.
pub fn protect_in(
    place: &dyn Place,
    modified_realtime_ns: i64,
    expected: Option<u32>,
    progress: Progress<'_>,
) -> Result<Label, Error> {
    let (path, target) = (&*place.path(Part::File), place.path(Part::Sidecar));
    let file = place.open(Part::File).map_err(Error::storage("open", path))?;
    let file_bytes = file.length().map_err(Error::storage("read", path))?;
    let geometry = geometry_of(file_bytes)?;
    let places = Places::of(&geometry);
    let begun = place.begin(Part::Sidecar, bytes_of(&geometry)).map_err(Error::storage("create", &target))?;
    let write = |bytes: &[u8], offset: u64| begun.write_at(bytes, offset).map_err(Error::storage("write", &target));
    let mut entries = vec![0u32; geometry.pages()];
    let mut columns = vec![vec![0u8; ROWS_AT_ONCE * PAGE_BYTES]; COLUMNS_DATA + COLUMNS_PARITY];
    let mut row = 0;
    while row < geometry.rows() {
        let rows = ROWS_AT_ONCE.min(geometry.rows() - row);
        for (number, column) in columns[..COLUMNS_DATA].iter_mut().enumerate() {
            let offset = ((number * geometry.rows() + row) * PAGE_BYTES) as u64;
            read_filled(&*file, file_bytes, &mut column[..rows * PAGE_BYTES], offset).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => changed(path),
                    _ => Error::storage("read", path)(error),
                }
            })?;
        }
        encode(&mut columns, rows)?;
        for (number, column) in columns.iter().enumerate() {
            for (at, page) in column[..rows * PAGE_BYTES].chunks_exact(PAGE_BYTES).enumerate() {
                entries[number * geometry.rows() + row + at] = crc32c(page);
            }
        }
        for (number, column) in columns[COLUMNS_DATA..].iter().enumerate() {
            let offset = places.parity + ((number * geometry.rows() + row) * PAGE_BYTES) as u64;
            write(&column[..rows * PAGE_BYTES], offset)?;
        }
        row += rows;
        progress(done_bytes(&geometry, row), file_bytes);
    }
    let label = Label { file_bytes, modified_realtime_ns, table_crc32c: digest(&entries) };
    write_ends(&write, &geometry, &entries, label)?;
    if expected.is_some_and(|expected| expected != label.table_crc32c) {
        return Err(changed(path));
    }
    begun.put(modified_realtime_ns)?;
    Ok(label)
}

/// Somebody wrote to the file meanwhile.
pub(super) fn changed(path: &Path) -> Error {
    let why = "it changed while it was read; retry when no process writes to it".into();
    Error::Damaged { path: path.to_owned(), why }
}

/// Writes bytes at an offset of the new sidecar.
type Write<'a> = &'a dyn Fn(&[u8], u64) -> Result<(), Error>;

/// Both tables and both labels.
fn write_ends(write: Write<'_>, geometry: &Geometry, entries: &[u32], label: Label) -> Result<(), Error> {
    let places = Places::of(geometry);
    let mut table = vec![0; geometry.table_bytes()];
    store(entries, &mut table);
    let label = label.to_bytes()?;
    places.tables.iter().try_for_each(|&offset| write(&table, offset))?;
    places.labels.iter().try_for_each(|&offset| write(&label, offset))
}

/// Bytes of the file that these many rows are.
pub(super) fn done_bytes(geometry: &Geometry, rows: usize) -> u64 {
    ((rows * COLUMNS_DATA * PAGE_BYTES) as u64).min(geometry.payload_bytes())
}

/// Reads what the file has, and zeros beyond.
fn read_filled(file: &dyn StoredFile, file_bytes: u64, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let has = file_bytes.saturating_sub(offset).min(bytes.len() as u64) as usize;
    let (content, rest) = bytes.split_at_mut(has);
    rest.fill(0);
    if content.is_empty() { Ok(()) } else { file.read_at(content, offset) }
}

fn encode(columns: &mut [Vec<u8>], rows: usize) -> Result<(), Error> {
    let bytes = rows * PAGE_BYTES;
    let (data, parity) = columns.split_at_mut(COLUMNS_DATA);
    let data: Vec<&[u8]> = data.iter().map(|column| &column[..bytes]).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(|column| &mut column[..bytes]).collect();
    let encoded = Batch::new(Code::Rs19_16).encode(&data, &mut parity);
    encoded.map_err(|error| Error::Option { option: "protection", why: error.to_string() })
}
