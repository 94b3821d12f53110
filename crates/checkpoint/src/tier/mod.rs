//! Where checkpoints are kept: memory, and directories that outlive the machine's power.
//!
//! # Files
//! ```text
//! MEMORY/JOB/rank-00003/lock                    held while the rank runs
//!                       slot-0.image            see the module `image`; used again and again. Without a manifest it
//!                                               holds nothing: it is being made, or was made ahead of a save
//!                       slot-0.manifest         there only while the image is whole
//!                       slot-0.copy             the same manifest once more, because memory may be bad; until all ranks
//!                                               have theirs it is called slot-0.pending
//! MEMORY/JOB/partner-00003/                     as rank-00003: what rank 3 keeps for another rank
//! MEMORY/JOB/parity-00003/                      as rank-00003: what rank 3 keeps of the parity of its group
//! MEMORY/JOB/nodes                              on which nodes the newest runs saved; so in every tier
//! DURABLE/JOB/rank-00003.lock                   held while the rank runs, where the file system has locks
//!             probe-00c0ffee00c0ffee            by which ranks see that a shared directory is one; only while they open
//!             budget                            what the drive may still take, over restarts of the job
//!             0000000012-00c0ffee00c0ffee/      generation: number and nonce
//!                       rank-00003.image
//!                       rank-00003.manifest     there only when the image is on the disk
//!                       commit                  by rank 0, when all ranks' are
//! MEMORY/JOB/completed, DURABLE/JOB/completed   the job came to its end: what is not newer is no place to go on from
//! ```

mod ahead;
mod completed;
mod durable;
mod job;
mod mapping;
mod memory;
pub(crate) mod node;

pub(crate) use ahead::Allowance;
pub(crate) use completed::COMPLETED;
pub use completed::Completed;
pub use durable::{Budget, Durable, DurableOptions, Pace, Stored, StoredPart, Written};
pub use job::{JobDirectory, JobLocks, Occupied, Removed};
pub(crate) use job::{effective_user, expect_own, leave_nothing, remove_own};
pub(crate) use mapping::{FileBytes, FileRoom};
pub(crate) use memory::{MANIFESTS, PENDING};
pub use memory::{Memory, MemorySpace, SLOTS_MAX, SlotId, SlotImage};
pub(crate) use node::{KeptFor, NodePart, has_complete, parts as node_parts};

use crate::generation::{GenerationId, MANIFEST_LONG_BYTES_MAX, REGIONS_PLAIN_MAX};
use crate::image::PAGE_BYTES;
use crate::{Error, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in a job's directory that says on which nodes the job ran, and what it begins with while it is written.
pub(crate) const NODES: &str = "nodes";
pub(crate) const NODES_NEW: &str = "nodes.new-";

/// Creates the directories of a path below `base`, which must exist and to which root is led by no link of another user; those that are
/// there stay. Their names are durable
/// when it returns: that one is there does not say that whoever made it came to make it durable.
pub(crate) fn create_directories(storage: &dyn Storage, base: &Path, below: &Path) -> Result<PathBuf, Error> {
    surefoot_foreign::way::plain(base).map_err(Error::storage("use", base))?;
    let mut path = base.to_owned();
    for part in below.components() {
        let parent = path.clone();
        path.push(part);
        match storage.create_directory(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.expect_own_directory(&path).map_err(Error::storage("use", &path))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let why = format!("there is no {}: create or mount it", parent.display());
                return Err(Error::storage("create", &path)(io::Error::new(io::ErrorKind::NotFound, why)));
            }
            Err(error) => return Err(Error::storage("create", &path)(error)),
        }
        storage.sync_directory(&parent).map_err(Error::storage("sync", &parent))?;
    }
    Ok(path)
}

