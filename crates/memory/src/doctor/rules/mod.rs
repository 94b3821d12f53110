//! The rules, one per file.

mod blocks;
mod cmci;
mod collector;
mod driver;
mod ecc;
mod firmware;
mod ignored;
mod labels;
mod poll;
mod polling_off;
mod records;
mod storm;
mod totals;
mod traces;
mod unread;
mod virtual_machine;

use super::{Found, Rule};
use surefoot_model::{Certainty, Severity};

/// All of them, in the order in which they are shown.
pub(super) const ALL: &[Rule] = &[
    virtual_machine::RULE,
    driver::RULE,
    firmware::RULE,
    ecc::RULE,
    ignored::RULE,
    collector::RULE,
    cmci::RULE,
    polling_off::RULE,
    poll::RULE,
    blocks::RULE,
    storm::RULE,
    records::RULE,
    traces::RULE,
    unread::RULE,
    totals::RULE,
    labels::RULE,
];

/// Something that is certain.
fn found(severity: Severity, evidence: String, consequence: &str, remedy: &str) -> Found {
    Found { severity, certainty: Certainty::Certain, evidence, consequence: consequence.into(), remedy: remedy.into() }
}
