use crate::import::{Clock, Format, Import, Totals, detect};
use surefoot_model::ErrorReport;

const EDAC: &str =
    "EDAC MC0: 3 CE memory read error on A1 (channel:0 slot:1 page:0x12345 offset:0x40 grain:32 syndrome:0x0)";
const CHECK: [&str; 2] = [
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092",
    "mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1700000000 SOCKET 1 APIC 20 microcode d0003a5",
];

fn read(text: &str, host: Option<&str>) -> (Vec<ErrorReport>, Vec<String>, Totals) {
    let mut import = Import::new(Format::KernelLog, Clock::default()).of_host(host.map(str::to_owned));
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let hosts = import.hosts().iter().map(ToString::to_string).collect();
    let totals = import.end(&mut reports);
    (reports, hosts, totals)
}

fn hosts(text: &str) -> Vec<String> {
    read(text, None).1
}

#[test]
fn every_form_of_a_line_tells_its_host_or_none() {
    for line in [
        "Nov 23 08:00:00 n1 kernel: ",
        "2026-11-23T08:00:00+0000 n1 kernel: ",
        "Mon 2026-11-23 08:00:00 UTC n1 kernel: ",
        "1795420800.123456 n1 kernel: ",
        "<6>1 2026-11-23T08:00:00.123456+00:00 n1 kernel - - - ",
        "Nov 23 08:00:00 n1 kern.warn kernel: ",
        "[  100.000000] n1 kernel: ",
    ] {
        assert_eq!(hosts(&format!("{line}{EDAC}")), ["n1"], "{line}");
    }
    for line in [
        "",
        "[  100.0] ",
        "2026-11-23T08:00:00,000000+00:00 ",
        "Nov 23 08:00:00 kernel: ",
        "<6>1 2026-11-23T08:00:00Z - kernel - - - ",
    ] {
        let (reports, hosts, _) = read(&format!("{line}{EDAC}"), None);
        assert_eq!((reports.len(), hosts.len()), (1, 0), "{line}");
    }
}

#[test]
fn errors_of_two_hosts_are_seen_as_such_and_one_is_chosen() {
    // A record of one host and EDAC's line of the other, between each other: EDAC's would take the record's place.
    let text = format!(
        "Nov 23 08:00:00 n1 kernel: {}\nNov 23 08:00:00 n2 kernel: {EDAC}\n{}Nov 23 08:00:00 n1 kernel: {}\n",
        CHECK[0],
        "Nov 23 08:00:00 n2 kernel: usb 1-1: new device\n".repeat(20),
        CHECK[1]
    );
    assert_eq!(hosts(&text), ["n1", "n2"]);
    let (reports, hosts, totals) = read(&text, Some("N1"));
    assert_eq!((reports.len(), reports[0].location.socket, hosts.len()), (1, Some(1), 1), "{reports:?}");
    assert!(totals.notes.contains(&"21 lines of other hosts left out.".to_owned()), "{:?}", totals.notes);
    assert_eq!((totals.line_count, totals.other_count, totals.of_report_count), (23, 21, 2));
    let (reports, hosts, _) = read(&text, Some("n2.example"));
    assert_eq!((reports[0].label.as_str(), hosts.as_slice()), ("A1", ["n2".to_owned()].as_slice()));
    // A host that only writes of other things is no second one.
    assert_eq!(self::hosts(&format!("Nov 23 08:00:00 n1 kernel: {EDAC}\nNov 23 08:00:00 n2 sshd[7]: hello\n")), ["n1"]);
}

