//! The benchmarks with options of their own, as a program: whole outputs, exit codes, and what is refused.
#![allow(clippy::unwrap_used)]

mod suite {
    mod nic;
}
