//! Parity and checksums beside a file of another program: `model.pt` gets `model.pt.surefoot`.
//!
//! The file itself is the data columns of an image (module [`image`](crate::image)), filled up with zeros; the sidecar
//! holds the rest. So three bad pages of nineteen are repaired, and a cut end as long as three columns, which is 18 % of
//! the file, is too.
//!
//! # The sidecar
//! | part | bytes | content |
//! |---|---|---|
//! | label | 4096 | framed as a manifest with the letters `SFSIDE01`: [`Label`] |
//! | table | 4 bytes a page, filled up to a page | CRC32C of each page of data and parity, column by column |
//! | parity | 3 columns | the parity of RS(19,16) |
//! | table | as before | the same once more |
//! | label | 4096 | the same once more |
//!
//! A table and a label stand at each end, so that a cut takes one of each.
//!
//! # Invariants
//! - The file is never written to: what was repaired is written beside it, proved, made durable, and renamed.
//! - What is not proved by its checksums is not put in place.
//! - A file that was written to after it was protected is left alone unless it is said that this was not wanted.

mod file;
mod label;
mod pair;
mod protect;
mod repair;

pub use file::{Protected, check, protect, repair, sidecar_path};
pub use label::{Label, sidecar_bytes};
pub use repair::{Findings, Repaired};

#[doc(hidden)]
pub mod through {
    //! The same on any storage, for tests that stop it or refuse a page.
    pub use super::protect::protect_in;
    pub use super::repair::{check_in, repair_in};
}

/// Told now and then how many bytes of how many are done.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);
