#![allow(clippy::unwrap_used)]
use super::*;
use std::collections::BTreeMap;
use std::iter;
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
        (report.map(|report| report.fidelity), totals.not_understood_count, totals.other_unit_count, totals.notes.len())
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

fn row<'a>(table: Table, columns: &[(&'a str, Value)]) -> Row<'a> {
    Row { table, values: columns.iter().cloned().collect() }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

const AT: &str = "2026-11-23 08:00:00 +0000";

/// A count that is no number is not one error, and one that is not there is not 0.
#[test]
fn a_count_that_is_no_number_is_not_understood() {
    let of = |count: Option<Value>| {
        let count = count.into_iter().map(|count| ("err_count", count));
        let columns: Vec<_> = iter::once(("err_type", text("Corrected"))).chain(count).collect();
        let mut rows = Rows::new(Clock::default(), Filled::default());
        let report = rows.row(&row(Table::McEvent, &columns));
        (report.map(|report| (report.count, report.fidelity)), rows.end([]).not_understood_count)
    };
    assert_eq!(of(Some(Value::Number(3))), (Some((3, Fidelity::Sampled)), 0));
    assert_eq!(of(None), (Some((1, Fidelity::LowerBound)), 0));
    for count in [Value::Number(-4), text("many"), Value::Number(1 << 40), Value::Fraction, Value::Bytes(vec![5])] {
        assert_eq!(of(Some(count.clone())), (None, 1), "{count:?}");
    }
    let cxl = |count: Value| {
        let columns = [("type", Value::Number(5)), ("descriptor", Value::Number(0)), ("cvme_count", count)];
        let mut totals = Totals::default();
        (report(&row(Table::CxlDram, &columns), &Filled::default(), &mut totals), totals.not_understood_count)
    };
    assert_eq!(cxl(Value::Number(9)).0.unwrap().count, 9);
    for count in [Value::Number(-4), text("many"), Value::Number(1 << 40)] {
        assert_eq!(cxl(count.clone()), (None, 1), "{count:?}");
    }
}

/// An older rasdaemon has no such column, and the first controller, socket or byte is not the answer.
#[test]
fn a_column_that_is_absent_is_not_0() {
    let mut totals = Totals::default();
    let mut of = |row: &Row<'_>| report(row, &Filled::default(), &mut totals).unwrap();
    let edac = of(&row(
        Table::McEvent,
        &[("err_type", text("Corrected")), ("err_count", Value::Number(1)), ("address", Value::Number(4096))],
    ));
    assert_eq!(edac.location, DramLocation { address: Some(4096), ..DramLocation::default() });
    let check = [("status", Value::Number(0x8c00_0040_0001_0092_u64.cast_signed())), ("cpuvendor", Value::Number(0))];
    let check = of(&row(Table::MceRecord, &check));
    assert_eq!((check.location.socket, check.location.channel), (None, Some(2)));
    assert!(check.detail.contains("bank not told") && check.detail.contains("CPU not told"), "{}", check.detail);
    // AMD's northbridge is known by its bank, and without that the record may be of anything.
    let old = [("status", Value::Number(i64::MIN | 8 << 16)), ("cpuvendor", Value::Number(2))];
    assert_eq!(report(&row(Table::MceRecord, &old), &Filled::default(), &mut totals), None);
    assert_eq!((totals.not_understood_count, totals.other_unit_count), (1, 0));
}

