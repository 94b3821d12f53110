//! What the raisers' programs leave: records of what was raised, copied stacks, marks of what arrived.

use crate::shared::{self, Field, copied, laid, narrow, same_layout, words};
use std::sync::Arc;
use surefoot_model::CpuId;

/// Frames of a stack that are kept.
pub const STACK_FRAMES: usize = shared::STACK_FRAMES;

/// The most bytes of a user stack that are copied; deeper frames cannot be unwound.
pub const COPY_BYTES: usize = shared::COPY_BYTES;

/// The target of what does not tell its targets.
pub const ANY_CORE: CpuId = CpuId(narrow(shared::NO_CORE));

/// What was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaisedKind {
    /// A function was queued for the core; the key is its call-single data.
    Function,
    /// The core was told to reschedule; the key is the thread that was being woken.
    Reschedule,
    /// A timer was armed on the core; the key is the timer.
    Timer,
    /// Work was queued for a worker of the core; the key is the work item.
    Work,
    /// A kernel thread of the core was woken; the key is its number.
    Wake,
    /// An interrupt was sent that runs a called function; the key is 1 for a TLB shootdown. Only where the calls
    /// themselves cannot be seen ([`crate::CallEvidence::Sent`]).
    Call,
    /// The translations of a process were to be flushed on the other cores that it runs on; the key is the number of
    /// pages. Only where neither calls nor interrupts can be seen ([`crate::CallEvidence::Flushes`]).
    Flush,
    /// A thread was moved to the core by the scheduler; the key is its number, the function what [`moved_from`] reads.
    Move,
    /// A new thread was set running on the core; the key is its number.
    New,
    /// A kernel message was logged on the core, which it may have had to print.
    Message,
}

/// The core from which a thread was moved, and the number of the interrupt's cause in which that was done; 0 outside one.
pub fn moved_from(function: u64) -> (CpuId, usize) {
    (CpuId((function >> shared::FROM_SHIFT) as u32), function as u32 as usize)
}

impl RaisedKind {
    fn from_number(number: u8) -> Option<Self> {
        Some(match usize::from(number) {
            shared::RAISED_FUNCTION => RaisedKind::Function,
            shared::RAISED_RESCHEDULE => RaisedKind::Reschedule,
            shared::RAISED_TIMER => RaisedKind::Timer,
            shared::RAISED_WORK => RaisedKind::Work,
            shared::RAISED_WAKE => RaisedKind::Wake,
            shared::RAISED_CALL => RaisedKind::Call,
            shared::RAISED_FLUSH => RaisedKind::Flush,
            shared::RAISED_MOVE => RaisedKind::Move,
            shared::RAISED_NEW => RaisedKind::New,
            shared::RAISED_MESSAGE => RaisedKind::Message,
            _ => return None,
        })
    }
}

/// What a core met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkKind {
    /// A called function began; key: call-single data (0 for a local call), value: the function.
    Function,
    /// A timer expired; key: the timer, value: its callback.
    Timer,
    /// A softirq was raised here; key: its vector, value: cause number of the context, thread in the upper half.
    Softirq,
    /// The tick was to be stopped; key: 1 if it was, value: what keeps it (bits of `TICK_DEP_MASK_*`).
    Tick,
    /// Another core had translations flushed here; key: pages, value: the process that was running here.
    Flush,
}

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// What.
    pub kind: MarkKind,
    /// As the kind says.
    pub key: u64,
    /// As the kind says.
    pub value: u64,
}

