//! Where checkpoints are kept: memory, and directories that outlive the machine's power.
//!
//! # Files
//! ```text
//! MEMORY/JOB/rank-00003/lock                    held while the rank runs
//!                       slot-0.image            see the module `image`; used again and again
//!                       slot-0.manifest         there only while the image is whole
//!                       slot-0.copy             the same manifest once more, because memory may be bad; until all ranks
//!                                               have theirs it is called slot-0.pending
//! MEMORY/JOB/partner-00003/                     as rank-00003: what rank 3 keeps for another rank
//! MEMORY/JOB/parity-00003/                      as rank-00003: what rank 3 keeps of the parity of its group
//! DURABLE/JOB/rank-00003.lock                   held while the rank runs, where the file system has locks
//!             0000000012-00c0ffee00c0ffee/      generation: number and nonce
//!                       rank-00003.image
//!                       rank-00003.manifest     there only when the image is on the disk
//!                       commit                  by rank 0, when all ranks' are
//! ```

mod durable;
mod limits;
mod mapping;
mod memory;
pub(crate) mod node;

pub use durable::{Durable, DurableOptions, Pace, StoredPart, Written};
pub use limits::memory_available_bytes;
pub(crate) use mapping::FileBytes;
pub use memory::{Memory, Room, SLOTS_MAX, SlotId, SlotImage};

use crate::generation::GenerationId;
use crate::{Error, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates the directories of a path below `base`, which must exist; those that are there stay. Their names are durable
/// when it returns: that one is there does not say that whoever made it came to make it durable.
pub(crate) fn create_directories(storage: &dyn Storage, base: &Path, below: &Path) -> Result<PathBuf, Error> {
    let mut path = base.to_owned();
    for part in below.components() {
        let parent = path.clone();
        path.push(part);
        match storage.create_directory(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.expect_own_directory(&path).map_err(Error::storage("use", &path))?;
            }
            Err(error) => return Err(Error::storage("create", &path)(error)),
        }
        storage.sync_directory(&parent).map_err(Error::storage("sync", &parent))?;
    }
    Ok(path)
}

/// How often a lock that another process has is asked for again, and how long after the time before.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Takes a lock, and waits a second for one that is held: a process that was killed keeps its own until the last of its
/// memory is given back, and a child that it was just starting shares it until that runs a program of its own.
pub(crate) fn lock_patiently(storage: &dyn Storage, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
    for _ in 1..LOCK_ATTEMPTS {
        match storage.lock(path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOCK_PAUSE),
            taken => return taken,
        }
    }
    storage.lock(path)
}

/// The name of a generation's directory.
pub(crate) fn directory_name(generation: GenerationId) -> String {
    format!("{:010}-{:016x}", generation.number, generation.nonce)
}

/// The generation of a directory with such a name.
pub(crate) fn generation_of(name: &Path) -> Option<GenerationId> {
    let (number, nonce) = name.to_str()?.split_once('-')?;
    let is_plain = number.len() >= 10 && nonce.len() == 16 && number.bytes().all(|byte| byte.is_ascii_digit());
    let nonce = u64::from_str_radix(nonce, 16).ok()?;
    is_plain.then_some(GenerationId { number: number.parse().ok()?, nonce })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_s_directory_tells_which_it_is() {
        for generation in [GenerationId { number: 0, nonce: 0 }, GenerationId { number: u64::MAX, nonce: u64::MAX }] {
            assert_eq!(generation_of(Path::new(&directory_name(generation))), Some(generation));
        }
        for name in ["", "12-0", "0000000001-zzzzzzzzzzzzzzzz", "+000000001-0000000000000000", "0000000001"] {
            assert_eq!(generation_of(Path::new(name)), None, "{name}");
        }
    }
}
