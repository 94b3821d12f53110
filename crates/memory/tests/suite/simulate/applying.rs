//! Platforms from made-up trees, and setting the interval on one whose counters a thread moves, or does not.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_memory::tune::act::{Applied, Proof, Step, apply, plan};
use surefoot_memory::tune::{Counters, Mode, Platform};
use tempfile::TempDir;

const S: u64 = 1_000_000_000;
const CHECK_INTERVAL: &str = "sys/devices/system/machinecheck/machinecheck0/check_interval";
const LOG_CE: &str = "sys/module/edac_core/parameters/edac_mc_log_ce";

/// A file and what it holds.
type Held = (&'static str, &'static str);

fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        put(folder.path(), name, text);
    }
    folder
}

fn put(base: &Path, name: &str, text: &str) {
    let path = base.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(folder: &TempDir) -> Platform {
    Platform::read(&Root::at(folder.path()))
}

const INTEL: Held = ("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
const AMD: Held = ("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
const CONTROLLER: Held = ("sys/devices/system/edac/mc/mc0/mc_name", "x\n");
const POLL_MSEC: Held = ("sys/module/edac_core/parameters/edac_mc_poll_msec", "1000\n");
const INTERVAL: Held = (CHECK_INTERVAL, "300\n");
const LOG: Held = (LOG_CE, "1\n");

#[test]
fn the_interval_is_another_on_each_platform() {
    let skx = ("proc/modules", "skx_edac 1 0 - Live 0x0\nedac_core 1 1 - Live 0x0\n");
    let old = ("proc/modules", "e752x_edac 1 0 - Live 0x0\n");
    let ghes = ("proc/modules", "ghes_edac 1 0 - Live 0x0\n");
    let no_cmci = ("proc/cmdline", "root=/dev/sda mce=no_cmci quiet\n");
    let disabled = ("sys/devices/system/machinecheck/machinecheck0/cmci_disabled", "1\n");
    let ignored = ("sys/devices/system/machinecheck/machinecheck0/ignore_ce", "1\n");
    let cases: [(&[Held], Mode, &str); 9] = [
        (&[INTEL, CONTROLLER, old, POLL_MSEC, INTERVAL], Mode::EdacPolling, ""),
        // The file is there, and this driver never reads it.
        (&[INTEL, CONTROLLER, skx, POLL_MSEC, INTERVAL], Mode::Interrupts, "mce=no_cmci to poll"),
        (&[INTEL, CONTROLLER, skx, no_cmci, INTERVAL, disabled], Mode::MachineCheckPolling, ""),
        (&[INTEL, CONTROLLER, skx, INTERVAL, disabled], Mode::Off, "cmci_disabled"),
        (&[INTEL, CONTROLLER, skx, INTERVAL, ignored], Mode::Off, "ignore_ce"),
        (&[AMD, INTERVAL], Mode::MachineCheckPolling, ""),
        (&[AMD, CONTROLLER, ghes, INTERVAL], Mode::FirmwareFirst, "HEST"),
        (&[AMD], Mode::None, "management controller"),
        (&[], Mode::None, "management controller"),
    ];
    for (files, mode, said) in cases {
        let platform = read(&tree(files));
        assert_eq!(platform.mode, mode, "{files:?}");
        assert_eq!(platform.knob.is_some(), said.is_empty(), "{files:?}");
        assert!(platform.refusal.unwrap_or_default().contains(said), "{files:?}");
    }
}

#[test]
fn counters_are_as_wide_as_the_processor_has_them_and_amd_s_outlive_a_poll() {
    let counters = |files: &[Held]| read(&tree(files)).counters;
    assert_eq!(counters(&[INTEL, INTERVAL]), Counters::EmptiedByPolls(15));
    assert_eq!([counters(&[AMD, INTERVAL]), counters(&[AMD])], [Counters::KeptByPolls, Counters::Unknown]);
}

/// Whatever the doctor finds of how errors are told, `tune` goes by it.
#[test]
fn doctor_and_tune_read_a_platform_the_same_way() {
    use super::super::tree::fixture;
    use surefoot_memory::doctor::{DriverSeen, Facts};
    for (name, driver, mode) in [
        ("intel-icelake-16dimm", DriverSeen::Told("i10nm_edac"), Mode::Interrupts),
        // Its driver is built in, and no machine check is recorded.
        ("intel-nehalem-csrow", DriverSeen::Told("i7core_edac"), Mode::None),
        ("hpe-ghes-4dimm", DriverSeen::Told("ghes_edac"), Mode::FirmwareFirst),
        ("amd-zen-ranks", DriverSeen::Told("amd64_edac"), Mode::MachineCheckPolling),
    ] {
        let folder = fixture(name);
        let root = Root::at(folder.path());
        let facts = Facts::read(&root);
        assert_eq!((facts.driver(), facts.mode(), Platform::read(&root).mode), (driver, mode, mode), "{name}");
    }
    // Firmware's table says so where another driver has the controllers.
    let mut table = b"HEST".to_vec();
    table.resize(88, 0);
    (table[36], table[40], table[46]) = (1, 1, 1);
    let first = fixture("intel-icelake-16dimm").file("sys/firmware/acpi/tables/HEST", table);
    assert_eq!(Platform::read(&Root::at(first.path())).mode, Mode::FirmwareFirst);
    // An Arm host with a driver of its own, built in: nobody but that driver can look.
    let arm = tree(&[CONTROLLER, POLL_MSEC, ("proc/cpuinfo", "CPU implementer\t: 0x41\n")]);
    assert_eq!(read(&arm).mode, Mode::Unknown);
    let guest = tree(&[("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n"), INTERVAL]);
    assert_eq!(read(&guest).mode, Mode::None);
}

#[test]
fn a_write_without_effect_is_refused() {
    let folder = tree(&[INTEL, CONTROLLER, POLL_MSEC, INTERVAL, ("proc/modules", "i10nm_edac 1 0 - Live 0x0\n"), LOG]);
    let platform = read(&folder);
    let error = plan(&platform, Some(30 * S), None).unwrap_err().to_string();
    assert!(error.contains("cannot be set") && error.contains("CMCI"), "{error}");
    // Console logging is the cheaper lever there.
    let steps = plan(&platform, None, Some(false)).unwrap();
    assert_eq!((steps.len(), steps[0].to.as_str(), steps[0].proof), (1, "0", Proof::ReadBack));
    let root = Root::at(folder.path());
    assert_eq!(apply(&root, &steps[0], Duration::ZERO, || Ok(()), &|| false), Applied::ReadBack);
    assert_eq!(fs::read_to_string(folder.path().join(LOG_CE)).unwrap(), "0\n");
    assert!(plan(&read(&folder), None, Some(false)).unwrap().is_empty(), "what is so already is no step");
    let garbled = read(&tree(&[AMD, (CHECK_INTERVAL, "\u{0}garbage\n")]));
    assert!(plan(&garbled, Some(S), None).unwrap_err().to_string().contains("cannot be read as a number"));
    assert!(plan(&read(&tree(&[AMD, INTERVAL])), None, Some(true)).unwrap_err().to_string().contains("edac_mc_log_ce"));
}

fn interrupts(counts: [u64; 2]) -> String {
    format!(
        "           CPU0       CPU1\n MCE:  0 0   Machine check exceptions\n MCP:  {} {}   Machine check polls\n",
        counts[0], counts[1]
    )
}

/// An AMD tree, the step to 1 s, and what becomes of it while a thread adds a poll on so many cores every `every`.
fn applied(every: Option<Duration>, cores: u64, wait: Duration) -> (TempDir, Applied) {
    let folder = tree(&[AMD, INTERVAL, ("proc/interrupts", &interrupts([7, 9]))]);
    let steps = plan(&read(&folder), Some(S), None).unwrap();
    assert_eq!(steps.len(), 1);
    let is_over = AtomicBool::new(false);
    let applied = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (start, mut polls) = (Instant::now(), 0u32);
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                while every.is_some_and(|every| start.elapsed() >= every * (polls + 1)) {
                    polls += 1;
                    // As the kernel's file, it is never seen half written.
                    let new = folder.path().join("proc/new");
                    fs::write(&new, interrupts([7 + u64::from(polls), 9 + (cores - 1) * u64::from(polls)])).unwrap();
                    fs::rename(&new, folder.path().join("proc/interrupts")).unwrap();
                }
            }
        });
        let applied = apply(&Root::at(folder.path()), &steps[0], wait, || Ok(()), &|| false);
        is_over.store(true, Ordering::Relaxed);
        applied
    });
    (folder, applied)
}

