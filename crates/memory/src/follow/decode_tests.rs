#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use surefoot_model::{ErrorSeverity, MemorySource};

const AT: At = At { at_ns: 5, at_realtime_ns: 7 };

fn report(kind: Kind, text: &str) -> ErrorReport {
    match decode(kind, text, AT) {
        Said::Report(report) => report,
        other => panic!("{text}: {other:?}"),
    }
}

/// A line of skx_edac as the format of the kernel prints it.
const SKX: &str = "3 Corrected errors: memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#1 (mc:1 location:0:1:-1 \
                   address:0x1234567040 grain:32 syndrome:0x00000000  err_code:0x0101:0x0090 ProcessorSocketId:0x0 \
                   MemoryControllerId:0x1 PhysicalRankId:0x4 Row:0x1a2b Column:0x3f8 Bank:0x2 BankGroup:0x1)";

#[test]
fn an_event_of_a_driver_has_its_module_and_its_place() {
    let report = report(Kind::McEvent, SKX);
    assert_eq!((report.source, report.severity, report.count), (MemorySource::McEvent, ErrorSeverity::Corrected, 3));
    assert_eq!(report.label, "CPU_SrcID#0_MC#1_Chan#0_DIMM#1");
    assert_eq!((report.at_ns, report.at_realtime_ns), (Some(5), 7));
    let place = &report.location;
    assert_eq!((place.controller, place.address, place.grain_bits), (Some(1), Some(0x12_3456_7040), Some(5)));
    assert_eq!((place.row, place.column, place.bank, place.bank_group), (Some(0x1a2b), Some(0x3f8), Some(2), Some(1)));
}

#[test]
fn a_sentence_with_its_own_on_and_a_label_with_blanks_are_told_apart() {
    let text = "1 Uncorrected error: parity on bus on DIMM A1 of riser 2 (mc:0 location:-1:-1:-1 address:0x00000000 \
                grain:0 syndrome:0x00000000)";
    let report = report(Kind::McEvent, text);
    assert_eq!((report.label.as_str(), report.severity), ("DIMM A1 of riser 2", ErrorSeverity::Uncorrected));
    let none = "1 Corrected error: on unknown label (mc:0 location:0:0:-1 address:0x0 grain:1 syndrome:0x0 x) y)";
    assert_eq!(self::report(Kind::McEvent, none).label, "unknown label");
}

#[test]
fn a_machine_check_reads_alike_in_the_old_and_the_new_wording() {
    let old = "CPU: 2, MCGc/s: f000c14/0, MC7: 8c00004000010092, IPID: 0000000000000000, ADDR/MISC/SYND: \
               0000001234567040/000000000000008c/0000000000000000, RIP: 00:<0000000000000000>, TSC: 0, PROCESSOR: \
               0:50654, TIME: 1700000000, SOCKET: 1, APIC: 4";
    let new = "CPU: 2, MCGc/s: f000c14/0, MC7: 8c00004000010092, IPID: 0000000000000000, ADDR: 0000001234567040, MISC: \
               000000000000008c, SYND: 0000000000000000, RIP: 00:<0000000000000000>, TSC: 0, PPIN: 0, vendor: 0, CPUID: \
               50654, time: 1700000000, socket: 1, APIC: 4, microcode: 2006906";
    let (old, new) = (report(Kind::MceRecord, old), report(Kind::MceRecord, new));
    assert_eq!(old, new);
    assert_eq!((old.source, old.count), (MemorySource::MceRecord, 1));
    assert_eq!(
        (old.location.address, old.location.socket, old.location.channel),
        (Some(0x12_3456_7000), Some(1), Some(2))
    );
    let cache = "CPU: 0, MCGc/s: 0/0, MC1: 8c00000000000135, IPID: 0, ADDR/MISC/SYND: 0/0/0, PROCESSOR: 0:1";
    assert_eq!(decode(Kind::MceRecord, cache, AT), Said::NotMemory);
}

