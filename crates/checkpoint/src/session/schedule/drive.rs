//! The drive beneath the durable directory, as the privileged reader published it.

use super::Schedule;
use crate::config::Config;
use crate::controller::{Drive, Endurance, Policy, YEAR_S, of_drives};
use crate::session::clock;
use crate::session::ranks::OfDrives;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_model::{DriveReport, DriveWear};

/// An older reading is said to be old: a day, of a timer that runs every few hours.
const STALE_S: f64 = 86_400.0;

/// What one rank knows of its drive; numbers are finite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DriveFacts {
    /// Rated bytes, written bytes, seconds that remain and seconds of rated life; `None` where they are not known.
    numbers: Option<[f64; 4]>,
    /// What it is known from, or why it is not.
    said: String,
}

impl DriveFacts {
    fn new(drive: Option<Drive>, said: String) -> Self {
        let numbers =
            drive.map(|drive| [drive.rated_bytes, drive.written_bytes, drive.remaining_s, drive.rated_life_s]);
        DriveFacts { numbers: numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite())), said }
    }

    fn drive(&self) -> Option<Drive> {
        let [rated_bytes, written_bytes, remaining_s, rated_life_s] = self.numbers?;
        Some(Drive { rated_bytes, written_bytes, remaining_s, rated_life_s })
    }

    /// What the first rank of a node tells the others.
    pub fn told(&self, node: u32, granted_share: f64) -> OfDrives {
        OfDrives {
            node_count: 1,
            known_count: u64::from(self.numbers.is_some()),
            node: u64::from(node),
            bears_bytes_per_s: self.drive().map_or(0.0, |drive| drive.bearable_bytes_per_s(granted_share)),
            numbers: self.numbers.unwrap_or_default(),
            said: self.said.clone(),
        }
    }
}

/// Of the drives of all nodes the one that bears least, and what is known of it: the same on all ranks.
pub fn of_all(drives: &OfDrives) -> (Option<Drive>, String) {
    let (known_count, nodes) = (drives.known_count, drives.node_count);
    let facts = DriveFacts { numbers: (known_count > 0).then_some(drives.numbers), said: drives.said.clone() };
    match facts.drive() {
        Some(drive) if nodes > 1 => {
            let said =
                format!("{}; the one with the least endurance of {known_count} known on {nodes} nodes", facts.said);
            (Some(drive), said)
        }
        drive => (drive, facts.said),
    }
}

/// The share of the drive's rating that the policy may use up.
pub fn granted_share(policy: &Policy) -> f64 {
    match policy {
        Policy::Surefoot(surefoot) => surefoot.granted_share,
        Policy::Paper(_) | Policy::Fixed(_) => 1.0,
    }
}

impl Schedule {
    /// What is known of the drive now, and a notice. A shared directory in the SSD's place has no drive of this node.
    pub fn look_at_drive(&mut self, config: &Config) -> (DriveFacts, Option<String>) {
        let endurance = match &config.durable {
            Some(durable) => durable.endurance,
            None if self.memory_wear_factor > 0.0 => Endurance::default(),
            None => return (DriveFacts::default(), None),
        };
        let facts = self.drive_file.look(&endurance, granted_share(&config.policy));
        (facts, self.drive_file.take_notice())
    }
}

/// What tells that a file was written anew.
type Stamp = (u64, i64, i64, u64);

/// The published file, read when it changes.
#[derive(Debug)]
pub struct DriveFile {
    path: Option<PathBuf>,
    /// The numbers of the devices that are written to: the durable directory's, and that of a memory tier that is not in memory.
    device_numbers: Vec<String>,
    stamp: Option<Stamp>,
    report: Result<DriveReport, String>,
    notice: Option<String>,
}

impl DriveFile {
    /// For the directories of a job that lie on drives.
    pub fn of(config: &Config, may_memory_wear: bool) -> Self {
        let durable = config.durable.as_ref().map(|durable| durable.directory.as_path());
        let memory = config.memory.as_ref().filter(|_| may_memory_wear).map(|memory| memory.directory.as_path());
        DriveFile::new(config.drive_file.as_deref(), durable.into_iter().chain(memory))
    }

