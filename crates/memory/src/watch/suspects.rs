//! What the reports say of each module, beside what its counters say: where its errors are, and so which part fails.
//!
//! The counters count; reports are never added to what they have. Only a module that no counter knows, such as one behind CXL, has
//! the counts of its reports.

use crate::counted;
use crate::fault::{self, Evidence, FIND_MODULE};
use crate::rate::{Bucket, Limit, Rates};
use crate::reports::{only_place_of, place_of};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{
    Dimm, DimmFault, ErrorReport, ErrorSeverity, FaultMode, Fidelity, MemoryLook, MemorySource, Spread, one_line,
};

/// Modules that are told apart; the largest machines have a few hundred.
const MODULES_MAX: usize = 1024;
/// Places of errors without a module that are told apart.
const PLACES_MAX: usize = 16;

/// The modules of which errors were reported.
///
/// ```
/// use surefoot_memory::watch::Suspects;
/// use surefoot_model::MemoryLook;
/// let mut look = MemoryLook::default();
/// // No report was added, so that nothing more is known of any module.
/// Suspects::default().complete(&mut look);
/// assert!(look.dimms.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Suspects {
    modules: BTreeMap<String, Suspect>,
    limit: Limit,
    /// Errors of modules beyond the limit, or of none that is known.
    unplaced_count: u64,
    /// Those of no known module by what is known of their place.
    places: BTreeMap<String, u64>,
    /// What the counters of each module had when it was looked at first.
    counted_first: BTreeMap<String, [u64; 2]>,
    /// When the fault of a module was closed, `CLOCK_REALTIME`: an error that was reported for an earlier time is no evidence.
    closed: BTreeMap<String, u64>,
}

/// Modules of which a contradiction is told.
const CONTRADICTIONS_MAX: usize = 8;

#[derive(Debug, Default)]
struct Suspect {
    evidence: Evidence,
    label: String,
    /// The place, where the reports name no module; see [`only_place_of`].
    only_place: Option<String>,
    corrected_count: u64,
    uncorrected_count: u64,
    /// Of these, those from before the fault was closed.
    before: [u64; 2],
    /// Of these, those that were reported while the counters were looked at: corrected, uncorrected.
    live_counts: [u64; 2],
    /// How many of those the look before had, that did not agree with the counters.
    doubted_counts: Option<[u64; 2]>,
    /// What it was when it was last looked at, and when that was.
    looked_count: u64,
    looked_ns: u64,
    rates: Rates,
    source: Option<MemorySource>,
    /// Whether some report was of a counter that was full.
    is_lower_bound: bool,
    /// What the evidence came to, until more comes.
    judged: Option<(Spread, DimmFault)>,
}

impl Suspects {
    /// None yet; a module that no counter knows may have this rate.
    pub fn new(limit: Limit) -> Self {
        Suspects { limit, ..Suspects::default() }
    }

    /// From now on with another rate.
    pub fn set_limit(&mut self, limit: Limit) {
        if self.limit == limit {
            return;
        }
        self.limit = limit;
        for suspect in self.modules.values_mut() {
            suspect.rates.bucket = Bucket::new(limit);
        }
    }

    /// Closes the fault of a module as of a time, `CLOCK_REALTIME`: verdicts rest on what was reported since. What was reported until now
    /// counts as earlier.
    pub fn close(&mut self, module: &str, at_realtime_ns: u64) {
        let before = self.closed.get(module).copied();
        if before.is_some_and(|before| before >= at_realtime_ns) {
            return;
        }
        self.closed.insert(module.to_owned(), at_realtime_ns);
        if let Some(suspect) = self.modules.get_mut(module) {
            suspect.evidence = Evidence::default();
            suspect.judged = None;
            suspect.before = [suspect.corrected_count, suspect.uncorrected_count];
            suspect.rates = Rates::new(self.limit);
        }
    }

    /// Errors that were reported of a module since its fault was closed, corrected and uncorrected; `None` for one without reports.
    pub fn since_closed(&self, module: &str) -> Option<[u64; 2]> {
        let suspect = self.modules.get(module)?;
        let all = [suspect.corrected_count, suspect.uncorrected_count];
        Some(std::array::from_fn(|of| all[of].saturating_sub(suspect.before[of])))
    }

    /// Takes a report in, whose module is named where it is known.
    pub fn add(&mut self, report: &ErrorReport, now_ns: u64) {
        self.add_at(report, now_ns, true);
    }

