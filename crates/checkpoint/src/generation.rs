//! What a checkpoint says of itself: the manifest, and how it lies in files.
//!
//! # The manifest's bytes
//! The letters `SFCKPT01`, length, checksum and text as in [`surefoot_heal::framing`]; the text is one JSON object,
//! [`Manifest`], of at most [`MANIFEST_BYTES_MAX`] bytes.
//!
//! With more than [`REGIONS_PLAIN_MAX`] regions the letters are `SFCKPT02`, the text may have [`MANIFEST_LONG_BYTES_MAX`]
//! bytes, and its list of regions is one string, see the module `table`.

mod table;

use crate::image::{Geometry, Protection};
use crate::{Error, Storage, StoredFile};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use surefoot_heal::framing::Framing;

/// The first bytes of a manifest; the last two digits are the version of the format.
pub const MAGIC: [u8; 8] = *b"SFCKPT01";

/// The longest text of a manifest that is written or read.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// The first bytes of a manifest with more regions than the first version takes.
pub const MAGIC_LONG: [u8; 8] = *b"SFCKPT02";

/// The longest text of such a manifest.
pub const MANIFEST_LONG_BYTES_MAX: usize = 64 << 20;

/// The most regions of one rank.
pub const REGIONS_MAX: usize = 1_000_000;

/// The most regions that a manifest of the first version has.
pub const REGIONS_PLAIN_MAX: usize = 4096;

/// The longest name of a job or region.
pub const NAME_BYTES_MAX: usize = 128;

/// Which checkpoint of a job: ranks agree on both numbers before they write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GenerationId {
    /// Rises by one with each checkpoint of a job.
    pub number: u64,
    /// Drawn anew by rank 0 for each, so that parts of two runs with the same number are never taken for one.
    pub nonce: u64,
}

/// A region of memory, or a routed file, within the payload of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionEntry {
    /// Its name, unique within the rank.
    pub name: String,
    /// Its length; regions follow each other in the payload without a hole.
    pub bytes: u64,
}

/// What one rank wrote for one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: String,
    /// Which checkpoint.
    pub generation: GenerationId,
    /// Who wrote it.
    pub rank: u32,
    /// How many ranks the job had.
    pub ranks: u32,
    /// `CLOCK_REALTIME` at the agreement, nanoseconds; the same for all ranks.
    pub taken_realtime_ns: u64,
    /// Length of the payload: the sum of the regions.
    pub payload_bytes: u64,
    /// What protects the payload.
    pub protection: Protection,
    /// CRC32C of the image's table of checksums, which binds the image to this manifest.
    pub table_crc32c: u32,
    /// What the payload consists of, in order.
    #[serde(with = "table")]
    pub regions: Vec<RegionEntry>,
    /// The run that took it: see [`Age`]. 0 where an older version of this library wrote it.
    #[serde(default)]
    pub epoch: u64,
}

/// Which of two checkpoints of a job is the newer one. The run decides before the number: a run that found nothing of
/// those before it, because it had other nodes, began to count from 1 again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// When its run began, `CLOCK_REALTIME` nanoseconds on the rank whose clock is ahead; more than that of every
    /// checkpoint that this run found, wherever the clock was set to.
    pub epoch: u64,
    /// Which one of the run.
    pub generation: GenerationId,
}

impl Age {
    /// Whether it is of a run that was completed, or of one before it, and so nothing to go on from. `completed` is the age
    /// of the mark, `Age::default()` without one.
    pub(crate) fn is_past(self, completed: Age) -> bool {
        completed.generation.number > 0 && self <= completed
    }
}

/// A generation as its parts describe it. Parts that differ in any of this are never put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The run first: its numbers say nothing of those of other runs.
    pub(crate) epoch: u64,
    pub(crate) generation: GenerationId,
    pub(crate) taken_realtime_ns: u64,
    pub(crate) ranks: u32,
}

impl Key {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Key {
            epoch: manifest.epoch,
            generation: manifest.generation,
            taken_realtime_ns: manifest.taken_realtime_ns,
            ranks: manifest.ranks,
        }
    }

    /// How new it is.
    pub(crate) fn age(&self) -> Age {
        Age { epoch: self.epoch, generation: self.generation }
    }
}

