//! Lost time: how much each core lost, and to what.

pub mod filter;
pub mod findings;
mod marks;
mod phrase;
pub mod public;
pub(crate) mod rules;
pub mod state;
pub mod totals;
pub mod view;
pub mod who;

pub use phrase::length;
pub use state::{Kept, State};
