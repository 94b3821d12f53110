//! What reporting errors costs this host: counted and timed by the ledger of lost time where that sees it, otherwise at a stated
//! default from the literature.
//!
//! | what | counted by | timed by |
//! |---|---|---|
//! | corrected-error interrupt | the ledger (vector `threshold_apic`); else one for each report | the ledger |
//! | poll, and core scanned | not here: polls run within the timer's softirq, which the ledger does not take apart | literature |
//! | handled record | runs of the kernel's worker that decodes, traces and logs records | the trace of these runs |
//! | logged line | one for each report of a driver, at least; none where `edac_mc_log_ce` is off | the ledger's console messages, of whoever they are |
//!
//! An interrupt is priced without the line of its record, which is a row of its own: nothing is charged twice.
//! | SMI | gaps whose verdict is an SMI | these gaps |
//!
//! ```
//! use surefoot_memory::cost::Tally;
//! let tally = Tally::default();
//! assert!(tally.costs().iter().all(|cost| cost.per_day_ns.is_none()));
//! ```

mod spent;

pub use spent::{Past, Spent};

use crate::follow::Handled;
use crate::simulate::{Costs, Work};
use std::collections::BTreeMap;
use surefoot_model::{
    CauseKind, CoreLedger, CostBasis, Dimm, ErrorReport, Event, GapCorrection, MemoryEvent, MemoryLook, MemorySource,
    ReportingCost, Verdict, Window,
};

const DAY_NS: u64 = 86_400_000_000_000;
/// The ledger's name of the interrupt with which a processor tells of corrected errors.
const THRESHOLD_VECTOR: &str = "threshold_apic";

/// The cost of handling what was reported, as the trace timed it over so long.
pub fn of_handled(handled: Handled, over_ns: u64) -> ReportingCost {
    let per_day = u128::from(handled.total_ns) * u128::from(DAY_NS) / u128::from(over_ns.max(1));
    ReportingCost {
        what: "handled_record".into(),
        basis: CostBasis::Measured,
        source: format!(
            "this host's trace of the worker that decodes, traces and logs queued records; the longest took {} us",
            handled.longest_ns / 1_000
        ),
        each_ns: handled.total_ns.checked_div(handled.count).unwrap_or(0),
        count: Some(handled.count),
        over_ns,
        per_day_ns: Some(u64::try_from(per_day).unwrap_or(u64::MAX)),
    }
}

/// How often, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    total_ns: u64,
}

impl Sum {
    fn add(&mut self, count: u64, total_ns: u64) {
        self.count = self.count.saturating_add(count);
        self.total_ns = self.total_ns.saturating_add(total_ns);
    }

    /// `None` where it was never seen or not timed.
    fn each_ns(self) -> Option<u64> {
        self.total_ns.checked_div(self.count).filter(|&each_ns| each_ns > 0)
    }
}

/// The sum of what a stream of events says of the cost of reporting. Pure: a recording comes to the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    interrupts: Sum,
    console: Sum,
    smis: Sum,
    /// Time that the ledger watched.
    watched_ns: u64,
    /// Reports that were told or counted, and those of a driver, each of which it logs in a line or more.
    reports: u64,
    of_drivers: u64,
    /// Reports that were not told one by one, by whose they are, as last said.
    untold: Vec<(MemorySource, String, u64)>,
    first_look_ns: Option<u64>,
    last_look_ns: u64,
    corrected_rise: BTreeMap<String, u64>,
    corrected_last: Vec<(String, Option<u64>)>,
    /// What the last look said of console logging.
    logs_on_console: Option<bool>,
}

/// A module's part of the cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfDimm {
    /// [`Dimm::id`].
    pub id: String,
    /// Corrected errors since the first look.
    pub corrected_count: u64,
    /// Nanoseconds of cores per day; `None` where nothing that was counted tells what reporting them took.
    pub per_day_ns: Option<u64>,
}

