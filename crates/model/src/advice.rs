use crate::{Cause, CauseKind, CpuId};
use serde::{Deserialize, Serialize};

/// What is advised about an interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Advice {
    /// The rule's stable name.
    pub rule: String,
    /// What to do.
    pub remedy: String,
    /// What was seen that calls for it.
    pub evidence: String,
    /// Where the remedy is described.
    pub source: String,
    /// On how many of the raised arrivals it rests; of several pieces of advice, no arrival counts for two.
    #[serde(default)]
    pub count: u64,
    /// Its share of the raised arrivals, millionths.
    #[serde(default)]
    pub share_ppm: u64,
}

/// What to fix, ranked by what it would bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Fix {
    /// The cores that it was seen on, costliest first.
    pub cpus: Vec<CpuId>,
    /// What took the time.
    #[serde(flatten)]
    pub cause: Cause,
    /// Time that work on these cores lost to it, with the estimated cost of entry and exit; nanoseconds.
    pub total_ns: u64,
    /// Its share of all that work on the watched cores lost, millionths.
    pub share_of_lost_ppm: u64,
    /// How often it came.
    pub count: u64,
    /// The rule of the advice; empty where no rule fits, so that the largest causes are listed all the same.
    pub rule: String,
    /// What was seen that calls for the remedy.
    pub evidence: String,
    /// What to do.
    pub remedy: String,
    /// Where the remedy is described.
    pub source: String,
    /// The command that shows whether it worked; `BEFORE.surefoot` stands for a recording of this report.
    pub verify: String,
    /// What that command is to show.
    pub expect: String,
}

impl Fix {
    /// The rule for a cause that no setting of this kernel removes: it is listed behind what can be done.
    pub const NEEDS_ANOTHER_KERNEL: &str = "tick-needs-another-kernel";
}

/// Where the cost of entry and exit is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EntryExitBasis {
    /// Gaps of polling threads on the watched cores, that noted them, less what was traced inside.
    PollingLoop,
    /// A short loop of Surefoot's own on a core that is not watched.
    OwnLoop,
    /// Taken from the kernel's other interrupts that were measured here.
    OtherKind,
}

/// What an interrupt costs the work that it interrupts besides the time inside its handler: the processor's entry and
/// exit, the kernel's around the handler, and where there is a hypervisor, its part. An estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct EntryExit {
    /// Of which interrupts.
    pub kind: CauseKind,
    /// Median per interrupt; nanoseconds.
    pub median_ns: u64,
    /// One in ten was shorter; nanoseconds.
    pub p10_ns: u64,
    /// One in ten was longer; nanoseconds.
    pub p90_ns: u64,
    /// How many were measured.
    pub samples: u64,
    /// How it is known.
    pub basis: EntryExitBasis,
}

/// How a watched core spent the time of the watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct WhoCore {
    /// The core.
    pub cpu: CpuId,
    /// Time that it was watched; nanoseconds.
    pub wall_ns: u64,
    /// Of this, idle; nanoseconds.
    pub idle_ns: u64,
    /// Of this, lost while it had work; nanoseconds.
    pub lost_ns: u64,
}

/// A task that took a watched core, and why it was allowed there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Intruder {
    /// Its name, as /proc tells; of a worker with the name of its workqueue.
    pub comm: String,
    /// The thread.
    pub tid: u32,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// Whether the kernel binds it to its core, so that nobody can move it.
    pub is_bound: bool,
    /// The cores that it may use, as the kernel writes lists; empty where it ended before it could be asked.
    pub allowed: String,
    /// Its control group; empty for the root and where it is not known.
    pub cgroup: String,
    /// Its scheduling, such as `SCHED_OTHER nice 0`; empty where it is not known.
    pub policy: String,
    /// What let it onto the core: its affinity mask, its cpuset, or that nothing keeps it off; empty where it is not known.
    #[serde(default)]
    pub because: String,
}

/// How often something came and what it took, per second of the watch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LossRate {
    /// How often.
    pub count_per_s: f64,
    /// Time that work lost, entry and exit left out; nanoseconds per second.
    pub lost_ns_per_s: f64,
}

/// What became of one cause on one core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Change {
    /// The core.
    pub cpu: CpuId,
    /// What took the time.
    #[serde(flatten)]
    pub cause: Cause,
    /// Before; zero where it did not come.
    pub before: LossRate,
    /// Now; zero where it does not come any more.
    pub after: LossRate,
}

/// Two reports of the same cores, before and after a change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Comparison {
    /// How long the first watch was; nanoseconds.
    pub before_ns: u64,
    /// How long the second was; nanoseconds.
    pub after_ns: u64,
    /// Whether nothing speaks against comparing the two.
    pub is_comparable: bool,
    /// What speaks against it, or limits it, each as a sentence.
    pub cautions: Vec<String>,
    /// All that work lost on the compared cores.
    pub before: LossRate,
    /// The same now.
    pub after: LossRate,
    /// Each cause on each core that both watched; the largest difference first.
    pub changes: Vec<Change>,
}
