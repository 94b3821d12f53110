//! Computes a table in pieces. The result does not depend on how many threads run them.

use super::explain::{Explained, Step, explain};
use super::monte_carlo::{Outcomes, Trials};
use super::selection::{Cell, Difference, Key, Selection};
use super::shards::{with_checksums, without_checksums};
use super::stripe_trials::StripeTrials;
use super::{Convention, Counts, Fault, Layout, Method, Rules, Scheme, closed_form, interval95};
use crate::LocationCheck;
use std::ops::Range;
use surefoot_random::Stream;

/// Trials in one piece of work: some ten milliseconds of a core.
const BLOCKS_PER_PIECE: u64 = 1 << 18;
const STRIPES_PER_PIECE: u64 = 64;

/// The layouts of the chosen codes: with location check, without.
#[derive(Debug)]
struct Layouts(Vec<(Scheme, Layout, Layout)>);

impl Layouts {
    fn of(schemes: &[Scheme]) -> Layouts {
        let both = |&scheme| (scheme, Layout::new(scheme, LocationCheck::On), Layout::new(scheme, LocationCheck::Off));
        Layouts(schemes.iter().map(both).collect())
    }

    fn both(&self, scheme: Scheme) -> (&Layout, &Layout) {
        let found = self.0.iter().find(|known| known.0 == scheme);
        let (_, checked, unchecked) = found.expect("the layouts were made for the same selection");
        (checked, unchecked)
    }

    fn of_key(&self, key: &Key) -> (&Layout, Rules) {
        let (checked, unchecked) = self.both(key.scheme);
        if key.convention == Convention::Paper { (unchecked, Rules::PAPER) } else { (checked, Rules::PHYSICAL) }
    }
}

/// A piece of work.
#[derive(Debug)]
enum Piece {
    /// Both conventions of a memory code at once.
    Explain(Scheme, Fault),
    /// A software cell by its formula.
    Stripe(Key),
    /// Some trials of the cell with this number in [`Selection::trial_keys`].
    Trials(usize, Key, Range<u64>),
}

/// The result of a piece.
#[derive(Debug)]
pub struct Found(Kind);

#[derive(Debug)]
enum Kind {
    Explained(Scheme, Fault, Box<Explained>),
    Stripe(Key, [f64; 3]),
    Trials(usize, Outcomes),
}

/// A table that is being computed, cut into pieces that may run on any thread in any order.
///
/// ```
/// use surefoot_ecc::coverage::{Convention, Method, Scheme, Selection, Sweep};
/// let wanted = Selection {
///     schemes: vec![Scheme::Secded],
///     faults: Vec::new(),
///     conventions: vec![Convention::Physical],
///     methods: vec![Method::Exact],
///     trials: 1000,
///     seed: 1,
/// };
/// let selection = Selection::of(&wanted)?;
/// let sweep = Sweep::new(&selection);
/// let found: Vec<_> = (0..sweep.piece_count()).map(|piece| sweep.run(piece)).collect();
/// assert_eq!(sweep.cells(&found, &sweep.counts(&found)).len(), selection.keys().len());
/// # Ok::<(), surefoot_ecc::coverage::SelectsNothing>(())
/// ```
#[derive(Debug)]
pub struct Sweep {
    selection: Selection,
    layouts: Layouts,
    pieces: Vec<Piece>,
}

impl Sweep {
    /// The whole table.
    pub fn new(selection: &Selection) -> Sweep {
        let mut sweep = Sweep::without_trials(selection);
        sweep.pieces.extend(trial_pieces(selection, |trials| 0..trials));
        sweep
    }

    /// The table but for its trials, whose counts are known.
    pub fn without_trials(selection: &Selection) -> Sweep {
        Sweep {
            layouts: Layouts::of(&selection.schemes),
            pieces: exact_pieces(selection),
            selection: selection.clone(),
        }
    }

    /// A part of the trials alone: `part` gives the range of trials of a cell that has so many.
    pub fn of_trials(selection: &Selection, part: impl Fn(u64) -> Range<u64>) -> Sweep {
        Sweep {
            layouts: Layouts::of(&selection.schemes),
            pieces: trial_pieces(selection, part),
            selection: selection.clone(),
        }
    }

    /// The number of pieces. Each takes some ten milliseconds of a core, or more.
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// Runs the piece of this number, from 0.
    ///
    /// # Panics
    /// When there is no such piece.
    pub fn run(&self, piece: usize) -> Found {
        Found(self.pieces[piece].run(&self.layouts, self.selection.seed))
    }

