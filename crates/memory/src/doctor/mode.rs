//! How corrected errors come to be known on a host: one answer for the doctor's rules and for `tune`.
//!
//! | who counts | the interval | can it be set while the host runs? |
//! |---|---|---|
//! | an EDAC driver that polls (old chipsets, Arm) | `edac_mc_poll_msec` | yes |
//! | Intel, with `mce=no_cmci` | `check_interval`, at most | yes; the mode needs a boot |
//! | Intel, corrected-error interrupts | none | no: errors interrupt |
//! | AMD | `check_interval`, at most, besides the threshold interrupt | yes |
//! | firmware first (GHES) | that of the firmware's table | no |
//! | a virtual machine | none | no |
//!
//! The main x86 server drivers hang off the machine-check chain and never poll: `edac_mc_poll_msec` is there and does nothing.
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
    /// Another one that is loaded: such drivers poll.
    Other(&'a str),
    /// It is neither known by the name that it gives a controller nor a loaded module: it is built into the kernel.
    Unknown,
}

impl Facts {
    /// The driver: by the names of the controllers, which are there also where it is built in, and otherwise by the loaded modules.
    pub fn driver(&self) -> DriverSeen<'_> {
        if self.reading.controllers.is_empty() {
            return DriverSeen::None;
        }
        let mut drivers = self.reading.controllers.iter().map(|one| one.driver);
        if let Some(known) = drivers.find(|driver| *driver != Driver::Other) {
            return DriverSeen::Told(known.module());
        }
        let told = self.modules.iter().find(|name| Driver::ALL.iter().any(|driver| driver.module() == name.as_str()));
        match (told, self.modules.first()) {
            (Some(name), _) => DriverSeen::Told(name),
            (None, Some(name)) => DriverSeen::Other(name),
            (None, None) => DriverSeen::Unknown,
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
            DriverSeen::Other(_) => Mode::EdacPolling,
            // Without machine checks, as on Arm, nobody but the driver can find them.
            DriverSeen::Unknown if !self.has_machine_check && self.poll_ms.is_some() => Mode::EdacPolling,
            DriverSeen::None if self.hypervisor.is_some() => Mode::None,
            _ if !self.has_machine_check => Mode::None,
            _ if is_left_alone || self.is_cmci_hole() => Mode::Off,
            _ if self.is_machine_check_polled() => Mode::MachineCheckPolling,
            _ => Mode::Interrupts,
        }
    }
}
