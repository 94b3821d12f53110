//! What the rules are held against: read once, plain data.

use super::{Hest, KernelLog};
use crate::read::{Reader, Reading};
use std::path::Path;
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{Digits, Vendor};

/// Instances of tracefs that are looked at.
const INSTANCES_MAX: usize = 64;
/// Processors of an instance.
const PROCESSORS_MAX: usize = 4096;
/// Banks of a processor that may have a mask.
const BANKS_MAX: u32 = 64;
/// Processes whose names are looked at.
const PROCESSES_MAX: usize = 1 << 16;
/// Programs that collect memory errors.
const COLLECTORS: [&str; 2] = ["rasdaemon", "mcelog"];
/// A file of one number or word.
const WORD_BYTES_MAX: u64 = 4096;

/// What the host says of itself, its controllers and its settings.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Who made the processor; decides which settings mean anything.
    pub vendor: Vendor,
    /// The processor's family.
    pub family: u32,
    /// The hypervisor, where there is one.
    pub hypervisor: Option<String>,
    /// Options of the boot: `mce=` and `ras=` with all their values.
    pub mce_options: Vec<String>,
    /// Values of `ras=`.
    pub ras_options: Vec<String>,
    /// Controllers, blocks.
    pub reading: Reading,
    /// Whether there is a folder of machine checks.
    pub has_machine_check: bool,
    /// `check_interval`, seconds.
    pub check_interval_s: Option<u64>,
    /// `cmci_disabled`.
    pub is_cmci_disabled: Option<bool>,
    /// `ignore_ce`.
    pub is_ignored: Option<bool>,
    /// `dont_log_ce`.
    pub is_not_logged: Option<bool>,
    /// `edac_mc_poll_msec`, milliseconds.
    pub poll_ms: Option<u64>,
    /// `edac_mc_log_ce`: whether the kernel prints each corrected error.
    pub is_printed: Option<bool>,
    /// Banks of the first processor whose mask is 0; `None` where no bank tells its mask.
    pub masked_banks: Option<Vec<u32>>,
    /// Programs that run and collect memory errors, too; `None` where the processes cannot be listed.
    pub collectors: Option<Vec<&'static str>>,
    /// Whether there is `/dev/mcelog`, from which mcelog reads.
    pub has_mcelog: bool,
    /// Modules of EDAC drivers that are loaded.
    pub modules: Vec<String>,
    /// What firmware says of error sources; `None` where its table is not there or may not be read, with why.
    pub hest: Result<Option<Hest>, String>,
    /// What the kernel logged of machine checks; why not, where it cannot be read.
    pub log: Result<KernelLog, String>,
    /// Trace instances that follow memory errors; `None` where tracefs, or a part of it, is not to be seen.
    pub traces: Option<Vec<Trace>>,
}

/// A trace instance in which events of memory errors are enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Its name; `the main buffer` for that of all.
    pub name: String,
    /// Events that its buffers lost; `None` where that cannot be read of each.
    pub overrun: Option<u64>,
}

impl Facts {
    /// Reads them; what a host does not show is empty or `None`.
    pub fn read(root: &Root) -> Self {
        let identity = Identity::read(root);
        let machine_check = root.sys("devices/system/machinecheck/machinecheck0");
        let number = |path: &Path| word(root, path)?.digits::<u64>();
        let flag = |name: &str| number(&machine_check.join(name)).map(|value| value != 0);
        Facts {
            vendor: identity.vendor,
            family: identity.family,
            hypervisor: identity.hypervisor.clone(),
            mce_options: options(&identity.boot_options, "mce"),
            ras_options: options(&identity.boot_options, "ras"),
            reading: Reader::new(root.clone()).read().clone(),
            has_machine_check: machine_check.is_dir(),
            check_interval_s: number(&machine_check.join("check_interval")),
            is_cmci_disabled: flag("cmci_disabled"),
            is_ignored: flag("ignore_ce"),
            is_not_logged: flag("dont_log_ce"),
            poll_ms: number(&root.sys("module/edac_core/parameters/edac_mc_poll_msec")),
            is_printed: number(&root.sys("module/edac_core/parameters/edac_mc_log_ce")).map(|value| value != 0),
            masked_banks: masked_banks(root, &machine_check),
            collectors: collectors(root),
            has_mcelog: root.dev("mcelog").exists(),
            modules: modules(root),
            hest: Hest::read(root),
            log: KernelLog::read(root),
            traces: traces(root),
        }
    }

