//! Moments before those that are held in memory: where they come from is for the caller to say.

use surefoot_model::{CoreLedger, FaultySum, Finding, Gap};

/// Which moment of the history, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The span in which this time lies, or the last one before it.
    At(i64),
    /// The last span that begins before this time.
    Before(i64),
    /// The first span that begins at this time or later.
    From(i64),
}

/// A span of the history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Its start, nanoseconds since 1970.
    pub start_realtime_ns: i64,
    /// Its end, nanoseconds since 1970.
    pub end_realtime_ns: i64,
    /// The ledger of each core.
    pub cores: Vec<CoreLedger>,
    /// Cores whose ledgers could not be true.
    pub faulty: Vec<FaultySum>,
    /// Gaps that began in it, longest first.
    pub gaps: Vec<Gap>,
    /// Findings that held then.
    pub findings: Vec<Finding>,
}

/// Reads the history; `Ok(None)` where it has no such span.
///
/// # Errors
/// A sentence that says why it cannot be read.
pub type Past = Box<dyn FnMut(Want) -> Result<Option<Seen>, String> + Send>;
