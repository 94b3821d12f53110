use serde::{Deserialize, Serialize};

/// Where a number about a drive comes from, and so what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DriveSource {
    /// NVMe log page 02h, SMART and health: what the drive counts over its life.
    NvmeHealthLog,
    /// NVMe log page 09h, endurance group: what hosts wrote, what went to the flash, and what it will bear.
    NvmeEnduranceLog,
    /// What `smartctl` says of a SATA or SAS drive.
    Smartctl,
    /// The file systems' own counts since each was made: the drive took at least so much.
    FileSystem,
    /// The kernel's count since the machine started: the drive took at least so much.
    SinceBoot,
    /// The maker's rating, from the table of models.
    RatingTable,
}

impl DriveSource {
    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            DriveSource::NvmeHealthLog => "NVMe log 02h",
            DriveSource::NvmeEnduranceLog => "NVMe log 09h",
            DriveSource::Smartctl => "smartctl",
            DriveSource::FileSystem => "file system",
            DriveSource::SinceBoot => "since boot",
            DriveSource::RatingTable => "table of ratings",
        }
    }

    /// Whether a count from here covers the drive's whole life.
    pub fn covers_life(self) -> bool {
        !matches!(self, DriveSource::FileSystem | DriveSource::SinceBoot)
    }
}

/// A number with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Sourced_{T}"))]
pub struct Sourced<T> {
    /// The number.
    pub value: T,
    /// Where it comes from.
    pub source: DriveSource,
    /// More about the source: a field, an attribute, the document of a rating; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl<T> Sourced<T> {
    /// A number from this source.
    pub fn new(value: T, source: DriveSource, detail: impl Into<String>) -> Self {
        Sourced { value, source, detail: detail.into() }
    }
}

/// One drive: what it is, and how worn. What is not known is `None`, and `notes` say why.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct DriveWear {
    /// The kernel's name of the whole device, such as `nvme0n1`.
    pub name: String,
    /// The numbers, as `MAJOR:MINOR`, of the device and of all that lies on it: partitions, volumes, arrays, and the
    /// numbers that a directory on it shows.
    pub device_numbers: Vec<String>,
    /// The maker's model name; empty where there is none.
    pub model: String,
    /// The serial number, where every user may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Whether the kernel takes it for a rotating disk.
    pub is_rotational: bool,
    /// Bytes that it is rated for, by the measure of its source: the host's bytes of a standard workload in a table, the
    /// flash's bytes in an endurance log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rated_bytes: Option<Sourced<u64>>,
    /// Bytes that hosts wrote to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<Sourced<u64>>,
    /// Bytes that went to the flash over bytes that hosts wrote, over its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<Sourced<f64>>,
    /// The drive's own estimate of its life used, percent; may be more than 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_used: Option<Sourced<u64>>,
    /// Spare flash left, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<Sourced<u64>>,
    /// What the drive itself warns of, the bits of byte 0 of log 02h ([`DriveWear::warnings`]); 0 for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_warning: Option<Sourced<u64>>,
    /// Errors of the medium that the drive could not correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_error_count: Option<Sourced<u64>>,
    /// Hours that it was switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<Sourced<u64>>,
    /// Why something is not known, a sentence without a full stop each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl DriveWear {
    /// What the drive itself warns of, in words; also a bit that only later specifications define.
    pub fn warnings(&self) -> Vec<String> {
        // NVM Express Base Specification 2.0, figure 207.
        const BITS: [&str; 6] = [
            "its spare flash is below the drive's own limit",
            "its temperature is out of range",
            "its reliability is degraded by errors",
            "it takes no more writes",
            "its backup of volatile memory has failed",
            "its persistent memory takes no more writes",
        ];
        let bits = self.critical_warning.as_ref().map_or(0, |bits| bits.value);
        let is_set = |bit: &u32| bits >> bit & 1 == 1;
        let word = |bit: u32| match BITS.get(bit as usize) {
            Some(word) => (*word).to_owned(),
            None => format!("bit {bit} of its critical warnings, which Surefoot does not know"),
        };
        (0..u64::BITS).filter(is_set).map(word).collect()
    }
}

/// The drives of a host as a privileged reader saw them: what it publishes for programs without privilege.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct DriveReport {
    /// [`DriveReport::VERSION`].
    pub version: u32,
    /// `CLOCK_REALTIME` of the reading.
    pub read_realtime_ns: u64,
    /// The boot of the host, as the kernel names it: after the next, device numbers may be others.
    pub boot_id: String,
    /// The drives.
    pub drives: Vec<DriveWear>,
    /// Drives that were left out, because there were more than the reader takes.
    pub dropped_count: u64,
}

impl DriveReport {
    /// The version of the file that this describes.
    pub const VERSION: u32 = 1;

    /// Where the reader writes and programs look, unless told otherwise.
    pub const FILE: &'static str = "/run/surefoot/drives.json";

    /// The longest file that a reader takes.
    pub const FILE_BYTES_MAX: u64 = 1 << 20;

    /// The drives beneath what has this device number: several in an array, none where nobody knows it.
    pub fn beneath<'a>(&'a self, number: &'a str) -> impl Iterator<Item = &'a DriveWear> {
        self.drives.iter().filter(move |drive| drive.device_numbers.iter().any(|other| other == number))
    }
}
