//! From the rows of rasdaemon's database to reports.

use super::{Clock, NOT_PLAUSIBLE, Totals};
use crate::reports::{
    CpuVendor, CxlEvent, CxlKind, McErrorType, McEvent, MceRecord, cut, cxl_event, mc_event, mce_record, place_of,
};
use std::collections::{HashMap, HashSet};
use surefoot_hostfs::{stamp, usage};
use surefoot_model::rasdaemon::{Row, Table};
use surefoot_model::{Digits, DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource};

/// How many errors are remembered, to tell which of another table are the same. Beyond, both are counted, and said.
const KNOWN_MAX: usize = 1 << 20;

/// CXL devices that are told apart; of further ones only what is not 0 is known.
const CXL_DEVICES_MAX: usize = 4096;

/// AMD's memory controller in `MCA_IPID`, which the database does not keep.
const UMC_IPID: u64 = 0x96 << 32;

/// The seconds and pages of the errors of each table, with the first table that told them.
#[derive(Debug, Default)]
struct Known {
    by_page: HashMap<(u64, u64), Table>,
    /// The seconds of EDAC's events.
    seconds: HashSet<u64>,
    is_full: bool,
}

impl Known {
    fn add(&mut self, table: Table, report: &ErrorReport) {
        if !matches!(table, Table::McEvent | Table::MceRecord | Table::Extlog | Table::MemoryFailure) {
            return;
        }
        if self.by_page.len() >= KNOWN_MAX || self.seconds.len() >= KNOWN_MAX {
            self.is_full = true;
            return;
        }
        let second = report.at_realtime_ns / 1_000_000_000;
        if table == Table::McEvent {
            self.seconds.insert(second);
        }
        if let Some(address) = report.location.address {
            self.by_page.entry((second, address >> 12)).or_insert(table);
        }
    }

    /// Whether a table before this one told this error: the same page within a second, or where a machine check has no address any
    /// error of EDAC's within one.
    fn has(&self, table: Table, report: &ErrorReport) -> bool {
        let second = report.at_realtime_ns / 1_000_000_000;
        (second.saturating_sub(1)..=second.saturating_add(1)).any(|second| match report.location.address {
            Some(address) => self.by_page.get(&(second, address >> 12)).is_some_and(|first| *first < table),
            None => table == Table::MceRecord && self.seconds.contains(&second),
        })
    }
}

/// The fields that CXL devices fill in, by serial number: the database has no validity flags, so that a 0 is a place only for a device that
/// has named another one somewhere. All rows are added before the first is read.
#[derive(Debug, Default)]
pub struct Filled(HashMap<u64, u16>);

impl Filled {
    /// Adds a row; those of other tables tell nothing.
    pub fn add(&mut self, row: &Row<'_>) {
        if matches!(row.table, Table::CxlDram | Table::CxlGeneralMedia) {
            let event = cxl(row, None);
            if self.0.len() < CXL_DEVICES_MAX || self.0.contains_key(&event.serial) {
                *self.0.entry(event.serial).or_default() |= event.told();
            }
        }
    }

    fn flags(&self, row: &Row<'_>) -> Option<u16> {
        self.0.get(&row.number("serial").unwrap_or(0)).copied()
    }
}

/// A database that is being read.
#[derive(Debug)]
pub struct Rows {
    clock: Clock,
    filled: Filled,
    known: Known,
    totals: Totals,
}

impl Rows {
    /// Begins a database.
    pub fn new(clock: Clock, filled: Filled) -> Rows {
        Rows { clock, filled, known: Known::default(), totals: Totals::default() }
    }

