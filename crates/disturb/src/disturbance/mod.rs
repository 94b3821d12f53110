//! What is done to the machine or to the workload: plain data of what is asked for, and the injectors that do it.
//!
//! Every injector tells what it really did ([`Stall`]), by its own clock reads. It ends with its process, however that ends:
//! timers of eBPF with the last descriptor of their map, threads with their process, and what was done to the workload with
//! the workload, which its guard ends ([`crate::workload`]).

pub(crate) mod bpf;
mod guest;
mod host;
mod memory_error;
mod rated;
mod schedule;
mod smi;
mod spin;
mod stop;
mod threads;

pub use guest::{Guest, GuestStop, Release};
pub use host::{Chosen, choose};
pub(crate) use host::{cores_can_stand_still, cores_of, within_budget};
pub use schedule::{Schedule, schedule};

use crate::Fault;
use surefoot_model::CpuId;

/// What a disturbance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Stands still, by the best method that this host allows, or by this one.
    Freeze(Option<Method>),
    /// Interrupts cores from other ones.
    Ipi,
    /// Has translations of the workload's addresses flushed on the cores on which it runs.
    TlbShootdown,
    /// Interrupts cores by a timer of their own.
    Timer,
    /// Has packets received on cores.
    Softirq,
    /// Has the firmware interrupt the machine.
    Smi,
    /// Has the kernel handle corrected memory errors that were not.
    MemoryError,
    /// A guest of QEMU stands still.
    Guest(GuestStop),
}

impl What {
    /// Those that come at a rate, each without a length of its own.
    pub const RATED: [What; 6] =
        [What::Ipi, What::TlbShootdown, What::Timer, What::Softirq, What::Smi, What::MemoryError];

    /// The word in `--disturbance`.
    pub fn name(self) -> &'static str {
        match self {
            What::Freeze(method) => method.map_or("freeze", Method::name),
            What::Ipi => "ipi",
            What::TlbShootdown => "tlb-shootdown",
            What::Timer => "timer",
            What::Softirq => "softirq",
            What::Smi => "smi",
            What::MemoryError => "memory-error",
            What::Guest(how) => how.name(),
        }
    }

    /// Whether it comes at a rate.
    pub fn is_rated(self) -> bool {
        !matches!(self, What::Freeze(_) | What::Guest(_))
    }

    /// Whether each has a length of its own, of which it is told one by one.
    pub fn has_lengths(self) -> bool {
        !self.is_rated() || self == What::Smi
    }

    /// Whether one core alone is asked to do it.
    pub(crate) fn is_of_one_core(self) -> bool {
        matches!(self, What::Smi | What::MemoryError)
    }

    /// What it really does; of a freeze the method tells.
    pub(crate) fn words(self) -> &'static str {
        match self {
            What::Freeze(_) => "",
            What::Smi => smi::WORDS,
            What::MemoryError => memory_error::WORDS,
            What::Guest(how) => how.words(),
            What::Ipi => {
                "function-call interrupts from a thread on another core, which reads a counter of the disturbed one; that thread uses some of the other core"
            }
            What::TlbShootdown => {
                "pages of the workload's stack and heap are aged (MADV_COLD) from outside, so that the kernel flushes their translations on the cores on which the workload runs; only what it used since has any"
            }
            What::Timer => "a pinned timer of eBPF, whose callback does nothing: its interrupt and a softirq",
            What::Softirq => {
                "UDP packets over the loopback device, sent and received (NET_RX) on the disturbed core; their sender is a task there and takes some of it as well"
            }
        }
    }
}

/// How something is made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Cores with interrupts off, by pinned timers of eBPF.
    Bpf,
    /// Cores, by real-time threads that spin.
    Spin,
    /// The workload alone, by the freezer of its control group.
    CgroupFreeze,
    /// The workload alone, by signals.
    Stop,
}

impl Method {
    /// The best first.
    pub const ALL: [Method; 4] = [Method::Bpf, Method::Spin, Method::CgroupFreeze, Method::Stop];

