//! Switches between made-up tasks, played to the ledger's own code in the kernel: who waited, and from whom time was taken,
//! is known to the nanosecond, on an idle machine and on a busy one.
#![allow(clippy::unwrap_used)]

use crate::layout::{CAUSE_WORK, KEPT_BY_ANY, KEPT_WAITING, KEY_TASK, KEY_THREAD, RAN_BESIDE, RAN_REALTIME, Slot};
use crate::layout::{LEFT_ASLEEP, LEFT_REASON, LEFT_THROTTLED, LEFT_WAITING, TAPE_TURNS, Turn};
use crate::load::{Maps, configure, map_all, refusal, start_slots};
use crate::{Error, Options, Workload, monotonic_ns};
use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use std::time::{Duration, Instant};
use surefoot_testkit::not_run::not_run;

static PLANTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/planted.bpf.o"));

/// As `bpf/waits.h` has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TaskView {
    comm: [u8; 16],
    pid: u32,
    tgid: u32,
    waited_ns: u64,
    wait_known: bool,
    kernel_thread: bool,
    realtime: bool,
    left: u8,
    reserved: u32,
}

const IDLE: TaskView = task("", 0);

const fn task(name: &str, pid: u32) -> TaskView {
    let mut comm = [0; 16];
    let mut byte = 0;
    while byte < name.len() {
        comm[byte] = name.as_bytes()[byte];
        byte += 1;
    }
    TaskView {
        comm,
        pid,
        tgid: pid,
        waited_ns: 0,
        wait_known: true,
        kernel_thread: false,
        realtime: false,
        left: LEFT_ASLEEP,
        reserved: 0,
    }
}

const fn kernel_thread(name: &str, pid: u32) -> TaskView {
    TaskView { kernel_thread: true, ..task(name, pid) }
}

const THREAD: TaskView = kernel_thread("kworker/1:2", 40);
const OTHER_THREAD: TaskView = kernel_thread("kswapd0", 41);
const JOB: TaskView = task("job", 100);
const STRANGER: TaskView = task("stranger", 200);

/// A core of made-up tasks.
struct Core {
    object: Object,
    maps: Maps,
    cpu: usize,
    on: TaskView,
}

