//! The injector: a real-time task that stalls a core for known times and logs them itself.
//!
//! Its log has one line per stall: the planned length, and the start and the end of its spinning by its own clock
//! reads, `CLOCK_MONOTONIC` nanoseconds. The switch to it and away from it lies outside these times. So that as little
//! as possible does, it does not sleep itself, which would program the stalled core's timer on its way out: a thread
//! on another core sleeps and wakes it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;
use surefoot_random::Random;
use surefoot_sys::thread;

/// The name of the thread that stalls the core, as `causes` shows it.
pub const THREAD: &str = "stall-injector";

/// How many stalls of which lengths: (share of the count, shortest, longest), nanoseconds; log-uniform within.
///
/// Stalls of length 0 tell what the switching alone costs.
const CLASSES: [(f64, f64, f64); 4] =
    [(0.08, 0.0, 0.0), (0.78, 10_000.0, 1_000_000.0), (0.11, 1_000_000.0, 10_000_000.0), (0.03, 1e7, 1e8)];

#[derive(clap::Args)]
pub struct Options {
    #[arg(long)]
    cpu: u32,
    /// The core that wakes it
    #[arg(long)]
    waker: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    count: usize,
    /// Priority under SCHED_FIFO
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
}

/// A stall that is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Sleep before it.
    pub sleep_ns: u64,
    /// How long it is to last.
    pub length_ns: u64,
}

/// A stall that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// How long it was to last.
    pub planned_ns: u64,
    /// When the spinning began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

impl Stall {
    /// How long it lasted by the injector's own clock.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The stalls of a seed. After each the core is free for longer than half of it, so that the real-time share of a
/// second stays well below the 95 % at which the kernel throttles.
pub fn plan(seed: u64, count: usize) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let mut before_ns = 0;
    (0..count)
        .map(|_| {
            let length_ns = length(&mut random);
            let sleep_ns = 1_000_000 + (random.unit() * 1e6) as u64 + before_ns / 2;
            before_ns = length_ns;
            Planned { sleep_ns, length_ns }
        })
        .collect()
}

fn length(random: &mut Random) -> u64 {
    let mut place = random.unit();
    for (share, shortest, longest) in CLASSES {
        if place < share {
            let within = random.unit();
            return if longest == 0.0 { 0 } else { (shortest * (longest / shortest).powf(within)) as u64 };
        }
        place -= share;
    }
    0
}

/// How long the whole plan takes, without what waking up costs.
pub fn plan_ns(planned: &[Planned]) -> u64 {
    planned.iter().map(|stall| stall.sleep_ns + stall.length_ns).sum()
}

/// Runs the plan and prints the log.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (cpu, priority) = (CpuId(options.cpu), options.priority);
    let planned = plan(options.seed, options.count);
    let lengths: Vec<u64> = planned.iter().map(|stall| stall.length_ns).collect();
    thread::lock_memory()?;
    thread::pin_to(CpuId(options.waker))?;
    let turns = Arc::new(Turns::default());
    let theirs = Arc::clone(&turns);
    let stall = move || inject(cpu, priority, &lengths, &theirs);
    let injector = std::thread::Builder::new().name(THREAD.to_owned()).spawn(stall)?;
    for number in 0..planned.len() as u64 {
        std::thread::sleep(Duration::from_nanos(planned[number as usize].sleep_ns));
        turns.due.store(number + 1, Ordering::Release);
        injector.thread().unpark();
        // The next sleep begins when this stall is over.
        while turns.done.load(Ordering::Acquire) <= number && !injector.is_finished() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    let stalls = injector.join().map_err(|_| anyhow::anyhow!("the injecting thread panicked"))??;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for stall in &stalls {
        writeln!(out, "{} {} {}", stall.planned_ns, stall.start_ns, stall.end_ns)?;
    }
    Ok(out.flush()?)
}

/// How many stalls are due, and how many are done.
#[derive(Default)]
struct Turns {
    due: AtomicU64,
    done: AtomicU64,
}

fn inject(cpu: CpuId, priority: u8, lengths: &[u64], turns: &Turns) -> Result<Vec<Stall>, surefoot_hostfs::Error> {
    // Written once here, so that no page fault falls into the stalls.
    let mut stalls = vec![Stall { planned_ns: 1, start_ns: 1, end_ns: 1 }; lengths.len()];
    thread::pin_to(cpu)?;
    thread::set_fifo(priority)?;
    for (number, (stall, &length_ns)) in stalls.iter_mut().zip(lengths).enumerate() {
        while turns.due.load(Ordering::Acquire) <= number as u64 {
            std::thread::park();
        }
        let start_ns = monotonic_ns();
        let mut end_ns = start_ns;
        while end_ns - start_ns < length_ns {
            end_ns = monotonic_ns();
        }
        *stall = Stall { planned_ns: length_ns, start_ns, end_ns };
        turns.done.store(number as u64 + 1, Ordering::Release);
    }
    Ok(stalls)
}

/// Reads the log.
pub fn parse(log: &str) -> anyhow::Result<Vec<Stall>> {
    log.lines()
        .map(|line| {
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            match numbers[..] {
                [planned_ns, start_ns, end_ns] if start_ns <= end_ns => Ok(Stall { planned_ns, start_ns, end_ns }),
                _ => anyhow::bail!("the injector's log has the line '{line}'"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_plan_repeats_and_keeps_its_limits() {
        let planned = plan(3, 4000);
        assert_eq!(planned, plan(3, 4000));
        assert_ne!(planned, plan(4, 4000));
        let stalls = planned.iter().filter(|stall| stall.length_ns > 0);
        assert!(stalls.clone().all(|stall| (10_000..=100_000_000).contains(&stall.length_ns)));
        assert!(stalls.clone().filter(|stall| stall.length_ns < 1_000_000).count() > 2500);
        assert!(stalls.filter(|stall| stall.length_ns > 10_000_000).count() > 50);
        let busy_ns: u64 = planned.iter().map(|stall| stall.length_ns).sum();
        assert!(busy_ns * 10 < plan_ns(&planned) * 8, "no more than 80 % of the time");
        assert!(planned.windows(2).all(|pair| pair[1].sleep_ns * 2 >= pair[0].length_ns));
    }

    #[test]
    fn the_log_is_read_back() {
        let stalls = parse("10 100 120\n0 5 5\n").unwrap();
        assert_eq!(stalls[0], Stall { planned_ns: 10, start_ns: 100, end_ns: 120 });
        assert_eq!(stalls[1].length_ns(), 0);
        assert!(parse("10 100\n").is_err() && parse("1 5 4\n").is_err());
    }
}
