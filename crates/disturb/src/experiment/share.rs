//! How much of a run the stalls took.

use crate::disturbance::Stall;
use std::collections::BTreeMap;
use surefoot_model::CpuId;

/// The share of the time from `start_ns` to `end_ns` that so many cores stood still on average. A stall of the workload, which
/// is of no core, is one of all.
pub(super) fn share(stalls: &[Stall], start_ns: u64, end_ns: u64, cores: usize) -> f64 {
    let mut until_ns: BTreeMap<Option<CpuId>, u64> = BTreeMap::new();
    let mut stalled_ns = 0u128;
    for stall in stalls {
        // What lies twice on a core counts once; they come in the order of their start.
        let begun = until_ns.entry(stall.cpu).or_insert(start_ns);
        let (from_ns, to_ns) = (stall.start_ns.max(*begun), stall.end_ns().min(end_ns));
        let times = if stall.cpu.is_some() { 1 } else { cores.max(1) as u128 };
        stalled_ns += u128::from(to_ns.saturating_sub(from_ns)) * times;
        *begun = to_ns.max(*begun);
    }
    stalled_ns as f64 / (end_ns.saturating_sub(start_ns).max(1) as f64 * cores.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_the_run_counts_and_once() {
        let stall =
            |cpu: Option<u32>, start_ns, length_ns| Stall { cpu: cpu.map(CpuId), target_ns: 0, start_ns, length_ns };
        let both = [stall(Some(0), 90, 20), stall(Some(1), 90, 20), stall(Some(0), 150, 10), stall(Some(0), 195, 100)];
        assert_eq!(share(&both, 100, 200, 2), (10.0 + 10.0 + 10.0 + 5.0) / 200.0);
        assert_eq!(share(&[stall(Some(0), 100, 50), stall(Some(0), 120, 10)], 100, 200, 1), 0.5);
        assert_eq!(share(&[stall(None, 100, 50)], 100, 200, 4), 0.5);
        assert_eq!(share(&[], 100, 100, 0), 0.0);
    }
}
