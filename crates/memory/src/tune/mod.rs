//! The polling interval: the one that loses nothing and stalls least, what it is on this host, and how it is set.
//!
//! The stall per day falls with the interval, and so does nothing else: a longer one lets counters run full, makes a poll
//! longer, and tells of a bad module later. The best interval is therefore the longest that all bounds allow, up to how
//! errors happen to fall into the windows, and that is looked at exactly: errors are put into bins of a second once,
//! and each interval sums bins.
//!
//! ```
//! use surefoot_memory::simulate::{Arrivals, Path, Pattern};
//! use surefoot_memory::tune::{Bins, curve};
//! let path = Path { counter_bits: 8, ..Path::example() };
//! let steady = Pattern::Steady { per_s: 10.0 };
//! let bins = Bins::new(1_000_000_000, Arrivals::new(&steady, &path, 1, 0))?;
//! let points = curve(&path, &bins, &[10_000_000_000, 60_000_000_000]);
//! assert!(points[0].missed_count == 0 && points[1].missed_count > 0);
//! assert!(points[0].stall_ns_per_day > points[1].stall_ns_per_day);
//! # Ok::<(), surefoot_memory::Error>(())
//! ```

pub mod act;
mod bins;
mod choose;
pub mod deeds;
mod host;
mod platform;
mod unfinished;

pub use crate::doctor::Mode;
pub use bins::{BINS_MAX, Bins};
pub use choose::{Choice, Constraint, Point, Wish, choose, curve, intervals_shown};
pub use host::{CORES_ASSUMED, Cores, RATE_PER_S_MAX, RATE_PER_S_MIN, errors_to_count, rate_to_count, worst_per_s};
pub use platform::{Counters, Knob, KnobKind, Lever, Platform, log_lever};
pub use unfinished::{Unfinished, unfinished};
