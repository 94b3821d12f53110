//! The hybrid debug mode (ICPE'20, section 5.6): in production, corrected errors are told by interrupts to the kernel, which is cheap and
//! does not say where; for a repair the firmware tells of each one, which stops all cores and says the row.
//!
//! A policy spells the whole of it as steps, so that each has its line in the case and its approval:
//!
//! | step | what it does |
//! |---|---|
//! | `debug:ADAPTER` | remembers the firmware's settings, switches them to the adapter's, restarts the host and looks that they hold |
//! | `stress:TIME` | makes the weak cells show |
//! | `collect:ADAPTER` | gathers the rows of the errors that were told since |
//! | `soft-repair:ADAPTER` | looks at the budget of spare rows, and repairs until the next loss of power (soft post-package repair) |
//! | `hard-repair:ADAPTER` | the same for good (hard post-package repair); always behind an approval |
//! | `restore:debug:ADAPTER` | puts the settings back, restarts the host, and looks that they hold; also when the case ends early |
//!
//! What a vendor calls its settings is data: an adapter's file, see [`Adapter`].

mod adapter;
mod collect;
mod repair;
mod switch;

pub use adapter::{Adapter, Spares};
pub use collect::{Reported, Row};
pub use repair::{Repair, RepairKind, repairs_of};

pub(super) use collect::run as collect;
pub(super) use repair::{find as find_repair, run as repair};
pub(super) use switch::{debug, find, restore};
