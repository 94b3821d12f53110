use crate::import::{Clock, Format, Import, Totals};
use proptest::prelude::*;
use surefoot_model::{ErrorReport, ErrorSeverity, Fidelity};

fn read(text: &str) -> (Vec<ErrorReport>, Totals) {
    let mut import = Import::new(Format::KernelLog, Clock::default());
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let totals = import.end(&mut reports);
    (reports, totals)
}

const EDAC: &str = "[  100.1] EDAC MC1: 3 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#1 (channel:0 slot:1 page:0x12345 \
                    offset:0x40 grain:32 syndrome:0x0 -  OVERFLOW err_code:0x0101:0x0090  ProcessorSocketId:0x0 \
                    MemoryControllerId:0x1 PhysicalRankId:0x4 Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1 )";

#[test]
fn a_line_of_edac_is_a_report_with_its_place() {
    let (reports, totals) = read(&format!("[    1.0] Linux version 6.1\n{EDAC}\n"));
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.count, report.fidelity), (3, Fidelity::LowerBound));
    assert_eq!(report.label, "CPU_SrcID#0_MC#1_Chan#0_DIMM#1");
    let place = &report.location;
    assert_eq!((place.controller, place.channel, place.slot, place.rank), (Some(1), Some(0), Some(1), Some(4)));
    assert_eq!((place.row, place.column, place.bank, place.bank_group), (Some(0x1a2b), Some(0x3f8), Some(2), Some(1)));
    assert_eq!((place.address, place.grain_bits), (Some(0x1234_5040), Some(5)));
    assert_eq!((totals.other_count, totals.of_report_count, totals.not_understood_count), (1, 1, 0));
}

#[test]
fn an_uncorrected_one_and_one_of_another_driver() {
    let (reports, _) = read(
        "EDAC MC0: 1 UE Cannot decode normalized address on mc#0csrow#1channel#3 (csrow:1 channel:3 page:0x0 offset:0x0 grain:64)\n",
    );
    assert_eq!(reports[0].severity, ErrorSeverity::Uncorrected);
    assert_eq!((reports[0].location.rank, reports[0].location.channel), (Some(1), Some(3)));
    assert_eq!((reports[0].location.address, reports[0].fidelity), (None, Fidelity::Sampled));
    assert!(reports[0].detail.starts_with("Cannot decode normalized address"), "{}", reports[0].detail);
}

#[test]
fn a_machine_check_that_edac_tells_again_is_counted_once() {
    let check = "\
[ 100.0] mce: [Hardware Error]: Machine check events logged
[ 100.0] mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092
[ 100.0] mce: [Hardware Error]: TSC 0 ADDR 123457040 MISC 8c
[ 100.0] mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1700000000 SOCKET 1 APIC 20 microcode d0003a5
";
    let (alone, totals) = read(check);
    assert_eq!((alone.len(), totals.of_report_count), (1, 4));
    assert_eq!((alone[0].location.channel, alone[0].location.socket), (Some(2), Some(1)));
    assert_eq!(alone[0].at_realtime_ns, 1_700_000_000_000_000_000);
    let (both, _) = read(&format!("{check}{EDAC}\n"));
    assert_eq!((both.len(), both[0].count), (1, 3));
    let (twice, _) = read(&format!("{check}{}{check}", "[ 101.0] usb 1-1: new device\n".repeat(20)));
    assert_eq!(twice.len(), 2);
}

#[test]
fn amd_s_decoder_is_read_where_edac_is_not_there() {
    let (reports, totals) = read(
        "\
[Hardware Error]: Corrected error, no action required.
[Hardware Error]: CPU:2 (19:1:1) MC18_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000000011b
[Hardware Error]: Error Addr: 0x00000003f4c8a0c0
[Hardware Error]: IPID: 0x0000009600350f00, Syndrome: 0x9f9a400c0a801203
[Hardware Error]: Unified Memory Controller Ext. Error Code: 0, DRAM ECC error.
[Hardware Error]: cache level: L3/GEN, tx: GEN, mem-tx: RD
",
    );
    assert_eq!((reports.len(), totals.of_report_count, totals.not_understood_count), (1, 6, 0));
    assert_eq!((reports[0].location.channel, reports[0].location.rank), (Some(3), Some(3)));
    assert_eq!((reports[0].fidelity, reports[0].location.address), (Fidelity::LowerBound, None));
}

