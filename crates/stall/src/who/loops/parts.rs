//! From the causes of a gap to its parts: with how often each began, and who raised it.

use crate::gap::join::{Meaning, Stretch};
use std::collections::BTreeMap;
use surefoot_model::{Cause, CauseKind, GapCause, LoopGapPart};
use surefoot_probes::layout::Turn;

/// How often causes began within a gap.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_cause: BTreeMap<Cause, u64>,
    /// How often the thread's own work was left.
    entries: u64,
}

impl Counts {
    /// Counts over the turns of a core and what they mean, which belong together one by one.
    ///
    /// A context that another one interrupted is on the tape again when that one ends, at a lesser depth; it did not
    /// begin anew.
    pub(crate) fn of(turns: &[Turn], stretches: &[Stretch], start_ns: u64, end_ns: u64) -> Self {
        let mut counts = Counts::default();
        let mut in_work = true;
        for (index, (turn, stretch)) in turns.iter().zip(stretches).enumerate() {
            let until_ns = stretches.get(index + 1).map_or(end_ns, |next| next.at_ns.min(end_ns));
            if until_ns <= stretch.at_ns.max(start_ns) {
                continue;
            }
            match &stretch.meaning {
                Meaning::Work => in_work = true,
                Meaning::Unseen => {}
                Meaning::Cause(cause) => {
                    // While the thread could not run it did so once, whoever had the core meanwhile.
                    let goes_on = |before: usize| {
                        cause.kind == CauseKind::ThreadState && stretches[before].meaning == stretch.meaning
                    };
                    let returned =
                        index.checked_sub(1).is_some_and(|before| turns[before].depth > turn.depth || goes_on(before));
                    if !returned || stretch.at_ns < start_ns {
                        *counts.by_cause.entry(cause.clone()).or_default() += 1;
                    }
                    counts.entries += u64::from(std::mem::replace(&mut in_work, false));
                }
            }
        }
        counts
    }
}

/// The parts of a gap, in the order of its causes; `raisers` names who raised a cause.
///
/// A cause that has no turn of its own is what entries and exits took, once for each time that work was left.
pub(crate) fn parts(
    causes: Vec<GapCause>,
    counts: &Counts,
    raisers: impl Fn(&Cause) -> Vec<String>,
) -> Vec<LoopGapPart> {
    let part = |GapCause { cause, duration_ns }| LoopGapPart {
        count: counts.by_cause.get(&cause).copied().unwrap_or(counts.entries).max(1),
        raisers: raisers(&cause),
        total_ns: duration_ns,
        cause,
    };
    causes.into_iter().map(part).collect()
}

