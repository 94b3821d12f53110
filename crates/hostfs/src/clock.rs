//! Clocks: `CLOCK_MONOTONIC` for events, and the processor's own counter for loops that cannot afford a call.
//!
//! Times are those of the machine's clocks, as eBPF programs and trace events have them: in a time namespace its offsets are taken
//! off here, and nowhere else. What /proc tells of times since the boot has the namespace's offset: [`proc_ahead_ns`].

use crate::namespaces::{Namespaces, Offsets};
use crate::{Error, Root, Unsupported};
use std::sync::OnceLock;
use std::time::Duration;
use surefoot_model::Digits;

/// Pairs read for one anchor. The best of them is what counts; a few hundred make an undisturbed one certain enough.
const PAIRS: usize = 256;

/// How many anchors are kept to take the rate from.
const ANCHORS: usize = 8;

/// Kept anchors lie this far apart at least, so that many re-anchorings in a row do not shorten the rate's base.
const ANCHOR_SPACING_NS: u64 = 100_000_000;

/// How often an anchor is tried, and how much wider than usual its bracket may be.
const ANCHOR_TRIES: usize = 3;
const WIDE_BRACKET: u64 = 4;

/// Fractional bits of the rate, so that rounding costs less than 0.1 ns in ten minutes.
const RATE_BITS: u32 = 48;

/// `CLOCK_MONOTONIC` of the machine, nanoseconds.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC).saturating_add_signed(-offsets().monotonic_ns)
}

/// How far this process's clocks are ahead of the machine's. Where that is unknown they are taken as they are, and
/// [`Namespaces::offsets`] says so to whoever compares them with the kernel's.
pub fn offsets() -> Offsets {
    static OFFSETS: OnceLock<Offsets> = OnceLock::new();
    *OFFSETS.get_or_init(|| Namespaces::of_this_process().offsets().unwrap_or_default())
}

/// `CLOCK_REALTIME`, nanoseconds since 1970 (UTC).
pub fn realtime_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// When the host booted by its clock of today, `CLOCK_REALTIME`, to the second (`btime` of /proc/stat).
///
/// # Errors
/// When the file cannot be read or does not say.
pub fn booted_realtime_ns(root: &Root) -> Result<u64, Error> {
    let path = root.proc("stat");
    let text = root.read_again(&path)?;
    let seconds: Option<u64> = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().digits());
    let seconds = seconds.ok_or_else(|| Error::malformed(path, 1, "there is no btime, the time of the boot"))?;
    Ok(seconds.saturating_mul(1_000_000_000))
}

/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, nanoseconds; right to within the time of one clock read.
pub fn realtime_offset_ns() -> i64 {
    // The narrowest of a few brackets, because this thread may be preempted between two reads.
    let best = (0..8).map(|_| {
        let before = monotonic_ns();
        let real = read_clock(libc::CLOCK_REALTIME);
        let after = monotonic_ns();
        (after - before, i128::from(real) - i128::from(before.midpoint(after)))
    });
    let offset = best.min_by_key(|(bracket, _)| *bracket).map_or(0, |(_, offset)| offset);
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, nanoseconds: how long the machine has slept since its boot.
pub fn boot_offset_ns() -> u64 {
    // As above; the former is never behind the latter, but for the time of the reads.
    let best = (0..8).map(|_| {
        let before = monotonic_ns();
        let boot = read_clock(libc::CLOCK_BOOTTIME).saturating_add_signed(-offsets().boottime_ns);
        let after = monotonic_ns();
        (after - before, boot.saturating_sub(before.midpoint(after)))
    });
    best.min_by_key(|(bracket, _)| *bracket).map_or(0, |(_, offset)| offset)
}

/// How far times since the boot in /proc (the start of a process, the uptime) are ahead of [`monotonic_ns`], nanoseconds: by what the
/// machine has slept, and by the offset of this process's time namespace.
pub fn proc_ahead_ns() -> i64 {
    i64::try_from(boot_offset_ns()).unwrap_or(i64::MAX).saturating_add(offsets().boottime_ns)
}

pub(crate) fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill. The clocks passed here exist on every Linux.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    debug_assert_eq!(failed, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor's counter, read after everything before it has been done.
///
/// x86_64: `lfence; rdtsc`, as the kernel's own ordered read. aarch64: `isb; mrs cntvct_el0`.
/// Other processors have none that can be used here: always 0, and [`TscClock::calibrate`] says so.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: both instructions are part of every x86_64; Linux leaves RDTSC enabled unless this process forbade
        // it to itself by prctl(PR_SET_TSC).
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter; neither instruction touches memory.
        unsafe {
            core::arch::asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        0
    }
}

/// The clock source that the kernel uses: `tsc`, `kvm-clock`, `hpet`, `arch_sys_counter`.
///
/// # Errors
/// When /sys/devices/system/clocksource/clocksource0/current_clocksource cannot be read.
pub fn clocksource(root: &Root) -> Result<String, Error> {
    let path = root.sys("devices/system/clocksource/clocksource0/current_clocksource");
    Ok(root.read(path)?.trim().to_owned())
}

/// Whether the kernel itself keeps time by the processor's counter, and so vouches that it runs evenly and alike on
/// all cores. When not, gaps on one core can still be measured, but times of different cores must not be compared.
pub fn trusted(root: &Root) -> bool {
    clocksource(root).is_ok_and(|source| matches!(source.as_str(), "tsc" | "arch_sys_counter"))
}

/// One instant on both clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Anchor {
    tsc: u64,
    monotonic_ns: u64,
    /// The part of a tick that averaging over several pairs adds, 0 to 1.
    tick_fraction: f64,
    /// The part of a nanosecond that averaging over several pairs adds, 0 to 1.
    ns_fraction: f64,
    /// Ticks between the two counter reads around the clock read.
    bracket_ticks: u64,
}

