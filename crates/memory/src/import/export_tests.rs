#![allow(clippy::unwrap_used)]
use super::*;
use crate::Error;
use crate::import::{Clock, Reading, read_log};
use proptest::prelude::*;
use std::path::Path;
use surefoot_model::ErrorReport;

const NOW_NS: u64 = 1_796_000_000_000_000_000;
const BOOTS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];

fn edac(row: u32) -> String {
    format!(
        "EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x12345 offset:0x40 grain:32 syndrome:0x0 - \
         err_code:0x0101:0x0090 Row:{row:#x} Column:0x8 Bank:0x2)"
    )
}

fn binary(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value, b"\n"].concat()
}

/// An entry of the kernel's, with these fields before its end.
fn entry_of(host: &str, boot: &str, at_s: u64, message: &str, more: &[u8]) -> Vec<u8> {
    let head = format!(
        "__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP={at_s}000000\n__MONOTONIC_TIMESTAMP=9000000\n_BOOT_ID={boot}\n_TRANSPORT=kernel\n\
         _HOSTNAME={host}\n_SOURCE_MONOTONIC_TIMESTAMP=2000000\n"
    );
    [head.as_bytes(), format!("MESSAGE={message}\n").as_bytes(), more, b"\n"].concat()
}

fn entry(at_s: u64, message: &str, more: &[u8]) -> Vec<u8> {
    entry_of("n1", BOOTS[0], at_s, message, more)
}

fn read_of(bytes: &[u8], host: Option<&str>) -> Result<(Vec<ErrorReport>, Reading), Error> {
    let clock = Clock { now_realtime_ns: NOW_NS, booted_realtime_ns: None };
    let mut reports = Vec::new();
    let source = io::BufReader::with_capacity(113, bytes);
    let reading = read_log(source, Path::new("export"), None, (clock, host), &mut |report, _| {
        reports.push(report.clone());
        Ok(())
    })?;
    Ok((reports, reading))
}

fn read(bytes: &[u8]) -> (Vec<ErrorReport>, Reading) {
    read_of(bytes, None).unwrap()
}

#[test]
fn text_and_binary_fields_are_read_and_entries_are_dated_to_when_the_kernel_wrote_them() {
    let message = binary("MESSAGE", format!("{}\nand a second line", edac(7)).as_bytes());
    let with_binary = [
        &b"__CURSOR=x\n__REALTIME_TIMESTAMP=1795420807000000\n"[..],
        &binary("COREDUMP", &[b'\n', 0, 255, b'='].repeat(100_000)),
        b"_TRANSPORT=kernel\n_HOSTNAME=n1\n",
        &message,
        b"\n",
    ]
    .concat();
    let all =
        [entry(1_795_420_807, &edac(1), b""), with_binary, entry(1_795_420_900, "usb 1-1: new device", b"")].concat();
    let (reports, reading) = read(&all);
    let told: Vec<_> =
        reports.iter().map(|report| (report.location.row, report.at_realtime_ns / 1_000_000_000)).collect();
    assert_eq!(told, [(Some(1), 1_795_420_800), (Some(7), 1_795_420_807)]);
    assert_eq!((reading.format, reading.totals.line_count, reading.totals.not_understood_count), ("kernel_log", 3, 0));
    assert_eq!(reading.hosts[0].name, "n1");
}

/// Both forms were written by journalctl 252 from one journal, which systemd-journal-remote made of entries of ours: errors in two boots and of
/// two hosts, one with a second line, one that a program wrote, and a binary field.
#[test]
fn journalctl_s_export_and_json_of_one_journal_read_the_same() {
    let export = include_bytes!("../../tests/fixtures/import/journalctl.export");
    let json = include_bytes!("../../tests/fixtures/import/journalctl.json");
    let [(reports, reading), (of_json, json_reading)] =
        [&export[..], json].map(|bytes| read_of(bytes, Some("node17")).unwrap());
    assert_eq!(reports, of_json);
    let told: Vec<_> = reports.iter().map(|report| (report.location.row, report.count)).collect();
    assert_eq!(told, [(Some(0x1a2), 1), (Some(0x1a2), 3), (Some(0x1b0), 1), (Some(0x1a2), 1)]);
    assert_eq!(reading.totals.not_from_kernel_count, json_reading.totals.not_from_kernel_count);
    let hosts = |reading: &Reading| reading.hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>();
    assert_eq!((hosts(&reading), hosts(&json_reading)), (vec!["node17".to_owned()], vec!["node17".to_owned()]));
    // Both hosts have the machine ID of the image that they were made from.
    for bytes in [&export[..], json] {
        let refused = read_of(bytes, None).unwrap_err().to_string();
        assert!(refused.contains("several hosts (node17 ") && refused.contains("node18"), "{refused}");
        assert!(
            refused.ends_with("if it is one host that was renamed, --host 5d1b8c6e7f0a4b3c9d2e1f0a8b7c6d5e reads all")
        );
    }
    assert_eq!((reading.totals.not_understood_count, json_reading.totals.not_understood_count), (0, 0));
}

