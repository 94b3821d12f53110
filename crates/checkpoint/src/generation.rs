//! What a checkpoint says of itself: the manifest, and how it lies in files.
//!
//! # The manifest's bytes
//! | bytes | content |
//! |---|---|
//! | 0..8 | the letters `SFCKPT01` |
//! | 8..12 | length of the text, little endian |
//! | 12..16 | CRC32C of the text, little endian |
//! | 16.. | the text: one JSON object, [`Manifest`] |
//!
//! Readers take any length up to [`MANIFEST_BYTES_MAX`] and ignore what follows the text.

use crate::image::{Geometry, PAGE_BYTES, Protection, crc32c};
use crate::{Error, Storage, StoredFile};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The first bytes of a manifest; the last two digits are the version of the format.
pub const MAGIC: [u8; 8] = *b"SFCKPT01";

/// The longest text of a manifest that is written or read.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// The most regions of one rank.
pub const REGIONS_MAX: usize = 4096;

/// The longest name of a job or region.
pub const NAME_BYTES_MAX: usize = 128;

/// Bytes before the text.
const PRELUDE_BYTES: usize = 16;

/// Which checkpoint of a job: ranks agree on both numbers before they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    pub regions: Vec<RegionEntry>,
}

impl Manifest {
    /// Its bytes, filled up with zeros to whole pages, so that a direct file takes them.
    ///
    /// # Errors
    /// [`Error::Option`] when there are too many regions or names are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let bytes = self.check().and_then(|()| frame(MAGIC, self));
        bytes.map_err(|why| Error::Option { option: "regions", why })
    }

    /// Reads a manifest; bytes from anywhere are taken.
    ///
    /// # Errors
    /// One sentence about what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Manifest = unframe(MAGIC, bytes)?;
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
        Manifest::from_bytes(&framed_bytes(file).map_err(|error| format!("cannot read it: {error}"))?)
    }

    /// The geometry of its image.
    ///
    /// # Errors
    /// [`Error::Option`] for an impossible payload.
    pub fn geometry(&self) -> Result<Geometry, Error> {
        Geometry::new(self.payload_bytes, self.protection)
    }

    fn check(&self) -> Result<(), String> {
        if self.regions.len() > REGIONS_MAX {
            return Err(format!("it has {} regions, {REGIONS_MAX} are possible", self.regions.len()));
        }
        let names = self.regions.iter().map(|region| region.name.as_str()).chain([self.job.as_str()]);
        for name in names {
            check_name(name)?;
        }
        let mut seen = std::collections::BTreeSet::new();
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
        unframe(Commit::MAGIC, &framed_bytes(file).map_err(|error| format!("cannot read it: {error}"))?)
    }
}

/// Letters, length, checksum, text, filled up to whole pages.
pub(crate) fn frame(magic: [u8; 8], content: &impl Serialize) -> Result<Vec<u8>, String> {
    let text = serde_json::to_vec(content).map_err(|error| format!("it has no text form: {error}"))?;
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(format!("the manifest has {} bytes, {MANIFEST_BYTES_MAX} are possible", text.len()));
    }
    let mut bytes = Vec::with_capacity((PRELUDE_BYTES + text.len()).next_multiple_of(PAGE_BYTES));
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crc32c(&text).to_le_bytes());
    bytes.extend_from_slice(&text);
    bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
    Ok(bytes)
}

/// What [`frame`] made, or one sentence about what is wrong with it.
pub(crate) fn unframe<T: for<'a> Deserialize<'a>>(magic: [u8; 8], bytes: &[u8]) -> Result<T, String> {
    let (prelude, text) = bytes.split_at_checked(PRELUDE_BYTES).ok_or("it is shorter than a manifest's first line")?;
    let word = |at: usize| u32::from_le_bytes([prelude[at], prelude[at + 1], prelude[at + 2], prelude[at + 3]]);
    if prelude[..6] != magic[..6] {
        return Err("it is not a manifest".into());
    }
    if prelude[6..8] != magic[6..] {
        let version = String::from_utf8_lossy(&prelude[6..8]).into_owned();
        return Err(format!("it has version {version:?} of the format; this program knows 01 only"));
    }
    let length = word(8) as usize;
    if length > MANIFEST_BYTES_MAX || length > text.len() {
        return Err(format!("it says that it has {length} bytes, {} are there", text.len()));
    }
    let text = &text[..length];
    if crc32c(text) != word(12) {
        return Err("its checksum is wrong".into());
    }
    serde_json::from_slice(text).map_err(|error| format!("it cannot be read: {error}"))
}

fn read_framed(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>, Error> {
    let file = storage.open_file(path, false).map_err(Error::storage("open", path))?;
    framed_bytes(&*file).map_err(Error::storage("read", path))
}

/// What may be a manifest or a commit, in an open file.
fn framed_bytes(file: &dyn StoredFile) -> io::Result<Vec<u8>> {
    let limit = (PRELUDE_BYTES + MANIFEST_BYTES_MAX).next_multiple_of(PAGE_BYTES) as u64;
    let mut bytes = vec![0; file.length()?.min(limit) as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Names of jobs and regions become file names and lines of text: letters, digits, and `. _ - / : [ ]` inside.
///
/// # Errors
/// One sentence about what is wrong with it.
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
        }
    }

    #[test]
    fn a_manifest_comes_back_and_each_fault_has_its_word() {
        let bytes = manifest().to_bytes().unwrap();
        assert_eq!(bytes.len() % PAGE_BYTES, 0);
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
        assert!(Manifest::from_bytes(&[]).unwrap_err().contains("shorter"));
        for wrong in [
            Manifest { rank: 2, ..manifest() },
            Manifest { payload_bytes: 13, ..manifest() },
            Manifest { job: "../x".into(), ..manifest() },
            Manifest { job: "a\nb".into(), ..manifest() },
            Manifest { regions: vec![RegionEntry { name: "x".into(), bytes: 6 }; 2], ..manifest() },
            Manifest {
                regions: vec![RegionEntry { name: "x".into(), bytes: 0 }; 5000],
                payload_bytes: 0,
                ..manifest()
            },
        ] {
            assert!(wrong.to_bytes().is_err(), "{wrong:?}");
        }
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
