//! Each rule of the doctor on a tree where it fires and on one where it does not.

use super::tree::{MC, fixture};
use surefoot_hostfs::Root;
use surefoot_memory::doctor;
use surefoot_model::{Certainty, CheckResult, MemoryCheck, Severity};
use surefoot_testkit::HostTree;

const LOG_CE: &str = "sys/module/edac_core/parameters/edac_mc_log_ce";
const MCE: &str = "sys/devices/system/machinecheck/machinecheck0";

fn intel() -> HostTree {
    fixture("intel-icelake-16dimm")
        .file("dev/kmsg", "6,1,1,-;Linux version 6.1.0\n")
        .folder("sys/firmware/acpi/tables")
        .folder("sys/kernel/tracing/events")
}

fn amd() -> HostTree {
    fixture("amd-zen-ranks")
}

fn boot(tree: HostTree, options: &str) -> HostTree {
    tree.file("proc/cmdline", format!("BOOT_IMAGE=/vmlinuz ro {options}\n"))
}

fn guest(tree: HostTree) -> HostTree {
    let cpuinfo = std::fs::read_to_string(tree.path().join("proc/cpuinfo")).unwrap();
    tree.file("proc/cpuinfo", cpuinfo.replace("fpu ", "fpu hypervisor ")).file("sys/class/dmi/id/sys_vendor", "QEMU\n")
}

fn checks(tree: &HostTree) -> Vec<MemoryCheck> {
    doctor::check(&Root::at(tree.path())).unwrap()
}

/// HEST with one source of corrected machine checks with these flags.
fn hest(flags: u8) -> Vec<u8> {
    let mut bytes = b"HEST".to_vec();
    bytes.resize(88, 0);
    (bytes[36], bytes[40], bytes[46]) = (1, 1, flags);
    bytes
}

fn trace(tree: HostTree, overrun: u32) -> HostTree {
    let own = "sys/kernel/tracing/instances/rasdaemon";
    tree.folder("sys/kernel/tracing/events")
        .file(format!("{own}/events/ras/mc_event/enable"), "1\n")
        .file(format!("{own}/per_cpu/cpu0/stats"), format!("entries: 0\noverrun: {overrun}\ncommit overrun: 0\n"))
}

/// A rule with the tree in which it fires, how, and the tree in which it does not.
type Case = (&'static str, HostTree, Severity, Certainty, &'static str, HostTree);

fn cases() -> Vec<Case> {
    use Certainty::{Certain, Probable};
    use Severity::{Notice, Warning};
    let storm = "4,2,2,-;mce: CPU3 BANK7 CMCI storm detected\n";
    let ended = "4,3,3,-;mce: CPU3 BANK7 CMCI storm subsided\n";
    vec![
        ("virtual-machine", guest(intel()), Notice, Certain, "virtual machine (KVM)", intel()),
        ("no-driver", intel().without(MC), Warning, Certain, "no EDAC module is loaded", intel()),
        ("firmware-first", fixture("hpe-ghes-4dimm"), Notice, Certain, "mc0 is driven by ghes_edac", intel()),
        (
            "ecc-off",
            intel().file(format!("{MC}/mc1/dimm2/dimm_edac_mode"), "None\n"),
            Warning,
            Certain,
            "mc1/dimm2/dimm_edac_mode is None: 1 of 16",
            intel(),
        ),
        (
            "errors-ignored",
            intel().file(format!("{MCE}/ignore_ce"), "1\n"),
            Warning,
            Certain,
            "ignore_ce is 1",
            intel(),
        ),
        (
            "banks-masked",
            intel().file(format!("{MCE}/bank0"), "ffffffffffffffff\n").file(format!("{MCE}/bank7"), "0\n"),
            Warning,
            Certain,
            "1 bank mask is 0 in /sys/devices/system/machinecheck/machinecheck0: bank7",
            intel().file(format!("{MCE}/bank0"), "ffffffffffffffff\n"),
        ),
        ("cec-swallows-errors", intel().folder("sys/kernel/debug/ras/cec"), Warning, Certain, "i10nm_edac", intel()),
        (
            "cmci-disabled-hole",
            intel().file(format!("{MCE}/cmci_disabled"), "1\n"),
            Warning,
            Probable,
            "cmci_disabled is 1",
            boot(intel().file(format!("{MCE}/cmci_disabled"), "1\n"), "mce=no_cmci"),
        ),
        (
            "firmware-threshold",
            boot(intel(), "mce=bios_cmci_threshold"),
            Notice,
            Certain,
            "mce=bios_cmci_threshold",
            intel(),
        ),
        (
            "polling-off",
            amd().file(format!("{MCE}/check_interval"), "0\n"),
            Warning,
            Certain,
            "check_interval is 0",
            amd(),
        ),
        (
            "poll-interval-unread",
            intel().file("sys/module/edac_core/parameters/edac_mc_poll_msec", "100\n"),
            Warning,
            Certain,
            "is 100, and i10nm_edac does not poll",
            intel(),
        ),
        ("threshold-blocks-locked", without_blocks(), Warning, Probable, "no folder umc_K", unlocked()),
        (
            "threshold-settings",
            amd().file(format!("{MCE}/umc_1/dram_ecc/interrupt_enable"), "0\n"),
            Notice,
            Certain,
            "interrupt_enable is 0 in 1 of 4: cpu0/umc_1",
            amd(),
        ),
        (
            "storm-mode",
            intel().file("dev/kmsg", storm),
            Warning,
            Probable,
            "CPU3 BANK7",
            intel().file("dev/kmsg", format!("{storm}{ended}")),
        ),
        (
            "records-lost",
            intel().file("dev/kmsg", "3,1,1,-;mce: MCE records pool full!\n"),
            Warning,
            Certain,
            "pool full",
            intel(),
        ),
        ("trace-overruns", trace(intel(), 17), Warning, Certain, "rasdaemon lost 17 events", trace(intel(), 0)),
        (
            "other-collector",
            intel().file("proc/812/comm", "rasdaemon\n"),
            Warning,
            Certain,
            "rasdaemon runs, and no trace instance",
            trace(intel(), 0).file("proc/812/comm", "rasdaemon\n"),
        ),
        (
            "errors-not-printed",
            intel().file(LOG_CE, "0\n"),
            Notice,
            Certain,
            "edac_mc_log_ce is 0",
            intel().file(LOG_CE, "1\n"),
        ),
        (
            "counters-unread",
            intel().file(format!("{MC}/mc1/dimm0/dimm_ue_count"), "N/A\n"),
            Warning,
            Certain,
            "mc1/dimm0/dimm_ue_count",
            intel(),
        ),
        ("totals-disagree", intel().file(format!("{MC}/mc0/ce_count"), "9\n"), Warning, Certain, "mc0", intel()),
        ("labels-missing", amd(), Notice, Certain, "10 of 10", intel()),
    ]
}

