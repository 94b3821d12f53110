//! Which cells the table has, and what a cell says.

use super::options::CoverageOptions;
use serde::Serialize;
use surefoot_ecc::coverage::{Convention, Fault, Interval, Method, Scheme};

/// Trials of a memory cell for each trial of a stripe of shards, which is 4,096 codewords.
const TRIALS_PER_STRIPE: u64 = 1000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub schemes: Vec<Scheme>,
    pub faults: Vec<Fault>,
    pub conventions: Vec<Convention>,
    pub methods: Vec<Method>,
    pub trials: u64,
    pub seed: u64,
}

/// What a cell is about, but for the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub scheme: Scheme,
    pub fault: Fault,
    pub convention: Convention,
}

/// A cell of the table.
#[derive(Debug, Clone)]
pub struct Cell {
    pub key: Key,
    pub method: Method,
    /// Corrected, detected, silent.
    pub shares: [f64; 3],
    /// The intervals of those, for Monte Carlo.
    pub ci95: Option<[Interval; 3]>,
    /// Why the paper's convention gives something else than the physical one; empty where both agree, and on the
    /// physical side.
    pub why: String,
}

/// A line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "cell")]
pub struct Line<'a> {
    code: &'static str,
    fault: String,
    convention: &'static str,
    method: &'static str,
    corrected: f64,
    detected: f64,
    silent: f64,
    ci95: Option<Intervals>,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Intervals {
    corrected: [f64; 2],
    detected: [f64; 2],
    silent: [f64; 2],
}

impl Selection {
    /// What the options select.
    ///
    /// # Errors
    /// They select nothing.
    pub fn of(options: &CoverageOptions) -> anyhow::Result<Selection> {
        let or_all =
            |list: &[Scheme]| if list.is_empty() { Scheme::ALL.to_vec() } else { in_order(&Scheme::ALL, list) };
        let schemes = or_all(&options.code);
        let mut faults: Vec<Fault> = Vec::new();
        for fault in schemes.iter().flat_map(|scheme| scheme.faults()) {
            let is_wanted = options.fault.is_empty() || options.fault.contains(&fault);
            if is_wanted && !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let conventions = match options.convention.as_slice() {
            [] => Convention::ALL.to_vec(),
            list => in_order(&Convention::ALL, list),
        };
        let methods = match options.method.as_slice() {
            [] => Method::ALL.to_vec(),
            list => in_order(&Method::ALL, list),
        };
        let (trials, seed) = (options.trials, options.seed);
        let selection = Selection { schemes, faults, conventions, methods, trials, seed };
        if let Some(fault) = options.fault.iter().find(|fault| !selection.faults.contains(fault)) {
            anyhow::bail!(
                "--fault {fault}: none of the chosen codes has this fault; memory codes have bit, column, word, pin, chip, \
                 shards have bit, line, row, page"
            );
        }
        anyhow::ensure!(
            !selection.keys().is_empty(),
            "--convention: none of the chosen codes has it; memory codes have paper and physical, shards contiguous and \
             spread"
        );
        Ok(selection)
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

    /// The trials of a cell.
    pub fn trials_of(&self, key: &Key) -> u64 {
        if key.scheme.is_software() { (self.trials / TRIALS_PER_STRIPE).max(1) } else { self.trials }
    }

    /// The cells that get trials.
    pub fn trial_keys(&self) -> Vec<Key> {
        if self.methods.contains(&Method::MonteCarlo) { self.keys() } else { Vec::new() }
    }
}

/// The members of the list, each once, in the order of the table.
fn in_order<T: Copy + PartialEq>(all: &[T], list: &[T]) -> Vec<T> {
    all.iter().copied().filter(|one| list.contains(one)).collect()
}

impl Key {
    /// The name of the cell's random numbers: other cells, other numbers, whatever else is selected.
    pub fn stream_name(&self) -> String {
        format!("{}/{}/{}", self.scheme.name(), self.fault, self.convention.name())
    }
}

impl Cell {
    /// As a line of `--json`.
    pub fn line(&self) -> Line<'_> {
        let [corrected, detected, silent] = self.shares;
        let both = |interval: Interval| [interval.low, interval.high];
        Line {
            code: self.key.scheme.name(),
            fault: self.key.fault.to_string(),
            convention: self.key.convention.name(),
            method: self.method.name(),
            corrected,
            detected,
            silent,
            ci95: self.ci95.map(|[corrected, detected, silent]| Intervals {
                corrected: both(corrected),
                detected: both(detected),
                silent: both(silent),
            }),
            why: &self.why,
        }
    }
}
