//! The mapped file of a loop, as its writer sees it.

use crate::layout::{GAP_BYTES, Gap, HEADER_BYTES, Header};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest page of any processor that Linux runs on.
const PAGE_BYTES: usize = 4096;

/// A shared mapping of a whole file. Other processes may have the file too, so it is only touched by atomics.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// Capacity minus 1.
    mask: u64,
}

impl Mapping {
    /// Maps a file of exactly the size of a ring of this capacity, writes to each of its pages and tries to lock them.
    pub(crate) fn new(file: &File, capacity: u32) -> io::Result<Self> {
        let bytes = crate::layout::file_bytes(capacity);
        // SAFETY: a new mapping at an address that the kernel chooses; the descriptor is open as long as `file`.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start.cast::<u8>()) else { return Err(io::ErrorKind::AddrInUse.into()) };
        let mapping = Mapping { start, bytes, mask: u64::from(capacity) - 1 };
        // SAFETY: the range is the mapping just made. Where the limit on locked memory is lower the ring works as
        // well; then it may be swapped out, like the rest of that process.
        unsafe { libc::mlock(start.as_ptr().cast(), bytes) };
        for number in (0..u64::from(capacity)).step_by(PAGE_BYTES / GAP_BYTES / 2) {
            mapping.gap(number).before.store(0, Ordering::Relaxed);
        }
        mapping.head().store(0, Ordering::Relaxed);
        Ok(mapping)
    }

    pub(crate) fn magic(&self) -> &AtomicU64 {
        self.number_at(offset_of!(Header, magic))
    }

    pub(crate) fn head(&self) -> &AtomicU64 {
        self.number_at(offset_of!(Header, head))
    }

    fn number_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie inside the header, which is inside the mapping, and are aligned to 8 bytes.
        unsafe { self.start.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// The place of a gap.
    pub(crate) fn gap(&self, number: u64) -> &Gap {
        let offset = HEADER_BYTES + (number & self.mask) as usize * GAP_BYTES;
        // SAFETY: the masked number is below the capacity for which the file was made, and the header's size keeps
        // gaps aligned to their 8 bytes.
        unsafe { self.start.add(offset).cast::<Gap>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `new`, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
