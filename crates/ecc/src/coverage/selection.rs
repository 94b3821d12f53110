//! The cells of a coverage table: which ones there are, and the result of one.

use super::explain::Step;
use super::{Convention, Fault, Interval, Method, Scheme};

/// Trials of a memory cell for each trial of a stripe of shards, which is 4,096 codewords.
const TRIALS_PER_STRIPE: u64 = 1000;

/// The cells of a table. Tables of the same selection are the same, on any number of cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The codes.
    pub schemes: Vec<Scheme>,
    /// The faults; each code has those of them that it knows.
    pub faults: Vec<Fault>,
    /// The conventions; each code has those of them that it knows.
    pub conventions: Vec<Convention>,
    /// The methods; each computes the cells that it can.
    pub methods: Vec<Method>,
    /// Monte Carlo trials of a cell of a memory code; stripes of shards get a thousandth, see [`Selection::trials_of`].
    pub trials: u64,
    /// The seed of the trials.
    pub seed: u64,
}

/// A selection without a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectsNothing {
    /// None of the codes has this fault.
    #[error(
        "{0}: none of the chosen codes has this fault; memory codes have bit, column, word, pin, chip, shards have bit, line, row, page"
    )]
    Fault(Fault),
    /// None of the codes has one of the conventions.
    #[error("none of the chosen codes has it; memory codes have paper and physical, shards contiguous and spread")]
    Convention,
}

/// The code, fault and convention of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The code.
    pub scheme: Scheme,
    /// The fault.
    pub fault: Fault,
    /// The convention.
    pub convention: Convention,
}

/// A cell of the table.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What it is of.
    pub key: Key,
    /// How it was computed.
    pub method: Method,
    /// The shares of faults that are corrected, detected and silent, from 0 to 1; their sum is 1.
    pub shares: [f64; 3],
    /// The 95 % intervals of the shares, for Monte Carlo.
    pub ci95: Option<[Interval; 3]>,
    /// How the paper's convention differs from the physical one, step by step, on the paper's side; empty where both agree.
    pub differs: Vec<Difference>,
}

/// What one step from the physical convention to the paper's changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The step.
    pub step: Step,
    /// The shares before it.
    pub before: [f64; 3],
    /// The shares after it.
    pub after: [f64; 3],
}

impl Selection {
    /// The cells of a table: those of the lists, in the order of the table. An empty list selects all.
    ///
    /// # Errors
    /// A fault that none of the codes has, or conventions that none of them has.
    pub fn of(wanted: &Selection) -> Result<Selection, SelectsNothing> {
        let schemes = in_order(&Scheme::ALL, &wanted.schemes);
        let mut faults: Vec<Fault> = Vec::new();
        for fault in schemes.iter().flat_map(|scheme| scheme.faults()) {
            let is_wanted = wanted.faults.is_empty() || wanted.faults.contains(&fault);
            if is_wanted && !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        if let Some(fault) = wanted.faults.iter().find(|fault| !faults.contains(fault)) {
            return Err(SelectsNothing::Fault(*fault));
        }
        let conventions = in_order(&Convention::ALL, &wanted.conventions);
        let methods = in_order(&Method::ALL, &wanted.methods);
        let selection = Selection { schemes, faults, conventions, methods, ..*wanted };
        if selection.keys().is_empty() { Err(SelectsNothing::Convention) } else { Ok(selection) }
    }

    /// The cells, in the order of the table, but for the method.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for &scheme in &self.schemes {
            for fault in scheme.faults().into_iter().filter(|fault| self.faults.contains(fault)) {
                let conventions = scheme.conventions().iter().filter(|one| self.conventions.contains(one));
                keys.extend(conventions.map(|&convention| Key { scheme, fault, convention }));
            }
        }
        keys
    }

    /// The number of trials of a cell: a trial of a stripe of shards is 4,096 codewords.
    pub fn trials_of(&self, key: &Key) -> u64 {
        if key.scheme.is_software() { (self.trials / TRIALS_PER_STRIPE).max(1) } else { self.trials }
    }

    /// The cells that get trials, in the order of the table.
    pub fn trial_keys(&self) -> Vec<Key> {
        if self.methods.contains(&Method::MonteCarlo) { self.keys() } else { Vec::new() }
    }
}

/// The members of the list, each once, in the order of the table; of an empty list all.
fn in_order<T: Copy + PartialEq>(all: &[T], list: &[T]) -> Vec<T> {
    all.iter().copied().filter(|one| list.is_empty() || list.contains(one)).collect()
}

impl Key {
    /// The name of the cell's random numbers, so that they do not depend on the rest of the selection.
    pub(super) fn stream_name(&self) -> String {
        format!("{}/{}/{}", self.scheme.name(), self.fault, self.convention.name())
    }
}
