//! A file of a memory file system, mapped.

use crate::storage::Named;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// `MADV_POPULATE_READ` of Linux 5.14: brings all pages in, and fails where one cannot be read (`madvise(2)`).
const MADV_POPULATE_READ: libc::c_int = 22;

/// A whole file in memory, shared with whoever opens it next. All its pages are there and can be read from the start, so
/// that no access finds the file system full, or a page that the kernel has given up, which would end the program.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// What is known of the pages of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// All of them can be read.
    Whole,
    /// The kernel, before Linux 5.14, cannot say.
    Unknown,
}

// SAFETY: the mapping is plain memory that lives as long as the value; who may write to it when is the slot's matter.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of a file that is that long and whose room is taken.
    ///
    /// # Errors
    /// As `mmap(2)`; with `EHWPOISON` when a page of it is lost.
    pub(super) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        Mapping::with(file, bytes, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn with(file: &File, bytes: usize, protection: libc::c_int) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 || bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than its mapping"));
        }
        let mapping = Mapping::map(file, bytes, protection, 0)?;
        match mapping.check()? {
            Checked::Whole => Ok(mapping),
            Checked::Unknown => {
                drop(mapping);
                Mapping::map(file, bytes, protection, libc::MAP_POPULATE)
            }
        }
    }

    /// Maps `bytes` of a file that may still be shorter. Nobody may look at what was not touched.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub(super) fn untouched(file: &File, bytes: usize) -> io::Result<Self> {
        Mapping::map(file, bytes, libc::PROT_READ | libc::PROT_WRITE, 0)
    }

    fn map(file: &File, bytes: usize, protection: libc::c_int, flags: libc::c_int) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | flags;
        // SAFETY: a new mapping at an address of the kernel's choice; the file is open and long enough.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => Ok(Mapping { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Brings all pages in, and finds out whether each can be read.
    ///
    /// # Errors
    /// With `EHWPOISON` when the kernel has given up a page.
    pub(super) fn check(&self) -> io::Result<Checked> {
        self.touch(0..self.bytes)
    }

    /// As [`Mapping::check`], for a part that begins with a page.
    ///
    /// # Errors
    /// As [`Mapping::check`]; with `EFAULT` beyond the end of the file.
    pub(super) fn touch(&self, part: Range<usize>) -> io::Result<Checked> {
        assert!(part.start <= part.end && part.end <= self.bytes, "a part of the mapping is touched");
        // SAFETY: the range is within the mapping, whose content the advice does not change.
        let touched = unsafe {
            let start = self.start.as_ptr().add(part.start);
            libc::madvise(start.cast(), part.len(), MADV_POPULATE_READ)
        };
        match touched {
            0 => Ok(Checked::Whole),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINVAL) => Ok(Checked::Unknown),
                error => Err(error),
            },
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has that many bytes for as long as it lives, and nobody writes to it while it is shared:
        // writing takes `&mut`. Another process that changes the file can change what is read, not what it means here.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// The content of a file of the user's, mapped to be read: it may be read-only.
pub(crate) struct FileBytes(Mapping);

/// A file that is filled through its mapping.
pub(crate) struct FileRoom(Mapping);

/// Maps a whole regular file; no link is followed. `None` stands for an empty one.
fn map_whole(path: &Path, is_written: bool) -> io::Result<Option<Mapping>> {
    let found = surefoot_foreign::hold_name(&Named::of(path)?)?.regular()?;
    let file = if is_written { found.open_to_write()? } else { found.open()? };
    let metadata = file.metadata()?;
    let protection = if is_written { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    match metadata.len() as usize {
        0 => Ok(None),
        bytes => Mapping::with(&file, bytes, protection).map(Some),
    }
}

impl FileBytes {
    /// Maps what is in a file; `None` stands for nothing.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        Ok(map_whole(path, false)?.map(FileBytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl FileRoom {
    /// Maps a file that is to be filled; `None` stands for one without bytes.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        Ok(map_whole(path, true)?.map(FileRoom))
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with these values, and nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
