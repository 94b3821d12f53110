//! The log of mcelog: a record of several lines for each machine check, `STATUS` near its end and `CPUID` last.

use super::kernel_time::stamped;
use super::machine_check::{Gathered, decimal_after, hex_after};
use super::{Clock, Line, Sink};
use crate::reports::CpuVendor;
use surefoot_model::{Digits, MemorySource};

/// No record has more lines; what comes after is not of it.
const LINES_MAX: u32 = 64;

/// Whether a line begins a record of mcelog's.
pub(super) fn is_begin(line: &str) -> bool {
    untagged(line).is_some_and(|(_, words)| begins(words))
}

/// Whose line it is, as far as syslog's tag tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Mcelog,
    /// The kernel's or another program's.
    Another,
    /// It has no stamp of syslog.
    Untold,
}

pub(super) fn owner(line: &str) -> Owner {
    match stamped(line, &Clock::default()) {
        Some((_, tag, _)) if is_mcelog(tag) => Owner::Mcelog,
        Some(_) => Owner::Another,
        None => Owner::Untold,
    }
}

fn is_mcelog(tag: &str) -> bool {
    tag == "mcelog" || tag.starts_with("mcelog[")
}

fn begins(line: &str) -> bool {
    line.starts_with("Hardware event. This is not a software error")
        || line.starts_with("HARDWARE ERROR. This is *NOT* a software problem")
        || is_numbered(line)
}

