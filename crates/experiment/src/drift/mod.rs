//! The wall clock beside a reference that stalls do not touch.

pub mod lines;
pub mod measuring;
pub mod reference;
pub mod text;
