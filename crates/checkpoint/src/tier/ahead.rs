//! Slots that are made and touched before a save needs them, by a thread beside the program.
//!
//! A save never waits longer than without the thread: it tells it to stop, takes over what there is of its own slot after
//! the piece that the thread is at, and makes the rest itself. The files are those that a save makes, under the same names.
//! One without a manifest is an empty slot, however long it is, so that a process may be killed at any point.

use super::mapping::{Checked, Mapping};
use super::memory::SlotId;
use crate::storage::Named;
use crate::{Disk, Storage};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use surefoot_heal::limits;

/// Bytes that are taken and touched at once: one to two milliseconds. A multiple of every page size.
const PIECE_BYTES: usize = 4 << 20;

/// Room is looked at again after so many pieces, because the program takes memory, too.
const PIECES_BETWEEN_LOOKS: usize = 16;

/// The least that is taken at once where signals interrupt, and how many may in a row.
const TAKEN_BYTES_MIN: usize = 64 << 10;
const INTERRUPTIONS_MAX: u32 = 10_000;

/// How much may be taken before a save needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Bytes of all slots of this rank together.
    pub(crate) bytes_max: u64,
    /// Ranks that share this node's memory, and make their slots at the same time.
    pub(crate) ranks_here: u64,
}

impl Allowance {
    /// Whether `missing` more bytes may be taken where `taken` were and so many are available. At least as much as all
    /// ranks took has to be left for the program, which may not have grown to its full size yet.
    fn allows(&self, taken: u64, missing: u64, available: u64) -> bool {
        let after = taken.saturating_add(missing);
        let left = available.saturating_sub(missing.saturating_mul(self.ranks_here));
        missing == 0 || (after <= self.bytes_max && left >= after.saturating_mul(self.ranks_here))
    }
}

/// What can be taken where a directory is: of its file system, and before the control group is full. Nothing where that is
/// not said.
fn available_bytes(directory: &Path) -> u64 {
    let free = Disk.free_bytes(directory).unwrap_or(0);
    limits::memory_available_bytes(Path::new("/")).map_or(0, |limit| limit.min(free))
}

/// A slot's file that is being made and touched.
pub(super) struct Making {
    pub(super) slot: SlotId,
    path: PathBuf,
    file: File,
    mapping: Mapping,
    bytes: usize,
    /// How long the file was, how long it is, and up to where its pages were brought in.
    found: usize,
    taken: usize,
    touched: usize,
    /// What the kernel had given up of the machine's memory before the first page was brought in.
    pub(super) lost_bytes: Option<u64>,
}

