//! What may still be written to a drive.

use super::Drive;

/// A token bucket of bytes: it fills at the rate that the drive can bear until the end of its planned life.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bucket {
    tokens_bytes: f64,
    filled_s: f64,
    started: bool,
}

impl Bucket {
    /// What a former session left, so long before this one began.
    pub(super) fn resumed(tokens_bytes: f64, age_s: f64) -> Self {
        Bucket { tokens_bytes, filled_s: -age_s.max(0.0), started: true }
    }

    /// What may be written, as of when it was last filled; `None` before it was.
    pub(super) fn tokens_bytes(&self) -> Option<f64> {
        self.started.then_some(self.tokens_bytes)
    }

    /// Fills up to `now_s` and returns what may be written now. It holds no more than `most_bytes`, and begins full, so
    /// that the first checkpoint can be durable.
    pub(super) fn fill(&mut self, now_s: f64, rate_bytes_per_s: f64, most_bytes: f64) -> f64 {
        if self.started {
            self.tokens_bytes += (now_s - self.filled_s).max(0.0) * rate_bytes_per_s;
        } else {
            self.started = true;
            self.tokens_bytes = most_bytes;
        }
        self.filled_s = self.filled_s.max(now_s);
        self.tokens_bytes = self.tokens_bytes.min(most_bytes);
        self.tokens_bytes
    }

    /// Takes out what was written; the bucket may owe.
    pub(super) fn spend(&mut self, bytes: f64) {
        self.tokens_bytes -= bytes;
    }
}

impl Drive {
    /// Bytes per second that may be written so that `granted_share` of the rating is used up at the end of its planned life;
    /// 0 when nothing is left, and where no life is left all of the remaining bytes may go at once.
    pub fn bearable_bytes_per_s(&self, granted_share: f64) -> f64 {
        let left_bytes = (granted_share * self.rated_bytes - self.written_bytes).max(0.0);
        if self.remaining_s > 0.0 {
            left_bytes / self.remaining_s
        } else if left_bytes > 0.0 {
            f64::INFINITY
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::YEAR_S;

    #[test]
    fn the_bucket_never_gives_more_than_the_rate_and_one_fill() {
        let mut bucket = Bucket::default();
        let mut written = 0.0;
        for second in 0..10_000 {
            if bucket.fill(f64::from(second), 10.0, 500.0) >= 100.0 {
                bucket.spend(100.0);
                written += 100.0;
            }
        }
        assert!((written - (9_999.0 * 10.0 + 500.0f64)).abs() <= 100.0, "{written}");
        assert_eq!(bucket.fill(5.0, 10.0, 500.0), bucket.fill(5.0, 10.0, 500.0), "time never goes back");
    }

    #[test]
    fn a_bucket_goes_on_where_a_former_session_left_it() {
        let mut bucket = Bucket::resumed(-50.0, 10.0);
        assert_eq!(bucket.tokens_bytes(), Some(-50.0));
        assert_eq!(bucket.fill(5.0, 10.0, 500.0), 100.0);
        assert_eq!(Bucket::resumed(1e9, 1e9).fill(0.0, 10.0, 500.0), 500.0, "never more than it holds");
        assert_eq!(Bucket::resumed(0.0, -1e9).fill(1.0, 10.0, 500.0), 10.0);
        assert_eq!(Bucket::default().tokens_bytes(), None);
    }

    #[test]
    fn a_worn_drive_bears_less_and_a_spared_one_more() {
        let drive = |written_bytes: f64, remaining_years: f64| Drive {
            rated_bytes: 14.6e15,
            written_bytes,
            remaining_s: remaining_years * YEAR_S,
            rated_life_s: 5.0 * YEAR_S,
        };
        let megabytes = |drive: Drive| (drive.bearable_bytes_per_s(1.0) / 1e6).round();
        assert_eq!(megabytes(drive(0.0, 5.0)), 93.0);
        assert_eq!(megabytes(drive(7.3e15, 2.5)), 93.0);
        assert_eq!(megabytes(drive(13.0e15, 2.5)), 20.0);
        assert_eq!(megabytes(drive(1.0e15, 1.0)), 431.0);
        assert_eq!(megabytes(drive(15.0e15, 1.0)), 0.0);
        assert_eq!(drive(15.0e15, 0.0).bearable_bytes_per_s(1.0), 0.0);
    }
}
