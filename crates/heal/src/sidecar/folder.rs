//! A file on this machine and the directory that holds it, both by descriptor for as long as work is done on them. What
//! lies in the directory may be another user's: no name is trusted to be today what it was a moment ago.

use super::dress::{Stamp, dress, set_modified};
use super::place::{Begun, Part, Place};
use super::protect::changed;
use super::walk::{Way, directory_of};
use super::{SIDECAR_END, refusal, with_end};
use crate::storage::{Directory, allocate, beneath};
use crate::{Error, StoredFile};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What the names of new files end with until they are put; then as many hexadecimal digits.
const NEW_END: &str = ".surefoot.new-";
const NEW_DIGITS: usize = 16;

/// Names that are tried for a new file.
const NAMES_TRIED: usize = 8;

/// What root may be told of a directory of another user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Root writes in directories of root's only.
    #[default]
    Root,
    /// Root writes in directories of others, too, who can then decide what is in the place of the file afterwards.
    DirectoryOwner,
}

pub(super) struct Folder {
    path: PathBuf,
    directory: File,
    name: OsString,
    /// The file that was opened first, or the one that was put in its place since.
    file: RefCell<(File, Stamp)>,
}

impl Folder {
    /// To read only.
    pub(super) fn to_read(path: &Path) -> Result<Self, Error> {
        Folder::open(path, Way::Anybodys)
    }

    /// To write, too; refuses as root where other users could interfere, unless told.
    pub(super) fn to_write(path: &Path, trust: Trust) -> Result<Self, Error> {
        let way = match trust {
            _ if effective_user() != 0 => Way::Anybodys,
            Trust::Root => Way::Roots,
            Trust::DirectoryOwner => Way::LinksOfRoot,
        };
        Folder::open(path, way)
    }

