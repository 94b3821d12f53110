//! Lost time on the running kernel, through the crate's public API.
#![allow(clippy::unwrap_used)]

mod suite {
    mod advice_live;
    mod audit_live;
    mod becomes_live;
    mod console_live;
    mod ledger_live;
    mod live;
    mod names;
    mod raisers_live;
    mod who_live;
}