/// A record of something raised on a watched core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// What.
    pub kind: RaisedKind,
    /// As the kind says.
    pub key: u64,
    /// Address of the function, callback or work function; 0 for the others.
    pub function: u64,
    /// The core that it was raised on; [`ANY_CORE`] for a flush, which does not tell.
    pub cpu: CpuId,
    /// The core that raised it.
    pub from: CpuId,
    /// The raising thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: [u8; 16],
    /// The thread that was being woken, for a reschedule.
    pub wakee: [u8; 16],
    /// Number of the system call it was in; `None` for kernel threads and interrupts.
    pub system_call: Option<u32>,
    /// Whether it was raised in an interrupt: the thread is then a bystander.
    pub in_interrupt: bool,
    /// Addresses, innermost first; empty where no stack was taken.
    pub kernel_stack: Vec<u64>,
    /// Addresses, innermost first; empty where no stack was taken.
    pub user_stack: Vec<u64>,
    /// The word on top of the user stack; 0 outside a system call. The C library's wrappers have no frame of their own,
    /// so it is where the wrapper returns to, and a walk along frame pointers misses just that function.
    pub user_top: u64,
    /// The program that the user stack is of: where its stack begins, as field 28 of /proc/PID/stat has it, or a number
    /// that no program has while one takes another's place; 0 without a user stack.
    pub image: u64,
    /// The bytes of the user stack, where they were asked for or frame pointers gave too little.
    pub user_copy: Option<Arc<UserCopy>>,
}

/// The registers of a thread at its entry into the kernel, and the top of its user stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserCopy {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer; `stack` begins there.
    pub sp: u64,
    /// rbp.
    pub bp: u64,
    /// rbx.
    pub bx: u64,
    /// r12 to r15.
    pub r12_to_r15: [u64; 4],
    /// At most [`COPY_BYTES`], from 4 KiB down to the rest of the topmost page where no more could be read.
    pub stack: Vec<u8>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawRaised {
    at_ns: u64,
    key: u64,
    function: u64,
    comm: [u8; 16],
    wakee: [u8; 16],
    pid: u32,
    tgid: u32,
    system_call: i32,
    cpu: u32,
    from: u32,
    kind: u8,
    in_interrupt: u8,
    as_before: u8,
    reserved: u8,
    kernel_frames: u32,
    user_frames: u32,
    user_top: u64,
    known_id: u64,
    image: u64,
    user_stack: [u64; STACK_FRAMES],
    kernel_stack: [u64; STACK_FRAMES],
}

same_layout!(
    RawRaised,
    raised: at_ns, key, function, comm, wakee, pid, tgid, system_call, cpu, from, kind, in_interrupt, as_before, reserved,
    kernel_frames, user_frames, user_top, known_id, image, user_stack, kernel_stack
);

pub(crate) const BARE_BYTES: usize = shared::BARE_RAISED;

const _: () = assert!(
    shared::RAISED_KIND_COUNT == 10 && shared::MARK_KIND_COUNT == 5,
    "kinds of records or marks that are not parsed"
);

/// Words of a kernel stack that are looked at.
#[cfg(test)]
pub(crate) const LAID_WORDS: usize = shared::LAID_WORDS;

/// A record as it was left.
pub(crate) struct Parsed {
    pub(crate) raised: Raised,
    /// Whether its stacks are those of the record before it from the same core.
    pub(crate) as_before: bool,
    /// Number of the remembered kernel stack that it has; 0 for none.
    pub(crate) known_id: u64,
    /// The words in which its kernel stack lies, where it is offered to be remembered.
    pub(crate) laid: Option<Laid>,
}

/// The words of a kernel stack from the probe's context on, and where the programs will look for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Laid {
    pub(crate) tag: u64,
    /// Words up to where the kernel was entered.
    pub(crate) depth: u64,
    /// The topmost of these.
    pub(crate) top: u64,
    pub(crate) words: Vec<u64>,
}

impl Laid {
    pub(crate) const BYTES: usize = laid::BYTES;

    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::BYTES {
            return None;
        }
        let found = laid::words.of(bytes);
        let number = |field: Field| word_of(field.of(found));
        let count = usize::try_from(number(words::count)).ok()?;
        let laid = words::words.of(found).chunks_exact(8).map(word_of).take(count);
        Some(Laid {
            tag: number(words::tag),
            depth: number(words::depth),
            top: number(words::top),
            words: laid.collect(),
        })
    }
}

