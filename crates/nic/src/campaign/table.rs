//! What a campaign comes to: shares with intervals, and the coverage, beside the paper's numbers.

use super::classes::{Outcome, Standard};
use std::collections::BTreeMap;

/// A share with its interval of Wilson at 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
}

impl Share {
    /// The share; 0 of nothing.
    pub fn share(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.count as f64 / self.of as f64 }
    }

    /// Its interval at 95 % (E. B. Wilson, 1927); 0 to 1 of nothing.
    pub fn interval(&self) -> (f64, f64) {
        if self.of == 0 {
            return (0.0, 1.0);
        }
        const Z: f64 = 1.959_963_984_540_054;
        let (n, p) = (self.of as f64, self.share());
        let scale = 1.0 + Z * Z / n;
        let middle = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        // Exact at the ends, where rounding would leave something.
        let low = if self.count == 0 { 0.0 } else { (middle - half) / scale };
        let high = if self.count == self.of { 1.0 } else { (middle + half) / scale };
        (low, high)
    }
}

/// What the table needs of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// In the paper's words.
    pub outcome: Outcome,
    /// In the standard ones.
    pub standard: Standard,
    /// The name of the detector.
    pub detected_by: Option<String>,
    /// From the fault to its detection.
    pub detection_ns: Option<u64>,
    /// From detection to the end of recovery.
    pub recovery_ns: Option<u64>,
    /// It was known to be masked without a run.
    pub is_pruned: bool,
    /// Recoveries.
    pub recovery_count: u32,
}

/// The table of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// All faults.
    pub fault_count: u64,
    /// Not run, because nobody executes the word.
    pub pruned_count: u64,
    /// By the paper's classes.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// By the standard ones.
    pub standards: BTreeMap<Standard, u64>,
    /// By detector.
    pub detectors: BTreeMap<String, u64>,
    /// By the paper's classes, those that were detected.
    pub detected: BTreeMap<Outcome, u64>,
    /// Faults after which the interface was recovered.
    pub recovered_count: u64,
    detections_ns: Vec<u64>,
    recoveries_ns: Vec<u64>,
}

impl Table {
    /// Adds a record.
    pub fn add(&mut self, row: &Row) {
        self.fault_count += 1;
        self.pruned_count += u64::from(row.is_pruned);
        *self.outcomes.entry(row.outcome).or_default() += 1;
        *self.standards.entry(row.standard).or_default() += 1;
        if let Some(by) = &row.detected_by {
            *self.detectors.entry(by.clone()).or_default() += 1;
            *self.detected.entry(row.outcome).or_default() += 1;
        }
        self.recovered_count += u64::from(row.recovery_count > 0);
        self.detections_ns.extend(row.detection_ns);
        self.recoveries_ns.extend(row.recovery_ns);
    }

    /// How many have this outcome.
    pub fn outcome(&self, outcome: Outcome) -> Share {
        Share { count: self.outcomes.get(&outcome).copied().unwrap_or(0), of: self.fault_count }
    }

    /// How many have this class.
    pub fn standard(&self, standard: Standard) -> Share {
        Share { count: self.standards.get(&standard).copied().unwrap_or(0), of: self.fault_count }
    }

    /// Faults that an application could tell.
    pub fn failures(&self) -> Share {
        Share { count: self.fault_count - self.outcome(Outcome::NoEffect).count, of: self.fault_count }
    }

    /// The coverage as the paper defines it: of the failures that an application's own test sees, those that the
    /// interface's self-test and watchdog see. A host that went down tests nothing; it is left out.
    pub fn coverage(&self) -> Share {
        let of = |counts: &BTreeMap<Outcome, u64>| {
            counts.iter().filter(|(one, _)| one.is_failure() && **one != Outcome::HostCrash).map(|(_, n)| n).sum()
        };
        Share { count: of(&self.detected), of: of(&self.outcomes) }
    }

