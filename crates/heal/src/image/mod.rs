//! How the payload of one rank lies in a file, what protects it, and how it heals.
//!
//! # The file
//! | part | bytes | content |
//! |---|---|---|
//! | data | 16 columns of `rows` pages | the payload in order, then zeros |
//! | parity | 3 columns of `rows` pages; none for [`Protection::Checked`] | the three parity symbols of each codeword |
//! | table | 4 bytes a page, filled up to a page | CRC32C of each page of data and parity, little endian, column by column |
//! | table | as before | the same once more |
//!
//! A page has 4096 bytes. Row r of all columns is one set of shards: byte b of its 19 pages is one codeword of RS(19,16),
//! so a page that is bad, or that the kernel refuses to read, is one erasure, and three of a row can be repaired. The
//! pages of a row lie a column apart: a cut end, a bad DRAM row or a run of bad blocks takes one page of each of many
//! rows instead of many pages of one.
//!
//! The table says *which* page is bad; the manifest carries a CRC32C of the table, so that a file of another checkpoint
//! in the place of this one is noticed even though it is consistent in itself.

mod chip;
mod fill;
mod fused;
mod geometry;
mod heal;
mod seal;
mod source;
mod stream;
mod table;

pub use fill::{fill, fill_together};
pub use geometry::{COLUMNS_DATA, COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
pub use heal::{Healer, Lost, Tally};
pub use source::Source;

pub use seal::seal;
pub use table::{crc32c, digest, store};