impl Manifest {
    /// How new it is.
    pub fn age(&self) -> Age {
        Age { epoch: self.epoch, generation: self.generation }
    }

    /// Its bytes, filled up with zeros to whole pages, so that a direct file takes them.
    ///
    /// # Errors
    /// [`Error::Option`] when there are too many regions or names are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let magic = if self.regions.len() > REGIONS_PLAIN_MAX { MAGIC_LONG } else { MAGIC };
        let bytes = self.check().and_then(|()| frame(magic, self));
        bytes.map_err(|why| Error::Option { option: "regions", why })
    }

    /// Reads a manifest; bytes from anywhere are taken.
    ///
    /// # Errors
    /// One sentence about what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let magic = if bytes.starts_with(&MAGIC_LONG) { MAGIC_LONG } else { MAGIC };
        let manifest: Manifest = unframe(magic, bytes)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Reads the manifest in a file.
    ///
    /// # Errors
    /// [`Error::Storage`] when the file cannot be read, [`Error::Damaged`] when it is no manifest.
    pub fn read(storage: &dyn Storage, path: &Path) -> Result<Self, Error> {
        let bytes = read_framed(storage, path)?;
        Manifest::from_bytes(&bytes).map_err(|why| Error::Damaged { path: path.to_owned(), why })
    }

    /// Reads the manifest in an open file.
    ///
    /// # Errors
    /// One sentence about what is wrong with it.
    pub(crate) fn of_file(file: &dyn StoredFile) -> Result<Self, String> {
        Manifest::from_bytes(
            &framed_bytes(file).map_err(|error| format!("cannot read it: {}", surefoot_foreign::said(&error)))?,
        )
    }

    /// The geometry of its image.
    ///
    /// # Errors
    /// [`Error::Option`] for an impossible payload.
    pub fn geometry(&self) -> Result<Geometry, Error> {
        Ok(Geometry::new(self.payload_bytes, self.protection)?)
    }

    fn check(&self) -> Result<(), String> {
        if self.regions.len() > REGIONS_MAX {
            return Err(format!("it has {} regions, {REGIONS_MAX} are possible", self.regions.len()));
        }
        let names = self.regions.iter().map(|region| region.name.as_str()).chain([self.job.as_str()]);
        for name in names {
            check_name(name)?;
        }
        let mut seen = std::collections::HashSet::with_capacity(self.regions.len());
        if let Some(twice) = self.regions.iter().find(|region| !seen.insert(region.name.as_str())) {
            return Err(format!("the region {:?} is there twice", twice.name));
        }
        let sum = self.regions.iter().try_fold(0u64, |sum, region| sum.checked_add(region.bytes));
        if sum != Some(self.payload_bytes) {
            return Err(format!("its regions do not add up to its payload of {} bytes", self.payload_bytes));
        }
        if self.rank >= self.ranks {
            return Err(format!("it is of rank {} of {}", self.rank, self.ranks));
        }
        Geometry::new(self.payload_bytes, self.protection).map(drop).map_err(|error| error.to_string())
    }
}

/// The mark of rank 0 that all ranks' parts of a generation are on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Which checkpoint.
    pub generation: GenerationId,
    /// How many ranks it has.
    pub ranks: u32,
    /// The run that took it, as in its manifests.
    #[serde(default)]
    pub epoch: u64,
}

impl Commit {
    /// The first bytes of a commit.
    const MAGIC: [u8; 8] = *b"SFCOMM01";

    /// Its bytes, as those of a manifest.
    ///
    /// # Errors
    /// [`Error::Option`]; it cannot happen with a structure of numbers.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        frame(Commit::MAGIC, self).map_err(|why| Error::Option { option: "commit", why })
    }

    /// Reads the commit in a file.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn read(storage: &dyn Storage, path: &Path) -> Result<Self, Error> {
        let bytes = read_framed(storage, path)?;
        unframe(Commit::MAGIC, &bytes).map_err(|why| Error::Damaged { path: path.to_owned(), why })
    }

    /// Reads the commit in an open file.
    ///
    /// # Errors
    /// One sentence about what is wrong with it.
    pub(crate) fn of_file(file: &dyn StoredFile) -> Result<Self, String> {
        unframe(
            Commit::MAGIC,
            &framed_bytes(file).map_err(|error| format!("cannot read it: {}", surefoot_foreign::said(&error)))?,
        )
    }
}

