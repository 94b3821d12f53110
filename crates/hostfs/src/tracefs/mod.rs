//! The kernel's trace events: which are there, and how their records are laid out.
//!
//! They are files of tracefs, which needs not be mounted: a process that may mount opens it by a mount of its own that
//! nobody else sees. Whether an event exists is asked by presence, never by kernel version: distributions carry events
//! back, and slim kernels leave them out.
//!
//! ```
//! use surefoot_hostfs::{Root, tracefs::Tracefs};
//! match Tracefs::open(&Root::host()) {
//!     Ok(tracefs) => println!("{}: {}", tracefs.place(), tracefs.event_exists("sched", "sched_switch")),
//!     Err(unsupported) => println!("{} ({})", unsupported.why, unsupported.remedy),
//! }
//! ```

mod format;
mod own_mount;

pub use format::{Field, Format};

use crate::privilege;
use crate::root::read_file;
use crate::{Error, Root, Unsupported};
use std::ffi::{CString, OsStr};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use surefoot_foreign::said;

const MOUNT_IT: &str = "mount it: mount -t tracefs nodev /sys/kernel/tracing";

/// Where an open tracefs is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TracefsMount {
    /// At this path, where everybody sees it.
    Mounted(PathBuf),
    /// In a detached mount of this process, which has no path.
    Detached,
    /// In a mount namespace that this process made and left; it has no path either.
    PrivateNamespace,
}

impl fmt::Display for TracefsMount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracefsMount::Mounted(path) => write!(formatter, "mounted at {}", path.display()),
            TracefsMount::Detached => formatter.write_str("in a detached mount of Surefoot's own"),
            TracefsMount::PrivateNamespace => {
                formatter.write_str("mounted in a private mount namespace of Surefoot's own")
            }
        }
    }
}

/// An open tracefs. Dropping it takes a mount of our own away.
#[derive(Debug)]
pub struct Tracefs {
    folder: OwnedFd,
    place: TracefsMount,
}

