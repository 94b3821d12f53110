//! The host's memory of one interface: shared between the application, the daemon and the interface.
//!
//! All of it is read and written as atomic words, so that whoever shares it may do so at any time; what a reader may
//! believe is decided by the words that are written last with release order (an event's number, a mailbox's count).

use super::layout::*;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Marks the first word of such a memory, with the version of its layout.
const MAGIC: u32 = 0x5346_0002;

/// The largest arena, bytes.
pub const ARENA_BYTES_MAX: u32 = 128 << 20;

/// A mapping of the memory.
pub struct HostMemory {
    at: *mut u8,
    bytes: usize,
    /// Wakes the interface where it sleeps.
    pub(super) bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HostMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// SAFETY: the mapping lives as long as the value, and its bytes are only touched through atomics.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Memory of this process and its children, with an arena of so many bytes for all ports.
    ///
    /// # Errors
    /// When the system has no memory, or the arena is larger than [`ARENA_BYTES_MAX`].
    pub fn private(node: u32, arena_bytes: u32) -> io::Result<Self> {
        let memory = Self::map(None, length(arena_bytes)?)?;
        memory.begin(node);
        Ok(memory)
    }

    /// Memory in a file that other processes map as well. The file is made as long as it has to be.
    ///
    /// # Errors
    /// As [`HostMemory::private`], and when the file cannot grow.
    pub fn create(file: &File, node: u32, arena_bytes: u32) -> io::Result<Self> {
        let bytes = length(arena_bytes)?;
        // Every block of it is there from now on: a file system that is full later would kill whoever touches a page.
        // SAFETY: takes numbers alone.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let memory = Self::map(Some(file), bytes)?;
        memory.begin(node);
        Ok(memory)
    }

    /// Maps what another process created.
    ///
    /// # Errors
    /// When the file is too short or too long, or is something else.
    pub fn open(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let least = u64::from(HOST_ARENAS - HOST_BASE);
        if !(least..=least + u64::from(ARENA_BYTES_MAX)).contains(&bytes) {
            return Err(wrong(format!("{bytes} bytes cannot be the memory of an interface")));
        }
        let memory = Self::map(Some(file), bytes as usize)?;
        match memory.word(control::MAGIC).load(Ordering::Acquire) {
            MAGIC => Ok(memory),
            found => Err(wrong(format!(
                "it begins with {found:#010x}, not with {MAGIC:#010x}: it is another file, or of another version"
            ))),
        }
    }

    fn map(file: Option<&File>, bytes: usize) -> io::Result<Self> {
        let flags = if file.is_some() { libc::MAP_SHARED } else { libc::MAP_SHARED | libc::MAP_ANONYMOUS };
        let descriptor = file.map_or(-1, AsRawFd::as_raw_fd);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(HostMemory { at: at.cast(), bytes, bell: OnceLock::new() })
    }

    fn begin(&self, node: u32) {
        self.word(control::NODE).store(node, Ordering::Relaxed);
        self.word(control::EPOCH).store(1, Ordering::Relaxed);
        self.word(control::MAGIC).store(MAGIC, Ordering::Release);
    }

    /// Its length, bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: an interface always has some.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Pages of the arenas.
    pub fn arena_pages(&self) -> u32 {
        (self.bytes as u32 - (HOST_ARENAS - HOST_BASE)) / PAGE_BYTES
    }

