//! What the kernel says of page frames: `/proc/kpageflags` (`Documentation/admin-guide/mm/pagemap.rst`), and how much memory it
//! has taken out of use, `HardwareCorrupted` of `/proc/meminfo`.

use crate::{Error, Root};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use surefoot_model::Digits;

/// The flags of page frames, one word of 64 bits each.
#[derive(Debug)]
pub struct FrameFlags {
    file: File,
    path: PathBuf,
}

impl FrameFlags {
    /// Opens them. Only root may.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(root: &Root) -> Result<FrameFlags, Error> {
        let path = root.proc("kpageflags");
        Ok(FrameFlags { file: root.open_plain(&path)?, path })
    }

    /// Whether the kernel has taken this frame out of use (`KPF_HWPOISON`).
    ///
    /// # Errors
    /// When the flags cannot be read, or end before this frame, as there is no such memory.
    pub fn is_poisoned(&self, frame: u64) -> Result<bool, Error> {
        const HWPOISON: u64 = 1 << 19;
        Ok(self.flags(frame)? & HWPOISON != 0)
    }

    pub(crate) fn flags(&self, frame: u64) -> Result<u64, Error> {
        let mut flags = [0; 8];
        let cannot = |source| Error::Read { path: self.path.clone(), source };
        let at = frame.checked_mul(8).ok_or_else(|| cannot(io::ErrorKind::InvalidInput.into()))?;
        self.file.read_exact_at(&mut flags, at).map_err(cannot)?;
        Ok(u64::from_ne_bytes(flags))
    }
}

/// How much memory the kernel has taken out of use since it booted, bytes.
///
/// # Errors
/// When `/proc/meminfo` cannot be read, or does not say (a kernel without `CONFIG_MEMORY_FAILURE`).
pub fn corrupted_bytes(root: &Root) -> Result<u64, Error> {
    let path = root.proc("meminfo");
    let text = root.read_again(&path)?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("HardwareCorrupted:")?.trim().strip_suffix("kB"));
    let kilobytes: Option<u64> = kilobytes.and_then(|number| number.trim().digits());
    let missing = "there is no HardwareCorrupted: this kernel takes no pages out of use (CONFIG_MEMORY_FAILURE)";
    kilobytes.map(|number| number.saturating_mul(1024)).ok_or_else(|| Error::malformed(path, 1, missing))
}
