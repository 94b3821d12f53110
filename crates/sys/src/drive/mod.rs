//! The drives beneath a directory, and how worn they are.
//!
//! | drive | asked through | what is known |
//! |---|---|---|
//! | NVMe | log pages 02h and 09h, CAP_SYS_ADMIN | life used, bytes written, write amplification, spare, age |
//! | SATA, SAS | `smartctl --json` where it is installed, CAP_SYS_RAWIO | the same, as far as the maker tells |
//! | any | files that every user may read | what the file systems count since they were made, or the kernel since boot |
//!
//! Each number says its source. A drive that hangs costs its time limit and no more.

mod beneath;
mod counters;
mod identity;
mod number;
pub mod nvme;
mod ratings;
pub mod smartctl;

pub use beneath::{Beneath, beneath};
pub use identity::{Identity, Kind};
pub use number::of_path;
pub use ratings::{Rating, rating};

use number::of_path_among;
use nvme::{EnduranceLog, HealthLog, Logs};
use smartctl::Smart;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use surefoot_hostfs::device::DeviceNumber;
use surefoot_hostfs::mounts::{Mount, Mounts};
use surefoot_hostfs::{Error, Root, Unsupported};
use surefoot_model::{DriveReport, DriveSource, DriveWear, Sourced};

/// Drives of one report.
const DRIVES_MAX: usize = 128;

/// Numbers of devices and mounts that are followed down to their drives.
const NUMBERS_MAX: usize = 4096;

/// How long one drive may take to answer.
const DRIVE_PATIENCE: Duration = Duration::from_secs(10);

/// How long all of them may: those after are not asked.
const ALL_PATIENCE: Duration = Duration::from_secs(90);

/// Devices that are memory, pictures of files, or no drives for data.
const NO_DRIVES: [&str; 8] = ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd"];

/// Reads the wear of the drives beneath some paths, or of all drives of the host where none is named.
/// `read_realtime_ns` is the time of now, for the report.
///
/// # Errors
/// [`Error`] for a path that is not there or a host without /sys; [`Unsupported`] within where there is no drive to tell
/// of.
pub fn survey(
    root: &Root,
    paths: &[PathBuf],
    read_realtime_ns: u64,
) -> Result<Result<DriveReport, Unsupported>, Error> {
    let nvme = |drive: &Identity| ask_nvme(root, drive);
    let scsi = |drive: &Identity| ask_smartctl(root, drive);
    survey_with(root, paths, read_realtime_ns, &Ask { nvme: &nvme, scsi: &scsi, patience: ALL_PATIENCE })
}

/// How drives are asked: the host's are, those of a recorded tree are made up by tests.
struct Ask<'a> {
    nvme: &'a dyn Fn(&Identity) -> Result<Logs, String>,
    scsi: &'a dyn Fn(&Identity) -> Result<Smart, String>,
    patience: Duration,
}

fn survey_with(
    root: &Root,
    paths: &[PathBuf],
    read_realtime_ns: u64,
    ask: &Ask<'_>,
) -> Result<Result<DriveReport, Unsupported>, Error> {
    let (mut numbers, mut dropped_count) = numbers_above(root)?;
    let wanted = if paths.is_empty() {
        numbers.keys().filter(|name| is_drive(name)).cloned().collect()
    } else {
        match beneath_paths(root, paths, &mut numbers)? {
            Ok(found) => {
                dropped_count += found.dropped_count;
                found.names
            }
            Err(why) => return Ok(Err(why)),
        }
    };
    let (drives, more) = drives(root, wanted, &numbers);
    if drives.is_empty() {
        let why = "no drive is seen: /sys/dev/block lists none that holds data";
        return Ok(Err(Unsupported::new(why, "run it on the host, where the drives are")));
    }
    let begun = Instant::now();
    let drives = drives.into_iter().map(|(drive, numbers)| match begun.elapsed() < ask.patience {
        true => wear(root, &drive, &numbers, ask),
        false => {
            let why = Err(format!("it was not asked, because those before took {:.0?}", ask.patience));
            wear(root, &drive, &numbers, &Ask { nvme: &|_| why_of(&why), scsi: &|_| why_of(&why), ..*ask })
        }
    });
    let boot_id = root.read(root.proc("sys/kernel/random/boot_id")).unwrap_or_default();
    Ok(Ok(DriveReport {
        version: DriveReport::VERSION,
        read_realtime_ns,
        boot_id: boot_id.trim().chars().take(64).collect(),
        drives: drives.collect(),
        dropped_count: dropped_count + more,
    }))
}