#[test]
fn the_journal_tells_machines_of_one_name_apart() {
    let entry = |host: &str, machine: &str| {
        serde_json::json!({"__REALTIME_TIMESTAMP": "1795420800000000", "_TRANSPORT": "kernel", "MESSAGE": EDAC,
            "_HOSTNAME": host, "_MACHINE_ID": machine})
        .to_string()
    };
    let one = entry("node", "aa01");
    assert_eq!(hosts(&format!("{one}\n{}\n", entry("node", "aa02"))).len(), 2);
    // Renamed, or cloned from one image: only a person knows, who says so by naming the machine.
    let two_names = format!("{one}\n{}\n", entry("other", "aa01"));
    assert_eq!((hosts(&two_names).len(), read(&two_names, Some("aa01")).1.len()), (2, 1));
    assert_eq!(read(&two_names, Some("other")).0.len(), 1);
    let text = format!("{one}\n{}\n", entry("node", "aa02"));
    assert_eq!(read(&text, Some("aa02")).0.len(), 1);
    assert_eq!(read(&text, Some("node")).1.len(), 2);
    let unnamed = entry("", "");
    assert_eq!(hosts(&unnamed), [""; 0]);
}

#[test]
fn a_short_name_and_its_long_one_are_one_host() {
    let of = |names: &[&str]| {
        let lines: Vec<String> = names.iter().map(|name| format!("Nov 23 08:00:00 {name} kernel: {EDAC}\n")).collect();
        hosts(&lines.concat())
    };
    assert_eq!(of(&["n1", "N1.dc1.example"]), ["N1.dc1.example"]);
    assert_eq!(of(&["n1", "n1.dc1", "n1.dc2"]), ["n1.dc1", "n1.dc2"]);
    assert_eq!(of(&["n1", "n10"]), ["n1", "n10"]);
}

const RECORD: &str = "Hardware event. This is not a software error.\nMCE 0\nCPU 6 BANK 7 TSC 5\nMISC 8c ADDR 223457040\n\
                      TIME 1700000000 x\nSTATUS 8c00004000010092 MCGSTATUS 0\nMCGCAP f000c14 APICID 20 SOCKETID 1\n\
                      CPUID Vendor Intel Family 6 Model 106\n";

/// One line with the tag made the whole log mcelog's, and the kernel's errors were lost.
#[test]
fn a_log_of_the_kernel_and_of_mcelog_is_read_line_by_line() {
    let tagged = |tag: &str, text: &str| -> String {
        text.lines().map(|line| format!("Nov 23 08:00:00 n1 {tag}: {line}\n")).collect()
    };
    let word = tagged("mcelog[7]", "MCE 0");
    assert_eq!(detect(format!("{}{word}", tagged("kernel", EDAC)).lines()), Some(Format::KernelLog));
    assert_eq!(detect(format!("{}{word}", tagged("sshd", "hello")).lines()), Some(Format::KernelLog));
    let both = format!("{}{}{}", tagged("kernel", EDAC), tagged("mcelog", RECORD), tagged("kernel", EDAC));
    let (reports, hosts, totals) = read(&both, None);
    assert_eq!((reports.len(), hosts.len(), totals.not_understood_count), (3, 1, 0), "{totals:?}");
    assert_eq!(totals.of_report_count, 10);
    assert!(totals.notes.iter().any(|note| note.contains("counted twice")), "{:?}", totals.notes);
    // A record without end is told, and any user can write one without the tag.
    let (reports, _, totals) = read(&format!("{}{}", tagged("kernel", EDAC), word), None);
    assert_eq!((reports.len(), totals.not_understood_count), (1, 1), "{totals:?}");
    let (reports, _, totals) = read(&format!("{}{RECORD}", tagged("kernel", EDAC)), None);
    assert_eq!((reports.len(), totals.not_from_kernel_count), (1, 2), "{totals:?}");
}

#[test]
fn the_kernel_s_lines_in_mcelog_s_own_log_are_read() {
    let text = format!("{RECORD}[  100.1] {EDAC}\n{RECORD}");
    assert_eq!(detect(text.lines()), Some(Format::Mcelog));
    let mut import = Import::new(Format::Mcelog, Clock::default());
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let totals = import.end(&mut reports);
    assert_eq!((reports.len(), totals.not_understood_count, totals.other_count), (3, 0, 0), "{totals:?}");
}
