//! What the programs and user space share, as Rust has it: the numbers of the causes, and the structs. The numbers are
//! those of `bpf/layout.h`, and a struct that is laid out otherwise there does not compile here.

use crate::shared::{self, narrow, same_layout};

/// The core has nothing to run.
pub const CAUSE_IDLE: usize = shared::CAUSE_IDLE;
/// A user task that is not preempting a named workload.
pub const CAUSE_WORK: usize = shared::CAUSE_WORK;
/// Before the first event of a core.
pub const CAUSE_UNKNOWN: usize = shared::CAUSE_UNKNOWN;
/// First of the vectors in [`VECTORS`].
pub const CAUSE_LOCAL_TIMER: usize = shared::CAUSE_LOCAL_TIMER;
/// A reschedule interrupt.
pub const CAUSE_RESCHEDULE: usize = shared::CAUSE_RESCHEDULE;
/// A call-function interrupt that was sent to several cores.
pub const CAUSE_CALL_FUNCTION: usize = shared::CAUSE_CALL_FUNCTION;
/// A call-function interrupt that was sent to this core alone.
pub const CAUSE_CALL_FUNCTION_SINGLE: usize = shared::CAUSE_CALL_FUNCTION_SINGLE;
/// First of the ten softirq vectors.
pub const CAUSE_SOFTIRQ: usize = shared::CAUSE_SOFTIRQ;
/// NMI handlers that found no room in the table.
pub const CAUSE_OTHER_NMI: usize = shared::CAUSE_OTHER_NMI;
/// Device interrupts that found no room.
pub const CAUSE_OTHER_DEVICE: usize = shared::CAUSE_OTHER_DEVICE;
/// Called functions that found no room.
pub const CAUSE_OTHER_FUNCTION: usize = shared::CAUSE_OTHER_FUNCTION;
/// Kernel threads that found no room.
pub const CAUSE_OTHER_THREAD: usize = shared::CAUSE_OTHER_THREAD;
/// Preempting tasks that found no room.
pub const CAUSE_OTHER_TASK: usize = shared::CAUSE_OTHER_TASK;
/// On the tape only: a kernel message was logged, and may be printed until the next turn.
pub const CAUSE_CONSOLE: usize = shared::CAUSE_CONSOLE;
/// In the level of a frame: a message was logged in it, and nothing has happened on the core since.
pub const LOGGED: u32 = shared::LOGGED as u32;
/// What follows a message and is shorter than this is not taken for its printing, nanoseconds.
pub const PRINTED_NS: u64 = shared::PRINTED_NS as u64;
/// First cause that is named by its key.
pub const CAUSE_FIRST_DYNAMIC: usize = shared::CAUSE_FIRST_DYNAMIC;
/// All causes of a core.
pub const CAUSES: usize = shared::CAUSES;
/// Nesting depth.
pub const FRAMES: usize = shared::FRAMES;
/// Buckets of a histogram, as in `surefoot_model::BUCKETS`.
pub const BUCKETS: usize = shared::BUCKETS;
/// Turns that a core's tape holds before the oldest is overwritten.
pub const TAPE_TURNS: usize = shared::TAPE_TURNS;
/// Late timers that a core's ring holds.
pub const LATE_RECORDS: usize = shared::LATE_RECORDS;
/// Turns that are copied with a late timer.
pub const LATE_TURNS: usize = shared::LATE_TURNS;
/// Names of tasks that a core's ring holds before the oldest is overwritten.
pub const NAME_RECORDS: usize = shared::NAME_RECORDS;
/// Preempted threads that are remembered.
pub const WAITERS: usize = shared::WAITERS;
/// Runs that are kept until it is known who waited meanwhile.
pub const RUNS: usize = shared::RUNS;
/// Throttled threads that are remembered.
pub const THROTTLED: usize = shared::THROTTLED;
/// Durations that a core holds before it counts them in its histogram.
pub(crate) const HELD_DURATIONS: usize = shared::HELD_DURATIONS;
/// Programs that count their runs.
pub const PROGRAMS: usize = shared::PROGRAMS;
/// Of so many runs of a program one measures itself.
pub const SAMPLE_EVERY: u64 = shared::SAMPLE_EVERY as u64;
/// Why a thread left the core: no switch, or one that was not reported.
pub const LEFT_UNKNOWN: u8 = shared::LEFT_UNKNOWN as u8;
/// It could run on and waits.
pub const LEFT_WAITING: u8 = shared::LEFT_WAITING as u8;
/// It is asleep.
pub const LEFT_ASLEEP: u8 = shared::LEFT_ASLEEP as u8;
/// It is asleep and not to be woken by a signal.
pub const LEFT_BLOCKED: u8 = shared::LEFT_BLOCKED as u8;
/// It was stopped by a signal.
pub const LEFT_STOPPED: u8 = shared::LEFT_STOPPED as u8;
/// It is being traced.
pub const LEFT_TRACED: u8 = shared::LEFT_TRACED as u8;
/// Its cgroup's quota was used up.
pub const LEFT_THROTTLED: u8 = shared::LEFT_THROTTLED as u8;
/// It was frozen with its cgroup.
pub const LEFT_FROZEN: u8 = shared::LEFT_FROZEN as u8;
/// It has ended.
pub const LEFT_ENDED: u8 = shared::LEFT_ENDED as u8;
/// In a turn's `left`: the bits of the reason.
pub const LEFT_REASON: u8 = shared::LEFT_REASON as u8;
/// In a turn's `left`: who leaves is none of the workload, and its run may have kept that waiting.
pub const RAN_BESIDE: u8 = shared::RAN_BESIDE as u8;
/// In a turn's `left`: and is a real-time task.
pub const RAN_REALTIME: u8 = shared::RAN_REALTIME as u8;
/// In a turn's `left`: such runs kept who gets the core waiting, as many as lie in the time that it waited.
pub const KEPT_WAITING: u8 = shared::KEPT_WAITING as u8;
/// In a turn's `left`: runs of all tasks; without this of real-time ones only.
pub const KEPT_BY_ANY: u8 = shared::KEPT_BY_ANY as u8;
/// Where the kind stands in a key.
const KEY_SHIFT: u32 = narrow(shared::KEY_SHIFT);

