//! What all ranks of a job keep in memory on this node, whichever rank asks: for a restart with another number of ranks.

use super::memory::{MANIFESTS, SLOTS_MAX, is_complete};
use crate::generation::{GenerationId, Manifest};
use crate::{Disk, Error, Storage};
use std::io;
use std::path::{Path, PathBuf};

/// What the directories of ranks begin with, the one that is read first first: what a rank keeps of its own, then what
/// it keeps for another.
const OWN: &str = "rank-";
const FOR_OTHERS: [&str; 2] = ["partner-", "parity-"];

/// One rank's part of a generation in the memory of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePart {
    pub(crate) manifest: Manifest,
    pub(crate) image: PathBuf,
}

/// The parts in the memory of this node, those that their own ranks keep first. What is no part is passed over.
///
/// # Errors
/// [`Error::Storage`] when the job's directory cannot be listed; that there is none gives no parts.
pub(crate) fn parts(base: &Path, job: &str) -> Result<Vec<NodePart>, Error> {
    let mut found = Vec::new();
    let directories = directories(base, job)?;
    for prefix in [OWN, FOR_OTHERS[0]] {
        for (directory, rank) in directories.iter().filter_map(|name| Some((name, rank_of(name, prefix)?))) {
            for slot in 0..SLOTS_MAX {
                let of = |kind: &str| directory.join(format!("slot-{slot}.{kind}"));
                let manifest = MANIFESTS.iter().find_map(|kind| Manifest::read(&Disk, &of(kind)).ok());
                let is_here = |manifest: &Manifest| manifest.job == job && (prefix != OWN || manifest.rank == rank);
                found.extend(manifest.filter(is_here).map(|manifest| NodePart { manifest, image: of("image") }));
            }
        }
    }
    Ok(found)
}

/// Whether the memory of this node holds any checkpoint that all ranks of its job had, whichever ranks these were.
///
/// # Errors
/// [`Error::Storage`] when the job's directory cannot be listed.
pub(crate) fn has_complete(base: &Path, job: &str) -> Result<bool, Error> {
    let directories = directories(base, job)?;
    Ok(directories.iter().any(|directory| (0..SLOTS_MAX).any(|slot| is_complete(directory, slot))))
}

/// Gives back the memory of ranks that a job with `ranks` ranks does not have, as far as nobody uses it and all in it
/// is older than `complete`. Returns how many directories went.
pub(crate) fn release_beyond(base: &Path, job: &str, ranks: u32, complete: GenerationId) -> Result<usize, Error> {
    let mut released = 0;
    for directory in directories(base, job)? {
        let rank = [OWN, FOR_OTHERS[0], FOR_OTHERS[1]].iter().find_map(|prefix| rank_of(&directory, prefix));
        if rank.is_some_and(|rank| rank >= ranks) && is_older(&directory, complete) {
            released += usize::from(remove(&directory)?);
        }
    }
    Ok(released)
}

fn directories(base: &Path, job: &str) -> Result<Vec<PathBuf>, Error> {
    let directory = base.join(job);
    match Disk.list_directory(&directory) {
        Ok(names) => Ok(names.into_iter().map(|name| directory.join(name)).filter(|path| is_own(path)).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::storage("list", &directory)(error)),
    }
}

fn is_own(path: &Path) -> bool {
    Disk.expect_own_directory(path).is_ok()
}

fn rank_of(directory: &Path, prefix: &str) -> Option<u32> {
    let digits = directory.file_name()?.to_str()?.strip_prefix(prefix)?;
    let rank: u32 = digits.parse().ok()?;
    // One name for each rank, so that none is there twice.
    (format!("{rank:05}") == digits).then_some(rank)
}

