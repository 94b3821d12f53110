//! What "the polling interval" is on a host, and whether it can be set: [`crate::doctor::Mode`] says who looks.

use crate::doctor::{DriverSeen, Facts, Mode};
use std::path::PathBuf;
use surefoot_hostfs::Root;
use surefoot_model::Vendor;

const EDAC: &str = "module/edac_core/parameters";
const MACHINE_CHECK: &str = "devices/system/machinecheck";
/// `edac_mc_poll_msec` is at least this.
const EDAC_POLL_MIN_NS: u64 = 1_000_000_000;
const CHECK_INTERVAL_MAX_S: u64 = 86_400;

/// Which file is the interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnobKind {
    /// `edac_mc_poll_msec`, milliseconds.
    EdacPollMsec,
    /// `check_interval`, seconds; one for all cores, and the longest time between two polls: after an error the kernel may come sooner.
    CheckInterval,
}

/// The file that sets the interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Which it is.
    pub kind: KnobKind,
    /// Where.
    pub path: PathBuf,
    /// What it is now; `None` where it cannot be read as a number.
    pub now_ns: Option<u64>,
    /// The shortest that it takes, and its step.
    pub shortest_ns: u64,
    /// The longest that it takes.
    pub longest_ns: u64,
}

impl Knob {
    /// An interval as the file has it; rounded down to its unit.
    pub fn text(&self, interval_ns: u64) -> String {
        (interval_ns / self.unit_ns()).to_string()
    }

    fn unit_ns(&self) -> u64 {
        match self.kind {
            KnobKind::EdacPollMsec => 1_000_000,
            KnobKind::CheckInterval => 1_000_000_000,
        }
    }
}

/// Whether the kernel prints each corrected error on its console: often dearer than the report itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// The file.
    pub path: PathBuf,
    /// Whether it prints.
    pub is_on: bool,
}

/// The counters that errors come to, and what a poll does to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counters {
    /// A poll takes the count and begins it anew: what comes to a full counter before the next one is lost. So many bits: 15 of an
    /// Intel bank (Linux 6.12, MCI_STATUS_CEC).
    EmptiedByPolls(u32),
    /// AMD's threshold blocks, of 12 bits (THRESHOLD_MAX): a poll makes a record of an error and leaves the count, so that no interval
    /// loses a count or saves it.
    KeptByPolls,
    /// Not known.
    Unknown,
}

impl Counters {
    /// The width to simulate: that of Intel's banks where the host does not say, and the widest where polls do not empty the
    /// counter, because no interval loses what stays in it.
    pub fn bits(self) -> u32 {
        match self {
            Counters::EmptiedByPolls(bits) => bits,
            Counters::KeptByPolls => 32,
            Counters::Unknown => 15,
        }
    }
}

/// What can be tuned on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// How errors come to be known.
    pub mode: Mode,
    /// What sets the interval; `None` where nothing does.
    pub knob: Option<Knob>,
    /// What was seen, a sentence each.
    pub evidence: Vec<String>,
    /// Why the interval cannot be set, and what can be done; `None` where it can.
    pub refusal: Option<String>,
    /// Its error counters.
    pub counters: Counters,
    /// Console logging of corrected errors; `None` where there is none.
    pub log_lever: Option<Lever>,
}

impl Platform {
    /// Reads a host, or a recorded tree, as the doctor does. What cannot be read counts as not there, and is told as evidence.
    pub fn read(root: &Root) -> Platform {
        let facts = Facts::read(root);
        let mode = facts.mode();
        let knob = match mode {
            Mode::EdacPolling => Some(edac_polling(root, &facts)),
            Mode::MachineCheckPolling => Some(machine_check_polling(root, &facts)),
            _ => None,
        };
        let counters = match (facts.has_machine_check, facts.vendor) {
            (true, Vendor::Intel) => Counters::EmptiedByPolls(15),
            (true, Vendor::Amd) => Counters::KeptByPolls,
            _ => Counters::Unknown,
        };
        let refusal = refusal(mode, &facts).map(str::to_owned);
        Platform { mode, knob, evidence: evidence(&facts), refusal, counters, log_lever: log_lever(root) }
    }
}

/// Whether corrected errors are printed on the console; one small file, which is read again at each look.
pub fn log_lever(root: &Root) -> Option<Lever> {
    let path = root.sys(format!("{EDAC}/edac_mc_log_ce"));
    let value = root.read_again_up_to(&path, 4096).ok()?;
    Some(Lever { path, is_on: !matches!(value.trim(), "0" | "N") })
}

fn evidence(facts: &Facts) -> Vec<String> {
    let count = facts.reading.controllers.len();
    let mut said = vec![match facts.driver() {
        DriverSeen::None => "no EDAC driver has a memory controller (/sys/devices/system/edac/mc)".to_owned(),
        DriverSeen::Told(driver) => format!("EDAC driver {driver}, which never polls; memory controllers: {count}"),
        DriverSeen::Polls(driver) => format!("EDAC driver {driver}, which polls; memory controllers: {count}"),
        DriverSeen::Unknown("") => {
            format!("memory controllers: {count}, of a driver that is not known; whether it polls is not known")
        }
        DriverSeen::Unknown(driver) => {
            format!("EDAC driver {driver}; whether it polls is not known; memory controllers: {count}")
        }
    }];
    said.push(match (facts.has_machine_check, facts.check_interval_s) {
        (true, Some(seconds)) => format!("check_interval is {seconds} s (/sys/{MACHINE_CHECK})"),
        (true, None) => format!("check_interval cannot be read (/sys/{MACHINE_CHECK})"),
        (false, _) => format!("no machine-check settings (/sys/{MACHINE_CHECK})"),
    });
    if !facts.mce_options.is_empty() {
        said.push(format!("booted with mce={} (/proc/cmdline)", facts.mce_options.join(",")));
    }
    if facts.mode() == Mode::MachineCheckPolling {
        said.push(
            "check_interval is the longest time between polls: after an error the kernel may poll sooner, which stalls more and loses no more"
                .to_owned(),
        );
    }
    said
}

