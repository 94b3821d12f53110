//! Rates of errors: a leaky bucket that tells a burst from a module going bad, and the worst window.
//!
//! The bucket is a soft-error rate discrimination (SERD) engine as in fault-management systems: errors fill it, and it leaks at the rate
//! that is borne. Its default, 10 corrected errors per second, is that of ICPE'20 (Dixit et al.), section 4.
//!
//! ```
//! use surefoot_memory::rate::Rates;
//! let mut rates = Rates::default();
//! // 30 s with 20 errors in each second: twice what is borne.
//! for second in 0..30_u64 {
//!     rates.add(20, second * 1_000_000_000, (second + 1) * 1_000_000_000);
//! }
//! assert!(rates.bucket.is_over());
//! assert_eq!((rates.now_per_s, rates.worst_per_s), (20.0, 20.0));
//! ```

use serde::{Deserialize, Serialize};

const NS_PER_S: f64 = 1e9;

/// Windows shorter than this are put together: one error in a millisecond is not a thousand per second.
pub const WINDOW_NS_MIN: u64 = 1_000_000_000;

/// A longer window says nothing of now: it is an average over what may be weeks, and only the worst rate and the bucket take it in.
pub const NOW_WINDOW_NS_MAX: u64 = 3_600_000_000_000;

/// What a bucket bears.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Errors per second that leak away.
    pub per_s: f64,
    /// Errors above that which the bucket holds before it is over.
    pub depth: f64,
}

impl Default for Limit {
    /// 10 errors per second, and 10 seconds' worth of them at once.
    fn default() -> Self {
        Limit { per_s: 10.0, depth: 100.0 }
    }
}

/// A leaky bucket. It is over once it holds more than its depth, and stays so until it holds less than half of that, so that
/// a rate at the limit does not turn an alert on and off.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bucket {
    /// What it bears.
    pub limit: Limit,
    level: f64,
    is_over: bool,
}

impl Bucket {
    /// An empty one.
    pub fn new(limit: Limit) -> Self {
        Bucket { limit, level: 0.0, is_over: false }
    }

    /// Takes in errors that came within so many nanoseconds, spread evenly: the least alarming of all the ways in which
    /// they may have come, so that what is over was over in any case.
    pub fn add(&mut self, count: u64, within_ns: u64) {
        let leaked = self.limit.per_s * within_ns as f64 / NS_PER_S;
        // Twice the depth at most: after a storm it must come down in a foreseeable time.
        self.level = (self.level + count as f64 - leaked).clamp(0.0, 2.0 * self.limit.depth);
        if self.level > self.limit.depth {
            self.is_over = true;
        } else if self.level < self.limit.depth / 2.0 {
            self.is_over = false;
        }
    }

    /// Whether more came than is borne.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Errors in it.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Whether it is one that [`Bucket::add`] can make; what comes from a file need not be.
    pub(crate) fn is_sound(&self) -> bool {
        let sound = |number: f64| number.is_finite() && number >= 0.0;
        sound(self.level) && sound(self.limit.per_s) && sound(self.limit.depth)
    }
}

/// The rates of one module.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Whether it is over what is borne.
    pub bucket: Bucket,
    /// Errors per second in the newest window; 0 where that is longer than [`NOW_WINDOW_NS_MAX`].
    pub now_per_s: f64,
    /// How long the newest window was, nanoseconds; 0 where nothing is known of the rate now.
    pub now_window_ns: u64,
    /// The highest rate of any window.
    pub worst_per_s: f64,
    /// How long that window was, nanoseconds; 0 where there was none with an error.
    pub worst_window_ns: u64,
    /// Errors of a window that is still too short.
    pending_count: u64,
    pending_ns: u64,
}

impl Rates {
    /// Rates with another limit.
    pub fn new(limit: Limit) -> Self {
        Rates { bucket: Bucket::new(limit), ..Rates::default() }
    }

