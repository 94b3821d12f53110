//! The length of stalls, by counting them.

pub mod lines;
pub mod text;
