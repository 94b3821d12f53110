//! A database that rasdaemon 0.6.8 made (`rasdaemon -f -r`), with rows in it as it writes them; and files that were made to harm.

use rusqlite::{Connection, params};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use surefoot_store::Error;
use surefoot_store::rasdaemon::{Skipped, Table, for_each_row, is_database};
use tempfile::TempDir;

const MADE: &[u8] = include_bytes!("fixtures/rasdaemon-0.6.8.db");

fn copy(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("ras-mc_event.db");
    std::fs::write(&path, MADE).unwrap();
    path
}

/// Table, status or address, and label.
type Seen = (Table, u64, String);

fn rows(path: &Path) -> Result<(Vec<Seen>, Skipped), Error> {
    let mut rows = Vec::new();
    let skipped = for_each_row(path, |row| {
        rows.push((
            row.table,
            row.number("status").or(row.number("address")).unwrap_or(0),
            row.text("label").to_owned(),
        ));
        ControlFlow::Continue(())
    })?;
    Ok((rows, skipped))
}

#[test]
fn the_rows_of_rasdaemon_come_out_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy(&directory);
    assert!(is_database(&path));
    assert_eq!(rows(&path).unwrap(), (Vec::new(), Skipped::default()), "rasdaemon has made the tables and saw nothing");
    let connection = Connection::open(&path).unwrap();
    let insert = "INSERT INTO mc_event VALUES (NULL, '2026-11-23 08:00:00 +0000', 3, 'Corrected', 'memory read error', ?1, 0, 1, 0,
                  -1, ?2, 5, 0, 'err_code:0x0101:0x0091 Row:0x10')";
    connection.execute(insert, params!["DIMM_A1", 0x1234_5000_i64]).unwrap();
    let insert = "INSERT INTO mce_record (timestamp, status, bank) VALUES ('2026-11-23 08:00:00 +0000', ?1, 7)";
    connection.execute(insert, params![0x8c00_0040_0001_0092_u64.cast_signed()]).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let (found, _) = rows(&path).unwrap();
    let expected =
        [(Table::McEvent, 0x1234_5000, "DIMM_A1".to_owned()), (Table::MceRecord, 0x8c00_0040_0001_0092, String::new())];
    assert_eq!(found, expected);
    assert_eq!(std::fs::read(&path).unwrap(), before, "it is only read");
}

#[test]
fn rows_that_are_in_the_log_alone_do_not_make_the_file_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy(&directory);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
    let insert = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                  INSERT INTO mc_event (label) SELECT 'A1' FROM n";
    writer.execute_batch(insert).unwrap();
    assert!(MADE.len() < 20_000 * 8, "more rows than the database itself has room for");
    assert_eq!(rows(&path).unwrap().0.len(), 20_000);
    drop(writer);
}

#[test]
fn rows_of_a_table_that_is_not_read_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy(&directory);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS cxl_poison_event (id INTEGER PRIMARY KEY)").unwrap();
    assert_eq!(rows(&path).unwrap().1, Skipped::default(), "a table without rows tells nothing");
    connection.execute_batch("INSERT INTO cxl_poison_event (id) VALUES (1)").unwrap();
    let [(table, why)] = &rows(&path).unwrap().1.tables[..] else { panic!("nothing is told") };
    assert!(*table == "cxl_poison_event" && why.contains("tell of memory"), "{table}: {why}");
}

#[test]
fn a_view_in_the_place_of_a_table_is_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evil.db");
    let endless = "CREATE VIEW mc_event AS WITH RECURSIVE n(label) AS (SELECT 1 UNION ALL SELECT label + 1 FROM n) SELECT label FROM n";
    Connection::open(&path).unwrap().execute_batch(endless).unwrap();
    let (found, skipped) = rows(&path).unwrap();
    assert_eq!((found.len(), skipped.tables), (0, vec![("mc_event", "it is a view, not a table".to_owned())]));
    let path = directory.path().join("computed.db");
    let computed = "CREATE TABLE mc_event (id INTEGER PRIMARY KEY, label TEXT AS (hex(zeroblob(100000000))))";
    Connection::open(&path).unwrap().execute_batch(computed).unwrap();
    assert_eq!(rows(&path).unwrap().1.tables, [("mc_event", "it has computed columns".to_owned())]);
}

#[test]
fn what_is_no_database_of_rasdaemon_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "EDAC MC0: 1 CE").unwrap();
    let said = rows(&text).unwrap_err().to_string();
    assert!(said.contains("it is no SQLite database"), "{said}");
    let other = directory.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    let said = rows(&other).unwrap_err().to_string();
    assert!(said.contains("none of its tables"), "{said}");
    assert!(matches!(rows(directory.path()), Err(Error::NotAFile { .. })));
    assert!(matches!(rows(&directory.path().join("none")), Err(Error::Open { .. })));
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy(&directory);
    {
        let connection = Connection::open(&path).unwrap();
        let insert = "INSERT INTO mc_event (label, driver_detail) VALUES (?1, ?2)";
        for number in 0..400 {
            connection.execute(insert, params![format!("DIMM_{number}"), "x".repeat(100)]).unwrap();
        }
    }
    let whole = std::fs::read(&path).unwrap();
    let mut failed = 0;
    for at in (100..whole.len()).step_by(499) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let end = (at + 8).min(bytes.len());
        bytes[at + 1..end].fill(0x7f);
        std::fs::write(&path, &bytes).unwrap();
        failed += usize::from(rows(&path).is_err());
        std::fs::write(&path, &whole[..at]).unwrap();
        failed += usize::from(rows(&path).is_err());
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_long_text_is_cut_and_an_enormous_one_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = copy(&directory);
    let insert = "INSERT INTO mc_event (label) VALUES (?1)";
    Connection::open(&path).unwrap().execute(insert, params!["x".repeat(100_000)]).unwrap();
    assert_eq!(rows(&path).unwrap().0[0].2.len(), 4096);
    Connection::open(&path).unwrap().execute(insert, params!["x".repeat(2 << 20)]).unwrap();
    let said = rows(&path).unwrap_err().to_string();
    assert!(said.contains("too big"), "{said}");
}
