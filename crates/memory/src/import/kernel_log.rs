//! What the kernel prints of memory errors.
//!
//! | who | what |
//! |---|---|
//! | EDAC core | `EDAC MC0: 3 CE memory read error on LABEL (channel:1 slot:0 page:0x12345 offset:0x40 grain:32 syndrome:0x0 - DETAIL)`; `UE` has no syndrome |
//! | machine checks that no driver takes | `mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092`, then `TSC … ADDR … MISC …`, then `PROCESSOR …` |
//! | AMD's decoder | `[Hardware Error]: CPU:2 (19:1:1) MC18_STATUS[…]: 0xdc2040000000011b`, `Error Addr: 0x…`, `IPID: 0x…, Syndrome: 0x…` |
//! | firmware's records of the boot before (BERT) | `[Hardware Error]: event severity: fatal`, the same without a number |
//! | firmware's records (GHES) | `{1}[Hardware Error]: event severity: corrected`, `section_type: memory error`, `physical_address: 0x…`, `node: 0 card: 1 … row: 100 column: 24`, `DIMM location: …` |
//!
//! One error may be told by several of them: the record of a machine check or of firmware first, EDAC's line behind it. So a
//! record waits for some lines, and where EDAC's line comes it is left to that.

use super::journal::{self, Entry};
use super::kernel_time::{At, Origin, Stamps, is_stamp, without_since_boot};
use super::machine_check::{Gathered, hex, hex_after};
use super::{Clock, Line, NO_ZONE, Sink};
use crate::reports::{CpuVendor, McErrorType, McEvent, cut, mc_event, words};
use surefoot_hostfs::stamp::iso;
use surefoot_hostfs::usage;
use surefoot_model::{Digits, DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource};

/// So many lines after the last one of a record EDAC's line is still of the same error.
const WAIT_LINES: u64 = 12;

const HARDWARE_ERROR: &str = "[Hardware Error]: ";

/// What the kernel prints before that, besides the number of a firmware record.
const PREFIXES: [&str; 3] = ["", "mce: ", "BERT: "];

/// Whether a line is of a kernel's log.
pub(super) fn is_line(line: &str) -> bool {
    ["EDAC ", HARDWARE_ERROR, " kernel: ", "Linux version "].iter().any(|text| line.contains(text))
        || journal::entry(line).is_some()
        || line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .is_some_and(|(stamp, _)| is_stamp(stamp))
}

/// A record that waits to be told by EDAC, or else is told itself.
#[derive(Debug)]
enum Waiting {
    MachineCheck(Box<Gathered>),
    Firmware(Box<Firmware>),
}

#[derive(Debug)]
struct Pending {
    waiting: Waiting,
    at_realtime_ns: u64,
    /// Its last line, as [`KernelLog::taken`] counts.
    line: u64,
}

/// A section of a firmware record.
#[derive(Debug, Default)]
struct Firmware {
    /// Its first line.
    line: u64,
    /// The same, as [`KernelLog::taken`] counts.
    began: u64,
    /// When firmware says that it was, where it vouches for that.
    at_realtime_ns: u64,
    /// What stands in braces before each of its lines.
    tag: String,
    severity: Severity,
    /// Its headline `Error 0, type: …` was read.
    is_section: bool,
    /// What the section is of; empty where it does not say.
    kind: String,
    location: DramLocation,
    label: String,
    what: String,
}

/// How bad firmware says an error is.
#[derive(Debug, Default)]
enum Severity {
    #[default]
    NotTold,
    Known(ErrorSeverity),
    /// In a word that is not known.
    Unknown(String),
}

/// A reader of such a log.
#[derive(Debug)]
pub(super) struct KernelLog {
    stamps: Stamps,
    /// The stamp of the line.
    at: At,
    /// The line before was of a report.
    was_of_report: bool,
    /// The report of EDAC's that the line before was, which syslog may say was repeated.
    last: Option<ErrorReport>,
    /// The kernel says that it handed machine checks to a program.
    handed_on: bool,
    pending: Option<Pending>,
    /// The address of EDAC's last line, and which line that was: firmware's record of the same error may come behind it.
    told: Option<(u64, u64)>,
    /// Lines so far. In a log of several hosts those of others are not taken.
    taken: u64,
    /// The boot of the entry of the journal before.
    boot: Option<String>,
}

