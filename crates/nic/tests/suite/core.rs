//! The core of the library is deterministic: it has no clock and no thread, and reads nothing of the host (decision 0015).

use std::fs;
use std::path::{Path, PathBuf};

/// What runs by the clock, between processes.
const BY_THE_CLOCK: [&str; 4] = ["live/", "measure/clock.rs", "measure/library.rs", "measure/peers.rs"];
/// By these a source reads the host, or depends on when it runs.
const OF_THE_HOST: [&str; 5] = ["surefoot_hostfs", "surefoot_sys", "Instant::now", "SystemTime", "thread::"];
/// Where tests begin in a file.
const TESTS: &str = "#[cfg(test)]";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn the_core_reads_no_clock_and_nothing_of_the_host() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut outside, mut core) = (0, 0);
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split(TESTS).next().unwrap();
        let used = OF_THE_HOST.iter().find(|word| code.contains(**word));
        if BY_THE_CLOCK.iter().any(|part| name.starts_with(part)) {
            outside += usize::from(used.is_some());
        } else {
            core += 1;
            assert_eq!(used, None, "{name} is of the core");
        }
    }
    assert!(outside > 3 && core > 30, "{outside} files by the clock, {core} of the core");
}
