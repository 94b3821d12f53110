//! Files in memory for what reads files.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files in memory where the machine has them.
fn folder() -> TempDir {
    let made =
        tempfile::Builder::new().prefix("surefoot-fuzz-").tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.unwrap_or_else(|error| panic!("there is no room for temporary files: {error}"))
}

/// Runs with an open file without a name that holds these bytes.
pub fn with_file(bytes: &[u8], run: impl FnOnce(&File)) {
    thread_local!(static KEPT: RefCell<Option<File>> = const { RefCell::new(None) });
    KEPT.with_borrow_mut(|kept| {
        let file = kept.get_or_insert_with(|| {
            let folder = folder();
            let path = folder.path().join("file");
            File::create_new(&path)
                .and_then(|_| File::options().read(true).write(true).open(&path))
                .unwrap_or_else(fail)
        });
        file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).unwrap_or_else(fail);
        run(file);
    });
}

/// Runs with an empty folder of its own, which stays from one run to the next with whatever is left in it.
pub fn with_folder(run: impl FnOnce(&Path)) {
    thread_local!(static KEPT: RefCell<Option<TempDir>> = const { RefCell::new(None) });
    KEPT.with_borrow_mut(|kept| run(kept.get_or_insert_with(folder).path()));
}

/// Writes a file anew.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap_or_else(fail);
    path
}

fn fail<T>(error: std::io::Error) -> T {
    panic!("a temporary file cannot be written: {error}")
}
