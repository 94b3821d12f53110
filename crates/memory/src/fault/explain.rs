//! Which faults explain the errors of a module best, and how much better than the next best explanation.
//!
//! An explanation is a set of faults, each with the cells that it brought forth, and stray flips. Its cost is what it takes to tell the
//! reports by it, in nats (minus the logarithm of its probability):
//!
//! - for each fault its rate, and its place among all that it could have had;
//! - for each report which of the faults it is of;
//! - for each new cell where it is in the fault: one of the columns of a row, any place of a bank; rows and columns that came before
//!   cost less, because large faults often fail in few of them;
//! - for each report of a cell that came before what that says of the fault: one cell reports again and again, a rank that fails has others
//!   to report.
//!
//! The rates are those of the field ([`RATES`]); everything else follows from the geometry. Stray flips have the published rate, or, on few
//! modules, a far higher one; no rate that is known brings several a day. Explanations that differ in where a bank's cells
//! belong are tried one bank at a time until none is better.

use super::evidence::{BankKey, Cell, Evidence, Seen};
use super::persistence::SCRUB_NS;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::FaultMode;

/// Failures in 10^9 hours of one DRAM device, transient and permanent together: Sridharan and Liberty, "A Study of DRAM Failures in the
/// Field" (SC 2012), as the source of FaultSim (Nair et al., TACO 2016) has them but for ranks. What counts here is their ratio.
const RATES: [(Kind, f64); 7] = [
    (Kind::Cell, 34.5),
    // That one row fault in seven reaches rows near it is assumed: the study does not tell them apart.
    (Kind::Row, 7.3),
    (Kind::Rows, 1.1),
    (Kind::Column, 7.0),
    (Kind::Bank, 10.8),
    (Kind::Banks, 1.7),
    // One rank, or all of them: half each.
    (Kind::Rank, 1.85),
];
/// Transient faults of one cell in 10^9 hours of one device.
const FLIPS: f64 = 15.6;
/// The devices of a module, and how long it is watched: two ranks of eighteen, two months.
const DEVICE_HOURS: f64 = 36.0 * 60.0 * 24.0;
/// The part of all modules whose flips come at no rate that is known.
const NOISY: f64 = 0.2;
/// Of the flips so many have one beside them, of the same particle: a few in a hundred, by irradiation.
const NEIGHBOUR_FLIPS: f64 = 0.03;
/// And the most that are believed of them in a day.
const FLIPS_PER_DAY: f64 = 0.2;
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Rows that share a driver are this near.
pub(crate) const PAIR_ROWS: u32 = 8;
/// Cells of one bank that are explained.
const CELLS_OF_BANK: usize = 64;
/// Costs are divided by this before they become probabilities: the model is not the world, and what it takes for a hundred to one is
/// ten to one.
const DOUBT: f64 = 2.0;
/// More banks than this are each given their own best fault or none, and not tried against all others.
const BANKS_TRIED: usize = 8;

/// What a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Flips at random places, each for itself.
    Strays,
    Cell,
    Row,
    /// Rows that are near each other, such as those that share a driver.
    Rows,
    Column,
    Bank,
    /// Some banks of a rank.
    Banks,
    /// A rank, or several.
    Rank,
}

impl Kind {
    pub(super) fn mode(self) -> FaultMode {
        match self {
            Kind::Strays | Kind::Cell => FaultMode::Cell,
            Kind::Row => FaultMode::Row,
            Kind::Rows => FaultMode::Rows,
            Kind::Column => FaultMode::Column,
            Kind::Bank => FaultMode::Bank,
            Kind::Banks => FaultMode::Banks,
            Kind::Rank => FaultMode::Rank,
        }
    }
}

/// One fault with what it brought forth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// Its cells, by number.
    pub(super) cells: Vec<usize>,
}

/// A cell that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bank: BankKey,
    pub(super) cell: Cell,
    pub(super) seen: Seen,
}

impl Place {
    /// What its reports weigh. Programs read some cells thousands of times as often as others, so that a thousand reports of one cell say
    /// little more than a dozen.
    fn weight(&self) -> f64 {
        1.0 + (self.seen.reports.max(1) as f64).ln()
    }

    /// Whether one flip that was read until it was scrubbed explains it.
    pub(super) fn may_be_a_flip(&self) -> bool {
        self.seen.last_ns - self.seen.first_ns <= SCRUB_NS && (self.seen.first_ns != 0 || self.seen.reports <= 2)
    }
}