impl Anchor {
    /// Reads pairs and averages those that were as undisturbed as the best.
    fn read() -> Anchor {
        let mut pairs = [(0u64, 0u64, 0u64); PAIRS];
        for pair in &mut pairs {
            let before = tsc();
            let monotonic = monotonic_ns();
            let after = tsc();
            *pair = (after.wrapping_sub(before), before, monotonic);
        }
        Anchor::from_pairs(&pairs)
    }

    /// `pairs` are (bracket, counter before, clock), in the order of reading; not empty.
    fn from_pairs(pairs: &[(u64, u64, u64)]) -> Anchor {
        let best = pairs.iter().map(|pair| pair.0).min().unwrap_or(0);
        let limit = best + best / 16;
        let undisturbed = || pairs.iter().filter(|pair| pair.0 <= limit);
        // Averages are taken relative to the first good pair, where f64 is exact enough.
        let Some(&(_, tsc0, monotonic0)) = undisturbed().next() else {
            return Anchor { tsc: 0, monotonic_ns: 0, tick_fraction: 0.0, ns_fraction: 0.0, bracket_ticks: 0 };
        };
        let count = undisturbed().count() as f64;
        let middle = |pair: &(u64, u64, u64)| pair.1.wrapping_sub(tsc0) as f64 + pair.0 as f64 / 2.0;
        let ticks = undisturbed().map(middle).sum::<f64>() / count;
        let ns = undisturbed().map(|pair| pair.2.wrapping_sub(monotonic0) as f64).sum::<f64>() / count;
        Anchor {
            tsc: tsc0.wrapping_add(ticks as u64),
            monotonic_ns: monotonic0 + ns as u64,
            tick_fraction: ticks.fract(),
            ns_fraction: ns.fract(),
            bracket_ticks: best,
        }
    }
}

/// Maps the processor's counter to `CLOCK_MONOTONIC`.
///
/// An anchor is an instant read on both clocks: pairs of counter reads around a clock read, of which only those with
/// the narrowest bracket are kept and averaged. The rate comes from two anchors that lie apart. `CLOCK_MONOTONIC` is
/// slewed by NTP, so the mapping drifts away at up to some hundred nanoseconds a second: call [`TscClock::reanchor`]
/// about once a second where both clocks are compared. Lengths ([`TscClock::duration_ns`]) do not need it.
#[derive(Debug, Clone)]
pub struct TscClock {
    /// Ascending; never empty.
    anchors: Vec<Anchor>,
    /// Nanoseconds per tick, `RATE_BITS` of them fractional.
    rate: u128,
}

impl TscClock {
    /// Measures the counter's rate for 100 ms.
    ///
    /// # Errors
    /// [`Unsupported`] on a processor without a usable counter, or when it stands still.
    pub fn calibrate() -> Result<Self, Unsupported> {
        Self::calibrate_for(Duration::from_millis(100))
    }