    /// Takes the next row: the tables in the order of [`Table::ALL`], each in the order of its IDs. `None` where it is no memory error,
    /// repeats one or is not understood; each is counted.
    pub fn row(&mut self, row: &Row<'_>) -> Option<ErrorReport> {
        self.totals.line_count += 1;
        let mut report = report(row, &self.filled, &mut self.totals)?;
        if report.at_realtime_ns != 0 && !self.clock.is_plausible(report.at_realtime_ns) {
            report.at_realtime_ns = 0;
            self.totals.note(NOT_PLAUSIBLE);
        }
        // One error may be in several tables; two rows of one table are two errors.
        if self.known.has(row.table, &report) {
            self.totals.repeated_count += 1;
            return None;
        }
        self.known.add(row.table, &report);
        report.source = MemorySource::Rasdaemon;
        if report.dimm.is_none() {
            report.dimm = place_of(&report);
        }
        self.totals.report_count += 1;
        self.totals.of_report_count += 1;
        Some(report)
    }

    /// Ends the database. `unread` are the tables that could not be read, with the reasons.
    pub fn end(mut self, unread: impl IntoIterator<Item = (&'static str, String)>) -> Totals {
        if self.known.is_full {
            self.totals.notes.push(format!(
                "Of more than {KNOWN_MAX} errors the tables are not compared with each other: some errors are counted twice."
            ));
        }
        for (table, why) in unread {
            self.totals.notes.push(format!("The table {table} was not read: {why}."));
        }
        self.totals
    }
}

fn report(row: &Row<'_>, filled: &Filled, totals: &mut Totals) -> Option<ErrorReport> {
    let line = totals.line_count;
    match row.table {
        Table::McEvent => {
            let Some(error_type) = McErrorType::from_word(row.text("err_type")) else {
                let why = "its err_type is none of rasdaemon's words";
                totals.not_understood(line, why, row.text("err_type"));
                return None;
            };
            let Ok(count) = count(row, "err_count") else {
                totals.not_understood(line, NO_COUNT, row.text("label"));
                return None;
            };
            let mut report = mc_event(&edac(row, error_type, count.unwrap_or(0)));
            if count.is_none() {
                totals.note(
                    "Some rows of mc_event tell no number of errors: each counts as one error and may stand for many.",
                );
                report.fidelity = Fidelity::LowerBound;
            }
            Some(report)
        }
        Table::MceRecord => {
            if let Some(missing) = ["status", "cpuvendor"].into_iter().find(|column| row.number(column).is_none()) {
                let why = "a machine check without the number that says what it is";
                totals.not_understood(line, why, missing);
                return None;
            }
            let record = machine_check(row);
            if let Some(why) = record.lacks() {
                let vendor = format!("cpuvendor {}", row.number("cpuvendor").unwrap_or(0));
                totals.not_understood(line, why, &vendor);
                return None;
            }
            let mut report = mce_record(&record);
            if let Some(place) = report.as_mut().map(|report| &mut report.location) {
                // rasdaemon's words for what Nehalem's memory controller tells in MCi_MISC.
                let said = row.text("mc_location");
                let told = said.strip_prefix("channel=").and_then(|said| said.split_once(", dimm="));
                let number = |word: &str| word.digits::<u32>().filter(|&word| word < 4);
                if let Some((Some(channel), Some(module))) = told.map(|(one, two)| (number(one), number(two))) {
                    (place.channel, place.slot) = (place.channel.or(Some(channel)), Some(module));
                }
            }
            if let Some(report) = report.as_mut().filter(|_| record.ipid == UMC_IPID) {
                // The register that names the channel was not kept.
                report.location.channel = None;
            }
            totals.other_unit_count += u64::from(report.is_none());
            report
        }
        Table::CxlDram | Table::CxlGeneralMedia => {
            if let Some(missing) = ["type", "descriptor"].into_iter().find(|column| row.number(column).is_none()) {
                let why = "an event of a CXL device without the number that says what it is";
                totals.not_understood(line, why, missing);
                return None;
            }
            let counts = ["cvme_count", "cme_count"].map(|column| count(row, column));
            if counts.contains(&Err(())) {
                totals.not_understood(line, NO_COUNT, row.text("memdev"));
                return None;
            }
            let event = cxl(row, filled.flags(row));
            if !event.has_known_type() {
                let why = "an event of a CXL device of a type that Surefoot does not know";
                totals.not_understood(line, why, &format!("{} type {}", event.memdev, event.event_type));
                return None;
            }
            let report = cxl_event(&event);
            totals.other_count += u64::from(report.is_none());
            report
        }
        Table::Extlog => {
            let severity = row.number("severity").and_then(extlog_severity);
            if severity.is_none() {
                let why = "a record of firmware whose severity is not known";
                totals.not_understood(line, why, row.text("fru_text"));
            }
            severity.map(|severity| extlog(row, severity))
        }
        Table::MemoryFailure => {
            let page = row.text("pfn").strip_prefix("0x").and_then(|page| page.hex_digits::<u64>());
            // The kernel counts in its own pages; the database does not tell how large they are, and is taken as of a kernel like this one.
            let page_bytes = usage::page_bytes();
            let address = page.and_then(|page| page.checked_mul(page_bytes));
            let grain_bits = u8::try_from(page_bytes.ilog2()).ok();
            if address.is_none() {
                let why = "a page that the kernel took out of use, without its number";
                totals.not_understood(line, why, row.text("pfn"));
            }
            let said = format!("{}: {}", row.text("page_type"), row.text("action_result"));
            address.map(|address| ErrorReport {
                severity: ErrorSeverity::Uncorrected,
                location: DramLocation { address: Some(address), grain_bits, ..DramLocation::default() },
                detail: cut(&format!("page taken out of use; {said}")),
                ..plain(row)
            })
        }
        Table::Aer => {
            totals.other_unit_count += 1;
            None
        }
    }
}

const NO_COUNT: &str = "its number of errors is no number that can be";

/// A number of errors: `None` where the column is absent or empty, an error where it holds anything but a number of errors.
fn count(row: &Row<'_>, column: &str) -> Result<Option<u32>, ()> {
    match row.has(column) {
        false => Ok(None),
        true => row.number(column).and_then(|count| u32::try_from(count).ok()).map(Some).ok_or(()),
    }
}

/// One error of which firmware or the kernel says little.
fn plain(row: &Row<'_>) -> ErrorReport {
    ErrorReport {
        at_realtime_ns: at(row),
        at_ns: None,
        source: MemorySource::Rasdaemon,
        severity: ErrorSeverity::Corrected,
        dimm: None,
        label: String::new(),
        count: 1,
        fidelity: Fidelity::Sampled,
        location: DramLocation::default(),
        detail: String::new(),
    }
}

/// The kernel's numbers for the severities of firmware (`CPER_SEV_*`): recoverable, fatal, corrected, informational.
fn extlog_severity(number: u64) -> Option<ErrorSeverity> {
    match number {
        0 | 1 => Some(ErrorSeverity::Uncorrected),
        2 | 3 => Some(ErrorSeverity::Corrected),
        _ => None,
    }
}

/// Its `error_count` is no count: rasdaemon keeps the number of the event in it.
fn extlog(row: &Row<'_>, severity: ErrorSeverity) -> ErrorReport {
    let address = row.number("address").filter(|&address| address != 0 && address != u64::MAX);
    let location = DramLocation { address, ..of_cper(row.bytes("cper_data")) };
    let label = cut(row.text("fru_text").trim_matches('\0'));
    ErrorReport { severity, location, label, detail: "firmware record".to_owned(), ..plain(row) }
}

/// The coordinates in `struct cper_mem_err_compact` of the kernel: 64 bits that say which of the fields are valid, then fields of 16
/// bits, little-endian. A record that is too short for a field does not tell it.
fn of_cper(data: &[u8]) -> DramLocation {
    let word = |at: usize| Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?));
    let valid = data.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let field = |bit: u64, at: usize| word(at).filter(|_| valid & bit != 0).map(u32::from);
    let high_row = data.get(54).filter(|_| valid & 0x4_0000 != 0).map_or(0, |extended| u32::from(extended & 3) << 16);
    // Either one number of the bank, or those of its group and of the bank in it.
    let group = field(0x8_0000, 14).map(|bank| bank >> 8);
    let bank = field(0x40, 14).or_else(|| field(0x10_0000, 14).map(|bank| bank & 0xff));
    DramLocation {
        socket: field(0x8, 8),
        channel: field(0x10, 10),
        slot: field(0x20, 12),
        rank: field(0x8000, 48),
        bank_group: group,
        bank,
        row: field(0x100, 18).map(|row| row | high_row),
        column: field(0x200, 20),
        ..DramLocation::default()
    }
}