impl Making {
    /// Opens a slot's file, or creates it.
    pub(super) fn open(slot: SlotId, path: &Path, bytes: usize) -> io::Result<Self> {
        let lost_bytes = limits::memory_lost_bytes(Path::new("/"));
        let named = Named::of(path)?;
        let file = match surefoot_foreign::hold_name(&named).and_then(|held| held.regular()?.open_to_write()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut options = OpenOptions::new();
                options
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .custom_flags(libc::O_NOFOLLOW)
                    .open(&named)?
            }
            opened => opened?,
        };
        let metadata = file.metadata()?;
        let found = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mapping = Mapping::untouched(&file, bytes)?;
        Ok(Making {
            slot,
            path: path.to_owned(),
            file,
            mapping,
            bytes,
            found,
            taken: found.min(bytes),
            touched: 0,
            lost_bytes,
        })
    }

    /// The same slot for a save of so many bytes, which may be others than the thread was told: no save waits for bytes that
    /// it does not need, and what was taken of the file beyond them is given back.
    pub(super) fn made_for(self, bytes: usize) -> io::Result<Self> {
        if bytes == self.bytes || (bytes < self.bytes && self.is_made()) {
            return Ok(self);
        }
        let kept = self.found.max(bytes);
        if self.taken > kept {
            self.file.set_len(kept as u64)?;
        }
        Making::open(self.slot, &self.path, bytes)
    }

    /// Bytes that are still to be taken.
    fn missing(&self) -> u64 {
        (self.bytes - self.taken) as u64
    }

    /// Bytes that were taken for it.
    fn newly_taken(&self) -> u64 {
        self.taken.saturating_sub(self.found) as u64
    }

    /// Whether all of it is made.
    pub(super) fn is_made(&self) -> bool {
        self.touched == self.bytes
    }

    /// Takes and touches the next piece.
    fn step(&mut self) -> io::Result<()> {
        let end = self.bytes.min(self.touched + PIECE_BYTES);
        if self.taken < end {
            take(&self.file, self.taken, end)?;
            self.taken = end;
        }
        match self.mapping.touch(self.touched..end)? {
            Checked::Whole => self.touched = end,
            // Before Linux 5.14; it is mapped when it is needed.
            Checked::Unknown => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    /// Makes what is left of it.
    pub(super) fn finish(mut self) -> io::Result<Mapping> {
        while !self.is_made() {
            self.step()?;
        }
        Ok(self.mapping)
    }

    /// Gives back what was taken for it.
    fn undo(self) {
        drop(self.mapping);
        // A file that stays longer than it was is an empty slot all the same.
        let _ = match self.found {
            0 => Disk.remove_file(&self.path),
            found => self.file.set_len(found as u64),
        };
    }
}

/// Takes the room of a part of a file: in smaller pieces where signals interrupt, each of which takes back what was given.
fn take(file: &File, from: usize, to: usize) -> io::Result<()> {
    let (mut taken, mut piece, mut interruptions) = (from, to - from, 0);
    while taken < to {
        let now = piece.min(to - taken);
        // SAFETY: the descriptor is open for as long as `file` lives; no memory is passed. No mapping is longer than an i64.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, taken as i64, now as i64) } == 0 {
            (taken, interruptions) = (taken + now, 0);
            continue;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) || interruptions == INTERRUPTIONS_MAX {
            return Err(error);
        }
        interruptions += 1;
        piece = (piece / 2).max(TAKEN_BYTES_MIN);
    }
    Ok(())
}

/// A slot that is to be made.
pub(super) struct Wish {
    pub(super) slot: SlotId,
    pub(super) path: PathBuf,
    /// Where somebody began.
    pub(super) begun: Option<Making>,
    /// Whether nothing is in it. What holds a checkpoint is only touched, and never cut or grown.
    pub(super) is_empty: bool,
}

/// What the thread and the session both see.
#[derive(Default)]
struct Work {
    waiting: VecDeque<Wish>,
    /// The slot that the thread is at.
    at: Option<SlotId>,
    done: Vec<Making>,
    /// Bytes that this session took for slots ahead.
    taken: u64,
}

#[derive(Default)]
struct Common {
    is_stopped: AtomicBool,
    work: Mutex<Work>,
}

impl Common {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// What the thread does.
    fn run(&self, bytes: usize, directory: &Path, allowance: Allowance) {
        block_signals();
        while let Some(wish) = self.next() {
            let (slot, is_empty) = (wish.slot, wish.is_empty);
            let opened = match wish.begun {
                Some(begun) if begun.bytes == bytes => Ok(begun),
                _ if !is_empty && !is_long_enough(&wish.path, bytes) => Err(io::ErrorKind::NotFound.into()),
                Some(begun) => begun.made_for(bytes),
                None => Making::open(slot, &wish.path, bytes),
            };
            let made = opened.ok().and_then(|making| self.make(making, directory, allowance));
            let mut work = self.work();
            work.at = None;
            work.done.extend(made);
        }
    }

    fn next(&self) -> Option<Wish> {
        let mut work = self.work();
        let wish = if self.is_stopped() { None } else { work.waiting.pop_front() };
        work.at = wish.as_ref().map(|wish| wish.slot);
        wish
    }

