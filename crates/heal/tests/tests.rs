//! Images and sidecars through the public interface, on real and made-up disks.

#![allow(clippy::unwrap_used)]

mod suite;
