//! Reading a file of any of the formats.

use anyhow::ensure;
use clap::ValueEnum;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use surefoot_memory::import::{Clock, Filled, Format, Reading, Rows, Take, open_log, read_log};
use surefoot_store::rasdaemon::{for_each_row, is_database};

/// The option's word for the format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// By its first lines
    Auto,
    /// The database of rasdaemon
    Rasdaemon,
    /// dmesg, journalctl -k, syslog
    Kernel,
    /// The log of mcelog
    Mcelog,
    /// ipmitool sel list or sel elist
    Sel,
}

/// Reads a file to its end, of one host alone.
pub fn read(
    file: &Path,
    format: FormatName,
    clock: Clock,
    host: Option<&str>,
    take: &mut Take<'_>,
) -> anyhow::Result<Reading> {
    let is_stdin = file == Path::new("-");
    if !is_stdin && (format == FormatName::Rasdaemon || is_database(file)) {
        ensure!(
            matches!(format, FormatName::Auto | FormatName::Rasdaemon),
            "{}: this is a database, not a log; leave --format out",
            file.display()
        );
        return database(file, clock, take);
    }
    ensure!(
        !is_stdin || format != FormatName::Rasdaemon,
        "a database cannot be read from standard input; name its file"
    );
    let format = match format {
        FormatName::Auto => None,
        FormatName::Mcelog => Some(Format::Mcelog),
        FormatName::Sel => Some(Format::Sel),
        FormatName::Kernel | FormatName::Rasdaemon => Some(Format::KernelLog),
    };
    Ok(if is_stdin {
        read_log(BufReader::new(io::stdin()), file, format, (clock, host), take)?
    } else {
        read_log(BufReader::new(open_log(file)?), file, format, (clock, host), take)?
    })
}

fn database(file: &Path, clock: Clock, take: &mut Take<'_>) -> anyhow::Result<Reading> {
    let mut filled = Filled::default();
    for_each_row(file, |row| {
        filled.add(row);
        ControlFlow::Continue(())
    })?;
    let mut rows = Rows::new(clock, filled);
    let mut reading = Reading::new(file, "rasdaemon");
    let mut taken = Ok(());
    let skipped = for_each_row(file, |row| {
        let Some(report) = rows.row(row) else { return ControlFlow::Continue(()) };
        reading.count(&report);
        taken = take(&report, None);
        if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    taken?;
    reading.totals = rows.end(skipped.tables);
    Ok(reading)
}
