//! Made-up hosts whose drives answer what a test says, and the host that runs the test.
#![allow(clippy::unwrap_used)]
use super::*;
use surefoot_testkit::HostTree;

fn block(tree: HostTree, number: &str, folder: &str, sectors: u64) -> HostTree {
    let name = folder.rsplit('/').next().unwrap();
    tree.file(format!("sys/devices/{folder}/dev"), format!("{number}\n"))
        .file(format!("sys/devices/{folder}/size"), format!("{sectors}\n"))
        .file(format!("sys/devices/{folder}/queue/rotational"), "0\n")
        .link(format!("sys/dev/block/{number}"), format!("../../devices/{folder}"))
        .link(format!("sys/class/block/{name}"), format!("../../devices/{folder}"))
}

fn partition(tree: HostTree, number: &str, folder: &str) -> HostTree {
    block(tree, number, folder, 1000).file(format!("sys/devices/{folder}/partition"), "1\n")
}

/// An NVMe drive with one partition that holds /srv, a SATA drive behind two paths with an LVM volume on one of them that
/// holds /data, a rotating disk, a virtual drive, an empty card reader and a loop device.
fn host() -> HostTree {
    let mut tree = HostTree::new()
        .file("proc/sys/kernel/random/boot_id", "0f0e-1\n")
        .file(
            "proc/self/mountinfo",
            "31 27 259:1 / /srv rw - ext4 /dev/nvme0n1p1 rw\n\
             32 27 253:0 / /data rw - ext4 /dev/mapper/vg-data rw\n\
             33 27 0:40 / /box rw - overlay overlay rw,upperdir=/srv/up\n\
             34 27 0:27 / /dev/shm rw - tmpfs tmpfs rw\n",
        )
        .file("sys/fs/ext4/nvme0n1p1/lifetime_write_kbytes", "2000000\n")
        .file("sys/fs/ext4/dm-0/lifetime_write_kbytes", "3000000\n");
    tree = block(tree, "259:0", "pci/nvme/nvme0/nvme0n1", 2_000_000_000);
    tree = partition(tree, "259:1", "pci/nvme/nvme0/nvme0n1/nvme0n1p1");
    for (number, name) in [("8:0", "sda"), ("8:16", "sdb")] {
        let folder = format!("pci/ata/block/{name}");
        tree = block(tree, number, &folder, 1_953_525_168)
            .file(format!("sys/devices/{folder}/device/vendor"), "ATA     \n")
            .file(format!("sys/devices/{folder}/device/model"), "CT1000MX500SSD1 \n")
            .file(format!("sys/devices/{folder}/device/vpd_pg80"), b"\0\x80\0\x0c  2137E5C1AAAA\0")
            .file(format!("sys/devices/{folder}/device/wwid"), "naa.500a0751e5c1aaaa\n")
            .file(format!("sys/devices/{folder}/stat"), "0 0 0 0 0 0 900\n");
    }
    tree = block(tree, "253:0", "virtual/block/dm-0", 1000)
        .link("sys/devices/virtual/block/dm-0/slaves/sdb", "../../../../pci/ata/block/sdb");
    tree =
        block(tree, "8:32", "pci/ata/block/sdc", 4_000).file("sys/devices/pci/ata/block/sdc/queue/rotational", "1\n");
    tree = block(tree, "254:0", "pci/virtio/block/vda", 4_000);
    tree = block(tree, "8:48", "pci/usb/block/sdd", 0);
    tree = block(tree, "7:0", "virtual/block/loop0", 8);
    tree.file("sys/devices/pci/nvme/nvme0/nvme0n1/nsid", "1\n")
        .file("sys/devices/pci/nvme/nvme0/nvme0n1/wwid", "eui.0025385b71b0\n")
        .file("sys/devices/pci/nvme/nvme0/nvme0n1/stat", "0 0 0 0 0 0 1000000000\n")
        .file("sys/devices/pci/nvme/nvme0/model", "Samsung SSD 980 PRO 1TB                 \n")
        .file("sys/devices/pci/nvme/nvme0/serial", "S5GXNX0T\n")
        .link("sys/devices/pci/nvme/nvme0/nvme0n1/device", "../../nvme0")
}

fn page(fields: &[(usize, u128)], bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = vec![0; nvme::LOG_BYTES];
    fields.iter().for_each(|&(at, value)| page[at..at + 16].copy_from_slice(&value.to_le_bytes()));
    bytes.iter().for_each(|&(at, value)| page[at] = value);
    page
}

