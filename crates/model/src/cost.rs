use serde::{Deserialize, Serialize};

/// What one eBPF program cost in a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ProbeCost {
    /// The program's name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Time inside it, extrapolated from one run in 64; nanoseconds.
    pub total_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that core.
    pub missed: u64,
}

/// What Surefoot itself cost in a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct SelfCost {
    /// Time in each eBPF program.
    pub probes: Vec<ProbeCost>,
    /// Processor time of this process, nanoseconds.
    pub process_cpu_ns: u64,
    /// Resident memory of this process.
    pub resident_bytes: u64,
    /// Memory of the eBPF maps.
    pub map_bytes: u64,
    /// Events that were overwritten before they could be read.
    pub dropped: u64,
    /// Snapshots of a core that could not be read consistently and were skipped.
    pub torn: u64,
    /// Ends of contexts on watched cores that the kernel did not report: exits of interrupts, and switches. The next
    /// event there, or the next tick, shows them; until then the time counts for what ran before.
    #[serde(default)]
    pub unreported: u64,
    /// Interrupts of watched cores that the kernel counted and ran no program for, at least: each is confirmed by the next
    /// window. Their time counts as the work that they interrupted. Some guests do not let their agent's threads be traced.
    #[serde(default)]
    pub untraced_interrupts: u64,
    /// Time that was moved between parts of ledgers so that they add up: a context that was read before it was known to be
    /// another one. Microseconds, or up to 1 % without eBPF; where it is more, the core's ledger is in [`crate::Window::faulty`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub balanced_ns: u64,
    /// Time that turned out after the end of its window to have been taken from somebody who waited. It stays counted as it
    /// was told, as work or as nobody's loss.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_late_ns: u64,
    /// Rows whose single occurrences lasted longer than all of them together, which no present source says: they come from
    /// recordings of earlier releases. They are cut down to the whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub capped_rows: u64,
    /// Inter-processor interrupts that this process raised on watched cores.
    pub self_interrupts: u64,
    /// Inter-processor interrupts that the watched cores received while the programs were attached, and detached where
    /// that is over: the kernel patches its text for each tracepoint. Others may have raised some of them. Only in the
    /// cost that begins with attaching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_interrupts: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SelfCost {
    /// Time inside all eBPF programs, nanoseconds.
    pub fn probes_ns(&self) -> u64 {
        self.probes.iter().fold(0, |sum, probe| sum.saturating_add(probe.total_ns))
    }
}
