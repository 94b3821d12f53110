//! The single occurrences of a cause in a window: each counts as far as it lies there.
//!
//! The programs count an occurrence when it ends, with its whole length. One that was open when the window began is so
//! longer than what it took since; what it had taken until then is in the earlier snapshot, and is taken off here.

use surefoot_model::{BUCKETS, Histogram};
use surefoot_probes::Snapshot;
use surefoot_probes::layout::{CauseTotals, FRAMES};

/// What rose between two readings of a cause's durations, `count` of them. The later reading comes after the snapshot that
/// counts them: what it has too many is left for the next window, first what is longer than `total_ns`.
pub(crate) fn rise(now: &[u32; BUCKETS], before: &mut [u32; BUCKETS], count: u64, total_ns: u64) -> Histogram {
    let mut rises = [0u64; BUCKETS];
    for (rise, (is, was)) in rises.iter_mut().zip(now.iter().zip(before.iter())) {
        // A core that changes all the time may be read with a duration twice, which the next reading has once.
        *rise = u64::from(is.wrapping_sub(*was).cast_signed().max(0).unsigned_abs());
    }
    let mut surplus = rises.iter().sum::<u64>().saturating_sub(count);
    let highest = Histogram::bucket(total_ns);
    while surplus > 0 {
        let impossible = (highest + 1..BUCKETS).rev().find(|&bucket| rises[bucket] > 0);
        let most = (0..BUCKETS).max_by_key(|&bucket| rises[bucket]);
        let Some(bucket) = impossible.or(most).filter(|&bucket| rises[bucket] > 0) else { break };
        let left = if impossible.is_some() { surplus.min(rises[bucket]) } else { 1 };
        rises[bucket] -= left;
        surplus -= left;
    }
    let mut histogram = Histogram::default();
    for (bucket, (rise, was)) in rises.iter().zip(before.iter_mut()).enumerate() {
        histogram.add(bucket, *rise);
        *was = was.wrapping_add(*rise as u32);
    }
    histogram
}

/// What an occurrence that is open in a snapshot has taken so far, nanoseconds; 0 if none of this cause is.
pub(super) fn open_own_ns(snapshot: &Snapshot, number: usize) -> u64 {
    let top = (snapshot.slot.depth as usize).min(FRAMES - 1);
    let frames = snapshot.slot.frames[..=top].iter().enumerate();
    let of_cause = frames.filter(|(_, frame)| frame.cause as usize == number);
    of_cause.map(|(depth, frame)| frame.own_ns + if depth == top { snapshot.open_ns() } else { 0 }).max().unwrap_or(0)
}

/// The durations of a cause in a window, and the longest of them. `carried_ns` and `open_ns` are what the occurrences that
/// were open when it began and when it ended had taken by then.
pub(super) fn in_window(
    mut histogram: Histogram,
    (was, is): (&CauseTotals, &CauseTotals),
    (carried_ns, open_ns): (u64, u64),
    total_ns: u64,
) -> (Histogram, u64) {
    if is.count == was.count {
        // What is still open has taken all of it, or nobody counts how often.
        let longest_ns = if open_ns > carried_ns { open_ns - carried_ns } else { total_ns };
        return (histogram, longest_ns.min(total_ns));
    }
    // The programs keep a maximum since they began; where it rose, it is of this window. Elsewhere the middle of the highest
    // bucket counts, which is within an eighth of the truth.
    let new_maximum = (is.max_ns > was.max_ns).then_some(is.max_ns);
    let longest = |histogram: &Histogram| match (histogram.count(), new_maximum) {
        (0, None) => total_ns,
        (0, Some(maximum_ns)) => maximum_ns,
        _ => histogram.quantile_ns(1.0).min(is.max_ns),
    };
    let highest = histogram.0.last().map(|entry| usize::from(entry.0));
    let began_before = carried_ns > 0 && highest.is_none_or(|highest| highest >= Histogram::bucket(carried_ns));
    let ended_ns = if began_before {
        let whole_ns = new_maximum.unwrap_or_else(|| longest(&histogram));
        let part_ns = whole_ns.saturating_sub(carried_ns);
        let others_ns = match take_highest(&mut histogram) {
            true if histogram.count() > 0 => histogram.quantile_ns(1.0).min(is.max_ns),
            _ => 0,
        };
        if highest.is_some() {
            histogram.record(part_ns);
        }
        part_ns.max(others_ns)
    } else {
        new_maximum.unwrap_or_else(|| longest(&histogram))
    };
    let longest_ns = ended_ns.max(open_ns).min(total_ns);
    histogram.cap(longest_ns);
    (histogram, longest_ns)
}

/// Takes one of the longest durations out.
fn take_highest(histogram: &mut Histogram) -> bool {
    let Some(last) = histogram.0.last_mut() else { return false };
    last.1 -= 1;
    if last.1 == 0 {
        histogram.0.pop();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_that_end_after_the_snapshot_are_left_for_the_next_window() {
        let mut before = [0; BUCKETS];
        let mut now = [0; BUCKETS];
        (now[20], now[30], now[60]) = (5, 1, 2);
        // Two of 8 ms each ended between the snapshot and this reading: 6 occurrences took 2 us.
        let first = rise(&now, &mut before, 6, 2_000);
        assert_eq!(first, Histogram(vec![(20, 5), (30, 1)]));
        now[20] += 1;
        assert_eq!(rise(&now, &mut before, 3, 20_000_000), Histogram(vec![(20, 1), (60, 2)]));
        assert_eq!(rise(&now, &mut before, 0, 0), Histogram::default());
        assert_eq!(before, now);
        // Where all are possible, one of the commonest waits.
        now[20] += 9;
        now[21] += 1;
        assert_eq!(rise(&now, &mut before, 9, 1_000), Histogram(vec![(20, 8), (21, 1)]));
    }

    fn totals(count: u64, max_ns: u64) -> CauseTotals {
        CauseTotals { count, max_ns, ..CauseTotals::default() }
    }

    fn recorded(durations_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        durations_ns.iter().for_each(|&duration_ns| histogram.record(duration_ns));
        histogram
    }

    #[test]
    fn what_was_open_when_the_window_began_counts_with_what_it_took_since() {
        // 900 us before the window and 100 us in it, and one of 20 us.
        let (histogram, longest_ns) =
            in_window(recorded(&[1_000_000, 20_000]), (&totals(3, 500), &totals(5, 1_000_000)), (900_000, 0), 120_000);
        assert_eq!((histogram, longest_ns), (recorded(&[100_000, 20_000]), 100_000));
        // The maximum of earlier windows hides the exact length, and only bounds remain.
        let span = (&totals(3, 7_000_000), &totals(5, 7_000_000));
        let (histogram, longest_ns) = in_window(recorded(&[1_000_000, 20_000]), span, (900_000, 0), 120_000);
        assert!((20_000..=120_000).contains(&longest_ns) && histogram.count() == 2, "{longest_ns}");
        assert!(histogram.0.iter().all(|entry| Histogram::lower_ns(usize::from(entry.0)) <= longest_ns));
        // One that is not over lasts for its time in the window.
        let span = (&totals(3, 500), &totals(3, 500));
        assert_eq!(in_window(Histogram::default(), span, (5_000, 7_500), 2_500).1, 2_500);
    }
}