fn is_older(directory: &Path, complete: GenerationId) -> bool {
    (0..SLOTS_MAX).all(|slot| {
        let read = |kind: &str| Manifest::read(&Disk, &directory.join(format!("slot-{slot}.{kind}")));
        MANIFESTS.into_iter().all(|kind| match read(kind) {
            Ok(manifest) => manifest.generation < complete,
            Err(Error::Storage { source, .. }) => source.kind() == io::ErrorKind::NotFound,
            // What cannot be read was not written by us as it is now: it stays.
            Err(_) => false,
        })
    })
}

/// Removes the slots of a rank, if no process holds them.
fn remove(directory: &Path) -> Result<bool, Error> {
    let lock = directory.join("lock");
    let Ok(_lock) = Disk.lock(&lock) else { return Ok(false) };
    let names = Disk.list_directory(directory).map_err(Error::storage("list", directory))?;
    let is_ours = |name: &&PathBuf| name.to_str().is_some_and(|name| name == "lock" || name.starts_with("slot-"));
    if names.iter().any(|name| !is_ours(&name)) {
        return Ok(false);
    }
    // The manifests first: half of a directory must not count as whole.
    let is_image = |name: &PathBuf| name.extension().is_some_and(|kind| kind == "image");
    let (images, others): (Vec<&PathBuf>, Vec<&PathBuf>) = names.iter().partition(|name| is_image(name));
    for name in others.into_iter().chain(images) {
        let path = directory.join(name);
        Disk.remove_file(&path).map_err(Error::storage("remove", &path))?;
    }
    Disk.remove_directory(directory).map_err(Error::storage("remove", directory))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::image::{Protection, Source};
    use crate::tier::Memory;

    fn save(base: &Path, rank: u32, ranks: u32, number: u64) {
        let manifest = Manifest {
            job: "job".into(),
            generation: GenerationId { number, nonce: 7 },
            rank,
            ranks,
            taken_realtime_ns: number,
            payload_bytes: 0,
            protection: Protection::Checked,
            table_crc32c: 0,
            regions: Vec::new(),
        };
        let mut memory = Memory::open(base, "job", rank, 2).unwrap();
        memory.save(manifest, &Source::new(Vec::new()), &mut |_| {}).unwrap();
    }

    #[test]
    fn parts_of_all_ranks_are_found_and_those_of_none_are_not() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(parts(home.path(), "job").unwrap(), []);
        for rank in 0..3 {
            save(home.path(), rank, 3, 1);
        }
        save(home.path(), 1, 3, 2);
        let job = home.path().join("job");
        // A directory under another rank's name, and one of a name that no rank has.
        std::fs::create_dir(job.join("rank-00007")).unwrap();
        std::fs::copy(job.join("rank-00000/slot-0.manifest"), job.join("rank-00007/slot-0.manifest")).unwrap();
        std::fs::rename(job.join("rank-00002"), job.join("rank-2")).unwrap();
        let found: Vec<(u32, u64)> = parts(home.path(), "job")
            .unwrap()
            .iter()
            .map(|part| (part.manifest.rank, part.manifest.generation.number))
            .collect();
        assert_eq!(found, [(0, 1), (1, 1), (1, 2)]);
    }

    #[test]
    fn memory_of_ranks_that_are_gone_is_given_back_unless_it_is_new_or_used() {
        let home = tempfile::tempdir().unwrap();
        for rank in 0..5 {
            save(home.path(), rank, 5, if rank == 4 { 9 } else { 1 });
        }
        let complete = GenerationId { number: 3, nonce: 0 };
        let used = Memory::open(home.path(), "job", 3, 2).unwrap();
        std::fs::write(home.path().join("job/rank-00002/notes.txt"), "a person's").unwrap();
        assert_eq!(release_beyond(home.path(), "job", 1, complete).unwrap(), 1);
        let left = |rank: u32| home.path().join(format!("job/rank-{rank:05}/slot-0.manifest")).exists();
        assert_eq!([0, 1, 2, 3, 4].map(left), [true, false, true, true, true]);
        drop(used);
        assert_eq!(release_beyond(home.path(), "job", 1, complete).unwrap(), 1);
        assert_eq!([0, 3, 4].map(left), [true, false, true]);
    }
}
