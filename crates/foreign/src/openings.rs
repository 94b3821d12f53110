//! For tests, here and in the crates above: whether anybody opens a file.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Watches whether a file is opened; holding it with `O_PATH` is no opening.
pub(crate) struct Openings(OwnedFd);

impl Openings {
    pub(crate) fn of(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends in a zero; the descriptor is new and nobody else has it.
        let (watch, added) = unsafe {
            let watch = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
            (OwnedFd::from_raw_fd(watch), libc::inotify_add_watch(watch, name.as_ptr(), libc::IN_OPEN))
        };
        assert!(added >= 0 && watch.as_raw_fd() >= 0, "{}", io::Error::last_os_error());
        Openings(watch)
    }

    pub(crate) fn any(&self) -> bool {
        let mut events = [0u8; 4096];
        // SAFETY: the buffer is as long as is said.
        unsafe { libc::read(self.0.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) > 0 }
    }
}