impl KernelLog {
    pub fn new(clock: Clock) -> KernelLog {
        KernelLog {
            stamps: Stamps::new(clock),
            at: At::default(),
            was_of_report: false,
            last: None,
            handed_on: false,
            pending: None,
            told: None,
            taken: 0,
            boot: None,
        }
    }

    /// Another boot begins: nothing that waits goes on in it, and the kernel's numbers of records begin anew.
    fn reboot(&mut self, sink: &mut Sink<'_>) {
        self.flush(sink);
        self.interrupt();
        self.told = None;
    }

    pub fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Line {
        self.taken += 1;
        match journal::entry(line) {
            None => {
                let (at, origin, said) = self.stamps.take(line);
                self.at_time(at, origin, said, sink)
            }
            Some(Entry::Kernel { at_realtime_ns, boot, message }) => {
                if boot.is_some() && boot != self.boot {
                    if self.boot.is_some() {
                        self.reboot(sink);
                    }
                    self.boot = boot;
                }
                let at = At { realtime_ns: at_realtime_ns, ..At::default() };
                // The kernel's entries have one line; what stands behind a line feed is not left out.
                let lines = message.lines().map(|said| self.at_time(at, Origin::Kernel, said, sink));
                lines.reduce(|first, next| if first == Line::Other { next } else { first }).unwrap_or(Line::Other)
            }
            Some(Entry::OfProgram) => of_program(line),
            // Whatever it said: journald writes null for words that are too long.
            Some(Entry::Unreadable) => {
                Line::NotUnderstood("an entry of the journal that is cut or damaged, or without its words")
            }
            Some(Entry::NoTransport) if ["EDAC ", HARDWARE_ERROR].iter().any(|text| line.contains(text)) => {
                Line::NotUnderstood(
                    "an entry of the journal without _TRANSPORT, which says whether the kernel wrote it",
                )
            }
            Some(Entry::NoTransport) => Line::Other,
        }
    }

    fn at_time(&mut self, at: At, origin: Origin, said: &str, sink: &mut Sink<'_>) -> Line {
        self.at = at;
        if let Some((times, what)) = folded(said) {
            return self.repeated(times, what, origin, at.realtime_ns, sink);
        }
        self.last = None;
        let line = self.said(said, origin, at.realtime_ns, sink);
        self.was_of_report = line != Line::Other;
        line
    }

    /// Lines of another reader or host came between: a line that says the one before was repeated means those.
    pub fn interrupt(&mut self) {
        (self.was_of_report, self.last) = (false, None);
    }

    /// A line of syslog's in place of `times` lines, which are of what it quotes or else of the line before.
    fn repeated(&mut self, times: Option<u32>, what: &str, origin: Origin, at_ns: u64, sink: &mut Sink<'_>) -> Line {
        const NOT_COUNTED: Line = Line::NotUnderstood(
            "syslog folded errors into a count of repeated lines: `journalctl -k` has each of them",
        );
        match (origin, what) {
            (Origin::Program, what) => return of_program(what),
            (Origin::Kernel, "") | (Origin::Syslog, _) => {}
            (Origin::Kernel, what) => {
                self.interrupt();
                let said = without_since_boot(what.trim_start());
                if !said.starts_with("EDAC MC") {
                    return if is_about_memory(said) { NOT_COUNTED } else { Line::Other };
                }
                let Some(times) = times else { return NOT_COUNTED };
                let line = self.edac(&said["EDAC ".len()..], at_ns, times, sink);
                self.was_of_report = line != Line::Other;
                return line;
            }
        }
        let again = self.last.clone().zip(times).and_then(|(last, times)| {
            Some(ErrorReport { count: last.count.checked_mul(times)?, at_realtime_ns: at_ns, ..last })
        });
        match again {
            Some(report) => {
                self.tell(report, sink);
                Line::OfReport
            }
            None if self.was_of_report => NOT_COUNTED,
            None => Line::Other,
        }
    }