fn at(row: &Row<'_>) -> u64 {
    stamp::iso(row.text("timestamp")).unwrap_or(0)
}

/// A small number; `None` where there is none.
fn small(row: &Row<'_>, column: &str) -> Option<u32> {
    row.number(column).and_then(|number| u32::try_from(number).ok())
}

/// A layer; rasdaemon keeps -1 where there is none, older ones 255.
fn layer(row: &Row<'_>, column: &str) -> i32 {
    let number = row.number(column).map(u64::cast_signed);
    number.filter(|&number| number != 255).and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
}

fn edac(row: &Row<'_>, error_type: McErrorType, error_count: u32) -> McEvent {
    McEvent {
        at_realtime_ns: at(row),
        at_ns: None,
        error_type,
        msg: row.text("err_msg").to_owned(),
        label: row.text("label").to_owned(),
        error_count,
        mc_index: small(row, "mc"),
        top_layer: layer(row, "top_layer"),
        middle_layer: layer(row, "middle_layer"),
        lower_layer: layer(row, "lower_layer"),
        address: row.number("address").unwrap_or(0),
        grain_bits: row.number("grain").and_then(|bits| u8::try_from(bits).ok()).filter(|&bits| bits < 64),
        syndrome: row.number("syndrome").unwrap_or(0),
        driver_detail: row.text("driver_detail").to_owned(),
    }
}

