//! Which module is which: from EDAC's places and firmware's tables to modules with a name that stays.
//!
//! A module is known by its serial number where the host tells it for certain, otherwise by its place. Counts are kept by that name
//! ([`crate::counts`]), so that they move with the module.

pub mod firmware;
mod join;
mod module;

pub(crate) use module::ALL;
pub use module::{Counted, Module, modules, refresh};
pub(crate) use module::{is_default_label, number_of};