/// The best explanation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Explained {
    pub(super) places: Vec<Place>,
    /// The largest fault first, and of one kind the one with most reports.
    pub(super) faults: Vec<Fault>,
    /// Its mode, and the part of the probability that falls to explanations of this mode.
    pub(super) mode: FaultMode,
    pub(super) probability: f64,
    /// The next best mode, with its part.
    pub(super) next: Option<(FaultMode, f64)>,
}

/// Explains the cells that were seen; `None` where none was.
pub(super) fn best(evidence: &Evidence) -> Option<Explained> {
    let places: Vec<Place> = evidence
        .banks
        .iter()
        .flat_map(|(&bank, of)| {
            // Of many cells those at equal distances: what they have in common shows all the same.
            let step = of.cells.len().div_ceil(CELLS_OF_BANK).max(1);
            of.cells.iter().step_by(step).map(move |(&cell, &seen)| Place { bank, cell, seen })
        })
        .collect();
    if places.is_empty() {
        return None;
    }
    let world = World::of(places);
    let mut best: BTreeMap<FaultMode, (f64, Vec<Fault>)> = BTreeMap::new();
    for faults in world.candidates() {
        let cost = world.cost(&faults);
        let mode = world.mode_of(&faults);
        if best.get(&mode).is_none_or(|known| cost < known.0) {
            best.insert(mode, (cost, faults));
        }
    }
    let least = best.values().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let all: f64 = best.values().map(|one| ((least - one.0) / DOUBT).exp()).sum();
    let mut ranked: Vec<(FaultMode, f64)> =
        best.iter().map(|(&mode, one)| (mode, ((least - one.0) / DOUBT).exp() / all)).collect();
    ranked.sort_by(|one, two| two.1.total_cmp(&one.1));
    let (mode, probability) = ranked[0];
    let (_, mut faults) = best.remove(&mode)?;
    let reports = |fault: &Fault| fault.cells.iter().map(|&cell| world.places[cell].seen.reports).sum::<u64>();
    faults.sort_by_key(|fault| std::cmp::Reverse((fault.kind, reports(fault))));
    Some(Explained { places: world.places, faults, mode, probability, next: ranked.get(1).copied() })
}

/// What the cells of a bank may be, with what of its cost does not depend on other banks.
struct Way {
    faults: Vec<Fault>,
    /// Its cells that flipped, which belong to those of all banks.
    strays: Vec<usize>,
    cells: usize,
    cost: f64,
    /// Reports of its faults, and the sum of each with its logarithm.
    reports: f64,
    known: f64,
}

/// The cells, and the module around them.
struct World {
    places: Vec<Place>,
    banks: BTreeMap<BankKey, Vec<usize>>,
    /// Natural logarithms of how many there are.
    ranks: f64,
    banks_of_rank: f64,
    rows: f64,
    columns: f64,
    /// Whether all columns are the first ones of bursts of eight.
    in_bursts: bool,
    days: f64,
}

impl World {
    fn of(places: Vec<Place>) -> World {
        let most = |of: &dyn Fn(&Place) -> u32, least: u32| {
            let most = places.iter().map(of).max().unwrap_or(0).saturating_add(1).max(least);
            f64::from(most.checked_next_power_of_two().unwrap_or(u32::MAX)).ln()
        };
        let in_bursts = places.iter().all(|place| place.cell.1 % 8 == 0);
        let columns = match in_bursts {
            true => most(&|place| place.cell.1 / 8, 128),
            false => most(&|place| place.cell.1, 1024),
        };
        let mut banks: BTreeMap<BankKey, Vec<usize>> = BTreeMap::new();
        for (number, place) in places.iter().enumerate() {
            banks.entry(place.bank).or_default().push(number);
        }
        let times = || places.iter().flat_map(|place| [place.seen.first_ns, place.seen.last_ns]).filter(|ns| *ns != 0);
        let span_ns = times().max().unwrap_or(0) - times().min().unwrap_or(0);
        // Chips of DDR3 have eight banks: six and none beyond the eighth are seldom those of one with sixteen.
        let seen: BTreeSet<u32> = banks.keys().map(|bank| bank.bank).collect();
        let banks_least = if seen.len() >= 6 { 8 } else { 16 };
        World {
            ranks: most(&|place| place.bank.rank.unwrap_or(0), 2),
            banks_of_rank: most(&|place| place.bank.bank, banks_least),
            rows: most(&|place| place.cell.0, 1 << 16),
            columns,
            in_bursts,
            days: span_ns as f64 / 86_400e9,
            banks,
            places,
        }
    }

