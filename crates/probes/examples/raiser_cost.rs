//! What naming raisers costs the raiser: time of the programs per unmapping, by the kernel's own statistics.
//!
//!     cargo run --release -p surefoot-probes --example raiser_cost [UNMAPPINGS]
//!
//! A thread on core 0 unmaps touched memory while a thread of the same process spins on core 1. Around each unmapping
//! the kernel is asked what the programs have taken so far, so that a median can be told and not only a mean. It needs
//! root and two cores.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use surefoot_model::CpuId;
use surefoot_probes::{Options, Probes, RaiserOptions, Raisers, UserStacks};

/// Programs that run on the watched core, which the raiser does not pay for.
const ON_THE_WATCHED_CORE: [&str; 4] = ["mark_function", "mark_timer", "mark_softirq", "mark_tick"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times = std::env::args().nth(1).map_or(Ok(5_000), |word| word.parse::<usize>())?;
    // SAFETY: the call takes no pointers; the descriptor lives as long as the process, and the statistics with it.
    let statistics = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if statistics < 0 {
        return Err("the kernel does not measure its programs for us: this needs root".into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let spins = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        pin(1);
        while !spins.load(Ordering::Relaxed) {
            spin_loop();
        }
    });
    pin(0);
    println!("{:<14} {:>8} {:>10} {:>10} {:>10}", "stacks", "raised", "median ns", "mean ns", "p99 ns");
    let usual = RaiserOptions::default().kernel_stacks_checked_every;
    for (name, kernel_stacks, kernel_stacks_checked_every, user_stacks) in [
        ("none", false, usual, UserStacks::None),
        ("user", false, usual, UserStacks::FramePointers),
        ("user copied", false, usual, UserStacks::Copied),
        ("kernel, walked", true, 0, UserStacks::None),
        ("kernel", true, usual, UserStacks::None),
        ("both", true, usual, UserStacks::FramePointers),
        ("both, auto", true, usual, UserStacks::Auto),
        ("both, copied", true, usual, UserStacks::Copied),
    ] {
        let probes = Probes::attach(&Options::default())?;
        let options = RaiserOptions {
            cpus: vec![CpuId(1)],
            kernel_stacks,
            kernel_stacks_checked_every,
            user_stacks,
            stacks_per_s: u64::MAX,
            ..RaiserOptions::default()
        };
        let raisers = Raisers::attach(&probes, &options)?;
        let mut taken = measure(&raisers, times);
        taken.sort_unstable();
        let count = taken.len().max(1);
        println!(
            "{name:<14} {:>8} {:>10} {:>10} {:>10}",
            taken.len(),
            taken.get(count / 2).copied().unwrap_or(0),
            taken.iter().sum::<u64>() / count as u64,
            taken.get(count * 99 / 100).copied().unwrap_or(0),
        );
        let counts = raisers.counts();
        if kernel_stacks {
            println!(
                "    of {} records {} had a known kernel stack; {} were compared, {} differ",
                counts.records, counts.stacks_recalled, counts.stacks_checked, counts.stacks_differ
            );
        }
        for runs in raisers.runs().iter().filter(|runs| runs.count > 0) {
            println!("    {:<24} {:>8} runs, mean {} ns", runs.program, runs.count, runs.total_ns / runs.count);
        }
    }
    stop.store(true, Ordering::Relaxed);
    spinner.join().map_err(|_| "the spinning thread did not end well")?;
    Ok(())
}

/// Time of the raiser's programs for each unmapping that raised something.
fn measure(raisers: &Raisers, times: usize) -> Vec<u64> {
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let page = map();
        let (records, before) = (raisers.counts().records, raiser_ns(raisers));
        // SAFETY: the mapping was made above and nothing else knows of it.
        unsafe { libc::munmap(page, 65_536) };
        let (records, after) = (raisers.counts().records - records, raiser_ns(raisers));
        if records == 1 {
            taken.push(after - before);
        }
        let _ = raisers.take();
    }
    taken
}

fn raiser_ns(raisers: &Raisers) -> u64 {
    let runs = raisers.runs();
    runs.iter().filter(|runs| !ON_THE_WATCHED_CORE.contains(&runs.program.as_str())).map(|runs| runs.total_ns).sum()
}

fn map() -> *mut libc::c_void {
    // SAFETY: a fresh private mapping at an address of the kernel's choice, touched once within its length.
    unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), 65_536, protection, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "64 KiB can be mapped");
        page.cast::<u8>().write_volatile(1);
        page
    }
}

fn pin(cpu: usize) {
    // SAFETY: cpu_set_t is made of integers, for which zero is a value; the pointers are to a local.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0, "core {cpu} exists");
    }
}
