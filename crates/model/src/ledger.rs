use crate::{Cause, CpuId, Histogram};
use serde::{Deserialize, Serialize};

/// What one cause took from one core in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
    /// How often it happened.
    pub count: u64,
    /// Time taken, nested causes counted once, under the innermost; nanoseconds.
    pub total_ns: u64,
    /// The longest single occurrence since watching began, up to the end of the window; nanoseconds.
    pub max_ns: u64,
    /// The part of `total_ns` that fell while the core was idle and so delayed nobody; nanoseconds.
    pub while_idle_ns: u64,
    /// The durations, where the source knows them one by one.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub histogram: Histogram,
}

fn is_empty(histogram: &Histogram) -> bool {
    histogram.0.is_empty()
}

impl Lost {
    /// A row without a histogram, none of it while idle.
    pub fn new(cause: Cause, count: u64, total_ns: u64, max_ns: u64) -> Self {
        Lost { cause, count, total_ns, max_ns, while_idle_ns: 0, histogram: Histogram::default() }
    }
}

/// Where the time of one core went in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreLedger {
    /// The core.
    pub cpu: CpuId,
    /// Length of the window on this core.
    pub wall_ns: u64,
    /// Nothing to run.
    pub idle_ns: u64,
    /// Tasks in user mode.
    pub user_ns: u64,
    /// The kernel on behalf of user tasks.
    pub kernel_ns: u64,
    /// Time taken from the core's work, by cause, largest first.
    pub lost: Vec<Lost>,
    /// Time that no source accounts for. Always shown.
    pub unexplained_ns: u64,
}

impl CoreLedger {
    /// Time lost to named causes, nanoseconds.
    pub fn lost_ns(&self) -> u64 {
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(lost.total_ns))
    }

    /// Time lost to named causes while the core had work to do, nanoseconds.
    pub fn lost_while_busy_ns(&self) -> u64 {
        let busy_ns = |lost: &Lost| lost.total_ns.saturating_sub(lost.while_idle_ns);
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(busy_ns(lost)))
    }

    /// Whether the parts add up to the wall time, to the nanosecond.
    pub fn sums_up(&self) -> bool {
        let lost_ns = self.lost.iter().map(|lost| lost.total_ns);
        let parts_ns = [self.idle_ns, self.user_ns, self.kernel_ns, self.unexplained_ns].into_iter().chain(lost_ns);
        parts_ns.map(u128::from).sum::<u128>() == u128::from(self.wall_ns)
    }
}

/// A row of /proc/interrupts that counts but has no tracepoint here: how often is known, how long is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untimed {
    /// The core.
    pub cpu: CpuId,
    /// The row's label in /proc/interrupts, such as `HYP`.
    pub row: String,
    /// The row's description.
    pub name: String,
    /// How often in the window.
    pub count: u64,
}

/// A row of /proc/interrupts held against what the probes counted, over all watched cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completeness {
    /// The row's label in /proc/interrupts.
    pub row: String,
    /// By how much the kernel's own counter rose.
    pub kernel_count: u64,
    /// How many the probes saw.
    pub probe_count: u64,
}