fn interval(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join(CHECK_INTERVAL)).unwrap()
}

#[test]
fn an_interval_whose_polls_are_seen_stays() {
    let (folder, applied) = applied(Some(Duration::from_secs(1)), 2, Duration::from_secs(4));
    assert!(matches!(&applied, Applied::Verified { evidence } if evidence.contains("polls in")), "{applied:?}");
    assert_eq!(interval(&folder), "1\n");
}

#[test]
fn an_interval_whose_polls_are_not_seen_is_set_back() {
    let (folder, applied) = applied(None, 2, Duration::from_millis(1500));
    assert!(
        matches!(&applied, Applied::RolledBack { evidence } if evidence.contains("no poll was seen")),
        "{applied:?}"
    );
    assert_eq!(interval(&folder), "300\n");
}

#[test]
fn polls_at_another_rate_are_no_proof() {
    let (folder, applied) = applied(Some(Duration::from_millis(50)), 2, Duration::from_millis(2500));
    assert!(
        matches!(&applied, Applied::RolledBack { evidence } if evidence.contains("not the new one")),
        "{applied:?}"
    );
    assert_eq!(interval(&folder), "300\n");
}

/// After an error the kernel polls sooner than `check_interval`, which is the longest time.
#[test]
fn more_polls_are_no_objection_where_errors_came() {
    let count = "sys/devices/system/edac/mc/mc0/ce_count";
    let folder = tree(&[AMD, INTERVAL, CONTROLLER, (count, "4\n"), ("proc/interrupts", &interrupts([7, 9]))]);
    let step = plan(&read(&folder), Some(S), None).unwrap().remove(0);
    let applied = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            for (name, text) in [("proc/interrupts", interrupts([90, 92])), (count, "7\n".to_owned())] {
                let new = folder.path().join("new");
                fs::write(&new, text).unwrap();
                fs::rename(&new, folder.path().join(name)).unwrap();
            }
        });
        apply(&Root::at(folder.path()), &step, Duration::from_millis(2500), || Ok(()), &|| false)
    });
    assert!(matches!(&applied, Applied::Verified { evidence } if evidence.contains("errors arrived")), "{applied:?}");
    assert_eq!(interval(&folder), "1\n");
}