impl Tracefs {
    /// Opens tracefs where it is mounted, else by a mount of this process's own: detached, or in a private mount
    /// namespace where that is refused. In a recorded tree nothing is ever mounted.
    ///
    /// # Errors
    /// [`Unsupported`] when the kernel has no tracing, or this process may neither list tracefs nor mount it.
    pub fn open(root: &Root) -> Result<Self, Unsupported> {
        let places = mount_points(root);
        let mut is_denied = false;
        for path in &places {
            match Self::mounted(path) {
                Ok(tracefs) => return Ok(tracefs),
                Err(error) if crate::exhausted(&error).is_some() => {
                    return Err(Unsupported::of(&Error::Read { path: path.clone(), source: error }, ""));
                }
                Err(error) => is_denied |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
        let refused = if root.is_host() { Some(Self::own()) } else { None };
        match refused {
            Some(Ok(tracefs)) => Ok(tracefs),
            _ if is_denied => {
                Err(Unsupported::new("this process may not read tracefs", privilege::remedy(&["CAP_DAC_READ_SEARCH"])))
            }
            Some(Err(unsupported)) => Err(unsupported),
            None if places[0].is_dir() => Err(Unsupported::new("tracefs is not mounted", MOUNT_IT)),
            None => Err(without_tracing()),
        }
    }

    fn mounted(path: &Path) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let folder = File::options().read(true).custom_flags(flags).open(path)?;
        let tracefs = Tracefs { folder: folder.into(), place: TracefsMount::Mounted(path.to_owned()) };
        // An empty folder waits there for a mount, and everybody may open it.
        open_below(tracefs.folder.as_fd(), Path::new("events"), libc::O_DIRECTORY)?;
        Ok(tracefs)
    }

    fn own() -> Result<Self, Unsupported> {
        let detached = match own_mount::detached() {
            Ok(folder) => return Ok(Tracefs { folder, place: TracefsMount::Detached }),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Err(without_tracing()),
            Err(error) => error,
        };
        match own_mount::in_private_namespace() {
            Ok(folder) => Ok(Tracefs { folder, place: TracefsMount::PrivateNamespace }),
            Err(private) => Err(no_own_mount(&detached, &private)),
        }
    }

    /// Where it was found.
    pub fn place(&self) -> &TracefsMount {
        &self.place
    }

    /// The text of a file, such as `events/sched/sched_switch/format`, up to [`Root::READ_LIMIT_BYTES`].
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`], naming the path; a path that leaves the folder is not found.
    pub fn read(&self, relative: impl AsRef<Path>) -> Result<String, Error> {
        let relative = relative.as_ref();
        let path = self.path_for_people(relative);
        match open_below(self.folder.as_fd(), relative, libc::O_NONBLOCK) {
            Ok(file) => read_file(file, &path, Root::READ_LIMIT_BYTES),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Whether the kernel has this event.
    pub fn event_exists(&self, group: &str, name: &str) -> bool {
        event_folder(group, name)
            .is_some_and(|folder| open_below(self.folder.as_fd(), &folder, libc::O_PATH | libc::O_DIRECTORY).is_ok())
    }

    /// The layout of an event's records.
    ///
    /// # Errors
    /// [`Error::Read`] when there is no such event or it is unreadable, [`Error::Malformed`] when it has another
    /// format.
    pub fn event_format(&self, group: &str, name: &str) -> Result<Format, Error> {
        let Some(folder) = event_folder(group, name) else {
            let path = self.path_for_people(&Path::new("events").join(group).join(name));
            return Err(Error::Read { path, source: io::ErrorKind::NotFound.into() });
        };
        let file = folder.join("format");
        Format::parse(&self.read(&file)?).map_err(|error| error.in_file(&self.path_for_people(&file)))
    }

    /// The path as a message names it: without a mount point there is none, and `tracefs` stands in its place.
    fn path_for_people(&self, relative: &Path) -> PathBuf {
        match &self.place {
            TracefsMount::Mounted(path) => path.join(relative),
            TracefsMount::Detached | TracefsMount::PrivateNamespace => Path::new("tracefs").join(relative),
        }
    }
}

impl AsFd for Tracefs {
    /// The folder, opened with `O_PATH`, for `openat`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl From<Tracefs> for OwnedFd {
    fn from(tracefs: Tracefs) -> Self {
        tracefs.folder
    }
}

/// Where tracefs may be mounted, the modern place first.
fn mount_points(root: &Root) -> [PathBuf; 2] {
    [root.sys("kernel/tracing"), root.sys("kernel/debug/tracing")]
}

fn without_tracing() -> Unsupported {
    Unsupported::new("this kernel was built without tracing (CONFIG_TRACING)", "")
}

fn no_own_mount(detached: &io::Error, private: &io::Error) -> Unsupported {
    let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let why = if is_denied(detached) && is_denied(private) {
        "tracefs is not mounted, and this process may not mount it (that needs CAP_SYS_ADMIN)".to_owned()
    } else {
        let [detached, private] = [detached, private].map(said);
        format!("tracefs is not mounted, and cannot be: detached: {detached}; in a private namespace: {private}")
    };
    let remedy = format!("{}; or {MOUNT_IT}", privilege::remedy(&["CAP_SYS_ADMIN"]));
    let exhausted = [detached, private].into_iter().find(|error| crate::exhausted(error).is_some());
    Unsupported::because(exhausted.unwrap_or(private), why, remedy)
}

fn event_folder(group: &str, name: &str) -> Option<PathBuf> {
    let plain = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain(group) && plain(name)).then(|| Path::new("events").join(group).join(name))
}

/// Opens a file for reading by its path below a folder.
fn open_below(folder: BorrowedFd<'_>, relative: &Path, flags: libc::c_int) -> io::Result<File> {
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let name = |path: &OsStr| CString::new(path.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let path = name(relative.as_os_str())?;
    // SAFETY: the path ends with a zero byte and outlives the call, which only reads it.
    let opened = unsafe { libc::openat(folder.as_raw_fd(), path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | flags) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(opened) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn no_path_leaves_the_folder() {
        let tree = HostTree::new().folder("sys/kernel/tracing/events").file("sys/kernel/secret", "x");
        let tracefs = Tracefs::open(&Root::at(tree.path())).unwrap();
        for path in ["../secret", "/proc/version", "events/../../secret", "a\0b"] {
            assert!(matches!(tracefs.read(path).unwrap_err(), Error::Read { .. }), "{path}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_tried_and_what_helps() {
        let error = io::Error::from_raw_os_error;
        let denied = no_own_mount(&error(libc::EPERM), &error(libc::EPERM));
        assert_eq!(denied.why, "tracefs is not mounted, and this process may not mount it (that needs CAP_SYS_ADMIN)");
        let other = no_own_mount(&error(libc::ENOSYS), &error(libc::EPERM));
        assert!(other.why.contains("detached: Function not implemented; in a private namespace: Operation"), "{other}");
        assert!(!other.why.contains("os error"), "{other}");
        assert!(other.remedy.contains("; or mount it: mount -t tracefs"), "{}", other.remedy);
    }
}
