//! The wall clock beside the clock of the events: whether it was set, or the machine slept.

use surefoot_hostfs::clock;
use surefoot_model::ClockChange;

/// Smaller differences are the error of reading clocks. NTP slews both clocks alike, so that nothing but a step shows
/// here; steps that are smaller add up until they show.
const STEP_NS: u64 = 1_000_000;

/// How far apart the clocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) realtime_ns: i64,
    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`: what the machine has slept since its boot, nanoseconds.
    pub(crate) boot_ns: u64,
}

impl Offsets {
    fn now() -> Self {
        Offsets { realtime_ns: clock::realtime_offset_ns(), boot_ns: clock::boot_offset_ns() }
    }
}

/// Watches the wall clock.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// As they were told last.
    pub(crate) told: Offsets,
}

impl WallClock {
    /// The offset that the host's description tells.
    pub(crate) fn begin(realtime_offset_ns: i64) -> Self {
        WallClock { told: Offsets { realtime_ns: realtime_offset_ns, ..Offsets::now() } }
    }

    /// Looks at the clocks; tells of a change.
    pub(crate) fn look(&mut self) -> Option<ClockChange> {
        self.see(clock::monotonic_ns(), Offsets::now())
    }

    fn see(&mut self, at_ns: u64, now: Offsets) -> Option<ClockChange> {
        let told = self.told;
        let slept_ns = now.boot_ns.saturating_sub(told.boot_ns);
        let has_slept = slept_ns > STEP_NS;
        if now.realtime_ns.abs_diff(told.realtime_ns) <= STEP_NS && !has_slept {
            return None;
        }
        self.told = now;
        Some(ClockChange {
            at_ns,
            former_offset_ns: told.realtime_ns,
            realtime_offset_ns: now.realtime_ns,
            slept_ns: if has_slept { slept_ns } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const SECOND: i64 = 1_000 * MS;

    #[test]
    fn a_clock_that_is_set_or_a_machine_that_sleeps_is_told_of_once() {
        let mut clock = WallClock { told: Offsets { realtime_ns: 50 * SECOND, boot_ns: 7 } };
        let mut see = |at_ns, realtime_ns, boot_ns| {
            let change = clock.see(at_ns, Offsets { realtime_ns, boot_ns });
            change.map(|change| (change.at_ns, change.former_offset_ns, change.realtime_offset_ns, change.slept_ns))
        };
        assert_eq!(see(1, 50 * SECOND + MS / 2, 900), None, "the error of reading");
        assert_eq!(see(2, 50 * SECOND - MS / 2, 7), None);
        assert_eq!(see(3, 90 * SECOND, 7), Some((3, 50 * SECOND, 90 * SECOND, 0)), "NTP began");
        assert_eq!(see(4, 90 * SECOND + 10, 7), None);
        let slept_ns = 30 * SECOND as u64;
        assert_eq!(see(5, 120 * SECOND, slept_ns + 7), Some((5, 90 * SECOND, 120 * SECOND, slept_ns)));
        assert_eq!(see(6, 60 * SECOND, slept_ns + 8), Some((6, 120 * SECOND, 60 * SECOND, 0)), "set back");
        // Small steps one after the other.
        let told: Vec<_> = (1..=5).map(|step| see(6 + step, 60 * SECOND + step as i64 * MS * 2 / 5, 7)).collect();
        assert_eq!(told.iter().flatten().count(), 1, "{told:?}");
        // A clock that does not count sleep as time of day, as some hypervisors' guests.
        assert_eq!(
            see(20, 60 * SECOND + 2 * MS, 2 * slept_ns),
            Some((20, 60 * SECOND + 6 * MS / 5, 60 * SECOND + 2 * MS, 2 * slept_ns - 7))
        );
    }

    #[test]
    fn the_clock_of_this_machine_stands_where_it_was_described() {
        let mut clock = WallClock::begin(clock::realtime_offset_ns());
        assert_eq!(clock.look(), None);
        clock.told.realtime_ns -= 3_600 * SECOND;
        let change = clock.look().map(|change| change.set_by_ns() / i128::from(SECOND));
        assert!(matches!(change, Some(3_599..=3_600)), "{change:?}");
    }
}