    /// Takes in errors that came between two moments of one clock. Where the second is not after the first, nothing is
    /// said of a rate; the errors wait for the next window.
    pub fn add(&mut self, count: u64, from_ns: u64, to_ns: u64) {
        self.pending_count = self.pending_count.saturating_add(count);
        self.pending_ns = self.pending_ns.saturating_add(to_ns.saturating_sub(from_ns));
        if self.pending_ns < WINDOW_NS_MIN {
            return;
        }
        let (count, window_ns) = (self.pending_count, self.pending_ns);
        (self.pending_count, self.pending_ns) = (0, 0);
        self.bucket.add(count, window_ns);
        let per_s = count as f64 * NS_PER_S / window_ns as f64;
        let is_now = window_ns <= NOW_WINDOW_NS_MAX;
        (self.now_per_s, self.now_window_ns) = if is_now { (per_s, window_ns) } else { (0.0, 0) };
        if per_s > self.worst_per_s {
            (self.worst_per_s, self.worst_window_ns) = (per_s, window_ns);
        }
    }

    /// Whether they are such as [`Rates::add`] makes; what comes from a file need not be.
    pub(crate) fn is_sound(&self) -> bool {
        let sound = |number: f64| number.is_finite() && number >= 0.0;
        self.bucket.is_sound() && sound(self.now_per_s) && sound(self.worst_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn after(seconds: u64, per_s: u64) -> Bucket {
        let mut bucket = Bucket::default();
        (0..seconds).for_each(|_| bucket.add(per_s, S));
        bucket
    }

    #[test]
    fn a_rate_at_the_limit_is_borne_and_one_above_it_is_not() {
        assert!(!after(100_000, 10).is_over());
        // One more each second fills the depth of 100 in 100 s.
        assert!(!after(100, 11).is_over() && after(101, 11).is_over());
        assert!(!after(1, 110).is_over() && after(1, 111).is_over());
    }

    #[test]
    fn what_was_over_stays_so_until_half_of_it_has_leaked() {
        let mut bucket = after(1, 111);
        bucket.add(0, 5 * S);
        assert!(bucket.is_over() && bucket.level() == 51.0);
        bucket.add(0, S);
        assert!(!bucket.is_over() && bucket.level() == 41.0);
        let mut storm = after(3_600, 1_000_000);
        storm.add(0, 16 * S);
        assert!(!storm.is_over(), "an hour of storm is over 16 s after its end: {}", storm.level());
    }

    #[test]
    fn errors_of_a_long_window_count_as_spread_evenly() {
        let mut bucket = Bucket::default();
        bucket.add(3_001, 300 * S);
        assert!(!bucket.is_over());
        bucket.add(3_300, 300 * S);
        assert!(bucket.is_over());
    }

    #[test]
    fn short_windows_are_put_together() {
        let mut rates = Rates::default();
        rates.add(1, 0, 1_000_000);
        assert_eq!((rates.now_per_s, rates.worst_window_ns), (0.0, 0));
        rates.add(0, 1_000_000, 2 * S);
        assert_eq!((rates.now_per_s, rates.worst_per_s, rates.worst_window_ns), (0.5, 0.5, 2 * S));
        rates.add(0, 2 * S, 3 * S);
        assert_eq!((rates.now_per_s, rates.worst_per_s), (0.0, 0.5));
        rates.add(5, 9 * S, 3 * S);
        rates.add(0, 9 * S, 10 * S);
        assert_eq!(rates.worst_per_s, 5.0, "a clock that goes back loses no error");
    }

    #[test]
    fn an_average_over_more_than_an_hour_is_no_rate_now() {
        let mut rates = Rates::default();
        rates.add(7_200, 0, 7_200 * S);
        assert_eq!((rates.now_per_s, rates.now_window_ns), (0.0, 0));
        assert_eq!((rates.worst_per_s, rates.worst_window_ns), (1.0, 7_200 * S));
        rates.add(1_800, 0, NOW_WINDOW_NS_MAX);
        assert_eq!((rates.now_per_s, rates.now_window_ns), (0.5, NOW_WINDOW_NS_MAX));
    }

    proptest! {
        /// The oracle: a queue with a server that takes one error each 1/10 s (10 of these steps a second).
        #[test]
        fn the_bucket_is_a_queue_with_a_steady_server(counts in prop::collection::vec(0..60_u64, 1..200)) {
            let mut bucket = Bucket::default();
            let (mut queue, mut is_over) = (0_u64, false);
            for count in counts {
                bucket.add(count, S);
                queue = (queue + count).saturating_sub(10).min(200);
                is_over = queue > 100 || (is_over && queue >= 50);
                prop_assert_eq!((bucket.level(), bucket.is_over()), (queue as f64, is_over));
            }
        }
    }
}
