//! From the rows of rasdaemon's database to reports.

use super::read::{Reading, Take};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use surefoot_hostfs::stamp;
use surefoot_memory::import::{Clock, NOT_PLAUSIBLE};
use surefoot_memory::reports::{
    CpuVendor, CxlEvent, CxlKind, McErrorType, McEvent, MceRecord, cxl_event, mc_event, mce_record, place_of,
};
use surefoot_model::{ErrorReport, Fidelity, MemorySource};
use surefoot_store::rasdaemon::{Row, Table, for_each_row};

pub use surefoot_store::rasdaemon::is_database;

/// How many events of EDAC are remembered, to tell which machine checks are the same errors. Beyond, both are counted, and said.
const KNOWN_MAX: usize = 1 << 20;

/// CXL devices that are told apart; of further ones only what is not 0 is known.
const CXL_DEVICES_MAX: usize = 4096;

/// AMD's memory controller in `MCA_IPID`, which the database does not keep.
const UMC_IPID: u64 = 0x96 << 32;

/// The seconds and pages of EDAC's events.
#[derive(Default)]
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

/// What CXL devices fill in, by serial number: the database has no validity flags, so that a 0 is a place only for a device that has
/// named another one somewhere.
#[derive(Default)]
struct Filled(HashMap<u64, u16>);

impl Filled {
    fn of(file: &Path) -> anyhow::Result<Filled> {
        let mut filled = Filled::default();
        for_each_row(file, |row| {
            if matches!(row.table, Table::CxlDram | Table::CxlGeneralMedia) {
                let event = cxl(row, None);
                if filled.0.len() < CXL_DEVICES_MAX || filled.0.contains_key(&event.serial) {
                    *filled.0.entry(event.serial).or_default() |= event.told();
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(filled)
    }

    fn flags(&self, row: &Row<'_>) -> Option<u16> {
        self.0.get(&row.number("serial").unwrap_or(0)).copied()
    }
}

pub fn read(file: &Path, clock: Clock, mut reading: Reading, take: &mut Take<'_>) -> anyhow::Result<Reading> {
    let mut known = Known::default();
    let mut failed = None;
    let filled = Filled::of(file)?;
    let skipped = for_each_row(file, |row| {
        reading.totals.line_count += 1;
        let Some(mut report) = report(row, &filled, &mut reading) else { return ControlFlow::Continue(()) };
        if report.at_realtime_ns != 0 && !clock.is_plausible(report.at_realtime_ns) {
            report.at_realtime_ns = 0;
            reading.totals.note(NOT_PLAUSIBLE);
        }
        if row.table == Table::McEvent {
            known.add(&report);
        } else if row.table == Table::MceRecord && known.has(&report) {
            reading.totals.repeated_count += 1;
            return ControlFlow::Continue(());
        }
        report.source = MemorySource::Rasdaemon;
        if report.dimm.is_none() {
            report.dimm = place_of(&report);
        }
        reading.totals.report_count += 1;
        reading.totals.of_report_count += 1;
        reading.count(&report);
        match take(&report) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if known.is_full {
        reading.totals.notes.push(format!(
            "Of more than {KNOWN_MAX} errors machine checks are not compared with EDAC's events: some are counted twice."
        ));
    }
    for (table, why) in skipped.tables {
        reading.totals.notes.push(format!("The table {table} was not read: {why}."));
    }
    Ok(reading)
}

fn report(row: &Row<'_>, filled: &Filled, reading: &mut Reading) -> Option<ErrorReport> {
    let line = reading.totals.line_count;
    match row.table {
        Table::McEvent => {
            let Some(error_type) = McErrorType::from_word(row.text("err_type")) else {
                let why = "its err_type is none of rasdaemon's words";
                reading.totals.not_understood(line, why, row.text("err_type"));
                return None;
            };
            let mut report = mc_event(&edac(row, error_type));
            if row.number("err_count").is_none_or(|count| u32::try_from(count).is_err()) {
                reading.totals.note(
                    "Some rows of mc_event tell no number of errors: each counts as one error and may stand for many.",
                );
                report.fidelity = Fidelity::LowerBound;
            }
            Some(report)
        }
        Table::MceRecord => {
            if let Some(missing) = ["status", "cpuvendor"].into_iter().find(|column| row.number(column).is_none()) {
                let why = "a machine check without the number that says what it is";
                reading.totals.not_understood(line, why, missing);
                return None;
            }
            let record = machine_check(row);
            if record.vendor == CpuVendor::Other {
                let why = "a machine check of a processor whose records Surefoot cannot read";
                let vendor = format!("cpuvendor {}", row.number("cpuvendor").unwrap_or(0));
                reading.totals.not_understood(line, why, &vendor);
                return None;
            }
            let mut report = mce_record(&record);
            if let Some(report) = report.as_mut().filter(|_| record.ipid == UMC_IPID) {
                // The register that names the channel was not kept.
                report.location.channel = None;
            }
            reading.totals.other_unit_count += u64::from(report.is_none());
            report
        }
        Table::CxlDram | Table::CxlGeneralMedia => {
            if let Some(missing) = ["type", "descriptor"].into_iter().find(|column| row.number(column).is_none()) {
                let why = "an event of a CXL device without the number that says what it is";
                reading.totals.not_understood(line, why, missing);
                return None;
            }
            let event = cxl(row, filled.flags(row));
            if !event.has_known_type() {
                let why = "an event of a CXL device of a type that Surefoot does not know";
                reading.totals.not_understood(line, why, &format!("{} type {}", event.memdev, event.event_type));
                return None;
            }
            let report = cxl_event(&event);
            reading.totals.other_count += u64::from(report.is_none());
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
    use super::super::read::Reading;
    use super::*;
    use std::collections::BTreeMap;
    use surefoot_store::rasdaemon::Value;

    /// What should be a number and is none is never 0, the first processor's vendor, or a corrected error.
    #[test]
    fn a_row_without_its_numbers_is_never_the_mild_case() {
        let of = |table, left_out: &str| {
            let columns = ["err_count", "status", "cpuvendor", "type", "descriptor", "serial"];
            let columns = columns.into_iter().filter(|column| *column != left_out);
            let mut values: BTreeMap<_, _> = columns.map(|column| (column, Value::Number(0))).collect();
            values.insert("err_type", Value::Text("Corrected".to_owned()));
            let mut reading = Reading::new(Path::new("rows.db"), "rasdaemon");
            let report = report(&Row { table, values }, &Filled::default(), &mut reading);
            let totals = reading.totals;
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
