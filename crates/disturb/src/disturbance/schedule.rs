//! When each core is to stall.

use super::{Phase, Spec};
use surefoot_model::CpuId;
use surefoot_random::Random;

/// When the stalls of one run are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Each core with the start of its first stall, `CLOCK_MONOTONIC`.
    pub firsts: Vec<(CpuId, u64)>,
    /// Of each stall.
    pub length_ns: u64,
    /// From the start of one to the start of the next.
    pub period_ns: u64,
    /// Stalls of a core at most.
    pub count: u64,
}

/// The schedule of a run: its first stalls lie within the first period from `from_ns` on, at a moment that the random numbers
/// choose, so that the runs of an experiment do not all begin at the same moment of the disturbance.
pub fn schedule(spec: &Spec, cores: &[CpuId], from_ns: u64, span_ns: u64, random: &mut Random) -> Schedule {
    let period_ns = spec.period_ns.max(1);
    let common_ns = random.below(period_ns);
    let place = |index: usize, random: &mut Random| match spec.phase {
        Phase::Same => common_ns,
        Phase::Staggered => {
            let step = u128::from(period_ns) * index as u128 / cores.len().max(1) as u128;
            (common_ns + step as u64) % period_ns
        }
        Phase::Random => random.below(period_ns),
    };
    let firsts = cores.iter().enumerate().map(|(index, cpu)| (*cpu, from_ns + place(index, random))).collect();
    Schedule { firsts, length_ns: spec.length_ns, period_ns: spec.period_ns, count: span_ns / period_ns + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::What;

    fn firsts(phase: Phase, seed: u64) -> Vec<u64> {
        let spec = Spec {
            what: What::Freeze(None),
            length_ns: 10,
            period_ns: 1_000,
            cores: vec![],
            phase,
            guest: None,
            even_on_bare_metal: false,
        };
        let cores: Vec<CpuId> = (0..4).map(CpuId).collect();
        let found = schedule(&spec, &cores, 5_000, 10_000, &mut Random::new(seed));
        assert_eq!(found.count, 11);
        found.firsts.into_iter().map(|(_, first_ns)| first_ns).collect()
    }

    #[test]
    fn cores_stall_at_once_one_after_the_other_or_anywhere() {
        for seed in 0..50 {
            for phase in [Phase::Same, Phase::Staggered, Phase::Random] {
                assert!(firsts(phase, seed).iter().all(|first| (5_000..6_000).contains(first)), "{phase:?}");
                assert_eq!(firsts(phase, seed), firsts(phase, seed));
            }
            let same = firsts(Phase::Same, seed);
            assert!(same.iter().all(|first| *first == same[0]));
            let mut turns = firsts(Phase::Staggered, seed);
            turns.sort_unstable();
            assert!(turns.windows(2).all(|pair| pair[1] - pair[0] == 250), "{turns:?}");
        }
        let all: std::collections::HashSet<u64> = (0..50).flat_map(|seed| firsts(Phase::Random, seed)).collect();
        assert!(all.len() > 150, "200 moments, of which {} differ", all.len());
    }
}
