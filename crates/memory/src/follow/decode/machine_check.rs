//! The event of the group `mce`.
//!
//! Its line is a list of names and values. The names are in capitals until 6.9 and several stand before one value
//! (`ADDR/MISC/SYND: a/b/c`, `PROCESSOR: vendor:cpuid`); newer kernels write each by itself.

use super::{At, Said, hexadecimal};
use crate::reports::{CpuVendor, MceRecord, mce_record as report_of};
use surefoot_model::Digits;

/// The report that a line is.
pub(super) fn mce_record(text: &str, at: At) -> Said {
    match record(text, at) {
        Some(record) => report_of(&record).map_or(Said::NotMemory, Said::Report),
        None => Said::Garbled,
    }
}

fn record(text: &str, at: At) -> Option<MceRecord> {
    let mut record = MceRecord { at_ns: Some(at.at_ns), at_realtime_ns: at.at_realtime_ns, ..MceRecord::default() };
    let mut has_status = false;
    for (name, value) in text.split(", ").filter_map(|part| part.split_once(": ")) {
        let name = name.trim().to_ascii_lowercase();
        let mut values = value.trim().split('/');
        match name.as_str() {
            "cpu" => record.cpu = Some(value.trim().digits()?),
            "mcgc/s" => {
                record.mcgcap = hexadecimal(values.next()?)?;
                record.mcgstatus = hexadecimal(values.next()?)?;
            }
            "addr/misc/synd" => {
                record.addr = hexadecimal(values.next()?)?;
                record.misc = hexadecimal(values.next()?)?;
                record.synd = hexadecimal(values.next()?)?;
            }
            "ipid" => record.ipid = hexadecimal(value)?,
            "addr" => record.addr = hexadecimal(value)?,
            "misc" => record.misc = hexadecimal(value)?,
            "synd" => record.synd = hexadecimal(value)?,
            "processor" => record.vendor = CpuVendor::from_number(value.split(':').next()?.trim().digits()?),
            "vendor" => record.vendor = CpuVendor::from_number(value.trim().digits()?),
            "socket" => record.socketid = Some(value.trim().digits()?),
            name => {
                if let Some(bank) = name.strip_prefix("mc").and_then(|bank| bank.digits()) {
                    record.bank = Some(bank);
                    record.status = hexadecimal(value)?;
                    has_status = true;
                }
            }
        }
    }
    has_status.then_some(record)
}
