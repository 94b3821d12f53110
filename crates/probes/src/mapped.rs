//! An eBPF array mapped into this process: reading it costs no system call and sends nothing to any core.

use crate::error::Error;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// An array of `T` shared with eBPF programs.
///
/// # Invariants
/// `T` is `repr(C)`, consists of integers only (every bit pattern is a value) and is a multiple of 8 bytes long.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    base: NonNull<T>,
    entries: usize,
    bytes: usize,
    _values: PhantomData<T>,
}

// SAFETY: the memory belongs to the mapping, not to a thread, and is only touched through volatile word accesses.
unsafe impl<T> Send for Mapped<T> {}
// SAFETY: as above; concurrent readers do not write, and user space writes by `store`, before attach, and by
// `publish`, whose readers are eBPF programs.
unsafe impl<T> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    pub(crate) fn new(name: &str, fd: BorrowedFd<'_>, value_bytes: usize, entries: usize) -> Result<Self, Error> {
        if value_bytes != size_of::<T>() || !value_bytes.is_multiple_of(8) {
            return Err(Error::Layout { map: name.into(), found_bytes: value_bytes, wanted_bytes: size_of::<T>() });
        }
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let bytes = (value_bytes * entries).next_multiple_of(page_bytes);
        // SAFETY: a fresh shared mapping of a file descriptor that is open; the kernel chooses the address.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::Map { map: name.into(), source: std::io::Error::last_os_error() });
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| Error::Map {
            map: name.into(),
            source: std::io::Error::other("the kernel mapped it at address 0"),
        })?;
        Ok(Mapped { base, entries, bytes, _values: PhantomData })
    }

    /// Bytes of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn at(&self, index: usize) -> *mut T {
        assert!(index < self.entries, "entry {index} of an eBPF array of {}", self.entries);
        // SAFETY: the index is within the mapping, as just asserted.
        unsafe { self.base.as_ptr().add(index) }
    }

    /// Copies an entry word by word while another core may be writing it: each word is whole, the entry may be torn.
    pub(crate) fn load(&self, index: usize, into: &mut T) {
        let from = self.at(index).cast::<u64>();
        let to = std::ptr::from_mut(into).cast::<u64>();
        for word in 0..size_of::<T>() / 8 {
            // SAFETY: both point at size_of::<T>() bytes that are aligned to 8 (page-aligned mapping, repr(C) with u64).
            unsafe { to.add(word).write(from.add(word).read_volatile()) };
        }
    }

    /// Writes an entry; for use before the programs run.
    pub(crate) fn store(&self, index: usize, value: &T) {
        // SAFETY: the entry lies within the mapping, and no program is attached yet.
        unsafe { std::ptr::copy_nonoverlapping(value, self.at(index), 1) };
    }

    /// Writes an entry that programs may be reading: its first word is 0 while the others are written, and last. A reader
    /// that finds the same first word before and after has read one entry and no mixture, if no two have the same.
    pub(crate) fn publish(&self, index: usize, value: &T) {
        let from = std::ptr::from_ref(value).cast::<u64>();
        let to = self.at(index).cast::<u64>();
        // SAFETY: both point at size_of::<T>() bytes that are aligned to 8 (page-aligned mapping, repr(C) with u64).
        unsafe {
            to.write_volatile(0);
            fence(Ordering::SeqCst);
            for word in 1..size_of::<T>() / 8 {
                to.add(word).write_volatile(from.add(word).read());
            }
            fence(Ordering::SeqCst);
            to.write_volatile(from.read());
        }
    }

    /// Writes one 64-bit word of an entry that programs may be reading.
    pub(crate) fn set_word(&self, index: usize, offset_bytes: usize, value: u64) {
        assert!(offset_bytes + 8 <= size_of::<T>() && offset_bytes.is_multiple_of(8), "a word lies within the entry");
        // SAFETY: the word lies within the entry and is aligned, as just asserted; programs read it whole.
        unsafe { self.at(index).cast::<u8>().add(offset_bytes).cast::<u64>().write_volatile(value) }
    }

    /// Overwrites half a word of an entry that programs write, to see what they make of it.
    #[cfg(test)]
    pub(crate) fn disturb(&self, index: usize, offset_bytes: usize, value: u32) {
        assert!(offset_bytes + 4 <= size_of::<T>() && offset_bytes.is_multiple_of(4), "it lies within the entry");
        // SAFETY: it lies within the entry and is aligned, as just asserted.
        unsafe { self.at(index).cast::<u8>().add(offset_bytes).cast::<u32>().write_volatile(value) }
    }

    /// Reads one 64-bit word of an entry by its byte offset.
    pub(crate) fn word(&self, index: usize, offset_bytes: usize) -> u64 {
        assert!(offset_bytes + 8 <= size_of::<T>() && offset_bytes.is_multiple_of(8), "a word lies within the entry");
        // SAFETY: the word lies within the entry and is aligned, as just asserted.
        unsafe { self.at(index).cast::<u8>().add(offset_bytes).cast::<u64>().read_volatile() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing borrows from it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