    /// For these directories; without a path nothing is read.
    pub fn new<'a>(path: Option<&Path>, directories: impl IntoIterator<Item = &'a Path>) -> Self {
        let number = |directory: &Path| {
            let number = fs::metadata(directory).ok()?.dev();
            Some(format!("{}:{}", libc::major(number), libc::minor(number)))
        };
        DriveFile {
            path: path.map(Path::to_owned),
            device_numbers: directories.into_iter().filter_map(number).collect(),
            stamp: None,
            report: Err("no file was read".into()),
            notice: None,
        }
    }

    /// What is known now. The file is looked at, and read only when it is another than before.
    pub fn look(&mut self, endurance: &Endurance, granted_share: f64) -> DriveFacts {
        let found = self.refresh().and_then(|()| self.of_report(endurance, granted_share));
        match (found, endurance.by_hand()) {
            (Ok((drive, said)), _) => DriveFacts::new(Some(drive), said),
            (Err(_), Some(drive)) => DriveFacts::new(Some(drive), "all of it by hand".into()),
            (Err(why), None) => DriveFacts::new(None, why),
        }
    }

    /// What was wrong with the file, once for each time that it was written.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    fn refresh(&mut self) -> Result<(), String> {
        let Some(path) = &self.path else { return Err("drive_file is none".into()) };
        let shown = path.display();
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no {shown}, which `surefoot checkpoint drive --write` makes")
            }
            _ => format!("{shown}: {error}"),
        })?;
        let stamp = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len());
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.report = read(path, &metadata).map_err(|why| format!("{shown} is not used: {why}"));
            self.notice = self.report.as_ref().err().cloned();
        }
        Ok(())
    }

    fn of_report(&self, endurance: &Endurance, granted_share: f64) -> Result<(Drive, String), String> {
        let report = self.report.as_ref().map_err(Clone::clone)?;
        let drives: Vec<&DriveWear> =
            self.device_numbers.iter().flat_map(|number| report.beneath(number)).take(256).collect();
        let age_s = clock::realtime_ns().saturating_sub(report.read_realtime_ns) as f64 / 1e9;
        let found = of_drives(&drives, endurance, age_s, granted_share);
        let (drive, mut said) = found.map_err(|why| {
            why.unwrap_or_else(|| {
                let path = self.path.as_deref().unwrap_or(Path::new("")).display();
                let numbers = match self.device_numbers.is_empty() {
                    true => "unknown".to_owned(),
                    false => self.device_numbers.join(" and "),
                };
                format!("{path} names no drive for the device {numbers} of the checkpoint directory")
            })
        })?;
        if age_s > STALE_S {
            said += &format!("; read {} ago", old(age_s));
        }
        Ok((drive, said))
    }
}

fn old(age_s: f64) -> String {
    match age_s {
        years if years >= 2.0 * YEAR_S => "years".into(),
        days if days >= 2.0 * 86_400.0 => format!("{:.0} days", days / 86_400.0),
        hours => format!("{:.0} hours", hours / 3_600.0),
    }
}

/// Reads the file, whoever wrote it.
fn read(path: &Path, metadata: &fs::Metadata) -> Result<DriveReport, String> {
    let limit = DriveReport::FILE_BYTES_MAX;
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    if metadata.len() > limit {
        return Err(format!("it is longer than {limit} bytes"));
    }
    // It may have become something else meanwhile.
    let text = surefoot_foreign::hold(path).and_then(|held| held.regular()?.read(limit));
    let text = text.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("it is longer than {limit} bytes"),
        _ => error.to_string(),
    })?;
    // The message may repeat what the file says.
    let shorten = |text: String| text.chars().filter(|c| !c.is_control()).take(160).collect::<String>();
    let report: DriveReport = serde_json::from_slice(&text).map_err(|error| shorten(error.to_string()))?;
    if report.version != DriveReport::VERSION {
        return Err(format!("it has version {}, and {} is known", report.version, DriveReport::VERSION));
    }
    if report.boot_id != clock::host() {
        return Err(
            "it was read on another machine, or before this one started, so its device numbers may be others".into()
        );
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