fn machine_check(row: &Row<'_>) -> MceRecord {
    let register = |column| row.number(column).unwrap_or(0);
    let vendor = CpuVendor::from_number(register("cpuvendor"));
    let is_umc = vendor == CpuVendor::Amd && row.text("bank_name").starts_with("Unified Memory Controller");
    MceRecord {
        at_ns: None,
        at_realtime_ns: at(row),
        mcgcap: register("mcgcap"),
        mcgstatus: register("mcgstatus"),
        status: register("status"),
        addr: register("addr"),
        misc: register("misc"),
        synd: register("synd"),
        ipid: if is_umc { register("ipid").max(UMC_IPID) } else { register("ipid") },
        cpu: small(row, "cpu"),
        socketid: small(row, "socketid"),
        bank: small(row, "bank"),
        vendor,
    }
}

fn cxl(row: &Row<'_>, validity_flags: Option<u16>) -> CxlEvent {
    let byte = |column| small(row, column).map_or(Ok(0), u8::try_from).unwrap_or(u8::MAX);
    CxlEvent {
        kind: if row.table == Table::CxlDram { CxlKind::Dram } else { CxlKind::GeneralMedia },
        at_realtime_ns: at(row),
        at_ns: None,
        memdev: row.text("memdev").to_owned(),
        serial: row.number("serial").unwrap_or(0),
        log: 0,
        hdr_flags: small(row, "hdr_flags").unwrap_or(0),
        dpa: row.number("dpa").unwrap_or(0),
        hpa: row.number("hpa"),
        descriptor: byte("descriptor"),
        event_type: byte("type"),
        validity_flags,
        channel: byte("channel"),
        rank: byte("rank"),
        bank_group: byte("bank_group"),
        bank: byte("bank"),
        row: small(row, "row").unwrap_or(0),
        column: small(row, "column").and_then(|column| u16::try_from(column).ok()).unwrap_or(0),
        corrected_count: small(row, "cvme_count").max(small(row, "cme_count")).unwrap_or(0),
    }
}

#[cfg(test)]
#[path = "rasdaemon_tests.rs"]
mod tests;
