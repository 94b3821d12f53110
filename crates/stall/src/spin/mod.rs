//! The loop: reads the time-stamp counter as fast as it can and notes every jump.
//!
//! It takes no lock and allocates nothing while it runs, and makes no system call, but for one after a jump where nothing is
//! traced (`Waits`); what it finds goes into a ring that another thread empties. A jump longer than the threshold is time that the core spent on something else.

pub mod probe;
pub(crate) mod run_delay;
pub(crate) mod sentinel;

pub(crate) use self::run_delay::RunDelay;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use surefoot_hostfs::clock::tsc;
use surefoot_model::CpuId;
use surefoot_sys::thread;

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
    /// How long the thread waited meanwhile behind others that ran, nanoseconds, where that was asked.
    pub waited_ns: Option<u64>,
}

/// How the loop asks the scheduler how long it waited.
pub(crate) struct Waits {
    delay: RunDelay,
    /// After jumps longer than this, ticks; shorter ones are no switch to another task.
    from: u64,
}

impl Waits {
    /// Forgets what the thread has waited until now.
    fn forget(&mut self) {
        self.delay.since_ns();
    }

    /// How long the thread has waited since the last call or the start, in the jump that ended at `ended`. `None` where this
    /// thread may have waited while it asked, too.
    fn of_jump(&mut self, ended: u64) -> Option<u64> {
        let waited_ns = self.delay.since_ns();
        waited_ns.filter(|_| tsc().wrapping_sub(ended) <= self.from)
    }

    /// Of the calling thread, after jumps longer than `from` ticks; `None` where the kernel does not count it.
    pub(crate) fn of_this_thread(from: u64) -> Option<Self> {
        RunDelay::of_this_thread().map(|delay| Waits { delay, from })
    }
}

/// In the ring: it was not asked how long the thread waited.
const NOT_ASKED: u64 = u64::MAX;

/// Where the loop leaves its jumps: one writer, one reader.
#[derive(Debug)]
pub struct Jumps {
    ring: Vec<[AtomicU64; 3]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
    stop: AtomicBool,
    /// The core that the loop must stay on; [`ANY_CORE`] for none.
    core: AtomicU32,
    moved: AtomicBool,
    looked_from: AtomicU64,
    looked_until: AtomicU64,
}

const ANY_CORE: u32 = u32::MAX;

impl Default for Jumps {
    fn default() -> Self {
        // Every page is touched here, so that the loop never takes a page fault.
        let ring = (0..RING_JUMPS).map(|_| [const { AtomicU64::new(0) }; 3]).collect();
        Jumps {
            ring,
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            core: AtomicU32::new(ANY_CORE),
            moved: AtomicBool::new(false),
            looked_from: AtomicU64::new(0),
            looked_until: AtomicU64::new(0),
        }
    }
}

impl Jumps {
    #[cold]
    #[inline(never)]
    fn push(&self, Jump { before, after, waited_ns }: Jump) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.read.load(Ordering::Acquire) >= RING_JUMPS {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let place = &self.ring[(written % RING_JUMPS) as usize];
        place[0].store(before, Ordering::Relaxed);
        place[1].store(after, Ordering::Relaxed);
        place[2].store(waited_ns.unwrap_or(NOT_ASKED), Ordering::Relaxed);
        self.written.store(written + 1, Ordering::Release);
    }

