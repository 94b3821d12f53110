//! From a folder to an archive and back.

use super::{Archive, BYTES_MAX, Entry};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::Path;

impl Archive {
    /// Packs a folder.
    ///
    /// # Errors
    /// With the path, when something cannot be read, is neither file, folder nor link, or there is too much.
    pub fn of_folder(folder: &Path) -> io::Result<Self> {
        let mut archive = Archive::default();
        let mut left = BYTES_MAX;
        archive.take(folder, Path::new(""), &mut left)?;
        Ok(archive)
    }

    fn take(&mut self, folder: &Path, relative: &Path, left: &mut usize) -> io::Result<()> {
        let named =
            |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut is_empty = true;
        for entry in fs::read_dir(folder).map_err(|error| named(folder, error))? {
            is_empty = false;
            let entry = entry.map_err(|error| named(folder, error))?;
            let (path, below) = (entry.path(), relative.join(entry.file_name()));
            let failed = |error| named(&path, error);
            let kind = entry.file_type().map_err(failed)?;
            let taken = if kind.is_dir() {
                self.take(&path, &below, left)?;
                continue;
            } else if kind.is_symlink() {
                Entry::Link(fs::read_link(&path).map_err(failed)?)
            } else if kind.is_file() {
                Entry::File(content(&path, left).map_err(failed)?)
            } else {
                return Err(failed(io::Error::other("neither a file, nor a folder, nor a link")));
            };
            self.add(below, taken).map_err(|reason| failed(io::Error::other(reason)))?;
        }
        if is_empty && !relative.as_os_str().is_empty() {
            self.add(relative.to_owned(), Entry::Folder).map_err(|reason| named(folder, io::Error::other(reason)))?;
        }
        Ok(())
    }

    /// Writes everything below a folder, which must be empty.
    ///
    /// # Errors
    /// With the path that could not be written.
    pub fn unpack(&self, folder: &Path) -> io::Result<()> {
        let written = |path: &Path, entry: &Entry| -> io::Result<()> {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            match entry {
                Entry::Folder => fs::create_dir_all(path),
                Entry::File(content) => fs::write(path, content),
                Entry::Link(target) => symlink(target, path),
            }
        };
        if fs::read_dir(folder)?.next().is_some() {
            return Err(io::Error::other(format!("{} is not empty", folder.display())));
        }
        for (relative, entry) in &self.entries {
            let path = folder.join(relative);
            written(&path, entry)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        Ok(())
    }
}

/// Files of /proc and /sys do not tell their length, so it is found by reading.
fn content(path: &Path, left: &mut usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(*left as u64 + 1).read_to_end(&mut content)?;
    *left = left
        .checked_sub(content.len())
        .ok_or_else(|| io::Error::other(format!("more than {BYTES_MAX} bytes in all files")))?;
    Ok(content)
}
