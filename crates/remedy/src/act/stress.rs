//! `stress:TIME`: stressapptest, which loads the memory and compares what it reads.

use super::shown::last_words;
use super::{Order, Outcome};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::Observed;
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
                Ok(observed) => Outcome::done(observed, order.memo.clone()),
                Err((why, is_passing)) => failed(why, is_passing),
            },
            Err(broken @ Broken::Stopped) => failed(format!("stressapptest: {broken}"), true),
            Err(broken) => failed(format!("stressapptest: {broken}"), false),
        }
    }
}

/// What its end says of the memory: how much was tested, or why that is not known, and whether it may be tried again. That it was killed, or
/// had no memory to test, is no word on a module.
fn judged(code: i32, output: &[u8]) -> Result<Observed, (String, bool)> {
    let said = last_words(output);
    let says = |what: &[u8]| output.windows(what.len()).any(|words| words == what);
    match code {
        0 if says(PASSED) => match tested(&String::from_utf8_lossy(output)) {
            Some((tested_s, copied_mebibytes @ 1.., error_count @ 0)) => {
                Ok(Observed::Tested { tested_s, copied_mebibytes, error_count })
            }
            Some((_, 0, _)) => Err(("stressapptest passed, and copied no memory".to_owned(), true)),
            Some((_, _, count)) => Err((format!("stressapptest found {count} errors, and says that it passed"), false)),
            None => Err((format!("stressapptest does not say how much it tested: {said}"), true)),
        },
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

/// Seconds, MiB copied, and errors, as its summary has them: `Stats: Completed: 5816.00M in 1.00s 5800.11MB/s, with 0 hardware incidents, 0
/// errors`.
fn tested(output: &str) -> Option<(u64, u64, u64)> {
    let line = output.lines().find_map(|line| line.split_once("Stats: Completed: ")).map(|(_, rest)| rest)?;
    let number = |word: &str| word.split('.').next()?.parse::<u64>().ok();
    let (copied, rest) = line.split_once("M in ")?;
    let (seconds, rest) = rest.split_once("s ")?;
    let (incidents, errors) = rest.split_once(", with ")?.1.split_once(" hardware incidents, ")?;
    let errors = errors.trim().strip_suffix(" errors")?;
    Some((number(seconds)?, number(copied)?, number(incidents)?.saturating_add(number(errors)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tested_is_read_from_its_summary() {
        let of = |line: &str| judged(0, format!("Log: x\n{line}\nStatus: PASS\n").as_bytes());
        assert_eq!(
            of(
                "2026/11/30-15:00:00(UTC) Stats: Completed: 5816.00M in 60.01s 5800.11MB/s, with 0 hardware incidents, 0 errors"
            ),
            Ok(Observed::Tested { tested_s: 60, copied_mebibytes: 5_816, error_count: 0 })
        );
        for (line, passes) in [
            ("Stats: Completed: 5816.00M in 60.01s 58MB/s, with 1 hardware incidents, 0 errors", false),
            ("Stats: Completed: 5816.00M in 60.01s 58MB/s, with 0 hardware incidents, 2 errors", false),
            ("Stats: Completed: 0.00M in 60.01s 0MB/s, with 0 hardware incidents, 0 errors", true),
            ("Stats: Completed: much", true),
            ("", true),
        ] {
            assert_eq!(of(line).unwrap_err().1, passes, "{line}");
        }
    }

    #[test]
    fn only_errors_that_it_found_are_errors() {
        let is_passing = |code, output: &str| judged(code, output.as_bytes()).unwrap_err().1;
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