    /// The counts of the trials, of each cell of [`Selection::trial_keys`].
    pub fn counts(&self, found: &[Found]) -> Vec<Outcomes> {
        let mut sums = vec![Outcomes::default(); self.selection.trial_keys().len()];
        for found in found {
            if let Kind::Trials(number, part) = &found.0 {
                sums[*number].add(*part);
            }
        }
        sums
    }

    /// The table, of the results of all pieces in any order and the counts of all trials. A method has the cells that it can
    /// compute.
    pub fn cells(&self, found: &[Found], counts: &[Outcomes]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (number, key) in self.selection.keys().into_iter().enumerate() {
            for &method in &self.selection.methods {
                match method {
                    Method::Exact => cells.extend(exact_cell(key, found)),
                    Method::ClosedForm => cells.extend(closed_cell(key, &self.layouts, found)),
                    Method::MonteCarlo => cells.extend(counts.get(number).map(|counts| trial_cell(key, *counts))),
                }
            }
        }
        cells
    }
}

fn exact_pieces(selection: &Selection) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let is_wanted = |method| selection.methods.contains(&method);
    for key in selection.keys() {
        match key.scheme {
            // The formulas of the layouts with checksums are approximate where two coincidences meet.
            Scheme::Shards if is_wanted(Method::Exact) => pieces.push(Piece::Stripe(key)),
            Scheme::ShardsCrc if is_wanted(Method::ClosedForm) => pieces.push(Piece::Stripe(key)),
            Scheme::Shards | Scheme::ShardsCrc => {}
            _ if is_wanted(Method::Exact) => {
                let is_known = |piece: &Piece| matches!(piece, Piece::Explain(scheme, fault) if (*scheme, *fault) == (key.scheme, key.fault));
                if !pieces.iter().any(is_known) {
                    pieces.push(Piece::Explain(key.scheme, key.fault));
                }
            }
            _ => {}
        }
    }
    // The faults that reach far take longest: they come first, so that no core ends up alone with one.
    pieces.reverse();
    pieces
}

fn trial_pieces(selection: &Selection, part: impl Fn(u64) -> Range<u64>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, key) in selection.trial_keys().iter().enumerate() {
        let range = part(selection.trials_of(key));
        let step = if key.scheme.is_software() { STRIPES_PER_PIECE } else { BLOCKS_PER_PIECE };
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + step);
            pieces.push(Piece::Trials(number, *key, start..end));
            start = end;
        }
    }
    pieces
}

impl Piece {
    fn run(&self, layouts: &Layouts, seed: u64) -> Kind {
        match self {
            Piece::Explain(scheme, fault) => {
                let (checked, unchecked) = layouts.both(*scheme);
                Kind::Explained(*scheme, *fault, Box::new(explain(*scheme, checked, unchecked, *fault)))
            }
            Piece::Stripe(key) => {
                let layout = layouts.both(key.scheme).0;
                let shares = match key.scheme {
                    Scheme::ShardsCrc => with_checksums(key.fault, key.convention),
                    _ => without_checksums(layout, key.fault, key.convention),
                };
                Kind::Stripe(*key, shares)
            }
            Piece::Trials(number, key, range) => {
                let stream = Stream::new(seed, &key.stream_name());
                let (layout, rules) = layouts.of_key(key);
                let outcomes = if key.scheme.is_software() {
                    let has_checksums = key.scheme == Scheme::ShardsCrc;
                    StripeTrials::new(layout, has_checksums, key.fault, key.convention, stream).run(range.clone())
                } else {
                    Trials::new(layout, key.fault, rules, stream).run(range.clone())
                };
                Kind::Trials(*number, outcomes)
            }
        }
    }
}

fn explained<'a>(key: &Key, results: &'a [Found]) -> Option<&'a Explained> {
    results.iter().find_map(|result| match &result.0 {
        Kind::Explained(scheme, fault, explained) if (*scheme, *fault) == (key.scheme, key.fault) => Some(&**explained),
        _ => None,
    })
}

fn stripe_shares(key: &Key, results: &[Found]) -> Option<[f64; 3]> {
    results.iter().find_map(|result| match &result.0 {
        Kind::Stripe(other, shares) if other == key => Some(*shares),
        _ => None,
    })
}