    fn add_at(&mut self, report: &ErrorReport, now_ns: u64, is_live: bool) {
        let count = u64::from(report.count);
        let known = report.dimm.as_ref();
        let Some(id) = known.filter(|id| self.modules.len() < MODULES_MAX || self.modules.contains_key(*id)) else {
            self.add_unplaced(report, count);
            return;
        };
        let limit = self.limit;
        let suspect = self.modules.entry(id.clone()).or_insert_with(|| Suspect {
            label: report.label.clone(),
            only_place: only_place_of(report),
            looked_ns: now_ns,
            rates: Rates::new(limit),
            source: Some(report.source),
            ..Suspect::default()
        });
        let at_ns = report.at_realtime_ns;
        let is_closed = at_ns != 0 && self.closed.get(id).is_some_and(|closed_ns| at_ns < *closed_ns);
        if is_closed {
            let before = &mut suspect.before[usize::from(report.severity != ErrorSeverity::Corrected)];
            *before = before.saturating_add(count);
        } else {
            suspect.evidence.add(report);
            suspect.judged = None;
        }
        suspect.is_lower_bound |= report.fidelity == Fidelity::LowerBound;
        if is_live {
            let live = &mut suspect.live_counts[usize::from(report.severity != ErrorSeverity::Corrected)];
            *live = live.saturating_add(count);
        }
        match report.severity {
            ErrorSeverity::Corrected => suspect.corrected_count = suspect.corrected_count.saturating_add(count),
            ErrorSeverity::Deferred | ErrorSeverity::Uncorrected => {
                suspect.uncorrected_count = suspect.uncorrected_count.saturating_add(count);
            }
        }
    }

    /// Takes a report in that is older than the watch: it tells of the fault and is no error of now.
    pub fn add_past(&mut self, report: &ErrorReport, now_ns: u64) {
        self.add_at(report, now_ns, false);
        if let Some(suspect) = report.dimm.as_ref().and_then(|id| self.modules.get_mut(id)) {
            suspect.looked_count = suspect.corrected_count;
        }
    }

