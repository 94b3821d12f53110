//! What is kept of a module's error reports, and how much.

use super::{advice, mode, persistence};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{DimmFault, ErrorCell, ErrorReport, ErrorSeverity, RunnerUp, Spread};

/// How many cells of a bank are told apart. More than enough to know its fault; a flood in one bank leaves room for others.
pub const CELLS_PER_BANK_MAX: usize = 256;
/// How many cells of a module are told apart: about 100 kB.
pub const CELLS_MAX: usize = 2048;
/// How many banks of a module are told apart; eight ranks of 32 banks.
pub const BANKS_MAX: usize = 256;
/// How many addresses are kept of errors whose row and column are not told.
const ADDRESSES_MAX: usize = 256;
/// An address that is coarser than a burst of 64 bytes says nothing of cells.
const CELL_GRAIN_BITS_MAX: u8 = 6;
/// How many cells a judgement shows.
pub const CELLS_SHOWN_MAX: usize = 64;

/// How often and when something was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub errors: u64,
    pub reports: u64,
    /// `CLOCK_REALTIME` of the first report that tells a time; 0 where none does.
    pub first_ns: u64,
    /// That of the last one.
    pub last_ns: u64,
}

impl Seen {
    fn add(&mut self, report: &ErrorReport) {
        self.errors = self.errors.saturating_add(report.count.into());
        self.reports = self.reports.saturating_add(1);
        let at_ns = report.at_realtime_ns;
        if at_ns != 0 {
            self.first_ns = if self.first_ns == 0 { at_ns } else { self.first_ns.min(at_ns) };
            self.last_ns = self.last_ns.max(at_ns);
        }
    }

    /// Both together.
    pub fn and(self, other: Seen) -> Seen {
        let first_ns = [self.first_ns, other.first_ns].into_iter().filter(|&ns| ns != 0).min().unwrap_or(0);
        Seen {
            errors: self.errors.saturating_add(other.errors),
            reports: self.reports.saturating_add(other.reports),
            first_ns,
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

/// A bank of a rank. Errors whose rank is not reported are kept apart from those of any known rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BankKey {
    pub rank: Option<u32>,
    pub bank: u32,
}

impl std::fmt::Display for BankKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} bank {}", self.bank),
            None => write!(f, "bank {} (rank unknown)", self.bank),
        }
    }
}

/// A row and a column.
pub(super) type Cell = (u32, u32);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BankEvidence {
    pub cells: BTreeMap<Cell, Seen>,
    /// Errors in cells beyond those.
    pub beyond: Seen,
    /// Errors whose row or column is not told.
    pub bare: Seen,
}

/// The errors of one module, as far as its fault needs them: bounded, however many there were.
///
/// As long as no limit is reached, the order of the reports does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    pub(super) banks: BTreeMap<BankKey, BankEvidence>,
    cells: usize,
    /// Errors in banks beyond the limit.
    pub(super) other_banks: Seen,
    /// Errors of which the rank is known at best.
    pub(super) unplaced: Seen,
    /// Addresses of errors without row and column, each known to within a burst.
    pub(super) addresses: BTreeMap<u64, Seen>,
    /// Errors whose address is coarser than a burst, or does not say how coarse it is.
    pub(super) coarse_addresses: Seen,
    /// Errors at addresses beyond those.
    pub(super) other_addresses: Seen,
    /// All errors.
    pub(super) all: Seen,
    /// Errors whose bits are lost, deferred ones among them.
    pub(super) lost_count: u64,
}

impl Evidence {
    /// Adds one report of the module.
    pub fn add(&mut self, report: &ErrorReport) {
        self.all.add(report);
        if report.severity != ErrorSeverity::Corrected {
            self.lost_count = self.lost_count.saturating_add(report.count.into());
        }
        let location = &report.location;
        let Some(bank) = location.bank else {
            self.unplaced.add(report);
            self.add_address(report);
            return;
        };
        let bank = location.bank_group.map_or(bank, |group| group.saturating_mul(4).saturating_add(bank));
        let key = BankKey { rank: location.rank, bank };
        if self.banks.len() == BANKS_MAX && !self.banks.contains_key(&key) {
            self.other_banks.add(report);
            return;
        }
        let of_bank = self.banks.entry(key).or_default();
        let (Some(row), Some(column)) = (location.row, location.column) else {
            of_bank.bare.add(report);
            self.add_address(report);
            return;
        };
        if let Some(seen) = of_bank.cells.get_mut(&(row, column)) {
            seen.add(report);
        } else if of_bank.cells.len() < CELLS_PER_BANK_MAX && self.cells < CELLS_MAX {
            self.cells += 1;
            of_bank.cells.entry((row, column)).or_default().add(report);
        } else {
            of_bank.beyond.add(report);
        }
    }