#[test]
fn a_record_of_firmware_is_a_report() {
    let (reports, totals) = read(
        "\
{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0
{1}[Hardware Error]: It has been corrected by h/w and requires no further action
{1}[Hardware Error]: event severity: corrected
{1}[Hardware Error]:  Error 0, type: corrected
{1}[Hardware Error]:  fru_text: B1
{1}[Hardware Error]:   section_type: memory error
{1}[Hardware Error]:   physical_address: 0x00000012345040
{1}[Hardware Error]:   physical_address_mask: 0x00000000ffffffc0
{1}[Hardware Error]:   node: 0 card: 3 module: 1 rank: 1 bank: 2 row: 100 column: 24
{1}[Hardware Error]:   error_type: 2, single-bit ECC
{1}[Hardware Error]:   DIMM location: P1 B1
{2}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4
{2}[Hardware Error]: event severity: recoverable
{2}[Hardware Error]:  Error 0, type: recoverable
{2}[Hardware Error]:   section_type: PCIe error
",
    );
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.label.as_str(), report.location.row, report.location.column), ("P1 B1", Some(100), Some(24)));
    assert_eq!((report.location.address, report.location.grain_bits), (Some(0x1234_5040), Some(6)));
    assert_eq!((report.severity, totals.of_report_count), (ErrorSeverity::Corrected, 15));
}

/// With a blank behind the colon and without, a bare status, and the bank of newer kernels.
#[test]
fn firmware_s_forms_of_every_kernel_are_read() {
    let (reports, totals) = read(
        "\
Nov 21 10:00:01 n kernel: {37}[Hardware Error]: event severity: corrected
Nov 21 10:00:01 n kernel: {37}[Hardware Error]:  Error 0, type: corrected
Nov 21 10:00:01 n kernel: {37}[Hardware Error]:   section_type: memory error
Nov 21 10:00:01 n kernel: {37}[Hardware Error]:   error_status: 0x0000000000000400
Nov 21 10:00:01 n kernel: {37}[Hardware Error]:   node: 1 card: 4 module: 0 rank: 0 bank: 1 device: 14 row: 58165 column: 816
Nov 21 10:00:01 n kernel: {37}[Hardware Error]:   DIMM location: CPU 2 DIMM 30
Nov 21 10:00:09 n kernel: {38}[Hardware Error]: event severity: recoverable
Nov 21 10:00:09 n kernel: {38}[Hardware Error]:  Error 0, type: recoverable
Nov 21 10:00:09 n kernel: {38}[Hardware Error]:  fru_text: B1
Nov 21 10:00:09 n kernel: {38}[Hardware Error]:   section_type: memory error
Nov 21 10:00:09 n kernel: {38}[Hardware Error]:   node:0 card:1 module:1 rank:1 bank_group:2 bank_address:1 row:300 column:40 chip_id:3
",
    );
    let [first, second] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((first.severity, first.label.as_str()), (ErrorSeverity::Corrected, "CPU 2 DIMM 30"));
    assert_eq!((first.location.row, first.location.column, first.location.bank), (Some(58_165), Some(816), Some(1)));
    assert_eq!((second.severity, second.label.as_str()), (ErrorSeverity::Uncorrected, "B1"));
    assert_eq!((second.location.bank_group, second.location.bank), (Some(2), Some(1)));
    assert_eq!(totals.not_understood_count, 0);
}