fn why_of<T>(why: &Result<(), String>) -> Result<T, String> {
    Err(why.as_ref().err().cloned().unwrap_or_default())
}

fn is_drive(name: &str) -> bool {
    !NO_DRIVES.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Numbers of all that lies on each whole device, by its name; and how many were left out.
type Numbers = BTreeMap<String, BTreeSet<DeviceNumber>>;

fn numbers_above(root: &Root) -> Result<(Numbers, u64), Error> {
    let path = root.sys("dev/block");
    let entries = std::fs::read_dir(&path).map_err(|source| Error::Read { path, source })?;
    let mut unread_count = 0;
    let entries = entries.filter_map(|entry| entry.inspect_err(|_| unread_count += 1).ok());
    let all: Vec<DeviceNumber> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<DeviceNumber>().ok()).collect();
    let mut numbers = Numbers::new();
    let mut add = |number: DeviceNumber, below: Beneath| {
        unread_count += below.dropped_count;
        for name in below.names {
            numbers.entry(name).or_default().insert(number);
        }
    };
    for &number in all.iter().take(NUMBERS_MAX) {
        add(number, beneath(root, number));
    }
    // File systems that have numbers of their own.
    let own_number = |mount: &&Mount| matches!(mount.kind.as_str(), "btrfs" | "overlay");
    let known = OnceCell::from(Mounts::read(root).unwrap_or_default());
    for mount in known.get().into_iter().flat_map(|mounts| &mounts.list).filter(own_number).take(NUMBERS_MAX) {
        let Ok(Ok(below)) = of_path_among(root, &known, &mount.point) else { continue };
        for below in below {
            add(mount.number, beneath(root, below));
            if let Some(number) = seen_number(root, &mount.point) {
                add(number, beneath(root, below));
            }
        }
    }
    Ok((numbers, unread_count + all.len().saturating_sub(NUMBERS_MAX) as u64))
}

/// The number that `stat` shows of a path; of a btrfs subvolume it is another than that of the mount.
fn seen_number(root: &Root, path: &Path) -> Option<DeviceNumber> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = root.is_host().then(|| std::fs::metadata(path).ok()).flatten()?;
    (!metadata.file_type().is_block_device()).then(|| DeviceNumber::of_stat(metadata.dev()))
}

fn beneath_paths(root: &Root, paths: &[PathBuf], numbers: &mut Numbers) -> Result<Result<Beneath, Unsupported>, Error> {
    let mut all = Beneath::default();
    for path in paths {
        let found = match of_path(root, path)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let mut names = BTreeSet::new();
        for number in found {
            let below = beneath(root, number);
            all.dropped_count += below.dropped_count;
            names.extend(below.names);
        }
        if names.is_empty() {
            let why = format!("no drive is seen beneath {}: its device is not in /sys/dev/block", path.display());
            return Ok(Err(Unsupported::new(why, "run it on the host, where the drives are")));
        }
        for name in &names {
            numbers.entry(name.clone()).or_default().extend(seen_number(root, path));
        }
        all.names.extend(names);
    }
    Ok(Ok(all))
}

