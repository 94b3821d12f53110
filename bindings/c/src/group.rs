//! The ranks of a job, as functions of the program or of the MPI header.

use crate::checkpoint::text_at;
use crate::status::{Failure, SurefootStatus, border};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use surefoot_checkpoint::{Alone, Error, Group};

/// The most bytes that all ranks together tell each other in one go, which they do when they open and restart: some
/// hundred bytes for each; content never goes this way.
const TOLD_BYTES_MAX: u64 = 1 << 30;

/// How the ranks of a job talk. surefoot_checkpoint_mpi.h fills it in for MPI; other layers fill it in themselves.
///
/// The functions return 0, or any other number when a rank does not take part; surefoot_group_failed before that tells
/// the cause, which then stands in the error of the call. They are called only from within calls
/// with a handle that was opened with this group, in the thread of that call, and in the same order on all ranks. They
/// must not jump out of the call. How long they wait for a rank that makes no call is theirs to decide. Only post is also
/// called by surefoot_checkpoint_close.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootGroup {
    /// Passed to each function; the library does not look at it.
    pub context: *mut c_void,
    /// This rank, from 0.
    pub rank: u32,
    /// How many ranks there are. With 1 the functions are not called and may be NULL.
    pub size: u32,
    /// Gives the root's bytes to every rank; all pass the same length.
    pub broadcast:
        Option<unsafe extern "C" fn(context: *mut c_void, data: *mut c_void, bytes: usize, root: u32) -> c_int>,
    /// Gives every rank what each passes, one after the other in the order of the ranks; all pass the same length.
    pub all_gather: Option<
        unsafe extern "C" fn(context: *mut c_void, own: *const c_void, all: *mut c_void, bytes_each: usize) -> c_int,
    >,
    /// Sends to one rank while it receives from another; every rank sends once and receives once. A length of 0 needs no
    /// message: a rank with nothing to say and to hear is given its own number.
    pub exchange: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            to: u32,
            send: *const c_void,
            send_bytes: usize,
            from: u32,
            receive: *mut c_void,
            receive_bytes: usize,
        ) -> c_int,
    >,
    /// Sends to one rank without waiting for it: that rank takes the bytes with the exchange in which it next receives from this
    /// one. The data may be gone when the function returns. NULL where the functions work in step only: then a rank that
    /// closes its handle early leaves those waiting that make another call.
    pub post: Option<unsafe extern "C" fn(context: *mut c_void, to: u32, data: *const c_void, bytes: usize) -> c_int>,
}

/// A group whose functions are all there.
struct Foreign {
    group: SurefootGroup,
    broadcast: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, u32) -> c_int,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize) -> c_int,
    exchange: unsafe extern "C" fn(*mut c_void, u32, *const c_void, usize, u32, *mut c_void, usize) -> c_int,
}

// SAFETY: the context is only passed on, from the one thread that is in a call; who opened the handle promised that the
// functions may be called from whatever thread makes the call.
unsafe impl Send for Foreign {}

/// The group that a program describes; without one, a job of one rank.
pub(crate) fn group(described: Option<SurefootGroup>) -> Result<Box<dyn Group>, Failure> {
    let Some(group) = described else { return Ok(Box::new(Alone)) };
    if group.rank >= group.size {
        return Err(Failure::Argument(format!("the group is of rank {} of {}", group.rank, group.size)));
    }
    if group.size == 1 {
        return Ok(Box::new(Alone));
    }
    match (group.broadcast, group.all_gather, group.exchange) {
        (Some(broadcast), Some(all_gather), Some(exchange)) => {
            Ok(Box::new(Foreign { group, broadcast, all_gather, exchange }))
        }
        _ => Err(Failure::argument("a group of more than one rank needs all three functions")),
    }
}

