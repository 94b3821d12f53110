//! Files that the program writes where it is told to, and that belong to its checkpoints.

use crate::generation::{RegionEntry, check_name};
use crate::tier::{FileBytes, create_directories};
use crate::{Disk, Error, Storage};
use std::fs;
use std::path::{Path, PathBuf};

/// What a region's name begins with when it is a file's content.
pub(super) const PREFIX: &str = "file:";

/// What the name of a file ends with while it is brought back.
const RESTORING: &str = ".restoring";

/// The most files of a rank.
const FILES_MAX: usize = 1024;

/// The files of one rank.
pub(super) struct Files {
    directory: PathBuf,
    names: Vec<String>,
}

/// The contents of the files at one moment.
pub(super) struct Contents(Vec<(RegionEntry, Option<FileBytes>)>);

/// Files that are being brought back: they get their names when all of it is proved.
pub(super) struct Incoming(Vec<(PathBuf, PathBuf, Option<FileBytes>)>);

impl Files {
    /// Files below a directory of a tier, which must exist.
    pub(super) fn new(base: &Path, job: &str, rank: u32) -> Result<Self, Error> {
        let directory = create_directories(&Disk, base, &Path::new(job).join(format!("files-{rank:05}")))?;
        Ok(Files { directory, names: Vec::new() })
    }

    /// The path at which the program writes a file of this name.
    pub(super) fn route(&mut self, name: &str) -> Result<PathBuf, Error> {
        let refuse = |why: String| Error::Option { option: "file", why };
        check_name(name).and_then(|()| check_name(&format!("{PREFIX}{name}"))).map_err(refuse)?;
        if name.contains('/') || name.ends_with(RESTORING) {
            return Err(refuse(format!("{name:?} has a '/' or ends in {RESTORING:?}; the directory is ours")));
        }
        if !self.names.iter().any(|known| known == name) {
            if self.names.len() == FILES_MAX {
                return Err(refuse(format!("more than {FILES_MAX} are not possible")));
            }
            self.names.push(name.to_owned());
        }
        Ok(self.directory.join(name))
    }

    /// What is in the files now. A file that was routed and not written is an error: its checkpoint would be no use.
    pub(super) fn contents(&self) -> Result<Contents, Error> {
        let content = |name: &String| {
            let path = self.directory.join(name);
            let content = FileBytes::open(&path).map_err(Error::storage("read", &path))?;
            let bytes = content.as_ref().map_or(0, |content| content.bytes().len() as u64);
            Ok((RegionEntry { name: format!("{PREFIX}{name}"), bytes }, content))
        };
        self.names.iter().map(content).collect::<Result<_, _>>().map(Contents)
    }

    /// Lengths of the files now; what cannot be read counts as empty.
    pub(super) fn bytes(&self) -> u64 {
        let length = |name: &String| fs::symlink_metadata(self.directory.join(name)).map_or(0, |found| found.len());
        self.names.iter().map(length).sum()
    }

    /// Makes room for the files among the regions of a checkpoint, under names that nobody takes for them.
    pub(super) fn incoming(&mut self, regions: &[RegionEntry]) -> Result<Incoming, Error> {
        let mut incoming = Incoming(Vec::new());
        for entry in regions {
            let Some(name) = entry.name.strip_prefix(PREFIX) else { continue };
            let path = self.route(name)?;
            let new = self.directory.join(format!("{name}{RESTORING}"));
            let _ = Disk.remove_file(&new);
            Disk.create_file(&new, entry.bytes, false).map_err(Error::storage("create", &new))?;
            let content = FileBytes::open(&new).map_err(Error::storage("map", &new));
            incoming.0.push((new, path, None));
            if let Some(last) = incoming.0.last_mut() {
                last.2 = content?;
            }
        }
        Ok(incoming)
    }
}

/// Whether a region is a file's content.
pub(super) fn is_file(entry: &RegionEntry) -> bool {
    entry.name.starts_with(PREFIX)
}

impl Contents {
    pub(super) fn entries(&self) -> impl Iterator<Item = RegionEntry> + '_ {
        self.0.iter().map(|(entry, _)| entry.clone())
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|(_, content)| content.as_ref().map_or(&[][..], FileBytes::bytes))
    }
}

impl Incoming {
    /// The addresses of the files' contents, in the order of the manifest's.
    pub(super) fn starts(&mut self) -> Vec<*mut u8> {
        let start = |content: &mut Option<FileBytes>| {
            content.as_mut().map_or(std::ptr::null_mut(), |content| content.bytes_mut().as_mut_ptr())
        };
        self.0.iter_mut().map(|(_, _, content)| start(content)).collect()
    }

    /// Gives the files their names.
    pub(super) fn keep(mut self) -> Result<(), Error> {
        for (new, path, content) in std::mem::take(&mut self.0) {
            drop(content);
            Disk.rename(&new, &path).map_err(Error::storage("rename", &new))?;
        }
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        for (new, _, _) in &self.0 {
            let _ = Disk.remove_file(new);
        }
    }
}