/// A manifest or a mark in a version of its format that this release does not know. That is no damage: another release wrote it,
/// and what it stands for is not overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherVersion {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
    /// How new its checkpoint is, where it says that as the versions of today do.
    pub(crate) age: Option<Age>,
}

impl OtherVersion {
    /// The manifest in a file, if it is one of another version.
    pub(crate) fn of_manifest(storage: &dyn Storage, path: &Path) -> Option<Self> {
        OtherVersion::among(storage, path, &[MAGIC, MAGIC_LONG])
    }

    /// The commit in a file, if it is one of another version.
    pub(crate) fn of_commit(storage: &dyn Storage, path: &Path) -> Option<Self> {
        OtherVersion::among(storage, path, &[Commit::MAGIC])
    }

    /// What is in a file, if it begins as one of these does and is of none of their versions.
    pub(crate) fn among(storage: &dyn Storage, path: &Path, known: &[[u8; 8]]) -> Option<Self> {
        let bytes = read_framed(storage, path).ok()?;
        let magic: [u8; 8] = bytes.get(..MAGIC.len())?.try_into().ok()?;
        if known.contains(&magic) || !known.iter().any(|known| known[..6] == magic[..6]) {
            return None;
        }
        let told: Option<ToldAge> = unframe(magic, &bytes).ok();
        let age = told.map(|told| Age { epoch: told.epoch, generation: told.generation });
        Some(OtherVersion { path: path.to_owned(), version: String::from_utf8_lossy(&magic[6..]).into_owned(), age })
    }

    /// Why it is left alone.
    pub(crate) fn said(&self) -> String {
        format!(
            "{} has version {:?} of the format, which another release of Surefoot wrote",
            self.path.display(),
            self.version
        )
    }
}

/// What a manifest or a commit of any version is expected to say.
#[derive(Deserialize)]
struct ToldAge {
    generation: GenerationId,
    #[serde(default)]
    epoch: u64,
}

/// A manifest or what is framed as one, by its letters.
pub(crate) fn framing(magic: [u8; 8]) -> Framing {
    let text_bytes_max = if magic == MAGIC_LONG { MANIFEST_LONG_BYTES_MAX } else { MANIFEST_BYTES_MAX };
    Framing { magic, name: "manifest", text_bytes_max }
}

pub(crate) fn frame(magic: [u8; 8], content: &impl Serialize) -> Result<Vec<u8>, String> {
    framing(magic).write(content)
}

/// What [`frame`] made, or one sentence about what is wrong with it.
pub(crate) fn unframe<T: for<'a> Deserialize<'a>>(magic: [u8; 8], bytes: &[u8]) -> Result<T, String> {
    framing(magic).read(bytes)
}

