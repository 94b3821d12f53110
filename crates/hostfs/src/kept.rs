//! Files of the kernel that stay open, because they are read again and again.

use crate::Error;
use crate::root::{open, text};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are kept open; of more each reading opens and closes one.
const FILES_MAX: usize = 64;

/// How much is asked for at once: the kernel gives a page or so of most of its files.
const PIECE_BYTES: usize = 16 << 10;

/// The open files of a root, shared by its clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<HashMap<PathBuf, File>>>);

/// Which files are open does not tell one root from another.
impl PartialEq for Kept {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Kept {}

impl Kept {
    /// The text of a file from its beginning, which the kernel writes anew each time.
    pub(crate) fn read(&self, path: &Path, limit_bytes: u64) -> Result<String, Error> {
        let failed = |source| Error::Read { path: path.to_path_buf(), source };
        // Held while reading: the kernel writes the text anew for whoever asks for another place of it.
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(path) {
            match all(file, limit_bytes) {
                Ok(bytes) => return text(bytes, path, limit_bytes),
                // What it told of is gone; there may be another of its name.
                Err(_) => files.remove(path),
            };
        }
        let file = open(path).map_err(failed)?;
        let bytes = all(&file, limit_bytes).map_err(failed)?;
        if files.len() < FILES_MAX {
            files.insert(path.to_path_buf(), file);
        }
        text(bytes, path, limit_bytes)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// All bytes, or one more than the limit.
fn all(file: &File, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let enough = usize::try_from(limit_bytes).unwrap_or(usize::MAX).saturating_add(1);
    while bytes.len() < enough {
        let at = bytes.len();
        bytes.resize(at.saturating_add(PIECE_BYTES).min(enough), 0);
        let read = file.read_at(&mut bytes[at..], at as u64)?;
        bytes.truncate(at + read);
        if read == 0 {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Root;

    #[test]
    fn a_file_is_opened_once_and_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        std::fs::write(&path, "x".repeat(3 * PIECE_BYTES)).unwrap();
        let kept = Kept::default();
        assert_eq!(kept.read(&path, 1 << 20).unwrap().len(), 3 * PIECE_BYTES);
        std::fs::write(&path, "2").unwrap();
        assert_eq!(kept.clone().read(&path, 1 << 20).unwrap(), "2");
        // Removed, it can still be read: so nobody has opened it again.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kept.read(&path, 1 << 20).unwrap(), "2");
        assert!(matches!(kept.read(&path, 0), Err(Error::TooLarge { .. })));
        assert!(kept.read(&folder.path().join("none"), 1).unwrap_err().is_absent());
    }

    #[test]
    fn the_kernel_s_files_come_whole_and_new_from_a_kept_descriptor() {
        let root = Root::host();
        for path in ["/proc/interrupts", "/proc/self/maps", "/proc/stat", "/sys/devices/system/cpu/online"] {
            let once = root.read(path).unwrap();
            for _ in 0..2 {
                let again = root.read_again(path).unwrap();
                assert_eq!(again.is_empty(), once.is_empty(), "{path}");
                let heads = [&once, &again].map(|text| text.split_ascii_whitespace().next().map(str::to_owned));
                assert_eq!(heads[0], heads[1], "{path}");
                assert!(again.ends_with('\n'), "{path}");
                assert!(again.lines().count().abs_diff(once.lines().count()) < 8, "{path}");
            }
        }
        let uptime = || root.read_again("/proc/uptime").unwrap();
        let before = uptime();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_ne!(uptime(), before);
    }

    #[test]
    fn a_process_that_ended_does_not_hide_a_later_one_of_its_path() {
        let root = Root::host();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let path = format!("/proc/{}/stat", child.id());
        assert!(root.read_again(&path).unwrap().contains("(sleep)"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(root.read_again(&path).is_err());
        assert!(root.kept_files() == 0, "what is gone is not kept");
    }
}
