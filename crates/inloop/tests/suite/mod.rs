mod allocation;
mod c_header;
mod hostile;
mod live;
mod sealed;

use std::path::Path;
use std::time::Duration;
use surefoot_inloop::{Loop, LoopGaps, Options};

/// A directory in memory that vanishes with the test.
fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("surefoot-test-").tempdir_in("/dev/shm").unwrap()
}

fn open(directory: &Path, threshold: Duration) -> Loop {
    Loop::open_with("a test", &options(directory, threshold)).unwrap()
}

fn options(directory: &Path, threshold: Duration) -> Options {
    Options { directory: directory.to_owned(), ..Options::new(threshold) }
}

fn only(mut found: Vec<LoopGaps>) -> LoopGaps {
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn is_root() -> bool {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::geteuid() == 0 }
}