pub(crate) fn read_framed(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>, Error> {
    let file = storage.open_file(path, false).map_err(Error::storage("open", path))?;
    framed_bytes(&*file).map_err(Error::storage("read", path))
}

/// What may be a manifest or a commit, in an open file.
pub(crate) fn framed_bytes(file: &dyn StoredFile) -> io::Result<Vec<u8>> {
    let length = file.length()?;
    let mut magic = [0; MAGIC.len()];
    if length > MANIFEST_BYTES_MAX as u64 {
        file.read_at(&mut magic, 0)?;
    }
    let mut bytes = vec![0; length.min(framing(magic).bytes_max() as u64) as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Names of jobs and regions become file names and lines of text: letters, digits, and `. _ - / : [ ]` inside.
///
/// # Errors
/// One sentence about what is wrong with it.
pub fn check_job_name(name: &str) -> Result<(), String> {
    check_name(name)?;
    // What a job keeps lies in its directory under such names, and jobs lie in each other where their names have a `/`.
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_taken = |part: &str| match part.split_once('-') {
        Some(("rank" | "partner" | "parity" | "files", number)) => digits(number),
        Some((number, nonce)) => {
            digits(number) && nonce.len() == 16 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        None => TAKEN_NAMES.contains(&part),
    };
    match name.split('/').find(|part| is_taken(part)) {
        Some(part) => Err(format!("the name {name:?} has the part {part:?}, by which a job's own files go")),
        None => Ok(()),
    }
}

/// Files that a job keeps in its directory beside those with a number.
const TAKEN_NAMES: [&str; 5] = ["nodes", "budget", "completed", "settings.json", "journal.jsonl"];

/// Checks a name: of a job, a region or a routed file.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/[]".contains(&byte);
    match name {
        "" => Err("a name is empty".into()),
        _ if name.len() > NAME_BYTES_MAX => {
            Err(format!("the name {name:.20}... is longer than {NAME_BYTES_MAX} bytes"))
        }
        _ if !name.bytes().all(is_allowed) => {
            Err(format!("the name {name:?} has characters other than letters, digits and ._-:/[]"))
        }
        _ if name.split('/').any(|part| part.is_empty() || part == "." || part == "..") => {
            Err(format!("the name {name:?} has a part that is empty, '.' or '..'"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> Manifest {
        Manifest {
            job: "job".into(),
            generation: GenerationId { number: 3, nonce: u64::MAX },
            rank: 1,
            ranks: 2,
            taken_realtime_ns: 5,
            payload_bytes: 12,
            protection: Protection::Shard,
            table_crc32c: 7,
            regions: vec![
                RegionEntry { name: "model/weights[0]".into(), bytes: 10 },
                RegionEntry { name: "step".into(), bytes: 2 },
            ],
            epoch: 9,
        }
    }

    #[test]
    fn a_manifest_comes_back_and_each_fault_has_its_word() {
        let bytes = manifest().to_bytes().unwrap();
        assert_eq!(bytes.len() % crate::image::PAGE_BYTES, 0);
        assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest());
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Manifest::from_bytes(&bytes).unwrap_err()
        };
        assert!(with(0, b'X').contains("not a manifest"));
        assert!(with(7, b'9').contains("version \"09\""), "{}", with(7, b'9'));
        assert!(with(10, 0xFF).contains("bytes"));
        assert!(with(30, 0).contains("checksum"));
        assert!(Manifest::from_bytes(&[]).unwrap_err().contains("empty"));
        for wrong in [
            Manifest { rank: 2, ..manifest() },
            Manifest { payload_bytes: 13, ..manifest() },
            Manifest { job: "../x".into(), ..manifest() },
            Manifest { job: "a\nb".into(), ..manifest() },
            Manifest { regions: vec![RegionEntry { name: "x".into(), bytes: 6 }; 2], ..manifest() },
            Manifest {
                regions: vec![RegionEntry { name: "x".into(), bytes: 0 }; REGIONS_MAX + 1],
                payload_bytes: 0,
                ..manifest()
            },
        ] {
            assert!(wrong.to_bytes().is_err(), "{wrong:?}");
        }
    }

    /// What AdamW keeps of a model with a third as many parameters.
    #[test]
    fn a_million_regions_have_a_small_table() {
        let names = ["exp_avg", "exp_avg_sq", "step"];
        let of = |number: usize| RegionEntry {
            name: format!("optimizer/state/{}/{}", number / 3, names[number % 3]),
            bytes: if number % 3 == 2 { 4 } else { 4096 + (number as u64 / 300) * 64 },
        };
        for (count, bytes_max) in [(REGIONS_PLAIN_MAX + 1, 70_000), (REGIONS_MAX, 16 << 20)] {
            let regions: Vec<RegionEntry> = (0..count).map(of).collect();
            let payload_bytes = regions.iter().map(|region| region.bytes).sum();
            let long = Manifest { regions, payload_bytes, ..manifest() };
            let bytes = long.to_bytes().unwrap();
            assert!(bytes.starts_with(&MAGIC_LONG) && bytes.len() <= bytes_max, "{} bytes of {count}", bytes.len());
            assert!(Manifest::from_bytes(&bytes).unwrap() == long);
        }
        assert!(manifest().to_bytes().unwrap().starts_with(&MAGIC), "what the first version can say it says");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..300) {
            let _ = Manifest::from_bytes(&bytes);
            let good = manifest().to_bytes().unwrap();
            let mut mixed = good[..cut.min(good.len())].to_vec();
            mixed.extend(bytes);
            if let Ok(read) = Manifest::from_bytes(&mixed) {
                prop_assert_eq!(read, manifest());
            }
        }
    }
}