    fn open(path: &Path, way: Way) -> Result<Self, Error> {
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            return Err(refusal("use", path, "it is not a regular file"));
        };
        let directory = directory_of(path, way)?;
        let held = surefoot_foreign::hold_in(&directory, &name).and_then(surefoot_foreign::Held::regular);
        let held = held.map_err(|error| match (error.raw_os_error(), error.kind()) {
            (Some(libc::ELOOP), _) => refusal("use", path, "it is a symbolic link; name the file that it leads to"),
            (_, io::ErrorKind::InvalidInput) => refusal("use", path, "it is not a regular file"),
            _ => Error::storage("open", path)(error),
        })?;
        let file = held.open().map_err(Error::storage("open", path))?;
        let stamp = Stamp::of(&file.metadata().map_err(Error::storage("open", path))?);
        Ok(Folder { path: path.to_owned(), directory, name, file: RefCell::new((file, stamp)) })
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.file.borrow().1
    }

    /// Takes away what a run that was killed left here. The caller has the [`Turn`].
    pub(super) fn sweep(&self) {
        let owners = [effective_user(), self.stamp().owner.0];
        let mut left = Vec::new();
        let listed = Directory::of(&self.directory).and_then(|directory| {
            directory.list(|name, _| {
                let digits = name.as_bytes().strip_prefix(self.beside(NEW_END).as_bytes());
                if digits.is_some_and(|it| it.len() == NEW_DIGITS && it.iter().all(u8::is_ascii_hexdigit)) {
                    left.push(name);
                }
                if left.len() < NAMES_TRIED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        });
        // What stays is taken for nothing.
        if listed.is_ok() {
            for name in left {
                let found = beneath::hold(&self.directory, &name).and_then(|held| held.metadata());
                if found.is_ok_and(|found| found.is_file() && owners.contains(&found.uid())) {
                    let _ = beneath::remove(&self.directory, &name);
                }
            }
        }
    }

    fn beside(&self, end: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(end);
        name
    }

    fn name_of(&self, part: Part) -> OsString {
        match part {
            Part::File => self.name.clone(),
            Part::Sidecar => self.beside(SIDECAR_END),
        }
    }

    /// Whether the file's name still leads to the file that was read, and nobody wrote to it.
    fn expect_unchanged(&self) -> Result<(), Error> {
        let now = beneath::hold(&self.directory, &self.name).and_then(|held| held.metadata());
        match now {
            Ok(now) if now.is_file() && Stamp::of(&now) == self.stamp() => Ok(()),
            _ => Err(changed(&self.path)),
        }
    }

    fn create(&self) -> io::Result<(File, Option<OsString>)> {
        match beneath::create_unnamed(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self
                .with_new_name(|name| beneath::create_named(&self.directory, name))
                .map(|(file, name)| (file, Some(name))),
            created => created.map(|file| (file, None)),
        }
    }

    /// Takes away a lock that was made by somebody whom neither the file nor this run belongs to: in a directory in which
    /// everybody may make files it could keep all others from their work for good.
    fn clear_of_strangers(&self, name: &OsStr, path: &Path) -> Result<(), Error> {
        let Ok(found) = beneath::hold(&self.directory, name).and_then(|held| held.metadata()) else { return Ok(()) };
        if [0, effective_user(), self.stamp().owner.0].contains(&found.uid()) {
            return Ok(());
        }
        beneath::remove(&self.directory, name).map_err(|error| {
            let why = format!("it belongs to the user with number {}, and cannot be removed: {error}", found.uid());
            refusal("take", path, &why)
        })
    }

    /// Does something with a name that nobody can know before.
    fn with_new_name<T>(&self, mut work: impl FnMut(&OsStr) -> io::Result<T>) -> io::Result<(T, OsString)> {
        for _ in 0..NAMES_TRIED {
            let mut bytes = [0; NEW_DIGITS / 2];
            File::open("/dev/urandom")?.read_exact(&mut bytes)?;
            let name = self.beside(&format!("{NEW_END}{:016x}", u64::from_ne_bytes(bytes)));
            match work(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done.map(|done| (done, name)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Place for Folder {
    fn path(&self, part: Part) -> PathBuf {
        match part {
            Part::File => self.path.clone(),
            Part::Sidecar => super::sidecar_path(&self.path),
        }
    }

    fn open(&self, part: Part) -> io::Result<Box<dyn StoredFile>> {
        let (file, stamp) = &*self.file.borrow();
        if part == Part::File {
            return Ok(Box::new(file.try_clone()?));
        }
        let found = surefoot_foreign::hold_in(&self.directory, &self.name_of(part))?.regular()?;
        let owner = found.about().owner;
        // Who writes the sidecar decides what the file becomes.
        if ![0, effective_user(), stamp.owner.0].contains(&owner) {
            let why =
                format!("it belongs to the user with number {owner}, who is neither the file's owner nor you nor root");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Box::new(found.open()?))
    }

    fn begin(&self, part: Part, bytes: u64) -> io::Result<Box<dyn Begun + '_>> {
        let (file, name) = self.create()?;
        let new = New { folder: self, part, file, name: RefCell::new(name) };
        if bytes > 0 {
            allocate(&new.file, bytes)?;
        }
        Ok(Box::new(new))
    }
}

/// A new file, private and without a name where the file system has such.
struct New<'a> {
    folder: &'a Folder,
    part: Part,
    file: File,
    /// The name that it has before it is put.
    name: RefCell<Option<OsString>>,
}

impl New<'_> {
    fn dress(&self, modified_realtime_ns: i64) -> io::Result<()> {
        let (old, stamp) = &*self.folder.file.borrow();
        dress(&self.file, old, stamp, self.part)?;
        match self.part {
            Part::File => set_modified(&self.file, modified_realtime_ns),
            Part::Sidecar => Ok(()),
        }
    }

    /// Its name; gives it one if it has none.
    fn named(&self) -> io::Result<OsString> {
        let mut name = self.name.borrow_mut();
        if let Some(name) = &*name {
            return Ok(name.clone());
        }
        let ((), new) = self.folder.with_new_name(|new| beneath::link(&self.file, &self.folder.directory, new))?;
        Ok(name.insert(new).clone())
    }

    /// The file that a name in the directory leads to.
    fn at(&self, name: &OsStr) -> io::Result<Stamp> {
        Ok(Stamp::of(&beneath::hold(&self.folder.directory, name)?.metadata()?))
    }

    /// Whether a name in the directory leads to this file.
    fn is_at(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.at(name)?.is_same_file(&Stamp::of(&self.file.metadata()?)))
    }

    fn put_by(
        &self,
        modified_realtime_ns: i64,
        rename: impl FnOnce(&File, &OsStr, &OsStr) -> io::Result<()>,
    ) -> Result<(), Error> {
        let (folder, path) = (self.folder, self.folder.path(self.part));
        let ready = self.dress(modified_realtime_ns).and_then(|()| self.file.sync_all());
        ready.map_err(Error::storage("write", &path))?;
        let name = self.named().map_err(Error::storage("write", &path))?;
        folder.expect_unchanged()?;
        let other = || refusal("replace", &path, "somebody has put another file in the place of the new one");
        let target = folder.name_of(self.part);
        if !self.is_at(&name).map_err(|_| other())? {
            return Err(other());
        }
        let before = self.at(&target);
        if let Err(error) = rename(&folder.directory, &name, &target) {
            return Err(Error::storage("rename", &path)(self.unless_gone(error, &before, &name)));
        }
        self.name.borrow_mut().take();
        if !self.is_at(&target).map_err(|_| other())? {
            return Err(other());
        }
        if self.part == Part::File {
            let now = self.file.metadata().and_then(|now| Ok((self.file.try_clone()?, Stamp::of(&now))));
            *folder.file.borrow_mut() = now.map_err(Error::storage("look at", &path))?;
        }
        folder.directory.sync_all().map_err(Error::storage("sync", &path))
    }

    /// After a rename that failed: this file is kept, and the error names it, unless its place is seen to be as it was
    /// before. Some file systems take the old file away first.
    fn unless_gone(&self, error: io::Error, before: &io::Result<Stamp>, name: &OsStr) -> io::Error {
        let target = self.folder.name_of(self.part);
        let is_absent = |at: &io::Result<Stamp>| matches!(at, Err(error) if error.kind() == io::ErrorKind::NotFound);
        let is_as_before = match (before, self.at(&target)) {
            (Ok(before), Ok(now)) => before.is_same_file(&now),
            (before, now) => is_absent(before) && is_absent(&now),
        };
        if is_as_before {
            return error;
        }
        self.name.borrow_mut().take();
        let (why, path) = (surefoot_foreign::said(&error), self.folder.path(self.part));
        let said = match self.is_at(&target) {
            Ok(true) => format!("{why}; but the new file is in its place"),
            _ => format!(
                "{why}; the old file may be gone, so the new one, which is complete, is kept: if it is, move {} to its place",
                path.with_file_name(name).display()
            ),
        };
        io::Error::new(error.kind(), said)
    }
}

impl Begun for New<'_> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn put(self: Box<Self>, modified_realtime_ns: i64) -> Result<(), Error> {
        self.put_by(modified_realtime_ns, beneath::rename)
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.borrow_mut().take() {
            let _ = beneath::remove(&self.folder.directory, &name);
        }
    }
}

