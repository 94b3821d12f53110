//! Rows of rasdaemon's database, `ras-mc_event.db`, as they are: the history's crate reads them, and that of memory errors understands them.

use std::collections::BTreeMap;

/// A table that tells of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// `mc_event`: EDAC.
    McEvent,
    /// `mce_record`: machine checks.
    MceRecord,
    /// `extlog_event`: firmware's records, through the extended log of Intel's processors.
    Extlog,
    /// `memory_failure_event`: pages that the kernel took out of use.
    MemoryFailure,
    /// `cxl_dram_event`.
    CxlDram,
    /// `cxl_general_media_event`.
    CxlGeneralMedia,
    /// `aer_event`: errors of PCIe, which are none of memory.
    Aer,
}

impl Table {
    /// In the order in which they are read.
    pub const ALL: [Table; 7] = [
        Table::McEvent,
        Table::MceRecord,
        Table::Extlog,
        Table::MemoryFailure,
        Table::CxlDram,
        Table::CxlGeneralMedia,
        Table::Aer,
    ];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Table::McEvent => "mc_event",
            Table::MceRecord => "mce_record",
            Table::Extlog => "extlog_event",
            Table::MemoryFailure => "memory_failure_event",
            Table::Aer => "aer_event",
            Table::CxlDram => "cxl_dram_event",
            Table::CxlGeneralMedia => "cxl_general_media_event",
        }
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A whole number; rasdaemon keeps registers of 64 bits so, and those over 2^63 come out negative.
    Number(i64),
    /// Text, on the way made valid UTF-8 and cut at 4 KiB.
    Text(String),
    /// Bytes, cut at 4 KiB.
    Bytes(Vec<u8>),
    /// A fraction, which no column has that is read.
    Fraction,
}

/// A row: its table, and its values by column. What is null is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Where it is from.
    pub table: Table,
    /// Its values.
    pub values: BTreeMap<&'a str, Value>,
}

impl Row<'_> {
    /// A number as the register that it was.
    pub fn number(&self, column: &str) -> Option<u64> {
        match self.values.get(column) {
            Some(&Value::Number(number)) => Some(number.cast_unsigned()),
            _ => None,
        }
    }

    /// Whether there is anything in a column, a number or not.
    pub fn has(&self, column: &str) -> bool {
        self.values.contains_key(column)
    }

    /// Bytes; empty where there are none.
    pub fn bytes(&self, column: &str) -> &[u8] {
        match self.values.get(column) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// A text; empty where there is none.
    pub fn text(&self, column: &str) -> &str {
        match self.values.get(column) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}