/// Returns what the parts leave of the gap. Should they exceed it, the longest carry the difference.
pub(crate) fn fit(parts: &mut Vec<LoopGapPart>, duration_ns: u64) -> u64 {
    let sum_ns: u64 = parts.iter().map(|part| part.total_ns).sum();
    let mut excess_ns = sum_ns.saturating_sub(duration_ns);
    for part in parts.iter_mut() {
        let taken_ns = excess_ns.min(part.total_ns);
        part.total_ns -= taken_ns;
        excess_ns -= taken_ns;
    }
    parts.retain(|part| part.total_ns > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.total_ns));
    duration_ns.saturating_sub(sum_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::join::join;
    use crate::gap::tapes::put_in_order;
    use proptest::prelude::*;

    const WORK: u16 = 1;

    fn turn(at_ns: u64, depth: u8, cause: u16) -> Turn {
        Turn { at_ns, cause, depth, left: 0, pid: 7 }
    }

    fn stretches(turns: &[Turn]) -> Vec<Stretch> {
        let meaning = |turn: &Turn| match turn.cause {
            WORK => Meaning::Work,
            0 => Meaning::Unseen,
            number => Meaning::Cause(Cause::new(CauseKind::Softirq, number.to_string())),
        };
        turns.iter().map(|turn| Stretch { at_ns: turn.at_ns, meaning: meaning(turn) }).collect()
    }

    fn joined(turns: &[Turn], start_ns: u64, end_ns: u64) -> (Vec<LoopGapPart>, u64) {
        let stretches = stretches(turns);
        let inside = join(start_ns, end_ns, &stretches);
        let counts = Counts::of(turns, &stretches, start_ns, end_ns);
        (parts(inside.causes, &counts, |cause| vec![cause.name.clone()]), inside.unexplained_ns)
    }

    #[test]
    fn what_was_interrupted_itself_counts_once() {
        // A softirq (14) that a timer (3) interrupts, then a second interrupt with two functions (20, twice) in a row.
        let turns = [
            turn(0, 0, WORK),
            turn(110, 1, 14),
            turn(120, 2, 3),
            turn(130, 1, 14),
            turn(140, 0, WORK),
            turn(150, 1, 4),
            turn(151, 2, 20),
            turn(160, 1, 4),
            turn(161, 2, 20),
            turn(170, 1, 4),
            turn(171, 0, WORK),
        ];
        let (found, unexplained_ns) = joined(&turns, 100, 180);
        let row =
            |name: &str| found.iter().find(|part| part.cause.name == name).map(|part| (part.total_ns, part.count));
        assert_eq!((row("14"), row("3")), (Some((20, 1)), Some((10, 1))));
        assert_eq!((row("4"), row("20")), (Some((3, 1)), Some((18, 2))));
        assert_eq!(unexplained_ns, 29);
        assert_eq!(found[0].raisers, [found[0].cause.name.clone()]);
    }

    #[test]
    fn entries_and_exits_count_as_often_as_work_was_left() {
        let turns = [turn(0, 0, WORK), turn(10, 1, 3), turn(20, 0, WORK), turn(30, 1, 4), turn(40, 0, WORK)];
        let counts = Counts::of(&turns, &stretches(&turns), 5, 45);
        let cause = Cause::new(CauseKind::Timer, Cause::ENTRY_AND_EXIT);
        let found = parts(vec![GapCause { cause, duration_ns: 9 }], &counts, |_| Vec::new());
        assert_eq!(found[0].count, 2);
    }

    #[test]
    fn a_turn_that_an_interrupt_overtook_counts_no_time_twice() {
        // The end of softirq 14 was clocked at 120, then timer 3 came at 125 and left at 140.
        let mut turns = [turn(0, 0, WORK), turn(110, 1, 14), turn(125, 2, 3), turn(140, 1, 14), turn(120, 0, WORK)];
        put_in_order(0, &mut turns);
        let (found, unexplained_ns) = joined(&turns, 100, 150);
        assert_eq!(found.iter().map(|part| part.total_ns).sum::<u64>() + unexplained_ns, 50);
        assert_eq!(unexplained_ns, 20);
    }

    proptest! {
        #[test]
        fn parts_that_exceed_the_gap_are_cut_to_it(lengths in prop::collection::vec(1u64..100, 0..8), length in 0u64..400) {
            let part = |total_ns: u64| LoopGapPart {
                cause: Cause::new(CauseKind::Timer, total_ns.to_string()), total_ns, count: 1, raisers: Vec::new(),
            };
            let mut parts: Vec<LoopGapPart> = lengths.into_iter().map(part).collect();
            parts.sort_by_key(|part| std::cmp::Reverse(part.total_ns));
            let before: u64 = parts.iter().map(|part| part.total_ns).sum();
            let rest_ns = fit(&mut parts, length);
            let sum: u64 = parts.iter().map(|part| part.total_ns).sum();
            prop_assert_eq!(sum + rest_ns, length);
            prop_assert!(sum <= before && parts.iter().all(|part| part.total_ns > 0));
        }

        /// Whatever is on the tape, the parts and the rest are the gap, to the nanosecond, and nothing ran zero times.
        #[test]
        fn parts_and_the_rest_add_up_to_the_gap(
            turns in prop::collection::vec((0u64..300, 0u8..4, prop::sample::select(vec![0u16, 1, 3, 14, 20])), 0..40),
            start in 0u64..300, length in 1u64..200,
        ) {
            let mut turns: Vec<Turn> = turns.into_iter().map(|(at, depth, cause)| turn(at, depth, cause)).collect();
            put_in_order(0, &mut turns);
            let (found, unexplained_ns) = joined(&turns, start, start + length);
            let sum: u64 = found.iter().map(|part| part.total_ns).sum();
            prop_assert_eq!(sum + unexplained_ns, length);
            prop_assert!(found.iter().all(|part| part.total_ns > 0 && part.count > 0));
            prop_assert!(found.iter().map(|part| part.count).sum::<u64>() <= turns.len() as u64);
        }
    }
}