impl Core {
    /// The core that this thread is on from now on, and nothing runs there yet.
    fn start(test: &str, workload: Workload) -> Option<Core> {
        let cpu = stay_here();
        let cpu_count = libbpf_rs::num_possible_cpus().unwrap();
        let mut object = ObjectBuilder::default().open_memory(PLANTED).unwrap();
        configure(&mut object, &Options { workload, ..Options::default() }, cpu_count).unwrap();
        let object = match object.load().map_err(|error| refusal(&error)) {
            Ok(object) => object,
            Err(Error::Unsupported { why, .. }) => {
                not_run(test, &why);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let maps = map_all(&object).unwrap();
        start_slots(&maps, cpu_count, monotonic_ns(0));
        Some(Core { object, maps, cpu, on: IDLE })
    }

    /// The task that has the core leaves it like this after so long at least, and this one gets it, for which it has
    /// waited so long. Returns how long the former had it.
    fn switch(&mut self, after: Duration, left: u8, next: TaskView, waited_ns: u64) -> u64 {
        let since = Instant::now();
        while since.elapsed() < after {
            std::hint::spin_loop();
        }
        let was_ns = self.slot().last_ns;
        let mut views = [TaskView { left, ..self.on }, TaskView { waited_ns, ..next }];
        // SAFETY: the views are integers, bytes and booleans that the program only reads, without padding.
        let bytes = unsafe { std::slice::from_raw_parts_mut(views.as_mut_ptr().cast::<u8>(), size_of_val(&views)) };
        let program = self.object.progs_mut().find(|program| program.name() == "planted_switch").unwrap();
        program.test_run(ProgramInput { context_in: Some(bytes), ..ProgramInput::default() }).unwrap();
        self.on = next;
        self.slot().last_ns - was_ns
    }

    /// An interrupt ends of which no program saw the beginning, as while they are attached one after the other.
    fn exit(&mut self, after: Duration) {
        let since = Instant::now();
        while since.elapsed() < after {
            std::hint::spin_loop();
        }
        let mut views = [IDLE; 2];
        // SAFETY: as in `switch`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(views.as_mut_ptr().cast::<u8>(), size_of_val(&views)) };
        let program = self.object.progs_mut().find(|program| program.name() == "planted_exit").unwrap();
        program.test_run(ProgramInput { context_in: Some(bytes), ..ProgramInput::default() }).unwrap();
    }

    fn slot(&self) -> Slot {
        let mut slot = Slot::zeroed();
        self.maps.slots.load(self.cpu, &mut slot);
        slot
    }

    /// What the newest turn says of runs that count as work until it is known who waited.
    fn told(&self) -> u8 {
        let mut turn = Turn::default();
        let newest = (self.slot().tape_turns as usize - 1) & (TAPE_TURNS - 1);
        self.maps.tape.load(self.cpu * TAPE_TURNS + newest, &mut turn);
        assert_eq!((turn.at_ns, turn.pid), (self.slot().last_ns, self.on.pid));
        turn.left & !LEFT_REASON
    }

    /// What ran under this name, and what of it was taken.
    fn row(&self, kind: u8, name: &str) -> (u64, u64) {
        let slot = self.slot();
        let is_it = |name_of: [u8; 16]| name_of.starts_with(name.as_bytes()) && name_of[name.len()] == 0;
        let row = slot.causes.iter().find(|cause| cause.kind() == kind && is_it(cause.name));
        row.map_or((0, 0), |row| (row.total_ns, row.taken_ns))
    }

    /// The parts of all causes are the time since the start.
    fn adds_up(&self) {
        let slot = self.slot();
        let total_ns: u64 = slot.causes.iter().map(|cause| cause.total_ns).sum();
        assert_eq!(total_ns, slot.last_ns - slot.start_ns);
    }
}

/// Keeps this thread on the core where it is: the programs write the slot of the core on which they run.
fn stay_here() -> usize {
    // SAFETY: a set of cores is made of integers, and is only read; the first call follows no pointer.
    unsafe {
        let cpu = libc::sched_getcpu() as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
        cpu
    }
}

const A_WHILE: Duration = Duration::from_micros(200);
const PART_NS: u64 = 50_000;

#[test]
fn a_kernel_thread_that_runs_while_nobody_waits_takes_nothing() {
    let test = "a_kernel_thread_that_runs_while_nobody_waits_takes_nothing";
    let Some(mut core) = Core::start(test, Workload::None) else { return };
    // Between idle and idle; a task gets the core later.
    core.switch(A_WHILE, LEFT_ASLEEP, THREAD, 0);
    let mut ran_ns = core.switch(A_WHILE, LEFT_ASLEEP, IDLE, 0);
    core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns, 0), "idle follows");
    // The task sleeps meanwhile, and gets the core the moment that it is woken.
    core.switch(A_WHILE, LEFT_ASLEEP, THREAD, 0);
    ran_ns += core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns, 0), "a task follows that has not waited");
    core.switch(A_WHILE, LEFT_ASLEEP, THREAD, 0);
    ran_ns += core.switch(A_WHILE, LEFT_ASLEEP, OTHER_THREAD, 0);
    let other_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns, 0), "another thread follows");
    assert_eq!(core.row(KEY_THREAD, "kswapd0"), (other_ns, 0));
    assert_eq!((core.slot().waited_ns, core.slot().not_followed), (0, 0));
    core.adds_up();
}

