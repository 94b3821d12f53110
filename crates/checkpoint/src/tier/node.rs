//! What all ranks of a job keep in memory on this node, whichever rank asks: for a restart of ranks that ran elsewhere
//! before, or of another number of them.

use super::memory::{MANIFESTS, SLOTS_MAX, is_complete};
use crate::generation::{Age, GenerationId, Manifest};
use crate::{Disk, Error, Storage};
use std::io;
use std::path::{Path, PathBuf};

/// What the directories of ranks begin with.
const OWN: &str = "rank-";
const PARTNER: &str = "partner-";
const PARITY: &str = "parity-";

/// Who a part in memory is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptFor {
    /// The rank that keeps it.
    Itself,
    /// Its partner.
    Partner,
    /// The ranks that share parity: rows of it, under the number of the rank that keeps them.
    Group,
}

impl KeptFor {
    fn prefix(self) -> &'static str {
        match self {
            KeptFor::Itself => OWN,
            KeptFor::Partner => PARTNER,
            KeptFor::Group => PARITY,
        }
    }
}

/// One rank's part of a generation in the memory of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePart {
    pub(crate) kept_for: KeptFor,
    pub(crate) manifest: Manifest,
    pub(crate) image: PathBuf,
    /// Whether it is marked as one that all ranks had.
    pub(crate) is_complete: bool,
}

/// What a job's directory in the memory of this node has, that which ranks keep of their own first. What is no part is passed over.
///
/// # Errors
/// [`Error::Storage`] when the directory cannot be listed; that there is none gives no parts.
pub(crate) fn parts(of_job: &Path, job: &str) -> Result<Vec<NodePart>, Error> {
    let mut found = Vec::new();
    let directories = directories(of_job)?;
    for kept_for in [KeptFor::Itself, KeptFor::Partner, KeptFor::Group] {
        let of_kind = directories.iter().filter_map(|name| Some((name, rank_of(name, kept_for.prefix())?)));
        for (directory, rank) in of_kind {
            for slot in slots(directory) {
                let of = |kind: &str| directory.join(format!("slot-{slot}.{kind}"));
                let manifest = MANIFESTS.iter().find_map(|kind| Manifest::read(&Disk, &of(kind)).ok());
                let is_here = |manifest: &Manifest| {
                    manifest.job == job && (kept_for == KeptFor::Partner || manifest.rank == rank)
                };
                let is_complete = is_complete(directory, slot);
                let part = |manifest| NodePart { kept_for, manifest, image: of("image"), is_complete };
                found.extend(manifest.filter(is_here).map(part));
            }
        }
    }
    Ok(found)
}

/// The slots of a rank that have a manifest of any name.
fn slots(directory: &Path) -> Vec<usize> {
    let names = Disk.list_directory(directory).unwrap_or_default();
    let has_manifest = |slot: &usize| {
        MANIFESTS.iter().any(|kind| names.iter().any(|name| name.as_os_str() == format!("slot-{slot}.{kind}").as_str()))
    };
    (0..SLOTS_MAX).filter(has_manifest).collect()
}

/// Whether a job's directory in the memory of this node holds any checkpoint newer than `after` that all ranks of its job had,
/// whichever ranks these were.
///
/// # Errors
/// [`Error::Storage`] when the job's directory cannot be listed.
pub(crate) fn has_complete(of_job: &Path, after: Age) -> Result<bool, Error> {
    // One whose manifests cannot be read may be newer than any.
    let is_newer = |directory: &Path, slot: usize| {
        let read = |kind: &&str| Manifest::read(&Disk, &directory.join(format!("slot-{slot}.{kind}"))).ok();
        after.generation.number == 0 || MANIFESTS.iter().find_map(read).is_none_or(|manifest| manifest.age() > after)
    };
    let directories = directories(of_job)?;
    expect_no_links(of_job)?;
    let is_it = |directory: &Path, slot: usize| is_complete(directory, slot) && is_newer(directory, slot);
    Ok(directories.iter().any(|directory| (0..SLOTS_MAX).any(|slot| is_it(directory, slot))))
}

/// Gives back the memory of ranks that do not run on this node any more, as far as nobody uses it and all in it is older
/// than `complete`. Returns how many directories went.
pub(crate) fn release_unused(base: &Path, job: &str, complete: GenerationId) -> Result<usize, Error> {
    let mut released = 0;
    for directory in directories(&base.join(job))? {
        let rank = [OWN, PARTNER, PARITY].iter().find_map(|prefix| rank_of(&directory, prefix));
        if rank.is_some() && is_older(&directory, complete) {
            released += usize::from(remove(&directory)?);
        }
    }
    Ok(released)
}

fn directories(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    match Disk.list_directory(directory) {
        Ok(names) => Ok(names.into_iter().map(|name| directory.join(name)).filter(|path| is_own(path)).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::storage("list", directory)(error)),
    }
}

/// Refuses a link where a rank's memory should be: there may be checkpoints behind it, and it is not followed.
fn expect_no_links(directory: &Path) -> Result<(), Error> {
    let names = Disk.list_directory(directory).unwrap_or_default();
    let of_rank = |path: &PathBuf| [OWN, PARTNER, PARITY].iter().any(|prefix| rank_of(path, prefix).is_some());
    let links = names.iter().map(|name| directory.join(name)).filter(of_rank);
    match links.into_iter().find(|path| path.is_symlink()) {
        Some(link) => Disk.expect_own_directory(&link).map_err(Error::storage("look into", &link)),
        None => Ok(()),
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
            epoch: 0,
        };
        let mut memory = Memory::open(base, "job", rank, 2).unwrap();
        memory.save(manifest, &Source::new(Vec::new()), &mut |_| {}).unwrap();
    }

    #[test]
    fn parts_of_all_ranks_are_found_and_those_of_none_are_not() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(parts(&home.path().join("job"), "job").unwrap(), []);
        for rank in 0..3 {
            save(home.path(), rank, 3, 1);
        }
        save(home.path(), 1, 3, 2);
        let job = home.path().join("job");
        // A directory under another rank's name, and one of a name that no rank has.
        std::fs::create_dir(job.join("rank-00007")).unwrap();
        std::fs::copy(job.join("rank-00000/slot-0.manifest"), job.join("rank-00007/slot-0.manifest")).unwrap();
        std::fs::rename(job.join("rank-00002"), job.join("rank-2")).unwrap();
        let found: Vec<(u32, u64)> = parts(&home.path().join("job"), "job")
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
        let running = Memory::open(home.path(), "job", 0, 2).unwrap();
        let used = Memory::open(home.path(), "job", 3, 2).unwrap();
        std::fs::write(home.path().join("job/rank-00002/notes.txt"), "a person's").unwrap();
        assert_eq!(release_unused(home.path(), "job", complete).unwrap(), 1);
        let left = |rank: u32| home.path().join(format!("job/rank-{rank:05}/slot-0.manifest")).exists();
        assert_eq!([0, 1, 2, 3, 4].map(left), [true, false, true, true, true]);
        drop(used);
        assert_eq!(release_unused(home.path(), "job", complete).unwrap(), 1);
        assert_eq!([0, 3, 4].map(left), [true, false, true]);
        drop(running);
    }
}