/// A word that is not known is never the mild one.
#[test]
fn a_firmware_record_with_unknown_words_is_counted_and_shown() {
    let of = |severity: &str, kind: &str| {
        read(&format!(
            "{{1}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0\n{severity}\
             {{1}}[Hardware Error]:   section_type: {kind}\n"
        ))
    };
    let line = |word: &str| format!("{{1}}[Hardware Error]: event severity: {word}\n");
    for (severity, kind, report_count, not_understood) in [
        (line("corrected"), "memory error", 1, None),
        (line("info"), "memory error", 1, None),
        (line("recoverable"), "PCIe error", 0, None),
        (line("catastrophic"), "memory error", 0, Some("catastrophic")),
        (String::new(), "memory error", 0, Some("")),
        (line("fatal"), "unknown, 00000000-0000", 0, Some("unknown, 00000000-0000")),
    ] {
        let (reports, totals) = of(&severity, kind);
        assert_eq!(reports.len(), report_count, "{severity}{kind}");
        assert_eq!(totals.not_understood.first().map(|one| one.text.as_str()), not_understood, "{severity}{kind}");
        assert_eq!(totals.line_count, totals.of_report_count + totals.other_count + totals.not_understood_count);
    }
}

/// The machine may have died before the kernel printed more of it.
#[test]
fn a_firmware_record_without_a_section_is_counted() {
    for (text, shown) in [
        ("{1}[Hardware Error]: event severity: fatal\n", "an uncorrected error"),
        ("{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0\n", ""),
        (
            "{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]:  Error 0, type: fatal\n",
            "an uncorrected error",
        ),
        ("{1}[Hardware Error]: event severity: odd\n", "odd"),
    ] {
        let (reports, totals) = read(text);
        let told: Vec<(u64, &str)> = totals.not_understood.iter().map(|one| (one.line, one.text.as_str())).collect();
        assert_eq!((reports.len(), told), (0, vec![(1, shown)]), "{text}");
        assert_eq!(totals.line_count, totals.of_report_count + totals.not_understood_count, "{text}");
    }
    // A section without a kind before one with a kind.
    let (reports, totals) = read(
        "\
{1}[Hardware Error]: event severity: corrected
{1}[Hardware Error]:  Error 0, type: corrected
{1}[Hardware Error]:  Error 1, type: corrected
{1}[Hardware Error]:   section_type: memory error
",
    );
    assert_eq!((reports.len(), totals.not_understood_count), (1, 1), "{totals:?}");
}

#[test]
fn the_journal_in_json_is_read_as_its_text_is() {
    let json = |transport: &str, message: &str| {
        serde_json::json!({"__REALTIME_TIMESTAMP": "1795420800000000", "_TRANSPORT": transport, "MESSAGE": message})
            .to_string()
    };
    let said = EDAC.split_once("] ").expect("a stamp").1;
    let lines = [
        json("kernel", said),
        // Any user can write such an entry.
        json("stdout", said),
        json("kernel", "usb 1-1: new device"),
        json("kernel", said).replace("\"}", ""),
    ];
    let text = lines.join("\n");
    assert_eq!(crate::import::detect(text.lines()), Some(Format::KernelLog));
    let (reports, totals) = read(&text);
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.count, report.at_realtime_ns), (3, 1_795_420_800_000_000_000));
    assert_eq!((totals.other_count, totals.of_report_count, totals.not_understood_count), (1, 1, 1), "{totals:?}");
    assert_eq!(totals.not_from_kernel_count, 1, "{totals:?}");
    let forms = [
        "__REALTIME_TIMESTAMP=1795420800000000",
        "\t\"__REALTIME_TIMESTAMP\" : \"1\",",
        "    _SOURCE_MONOTONIC_TIMESTAMP=7",
    ];
    assert!(forms.iter().all(|line| crate::import::unread_form([*line]).is_some()));
    assert!(crate::import::unread_form([EDAC, text.as_str()]).is_none());
}

/// `dmesg -H` and `-e` print how long after the line before a line came; that is no time since boot.
#[test]
fn a_relative_stamp_dates_nothing_to_the_boot() {
    let clock =
        Clock { now_realtime_ns: 1_795_500_000_000_000_000, booted_realtime_ns: Some(1_793_491_200_000_000_000) };
    let of = |text: &str| {
        let mut import = Import::new(Format::KernelLog, clock);
        let mut reports = Vec::new();
        text.lines().for_each(|line| import.line(line, &mut reports));
        let notes = import.end(&mut reports).notes;
        assert!(notes.iter().any(|note| note.contains("how long after the line before")), "{notes:?}");
        reports.iter().map(|report| report.at_realtime_ns).collect::<Vec<_>>()
    };
    let relative = EDAC.replace("[  100.1]", "[  +0.000012]");
    assert_eq!(of(&relative), [0]);
    // 2026-11-23 08:14, by `date -u -d`.
    assert_eq!(of(&format!("[Nov23 08:14] mce: x\n{relative}")), [1_795_421_640_000_000_000]);
}

