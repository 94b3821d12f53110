//! What reports cost in a time that is past, by cause, from what the history keeps: the ledger's windows, the gaps and the reports.

use super::{DAY_NS, Sum, Tally, is_smi};
use crate::simulate::{Costs, Work};
use std::collections::BTreeMap;
use surefoot_model::{CoreLedger, CostBasis, ErrorReport, Gap};

/// What one cause took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The work.
    pub work: Work,
    /// How often; `None` where that is not known.
    pub count: Option<u64>,
    /// Whether there were more, or may have been.
    pub is_at_least: bool,
    /// Time of cores, nanoseconds; `None` where the count is not known.
    pub total_ns: Option<u64>,
    /// Whether the time was measured here.
    pub basis: CostBasis,
    /// Who measured it, or why it is not known.
    pub source: &'static str,
}

/// The sum of what the history says of a time.
#[derive(Debug, Clone, Default)]
pub struct Past {
    tally: Tally,
    /// Errors by module, as it was reported; the empty name for those without.
    modules: BTreeMap<String, u64>,
    smis_left_out: u64,
}

impl Past {
    /// Takes in a window of the ledger.
    pub fn window(&mut self, cores: &[CoreLedger], over_ns: u64) {
        self.tally.ledger(cores, over_ns);
    }

    /// Takes in a gap of a core.
    pub fn gap(&mut self, gap: &Gap) {
        if is_smi(gap.verdict) {
            self.tally.smis.add(1, gap.duration_ns);
        }
    }

    /// Gaps that the history has and did not give.
    pub fn gaps_left_out(&mut self, count: u64) {
        self.smis_left_out = self.smis_left_out.saturating_add(count);
    }

    /// Takes in a report.
    pub fn report(&mut self, report: &ErrorReport) {
        self.tally.report(report);
        let of_module = self.modules.entry(report.dimm.clone().unwrap_or_default()).or_default();
        *of_module = of_module.saturating_add(report.count.into());
    }

    /// Errors that were reported, by module; the empty name stands for those of no known module.
    pub fn modules(&self) -> &BTreeMap<String, u64> {
        &self.modules
    }

    /// Time that the ledger watched.
    pub fn watched_ns(&self) -> u64 {
        self.tally.watched_ns
    }

    /// Reports.
    pub fn report_count(&self) -> u64 {
        self.tally.reports
    }

    /// What each cause took. What nothing counts is unknown, not 0.
    pub fn spent(&self) -> Vec<Spent> {
        let tally = &self.tally;
        let is_watched = tally.watched_ns > 0;
        const LEDGER: &str = "the ledger of lost time, on this host";
        const NO_LEDGER: &str = "the ledger of lost time did not watch in this time";
        let measured = |work, sum: Sum| Spent {
            work,
            count: Some(sum.count),
            is_at_least: false,
            total_ns: Some(sum.total_ns),
            basis: CostBasis::Measured,
            source: LEDGER,
        };
        // Each report stands for one, where the ledger has none of that name: a host where they are called otherwise, or that polls.
        let priced = |work: Work, count: u64, each_ns: Option<u64>| {
            let price_ns = each_ns.unwrap_or_else(|| Costs::LITERATURE.of(work));
            Spent {
                work,
                count: Some(count),
                is_at_least: true,
                total_ns: Some(count.saturating_mul(price_ns)),
                basis: if each_ns.is_some() { CostBasis::Measured } else { CostBasis::Literature },
                source: if each_ns.is_some() { LEDGER } else { work.source() },
            }
        };
        let unknown = |work: Work, source| Spent {
            work,
            count: None,
            is_at_least: false,
            total_ns: None,
            basis: CostBasis::Literature,
            source,
        };
        let interrupts = match (tally.interrupts.count, tally.reports, is_watched) {
            (0, 0, false) => unknown(Work::Interrupt, NO_LEDGER),
            (0, 0, true) => measured(Work::Interrupt, Sum::default()),
            (0, reports, _) => priced(Work::Interrupt, reports, None),
            _ => measured(Work::Interrupt, tally.interrupts),
        };
        let lines = match (tally.of_drivers, is_watched) {
            (0, false) if tally.reports == 0 => unknown(Work::Line, NO_LEDGER),
            (lines, _) => priced(Work::Line, lines, tally.console.each_ns()),
        };
        let smis = match is_watched {
            true => Spent { is_at_least: self.smis_left_out > 0, ..measured(Work::Smi, tally.smis) },
            false => unknown(Work::Smi, NO_LEDGER),
        };
        let polls =
            unknown(Work::PollWake, "polls run within the timer's softirq, which the ledger does not take apart");
        vec![interrupts, lines, smis, polls]
    }

