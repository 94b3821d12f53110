//! The polling thread's side.

use crate::directory::Directory;
use crate::layout::{CAPACITY_DEFAULT, Described, HEADER_BYTES, MAGIC, capacity_is_possible, name_is_possible};
use crate::mapping::Mapping;
use crate::reader::owner;
use crate::ticks::{from_duration, ticks};
use crate::{Error, directory};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How often another file name is tried when one is taken; each has the counter in it.
const NAME_TRIES: usize = 8;

/// How a loop is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// An absolute path to a directory on tmpfs; made if it is missing, its parent must be there.
    pub directory: PathBuf,
    /// A turn that takes longer is a gap.
    pub threshold: Duration,
    /// Gaps that the ring holds until the oldest is overwritten: a power of two from 16 to 16,384.
    pub capacity: u32,
}

impl Options {
    /// The directory of [`directory()`] and a ring of 4,096 gaps.
    pub fn new(threshold: Duration) -> Self {
        Options { directory: directory(), threshold, capacity: CAPACITY_DEFAULT }
    }
}

/// A polling loop that notes its gaps. Belongs to the thread that opened it; a forked child opens its own.
#[derive(Debug)]
pub struct Loop {
    last: u64,
    threshold: u64,
    ring: Option<Ring>,
}

#[derive(Debug)]
struct Ring {
    mapping: Mapping,
    /// Kept here and only copied to the file: nothing that others write there leads the loop anywhere.
    head: u64,
    path: PathBuf,
    pid: u32,
}

impl Loop {
    /// Makes the file of this thread's loop, so that `surefoot` can read its gaps, and starts to count.
    ///
    /// `name` is what people will read: 1 to 63 printable ASCII characters. Takes 10 ms in the first call of a process,
    /// to measure the counter's rate. A good threshold is ten times what an undisturbed turn takes, and 1 us or more.
    ///
    /// # Errors
    /// When the file cannot be made. [`Loop::inert`] lets the program go on without.
    pub fn open(name: &str, threshold: Duration) -> Result<Self, Error> {
        Self::open_with(name, &Options::new(threshold))
    }

    /// As [`Loop::open`], with a directory and a size of one's own.
    ///
    /// # Errors
    /// As [`Loop::open`].
    pub fn open_with(name: &str, options: &Options) -> Result<Self, Error> {
        if !name_is_possible(name.as_bytes()) {
            return Err(Error::Name { name: name.chars().take(80).collect() });
        }
        if !capacity_is_possible(options.capacity) {
            return Err(Error::Capacity { capacity: options.capacity });
        }
        let threshold = from_duration(options.threshold)?;
        let (pid, tid) = (std::process::id(), thread_id());
        let described = Described {
            capacity: options.capacity,
            pid,
            tid,
            thread_start: owner::thread_start(pid, tid)
                .map_err(|source| Error::Thread { path: owner::stat_path(pid, tid), source })?,
            threshold_ticks: threshold,
            name: name.to_owned(),
            pid_namespace: owner::pid_namespace(),
        };
        let directory = Directory::open_or_make(&options.directory)?;
        let ring = Ring::make(&directory, &options.directory, &described)?;
        Ok(Loop { last: ticks(), threshold, ring: Some(ring) })
    }

    /// A loop that notes nothing and costs the same, for programs that go on when [`Loop::open`] failed.
    pub fn inert() -> Self {
        Loop { last: ticks(), threshold: u64::MAX, ring: None }
    }

    /// Call it once per turn. Returns whether this turn was longer than the threshold.
    ///
    /// Reads the counter and compares; a gap is put into the ring, over the oldest if it is full.
    #[inline(always)]
    pub fn turn(&mut self) -> bool {
        let now = ticks();
        let is_gap = now.wrapping_sub(self.last) > self.threshold;
        self.last = if is_gap { self.note(now) } else { now };
        is_gap
    }

    /// Begins anew: what passed since the last turn is no gap. For loops that wait on purpose now and then.
    #[inline(always)]
    pub fn restart(&mut self) {
        self.last = ticks();
    }

    /// Gaps noted so far.
    pub fn noted(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.head)
    }

    /// The loop's file; none if the loop is inert.
    pub fn path(&self) -> Option<&Path> {
        self.ring.as_ref().map(|ring| ring.path.as_path())
    }

    /// Puts a gap into the ring and returns where the next turn begins.
    #[cold]
    #[inline(never)]
    fn note(&mut self, now: u64) -> u64 {
        // A counter that went back, on a machine whose cores do not count alike, is no gap.
        if now > self.last
            && let Some(ring) = &mut self.ring
        {
            ring.push(self.last, now);
        }
        // What noting it took is not the core's fault.
        ticks()
    }
}

impl Ring {
    fn make(directory: &Directory, path: &Path, described: &Described) -> Result<Self, Error> {
        let (name, file) = Self::make_file(directory, path, described)?;
        let path = path.join(&name);
        let ready = || -> io::Result<Mapping> {
            // Written rather than only made long: that the memory is there is found out here and not in the loop.
            file.write_all_at(&described.to_bytes(), 0)?;
            let gaps = vec![0u8; crate::layout::file_bytes(described.capacity) - HEADER_BYTES];
            file.write_all_at(&gaps, HEADER_BYTES as u64)?;
            let mapping = Mapping::new(&file, described.capacity)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            mapping.magic().store(MAGIC, Ordering::Release);
            Ok(mapping)
        };
        match ready() {
            Ok(mapping) => Ok(Ring { mapping, head: 0, path, pid: described.pid }),
            Err(source) => {
                let _ = directory.remove(name.as_ref());
                Err(Error::File { path, source })
            }
        }
    }

    fn make_file(directory: &Directory, path: &Path, described: &Described) -> Result<(String, File), Error> {
        let mut tries = 0;
        loop {
            let name = owner::file_name(described.pid, described.tid, ticks());
            match directory.make(&name) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAME_TRIES => tries += 1,
                Err(source) => return Err(Error::File { path: path.join(name), source }),
            }
        }
    }

    fn push(&mut self, before: u64, after: u64) {
        // Whoever sees a part of this gap in the place of an older one sees the head that came before it, too.
        fence(Ordering::Release);
        let gap = self.mapping.gap(self.head);
        gap.before.store(before, Ordering::Relaxed);
        gap.after.store(after, Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        self.mapping.head().store(self.head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // In a forked child the file is still the parent's.
        if std::process::id() == self.pid {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn thread_id() -> u32 {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::gettid() as u32 }
}

/// A ring that a test of the reader fills by hand.
#[cfg(test)]
pub(crate) fn push_by_hand(to: &mut Loop, before: u64, after: u64) {
    to.ring.as_mut().unwrap().push(before, after);
}