    /// The same of one class.
    pub fn detected(&self, outcome: Outcome) -> Share {
        Share { count: self.detected.get(&outcome).copied().unwrap_or(0), of: self.outcome(outcome).count }
    }

    /// Faults that broke what the fault-tolerant interface promises.
    pub fn broken_count(&self) -> u64 {
        Standard::ALL.into_iter().filter(|one| one.breaks_promise()).map(|one| self.standard(one).count).sum()
    }

    /// Median and maximum from fault to detection.
    pub fn detection_ns(&self) -> Option<(u64, u64)> {
        median_and_max(&self.detections_ns)
    }

    /// Median and maximum from detection to the end of recovery.
    pub fn recovery_ns(&self) -> Option<(u64, u64)> {
        median_and_max(&self.recoveries_ns)
    }
}

fn median_and_max(values: &[u64]) -> Option<(u64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    Some((*sorted.get(sorted.len() / 2)?, *sorted.last()?))
}

/// A column of the paper's Table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Faults.
    pub fault_count: u64,
    /// In the order of [`Outcome::ALL`], without those that had no effect.
    pub counts: [u64; 7],
    /// Coverage in the paper's words: detections of the interface's self-test against those of the application's.
    pub coverage: f64,
}

impl Published {
    /// How many had this outcome.
    pub fn outcome(&self, outcome: Outcome) -> Share {
        let failures: u64 = self.counts.iter().sum();
        let place = Outcome::ALL.iter().position(|one| *one == outcome);
        let count = place.and_then(|place| self.counts.get(place).copied()).unwrap_or(self.fault_count - failures);
        Share { count, of: self.fault_count }
    }
}

/// The paper's numbers for an experiment (TPDS'07, Table 1 and the text on coverage).
pub fn published(experiment: &str) -> Option<Published> {
    Some(match experiment {
        "send-chunk" => Published { fault_count: 1056, counts: [128, 151, 21, 0, 5, 107, 7], coverage: 0.993 },
        "dma-registers" => Published { fault_count: 192, counts: [10, 0, 26, 3, 45, 0, 46], coverage: 0.992 },
        "code" => Published { fault_count: 1430, counts: [24, 21, 12, 1, 8, 14, 8], coverage: 0.956 },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_facts() {
        for (count, of, low, high) in [(419, 1056, 0.368, 0.427), (130, 192, 0.608, 0.739), (88, 1430, 0.050, 0.075)] {
            let (found_low, found_high) = Share { count, of }.interval();
            assert!((found_low - low).abs() < 6e-4 && (found_high - high).abs() < 6e-4, "{count} of {of}");
        }
        assert_eq!(Share { count: 0, of: 10 }.interval().0, 0.0);
        assert_eq!(Share { count: 10, of: 10 }.interval().1, 1.0);
        assert_eq!(Share { count: 0, of: 0 }.interval(), (0.0, 1.0));
    }

    #[test]
    fn the_papers_failures_add_up() {
        for (name, failures) in [("send-chunk", 419), ("dma-registers", 130), ("code", 88)] {
            assert_eq!(published(name).unwrap().counts.iter().sum::<u64>(), failures);
        }
    }

    #[test]
    fn coverage_leaves_out_hosts_that_went_down_and_faults_without_effect() {
        let mut table = Table::default();
        let mut add = |outcome, detected_by: Option<&str>| {
            let detected_by = detected_by.map(str::to_owned);
            let (standard, is_pruned) = (Standard::Detected, false);
            let (detection_ns, recovery_ns, recovery_count) = (None, None, 0);
            table.add(&Row { outcome, standard, detected_by, detection_ns, recovery_ns, is_pruned, recovery_count });
        };
        add(Outcome::Hang, Some("watchdog"));
        add(Outcome::CorruptedMessage, None);
        add(Outcome::HostCrash, None);
        add(Outcome::NoEffect, Some("self_test"));
        assert_eq!(table.coverage(), Share { count: 1, of: 2 });
        assert_eq!(table.failures(), Share { count: 3, of: 4 });
    }
}
