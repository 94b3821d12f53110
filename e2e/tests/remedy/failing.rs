//! A module whose row fails: corrected errors in the counters and in the trace of a recorded host, as a kernel's driver shows them.

use crate::memory::recorded::line;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it has errors, and how many each time: 300 a second.
const PERIOD: Duration = Duration::from_millis(100);
const ERRORS: u64 = 30;

/// A recorded host that had no error yet.
pub struct Quiet {
    tree: PathBuf,
}

/// The module has errors until this is dropped.
pub struct Failing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Failing {
    /// Takes every error out of a tree.
    pub fn quiet(tree: &Path) -> Quiet {
        let controllers = tree.join("sys/devices/system/edac/mc");
        for controller in entries(&controllers).into_iter().filter(|path| path.is_dir()) {
            let own = ["ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count"].map(|name| controller.join(name));
            let of_modules = entries(&controller)
                .into_iter()
                .flat_map(|module| ["dimm_ce_count", "dimm_ue_count"].map(|name| module.join(name)));
            own.into_iter().chain(of_modules).filter(|path| path.is_file()).for_each(|path| replace(&path, "0\n"));
        }
        fs::write(tree.join("sys/kernel/tracing/trace_pipe"), "").unwrap();
        Quiet { tree: tree.to_owned() }
    }
}

impl Quiet {
    /// The row of `DIMM_C1` begins to fail.
    pub fn begin(self) -> Failing {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let controller = self.tree.join("sys/devices/system/edac/mc/mc1");
        let trace = self.tree.join("sys/kernel/tracing/trace_pipe");
        assert_eq!(fs::read_to_string(controller.join("dimm0/dimm_label")).unwrap().trim(), "DIMM_C1");
        let fail = move || {
            let mut count = 0;
            while !told.load(Ordering::Acquire) {
                count += ERRORS;
                replace(&controller.join("dimm0/dimm_ce_count"), &format!("{count}\n"));
                replace(&controller.join("ce_count"), &format!("{count}\n"));
                // A driver reports one error of a burst with its address.
                let report = line(8 * (count / ERRORS % 64) as u32);
                OpenOptions::new().append(true).open(&trace).unwrap().write_all(report.as_bytes()).unwrap();
                std::thread::sleep(PERIOD);
            }
        };
        Failing { is_over, thread: Some(std::thread::spawn(fail)) }
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Puts another file in a file's place, so that nobody reads half of it.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}
