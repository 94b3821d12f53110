use serde::{Deserialize, Serialize};

/// How a source of events does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// Its last turn succeeded.
    Works,
    /// Its last turn failed; it is tried again.
    Failed,
    /// It will not be tried again in this run.
    Ended,
}

/// A word about a source of events, sent when its state changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct SourceReport {
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The source's name, such as `stall` or `checkpoint`.
    pub source: String,
    /// How it does from now on.
    pub state: SourceState,
    /// Why it failed or ended; empty while it works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}
