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

use serde::{Deserialize, Serialize};

/// The first bytes of a manifest; the last two digits are the version of the format.
pub const MAGIC: [u8; 8] = *b"SFCKPT01";

/// The longest text of a manifest that is written or read.
pub const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// The most regions of one rank.
pub const REGIONS_MAX: usize = 4096;

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
    /// CRC32C of its bytes.
    pub crc32c: u32,
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
    /// How the payload is protected: name of the layout, see the `image` module.
    pub layout: String,
    /// What the payload consists of, in order.
    pub regions: Vec<RegionEntry>,
}
