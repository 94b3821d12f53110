//! The programs on the running kernel, through the crate's public API.
#![allow(clippy::unwrap_used)]

mod suite {
    mod attach;
    mod ledger;
    mod raisers;
    mod waits;
}
