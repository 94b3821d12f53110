//! Reads the gaps that polling threads noted.
//!
//! Anybody may put files into the directory of loops. The reader copies by `pread` and maps nothing, so that a file that
//! shrinks cannot stop it; it takes a file only if its header is possible, its thread runs, and it belongs to a user of
//! that thread; and it has a limit for files, loops and loops of one user. What it leaves out is in [`Counts`].
//!
//! ```
//! # fn main() -> Result<(), surefoot_inloop::Error> {
//! let mut reader = surefoot_inloop::Reader::open(surefoot_inloop::directory())?;
//! for found in reader.poll() {
//!     println!("{} ({}): {} gaps, {} overwritten", found.name, found.tid, found.gaps.len(), found.overwritten);
//! }
//! # Ok(())
//! # }
//! ```

mod changes;
pub(crate) mod owner;
mod watched;

use crate::Error;
use crate::directory::{Directory, effective_user};
use changes::Changes;
use owner::Claim;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Instant;
use watched::{Unusable, Watched};

/// Names that one look at the directory goes through.
const NAMES_MAX: usize = 2_048;

/// Loops that are watched at once.
const LOOPS_MAX: usize = 512;

/// Loops of one user that are watched at once, so that one user cannot keep all others out.
const LOOPS_OF_USER_MAX: usize = 256;

/// Loops whose thread is asked after through a file that stays open. A process may open 1,024 files by default, so for
/// more loops one is opened at each poll.
const STATS_KEPT: usize = 256;

/// The gaps of one loop since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopGaps {
    /// The process.
    pub pid: u32,
    /// The thread, as it was when it opened the loop.
    pub tid: u32,
    /// What the program calls the loop: printable ASCII.
    pub name: String,
    /// A turn over this many ticks of the processor's counter is a gap.
    pub threshold_ticks: u64,
    /// Counter before and after each gap, oldest first; after is the larger.
    pub gaps: Vec<(u64, u64)>,
    /// Gaps that were overwritten before they were read.
    pub overwritten: u64,
    /// Whether the loop or its thread has ended; it is not reported again.
    pub ended: bool,
}

/// What the reader watches and what it leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loops under observation now.
    pub loops: usize,
    /// Files in the last look whose thread is gone; [`Reader::clean_stale`] removes them.
    pub stale: usize,
    /// Files in the last look that their writers had not finished.
    pub not_ready: usize,
    /// Files in the last look that no library of this version writes.
    pub malformed: usize,
    /// Files in the last look that claim a thread of another process or of another user.
    pub not_owner: usize,
    /// Files in the last look whose process numbers count in another PID namespace, such as that of a container.
    pub other_namespace: usize,
    /// Files in the last look that could not be read, or whose thread could not be looked up.
    pub unreadable: usize,
    /// Files in the last look that were left out, because there are too many in all or of one user.
    pub left_out: usize,
    /// Since the reader was opened: loops whose file was cut or changed while they were watched.
    pub broken: u64,
    /// Since the reader was opened: gaps that did not end after they began.
    pub impossible_gaps: u64,
    /// Since the reader was opened: looks in which the directory could not be read.
    pub directory_failures: u64,
}

/// What [`Reader::clean_stale`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Files removed.
    pub removed: usize,
    /// Files whose thread is gone, too, but which are somebody else's.
    pub of_others: usize,
    /// Files that could not be removed.
    pub failed: usize,
}

/// Watches all loops of a directory.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    changes: Changes,
    loops: BTreeMap<OsString, Watched>,
    counts: Counts,
}