/// A number of up to eight bytes.
fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl RawRaised {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Parsed> {
        if bytes.len() < BARE_BYTES {
            return None;
        }
        let mut whole = [0u8; size_of::<RawRaised>()];
        let length = bytes.len().min(whole.len());
        whole[..length].copy_from_slice(&bytes[..length]);
        // SAFETY: the array has the size of RawRaised, which is repr(C), made of integers, and read unaligned.
        let raw: RawRaised = unsafe { std::ptr::read_unaligned(whole.as_ptr().cast()) };
        let frames = |stack: &[u64], count: u32| stack[..(count as usize).min(STACK_FRAMES)].to_vec();
        let raised = Raised {
            at_ns: raw.at_ns,
            kind: RaisedKind::from_number(raw.kind)?,
            key: raw.key,
            function: raw.function,
            cpu: CpuId(raw.cpu),
            from: CpuId(raw.from),
            tid: raw.pid,
            pid: raw.tgid,
            comm: raw.comm,
            wakee: raw.wakee,
            system_call: u32::try_from(raw.system_call).ok(),
            in_interrupt: raw.in_interrupt != 0,
            kernel_stack: frames(&raw.kernel_stack, raw.kernel_frames),
            user_stack: frames(&raw.user_stack, raw.user_frames),
            user_top: raw.user_top,
            image: raw.image,
            user_copy: None,
        };
        let laid = Laid::parse(bytes);
        Some(Parsed { raised, as_before: raw.as_before != 0, known_id: raw.known_id, laid })
    }
}

/// A copied stack as the programs leave it (`struct copied`). Records are told apart by their length.
pub(crate) struct RawCopy;

impl RawCopy {
    pub(crate) const BYTES: usize = copied::BYTES;

    /// The time and the core of the record that it belongs to, and the copy.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(u64, CpuId, UserCopy)> {
        if bytes.len() != Self::BYTES {
            return None;
        }
        let number = |field: Field| word_of(field.of(bytes));
        let stack = copied::stack.of(bytes);
        let length = usize::try_from(number(copied::bytes)).map_or(stack.len(), |length| length.min(stack.len()));
        let copy = UserCopy {
            ip: number(copied::ip),
            sp: number(copied::sp),
            bp: number(copied::bp),
            bx: number(copied::bx),
            r12_to_r15: [copied::r12, copied::r13, copied::r14, copied::r15].map(number),
            stack: stack[..length].to_vec(),
        };
        Some((number(copied::at_ns), CpuId(number(copied::from) as u32), copy))
    }
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RawMark {
    pub(crate) at_ns: u64,
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) kind: u64,
}

same_layout!(RawMark, mark: at_ns, key, value, kind);

impl RawMark {
    /// The number of the mark, from 0 on; `None` while it is being written, or before the first.
    pub(crate) fn number(&self) -> Option<u64> {
        (self.kind >> shared::MARK_KIND_BITS).checked_sub(1)
    }

