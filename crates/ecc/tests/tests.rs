//! The codes and kernels through their public interface: proofs by exhaustion, oracles, hostile input.

#![allow(clippy::unwrap_used)]

mod suite;
