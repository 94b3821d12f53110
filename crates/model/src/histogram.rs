use serde::{Deserialize, Serialize};

/// Buckets of the log-linear histogram that the eBPF programs fill.
pub const BUCKETS: usize = 128;

/// A log-linear histogram of nanoseconds: below 16 one bucket per 4 ns, then four buckets per doubling.
///
/// Bucket widths stay within 25 % of their lower edge, which is the error of every percentile read from it.
/// The last bucket collects everything from 2^33 × 1.75 ns (15 s) on.
/// Stored sparse, as `(bucket, count)` in ascending order, because most windows touch few buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Histogram(pub Vec<(u8, u64)>);

impl Histogram {
    /// The bucket of a duration.
    pub fn bucket(duration_ns: u64) -> usize {
        if duration_ns < 16 {
            return (duration_ns / 4) as usize;
        }
        let log = duration_ns.ilog2() as usize;
        let quarter = ((duration_ns >> (log - 2)) & 3) as usize;
        (4 + (log - 4) * 4 + quarter).min(BUCKETS - 1)
    }

    /// The smallest duration of a bucket, nanoseconds.
    pub fn lower_ns(bucket: usize) -> u64 {
        if bucket < 4 {
            return bucket as u64 * 4;
        }
        let log = 4 + (bucket - 4) / 4;
        let quarter = ((bucket - 4) % 4) as u64;
        (1 << log) + (quarter << (log - 2))
    }

    /// Counts one duration.
    pub fn record(&mut self, duration_ns: u64) {
        self.add(Self::bucket(duration_ns), 1);
    }

    /// Adds `count` to a bucket.
    pub fn add(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        let bucket = bucket.min(BUCKETS - 1) as u8;
        match self.0.binary_search_by_key(&bucket, |entry| entry.0) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) => self.0.insert(at, (bucket, count)),
        }
    }

    /// Adds all of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for &(bucket, count) in &other.0 {
            self.add(usize::from(bucket), count);
        }
    }

    /// Counts what is longer as this long. Says whether anything was.
    pub fn cap(&mut self, longest_ns: u64) -> bool {
        let highest = Self::bucket(longest_ns);
        let above: u64 = self.count_above(highest);
        if above == 0 {
            return false;
        }
        self.0.retain(|entry| usize::from(entry.0) <= highest);
        self.add(highest, above);
        true
    }

    fn count_above(&self, highest: usize) -> u64 {
        let above = self.0.iter().filter(|entry| usize::from(entry.0) > highest);
        above.fold(0, |sum, entry| sum.saturating_add(entry.1))
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, entry| sum.saturating_add(entry.1))
    }

    /// The middle of the bucket that holds this quantile (0 to 1), nanoseconds; 0 when empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0u64;
        for &(bucket, count) in &self.0 {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                let bucket = usize::from(bucket).min(BUCKETS - 1);
                let lower = Self::lower_ns(bucket);
                let upper = if bucket + 1 < BUCKETS { Self::lower_ns(bucket + 1) } else { lower };
                return lower.midpoint(upper);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lower_edge_falls_into_its_own_bucket() {
        for bucket in 0..BUCKETS {
            assert_eq!(Histogram::bucket(Histogram::lower_ns(bucket)), bucket);
            if bucket > 0 {
                assert_eq!(Histogram::bucket(Histogram::lower_ns(bucket) - 1), bucket - 1);
            }
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_quarter_of_the_truth() {
        let mut histogram = Histogram::default();
        for value in 1..=10_000u64 {
            histogram.record(value * 100);
        }
        for (quantile, truth) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let got = histogram.quantile_ns(quantile) as f64;
            assert!((got / truth - 1.0).abs() < 0.25, "{quantile}: {got} against {truth}");
        }
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }

    #[test]
    fn what_is_longer_than_the_cap_counts_as_long_as_the_cap() {
        let mut histogram = Histogram(vec![(3, 7), (20, 1), (255, 2)]);
        assert!(histogram.cap(100) && !histogram.cap(100));
        assert_eq!(histogram, Histogram(vec![(3, 7), (Histogram::bucket(100) as u8, 3)]));
        assert!(!Histogram::default().cap(0));
    }
}