/// 40 % used, 512 TB written, 8,760 hours; 09h with 1.3 PB of flash, 500 TB from hosts and 650 TB to the flash.
fn logs(estimate: u128) -> Logs {
    Logs {
        health: Ok(page(&[(48, 1_000_000_000), (128, 8_760)], &[(3, 98), (5, 40)])),
        endurance: Some(Ok(page(&[(32, estimate), (64, 500_000), (80, 650_000)], &[]))),
    }
}

fn refused() -> Logs {
    Logs { health: Err(io::Error::from_raw_os_error(libc::EACCES)), endurance: None }
}

fn survey_of(
    tree: &HostTree,
    paths: &[&str],
    nvme: &dyn Fn(&Identity) -> Result<Logs, String>,
    scsi: &dyn Fn(&Identity) -> Result<Smart, String>,
) -> Result<DriveReport, Unsupported> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let ask = Ask { nvme, scsi, patience: Duration::from_secs(60) };
    survey_with(&Root::at(tree.path()), &paths, 7, &ask).unwrap()
}

fn smart() -> Smart {
    Smart { written_bytes: Some((90, "attribute".into())), percent_used: Some((9, String::new())), ..Smart::default() }
}

#[test]
fn every_drive_is_told_once_with_all_that_lies_on_it() {
    let report = survey_of(&host(), &[], &|_| Ok(logs(1_300_000)), &|_| Ok(smart())).unwrap();
    let told: Vec<(&str, Vec<&str>)> = report
        .drives
        .iter()
        .map(|drive| (drive.name.as_str(), drive.device_numbers.iter().map(String::as_str).collect()))
        .collect();
    let wanted = [
        ("nvme0n1", vec!["0:40", "259:0", "259:1"]),
        ("sda", vec!["8:0", "8:16", "253:0"]),
        ("sdc", vec!["8:32"]),
        ("vda", vec!["254:0"]),
    ];
    assert_eq!(told, wanted);
    assert_eq!((report.read_realtime_ns, report.boot_id.as_str(), report.dropped_count), (7, "0f0e-1", 0));
    assert_eq!(report.beneath("253:0").map(|drive| drive.name.as_str()).collect::<Vec<_>>(), ["sda"]);
    let nvme = &report.drives[0];
    assert_eq!((nvme.model.as_str(), nvme.serial.as_deref()), ("Samsung SSD 980 PRO 1TB", Some("S5GXNX0T")));
    assert_eq!(nvme.size_bytes, 1_024_000_000_000);
    let number = |of: &Option<Sourced<u64>>| of.as_ref().map(|of| (of.value, of.source));
    assert_eq!(number(&nvme.written_bytes), Some((512_000_000_000_000, DriveSource::NvmeHealthLog)));
    assert_eq!(number(&nvme.percent_used), Some((40, DriveSource::NvmeHealthLog)));
    assert_eq!(number(&nvme.rated_bytes), Some((1_300_000_000_000_000, DriveSource::NvmeEnduranceLog)));
    assert_eq!(number(&nvme.power_on_hours), Some((8_760, DriveSource::NvmeHealthLog)));
    assert_eq!(nvme.write_amplification.as_ref().unwrap().value, 1.3);
    let sata = &report.drives[1];
    assert_eq!((sata.model.as_str(), sata.serial.as_deref()), ("CT1000MX500SSD1", Some("2137E5C1AAAA")));
    assert_eq!(number(&sata.rated_bytes), Some((360_000_000_000_000, DriveSource::RatingTable)));
    assert_eq!(number(&sata.percent_used), Some((9, DriveSource::Smartctl)));
    assert!(report.drives[2].notes[0].contains("rotating") && report.drives[3].notes[0].contains("virtual machine"));
}

#[test]
fn a_path_leads_to_its_drives_alone() {
    let names = |path: &str| {
        let report = survey_of(&host(), &[path], &|_| Ok(logs(0)), &|_| Ok(smart()));
        report.map(|report| report.drives.into_iter().map(|drive| drive.name).collect::<Vec<_>>())
    };
    assert_eq!(names("/srv/job").unwrap(), ["nvme0n1"]);
    assert_eq!(names("/data").unwrap(), ["sdb"]);
    assert_eq!(names("/box/x").unwrap(), ["nvme0n1"]);
    assert!(names("/dev/shm/x").unwrap_err().why.contains("tmpfs"));
    let hidden = host().without("sys/dev/block/259:1");
    let why = survey_of(&hidden, &["/srv"], &|_| Ok(refused()), &|_| Ok(smart())).unwrap_err();
    assert!(why.why.contains("no drive is seen beneath /srv"), "{why}");
}

