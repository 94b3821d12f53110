//! Raisers on the running kernel: a process changes its own protections and its other thread's core is interrupted.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::layout::KEY_FUNCTION;
use surefoot_probes::{
    COPY_BYTES, Error, Mark, MarkKind, Options, Probes, Raised, RaisedKind, RaiserOptions, Raisers, UserStacks,
};
use surefoot_testkit::not_run::not_run;

const TIMES: usize = 500;

/// While something else runs on core 1 there is nothing to flush there, so a busy machine raises few and has to be asked
/// again.
const ENOUGH: usize = TIMES / 20;
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Both tests use the same two cores.
static TURN: Mutex<()> = Mutex::new(());

/// The ledger's programs, on a machine with the two cores that these tests use.
fn attached(test: &str) -> Option<Probes> {
    // SAFETY: sysconf has no preconditions.
    if unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } < 2 {
        not_run(test, "it takes two cores");
        return None;
    }
    match Probes::attach(&Options::default()) {
        Ok(probes) => Some(probes),
        Err(Error::Unsupported { why, .. }) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn pin(cpu: u32) {
    // SAFETY: cpu_set_t is made of integers, for which zero is a value; the pointers are to a local.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// Unmaps touched memory again and again while a thread of this process runs on core 1: each time its translations go.
fn unmap_while_another_core_runs() {
    let stop = Arc::new(AtomicBool::new(false));
    let spins = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        pin(1);
        while !spins.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    pin(0);
    for _ in 0..TIMES {
        // SAFETY: a fresh private mapping, touched and unmapped; nothing else knows its address.
        unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                65_536,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<u8>().write_volatile(1);
            assert_eq!(libc::munmap(page, 65_536), 0);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    stop.store(true, Ordering::Relaxed);
    spinner.join().unwrap();
}

/// What the thread that unmaps raised; attaching the programs raised some, too.
fn mine(raised: &[Raised]) -> Vec<&Raised> {
    let (own, munmap) = (std::process::id(), Some(libc::SYS_munmap as u32));
    let is_mine =
        |raised: &&Raised| raised.kind == RaisedKind::Function && raised.pid == own && raised.system_call == munmap;
    raised.iter().filter(is_mine).collect()
}

#[test]
fn what_is_queued_for_a_watched_core_meets_its_execution_there() {
    const TEST: &str = "what_is_queued_for_a_watched_core_meets_its_execution_there";
    let _turn = TURN.lock();
    // SAFETY: sysconf has no preconditions.
    if unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } < 2 {
        return not_run(TEST, "it takes two cores");
    }
    // One program on each tracepoint does the part of both.
    let probes = match Probes::attach(&Options { raisers_follow: true, ..Options::default() }) {
        Ok(probes) => probes,
        Err(Error::Unsupported { why, .. }) => return not_run(TEST, &why),
        Err(error) => panic!("{error}"),
    };
    let options = RaiserOptions { cpus: vec![CpuId(1)], stacks_per_s: 100_000, ..RaiserOptions::default() };
    let raisers = Raisers::attach(&probes, &options).unwrap();
    let first = raisers.marks_end(CpuId(1));
    let (mut raised, mut marks): (Vec<Raised>, Vec<Mark>) = Default::default();
    let (mut next, mut lost) = (first, 0);
    let start = Instant::now();
    while mine(&raised).len() < ENOUGH && start.elapsed() < PATIENCE {
        let worker = std::thread::spawn(unmap_while_another_core_runs);
        let mut has_ended = false;
        while !has_ended {
            has_ended = worker.is_finished();
            std::thread::sleep(Duration::from_millis(5));
            raised.extend(raisers.take());
            let (end, missing) = raisers.read_marks(CpuId(1), next, &mut marks);
            next = end;
            lost += missing;
        }
        worker.join().unwrap();
    }

    let slot = super::ledger::snapshot(&probes, CpuId(1)).slot;
    let functions =
        slot.causes.iter().filter(|cause| cause.kind() == KEY_FUNCTION).map(|cause| cause.count).sum::<u64>();
    assert!(functions >= ENOUGH as u64, "the ledger has {functions} called functions");
    let mine = mine(&raised);
    assert!(mine.len() >= ENOUGH, "{} were seen to be raised", mine.len());
    assert!(mine.iter().all(|raised| raised.cpu == CpuId(1) && raised.from == CpuId(0) && !raised.in_interrupt));
    let with_stacks =
        mine.iter().filter(|raised| raised.kernel_stack.len() > 3 && !raised.user_stack.is_empty()).count();
    assert!(with_stacks >= mine.len() * 9 / 10, "{with_stacks} of {} carry both stacks", mine.len());

    // Each record's call-single data shows up on the core afterwards, with the same function.
    let mut ran: HashMap<u64, Vec<&Mark>> = HashMap::new();
    for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Function) {
        ran.entry(mark.key).or_default().push(mark);
    }
    let met = mine
        .iter()
        .filter(|raised| {
            ran.get(&raised.key).is_some_and(|marks| {
                marks.iter().any(|mark| mark.at_ns >= raised.at_ns && mark.value == raised.function)
            })
        })
        .count();
    assert!(met + lost as usize >= mine.len() - 1, "{met} of {} met, {lost} marks lost", mine.len());
    assert_eq!(raisers.counts().dropped, 0);
}

#[test]
fn what_finds_the_ring_full_is_dropped_and_counted() {
    const TEST: &str = "what_finds_the_ring_full_is_dropped_and_counted";
    let _turn = TURN.lock();
    let Some(probes) = attached(TEST) else { return };
    let options = RaiserOptions {
        cpus: vec![CpuId(0), CpuId(1)],
        user_stacks: UserStacks::Copied,
        stacks_per_s: u64::MAX,
        // Small: where two emulated cores share a busy one, each unmapping waits for the other core's turn.
        ring_bytes: 1 << 18,
        ..RaiserOptions::default()
    };
    let raisers = Raisers::attach(&probes, &options).unwrap();
    let (mut rounds, mut taken) = (0, Vec::new());
    // Nobody reads during a round; each record takes 9 KiB of 256 KiB.
    while raisers.counts().dropped == 0 || raisers.counts().copies_dropped == 0 {
        rounds += 1;
        // The room that was left may have been too little for a record, so that no copy was even asked for.
        taken.extend(raisers.take());
        assert!(rounds < 40, "nothing was dropped: {:?}", raisers.counts());
        std::thread::spawn(unmap_while_another_core_runs).join().unwrap();
    }
    taken.extend(raisers.take());
    let after = raisers.counts();
    // Records of after the ring was emptied may have joined those that were read.
    let (left, found) = (after.records - after.dropped, taken.len() as u64);
    assert!(found >= 12 && found <= left, "{found} of {left}");
    assert!(taken.iter().filter(|raised| raised.user_copy.is_some()).count() >= 6);
    for copy in taken.iter().filter_map(|raised| raised.user_copy.as_ref()) {
        assert!(!copy.stack.is_empty() && copy.stack.len() <= COPY_BYTES && copy.sp != 0 && copy.ip != 0);
    }
}

/// A thread on core 0 maps, protects, unmaps and orders the memory of its process, whose other thread runs on core 1.
fn storm(turns: usize) {
    let stop = Arc::new(AtomicBool::new(false));
    let spins = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        pin(1);
        while !spins.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    pin(0);
    for turn in 0..turns {
        let bytes = 4096 << (turn % 6);
        // SAFETY: a fresh private mapping, touched and unmapped; nothing else knows its address.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            pages.cast::<u8>().write_volatile(1);
            assert_eq!(libc::mprotect(pages, bytes, libc::PROT_READ), 0);
            if turn % 3 == 0 {
                libc::madvise(pages, bytes, libc::MADV_DONTNEED);
            }
            assert_eq!(libc::munmap(pages, bytes), 0);
            // MEMBARRIER_CMD_PRIVATE_EXPEDITED
            libc::syscall(libc::SYS_membarrier, 1 << 3, 0, 0);
        }
        if turn % 8 == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    stop.store(true, Ordering::Relaxed);
    spinner.join().unwrap();
}

#[test]
fn kernel_stacks_from_memory_are_those_that_a_walk_finds() {
    const TEST: &str = "kernel_stacks_from_memory_are_those_that_a_walk_finds";
    let _turn = TURN.lock();
    let Some(probes) = attached(TEST) else { return };
    // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED. SAFETY: the call takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, 1 << 4, 0, 0) };
    // Every stack is walked, and compared with what is remembered of it.
    let options = RaiserOptions {
        cpus: vec![CpuId(1)],
        stacks_per_s: u64::MAX,
        user_stacks: UserStacks::None,
        kernel_stacks_checked_every: 1,
        ..RaiserOptions::default()
    };
    let raisers = Raisers::attach(&probes, &options).unwrap();
    let start = Instant::now();
    while raisers.counts().stacks_checked < 2_000 && start.elapsed() < PATIENCE {
        let worker = std::thread::spawn(|| storm(1_000));
        while !worker.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
            let _ = raisers.take();
        }
        worker.join().unwrap();
    }
    let counts = raisers.counts();
    println!("{counts:?}");
    assert!(counts.stacks_checked >= 300, "{counts:?}");
    assert_eq!((counts.stacks_differ, counts.stacks_forgotten), (0, 0), "{counts:?}");
    drop(raisers);

    // As usual: most records have a stack from memory, which is as whole as one that was walked.
    let raisers = Raisers::attach(&probes, &RaiserOptions { kernel_stacks_checked_every: 64, ..options }).unwrap();
    let (start, mut taken) = (Instant::now(), Vec::new());
    while raisers.counts().stacks_recalled < 500 && start.elapsed() < PATIENCE {
        let worker = std::thread::spawn(|| storm(1_000));
        while !worker.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
            taken.extend(raisers.take());
        }
        worker.join().unwrap();
    }
    let counts = raisers.counts();
    println!("{counts:?}");
    assert!(counts.stacks_recalled >= 100 && counts.stacks_forgotten == 0 && counts.stacks_differ == 0, "{counts:?}");
    let mine = mine(&taken);
    assert!(mine.iter().all(|raised| raised.kernel_stack.len() > 5), "{} have whole stacks", mine.len());
}
