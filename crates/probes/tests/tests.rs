//! The programs on the running kernel, through the crate's public API.
#![allow(clippy::unwrap_used)]

mod suite {
    mod attach;
    mod freeze;
    mod ledger;
    mod names;
    mod older_kernel;
    mod raisers;
    mod waits;
}
