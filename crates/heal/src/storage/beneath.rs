//! Writing in a directory by its descriptor: whatever becomes of its path, what is written lands there, and no name
//! leads out of it.

use super::directory::open_at;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A new file, private to the user and without a name, which is gone with its descriptor until [`link`] names it. A file
/// system that has none gives an error of kind `Unsupported`.
pub fn create_unnamed(directory: &File) -> io::Result<File> {
    create(directory, OsStr::new("."), libc::O_TMPFILE).map_err(|error| match error.raw_os_error() {
        // Kernels before O_TMPFILE take it for O_DIRECTORY.
        Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT) => io::ErrorKind::Unsupported.into(),
        _ => error,
    })
}

/// A new file of this name, private to the user; one that is there, even a link, is an error.
pub fn create_named(directory: &File, name: &OsStr) -> io::Result<File> {
    create(directory, name, libc::O_CREAT | libc::O_EXCL)
}

/// Opens a regular file of this name for a lock, and creates it if it is not there. A link is an error, and a pipe or device is not
/// opened.
pub fn open_or_create(directory: &File, name: &OsStr) -> io::Result<File> {
    loop {
        match surefoot_foreign::hold_in(directory, name) {
            Ok(found) => return found.regular()?.open_to_write(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        match create_named(directory, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

fn create(directory: &File, name: &OsStr, flags: i32) -> io::Result<File> {
    let name = of(name)?;
    let flags = flags | libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name ends in a zero; the kernel keeps nothing of it.
    let descriptor = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::c_uint) };
    match descriptor {
        0.. => {
            // SAFETY: the kernel has just given it to us, and to nobody else.
            Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a file without a name this one, which must be free.
pub fn link(file: &File, directory: &File, name: &OsStr) -> io::Result<()> {
    // By the descriptor alone only who may pass any directory can; /proc leads there for everybody.
    let own = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (name, at) = (of(name)?, directory.as_raw_fd());
    // SAFETY: both names end in a zero; the kernel keeps nothing of them.
    let first = unsafe { libc::linkat(libc::AT_FDCWD, own.as_ptr(), at, name.as_ptr(), libc::AT_SYMLINK_FOLLOW) };
    done(first).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            // SAFETY: as before.
            done(unsafe { libc::linkat(file.as_raw_fd(), c"".as_ptr(), at, name.as_ptr(), libc::AT_EMPTY_PATH) })
        }
        _ => Err(error),
    })
}

/// Renames within a directory; what has the new name is replaced at once, and is not followed.
pub fn rename(directory: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, at) = (of(from)?, of(to)?, directory.as_raw_fd());
    // SAFETY: both names end in a zero; the kernel keeps nothing of them.
    done(unsafe { libc::renameat(at, from.as_ptr(), at, to.as_ptr()) })
}

/// Removes a name that is no directory's.
pub fn remove(directory: &File, name: &OsStr) -> io::Result<()> {
    let name = of(name)?;
    // SAFETY: the name ends in a zero; the kernel keeps nothing of it.
    done(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) })
}

/// Removes an empty directory; a link to one is an error.
pub fn remove_directory(directory: &File, name: &OsStr) -> io::Result<()> {
    let name = of(name)?;
    // SAFETY: the name ends in a zero; the kernel keeps nothing of it.
    done(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) })
}

/// What has a name, held without opening it; a link is held itself.
pub fn hold(directory: &File, name: &OsStr) -> io::Result<File> {
    of(name)?;
    open_at(directory.as_raw_fd(), name, libc::O_PATH).map(File::from)
}

/// One name, which cannot lead elsewhere.
fn of(name: &OsStr) -> io::Result<CString> {
    let is_one = name == "." || Path::new(name).file_name() == Some(name);
    match is_one {
        true => Ok(CString::new(name.as_bytes())?),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file")),
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