    /// The word in `method=` and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Method::Bpf => "bpf",
            Method::Spin => "spin",
            Method::CgroupFreeze => "cgroup-freeze",
            Method::Stop => "stop",
        }
    }

    /// What it really does, and how that differs from a system management interrupt.
    pub fn words(self) -> &'static str {
        match self {
            Method::Bpf => {
                "interrupts off on the chosen cores, by pinned timers of eBPF; unlike an SMI it lets NMIs through, and devices \
                 and other cores go on"
            }
            Method::Spin => {
                "real-time threads (SCHED_FIFO 99) take the chosen cores; unlike an SMI they stop tasks alone: interrupts and \
                 softirqs still run, so packets are received and acknowledged"
            }
            Method::CgroupFreeze => {
                "the freezer of the workload's control group; unlike an SMI it stops the workload alone, its processes some \
                 100 us apart, and the cores go on with other work there is"
            }
            Method::Stop => {
                "SIGSTOP and SIGCONT to the workload's group of processes; unlike an SMI it stops the workload alone, its processes some 100 us apart, and a parent sees its child stop"
            }
        }
    }

    /// Whether it stops whatever runs on a core, and not the workload alone.
    pub fn is_of_cores(self) -> bool {
        matches!(self, Method::Bpf | Method::Spin)
    }
}

/// When the stalls of a core begin, beside those of the others: cores can stand for nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All at the same moment, as an SMI does.
    Same,
    /// Evenly one after the other.
    Staggered,
    /// Each at a random time.
    Random,
}

impl Phase {
    /// The word in `phase=` and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Same => "same",
            Phase::Staggered => "staggered",
            Phase::Random => "random",
        }
    }
}

/// A disturbance that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What it does.
    pub what: What,
    /// Of each stall.
    pub length_ns: u64,
    /// From the start of one to the start of the next, on each core.
    pub period_ns: u64,
    /// On which cores; none for all that are online.
    pub cores: Vec<CpuId>,
    /// How the cores' stalls lie.
    pub phase: Phase,
    /// The guest, where one is to stand still.
    pub guest: Option<Guest>,
    /// Whether the firmware or the record of errors of a real machine may be meant, and not only those of a guest.
    pub even_on_bare_metal: bool,
}

impl Spec {
    /// All cores stand still at once, by the best method that the host allows.
    pub fn freeze(length_ns: u64, period_ns: u64) -> Spec {
        Spec {
            what: What::Freeze(None),
            length_ns,
            period_ns,
            cores: vec![],
            phase: Phase::Same,
            guest: None,
            even_on_bare_metal: false,
        }
    }
}

/// A stall that was, by the injector's own clock reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The core; `None` where the workload was stopped, wherever it ran.
    pub cpu: Option<CpuId>,
    /// When it was to begin, `CLOCK_MONOTONIC`.
    pub target_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// How long it lasted.
    pub length_ns: u64,
}

impl Stall {
    /// When it ended.
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.length_ns
    }
}

/// What went otherwise than planned in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Stalls whose end had passed before they could begin.
    pub missed: u64,
    /// Stalls that happened and whose record was overwritten before it was read.
    pub dropped: u64,
    /// Stalls that ended before their time.
    pub cut: u64,
}

impl Losses {
    /// Both together.
    pub fn add(&mut self, more: Losses) {
        self.missed += more.missed;
        self.dropped += more.dropped;
        self.cut += more.cut;
    }
}

/// Does it.
pub trait Injector {
    /// Makes the control group in which the next run's workload is to be, if there is to be one.
    ///
    /// # Errors
    /// It cannot be made.
    fn home(&mut self) -> Result<Option<std::path::PathBuf>, Fault> {
        Ok(None)
    }

    /// What the workload's guard does when nobody is there any more to end the disturbance.
    fn release(&self) -> Option<Release> {
        None
    }

    /// From now on the cores are disturbed by this schedule.
    ///
    /// # Errors
    /// It cannot be done; nothing is disturbed then.
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault>;

    /// The workload runs, and is this group of processes.
    fn workload_began(&mut self, group: u32) {
        let _ = group;
    }

    /// Takes what happened so far; to be called often enough for a ring of records.
    fn collect(&mut self, into: &mut Vec<Stall>);

    /// What is to be said beside the result.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends it, and takes the rest.
    ///
    /// # Errors
    /// It could not be ended.
    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault>;
}
