//! Parity and checksums beside a file of another program: `model.pt` gets `model.pt.surefoot`.
//!
//! The file itself is the data columns of an image (module [`image`](crate::image)), filled up with zeros; the sidecar
//! holds the rest. So three bad pages of nineteen are repaired, and a cut end as long as three columns, which is 18 % of
//! the file, is too.
//!
//! # The sidecar
//! | part | bytes | content |
//! |---|---|---|
//! | label | 4096 | a framed text (module [`framing`](crate::framing)) with the letters `SFSIDE01`: [`Label`] |
//! | table | 4 bytes a page, filled up to a page | CRC32C of each page of data and parity, column by column |
//! | parity | 3 columns | the parity of RS(19,16) |
//! | table | as before | the same once more |
//! | label | 4096 | the same once more |
//!
//! A table and a label stand at each end, so that a cut takes one of each.
//!
//! # Invariants
//! - The file is never written to: what was repaired is written beside it, proved, made durable, and renamed.
//! - Everything is done by descriptor: whatever becomes of names and directories meanwhile, no other file is written to,
//!   given away or replaced but the one that was read. A sidecar is believed if it is root's, the owner's or one's own.
//! - What is not proved by its checksums is not put in place.
//! - A file that was written to after it was protected is left alone unless it is said that this was not wanted.

mod dress;
mod file;
mod folder;
mod label;
mod pair;
mod place;
mod protect;
mod repair;
#[cfg(test)]
mod tests;
mod walk;

pub use file::{Protected, check, protect, repair};
pub use folder::Trust;
pub use label::{Label, sidecar_bytes};
pub use repair::{Findings, Repaired};

use crate::Error;
use std::io;
use std::path::{Path, PathBuf};

#[doc(hidden)]
pub mod through {
    //! The same at any place, for tests that stop it or refuse a page.
    pub use super::place::{Begun, Part, Place};
    pub use super::protect::protect_in;
    pub use super::repair::{check_in, repair_in};
}

/// Told now and then how many bytes of how many are done.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What a sidecar's name ends with.
const SIDECAR_END: &str = ".surefoot";

/// The directory of what is to be written, by descriptor; where root goes, through no link of another user.
pub fn held_directory_of(path: &Path) -> Result<std::fs::File, Error> {
    let way = if folder::effective_user() == 0 { walk::Way::LinksOfRoot } else { walk::Way::Anybodys };
    walk::directory_of(path, way)
}

/// The sidecar's path.
pub fn sidecar_path(path: &Path) -> PathBuf {
    with_end(path, SIDECAR_END)
}

/// Another name beside a file: its own with this end.
fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn refusal(action: &'static str, path: &Path, why: &str) -> Error {
    Error::storage(action, path)(io::Error::new(io::ErrorKind::InvalidInput, why))
}