/// Why the interval cannot be set, and what can be done.
fn refusal(mode: Mode, facts: &Facts) -> Option<&'static str> {
    Some(match mode {
        // What is written there has no effect on a driver that does not poll.
        Mode::Unknown => {
            "whether the EDAC driver of the memory controllers polls is not known, and a driver that does not ignores \
             edac_mc_poll_msec; the kernel's log says so (Giving out device to module …: POLLED or INTERRUPT): run this as root, \
             soon after a boot"
        }
        Mode::EdacPolling | Mode::MachineCheckPolling => return None,
        Mode::FirmwareFirst => {
            "firmware takes the errors first; how often the kernel asks it stands in the firmware's table (HEST), so set it in \
             the firmware's setup"
        }
        Mode::None if facts.hypervisor.is_some() => {
            "a virtual machine sees no memory errors: read them on its host, or in the host's event log"
        }
        Mode::None => {
            "neither an EDAC driver that polls nor machine-check settings are here; read the errors where they are seen: in the \
             event log of the management controller"
        }
        Mode::Off if facts.is_cmci_hole() => {
            "cmci_disabled is set at run time: banks that were taken off polling at boot are now neither interrupt-driven nor \
             polled, and check_interval does not bring them back; write 0 to cmci_disabled, or boot with mce=no_cmci"
        }
        Mode::Off => {
            "corrected errors are left alone (mce=off, mce=ignore_ce or ignore_ce is set), so that no interval matters; remove \
             the setting first, unless firmware is to have them"
        }
        Mode::Interrupts if !facts.has_machine_check => {
            "the EDAC driver is interrupted by errors, so that edac_mc_poll_msec does not change how they are reported"
        }
        Mode::Interrupts => {
            "errors interrupt (CMCI), so that neither edac_mc_poll_msec nor check_interval changes how they are reported; \
             boot with \
             mce=no_cmci to poll, or keep interrupts and switch console logging off (--apply --log off)"
        }
    })
}

fn machine_check_polling(root: &Root, facts: &Facts) -> Knob {
    Knob {
        kind: KnobKind::CheckInterval,
        path: root.sys(format!("{MACHINE_CHECK}/machinecheck0/check_interval")),
        now_ns: facts.check_interval_s.and_then(|seconds| seconds.checked_mul(1_000_000_000)),
        shortest_ns: 1_000_000_000,
        longest_ns: CHECK_INTERVAL_MAX_S * 1_000_000_000,
    }
}

fn edac_polling(root: &Root, facts: &Facts) -> Knob {
    Knob {
        kind: KnobKind::EdacPollMsec,
        path: root.sys(format!("{EDAC}/edac_mc_poll_msec")),
        now_ns: facts.poll_ms.and_then(|ms| ms.checked_mul(1_000_000)),
        shortest_ns: EDAC_POLL_MIN_NS,
        longest_ns: u64::from(u32::MAX) * 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    /// On Arm nobody but the driver finds errors; one without a name may poll or not.
    #[test]
    fn the_interval_of_a_driver_that_is_not_known_is_not_set() {
        let tree = |name: &str| {
            let mc = "sys/devices/system/edac/mc";
            let tree = HostTree::new()
                .file(format!("{mc}/mc0/ce_count"), "0\n")
                .file(format!("{mc}/mc0/ue_count"), "0\n")
                .file("sys/module/edac_core/parameters/edac_mc_poll_msec", "1000\n");
            if name.is_empty() { tree } else { tree.file(format!("{mc}/mc0/mc_name"), name) }
        };
        let refusal = |name: &str| Platform::read(&Root::at(tree(name).path())).refusal;
        for name in ["", "some_edac\n"] {
            assert!(refusal(name).unwrap().contains("polls is not known"), "{name}");
        }
        // dmc520, thunderx, versal and altera interrupt; synopsys and ie31200 do the one or the other. Only the kernel knows.
        for module in ["dmc520_edac", "thunderx_edac", "versal_edac", "altera_edac", "synopsys_edac", "ie31200_edac"] {
            let of = |log: &str| {
                let log = log.replace("MODULE", module);
                let tree =
                    tree("some\n").file("proc/modules", format!("{module} 1 0 - Live 0x0\n")).file("dev/kmsg", log);
                let platform = Platform::read(&Root::at(tree.path()));
                (platform.mode, platform.knob.is_some(), platform.refusal.is_some())
            };
            let given = "6,1,1,-;EDAC MC0: Giving out device to module MODULE controller c: DEV d (INTERRUPT)\n";
            assert_eq!(of("6,1,1,-;Linux version 6.12\n"), (Mode::Unknown, false, true), "{module}");
            assert_eq!(of(given), (Mode::Interrupts, false, true), "{module}");
            assert_eq!(of(&given.replace("INTERRUPT", "POLLED")), (Mode::EdacPolling, true, false), "{module}");
            assert_eq!(
                of(&given.replace("MC0", "MC1")),
                (Mode::Unknown, false, true),
                "{module}: of another controller"
            );
            assert_eq!(of(&given.replace("6,1", "14,1")), (Mode::Unknown, false, true), "{module}: of a program");
        }
    }
}
