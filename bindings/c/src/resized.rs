//! Restarts with another number of ranks than saved.

use crate::checkpoint::{SurefootCheckpoint, SurefootRestored, on_job, put, refused, tell, text_at};
use crate::status::{Failure, SurefootStatus, to_c};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use surefoot_checkpoint::{Piece, Resized};

/// A checkpoint of any number of ranks that is open for reading.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootResized {
    /// Its number.
    pub generation: u64,
    /// When it was taken, CLOCK_REALTIME nanoseconds.
    pub taken_realtime_ns: u64,
    /// How many ranks saved it.
    pub ranks: u32,
    /// How many entries it has: regions and files of all those ranks.
    pub entry_count: usize,
}

/// A region or a file of one of the ranks that saved.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootEntry {
    /// The rank.
    pub rank: u32,
    /// The region's name; of a routed file file: and its name.
    pub name: *const c_char,
    /// Its length.
    pub bytes: usize,
}

/// A piece of an entry, and room for it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SurefootPiece {
    /// The rank that saved it.
    pub rank: u32,
    /// The entry's name.
    pub name: *const c_char,
    /// From where in it.
    pub offset: usize,
    /// How many bytes are wanted.
    pub bytes: usize,
    /// Room for them.
    pub start: *mut c_void,
}

/// What a handle has open.
pub(crate) struct Opened {
    pub(crate) resized: Resized,
    entries: Vec<(u32, CString, u64)>,
}

/// The most pieces of one call.
const PIECES_MAX: usize = 1 << 20;

/// As surefoot_checkpoint_restart, from the newest checkpoint of any number of ranks. Collective.
///
/// Where there were more or fewer, regions are found by their names: the parts that the old ranks saved under a name, in
/// the order of the ranks, are one array of which each rank here gets as much as it registered, if that is all of it;
/// what all of them had, of one length and the same content, everybody gets. A routed file of old rank r goes to rank
/// r mod the number of ranks, and from ranks that are no more as NAME.rank-00007. Anything else is refused by name.
///
/// `left_out` is NULL, or what the names of regions begin with that are not brought back where the numbers differ.
///
/// # Safety
/// `left_out` is NULL or a text that ends in a NUL. `out` is NULL or has room for a surefoot_restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_restart_resized(
    handle: *mut SurefootCheckpoint,
    left_out: *const c_char,
    out: *mut SurefootRestored,
) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        let restored = match left_out.is_null() {
            true => job.checkpointer.restart_resized()?,
            false => {
                // SAFETY: it is a text that ends in a NUL, by the caller's promise.
                let beginning = unsafe { text_at(left_out, "beginning of names") }
                    .map_err(|failure| refused(job, "restart_resized", failure))?;
                job.checkpointer.restart_resized_without(beginning)?
            }
        };
        // SAFETY: by the caller's promise.
        Ok(unsafe { tell(job, restored, out) })
    })
}

/// Opens the newest checkpoint of any number of ranks whose parts all prove intact, for a program that reads them itself.
/// Collective. It stays open until the next call of this or surefoot_checkpoint_close. Regions and files are left alone.
///
/// Returns SUREFOOT_STATUS_NOTHING on all ranks when there is none at all. surefoot_checkpoint_report says what this rank
/// met.
///
/// # Safety
/// `out` is NULL or has room for a surefoot_resized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_open_resized(
    handle: *mut SurefootCheckpoint,
    out: *mut SurefootResized,
) -> c_int {
    on_job(handle, |job| {
        job.report = CString::default();
        job.resized = None;
        let Some(resized) = job.checkpointer.open_resized()? else { return Ok(SurefootStatus::Nothing) };
        job.report = to_c(&resized.report);
        let entries: Vec<(u32, CString, u64)> =
            resized.entries().map(|(rank, name, bytes)| (rank, to_c(name), bytes)).collect();
        let told = SurefootResized {
            generation: resized.generation.number,
            taken_realtime_ns: resized.taken_realtime_ns,
            ranks: resized.ranks,
            entry_count: entries.len(),
        };
        job.resized = Some(Opened { resized, entries });
        // SAFETY: by the caller's promise.
        unsafe { put(out, told) };
        Ok(SurefootStatus::Ok)
    })
}

