//! The Rust mirror of `bpf/ledger.h`: the numbers of the causes and the structs that both sides share.

/// The core has nothing to run.
pub const CAUSE_IDLE: usize = 0;
/// A user task that is not preempting a named workload.
pub const CAUSE_WORK: usize = 1;
/// Before the first event of a core.
pub const CAUSE_UNKNOWN: usize = 2;
/// First of the vectors in [`VECTORS`].
pub const CAUSE_LOCAL_TIMER: usize = 3;
/// First of the ten softirq vectors.
pub const CAUSE_SOFTIRQ: usize = 14;
/// NMI handlers that found no room in the table.
pub const CAUSE_OTHER_NMI: usize = 24;
/// Device interrupts that found no room.
pub const CAUSE_OTHER_DEVICE: usize = 25;
/// Called functions that found no room.
pub const CAUSE_OTHER_FUNCTION: usize = 26;
/// Kernel threads that found no room.
pub const CAUSE_OTHER_THREAD: usize = 27;
/// Preempting tasks that found no room.
pub const CAUSE_OTHER_TASK: usize = 28;
/// First cause that is named by its key.
pub const CAUSE_FIRST_DYNAMIC: usize = 32;
/// All causes of a core.
pub const CAUSES: usize = CAUSE_FIRST_DYNAMIC + 128;
/// Nesting depth.
pub const FRAMES: usize = 8;
/// Buckets of a histogram, as in `surefoot_model::BUCKETS`.
pub const BUCKETS: usize = 128;
/// Turns that a core's tape holds before the oldest is overwritten.
pub const TAPE_TURNS: usize = 8192;
/// Late timers that a core's ring holds.
pub const LATE_RECORDS: usize = 64;
/// Turns that are copied with a late timer.
pub const LATE_TURNS: usize = 24;
/// Preempted threads that are remembered.
pub const WAITERS: usize = 4;
/// Programs that count their runs.
pub const PROGRAMS: usize = 48;

/// Upper byte of a key: an interrupt number follows.
pub const KEY_DEVICE: u8 = 1;
/// Upper byte of a key: the address of a called function follows.
pub const KEY_FUNCTION: u8 = 2;
/// Upper byte of a key: a kernel thread, named by the entry's name.
pub const KEY_THREAD: u8 = 3;
/// Upper byte of a key: a preempting task, named by the entry's name.
pub const KEY_TASK: u8 = 4;
/// Upper byte of a key: the address of an NMI handler follows.
pub const KEY_NMI: u8 = 5;

/// A vector with tracepoints of its own.
#[derive(Debug, Clone, Copy)]
pub struct Vector {
    /// Tracepoint at the start.
    pub entry: &'static str,
    /// Tracepoint at the end.
    pub exit: &'static str,
    /// Name of the cause.
    pub name: &'static str,
    /// Label in /proc/interrupts.
    pub row: &'static str,
    /// What is lost without it.
    pub without: &'static str,
}

const fn vector(entry: &'static str, exit: &'static str, name: &'static str, row: &'static str) -> Vector {
    Vector { entry, exit, name, row, without: "these interrupts count as the work they interrupt" }
}

/// The vectors in the order of their causes, from [`CAUSE_LOCAL_TIMER`] on.
pub const VECTORS: [Vector; 11] = [
    vector("local_timer_entry", "local_timer_exit", "local_timer", "LOC"),
    vector("reschedule_entry", "reschedule_exit", "reschedule", "RES"),
    vector("call_function_entry", "call_function_exit", "call_function", "CAL"),
    vector("call_function_single_entry", "call_function_single_exit", "call_function_single", "CAL"),
    vector("irq_work_entry", "irq_work_exit", "irq_work", "IWI"),
    vector("x86_platform_ipi_entry", "x86_platform_ipi_exit", "x86_platform_ipi", "PLT"),
    vector("error_apic_entry", "error_apic_exit", "error_apic", "ERR"),
    vector("spurious_apic_entry", "spurious_apic_exit", "spurious_apic", "SPU"),
    vector("thermal_apic_entry", "thermal_apic_exit", "thermal_apic", "TRM"),
    vector("threshold_apic_entry", "threshold_apic_exit", "threshold_apic", "THR"),
    vector("deferred_error_apic_entry", "deferred_error_apic_exit", "deferred_error_apic", "DFR"),
];

