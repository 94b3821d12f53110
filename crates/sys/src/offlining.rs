//! Takes pages of memory out of use, and puts them back.
//!
//! The kernel offlines a page *soft*: it moves the contents elsewhere and kills no process; or *hard*: it drops the contents without
//! reading them and kills the processes that need them (`Documentation/ABI/testing/sysfs-memory-page-offline`). A page stays offline
//! until the next boot. Offlining it twice does no harm. Only a kernel with `CONFIG_HWPOISON_INJECT` can put one back
//! (`Documentation/mm/hwpoison.rst`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use surefoot_foreign::said;
use surefoot_hostfs::pages::FrameFlags;
use surefoot_hostfs::{Root, Unsupported};

/// How a page is taken out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offlining {
    /// Its contents are moved first.
    Soft,
    /// Its contents are dropped.
    Hard,
}

impl Offlining {
    /// The file of `/sys/devices/system/memory`.
    pub fn file(self) -> &'static str {
        match self {
            Offlining::Soft => "soft_offline_page",
            Offlining::Hard => "hard_offline_page",
        }
    }
}

/// Why the kernel did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// This kernel cannot.
    #[error("unsupported: {0}")]
    Unsupported(Unsupported),
    /// It refused this page.
    #[error("{}", said(.0))]
    Page(io::Error),
}

/// Has the kernel take the page with this physical address out of use. It has tried when this returns.
///
/// # Errors
/// [`Refused`].
pub fn offline(root: &Root, address: u64, how: Offlining) -> Result<(), Refused> {
    tell(&offlines(root, how), address, || no_offlining(how))
}

/// Why this kernel can take no page out of use this way; `None` if it can.
pub fn missing(root: &Root, how: Offlining) -> Option<Unsupported> {
    (!offlines(root, how).exists()).then(|| no_offlining(how))
}

fn offlines(root: &Root, how: Offlining) -> PathBuf {
    root.sys("devices/system/memory").join(how.file())
}

fn no_offlining(how: Offlining) -> Unsupported {
    let why = format!("this kernel has no {} (CONFIG_MEMORY_FAILURE)", how.file());
    Unsupported::new(why, "boot a kernel that has it")
}

/// Has the kernel put the page of this frame back into use.
///
/// # Errors
/// [`Refused`].
pub fn restore(root: &Root, frame: u64) -> Result<(), Refused> {
    match tell(&restores(root), frame, no_restoring) {
        Err(Refused::Page(error)) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let why = "the kernel puts no page back into use after a real uncorrected error, until it is rebooted";
            Err(Refused::Unsupported(Unsupported::new(why, "reboot the host")))
        }
        told => told,
    }
}

/// Why this kernel can put no page back into use; `None` if it can, or may (it refuses after a real uncorrected error).
pub fn cannot_restore(root: &Root) -> Option<Unsupported> {
    (!restores(root).exists()).then(no_restoring)
}

fn restores(root: &Root) -> PathBuf {
    root.sys("kernel/debug/hwpoison/unpoison-pfn")
}

fn no_restoring() -> Unsupported {
    Unsupported::new(
        "this kernel cannot put a page back into use: there is no hwpoison/unpoison-pfn in debugfs (CONFIG_HWPOISON_INJECT)",
        "`modprobe hwpoison-inject`, or reboot the host, which puts all pages back into use",
    )
}

/// The kernel takes each write for a number of its own, so the number goes in one.
fn tell(path: &Path, number: u64, missing: impl Fn() -> Unsupported) -> Result<(), Refused> {
    let written = OpenOptions::new().write(true).open(path);
    let written = written.and_then(|mut file| file.write_all(format!("{number:#x}").as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refused::Unsupported(missing()),
        _ => Refused::Page(error),
    })
}

/// Of how many of these frames the kernel shows that it has taken them out of use.
///
/// # Errors
/// Why that cannot be seen.
pub fn poisoned_count(root: &Root, frames: impl Iterator<Item = u64>) -> Result<u64, surefoot_hostfs::Error> {
    let flags = FrameFlags::open(root)?;
    let mut count = 0;
    for frame in frames {
        count += u64::from(flags.is_poisoned(frame)?);
    }
    Ok(count)
}
