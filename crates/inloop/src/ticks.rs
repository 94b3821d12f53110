//! The processor's counter, as cheap as it can be read, and its rate.

use crate::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the rate is measured on processors that do not tell it. A threshold needs no more than three digits.
#[cfg(not(target_arch = "aarch64"))]
const CALIBRATION: Duration = Duration::from_millis(10);

/// Pairs of readings of which the closest counts, because this thread may be interrupted between two of them.
#[cfg(not(target_arch = "aarch64"))]
const PAIRS: usize = 16;

/// The processor's counter, read without waiting for anything before it.
///
/// x86_64: `rdtsc`. aarch64: `mrs cntvct_el0`. Other processors: always 0, and [`crate::Loop::open`] says so.
///
/// Two readings of one thread may lie some ten nanoseconds closer or farther apart than the code between them says,
/// which no threshold notices; a fence would make the loop wait for its own loads at every turn.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: part of every x86_64; Linux leaves it enabled unless this process forbade it to itself by
        // prctl(PR_SET_TSC).
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter; the instruction touches no memory.
        unsafe {
            core::arch::asm!("mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        0
    }
}

/// The counter's rate; measured at the first call of the process, in 10 ms, where the processor does not tell it.
pub(crate) fn ticks_per_s() -> Result<u64, Error> {
    static RATE: AtomicU64 = AtomicU64::new(0);
    let mut rate = RATE.load(Ordering::Relaxed);
    if rate == 0 {
        // Two threads that get here at once measure the same.
        rate = measure();
        RATE.store(rate, Ordering::Relaxed);
    }
    if rate == 0 { Err(Error::NoCounter) } else { Ok(rate) }
}

#[cfg(target_arch = "aarch64")]
fn measure() -> u64 {
    let rate: u64;
    // SAFETY: Linux lets user space read the counter's frequency; the instruction touches no memory.
    unsafe {
        core::arch::asm!("mrs {rate}, cntfrq_el0", rate = out(reg) rate, options(nomem, nostack, preserves_flags));
    }
    rate & u64::from(u32::MAX)
}

#[cfg(not(target_arch = "aarch64"))]
fn measure() -> u64 {
    let pair = || {
        let read = || {
            let before = ticks();
            let now = std::time::Instant::now();
            let after = ticks();
            (after.wrapping_sub(before), before, now)
        };
        (0..PAIRS).map(|_| read()).min_by_key(|(width, ..)| *width)
    };
    let first = pair();
    std::thread::sleep(CALIBRATION);
    let (Some((_, ticks_before, before)), Some((_, ticks_after, after))) = (first, pair()) else { return 0 };
    let ns = after.duration_since(before).as_nanos().max(1);
    let rate = u128::from(ticks_after.saturating_sub(ticks_before)) * 1_000_000_000 / ns;
    u64::try_from(rate).unwrap_or(0)
}

/// How many ticks a duration has; saturates.
pub(crate) fn from_duration(duration: Duration) -> Result<u64, Error> {
    let ticks = duration.as_nanos().saturating_mul(u128::from(ticks_per_s()?)) / 1_000_000_000;
    Ok(u64::try_from(ticks).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_in_ticks_is_what_the_counter_says() {
        let start = std::time::Instant::now();
        let before = ticks();
        std::thread::sleep(Duration::from_millis(30));
        let counted = ticks() - before;
        let slept = start.elapsed();
        let expected = from_duration(slept).unwrap();
        assert!(counted.abs_diff(expected) < expected / 20, "{counted} ticks in {slept:?}, expected {expected}");
        assert_eq!(from_duration(Duration::MAX).unwrap(), u64::MAX);
    }
}
