//! What belongs to a file beside its bytes: owner, mode, access list, times. All of it by descriptor.

use super::place::Part;
use std::ffi::CStr;
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, UNIX_EPOCH};

/// The extended attribute in which Linux keeps a POSIX access list, and the longest that there can be.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// What tells that a file is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    number: u64,
    pub(super) bytes: u64,
    pub(super) modified_ns: i64,
    changed_ns: i64,
    mode: u32,
    pub(super) owner: (u32, u32),
}

impl Stamp {
    pub(super) fn of(found: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Stamp {
            device: found.dev(),
            number: found.ino(),
            bytes: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
            mode: found.mode() & 0o7777,
            owner: (found.uid(), found.gid()),
        }
    }

    /// Whether both are one file, whatever became of it.
    pub(super) fn is_same_file(&self, other: &Stamp) -> bool {
        (self.device, self.number) == (other.device, other.number)
    }
}

/// Gives a new file the owner and mode of the old one, without set-id bits: those are for the owner to give again. A
/// mode means something only together with the owner, the group and the access list that it is about, so that a file
/// which cannot have all of them is private to whoever wrote it.
pub(super) fn dress(new: &File, old: &File, stamp: &Stamp, part: Part) -> io::Result<()> {
    let (owner, group) = stamp.owner;
    let list = access_list(old);
    let is_same = std::os::unix::fs::fchown(new, Some(owner), Some(group)).is_ok() && set_access_list(new, &list);
    let mode = match part {
        Part::File => stamp.mode & 0o777,
        // Whoever may read the file may read its parity, which tells no more, and nobody else.
        Part::Sidecar => stamp.mode & 0o666 | 0o600,
    };
    new.set_permissions(Permissions::from_mode(if is_same { mode } else { mode & 0o700 }))
}

pub(super) fn set_modified(new: &File, modified_realtime_ns: i64) -> io::Result<()> {
    let nanoseconds = Duration::from_nanos(modified_realtime_ns.unsigned_abs());
    let modified = match modified_realtime_ns >= 0 {
        true => UNIX_EPOCH.checked_add(nanoseconds),
        false => UNIX_EPOCH.checked_sub(nanoseconds),
    };
    let modified = modified.ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    new.set_times(FileTimes::new().set_modified(modified))
}

/// The file's access list as the kernel has it; empty where there is none. `None` where it cannot be read.
fn access_list(file: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; ATTRIBUTE_BYTES_MAX];
    // SAFETY: the name ends in a zero, and the kernel writes at most as many bytes as the buffer has.
    let length =
        unsafe { libc::fgetxattr(file.as_raw_fd(), ACCESS_LIST.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    (length >= 0 || is_without_list()).then_some(bytes)
}

/// Whether it has this list now, and none that its directory gave it.
fn set_access_list(file: &File, list: &Option<Vec<u8>>) -> bool {
    let Some(list) = list else { return false };
    let (descriptor, name) = (file.as_raw_fd(), ACCESS_LIST.as_ptr());
    match list.is_empty() {
        // SAFETY: the name ends in a zero.
        true => unsafe { libc::fremovexattr(descriptor, name) == 0 || is_without_list() },
        // SAFETY: the name ends in a zero, and the kernel reads as many bytes as the list has.
        false => unsafe { libc::fsetxattr(descriptor, name, list.as_ptr().cast(), list.len(), 0) == 0 },
    }
}

/// Whether the last call failed because there is no list, or the file system has none.
fn is_without_list() -> bool {
    matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}
