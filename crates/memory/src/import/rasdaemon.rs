//! From the rows of rasdaemon's database to reports.

use super::{Clock, NOT_PLAUSIBLE, Totals};
use crate::reports::{
    CpuVendor, CxlEvent, CxlKind, McErrorType, McEvent, MceRecord, cxl_event, mc_event, mce_record, place_of,
};
use std::collections::{HashMap, HashSet};
use surefoot_hostfs::stamp;
use surefoot_model::rasdaemon::{Row, Table};
use surefoot_model::{ErrorReport, Fidelity, MemorySource};

/// How many events of EDAC are remembered, to tell which machine checks are the same errors. Beyond, both are counted, and said.
const KNOWN_MAX: usize = 1 << 20;

/// CXL devices that are told apart; of further ones only what is not 0 is known.
const CXL_DEVICES_MAX: usize = 4096;

/// AMD's memory controller in `MCA_IPID`, which the database does not keep.
const UMC_IPID: u64 = 0x96 << 32;

/// The seconds and pages of EDAC's events.
#[derive(Debug, Default)]
struct Known {
    by_page: HashSet<(u64, u64)>,
    seconds: HashSet<u64>,
    is_full: bool,
}

impl Known {
    fn add(&mut self, report: &ErrorReport) {
        if self.by_page.len() >= KNOWN_MAX || self.seconds.len() >= KNOWN_MAX {
            self.is_full = true;
            return;
        }
        let second = report.at_realtime_ns / 1_000_000_000;
        self.seconds.insert(second);
        if let Some(address) = report.location.address {
            self.by_page.insert((second, address >> 12));
        }
    }

    /// Whether EDAC told this error: the same page within a second, or where the record has no address any error within one.
    fn has(&self, report: &ErrorReport) -> bool {
        let second = report.at_realtime_ns / 1_000_000_000;
        (second.saturating_sub(1)..=second.saturating_add(1)).any(|second| match report.location.address {
            Some(address) => self.by_page.contains(&(second, address >> 12)),
            None => self.seconds.contains(&second),
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
        if row.table == Table::McEvent {
            self.known.add(&report);
        } else if row.table == Table::MceRecord && self.known.has(&report) {
            self.totals.repeated_count += 1;
            return None;
        }
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
                "Of more than {KNOWN_MAX} errors machine checks are not compared with EDAC's events: some are counted twice."
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
            let mut report = mc_event(&edac(row, error_type));
            if row.number("err_count").is_none_or(|count| u32::try_from(count).is_err()) {
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
            if record.vendor == CpuVendor::Other {
                let why = "a machine check of a processor whose records Surefoot cannot read";
                let vendor = format!("cpuvendor {}", row.number("cpuvendor").unwrap_or(0));
                totals.not_understood(line, why, &vendor);
                return None;
            }
            let mut report = mce_record(&record);
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
    }
}

fn at(row: &Row<'_>) -> u64 {
    stamp::iso(row.text("timestamp")).unwrap_or(0)
}

fn small(row: &Row<'_>, column: &str) -> u32 {
    row.number(column).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// A layer; rasdaemon keeps -1 where there is none, older ones 255.
fn layer(row: &Row<'_>, column: &str) -> i32 {
    let number = row.number(column).map(u64::cast_signed);
    number.filter(|&number| number != 255).and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
}

fn edac(row: &Row<'_>, error_type: McErrorType) -> McEvent {
    McEvent {
        at_realtime_ns: at(row),
        at_ns: None,
        error_type,
        msg: row.text("err_msg").to_owned(),
        label: row.text("label").to_owned(),
        error_count: small(row, "err_count"),
        mc_index: small(row, "mc"),
        top_layer: layer(row, "top_layer"),
        middle_layer: layer(row, "middle_layer"),
        lower_layer: layer(row, "lower_layer"),
        address: row.number("address").unwrap_or(0),
        grain_bits: u8::try_from(small(row, "grain")).unwrap_or(0),
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
    let byte = |column| u8::try_from(small(row, column)).unwrap_or(u8::MAX);
    CxlEvent {
        kind: if row.table == Table::CxlDram { CxlKind::Dram } else { CxlKind::GeneralMedia },
        at_realtime_ns: at(row),
        at_ns: None,
        memdev: row.text("memdev").to_owned(),
        serial: row.number("serial").unwrap_or(0),
        log: 0,
        hdr_flags: small(row, "hdr_flags"),
        dpa: row.number("dpa").unwrap_or(0),
        hpa: row.number("hpa"),
        descriptor: byte("descriptor"),
        event_type: byte("type"),
        validity_flags,
        channel: byte("channel"),
        rank: byte("rank"),
        bank_group: byte("bank_group"),
        bank: byte("bank"),
        row: small(row, "row"),
        column: u16::try_from(small(row, "column")).unwrap_or(0),
        corrected_count: small(row, "cvme_count").max(small(row, "cme_count")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use surefoot_model::rasdaemon::Value;

    /// What should be a number and is none is never 0, the first processor's vendor, or a corrected error.
    #[test]
    fn a_row_without_its_numbers_is_never_the_mild_case() {
        let of = |table, left_out: &str| {
            let columns = ["err_count", "status", "cpuvendor", "type", "descriptor", "serial"];
            let columns = columns.into_iter().filter(|column| *column != left_out);
            let mut values: BTreeMap<_, _> = columns.map(|column| (column, Value::Number(0))).collect();
            values.insert("err_type", Value::Text("Corrected".to_owned()));
            let mut totals = Totals::default();
            let report = report(&Row { table, values }, &Filled::default(), &mut totals);
            (
                report.map(|report| report.fidelity),
                totals.not_understood_count,
                totals.other_unit_count,
                totals.notes.len(),
            )
        };
        assert_eq!(of(Table::McEvent, ""), (Some(Fidelity::Sampled), 0, 0, 0));
        assert_eq!(of(Table::McEvent, "err_count"), (Some(Fidelity::LowerBound), 0, 0, 1));
        assert_eq!(of(Table::MceRecord, "").1, 0);
        for left_out in ["status", "cpuvendor"] {
            assert_eq!(of(Table::MceRecord, left_out), (None, 1, 0, 0), "{left_out}");
        }
        assert_eq!(of(Table::CxlDram, "").1, 0);
        for left_out in ["type", "descriptor"] {
            assert_eq!(of(Table::CxlDram, left_out), (None, 1, 0, 0), "{left_out}");
        }
    }
}