#[test]
fn polls_of_some_cores_only_are_no_proof() {
    let (folder, applied) = applied(Some(Duration::from_secs(1)), 1, Duration::from_millis(2500));
    assert!(matches!(&applied, Applied::RolledBack { .. }), "{applied:?}");
    assert_eq!(interval(&folder), "300\n");
}

#[test]
fn nothing_is_written_through_a_link_or_without_a_count_of_polls() {
    let folder = tree(&[AMD, INTERVAL]);
    let step = plan(&read(&folder), Some(S), None).unwrap().remove(0);
    let root = Root::at(folder.path());
    let no_row = apply(&root, &step, Duration::ZERO, || Ok(()), &|| false);
    assert!(matches!(&no_row, Applied::Failed { why } if why.contains("nothing was written")), "{no_row:?}");
    assert_eq!(interval(&folder), "300\n");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let through = Step { path: link, proof: Proof::ReadBack, ..step };
    assert!(matches!(apply(&root, &through, Duration::ZERO, || Ok(()), &|| false), Applied::Failed { .. }));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // A folder on the way that is a link into another tree: the kernel's file there has the right name.
    let other = tree(&[INTERVAL, INTEL]);
    let theirs = tree(&[AMD]);
    fs::create_dir_all(theirs.path().join("sys/devices")).unwrap();
    std::os::unix::fs::symlink(other.path().join("sys/devices/system"), theirs.path().join("sys/devices/system"))
        .unwrap();
    let step = plan(&read(&theirs), Some(S), None).unwrap().remove(0);
    let applied =
        apply(&Root::at(theirs.path()), &Step { proof: Proof::ReadBack, ..step }, Duration::ZERO, || Ok(()), &|| false);
    assert!(matches!(&applied, Applied::Failed { why } if why.contains("a link on its way")), "{applied:?}");
    assert_eq!(interval(&other), "300\n");
}

#[test]
fn a_pipe_in_the_place_of_a_setting_is_named_and_not_written_to() {
    let folder = tree(&[AMD, LOG]);
    let platform = read(&folder);
    let steps = plan(&platform, None, Some(false)).unwrap();
    let path = folder.path().join(LOG_CE);
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let Applied::Failed { why } = apply(&Root::at(folder.path()), &steps[0], Duration::ZERO, || Ok(()), &|| false)
    else {
        panic!("written")
    };
    assert!(why.contains("it is not a regular file") && why.ends_with("nothing was written"), "{why}");
}