    fn said(&mut self, said: &str, origin: Origin, at_ns: u64, sink: &mut Sink<'_>) -> Line {
        if self.pending.as_ref().is_some_and(|pending| self.taken > pending.line + WAIT_LINES) {
            self.flush(sink);
        }
        if origin != Origin::Kernel {
            return of_program(said);
        }
        if said.starts_with("Linux version ") {
            self.reboot(sink);
        }
        // The kernel's own lines begin so. Farther back it is what another program said.
        if let Some(rest) = said.strip_prefix("EDAC ") {
            return self.edac(rest, at_ns, 1, sink);
        }
        match said.split_once(HARDWARE_ERROR) {
            Some((tag, rest)) if is_record_number(tag) => return self.firmware(tag, rest.trim(), at_ns, sink),
            Some((prefix, rest)) if PREFIXES.contains(&prefix) => {
                return self.of_no_number(prefix, rest.trim(), at_ns, sink);
            }
            _ if of_program(said) == Line::NotFromKernel => return Line::NotFromKernel,
            _ => {}
        }
        if said.starts_with("BERT: Max print length exceeded") {
            sink.totals.note(NOT_PRINTED);
            return Line::OfReport;
        }
        // The machine check that it follows is told by its record.
        if said.starts_with("mce: Uncorrected hardware memory error") { Line::OfReport } else { Line::Other }
    }

    pub fn end(&mut self, sink: &mut Sink<'_>) {
        self.flush(sink);
        if self.handed_on && sink.totals.report_count + sink.totals.other_unit_count == 0 {
            sink.totals.note(
                "The kernel says that it logged machine checks, and this log has none of them: a program such as rasdaemon or \
                 mcelog took them. Import what that program keeps.",
            );
        }
        if self.stamps.leaves_a_boot_out() {
            sink.totals.note(
                "This log is of several boots: --booted dates the lines of the first one, and those of the others are undated.",
            );
        }
        if self.stamps.is_shared() && sink.totals.report_count > 0 {
            sink.totals.note(
                "Any user can write a line that looks like the kernel's to syslog or the journal (`logger -t kernel`), and this text \
                 does not show the difference; `journalctl -k -o json` does.",
            );
        }
    }

    /// Tells the record that waits.
    fn flush(&mut self, sink: &mut Sink<'_>) {
        let Some(pending) = self.pending.take() else { return };
        let report = match pending.waiting {
            Waiting::MachineCheck(mut gathered) => {
                if gathered.record.at_realtime_ns == 0 {
                    gathered.record.at_realtime_ns = pending.at_realtime_ns;
                }
                sink.machine_check(&gathered)
            }
            Waiting::Firmware(section) if section.tag == BEFORE_BOOT => {
                // Neither the line nor the time of this boot dates it.
                if let Some(mut report) = section.report(0, sink) {
                    report.source = MemorySource::KernelLog;
                    sink.report(report);
                }
                return;
            }
            Waiting::Firmware(section) => {
                let address = section.location.address;
                let is_told = self.told.is_some_and(|(told, line)| {
                    Some(told) == address && section.began.saturating_sub(line) <= WAIT_LINES
                });
                if is_told {
                    sink.totals.repeated_count += 1;
                    return;
                }
                section.report(pending.at_realtime_ns, sink)
            }
        };
        if let Some(report) = report {
            self.tell(report, sink);
        }
    }

    fn tell(&self, mut report: ErrorReport, sink: &mut Sink<'_>) {
        report.source = MemorySource::KernelLog;
        sink.totals.has_seconds_since_boot |= report.at_realtime_ns == 0 && self.at.is_since_boot;
        if self.at.is_relative {
            sink.totals.note(
                "Some lines tell only how long after the line before they came (dmesg -e, -H, --time-format delta): they are \
                 dated to the minute that stands above them, or undated. `dmesg --time-format iso` dates each line.",
            );
        } else if self.at.is_local && report.at_realtime_ns > 0 {
            sink.totals.note(NO_ZONE);
        }
        sink.report(report);
    }