fn without_blocks() -> HostTree {
    (0..4).fold(amd(), |tree, block| tree.without(format!("{MCE}/umc_{block}")))
}

/// One of the fixture's blocks is full, which is a notice of its own.
fn unlocked() -> HostTree {
    amd().file(format!("{MCE}/umc_3/dram_ecc/error_count"), "12\n")
}

fn of<'a>(checks: &'a [MemoryCheck], rule: &str) -> &'a MemoryCheck {
    checks.iter().find(|check| check.rule == rule).unwrap_or_else(|| panic!("{rule}: {checks:?}"))
}

#[test]
fn every_rule_fires_where_it_must_and_only_there() {
    let cases = cases();
    let names: Vec<&str> = cases.iter().map(|case| case.0).collect();
    assert_eq!(names, doctor::rule_names(), "each rule has its case");
    for (rule, fires, severity, certainty, words, fine) in cases {
        let checks_of = checks(&fires);
        let check = of(&checks_of, rule);
        assert_eq!((check.severity, check.certainty), (severity, certainty), "{check:?}");
        assert!(check.evidence.contains(words), "{check:?}");
        assert!(!check.consequence.is_empty() && !check.remedy.is_empty(), "{check:?}");
        let checks_of = checks(&fine);
        let check = of(&checks_of, rule);
        assert_eq!((check.severity, check.certainty), (Severity::Ok, Certainty::Certain), "{check:?}");
        assert!(!check.evidence.is_empty() && check.remedy.is_empty(), "{check:?}");
    }
}

#[test]
fn a_sound_machine_has_nothing_to_find() {
    let found = checks(&intel());
    assert!(found.iter().all(|check| check.severity == Severity::Ok), "{found:?}");
}

#[test]
fn other_ways_in_which_a_rule_fires() {
    let cases = [
        ("firmware-first", intel().file("sys/firmware/acpi/tables/HEST", hest(1)), Severity::Warning),
        ("firmware-first", intel().file("sys/firmware/acpi/tables/HEST", hest(0)), Severity::Ok),
        ("errors-ignored", intel().file(format!("{MCE}/dont_log_ce"), "1\n"), Severity::Warning),
        ("errors-ignored", boot(intel(), "mce=off"), Severity::Warning),
        ("cec-swallows-errors", boot(intel().folder("sys/kernel/debug/ras/cec"), "ras=cec_disable"), Severity::Ok),
        ("cec-swallows-errors", amd().folder("sys/kernel/debug/ras/cec"), Severity::Ok),
        ("polling-off", intel().file(format!("{MCE}/check_interval"), "0\n"), Severity::Notice),
        (
            "polling-off",
            boot(intel().file(format!("{MCE}/check_interval"), "0\n"), "quiet mce=no_cmci,bootlog"),
            Severity::Warning,
        ),
        ("threshold-blocks-locked", amd(), Severity::Notice),
        // One of four, in the middle and at the end.
        ("threshold-blocks-locked", unlocked().without(format!("{MCE}/umc_1")), Severity::Warning),
        ("threshold-blocks-locked", unlocked().without(format!("{MCE}/umc_2/dram_ecc")), Severity::Warning),
        ("threshold-blocks-locked", unlocked().without(format!("{MCE}/umc_3")), Severity::Warning),
        ("threshold-settings", amd().file(format!("{MCE}/umc_1/dram_ecc/threshold_limit"), "10\n"), Severity::Notice),
        ("other-collector", intel().file("proc/9/comm", "mcelog\n"), Severity::Warning),
        ("other-collector", intel().file("proc/9/comm", "mcelog\n").file("dev/mcelog", ""), Severity::Ok),
        ("other-collector", intel().file("proc/9/comm", "bash\n"), Severity::Ok),
        ("no-driver", guest(intel().without(MC)), Severity::Ok),
        ("no-driver", intel().without(MC).file("proc/modules", "i10nm_edac 28672 0 - Live 0x0\n"), Severity::Warning),
    ];
    for (rule, tree, severity) in cases {
        let found = checks(&tree);
        assert_eq!(of(&found, rule).severity, severity, "{:?}", of(&found, rule));
    }
}