#[test]
fn a_device_of_cxl_tells_row_and_column_where_it_vouches_for_them() {
    let text = "memdev=mem0 host=0000:35:00.0 serial=4660 log=Warning : time=1700000000000000000 \
                uuid=601dcbb3-9c06-4eab-b8af-4e9bfb5c9624 len=128 flags='MAINTENANCE_NEEDED' handle=1 related_handle=0 \
                maint_op_class=0 : dpa=1000 dpa_flags='' descriptor='UNCORRECTABLE_EVENT|THRESHOLD_EVENT' type='ECC Error' \
                transaction_type='Host Read' channel=1 rank=0 nibble_mask=0 bank_group=2 bank=3 row=77 column=8 cor_mask=00 \
                validity_flags='CHANNEL|RANK|BANK GROUP|BANK|ROW' hpa=ffffffffffffffff region= region_uuid=0";
    let report = report(Kind::CxlDram, text);
    assert_eq!((report.source, report.severity), (MemorySource::CxlEvent, ErrorSeverity::Uncorrected));
    assert_eq!((report.label.as_str(), report.dimm.as_deref()), ("mem0", Some("cxl:0x1234")));
    let place = &report.location;
    assert_eq!((place.row, place.bank, place.bank_group, place.column), (Some(77), Some(3), Some(2), None));
    let wrong = text.replace("type='ECC Error'", "type='Invalid Address'");
    assert_eq!(decode(Kind::CxlDram, &wrong, AT), Said::NotMemory);
    let counted = text.replace("type='ECC Error'", "type='Adv Prog CME Counter Expiration'") + " cvme_count=1f4";
    assert_eq!(self::report(Kind::CxlDram, &counted).count, 500);
}

#[test]
fn records_of_firmware_and_pages_out_of_use_are_reports_as_well() {
    let text = "{1} corrected error: memory error, single-bit ECC physical addr: 0000000012345000 (mask lsb: 6) node: 0 \
                card: 1 module: 2 rank: 1 bank: 3 device: 0 row: 99 column: 7 FRU: 00000000-0000 DIMM_A1";
    let firmware = report(Kind::Extlog, text);
    assert_eq!((firmware.source, firmware.severity), (MemorySource::Extlog, ErrorSeverity::Corrected));
    assert_eq!((firmware.location.row, firmware.location.bank), (Some(99), Some(3)));
    let page = report(Kind::MemoryFailure, "pfn 0x12345: recovery action for dirty LRU page: Recovered");
    assert_eq!((page.severity, page.location.address), (ErrorSeverity::Uncorrected, Some(0x1234_5000)));
    assert_eq!(page.detail, "recovery action for dirty LRU page: Recovered");
}

#[test]
fn a_line_that_is_cut_anywhere_is_garbled_or_says_less() {
    for at in 0..SKX.len() {
        let _ = decode(Kind::McEvent, &SKX[..at], AT);
    }
    let garbled = |kind, text| assert_eq!(decode(kind, text, AT), Said::Garbled, "{text}");
    garbled(
        Kind::McEvent,
        "99999999999999 Corrected errors: x on y (mc:0 location:0:0:0 address:0x0 grain:0 syndrome:0x0)",
    );
    garbled(Kind::McEvent, "-1 Corrected error: x on y (mc:0 location:0:0:0 address:0x0 grain:0 syndrome:0x0)");
    garbled(Kind::MceRecord, "CPU: x, MC1: 0");
    garbled(Kind::MceRecord, "");
    garbled(Kind::MemoryFailure, "pfn 0xffffffffffffffff: recovery action for x: y");
    garbled(Kind::Extlog, "{1} corrected error: nothing");
    garbled(Kind::CxlDram, "memdev=mem0 host='");
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,200}", kind in 0usize..6) {
        let _ = decode(Kind::ALL[kind], &text, AT);
    }

    #[test]
    fn no_change_of_a_line_is_too_strange(at in 0usize..SKX.len(), with in "\\PC{0,3}") {
        if SKX.is_char_boundary(at) {
            let _ = decode(Kind::McEvent, &format!("{}{with}{}", &SKX[..at], &SKX[at..]), AT);
        }
    }
}
