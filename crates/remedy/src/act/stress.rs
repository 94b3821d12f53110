//! `stress:TIME`: stressapptest, which loads the memory and compares what it reads.

use super::shown::last_words;
use super::{Order, Outcome};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_sys::program::{self, Broken};

/// It takes a while to get its memory and to end beyond the time that it was given.
const BEYOND: Duration = Duration::from_secs(120);

/// How it says that the memory is good, and that it is bad.
const PASSED: &[u8] = b"Status: PASS";
const FOUND: &[u8] = b"discovered HW problems";

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
            Ok(ended) => match judged(ended.code, &ended.output) {
                Ok(said) => Outcome::Done {
                    detail: format!("no error in {} s: {said}", time.as_secs()),
                    memo: order.memo.clone(),
                },
                Err((why, is_passing)) => failed(why, is_passing),
            },
            Err(broken @ Broken::Stopped) => failed(format!("stressapptest: {broken}"), true),
            Err(broken) => failed(format!("stressapptest: {broken}"), false),
        }
    }
}

/// What its end says of the memory: its last words, or why there is no such, and whether it may be tried again. That it was killed, or had
/// no memory to test, is no word on a module.
fn judged(code: i32, output: &[u8]) -> Result<String, (String, bool)> {
    let said = last_words(output);
    let says = |what: &[u8]| output.windows(what.len()).any(|words| words == what);
    match code {
        0 if says(PASSED) => Ok(said),
        _ if says(FOUND) => Err((format!("stressapptest found errors (exit code {code}): {said}"), false)),
        137 => Err((
            "stressapptest was killed: was there so much memory? mebibytes in [stress] of the policies bounds it"
                .into(),
            true,
        )),
        129.. => Err((format!("stressapptest was ended by signal {}: {said}", code - 128), true)),
        _ => Err((format!("stressapptest did not test (exit code {code}): {said}"), true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_it_found_are_errors() {
        let is_passing = |code, output: &str| judged(code, output.as_bytes()).unwrap_err().1;
        assert_eq!(judged(0, b"Log: x\nStatus: PASS - please verify no corrected errors\n").unwrap().len(), 48);
        let bad = "Report Error: miscompare : DIMM Unknown : 1 : 4s\nStatus: FAIL - test discovered HW problems\n";
        assert!(!is_passing(1, bad));
        // The errors count, however it ended afterwards.
        assert!(!is_passing(137, bad));
        for (code, output) in [
            (1, "Status: FAIL - test encountered procedural errors\n"),
            (137, "Log: Allocated\n"),
            (139, ""),
            (143, ""),
            (127, ""),
            // It ended well, and does not say that the memory did.
            (0, ""),
            (0, "Log: Allocated\n"),
        ] {
            assert!(is_passing(code, output), "{code}");
        }
        assert!(judged(137, b"").unwrap_err().0.contains("mebibytes"));
    }
}
