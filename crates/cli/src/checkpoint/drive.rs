//! `surefoot checkpoint drive`: reads how worn the drives are, and publishes it for jobs without privilege.

use super::options::DriveOptions;
use anyhow::Context;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_checkpoint::controller::{Endurance, of_wear};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::words::{size, time};
use surefoot_hostfs::privilege::Capabilities;
use surefoot_hostfs::{Error, Root, Unsupported};
use surefoot_model::{Capability, CapabilityState, DriveReport, DriveWear, Sourced};
use surefoot_sys::drive::{Identity, Kind, survey};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "drive")]
pub struct DriveLine<'a> {
    #[serde(flatten)]
    wear: &'a DriveWear,
    /// Bytes per second that it may take until the end of its planned life; `null` where that is not known.
    bearable_bytes_per_s: Option<f64>,
    /// From what that is known, or why it is not.
    said: String,
}

pub fn run(options: &DriveOptions) -> anyhow::Result<Outcome> {
    let report = survey(&Root::host(), &options.paths, realtime_ns())??;
    if let Some(path) = &options.write {
        publish(path, &report).with_context(|| format!("--write: cannot write {}", path.display()))?;
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint drive")?;
        for wear in &report.drives {
            let (bearable_bytes_per_s, said) = bears(wear);
            output::line(&mut out, &DriveLine { wear, bearable_bytes_per_s, said })?;
        }
    } else {
        out.write_all(text(&report).as_bytes())?;
        if let Some(path) = &options.write {
            writeln!(out, "Published in {}", surefoot_console::people::path(path))?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The drives beneath a path, read now.
pub fn beneath(path: &Path) -> Result<Result<DriveReport, Unsupported>, Error> {
    survey(&Root::host(), &[PathBuf::from(path)], realtime_ns())
}

fn realtime_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// What the controller makes of a drive.
fn bears(wear: &DriveWear) -> (Option<f64>, String) {
    match of_wear(wear, &Endurance::default(), 0.0) {
        Ok((drive, said)) => (Some(drive.bearable_bytes_per_s(1.0)), said),
        Err(why) => (None, why),
    }
}

fn text(report: &DriveReport) -> String {
    let columns = ["device", "model", "size", "rated", "written", "used", "amplification", "spare", "age", "bears"];
    let mut table = Table::new(&columns, &[0, 1]);
    let cell = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    for wear in &report.drives {
        let bytes = |of: &Option<Sourced<u64>>| cell(of.as_ref().map(|of| size(of.value as f64)));
        let percent = |of: &Option<Sourced<u64>>| cell(of.as_ref().map(|of| format!("{} %", of.value)));
        table.row(vec![
            wear.name.clone(),
            if wear.model.is_empty() { "-".into() } else { wear.model.clone() },
            size(wear.size_bytes as f64),
            bytes(&wear.rated_bytes),
            bytes(&wear.written_bytes),
            percent(&wear.percent_used),
            cell(wear.write_amplification.as_ref().map(|of| format!("{:.2}", of.value))),
            percent(&wear.spare_percent),
            cell(wear.power_on_hours.as_ref().map(|hours| time(hours.value as f64 * 3_600.0))),
            cell(bears(wear).0.map(|rate| format!("{}/s", size(rate)))),
        ]);
    }
    let mut text = table.text();
    text.push('\n');
    for wear in &report.drives {
        for line in sources(wear) {
            text += &format!("{}: {line}\n", wear.name);
        }
        for warning in wear.warnings() {
            text += &format!("{}: the drive warns: {warning}\n", wear.name);
        }
        let (rate, said) = bears(wear);
        let head = if rate.is_some() { "" } else { "its endurance limits nothing: " };
        text += &format!("{}: {head}{said}\n", wear.name);
    }
    if report.dropped_count > 0 {
        text += &format!("{} devices more were left out\n", report.dropped_count);
    }
    text
}

/// Where the numbers of a drive come from, and why others are missing.
fn sources(wear: &DriveWear) -> Vec<String> {
    fn said<T>(name: &str, of: &Option<Sourced<T>>) -> Option<String> {
        let of = of.as_ref()?;
        let detail = if of.detail.is_empty() { String::new() } else { format!(" ({})", of.detail) };
        Some(format!("{name}: {}{detail}", of.source.label()))
    }
    let known = [
        said("rated", &wear.rated_bytes),
        said("written", &wear.written_bytes),
        said("used", &wear.percent_used),
        said("amplification", &wear.write_amplification),
        said("spare", &wear.spare_percent),
        said("warnings", &wear.critical_warning),
        said("age", &wear.power_on_hours),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    let known = (!known.is_empty()).then(|| known.join("; "));
    known.into_iter().chain(wear.notes.iter().cloned()).collect()
}

/// Writes the report as a whole or not at all: beside its place, then renamed. Everybody may read it.
fn publish(path: &Path, report: &DriveReport) -> anyhow::Result<()> {
    let text = serde_json::to_vec(report)?;
    let limit = DriveReport::FILE_BYTES_MAX;
    anyhow::ensure!(text.len() as u64 <= limit, "the report is longer than the {limit} bytes that are read");
    let name = path.file_name().context("it names no file")?.to_string_lossy().into_owned();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    anyhow::ensure!(!path.is_dir(), "it is a directory; directories on drives come before --write");
    if path == Path::new(DriveReport::FILE) && !folder.exists() {
        fs::DirBuilder::new().mode(0o755).create(folder)?;
    }
    let next = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write_new(&next, &text).and_then(|()| fs::rename(&next, path));
    if written.is_err() {
        let _ = fs::remove_file(&next);
    }
    Ok(written?)
}

fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    // A file that a run which was stopped left; nobody else has this process's number.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    // Whatever the mask of this process is.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text)?;
    file.sync_all()
}

/// What `surefoot status` says. No drive is asked.
pub fn capability(root: &Root) -> Capability {
    let (state, reason, remedy) = state(root);
    Capability {
        id: "checkpoint.drive".into(),
        name: "wear of the drives, for checkpoints".into(),
        state,
        reason,
        remedy: remedy.into(),
    }
}

/// Devices that are looked at; the answer needs one.
const DEVICES_MAX: usize = 4096;

fn state(root: &Root) -> (CapabilityState, String, &'static str) {
    const PUBLISH: &str = "run `surefoot checkpoint drive --write` as root, or enable surefoot-drives.timer";
    let folder = root.sys("class/block");
    let entries = fs::read_dir(&folder).and_then(|entries| entries.take(DEVICES_MAX).collect::<io::Result<Vec<_>>>());
    let entries = match entries {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let why = format!("which drives are here is not known: {} cannot be read: {error}", folder.display());
            return (CapabilityState::Reduced, why, "run it as a user who may read /sys");
        }
        entries => entries.unwrap_or_default(),
    };
    let kinds: Vec<Kind> = entries
        .into_iter()
        // Of a drive with several NVMe controllers each path is there as well, hidden.
        .filter(|entry| !root.read(entry.path().join("hidden")).is_ok_and(|text| text.trim() == "1"))
        .filter(|entry| !entry.path().join("partition").exists())
        .map(|entry| Identity::read(root, &entry.file_name().to_string_lossy()))
        .filter(|drive| drive.size_bytes > 0 && !(drive.kind == Kind::Scsi && drive.is_rotational))
        .map(|drive| drive.kind)
        .filter(|kind| matches!(kind, Kind::Nvme | Kind::Scsi))
        .collect();
    if kinds.is_empty() {
        let why = "no drive here tells of its wear: there is no NVMe drive and no SATA or SAS SSD".into();
        return (CapabilityState::Unsupported, why, "say endurance.rated_bytes and endurance.written_bytes by hand");
    }
    let count = kinds.len();
    let may_ask = Capabilities::read(root).is_ok_and(|found| found.sys_admin() && found.sys_rawio());
    let has_smartctl = surefoot_sys::drive::smartctl::program().is_some();
    let is_published = root.path(DriveReport::FILE).is_file();
    match (may_ask, kinds.contains(&Kind::Scsi) && !has_smartctl) {
        (false, _) if is_published => {
            (CapabilityState::Works, format!("{} says how worn the {count} drives are", DriveReport::FILE), "")
        }
        (false, _) => (
            CapabilityState::Reduced,
            format!(
                "{count} drives; asking them needs CAP_SYS_ADMIN and CAP_SYS_RAWIO, so only the kernel's counts are known"
            ),
            PUBLISH,
        ),
        (true, true) => (
            CapabilityState::Reduced,
            format!("{count} drives, some of them SATA or SAS, which are asked through smartctl"),
            "install smartmontools",
        ),
        (true, false) => (CapabilityState::Works, format!("{count} drives can be asked"), ""),
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
