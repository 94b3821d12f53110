//! The join of a gap with the tape of its core: what the core did while it made no progress.
//!
//! The tape is a list of turns; each context lasts until the next turn, and only the innermost one is on it. So each
//! moment of a gap belongs to exactly one context, and nested time is counted once without any arithmetic.

use std::collections::BTreeMap;
use surefoot_model::{Cause, GapCause};

/// What a context on the tape means for a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// The work that the gap is measured against: time in it is not explained by it.
    Work,
    /// A cause that took the core away.
    Cause(Cause),
    /// Nothing is known: the tape was overwritten there before it could be read.
    Unseen,
}

/// A context from its start on; it lasts until the next one of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// When it began, `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
    /// What it means.
    pub meaning: Meaning,
}

/// What happened inside a gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inside {
    /// The causes, largest first.
    pub causes: Vec<GapCause>,
    /// Time that no cause covers, nanoseconds.
    pub unexplained_ns: u64,
    /// The part of the uncovered time that the tape does not reach: nothing is known about it.
    pub unseen_ns: u64,
    /// The longest time in which one cause had the core and nothing else happened there, nanoseconds.
    pub still_ns: u64,
    /// How often a cause took the core from the work: each time costs an entry and an exit that no tracepoint covers.
    pub entries: u32,
}

/// Splits the gap `[start_ns, end_ns]` by the contexts of its core, which are in the order of time.
pub fn join(start_ns: u64, end_ns: u64, stretches: &[Stretch]) -> Inside {
    let mut inside = Inside::default();
    let mut by_cause: BTreeMap<&Cause, u64> = BTreeMap::new();
    let first = stretches.partition_point(|stretch| stretch.at_ns <= start_ns);
    if first == 0 {
        let known_from = stretches.first().map_or(end_ns, |stretch| stretch.at_ns.min(end_ns));
        inside.unseen_ns = known_from.saturating_sub(start_ns);
        inside.unexplained_ns = inside.unseen_ns;
    }
    let mut in_work = true;
    for (index, stretch) in stretches.iter().enumerate().skip(first.saturating_sub(1)) {
        if stretch.at_ns >= end_ns {
            break;
        }
        let until = stretches.get(index + 1).map_or(end_ns, |next| next.at_ns.min(end_ns));
        let length_ns = until.saturating_sub(stretch.at_ns.max(start_ns));
        if length_ns == 0 {
            continue;
        }
        match &stretch.meaning {
            Meaning::Work => {
                inside.unexplained_ns += length_ns;
                in_work = true;
            }
            Meaning::Unseen => {
                inside.unexplained_ns += length_ns;
                inside.unseen_ns += length_ns;
            }
            Meaning::Cause(cause) => {
                *by_cause.entry(cause).or_default() += length_ns;
                inside.still_ns = inside.still_ns.max(length_ns);
                inside.entries += u32::from(std::mem::replace(&mut in_work, false));
            }
        }
    }
    inside.causes =
        by_cause.into_iter().map(|(cause, duration_ns)| GapCause { cause: cause.clone(), duration_ns }).collect();
    inside.causes.sort_by_key(|cause| std::cmp::Reverse(cause.duration_ns));
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surefoot_model::CauseKind;

    fn turn(at_ns: u64, cause: u16) -> Stretch {
        let meaning = match cause {
            1 => Meaning::Work,
            3 => Meaning::Cause(Cause::new(CauseKind::Timer, "local_timer")),
            other => Meaning::Cause(Cause::new(CauseKind::Softirq, other.to_string())),
        };
        Stretch { at_ns, meaning }
    }

    #[test]
    fn nested_time_is_counted_once_and_the_margins_stay_unexplained() {
        // A softirq (14) that a timer interrupts, inside a gap with margins of 2 and 3.
        let turns = [turn(0, 1), turn(102, 14), turn(110, 3), turn(115, 14), turn(120, 1)];
        let inside = join(100, 123, &turns);
        assert_eq!(inside.unexplained_ns, 5);
        assert_eq!(inside.unseen_ns, 0);
        assert_eq!((inside.entries, inside.still_ns), (1, 8));
        assert_eq!(inside.causes[0].duration_ns, 13);
        assert_eq!(inside.causes[1].duration_ns, 5);
        assert_eq!(inside.causes[1].cause.kind, CauseKind::Timer);
    }

    #[test]
    fn time_before_the_tape_is_unexplained_and_said_so() {
        let inside = join(100, 200, &[turn(150, 3), turn(190, 1)]);
        assert_eq!((inside.unseen_ns, inside.unexplained_ns), (50, 60));
        let nothing = join(100, 200, &[]);
        assert_eq!((nothing.unseen_ns, nothing.unexplained_ns, nothing.entries), (100, 100, 0));
    }

    #[test]
    fn what_the_tape_lost_is_never_taken_for_the_cause_before_it() {
        let lost = Stretch { at_ns: 110, meaning: Meaning::Unseen };
        let inside = join(100, 200, &[turn(90, 3), lost, turn(180, 1)]);
        assert_eq!((inside.causes[0].duration_ns, inside.unseen_ns, inside.unexplained_ns), (10, 70, 90));
    }

    #[test]
    fn a_context_that_is_still_open_covers_the_rest() {
        let inside = join(100, 200, &[turn(50, 3)]);
        assert_eq!(inside.unexplained_ns, 0);
        assert_eq!(inside.causes[0].duration_ns, 100);
    }

    proptest! {
        /// Against an oracle that looks at every nanosecond.
        #[test]
        fn every_nanosecond_belongs_to_the_innermost_context(
            mut turns in prop::collection::vec((0u64..200, prop::sample::select(vec![1u16, 3, 14, 15])), 0..30),
            start in 0u64..200, length in 0u64..100,
        ) {
            turns.sort_by_key(|turn| turn.0);
            let turns: Vec<Stretch> = turns.into_iter().map(|(at, cause)| turn(at, cause)).collect();
            let inside = join(start, start + length, &turns);
            let mut unexplained = 0;
            let mut named = 0;
            for at in start..start + length {
                match turns.iter().rev().find(|turn| turn.at_ns <= at) {
                    Some(turn) if turn.meaning != Meaning::Work => named += 1,
                    _ => unexplained += 1,
                }
            }
            prop_assert_eq!(inside.unexplained_ns, unexplained);
            prop_assert_eq!(inside.causes.iter().map(|cause| cause.duration_ns).sum::<u64>(), named);
        }
    }
}