    /// Explanations: each bank by itself, and with a fault of several banks; better ones bank by bank.
    fn candidates(&self) -> Vec<Vec<Fault>> {
        let options: Vec<Vec<Way>> = self.banks.values().map(|cells| self.of_bank(cells)).collect();
        let mut found = Vec::new();
        for wide in self.wide() {
            let may_be_wide: Vec<bool> =
                self.banks.keys().map(|bank| wide.as_ref().is_some_and(|(_, banks)| banks.contains(bank))).collect();
            let kind = wide.as_ref().map(|(kind, _)| *kind);
            // Where each bank begins: as a part of the wide fault, or with what is best for it alone. One more than the options of a bank
            // stands for the wide fault.
            let cheapest: Vec<usize> = options.iter().map(|of| self.cheapest(of)).collect();
            let wide_where = |is_wide: &dyn Fn(usize) -> bool| -> Vec<usize> {
                let one = |at: usize| if may_be_wide[at] && is_wide(at) { options[at].len() } else { cheapest[at] };
                (0..options.len()).map(one).collect()
            };
            let mut begins = vec![wide_where(&|_| false)];
            if wide.is_some() {
                begins.push(wide_where(&|_| true));
            }
            if options.len() <= BANKS_TRIED {
                found.extend(begins.into_iter().map(|begin| self.descend(kind, &options, &may_be_wide, begin)));
                continue;
            }
            if wide.is_some() {
                // The banks that are told best by themselves, more and more of them.
                let mut by_gain: Vec<usize> = (0..options.len()).collect();
                let gain = |at: usize| {
                    let own = &options[at][cheapest[at]];
                    own.cells as f64 * (self.rows + self.columns) - own.cost - self.strays_cost(&own.strays)
                };
                by_gain.sort_by(|&one, &two| gain(two).total_cmp(&gain(one)));
                for alone in [1, 2, 4, 8, options.len() / 4, options.len() / 2] {
                    let alone: BTreeSet<usize> = by_gain.iter().copied().take(alone).collect();
                    begins.push(wide_where(&|at| !alone.contains(&at)));
                }
                begins.push(wide_where(&|at| options[at][cheapest[at]].cells > 1));
            }
            found.extend(begins.iter().map(|chosen| self.merged(kind, &options, chosen)));
        }
        found
    }

    /// Kinds of faults that go over several banks, with the banks that they may have; and none.
    fn wide(&self) -> Vec<Option<(Kind, BTreeSet<BankKey>)>> {
        let all: BTreeSet<BankKey> = self.banks.keys().copied().collect();
        let mut wide = vec![None];
        if all.len() < 2 {
            return wide;
        }
        let ranks: BTreeSet<Option<u32>> = all.iter().map(|bank| bank.rank).collect();
        for rank in &ranks {
            let of: BTreeSet<BankKey> = all.iter().copied().filter(|bank| bank.rank == *rank).collect();
            if of.len() >= 2 {
                wide.push(Some((Kind::Banks, of.clone())));
                wide.push(Some((Kind::Rank, of)));
            }
        }
        if ranks.len() >= 2 {
            wide.push(Some((Kind::Rank, all)));
        }
        wide
    }

    /// Changes one bank after the other while that makes the explanation cheaper.
    fn descend(
        &self,
        kind: Option<Kind>,
        options: &[Vec<Way>],
        may_be_wide: &[bool],
        mut chosen: Vec<usize>,
    ) -> Vec<Fault> {
        let mut cost = self.cost_of_ways(kind, options, &chosen);
        for _ in 0..3 {
            let before = cost;
            for at in 0..options.len() {
                for option in 0..options[at].len() + usize::from(may_be_wide[at]) {
                    let old = std::mem::replace(&mut chosen[at], option);
                    let new = self.cost_of_ways(kind, options, &chosen);
                    if new < cost {
                        cost = new;
                    } else {
                        chosen[at] = old;
                    }
                }
            }
            if cost >= before {
                break;
            }
        }
        self.merged(kind, options, &chosen)
    }

