//! What attaching costs a busy core: interrupts for each tracepoint, from /proc/interrupts.
//!
//!     cargo run --release -p surefoot-probes --example attach_cost [ROUNDS]
//!
//! A thread spins on core 1 while the programs are attached and detached again from core 0, for each question in turn, and
//! as often without anything. It needs root and two cores.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_model::CpuId;
use surefoot_probes::{Options, Probes, RaiserOptions, Raisers};

/// Rows in which nothing comes on an ordinary machine.
const SILENT: [&str; 7] = ["PLT", "ERR", "SPU", "TRM", "THR", "DFR", "NMI"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |word| word.parse::<usize>())?;
    let stop = Arc::new(AtomicBool::new(false));
    let spins = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        pin(1);
        while !spins.load(Ordering::Relaxed) {
            spin_loop();
        }
    });
    pin(0);
    println!("{:<28} {:>12} {:>16} {:>16}", "question", "tracepoints", "attaching", "detaching");
    let silent: Vec<String> = SILENT.iter().map(|row| (*row).to_owned()).collect();
    for (name, options, raisers) in [
        ("nothing", None, false),
        ("ledger, every tracepoint", Some(Options::default()), false),
        ("ledger", Some(Options { silent_rows: silent.clone(), ..Options::default() }), false),
        ("raisers, two programs each", Some(Options::default()), true),
        ("raisers", Some(Options { silent_rows: silent, raisers_follow: true, ..Options::default() }), true),
    ] {
        let (mut up, mut down, mut tracepoints) = (Vec::new(), Vec::new(), 0);
        for _ in 0..rounds {
            let before = calls();
            let probes = options.as_ref().map(Probes::attach).transpose()?;
            let watched = RaiserOptions { cpus: vec![CpuId(1)], ..RaiserOptions::default() };
            let raisers =
                probes.as_ref().filter(|_| raisers).map(|probes| Raisers::attach(probes, &watched)).transpose()?;
            std::thread::sleep(Duration::from_millis(100));
            up.push(calls() - before);
            tracepoints = probes.as_ref().map_or(0, Probes::attached) + raisers.as_ref().map_or(0, Raisers::attached);
            let before = calls();
            drop((raisers, probes));
            std::thread::sleep(Duration::from_millis(100));
            down.push(calls() - before);
        }
        println!("{name:<28} {tracepoints:>12} {:>16} {:>16}", spread(&mut up), spread(&mut down));
    }
    stop.store(true, Ordering::Relaxed);
    spinner.join().map_err(|_| "the spinning thread did not end well")?;
    Ok(())
}

/// The median, and the least and the most.
fn spread(counts: &mut [u64]) -> String {
    counts.sort_unstable();
    match &*counts {
        [] => String::new(),
        [first, .., last] => format!("{} ({first} to {last})", counts[counts.len() / 2]),
        [one] => one.to_string(),
    }
}

/// Functions that other cores had core 1 run so far, without shootdowns.
fn calls() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let of = |label: &str| {
        let row = text.lines().find_map(|line| line.trim().strip_prefix(label));
        row.and_then(|counts| counts.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    of("CAL:") - of("TLB:")
}

fn pin(cpu: usize) {
    // SAFETY: cpu_set_t is made of integers, for which zero is a value; the pointers are to a local.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0, "core {cpu} exists");
    }
}
