//! The paper's controller, exactly (MEMSYS'16, section 3.3, Equations 1 and 2, Algorithm 1).

use super::{Decision, Drive, Place, Situation, YEAR_S};

/// Which of the paper's estimators are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperRules {
    /// Lifetime estimation: to the SSD only while the drive outlives its expected life.
    pub lifetime: bool,
    /// Performance-loss estimation: to memory once checkpoints take more than the bound.
    pub performance: bool,
    /// Size estimation: what memory cannot hold, and the other rules keep from the SSD, is skipped.
    pub size: bool,
}

/// The paper's controller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paper {
    /// Its estimators.
    pub rules: PaperRules,
    /// The share of the run time that checkpoints may take; 0.1 in the paper.
    pub performance_bound: f64,
    /// The drive where none is known: the paper's own, 14.6 PB in five years.
    pub drive: Drive,
}

impl Default for Paper {
    fn default() -> Self {
        Paper {
            rules: PaperRules { lifetime: true, performance: true, size: true },
            performance_bound: 0.1,
            drive: Drive {
                rated_bytes: 14.6e15,
                written_bytes: 0.0,
                remaining_s: 5.0 * YEAR_S,
                rated_life_s: 5.0 * YEAR_S,
            },
        }
    }
}

impl Paper {
    pub(super) fn decide(&self, situation: &Situation) -> Decision {
        let drive = situation.drive.unwrap_or(self.drive);
        let decision = self.lifetime(situation, &drive);
        let decision = if decision.place == Place::Durable { self.performance(situation, decision) } else { decision };
        if self.rules.size && decision.place == Place::Memory && !situation.fits_memory {
            return Decision { place: Place::Skip, ..decision }.because("it does not fit into memory (size rule)");
        }
        decision
    }

    /// Equation 1: estimated life (R - U) / B; Equation 2: expected life (R - U) * 5 years / R.
    fn lifetime(&self, situation: &Situation, drive: &Drive) -> Decision {
        if !self.rules.lifetime {
            return Decision::new(Place::Durable, "the SSD, because no lifetime rule is on");
        }
        let rate = if situation.now_s > 0.0 { situation.durable_bytes / situation.now_s } else { 0.0 };
        let left = (drive.rated_bytes - drive.written_bytes - situation.durable_bytes).max(0.0);
        let estimated_s = if rate > 0.0 { left / rate } else { f64::INFINITY };
        let expected_s = left * drive.rated_life_s / drive.rated_bytes;
        let years = |seconds: f64| seconds / YEAR_S;
        let place = if estimated_s > expected_s { Place::Durable } else { Place::Memory };
        let relation = if place == Place::Durable { "more" } else { "not more" };
        Decision::new(
            place,
            format!(
                "at {:.1} MB/s the SSD would last {:.2} years, {relation} than the {:.2} expected (lifetime rule)",
                rate / 1e6,
                years(estimated_s),
                years(expected_s)
            ),
        )
    }

    fn performance(&self, situation: &Situation, decision: Decision) -> Decision {
        let share = if situation.now_s > 0.0 { situation.checkpoint_s / situation.now_s } else { 0.0 };
        if !self.rules.performance || share <= self.performance_bound {
            return decision;
        }
        Decision { place: Place::Memory, ..decision }.because(format!(
            "checkpoints took {:.1} % of the time, over {:.0} % (performance rule)",
            100.0 * share,
            100.0 * self.performance_bound
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Controller, Policy, tests::calm};

    /// The steps of the published microbenchmark: 5 s of work, then a checkpoint to memory or SSD.
    /// Returns run time over work time, and the share on the SSD.
    fn run(rules: PaperRules, size_bytes: f64) -> (f64, f64) {
        let mut controller = Controller::new(Policy::Paper(Paper { rules, ..Paper::default() }));
        let (mut now_s, mut checkpoint_s, mut durable_bytes, mut durable_count) = (0.0, 0.0, 0.0, 0);
        for taken_count in 0..2_000 {
            now_s += 5.0;
            let situation = Situation { now_s, checkpoint_s, size_bytes, durable_bytes, taken_count, ..calm() };
            let speed = if controller.decide(&situation).place == Place::Durable {
                durable_bytes += size_bytes;
                durable_count += 1;
                0.25e9
            } else {
                2.7e9
            };
            now_s += size_bytes / speed;
            checkpoint_s += size_bytes / speed;
        }
        (now_s / (2_000.0 * 5.0), f64::from(durable_count) / 2_000.0)
    }

    #[test]
    fn the_published_figures_come_out() {
        const LIFETIME: PaperRules = PaperRules { lifetime: true, performance: false, size: false };
        const BOTH: PaperRules = PaperRules { lifetime: true, performance: true, size: false };
        for (size_bytes, rules, slowdown, share) in [
            (0.8e9, LIFETIME, 1.59, 0.92),
            (2.4e9, LIFETIME, 1.77, 0.34),
            (4.0e9, LIFETIME, 1.95, 0.23),
            (8.0e9, LIFETIME, 2.40, 0.14),
            (0.8e9, BOTH, 1.11, 0.09),
            (2.4e9, BOTH, 1.18, 0.0),
            (8.0e9, BOTH, 1.60, 0.0),
        ] {
            let (ours, ours_share) = run(rules, size_bytes);
            assert!((ours - slowdown).abs() < 0.011, "{size_bytes}: {ours} instead of {slowdown}");
            assert!((ours_share - share).abs() < 0.011, "{size_bytes}: {ours_share} instead of {share}");
        }
    }

    #[test]
    fn wear_so_far_changes_nothing_in_the_papers_rule() {
        let new = Situation { durable_bytes: 95e9, now_s: 1_000.0, ..calm() };
        let fresh = Paper::default().drive;
        let worn = Drive { written_bytes: 0.9 * fresh.rated_bytes, ..fresh };
        let paper = Paper { rules: PaperRules { lifetime: true, performance: false, size: false }, ..Paper::default() };
        for (rate_bytes_per_s, place) in [(92.0e6, Place::Durable), (93.0e6, Place::Memory)] {
            for drive in [fresh, worn] {
                let situation =
                    Situation { durable_bytes: rate_bytes_per_s * 1_000.0, drive: Some(drive), ..new.clone() };
                assert_eq!(paper.decide(&situation).place, place, "{rate_bytes_per_s}");
            }
        }
    }

    #[test]
    fn what_fits_nowhere_is_skipped() {
        let situation = Situation { checkpoint_s: 900.0, fits_memory: false, ..calm() };
        let decision = Paper::default().decide(&situation);
        assert_eq!(decision.place, Place::Skip, "{decision:?}");
        assert_eq!(decision.reasons.len(), 3, "{decision:?}");
    }
}
