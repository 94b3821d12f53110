//! How well a detector saw the stalls that were: pure.

use super::experiment::Stretch;
use crate::numbers::median;

/// A gap belongs to a stall when it covers this share of it.
const COVERED: f64 = 0.5;

/// What a detector is worth against stalls of one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Score {
    /// While the detector looked.
    pub injected: usize,
    /// Of these, what it found.
    pub found: usize,
    /// What it found that was half as long as a stall or longer.
    pub long: usize,
    /// Of these, what was a stall.
    pub true_long: usize,
    /// Gap less stall, for each that was found, nanoseconds.
    pub longer_ns: Vec<f64>,
}

impl Score {
    /// The share of stalls that it found.
    pub fn recall(&self) -> Option<f64> {
        (self.injected > 0).then(|| self.found as f64 / self.injected as f64)
    }

    /// The share of what it found that was a stall.
    pub fn precision(&self) -> Option<f64> {
        (self.long > 0).then(|| self.true_long as f64 / self.long as f64)
    }

    /// By how much it takes them for longer than they are, in the middle.
    pub fn bias_ns(&self) -> Option<f64> {
        median(&self.longer_ns)
    }

    /// Both together.
    pub fn add(&mut self, more: Score) {
        self.injected += more.injected;
        self.found += more.found;
        self.long += more.long;
        self.true_long += more.true_long;
        self.longer_ns.extend(more.longer_ns);
    }
}

/// What is known to have been looked at of one that tells of many gaps: from the first to the last of them.
pub fn between(gaps: &[Stretch]) -> Option<Stretch> {
    let start_ns = gaps.iter().map(|gap| gap.start_ns).min()?;
    let end_ns = gaps.iter().map(Stretch::end_ns).max()?;
    Some(Stretch { start_ns, length_ns: end_ns - start_ns })
}

/// Of a detector that tells when each gap was, and that looked for so long.
pub fn by_time(stalls: &[Stretch], gaps: &[Stretch], looked: Option<Stretch>, asked_ns: u64) -> Score {
    let Some(looked) = looked else { return Score::default() };
    let (from_ns, to_ns) = (looked.start_ns, looked.end_ns());
    let mut score = Score::default();
    let within = |stall: &&Stretch| stall.start_ns > from_ns && stall.end_ns() < to_ns;
    for stall in stalls.iter().filter(within) {
        score.injected += 1;
        let best = gaps.iter().max_by_key(|gap| gap.shared_ns(stall));
        if let Some(gap) = best.filter(|gap| gap.shared_ns(stall) as f64 >= COVERED * stall.length_ns as f64) {
            score.found += 1;
            score.longer_ns.push(gap.length_ns as f64 - stall.length_ns as f64);
        }
    }
    for gap in gaps.iter().filter(|gap| gap.length_ns * 2 >= asked_ns) {
        score.long += 1;
        score.true_long += usize::from(stalls.iter().any(|stall| gap.shared_ns(stall) > 0));
    }
    score
}

/// Of a detector that only counts lengths: what it counted beyond what it counts without stalls is taken for the stalls. The lengths are
/// (nanoseconds, how often), of as much time with and without; those from `most_ns` on may be longer, because its table ends there.
pub fn by_count(
    injected: usize,
    with: &[(u64, u64)],
    without: &[(u64, u64)],
    asked_ns: u64,
    true_ns: f64,
    most_ns: u64,
) -> Score {
    let long = |lengths: &[(u64, u64)]| -> Vec<(u64, u64)> {
        lengths.iter().copied().filter(|(length_ns, _)| length_ns * 2 >= asked_ns || *length_ns >= most_ns).collect()
    };
    let count = |lengths: &[(u64, u64)]| lengths.iter().map(|(_, count)| *count as usize).sum::<usize>();
    let (with, without) = (long(with), long(without));
    let found = count(&with).saturating_sub(count(&without)).min(injected);
    let mut longer_ns = Vec::new();
    for (length_ns, times) in with.iter().filter(|(length_ns, _)| *length_ns < most_ns) {
        longer_ns.extend(std::iter::repeat_n(*length_ns as f64 - true_ns, *times as usize));
    }
    Score { injected, found, long: count(&with), true_long: found, longer_ns }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stretches(of: &[(u64, u64)]) -> Vec<Stretch> {
        of.iter().map(|&(start_ns, length_ns)| Stretch { start_ns, length_ns }).collect()
    }

    #[test]
    fn stalls_are_found_by_the_gap_that_covers_them_and_others_are_false() {
        let stalls = stretches(&[(5, 10), (100, 10), (200, 10), (300, 10), (900, 10)]);
        // A first and a last one bound what was looked at; one covers, one too little, one is somewhere else.
        let gaps = stretches(&[(50, 1), (98, 14), (206, 9), (400, 20), (800, 1)]);
        let score = by_time(&stalls, &gaps, between(&gaps), 10);
        assert_eq!((score.injected, score.found, score.long, score.true_long), (3, 1, 3, 2));
        assert_eq!(score.longer_ns, [4.0]);
        // One that saw nothing at all looked all the same.
        let blind = by_time(&stalls, &[], Some(Stretch { start_ns: 50, length_ns: 500 }), 10);
        assert_eq!((blind.injected, blind.found, blind.recall()), (3, 0, Some(0.0)));
        assert_eq!(by_time(&stalls, &[], between(&[]), 10).recall(), None);
        assert_eq!(by_time(&stalls, &[], None, 10), Score::default());
        assert_eq!((Score::default().recall(), Score::default().precision()), (None, None));
    }

    #[test]
    fn counts_are_judged_by_what_there_is_without_stalls() {
        let score = by_count(10, &[(3, 100), (9, 2), (12, 10)], &[(9, 3), (2, 50)], 10, 10.0, u64::MAX);
        assert_eq!((score.injected, score.found, score.long), (10, 9, 12));
        assert_eq!((score.recall().unwrap(), score.precision().unwrap(), score.bias_ns().unwrap()), (0.9, 0.75, 2.0));
        assert_eq!(by_count(2, &[(12, 9)], &[], 10, 10.0, u64::MAX).recall(), Some(1.0));
        // A table that ends at 12 does not say how long its last ones were.
        let ended = by_count(9, &[(12, 9)], &[], 1_000, 1_000.0, 12);
        assert_eq!((ended.recall(), ended.bias_ns()), (Some(1.0), None));
    }
}