/// The softirq vectors in the kernel's order.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// What one cause took from one core since the probes were attached.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CauseTotals {
    /// 0 when the place is free; the kind in the upper byte, else.
    pub key: u64,
    /// Occurrences.
    pub count: u64,
    /// Time, nanoseconds.
    pub total_ns: u64,
    /// Longest occurrence, nanoseconds.
    pub max_ns: u64,
    /// The part of `total_ns` on an idle core.
    pub idle_ns: u64,
    /// Name of a thread or task, zero-terminated.
    pub name: [u8; 16],
    pub(crate) reserved: u64,
}

/// An open context.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its cause.
    pub cause: u32,
    /// What it may interrupt: 0 base, 1 softirq, 2 interrupt, 3 called function.
    pub level: u32,
    /// Time charged to this occurrence so far, nanoseconds.
    pub own_ns: u64,
}

/// How often a program ran and what one run in 64 took.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Runs.
    pub count: u64,
    /// Time of one run in 64, nanoseconds.
    pub sampled_ns: u64,
}

/// All that the kernel side keeps for one core.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// Odd while an update is under way.
    pub seq: u64,
    /// When the ledger began, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    /// Up to when all time has been charged.
    pub last_ns: u64,
    /// Time already booked elsewhere that the next charge leaves out.
    pub deferred_ns: u64,
    /// Open contexts above the base.
    pub depth: u32,
    /// Thread number of the base task.
    pub base_pid: u32,
    /// Thread whose core this is, when preemption is counted on cores.
    pub owner_pid: u32,
    pub(crate) shadow_depth: u32,
    pub(crate) shadow_start_ns: u64,
    pub(crate) shadow_cause: u32,
    pub(crate) reserved: u32,
    pub(crate) timer_entry_ns: u64,
    /// Turns ever written to the tape.
    pub tape_turns: u64,
    /// Late timers ever recorded.
    pub late_records: u64,
    /// Contexts closed because the kernel did not report their end: an exit, or a switch away.
    pub heals: u64,
    pub(crate) owner_seen_ns: u64,
    /// Interrupts that landed inside an update.
    pub shadowed: u64,
    /// Interrupts that this process raised on this core.
    pub self_interrupts: u64,
    /// Threads of the workload that were preempted here and wait; 0 for a free place.
    pub waiting: [u32; WAITERS],
    /// Open contexts, base first.
    pub frames: [Frame; FRAMES],
    /// Cost of each program.
    pub programs: [ProgramRuns; PROGRAMS],
    /// The causes.
    pub causes: [CauseTotals; CAUSES],
}

impl Slot {
    /// A slot in which nothing has happened yet.
    pub fn zeroed() -> Self {
        // SAFETY: Slot consists of integers only, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

impl Late {
    /// A record that nothing has filled yet.
    pub fn zeroed() -> Self {
        // SAFETY: Late consists of integers only, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

/// One change of context; it lasts until the next turn.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// The context's cause.
    pub cause: u16,
    /// Its nesting depth; 0 is the base.
    pub depth: u16,
    /// Thread number of the base task.
    pub pid: u32,
}

/// A timer that fired late, with what the core did until then.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Late {
    /// When it was due, `CLOCK_MONOTONIC` nanoseconds.
    pub due_ns: u64,
    /// When its interrupt began.
    pub fired_ns: u64,
    /// What the core was doing below the interrupt.
    pub base_cause: u32,
    /// Which thread that was.
    pub base_pid: u32,
    /// Turns that are filled.
    pub turns: u32,
    pub(crate) reserved: u32,
    /// The newest turns, oldest first.
    pub tape: [Turn; LATE_TURNS],
}

/// The durations of every cause on one core.
#[repr(C)]
pub struct HistogramTable {
    /// Counts by cause and bucket.
    pub buckets: [[u32; BUCKETS]; CAUSES],
}

/// What the programs are told before they are loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProgramConfig {
    pub late_threshold_ns: u64,
    pub workload_comm: [u8; 16],
    pub workload_by: u32,
    pub self_tgid: u32,
    pub cpu_count: u32,
    pub reserved: u32,
}

const _: () = assert!(BUCKETS == surefoot_model::BUCKETS);
