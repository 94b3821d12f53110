//! How many reports are told one by one: a storm is counted, and a few of it are shown.

use std::collections::BTreeMap;
use surefoot_model::{ErrorReport, ErrorSeverity, MemorySource};

const NS_PER_S: f64 = 1e9;

/// Reports per second that are told for good.
pub const TOLD_PER_S: f64 = 10.0;
/// Reports that may be told at once after a quiet time.
pub const TOLD_AT_ONCE: f64 = 50.0;

/// What may still be told now. Errors that could not be corrected have an allowance of their own, so that a storm of others
/// does not hide them.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    corrected: Bucket,
    others: Bucket,
    untold: BTreeMap<MemorySource, u64>,
}

#[derive(Debug, Clone, Default)]
struct Bucket {
    left: f64,
    at_ns: u64,
}

impl Allowance {
    pub(super) fn new(now_ns: u64) -> Self {
        let full = Bucket { left: TOLD_AT_ONCE, at_ns: now_ns };
        Allowance { corrected: full.clone(), others: full, untold: BTreeMap::new() }
    }

    /// Whether a report may be told; one that may not is counted.
    pub(super) fn take(&mut self, report: &ErrorReport, now_ns: u64) -> bool {
        let bucket = match report.severity {
            ErrorSeverity::Corrected => &mut self.corrected,
            ErrorSeverity::Deferred | ErrorSeverity::Uncorrected => &mut self.others,
        };
        let is_told = bucket.take(now_ns);
        if !is_told {
            let untold = self.untold.entry(report.source).or_default();
            *untold = untold.saturating_add(1);
        }
        is_told
    }

    /// Reports that were not told, by whose they are.
    pub(super) fn untold(&self) -> &BTreeMap<MemorySource, u64> {
        &self.untold
    }
}

impl Bucket {
    fn take(&mut self, now_ns: u64) -> bool {
        let passed_s = now_ns.saturating_sub(self.at_ns) as f64 / NS_PER_S;
        self.left = (self.left + passed_s * TOLD_PER_S).min(TOLD_AT_ONCE);
        self.at_ns = self.at_ns.max(now_ns);
        let is_allowed = self.left >= 1.0;
        if is_allowed {
            self.left -= 1.0;
        }
        is_allowed
    }
}
