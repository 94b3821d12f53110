//! What was seen, kept: recordings that replay anywhere, and the history of one host.
//!
//! - [`recording`] writes a stream of [`surefoot_model::Event`]s to one file and reads it back on any machine.
//! - [`history`] keeps what was seen of one host in SQLite: rolled-up windows, the longest gaps, notices, findings, and what
//!   rooms record.
//! - [`cases`] keeps alerts, cases and the audit trail of the remedies, in SQLite or PostgreSQL.
//! - [`rasdaemon`] gives the rows of rasdaemon's database.
//!
//! # Invariants
//! - A recording gives back exactly the events that went in, or a prefix of them and a clear word about the rest.
//! - What the history has committed survives a full disk and the sudden death of the process.
//! - Every file, buffer and answer has a limit. What a limit drops is counted.
//! - No file of the user's is ever deleted or moved; what cannot be read is refused by name.
//!
//! ```
//! use surefoot_model::{Event, Notice};
//! use surefoot_store::recording::{End, Existing, Reader, Writer};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("night.surefoot");
//! let event = Event::Notice(Notice { at_ns: 5, text: "core 3 went offline".into() });
//!
//! let mut writer = Writer::create(&path, Existing::Refuse)?;
//! writer.append(&event)?;
//! writer.finish()?;
//!
//! let mut reader = Reader::open(&path)?;
//! assert_eq!(reader.by_ref().collect::<Vec<_>>(), [event]);
//! assert_eq!(reader.end(), End::Complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod cases;
mod database;
mod error;
mod file_kind;
pub mod history;
pub mod output;
pub mod rasdaemon;
pub mod recording;
pub mod shards;

pub use error::{Error, Kept, Result};