fn exact_cell(key: Key, results: &[Found]) -> Option<Cell> {
    if key.scheme == Scheme::Shards {
        let shares = stripe_shares(&key, results)?;
        return Some(Cell { key, method: Method::Exact, shares, ci95: None, differs: Vec::new() });
    }
    let explained = explained(&key, results)?;
    let (counts, differs) = match key.convention {
        Convention::Paper => (explained.paper, differences(explained)),
        _ => (explained.physical, Vec::new()),
    };
    Some(Cell { key, method: Method::Exact, shares: counts.shares(), ci95: None, differs })
}

fn closed_cell(key: Key, layouts: &Layouts, results: &[Found]) -> Option<Cell> {
    let shares = if key.scheme.is_software() {
        (key.scheme == Scheme::ShardsCrc).then(|| stripe_shares(&key, results)).flatten()?
    } else {
        let (layout, rules) = layouts.of_key(&key);
        closed_form::counts(layout, key.fault, rules)?.shares()
    };
    Some(Cell { key, method: Method::ClosedForm, shares, ci95: None, differs: Vec::new() })
}

fn trial_cell(key: Key, counts: Outcomes) -> Cell {
    let total = counts.total();
    let each = [counts.corrected, counts.detected, counts.silent];
    Cell {
        key,
        method: Method::MonteCarlo,
        shares: each.map(|count| count as f64 / total.max(1) as f64),
        ci95: Some(each.map(|count| interval95(count, total))),
        differs: Vec::new(),
    }
}

fn differences(explained: &Explained) -> Vec<Difference> {
    let mut before = explained.physical.shares();
    let difference = |&(step, counts): &(Step, Counts)| {
        let after = counts.shares();
        Difference { step, before: std::mem::replace(&mut before, after), after }
    };
    explained.steps.iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn selection(methods: &[Method]) -> Selection {
        let wanted = Selection {
            schemes: vec![Scheme::Shards, Scheme::Secded],
            faults: Vec::new(),
            conventions: Vec::new(),
            methods: methods.to_vec(),
            trials: 3_000,
            seed: 7,
        };
        Selection::of(&wanted).unwrap()
    }

    /// Every division of the trials, in any order, has the sums of the whole.
    #[test]
    fn parts_of_the_trials_add_up_to_the_whole() {
        let selection = selection(&[Method::MonteCarlo]);
        let counts = |sweep: &Sweep| {
            let found: Vec<Found> = (0..sweep.piece_count()).rev().map(|piece| sweep.run(piece)).collect();
            sweep.counts(&found)
        };
        let whole = counts(&Sweep::new(&selection));
        let mut sums = vec![Outcomes::default(); whole.len()];
        for part in 0..3 {
            let sweep = Sweep::of_trials(&selection, |trials| trials * part / 3..trials * (part + 1) / 3);
            sums.iter_mut().zip(counts(&sweep)).for_each(|(sum, part)| sum.add(part));
        }
        assert_eq!(sums, whole);
        for (key, counts) in selection.trial_keys().iter().zip(&whole) {
            assert_eq!(counts.total(), selection.trials_of(key), "{key:?}");
        }
        let cells = Sweep::without_trials(&selection).cells(&[], &whole);
        assert_eq!(cells.len(), selection.keys().len(), "counts of others make the same table");
        assert!(cells.iter().all(|cell| cell.ci95.is_some() && (cell.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9));
    }

    /// The steps lead from the physical shares of a cell to those of the paper.
    #[test]
    fn differences_lead_from_one_convention_to_the_other() {
        let selection = selection(&[Method::Exact, Method::ClosedForm]);
        let sweep = Sweep::new(&selection);
        let found: Vec<Found> = (0..sweep.piece_count()).map(|piece| sweep.run(piece)).collect();
        let cells = sweep.cells(&found, &[]);
        let mut seen = 0;
        for cell in cells.iter().filter(|cell| !cell.differs.is_empty()) {
            assert_eq!(cell.key.convention, Convention::Paper);
            let physical = Key { convention: Convention::Physical, ..cell.key };
            let of =
                |key| cells.iter().find(|cell| cell.key == key && cell.method == Method::Exact).map(|cell| cell.shares);
            assert_eq!(cell.differs.first().map(|one| one.before), of(physical));
            assert_eq!(cell.differs.last().map(|one| one.after), Some(cell.shares));
            assert!(cell.differs.windows(2).all(|pair| pair[0].after == pair[1].before));
            seen += 1;
        }
        assert!(seen > 0);
    }
}
