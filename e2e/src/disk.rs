//! A disk that is as small as a test wants it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs in a folder of its own; dropping it unmounts it.
pub struct TinyDisk {
    folder: tempfile::TempDir,
}

impl TinyDisk {
    /// Mounts one of this size, or says why that is not possible.
    ///
    /// # Errors
    /// The words of `mount`.
    pub fn mount(bytes: u64) -> Result<TinyDisk, String> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes},mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(TinyDisk { folder }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills it until this many bytes are left; returns the file that does.
    pub fn fill(&self, left_bytes: u64) -> PathBuf {
        let file = self.path().join("filler");
        std::fs::write(&file, []).unwrap();
        let mut bytes = 0;
        // Page by page: what is free is not known, and a file that does not fit whole is cut.
        while append(&file, &[0xAA; 4096]) {
            bytes += 4096;
        }
        let keep = u64::saturating_sub(bytes, left_bytes);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(keep).unwrap();
        file
    }
}

fn append(file: &Path, bytes: &[u8]) -> bool {
    use std::io::Write;
    std::fs::OpenOptions::new().append(true).open(file).unwrap().write_all(bytes).is_ok()
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted; umount it", self.path().display());
        }
    }
}
