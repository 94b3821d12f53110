//! `stress:TIME`: stressapptest, which loads the memory and compares what it reads.

use super::shown::last_words;
use super::{Order, Outcome};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::program::{self, Broken};

/// It takes a while to get its memory and to end beyond the time that it was given.
const BEYOND: Duration = Duration::from_secs(120);

/// How the memory is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stress {
    /// MiB to test; `None` for what stressapptest finds free.
    pub mebibytes: Option<u64>,
}

impl Stress {
    /// What it would do.
    pub fn dry_run(&self, time: Duration) -> String {
        format!(
            "stressapptest -W -s {}{}",
            time.as_secs(),
            self.mebibytes.map_or(String::new(), |size| format!(" -M {size}"))
        )
    }

    /// Runs it to its end.
    pub fn run(&self, time: Duration, order: &Order, stop: &AtomicBool) -> Outcome {
        let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
        let Some(path) = program::find("stressapptest") else {
            return failed(
                "unsupported: stressapptest is not installed; install the package stressapptest".into(),
                false,
            );
        };
        let mut command = Command::new(path);
        command.args(["-W", "-s", &time.as_secs().max(1).to_string()]);
        if let Some(size) = self.mebibytes {
            command.args(["-M", &size.to_string()]);
        }
        command.env_clear().env("LC_ALL", "C").current_dir("/");
        match program::run(command, b"", time + BEYOND, stop) {
            Ok(ended) if ended.code == 0 => Outcome::Done {
                detail: format!("no error in {} s: {}", time.as_secs(), last_words(&ended.output)),
                memo: order.memo.clone(),
            },
            Ok(ended) => failed(
                format!("stressapptest found errors (exit code {}): {}", ended.code, last_words(&ended.output)),
                false,
            ),
            Err(broken @ Broken::Stopped) => failed(format!("stressapptest: {broken}"), true),
            Err(broken) => failed(format!("stressapptest: {broken}"), false),
        }
    }
}
