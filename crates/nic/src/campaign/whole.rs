//! Whether all faults of a campaign are at hand. Each fault says its number and how many there are, so that a shard that was
//! forgotten, or a file that was cut, is noticed whatever the files are called and in whatever order they are read.

use super::experiment::FAULTS_MAX;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The place of a fault among those of its campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultNumber {
    /// From 1.
    pub number: u64,
    /// Faults of the whole campaign, all shards together.
    pub of: u64,
    /// [`Experiment::digest`](super::Experiment::digest).
    pub experiment: u32,
}

/// Which faults of one campaign are at hand. It takes memory by the stretches of them, not by their number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// What the first fault said; `Some(None)` when its line is of a version that did not number faults.
    of: Option<Option<(u64, u32)>>,
    /// Stretches of numbers, first to last, that neither touch nor overlap.
    stretches: BTreeMap<u64, u64>,
}

impl Whole {
    /// Takes in one more fault.
    ///
    /// # Errors
    /// When it cannot be of the same campaign as those before; nothing is taken in then.
    pub fn add(&mut self, place: Option<FaultNumber>) -> Result<(), String> {
        let of = place.map(|place| (place.of, place.experiment));
        if let Some(before) = self.of.filter(|before| *before != of) {
            return Err(match (before, of) {
                (Some((before, _)), Some((of, _))) if before == of => {
                    "it is of another experiment of the same name: what describes them differs; report the two apart"
                        .to_owned()
                }
                (Some((before, _)), Some((of, _))) => format!(
                    "it is one of {of} faults, those before are of {before}: another --sample or --repeat; report the two campaigns apart"
                ),
                _ => "some faults say their number and some do not: the files are of different versions of Surefoot"
                    .to_owned(),
            });
        }
        let Some(FaultNumber { number, of, experiment }) = place else {
            self.of = Some(None);
            return Ok(());
        };
        if !(1..=of).contains(&number) || of > FAULTS_MAX {
            return Err(format!("there is no fault {number} of {of}"));
        }
        if self.has(number) {
            return Err(format!("another line has the number {number}, too"));
        }
        self.of = Some(Some((of, experiment)));
        let last = self.stretches.remove(&(number + 1)).unwrap_or(number);
        match self.stretches.range_mut(..number).next_back().filter(|(_, end)| **end + 1 == number) {
            Some((_, end)) => *end = last,
            None => drop(self.stretches.insert(number, last)),
        }
        Ok(())
    }

    fn has(&self, number: u64) -> bool {
        self.stretches.range(..=number).next_back().is_some_and(|(_, &end)| end >= number)
    }

    /// Faults of the whole campaign; `None` when nobody said.
    pub fn fault_count(&self) -> Option<u64> {
        self.of.flatten().map(|(of, _)| of)
    }

    /// Faults that are not at hand; `None` when nobody said how many there are.
    pub fn missing_count(&self) -> Option<u64> {
        let here: u64 = self.stretches.iter().map(|(first, last)| last - first + 1).sum();
        self.fault_count().map(|of| of - here)
    }

    /// The first stretches of numbers that are not at hand, no more than `most`.
    pub fn missing(&self, most: usize) -> Vec<RangeInclusive<u64>> {
        let Some(of) = self.fault_count() else { return Vec::new() };
        let mut next = 1;
        let mut found = Vec::new();
        for (first, end) in self.stretches.iter().map(|(&first, &last)| (first, last + 1)).chain([(of + 1, of + 1)]) {
            if found.len() == most {
                break;
            }
            if next < first {
                found.push(next..=first - 1);
            }
            next = end;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64, of: u64) -> FaultNumber {
        FaultNumber { number, of, experiment: 7 }
    }

    fn whole(of: u64, numbers: impl IntoIterator<Item = u64>) -> Whole {
        let mut whole = Whole::default();
        numbers.into_iter().for_each(|number| whole.add(Some(place(number, of))).unwrap());
        whole
    }

    #[test]
    fn what_is_missing_is_found_in_any_order() {
        assert_eq!(whole(4, [3, 1, 4, 2]).missing_count(), Some(0));
        assert_eq!(whole(4, [3, 1, 4, 2]).missing(10), []);
        let some = whole(9, [7, 3, 4, 6]);
        assert_eq!((some.missing_count(), some.missing(10)), (Some(5), vec![1..=2, 5..=5, 8..=9]));
        assert_eq!(some.missing(1), [1..=2]);
        assert_eq!(whole(1000, 251..=1000).missing(10), [1..=250]);
        assert_eq!(whole(1000, (1..=1000).rev()).stretches.len(), 1);
    }

    #[test]
    fn every_subset_of_a_small_campaign_is_told_apart() {
        for bits in 1..1u32 << 8 {
            let is_here = |number: &u64| bits >> (number - 1) & 1 == 1;
            // Odd ones first, so that stretches grow on both ends and join.
            let order = (1..=8).filter(|number| number % 2 == 1).chain((1..=8).filter(|number| number % 2 == 0));
            let some = whole(8, order.filter(is_here));
            let missing: Vec<u64> = some.missing(10).into_iter().flatten().collect();
            assert_eq!(missing, (1..=8).filter(|number| !is_here(number)).collect::<Vec<_>>());
            assert_eq!(some.missing_count(), Some(missing.len() as u64));
        }
    }

    #[test]
    fn what_cannot_be_of_one_campaign_is_refused_and_changes_nothing() {
        let mut some = whole(9, [2]);
        let before = some.clone();
        for (one, why) in [
            (Some(place(3, 10)), "another --sample"),
            (Some(FaultNumber { experiment: 8, ..place(3, 9) }), "another experiment of the same name"),
            (None, "different versions"),
            (Some(place(2, 9)), "has the number 2"),
            (Some(place(0, 9)), "no fault 0 of 9"),
            (Some(place(10, 9)), "no fault 10 of 9"),
        ] {
            assert!(some.add(one).unwrap_err().contains(why), "{one:?}");
        }
        assert_eq!(some, before);
        let mut large = Whole::default();
        assert!(large.add(Some(place(1, u64::MAX))).is_err());
        let mut old = Whole::default();
        old.add(None).unwrap();
        assert_eq!((old.fault_count(), old.missing_count(), old.missing(10)), (None, None, vec![]));
        assert!(old.add(Some(place(1, 9))).unwrap_err().contains("different versions"));
    }
}