/// Upper byte of a key: an interrupt number follows.
pub const KEY_DEVICE: u8 = shared::KEY_DEVICE as u8;
/// Upper byte of a key: the address of a called function follows.
pub const KEY_FUNCTION: u8 = shared::KEY_FUNCTION as u8;
/// Upper byte of a key: a kernel thread, named by the entry's name.
pub const KEY_THREAD: u8 = shared::KEY_THREAD as u8;
/// Upper byte of a key: a preempting task, named by the entry's name.
pub const KEY_TASK: u8 = shared::KEY_TASK as u8;
/// Upper byte of a key: the address of an NMI handler follows.
pub const KEY_NMI: u8 = shared::KEY_NMI as u8;

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
    /// Of a thread's or task's own time the part in which somebody waited for the core. It can be known after the time
    /// itself.
    pub taken_ns: u64,
}

impl CauseTotals {
    /// An entry without occurrences, for the cause of this kind and value.
    pub fn of_key(kind: u8, value: u64) -> Self {
        CauseTotals { key: u64::from(kind) << KEY_SHIFT | value & !(u64::MAX << KEY_SHIFT), ..CauseTotals::default() }
    }

    /// What the key is of, one of the `KEY_` numbers; 0 when the place is free.
    pub fn kind(&self) -> u8 {
        (self.key >> KEY_SHIFT) as u8
    }

    /// The kernel address of which the key has the lower bits; its upper ones are all set.
    pub fn address(&self) -> u64 {
        self.key | u64::MAX << KEY_SHIFT
    }

    /// What follows the kind in the key.
    pub fn value(&self) -> u64 {
        self.key & !(u64::MAX << KEY_SHIFT)
    }
}

/// An open context.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its cause.
    pub cause: u32,
    /// What it may interrupt: a `LEVEL_` number of `bpf/layout.h`, higher ones interrupt lower ones.
    pub level: u32,
    /// Time charged to this occurrence so far, nanoseconds.
    pub own_ns: u64,
}

/// A thread's run behind which nobody was known to wait.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) taken_from_ns: u64,
    pub(crate) rest_ns: u64,
    pub(crate) name: [u8; 16],
    pub(crate) cause: u32,
    pub(crate) realtime: u32,
}

/// How often a program ran and what one run in [`SAMPLE_EVERY`] took.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Runs.
    pub count: u64,
    /// Time of one run in [`SAMPLE_EVERY`], nanoseconds.
    pub sampled_ns: u64,
}