    /// A line of EDAC's that came so many times.
    fn edac(&mut self, said: &str, at_ns: u64, times: u32, sink: &mut Sink<'_>) -> Line {
        if let Some(lost) = said.split_once("Lost ").and_then(|(_, rest)| rest.split_once(" memory errors")) {
            let Some(count) = lost.0.trim().digits::<u64>() else {
                return Line::NotUnderstood("the driver lost errors and the line does not say how many");
            };
            sink.totals.lost_count = sink.totals.lost_count.saturating_add(count);
            sink.totals.note("The driver says that it lost memory errors: its ring was full before it was emptied.");
            return Line::OfReport;
        }
        let Some((index, words)) = said.strip_prefix("MC").and_then(|rest| rest.split_once(": ")) else {
            // `EDAC skx MC0: CPU 0: Machine Check Event …` and such are of the error that the next line of the core tells.
            let is_of_error =
                ["Machine Check Event", "MACHINE CHECK", "MCE MEMORY ERROR", "TSC ", "ADDR ", "MISC ", "PROCESSOR "];
            return if is_of_error.iter().any(|text| said.contains(text)) { Line::OfReport } else { Line::Other };
        };
        // `EDAC MC: Ver: 3.0.0` is of the core itself.
        if index.is_empty() || words.starts_with("Giving out device") || words.starts_with("Removed device") {
            return Line::Other;
        }
        let Some(index) = index.digits::<u32>() else {
            return Line::NotUnderstood("EDAC's line has no number of a memory controller");
        };
        match edac_event(index, words, at_ns) {
            Ok(event) => {
                let mut report = mc_event(&event);
                self.last = Some(report.clone());
                let Some(count) = report.count.checked_mul(times) else {
                    return Line::NotUnderstood("EDAC's line came more times than can be counted");
                };
                report.count = count;
                if report.at_realtime_ns == 0
                    && let Some(pending) = &self.pending
                {
                    report.at_realtime_ns = pending.at_realtime_ns;
                }
                // The record that waited tells the same error, unless both have an address and they differ.
                let address = report.location.address;
                let is_other = matches!(&self.pending, Some(Pending { waiting: Waiting::Firmware(section), .. })
                    if section.location.address.zip(address).is_some_and(|(one, two)| one != two));
                if is_other {
                    self.flush(sink);
                }
                self.pending = None;
                self.told = address.map(|address| (address, self.taken));
                self.tell(report, sink);
                Line::OfReport
            }
            Err(why) => Line::NotUnderstood(why),
        }
    }

    /// A line whose record has no number: of a machine check, or of firmware's records of the boot before.
    fn of_no_number(&mut self, prefix: &str, said: &str, at_ns: u64, sink: &mut Sink<'_>) -> Line {
        if let Some(count) = said.strip_prefix("Skipped ").and_then(|rest| rest.strip_suffix(" error records")) {
            let Some(count) = count.digits::<u64>() else {
                return Line::NotUnderstood(
                    "the kernel left out firmware's records and the line does not say how many",
                );
            };
            sink.totals.lost_count = sink.totals.lost_count.saturating_add(count);
            sink.totals.note(NOT_PRINTED);
            return Line::OfReport;
        }
        let is_open = matches!(&self.pending, Some(Pending { waiting: Waiting::Firmware(section), .. })
            if section.tag == BEFORE_BOOT);
        let is_of_firmware = said.starts_with("event severity: ") || is_open && status(said).is_none();
        if prefix.is_empty() && is_of_firmware {
            return self.firmware(BEFORE_BOOT, said, 0, sink);
        }
        self.machine_check(said, at_ns, sink)
    }