#[test]
fn without_privilege_the_kernels_counts_remain_and_say_what_they_are() {
    let report = survey_of(&host(), &[], &|_| Ok(refused()), &|_| Err("no".into())).unwrap();
    let written = |name: &str| {
        let drive = report.drives.iter().find(|drive| drive.name == name).unwrap();
        drive.written_bytes.clone()
    };
    // 512 GB since boot are more than the file system's 2 GB; on sda it is the other way round.
    let nvme = written("nvme0n1").unwrap();
    assert_eq!((nvme.value, nvme.source), (512_000_000_000, DriveSource::SinceBoot));
    let sata = written("sda").unwrap();
    assert_eq!((sata.value, sata.source), (3_072_000_000, DriveSource::FileSystem));
    assert!(!nvme.source.covers_life() && sata.detail.starts_with("a lower bound"));
    assert_eq!(written("vda"), None);
    let drive = &report.drives[0];
    assert!(drive.notes[0].contains("CAP_SYS_ADMIN") && drive.percent_used.is_none(), "{drive:?}");
    // The rating of the model is known all the same.
    assert_eq!(drive.rated_bytes.as_ref().unwrap().value, 600_000_000_000_000);
}

#[test]
fn the_table_rates_a_drive_whose_amplification_is_not_known() {
    let only = |estimate: u128, media: u128| {
        let endurance = page(&[(32, estimate), (64, 500_000), (80, media)], &[]);
        let answer = move |_: &Identity| Ok(Logs { endurance: Some(Ok(endurance.clone())), ..logs(0) });
        let report = survey_of(&host(), &["/srv"], &answer, &|_| Ok(smart())).unwrap();
        report.drives[0].rated_bytes.as_ref().map(|rated| rated.source)
    };
    assert_eq!(only(1_300_000, 650_000), Some(DriveSource::NvmeEnduranceLog));
    assert_eq!(only(1_300_000, 0), Some(DriveSource::RatingTable));
    assert_eq!(only(0, 650_000), Some(DriveSource::RatingTable));
}

#[test]
fn what_takes_too_long_is_left_and_said() {
    let begun = Instant::now();
    let stuck = within(Duration::from_millis(50), || std::thread::sleep(Duration::from_secs(30)));
    assert!(stuck.unwrap_err().contains("no answer in 50ms"));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let ask = Ask { nvme: &|_| Ok(logs(0)), scsi: &|_| Ok(smart()), patience: Duration::ZERO };
    let report = survey_with(&Root::at(host().path()), &[], 0, &ask).unwrap().unwrap();
    assert!(report.drives[0].notes[0].contains("not asked"), "{:?}", report.drives[0]);
}

#[test]
fn a_host_without_drives_is_unsupported_and_one_without_sys_an_error() {
    let empty = HostTree::new().folder("sys/dev/block");
    let why = survey_of(&empty, &[], &|_| Ok(refused()), &|_| Ok(smart())).unwrap_err();
    assert!(why.why.contains("no drive is seen"), "{why}");
    let ask = Ask { nvme: &|_| Ok(refused()), scsi: &|_| Ok(smart()), patience: Duration::ZERO };
    assert!(survey_with(&Root::at(HostTree::new().path()), &[], 0, &ask).unwrap_err().is_absent());
}

#[test]
fn this_machines_own_drives_tell_or_say_why_not() {
    let report = match survey(&Root::host(), &[], 1).unwrap() {
        Ok(report) => report,
        Err(why) => return assert!(why.why.contains("no drive is seen"), "{why}"),
    };
    for drive in &report.drives {
        assert!(drive.size_bytes > 0 && !drive.device_numbers.is_empty(), "{drive:?}");
        let tells =
            drive.percent_used.is_some() || drive.written_bytes.as_ref().is_some_and(|of| of.source.covers_life());
        assert!(tells || !drive.notes.is_empty(), "{drive:?} neither tells nor says why");
    }
    // The drive beneath / is among them, where / lies on one.
    if let Ok(Ok(root)) = survey(&Root::host(), &[PathBuf::from("/")], 1) {
        assert!(root.drives.iter().all(|drive| report.drives.iter().any(|other| other.name == drive.name)));
    }
}