    fn cheapest(&self, options: &[Way]) -> usize {
        let cost = |way: &Way| {
            let strays = way.strays.iter().map(|&cell| self.places[cell].weight()).sum::<f64>();
            way.cost + self.strays_cost(&way.strays) + xlnx(way.reports + strays) - way.known - xlnx(strays)
        };
        let costs = options.iter().map(cost);
        costs.enumerate().min_by(|one, two| one.1.total_cmp(&two.1)).map_or(0, |(at, _)| at)
    }

    /// As [`World::cost`] of what [`World::merged`] gives.
    fn cost_of_ways(&self, kind: Option<Kind>, options: &[Vec<Way>], chosen: &[usize]) -> f64 {
        let reports = |cells: &[usize]| cells.iter().map(|&cell| self.places[cell].weight()).sum::<f64>();
        let (mut cost, mut all, mut known) = (0.0, 0.0, 0.0);
        let (mut wide, mut strays) = (Vec::new(), Vec::new());
        for ((cells, options), &at) in self.banks.values().zip(options).zip(chosen) {
            let Some(way) = options.get(at) else {
                wide.extend_from_slice(cells);
                continue;
            };
            (cost, all, known) = (cost + way.cost, all + way.reports, known + way.known);
            strays.extend_from_slice(&way.strays);
        }
        if let Some(kind) = kind.filter(|_| !wide.is_empty()) {
            let of_wide = reports(&wide);
            (all, known) = (all + of_wide, known + xlnx(of_wide));
            cost += self.cost_of(&Fault { kind, cells: wide });
        }
        let of_strays = reports(&strays);
        cost + self.strays_cost(&strays) + xlnx(all + of_strays) - known - xlnx(of_strays)
    }

    /// The chosen options together: all strays are one group, and the wide fault has the cells of all banks that chose it.
    fn merged(&self, kind: Option<Kind>, options: &[Vec<Way>], chosen: &[usize]) -> Vec<Fault> {
        let (mut faults, mut strays, mut wide) = (Vec::new(), Vec::new(), Vec::new());
        for ((cells, options), &at) in self.banks.values().zip(options).zip(chosen) {
            match options.get(at) {
                Some(way) => {
                    strays.extend_from_slice(&way.strays);
                    faults.extend_from_slice(&way.faults);
                }
                None => wide.extend_from_slice(cells),
            }
        }
        for (kind, cells) in [(Some(Kind::Strays), strays), (kind, wide)] {
            faults.extend(kind.filter(|_| !cells.is_empty()).map(|kind| Fault { kind, cells }));
        }
        faults
    }

    /// What a bank's cells may be by themselves.
    fn of_bank(&self, cells: &[usize]) -> Vec<Way> {
        self.ways(cells).into_iter().map(|faults| self.way(faults)).collect()
    }

    fn way(&self, faults: Vec<Fault>) -> Way {
        let reports = |fault: &Fault| fault.cells.iter().map(|&cell| self.places[cell].weight()).sum::<f64>();
        let (strays, faults): (Vec<Fault>, Vec<Fault>) =
            faults.into_iter().partition(|fault| fault.kind == Kind::Strays);
        Way {
            cells: faults.iter().chain(&strays).map(|fault| fault.cells.len()).sum(),
            cost: faults.iter().map(|fault| self.cost_of(fault)).sum(),
            reports: faults.iter().map(reports).sum(),
            known: faults.iter().map(|fault| xlnx(reports(fault))).sum(),
            strays: strays.into_iter().flat_map(|fault| fault.cells).collect(),
            faults,
        }
    }

