//! Lost time: how much each core lost, and to what.

pub mod findings;
mod marks;
mod phrase;
pub mod public;
pub(crate) mod rules;
pub mod state;
pub mod totals;

pub use phrase::length;
pub use state::{Kept, State};