impl Tally {
    /// Takes in what an event says of it.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Window(window) => self.window(window),
            Event::Gap(gap) if is_smi(gap.verdict) => self.smis.add(1, gap.duration_ns),
            // An error report came after the gap had been told of.
            Event::GapCorrection(GapCorrection { gap, former_verdict, .. })
                if is_smi(gap.verdict) && !is_smi(*former_verdict) =>
            {
                self.smis.add(1, gap.duration_ns);
            }
            Event::Memory(seen) => self.seen(seen),
            _ => {}
        }
    }

    /// The same of what the source of memory errors saw.
    pub fn seen(&mut self, seen: &MemoryEvent) {
        match seen {
            MemoryEvent::Report(report) => self.report(report),
            MemoryEvent::Lost { source, count, why, .. } => self.lost(*source, *count, why),
            MemoryEvent::Look(look) => self.look(look),
            MemoryEvent::Checks { .. } | MemoryEvent::Costs { .. } => {}
        }
    }

    fn window(&mut self, window: &Window) {
        self.ledger(&window.cores, window.end_ns.saturating_sub(window.start_ns));
    }

    fn ledger(&mut self, cores: &[CoreLedger], over_ns: u64) {
        self.watched_ns = self.watched_ns.saturating_add(over_ns);
        for row in cores.iter().flat_map(|core| &core.lost) {
            match row.cause.kind {
                CauseKind::MachineCheck if row.cause.name == THRESHOLD_VECTOR => {
                    self.interrupts.add(row.count, row.total_ns);
                }
                CauseKind::Console => self.console.add(row.count, row.total_ns),
                _ => {}
            }
        }
    }

    fn report(&mut self, report: &ErrorReport) {
        self.reports = self.reports.saturating_add(1);
        self.of_drivers = self.of_drivers.saturating_add(u64::from(report.source == MemorySource::McEvent));
    }

    fn lost(&mut self, source: MemorySource, count: u64, why: &str) {
        const REASONS_MAX: usize = 64;
        if let Some((.., known)) = self.untold.iter_mut().find(|(known, reason, _)| *known == source && reason == why) {
            *known = count;
        } else if self.untold.len() < REASONS_MAX {
            self.untold.push((source, why.to_owned(), count));
        }
    }

    fn look(&mut self, look: &MemoryLook) {
        let counts = |look: &MemoryLook| -> Vec<(String, Option<u64>)> {
            look.dimms.iter().map(|dimm: &Dimm| (dimm.id.clone(), dimm.corrected_count)).collect()
        };
        let now = counts(look);
        if self.first_look_ns.is_none() {
            self.first_look_ns = Some(look.at_ns);
        } else {
            let before: BTreeMap<&str, Option<u64>> =
                self.corrected_last.iter().map(|(id, count)| (&**id, *count)).collect();
            for (id, count) in &now {
                // Of a count that was not known before it is not known how much of it is new. One that went back began anew at
                // zero: so many came at least.
                let last = before.get(&**id).copied().flatten();
                let rise = count.zip(last).map_or(0, |(count, last)| count.checked_sub(last).unwrap_or(count));
                let all = self.corrected_rise.entry(id.clone()).or_default();
                *all = all.saturating_add(rise);
            }
        }
        self.last_look_ns = look.at_ns;
        self.corrected_last = now;
        self.logs_on_console = look.logs_on_console;
    }

    /// Time over which reports were counted.
    fn looked_ns(&self) -> u64 {
        self.last_look_ns.saturating_sub(self.first_look_ns.unwrap_or(self.last_look_ns))
    }

    /// One row for each way of reporting.
    pub fn costs(&self) -> Vec<ReportingCost> {
        let untold = |is_wanted: &dyn Fn(MemorySource) -> bool| {
            let wanted = self.untold.iter().filter(|(source, ..)| is_wanted(*source));
            wanted.fold(0u64, |sum, (.., count)| sum.saturating_add(*count))
        };
        let reports = self.reports.saturating_add(untold(&|_| true));
        let lines = self.of_drivers.saturating_add(untold(&|source| source == MemorySource::McEvent));
        let (watched, looked) = (self.watched_ns, self.looked_ns());
        let by_ledger = (self.interrupts.count > 0).then_some((self.interrupts.count, watched));
        // Errors that were counted and not reported one by one have cost something, and nobody knows how often.
        let is_told = reports > 0 || self.rises().is_empty();
        let by_reports = (looked > 0 && is_told).then_some((reports, looked));
        let interrupts = row(Work::Interrupt, self.interrupts.each_ns(), by_ledger.or(by_reports));
        let lines = match self.logs_on_console {
            Some(false) => Some(0),
            _ => (lines > 0 || self.rises().is_empty()).then_some(lines),
        };
        let logged = row(Work::Line, self.console.each_ns(), lines.filter(|_| looked > 0).map(|lines| (lines, looked)));
        let smis = (self.smis.count > 0 && watched > 0).then_some((self.smis.count, watched));
        vec![
            interrupts,
            row(Work::PollWake, None, None),
            row(Work::PollCore, None, None),
            logged,
            row(Work::Smi, self.smis.each_ns(), smis),
        ]
    }

    /// What of the cost is each module's: by its share of the corrected errors that came.
    pub fn of_dimms(&self) -> Vec<OfDimm> {
        let costs = self.costs();
        let counted = costs.iter().filter(|cost| cost.count.is_some_and(|count| count > 0));
        let all = counted.filter_map(|cost| cost.per_day_ns).reduce(u64::saturating_add);
        let rises = self.rises();
        let sum = rises.iter().map(|(_, rise)| u128::from(*rise)).sum::<u128>().max(1);
        let share = |all: u64, rise: u64| u64::try_from(u128::from(all) * u128::from(rise) / sum).unwrap_or(u64::MAX);
        let of_dimm = |(id, rise): (String, u64)| {
            let per_day_ns = all.map(|all| share(all, rise));
            OfDimm { id, corrected_count: rise, per_day_ns }
        };
        rises.into_iter().map(of_dimm).collect()
    }

    /// Modules with corrected errors since the first look, and how many; those of the last look alone.
    fn rises(&self) -> Vec<(String, u64)> {
        let rise = |(id, _): &(String, Option<u64>)| {
            Some((id.clone(), *self.corrected_rise.get(id).filter(|rise| **rise > 0)?))
        };
        self.corrected_last.iter().filter_map(rise).collect()
    }
}

/// Whether firmware stopped the core, for sure or as the error report says that followed.
fn is_smi(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Smi | Verdict::CorrectedErrorLogging)
}

/// A row: measured where the ledger timed it, and counted where somebody counts it, in so much time.
fn row(work: Work, measured_ns: Option<u64>, counted: Option<(u64, u64)>) -> ReportingCost {
    let each_ns = measured_ns.unwrap_or_else(|| Costs::LITERATURE.of(work));
    let per_day = |(count, over_ns): (u64, u64)| {
        let total = u128::from(count) * u128::from(each_ns) * u128::from(DAY_NS);
        total.checked_div(u128::from(over_ns)).map(|per_day| u64::try_from(per_day).unwrap_or(u64::MAX))
    };
    ReportingCost {
        what: work.name().to_owned(),
        basis: if measured_ns.is_some() { CostBasis::Measured } else { CostBasis::Literature },
        source: match measured_ns {
            Some(_) => "the ledger of lost time, on this host".to_owned(),
            None => work.source().to_owned(),
        },
        each_ns,
        count: counted.map(|(count, _)| count),
        over_ns: counted.map_or(0, |(_, over_ns)| over_ns),
        per_day_ns: counted.and_then(per_day),
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
