//! The events of the group `cxl`: pairs of names and values, of which those with spaces are in quotes.
//!
//! The kernel prints words for numbers; CXL 3.1, tables "General Media Event Record" and "DRAM Event Record", has the numbers.

use super::{At, Said, hexadecimal};
use crate::follow::events::Kind;
use crate::reports::{CxlEvent, CxlKind, cxl_event as report_of};
use std::collections::BTreeMap;
use surefoot_model::Digits;

/// Pairs of one line; the kernel prints fewer than 40.
const PAIRS_MAX: usize = 64;

/// Words for bits of `validity_flags`.
const VALID: [(&str, u16); 6] =
    [("CHANNEL", 0), ("RANK", 1), ("BANK GROUP", 3), ("BANK", 4), ("ROW", 5), ("COLUMN", 6)];
/// Words for bits of the record's flags.
const FLAGS: [(&str, u32); 4] = [
    ("PERMANENT CONDITION", 2),
    ("MAINTENANCE NEEDED", 3),
    ("PERFORMANCE DEGRADED", 4),
    ("HARDWARE REPLACEMENT NEEDED", 5),
];
const LOGS: [&str; 4] = ["Informational", "Warning", "Failure", "Fatal"];

/// The report that a line is.
pub(super) fn cxl_event(kind: Kind, text: &str, at: At) -> Said {
    let pairs = pairs(text);
    let get = |name: &str| pairs.get(name).copied();
    let number = |name: &str| get(name).and_then(|value| value.digits::<u64>()).unwrap_or(0);
    let (Some(memdev), Some(dpa)) = (get("memdev"), get("dpa").and_then(hexadecimal)) else { return Said::Garbled };
    let kind = if kind == Kind::CxlDram { CxlKind::Dram } else { CxlKind::GeneralMedia };
    let descriptor = get("descriptor")
        .map_or(0, |words| u8::from(has(words, "UNCORRECTABLE EVENT")) | u8::from(has(words, "THRESHOLD EVENT")) << 1);
    let narrow = |value: u64| u8::try_from(value).unwrap_or(0);
    let event = CxlEvent {
        kind,
        at_realtime_ns: at.at_realtime_ns,
        at_ns: Some(at.at_ns),
        memdev: memdev.to_owned(),
        // Printed as a signed number.
        serial: get("serial").and_then(|value| value.signed_digits::<i64>()).map_or(0, i64::cast_unsigned),
        log: get("log").and_then(|word| LOGS.iter().position(|known| *known == word)).map_or(0, |at| narrow(at as u64)),
        hdr_flags: get("flags").map_or(0, |words| {
            FLAGS.iter().filter(|(word, _)| has(words, word)).fold(0, |bits, (_, bit)| bits | 1 << bit)
        }),
        dpa,
        hpa: get("hpa").and_then(hexadecimal),
        descriptor,
        event_type: event_type(kind, get("type").unwrap_or_default()),
        validity_flags: get("validity_flags")
            .map(|words| VALID.iter().filter(|(word, _)| has(words, word)).fold(0, |bits, (_, bit)| bits | 1 << bit)),
        channel: narrow(number("channel")),
        rank: narrow(number("rank")),
        bank_group: narrow(number("bank_group")),
        bank: narrow(number("bank")),
        row: u32::try_from(number("row")).unwrap_or(0),
        column: u16::try_from(number("column")).unwrap_or(0),
        // One of the two prints its count in decimal, the other in hexadecimal.
        corrected_count: get("cvme_count")
            .and_then(hexadecimal)
            .or_else(|| get("cme_count").and_then(|value| value.digits()))
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
    };
    report_of(&event).map_or(Said::NotMemory, Said::Report)
}

/// The number of a type of event; one that is no error of the media where the word is new.
fn event_type(kind: CxlKind, word: &str) -> u8 {
    let words: [&str; 6] = match kind {
        CxlKind::Dram => [
            "ECC Error",
            "Scrub Media ECC Error",
            "Invalid Address",
            "Data Path Error",
            "TE State Violation",
            "Adv Prog CME Counter Expiration",
        ],
        CxlKind::GeneralMedia => [
            "ECC Error",
            "Invalid Address",
            "Data Path Error",
            "TE State Violation",
            "Scrub Media ECC Error",
            "Adv Prog CME Counter Expiration",
        ],
    };
    (0u8..).zip(words).find(|(_, known)| known.eq_ignore_ascii_case(word)).map_or(u8::MAX, |(number, _)| number)
}

/// Whether a list of words parted by `|` has this one; some kernels write `_` for a space.
fn has(words: &str, wanted: &str) -> bool {
    words.split('|').any(|word| word.trim().replace('_', " ").eq_ignore_ascii_case(wanted))
}

/// `name=value` and `name='value with spaces'`. The first of a name counts.
fn pairs(text: &str) -> BTreeMap<&str, &str> {
    let mut pairs = BTreeMap::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.rsplit(' ').next().unwrap_or(before);
        let value = match after.strip_prefix('\'') {
            Some(quoted) => {
                let (value, left) = quoted.split_once('\'').unwrap_or((quoted, ""));
                rest = left;
                value
            }
            None => {
                let (value, left) = after.split_once(' ').unwrap_or((after, ""));
                rest = left;
                value
            }
        };
        if pairs.len() == PAIRS_MAX {
            break;
        }
        pairs.entry(name).or_insert(value);
    }
    pairs
}