    fn machine_check(&mut self, said: &str, at_ns: u64, sink: &mut Sink<'_>) -> Line {
        let number = sink.totals.line_count;
        if let Some(status) = status(said) {
            self.flush(sink);
            let mut gathered = Gathered { has_status: true, line: number, ..Gathered::default() };
            gathered.record.status = status.status;
            gathered.record.bank = Some(status.bank);
            gathered.record.cpu = Some(status.cpu);
            gathered.record.vendor = status.vendor;
            // The core's own line is the same for all of them.
            gathered.is_vendor_told = status.vendor == CpuVendor::Amd;
            let waiting = Waiting::MachineCheck(Box::new(gathered));
            self.pending = Some(Pending { waiting, at_realtime_ns: at_ns, line: self.taken });
            return Line::OfReport;
        }
        if let Some(Pending { waiting: Waiting::MachineCheck(gathered), line, .. }) = &mut self.pending {
            let is_taken = if let Some(address) = said.strip_prefix("Error Addr: ").and_then(hex) {
                gathered.record.addr = address;
                true
            } else if said.contains("IPID: ") {
                gathered.record.ipid = hex_after(said, "IPID").unwrap_or(0);
                gathered.record.synd = hex_after(said, "Syndrome").unwrap_or(0);
                true
            } else {
                gathered.take_processor(said) || gathered.take_registers(said)
            };
            if is_taken {
                *line = self.taken;
                return Line::OfReport;
            }
        }
        self.handed_on |= said.contains("Machine check events logged");
        if is_about_a_record(said) {
            Line::OfReport
        } else {
            Line::NotUnderstood("words of a hardware error that are not known")
        }
    }

    fn firmware(&mut self, tag: &str, said: &str, at_ns: u64, sink: &mut Sink<'_>) -> Line {
        let number = sink.totals.line_count;
        let is_section = said.starts_with("Error ") && said.contains(", type: ");
        // Each record has a number, and the lines of two may follow each other without a headline.
        let same = match &self.pending {
            Some(Pending { waiting: Waiting::Firmware(section), .. }) => {
                Some(section).filter(|section| section.tag == tag)
            }
            _ => None,
        };
        // The first section goes on from the lines above it, which are of the whole record.
        let is_new = said.starts_with("Hardware error from APEI")
            || tag == BEFORE_BOOT && said.starts_with("event severity: ")
            || is_section && same.is_some_and(|section| section.is_section || !section.kind.is_empty());
        if is_new || same.is_none() {
            self.flush(sink);
            let section = Firmware { line: number, began: self.taken, tag: cut(tag), ..Firmware::default() };
            let waiting = Waiting::Firmware(Box::new(section));
            self.pending = Some(Pending { waiting, at_realtime_ns: at_ns, line: self.taken });
        }
        let Some(Pending { waiting: Waiting::Firmware(section), line, .. }) = &mut self.pending else {
            return Line::Other;
        };
        *line = self.taken;
        section.is_section |= is_section;
        section.take(said);
        Line::OfReport
    }
}

/// The event of the core's line; why not, otherwise.
fn edac_event(index: u32, said: &str, at_realtime_ns: u64) -> Result<McEvent, &'static str> {
    let (count, rest) = said.split_once(' ').unwrap_or((said, ""));
    let count = count.digits().ok_or("EDAC's line begins with no number of errors, as kernels before 3.6 print it")?;
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let error_type = match kind {
        "CE" => McErrorType::Corrected,
        "UE" => McErrorType::Uncorrected,
        _ => return Err("EDAC's line says neither CE nor UE"),
    };
    let page_at = rest.find("page:0x").ok_or("EDAC's line has no page")?;
    let open = rest[..page_at].rfind('(').ok_or("EDAC's line has no place in parentheses")?;
    let (before, place) = (&rest[..open], &rest[open + 1..]);
    let (place, detail) = place.split_once(" - ").unwrap_or((place, ""));
    let number = |key: &str| words::pairs(place).find(|(name, _)| *name == key).map(|(_, value)| value);
    let layer = |key: &str| number(key).and_then(|value| i32::try_from(value).ok()).unwrap_or(-1);
    let page = number("page").ok_or("EDAC's page is no number")?;
    // The kernel counts in its own pages. An offset beyond one is of a kernel with others, and then the address is not known.
    let page_bytes = usage::page_bytes();
    let offset = number("offset").unwrap_or(0);
    let address = page.checked_mul(page_bytes).filter(|_| offset < page_bytes).map_or(0, |start| start | offset);
    // Grain is a size in bytes.
    let grain_bits = number("grain").filter(|&grain| grain > 0).map(|grain| (64 - (grain - 1).leading_zeros()) as u8);
    let (msg, label) = match before.trim_end().rsplit_once("on ") {
        Some((msg, label)) if msg.is_empty() || msg.ends_with(' ') => (msg.trim(), label.trim()),
        _ => (before.trim(), ""),
    };
    // The line names its layers, the event does not: what words of it say of the place goes with the driver's own.
    let (top_layer, middle_layer) = (layer("channel"), layer("slot"));
    let detail = detail.trim_end().trim_end_matches(')');
    Ok(McEvent {
        at_realtime_ns,
        at_ns: None,
        error_type,
        msg: msg.to_owned(),
        label: label.to_owned(),
        error_count: count,
        mc_index: Some(index),
        top_layer,
        middle_layer,
        lower_layer: -1,
        address,
        grain_bits,
        syndrome: number("syndrome").unwrap_or(0),
        driver_detail: format!("{detail} {}", layers_as_words(place)).trim().to_owned(),
    })
}

