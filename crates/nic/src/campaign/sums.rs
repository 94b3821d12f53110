//! The faults of several campaigns, summed up campaign by campaign, from any number of shards in any order.

use super::fault::FaultId;
use super::table::{Row, Table};
use super::whole::{FaultNumber, Whole};
use std::collections::BTreeMap;

/// A campaign, by what its faults say of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Campaign {
    /// The experiment's name.
    pub experiment: String,
    /// The control program, with `+iommu` and `+trap` where the experiment has them.
    pub build: String,
    /// The seed.
    pub seed: u64,
}

/// The sums.
#[derive(Debug, Default)]
pub struct Sums(BTreeMap<Campaign, (Table, Whole)>);

impl Sums {
    /// Adds a fault, with its place in its campaign where that is known.
    ///
    /// # Errors
    /// When it cannot be of the same campaign as those before it; nothing is added then.
    pub fn add(&mut self, id: FaultId, place: Option<FaultNumber>, row: &Row) -> Result<(), String> {
        let campaign = Campaign { build: id.stack.to_string(), experiment: id.experiment, seed: id.seed };
        let (table, whole) = self.0.entry(campaign).or_default();
        whole.add(place)?;
        table.add(row);
        Ok(())
    }

    /// Each campaign with its table and which of its faults are there.
    pub fn campaigns(&self) -> impl Iterator<Item = (&Campaign, &(Table, Whole))> {
        self.0.iter()
    }

    /// Whether a tolerant interface broke its promise: a message was lost, or delivered twice, or arrived changed.
    pub fn has_broken_promise(&self) -> bool {
        let broken = |(campaign, (table, _)): (&Campaign, &(Table, Whole))| {
            campaign.build.starts_with("tolerant") && table.broken_count() > 0
        };
        self.0.iter().any(broken)
    }

    /// Faults that are missing, of all campaigns.
    pub fn missing_count(&self) -> u64 {
        self.0.values().filter_map(|(_, whole)| whole.missing_count()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::campaign::{Outcome, Standard};

    fn id(build: &str) -> FaultId {
        format!("send-chunk:{build}:7:code:0x100:1@5").parse().unwrap()
    }

    #[test]
    fn only_a_tolerant_interface_makes_a_promise() {
        let row = Row {
            outcome: Outcome::named("corrupted_message").unwrap(),
            standard: Standard::named("silent_corruption").unwrap(),
            detected_by: None,
            detection_ns: None,
            recovery_ns: None,
            is_pruned: false,
            recovery_count: 0,
        };
        let mut sums = Sums::default();
        sums.add(id("plain"), Some(FaultNumber { number: 2, of: 3, experiment: 1 }), &row).unwrap();
        assert!(!sums.has_broken_promise());
        sums.add(id("tolerant"), Some(FaultNumber { number: 1, of: 1, experiment: 1 }), &row).unwrap();
        assert!(sums.has_broken_promise());
        assert_eq!((sums.campaigns().count(), sums.missing_count()), (2, 2), "two of three faults of the first");
        let again = sums.add(id("plain"), Some(FaultNumber { number: 2, of: 3, experiment: 1 }), &row);
        assert!(again.is_err(), "one fault twice");
    }
}
