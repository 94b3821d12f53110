//! The counts of earlier reports of raisers, so that a range can be answered for.

use std::collections::VecDeque;
use std::sync::Arc;
use surefoot_model::WhoReport;
use surefoot_who::range::Mark;

/// So many are kept: the last ten minutes of a report each five seconds, and longer ago ever fewer.
const MARKS_MAX: usize = 160;

/// Memory for them: 16 MiB.
const BYTES_MAX: usize = 16 << 20;

/// Marks of one watch, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    kept: VecDeque<Arc<Mark>>,
    bytes: usize,
}

impl Marks {
    /// Notes the counts of a report. Those of another watch are forgotten.
    pub(super) fn take(&mut self, report: &WhoReport) {
        self.push(Mark::of(report));
    }

    fn push(&mut self, mark: Mark) {
        let is_later = |last: &Arc<Mark>| last.start_ns() == mark.start_ns() && last.end_ns() < mark.end_ns();
        if !self.kept.back().is_none_or(is_later) {
            *self = Marks::default();
        }
        self.bytes += mark.held_bytes();
        self.kept.push_back(Arc::new(mark));
        while self.kept.len() > 1 && (self.kept.len() > MARKS_MAX || self.bytes > BYTES_MAX) {
            self.thin_out();
        }
    }

    /// Drops the mark that is missed least: its neighbours are close together, for how long ago it is. The newest stays.
    fn thin_out(&mut self) {
        let now_ns = self.kept.back().map_or(0, |mark| mark.end_ns());
        let missed = |place: usize| {
            let end_ns = |place: usize| self.kept[place].end_ns();
            let before_ns = if place == 0 { self.kept[0].start_ns() } else { end_ns(place - 1) };
            (end_ns(place + 1) - before_ns) as f64 / (now_ns - end_ns(place)).max(1) as f64
        };
        let least = (0..self.kept.len() - 1).min_by(|&one, &other| missed(one).total_cmp(&missed(other)));
        if let Some(mark) = self.kept.remove(least.unwrap_or(0)) {
            self.bytes = self.bytes.saturating_sub(mark.held_bytes());
        }
    }

    /// The newest that is at least this long before the end. `None` where the range is longer than the watch.
    pub(super) fn before(&self, end_ns: u64, range_ns: u64) -> Option<Arc<Mark>> {
        let from_ns = end_ns.checked_sub(range_ns)?;
        self.kept.iter().rev().find(|mark| mark.end_ns() <= from_ns).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn mark(start_s: u64, end_s: u64) -> Mark {
        Mark::of(&WhoReport { start_ns: start_s * S, end_ns: end_s * S, ..WhoReport::default() })
    }

    #[test]
    fn any_range_is_answered_for_with_little_more_than_was_asked() {
        let mut marks = Marks::default();
        let end_s = 86_400;
        (5..=end_s).step_by(5).for_each(|second| marks.push(mark(0, second)));
        assert_eq!(marks.kept.len(), MARKS_MAX);
        for asked_s in [10, 60, 300, 900, 3_600, 20_000, 80_000] {
            let found = marks.before(end_s * S, asked_s * S).unwrap();
            let answered_s = end_s - found.end_ns() / S;
            assert!(answered_s >= asked_s && answered_s - asked_s <= 5 + asked_s / 8, "{asked_s}: {answered_s}");
        }
        assert!(marks.before(end_s * S, (end_s + 1) * S).is_none());
        marks.push(mark(86_401, 86_405));
        assert_eq!(marks.kept.len(), 1, "another watch began");
    }
}
