use crate::{Advice, Cause, Certainty, CpuId, EntryExit, Fix, Intruder, Notice, SelfCost, Timeline, WhoCore};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who raised an interrupt on a watched core, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
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
    /// Whether this is the sum of several raisers of this name and system call, which had no room of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_sum: bool,
}

/// One kind of interrupt on one core: what it cost and who raised it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
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
    /// Time it took inside, nested ones left out; nanoseconds.
    pub total_ns: u64,
    /// Of this, time that delayed no task ([`crate::Lost::while_idle_ns`]); nanoseconds.
    #[serde(default)]
    pub while_idle_ns: u64,
    /// What its entries and exits took besides, estimated ([`WhoReport::entry_exit`]); nanoseconds. `None` where there
    /// are none of its own, or no estimate.
    #[serde(default)]
    pub entry_exit_ns: Option<u64>,
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
    /// The tasks that took the core, where it is one of these, and why they were allowed there; a few of them.
    #[serde(default)]
    pub intruders: Vec<Intruder>,
    /// What is advised, that which rests on most arrivals first.
    pub advice: Vec<Advice>,
}

/// A gap that a polling thread noted itself, with what the kernel did on its core meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LoopGap {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What the program calls the loop.
    pub name: String,
    /// The core that it ran on, where the kernel's side tells.
    pub cpu: Option<CpuId>,
    /// Start, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// Length in nanoseconds.
    pub duration_ns: u64,
    /// What filled it, longest first.
    pub parts: Vec<LoopGapPart>,
    /// What nothing explains; with the parts it adds up to the length. Nanoseconds.
    pub unexplained_ns: u64,
}

/// What is in most gaps of one polling thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainCause {
    /// The cause's name.
    pub name: String,
    /// How many gaps it is in.
    pub gap_count: u64,
    /// Who raised it in most of them; `None` where that is not known.
    pub raiser: Option<String>,
}

impl LoopGap {
    /// The cause that is in most of these gaps. `None` where they have no named cause, or nothing but entry and exit.
    pub fn main_cause(gaps: &[&LoopGap]) -> Option<MainCause> {
        let mut counts: BTreeMap<&str, (u64, BTreeMap<&str, u64>)> = BTreeMap::new();
        for part in gaps.iter().flat_map(|gap| &gap.parts).filter(|part| !part.cause.is_frame()) {
            let (count, raisers) = counts.entry(&part.cause.name).or_default();
            *count += 1;
            if let Some(raiser) = part.raisers.first() {
                *raisers.entry(raiser).or_default() += 1;
            }
        }
        // Of two that are in as many gaps, the one with a known raiser says more.
        let (name, (gap_count, raisers)) =
            counts.into_iter().max_by_key(|(_, (count, raisers))| (*count, raisers.values().sum::<u64>()))?;
        let raiser = raisers.into_iter().max_by_key(|(_, count)| *count).map(|(raiser, _)| raiser.to_owned());
        Some(MainCause { name: name.to_owned(), gap_count, raiser })
    }
}

/// A part of a gap that a polling thread noted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LoopGapPart {
    /// What ran.
    #[serde(flatten)]
    pub cause: Cause,
    /// For how long within the gap, nested causes left out; nanoseconds.
    pub total_ns: u64,
    /// How often.
    pub count: u64,
    /// Threads that raised it, `name-thread in system call`, most frequent first; empty where none is known.
    pub raisers: Vec<String>,
}

/// What one polling thread noted in all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LoopSummary {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What the program calls the loop.
    pub name: String,
    /// A turn over this length is a gap; nanoseconds.
    pub threshold_ns: u64,
    /// Gaps that it noted while we watched.
    pub gap_count: u64,
    /// Their time together; nanoseconds.
    pub total_ns: u64,
    /// Gaps that were overwritten before they were read.
    pub overwritten: u64,
    /// Gaps that were read but are not listed, because there are too many.
    pub not_listed: u64,
}

/// Who interrupted the watched cores, from the start of the watch to its last look. A later one of the same watch
/// replaces it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct WhoReport {
    /// Start, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// End, `CLOCK_MONOTONIC` nanoseconds.
    pub end_ns: u64,
    /// The process whose preemption counts, where one was named.
    #[serde(default)]
    pub workload_pid: Option<u32>,
    /// What to fix first.
    #[serde(default)]
    pub fix_first: Vec<Fix>,
    /// How the watched cores spent the time.
    #[serde(default)]
    pub cores: Vec<WhoCore>,
    /// What entry and exit of an interrupt cost here; empty where that was not measured.
    #[serde(default)]
    pub entry_exit: Vec<EntryExit>,
    /// Each kind of interrupt on each core, costliest first.
    pub interrupts: Vec<Interrupt>,
    /// Called functions whose raiser was found exactly.
    pub joined_count: u64,
    /// Called functions that arrived from elsewhere.
    pub called_count: u64,
    /// Records that the raising side made.
    pub records: u64,
    /// Of these, how many are without a stack because their core raised too many.
    pub records_without_stack: u64,
    /// Records that were lost because a buffer was full.
    pub records_dropped: u64,
    /// Records that never met their arrival.
    pub records_unmatched: u64,
    /// Arrivals that were overwritten before they could be read.
    pub marks_lost: u64,
    /// How often the process that reads the files of watched programs ended over one of them.
    #[serde(default)]
    pub naming_deaths: u64,
    /// Processes that read such files and hang, because a file system does not answer.
    #[serde(default)]
    pub naming_hung: u64,
    /// The polling threads that noted their own gaps.
    #[serde(default)]
    pub loops: Vec<LoopSummary>,
    /// Their longest gaps, longest first.
    #[serde(default)]
    pub loop_gaps: Vec<LoopGap>,
    /// What is missing here; empty when nothing is.
    pub missing: Vec<String>,
    /// What happened to the watch itself: a process ended, a core went offline.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// What watching cost.
    pub cost: SelfCost,
    /// Of a report that answers for a range: when its watch began, `CLOCK_MONOTONIC` nanoseconds. Quantiles, the longest, and what is
    /// known of lines and tasks are since then. `None` where the report is of the whole watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_start_ns: Option<u64>,
    /// Each arrival by itself, where that was asked for; events that flow carry none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

impl Interrupt {
    /// A row of which no more is known.
    pub fn new(cpu: CpuId, cause: Cause, count: u64, total_ns: u64) -> Self {
        Interrupt {
            cpu,
            cause,
            handler: String::new(),
            count,
            total_ns,
            while_idle_ns: 0,
            entry_exit_ns: None,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            share_of_lost_ppm: 0,
            detail: Vec::new(),
            raisers: Vec::new(),
            unknown_raisers: 0,
            intruders: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Time that work lost to it, entry and exit left out; nanoseconds.
    pub fn taken_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.while_idle_ns)
    }
}

impl WhoReport {
    /// How long it watched, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
