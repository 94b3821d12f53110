//! Reads what others recorded of memory errors: kernel logs, mcelog's log and event logs of a management controller line by line, rasdaemon's
//! database row by row.
//!
//! Every line is counted once: as part of a report, as one about other things, as one that looks like a report of the kernel's and
//! was written by a program, or as not understood. The last are kept with their number and the reason, up to a limit. Nothing is guessed.
//!
//! Lines are not trusted: they are cut at [`LINE_BYTES_MAX`] by who reads them, no parser panics, and nothing is kept of a line but
//! the record that it belongs to.
//!
//! ```
//! use surefoot_memory::import::{Clock, Format, Import};
//! let mut import = Import::new(Format::KernelLog, Clock::default());
//! let mut reports = Vec::new();
//! import.line(
//!     "[   12.5] EDAC MC0: 3 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x12345 \
//!      offset:0x40 grain:32 syndrome:0x0 -  err_code:0x0101:0x0091 Row:0x1a Column:0x8 Bank:0x1 BankGroup:0x2)",
//!     &mut reports,
//! );
//! let totals = import.end(&mut reports);
//! assert_eq!((reports[0].count, reports[0].location.row), (3, Some(0x1a)));
//! assert_eq!((totals.line_count, totals.not_understood_count), (1, 0));
//! ```

mod export;
mod file;
mod host;
mod journal;
mod kernel_log;
mod kernel_time;
mod log;
mod machine_check;
mod mcelog;
mod modules;
mod one_host;
mod rasdaemon;
mod sel;

pub use file::{Reading, Take, open_log, read_log};
pub use host::Host;
pub use modules::{MODULES_MAX, Modules};
pub use one_host::OneHost;
pub use rasdaemon::{Filled, Rows};
pub use surefoot_hostfs::stamp::Clock;

use crate::counted;
use crate::reports::{self, mce_record};
use host::Hosts;
use log::Log;
use machine_check::Gathered;
use sel::Sel;
use surefoot_model::{ErrorReport, one_line};

/// The longest line that is looked at; the rest of a longer one is left out.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// How many lines that are not understood are kept.
pub const NOT_UNDERSTOOD_KEPT_MAX: usize = 100;
/// How much of such a line is kept, characters.
const NOT_UNDERSTOOD_CHARACTERS_MAX: usize = 200;

/// A text that errors were recorded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// What the kernel prints: `dmesg`, `journalctl -k` (`-o json` and `-o export`, too), syslog.
    KernelLog,
    /// `/var/log/mcelog`.
    Mcelog,
    /// `ipmitool sel list`, `sel elist`, both with `-c` too, and `-v sel list`.
    Sel,
}

/// A line that looks as if it spoke of memory errors and was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub why: String,
    /// Its beginning.
    pub text: String,
}

/// What became of the lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// All of them.
    pub line_count: u64,
    /// Reports that they gave.
    pub report_count: u64,
    /// Lines of records of errors, those of other units among them.
    pub of_report_count: u64,
    /// Lines that have nothing to do with memory errors.
    pub other_count: u64,
    /// Records of errors that are not of memory: caches, buses, PCIe.
    pub other_unit_count: u64,
    /// Records that tell of an error that another record told already.
    pub repeated_count: u64,
    /// Lines that look like the kernel's or mcelog's and are of another program: any user can write such.
    pub not_from_kernel_count: u64,
    /// Lines of records of errors whose writer the log does not show: any user can write such with `logger`.
    pub writer_not_shown_count: u64,
    /// Lines that were not understood.
    pub not_understood_count: u64,
    /// The first of those.
    pub not_understood: Vec<NotUnderstood>,
    /// Errors that the log itself says it lost.
    pub lost_count: u64,
    /// Reports are undated that have seconds since boot, so that the time of the boot would date them.
    pub has_seconds_since_boot: bool,
    /// What the reader of the counts must know, each once.
    pub notes: Vec<String>,
}

