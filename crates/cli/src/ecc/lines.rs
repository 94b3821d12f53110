//! The JSON lines of `ecc coverage`.

use super::text;
use serde::Serialize;
use surefoot_ecc::coverage::{Cell, Interval};

/// A line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "cell")]
pub struct Line {
    code: &'static str,
    fault: String,
    convention: &'static str,
    method: &'static str,
    corrected: f64,
    detected: f64,
    silent: f64,
    ci95: Option<Intervals>,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Intervals {
    corrected: [f64; 2],
    detected: [f64; 2],
    silent: [f64; 2],
}

impl Line {
    /// The line of a cell.
    pub fn of(cell: &Cell) -> Line {
        let [corrected, detected, silent] = cell.shares;
        let both = |interval: Interval| [interval.low, interval.high];
        Line {
            code: cell.key.scheme.name(),
            fault: cell.key.fault.to_string(),
            convention: cell.key.convention.name(),
            method: cell.method.name(),
            corrected,
            detected,
            silent,
            ci95: cell.ci95.map(|[corrected, detected, silent]| Intervals {
                corrected: both(corrected),
                detected: both(detected),
                silent: both(silent),
            }),
            why: text::why(cell),
        }
    }
}