/// What a program wrote to look like the kernel.
#[test]
fn entries_of_programs_are_not_the_kernel_s() {
    let forged = String::from_utf8(entry(1_795_420_807, &edac(1), b"")).unwrap().replace("=kernel", "=stdout");
    let (reports, reading) = read(forged.as_bytes());
    assert_eq!((reports.len(), reading.totals.not_from_kernel_count), (0, 1));
    // Two values of one field.
    let both = entry(1_795_420_807, &edac(1), b"_TRANSPORT=stdout\n");
    let (reports, reading) = read(&both);
    assert_eq!((reports.len(), reading.totals.not_understood_count), (0, 1));
}

#[test]
fn hostile_forms_lose_no_other_entry_and_are_told() {
    let good = || entry(1_795_420_807, &edac(1), b"");
    let good_after = || entry(1_795_420_907, &edac(2), b"");
    let huge = |length: u64| [b"__CURSOR=x\nMESSAGE\n".as_slice(), &length.to_le_bytes(), b"EDAC"].concat();
    // Nothing behind such a length can be told from its value.
    for length in [1 << 63, u64::MAX, (768 << 20) + 1] {
        let (reports, reading) = read(&[good(), huge(length), good_after()].concat());
        assert_eq!((reports.len(), reading.totals.not_understood_count), (1, 1), "{length:#x}");
        assert!(reading.totals.notes.iter().any(|note| note.contains("nothing behind it was read")), "{reading:?}");
    }
    // Cut within a value, a length, a name, and before the empty line.
    let whole =
        [good(), [b"__CURSOR=x\n_TRANSPORT=kernel\n".as_slice(), &binary("MESSAGE", edac(2).as_bytes())].concat()]
            .concat();
    for less in [0, 1, 20, edac(2).len() + 3, edac(2).len() + 9] {
        let (reports, reading) = read(&whole[..whole.len() - less]);
        assert_eq!((reports.len(), reading.totals.not_understood_count), (1, 1), "{less}");
    }
    // A length that is shorter than its value.
    let mut short = entry(1_795_420_807, "x", &binary("COREDUMP", b"some bytes"));
    let at = short.windows(9).position(|part| part == b"COREDUMP\n").unwrap() + 9;
    short[at] = 3;
    let (reports, reading) = read(&[good(), short, good_after()].concat());
    assert_eq!((reports.len(), reading.totals.not_understood_count), (1, 1));
    // Damaged lines within an entry end with it.
    for damage in [&b"no field\n"[..], b"=x\n", b"lower=1\n", b"\xff\xfe=1\n"] {
        let (reports, reading) = read(&[good(), entry(1_795_420_807, &edac(3), damage), good_after()].concat());
        assert_eq!((reports.len(), reading.totals.not_understood_count), (2, 1), "{damage:?}");
    }
    // A message of megabytes, of text and of bytes, of which the beginning tells.
    let long = format!("{} {}", edac(4), "\u{1}x".repeat(2 << 20));
    for entry in [
        entry(1, &long, b""),
        [b"__CURSOR=x\n_TRANSPORT=kernel\n".as_slice(), &binary("MESSAGE", long.as_bytes()), b"\n"].concat(),
    ] {
        let (reports, reading) = read(&[good(), entry, good_after()].concat());
        assert_eq!((reports.len(), reports[1].location.row), (3, Some(4)));
        assert!(reading.totals.notes.iter().any(|note| note.contains("cut")), "{:?}", reading.totals.notes);
    }
    // Without a time an entry is undated and counts.
    let text = String::from_utf8(good()).unwrap().replace("__REALTIME_TIMESTAMP=1795420807000000\n", "");
    let (reports, reading) = read(text.as_bytes());
    assert_eq!((reports.len(), reports[0].at_realtime_ns, reading.undated_count), (1, 0, 1));
    // A line without an end.
    let endless = [good(), b"__CURSOR=x\nMESSAGE=".to_vec(), vec![b'x'; (64 << 20) + 1]].concat();
    assert!(read_of(&endless, None).unwrap_err().to_string().contains("has no end"));
}

