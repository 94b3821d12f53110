//! Bytes that prove and heal themselves: the image of a checkpoint, and a sidecar beside a file of any program.
//!
//! # Invariants
//! - What fails its checksums is repaired and proved, or it is an error; it is never handed out.
//! - A file that a sidecar protects is never written to: what was repaired is written beside it, proved, made durable,
//!   and renamed.
//! - Nothing here knows jobs, ranks or tiers, and nothing reads a clock: when something is written, and where to, is for
//!   the caller to say.
//! - Files of other users are opened by descriptor, without following a link of theirs.
//!
//! ```
//! use surefoot_heal::image::{Geometry, Healer, Protection, Source, fill};
//! use surefoot_heal::{Disk, Storage};
//! let folder = tempfile::tempdir()?;
//! let payload = vec![7; 100_000];
//! let geometry = Geometry::new(payload.len() as u64, Protection::Shard)?;
//! let mut image = vec![0; geometry.file_bytes()];
//! let digest = fill(&geometry, &Source::new(vec![&payload]), &mut image, &mut |_| {})?;
//! // A page that goes bad on the way to the file is repaired when it is read.
//! image[5000..6000].fill(0xEE);
//! let file = Disk.create_file(&folder.path().join("image"), image.len() as u64, false)?;
//! file.write_at(&image, 0)?;
//! let mut healer = Healer::open(geometry, &*file, digest)?;
//! let mut back = Vec::new();
//! healer.read(&mut |_, bytes| back.extend_from_slice(bytes))?;
//! assert!(back == payload && healer.tally().pages_repaired == 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod error;
pub mod framing;
pub mod image;
pub mod limits;
pub mod sidecar;
pub mod storage;

pub use error::Error;
pub use storage::{Disk, Storage, StoredFile};