/// Where another program took the records, the log has none of them, which is not the same as no error.
#[test]
fn machine_checks_that_were_handed_on_are_told() {
    let line = "[ 100.0] mce: [Hardware Error]: Machine check events logged\n";
    let tells = |text: &str| read(text).1.notes.iter().any(|note| note.contains("has none of them"));
    assert!(tells(line) && !tells(&format!("{line}{EDAC}\n")) && !tells("[ 100.0] usb 1-1: new device\n"));
}

#[test]
fn a_second_boot_is_not_dated_by_the_first() {
    let clock =
        Clock { now_realtime_ns: 1_795_500_000_000_000_000, booted_realtime_ns: Some(1_793_491_200_000_000_000) };
    let mut import = Import::new(Format::KernelLog, clock);
    let mut reports = Vec::new();
    let second = EDAC.replace("100.1", "200.1");
    // A line that comes late by less than a second is of the same boot.
    let late = EDAC.replace("100.1", "99.9");
    for line in [EDAC, &late, "[    0.0] Linux version 6.1", &second] {
        import.line(line, &mut reports);
    }
    let notes = import.end(&mut reports).notes;
    let times: Vec<_> = reports.iter().map(|report| report.at_realtime_ns).collect();
    assert_eq!(times, [1_793_491_300_100_000_000, 1_793_491_299_900_000_000, 0]);
    assert!(notes.iter().any(|note| note.contains("several boots")), "{notes:?}");
}

/// rsyslog quotes what it folded, older syslogs mean the line before. The forms are those of public logs.
#[test]
fn lines_that_syslog_folded_count_as_often_as_they_came() {
    let counts = |text: &str| {
        let (reports, totals) = read(text);
        (reports.iter().map(|report| report.count).collect::<Vec<_>>(), totals.not_understood_count)
    };
    let said = EDAC.split_once("] ").expect("a stamp").1;
    let quoted = |text: &str| format!("Nov 23 08:00:01 host kernel: message repeated 7 times: [{text}]");
    for text in [EDAC.to_owned(), format!(" {said}"), format!("[T92772] {said}"), format!(" {EDAC}")] {
        assert_eq!(counts(&quoted(&text)), (vec![21], 0), "{text}");
    }
    let last = "Nov 23 08:00:02 host last message repeated 3 times";
    assert_eq!(counts(&format!("{EDAC}\n{last}\n{last}\n")), (vec![3, 9, 9], 0));
    assert_eq!(counts(&format!("{}\n{last}\n", quoted(EDAC))), (vec![21, 9], 0));
    // What came between is what was repeated.
    let other = "Nov 23 08:00:01 host kernel: usb 1-1: new device";
    let tagged = "Nov 23 08:00:01 host mcelog: Hardware event. This is not a software error.";
    assert_eq!(counts(&format!("{EDAC}\n{other}\n{last}\n")), (vec![3], 0));
    assert_eq!(counts(&format!("{EDAC}\n{tagged}\n{last}\n")), (vec![3], 1), "a record of mcelog that is cut");
    // Of a record of several lines one alone tells nothing.
    let record = "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092";
    assert_eq!(counts(&quoted(record)), (vec![], 1));
    assert_eq!(counts(&format!("Nov 23 08:00:01 host kernel: {record}\n{last}\n")), (vec![1], 1));
}