#[test]
fn two_hosts_in_one_export_are_never_one() {
    let both = [
        entry_of("n1", BOOTS[0], 1_795_420_807, &edac(1), b""),
        entry_of("n2", BOOTS[1], 1_795_420_808, &edac(1), b""),
    ]
    .concat();
    let why = read_of(&both, None).unwrap_err().to_string();
    assert!(why.contains("several hosts (n1, n2"), "{why}");
    let (reports, reading) = read_of(&both, Some("n2")).unwrap();
    assert_eq!((reports.len(), reading.hosts[0].name.as_str()), (1, "n2"));
}

/// Numbers of firmware's records begin anew with each boot: lines of two boots are never one record.
#[test]
fn a_record_ends_with_its_boot() {
    let begin = ["event severity: corrected", "Error 0, type: corrected", "section_type: memory error"];
    let end = ["physical_address: 0x0000000012345040", "node: 0 card: 1 module: 0 rank: 0 bank: 2 row: 100 column: 24"];
    let lines = |said: &[&str], boot: &str| -> Vec<u8> {
        let each =
            said.iter().map(|said| entry_of("n1", boot, 1_795_420_807, &format!("{{1}}[Hardware Error]: {said}"), b""));
        each.collect::<Vec<_>>().concat()
    };
    let rows = |bytes: &[u8]| read(bytes).0.iter().map(|report| report.location.row).collect::<Vec<_>>();
    assert_eq!(rows(&[lines(&begin, BOOTS[0]), lines(&end, BOOTS[0])].concat()), [Some(100)]);
    // The second boot's record has no severity, and is not the first one's end.
    let (reports, reading) = read(&[lines(&begin, BOOTS[0]), lines(&end, BOOTS[1])].concat());
    assert_eq!(reports.iter().map(|report| report.location.row).collect::<Vec<_>>(), [None]);
    assert_eq!(reading.totals.not_understood_count, 1);
    // The same in JSON, and by the kernel's first line where a text tells of no boot.
    let json = |said: &str, boot: &str| {
        format!(
            r#"{{"__REALTIME_TIMESTAMP":"1795420807000000","_BOOT_ID":"{boot}","_TRANSPORT":"kernel","MESSAGE":"{{1}}[Hardware Error]: {said}"}}"#
        ) + "\n"
    };
    let text: String =
        begin.iter().map(|said| json(said, BOOTS[0])).chain(end.iter().map(|said| json(said, BOOTS[1]))).collect();
    assert_eq!(rows(text.as_bytes()), [None]);
    let dmesg = |said: &[&str]| {
        said.iter().map(|said| format!("[    9.5] {{1}}[Hardware Error]: {said}\n")).collect::<String>()
    };
    let text = format!("{}[    0.0] Linux version 6.12.0\n{}", dmesg(&begin), dmesg(&end));
    assert_eq!(rows(text.as_bytes()), [None]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_of(&[b"__CURSOR=x\n".as_slice(), &bytes].concat(), None);
    }

    /// Any damage of one byte costs at most what is behind it, and is never taken for a report that is not there.
    #[test]
    fn any_damage_of_a_good_export_is_read_without_harm(at in 0..2000_usize, byte in any::<u8>()) {
        let mut bytes = [entry(1_795_420_807, "x", &binary("COREDUMP", b"a\nb")), entry(1_795_420_808, &edac(2), b"")].concat();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok((reports, reading)) = read_of(&bytes, None) {
            prop_assert!(reports.len() <= 1);
            prop_assert!(reading.totals.line_count <= 4);
        }
    }
}
