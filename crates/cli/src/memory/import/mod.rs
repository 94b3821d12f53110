//! `surefoot memory import`: errors that others recorded, module by module.

mod read;
mod text;

pub use read::{FormatName, read};

use crate::memory::status::DimmLine;
use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::rfc3339;
use surefoot_hostfs::{Root, stamp};
use surefoot_memory::import::{Clock, Host, Modules, NotUnderstood, OneHost, Reading};
use surefoot_model::{Dimm, ErrorReport};
use surefoot_store::history::{Import, Kept};

#[derive(Args)]
pub struct ImportOptions {
    /// What to read: rasdaemon's database, a kernel log (dmesg, journalctl -k, also with -o json, syslog), mcelog's log, or what `ipmitool sel list` or
    /// `sel elist` printed, with -c or -v too; - is standard input; may be repeated
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the files are
    #[arg(long, value_enum, default_value_t = FormatName::Auto)]
    format: FormatName,
    /// Read only the errors of this host, by its name or machine ID; files that name no host are then taken as its own
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    host: Option<String>,
    /// When the kernel booted that wrote the log, such as 2026-11-23T08:00:00Z: dates lines that have seconds since boot alone
    #[arg(long, value_name = "TIME")]
    booted: Option<String>,
    /// Bring the reports into this history; stop the watch that writes it first
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// How many lines to show that were not understood, for each file
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    show: usize,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// A report, as it was read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "report")]
pub struct ReportLine<'a> {
    /// When, in words; `null` where the log does not tell.
    at_realtime: Option<String>,
    #[serde(flatten)]
    report: &'a ErrorReport,
}

/// A line that was not understood.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "not_understood")]
pub struct NotUnderstoodLine<'a> {
    file: &'a str,
    /// Its number, from 1; of a database the number of the row.
    line: u64,
    why: &'a str,
    text: &'a str,
}

/// The result of each file; the last lines of the stream.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "import")]
pub struct ImportLine<'a> {
    file: &'a str,
    /// What it is: `rasdaemon`, `kernel_log`, `mcelog` or `sel`.
    format: &'a str,
    /// Lines, or rows of a database.
    line_count: u64,
    report_count: u64,
    /// Errors that the reports stand for.
    error_count: u64,
    /// Reports that the log gives no time for.
    undated_count: u64,
    /// Errors that no module is named for.
    unknown_module_count: u64,
    of_report_count: u64,
    other_count: u64,
    /// Records of machine checks of other units than memory.
    other_unit_count: u64,
    /// Records that tell of an error that another record told already.
    repeated_count: u64,
    /// Lines that look like the kernel's and were written by a program.
    not_from_kernel_count: u64,
    not_understood_count: u64,
    /// Errors that the log itself says it lost.
    lost_count: u64,
    notes: &'a [String],
    /// The result of `--into` for all files together.
    #[serde(skip_serializing_if = "Option::is_none")]
    into: Option<KeptLine>,
}

/// How many reports `--into` added to the history, and why it did not add the others.
#[derive(Serialize, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Kept"))]
pub struct KeptLine {
    /// Reports that the history did not have before.
    kept_count: u64,
    /// Reports that the history had already, from an earlier import for example.
    already_kept_count: u64,
    /// Reports older than a history keeps records.
    too_old_count: u64,
    /// Reports without a time, which have no place in a history.
    undated_count: u64,
    /// Reports beyond the number that a history keeps: the oldest.
    left_out_count: u64,
}

impl From<Kept> for KeptLine {
    fn from(kept: Kept) -> Self {
        let Kept { kept_count, already_kept_count, too_old_count, undated_count, left_out_count } = kept;
        KeptLine { kept_count, already_kept_count, too_old_count, undated_count, left_out_count }
    }
}

pub fn run(options: &ImportOptions) -> anyhow::Result<Outcome> {
    let clock = clock(options.booted.as_deref())?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory import")?;
    }
    let this = this_host(&Root::host());
    let mut into = options.into.as_deref().map(Import::open).transpose().context("--into")?;
    let (mut modules, mut hosts) = (Modules::default(), OneHost::new(options.host.clone()));
    let mut readings = Vec::new();
    for file in &options.files {
        let unknown_before = modules.unknown_count;
        let take = &mut |report: &ErrorReport, host: Option<&Host>| {
            _ = modules.add(report);
            if let Some(into) = &mut into {
                into.take(&of_host(report, host, &this), clock.now_realtime_ns);
            }
            if options.json {
                let at = report.at_realtime_ns;
                output::line(&mut out, &ReportLine { at_realtime: (at > 0).then(|| rfc3339(at)), report })?;
            }
            Ok(())
        };
        let mut reading = hosts.read(|host, take| read(file, options.format, clock, host, take), take)?;
        reading.unknown_module_count = modules.unknown_count - unknown_before;
        readings.push(reading);
    }
    hosts.is_there()?;
    let kept = into.map(Import::finish).transpose()?;
    let dimms = modules.dimms();
    if options.json {
        lines(&mut out, &dimms, &readings, options.show, kept)?;
    } else {
        out.write_all(text::of(&dimms, &readings, options.show, kept).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// This host, as logs name theirs.
pub fn this_host(root: &Root) -> Host {
    let line = |path: PathBuf| root.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let machine = Some(line(root.path("etc/machine-id"))).filter(|machine| !machine.is_empty());
    Host { name: line(root.proc("sys/kernel/hostname")), machine }
}

/// A report as a history keeps it: the module of another host has that host's name before its own, so that it is never one of this host.
fn of_host(report: &ErrorReport, host: Option<&Host>, this: &Host) -> ErrorReport {
    let mut report = report.clone();
    if let (Some(host), Some(dimm)) = (host.filter(|host| !host.is(this)), &report.dimm) {
        report.dimm = Some(format!("{host}: {dimm}"));
    }
    report
}

/// The clock of the logs: now, and the boot that was named.
pub fn clock(booted: Option<&str>) -> anyhow::Result<Clock> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now_realtime_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let booted_realtime_ns = booted
        .map(|text| stamp::iso(text).ok_or_else(|| anyhow::anyhow!("--booted: {}", stamp::not_iso(text))))
        .transpose()?;
    ensure!(booted_realtime_ns.is_none_or(|ns| ns <= now_realtime_ns), "--booted: this time is still to come");
    Ok(Clock { now_realtime_ns, booted_realtime_ns })
}

fn lines(
    out: &mut impl Write,
    dimms: &[Dimm],
    readings: &[Reading],
    show: usize,
    kept: Option<Kept>,
) -> io::Result<()> {
    dimms.iter().try_for_each(|dimm| output::line(out, &DimmLine { dimm }))?;
    for reading in readings {
        for NotUnderstood { line, why, text } in reading.totals.not_understood.iter().take(show) {
            output::line(out, &NotUnderstoodLine { file: &reading.file, line: *line, why, text })?;
        }
    }
    for reading in readings {
        let totals = &reading.totals;
        output::line(
            out,
            &ImportLine {
                file: &reading.file,
                format: reading.format,
                line_count: totals.line_count,
                report_count: totals.report_count,
                error_count: reading.error_count,
                undated_count: reading.undated_count,
                unknown_module_count: reading.unknown_module_count,
                of_report_count: totals.of_report_count,
                other_count: totals.other_count,
                other_unit_count: totals.other_unit_count,
                repeated_count: totals.repeated_count,
                not_from_kernel_count: totals.not_from_kernel_count,
                not_understood_count: totals.not_understood_count,
                lost_count: totals.lost_count,
                notes: &totals.notes,
                into: kept.map(KeptLine::from),
            },
        )?;
    }
    Ok(())
}