    /// What is known of it in sum, per day that was watched; `None` without a ledger.
    pub fn per_day_ns(&self) -> Option<u64> {
        let sum: u128 = self.spent().iter().filter_map(|spent| spent.total_ns).map(u128::from).sum();
        let per_day = (sum * u128::from(DAY_NS)).checked_div(u128::from(self.tally.watched_ns))?;
        Some(u64::try_from(per_day).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::reports::{McEvent, mc_event};
    use surefoot_model::{Cause, CauseKind, CpuId, Lost};

    fn core(rows: Vec<Lost>) -> CoreLedger {
        CoreLedger { lost: rows, ..CoreLedger::empty(CpuId(0)) }
    }

    fn lost(kind: CauseKind, name: &str, count: u64, total_ns: u64) -> Lost {
        Lost::new(Cause::new(kind, name), count, total_ns, 0)
    }

    fn of(past: &Past, work: Work) -> Spent {
        past.spent().into_iter().find(|spent| spent.work == work).unwrap()
    }

    #[test]
    fn a_day_costs_what_the_ledger_has_and_what_nothing_counts_is_unknown() {
        let nothing = Past::default();
        assert!(nothing.spent().iter().all(|spent| spent.total_ns.is_none()), "{:?}", nothing.spent());
        assert_eq!(nothing.per_day_ns(), None);
        let mut past = Past::default();
        let rows = vec![
            lost(CauseKind::MachineCheck, "threshold_apic", 40, 30_000_000),
            lost(CauseKind::MachineCheck, "machine_check", 1, 5_000_000),
            lost(CauseKind::Console, "printk", 10, 300_000_000),
        ];
        past.window(&[core(rows), core(Vec::new())], DAY_NS / 2);
        // Nobody reported an error: the console's lines were of others.
        assert_eq!((of(&past, Work::Line).count, of(&past, Work::Line).total_ns), (Some(0), Some(0)));
        for _ in 0..4 {
            past.report(&mc_event(&McEvent { label: "A1".into(), error_count: 3, ..McEvent::default() }));
        }
        let interrupts = of(&past, Work::Interrupt);
        assert_eq!(
            (interrupts.count, interrupts.total_ns, interrupts.basis),
            (Some(40), Some(30_000_000), CostBasis::Measured)
        );
        // Four lines at the 30 ms that one took here.
        let lines = of(&past, Work::Line);
        assert_eq!((lines.count, lines.total_ns, lines.is_at_least), (Some(4), Some(120_000_000), true));
        assert_eq!((of(&past, Work::Smi).count, of(&past, Work::PollWake).total_ns), (Some(0), None));
        assert_eq!(past.per_day_ns(), Some(300_000_000));
        assert_eq!(past.modules().values().sum::<u64>(), 12);
        // Without an interrupt of that name each report counts as one, at a price of others.
        let mut polled = Past::default();
        polled.report(&mc_event(&McEvent::default()));
        let interrupts = of(&polled, Work::Interrupt);
        assert_eq!((interrupts.count, interrupts.basis), (Some(1), CostBasis::Literature));
        assert_eq!(of(&polled, Work::Smi).total_ns, None);
    }
}
