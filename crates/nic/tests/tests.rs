//! The interface through its public interface.

#![allow(clippy::unwrap_used)]

mod suite;
