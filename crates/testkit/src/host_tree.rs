//! A host made of files: what /proc, /sys, /dev and /run say, in a folder that vanishes with the test.

use crate::Archive;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// A tree of files below a temporary folder, made up or unpacked from an archive and then changed.
///
/// Every method takes paths relative to the tree's root and panics when the file system refuses, because a test can
/// go no further then.
///
/// ```
/// use surefoot_testkit::HostTree;
/// let tree = HostTree::new()
///     .file("proc/sys/kernel/hostname", "example\n")
///     .folder("sys/kernel/tracing/events")
///     .link("proc/self/ns/pid", "pid:[4026531836]");
/// let hostname = std::fs::read_to_string(tree.path().join("proc/sys/kernel/hostname"))?;
/// assert_eq!(hostname, "example\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct HostTree {
    folder: tempfile::TempDir,
}

impl Default for HostTree {
    fn default() -> Self {
        Self::new()
    }
}

impl HostTree {
    /// An empty tree.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        HostTree { folder }
    }

    /// A recorded or made-up machine, unpacked from its archive.
    ///
    /// # Panics
    /// When the archive cannot be read or is malformed; the message names the line.
    pub fn unpacked(archive: impl AsRef<Path>) -> Self {
        let (tree, path) = (Self::new(), archive.as_ref().display());
        let text = fs::read_to_string(&archive).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
        let archive = Archive::parse(&text).unwrap_or_else(|error| panic!("{path}, {error}"));
        archive.unpack(tree.path()).unwrap_or_else(|error| panic!("cannot unpack {path}: {error}"));
        tree
    }

    /// The tree's root, for `Root::at`.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, with its folders; replaces what was there.
    ///
    /// # Panics
    /// When the path leaves the tree or the file cannot be written.
    #[must_use]
    pub fn file(self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Self {
        self.write(relative, content);
        self
    }

    /// Makes a folder, with those above it.
    ///
    /// # Panics
    /// When the path leaves the tree or the folder cannot be made.
    #[must_use]
    pub fn folder(self, relative: impl AsRef<Path>) -> Self {
        let path = self.inside(relative.as_ref());
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        self
    }

    /// Makes a symbolic link, which may point nowhere, as those of namespaces do.
    ///
    /// # Panics
    /// When the path leaves the tree or the link cannot be made.
    #[must_use]
    pub fn link(self, relative: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        let path = self.with_parent(relative.as_ref());
        symlink(target, &path).unwrap_or_else(|error| panic!("cannot link {}: {error}", path.display()));
        self
    }

    /// Takes a file or a folder with everything in it away.
    ///
    /// # Panics
    /// When the path leaves the tree or there is no such file.
    #[must_use]
    pub fn without(self, relative: impl AsRef<Path>) -> Self {
        let path = self.inside(relative.as_ref());
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap_or_else(|error| panic!("cannot remove {}: {error}", path.display()));
        self
    }

    /// Sets the permission bits of a file. They do not stop a test that runs as root.
    ///
    /// # Panics
    /// When the path leaves the tree or there is no such file.
    #[must_use]
    pub fn mode(self, relative: impl AsRef<Path>, mode: u32) -> Self {
        let path = self.inside(relative.as_ref());
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .unwrap_or_else(|error| panic!("cannot change {}: {error}", path.display()));
        self
    }

    /// As [`HostTree::file`], while the tree is in use: the host has moved on. The file is replaced as a whole, so a
    /// reader sees the old text or the new one.
    ///
    /// # Panics
    /// When the path leaves the tree or the file cannot be written.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.with_parent(relative.as_ref());
        let next = path.with_extension("next-text");
        fs::write(&next, content)
            .and_then(|()| fs::rename(&next, &path))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }

    fn with_parent(&self, relative: &Path) -> PathBuf {
        let path = self.inside(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).unwrap_or_else(|error| panic!("cannot make {}: {error}", parent.display()));
        }
        path
    }

    fn inside(&self, relative: &Path) -> PathBuf {
        let plain = relative.components().all(|component| matches!(component, Component::Normal(_)));
        assert!(plain, "{} is not a path below the tree", relative.display());
        self.path().join(relative)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_unpacked_machine_has_its_files_and_links_and_can_be_changed() {
        let recorded = HostTree::new().file("proc/stat", "cpu0 1").link("proc/self/ns/pid", "pid:[1]").folder("sys");
        let text = Archive::of_folder(recorded.path()).unwrap().to_text();
        let archive = HostTree::new().file("machine.tree", text);
        let copy = HostTree::unpacked(archive.path().join("machine.tree")).file("proc/stat", "cpu0 2").without("sys");
        assert_eq!(fs::read_to_string(copy.path().join("proc/stat")).unwrap(), "cpu0 2");
        assert_eq!(fs::read_link(copy.path().join("proc/self/ns/pid")).unwrap(), Path::new("pid:[1]"));
        assert!(!copy.path().join("sys").exists());
        assert_eq!(fs::read_dir(copy.path().join("proc")).unwrap().count(), 2, "no half-written file stays");
    }

    #[test]
    #[should_panic(expected = "machine.tree, line 2: content without a file before it")]
    fn a_malformed_archive_ends_the_test_with_its_line() {
        let archive = HostTree::new().file("machine.tree", "surefoot-tree 1\n|x\n");
        let _ = HostTree::unpacked(archive.path().join("machine.tree"));
    }

    #[test]
    #[should_panic(expected = "is not a path below the tree")]
    fn no_file_is_written_outside_the_tree() {
        let _ = HostTree::new().file("../escaped", "");
    }

    #[test]
    #[should_panic(expected = "is not a path below the tree")]
    fn no_absolute_path_is_taken() {
        let _ = HostTree::new().file("/proc/stat", "");
    }

    #[test]
    fn the_folder_vanishes_with_the_tree() {
        let tree = HostTree::new();
        let path = tree.path().to_path_buf();
        drop(tree);
        assert!(!path.exists());
    }
}
