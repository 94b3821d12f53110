//! The events of the group `ras`.

use super::{At, hexadecimal};
use crate::reports::{McErrorType, McEvent, mc_event as report_of};
use surefoot_hostfs::usage;
use surefoot_model::{Digits, DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource, one_line};

/// `3 Corrected errors: memory read error on A1 (mc:0 location:1:0:-1 address:0x12 grain:32 syndrome:0x0 the driver's words)`
pub(super) fn mc_event(text: &str, at: At) -> Option<ErrorReport> {
    let (count, rest) = text.trim_start().split_once(' ')?;
    let (kind, rest) = rest.split_once(" error")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(':')?;
    let (what, fields) = rest.split_once(" (mc:")?;
    // The driver's sentence comes first, and may have an "on" of its own.
    let (msg, label) = match what.rfind(" on ") {
        Some(at) => (&what[..at], &what[at + " on ".len()..]),
        None => (what, ""),
    };
    let fields = fields.trim_end().strip_suffix(')').unwrap_or(fields);
    let mut parts = fields.splitn(6, ' ');
    let mc_index = Some(parts.next()?.digits()?);
    let mut layers = parts.next()?.strip_prefix("location:")?.split(':').map(str::signed_digits::<i32>);
    let mut layer = || layers.next()?;
    let (top_layer, middle_layer, lower_layer) = (layer()?, layer()?, layer()?);
    let address = hexadecimal(parts.next()?.strip_prefix("address:")?)?;
    // Printed as 1 << grain_bits, in an int: 32 bits are none.
    let grain: i64 = parts.next()?.strip_prefix("grain:")?.signed_digits()?;
    let syndrome = hexadecimal(parts.next()?.strip_prefix("syndrome:")?)?;
    Some(report_of(&McEvent {
        at_realtime_ns: at.at_realtime_ns,
        at_ns: Some(at.at_ns),
        error_type: McErrorType::from_word(kind)?,
        msg: msg.trim().to_owned(),
        label: label.trim().to_owned(),
        error_count: count.digits()?,
        mc_index,
        top_layer,
        middle_layer,
        lower_layer,
        address,
        grain_bits: grain.unsigned_abs().checked_ilog2().and_then(|bits| u8::try_from(bits).ok()),
        syndrome,
        driver_detail: parts.next().unwrap_or_default().trim().to_owned(),
    }))
}

/// `pfn 0x12: recovery action for dirty LRU page: Recovered`: bits that are lost, found by whoever wanted them.
pub(super) fn memory_failure(text: &str, at: At) -> Option<ErrorReport> {
    let (page, rest) = text.trim_start().strip_prefix("pfn ")?.split_once(':')?;
    // The kernel counts in its own pages, and a tracepoint is of this one.
    let page_bytes = usage::page_bytes();
    let address = hexadecimal(page)?.checked_mul(page_bytes)?;
    let grain_bits = u8::try_from(page_bytes.ilog2()).ok();
    Some(ErrorReport {
        severity: ErrorSeverity::Uncorrected,
        location: DramLocation { address: Some(address), grain_bits, ..DramLocation::default() },
        ..plain(MemorySource::MemoryFailure, rest, at)
    })
}

/// `{1} corrected error: memory error, physical addr: 0000000000001000 (mask lsb: 12) node: 0 ... FRU: ...`: firmware's own
/// record.
pub(super) fn extlog(text: &str, at: At) -> Option<ErrorReport> {
    let (_, rest) = text.trim_start().strip_prefix('{')?.split_once('}')?;
    let (severity, after) = rest.trim_start().split_once(" error:")?;
    let (_, address) = after.split_once("physical addr: ")?;
    let digits: String = address.chars().take_while(char::is_ascii_hexdigit).collect();
    let address = hexadecimal(&digits).filter(|&address| address != 0 && address != u64::MAX);
    // What firmware calls the part may be any words.
    let place = after.split(" FRU: ").next().unwrap_or_default();
    Some(ErrorReport {
        // The kernel's words for the severities of firmware: corrected, recoverable, fatal, info.
        severity: match severity {
            "corrected" | "info" | "informational" => ErrorSeverity::Corrected,
            "recoverable" | "fatal" => ErrorSeverity::Uncorrected,
            _ => return None,
        },
        location: DramLocation { address, ..crate::reports::words::location(place) },
        ..plain(MemorySource::Extlog, rest, at)
    })
}

/// One error of which only the words are known. Firmware decides which it tells.
fn plain(source: MemorySource, words: &str, at: At) -> ErrorReport {
    ErrorReport {
        at_realtime_ns: at.at_realtime_ns,
        at_ns: Some(at.at_ns),
        source,
        severity: ErrorSeverity::Corrected,
        dimm: None,
        label: String::new(),
        count: 1,
        fidelity: Fidelity::Sampled,
        location: DramLocation::default(),
        detail: one_line(words.trim()).chars().take(crate::reports::TEXT_CHARACTERS_MAX).collect(),
    }
}
