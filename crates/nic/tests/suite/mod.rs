//! One module per topic, and what they share.

pub mod host;
pub mod program;

mod core;
mod corners;
mod engines;
mod official;
mod qemu;
pub mod random_program;
mod state;
mod versions;