/// All that the kernel side keeps for one core.
#[repr(C, align(4096))]
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// Odd while an update is under way.
    pub seq: u64,
    /// Up to when all time has been charged.
    pub last_ns: u64,
    /// Time already booked elsewhere that the next charge leaves out.
    pub deferred_ns: u64,
    /// Turns ever written to the tape.
    pub tape_turns: u64,
    /// Open contexts above the base.
    pub depth: u32,
    /// Thread number of the base task.
    pub base_pid: u32,
    pub(crate) shadow_depth: u32,
    pub(crate) shadow_cause: u32,
    pub(crate) timer_entry_ns: u64,
    /// Thread whose core this is, when preemption is counted on cores.
    pub owner_pid: u32,
    /// Not 0 while a task is known to wait behind the base thread.
    pub behind: u32,
    /// Open contexts, base first.
    pub frames: [Frame; FRAMES],
    /// When the ledger began, `CLOCK_MONOTONIC` nanoseconds.
    pub start_ns: u64,
    pub(crate) shadow_start_ns: u64,
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
    pub(crate) base_start_ns: u64,
    pub(crate) throttled: [u32; THROTTLED],
    /// How often a user task waited for this core until it got it.
    pub waits: u64,
    /// How long, summed over tasks; nanoseconds.
    pub waited_ns: u64,
    /// How often a task was throttled by its cgroup's quota and came back here.
    pub throttles: u64,
    /// How long, from leaving the core to getting it again; nanoseconds.
    pub throttled_ns: u64,
    /// User tasks that waited here and were moved to another core: how long they had waited is not known.
    pub moved_away: u64,
    /// Waits that reach back beyond the runs that are kept, or whose tasks were lost sight of.
    pub not_followed: u64,
    pub(crate) runs_closed: u64,
    pub(crate) runs: [Run; RUNS],
    pub(crate) timer_before_ns: u64,
    pub(crate) logged_ip: u64,
    pub(crate) logged_call: u64,
    pub(crate) held_durations: [u16; HELD_DURATIONS],
    pub(crate) held: u32,
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
    pub depth: u8,
    /// Why the base thread before this one left, one of the `LEFT_` numbers, and who kept whom waiting.
    pub left: u8,
    /// Thread number of the base task.
    pub pid: u32,
}

impl Turn {
    /// Why the base thread before this one left: one of the `LEFT_` numbers.
    pub fn why_left(&self) -> u8 {
        self.left & LEFT_REASON
    }
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

/// The name of a task when a core saw it last.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenName {
    pub comm: [u8; 16],
    pub pid: u32,
    pub reserved: u32,
}

/// The names that a core remembers.
#[repr(C)]
pub(crate) struct CoreNames {
    pub written: u64,
    pub seen: [SeenName; shared::SEEN_NAMES],
}

/// The name of a task, written when it got a core, or left it, under a name that this core did not remember.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameRecord {
    /// When, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// The name, ended by a zero if it is shorter.
    pub comm: [u8; 16],
    /// The task's number, as the kernel has it.
    pub pid: u32,
    pub(crate) reserved: u32,
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
    pub console: u32,
}

same_layout!(CauseTotals, cause: key, count, total_ns, max_ns, idle_ns, name, taken_ns);
same_layout!(Run, run: start_ns, end_ns, taken_from_ns, rest_ns, name, cause, realtime);
same_layout!(Frame, frame: cause, level, own_ns);
same_layout!(ProgramRuns, program: count, sampled_ns);
same_layout!(
    Slot,
    slot: seq, last_ns, deferred_ns, tape_turns, depth, base_pid, shadow_depth, shadow_cause, timer_entry_ns, owner_pid,
    behind, frames, start_ns, shadow_start_ns, late_records, heals, owner_seen_ns, shadowed, self_interrupts, waiting,
    base_start_ns, throttled, waits, waited_ns, throttles, throttled_ns, moved_away, not_followed, runs_closed, runs,
    timer_before_ns, logged_ip, logged_call, held_durations, held, programs, causes
);
same_layout!(Turn, turn: at_ns, cause, depth, left, pid);
same_layout!(Late, late: due_ns, fired_ns, base_cause, base_pid, turns, reserved, tape);
same_layout!(SeenName, seen_name: comm, pid, reserved);
same_layout!(CoreNames, core_names: written, seen);
same_layout!(NameRecord, name_record: at_ns, comm, pid, reserved);
same_layout!(HistogramTable, histogram: buckets);
same_layout!(
    ProgramConfig,
    config: late_threshold_ns, workload_comm, workload_by, self_tgid, cpu_count, console
);

const _: () = {
    assert!(BUCKETS == surefoot_model::BUCKETS, "a duration's bucket is computed on both sides");
    assert!(TAPE_TURNS.is_power_of_two());
    assert!(shared::WORKLOAD_BY_COUNT == 4 && shared::KEY_KIND_COUNT == 5, "kinds that Rust does not know");
    assert!(
        shared::LEFT_COUNT == 9 && LEFT_ENDED == 8 && LEFT_ENDED <= LEFT_REASON,
        "reasons to leave that Rust does not know"
    );
    assert!(CAUSE_SOFTIRQ + SOFTIRQS.len() == CAUSE_OTHER_NMI, "the kernel's ten softirqs, then the rest");
    // Each vector's cause by its place here, as the programs number them.
    assert!(VECTORS.len() == shared::VECTORS.len());
    let mut index = 0;
    while index < VECTORS.len() {
        let (name, cause) = shared::VECTORS[index];
        assert!(
            same(name, VECTORS[index].name) && cause == CAUSE_LOCAL_TIMER + index,
            "vectors have another order in C"
        );
        index += 1;
    }
};

/// Whether two texts are the same, at compile time.
const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut same = one.len() == other.len();
    let mut at = 0;
    while same && at < one.len() {
        same = one[at] == other[at];
        at += 1;
    }
    same
}