    fn add_address(&mut self, report: &ErrorReport) {
        let Some(address) = report.location.address else { return };
        if report.location.grain_bits.is_none_or(|bits| bits > CELL_GRAIN_BITS_MAX) {
            self.coarse_addresses.add(report);
            return;
        }
        if self.addresses.len() < ADDRESSES_MAX || self.addresses.contains_key(&address) {
            self.addresses.entry(address).or_default().add(report);
        } else {
            self.other_addresses.add(report);
        }
    }

    /// How many errors were reported.
    pub fn error_count(&self) -> u64 {
        self.all.errors
    }

    /// What the reports come to, as of the newest of them. Where there were none, the mode is [`surefoot_model::FaultMode::None`].
    pub fn judge(&self) -> (Spread, DimmFault) {
        self.judge_at(self.all.last_ns)
    }

    /// The same at a time (`CLOCK_REALTIME`): that nothing more was seen until then tells transient faults.
    pub fn judge_at(&self, now_realtime_ns: u64) -> (Spread, DimmFault) {
        let found = mode::of(self);
        let persistence = persistence::of(&found, now_realtime_ns.max(self.all.last_ns));
        let advice = advice::of(&found, persistence, self.lost_count);
        let (cells, cells_left_out) = self.shown_cells();
        let fault = DimmFault {
            mode: found.mode,
            persistence,
            certainty: found.certainty,
            probability: found.odds.map(|odds| odds.probability),
            runner_up: found.odds.and_then(|odds| odds.next).map(|(mode, probability)| RunnerUp { mode, probability }),
            report_count: self.all.reports,
            evidence: found.evidence,
            cells,
            cells_left_out,
            action: advice.action,
            urgency: advice.urgency,
            advice: advice.text,
        };
        (self.spread(), fault)
    }

    /// How the errors are spread; at least so many where a limit was reached.
    fn spread(&self) -> Spread {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let each =
            || self.banks.iter().flat_map(|(key, of)| of.cells.keys().map(move |&(row, column)| (*key, row, column)));
        let placed = self.placed();
        Spread {
            located_count: placed.errors,
            cells: count(self.cells),
            rows: count(each().map(|(key, row, _)| (key, row)).collect::<BTreeSet<_>>().len()),
            columns: count(each().map(|(key, _, column)| (key, column)).collect::<BTreeSet<_>>().len()),
            banks: count(self.banks.len()),
            // Errors of an unknown rank are of one rank at least.
            ranks: count(self.ranks().len().max(usize::from(!self.banks.is_empty()))),
        }
    }

    /// The ranks that are known to have errors.
    pub(super) fn ranks(&self) -> BTreeSet<u32> {
        self.banks.keys().filter_map(|key| key.rank).collect()
    }

    /// Errors with a row and a column.
    pub(super) fn placed(&self) -> Seen {
        let of_cells = self.banks.values().flat_map(|of| of.cells.values().chain([&of.beyond]));
        of_cells.fold(Seen::default(), |sum, &seen| sum.and(seen))
    }

    /// The cells with the most errors, and how many more were told apart.
    fn shown_cells(&self) -> (Vec<ErrorCell>, u32) {
        let each = self.banks.iter().flat_map(|(key, of)| {
            of.cells.iter().map(move |(&(row, column), seen)| ErrorCell {
                rank: key.rank,
                bank: key.bank,
                row,
                column,
                count: seen.errors,
            })
        });
        let mut cells: Vec<ErrorCell> = each.collect();
        cells.sort_by_key(|cell| (std::cmp::Reverse(cell.count), *cell));
        let left_out = cells.len().saturating_sub(CELLS_SHOWN_MAX);
        cells.truncate(CELLS_SHOWN_MAX);
        (cells, u32::try_from(left_out).unwrap_or(u32::MAX))
    }
}