/// `MCE 0`, without anything behind it.
fn is_numbered(line: &str) -> bool {
    let digits = line.strip_prefix("MCE ").map(str::trim);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// A line without `mcelog: `, and without what syslog puts before that; `None` for one of another program. Whether it had such a tag.
fn untagged(line: &str) -> Option<(bool, &str)> {
    match stamped(line, &Clock::default()) {
        Some((_, tag, words)) => is_mcelog(tag).then_some((true, words)),
        None => match line.trim_start().split_once(": ") {
            Some((tag, words)) if is_mcelog(tag) => Some((true, words)),
            _ => Some((line.trim_start().starts_with("mcelog"), line)),
        },
    }
}

/// A line of another program in a shared log.
pub(super) fn of_program(line: &str) -> Line {
    let places = line.match_indices(' ').map(|(at, _)| at + 1);
    let is_alike = [0].into_iter().chain(places).any(|at| {
        let words = &line[at..];
        begins(words.strip_prefix("mcelog: ").unwrap_or(words))
    });
    if is_alike { Line::NotFromKernel } else { Line::Other }
}

/// A reader of such a log.
#[derive(Debug, Default)]
pub(super) struct Mcelog {
    open: Option<Gathered>,
    lines: u32,
    /// The line that said `Hardware event` has come, and the record's own first line not yet.
    announced: bool,
}

impl Mcelog {
    pub fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Line {
        let Some((is_tagged, line)) = untagged(line) else { return of_program(line) };
        let line = line.trim();
        if line.is_empty() {
            return Line::Other;
        }
        if begins(line) {
            // The announcement and the number begin one record, or either does alone.
            if !(self.announced && is_numbered(line)) {
                self.close(sink);
            }
            self.announced = !is_numbered(line);
            let number = sink.totals.line_count;
            self.open.get_or_insert_with(|| Gathered { line: number, ..Gathered::default() });
            self.lines = 0;
            return Line::OfReport;
        }
        self.lines += 1;
        if self.lines > LINES_MAX {
            self.close(sink);
        }
        let Some(open) = &mut self.open else {
            // The program's words of itself.
            return if is_tagged { Line::Other } else { Line::NotUnderstood("it belongs to no record of mcelog") };
        };
        take(open, line);
        Line::OfReport
    }

    pub fn end(&mut self, sink: &mut Sink<'_>) {
        self.close(sink);
    }

    fn close(&mut self, sink: &mut Sink<'_>) {
        self.announced = false;
        let Some(open) = self.open.take() else { return };
        if !open.has_status {
            sink.totals.record_not_understood(open.line, "a record without STATUS; the log may be cut off there", "");
            return;
        }
        if let Some(mut report) = sink.machine_check(&open) {
            report.source = MemorySource::Mcelog;
            sink.report(report);
        }
    }
}

fn take(open: &mut Gathered, line: &str) {
    let number = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    if line.starts_with("CPU ") && line.contains("BANK") {
        open.record.cpu = number(decimal_after(line, "CPU "));
        open.record.bank = number(decimal_after(line, "BANK "));
    }
    // A line of words could name any of these; registers stand alone or beside others.
    if line.starts_with("MISC ") || line.starts_with("ADDR ") || line.starts_with("CPU ") || line.starts_with("SYND ") {
        open.take_registers(line);
    }
    if line.starts_with("TIME ") {
        open.record.at_realtime_ns = decimal_after(line, "TIME ").unwrap_or(0).saturating_mul(1_000_000_000);
    }
    if line.starts_with("STATUS ") {
        if let Some(status) = hex_after(line, "STATUS") {
            (open.record.status, open.has_status) = (status, true);
        }
        open.record.mcgstatus = hex_after(line, "MCGSTATUS").unwrap_or(0);
    }
    if line.starts_with("MCGCAP ") {
        open.record.mcgcap = hex_after(line, "MCGCAP").unwrap_or(0);
        // Its base is not said; sockets from 10 on are rare, and both readings agree below.
        open.record.socketid = number(hex_after(line, "SOCKETID"));
    }
    // Both have two bits (Intel SDM volume 3B, "Incremental MC Error Codes of Memory Controllers").
    let word =
        |name: &str| line.strip_prefix(name).and_then(|word| word.trim().digits::<u32>()).filter(|&word| word < 4);
    open.module.0 = word("Memory DIMM ID of error:").or(open.module.0);
    open.module.1 = word("Memory channel ID of error:").or(open.module.1);
    if let Some(vendor) = line.strip_prefix("CPUID Vendor ") {
        open.is_vendor_told = true;
        open.record.vendor = match vendor.split_whitespace().next() {
            Some("Intel") => CpuVendor::Intel,
            Some("AMD" | "Hygon") => CpuVendor::Amd,
            _ => CpuVendor::Other,
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{Clock, Format, Import, detect};
    use surefoot_model::{ErrorSeverity, Fidelity};

    const RECORD: &str = "\
Hardware event. This is not a software error.
MCE 0
CPU 6 BANK 7 TSC 5f4d1c6c1c8
MISC 8c ADDR 123457040
TIME 1700000000 Tue Nov 14 22:13:20 2023
MCG status:
MCi status:
Corrected error
MCi_MISC register valid
MCi_ADDR register valid
MCA: MEMORY CONTROLLER RD_CHANNEL2_ERR
Transaction: Memory read error
STATUS 8c00014000010092 MCGSTATUS 0
MCGCAP f000c14 APICID 20 SOCKETID 1
MICROCODE d0003a5
CPUID Vendor Intel Family 6 Model 106 Step 6
";

    #[test]
    fn a_record_is_a_report_and_every_line_is_counted() {
        let mut import = Import::new(Format::Mcelog, Clock::default());
        let mut reports = Vec::new();
        let cache = RECORD.replace("8c00014000010092", "8c00000000000134");
        let text =
            format!("{RECORD}{cache}stray\n\nHardware event. This is not a software error.\nMCE 2\nCPU 1 BANK 2\n");
        // The line after the last line of a record is taken for its own: the log has no end mark.
        text.lines().for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        let [report] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!((report.count, report.fidelity, report.severity), (5, Fidelity::Exact, ErrorSeverity::Corrected));
        assert_eq!((report.location.channel, report.location.socket), (Some(2), Some(1)));
        assert_eq!(report.location.address, Some(0x1_2345_7000));
        assert_eq!(report.at_realtime_ns, 1_700_000_000_000_000_000);
        assert_eq!(report.dimm.as_deref(), Some("socket1/channel2"));
        assert_eq!((totals.other_unit_count, totals.other_count, totals.not_understood_count), (1, 1, 1));
        assert_eq!(totals.line_count, totals.of_report_count + totals.other_count + totals.not_understood_count);
        assert!(totals.not_understood[0].why.starts_with("a record without STATUS"));
    }

    /// In a log of syslog that all programs write to, a record is of mcelog only if its lines have that tag.
    #[test]
    fn a_record_that_another_program_wrote_is_not_believed() {
        let read = |tag: &str| {
            let mut import = Import::new(Format::Mcelog, Clock::default());
            let mut reports = Vec::new();
            let tagged = |line: &str| format!("Nov 23 08:00:00 host {tag}: {line}");
            RECORD.lines().for_each(|line| import.line(&tagged(line), &mut reports));
            let totals = import.end(&mut reports);
            (reports.len(), totals.not_from_kernel_count, totals.of_report_count)
        };
        assert_eq!(read("mcelog"), (1, 0, 16));
        assert_eq!(read("mcelog[812]"), (1, 0, 16));
        assert_eq!(read("evil[77]"), (0, 2, 0));
        assert_eq!(read("evil[77]: mcelog"), (0, 2, 0));
        let first = |tag: &str| detect([format!("Nov 23 08:00:00 host {tag}: MCE 0").as_str()]);
        assert_eq!((first("mcelog"), first("evil[77]: mcelog")), (Some(Format::Mcelog), None));
    }

    #[test]
    fn a_processor_that_is_not_known_is_not_one_without_memory_errors() {
        let mut import = Import::new(Format::Mcelog, Clock::default());
        let mut reports = Vec::new();
        RECORD.replace("Vendor Intel", "Vendor Elbrus").lines().for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        assert_eq!((reports.len(), totals.other_unit_count, totals.not_understood_count), (0, 0, 1));
    }

    /// As mcelog prints a record of Nehalem, whose memory controller tells the module in its own register.
    #[test]
    fn the_module_and_the_channel_in_words_are_the_place() {
        let of = |words: &str| {
            let mut import = Import::new(Format::Mcelog, Clock::default());
            let mut reports = Vec::new();
            let text = format!(
                "MCE 0\nCPU 1 BANK 8 TSC 1193fd60c6699\nMISC 8f44960800095840 ADDR 4a9f3b1c0\nMCG status:\n\
                 MCA: MEMORY CONTROLLER RD_CHANNELunspecified_ERR\nMemory corrected error count (CORE_ERR_CNT): 18\n{words}\
                 STATUS cc0004800001009f MCGSTATUS 0\nCPUID Vendor Intel Family 6 Model 26\n"
            );
            text.lines().for_each(|line| import.line(line, &mut reports));
            import.end(&mut reports);
            let [report] = reports.as_slice() else { panic!("{reports:?}") };
            (report.location.slot, report.location.channel, report.location.socket, report.count)
        };
        let words = "Memory DIMM ID of error: 1\nMemory channel ID of error: 0\n";
        assert_eq!(of(words), (Some(1), Some(0), None, 18));
        for words in
            ["", "Memory DIMM ID of error: 4\nMemory channel ID of error: x\n", "Memory DIMM ID of error: -1\n"]
        {
            assert_eq!(of(words), (None, None, None, 18), "{words}");
        }
    }

    /// Its end was cut off: it may be of any maker's processor.
    #[test]
    fn a_record_that_names_no_maker_is_no_record_of_another_unit() {
        let mut import = Import::new(Format::Mcelog, Clock::default());
        let mut reports = Vec::new();
        let text = RECORD.replace("8c00014000010092", "dc2040000000011b");
        text.lines().filter(|line| !line.starts_with("CPUID")).for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        assert_eq!((reports.len(), totals.other_unit_count, totals.not_understood_count), (0, 0, 1));
    }

    #[test]
    fn what_is_before_a_record_is_shown() {
        let mut import = Import::new(Format::Mcelog, Clock::default());
        let mut reports = Vec::new();
        import.line("Kernel does not support page offline interface", &mut reports);
        let totals = import.end(&mut reports);
        assert_eq!((totals.not_understood_count, totals.not_understood[0].line), (1, 1));
    }
}