/// The layers that the line names, as `mc_event`'s text has them.
fn layers_as_words(place: &str) -> String {
    let known = |key: &str| matches!(key, "channel" | "slot" | "csrow");
    words::pairs(place).filter(|(key, _)| known(key)).map(|(key, value)| format!("{key}:{value} ")).collect()
}

struct Status {
    cpu: u32,
    bank: u32,
    status: u64,
    vendor: CpuVendor,
}

/// The first line of a machine check, the core's or AMD's.
fn status(said: &str) -> Option<Status> {
    if let Some(rest) = said.strip_prefix("CPU ") {
        let (cpu, rest) = rest.split_once(": Machine Check")?;
        let (_, rest) = rest.split_once("Bank ")?;
        let (bank, status) = rest.split_once(": ")?;
        let vendor = CpuVendor::Intel;
        return Some(Status { cpu: cpu.digits()?, bank: bank.digits()?, status: hex(status)?, vendor });
    }
    let rest = said.strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once(" MC")?;
    let (bank, rest) = rest.split_once("_STATUS[")?;
    let (_, status) = rest.split_once("]: ")?;
    Some(Status { cpu: cpu.digits()?, bank: bank.digits()?, status: hex(status)?, vendor: CpuVendor::Amd })
}

/// A line that the kernel did not write.
fn of_program(said: &str) -> Line {
    if is_about_memory(said) { Line::NotFromKernel } else { Line::Other }
}

/// Whether words look like a report of the kernel's.
fn is_about_memory(said: &str) -> bool {
    ["EDAC MC", HARDWARE_ERROR.trim_end()].iter().any(|text| said.contains(text))
}

/// `{1}`.
fn is_record_number(tag: &str) -> bool {
    tag.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|number| number.digits::<u64>().is_some())
}

/// Lines about a machine check that have no registers in them.
fn is_about_a_record(said: &str) -> bool {
    const KNOWN: &[&str] = &[
        "Machine check events logged",
        "Machine check: ",
        "Corrected error, no action required",
        "Deferred error, no action required",
        "Uncorrected, software",
        "System Fatal error",
        "Run the above through",
        "cache level:",
        "Ext. Error Code:",
        "RIP",
        "Some CPUs didn't answer",
        "Fake kernel panic",
        "This is not a software",
        "PPIN:",
        "FRU Text:",
        "DRAM ECC error",
        "Kernel panic",
    ];
    KNOWN.iter().any(|text| said.contains(text))
}

impl Firmware {
    fn take(&mut self, said: &str) {
        let value = |name: &str| said.strip_prefix(name).map(str::trim);
        let severity = value("event severity: ").or_else(|| said.split_once(", type: ").map(|(_, kind)| kind.trim()));
        if let Some(word) = severity {
            self.severity = match word {
                "fatal" | "recoverable" => Severity::Known(ErrorSeverity::Uncorrected),
                "corrected" | "info" => Severity::Known(ErrorSeverity::Corrected),
                _ => Severity::Unknown(cut(word)),
            };
        } else if let Some(kind) = value("section_type: ").or_else(|| value("section type: ")) {
            self.kind = cut(kind);
        } else if let Some(address) = value("physical_address: ").and_then(hex) {
            self.location.address = Some(address);
        } else if let Some(mask) = value("physical_address_mask: ").and_then(hex) {
            self.location.grain_bits = u8::try_from(mask.trailing_zeros()).ok().filter(|&bits| bits < 64);
        } else if let Some(text) = value("fru_text: ") {
            self.label = cut(text);
        } else if let Some(text) = value("DIMM location: ").filter(|text| !text.starts_with("not present")) {
            // Firmware that names the slot says it better than what it calls the part.
            self.label = cut(text);
        } else if let Some(text) = value("precise tstamp: ") {
            self.at_realtime_ns = iso(text).unwrap_or(0);
        } else if let Some(text) = value("error_type: ") {
            self.what = text.split_once(", ").map_or(text, |(_, words)| words).to_owned();
        } else if said.starts_with("node:")
            || said.starts_with("card:")
            || said.contains(" row:")
            || said.starts_with("rank:")
        {
            self.location = words::merged(words::location(said), self.location);
        }
    }