    fn ways(&self, cells: &[usize]) -> Vec<Vec<Fault>> {
        let mut options = vec![self.apart(cells)];
        if cells.len() >= 2 {
            for is_row in [true, false] {
                let lines = self.lines(cells, is_row);
                for line in lines.iter().take(2) {
                    options.push(self.line_and_rest(cells, is_row, line));
                    // Its fullest row alone: what is near it may be there by chance.
                    if let Some(row) = self.fullest_row(line).filter(|row| is_row && row.len() < line.len()) {
                        options.push(self.line_and_rest(cells, true, &row));
                    }
                }
                // Two of them, each a fault of its own.
                if let [first, second, ..] = &lines[..] {
                    let both: BTreeSet<usize> = first.iter().chain(second).copied().collect();
                    let rest: Vec<usize> = cells.iter().copied().filter(|cell| !both.contains(cell)).collect();
                    let mut faults = self.apart(&rest);
                    faults.extend([first, second].map(|line| self.line_fault(is_row, line.clone())));
                    options.push(faults);
                }
            }
            // A row and a column that cross, each a fault of its own.
            if let (Some(row), Some(column)) = (self.lines(cells, true).first(), self.lines(cells, false).first()) {
                let column: Vec<usize> = column.iter().copied().filter(|cell| !row.contains(cell)).collect();
                if column.len() >= 2 {
                    let rest: Vec<usize> =
                        cells.iter().copied().filter(|cell| !row.contains(cell) && !column.contains(cell)).collect();
                    let mut faults = self.apart(&rest);
                    faults.push(self.line_fault(true, row.clone()));
                    faults.push(self.line_fault(false, column));
                    options.push(faults);
                }
            }
            options.push(vec![Fault { kind: Kind::Bank, cells: cells.to_vec() }]);
            // The bank, and what reports alone again and again.
            let busiest = cells.iter().copied().max_by_key(|&cell| self.places[cell].seen.reports);
            if let Some(busiest) = busiest.filter(|_| cells.len() >= 3) {
                let rest = cells.iter().copied().filter(|&cell| cell != busiest).collect();
                options.push(vec![
                    Fault { kind: Kind::Cell, cells: vec![busiest] },
                    Fault { kind: Kind::Bank, cells: rest },
                ]);
            }
        }
        options
    }

    /// Each cell for itself: a flip where it may be one, a fault otherwise.
    fn apart(&self, cells: &[usize]) -> Vec<Fault> {
        let (strays, own): (Vec<usize>, Vec<usize>) =
            cells.iter().partition(|&&cell| self.places[cell].may_be_a_flip());
        let mut faults: Vec<Fault> =
            own.into_iter().map(|cell| Fault { kind: Kind::Cell, cells: vec![cell] }).collect();
        if !strays.is_empty() {
            faults.push(Fault { kind: Kind::Strays, cells: strays });
        }
        faults
    }

    fn line_and_rest(&self, cells: &[usize], is_row: bool, line: &[usize]) -> Vec<Fault> {
        let rest: Vec<usize> = cells.iter().copied().filter(|cell| !line.contains(cell)).collect();
        let mut faults = self.apart(&rest);
        faults.push(self.line_fault(is_row, line.to_vec()));
        faults
    }

    /// The mode of all of these together: that of the largest. Two whole banks are several banks, whether one fault took them or two.
    fn mode_of(&self, faults: &[Fault]) -> FaultMode {
        let banks: BTreeSet<BankKey> = faults
            .iter()
            .filter(|fault| matches!(fault.kind, Kind::Bank | Kind::Banks))
            .flat_map(|fault| fault.cells.iter().map(|&cell| self.places[cell].bank))
            .collect();
        let ranks: BTreeSet<Option<u32>> = banks.iter().map(|bank| bank.rank).collect();
        let whole = match (ranks.len(), banks.len()) {
            (0 | 1, 0 | 1) => FaultMode::None,
            (1, some) if some as f64 <= self.banks_of_rank.exp() / 2.0 => FaultMode::Banks,
            _ => FaultMode::Rank,
        };
        faults.iter().map(|fault| fault.kind).max().map_or(FaultMode::None, Kind::mode).max(whole)
    }

    /// Cells of one row, of rows near each other, or of a column.
    fn line_fault(&self, is_row: bool, cells: Vec<usize>) -> Fault {
        let kind = match is_row {
            true if self.rows_of(&cells) > 1 => Kind::Rows,
            true => Kind::Row,
            false => Kind::Column,
        };
        Fault { kind, cells }
    }

    /// The cells of the row that has most of these, at least two.
    fn fullest_row(&self, cells: &[usize]) -> Option<Vec<usize>> {
        let mut by: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        cells.iter().for_each(|&cell| by.entry(self.places[cell].cell.0).or_default().push(cell));
        by.into_values().max_by_key(Vec::len).filter(|row| row.len() >= 2)
    }

    fn rows_of(&self, cells: &[usize]) -> usize {
        cells.iter().map(|&cell| self.places[cell].cell.0).collect::<BTreeSet<u32>>().len()
    }

