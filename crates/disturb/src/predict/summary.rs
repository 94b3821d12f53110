//! From draws to one statement.

use super::Draw;
use crate::Error;
use crate::student::student;

/// So many draws, and an interval needs no assumption.
pub const DRAWS_FOR_ANY: usize = 39;

/// How the interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From the draws in order: of n and one more, each is as likely the lowest or the highest. It holds for any distribution.
    Order,
    /// Student's t. It holds if runs are spread as a normal distribution is.
    Student,
}

/// What the draws come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The mean over the draws: how many times as long as undisturbed.
    pub slowdown: f64,
    /// In which interval one more run lies in 19 of 20 cases or more.
    pub low: f64,
    /// Its other end.
    pub high: f64,
    /// Where that comes from.
    pub method: Method,
    /// The least and the most of the draws.
    pub least: f64,
    /// The most of the draws.
    pub most: f64,
}

impl Summary {
    /// Of these draws beside an undisturbed run of `base_ns`.
    ///
    /// # Errors
    /// Fewer than two draws, or an undisturbed run that takes no time.
    pub fn of(base_ns: u64, draws: &[Draw]) -> Result<Summary, Error> {
        if draws.len() < 2 {
            return Err(Error::TooFewDraws(draws.len()));
        }
        if base_ns == 0 {
            return Err(Error::NoWork);
        }
        let mut slowdowns: Vec<f64> = draws.iter().map(|draw| draw.end_ns as f64 / base_ns as f64).collect();
        slowdowns.sort_by(f64::total_cmp);
        let last = slowdowns.len() - 1;
        let count = slowdowns.len() as f64;
        let mean = slowdowns.iter().sum::<f64>() / count;
        let (low, high, method) = if slowdowns.len() >= DRAWS_FOR_ANY {
            // One more is below the k-th or above the k-th from the end in 2 k of n + 1 cases: 1 in 20 at most.
            let beyond = (slowdowns.len() + 1) / 40 - 1;
            (slowdowns[beyond], slowdowns[last - beyond], Method::Order)
        } else {
            let variance = slowdowns.iter().map(|slowdown| (slowdown - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let reach = student(0.95, last as u64) * (variance * (1.0 + 1.0 / count)).sqrt();
            // Noise only takes time.
            ((mean - reach).max(1.0), mean + reach, Method::Student)
        };
        Ok(Summary { slowdown: mean, low, high, method, least: slowdowns[0], most: slowdowns[last] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_around_the_mean_and_never_below_one() {
        let draws = [110, 120, 130].map(|end_ns| Draw { end_ns, event_count: 1 });
        let summary = Summary::of(100, &draws).unwrap();
        // By hand: a deviation of 0.1, 4.303 * 0.1 * sqrt(4 / 3) = 0.497.
        assert!((summary.slowdown - 1.2).abs() < 1e-12 && (summary.high - 1.697).abs() < 0.001, "{summary:?}");
        assert_eq!((summary.low, summary.least, summary.most), (1.0, 1.1, 1.3));
        assert_eq!(summary.method, Method::Student);
        assert_eq!(Summary::of(100, &draws[..1]), Err(Error::TooFewDraws(1)));
        assert_eq!(Summary::of(0, &draws), Err(Error::NoWork));
    }

    #[test]
    fn many_draws_need_no_distribution() {
        // Shuffled; a mean would not be near these.
        let draws = |count: u64| -> Vec<Draw> {
            let end_ns =
                |number: u64| if (number * 7).is_multiple_of(count) { 9_000_000 } else { 1_000 + number * 7 % count };
            (0..count).map(|number| Draw { end_ns: end_ns(number), event_count: 1 }).collect()
        };
        let of = |count| {
            let summary = Summary::of(1_000, &draws(count)).unwrap();
            (summary.low, summary.high, summary.method)
        };
        assert_eq!(of(38).2, Method::Student);
        // The lowest and the highest of 39: one more is beyond them in 2 of 40 cases; so it is up to 78.
        assert_eq!(of(39), (1.001, 9_000.0, Method::Order));
        assert_eq!(of(78), (1.001, 9_000.0, Method::Order));
        // The second ones of 79, in 4 of 80.
        assert_eq!(of(79), (1.002, 1.078, Method::Order));
    }
}