/// What each drive is. Two paths to one drive are one, with the numbers of both; an empty drive is none.
fn drives(root: &Root, names: BTreeSet<String>, numbers: &Numbers) -> (Vec<(Identity, BTreeSet<DeviceNumber>)>, u64) {
    let mut drives: Vec<(Identity, BTreeSet<DeviceNumber>)> = Vec::new();
    let mut dropped_count = 0;
    for name in names {
        let drive = Identity::read(root, &name);
        let numbers = numbers.get(&name).cloned().unwrap_or_default();
        let is_same = |other: &Identity| drive.world_id.is_some() && drive.world_id == other.world_id;
        match drives.iter().position(|(other, _)| is_same(other)) {
            _ if drive.size_bytes == 0 => {}
            Some(known) => drives[known].1.extend(numbers),
            None if drives.len() == DRIVES_MAX => dropped_count += 1,
            None => drives.push((drive, numbers)),
        }
    }
    (drives, dropped_count)
}

fn wear(root: &Root, drive: &Identity, numbers: &BTreeSet<DeviceNumber>, ask: &Ask<'_>) -> DriveWear {
    let mut wear = DriveWear {
        name: drive.name.clone(),
        device_numbers: numbers.iter().take(NUMBERS_MAX).map(ToString::to_string).collect(),
        model: drive.model.clone(),
        serial: drive.serial.clone(),
        size_bytes: drive.size_bytes,
        is_rotational: drive.is_rotational,
        ..DriveWear::default()
    };
    match drive.kind {
        Kind::Nvme => match (ask.nvme)(drive) {
            Ok(logs) => from_logs(&mut wear, logs),
            Err(why) => wear.notes.push(why),
        },
        Kind::Scsi if drive.is_rotational => wear.notes.push("a rotating disk does not wear by writing".into()),
        Kind::Scsi => match (ask.scsi)(drive) {
            Ok(smart) => from_smart(&mut wear, smart),
            Err(why) => wear.notes.push(why),
        },
        Kind::Virtual => wear.notes.push("the drive of a virtual machine tells it nothing of its wear".into()),
        Kind::Other => wear.notes.push("there is no known way to ask such a device about its wear".into()),
    }
    if wear.written_bytes.is_none() {
        wear.written_bytes = at_least_written(root, drive, numbers);
    }
    // The drive's own rating says more than a table where it also tells what writing really costs it.
    if wear.rated_bytes.is_none() || wear.write_amplification.is_none() {
        let rated = rating(&wear.model);
        let rated = rated.map(|rated| Sourced::new(rated.bytes, DriveSource::RatingTable, rated.document));
        wear.rated_bytes = rated.or(wear.rated_bytes.take());
    }
    wear
}

fn from_logs(wear: &mut DriveWear, logs: Logs) {
    let parsed = |page: io::Result<Vec<u8>>| page.map_err(|error| refusal(&error));
    match parsed(logs.health).and_then(|page| HealthLog::parse(&page).map_err(str::to_owned)) {
        Ok(log) => {
            let of = |value: u64, field: &str| Some(Sourced::new(value, DriveSource::NvmeHealthLog, field));
            wear.percent_used = of(log.percent_used.into(), "");
            wear.written_bytes = log.written_bytes.and_then(|bytes| of(bytes, ""));
            wear.spare_percent = log.spare_percent.and_then(|percent| of(percent.into(), ""));
            wear.critical_warning = of(log.critical_warning.into(), "");
            wear.media_error_count = of(log.media_error_count, "");
            wear.power_on_hours = log.power_on_hours.and_then(|hours| of(hours, ""));
        }
        Err(why) => wear.notes.push(format!("log 02h: {why}")),
    }
    match logs.endurance.map(|page| parsed(page).and_then(|page| EnduranceLog::parse(&page).map_err(str::to_owned))) {
        Some(Ok(log)) => {
            let from = DriveSource::NvmeEnduranceLog;
            wear.write_amplification = log.write_amplification().map(|ratio| Sourced::new(ratio, from, ""));
            wear.rated_bytes = log.estimate_bytes.map(|bytes| Sourced::new(bytes, from, "bytes to the flash"));
            if wear.written_bytes.is_none() {
                wear.written_bytes = log.written_bytes.map(|bytes| Sourced::new(bytes, from, ""));
            }
        }
        Some(Err(why)) => wear.notes.push(format!("log 09h: {why}")),
        None => wear.notes.push("the drive has no endurance groups, so its write amplification is not known".into()),
    }
}