    /// The fullest rows (with those that share a driver) or columns of two cells or more; each cell is in one.
    fn lines(&self, cells: &[usize], is_row: bool) -> Vec<Vec<usize>> {
        let of = |cell: usize| match is_row {
            true => self.places[cell].cell.0,
            false => self.places[cell].cell.1,
        };
        let mut by: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        cells.iter().for_each(|&cell| by.entry(of(cell)).or_default().push(cell));
        let mut all: Vec<(u32, Vec<usize>)> = by.into_iter().collect();
        all.sort_by_key(|(_, cells)| std::cmp::Reverse(cells.len()));
        let mut lines: Vec<(u32, Vec<usize>)> = Vec::new();
        for (index, cells) in all {
            match lines.iter_mut().find(|(first, _)| is_row && first.abs_diff(index) <= PAIR_ROWS) {
                Some((_, line)) => line.extend(cells),
                None => lines.push((index, cells)),
            }
        }
        lines.retain(|(_, cells)| cells.len() >= 2);
        lines.sort_by_key(|(_, cells)| std::cmp::Reverse(cells.len()));
        lines.truncate(3);
        lines.into_iter().map(|(_, cells)| cells).collect()
    }

    /// What it takes to tell the reports by these faults.
    fn cost(&self, faults: &[Fault]) -> f64 {
        let reports = |fault: &Fault| fault.cells.iter().map(|&cell| self.places[cell].weight()).sum::<f64>();
        let all: f64 = faults.iter().map(reports).sum();
        let which = xlnx(all) - faults.iter().map(|fault| xlnx(reports(fault))).sum::<f64>();
        let has_strays = faults.iter().any(|fault| fault.kind == Kind::Strays);
        let none = if has_strays { 0.0 } else { self.strays(0) };
        which + none + faults.iter().map(|fault| self.cost_of(fault)).sum::<f64>()
    }

    fn cost_of(&self, fault: &Fault) -> f64 {
        let count = fault.cells.len() as f64;
        let anywhere = self.ranks + self.banks_of_rank + self.rows + self.columns;
        let rate = RATES.iter().find(|(kind, _)| *kind == fault.kind).map_or(0.0, |(_, rate)| rate_cost(*rate));
        match fault.kind {
            Kind::Strays => self.strays_cost(&fault.cells),
            Kind::Cell => rate + anywhere,
            Kind::Row => {
                let place = self.ranks + self.banks_of_rank + self.rows;
                rate + place + count * self.columns + self.repeats(fault, &[1.0, 16.0, 256.0])
            }
            Kind::Rows => {
                let rows = self.rows_of(&fault.cells) as f64;
                let near = count * rows.ln() + (rows - 1.0) * f64::from(PAIR_ROWS).ln();
                let place = self.ranks + self.banks_of_rank + self.rows;
                // What fails in one of them often fails in the others.
                rate + place + near + self.columns_of(fault) + self.repeats(fault, &[1.0, 16.0, 256.0])
            }
            Kind::Column => {
                let place = self.ranks + self.banks_of_rank + self.columns;
                rate + place + count * self.rows + self.repeats(fault, &[2.0, 64.0, 4096.0])
            }
            Kind::Bank => {
                let of = |is_row: bool| {
                    let line = |&cell: &usize| if is_row { self.places[cell].cell.0 } else { self.places[cell].cell.1 };
                    fault.cells.iter().map(line).collect::<BTreeSet<u32>>().len()
                };
                if of(true) < 2 || of(false) < 2 {
                    return f64::INFINITY;
                }
                let place = self.ranks + self.banks_of_rank;
                rate + place + self.within(fault) + self.repeats(fault, &[8.0, 64.0, 4096.0])
            }
            Kind::Banks | Kind::Rank => {
                let banks: BTreeSet<BankKey> = fault.cells.iter().map(|&cell| self.places[cell].bank).collect();
                let ranks: BTreeSet<Option<u32>> = banks.iter().map(|bank| bank.rank).collect();
                if banks.len() < 2 {
                    return f64::INFINITY;
                }
                let of_rank = self.banks_of_rank.exp();
                let place = if fault.kind == Kind::Banks {
                    // A part of them, and which.
                    let some = banks.len() as f64;
                    if some > of_rank / 2.0 {
                        // Not a part any more; the more it has, the farther off.
                        return 1e6 * some;
                    }
                    self.ranks + (of_rank / 2.0).ln() + ln_choose(of_rank, some) + self.in_banks(fault, some)
                } else if ranks.len() > 1 {
                    self.in_banks(fault, (self.ranks + self.banks_of_rank).exp())
                } else {
                    self.ranks + self.in_banks(fault, of_rank)
                };
                rate + place + self.within(fault) + self.repeats(fault, &[64.0, 1024.0, 65536.0])
            }
        }
    }