impl Totals {
    /// Notes a thing once.
    pub fn note(&mut self, text: &str) {
        if self.notes.len() < 16 && !self.notes.iter().any(|known| known == text) {
            self.notes.push(text.to_owned());
        }
    }

    /// Counts a record that was not understood by its first line, which was counted as one of a record.
    pub(crate) fn record_not_understood(&mut self, line: u64, why: &str, text: &str) {
        self.of_report_count = self.of_report_count.saturating_sub(1);
        self.not_understood(line, why, text);
    }

    /// Counts a line or row that was not understood, and keeps it while there is room.
    pub fn not_understood(&mut self, line: u64, why: &str, text: &str) {
        self.not_understood_count += 1;
        if self.not_understood.len() < NOT_UNDERSTOOD_KEPT_MAX {
            let text = one_line(text.trim()).chars().take(NOT_UNDERSTOOD_CHARACTERS_MAX).collect();
            self.not_understood.push(NotUnderstood { line, why: why.to_owned(), text });
        }
    }
}

/// Of records that are dated before there could be any, or after now.
pub const NOT_PLAUSIBLE: &str =
    "Some records are dated before 1998 or after now: the clock that stamped them was not set, and they are undated.";

/// Of a log of local times.
pub const NO_ZONE: &str = "This log names no time zone: its times are read as UTC.";

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Of a report.
    OfReport,
    /// Of nothing that matters here.
    Other,
    /// Of a program, and it looks like a report of the kernel's.
    NotFromKernel,
    /// Of something that matters and cannot be read.
    NotUnderstood(&'static str),
}

/// What a reader of lines gives back besides what a line is.
pub(crate) struct Sink<'a> {
    pub clock: Clock,
    pub reports: &'a mut Vec<ErrorReport>,
    pub totals: &'a mut Totals,
}

impl Sink<'_> {
    /// The report of a machine check; `None` for one of another unit than memory, and for one that cannot be read. Both are counted.
    fn machine_check(&mut self, gathered: &Gathered) -> Option<ErrorReport> {
        let (record, line) = (&gathered.record, gathered.line);
        if let Some(why) = record.lacks() {
            self.totals.record_not_understood(line, why, "");
            return None;
        }
        let mut report = mce_record(record);
        if report.is_none() && !gathered.is_vendor_told {
            let why = "a machine check that names no maker of the processor; the log may be cut off there";
            self.totals.record_not_understood(line, why, "");
            return None;
        }
        if let Some(place) = report.as_mut().map(|report| &mut report.location) {
            let (module, channel) = gathered.module;
            (place.slot, place.channel) = (place.slot.or(module), place.channel.or(channel));
        }
        self.totals.other_unit_count += u64::from(report.is_none());
        report
    }

    pub fn report(&mut self, mut report: ErrorReport) {
        if report.at_realtime_ns != 0 && !self.clock.is_plausible(report.at_realtime_ns) {
            report.at_realtime_ns = 0;
            self.totals.note(NOT_PLAUSIBLE);
        }
        // What is known of another host's modules is their place.
        if report.dimm.is_none() {
            report.dimm = reports::place_of(&report);
        }
        self.totals.report_count += 1;
        self.reports.push(report);
    }
}

#[derive(Debug)]
enum Reader {
    Log(Box<Log>),
    Sel(Box<Sel>),
}

/// A log that is being read.
#[derive(Debug)]
pub struct Import {
    reader: Reader,
    clock: Clock,
    totals: Totals,
    hosts: Hosts,
}

impl Import {
    /// Begins a log.
    pub fn new(format: Format, clock: Clock) -> Import {
        let reader = match format {
            Format::KernelLog | Format::Mcelog => Reader::Log(Box::new(Log::new(clock, format == Format::Mcelog))),
            Format::Sel => Reader::Sel(Box::default()),
        };
        Import { reader, clock, totals: Totals::default(), hosts: Hosts::default() }
    }