    pub(crate) fn parse(&self) -> Mark {
        let kind = match (self.kind & !(u64::MAX << shared::MARK_KIND_BITS)) as usize {
            shared::MARK_FUNCTION => MarkKind::Function,
            shared::MARK_TIMER => MarkKind::Timer,
            shared::MARK_SOFTIRQ => MarkKind::Softirq,
            shared::MARK_FLUSH => MarkKind::Flush,
            _ => MarkKind::Tick,
        };
        Mark { at_ns: self.at_ns, kind, key: self.key, value: self.value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::raised;

    /// Sets a field of the bytes of a struct.
    fn put(bytes: &mut [u8], field: Field, number: u64) {
        bytes[field.at..field.at + field.bytes].copy_from_slice(&number.to_ne_bytes()[..field.bytes]);
    }

    #[test]
    fn records_are_parsed_with_and_without_stacks_and_nothing_else_is() {
        let mut bytes = vec![0u8; size_of::<RawRaised>()];
        put(&mut bytes, raised::at_ns, 7);
        put(&mut bytes, raised::pid, 11);
        put(&mut bytes, raised::tgid, 10);
        put(&mut bytes, raised::system_call, 11);
        put(&mut bytes, raised::from, 3);
        put(&mut bytes, raised::kind, 1);
        put(&mut bytes, raised::as_before, 1);
        put(&mut bytes, raised::kernel_frames, 2);
        put(&mut bytes, raised::user_frames, 9999);
        put(&mut bytes, raised::known_id, 5);
        put(&mut bytes, raised::image, 0x7FFC_0000);
        let first_frame = Field { bytes: 8, ..raised::kernel_stack };
        put(&mut bytes, first_frame, 0xABC);
        let Parsed { raised: record, as_before, known_id, laid } = RawRaised::parse(&bytes).unwrap();
        assert_eq!((record.at_ns, record.tid, record.pid, record.system_call), (7, 11, 10, Some(11)));
        assert_eq!((record.kind, record.kernel_stack.as_slice()), (RaisedKind::Function, &[0xABC, 0][..]));
        assert_eq!((record.from, record.in_interrupt, as_before), (CpuId(3), false, true));
        assert_eq!((known_id, record.image, laid), (5, 0x7FFC_0000, None));
        assert_eq!(record.user_stack.len(), STACK_FRAMES, "a count beyond the array is cut");
        put(&mut bytes, raised::kernel_frames, 0);
        put(&mut bytes, raised::user_frames, 0);
        let bare = RawRaised::parse(&bytes[..BARE_BYTES]).unwrap().raised;
        assert!(bare.kernel_stack.is_empty() && bare.image == 0);
        assert!(RawRaised::parse(&bytes[..BARE_BYTES - 1]).is_none());
        put(&mut bytes, raised::kind, 99);
        assert!(RawRaised::parse(&bytes).is_none(), "a kind that nobody knows");
    }

    #[test]
    fn the_words_of_a_kernel_stack_are_parsed_and_their_count_is_not_believed_beyond_them() {
        let mut bytes = vec![0u8; Laid::BYTES];
        put(&mut bytes, raised::kind, 1);
        let tag = laid::words.at + words::tag.at;
        for (word, value) in [7u64, 3, 40, 50, 10, 11, 12, 13].into_iter().enumerate() {
            bytes[tag + 8 * word..tag + 8 * word + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let laid = RawRaised::parse(&bytes).unwrap().laid.unwrap();
        assert_eq!(laid, Laid { tag: 7, depth: 40, top: 50, words: vec![10, 11, 12] });
        bytes[tag + 8..tag + 16].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(RawRaised::parse(&bytes).unwrap().laid.unwrap().words.len(), LAID_WORDS);
        assert!(RawRaised::parse(&bytes[1..]).is_none_or(|parsed| parsed.laid.is_none()));
    }

    #[test]
    fn a_copied_stack_is_parsed_and_its_count_is_not_believed_beyond_the_bytes() {
        let mut bytes = vec![7u8; RawCopy::BYTES];
        for (word, eight) in bytes[..80].chunks_exact_mut(8).enumerate() {
            eight.copy_from_slice(&(word as u64).to_ne_bytes());
        }
        bytes[8..12].copy_from_slice(&2u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&16u32.to_ne_bytes());
        let (at_ns, from, copy) = RawCopy::parse(&bytes).unwrap();
        assert_eq!((at_ns, from, copy.ip, copy.sp, copy.bp, copy.bx), (0, CpuId(2), 2, 3, 4, 5));
        assert_eq!((copy.r12_to_r15, copy.stack), ([6, 7, 8, 9], vec![7u8; 16]));
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(RawCopy::parse(&bytes).unwrap().2.stack.len(), COPY_BYTES);
        assert!(RawCopy::parse(&bytes[1..]).is_none());
    }
}
