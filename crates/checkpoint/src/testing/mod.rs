//! Folders for tests of whole sessions: on a disk, with the memory tiers in memory, as jobs have them.

#![allow(clippy::unwrap_used)]
pub(crate) mod failing;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;

/// The link in such a folder that leads to memory.
const IN_MEMORY: &str = "in-memory";

/// A folder beside what was built, on a disk as a rule: /tmp lies in memory on many machines, where no durable tier can be.
pub(crate) fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    // That of the tests lies in target/debug/deps.
    let of_build = program.ancestors().nth(3).map(|target| target.join("tmp"));
    let made =
        of_build.and_then(|of_build| fs::create_dir_all(&of_build).and_then(|()| tempfile::tempdir_in(of_build)).ok());
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// A folder that goes with its test.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    _memory: Option<tempfile::TempDir>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let (folder, memory) = (folder(), tempfile::tempdir_in("/dev/shm").ok());
        if let Some(memory) = &memory {
            symlink(memory.path(), folder.path().join(IN_MEMORY)).unwrap();
        }
        Home { folder, _memory: memory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes an empty directory below such a folder that lies in memory, where the machine has such a file system.
pub(crate) fn make_memory(path: &Path) {
    // Ranks of one node make the same one.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    if path.exists() {
        return;
    }
    let in_memory = path.ancestors().map(|above| above.join(IN_MEMORY)).find(|link| link.exists());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let Some(in_memory) = in_memory else { return fs::create_dir(path).unwrap() };
    let real = in_memory.join(path.to_str().unwrap().replace('/', "-"));
    let _ = fs::remove_dir_all(&real);
    fs::create_dir(&real).unwrap();
    symlink(&real, path).unwrap();
}
