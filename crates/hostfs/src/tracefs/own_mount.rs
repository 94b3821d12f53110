//! Mounts of tracefs that nobody but this process sees.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};

// include/uapi/linux/mount.h; not every C library that Rust supports has them.
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const NO_SETUID_DEVICES_OR_PROGRAMS: libc::c_uint = 2 | 4 | 8;

/// Folders to mount over in the private namespace. Nobody else sees it, so any folder will do.
const COVERED: [&CStr; 2] = [c"/sys/kernel/tracing", c"/tmp"];

/// Mounts tracefs nowhere: the mount is known by its descriptor alone and ends with it (Linux 5.2).
pub(super) fn detached() -> io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero byte and is only read.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) })?;
    let no_key = null::<libc::c_char>();
    // SAFETY: this command takes no key and no value, so no pointer is followed.
    succeeded(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, no_key, no_key, 0)
    })?;
    // SAFETY: takes no pointer.
    descriptor(unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, NO_SETUID_DEVICES_OR_PROGRAMS)
    })
}

/// Mounts tracefs in a mount namespace of a thread that ends at once. The descriptor keeps the mount, so no folder has
/// to be made or taken away, and no other thread's view changes.
pub(super) fn in_private_namespace() -> io::Result<OwnedFd> {
    let thread = std::thread::Builder::new().name("tracefs".into()).spawn(mount_privately)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that mounts panicked")))
}

fn mount_privately() -> io::Result<OwnedFd> {
    unshare()?;
    // Without this what is mounted here would appear in the namespace that ours was copied from.
    propagate(libc::MS_PRIVATE)?;
    let mut result = Err(io::ErrorKind::NotFound.into());
    for folder in COVERED {
        result = mount_over(folder);
        if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    result
}

/// Gives the calling thread, and no other, a mount namespace of its own.
fn unshare() -> io::Result<()> {
    // SAFETY: takes no pointer; memory and descriptors stay shared with the other threads.
    succeeded(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())
}

/// Says of all mounts who sees what is mounted below them.
fn propagate(how: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the path ends with a zero byte; this call reads no other pointer.
    succeeded(unsafe { libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | how, null()) }.into())
}

fn mount_over(folder: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (kind, no_options) = (c"tracefs".as_ptr(), null_mut::<libc::c_void>());
    // SAFETY: the three texts end with a zero byte and are only read; there are no options.
    let mounted = succeeded(unsafe { libc::mount(c"nodev".as_ptr(), folder.as_ptr(), kind, flags, no_options) }.into());
    // Busy is a folder that has one on it already.
    mounted.or_else(|error| if error.raw_os_error() == Some(libc::EBUSY) { Ok(()) } else { Err(error) })?;
    // SAFETY: the path ends with a zero byte and is only read.
    descriptor(unsafe { libc::open(folder.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) }.into())
}

fn succeeded(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    succeeded(result)?;
    // SAFETY: the call that succeeded has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;
    use surefoot_testkit::not_run::not_run;

    fn mounts() -> String {
        fs::read_to_string("/proc/thread-self/mounts").unwrap()
    }

    /// Opens it, reads from it, and sees that the mounts of this thread are as they were.
    fn is_read_and_seen_by_nobody(test: &str, open: fn() -> io::Result<OwnedFd>) {
        let before = mounts();
        let folder = match open() {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return not_run(test, &format!("mounting needs root: {error}"));
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOSYS)) => {
                return not_run(test, &format!("this kernel cannot: {error}"));
            }
            Err(error) => panic!("{error}"),
        };
        let format = |name: &str| {
            let path = Path::new("events/sched").join(name).join("format");
            super::super::open_below(folder.as_fd(), &path, 0).and_then(io::read_to_string)
        };
        assert!(format("sched_switch").unwrap().contains("field:pid_t next_pid"));
        assert_eq!(format("sched_nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(mounts(), before);
    }

    #[test]
    fn a_detached_mount_is_read_and_seen_by_nobody() {
        is_read_and_seen_by_nobody("tracefs::a_detached_mount_is_read_and_seen_by_nobody", detached);
    }

    #[test]
    fn a_mount_in_a_private_namespace_is_read_and_seen_by_nobody() {
        let test = "tracefs::a_mount_in_a_private_namespace_is_read_and_seen_by_nobody";
        let thread = std::thread::spawn(move || {
            // What is mounted in a copy of a shared tree appears in the tree, too: as on a machine that systemd started.
            if let Err(error) =
                unshare().and_then(|()| propagate(libc::MS_PRIVATE)).and_then(|()| propagate(libc::MS_SHARED))
            {
                return not_run(test, &format!("a mount namespace needs root: {error}"));
            }
            is_read_and_seen_by_nobody(test, in_private_namespace);
        });
        thread.join().unwrap();
    }
}
