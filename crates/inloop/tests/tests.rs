//! The library through its public interface: the loop, the reader, and the C header beside both.

#![allow(clippy::unwrap_used)]

mod suite;