    /// The report of a section of memory; `None` for one of another unit, and for one that cannot be read, which is counted.
    fn report(self, at_realtime_ns: u64, sink: &mut Sink<'_>) -> Option<ErrorReport> {
        if OTHER_SECTIONS.contains(&self.kind.as_str()) {
            return None;
        }
        if self.kind.is_empty() {
            let how_bad = match &self.severity {
                Severity::NotTold => "",
                Severity::Known(ErrorSeverity::Uncorrected) => "an uncorrected error",
                Severity::Known(_) => "a corrected error",
                Severity::Unknown(word) => word,
            };
            let why = "a firmware record that does not say which unit the error is of";
            sink.totals.record_not_understood(self.line, why, how_bad);
            return None;
        }
        let severity = match self.severity {
            Severity::Known(severity) if self.kind == "memory error" => severity,
            Severity::Known(_) => {
                sink.totals.record_not_understood(
                    self.line,
                    "a firmware record of a kind that is not known",
                    &self.kind,
                );
                return None;
            }
            Severity::NotTold => {
                sink.totals.record_not_understood(
                    self.line,
                    "a firmware record that does not say how bad the error is",
                    "",
                );
                return None;
            }
            Severity::Unknown(word) => {
                sink.totals.record_not_understood(self.line, "a firmware record whose severity is not known", &word);
                return None;
            }
        };
        let is_of_boot_before = self.tag == BEFORE_BOOT;
        if is_of_boot_before {
            sink.totals.note(
                "Errors of the boot before (BERT) are dated by firmware, whose clock is read as UTC, or undated: the kernel prints \
                 them when it boots.",
            );
        }
        Some(ErrorReport {
            at_realtime_ns: if is_of_boot_before { self.at_realtime_ns } else { at_realtime_ns },
            at_ns: None,
            source: MemorySource::KernelLog,
            severity,
            dimm: None,
            label: self.label,
            count: 1,
            fidelity: Fidelity::Sampled,
            location: self.location,
            detail: cut(&format!("firmware record; {}", self.what)),
        })
    }
}

/// Sections of a firmware record that are of other units than memory, as the kernel names them.
const OTHER_SECTIONS: [&str; 6] = [
    "general processor error",
    "IA32/X64 processor error",
    "PCIe error",
    "ARM processor error",
    "Firmware Error Record Reference",
    "CXL Protocol Error",
];

/// In place of the number of a record: firmware's records of the boot before (`drivers/acpi/apei/bert.c`) have none.
const BEFORE_BOOT: &str = "BERT";

/// Of records that the kernel does not print.
const NOT_PRINTED: &str = "The kernel left out some of firmware's records of the boot before: /sys/firmware/acpi/tables/data/BERT has all of \
                           them.";

/// What syslog says instead of repeating a line: how many times, `None` where that is no number that can be, and the line itself, or
/// nothing where it means the one before. `None` for another line.
fn folded(said: &str) -> Option<(Option<u32>, &str)> {
    let (before, rest) = said.split_once("message repeated ")?;
    let (count, rest) = rest.split_once(" times").or_else(|| rest.split_once(" time"))?;
    let is_whole = before.is_empty() || before.trim_end() == "last";
    let count = count.digits::<u32>().filter(|&count| count > 0);
    is_whole.then(|| (count, rest.strip_prefix(": [").map_or("", |rest| rest.strip_suffix(']').unwrap_or(rest))))
}

#[cfg(test)]
#[path = "kernel_log_tests.rs"]
mod tests;
