use crate::{Capability, Completeness, CoreLedger, Gap, HostDescription, SelfCost, Untimed, WhoReport};
use serde::{Deserialize, Serialize};

/// One window of all watched cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Start of the window, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End of the window, `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// The ledger of each watched core that was online, ascending.
    pub cores: Vec<CoreLedger>,
    /// Interrupts that were counted but could not be timed.
    pub untimed: Vec<Untimed>,
    /// The kernel's own counters beside the probes'.
    pub completeness: Vec<Completeness>,
    /// What watching cost.
    pub cost: SelfCost,
}

/// Something the reader of the data must know: a core went offline, the history's disk is full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What, in one sentence.
    pub text: String,
}

/// Everything that flows from the sources to the history, the page and the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The host; the first event of every stream.
    Host(HostDescription),
    /// What works on this host; follows the host.
    Capabilities {
        /// One row per capability.
        capabilities: Vec<Capability>,
    },
    /// The ledgers of one window.
    Window(Window),
    /// A gap, after its window.
    Gap(Gap),
    /// Who interrupted the watched cores so far; replaces the one before it.
    Who(WhoReport),
    /// A word about the stream itself.
    Notice(Notice),
}
