//! The HTTP that the watch and the controller of remedies share. Which addresses there are, and who may see or do what, each of them
//! decides for itself.
//!
//! - Listeners: [`connections`] on 127.0.0.1 with a [`socket`] in the run directory; [`listen`] at several places, over the network
//!   with [`tls`] only. [`serving`] runs one of them on a thread.
//! - Limits: [`shares`] of connections per user, [`rates`] of requests, [`bodies`] in memory; who is [`refused`] is counted.
//! - Who asks: [`who`] reads the file of tokens, certificates and users with their roles.
//! - Requests: [`guard`] refuses what the page of another site sends, [`parameters`] reads a query, [`basic`] and [`own_files`] read
//!   tokens.
//! - Answers: [`reply`], [`ApiError`], [`json`], [`page`], [`metrics`].
//!
//! # Invariants
//! - Every connection, request and body has a limit in time and size, and no user and no address takes the share of others.
//! - Over the network nothing is said without TLS.
//! - Every answer tells browsers to load nothing from elsewhere, and is not stored on the way.
//!
//! ```
//! let uri = "/api/v1/cases?limit=5".parse()?;
//! let given = surefoot_http::parameters(&uri, &["state", "limit"]).map_err(|_| "refused")?;
//! assert_eq!(given, [("limit".to_owned(), "5".to_owned())]);
//! assert!(surefoot_http::parameters(&uri, &["state"]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod api_error;
pub mod basic;
pub mod bodies;
pub mod connections;
mod error;
pub mod guard;
pub mod json;
pub mod listen;
pub mod metrics;
pub mod own_files;
pub mod page;
mod question;
pub mod rates;
pub mod refused;
pub mod reply;
pub mod serving;
pub mod shares;
pub mod socket;
pub mod tls;
#[doc(hidden)]
pub mod unconnected;
pub mod who;

pub use api_error::{ApiError, ErrorAnswer, echo};
pub use error::Error;
pub use question::parameters;
pub use reply::json_text;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks also after a panic of another thread: it leaves plain numbers behind, which are as good as before.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares two secrets in a time that does not tell where they differ.
pub fn is_same(known: &[u8], shown: &[u8]) -> bool {
    known.len() == shown.len() && known.iter().zip(shown).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
