//! The loop: reads the time-stamp counter as fast as it can and notes every jump.
//!
//! It makes no system call, takes no lock and allocates nothing while it runs; what it finds goes into a ring that
//! another thread empties. A jump longer than the threshold is time that the core spent on something else.

pub mod probe;
pub(crate) mod sentinel;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use surefoot_hostfs::clock::tsc;
use surefoot_hostfs::thread;
use surefoot_model::CpuId;

/// Jumps that the ring holds before the reader takes them.
const RING_JUMPS: u64 = 1 << 15;

/// Turns between two looks at the stop flag: often enough to stop within a millisecond.
const TURNS_PER_LOOK: u32 = 1 << 14;

/// A jump of the counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Jump {
    /// Last reading before it, ticks.
    pub before: u64,
    /// First reading after it, ticks.
    pub after: u64,
}

/// Where the loop leaves its jumps: one writer, one reader.
#[derive(Debug)]
pub struct Jumps {
    ring: Vec<[AtomicU64; 2]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
    stop: AtomicBool,
    /// The core that the loop must stay on; [`ANY_CORE`] for none.
    core: AtomicU32,
    moved: AtomicBool,
}

const ANY_CORE: u32 = u32::MAX;

impl Default for Jumps {
    fn default() -> Self {
        // Every page is touched here, so that the loop never takes a page fault.
        let ring = (0..RING_JUMPS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        Jumps {
            ring,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            core: AtomicU32::new(ANY_CORE),
            moved: AtomicBool::new(false),
        }
    }
}

impl Jumps {
    #[cold]
    #[inline(never)]
    fn push(&self, before: u64, after: u64) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.read.load(Ordering::Acquire) >= RING_JUMPS {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let place = &self.ring[(written % RING_JUMPS) as usize];
        place[0].store(before, Ordering::Relaxed);
        place[1].store(after, Ordering::Relaxed);
        self.written.store(written + 1, Ordering::Release);
    }

    /// Takes what the loop has found so far.
    pub fn take(&self, into: &mut Vec<Jump>) {
        let written = self.written.load(Ordering::Acquire);
        let read = self.read.load(Ordering::Relaxed);
        for number in read..written {
            let place = &self.ring[(number % RING_JUMPS) as usize];
            into.push(Jump { before: place[0].load(Ordering::Relaxed), after: place[1].load(Ordering::Relaxed) });
        }
        self.read.store(written, Ordering::Release);
    }

    /// Jumps that found the ring full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Tells the loop to end within a millisecond.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the loop when it runs on another core: one that goes offline moves even what was tied to it, and what a
    /// loop sees elsewhere says nothing about its core.
    pub fn stay_on(&self, cpu: CpuId) {
        self.core.store(cpu.0, Ordering::Relaxed);
    }

    /// Whether the loop ended because it was moved off its core.
    pub fn was_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    fn is_on_its_core(&self) -> bool {
        let core = self.core.load(Ordering::Relaxed);
        let stays = core == ANY_CORE || thread::current_cpu().0 == core;
        if !stays {
            self.moved.store(true, Ordering::Relaxed);
        }
        stays
    }

    /// Whether the loop was told to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Spins on the calling thread's core until the counter reaches `end` or [`Jumps::stop`] is called, and returns how
/// many turns it made. A jump is noted when it exceeds `threshold` ticks.
pub fn spin_until(end: u64, threshold: u64, jumps: &Jumps) -> u64 {
    spin_within(tsc()..end, threshold, jumps)
}

/// The same from a reading before the call: what the core did from then on instead of this loop is a jump, too.
pub fn spin_within(window: Range<u64>, threshold: u64, jumps: &Jumps) -> u64 {
    let Range { start: mut last, end } = window;
    let mut turns = 0u64;
    while last < end && !jumps.stopped() && jumps.is_on_its_core() {
        for _ in 0..TURNS_PER_LOOK {
            let now = tsc();
            if now.wrapping_sub(last) > threshold {
                jumps.push(last, now);
                // What noting it took is not the core's fault.
                last = tsc();
                if last >= end {
                    break;
                }
            } else {
                last = now;
            }
        }
        turns += u64::from(TURNS_PER_LOOK);
    }
    turns
}

/// What one turn of the loop takes, ticks: the shortest and the middle of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granularity {
    /// The shortest turn.
    pub shortest: u64,
    /// The median turn.
    pub median: u64,
}

/// Measures the loop on the calling thread's core; takes about a millisecond.
pub fn granularity() -> Granularity {
    const TURNS: usize = 20_000;
    let mut turns = vec![0u64; TURNS];
    let mut last = tsc();
    for turn in &mut turns {
        let now = tsc();
        *turn = now.wrapping_sub(last);
        last = now;
    }
    turns.sort_unstable();
    Granularity { shortest: turns[0], median: turns[TURNS / 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_order_and_counts_what_does_not_fit() {
        let jumps = Jumps::default();
        for number in 0..RING_JUMPS + 3 {
            jumps.push(number, number + 1);
        }
        let mut taken = Vec::new();
        jumps.take(&mut taken);
        assert_eq!(taken.len() as u64, RING_JUMPS);
        assert!(taken.iter().enumerate().all(|(number, jump)| jump.before == number as u64));
        assert_eq!(jumps.dropped(), 3);
        jumps.push(7, 9);
        taken.clear();
        jumps.take(&mut taken);
        assert_eq!(taken, [Jump { before: 7, after: 9 }]);
    }

    #[test]
    fn a_zero_threshold_notes_every_turn_and_stop_ends_the_loop() {
        let jumps = Jumps::default();
        spin_until(tsc() + 100_000, 0, &jumps);
        let mut taken = Vec::new();
        jumps.take(&mut taken);
        assert!(!taken.is_empty());
        assert!(taken.windows(2).all(|pair| pair[0].after <= pair[1].before));
        jumps.stop();
        assert_eq!(spin_until(u64::MAX, 1_000, &jumps), 0);
    }

    #[test]
    fn a_core_that_the_loop_gets_late_was_elsewhere_from_the_beginning_and_one_that_it_never_gets_to_the_end() {
        let jumps = Jumps::default();
        let start = tsc() - 2_000_000;
        spin_within(start..start + 2_100_000, 1_000_000, &jumps);
        // Over before it runs at all.
        spin_within(start..start + 1_500_000, 1_000_000, &jumps);
        let mut taken = Vec::new();
        jumps.take(&mut taken);
        let late = |jump: &Jump| jump.before == start && jump.after >= start + 2_000_000;
        assert!(taken.len() == 2 && taken.iter().all(late), "{taken:?} from {start}");
    }

    #[test]
    fn a_loop_that_is_moved_off_its_core_ends() {
        let jumps = Jumps::default();
        jumps.stay_on(CpuId(surefoot_hostfs::cpus::LARGEST_CPU));
        assert_eq!(spin_until(u64::MAX, 1_000, &jumps), 0);
        assert!(jumps.was_moved());
    }
}
