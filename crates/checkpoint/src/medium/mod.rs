//! What a tier's directory lies on: memory, a disk, or something that the kernel says too little of.
//!
//! *Looked at*: the file system ([`libc::fstatfs`]), for an overlay its upper directory, for a block device those beneath it in
//! `/sys/dev/block`, for a loop device its file, for Btrfs all of its devices.
//!
//! *Not known*: whether a hypervisor, a RAID controller or a file server keeps what it was given; what is behind FUSE; the upper
//! directory of a container's overlay, which only the host sees; the devices of ZFS. All of these read
//! [`Kind::Unknown`], but for the first: a virtual disk is taken for a disk.

mod device;
mod mounts;
mod tiers;

pub use tiers::Media;

use device::DeviceNumber;
use mounts::Mount;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Layers that are looked through, such as a loop device on an overlay; kernels allow fewer.
const LAYERS_MAX: u32 = 8;

/// File systems in memory, by what `statfs` calls them.
const IN_MEMORY: [(u32, &str); 3] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];
const OVERLAY: u32 = 0x794c_7630;

/// What bytes lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A block device that is not known to be memory.
    Disk,
    /// It cannot be told from here.
    Unknown,
    /// Memory: what is there goes with the power.
    Memory,
}

/// What a directory lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Medium {
    /// The kind that counts: of several devices the least durable.
    pub kind: Kind,
    /// Its file system and devices, such as `ext4 on vda`.
    pub said: String,
}

impl Kind {
    /// As ranks tell it each other: the largest number is the least durable.
    pub(crate) fn number(medium: Option<&Medium>) -> u64 {
        match medium.map_or(Kind::Unknown, |medium| medium.kind) {
            Kind::Disk => 0,
            Kind::Unknown => 1,
            Kind::Memory => 2,
        }
    }

    /// As [`Medium::is_durable`].
    pub(crate) fn is_durable(self) -> Option<bool> {
        match self {
            Kind::Disk => Some(true),
            Kind::Unknown => None,
            Kind::Memory => Some(false),
        }
    }

    /// The kind of [`Kind::number`].
    pub(crate) fn of_number(number: u64) -> Self {
        match number {
            0 => Kind::Disk,
            2 => Kind::Memory,
            _ => Kind::Unknown,
        }
    }
}

impl Medium {
    /// What a directory or file lies on.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        Medium::look(path, LAYERS_MAX)
    }

    /// As [`Medium::of`]; of a path that does not exist yet, what the nearest directory above it lies on.
    ///
    /// # Errors
    /// When none of them can be opened.
    pub fn of_nearest(path: &Path) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let looks = path.ancestors().map(Medium::of);
        let mut looks = looks.skip_while(|found| found.as_ref().is_err_and(|error| error.kind() == missing().kind()));
        looks.next().unwrap_or_else(|| Err(missing()))
    }

    /// Whether what is there survives a loss of power; `None` where that cannot be told from here.
    pub fn is_durable(&self) -> Option<bool> {
        self.kind.is_durable()
    }

    fn new(kind: Kind, said: impl Into<String>) -> Self {
        Medium { kind, said: said.into() }
    }

    fn look(path: &Path, layers: u32) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Medium::of_open(&file, layers)
    }

    fn of_open(file: &File, layers: u32) -> io::Result<Self> {
        let magic = file_system(file)?;
        if let Some((_, name)) = IN_MEMORY.iter().find(|(known, _)| *known == magic) {
            return Ok(Medium::new(Kind::Memory, *name));
        }
        let number = file.metadata()?.dev();
        let mount = Mount::of(file);
        let name = mount.as_ref().map_or_else(|| format!("file system {magic:#x}"), |mount| mount.kind.clone());
        if layers == 0 {
            return Ok(Medium::new(Kind::Unknown, format!("{name} on more layers than are looked through")));
        }
        if magic == OVERLAY {
            return Ok(of_overlay(file, mount.as_ref(), number, layers - 1));
        }
        let beneath = match (libc::major(number), &mount) {
            // A number of its own says nothing of devices: ZFS, NFS, FUSE. What was mounted is only a name to these.
            (0, mount) => match mount.as_ref().filter(|mount| mount.kind == "btrfs").and_then(of_source) {
                Some(device) => device::of_btrfs(device, layers - 1),
                None => return Ok(Medium::new(Kind::Unknown, name)),
            },
            _ => device::medium(DeviceNumber::from(number), layers - 1),
        };
        Ok(Medium::new(beneath.kind, format!("{name} on {}", beneath.said)))
    }
}

/// The upper directory of an overlay takes all that is written.
fn of_overlay(file: &File, mount: Option<&Mount>, number: u64, layers: u32) -> Medium {
    let unknown = |why: &str| Medium::new(Kind::Unknown, format!("overlay, {why}"));
    let Some(mount) = mount else { return unknown("whose mount is not listed") };
    let Some(upper) = mount.option("upperdir") else { return unknown("without an upper directory") };
    if !upper.is_absolute() {
        return unknown("whose upper directory was named by a relative path");
    }
    let shown = upper.display();
    let found = std::fs::metadata(&upper).and_then(|found| Ok((found.dev(), Medium::look(&upper, layers)?)));
    match found {
        // No overlay lies on itself: within a container the name leads to something else.
        Ok((same, _)) if same == number => unknown(&format!("whose upper directory {shown} is not visible from here")),
        // An overlay has the room of its upper directory: another one has since been mounted over the name.
        Ok(_) if !has_room_of(file, &upper) => {
            unknown(&format!("whose upper directory {shown} is hidden by another mount"))
        }
        Ok((_, beneath)) => Medium::new(beneath.kind, format!("overlay, upper directory {shown} on {}", beneath.said)),
        Err(_) => unknown(&format!("whose upper directory {shown} is not visible from here")),
    }
}

/// The block device that was mounted, where it is named.
fn of_source(mount: &Mount) -> Option<DeviceNumber> {
    let path = Path::new(&mount.source);
    let found = std::fs::metadata(path).ok().filter(|_| path.starts_with("/dev"))?;
    found.file_type().is_block_device().then(|| DeviceNumber::from(found.rdev()))
}

/// Whether an overlay's file says of its file system what a directory says of its own; what is free changes meanwhile.
fn has_room_of(file: &File, directory: &Path) -> bool {
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(directory);
    let [own, theirs] = [statfs(file), directory.and_then(|directory| statfs(&directory))];
    let fixed = |found: libc::statfs| (found.f_bsize, found.f_blocks, found.f_files);
    own.ok().map(fixed).is_some_and(|own| theirs.is_ok_and(|theirs| fixed(theirs) == own))
}

/// The number of a file's file system, as `statfs` says it. It has 32 bits, and some architectures widen it with its sign.
fn file_system(file: &File) -> io::Result<u32> {
    statfs(file).map(|found| found.f_type as u32)
}

fn statfs(file: &File) -> io::Result<libc::statfs> {
    // SAFETY: all zeros is a valid statfs, which holds numbers only.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure is the kernel's to fill.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) } {
        0 => Ok(found),
        _ => Err(io::Error::last_os_error()),
    }
}