impl Reader {
    /// Watches a directory from now on: what loops noted before is left out. A directory that is missing may come later.
    ///
    /// # Errors
    /// When there is something of this name that cannot be opened as a directory.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        let mut reader = Self::from_start(directory)?;
        reader.look();
        let before = reader.loops.len();
        reader.loops.retain(|_, watched| watched.skip().is_ok());
        reader.counts.broken += (before - reader.loops.len()) as u64;
        reader.counts.loops = reader.loops.len();
        Ok(reader)
    }

    /// As [`Reader::open`], but the first look brings what the rings hold from before.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_start(directory: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = directory.into();
        match Directory::open(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Directory { path, source }),
            _ => Ok(Reader { path, changes: Changes::default(), loops: BTreeMap::new(), counts: Counts::default() }),
        }
    }

    /// What each loop noted since the last call; loops without a gap are there, too.
    pub fn poll(&mut self) -> Vec<LoopGaps> {
        self.look();
        let mut found: Vec<LoopGaps> = Vec::with_capacity(self.loops.len());
        let counts = &mut self.counts;
        self.loops.retain(|_, watched| {
            // Asked before the ring is read, so that the last gaps are among those read.
            let ended = watched.is_removed() || watched.runs() == Claim::Gone;
            let Ok(taken) = watched.take() else {
                counts.broken += 1;
                return false;
            };
            counts.impossible_gaps += taken.impossible;
            found.push(LoopGaps {
                pid: watched.described.pid,
                tid: watched.described.tid,
                name: watched.described.name.clone(),
                threshold_ticks: watched.described.threshold_ticks,
                gaps: taken.gaps,
                overwritten: taken.overwritten,
                ended,
            });
            !ended
        });
        self.counts.loops = self.loops.len();
        // What a program leaves behind that was killed changes nothing in the directory, and is counted.
        if found.iter().any(|of_loop| of_loop.ended) {
            self.changes.ask();
        }
        found
    }

    /// What is watched and what was left out.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Removes files whose thread is gone, as they stay behind when a program is killed: one's own, as root everybody's.
    /// Goes through 2,048 names at most; call it again when there may be more.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn clean_stale(&mut self) -> Result<Cleaned, Error> {
        let failed = |source| Error::Directory { path: self.path.clone(), source };
        let directory = match Directory::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Cleaned::default()),
            opened => opened.map_err(failed)?,
        };
        let mut cleaned = Cleaned::default();
        let names: Vec<OsString> =
            directory.names().map_err(failed)?.take(NAMES_MAX).collect::<Result<_, _>>().map_err(failed)?;
        for name in names {
            let Some(user) = user_of_stale(&directory, &name) else { continue };
            if user != effective_user() && effective_user() != 0 {
                cleaned.of_others += 1;
            } else if directory.remove(&name).is_ok() {
                cleaned.removed += 1;
            } else {
                cleaned.failed += 1;
            }
        }
        // The directory may be as it was by its clock, which is as coarse as the kernel's tick.
        self.changes.ask();
        Ok(cleaned)
    }

    /// Takes in the loops that have come since, if the directory has changed. Each look opens and closes files, which the
    /// kernel frees through RCU: several in a moment would interrupt all busy cores at every tick.
    fn look(&mut self) {
        if !self.changes.are_due(&self.path, Instant::now()) {
            return;
        }
        let Counts { broken, impossible_gaps, directory_failures, .. } = self.counts;
        self.counts = Counts { broken, impossible_gaps, directory_failures, ..Counts::default() };
        let looked = match Directory::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened.and_then(|directory| self.look_through(&directory)),
        };
        if looked.is_err() {
            self.counts.directory_failures += 1;
        }
        self.counts.loops = self.loops.len();
    }

    fn look_through(&mut self, directory: &Directory) -> io::Result<()> {
        for (number, name) in directory.names()?.enumerate() {
            // Counting all that are there would be work without a limit.
            if number == NAMES_MAX {
                self.counts.left_out += 1;
                break;
            }
            let name = name?;
            let Some(claimed) = name.to_str().and_then(owner::from_file_name) else { continue };
            if !self.loops.contains_key(&name) {
                self.take_in(directory, name, claimed);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, directory: &Directory, name: OsString, claimed: (u32, u32)) {
        let file = match directory.read(&name) {
            Ok(file) => file,
            // It ended between the two looks at its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => {
                self.counts.unreadable += 1;
                return;
            }
        };
        let mut watched = match Watched::new(file) {
            Ok(watched) if (watched.described.pid, watched.described.tid) == claimed => watched,
            Ok(_) | Err(Unusable::Broken) => {
                self.counts.malformed += 1;
                return;
            }
            Err(Unusable::NotReady) => {
                self.counts.not_ready += 1;
                return;
            }
            Err(Unusable::Unreadable) => {
                self.counts.unreadable += 1;
                return;
            }
        };
        match owner::check(&watched.described, watched.user) {
            Claim::True => {
                let of_user = self.loops.values().filter(|other| other.user == watched.user).count();
                if self.loops.len() < LOOPS_MAX && of_user < LOOPS_OF_USER_MAX {
                    let kept = self.loops.values().filter(|other| other.stat.is_some()).count();
                    watched.stat = (kept < STATS_KEPT).then(|| owner::open_stat(&watched.described)).flatten();
                    self.loops.insert(name, watched);
                } else {
                    self.counts.left_out += 1;
                }
            }
            Claim::Gone => self.counts.stale += 1,
            Claim::False => self.counts.not_owner += 1,
            Claim::OtherNamespace => self.counts.other_namespace += 1,
            Claim::Unknown => self.counts.unreadable += 1,
        }
    }
}

/// Whose file it is, if it is a loop's and its thread is gone.
fn user_of_stale(directory: &Directory, name: &OsStr) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let (pid, tid) = owner::from_file_name(name.to_str()?)?;
    let file = directory.read(name).ok()?;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
    let is_stale = match Watched::new(file) {
        Ok(watched) => owner::runs(&watched.described) == Claim::Gone,
        // Nobody can say more about it than its name does.
        Err(_) => owner::is_absent(pid, tid),
    };
    is_stale.then_some(metadata.uid())
}

#[cfg(test)]
mod tests;