    /// Rows and columns of a large fault: new ones, and such as came before.
    fn within(&self, fault: &Fault) -> f64 {
        // A bank that fails shows sixteen rows and eight columns at least.
        let rows = self.lines_of(fault, true, self.rows, &[16.0, 64.0, 1e6]);
        rows + self.columns_of(fault)
    }

    fn columns_of(&self, fault: &Fault) -> f64 {
        self.lines_of(fault, false, self.columns, &[8.0, 64.0, 1e6])
    }

    fn lines_of(&self, fault: &Fault, is_row: bool, each: f64, about: &[f64]) -> f64 {
        // A row is one of its bank, a column may be one of all banks.
        let mut counts: BTreeMap<(Option<BankKey>, u32), f64> = BTreeMap::new();
        for &cell in &fault.cells {
            let Place { bank, cell: (row, column), .. } = self.places[cell];
            *counts.entry(if is_row { (Some(bank), row) } else { (None, column) }).or_default() += 1.0;
        }
        counts.len() as f64 * each + again(counts.values().copied(), about)
    }

    /// Which of so many banks each row of a wide fault is in. Programs read some banks far more than others, so that one bank may have
    /// nearly all of it; the more even they are, the cheaper.
    fn in_banks(&self, fault: &Fault, banks: f64) -> f64 {
        let rows: BTreeSet<(BankKey, u32)> =
            fault.cells.iter().map(|&cell| (self.places[cell].bank, self.places[cell].cell.0)).collect();
        let mut by: BTreeMap<BankKey, f64> = BTreeMap::new();
        rows.iter().for_each(|(bank, _)| *by.entry(*bank).or_default() += 1.0);
        let all = rows.len() as f64;
        // A Dirichlet distribution of the banks' shares, with this many rows in each to begin with.
        let of = |(each, part): &(f64, f64)| {
            let known: f64 = by.values().map(|count| ln_gamma(count + each) - ln_gamma(*each)).sum();
            ln_gamma(all + banks * each) - ln_gamma(banks * each) - known - part.ln()
        };
        [(1e4, 0.5), (16.0, 0.5)].iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Reports of cells that came before, for a fault that has about so many.
    fn repeats(&self, fault: &Fault, about: &[f64]) -> f64 {
        again(fault.cells.iter().map(|&cell| self.places[cell].weight()), about)
    }

    /// These flips, and where they are. Cells of a row follow each other in the order of their columns.
    fn strays_cost(&self, cells: &[usize]) -> f64 {
        let anywhere = self.ranks + self.banks_of_rank + self.rows + self.columns;
        // Two at most: three in a row are no particle's.
        let (mut with, mut lead) = (0, None);
        for &cell in cells {
            if lead.is_some_and(|lead| self.is_flipped_with(cell, lead)) {
                (with, lead) = (with + 1, None);
            } else {
                lead = Some(cell);
            }
        }
        let count = cells.len() - with;
        self.strays(count) + self.crowded(cells) + count as f64 * anywhere + with as f64 * -(NEIGHBOUR_FLIPS / 2.0).ln()
    }

    /// What it takes that flips came in so few of the days: each comes for itself.
    fn crowded(&self, cells: &[usize]) -> f64 {
        let mut by: BTreeMap<u64, f64> = BTreeMap::new();
        let times = cells.iter().map(|&cell| self.places[cell].seen.first_ns).filter(|ns| *ns != 0);
        times.for_each(|ns| *by.entry(ns / DAY_NS).or_default() += 1.0);
        let (all, days) = (by.values().sum::<f64>(), self.days.max(1.0));
        let uneven: f64 = by.values().map(|count| count * (count * days / all).ln()).sum();
        // Two come on one day by chance as well.
        let by_chance = std::f64::consts::LN_2 * all * (all - 1.0) / days;
        (uneven - all * (days / all).max(1.0).ln() - 2.0 * by_chance).max(0.0)
    }

    /// Whether one particle may have flipped both: they are neighbours on a word line.
    fn is_flipped_with(&self, cell: usize, before: usize) -> bool {
        let (one, other) = (&self.places[cell], &self.places[before]);
        let burst = if self.in_bursts { 8 } else { 1 };
        one.bank == other.bank && one.cell.0 == other.cell.0 && other.cell.1.checked_add(burst) == Some(one.cell.1)
    }

    /// So many flips, wherever.
    fn strays(&self, count: usize) -> f64 {
        let (count, usual) = (count as f64, FLIPS * DEVICE_HOURS * 1e-9);
        let poisson = |mean: f64| count * mean.ln() - mean - ln_gamma(count + 1.0);
        let most = (FLIPS_PER_DAY * self.days).max(1.0);
        let beyond = if count > most { poisson(most) - poisson_mode(most) } else { 0.0 };
        let noisy = NOISY.ln() - ((count + 1.0) * (count + 2.0)).ln() + beyond;
        -ln_sum((1.0 - NOISY).ln() + poisson(usual), noisy)
    }
}

/// How rare a fault of this rate is.
fn rate_cost(rate: f64) -> f64 {
    -(rate * DEVICE_HOURS * 1e-9).ln()
}

/// The most probable number of a Poisson distribution.
fn poisson_mode(mean: f64) -> f64 {
    let count = mean.floor();
    count * mean.ln() - mean - ln_gamma(count + 1.0)
}

/// A sequence of things of which some came before: each new with a probability that falls with what is known, each known one as often as it
/// came. `about` are how many there may be, of which the best counts.
fn again(counts: impl Iterator<Item = f64> + Clone, about: &[f64]) -> f64 {
    let (all, kinds): (f64, f64) = counts.clone().fold((0.0, 0.0), |(all, kinds), count| (all + count, kinds + 1.0));
    let known: f64 = counts.map(ln_gamma).sum();
    let of = |about: &f64| ln_gamma(all + about) - ln_gamma(*about) - kinds * about.ln() - known;
    (about.len() as f64).ln() + about.iter().map(of).fold(f64::INFINITY, f64::min)
}

fn xlnx(x: f64) -> f64 {
    if x > 0.0 { x * x.ln() } else { 0.0 }
}

fn ln_sum(one: f64, two: f64) -> f64 {
    let most = one.max(two);
    most + ((one - most).exp() + (two - most).exp()).ln()
}

fn ln_choose(of: f64, some: f64) -> f64 {
    ln_gamma(of + 1.0) - ln_gamma(some + 1.0) - ln_gamma(of - some + 1.0)
}

/// The logarithm of the gamma function, by Stirling's series from 8 on.
fn ln_gamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 8.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let series = inverse / 12.0 - inverse.powi(3) / 360.0 + inverse.powi(5) / 1260.0;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::reports::{McEvent, mc_event};

