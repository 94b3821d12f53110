//! Every input that the fuzzer has found worth keeping, and every one that was a fault once, through its target.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use surefoot_fuzz::TARGETS;
use surefoot_hostfs::usage::thread_cpu_ns;

/// Processor time of one input, generous for a build without optimisation: they take some milliseconds at the most. The fuzzer
/// itself allows a second.
const CPU_NS_MAX: u64 = 5_000_000_000;

/// What the corpus may take in the repository.
const CORPUS_BYTES_MAX: u64 = 1 << 20;

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is listed").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_that_is_kept_is_read_without_harm() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    // A panic of a task would be caught by the runtime that runs it.
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        usual(what);
    }));
    let mut bytes_all = 0;
    for target in TARGETS {
        let inputs = inputs(&corpus.join(target.name));
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for path in inputs {
            let bytes = fs::read(&path).expect("it can be read");
            bytes_all += bytes.len() as u64;
            assert!(bytes.len() <= target.bytes_max, "{}: the fuzzer does not try so many bytes", path.display());
            let begun_ns = thread_cpu_ns();
            let done = panic::catch_unwind(|| (target.run)(&bytes));
            let took_ns = thread_cpu_ns() - begun_ns;
            assert!(took_ns < CPU_NS_MAX, "{}: {took_ns} ns", path.display());
            let panics = PANICS.load(Ordering::Relaxed);
            assert!(done.is_ok() && panics == 0, "{}", path.display());
        }
    }
    let _ = panic::take_hook();
    assert!(bytes_all <= CORPUS_BYTES_MAX, "the corpus has {bytes_all} bytes");
}

#[test]
fn the_corpus_has_no_folder_without_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folders: BTreeSet<String> =
        inputs(&corpus).iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(folders, targets);
}
