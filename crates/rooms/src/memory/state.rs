//! The fold over what was seen of memory errors; pure, so that a recording folds to the same.

use crate::CHART_POINTS_MAX;
use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::{BTreeMap, VecDeque};
use surefoot_memory::cost::Tally;
use surefoot_memory::tune;
use surefoot_model::{
    DramLocation, ErrorReport, Event, LossKind, MemoryCheck, MemoryEvent, MemoryLook, MemorySource, ReportingCost,
};

/// Reports that are kept one by one.
const REPORTS_MAX: usize = 256;
/// Reasons for lost reports that are told apart.
const LOST_MAX: usize = 64;

/// What is known of the host's memory errors now.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest look; `None` before the first has ended.
    pub look: Option<MemoryLook>,
    /// The newest reports, oldest first.
    pub reports: VecDeque<ErrorReport>,
    /// Reports that were told since the start.
    pub reports_count: u64,
    /// Reports that are not listed, by whose they are, what became of them and why.
    pub lost: BTreeMap<(MemorySource, LossKind, String), u64>,
    /// Updates for further reasons, which are dropped.
    pub lost_left_out: u64,
    /// What the doctor says.
    pub checks: Vec<MemoryCheck>,
    /// What reporting costs, where a source says it.
    told_costs: Vec<ReportingCost>,
    /// What it costs as the events of this stream have it.
    pub tally: Tally,
    /// When each look began, and how many corrected errors had come since the look before it.
    pub rises: VecDeque<(u64, f64)>,
}

impl State {
    /// Takes in an event: what was seen of memory errors, and what the ledger of lost time says of the cost of reporting them.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Memory(seen) => self.seen(seen),
            other => self.tally.take(other),
        }
    }

    /// Takes in what was seen of memory errors.
    pub fn seen(&mut self, seen: &MemoryEvent) {
        self.tally.seen(seen);
        match seen {
            MemoryEvent::Look(look) => self.look(look),
            MemoryEvent::Report(report) => {
                self.reports_count += 1;
                if self.reports.len() == REPORTS_MAX {
                    self.reports.pop_front();
                }
                self.reports.push_back(report.clone());
            }
            MemoryEvent::Lost { source, kind, count, why } => {
                let key = (*source, *kind, why.clone());
                if self.lost.len() < LOST_MAX || self.lost.contains_key(&key) {
                    self.lost.insert(key, *count);
                } else {
                    self.lost_left_out += 1;
                }
            }
            MemoryEvent::Checks { checks } => self.checks.clone_from(checks),
            MemoryEvent::Costs { costs } => self.told_costs.clone_from(costs),
        }
    }

    fn look(&mut self, look: &MemoryLook) {
        if let Some(before) = &self.look {
            let rise = corrected_rise(before, look);
            self.rises.push_back((look.looked_realtime_ns, rise as f64));
            self.rises.drain(..self.rises.len().saturating_sub(CHART_POINTS_MAX));
        }
        self.look = Some(look.clone());
    }

    /// The newest look, of a host that has any source of memory errors.
    pub fn look_if_supported(&self) -> Option<&MemoryLook> {
        self.look.as_ref().filter(|look| look.unsupported.is_none())
    }

    /// What reporting costs.
    pub fn costs(&self) -> Vec<ReportingCost> {
        // What the source has timed itself counts before what can be made of the ledger.
        let is_told = |cost: &ReportingCost| self.told_costs.iter().any(|told| told.what == cost.what);
        let mut costs = self.told_costs.clone();
        costs.extend(self.tally.costs().into_iter().filter(|cost| !is_told(cost)));
        costs
    }

    /// The highest rate of any module.
    pub fn worst_per_s(&self) -> f64 {
        self.look.as_ref().map_or(0.0, tune::worst_per_s)
    }

    /// Reports that are not listed.
    pub fn lost_count(&self) -> u64 {
        self.lost.values().copied().fold(0, u64::saturating_add)
    }
}

/// Where in memory something lies is root's to know, because it helps whoever wants to flip bits there.
impl Private for State {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            for report in &mut self.reports {
                report.location = DramLocation { address: None, row: None, column: None, ..report.location };
                report.detail.clear();
            }
            let dimms = self.look.iter_mut().flat_map(|look| &mut look.dimms);
            for dimm in dimms {
                if let Some(fault) = &mut dimm.fault {
                    fault.cells.clear();
                }
                // A person's words are for those who see everything, as in the deed.
                if let Some(closed) = &mut dimm.closed {
                    closed.reason.clear();
                }
            }
        }
        self
    }
}

/// Corrected errors that came between two looks, of modules and of no known one. A count that was not known before says nothing
/// of how much of it is new.
fn corrected_rise(before: &MemoryLook, now: &MemoryLook) -> u64 {
    let counts = |look: &MemoryLook| -> BTreeMap<String, u64> {
        let dimms = look.dimms.iter().filter_map(|dimm| Some((format!("dimm {}", dimm.id), dimm.corrected_count?)));
        let controllers = look.controllers.iter();
        let without = controllers.filter_map(|one| Some((format!("controller {}", one.id), one.no_information_count?)));
        dimms.chain(without).collect()
    };
    let before = counts(before);
    let rise = |(id, count): (String, u64)| before.get(&id).map_or(0, |before| count.saturating_sub(*before));
    counts(now).into_iter().map(rise).fold(0, u64::saturating_add)
}