    /// Measures the counter's rate for this long (1 ms to 10 s). The error of the rate falls with the length.
    ///
    /// # Errors
    /// As [`TscClock::calibrate`].
    pub fn calibrate_for(length: Duration) -> Result<Self, Unsupported> {
        let first = Anchor::read();
        std::thread::sleep(length.clamp(Duration::from_millis(1), Duration::from_secs(10)));
        let second = Anchor::read();
        Self::from_anchors(vec![first, second]).ok_or_else(|| {
            Unsupported::new("the processor's time-stamp counter does not run", "use the clock of the kernel instead")
        })
    }

    fn from_anchors(anchors: Vec<Anchor>) -> Option<Self> {
        let (first, last) = (anchors.first()?, anchors.last()?);
        let ticks = last.tsc.checked_sub(first.tsc).filter(|&ticks| ticks > 0)?;
        let ticks = ticks as f64 + last.tick_fraction - first.tick_fraction;
        let ns = last.monotonic_ns.checked_sub(first.monotonic_ns)? as f64 + last.ns_fraction - first.ns_fraction;
        if ns <= 0.0 || ticks <= 0.0 {
            return None;
        }
        // A day in ticks needs 48 bits of the 53 that f64 has, which is finer than the anchors are.
        let rate = (ns / ticks * (1u64 << RATE_BITS) as f64) as u128;
        (rate > 0).then_some(TscClock { anchors, rate })
    }

    /// Takes a new anchor and a new rate from the last few. Where the time of an instant moves by this, it moves by
    /// the error that had built up. About 20 us of work; meant for a housekeeping core.
    pub fn reanchor(&mut self) {
        let usual = self.anchors.iter().map(|anchor| anchor.bracket_ticks).min().unwrap_or(0);
        let undisturbed = |anchor: &Anchor| anchor.bracket_ticks <= usual.saturating_mul(WIDE_BRACKET);
        // An anchor that was disturbed each time is left out: the old one is better.
        let Some(anchor) = (0..ANCHOR_TRIES).map(|_| Anchor::read()).find(undisturbed) else { return };
        self.add(anchor);
    }

    fn add(&mut self, anchor: Anchor) {
        let mut anchors = self.anchors.clone();
        let before_last = anchors.len().checked_sub(2).map(|at| anchors[at].monotonic_ns);
        if before_last.is_some_and(|then| anchor.monotonic_ns.saturating_sub(then) < ANCHOR_SPACING_NS) {
            anchors.pop();
        } else if anchors.len() == ANCHORS {
            anchors.remove(0);
        }
        anchors.push(anchor);
        match Self::from_anchors(anchors) {
            Some(next) => *self = next,
            // The counter ran backwards: the machine was suspended. The rate holds, the old anchors do not.
            None => self.anchors = vec![anchor],
        }
    }

    /// The counter's value as `CLOCK_MONOTONIC`, nanoseconds.
    #[inline]
    pub fn ns(&self, tsc: u64) -> u64 {
        let anchor = &self.anchors[self.anchors.len() - 1];
        if tsc >= anchor.tsc {
            anchor.monotonic_ns.saturating_add(self.duration_ns(tsc - anchor.tsc))
        } else {
            anchor.monotonic_ns.saturating_sub(self.duration_ns(anchor.tsc - tsc))
        }
    }

    /// A number of ticks as nanoseconds, rounded.
    #[inline]
    pub fn duration_ns(&self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * self.rate + (1 << (RATE_BITS - 1))) >> RATE_BITS;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Nanoseconds as ticks, rounded down; `u64::MAX` when there are more.
    #[inline]
    pub fn ticks(&self, duration_ns: u64) -> u64 {
        u64::try_from((u128::from(duration_ns) << RATE_BITS) / self.rate).unwrap_or(u64::MAX)
    }

    /// Ticks in a second.
    pub fn hz(&self) -> u64 {
        self.ticks(1_000_000_000)
    }

