//! Coverage of DRAM faults: how likely is an error corrected, detected, or silent?
//!
//! [`Scheme`] names the codes and layouts, [`Fault`] the faults, [`Convention`] the assumptions, [`Method`] how a cell was
//! computed. [`Selection`] names the cells of a table. The layouts of the bits are described in [`layout`], the faults' bits in [`extent`].
//!
//! # Invariants
//! - No I/O, no clock, no thread. [`Sweep`] cuts a table into pieces; the caller spreads them over cores.
//! - Exact counts are integers; a formula never sees the matrix, and the enumeration never sees a formula.
//! - A Monte Carlo trial depends on the seed, the cell and its number only, so that any division of the work gives the
//!   same sums.
//!
//! ```
//! use surefoot_ecc::LocationCheck;
//! use surefoot_ecc::coverage::{Fault, Kind, Layout, Rules, Scheme, exact};
//! let layout = Layout::new(Scheme::Rs36_32, LocationCheck::On);
//! let counts = exact::counts(&layout, Fault::Single(Kind::Pin), Rules::PHYSICAL);
//! assert_eq!(counts.corrected * 255, counts.total() * 48);
//! ```

pub mod chipkill;
pub mod closed_form;
pub mod exact;
pub mod explain;
pub mod extent;
mod interval;
pub mod layout;
pub mod monte_carlo;
pub mod printed;
mod scheme;
pub mod secded;
mod selection;
pub mod shards;
pub mod stripe_trials;
mod sweep;

pub use exact::Counts;
pub use extent::Rules;
pub use interval::{Interval, interval95};
pub use layout::{Layout, Verdict};
pub use scheme::{Convention, Fault, Kind, Method, Scheme, UnknownName};
pub use selection::{Cell, Difference, Key, Selection, SelectsNothing};
pub use sweep::{Found, Sweep};

#[cfg(test)]
mod known;