    /// Takes what the loop has found so far.
    pub fn take(&self, into: &mut Vec<Jump>) {
        let written = self.written.load(Ordering::Acquire);
        let read = self.read.load(Ordering::Relaxed);
        for number in read..written {
            let [before, after, waited_ns] =
                self.ring[(number % RING_JUMPS) as usize].each_ref().map(|word| word.load(Ordering::Relaxed));
            into.push(Jump { before, after, waited_ns: (waited_ns != NOT_ASKED).then_some(waited_ns) });
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

    /// From when to when the loop has looked, by the counter: its jumps lie in between. 0 before it begins.
    pub fn looked(&self) -> Range<u64> {
        self.looked_from.load(Ordering::Relaxed)..self.looked_until.load(Ordering::Relaxed)
    }

    /// Whether the loop was told to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Spins on the calling thread's core until the counter reaches `end` or [`Jumps::stop`] is called, and returns how
/// many turns it made. A jump is noted when it exceeds `threshold` ticks.
pub fn spin_until(end: u64, threshold: u64, jumps: &Jumps) -> u64 {
    spin_within(tsc()..end, threshold, jumps, None)
}

/// The same from a reading before the call: what the core did from then on instead of this loop is a jump, too. A jump over
/// the end of the window is cut there, and [`Jumps::looked`] ends there, too.
pub(crate) fn spin_within(window: Range<u64>, threshold: u64, jumps: &Jumps, mut waits: Option<Waits>) -> u64 {
    let Range { start: mut last, end } = window;
    let notable = waits.as_ref().map_or(threshold, |waits| waits.from.min(threshold));
    // What it waited before the window is none of its jumps'. One that begins late has waited meanwhile, which is the first's.
    if let Some(waits) = waits.as_mut().filter(|waits| tsc().saturating_sub(last) <= waits.from) {
        waits.forget();
    }
    jumps.looked_from.store(last, Ordering::Relaxed);
    let mut turns = 0u64;
    jumps.looked_until.store(last, Ordering::Relaxed);
    while last < end && !jumps.stopped() && jumps.is_on_its_core() {
        for _ in 0..TURNS_PER_LOOK {
            let now = tsc();
            if now.wrapping_sub(last) > notable {
                let waited_ns = waits.as_mut().and_then(|waits| waits.of_jump(now));
                let after = now.min(end);
                if after > last && after - last > threshold {
                    jumps.push(Jump { before: last, after, waited_ns });
                }
                // What noting it took is not the core's fault, and what this thread waited meanwhile is in no jump.
                if let Some(waits) = waits.as_mut().filter(|waits| tsc().wrapping_sub(now) > waits.from) {
                    waits.forget();
                }
                last = tsc();
                if last >= end {
                    break;
                }
            } else {
                last = now;
            }
        }
        turns += u64::from(TURNS_PER_LOOK);
        jumps.looked_until.store(last.min(end), Ordering::Relaxed);
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
            jumps.push(Jump { before: number, after: number + 1, waited_ns: None });
        }
        let mut taken = Vec::new();
        jumps.take(&mut taken);
        assert_eq!(taken.len() as u64, RING_JUMPS);
        assert!(taken.iter().enumerate().all(|(number, jump)| jump.before == number as u64));
        assert_eq!(jumps.dropped(), 3);
        jumps.push(Jump { before: 7, after: 9, waited_ns: Some(1) });
        taken.clear();
        jumps.take(&mut taken);
        assert_eq!(taken, [Jump { before: 7, after: 9, waited_ns: Some(1) }]);
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
        spin_within(start..start + 2_100_000, 1_000_000, &jumps, None);
        assert_eq!(jumps.looked(), start..start + 2_100_000);
        // Over before it runs at all.
        spin_within(start..start + 1_500_000, 1_000_000, &jumps, None);
        assert_eq!(jumps.looked(), start..start + 1_500_000);
        let mut taken = Vec::new();
        jumps.take(&mut taken);
        let late = |jump: &Jump| jump.before == start && jump.after >= start + 1_500_000;
        assert!(taken.len() == 2 && taken.iter().all(late), "{taken:?} from {start}");
        assert_eq!(taken[1].after, start + 1_500_000, "what it missed after its end is none of its window");
    }

    /// What a thread has waited before it spins belongs to no jump.
    #[test]
    fn what_a_thread_waited_before_it_spins_is_credited_to_no_jump() {
        let told = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(told.path(), "1 5000 1\n").unwrap_or_else(|error| panic!("{error}"));
        // Held up before it spins, it may have waited in its first jump; and while it asks, nobody knows.
        let is_credited = (0..200).all(|_| {
            let jumps = Jumps::default();
            let delay = RunDelay::of_file(told.reopen().unwrap_or_else(|error| panic!("{error}")));
            let start = tsc();
            spin_within(start..start + 1_000_000, 0, &jumps, Some(Waits { delay, from: 100_000 }));
            let mut taken = Vec::new();
            jumps.take(&mut taken);
            let waited: Vec<u64> = taken.iter().filter_map(|jump| jump.waited_ns).collect();
            waited.is_empty() || waited.contains(&5_000)
        });
        assert!(!is_credited);
    }

    #[test]
    fn a_loop_that_is_moved_off_its_core_ends() {
        let jumps = Jumps::default();
        jumps.stay_on(CpuId(surefoot_hostfs::cpus::LARGEST_CPU));
        assert_eq!(spin_until(u64::MAX, 1_000, &jumps), 0);
        assert!(jumps.was_moved());
    }
}