    /// How far the newest anchor can be from the truth: half its bracket, nanoseconds.
    pub fn anchor_error_ns(&self) -> u64 {
        self.duration_ns(self.anchors[self.anchors.len() - 1].bracket_ticks / 2)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A counter of exactly 2.8 GHz that stood at `TSC_START` when the clock showed `CLOCK_START_NS`.
    const TICKS_PER_NS: f64 = 2.8;
    const TSC_START: u64 = 123_456_789_012_345;
    const CLOCK_START_NS: u64 = 44_092_000_000_000;

    fn tsc_at(ns: u64) -> u64 {
        TSC_START + ((ns - CLOCK_START_NS) as u128 * 28 / 10) as u64
    }

    /// Pairs as a real machine gives them: mostly 40 ticks wide, now and then interrupted for long.
    fn anchor_at(start_ns: u64) -> Anchor {
        let pairs: Vec<(u64, u64, u64)> = (0..PAIRS as u64)
            .map(|i| {
                let ns = start_ns + i * 17;
                let interrupted = if i % 5 == 3 { 90_000 + i * 1_000 } else { 0 };
                // The clock is read in the middle of the undisturbed bracket, after the interruption.
                (40 + interrupted, tsc_at(ns) - 20 - interrupted, ns)
            })
            .collect();
        Anchor::from_pairs(&pairs)
    }

    fn clock() -> TscClock {
        TscClock::from_anchors(vec![anchor_at(CLOCK_START_NS + 1_000), anchor_at(CLOCK_START_NS + 100_001_000)])
            .unwrap()
    }

    #[test]
    fn interrupted_pairs_do_not_move_an_anchor() {
        let anchor = anchor_at(CLOCK_START_NS + 1_000);
        assert_eq!(anchor.bracket_ticks, 40);
        let truth = tsc_at(anchor.monotonic_ns) as f64 + anchor.ns_fraction * TICKS_PER_NS;
        assert!((anchor.tsc as f64 + anchor.tick_fraction - truth).abs() < 1.0, "{anchor:?}");
    }

    #[test]
    fn ten_seconds_away_the_mapping_is_off_by_less_than_100_ns() {
        let clock = clock();
        assert!(clock.hz().abs_diff(2_800_000_000) < 20, "{}", clock.hz());
        for ns in [CLOCK_START_NS, CLOCK_START_NS + 100_000_000, CLOCK_START_NS + 10_000_000_000] {
            let error = clock.ns(tsc_at(ns)).abs_diff(ns);
            assert!(error < 100, "{error} ns");
        }
        assert_eq!(clock.duration_ns(2_800), 1_000);
        assert!(clock.ticks(1_000_000).abs_diff(2_800_000) <= 1);
    }

    #[test]
    fn many_anchors_in_a_row_keep_the_base_of_the_rate_long() {
        let mut clock = clock();
        for i in 0..1_000 {
            clock.add(anchor_at(CLOCK_START_NS + 100_001_000 + i * 1_000_000));
        }
        let base = clock.anchors.last().unwrap().monotonic_ns - clock.anchors[0].monotonic_ns;
        assert!(base > 5 * ANCHOR_SPACING_NS && clock.anchors.len() <= ANCHORS, "{base}");
    }

    #[test]
    fn a_counter_that_ran_backwards_starts_a_new_line() {
        let mut clock = clock();
        let restarted =
            Anchor { tsc: 1_000, monotonic_ns: CLOCK_START_NS + 5_000_000_000, ..anchor_at(CLOCK_START_NS) };
        clock.add(restarted);
        assert_eq!(clock.ns(1_000 + 2_800), CLOCK_START_NS + 5_000_001_000);
    }

    #[test]
    fn a_counter_that_stands_still_is_no_clock() {
        let still = Anchor { tsc: 7, ..anchor_at(CLOCK_START_NS) };
        let later = Anchor { tsc: 7, ..anchor_at(CLOCK_START_NS + 1_000_000) };
        assert!(TscClock::from_anchors(vec![still, later]).is_none());
    }

    #[test]
    fn conversions_have_no_overflow() {
        let clock = clock();
        assert!(clock.ns(0) < 1_000_000_000);
        assert!(clock.ns(u64::MAX) > CLOCK_START_NS);
        assert!(clock.duration_ns(u64::MAX) > 1 << 60);
        assert_eq!(clock.ticks(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_real_counter_maps_between_two_reads_of_the_real_clock() {
        let mut clock = TscClock::calibrate_for(Duration::from_millis(20)).unwrap();
        // NTP may slew the clock between anchor and reading; this much it cannot in so short a time.
        const SLEW_NS: u64 = 20_000;
        for _ in 0..100 {
            let before = monotonic_ns();
            let mapped = clock.ns(tsc());
            let after = monotonic_ns();
            assert!(before <= mapped + SLEW_NS && mapped <= after + SLEW_NS, "{before} {mapped} {after}");
        }
        clock.reanchor();
        let before = monotonic_ns();
        let mapped = clock.ns(tsc());
        assert!(before <= mapped + SLEW_NS);
    }

    #[test]
    fn the_offset_leads_to_the_time_of_day() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i128;
        let ours = i128::from(monotonic_ns()) + i128::from(realtime_offset_ns());
        assert!((0..60_000_000_000).contains(&(ours - now)), "{ours} against {now}");
    }
}