    #[test]
    fn the_gamma_function_is_that_of_factorials() {
        let mut factorial = 0.0f64;
        for n in 1..200u32 {
            assert!((ln_gamma(f64::from(n)) - factorial).abs() < 1e-9 * factorial.max(1.0), "{n}");
            factorial += f64::from(n).ln();
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-8);
    }

    #[test]
    fn numbers_of_flips_have_probabilities_that_add_up() {
        let place = Place { bank: BankKey { rank: Some(0), bank: 0 }, cell: (0, 0), seen: Seen::default() };
        let world = World::of(vec![place]);
        let all: f64 = (0..10_000).map(|count| (-world.strays(count)).exp()).sum();
        assert!(all > 0.9 && all < 1.001, "{all}");
    }

    #[test]
    fn however_many_cells_there_are_the_odds_are_numbers() {
        let mut evidence = Evidence::default();
        for number in 0..4_000u32 {
            let (rank, bank, row, column) =
                (number % 4, number / 4 % 64, number.wrapping_mul(2_654_435_761) >> 8, number * 7 % 1024);
            let driver_detail =
                format!("APEI location: rank:{rank} bank:{bank} row:{row} col:{}", column ^ (row & 0x3ff));
            evidence.add(&mc_event(&McEvent { driver_detail, ..McEvent::default() }));
        }
        let explained = best(&evidence).unwrap();
        assert!(explained.probability.is_finite() && explained.probability <= 1.0, "{explained:?}");
        assert_eq!(explained.mode, FaultMode::Rank);
    }
}
