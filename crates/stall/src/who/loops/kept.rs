//! The longest gaps, within a limit.

use std::collections::BTreeMap;
use surefoot_model::LoopGap;

/// Keeps the longest gaps of all loops.
pub(crate) struct Kept {
    /// By length and number of arrival, with the number of the loop.
    gaps: BTreeMap<(u64, u64), (usize, LoopGap)>,
    arrived: u64,
    most: usize,
}

impl Kept {
    pub(crate) fn new(most: usize) -> Self {
        Kept { gaps: BTreeMap::new(), arrived: 0, most }
    }

    /// A gap must be longer than this to be kept; `None` while there is room.
    pub(crate) fn shortest_ns(&self) -> Option<u64> {
        (self.gaps.len() >= self.most).then(|| self.gaps.first_key_value().map_or(0, |(key, _)| key.0))
    }

    /// Takes a gap in; returns the loop whose gap had to go for it, which may be this one.
    pub(crate) fn keep(&mut self, number: usize, gap: LoopGap) -> Option<usize> {
        self.arrived += 1;
        // Of gaps of one length the earlier ones stay.
        self.gaps.insert((gap.duration_ns, u64::MAX - self.arrived), (number, gap));
        if self.gaps.len() <= self.most {
            return None;
        }
        self.gaps.pop_first().map(|(_, (number, _))| number)
    }

    /// The gaps, each with the number of its loop.
    pub(crate) fn longest_first(&self) -> Vec<(usize, &LoopGap)> {
        self.gaps.values().rev().map(|(number, gap)| (*number, gap)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gap(duration_ns: u64) -> LoopGap {
        LoopGap {
            pid: 1,
            tid: 2,
            name: "x".into(),
            cpu: None,
            start_ns: 0,
            duration_ns,
            parts: Vec::new(),
            unexplained_ns: duration_ns,
        }
    }

    proptest! {
        #[test]
        fn the_longest_stay_and_every_other_one_is_given_back(
            lengths in prop::collection::vec((1u64..50, 0usize..3), 0..60), most in 1usize..20,
        ) {
            let mut kept = Kept::new(most);
            let mut gone = [0usize; 3];
            for &(length, number) in &lengths {
                if let Some(number) = kept.keep(number, gap(length)) {
                    gone[number] += 1;
                }
            }
            let listed: Vec<u64> = kept.longest_first().iter().map(|(_, gap)| gap.duration_ns).collect();
            let mut all: Vec<u64> = lengths.iter().map(|entry| entry.0).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            all.truncate(most);
            prop_assert_eq!(&listed, &all);
            prop_assert_eq!(gone.iter().sum::<usize>() + listed.len(), lengths.len());
            prop_assert_eq!(kept.shortest_ns(), if listed.len() < most { None } else { listed.last().copied() });
        }
    }
}
