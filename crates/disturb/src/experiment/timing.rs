//! How exactly stalls came.

use crate::disturbance::{Schedule, Stall};
use std::collections::HashMap;

/// Stalls that are looked at; of more the first ones.
const STALLS_MAX: usize = 1 << 20;

/// Medians over stalls, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// The start less the time that it was to be; negative where it came early.
    pub start_late_ns: Option<i64>,
    /// The end less the time that it was to be.
    pub end_late_ns: Option<i64>,
    /// Nine of ten ended no later than this.
    pub end_late_p90_ns: Option<i64>,
    /// From the first to the last of the cores that were to stop at the same moment: how far their starts lie apart.
    pub start_skew_ns: Option<i64>,
    /// And their ends.
    pub end_skew_ns: Option<i64>,
}

/// What is collected over the runs.
#[derive(Debug, Default)]
pub(crate) struct Timings {
    starts: Vec<i64>,
    ends: Vec<i64>,
    start_skews: Vec<i64>,
    end_skews: Vec<i64>,
}

fn less(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0)
}

impl Timings {
    /// The stalls of one run.
    pub(crate) fn add(&mut self, stalls: &[Stall], schedule: &Schedule) {
        // Earliest and latest start, earliest and latest end, and how many cores.
        let mut moments: HashMap<u64, [u64; 4]> = HashMap::new();
        let mut cores: HashMap<u64, usize> = HashMap::new();
        for stall in stalls.iter().take(STALLS_MAX.saturating_sub(self.starts.len())) {
            self.starts.push(less(stall.start_ns, stall.target_ns));
            self.ends.push(less(stall.end_ns(), stall.target_ns + schedule.length_ns));
            let (start_ns, end_ns) = (stall.start_ns, stall.end_ns());
            let seen = moments.entry(stall.target_ns).or_insert([start_ns, start_ns, end_ns, end_ns]);
            let [first, last, first_end, last_end] = *seen;
            *seen = [first.min(start_ns), last.max(start_ns), first_end.min(end_ns), last_end.max(end_ns)];
            *cores.entry(stall.target_ns).or_default() += 1;
        }
        for (target_ns, [first, last, first_end, last_end]) in moments {
            if cores.get(&target_ns).is_some_and(|count| *count > 1) {
                self.start_skews.push(less(last, first));
                self.end_skews.push(less(last_end, first_end));
            }
        }
    }

    pub(crate) fn told(mut self) -> Timing {
        Timing {
            start_late_ns: part(&mut self.starts, 50),
            end_late_ns: part(&mut self.ends, 50),
            end_late_p90_ns: part(&mut self.ends, 90),
            start_skew_ns: part(&mut self.start_skews, 50),
            end_skew_ns: part(&mut self.end_skews, 50),
        }
    }
}

/// The value that so many percent do not exceed.
fn part(values: &mut [i64], percent: usize) -> Option<i64> {
    values.sort_unstable();
    values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::CpuId;

    #[test]
    fn lateness_is_of_each_stall_and_skew_of_those_that_were_to_be_at_once() {
        let stall = |cpu, target_ns, start_ns, end_ns| Stall {
            cpu: Some(CpuId(cpu)),
            target_ns,
            start_ns,
            length_ns: end_ns - start_ns,
        };
        let schedule = Schedule { firsts: vec![], length_ns: 50, period_ns: 1_000, count: 9 };
        let mut timings = Timings::default();
        timings.add(
            &[stall(0, 1_000, 990, 1_050), stall(1, 1_000, 1_004, 1_053), stall(0, 2_000, 2_001, 2_060)],
            &schedule,
        );
        let told = timings.told();
        let wanted = Timing {
            start_late_ns: Some(1),
            end_late_ns: Some(3),
            end_late_p90_ns: Some(10),
            start_skew_ns: Some(14),
            end_skew_ns: Some(3),
        };
        assert_eq!(told, wanted);
        assert_eq!(Timings::default().told(), Timing::default());
    }
}
