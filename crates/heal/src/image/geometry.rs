//! The sizes of the parts of an image.

use crate::Error;
use serde::{Deserialize, Serialize};

/// Bytes of a page: the unit of checksums, of erasures and of memory that goes bad.
pub const PAGE_BYTES: usize = 4096;

/// Columns of data.
pub const COLUMNS_DATA: usize = 16;

/// Columns of parity.
pub const COLUMNS_PARITY: usize = 3;

/// The longest payload of one rank: 16 TiB.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 44;

/// What protects an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// RS(19,16) across pages and a checksum per page: three bad pages of nineteen are repaired. 18.75 % more bytes.
    #[default]
    Shard,
    /// RS(18,16) and the third symbol of RS(19,16) within each 64-byte line, as the paper's memory has it, and a checksum
    /// per page: any one chip's symbols are repaired wherever they are. 18.75 % more bytes.
    Chip,
    /// A checksum per page: what is bad is noticed, not repaired.
    Checked,
}

impl Protection {
    /// Its name in manifests and options.
    pub fn label(self) -> &'static str {
        match self {
            Protection::Shard => "shard",
            Protection::Chip => "chip",
            Protection::Checked => "checked",
        }
    }

    /// Columns of parity.
    pub fn parity_columns(self) -> usize {
        match self {
            Protection::Shard | Protection::Chip => COLUMNS_PARITY,
            Protection::Checked => 0,
        }
    }
}

/// The sizes of an image's parts, by its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    payload_bytes: u64,
    rows: usize,
    protection: Protection,
}

impl Geometry {
    /// The geometry of a payload of this length.
    ///
    /// # Errors
    /// [`Error::Option`] for more than 16 TiB.
    pub fn new(payload_bytes: u64, protection: Protection) -> Result<Self, Error> {
        if payload_bytes > PAYLOAD_BYTES_MAX {
            let why = format!("{payload_bytes} bytes in one rank are more than the {PAYLOAD_BYTES_MAX} possible");
            return Err(Error::Option { option: "regions", why });
        }
        let row_bytes = (COLUMNS_DATA * PAGE_BYTES) as u64;
        Ok(Geometry { payload_bytes, rows: payload_bytes.div_ceil(row_bytes).max(1) as usize, protection })
    }

    /// Length of the payload.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// What protects it.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Rows of pages.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of data and parity.
    pub fn columns(&self) -> usize {
        COLUMNS_DATA + self.protection.parity_columns()
    }

    /// Bytes of a column.
    pub fn column_bytes(&self) -> usize {
        self.rows * PAGE_BYTES
    }

    /// Pages of data and parity.
    pub fn pages(&self) -> usize {
        self.rows * self.columns()
    }

    /// Bytes of data and parity, which are the first of the file.
    pub fn body_bytes(&self) -> usize {
        self.pages() * PAGE_BYTES
    }

    /// Bytes of one copy of the table, filled up to a page.
    pub fn table_bytes(&self) -> usize {
        (self.pages() * 4).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> usize {
        self.body_bytes() + 2 * self.table_bytes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_parts_fill_the_file() {
        for (payload_bytes, rows) in [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (1 << 30, 16_384)] {
            let geometry = Geometry::new(payload_bytes, Protection::Shard).unwrap();
            assert_eq!(geometry.rows(), rows);
            assert_eq!(geometry.body_bytes(), rows * 19 * 4096);
            assert_eq!(geometry.file_bytes() % PAGE_BYTES, 0);
            assert!(geometry.table_bytes() >= geometry.pages() * 4);
        }
        assert_eq!(Geometry::new(1 << 20, Protection::Checked).unwrap().body_bytes(), 1 << 20);
        assert!(Geometry::new(u64::MAX, Protection::Shard).is_err());
    }
}
