//! Reports of made-up drives as text, and the file that jobs read.
use super::*;
use surefoot_model::DriveSource;
use surefoot_testkit::HostTree;

fn report() -> DriveReport {
    let of = |value: u64, source| Some(Sourced::new(value, source, ""));
    let nvme = DriveWear {
        name: "nvme0n1".into(),
        device_numbers: vec!["259:0".into()],
        model: "Example SSD".into(),
        size_bytes: 1_000_204_886_016,
        rated_bytes: of(600_000_000_000_000, DriveSource::RatingTable),
        written_bytes: of(150_000_000_000_000, DriveSource::NvmeHealthLog),
        write_amplification: Some(Sourced::new(1.5, DriveSource::NvmeEnduranceLog, "")),
        percent_used: of(10, DriveSource::NvmeHealthLog),
        spare_percent: of(98, DriveSource::NvmeHealthLog),
        power_on_hours: of(8_766, DriveSource::NvmeHealthLog),
        ..DriveWear::default()
    };
    let silent = DriveWear {
        name: "vda".into(),
        size_bytes: 1 << 38,
        written_bytes: Some(Sourced::new(7_000_000_000, DriveSource::SinceBoot, "at least")),
        notes: vec!["the drive of a virtual machine tells it nothing of its wear".into()],
        ..DriveWear::default()
    };
    DriveReport {
        version: DriveReport::VERSION,
        read_realtime_ns: 5,
        boot_id: "boot".into(),
        drives: vec![nvme, silent],
        dropped_count: 2,
    }
}

#[test]
fn each_number_stands_with_its_source() {
    let wanted = "\
device   model           size   rated  written  used  amplification  spare    age      bears
nvme0n1  Example SSD  1.00 TB  600 TB   150 TB  10 %           1.50   98 %  365 d  3.56 MB/s
vda      -             275 GB       -  7.00 GB     -              -      -      -          -

nvme0n1: rated: table of ratings; written: NVMe log 02h; used: NVMe log 02h; amplification: NVMe log 09h; spare: NVMe log 02h; age: NVMe log 02h
nvme0n1: Example SSD (nvme0n1): 150 TB of 600 TB written (rating from the table of ratings; the drive says 10 % used; 1.0 years old)
vda: written: since boot (at least)
vda: the drive of a virtual machine tells it nothing of its wear
vda: its endurance limits nothing: vda has no known rating; endurance.rated_bytes says it by hand
2 devices more were left out
";
    assert_eq!(text(&report()), wanted);
}

#[test]
fn the_file_is_whole_readable_by_all_and_replaces_links() {
    let folder = HostTree::new().file("elsewhere", "kept").link("drives.json", "elsewhere");
    let path = folder.path().join("drives.json");
    publish(&path, &report()).unwrap();
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o644);
    let read: DriveReport = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(read, report());
    assert_eq!(fs::read_to_string(folder.path().join("elsewhere")).unwrap(), "kept");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside");
    let error = format!("{:#}", publish(folder.path(), &report()).unwrap_err());
    assert!(error.contains("come before --write"), "{error}");
    let mut long = report();
    long.drives = vec![DriveWear { model: "x".repeat(1 << 20), ..DriveWear::default() }];
    assert!(publish(&path, &long).unwrap_err().to_string().contains("longer than"));
    assert!(publish(Path::new("/nowhere/at/all.json"), &report()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn status_says_what_this_process_may_ask() {
    let host = |name: &str, capabilities: &str| {
        HostTree::new()
            .file(format!("sys/class/block/{name}/size"), "1000\n")
            .file(format!("sys/class/block/{name}/hidden"), "0\n")
            .file("sys/class/block/nvme0c0n1/size", "1000\n")
            .file("sys/class/block/nvme0c0n1/hidden", "1\n")
            .file(format!("sys/class/block/{name}/queue/rotational"), "0\n")
            .file(format!("sys/class/block/{name}p1/partition"), "1\n")
            .file("proc/self/status", format!("CapEff:\t{capabilities}\n"))
    };
    let of = |tree: HostTree| capability(&Root::at(tree.path()));
    let all = "000001ffffffffff";
    let works = of(host("nvme0n1", all));
    assert_eq!((works.state, works.reason.as_str()), (CapabilityState::Works, "1 drives can be asked"));
    let reduced = of(host("nvme0n1", "0000000000000000"));
    assert_eq!(reduced.state, CapabilityState::Reduced);
    assert!(reduced.remedy.contains("surefoot-drives.timer"), "{reduced:?}");
    let published = of(host("nvme0n1", "0000000000000000").file("run/surefoot/drives.json", "{}"));
    assert_eq!(published.state, CapabilityState::Works);
    let virtual_one = of(host("vda", all));
    assert_eq!(virtual_one.state, CapabilityState::Unsupported);
    let rotating = of(host("sda", all).file("sys/class/block/sda/queue/rotational", "1\n"));
    assert_eq!(rotating.state, CapabilityState::Unsupported);
}
