//! Which answers to "does a checkpoint pay now" are written down: a program may ask a million times in a second.

use crate::controller::Decision;

/// Answers that are written between two checkpoints without waiting.
const AT_ONCE_MAX: u32 = 8;

/// Seconds between two more of them.
const PAUSE_S: f64 = 60.0;

/// What was asked, and written down of it.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The last answer that was written, without its numbers, which change each time.
    last: Option<String>,
    /// Questions since then.
    asked_count: u64,
    /// Answers that were written since the last checkpoint.
    written_count: u32,
    written_s: f64,
}

impl Answers {
    /// Takes note of an answer; where it is to be written down, how often it was asked since the last one that was.
    ///
    /// It is, where place or reasons are others than the last time. Where they change all the time without a checkpoint
    /// between, some wait; what holds on is written at last.
    pub(super) fn note(&mut self, decision: &Decision, now_s: f64) -> Option<u64> {
        self.asked_count = self.asked_count.saturating_add(1);
        let is_same = self.last.as_ref().is_some_and(|last| last.chars().eq(kind(decision)));
        if is_same || (self.written_count >= AT_ONCE_MAX && now_s - self.written_s < PAUSE_S) {
            return None;
        }
        self.last = Some(kind(decision).collect());
        self.written_count = self.written_count.saturating_add(1);
        self.written_s = now_s;
        Some(std::mem::take(&mut self.asked_count))
    }

    /// Takes note of a checkpoint that was decided on.
    pub(super) fn decided(&mut self) {
        self.written_count = 0;
    }
}

/// A decision's place and reasons without numbers.
fn kind(decision: &Decision) -> impl Iterator<Item = char> {
    let reasons = decision.reasons.iter().flat_map(|reason| reason.chars().chain(['\n']));
    let characters = decision.place.label().chars().chain(['\n']).chain(reasons);
    characters.filter(|character| !character.is_ascii_digit() && *character != '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    fn answer(place: Place, reason: impl Into<String>) -> Decision {
        Decision { place, reasons: vec![reason.into()], is_refused: false }
    }

    #[test]
    fn an_answer_is_written_when_it_is_another_whatever_its_numbers() {
        let mut answers = Answers::default();
        let not_yet = |s: f64| answer(Place::Skip, format!("the last one is {s:.1} s old; the next pays at 30 s"));
        assert_eq!(answers.note(&not_yet(1.0), 1.0), Some(1));
        assert!((2..1_000).all(|s| answers.note(&not_yet(f64::from(s)), f64::from(s)).is_none()));
        assert_eq!(answers.note(&answer(Place::Memory, "it pays"), 1_000.0), Some(999), "asked since the last line");
        assert_eq!(answers.note(&answer(Place::Both, "it pays"), 1_000.0), Some(1));
        assert_eq!(answers.note(&answer(Place::Both, "it is overdue"), 1_000.0), Some(1));
        assert_eq!(answers.note(&answer(Place::Both, "it is overdue"), 9_000.0), None);
    }

    #[test]
    fn answers_that_change_all_the_time_wait_and_what_holds_on_is_written_at_last() {
        let mut answers = Answers::default();
        let places = [Place::Skip, Place::Memory];
        let mut lines = |from: u32, to: u32| {
            let ask = |number: u32| {
                let answer = answer(places[number as usize % 2], "");
                answers.note(&answer, 0.001 * f64::from(number))
            };
            (from..to).filter_map(ask).collect::<Vec<_>>()
        };
        assert_eq!(lines(0, 50_000).len(), 8);
        // A second later another minute is over since the last of those.
        assert_eq!(lines(50_000, 70_000), [60_001], "and each question counts");
        answers.decided();
        assert!(answers.note(&answer(Place::Both, ""), 70.0).is_some(), "after a checkpoint there is room again");
    }
}
