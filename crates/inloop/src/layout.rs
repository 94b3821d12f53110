//! The file of a loop, as `bindings/c/surefoot_inloop.h` has it too; what differs from it does not compile.
//!
//! ```text
//! offset  bytes
//!      0      8  magic, in the writer's byte order; written last, so that a file with it is complete
//!      8      4  version of this layout
//!     12      4  capacity: gaps in the ring, a power of two
//!     16      4  process id       as the writer sees them
//!     20      4  thread id
//!     24      8  start of the thread: field 22 of /proc/PID/task/TID/stat, clock ticks since boot
//!     32      8  threshold, ticks of the processor's counter
//!     40     64  name, printable ASCII, filled up with NUL, at least one
//!    104      8  the PID namespace in which these numbers count: inode of /proc/self/ns/pid, 0 if not known
//!    112     16  nothing, 0
//!    128      8  head: gaps written since the loop was opened
//!    136     56  nothing, 0: the head has its cache line for itself
//!    192     16  gap 0: counter before, counter after
//!    208     16  gap 1, and so on; gap number n is at n modulo capacity
//! ```
//!
//! One thread writes. It stores the two readings of gap *n* and then *n* + 1 as the head. A reader that took the head
//! *h* before and the head *H* after copying can use the gaps from *H* − capacity + 1 to *h* − 1; older ones may have
//! been overwritten under its hands.

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;

/// The first eight bytes of a complete file: "SFINLOOP" on a little-endian machine.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SFINLOOP");

/// The version of the layout; a reader takes no other.
pub const VERSION: u32 = 1;

/// The smallest ring, gaps.
pub const CAPACITY_MIN: u32 = 16;

/// The largest ring, gaps: 256 KiB.
pub const CAPACITY_MAX: u32 = 16_384;

/// The ring if nothing else is said, gaps: 64 KiB, four seconds at a thousand gaps a second.
pub const CAPACITY_DEFAULT: u32 = 4_096;

/// The longest name, bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The bytes before the first gap.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// The bytes of a gap.
pub const GAP_BYTES: usize = size_of::<Gap>();

/// What is before the ring.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`] once the file is complete.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// Gaps in the ring; a power of two.
    pub capacity: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When the thread was started, clock ticks since boot.
    pub thread_start: u64,
    /// A turn over this many ticks is a gap.
    pub threshold_ticks: u64,
    /// Printable ASCII, then NUL.
    pub name: [u8; NAME_BYTES_MAX + 1],
    /// The inode of /proc/self/ns/pid, or 0.
    pub pid_namespace: u64,
    /// Zero.
    pub reserved: [u8; 16],
    /// Gaps written since the loop was opened.
    pub head: AtomicU64,
    /// Zero.
    pub head_line: [u8; 56],
}

/// One gap.
#[repr(C)]
#[derive(Debug)]
pub struct Gap {
    /// The last reading before it, ticks.
    pub before: AtomicU64,
    /// The first reading after it, ticks.
    pub after: AtomicU64,
}

/// What a header says, once it was found to be possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Gaps in the ring; a power of two within the limits.
    pub capacity: u32,
    /// The process that it claims.
    pub pid: u32,
    /// The thread that it claims.
    pub tid: u32,
    /// When that thread was started, clock ticks since boot.
    pub thread_start: u64,
    /// A turn over this many ticks is a gap.
    pub threshold_ticks: u64,
    /// 1 to 63 printable ASCII characters.
    pub name: String,
    /// The PID namespace in which process and thread have these numbers; 0 if not known.
    pub pid_namespace: u64,
}

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The magic is not there yet: the file is being made, or is none of ours.
    NotReady,
    /// Made by a newer or older library.
    Version,
    /// A value that no library writes.
    Impossible,
}

/// The bytes of a file with a ring of this many gaps.
pub fn file_bytes(capacity: u32) -> usize {
    HEADER_BYTES + capacity as usize * GAP_BYTES
}

/// Whether a ring may have this many gaps.
pub fn capacity_is_possible(capacity: u32) -> bool {
    capacity.is_power_of_two() && (CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity)
}

/// Whether a loop may have this name.
pub fn name_is_possible(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(|byte| (b' '..=b'~').contains(byte))
}

