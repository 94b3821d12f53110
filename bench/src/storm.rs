//! The storm: one thread unmaps memory, another of the same process spins on another core and is interrupted each time.

use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use surefoot_hostfs::Root;
use surefoot_hostfs::clock::{TscClock, monotonic_ns, tsc};
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// What is mapped and unmapped each time: more than what the C library has left at the top of its heap, which it would
/// use first.
const MAPPED_BYTES: usize = 1 << 20;

/// What of it is written to, so that there is something to forget on the other core.
const TOUCHED_BYTES: usize = 64 * 1024;

/// glibc takes allocations of this size and more from mmap, and gives them back by munmap, when told so by this
/// variable; without it the threshold would rise with the first of them.
pub const ALLOCATOR: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Gaps up to this length are interrupts; longer ones are other tasks, nanoseconds.
pub const INTERRUPT_NS_MAX: u64 = 200_000;

/// Real-time priority of the victim.
const PRIORITY: u8 = 10;

/// Gaps that the victim can keep.
const GAPS: usize = 1 << 20;

#[derive(clap::Args)]
pub struct Options {
    /// The core that spins
    #[arg(long)]
    victim: u32,
    /// The core that unmaps
    #[arg(long)]
    raiser: u32,
    #[arg(long)]
    count: u64,
    /// Pause between two, nanoseconds
    #[arg(long)]
    pause_ns: u64,
}

/// What the storm did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// How often memory was unmapped.
    pub count: u64,
    /// TLB shootdowns that the victim's core counted meanwhile.
    pub shootdowns: u64,
    /// Time per turn of the raiser without its pause, nanoseconds.
    pub raiser_ns: f64,
    /// Median gap of the victim, nanoseconds.
    pub gap_median_ns: f64,
    /// What the victim lost in gaps of interrupts for each shootdown, nanoseconds.
    pub lost_ns: f64,
    /// Gaps that are too long for an interrupt.
    pub other_gaps: u64,
}

/// Runs the storm and prints what it did as one line of JSON.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let clock = TscClock::calibrate().map_err(|why| anyhow::anyhow!("{}", why.why))?;
    let (victim, threshold) = (CpuId(options.victim), clock.ticks(1_000));
    let (ready, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let storm = std::thread::scope(|scope| {
        let spinning = scope.spawn(|| spin(victim, threshold, &ready, &stop));
        while !ready.load(Ordering::Acquire) && !spinning.is_finished() {
            std::thread::yield_now();
        }
        let raised = raise(options, &clock);
        stop.store(true, Ordering::Relaxed);
        let gaps = spinning.join().map_err(|_| anyhow::anyhow!("the spinning thread panicked"))??;
        raised.map(|(shootdowns, raiser_ns)| sum_up(options.count, shootdowns, raiser_ns, &gaps, &clock))
    })?;
    println!("{}", serde_json::to_string(&storm)?);
    Ok(())
}

/// Unmaps; returns the shootdowns of the victim's core and the time per turn.
fn raise(options: &Options, clock: &TscClock) -> anyhow::Result<(u64, f64)> {
    thread::pin_to(CpuId(options.raiser))?;
    let root = Root::host();
    let before = Interrupts::read(&root)?;
    let pause = clock.ticks(options.pause_ns);
    let mut busy_ns = 0;
    for _ in 0..options.count {
        let start_ns = monotonic_ns();
        let mut memory = Vec::with_capacity(MAPPED_BYTES);
        memory.resize(TOUCHED_BYTES, 1u8);
        drop(black_box(memory));
        busy_ns += monotonic_ns() - start_ns;
        let end = tsc() + pause;
        while tsc() < end {}
    }
    let after = Interrupts::read(&root)?;
    let shootdowns = |interrupts: &Interrupts| -> u64 {
        let place = interrupts.cpus.iter().position(|cpu| cpu.0 == options.victim);
        let row = interrupts.rows.iter().find(|row| row.label == "TLB");
        place.and_then(|place| row?.counts.get(place).copied()).unwrap_or(0)
    };
    Ok((shootdowns(&after) - shootdowns(&before), busy_ns as f64 / options.count.max(1) as f64))
}

fn spin(cpu: CpuId, threshold: u64, ready: &AtomicBool, stop: &AtomicBool) -> anyhow::Result<Vec<u64>> {
    let mut gaps = vec![1u64; GAPS];
    thread::pin_to(cpu)?;
    // While another task runs here, nobody is interrupted. Real-time, so that none does, whatever else the machine is
    // busy with; kernel threads still get their 5 % of each second.
    thread::set_fifo(PRIORITY)?;
    let mut found = 0;
    ready.store(true, Ordering::Release);
    let mut last = tsc();
    while !stop.load(Ordering::Relaxed) {
        let now = tsc();
        let gap = now - last;
        last = now;
        if gap > threshold && found < GAPS {
            gaps[found] = gap;
            found += 1;
            last = tsc();
        }
    }
    gaps.truncate(found);
    Ok(gaps)
}

fn sum_up(count: u64, shootdowns: u64, raiser_ns: f64, gaps: &[u64], clock: &TscClock) -> Storm {
    let mut lengths: Vec<u64> = gaps.iter().map(|ticks| clock.duration_ns(*ticks)).collect();
    let all = lengths.len();
    lengths.retain(|length_ns| *length_ns <= INTERRUPT_NS_MAX);
    lengths.sort_unstable();
    Storm {
        count,
        shootdowns,
        raiser_ns,
        gap_median_ns: lengths.get(lengths.len() / 2).copied().unwrap_or(0) as f64,
        lost_ns: lengths.iter().sum::<u64>() as f64 / shootdowns.max(1) as f64,
        other_gaps: (all - lengths.len()) as u64,
    }
}
