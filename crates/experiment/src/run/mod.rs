//! One workload under one disturbance.

pub mod lines;
pub mod spec;
pub mod text;
pub mod warnings;
