//! The numbers by which the kernel knows devices and file systems.

use std::fmt;
use std::str::FromStr;
use surefoot_model::Digits;

/// The number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Its driver.
    pub major: u32,
    /// Which of the driver's.
    pub minor: u32,
}

impl DeviceNumber {
    /// From what `stat` calls `st_dev` or `st_rdev`.
    pub fn of_stat(number: u64) -> Self {
        DeviceNumber { major: libc::major(number), minor: libc::minor(number) }
    }

    /// Whether there is no device behind it: file systems without one, or with several, draw such numbers.
    pub fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(DeviceNumber { major: major.digits().ok_or(())?, minor: minor.digits().ok_or(())? })
    }
}