    /// Leaves out the lines that name another host than this one, which is a name or a machine ID.
    #[must_use]
    pub fn of_host(mut self, host: Option<String>) -> Import {
        self.hosts = Hosts::only(host);
        self
    }

    /// The hosts whose errors were read so far, as far as the lines name them. Reports of several must not be mixed: their modules have the
    /// same names.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts.found
    }

    /// The first of the hosts that the log has in place of the one that is wanted; none where a line names that one.
    pub fn hosts_instead(&self) -> &[Host] {
        if self.hosts.is_wanted_there { &[] } else { &self.hosts.others }
    }

    /// Takes the next line, and adds the reports that are complete with it.
    pub fn line(&mut self, text: &str, reports: &mut Vec<ErrorReport>) {
        self.totals.line_count += 1;
        let text = text.trim_end_matches(['\n', '\r']);
        let end = (0..=text.len().min(LINE_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        let text = &text[..end];
        if self.hosts.leave_out(text) {
            self.totals.other_count += 1;
            return;
        }
        let mut sink = Sink { clock: self.clock, reports, totals: &mut self.totals };
        let line = match &mut self.reader {
            Reader::Log(log) => log.line(text, &mut sink),
            Reader::Sel(log) => log.line(text, &mut sink),
        };
        if matches!(line, Line::OfReport | Line::NotUnderstood(_)) && matches!(self.reader, Reader::Log(_)) {
            self.hosts.add(text);
        }
        // Only an entry of the journal says who wrote it, and of those only the kernel's are taken.
        let is_shown = matches!(self.reader, Reader::Sel(_)) || journal::host(text).is_some();
        self.totals.writer_not_shown_count += u64::from(line == Line::OfReport && !is_shown);
        match line {
            Line::OfReport => self.totals.of_report_count += 1,
            Line::Other => self.totals.other_count += 1,
            Line::NotFromKernel => self.totals.not_from_kernel_count += 1,
            Line::NotUnderstood(why) => self.totals.not_understood(self.totals.line_count, why, text),
        }
    }

    /// Ends the log: adds the report that its last lines may be of.
    pub fn end(mut self, reports: &mut Vec<ErrorReport>) -> Totals {
        let mut sink = Sink { clock: self.clock, reports, totals: &mut self.totals };
        match &mut self.reader {
            Reader::Log(log) => log.end(&mut sink),
            Reader::Sel(log) => log.end(&mut sink),
        }
        if self.hosts.left_out_count > 0 {
            let lines = counted(self.hosts.left_out_count, "line", "lines");
            self.totals.note(&format!("{lines} of other hosts left out."));
        }
        self.totals
    }
}

/// Why a text cannot be read although some program prints kernel logs so, by its first lines; `None` where it can be tried.
pub fn unread_form<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    lines.into_iter().any(journal::is_of_unread_form).then_some(
        "this is a form of journalctl in which an entry has many lines, which Surefoot does not read; use `journalctl -k -o json`",
    )
}

/// The format of a text by its first lines; `None` where none of them tells.
pub fn detect<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<Format> {
    let [mut kernel, mut mcelog, mut sel] = [0u32; 3];
    let mut is_shared = false;
    for line in lines {
        is_shared |= mcelog::owner(line) == mcelog::Owner::Another || journal::host(line).is_some();
        mcelog += u32::from(mcelog::is_begin(line));
        sel += u32::from(sel::is_line(line));
        kernel += u32::from(kernel_log::is_line(line));
    }
    let most = kernel.max(sel);
    match most {
        // A record of mcelog has one line that tells, and many that could be anything. In a log of all programs it is one of many.
        _ if mcelog > 0 && !is_shared => Some(Format::Mcelog),
        0 if mcelog == 0 => None,
        _ if sel == most && sel > 0 => Some(Format::Sel),
        _ => Some(Format::KernelLog),
    }
}
