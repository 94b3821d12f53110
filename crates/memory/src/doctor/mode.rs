//! How corrected errors come to be known on a host: one answer for the doctor's rules and for `tune`.
//!
//! | who counts | the interval | can it be set while the host runs? |
//! |---|---|---|
//! | an EDAC driver that polls (old chipsets) | `edac_mc_poll_msec` | yes |
//! | Intel, with `mce=no_cmci` | `check_interval`, at most | yes; the mode needs a boot |
//! | Intel, corrected-error interrupts | none | no: errors interrupt |
//! | AMD | `check_interval`, at most, besides the threshold interrupt | yes |
//! | firmware first (GHES) | that of the firmware's table | no |
//! | an EDAC driver of which that is not known | not known | no |
//! | a virtual machine | none | no |
//!
//! The main x86 server drivers hang off the machine-check chain and never poll: `edac_mc_poll_msec` is there and does nothing.
//! Others do what their hardware and their options say, so that the kernel's own line decides: `Giving out device to module M controller
//! C: DEV D (POLLED)` or `(INTERRUPT)`. Where it is not there and the driver is not listed, whether it polls is not known.
//! Source: drivers/edac/edac_mc.c and arch/x86/kernel/cpu/mce of Linux 6.12.

use super::Facts;
use crate::read::Driver;
use surefoot_model::Vendor;

/// How corrected errors come to be known on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An EDAC driver polls its memory controller.
    EdacPolling,
    /// The machine-check code polls its banks.
    MachineCheckPolling,
    /// Errors interrupt; there is no interval.
    Interrupts,
    /// Firmware takes the errors first, and the kernel asks it.
    FirmwareFirst,
    /// Nobody looks: a setting has switched it off.
    Off,
    /// The driver is not known to poll, nor not to.
    Unknown,
    /// Nothing on this host tells corrected errors.
    None,
}

impl Mode {
    /// Its name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Mode::EdacPolling => "edac_polling",
            Mode::MachineCheckPolling => "machine_check_polling",
            Mode::Interrupts => "interrupts",
            Mode::FirmwareFirst => "firmware_first",
            Mode::Off => "off",
            Mode::Unknown => "unknown",
            Mode::None => "none",
        }
    }
}

/// The driver of this host's memory controllers, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverSeen<'a> {
    /// No controller has one.
    None,
    /// One that is told of errors and never polls.
    Told(&'a str),
    /// One that polls.
    Polls(&'a str),
    /// Whether it polls is not known. Its name is empty where neither the kernel's log, its controllers nor the loaded modules tell it.
    Unknown(&'a str),
}

/// Drivers that can only poll, in every kernel that has them (`edac_check` in drivers/edac).
const ALWAYS_POLL: [&str; 12] = [
    "amd76x_edac",
    "e752x_edac",
    "e7xxx_edac",
    "i3000_edac",
    "i3200_edac",
    "i5000_edac",
    "i5400_edac",
    "i82443bxgx_edac",
    "i82860_edac",
    "i82875p_edac",
    "i82975x_edac",
    "x38_edac",
];

impl Facts {
    /// The driver: by the names of the controllers, which are there also where it is built in, and otherwise by the loaded modules.
    pub fn driver(&self) -> DriverSeen<'_> {
        if self.reading.controllers.is_empty() {
            return DriverSeen::None;
        }
        if let Some(said) = self.said_by_kernel() {
            return said;
        }
        let mut drivers = self.reading.controllers.iter().map(|one| one.driver);
        if let Some(known) = drivers.find(|driver| *driver != Driver::Other) {
            return DriverSeen::Told(known.module());
        }
        let told = self.modules.iter().find(|name| Driver::ALL.iter().any(|driver| driver.module() == name.as_str()));
        match (told, self.modules.first()) {
            (Some(name), _) => DriverSeen::Told(name),
            (None, Some(name)) if self.modules.len() == 1 && ALWAYS_POLL.contains(&name.as_str()) => {
                DriverSeen::Polls(name)
            }
            (None, Some(name)) => DriverSeen::Unknown(name),
            (None, None) => DriverSeen::Unknown(""),
        }
    }

    /// What the kernel's log says of all controllers that are there, where it speaks of each of them.
    fn said_by_kernel(&self) -> Option<DriverSeen<'_>> {
        let drivers = &self.log.as_ref().ok()?.drivers;
        let said: Option<Vec<_>> = self.reading.controllers.iter().map(|one| drivers.get(&one.index)).collect();
        let said = said?;
        let (first, _) = said.first()?;
        let polled = |is_polled| said.iter().all(|(_, polled)| *polled == Some(is_polled));
        match (polled(true), polled(false)) {
            (true, _) => Some(DriverSeen::Polls(first)),
            (_, true) => Some(DriverSeen::Told(first)),
            // Some poll and some do not: one answer for all would be wrong for some.
            _ if said.iter().all(|(_, polled)| polled.is_some()) => Some(DriverSeen::Unknown(first)),
            _ => None,
        }
    }

    /// Whether firmware hands the errors on: by the driver, or by the flag in firmware's table.
    pub fn is_firmware_first(&self) -> bool {
        self.driver() == DriverSeen::Told(Driver::Ghes.module())
            || self.hest.as_ref().is_ok_and(|hest| hest.is_some_and(|hest| hest.is_corrected_firmware_first))
    }

    /// Whether the machine-check code finds corrected errors by polling alone, where it looks for them at all.
    pub fn is_machine_check_polled(&self) -> bool {
        self.vendor == Vendor::Amd || self.vendor == Vendor::Intel && self.has_mce("no_cmci")
    }

    /// Whether banks were left to nobody: the interrupt was switched off while the kernel ran.
    pub fn is_cmci_hole(&self) -> bool {
        self.is_cmci_disabled == Some(true) && self.vendor != Vendor::Amd && !self.has_mce("no_cmci")
    }

    /// How corrected errors come to be known.
    pub fn mode(&self) -> Mode {
        let is_left_alone = self.has_mce("off") || self.has_mce("ignore_ce") || self.is_ignored == Some(true);
        match self.driver() {
            _ if self.is_firmware_first() => Mode::FirmwareFirst,
            DriverSeen::Polls(_) => Mode::EdacPolling,
            // A setting that leaves errors to nobody holds whatever the driver does.
            DriverSeen::Unknown(_) if self.has_machine_check && (is_left_alone || self.is_cmci_hole()) => Mode::Off,
            // The machine-check code looks at its banks whatever driver hangs behind it.
            DriverSeen::Unknown(name) if !self.has_machine_check || !name.is_empty() => Mode::Unknown,
            // A driver of its own, as on Arm: without machine checks the kernel's line is the only word of it.
            DriverSeen::Told(_) if !self.has_machine_check && self.said_by_kernel().is_some() => Mode::Interrupts,
            DriverSeen::None if self.hypervisor.is_some() => Mode::None,
            _ if !self.has_machine_check => Mode::None,
            _ if is_left_alone || self.is_cmci_hole() => Mode::Off,
            _ if self.is_machine_check_polled() => Mode::MachineCheckPolling,
            _ => Mode::Interrupts,
        }
    }
}