    /// Makes a slot, as far as it comes; `None` where it must not, or cannot.
    fn make(&self, mut making: Making, directory: &Path, allowance: Allowance) -> Option<Making> {
        let mut pieces = 0;
        while !making.is_made() && !self.is_stopped() {
            let taken = self.work().taken;
            let is_time_to_look = pieces % PIECES_BETWEEN_LOOKS == 0;
            let is_refused = is_time_to_look && !allowance.allows(taken, making.missing(), available_bytes(directory));
            let before = making.newly_taken();
            if is_refused || making.step().is_err() {
                self.work().taken = taken.saturating_sub(making.newly_taken());
                making.undo();
                return None;
            }
            self.work().taken = taken + (making.newly_taken() - before);
            pieces += 1;
        }
        Some(making)
    }
}

fn is_long_enough(path: &Path, bytes: usize) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.len() >= bytes as u64)
}

/// Leaves the program's signals to the program's threads.
fn block_signals() {
    // SAFETY: the set is filled before it is read; it is this thread's mask that changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// The thread that makes slots. It ends after the piece that it is at when this is dropped.
pub(super) struct Ahead {
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a child that was forked has only this value.
    process: u32,
}

impl Ahead {
    /// Starts to make slots in this order; `None` where no thread is to be had. `taken` bytes were taken ahead before.
    pub(super) fn start(
        wishes: VecDeque<Wish>,
        bytes: usize,
        directory: &Path,
        allowance: Allowance,
        taken: u64,
    ) -> Option<Self> {
        let work = Work { waiting: wishes, taken, ..Work::default() };
        let common = Arc::new(Common { work: Mutex::new(work), ..Common::default() });
        let (theirs, directory) = (Arc::clone(&common), directory.to_owned());
        let run = move || theirs.run(bytes, &directory, allowance);
        let thread = std::thread::Builder::new().name("checkpoint-ahead".into()).spawn(run).ok()?;
        Some(Ahead { common, thread: Some(thread), process: std::process::id() })
    }

    /// Whether the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether the thread goes on to make slots.
    pub(super) fn is_busy(&self) -> bool {
        !self.common.is_stopped() && !self.is_over()
    }

    /// Tells the thread to stop after the piece that it is at, and does not wait for that.
    pub(super) fn stop(&self) {
        self.common.is_stopped.store(true, Ordering::Relaxed);
    }

    /// What there is of a slot: the thread stops, and where it is at this very slot, the piece is waited for.
    pub(super) fn take(&mut self, slot: SlotId) -> Option<Making> {
        self.stop();
        if self.common.work().at == Some(slot) {
            self.join();
        }
        let mut work = self.common.work();
        let at = work.done.iter().position(|making| making.slot == slot)?;
        Some(work.done.swap_remove(at))
    }

    /// Ends the thread. Returns what it made, whole or not, and how many bytes were taken ahead in all.
    pub(super) fn end(mut self) -> (Vec<Making>, u64) {
        self.join();
        let mut work = self.common.work();
        let unbegun = std::mem::take(&mut work.waiting).into_iter().filter_map(|wish| wish.begun);
        let made = std::mem::take(&mut work.done).into_iter().chain(unbegun).collect();
        (made, work.taken)
    }

    fn join(&mut self) {
        self.stop();
        let Some(thread) = self.thread.take() else { return };
        if self.process == std::process::id() {
            // It makes nothing that is not done by who needs it, so that why it ended does not matter.
            let _ = thread.join();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.join();
    }
}

/// Files of slots that were made ahead and not used yet. They go with the session: they hold nothing, and take memory.
#[derive(Default)]
pub(super) struct Unused {
    files: BTreeMap<SlotId, (u32, PathBuf)>,
}

impl Unused {
    pub(super) fn add(&mut self, slot: SlotId, path: PathBuf) {
        self.files.insert(slot, (std::process::id(), path));
    }

    /// Says that a slot is in use from now on.
    pub(super) fn remove(&mut self, slot: SlotId) {
        self.files.remove(&slot);
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        for (process, path) in self.files.values() {
            if *process == std::process::id() {
                let _ = Disk.remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn as_much_as_is_taken_ahead_is_left() {
        let alone = Allowance { bytes_max: u64::MAX, ranks_here: 1 };
        assert!(alone.allows(0, 10, 20) && !alone.allows(0, 10, 19));
        assert!(alone.allows(10, 10, 30) && !alone.allows(10, 10, 29));
        assert!(alone.allows(10, 0, 0), "what is there already is touched");
        let of_four = Allowance { ranks_here: 4, ..alone };
        assert!(of_four.allows(0, 10, 80) && !of_four.allows(0, 10, 79));
        let bounded = Allowance { bytes_max: 15, ..alone };
        assert!(bounded.allows(0, 15, 100) && !bounded.allows(10, 10, 100));
        assert!(!alone.allows(u64::MAX, 1, u64::MAX), "no sum goes round");
    }

    #[test]
    fn a_slot_is_taken_over_at_every_piece() {
        let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let bytes = 3 * PIECE_BYTES + 4096;
        for pieces in 0..=4 {
            let path = home.path().join(format!("slot-{pieces}.image"));
            let mut making = Making::open(SlotId(0), &path, bytes).unwrap();
            (0..pieces).for_each(|_| making.step().unwrap());
            assert_eq!((making.is_made(), making.newly_taken()), (pieces == 4, (making.taken) as u64), "{pieces}");
            let mut mapping = making.finish().unwrap();
            mapping.bytes_mut().fill(7);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes as u64);
            // And grows where it has become too short.
            let mut grown = Making::open(SlotId(0), &path, bytes + PIECE_BYTES).unwrap();
            assert_eq!((grown.missing(), grown.newly_taken()), (PIECE_BYTES as u64, 0));
            grown.step().unwrap();
            assert_eq!(grown.finish().unwrap().bytes()[bytes..], [0; PIECE_BYTES]);
        }
    }

    #[test]
    fn a_save_of_other_bytes_than_the_thread_was_told_makes_its_own() {
        let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        // More than any machine has: the thread was stopped before it looked whether there is so much.
        for pieces in [0, 2] {
            let path = home.path().join(format!("slot-{pieces}.image"));
            let mut making = Making::open(SlotId(0), &path, 8 << 40).unwrap();
            (0..pieces).for_each(|_| making.step().unwrap());
            let made = making.made_for(5000).unwrap().finish().unwrap();
            assert_eq!((made.bytes().len(), length(&path)), (5000, 5000), "{pieces}");
        }
        // A file that was longer before stays so; what is made is used, and one that was begun shorter is made longer.
        let path = home.path().join("slot-9.image");
        std::fs::write(&path, vec![1; 9000]).unwrap();
        let mut making = Making::open(SlotId(0), &path, 4 * PIECE_BYTES).unwrap();
        making.step().unwrap();
        let making = making.made_for(100).unwrap();
        assert_eq!((making.bytes, length(&path)), (100, 9000));
        let mut making = making.made_for(12_000).unwrap();
        making.step().unwrap();
        assert!(making.is_made() && length(&path) == 12_000);
        assert_eq!(making.made_for(7000).unwrap().bytes, 12_000);
    }

    #[test]
    fn what_is_refused_on_the_way_is_given_back() {
        let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = home.path().join("slot-0.image");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let refused = Allowance { bytes_max: 2 * MIB, ranks_here: 1 };
        let common = Common::default();
        let making = Making::open(SlotId(0), &path, 8 * PIECE_BYTES).unwrap();
        assert!(common.make(making, home.path(), refused).is_none());
        assert_eq!((common.work().taken, std::fs::metadata(&path).unwrap().len()), (0, 5000));
        // The program takes the memory meanwhile: at the next look it gets it.
        let mut making = Making::open(SlotId(0), &path, 40 * PIECE_BYTES).unwrap();
        (0..20).for_each(|_| making.step().unwrap());
        common.work().taken = making.newly_taken();
        assert!(common.make(making, home.path(), refused).is_none());
        assert_eq!((common.work().taken, std::fs::metadata(&path).unwrap().len()), (0, 5000));
    }
}