#[test]
fn a_kernel_thread_takes_what_a_task_waited_while_it_ran_and_no_more() {
    let test = "a_kernel_thread_takes_what_a_task_waited_while_it_ran_and_no_more";
    let Some(mut core) = Core::start(test, Workload::None) else { return };
    // The task is woken shortly before the end.
    core.switch(A_WHILE, LEFT_ASLEEP, THREAD, 0);
    let ran_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, PART_NS);
    // A task that was woken later has waited for nothing that was not counted.
    core.switch(Duration::ZERO, LEFT_ASLEEP, STRANGER, PART_NS);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns, PART_NS), "woken in between");
    core.switch(Duration::ZERO, LEFT_ASLEEP, JOB, 0);
    // It is preempted, so it waits from the start to the end.
    core.switch(A_WHILE, LEFT_WAITING, THREAD, 0);
    let all_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns + all_ns, PART_NS + all_ns), "preempted");
    // It waited for all of one thread and a part of the one before.
    let before_ns = core.row(KEY_THREAD, "kworker").1;
    let waited_ns = 300_000;
    core.switch(A_WHILE, LEFT_ASLEEP, THREAD, 0);
    core.switch(A_WHILE, LEFT_ASLEEP, OTHER_THREAD, 0);
    core.switch(A_WHILE, LEFT_ASLEEP, JOB, waited_ns);
    let both_ns = core.row(KEY_THREAD, "kworker").1 - before_ns + core.row(KEY_THREAD, "kswapd0").1;
    assert_eq!(both_ns, waited_ns, "two threads one after the other");
    // Another task has waited all the time, but no run was longer than it was.
    core.switch(Duration::ZERO, LEFT_ASLEEP, STRANGER, 10_000_000_000);
    for thread in ["kworker", "kswapd0"] {
        let (ran_ns, taken_ns) = core.row(KEY_THREAD, thread);
        assert_eq!(ran_ns, taken_ns, "{thread} with two tasks behind it");
    }
    // Whoever waited was moved away: nobody knows when, so nothing is said to be taken.
    let before = core.row(KEY_THREAD, "kworker");
    core.switch(A_WHILE, LEFT_WAITING, THREAD, 0);
    let ran_ns = core.switch(A_WHILE, LEFT_ASLEEP, IDLE, 0);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (before.0 + ran_ns, before.1), "moved away");
    assert_eq!((core.slot().not_followed, core.slot().waits), (1, 4));
    core.adds_up();
}

#[test]
fn a_throttled_task_does_not_wait_for_what_runs_meanwhile() {
    let test = "a_throttled_task_does_not_wait_for_what_runs_meanwhile";
    let Some(mut core) = Core::start(test, Workload::None) else { return };
    core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    core.switch(A_WHILE, LEFT_THROTTLED, THREAD, 0);
    let ran_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, PART_NS);
    assert_eq!(core.row(KEY_THREAD, "kworker"), (ran_ns, 0));
    assert_eq!((core.slot().throttles, core.slot().throttled_ns, core.slot().waits), (1, PART_NS, 0));
    core.adds_up();
}

#[test]
fn a_task_takes_from_the_workload_what_that_waited_and_nothing_while_it_runs_alone() {
    let test = "a_task_takes_from_the_workload_what_that_waited_and_nothing_while_it_runs_alone";
    let Some(mut core) = Core::start(test, Workload::Comm("job".to_owned())) else { return };
    let work_ns = |core: &Core| core.slot().causes[CAUSE_WORK].total_ns;
    core.switch(A_WHILE, LEFT_ASLEEP, STRANGER, 0);
    let mut alone_ns = core.switch(A_WHILE, LEFT_ASLEEP, IDLE, 0);
    core.switch(A_WHILE, LEFT_ASLEEP, STRANGER, 0);
    alone_ns += core.switch(A_WHILE, LEFT_ASLEEP, JOB, 0);
    assert_eq!((core.row(KEY_TASK, "stranger"), work_ns(&core)), ((0, 0), alone_ns), "alone");
    let job_ns = core.switch(A_WHILE, LEFT_ASLEEP, STRANGER, 0);
    let ran_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, PART_NS);
    assert_eq!(core.row(KEY_TASK, "stranger"), (PART_NS, PART_NS), "the workload was woken in between");
    assert_eq!(work_ns(&core), alone_ns + job_ns + ran_ns - PART_NS, "the rest is work");
    let job_ns = job_ns + core.switch(A_WHILE, LEFT_WAITING, STRANGER, 0);
    let all_ns = core.switch(A_WHILE, LEFT_WAITING, JOB, 0);
    assert_eq!(core.row(KEY_TASK, "stranger"), (PART_NS + all_ns, PART_NS + all_ns), "the workload was preempted");
    // The workload runs while another waits, who is none of it.
    let job_ns = job_ns + core.switch(A_WHILE, LEFT_ASLEEP, STRANGER, 1_000_000);
    assert_eq!(work_ns(&core), alone_ns + job_ns + ran_ns - PART_NS, "the workload takes nothing from itself");
    assert_eq!((core.row(KEY_TASK, "job"), core.slot().not_followed), ((0, 0), 0));
    core.adds_up();
}