/// Any user can write these, and no number of times is believed that cannot be.
#[test]
fn what_others_say_was_repeated_counts_nothing() {
    let said = EDAC.split_once("] ").expect("a stamp").1;
    for line in [
        format!("Nov 23 08:00:01 host evil[7]: message repeated 7 times: [{said}]"),
        format!("Nov 23 08:00:01 host evil: last message repeated 7 times: [{said}]"),
    ] {
        let (reports, totals) = read(&line);
        assert_eq!((reports.len(), totals.not_from_kernel_count), (0, 1), "{line}");
    }
    let (reports, _) = read(&format!("{EDAC}\nNov 23 08:00:02 host evil: last message repeated 900 times\n"));
    assert_eq!(reports.len(), 1);
    for times in ["0", "-1", "many", "1099511627776", "4294967295", "99999999999999999999", ""] {
        let (reports, totals) = read(&format!("Nov 23 08:00:01 n kernel: message repeated {times} times: [{said}]"));
        assert_eq!((reports.len(), totals.not_understood_count), (0, 1), "{times}");
        let (reports, totals) = read(&format!("{EDAC}\nNov 23 08:00:01 n last message repeated {times} times"));
        assert_eq!((reports.len(), totals.not_understood_count), (1, 1), "{times}");
    }
}

#[test]
fn what_is_not_understood_is_kept_with_its_number() {
    let (reports, totals) = read(
        "\
EDAC MC0: CE page 0x283, offset 0xce0, grain 8, syndrome 0x6ec3, row 0, channel 1 \"DIMM_B1\": amd76x_edac
EDAC MC: Ver: 3.0.0
EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:64:0a.0 (INTERRUPT)
EDAC sbridge: Lost 31 memory errors
[Hardware Error]: words of another kernel
",
    );
    assert_eq!((reports.len(), totals.lost_count, totals.not_understood_count), (0, 31, 2));
    assert_eq!(totals.not_understood.iter().map(|one| one.line).collect::<Vec<_>>(), [1, 5]);
}

