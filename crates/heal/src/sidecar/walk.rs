//! The way to a file's directory, part by part, each held by its descriptor: where root writes, nobody else may turn it.

use crate::Error;
use crate::storage::open_at;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Symbolic links that are followed on the way, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Whose directories and links may be on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Anybody's: nothing is written, or only with the rights that the user has anyway.
    Anybodys,
    /// Directories of anybody; links of root only, because they could lead root anywhere.
    LinksOfRoot,
    /// Root's only, in which nobody else may replace anything.
    Roots,
}

/// Opens the directory that holds a file.
///
/// # Errors
/// [`Error::Storage`] when it is not there, may not be passed, or is not as `way` says.
pub(super) fn directory_of(path: &Path, way: Way) -> Result<File, Error> {
    let absolute = std::path::absolute(path).map_err(Error::storage("open", path))?;
    let Some(parent) = absolute.parent() else {
        return Err(super::refusal("use", path, "it is not a regular file"));
    };
    let mut rest: VecDeque<OsString> = VecDeque::new();
    lead_in(&mut rest, parent);
    let start = || open_at(libc::AT_FDCWD, OsStr::new("/"), libc::O_PATH | libc::O_DIRECTORY).map(File::from);
    let (mut at, mut shown, mut links) = (start().map_err(Error::storage("open", path))?, PathBuf::from("/"), 0);
    check(&at, &shown, path, way)?;
    while let Some(part) = rest.pop_front() {
        let next = open_at(at.as_raw_fd(), &part, libc::O_PATH).map_err(Error::storage("open", path))?;
        let next = File::from(next);
        let found = next.metadata().map_err(Error::storage("open", path))?;
        if !found.is_symlink() {
            (at, shown) = (next, shown.join(&part));
            check(&at, &shown, path, way)?;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Error::storage("open", path)(io::Error::from_raw_os_error(libc::ELOOP)));
        }
        check_link(&found, &shown.join(&part), path, way)?;
        let target = PathBuf::from(target_of(&next).map_err(Error::storage("open", path))?);
        if target.is_absolute() {
            (at, shown) = (start().map_err(Error::storage("open", path))?, PathBuf::from("/"));
        }
        lead_in(&mut rest, &target);
    }
    // A descriptor that only names it can be neither listed nor made durable.
    let directory = open_at(at.as_raw_fd(), OsStr::new("."), libc::O_DIRECTORY);
    directory.map(File::from).map_err(Error::storage("open", path))
}

/// Puts the parts of a path in front of what is still to be passed.
fn lead_in(rest: &mut VecDeque<OsString>, path: &Path) {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    for part in parts.rev() {
        rest.push_front(part.as_os_str().to_owned());
    }
}

fn target_of(link: &File) -> io::Result<OsString> {
    let mut bytes = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the kernel writes at most as many bytes as the buffer has, and the empty path ends in a zero.
    let length = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    match usize::try_from(length) {
        Ok(length) if length < bytes.len() => {
            bytes.truncate(length);
            Ok(OsString::from_vec(bytes))
        }
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn check_link(found: &Metadata, link: &Path, path: &Path, way: Way) -> Result<(), Error> {
    if way == Way::Anybodys || found.uid() == 0 {
        return Ok(());
    }
    let why = format!(
        "root does not follow {}, a symbolic link of the user with number {}; name the directory that it leads to",
        link.display(),
        found.uid()
    );
    Err(super::refusal("use", path, &why))
}

fn check(directory: &File, shown: &Path, path: &Path, way: Way) -> Result<(), Error> {
    if way != Way::Roots {
        return Ok(());
    }
    let found = directory.metadata().map_err(Error::storage("open", path))?;
    if !found.is_dir() {
        return Err(Error::storage("open", path)(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    let (owner, mode) = (found.uid(), found.mode());
    let why = if owner != 0 {
        format!(
            "root does not write in {}, which belongs to the user with number {owner}, who could put other files in the \
             place of these; run this as that user: sudo -u '#{owner}' ...; or, where you trust that user as root, with \
             --trust-directory-owner",
            shown.display()
        )
    } else if mode & surefoot_foreign::way::OTHERS_WRITE != 0 && mode & libc::S_ISVTX == 0 {
        format!(
            "root does not write in {}, in which other users may replace files; take that right away: chmod go-w",
            shown.display()
        )
    } else {
        return Ok(());
    };
    Err(super::refusal("use", path, &why))
}