    /// A word, by its offset, which is a multiple of four inside of the memory.
    pub fn word(&self, offset: u32) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && (offset as usize) + 4 <= self.bytes, "no word of the memory");
        // SAFETY: inside of the mapping and aligned, as just checked; all accesses are atomic.
        unsafe { AtomicU32::from_ptr(self.at.add(offset as usize).cast()) }
    }

    /// Reads bytes; `false` when they are not all inside.
    pub fn read(&self, offset: u32, into: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, into.len()) else { return false };
        let mut at = 0;
        while at < into.len() {
            // SAFETY: `range` has checked that all of it is inside of the mapping.
            let place = unsafe { from.add(at) };
            if (place as usize).is_multiple_of(8) && into.len() - at >= 8 {
                // SAFETY: inside and aligned.
                let word = unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Relaxed);
                into[at..at + 8].copy_from_slice(&word.to_ne_bytes());
                at += 8;
            } else {
                // SAFETY: inside.
                into[at] = unsafe { AtomicU8::from_ptr(place) }.load(Ordering::Relaxed);
                at += 1;
            }
        }
        std::sync::atomic::fence(Ordering::Acquire);
        true
    }

    /// Writes bytes, in the order of their addresses; the last word is seen last. `false` when they are not all inside:
    /// then none is written.
    pub fn write(&self, offset: u32, bytes: &[u8]) -> bool {
        let Some(to) = self.range(offset, bytes.len()) else { return false };
        let mut at = 0;
        while at < bytes.len() {
            // SAFETY: `range` has checked that all of it is inside of the mapping.
            let place = unsafe { to.add(at) };
            let is_last = bytes.len() - at <= 8;
            let order = if is_last { Ordering::Release } else { Ordering::Relaxed };
            if (place as usize).is_multiple_of(8) && bytes.len() - at >= 8 {
                let word = u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
                // SAFETY: inside and aligned.
                unsafe { AtomicU64::from_ptr(place.cast()) }.store(word, order);
                at += 8;
            } else {
                // SAFETY: inside.
                unsafe { AtomicU8::from_ptr(place) }.store(bytes[at], order);
                at += 1;
            }
        }
        true
    }

    fn range(&self, offset: u32, length: usize) -> Option<*mut u8> {
        let end = (offset as usize).checked_add(length)?;
        // SAFETY: the offset is inside of the mapping.
        (end <= self.bytes).then(|| unsafe { self.at.add(offset as usize) })
    }

    /// Makes all of it what a copy of it says.
    pub(crate) fn restore(&self, copy: &[u8]) {
        self.each_word_of(copy, |ours, theirs| {
            if ours.load(Ordering::Relaxed) != theirs {
                ours.store(theirs, Ordering::Relaxed);
            }
            true
        });
    }

    /// Whether all of it is what a copy of it says.
    pub(crate) fn equals(&self, copy: &[u8]) -> bool {
        self.each_word_of(copy, |ours, theirs| ours.load(Ordering::Relaxed) == theirs)
    }

    /// Goes through the memory and a copy of it, as long as `go_on` says so; whether it always did. The length of the
    /// memory is a multiple of a page.
    fn each_word_of(&self, copy: &[u8], mut go_on: impl FnMut(&AtomicU64, u64) -> bool) -> bool {
        assert_eq!(copy.len(), self.bytes, "a copy of another memory");
        let (words, _) = copy.as_chunks::<8>();
        (0..).zip(words).all(|(place, word): (usize, _)| {
            // SAFETY: the copy is as long as the mapping, which begins at a page and so is aligned.
            let ours = unsafe { AtomicU64::from_ptr(self.at.add(place * 8).cast()) };
            go_on(ours, u64::from_ne_bytes(*word))
        })
    }

    /// All of it, for a snapshot.
    pub fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.read(0, &mut bytes);
        bytes
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

fn length(arena_bytes: u32) -> io::Result<usize> {
    if arena_bytes > ARENA_BYTES_MAX {
        return Err(wrong(format!(
            "{arena_bytes} bytes of memory are more than an interface maps: at most {ARENA_BYTES_MAX}"
        )));
    }
    Ok((HOST_ARENAS - HOST_BASE) as usize + arena_bytes.next_multiple_of(PAGE_BYTES) as usize)
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The offset of a port's block.
pub fn block(port: usize) -> u32 {
    HOST_PORTS - HOST_BASE + port as u32 * HOST_PORT_BYTES
}

/// The offset of one of a port's words.
pub fn port_word(port: usize, word: u32) -> u32 {
    block(port) + PORT_WORDS + word
}