/// Tells an entry of what surefoot_checkpoint_open_resized opened, by its number from 0. Not collective. The name is the
/// handle's, and stays as long as the checkpoint is open.
///
/// # Safety
/// `out` has room for a surefoot_entry, or is NULL, which is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_resized_entry(
    handle: *mut SurefootCheckpoint,
    number: usize,
    out: *mut SurefootEntry,
) -> c_int {
    on_job(handle, |job| {
        if out.is_null() {
            return Err(Failure::argument("the address for the entry is NULL"));
        }
        let opened = job.resized.as_ref().ok_or_else(not_open)?;
        let Some((rank, name, bytes)) = opened.entries.get(number) else {
            return Err(Failure::argument(format!("there are {} entries, from 0 on", opened.entries.len())));
        };
        let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
        // SAFETY: it has room, by the caller's promise.
        unsafe { put(out, SurefootEntry { rank: *rank, name: name.as_ptr(), bytes }) };
        Ok(SurefootStatus::Ok)
    })
}

/// Reads pieces of what surefoot_checkpoint_open_resized opened, checked and repaired, wherever they are. Collective:
/// every rank passes the pieces that it wants, or none. When it fails, it fails on all ranks, and no piece holds anything
/// useful.
///
/// # Safety
/// `pieces` has `count` of them, or is NULL with a count of 0; each has a name that ends in a NUL, and room for its bytes
/// that no other piece has and nothing else uses until this call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_checkpoint_read_resized(
    handle: *mut SurefootCheckpoint,
    pieces: *const SurefootPiece,
    count: usize,
) -> c_int {
    on_job(handle, |job| {
        if count > PIECES_MAX || (pieces.is_null() && count > 0) {
            let why = format!("{count} pieces; {PIECES_MAX} are possible, and NULL has none");
            return Err(refused(job, "read_resized", Failure::argument(why)));
        }
        if job.resized.is_none() {
            return Err(refused(job, "read_resized", not_open()));
        }
        let pieces = match count {
            0 => &[][..],
            // SAFETY: there are that many, by the caller's promise.
            count => unsafe { std::slice::from_raw_parts(pieces, count) },
        };
        let piece = |piece: &SurefootPiece| -> Result<Piece<'_>, Failure> {
            // SAFETY: it ends in a NUL, by the caller's promise.
            let name = unsafe { text_at(piece.name, "name of a piece") }?;
            if piece.start.is_null() && piece.bytes > 0 || isize::try_from(piece.bytes).is_err() {
                return Err(Failure::argument(format!("the piece of {name:?} has no room for {} bytes", piece.bytes)));
            }
            let start = if piece.bytes == 0 { ptr::NonNull::dangling().as_ptr() } else { piece.start.cast::<u8>() };
            // SAFETY: there is room for that many bytes which is nobody else's, by the caller's promise; for none, any
            // address that is not NULL will do.
            let into = unsafe { std::slice::from_raw_parts_mut(start, piece.bytes) };
            Ok(Piece { rank: piece.rank, name, offset: piece.offset as u64, into })
        };
        let pieces = pieces.iter().map(piece).collect::<Result<Vec<Piece<'_>>, Failure>>();
        let mut pieces = pieces.map_err(|failure| refused(job, "read_resized", failure))?;
        let Some(opened) = job.resized.as_ref() else { return Err(not_open()) };
        job.checkpointer.read_resized(&opened.resized, &mut pieces)?;
        Ok(SurefootStatus::Ok)
    })
}

fn not_open() -> Failure {
    Failure::argument("no checkpoint is open; surefoot_checkpoint_open_resized opens one")
}