/// The right to write beside a file, until it is dropped.
pub(super) struct Turn<'a> {
    folder: &'a Folder,
    name: OsString,
    _file: File,
}

impl<'a> Turn<'a> {
    pub(super) fn take(folder: &'a Folder) -> Result<Self, Error> {
        const TRIES: usize = 10;
        let (end, directory) = (".surefoot.lock", &folder.directory);
        let (name, path) = (folder.beside(end), with_end(&folder.path, end));
        let busy = || refusal("take", &path, "another run is at work on this file");
        for _ in 0..TRIES {
            folder.clear_of_strangers(&name, &path)?;
            let file = beneath::open_or_create(directory, &name).map_err(Error::storage("create", &path))?;
            let own = file.metadata().map_err(Error::storage("look at", &path))?;
            if !own.is_file() {
                return Err(refusal("take", &path, "it is not a regular file"));
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy()),
                Err(TryLockError::Error(error)) => return Err(Error::storage("take", &path)(error)),
            }
            // Whoever had it before removed it when done: then this is the lock of nothing.
            let there = beneath::hold(directory, &name).and_then(|held| held.metadata());
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                return Ok(Turn { folder, name, _file: file });
            }
        }
        Err(busy())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _ = beneath::remove(&self.folder.directory, &self.name);
    }
}

pub(super) fn effective_user() -> u32 {
    // SAFETY: the call takes nothing, touches no memory of ours and always succeeds.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    fn fails() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EIO))
    }

    /// Puts a new file where an old one is; what is there afterwards beside a hidden one, and what was said.
    fn put(rename: impl FnOnce(&File, &OsStr, &OsStr) -> io::Result<()>) -> (Vec<(String, String)>, String) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("model.pt");
        fs::write(&path, "old").unwrap();
        let folder = Folder::to_write(&path, Trust::DirectoryOwner).unwrap();
        let (file, name) = folder.create().unwrap();
        let new = New { folder: &folder, part: Part::File, file, name: RefCell::new(name) };
        new.write_at(b"new", 0).unwrap();
        let error = new.put_by(0, rename).unwrap_err().to_string();
        drop(new);
        let entries = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
        let shown = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
        (entries.filter(|path| !path.ends_with(".fuse_hidden")).map(shown).collect(), error)
    }

    #[test]
    fn after_a_rename_that_failed_the_new_file_is_kept_unless_the_old_one_is_seen_in_its_place() {
        let (left, said) = put(|_, _, _| fails());
        assert!(left.len() == 1 && left[0].0.ends_with("/model.pt") && left[0].1 == "old", "{left:?}");
        assert!(!said.contains("kept"), "{said}");
        // As libfuse does with a target that is open.
        let (left, said) = put(|directory, _, target| {
            beneath::rename(directory, target, OsStr::new(".fuse_hidden"))?;
            fails()
        });
        assert!(left.len() == 1 && left[0].1 == "new", "{left:?}");
        assert!(said.contains(&format!("is kept: if it is, move {} to its place", left[0].0)), "{said}");
        // The answer of a server that did it was lost.
        let (left, said) = put(|directory, name, target| {
            beneath::rename(directory, name, target)?;
            fails()
        });
        assert!(left.len() == 1 && left[0].0.ends_with("/model.pt") && left[0].1 == "new", "{left:?}");
        assert!(said.contains("the new file is in its place"), "{said}");
    }
}
