//! The fault behind the errors of a module: which part fails, whether it stays, and what to do.
//!
//! Faults are counted, not errors: one stuck cell can report a billion times (Sridharan et al., ASPLOS 2015).
//! [`Evidence`] takes reports one by one and holds a bounded part of them; [`Evidence::judge`] says what they come to.
//!
//! # How a mode is found
//!
//! 1. Explanations of the cells that were seen are tried: each bank by itself (cells, a row, a column, two of them, the whole bank), several
//!    banks or ranks together, and stray flips beside any of these. Each has a cost, from the rates of such faults in the field, from where
//!    the cells lie and, damped, from how often each reported (`explain.rs`): programs read a few pages most of the time. The cheapest of each
//!    mode are held against each other.
//! 2. A mode that is not at least nine times as probable as all others together is not named: *undetermined*, with the two best
//!    (`mode.rs`). It is *certain* only with a margin of a hundred to one and enough cells or reports. Two faults of a module are two, and the
//!    larger one is its mode.
//! 3. It stays where it was seen again after a scrub would have removed it (`persistence.rs`).
//! 4. The advice is a table of mode, persistence and lost bits (`advice.rs`).
//!
//! ```
//! use surefoot_memory::fault;
//! use surefoot_memory::reports::{McEvent, mc_event};
//! use surefoot_model::FaultMode;
//! // Seven columns of row 100 of one bank.
//! let reports: Vec<_> = (0..7)
//!     .map(|column| {
//!         let driver_detail = format!("APEI location: rank:0 bank:2 row:100 col:{}", column * 8);
//!         mc_event(&McEvent { driver_detail, ..McEvent::default() })
//!     })
//!     .collect();
//! let (spread, fault) = fault::judge(&reports);
//! assert_eq!((fault.mode, spread.rows, spread.columns), (FaultMode::Row, 1, 7));
//! ```

mod advice;

mod evidence;
mod explain;
mod mode;
mod persistence;

pub(crate) use explain::PAIR_ROWS as NEAR_ROWS;

pub use advice::FIND_MODULE;
pub(crate) use advice::at_place;
pub use evidence::{BANKS_MAX, CELLS_MAX, CELLS_PER_BANK_MAX, CELLS_SHOWN_MAX, Evidence};

use surefoot_model::{DimmFault, ErrorReport, Spread};

/// What the reports of one module come to, all at once; see [`Evidence`].
pub fn judge(reports: &[ErrorReport]) -> (Spread, DimmFault) {
    let mut evidence = Evidence::default();
    for report in reports {
        evidence.add(report);
    }
    evidence.judge()
}
