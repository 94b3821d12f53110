//! The stalls of an experiment core by core: how many, and how they compare with what was asked for. Pure.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use surefoot_model::{CpuId, InjectedStall};

/// The stalls of one core.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CoreStalls {
    /// `null` where the workload was stopped, wherever it ran.
    pub core: Option<CpuId>,
    /// How many there are among those that are kept.
    pub count: u64,
    /// How long each was to be.
    pub asked_ns: u64,
    /// How long they were.
    pub length_least_ns: u64,
    /// Half of them were no longer.
    pub length_median_ns: u64,
    /// Nine of ten were no longer.
    pub length_p90_ns: u64,
    /// The longest.
    pub length_most_ns: u64,
    /// Median of the start less the time that it was to be.
    pub start_late_median_ns: i64,
    /// Median of the end less the time that it was to be.
    pub end_late_median_ns: i64,
    /// The latest end.
    pub end_late_most_ns: i64,
}

/// Core by core; the workload's first.
pub fn by_core(stalls: &[InjectedStall], asked_ns: u64) -> Vec<CoreStalls> {
    let mut cores: BTreeMap<Option<CpuId>, Vec<&InjectedStall>> = BTreeMap::new();
    stalls.iter().for_each(|stall| cores.entry(stall.core).or_default().push(stall));
    cores.into_iter().map(|(core, stalls)| of_core(core, &stalls, asked_ns)).collect()
}

fn of_core(core: Option<CpuId>, stalls: &[&InjectedStall], asked_ns: u64) -> CoreStalls {
    let mut lengths: Vec<u64> = stalls.iter().map(|stall| stall.length_ns).collect();
    let mut starts: Vec<i64> = stalls.iter().map(|stall| less(stall.start_ns, stall.target_ns)).collect();
    let end = |stall: &&InjectedStall| {
        less(stall.start_ns.saturating_add(stall.length_ns), stall.target_ns.saturating_add(asked_ns))
    };
    let mut ends: Vec<i64> = stalls.iter().map(end).collect();
    lengths.sort_unstable();
    starts.sort_unstable();
    ends.sort_unstable();
    CoreStalls {
        core,
        count: stalls.len() as u64,
        asked_ns,
        length_least_ns: part(&lengths, 0),
        length_median_ns: part(&lengths, 50),
        length_p90_ns: part(&lengths, 90),
        length_most_ns: part(&lengths, 100),
        start_late_median_ns: part(&starts, 50),
        end_late_median_ns: part(&ends, 50),
        end_late_most_ns: part(&ends, 100),
    }
}

fn less(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0)
}

/// The value that so many percent do not exceed; 0 of none.
fn part<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_its_own_lengths_beside_what_was_asked_for() {
        let stall = |core, start_ns, length_ns| InjectedStall {
            run: 1,
            core: Some(CpuId(core)),
            start_ns,
            length_ns,
            target_ns: 1_000,
        };
        let found = by_core(&[stall(1, 1_010, 100), stall(0, 990, 130), stall(1, 1_000, 120)], 100);
        assert_eq!(found.iter().map(|one| one.count).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((found[0].start_late_median_ns, found[0].end_late_median_ns), (-10, 20));
        let second = &found[1];
        let lengths = [second.length_least_ns, second.length_median_ns, second.length_p90_ns, second.length_most_ns];
        assert_eq!((lengths, second.end_late_most_ns), ([100, 100, 120, 120], 20));
        assert!(by_core(&[], 1).is_empty());
    }
}
