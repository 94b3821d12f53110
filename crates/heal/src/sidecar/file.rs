//! Files on this machine: which may be protected, and who is at work on them.

use super::folder::{Folder, Trust, Turn};
use super::label::{Label, sidecar_bytes};
use super::place::{Part, Place};
use super::protect::protect_in;
use super::repair::{Findings, Repaired, check_in, repair_in};
use super::{Progress, SIDECAR_END, refusal};
use crate::Error;
use std::io;
use std::path::Path;

/// What protecting a file did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protected {
    /// It wrote a sidecar.
    New {
        /// Bytes of the file.
        file_bytes: u64,
        /// Bytes of the sidecar.
        sidecar_bytes: u64,
    },
    /// There is one for this file, which was not written to since.
    Before {
        /// Bytes of the file.
        file_bytes: u64,
    },
}

/// Protects a file: writes its sidecar, durably. One that is there is replaced if the file was written to since, or if
/// `force` says so; then damage that came in between is taken for content.
///
/// As root it works in directories that only root can change, unless `trust` says otherwise. Memory is bounded by a thousandth of the file's length and 2 MiB.
///
/// # Errors
/// [`Error::Storage`] when the file is no regular file, cannot be read, or there is no room; [`Error::Damaged`] when it
/// changes meanwhile, or when what has the sidecar's name is none.
pub fn protect(path: &Path, force: bool, trust: Trust, progress: Progress<'_>) -> Result<Protected, Error> {
    if path.as_os_str().as_encoded_bytes().ends_with(SIDECAR_END.as_bytes()) {
        return Err(refusal("protect", path, "it is a sidecar itself"));
    }
    let folder = Folder::to_write(path, trust)?;
    let _turn = Turn::take(&folder)?;
    let before = folder.stamp();
    if !force && let Some(label) = label_before(&folder)? {
        if label.file_bytes == before.bytes && label.modified_realtime_ns == before.modified_ns {
            return Ok(Protected::Before { file_bytes: before.bytes });
        }
        if label.modified_realtime_ns == before.modified_ns {
            let why = format!(
                "it has {} bytes instead of {}, though it was not written to since: repair brings it back, --force \
                 protects it as it is",
                before.bytes, label.file_bytes
            );
            return Err(Error::Damaged { path: path.to_owned(), why });
        }
    }
    folder.sweep();
    let label = protect_in(&folder, before.modified_ns, None, progress)?;
    Ok(Protected::New { file_bytes: label.file_bytes, sidecar_bytes: sidecar_bytes(label.file_bytes)? })
}

/// The label of the sidecar that is there.
fn label_before(folder: &Folder) -> Result<Option<Label>, Error> {
    let path = folder.path(Part::Sidecar);
    let label = match folder.open(Part::Sidecar) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::storage("open", &path)).and_then(|file| Label::read(&*file, &path)),
    };
    label.map(|(label, _)| Some(label)).map_err(|error| {
        let why = format!("what has the sidecar's name cannot be read as one: {error}; --force replaces it");
        Error::Damaged { path: folder.path(Part::File), why }
    })
}

/// Reads a file and its sidecar and says what is bad; changes nothing.
///
/// # Errors
/// [`Error::Storage`] when one is not there or cannot be opened, [`Error::Damaged`] when nothing can be proved with the
/// sidecar.
pub fn check(path: &Path, progress: Progress<'_>) -> Result<Findings, Error> {
    let folder = Folder::to_read(path)?;
    check_in(&folder, folder.stamp().modified_ns, progress).map(|(findings, _)| findings)
}

/// Repairs a file and its sidecar. The repaired file gets the old one's permissions and, where they can be given, its
/// owner and access list, and the time at which it was last written to when it was protected. It is a new file: other
/// hard links and extended attributes stay with the damaged one, and it runs as nobody else (set-id bits, capabilities).
///
/// `force` brings back what was protected even where the file was written to since. As root it works in directories
/// that only root can change, unless `trust` says otherwise.
///
/// # Errors
/// As [`check`], and [`Error::Storage`] when there is no room for the repaired file, or others could interfere;
/// [`Error::Damaged`] when the file changes meanwhile.
pub fn repair(path: &Path, force: bool, trust: Trust, progress: Progress<'_>) -> Result<Repaired, Error> {
    let folder = Folder::to_write(path, trust)?;
    let _turn = Turn::take(&folder)?;
    folder.sweep();
    repair_in(&folder, folder.stamp().modified_ns, force, progress)
}
