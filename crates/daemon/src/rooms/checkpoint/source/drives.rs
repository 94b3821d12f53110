//! The wear of the drives, as a privileged reader publishes it.

use super::locks::device_number;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_model::{CheckpointDirectory, CheckpointDrives, DriveReport};

/// The drives of this boot, or why they are not known; `None` where nobody publishes them.
pub(super) fn read(root: &Root) -> Option<Result<DriveReport, String>> {
    let path = root.path(DriveReport::FILE);
    match root.read_up_to(&path, DriveReport::FILE_BYTES_MAX) {
        Ok(text) => Some(parse(&text, root).map_err(|why| format!("the wear of the drives is not known: {why}"))),
        Err(error) if error.is_absent() => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

fn parse(text: &str, root: &Root) -> Result<DriveReport, String> {
    let report: DriveReport = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if report.version != DriveReport::VERSION {
        return Err(format!("the file has version {}, this program knows {}", report.version, DriveReport::VERSION));
    }
    let boot_id = root.read(root.proc("sys/kernel/random/boot_id")).unwrap_or_default();
    if report.boot_id != boot_id.trim() {
        return Err("the file is of an earlier start of the machine".to_owned());
    }
    Ok(report)
}

/// The drives beneath these directories, whose rows then name them.
pub(super) fn beneath(report: DriveReport, directories: &mut [CheckpointDirectory]) -> CheckpointDrives {
    for directory in &mut *directories {
        let Ok(found) = fs::metadata(Path::new(&directory.path)) else { continue };
        let (major, minor) = device_number(found.dev());
        let number = format!("{major}:{minor}");
        directory.drives = report.beneath(&number).map(|drive| drive.name.clone()).collect();
    }
    let is_beneath = |name: &String| directories.iter().any(|directory| directory.drives.contains(name));
    let drives = report.drives.into_iter().filter(|drive| is_beneath(&drive.name)).collect();
    CheckpointDrives { read_realtime_ns: report.read_realtime_ns, drives }
}