#[test]
fn no_more_is_taken_from_a_run_than_it_was_charged() {
    let test = "no_more_is_taken_from_a_run_than_it_was_charged";
    let Some(mut core) = Core::start(test, Workload::Comm("job".to_owned())) else { return };
    core.on = STRANGER;
    // Nobody knows yet who runs there.
    core.exit(A_WHILE);
    let known_ns = core.switch(A_WHILE, LEFT_ASLEEP, JOB, 1_000_000_000);
    assert_eq!(core.row(KEY_TASK, "stranger"), (known_ns, known_ns));
    assert_eq!(core.slot().causes[CAUSE_WORK].total_ns, 0);
    core.adds_up();
}

/// What the watch rests on that names who brought such a task to the core.
#[test]
fn the_tape_tells_which_runs_may_keep_the_workload_waiting_and_when_some_did() {
    let test = "the_tape_tells_which_runs_may_keep_the_workload_waiting_and_when_some_did";
    let kept = KEPT_WAITING | KEPT_BY_ANY;
    let Some(mut core) = Core::start(test, Workload::Comm("job".to_owned())) else { return };
    let mut told = |left, next, waited_ns| {
        core.switch(A_WHILE, left, next, waited_ns);
        core.told()
    };
    assert_eq!(told(LEFT_ASLEEP, STRANGER, 0), 0, "the core was idle");
    assert_eq!(told(LEFT_ASLEEP, JOB, 0), RAN_BESIDE, "the workload is woken when the other is done");
    assert_eq!(told(LEFT_ASLEEP, STRANGER, 0), 0, "what leaves is the workload");
    assert_eq!(told(LEFT_WAITING, JOB, PART_NS), RAN_BESIDE | kept, "it is woken in between");
    assert_eq!(told(LEFT_ASLEEP, STRANGER, 10_000_000), 0, "who is none of it may wait");
    assert_eq!(told(LEFT_ASLEEP, IDLE, 0), RAN_BESIDE);
    assert_eq!(told(LEFT_ASLEEP, TaskView { realtime: true, ..STRANGER }, 0), 0);
    assert_eq!(told(LEFT_ASLEEP, THREAD, 0), RAN_BESIDE | RAN_REALTIME);
    assert_eq!(told(LEFT_ASLEEP, JOB, PART_NS), 0, "it waited for the kernel thread alone");
    assert_eq!(told(LEFT_WAITING, STRANGER, 0), 0, "preempted: the other is a cause from the start");
    assert_eq!(told(LEFT_WAITING, JOB, A_WHILE.as_nanos() as u64), 0);

    let Some(mut core) = Core::start(test, Workload::None) else { return };
    core.switch(A_WHILE, LEFT_ASLEEP, STRANGER, 0);
    core.switch(A_WHILE, LEFT_ASLEEP, JOB, PART_NS);
    assert_eq!(core.told(), 0, "no task is the workload");
}