/// Any user can write these lines with `logger`.
#[test]
fn what_a_program_says_in_the_words_of_the_kernel_is_counted_and_not_believed() {
    let words = EDAC.strip_prefix("[  100.1] ").unwrap();
    let check = "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092";
    let firmware = "{1}[Hardware Error]: event severity: corrected";
    for said in [words, check, firmware] {
        for line in [
            format!("Nov 23 08:00:00 host evil[77]: {said}"),
            format!("Nov 23 08:00:00 host evil: kernel: {said}"),
            format!("2026-11-23T08:00:00+0000 host evil[77]: {said}"),
            format!("[  100.1] host evil[77]: {said}"),
            format!("[  100.1] evil: {said}"),
            format!(
                r#"{{"__REALTIME_TIMESTAMP": "1", "_TRANSPORT": "syslog", "MESSAGE": "{}"}}"#,
                said.replace('"', "")
            ),
        ] {
            let (reports, totals) = read(&line);
            assert_eq!((reports.len(), totals.not_from_kernel_count, totals.of_report_count), (0, 1, 0), "{line}");
        }
    }
    // The same line of the kernel; and what is not known to be of either.
    let (reports, totals) = read(&format!("Nov 23 08:00:00 host kernel: {words}"));
    assert_eq!((reports.len(), totals.not_from_kernel_count), (1, 0));
    assert!(totals.notes.iter().any(|note| note.contains("logger -t kernel")), "{:?}", totals.notes);
    let (reports, totals) = read(r#"{"__REALTIME_TIMESTAMP": "1", "MESSAGE": "EDAC MC0: 1 CE"}"#);
    assert_eq!((reports.len(), totals.not_understood_count), (0, 1));
    // Nor what words that are left out, or the end of a line that was cut, said.
    for line in [
        r#"{"__REALTIME_TIMESTAMP": "1", "_TRANSPORT": "kernel", "MESSAGE": null}"#,
        r#"{"_HOSTNAME": "n1", "_TRANSPORT": "kernel", "MESSAGE": "EDAC MC0: 1 UE mem"#,
    ] {
        let (reports, totals) = read(line);
        assert_eq!((reports.len(), totals.not_understood_count, totals.not_from_kernel_count), (0, 1, 0), "{line}");
    }
    // `dmesg` reads the kernel's own buffer.
    assert!(!read(EDAC).1.notes.iter().any(|note| note.contains("logger")));
}

const BERT: &str = "\
[Mon Jul 13 21:29:30 2026] BERT: Error records from previous boot:
[Mon Jul 13 21:29:30 2026] [Hardware Error]: event severity: fatal
[Mon Jul 13 21:29:30 2026] [Hardware Error]:  precise tstamp: 2026-07-13 21:20:00
[Mon Jul 13 21:29:30 2026] [Hardware Error]:  Error 0, type: fatal
[Mon Jul 13 21:29:30 2026] [Hardware Error]:  fru_text: B1
[Mon Jul 13 21:29:30 2026] [Hardware Error]:   section_type: memory error
[Mon Jul 13 21:29:30 2026] [Hardware Error]:   physical_address: 0x0000000012345040
[Mon Jul 13 21:29:30 2026] [Hardware Error]:   node:0 card:3 module:1 rank:1 bank:2 row:100 column:24
[Mon Jul 13 21:29:30 2026] [Hardware Error]:   error_type: 3, multi-bit ECC
";

/// The error that brought the machine down is printed at the next boot, without a number of the record.
#[test]
fn firmware_s_records_of_the_boot_before_are_read() {
    let (reports, totals) = read(BERT);
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.severity, report.label.as_str()), (ErrorSeverity::Uncorrected, "B1"));
    assert_eq!((report.location.row, report.location.address), (Some(100), Some(0x1234_5040)));
    // `date -u -d '2026-07-13 21:20:00' +%s`: not the time of the line.
    assert_eq!(report.at_realtime_ns, 1_783_977_600_000_000_000);
    assert_eq!((totals.not_understood_count, totals.other_count, totals.of_report_count), (0, 1, 8));
    // Firmware that does not vouch for its clock dates nothing, nor does the time of this boot.
    let mut import = Import::new(
        Format::KernelLog,
        Clock { now_realtime_ns: 1_795_500_000_000_000_000, booted_realtime_ns: Some(1_793_491_200_000_000_000) },
    );
    let text = BERT.replace("precise", "imprecise").replace("[Mon Jul 13 21:29:30 2026]", "[    1.5]");
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let totals = import.end(&mut reports);
    assert_eq!((reports.len(), reports[0].at_realtime_ns, totals.has_seconds_since_boot), (1, 0, false));
    // Two records; then a machine check of this boot; then records that were left out.
    let (reports, totals) = read(&format!(
        "{BERT}{BERT}[ 2.0] mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092\n\
         [ 2.0] BERT: [Hardware Error]: Skipped 3 error records\n"
    ));
    assert_eq!((reports.len(), totals.lost_count, totals.not_understood_count), (3, 3, 0), "{totals:?}");
    // One of a processor, from a public log, and of a kind that nobody knows.
    for (kind, not_understood) in [("IA32/X64 processor error", 0), ("unknown, 81212a96-09ed", 1)] {
        let (reports, totals) = read(&BERT.replace("memory error", kind));
        assert_eq!((reports.len(), totals.not_understood_count), (0, not_understood), "{kind}");
    }
    // Any user can write these.
    let (reports, totals) = read(&BERT.replace("[Mon Jul 13 21:29:30 2026] ", "Jul 13 21:29:30 n1 evil: "));
    assert_eq!((reports.len(), totals.not_from_kernel_count), (0, 8));
}