    fn add_unplaced(&mut self, report: &ErrorReport, count: u64) {
        self.unplaced_count = self.unplaced_count.saturating_add(count);
        let place = only_place_of(report).or_else(|| place_of(report)).unwrap_or_default();
        if self.places.len() < PLACES_MAX || self.places.contains_key(&place) {
            let sum = self.places.entry(place).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// What to say of errors that were reported of no module that is told apart: how many, where, and how to find it.
    pub fn unplaced(&self) -> Option<String> {
        let errors = match self.unplaced_count {
            0 => return None,
            count => counted(count, "reported error is", "reported errors are"),
        };
        let places: Vec<String> =
            self.places.iter().map(|(place, count)| format!("{count} at {}", one_line(place))).collect();
        Some(format!(
            "{errors} of no module that this host's counters know by label or place ({}). {FIND_MODULE}",
            places.join("; ")
        ))
    }

    /// Modules whose reports tell of more errors than their counters have counted since they were looked at first, a sentence each. The
    /// kernel reports before it counts, so only what two looks in a row have is told.
    pub fn contradictions(&mut self, look: &MemoryLook) -> Vec<String> {
        let mut told = Vec::new();
        for dimm in look.dimms.iter().filter(|dimm| dimm.only_place.is_none()) {
            let Some(counts) = dimm.corrected_count.zip(dimm.uncorrected_count).map(|(one, two)| [one, two]) else {
                continue;
            };
            if self.counted_first.len() < MODULES_MAX || self.counted_first.contains_key(&dimm.id) {
                self.counted_first.entry(dimm.id.clone()).or_insert(counts);
            }
            let (Some(first), Some(suspect)) = (self.counted_first.get(&dimm.id), self.modules.get_mut(&dimm.id))
            else {
                continue;
            };
            let live = suspect.live_counts;
            let risen = [0, 1].map(|of| counts[of].saturating_sub(first[of]));
            let is_more = live.iter().zip(risen).any(|(reported, risen)| *reported > risen);
            let before = std::mem::replace(&mut suspect.doubted_counts, is_more.then_some(live));
            if is_more && before == Some(live) && told.len() < CONTRADICTIONS_MAX {
                let name = if dimm.label.is_empty() { &dimm.id } else { &dimm.label };
                told.push(format!(
                    "since this watch began, reports tell of {} corrected and {} uncorrected errors of {}, and its counters counted {} and {}: \
                     the larger number holds, and something keeps errors from the counters (`surefoot memory doctor`)",
                    live[0],
                    live[1],
                    one_line(name),
                    risen[0],
                    risen[1]
                ));
            }
        }
        told
    }

    /// Adds to a look what the reports say.
    pub fn complete(&mut self, look: &mut MemoryLook) {
        for dimm in &mut look.dimms {
            if let Some(suspect) = self.modules.get_mut(&dimm.id) {
                suspect.judge(dimm);
                if suspect.is_lower_bound && dimm.fidelity == Fidelity::Exact {
                    dimm.fidelity = Fidelity::LowerBound;
                }
                dimm.sources.extend(suspect.source.filter(|source| !dimm.sources.contains(source)));
            }
        }
        let counted: BTreeSet<&str> = look.dimms.iter().map(|dimm| dimm.id.as_str()).collect();
        let uncounted: Vec<String> = self.modules.keys().filter(|id| !counted.contains(id.as_str())).cloned().collect();
        for id in uncounted {
            if let Some(suspect) = self.modules.get_mut(&id) {
                look.dimms.push(suspect.dimm(id, look.at_ns));
            }
        }
    }
}

impl Suspect {
    fn judge(&mut self, dimm: &mut Dimm) {
        let (spread, fault) = self.judged.get_or_insert_with(|| self.evidence.judge());
        dimm.spread = *spread;
        if fault.mode != FaultMode::None {
            let mut fault = fault.clone();
            if let Some(place) = &dimm.only_place {
                fault::at_place(&mut fault, place);
            }
            dimm.fault_mode = fault.mode;
            dimm.fault = Some(fault);
        }
    }

    /// A module that no counter knows.
    fn dimm(&mut self, id: String, now_ns: u64) -> Dimm {
        let rise = self.corrected_count - self.looked_count;
        self.rates.add(rise, self.looked_ns, now_ns);
        (self.looked_count, self.looked_ns) = (self.corrected_count, now_ns.max(self.looked_ns));
        let mut dimm = Dimm {
            id,
            label: self.label.clone(),
            serial: None,
            serial_certainty: None,
            part: None,
            size_bytes: 0,
            controller: String::new(),
            corrected_count: Some(self.corrected_count),
            uncorrected_count: Some(self.uncorrected_count),
            rate_per_s: self.rates.now_per_s,
            rate_window_s: self.rates.now_window_ns as f64 / 1e9,
            worst_rate_per_s: self.rates.worst_per_s,
            worst_window_s: self.rates.worst_window_ns as f64 / 1e9,
            is_over_rate: self.rates.bucket.is_over(),
            // What was reported before the watch began is not in it.
            fidelity: Fidelity::LowerBound,
            unread: Vec::new(),
            unplaced: Vec::new(),
            sources: self.source.into_iter().collect(),
            spread: Spread::default(),
            fault_mode: FaultMode::Undetermined,
            fault: None,
            moved_from: None,
            mixed_with: Vec::new(),
            only_place: self.only_place.clone(),
            closed: None,
        };
        self.judge(&mut dimm);
        dimm
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::reports::{McErrorType, McEvent, mc_event};
    use surefoot_model::DramLocation;

    /// A history may hold what was imported of a place, and no counter of this host knows it.
    #[test]
    fn a_place_that_no_counter_knows_is_no_module_to_replace() {
        let event = McEvent { error_type: McErrorType::Uncorrected, error_count: 1, ..McEvent::default() };
        let mut report = mc_event(&event);
        report.location = DramLocation { socket: Some(1), channel: Some(2), ..DramLocation::default() };
        report.dimm = place_of(&report);
        let (mut suspects, mut look) = (Suspects::default(), MemoryLook::default());
        suspects.add_past(&report, 1);
        suspects.complete(&mut look);
        let [dimm] = &look.dimms[..] else { panic!("{look:?}") };
        assert_eq!(dimm.only_place.as_deref(), Some("socket 1, channel 2"));
        let advice = &dimm.fault.as_ref().unwrap().advice;
        assert!(advice.contains(FIND_MODULE) && !advice.contains("replace the module"), "{advice}");
    }
}
