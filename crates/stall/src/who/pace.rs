//! How long to wait between two looks: as long as the rings can be trusted to hold what comes meanwhile.
//!
//! Every look wakes the reading thread. A kernel that finds it running at a tick may ask an idle core to balance the load
//! (`nohz_csd_func`), and that core may be the watched one: fewer looks are fewer such interrupts, and cost less.
//!
//! Nobody tells us that a ring is filling: that would take an interrupt on the core that fills it. So the next look comes
//! so soon that the fullest ring would still hold [`HEADROOM`] times what the last look found in it.

use super::LOOK_EVERY;
use std::time::Duration;

/// The longest time between two looks: a look of the collector's, so that both happen at once.
pub const LOOK_EVERY_WHEN_QUIET: Duration = Duration::from_millis(100);

/// By so much the rate of what comes may rise between two looks without a loss.
const HEADROOM: u32 = 64;

/// The time between two looks grows by this part of itself at most, so that a pause between two bursts stretches it little.
const GROWTH: u32 = 4;

/// The longest time if all cores may begin to leave records with the longest stacks: never shorter than this, because the
/// rate of stacks is a limit and no expectation.
const LONGEST_AT_LEAST: Duration = Duration::from_millis(20);

/// What each core may leave in a second in a ring that is to be looked at only every [`LOOK_EVERY_WHEN_QUIET`].
pub(super) fn per_core_s(ring_bytes: u64, cores: u64) -> u64 {
    (ring_bytes as f64 / 2.0 / LOOK_EVERY_WHEN_QUIET.as_secs_f64()) as u64 / cores.max(1)
}

/// A part of a ring's room.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Fill(f64);

impl Fill {
    pub(super) fn of(count: u64, room: u64) -> Self {
        Fill(count as f64 / room.max(1) as f64)
    }

    pub(super) fn max(self, other: Self) -> Self {
        Fill(self.0.max(other.0))
    }
}

/// The time to the next look.
#[derive(Debug)]
pub(super) struct Pace {
    rest: Duration,
    longest: Duration,
    is_busy: bool,
}

impl Pace {
    /// `ring_bytes` hold the records, of which every one of the cores may leave `bytes_per_s`.
    pub(super) fn new(ring_bytes: u64, cores: u64, bytes_per_s: u64) -> Self {
        let worst = cores.saturating_mul(bytes_per_s).max(1);
        let until_half_full = Duration::from_secs_f64(ring_bytes as f64 / 2.0 / worst as f64);
        Pace {
            rest: LOOK_EVERY,
            longest: until_half_full.clamp(LONGEST_AT_LEAST, LOOK_EVERY_WHEN_QUIET),
            is_busy: false,
        }
    }

    /// Takes how full a look has found the fullest ring, after this time without one.
    pub(super) fn found(&mut self, fullest: Fill, since: Duration) {
        let safe_s = since.as_secs_f64() / (fullest.0 * f64::from(HEADROOM));
        // Nothing at all in the rings is infinitely safe, and no time at all is no number.
        let safe = if safe_s < self.longest.as_secs_f64() { Duration::from_secs_f64(safe_s) } else { self.longest };
        self.is_busy = safe < LONGEST_AT_LEAST;
        self.rest = safe.min(self.rest + self.rest / GROWTH).clamp(LOOK_EVERY, self.longest);
    }

    /// Whether so much came last that the rings must be read several times as often as while little does.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// How long until the next.
    pub(super) fn rest(&self) -> Duration {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings that are never the limit.
    fn pace() -> Pace {
        Pace::new(u64::MAX, 1, 1)
    }

    /// Looks as long as it takes to come to a rest, while this many of 8,192 turns come a second.
    fn settled(pace: &mut Pace, turns_per_s: f64) -> Duration {
        for _ in 0..100 {
            let rest = pace.rest();
            pace.found(Fill(turns_per_s * rest.as_secs_f64() / 8192.0), rest);
        }
        pace.rest()
    }

    #[test]
    fn looks_are_rare_while_little_comes_and_often_as_soon_as_much_does() {
        let mut pace = pace();
        assert_eq!(pace.rest(), LOOK_EVERY);
        assert_eq!(settled(&mut pace, 0.0), LOOK_EVERY_WHEN_QUIET);
        assert_eq!(settled(&mut pace, 1_000.0), LOOK_EVERY_WHEN_QUIET);
        let between = settled(&mut pace, 6_400.0);
        assert!((19..=21).contains(&between.as_millis()), "{between:?}");
        assert_eq!(settled(&mut pace, 0.0), LOOK_EVERY_WHEN_QUIET);
        pace.found(Fill::of(800, 8192), LOOK_EVERY_WHEN_QUIET);
        let at_once = pace.rest();
        assert!((15..=17).contains(&at_once.as_millis()), "{at_once:?}");
        pace.found(Fill::of(8192, 8192), at_once);
        assert_eq!(pace.rest(), LOOK_EVERY);
        pace.found(Fill::of(0, 8192), LOOK_EVERY);
        assert!(pace.rest() <= LOOK_EVERY * 5 / 4, "one look that finds nothing makes no quiet time");
    }

    #[test]
    fn a_rate_that_rises_by_the_headroom_from_one_look_to_the_next_fits() {
        for turns_per_s in [100.0, 1_280.0, 5_000.0, 20_000.0, 25_600.0] {
            let rest = settled(&mut pace(), turns_per_s);
            let then = f64::from(HEADROOM) * turns_per_s * rest.as_secs_f64();
            assert!(then <= 8192.0 * 1.01, "{turns_per_s}: {then} in {rest:?}");
        }
    }

    #[test]
    fn stacks_of_all_cores_at_their_limit_bound_the_rest() {
        let longest = |cores| settled(&mut Pace::new(4 << 20, cores, 9_000_000), 0.0);
        assert_eq!(longest(2), LOOK_EVERY_WHEN_QUIET);
        assert!((57..=59).contains(&longest(4).as_millis()), "{:?}", longest(4));
        assert_eq!(longest(256), LONGEST_AT_LEAST);
    }

    #[test]
    fn what_the_ring_allows_each_core_lets_looks_be_as_rare_as_they_may() {
        for cores in [1, 2, 24, 256] {
            let mut pace = Pace::new(4 << 20, cores, per_core_s(4 << 20, cores));
            assert_eq!(settled(&mut pace, 0.0), LOOK_EVERY_WHEN_QUIET, "{cores} cores");
        }
    }

    #[test]
    fn no_time_at_all_since_the_last_look_is_no_number_and_looks_soon() {
        let mut pace = pace();
        pace.found(Fill(0.0), Duration::ZERO);
        assert!(pace.rest() >= LOOK_EVERY);
        pace.found(Fill(0.5), Duration::ZERO);
        assert_eq!(pace.rest(), LOOK_EVERY);
    }
}