/// From a public log of an Arm server: EDAC's line comes before firmware's record of the same error, elsewhere behind it.
#[test]
fn edac_s_line_before_or_behind_firmware_s_record_is_one_error() {
    let edac = |page: u32| {
        format!(
            "[  485.4] EDAC MC0: 1 UE multi-symbol chipkill ECC on unknown memory (node:0 card:3 module:0 rank:0 bank_group:0 \
             bank_address:0 device:0 row:624 column:384 chip_id:0 page:{page:#x} offset:0x400 grain:1 - APEI location: node:0 \
             card:3 module:0 rank:0 row:624 column:384 status(0x0000000000000400): Storage error in DRAM memory)\n"
        )
    };
    let record = |number: u32, page: u32| {
        format!(
            "[  485.5] {{{number}}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 2\n\
             [  485.5] {{{number}}}[Hardware Error]: event severity: recoverable\n\
             [  485.5] {{{number}}}[Hardware Error]:  Error 0, type: recoverable\n\
             [  485.5] {{{number}}}[Hardware Error]:   section_type: memory error\n\
             [  485.5] {{{number}}}[Hardware Error]:   physical_address: {:#018x}\n",
            u64::from(page) << 12 | 0x400
        )
    };
    let count = |text: &str| {
        let (reports, totals) = read(text);
        (reports.len(), totals.repeated_count)
    };
    assert_eq!(count(&format!("{}{}", edac(7), record(2, 7))), (1, 1));
    assert_eq!(count(&format!("{}{}", record(2, 7), edac(7))), (1, 0));
    assert_eq!(count(&format!("{}{}{}{}", edac(7), record(2, 7), edac(8), record(3, 8))), (2, 2));
    // Two errors, of which EDAC told one each.
    assert_eq!(count(&format!("{}{}", edac(7), record(2, 8))), (2, 0));
    assert_eq!(count(&format!("{}{}", record(2, 8), edac(7))), (2, 0));
}

/// What the kernel prints of a machine check is the same for all makers until it names one.
#[test]
fn a_machine_check_without_a_maker_is_of_another_unit_only_if_it_says_so() {
    let check = |status: &str, rest: &str| {
        let (reports, totals) =
            read(&format!("[ 1.0] mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: {status}\n{rest}"));
        (reports.len(), totals.other_unit_count, totals.not_understood_count)
    };
    let named = "[ 1.0] mce: [Hardware Error]: PROCESSOR 2:a00f11 TIME 1700000000 SOCKET 0 APIC 0 microcode 1\n";
    assert_eq!(check("8c00004000010092", ""), (1, 0, 0));
    assert_eq!(check("dc2040000000011b", ""), (0, 0, 1), "of AMD's memory controller, and cut");
    assert_eq!(check("dc2040000000011b", named), (0, 1, 0));
}

#[test]
fn what_is_no_date_dates_nothing() {
    let clock =
        Clock { now_realtime_ns: 1_795_500_000_000_000_000, booted_realtime_ns: Some(1_795_400_000_000_000_000) };
    let at = |stamp: &str| {
        let mut import = Import::new(Format::KernelLog, clock);
        let mut reports = Vec::new();
        import.line(&EDAC.replace("[  100.1] ", stamp), &mut reports);
        import.end(&mut reports);
        reports.iter().map(|report| report.at_realtime_ns).collect::<Vec<_>>()
    };
    assert_eq!(at("[ 6.5] "), [1_795_400_006_500_000_000]);
    // `date -u -d '2025-11-28 00:10' +%s`: this year's is still to come.
    assert_eq!(at("[Nov28 00:10] "), [1_764_288_600_000_000_000]);
    for stamp in ["[Feb30 00:10] ", "[Sun Feb 30 08:00:00 2026] ", "Feb 30 08:00:00 n1 kernel: ", "[Nov31 00:10] "] {
        assert_eq!(at(stamp), [0], "{stamp}");
    }
}

