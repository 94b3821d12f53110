//! The answer of `/api/v1/memory`. Times are absolute, so that an answer says the same however late it is read.

use super::findings;
use super::state::State;
use crate::answer::{Header, Limited};
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_memory::cost::OfDimm;
use surefoot_model::{
    Dimm, ErrorReport, LossKind, MemoryCheck, MemoryController, MemoryProblem, MemorySource, ReportingCost, Severity,
    SlotStay,
};

/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 6 << 20;

/// Everything about memory errors at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// When the look began, `CLOCK_REALTIME`; `null` before the first has ended.
    pub looked_realtime_ns: Option<u64>,
    /// How long it took.
    pub look_ns: u64,
    /// The modules, by controller and place.
    pub dimms: Vec<DimmView>,
    /// Modules beyond those.
    pub dimms_left_out: u64,
    /// The controllers, by number.
    pub controllers: Vec<MemoryController>,
    /// Which module was in which slot: by slot, the oldest first.
    pub slots: Vec<SlotStay>,
    /// Stays in slots beyond those.
    pub slots_left_out: u64,
    /// What could not be read.
    pub problems: Vec<MemoryProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// The newest reports, oldest first.
    pub reports: Vec<ErrorReport>,
    /// Reports that were told since the start.
    pub reports_count: u64,
    /// Reports that the sources did not list.
    pub lost: Vec<LostReports>,
    /// Updates for further reasons that were dropped, because there are too many reasons.
    pub lost_left_out: u64,
    /// What the doctor says of the accounting.
    pub checks: Vec<MemoryCheck>,
    /// Controllers, checks, lost reports and costs of modules that the longest answer has no room for.
    pub rows_left_out: u64,
    /// What reporting costs.
    pub costs: Vec<ReportingCost>,
    /// What all of that comes to per day, nanoseconds of cores; `null` where nothing of it is counted here.
    pub cost_per_day_ns: Option<u64>,
    /// Each module's part of it, of those with errors since the watch began.
    pub dimm_costs: Vec<DimmCost>,
}

/// A module, and what the room says of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DimmView {
    /// Its counts, rates and fault.
    #[serde(flatten)]
    pub seen: Dimm,
    /// How bad that is.
    pub severity: Severity,
    /// What to do; `null` where it has no counted errors.
    pub advice: Option<String>,
    /// When its fault was closed, and whether errors came back, in words; `null` if it never was.
    pub closed_words: Option<String>,
}

/// What reporting the errors of a module costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DimmCost {
    /// [`Dimm::id`].
    pub id: String,
    /// Corrected errors since the watch began.
    pub corrected_count: u64,
    /// Nanoseconds of cores per day, by its share of these errors.
    pub per_day_ns: Option<u64>,
}

/// Reports of one source that are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LostReports {
    /// Whose.
    pub source: MemorySource,
    /// What became of them.
    pub kind: LossKind,
    /// How many, since the watch began.
    pub count: u64,
    /// Why.
    pub why: String,
}

impl DimmView {
    fn of(seen: Dimm) -> Self {
        DimmView {
            severity: findings::severity(&seen),
            advice: findings::advice(&seen),
            closed_words: findings::closed_words(&seen),
            seen,
        }
    }
}

impl DimmCost {
    fn of(OfDimm { id, corrected_count, per_day_ns }: OfDimm) -> Self {
        DimmCost { id, corrected_count, per_day_ns }
    }
}

impl Answer {
    /// The answer of what is known.
    pub fn of(state: &State, why: Option<String>) -> Self {
        let look = state.look.clone().unwrap_or_default();
        let costs = state.costs();
        let per_day = |costs: &[ReportingCost]| {
            let counted = costs.iter().filter_map(|cost| cost.per_day_ns);
            counted.fold(None, |sum: Option<u64>, one| Some(sum.unwrap_or(0).saturating_add(one)))
        };
        let lost = |((source, kind, why), count): (&(MemorySource, LossKind, String), &u64)| LostReports {
            source: *source,
            kind: *kind,
            count: *count,
            why: why.clone(),
        };
        Answer {
            header: Header::new(why),
            looked_realtime_ns: state.look.as_ref().map(|look| look.looked_realtime_ns),
            look_ns: look.look_ns,
            dimms: look.dimms.into_iter().map(DimmView::of).collect(),
            dimms_left_out: 0,
            controllers: look.controllers,
            slots: look.slots,
            slots_left_out: look.slots_left_out,
            problems: look.problems,
            problems_left_out: look.problems_left_out,
            reports: state.reports.iter().cloned().collect(),
            reports_count: state.reports_count,
            lost: state.lost.iter().map(lost).collect(),
            lost_left_out: state.lost_left_out,
            checks: state.checks.clone(),
            rows_left_out: 0,
            cost_per_day_ns: per_day(&costs),
            costs,
            dimm_costs: state.tally.of_dimms().into_iter().map(DimmCost::of).collect(),
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State) -> Self {
        Answer::of(state, None)
    }

    /// Leaves half of what is long out.
    pub fn cut(&mut self) {
        self.reports.drain(..self.reports.len().div_ceil(2));
        Limited(&mut self.problems, &mut self.problems_left_out).halve();
        Limited(&mut self.slots, &mut self.slots_left_out).halve();
        if self.reports.is_empty() {
            Limited(&mut self.dimms, &mut self.dimms_left_out).halve();
        }
        if self.dimms.is_empty() {
            let gone = self.controllers.len() + self.checks.len() + self.lost.len() + self.dimm_costs.len();
            self.rows_left_out += gone as u64;
            (self.controllers, self.checks, self.lost, self.dimm_costs) = Default::default();
        }
    }
}