impl Described {
    /// The header as it is written, without the magic and with an empty ring.
    ///
    /// The name is cut at 63 bytes; [`crate::Loop`] refuses it before.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0u8; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(Header, version), &VERSION.to_ne_bytes());
        put(offset_of!(Header, capacity), &self.capacity.to_ne_bytes());
        put(offset_of!(Header, pid), &self.pid.to_ne_bytes());
        put(offset_of!(Header, tid), &self.tid.to_ne_bytes());
        put(offset_of!(Header, thread_start), &self.thread_start.to_ne_bytes());
        put(offset_of!(Header, threshold_ticks), &self.threshold_ticks.to_ne_bytes());
        put(offset_of!(Header, pid_namespace), &self.pid_namespace.to_ne_bytes());
        let name = self.name.as_bytes();
        put(offset_of!(Header, name), &name[..name.len().min(NAME_BYTES_MAX)]);
        bytes
    }

    /// Reads a header that anybody may have written.
    ///
    /// # Errors
    /// [`Fault`] when a library of this version did not write it.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Fault> {
        let (u32_at, u64_at) = (|at| u32_at(bytes, at), |at| u64_at(bytes, at));
        if u64_at(offset_of!(Header, magic)) != MAGIC {
            return Err(Fault::NotReady);
        }
        if u32_at(offset_of!(Header, version)) != VERSION {
            return Err(Fault::Version);
        }
        let field = &bytes[offset_of!(Header, name)..][..NAME_BYTES_MAX + 1];
        let (name, rest) = field.split_at(field.iter().position(|&byte| byte == 0).unwrap_or(field.len()));
        let described = Described {
            capacity: u32_at(offset_of!(Header, capacity)),
            pid: u32_at(offset_of!(Header, pid)),
            tid: u32_at(offset_of!(Header, tid)),
            thread_start: u64_at(offset_of!(Header, thread_start)),
            threshold_ticks: u64_at(offset_of!(Header, threshold_ticks)),
            name: String::from_utf8_lossy(name).into_owned(),
            pid_namespace: u64_at(offset_of!(Header, pid_namespace)),
        };
        let possible = capacity_is_possible(described.capacity)
            && (1..=i32::MAX as u32).contains(&described.pid)
            && (1..=i32::MAX as u32).contains(&described.tid)
            && name_is_possible(name)
            && rest.iter().all(|&byte| byte == 0);
        if possible { Ok(described) } else { Err(Fault::Impossible) }
    }
}

/// Four bytes as the writer's number; 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_ne_bytes(found.unwrap_or_default())
}

/// Eight bytes as the writer's number; 0 beyond the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok());
    u64::from_ne_bytes(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(described: &Described) -> [u8; HEADER_BYTES] {
        let mut bytes = described.to_bytes();
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes
    }

    fn any_loop() -> impl Strategy<Value = Described> {
        (4u32..=14, 1..=i32::MAX as u32, 1..=i32::MAX as u32, any::<[u64; 3]>(), "[ -~]{1,63}").prop_map(
            |(power, pid, tid, [thread_start, threshold_ticks, pid_namespace], name)| Described {
                capacity: 1 << power,
                pid,
                tid,
                thread_start,
                threshold_ticks,
                name,
                pid_namespace,
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(described in any_loop()) {
            prop_assert_eq!(Described::from_bytes(&described.to_bytes()), Err(Fault::NotReady));
            prop_assert_eq!(Described::from_bytes(&complete(&described)), Ok(described));
        }

        #[test]
        fn whatever_is_accepted_keeps_the_limits(
            described in any_loop(),
            at in 8usize..HEADER_BYTES,
            damage in proptest::collection::vec(any::<u8>(), 1..24),
        ) {
            let mut bytes = complete(&described);
            for (byte, damage) in bytes[at..].iter_mut().zip(damage) {
                *byte = damage;
            }
            if let Ok(read) = Described::from_bytes(&bytes) {
                prop_assert!(capacity_is_possible(read.capacity) && name_is_possible(read.name.as_bytes()));
                prop_assert!(read.pid > 0 && read.tid > 0);
            }
        }
    }

    #[test]
    fn impossible_headers_are_told_from_foreign_ones() {
        let good = Described {
            capacity: 64,
            pid: 1,
            tid: 1,
            thread_start: 5,
            threshold_ticks: 7,
            name: "a name".into(),
            pid_namespace: 0,
        };
        let with = |at: usize, value: &[u8]| {
            let mut bytes = complete(&good);
            bytes[at..at + value.len()].copy_from_slice(value);
            Described::from_bytes(&bytes)
        };
        assert_eq!(with(offset_of!(Header, version), &2u32.to_ne_bytes()), Err(Fault::Version));
        for capacity in [0u32, 8, 65, CAPACITY_MAX * 2, u32::MAX] {
            assert_eq!(with(offset_of!(Header, capacity), &capacity.to_ne_bytes()), Err(Fault::Impossible));
        }
        assert_eq!(with(offset_of!(Header, pid), &[0; 4]), Err(Fault::Impossible));
        assert_eq!(with(offset_of!(Header, tid), &u32::MAX.to_ne_bytes()), Err(Fault::Impossible));
        assert_eq!(with(offset_of!(Header, name), b"\0"), Err(Fault::Impossible));
        assert_eq!(with(offset_of!(Header, name), b"\x1b[2J\0"), Err(Fault::Impossible));
        assert_eq!(with(offset_of!(Header, name), &[b'x'; 64]), Err(Fault::Impossible));
        assert_eq!(with(offset_of!(Header, name), b"a\0b"), Err(Fault::Impossible));
    }
}