fn from_smart(wear: &mut DriveWear, smart: Smart) {
    let of = |(value, detail): (u64, String)| Sourced::new(value, DriveSource::Smartctl, detail);
    if let Some(model) = smart.model {
        wear.model = model;
    }
    wear.written_bytes = smart.written_bytes.map(of);
    wear.percent_used = smart.percent_used.map(of);
    wear.spare_percent = smart.spare_percent.map(of);
    wear.power_on_hours = smart.power_on_hours.map(|hours| Sourced::new(hours, DriveSource::Smartctl, ""));
    let amplification = smart.write_amplification;
    wear.write_amplification = amplification.map(|(ratio, said)| Sourced::new(ratio, DriveSource::Smartctl, said));
}

/// The larger of what file systems on the drive count and what the kernel does; each is less than the whole.
fn at_least_written(root: &Root, drive: &Identity, numbers: &BTreeSet<DeviceNumber>) -> Option<Sourced<u64>> {
    let name = |number: &DeviceNumber| {
        let device = root.sys("dev/block").join(number.to_string()).canonicalize().ok()?;
        device.file_name()?.to_str().map(str::to_owned)
    };
    let names: BTreeSet<String> = numbers.iter().filter_map(name).collect();
    let counts = names.iter().filter_map(|name| counters::file_system_bytes(root, name));
    let file_systems = counts.fold(0, u64::saturating_add);
    let since_boot = counters::since_boot_bytes(root, &drive.name).unwrap_or(0);
    match file_systems.max(since_boot) {
        0 => None,
        bytes if bytes == file_systems => Some(Sourced::new(
            bytes,
            DriveSource::FileSystem,
            "a lower bound: counted since the file systems were made",
        )),
        bytes => Some(Sourced::new(bytes, DriveSource::SinceBoot, "a lower bound")),
    }
}

/// Why a drive was not asked, and what helps.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let remedy = surefoot_hostfs::privilege::remedy(&["CAP_SYS_ADMIN"]);
            format!("asking the drive needs CAP_SYS_ADMIN: {remedy}; or let surefoot-drives.timer of the host do it")
        }
        Some(libc::ENOENT | libc::ENXIO) => "its device node is not here: in a container, ask on the host".into(),
        _ => format!("the drive did not answer: {error}"),
    }
}

fn ask_nvme(root: &Root, drive: &Identity) -> Result<Logs, String> {
    if !root.is_host() {
        return Err("a recorded host has no drive to ask".into());
    }
    let (device, namespace) = (root.dev(&drive.name), drive.namespace);
    within(DRIVE_PATIENCE, move || nvme::logs(&device, namespace))?.map_err(|error| refusal(&error))
}

fn ask_smartctl(root: &Root, drive: &Identity) -> Result<Smart, String> {
    if !root.is_host() {
        return Err("a recorded host has no drive to ask".into());
    }
    let Some(program) = smartctl::program() else {
        return Err("SATA and SAS drives are asked through smartctl, which is not installed: smartmontools".into());
    };
    let device = root.dev(drive.name.replace('!', "/"));
    // Opening says more clearly than smartctl what is missing.
    let open = device.clone();
    within(DRIVE_PATIENCE, move || surefoot_hostfs::open(&open).map(drop))?.map_err(|error| refusal(&error))?;
    smartctl::ask(&program, &device, DRIVE_PATIENCE)
}

/// Does it on a thread of its own, and leaves the thread alone when it takes too long: nothing ends a call that a hung
/// drive holds in the kernel.
fn within<T: Send + 'static>(patience: Duration, call: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (send, receive) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let _ = send.send(call());
    });
    receive.recv_timeout(patience).map_err(|_| format!("the drive gave no answer in {patience:.0?}"))
}

#[cfg(test)]
mod tests;
