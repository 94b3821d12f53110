//! The rules, one per file.

mod banks;
mod blocks;
mod cmci;
mod collector;
mod driver;
mod ecc;
mod firmware;
mod firmware_threshold;
mod ignored;
mod labels;
mod other_collector;
mod poll;
mod polling_off;
mod printed;
mod records;
mod storm;
mod threshold_settings;
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
    banks::RULE,
    collector::RULE,
    cmci::RULE,
    firmware_threshold::RULE,
    polling_off::RULE,
    poll::RULE,
    blocks::RULE,
    threshold_settings::RULE,
    storm::RULE,
    records::RULE,
    traces::RULE,
    other_collector::RULE,
    printed::RULE,
    unread::RULE,
    totals::RULE,
    labels::RULE,
];

/// Something that is certain.
fn found(severity: Severity, evidence: String, consequence: &str, remedy: &str) -> Found {
    Found { severity, certainty: Certainty::Certain, evidence, consequence: consequence.into(), remedy: remedy.into() }
}
