//! Writes a sidecar, from the file's bytes as they pass by.

use super::Progress;
use super::label::{Label, Places, bytes_of, geometry_of};
use crate::image::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, crc32c, digest, store};
use crate::{Error, Storage, StoredFile};
use std::io;
use std::path::Path;
use surefoot_ecc::{Batch, Code};

/// Rows that are read and protected at once: 1 MiB of the file in 16 reads.
const ROWS_AT_ONCE: usize = 16;

/// A file while it is written beside the one that it takes the place of. Dropping it takes it away.
pub(super) struct Beside<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    pub(super) file: Option<Box<dyn StoredFile>>,
}

impl<'a> Beside<'a> {
    /// Creates it; what a run that was killed left there goes away.
    pub(super) fn create(storage: &'a dyn Storage, path: &'a Path, bytes: u64) -> Result<Self, Error> {
        match storage.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::storage("remove", path)(error));
            }
            _ => {}
        }
        let file = storage.create_file(path, bytes, false).map_err(Error::storage("create", path))?;
        Ok(Beside { storage, path, file: Some(file) })
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        file.and_then(|file| file.write_at(bytes, offset)).map_err(Error::storage("write", self.path))
    }

    /// Makes it durable and gives it its name; `dress` sets what else belongs to it before that.
    pub(super) fn put(mut self, target: &Path, dress: &dyn Fn(&Path) -> io::Result<()>) -> Result<(), Error> {
        let synced = match self.file.take() {
            Some(file) => dress(self.path).and_then(|()| file.sync()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let renamed = synced
            .map_err(Error::storage("sync", self.path))
            .and_then(|()| self.storage.rename(self.path, target).map_err(Error::storage("rename", self.path)));
        if let Err(error) = renamed {
            let _ = self.storage.remove_file(self.path);
            return Err(error);
        }
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.storage.sync_directory(directory).map_err(Error::storage("sync", directory))
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.storage.remove_file(self.path);
        }
    }
}

/// Writes the sidecar of a file beside its place and puts it there if the file is still `unchanged` then.
///
/// # Errors
/// [`Error::Storage`], [`Error::Option`] for a file that is too long, and what `unchanged` returns. The former sidecar is
/// as before then.
pub fn protect_in(
    storage: &dyn Storage,
    path: &Path,
    modified_realtime_ns: i64,
    unchanged: &dyn Fn(&Label) -> Result<(), Error>,
    dress: &dyn Fn(&Path) -> io::Result<()>,
    progress: Progress<'_>,
) -> Result<Label, Error> {
    let file = storage.open_file(path, false).map_err(Error::storage("open", path))?;
    let file_bytes = file.length().map_err(Error::storage("read", path))?;
    let geometry = geometry_of(file_bytes)?;
    let places = Places::of(&geometry);
    let (target, new) = (super::sidecar_path(path), with_end(&super::sidecar_path(path), ".new"));
    let beside = Beside::create(storage, &new, bytes_of(&geometry))?;
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
            beside.write(&column[..rows * PAGE_BYTES], offset)?;
        }
        row += rows;
        progress(done_bytes(&geometry, row), file_bytes);
    }
    let label = Label { file_bytes, modified_realtime_ns, table_crc32c: digest(&entries) };
    write_ends(&beside, &geometry, &entries, label)?;
    unchanged(&label)?;
    beside.put(&target, dress)?;
    Ok(label)
}

/// Somebody wrote to the file meanwhile.
pub(super) fn changed(path: &Path) -> Error {
    let why = "it changed while it was read; do this when nobody writes to it".into();
    Error::Damaged { path: path.to_owned(), why }
}

/// Both tables and both labels.
fn write_ends(beside: &Beside<'_>, geometry: &Geometry, entries: &[u32], label: Label) -> Result<(), Error> {
    let places = Places::of(geometry);
    let mut table = vec![0; geometry.table_bytes()];
    store(entries, &mut table);
    let label = label.to_bytes()?;
    places.tables.iter().try_for_each(|&offset| beside.write(&table, offset))?;
    places.labels.iter().try_for_each(|&offset| beside.write(&label, offset))
}

/// Bytes of the file that these many rows are.
pub(super) fn done_bytes(geometry: &Geometry, rows: usize) -> u64 {
    ((rows * COLUMNS_DATA * PAGE_BYTES) as u64).min(geometry.payload_bytes())
}

/// Another name beside a file: its own with this end.
pub(super) fn with_end(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
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
