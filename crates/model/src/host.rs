use serde::{Deserialize, Serialize};
use std::fmt;

/// A logical processor, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who made the processor, as far as the verdict depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// Counts SMIs in MSR 0x34 on every core.
    Intel,
    /// Counts SMIs in the `ls_smi_rx` performance event; gives no time for them.
    Amd,
    /// No known SMI counter.
    Other,
}

/// What stays true about a host while it is watched; opens every recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct HostDescription {
    /// The node name, as `uname -n` prints it.
    pub hostname: String,
    /// The kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The processor's model name.
    pub processor: String,
    /// Who made the processor.
    pub vendor: Vendor,
    /// The hypervisor's name from CPUID, or `None` on bare metal.
    pub hypervisor: Option<String>,
    /// The cores that are being watched, ascending.
    pub cpus: Vec<CpuId>,
    /// The workload that preemption is counted against, as the user named it; empty if none.
    pub workload: String,
    /// Gaps from this length on are reported, nanoseconds; what is shorter was not looked for.
    #[serde(default)]
    pub gap_threshold_ns: u64,
    /// Where the numbers come from: `eBPF (BTF)`, `eBPF (plain tracepoints)` or `kernel counters`.
    pub source: String,
    /// What is missing here and how to get it, one line; empty when nothing is.
    pub missing: String,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` when watching began, nanoseconds.
    pub realtime_offset_ns: i64,
}

impl HostDescription {
    /// Whether single interruptions are seen. The kernel's counters have sums in steps of a tick alone: a zero of theirs
    /// says nothing.
    pub fn is_traced(&self) -> bool {
        self.source.starts_with("eBPF")
    }
}