    /// Whether any rule can be held.
    pub(super) fn is_anything_there(&self) -> Result<(), Unsupported> {
        // A kernel that was told to handle none has none of both.
        if self.has_machine_check || !self.reading.controllers.is_empty() || self.has_mce("off") {
            return Ok(());
        }
        let (why, remedy) = match &self.hypervisor {
            Some(name) => (format!("this is a virtual machine ({name}) that has neither"), "run it on the host"),
            None => (
                "there is neither".to_owned(),
                "load the EDAC driver of this platform, or check a tree that holds proc and sys",
            ),
        };
        Err(Unsupported::new(
            format!(
                "nothing can be checked here: {why} a memory controller in /sys/devices/system/edac/mc nor /sys/devices/system/machinecheck; {remedy}"
            ),
            "",
        ))
    }

    /// Whether the kernel was told this value of `mce=`.
    pub(super) fn has_mce(&self, value: &str) -> bool {
        self.mce_options.iter().any(|option| option == value)
    }
}

fn word(root: &Root, path: &Path) -> Option<String> {
    Some(root.read_up_to(path, WORD_BYTES_MAX).ok()?.trim().to_owned())
}

/// All values of a boot option, which may be given several times.
fn options(line: &str, name: &str) -> Vec<String> {
    let values = line.split_ascii_whitespace().filter_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    values.flat_map(|values| values.split(',')).map(str::to_owned).collect()
}

/// Banks of the first processor whose mask (`bankN`) is 0.
fn masked_banks(root: &Root, machine_check: &Path) -> Option<Vec<u32>> {
    let masks = (0..BANKS_MAX).filter_map(|bank| {
        let text = word(root, &machine_check.join(format!("bank{bank}")))?;
        Some((bank, text.hex_digits::<u64>()?))
    });
    let masks: Vec<(u32, u64)> = masks.collect();
    let masked = || masks.iter().filter(|(_, mask)| *mask == 0).map(|(bank, _)| *bank).collect();
    (!masks.is_empty()).then(masked)
}

/// Those of [`COLLECTORS`] that run.
fn collectors(root: &Root) -> Option<Vec<&'static str>> {
    let processes = entries(&root.proc(""), PROCESSES_MAX)?;
    let is_process =
        |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.digits::<u32>().is_some());
    let names: std::collections::BTreeSet<String> = processes
        .iter()
        .filter(|entry| is_process(entry))
        .filter_map(|entry| word(root, &entry.path().join("comm")))
        .collect();
    // A tree that was recorded without processes tells nothing of them.
    let running = || COLLECTORS.into_iter().filter(|name| names.contains(*name)).collect();
    (!names.is_empty()).then(running)
}

/// EDAC drivers among the loaded modules.
fn modules(root: &Root) -> Vec<String> {
    let text = root.read_up_to(root.proc("modules"), 1 << 20).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| name.ends_with("_edac")).map(str::to_owned).collect()
}

/// Instances in which `ras:mc_event` or `mce:mce_record` is enabled, with what they lost.
fn traces(root: &Root) -> Option<Vec<Trace>> {
    let folders = ["kernel/tracing", "kernel/debug/tracing"].map(|folder| root.sys(folder));
    let tracing = folders.into_iter().find(|folder| folder.join("events").is_dir())?;
    // An instance that cannot be listed may be the one that lost something.
    let mut instances: Vec<_> = entries(&tracing.join("instances"), INSTANCES_MAX)?
        .into_iter()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    instances.sort();
    instances.push(("the main buffer".into(), tracing));
    let follows = |path: &Path| {
        let is_on = |event: &str| word(root, &path.join("events").join(event).join("enable")).as_deref() == Some("1");
        is_on("ras/mc_event") || is_on("mce/mce_record")
    };
    let followed = instances.into_iter().filter(|(_, path)| follows(path));
    Some(followed.map(|(name, path)| Trace { name, overrun: overrun(root, &path) }).collect())
}

/// What all buffers of an instance lost.
fn overrun(root: &Root, instance: &Path) -> Option<u64> {
    let lost = |path: std::path::PathBuf| -> Option<u64> {
        let text = root.read_up_to(path.join("stats"), WORD_BYTES_MAX).ok()?;
        text.lines().find_map(|line| line.strip_prefix("overrun:")?.trim().digits())
    };
    let cores = entries(&instance.join("per_cpu"), PROCESSORS_MAX)?;
    cores.into_iter().try_fold(0, |sum: u64, core| Some(sum.saturating_add(lost(core.path())?)))
}

/// The first entries of a folder, none where there is no such folder; `None` where they cannot all be listed.
fn entries(folder: &Path, count_max: usize) -> Option<Vec<std::fs::DirEntry>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.take(count_max).collect::<std::io::Result<_>>().ok(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}
