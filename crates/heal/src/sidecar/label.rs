//! What a sidecar says of itself and of its file.

use crate::framing::Framing;
use crate::image::{COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use crate::{Error, StoredFile};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The first bytes of a label; the last two digits are the version of the format.
const MAGIC: [u8; 8] = *b"SFSIDE01";

const FRAMING: Framing = Framing { magic: MAGIC, name: "label of a sidecar", text_bytes_max: 1 << 20 };

/// What the sidecar is for. All fields are of the moment when the file was protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Length of the file.
    pub file_bytes: u64,
    /// When it was last written to, nanoseconds since 1970.
    pub modified_realtime_ns: i64,
    /// CRC32C of the table of checksums, which binds file and sidecar together.
    pub table_crc32c: u32,
}

impl Label {
    /// The geometry of the image that file and sidecar are.
    pub(super) fn geometry(&self) -> Result<Geometry, Error> {
        geometry_of(self.file_bytes)
    }

    /// One page.
    pub(super) fn to_bytes(self) -> Result<Vec<u8>, Error> {
        FRAMING.write(&self).map_err(|why| Error::Option { option: "label", why })
    }

    /// Reads the label of a sidecar from its beginning, or where that is bad from its end; returns how many are bad.
    ///
    /// # Errors
    /// [`Error::Damaged`] when neither can be read.
    pub(super) fn read(file: &dyn StoredFile, path: &Path) -> Result<(Self, u64), Error> {
        let length = file.length().map_err(Error::storage("read", path))?;
        let page = PAGE_BYTES as u64;
        let at = |offset: u64| -> Result<Label, String> {
            let mut bytes = vec![0; PAGE_BYTES];
            file.read_at(&mut bytes, offset).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => "it is empty, or cut to less than a sidecar begins with; protect the file again with `surefoot checkpoint protect`".to_owned(),
                _ => error.to_string(),
            })?;
            FRAMING.read(&bytes)
        };
        let first = at(0);
        let expected = |label: &Label| label.geometry().map(|geometry| bytes_of(&geometry));
        if let Ok(label) = first {
            let last = expected(&label)?.checked_sub(page).map(&at);
            let is_same = matches!(last, Some(Ok(last)) if last == label);
            return Ok((label, u64::from(!is_same)));
        }
        // Where the beginning is bad the end is only where it should be if nothing was cut or added.
        let last = length.checked_sub(page).map(at);
        match last {
            Some(Ok(label)) if expected(&label)? == length => Ok((label, 1)),
            _ => {
                let why = first.err().unwrap_or_default();
                Err(Error::Damaged { path: path.to_owned(), why })
            }
        }
    }
}

/// The geometry of the image that a file of this length and its sidecar are.
pub(super) fn geometry_of(file_bytes: u64) -> Result<Geometry, Error> {
    Geometry::new(file_bytes, Protection::Shard)
}

/// Bytes of the sidecar of a file of this length.
///
/// # Errors
/// [`Error::Option`] for a file of more than 16 TiB.
pub fn sidecar_bytes(file_bytes: u64) -> Result<u64, Error> {
    Ok(bytes_of(&geometry_of(file_bytes)?))
}

pub(super) fn bytes_of(geometry: &Geometry) -> u64 {
    (2 * PAGE_BYTES + 2 * geometry.table_bytes() + COLUMNS_PARITY * geometry.column_bytes()) as u64
}

/// Where in the sidecar a part of the image begins.
pub(super) struct Places {
    pub(super) tables: [u64; 2],
    pub(super) parity: u64,
    pub(super) labels: [u64; 2],
}

impl Places {
    pub(super) fn of(geometry: &Geometry) -> Self {
        let table = PAGE_BYTES as u64;
        let parity = table + geometry.table_bytes() as u64;
        let other_table = parity + (COLUMNS_PARITY * geometry.column_bytes()) as u64;
        let other_label = other_table + geometry.table_bytes() as u64;
        Places { tables: [table, other_table], parity, labels: [0, other_label] }
    }
}
