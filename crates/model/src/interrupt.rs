use crate::{Cause, Certainty, CpuId};
use serde::{Deserialize, Serialize};

/// Who raised an interrupt on a watched core, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raiser {
    /// How sure it is that this one raised it.
    pub certainty: Certainty,
    /// The function that was asked for: called function, timer callback, work function; or the context that raised.
    pub function: String,
    /// The system call that the raiser was in; empty outside one.
    pub syscall: String,
    /// The thread's name; `(interrupt)` when it was raised in one, because the thread is a bystander then.
    pub comm: String,
    /// Its process; 0 in an interrupt.
    pub pid: u32,
    /// The thread; 0 in an interrupt.
    pub tid: u32,
    /// The thread that was being woken, where that is the reason; empty otherwise.
    pub wakee: String,
    /// How often.
    pub count: u64,
    /// The raiser's kernel stack, innermost first; empty where none was taken.
    pub kernel_stack: Vec<String>,
    /// The raiser's user stack, innermost first; empty where none was taken.
    pub user_stack: Vec<String>,
}

/// What is advised about an interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The rule's stable name.
    pub rule: String,
    /// What to do.
    pub remedy: String,
    /// What was seen that calls for it.
    pub evidence: String,
    /// Where the remedy is described.
    pub source: String,
}

/// One kind of interrupt on one core: what it cost and who raised it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The core.
    pub cpu: CpuId,
    /// Kind and name.
    #[serde(flatten)]
    pub cause: Cause,
    /// What ran: the handler function, driver or action; empty where it is not known.
    pub handler: String,
    /// How often it came.
    pub count: u64,
    /// Time it took, nested ones left out; nanoseconds.
    pub total_ns: u64,
    /// Median; nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile; nanoseconds.
    pub p99_ns: u64,
    /// Longest; nanoseconds.
    pub max_ns: u64,
    /// Its share of the core's lost time, millionths.
    pub share_of_lost_ppm: u64,
    /// More that is known about it: affinity of the line, why the tick runs.
    pub detail: Vec<String>,
    /// Who raised it, most frequent first.
    pub raisers: Vec<Raiser>,
    /// Arrivals for which no raiser is known.
    pub unknown_raisers: u64,
    /// What is advised.
    pub advice: Vec<Advice>,
}