thread_local! {
    /// Why the group's function that runs in this thread is about to fail.
    static CAUSE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Called by a function of a surefoot_group before it returns anything but 0: why it fails, such as the text of an exception
/// or of MPI_Error_string. The text is copied, and stands in the error of the call that the function was called from.
///
/// # Safety
/// `why` is a text that ends in a NUL, or NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_group_failed(why: *const c_char) -> c_int {
    border(|| {
        // SAFETY: by the caller's promise.
        let why = unsafe { text_at(why, "cause") }?;
        CAUSE.with(|cause| cause.replace(Some(why.to_owned())));
        Ok(SurefootStatus::Ok)
    })
}

/// The result of a function of the group, which returned this number.
fn outcome(of: &str, number: c_int) -> Result<(), Error> {
    // Also that of a function which went on to succeed: it is not the next one's.
    let cause = CAUSE.with(RefCell::take);
    match (number, cause) {
        (0, _) => Ok(()),
        (_, Some(cause)) => Err(Error::Group { why: format!("{of} failed: {cause}") }),
        (_, None) => Err(Error::Group { why: format!("{of} returned {number}") }),
    }
}

impl Foreign {
    /// Equal lengths from every rank.
    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), Error> {
        if own.is_empty() {
            return Ok(());
        }
        if own.len().checked_mul(self.group.size as usize) != Some(all.len()) {
            return Err(Error::Group { why: "all_gather brought another length than this rank's own".into() });
        }
        // SAFETY: both buffers have the lengths that the function is told, and live through the call.
        let number =
            unsafe { (self.all_gather)(self.group.context, own.as_ptr().cast(), all.as_mut_ptr().cast(), own.len()) };
        outcome("all_gather", number)
    }
}

impl Group for Foreign {
    fn rank(&self) -> u32 {
        self.group.rank
    }

    fn size(&self) -> u32 {
        self.group.size
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        // SAFETY: the buffer has the length that the function is told, and lives through the call.
        let number = unsafe { (self.broadcast)(self.group.context, bytes.as_mut_ptr().cast(), bytes.len(), root) };
        outcome("broadcast", number)
    }

    /// Lengths first, then all padded to the longest.
    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let size = self.group.size as usize;
        let mut lengths = vec![0; size * 8];
        self.gather(&(own.len() as u64).to_le_bytes(), &mut lengths)?;
        let length = |eight: &[u8]| eight.iter().rev().fold(0u64, |sofar, &byte| sofar << 8 | u64::from(byte));
        let lengths: Vec<u64> = lengths.chunks_exact(8).map(length).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        // All ranks see the same lengths, so that all of them stop here, or none.
        if longest.checked_mul(size as u64).is_none_or(|sum| sum > TOLD_BYTES_MAX) {
            let why = format!("{longest} bytes of a rank are too many for {size} ranks, or a rank was misunderstood");
            return Err(Error::Group { why });
        }
        let longest = longest as usize;
        let mut padded = own.to_vec();
        // Longer than the longest it is only when a function brought nonsense, which the next step refuses.
        padded.resize(longest.max(own.len()), 0);
        let mut all = vec![0; longest * size];
        self.gather(&padded, &mut all)?;
        let part = |(rank, &length): (usize, &u64)| all[rank * longest..][..length as usize].to_vec();
        Ok(lengths.iter().enumerate().map(part).collect())
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        // SAFETY: both buffers have the lengths that the function is told, and live through the call.
        let number = unsafe {
            (self.exchange)(
                self.group.context,
                to,
                send.as_ptr().cast(),
                send.len(),
                from,
                receive.as_mut_ptr().cast(),
                receive.len(),
            )
        };
        outcome("exchange", number)
    }

    fn post(&self, to: u32, bytes: &[u8]) -> Result<bool, Error> {
        let Some(post) = self.group.post else { return Ok(false) };
        // SAFETY: the data has the length that the function is told, and lives through the call.
        let number = unsafe { post(self.group.context, to, bytes.as_ptr().cast(), bytes.len()) };
        outcome("post", number).map(|()| true)
    }

    fn can_post(&self) -> bool {
        self.group.post.is_some()
    }
}
