//! Being built.
pub mod not_run;