/// Bytes beside an image in a durable tier, at most: its manifest, from how many names of regions and of files there are and
/// their bytes; and the mark, the budget, the file of nodes, the lock and the directory, some of them twice while they are
/// written anew.
pub(crate) fn small_bytes(of_regions: [u64; 2], of_files: [u64; 2]) -> u64 {
    let [count, bytes] = [0, 1].map(|part: usize| of_regions[part].saturating_add(of_files[part]));
    // An entry of a few regions has its words, one of many only its numbers.
    let entry_bytes = if count > REGIONS_PLAIN_MAX as u64 { 28 } else { 48 };
    let text_bytes = bytes.saturating_add(count.saturating_mul(entry_bytes)).min(MANIFEST_LONG_BYTES_MAX as u64);
    text_bytes.next_multiple_of(PAGE_BYTES as u64) + SMALL_FILES_BYTES
}

/// Those of them that do not grow: a dozen pages.
const SMALL_FILES_BYTES: u64 = 12 * PAGE_BYTES as u64;

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
    storage.lock(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let why = "the same job is running here: wait until it has ended, or give this one another name";
            io::Error::new(io::ErrorKind::WouldBlock, why)
        }
        _ => error,
    })
}

/// The name of a generation's directory.
pub(crate) fn directory_name(generation: GenerationId) -> String {
    format!("{:010}-{:016x}", generation.number, generation.nonce)
}

/// The generation of a directory with such a name.
pub(crate) fn generation_of(name: &Path) -> Option<GenerationId> {
    let (number, nonce) = name.to_str()?.split_once('-')?;
    // A sign is no digit, though numbers may be read with one.
    let is_hex = nonce.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_plain =
        number.len() >= 10 && nonce.len() == 16 && is_hex && number.bytes().all(|byte| byte.is_ascii_digit());
    let nonce = u64::from_str_radix(nonce, 16).ok()?;
    is_plain.then_some(GenerationId { number: number.parse().ok()?, nonce })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_manifest_is_longer_than_the_room_that_is_counted_for_it() {
        use crate::generation::{Manifest, RegionEntry};
        use crate::image::Protection;
        for (count, name) in [(0, "w"), (1, "weight"), (4_096, "l"), (4_097, "layer.weight."), (50_000, "")] {
            let entry =
                |number: u64| RegionEntry { name: format!("{name}{number:09}"), bytes: (number % 2) * 300_000_000 };
            let regions: Vec<RegionEntry> = (0..count).map(entry).collect();
            let names = [count, regions.iter().map(|region| region.name.len() as u64).sum()];
            let manifest = Manifest {
                job: "j".repeat(128),
                generation: GenerationId { number: u64::MAX, nonce: u64::MAX },
                rank: u32::MAX - 1,
                ranks: u32::MAX,
                taken_realtime_ns: u64::MAX,
                payload_bytes: regions.iter().map(|region| region.bytes).sum(),
                protection: Protection::Checked,
                table_crc32c: u32::MAX,
                regions,
                epoch: u64::MAX,
            };
            let bytes = manifest.to_bytes().expect("it is a manifest").len() as u64;
            let counted = small_bytes(names, [0, 0]);
            let is_too_much = count <= 4_096 && counted > 3 * bytes + 20 * 4_096;
            assert!(bytes + 6 * 4_096 <= counted && !is_too_much, "{count}: {bytes} in {counted}");
        }
    }

    #[test]
    fn a_generation_s_directory_tells_which_it_is() {
        for generation in [GenerationId { number: 0, nonce: 0 }, GenerationId { number: u64::MAX, nonce: u64::MAX }] {
            assert_eq!(generation_of(Path::new(&directory_name(generation))), Some(generation));
        }
        let signed = "0000000001-+000000000000001";
        let capitals = "0000000001-00000000000000AB";
        for name in
            ["", "12-0", "0000000001-zzzzzzzzzzzzzzzz", "+000000001-0000000000000000", "0000000001", signed, capitals]
        {
            assert_eq!(generation_of(Path::new(name)), None, "{name}");
        }
    }
}
