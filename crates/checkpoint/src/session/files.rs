//! Files that the program writes where it is told to, and that belong to its checkpoints.

use crate::generation::{RegionEntry, check_name};
use crate::tier::{FileBytes, FileRoom, create_directories};
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

/// Files that are being brought back: they get their names, and belong to later checkpoints, when all ranks have proved
/// all of theirs.
pub(super) struct Incoming(Vec<Brought>);

/// One of them.
struct Brought {
    name: String,
    /// Where it is filled.
    new: PathBuf,
    room: Option<FileRoom>,
}

impl Files {
    /// Files below a directory of a tier, which must exist.
    pub(super) fn new(base: &Path, job: &str, rank: u32) -> Result<Self, Error> {
        let directory = create_directories(&Disk, base, &Path::new(job).join(format!("files-{rank:05}")))?;
        Ok(Files { directory, names: Vec::new() })
    }

    /// The path at which the program writes a file of this name.
    pub(super) fn route(&mut self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path_of(name)?;
        if !self.is_known(name) {
            if self.names.len() == FILES_MAX {
                return Err(refuse(format!("more than {FILES_MAX} are not possible")));
            }
            self.names.push(name.to_owned());
        }
        Ok(path)
    }

    fn path_of(&self, name: &str) -> Result<PathBuf, Error> {
        check_name(name).and_then(|()| check_name(&format!("{PREFIX}{name}"))).map_err(refuse)?;
        if name.contains('/') || name.ends_with(RESTORING) {
            return Err(refuse(format!("{name:?} has a '/' or ends in {RESTORING:?}; the directory is ours")));
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

    /// How many names there are, and their bytes, as regions.
    pub(super) fn names(&self) -> [u64; 2] {
        let bytes = self.names.iter().map(|name| (PREFIX.len() + name.len()) as u64).sum();
        [self.names.len() as u64, bytes]
    }

    /// Lengths of the files now; what cannot be read counts as empty.
    pub(super) fn bytes(&self) -> u64 {
        let length = |name: &String| fs::symlink_metadata(self.directory.join(name)).map_or(0, |found| found.len());
        self.names.iter().map(length).sum()
    }

    /// Makes room for the files among the regions of a checkpoint, under names that nobody takes for them.
    pub(super) fn incoming(&self, regions: &[RegionEntry]) -> Result<Incoming, Error> {
        let (mut incoming, mut more) = (Incoming(Vec::new()), 0);
        for entry in regions {
            let Some(name) = entry.name.strip_prefix(PREFIX) else { continue };
            more += usize::from(!self.is_known(name));
            if self.names.len() + more > FILES_MAX {
                return Err(refuse(format!("more than {FILES_MAX} are not possible")));
            }
            let mut new = self.path_of(name)?.into_os_string();
            new.push(RESTORING);
            let new = PathBuf::from(new);
            let _ = Disk.remove_file(&new);
            Disk.create_file(&new, entry.bytes, false).map_err(Error::storage("create", &new))?;
            let room = FileRoom::open(&new).map_err(Error::storage("map", &new));
            incoming.0.push(Brought { name: name.to_owned(), new, room: None });
            if let Some(last) = incoming.0.last_mut() {
                last.room = room?;
            }
        }
        Ok(incoming)
    }

    /// Gives the files their names, which are returned for [`Files::own`].
    pub(super) fn put(&self, mut incoming: Incoming) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while let Some(Brought { name, new, room }) = incoming.0.pop() {
            drop(room);
            if let Err(error) = Disk.rename(&new, &self.directory.join(&name)) {
                let _ = Disk.remove_file(&new);
                return Err(Error::storage("rename", &new)(error));
            }
            names.push(name);
        }
        Ok(names)
    }

    /// From now on files of these names belong to this rank's checkpoints.
    pub(super) fn own(&mut self, names: Vec<String>) {
        for name in names {
            if !self.is_known(&name) {
                self.names.push(name);
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

fn refuse(why: String) -> Error {
    Error::Option { option: "file", why }
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
        let start = |brought: &mut Brought| {
            brought.room.as_mut().map_or(std::ptr::null_mut(), |room| room.bytes_mut().as_mut_ptr())
        };
        self.0.iter_mut().map(start).collect()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        for brought in &self.0 {
            let _ = Disk.remove_file(&brought.new);
        }
    }
}