/// Pieces of what the kernel and syslog write, whole, cut and contrary.
fn said() -> impl Strategy<Value = String> {
    let pieces = [
        EDAC.split_once("] ").map_or("", |(_, said)| said),
        "EDAC MC0: 1 UE x on A1 or B1 (channel:-1 slot:-1 page:0x1 offset:0x0 grain:8)",
        "EDAC MC0: many CE x on A1 (page:0x1 offset:0x0 grain:8)",
        "EDAC MC0: Giving out device to module x controller y: DEV z (POLLED)",
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092",
        "mce: [Hardware Error]: TSC 0 ADDR 123457040 MISC 8c",
        "mce: [Hardware Error]: PROCESSOR 2:a00f11 TIME 1700000000 SOCKET 1 APIC 20 microcode d0003a5",
        "[Hardware Error]: event severity: fatal",
        "[Hardware Error]:   section_type: memory error",
        "{1}[Hardware Error]: event severity: corrected",
        "{1}[Hardware Error]:   section_type: memory error",
        "{1}[Hardware Error]:   physical_address: 0xffffffffffffffff",
        "BERT: [Hardware Error]: Skipped 4 error records",
        "BERT: Error records from previous boot:",
        "usb 1-1: new device",
        "",
    ];
    let piece = proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned);
    let times = prop_oneof![Just("7"), Just("-1"), Just("4294967295"), Just("many"), Just("0")];
    (piece, times, 0..6_u8, 0..400_usize).prop_map(|(piece, times, how, cut)| match how {
        0 => format!("message repeated {times} times: [ {piece}]"),
        1 => format!("message repeated {times} times: [[T1] {piece}"),
        2 => format!("last message repeated {times} times"),
        3 => piece.chars().take(cut).collect(),
        _ => piece,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the kernel and others write, in whatever order: every line is counted once, and nothing that only another program said counts.
    #[test]
    fn every_line_is_counted_once_and_no_program_makes_errors(
        lines in prop::collection::vec((said(), 0..4_u8), 1..40),
        has_kernel: bool,
    ) {
        let line = |(said, who): &(String, u8)| match (who, has_kernel) {
            (0, _) => format!("Nov 23 08:00:00 n1 evil[7]: {said}"),
            (1, _) => format!("Nov 23 08:00:00 n1 user: {said}"),
            (2, true) => format!("Nov 23 08:00:00 n1 kernel: {said}"),
            (_, true) => format!("Nov 23 08:00:00 n1 kernel: [    1.5] {said}"),
            (_, false) => format!("Nov 23 08:00:00 n1 kern: {said}"),
        };
        let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        let (reports, totals) = read(&text);
        let counted = totals.of_report_count + totals.other_count + totals.not_understood_count + totals.not_from_kernel_count;
        // A record that is not understood is counted by its first line, its further lines as those of a record.
        prop_assert_eq!(totals.line_count, counted, "{}\n{:?}", text, totals);
        prop_assert_eq!(totals.report_count, reports.len() as u64);
        prop_assert!(reports.iter().all(|report| report.count > 0));
        if !has_kernel {
            prop_assert_eq!((reports.len(), totals.of_report_count, totals.lost_count), (0, 0, 0), "{}", text);
        }
    }
}

/// A page number that no address can hold has none, and is not that of its offset; nor is one whose offset is beyond the page.
#[test]
fn a_page_beyond_every_address_is_no_page() {
    for (page, offset, expected) in
        [("0x123", "0x40", Some(0x12_3040)), ("0x10000000000000", "0x40", None), ("0x123", "0x12345678", None)]
    {
        let mut import = super::super::Import::new(super::super::Format::KernelLog, Clock::default());
        let mut reports = Vec::new();
        let line = format!(
            "[ 1.5] EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:{page} offset:{offset} grain:32 syndrome:0x0)"
        );
        import.line(&line, &mut reports);
        let totals = import.end(&mut reports);
        assert_eq!((reports.len(), totals.writer_not_shown_count), (1, 1), "{page}");
        assert_eq!(reports[0].location.address, expected, "{page} {offset}");
    }
}

/// Only the journal says that the kernel wrote a line; in text `logger` writes the same.
#[test]
fn the_writer_of_a_line_is_shown_by_the_journal_alone() {
    let said = "EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x123 offset:0x40 grain:32 syndrome:0x0)";
    let entry = format!(
        r#"{{"__REALTIME_TIMESTAMP": "1795420807000000", "_TRANSPORT": "kernel", "_HOSTNAME": "n1", "MESSAGE": "{said}"}}"#
    );
    let text = format!("Nov 23 08:00:00 n1 kernel: {said}");
    for (lines, expected) in [(vec![&entry], 0), (vec![&text], 1), (vec![&entry, &text, &text], 2)] {
        let mut import = super::super::Import::new(super::super::Format::KernelLog, Clock::default());
        let mut reports = Vec::new();
        lines.iter().for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        assert_eq!((reports.len(), totals.writer_not_shown_count), (lines.len(), expected));
    }
}
