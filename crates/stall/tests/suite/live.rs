//! What the tests of raisers on the running kernel share: the core that they watch, the programs that raise, and the watch.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use surefoot_model::{CpuId, WhoReport};
use surefoot_stall::who::WhoConfig;
use surefoot_testkit::not_run::not_run;

/// The core on which the programs poll.
pub const WATCHED: CpuId = CpuId(1);

/// One at a time polls on that core: two would have half of it each, and be interrupted half as often.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles one of the programs; `None` without a compiler or a second core, and where no static one can be made.
pub fn program(test: &str, folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        not_run(test, "it takes two cores");
        return None;
    }
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let compiled =
        Command::new("cc").args(["-O2", "-g", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source).status();
    match compiled {
        Ok(status) if status.success() => Some(program),
        Ok(_) if flags.contains(&"-static") => {
            not_run(test, "no static program can be made");
            None
        }
        Ok(status) => panic!("{name} does not compile: {status}"),
        Err(error) => {
            not_run(test, &format!("there is no C compiler: {error}"));
            None
        }
    }
}

/// A watch of that core with all stacks.
pub fn config() -> WhoConfig {
    WhoConfig {
        cpus: vec![WATCHED],
        pid: None,
        kernel_stacks: true,
        user_stacks: true,
        stacks_per_s: 100_000,
        timeline: false,
    }
}

/// What a watch reported; `None` where eBPF is not to be had.
pub fn reported(test: &str, found: Result<WhoReport, surefoot_stall::Error>) -> Option<WhoReport> {
    match found {
        Ok(report) => Some(report),
        Err(surefoot_stall::Error::Probes(surefoot_probes::Error::Unsupported { why, .. })) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
