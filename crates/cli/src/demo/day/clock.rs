//! The times of the made-up day.

/// Nanoseconds of a second.
pub const S: u64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MIN: u64 = 60 * S;
/// Nanoseconds of an hour.
pub const H: u64 = 60 * MIN;

/// `CLOCK_MONOTONIC` at the beginning of the day: the host has been up for nine days.
pub const UP: u64 = 9 * 24 * H;
/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`: the day is 12 May 2026, UTC.
pub const OFFSET: i64 = (1_778_544_000 * S - UP) as i64;
/// From here on each window is a second.
pub const SECONDS_FROM: u64 = 24 * H - super::super::PLAYED_NS - 2 * MIN;

/// Moments of the day, from its beginning.
pub const ROW_FAILS: u64 = 3 * H + 12 * MIN;
pub const CASE_OPENS: u64 = 5 * H + 31 * MIN;
pub const DRAINED: u64 = 5 * H + 36 * MIN;
pub const REPAIRED: u64 = 5 * H + 52 * MIN;
pub const STRESS_ENDS: u64 = 6 * H + 24 * MIN;
pub const RETURNED: u64 = 6 * H + 31 * MIN;
pub const JOB_RESTARTS: u64 = 6 * H + 36 * MIN;
pub const LINK_HANGS: u64 = 11 * H + 40 * MIN;
pub const EXPERIMENT: u64 = 14 * H;
pub const EXPERIMENT_ENDS: u64 = 14 * H + 12 * MIN;
pub const STORM: u64 = 23 * H + 14 * MIN;

/// A moment of the day on the clock of events.
pub fn at(day_ns: u64) -> u64 {
    UP + day_ns
}

/// The same on the clock of the world.
pub fn real(day_ns: u64) -> u64 {
    at(day_ns).saturating_add_signed(OFFSET)
}
