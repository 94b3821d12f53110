//! What surviving a lost rank costs: a checkpoint in memory that no other rank knows of, one that a partner has a copy of,
//! and one that others keep parity of.
//!
//! `cargo bench -p surefoot-checkpoint --bench parity -- [MEGABYTES] [ROUNDS]`: megabytes per rank; the ranks are four threads of this
//! process, which share what cores there are. A directory on a memory file system is taken from SUREFOOT_BENCH_MEMORY,
//! /dev/shm by default. Rounds take turns; printed are medians over the rounds of the time until the last rank is done, and of
//! the processor time of all ranks together, which says the same on a machine that others use, too.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Instant;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Checkpointer, Config, Group, Policy};

const RANKS: u32 = 4;

/// What is compared: a name, the option that it takes, and its value.
const WAYS: [(&str, Option<(&str, &str)>); 4] = [
    ("each for itself", None),
    ("parity 3+1", Some(("parity", "3+1"))),
    ("parity 2+2", Some(("parity", "2+2"))),
    ("partner's copy", Some(("partner", "yes"))),
];

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let megabytes = numbers.first().copied().unwrap_or(64);
    let rounds = numbers.get(1).copied().unwrap_or(9);
    let base = std::env::var_os("SUREFOOT_BENCH_MEMORY").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let home = tempfile::tempdir_in(base).expect("a directory for the benchmark");
    let groups: Vec<Vec<ThreadGroup>> = WAYS.iter().map(|_| thread_group(RANKS, None)).collect();
    let mut ranks: Vec<Vec<ThreadGroup>> = (0..RANKS).map(|_| Vec::new()).collect();
    for group in groups {
        ranks.iter_mut().zip(group).for_each(|(rank, member)| rank.push(member));
    }
    let together = Barrier::new(RANKS as usize);
    let seconds: Vec<Vec<[Cost; WAYS.len()]>> = std::thread::scope(|scope| {
        let (together, home) = (&together, home.path());
        let run = |members| scope.spawn(move || rank(members, home, megabytes << 20, rounds, together));
        let threads: Vec<_> = ranks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{RANKS} ranks of {megabytes} MiB, medians of {rounds} rounds, {cores} cores allowed");
    let medians: Vec<Cost> = (0..WAYS.len()).map(|way| [0, 1].map(|of| median(&seconds, rounds, way, of))).collect();
    for ((name, _), [passed_s, worked_s]) in WAYS.iter().zip(&medians) {
        let speed = (RANKS as usize * (megabytes << 20)) as f64 / passed_s / 1e9;
        let [passed, worked] = [passed_s / medians[0][0], worked_s / medians[0][1]];
        println!(
            "{name:>16} {:8.1} ms {speed:6.2} GB/s  {passed:.2}   processors {:8.1} ms  {worked:.2}",
            passed_s * 1e3,
            worked_s * 1e3
        );
    }
}

/// Seconds that passed for a rank, and seconds in which a processor worked for all of them.
type Cost = [f64; 2];

/// The median over the rounds of the slowest rank's time, or of the processors'.
fn median(seconds: &[Vec<[Cost; WAYS.len()]>], rounds: usize, way: usize, of: usize) -> f64 {
    let slowest = |round: usize| seconds.iter().map(|of_rank| of_rank[round][way][of]).fold(0.0, f64::max);
    let mut sorted: Vec<f64> = (0..rounds).map(slowest).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[rounds / 2]
}

/// Seconds of processor time of this process so far.
fn processor_s() -> f64 {
    let mut clock = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is whole, and the kernel fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut clock) };
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}

/// Seconds of a checkpoint each way, by round; the first round, which touches everything for the first time, is left out.
fn rank(
    members: Vec<ThreadGroup>,
    home: &Path,
    bytes: usize,
    rounds: usize,
    together: &Barrier,
) -> Vec<[Cost; WAYS.len()]> {
    let number = members.first().map_or(0, Group::rank) as usize;
    let mut state: Box<[u8]> = (0..bytes).map(|at| ((at * 31 + number) >> 7) as u8).collect();
    let mut jobs: Vec<Checkpointer> = Vec::new();
    for (member, (name, option)) in members.into_iter().zip(WAYS) {
        let mut config = Config::new(name.replace([' ', '\'', '+'], "-"), home, None);
        config.policy = Policy::Fixed(Fixed::Memory);
        if let Some((option, value)) = option {
            config.set(option, value).expect("an option");
        }
        let mut job = Checkpointer::open(config, Box::new(member)).expect("the tier");
        // SAFETY: the box keeps its address, lives as long as the jobs, and is left alone during calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).expect("a region") };
        jobs.push(job);
    }
    let mut measured = Vec::new();
    for round in 0..rounds + 1 {
        let mut seconds = [[0.0; 2]; WAYS.len()];
        for (job, seconds) in jobs.iter_mut().zip(&mut seconds) {
            together.wait();
            let (begun, worked_s) = (Instant::now(), processor_s());
            together.wait();
            job.checkpoint().expect("a checkpoint");
            let passed_s = begun.elapsed().as_secs_f64();
            together.wait();
            *seconds = [passed_s, processor_s() - worked_s];
        }
        if round > 0 {
            measured.push(seconds);
        }
    }
    measured
}
