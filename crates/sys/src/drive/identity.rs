//! What a drive is, from the files that every user may read.

use std::path::PathBuf;
use surefoot_hostfs::Root;
use surefoot_hostfs::shorten;
use surefoot_model::Digits;

/// How a drive is asked about its wear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By NVMe log pages.
    Nvme,
    /// By `smartctl`: SATA, SAS, and what looks like it.
    Scsi,
    /// Not at all: the drive of a virtual machine tells the guest nothing.
    Virtual,
    /// Not at all, for all that is known.
    Other,
}

/// What a whole device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The kernel's name.
    pub name: String,
    /// How it is asked.
    pub kind: Kind,
    /// The model; empty where there is none.
    pub model: String,
    /// The serial number, where every user may read it.
    pub serial: Option<String>,
    /// What names it in the whole world, so that two paths to one drive are one.
    pub world_id: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Whether the kernel takes it for a rotating disk.
    pub is_rotational: bool,
    /// The number of the NVMe namespace; 0 where it is none.
    pub namespace: u32,
}

/// A sector in files of the kernel, whatever the drive's own are.
const SECTOR_BYTES: u64 = 512;

/// The longest of these files.
const FILE_BYTES_MAX: u64 = 4096;

impl Identity {
    /// Reads it; what a device does not say is empty, zero or `None`.
    pub fn read(root: &Root, name: &str) -> Self {
        let folder = folder(root, name);
        let text = |path: &str| {
            let text = root.read_up_to(folder.join(path), FILE_BYTES_MAX).ok()?;
            // Binary pages begin with four bytes of header, and SCSI fills with blanks and zeros.
            let text = if path.ends_with("vpd_pg80") { text.get(4..)?.to_owned() } else { text };
            let text = shorten(text.trim_matches(|c: char| c.is_whitespace() || c.is_control()));
            (!text.is_empty()).then_some(text)
        };
        let number = |path: &str| text(path)?.digits::<u64>();
        let vendor = text("device/vendor").filter(|vendor| !vendor.starts_with("0x") && vendor != "ATA");
        let model = text("device/model").or_else(|| text("device/name")).unwrap_or_default();
        Identity {
            kind: match () {
                () if name.starts_with("nvme") => Kind::Nvme,
                () if name.starts_with("vd") || name.starts_with("xvd") => Kind::Virtual,
                () if name.starts_with("sd") => Kind::Scsi,
                () => Kind::Other,
            },
            model: match vendor {
                Some(vendor) if !model.is_empty() => format!("{vendor} {model}"),
                _ => model,
            },
            serial: text("device/serial").or_else(|| text("serial")).or_else(|| text("device/vpd_pg80")),
            world_id: text("wwid").or_else(|| text("device/wwid")),
            size_bytes: number("size").unwrap_or(0).saturating_mul(SECTOR_BYTES),
            is_rotational: number("queue/rotational") == Some(1),
            namespace: number("nsid").and_then(|number| number.try_into().ok()).unwrap_or(0),
            name: name.to_owned(),
        }
    }
}

/// The folder of a block device; a name with a `/` in it, as cciss has, is written with a `!`.
pub fn folder(root: &Root, name: &str) -> PathBuf {
    root.sys("class/block").join(name.replace('/', "!"))
}