/// `struct cper_mem_err_compact` as the kernel of x86 lays it out: written here field by field.
fn cper(valid: u64, words: [u16; 8], rank: u16, extended: u8) -> Vec<u8> {
    let mut bytes = valid.to_le_bytes().to_vec();
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend([0; 24]);
    bytes.extend(rank.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.push(extended);
    bytes
}

#[test]
fn extlog_pages_out_of_use_and_pcie_are_read() {
    let extlog = |severity: i64, data: Vec<u8>| {
        [
            ("timestamp", text(AT)),
            ("etype", Value::Number(2)),
            // rasdaemon keeps the number of the event here.
            ("error_count", Value::Number(7_001)),
            ("severity", Value::Number(severity)),
            ("address", Value::Number(0x1234_5040)),
            ("fru_text", text("P1-DIMM A1")),
            ("cper_data", Value::Bytes(data)),
        ]
    };
    let mut rows = Rows::new(Clock::default(), Filled::default());
    let mut of = |severity, data| rows.row(&row(Table::Extlog, &extlog(severity, data)));
    let whole = cper(0x8 | 0x10 | 0x20 | 0x40 | 0x100 | 0x200 | 0x8000 | 0x4_0000, [1, 2, 0, 5, 0, 77, 24, 0], 3, 2);
    let report = of(2, whole.clone()).unwrap();
    assert_eq!((report.count, report.severity, report.label.as_str()), (1, ErrorSeverity::Corrected, "P1-DIMM A1"));
    let place = report.location;
    assert_eq!((place.socket, place.channel, place.slot, place.rank), (Some(1), Some(2), Some(0), Some(3)));
    assert_eq!((place.bank, place.row, place.column), (Some(5), Some(77 | 2 << 16), Some(24)));
    let grouped = of(0, cper(0x8_0000 | 0x10_0000, [1, 2, 0, 0x0302, 0, 77, 24, 0], 3, 0)).unwrap();
    assert_eq!((grouped.severity, grouped.location.bank_group), (ErrorSeverity::Uncorrected, Some(3)));
    assert_eq!((grouped.location.bank, grouped.location.row, grouped.location.socket), (Some(2), None, None));
    // What is cut tells less, and never 0.
    for length in 0..whole.len() {
        let cut = of(2, whole[..length].to_vec()).unwrap().location;
        assert!([place.row, Some(77), None].contains(&cut.row) && [place.rank, None].contains(&cut.rank), "{length}");
    }
    assert_eq!(of(4, whole.clone()), None);
    let page = |pfn: &str| row(Table::MemoryFailure, &[("timestamp", text(AT)), ("pfn", text(pfn))]).values;
    let mut failure = |pfn: &str| rows.row(&Row { table: Table::MemoryFailure, values: page(pfn) });
    let report = failure("0x999").unwrap();
    assert_eq!((report.severity, report.location.address), (ErrorSeverity::Uncorrected, Some(0x99_9000)));
    assert_eq!(report.dimm, None);
    // The page of the records above, in the same second; and pages that are none.
    assert!(
        [failure("0x12345"), failure("0xfffffffffffffff"), failure("many"), failure("")].iter().all(Option::is_none)
    );
    assert_eq!(rows.row(&row(Table::Aer, &[("err_msg", text("Corrected"))])), None);
    let totals = rows.end([]);
    assert_eq!((totals.not_understood_count, totals.repeated_count, totals.other_unit_count), (4, 1, 1));
}

/// An error that EDAC, a machine check and firmware told is one; two of one table are two.
#[test]
fn an_error_in_several_tables_is_one() {
    let address = ("address", Value::Number(0x1234_5040));
    let edac =
        [("timestamp", text(AT)), ("err_type", text("Corrected")), ("err_count", Value::Number(1)), address.clone()];
    let extlog = [("timestamp", text(AT)), ("severity", Value::Number(2)), address];
    let mut rows = Rows::new(Clock::default(), Filled::default());
    let all = [
        row(Table::McEvent, &edac),
        row(Table::McEvent, &edac),
        row(Table::Extlog, &extlog),
        row(Table::MemoryFailure, &[("timestamp", text(AT)), ("pfn", text("0x12345"))]),
    ];
    assert_eq!(all.iter().filter_map(|row| rows.row(row)).count(), 2);
    assert_eq!(rows.end([]).repeated_count, 2);
}