#[test]
fn what_cannot_be_seen_is_said_to_be_unknown() {
    let hidden = intel().without("sys/firmware").without("sys/kernel/tracing");
    let bare = hidden.without(MCE).without("sys/kernel/debug").without("dev/kmsg").without("sys/module").folder(MCE);
    let found = checks(&bare);
    for rule in [
        "errors-ignored",
        "cec-swallows-errors",
        "cmci-disabled-hole",
        "polling-off",
        "poll-interval-unread",
        "storm-mode",
        "records-lost",
        "firmware-first",
        "trace-overruns",
        "banks-masked",
        "other-collector",
        "errors-not-printed",
    ] {
        let check = of(&found, rule);
        assert_eq!((check.severity, check.certainty), (Severity::Ok, Certainty::CannotTellApartHere), "{check:?}");
    }
}

/// The kernel says `Unknown` and `Reserved` itself; neither is a code, and neither says that there is none.
#[test]
fn a_mode_of_correction_that_is_not_known_is_neither_on_nor_off() {
    for mode in ["Unknown", "Reserved", "S32ECD32ED", "on"] {
        let found = checks(&intel().file(format!("{MC}/mc1/dimm2/dimm_edac_mode"), format!("{mode}\n")));
        let check = of(&found, "ecc-off");
        assert_eq!((check.severity, check.certainty), (Severity::Ok, Certainty::CannotTellApartHere), "{check:?}");
        assert!(check.evidence.contains(mode), "{check:?}");
    }
}

/// The kernel was told to handle no machine check: there is neither a folder of them nor, often, a driver.
#[test]
fn a_kernel_without_machine_checks_is_a_finding_also_without_a_driver() {
    let bare = boot(HostTree::new().file("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n"), "mce=off");
    let check = &checks(&bare)[0];
    assert_eq!((check.severity, check.result), (Severity::Warning, CheckResult::Found), "{check:?}");
    assert_eq!(of(&checks(&bare), "errors-ignored").severity, Severity::Warning);
}

#[test]
fn where_there_is_nothing_nothing_is_checked() {
    let why = doctor::check(&Root::at(HostTree::new().path())).unwrap_err();
    assert!(why.why.contains("nothing can be checked here"), "{why}");
}

#[test]
fn hostile_files_harm_no_rule() {
    let tree = intel()
        .file(format!("{MCE}/check_interval"), "99999999999999999999999\n")
        .file(format!("{MCE}/cmci_disabled"), b"\xff\x00")
        .file("sys/firmware/acpi/tables/HEST", b"HEST\xff\xff\xff\xff")
        .file("dev/kmsg", "4,1,1,-;mce: \u{1b}[2JCPU CMCI storm detected\n")
        .file(format!("{MC}/mc0/mc_name"), "x".repeat(100_000))
        .file("proc/modules", [0xff_u8; 3_000]);
    for check in checks(&tree) {
        assert!(!check.evidence.contains(char::is_control), "{check:?}");
    }
}

#[test]
fn a_controller_whose_numbers_cannot_all_be_read_has_not_passed() {
    for (file, text) in [("dimm0/dimm_ue_count", "N/A\n"), ("ce_count", "\n"), ("dimm0/dimm_ce_count", "-1\n")] {
        let tree = intel().file(format!("{MC}/mc1/{file}"), text);
        let checks = checks(&tree);
        let result = |rule: &str| checks.iter().find(|check| check.rule == rule).unwrap().result;
        assert_eq!(result("totals-disagree"), CheckResult::NotChecked, "{file}");
        assert_eq!(result("counters-unread"), CheckResult::Found, "{file}");
    }
}

#[test]
fn without_the_processor_s_flags_a_virtual_machine_is_not_ruled_out() {
    assert_eq!(of(&checks(&intel()), "virtual-machine").result, CheckResult::Passed);
    let found = checks(&intel().without("proc/cpuinfo"));
    assert_eq!(of(&found, "virtual-machine").result, CheckResult::NotChecked);
}
