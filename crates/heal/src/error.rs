//! What can go wrong with bytes and their files, each with its file or option.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("cannot {action} {}: {}", path.display(), said(source))]
    Storage {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A setting cannot be used.
    #[error("{option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Why, and what would do.
        why: String,
    },
    /// A file that is there is not what it should be.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is not enough room.
    #[error("{}: {needed_bytes} bytes are needed, {available_bytes} are free: make room there, or name another directory", path.display())]
    NoRoom {
        /// Where.
        path: PathBuf,
        /// What is needed.
        needed_bytes: u64,
        /// What is there.
        available_bytes: u64,
    },
}

impl Error {
    /// A storage error of this action on this path; for `map_err`.
    pub fn storage(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Storage { action, path, source }
    }
}

/// What the system said, without its number, and what helps where that is known.
pub fn said(error: &io::Error) -> String {
    let text = surefoot_foreign::said(error);
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; give this user the right to it, or name another directory",
        Some(libc::EIO) => "; the device failed: the kernel's log says more",
        Some(libc::ENOSPC) => "; make room there, or name another directory",
        Some(libc::EDQUOT) => "; the quota is used up: make room there, or name another directory",
        Some(libc::EROFS) => "; mount it for writing, or name another directory",
        Some(libc::ESTALE | libc::ENOTCONN) => "; mount it again",
        Some(libc::EAGAIN) => "; try again later",
        _ => "",
    };
    format!("{text}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_in_words_and_names_a_remedy() {
        for (number, remedy) in [(libc::EIO, "kernel's log"), (libc::ENOSPC, "make room"), (libc::EACCES, "the right")]
        {
            let error = Error::storage("write", Path::new("/ssd/job/x"))(io::Error::from_raw_os_error(number));
            let text = error.to_string();
            assert!(text.contains("/ssd/job/x") && text.contains(remedy) && !text.contains("os error"), "{text}");
        }
        let own = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
        let text = Error::storage("use", Path::new("/x"))(own).to_string();
        assert_eq!(text, "cannot use /x: it belongs to another user");
    }
}
