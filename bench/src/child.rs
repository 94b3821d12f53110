//! Processes that are started here, and ended here.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_sys::signals;

/// How often a wait looks again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a process may take to end after it was asked to.
const ENDING_LIMIT: Duration = Duration::from_secs(20);

/// Waits, and fails early when the user wants to end.
pub fn pause(length: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + length;
    loop {
        if stop_flag()?.load(Ordering::Relaxed) {
            bail!("ended by a signal");
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// The flag that Ctrl-C raises; the handler is set once, because setting it anew would let the second one pass.
pub fn stop_flag() -> anyhow::Result<&'static AtomicBool> {
    static FLAG: OnceLock<&'static AtomicBool> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(flag);
    }
    let flag = signals::stop_flag()?;
    Ok(FLAG.get_or_init(|| flag))
}

/// A process that runs; dropping it ends it.
pub struct Running {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Running {
    /// Starts a process whose output goes to `output` and whose errors go to the same name with `.err`.
    pub fn start(command: &mut Command, output: &Path) -> anyhow::Result<Running> {
        let name = command.get_program().to_string_lossy().into_owned();
        let create = |path: &Path| std::fs::File::create(path).with_context(|| path.display().to_string());
        command.stdin(Stdio::null()).stdout(create(output)?).stderr(create(&errors_of(output))?);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Running { child, name, output: output.to_owned() })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until its output contains `text`.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> anyhow::Result<()> {
        self.wait_for_in(&self.output.clone(), text, limit)
    }

    /// Waits until its standard error contains `text`.
    pub fn wait_for_error(&mut self, text: &str, limit: Duration) -> anyhow::Result<()> {
        self.wait_for_in(&errors_of(&self.output), text, limit)
    }

    fn wait_for_in(&mut self, file: &Path, text: &str, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            if std::fs::read_to_string(file).unwrap_or_default().contains(text) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.name, self.errors());
            }
            if Instant::now() > end {
                bail!("{} did not say '{text}' within {limit:?}", self.name);
            }
            pause(LOOK_EVERY)?;
        }
    }

    /// Waits for its end and returns what it printed.
    pub fn finish(mut self, limit: Duration) -> anyhow::Result<String> {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                bail!("{} did not end within {limit:?}", self.name);
            }
            pause(LOOK_EVERY)?;
        };
        // A process that was asked to end by a signal may die of it.
        if !status.success() && status.code().is_some() {
            bail!("{} ended with {status}: {}", self.name, self.errors());
        }
        self.output()
    }

    /// What it has printed so far.
    pub fn output(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(&self.output).with_context(|| self.output.display().to_string())
    }

    /// Asks it to end and returns what it printed.
    pub fn interrupt(self) -> anyhow::Result<String> {
        // Started from a shell's background, the benchmarks ignore SIGINT and their processes inherit that.
        self.signal(if self.ignores_sigint() { "TERM" } else { "INT" })?;
        self.finish(ENDING_LIMIT)
    }

    fn ignores_sigint(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // SIGINT is number 2, and bit 0 is number 1.
        mask.is_some_and(|mask| mask & 0b10 != 0)
    }

    /// Sends it a signal, such as `USR1`.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        // The shell's kill, because sending a signal oneself needs unsafe code.
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.pid())]).status();
        status.context("cannot run sh")?;
        Ok(())
    }

    /// What it wrote to standard error, the last of it.
    pub fn errors(&self) -> String {
        let text = std::fs::read_to_string(errors_of(&self.output)).unwrap_or_default();
        text.lines().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

fn errors_of(output: &Path) -> PathBuf {
    output.with_extension("err")
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail harmlessly when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a short process to its end.
pub fn output(command: &mut Command) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {}", output.status, errors.lines().last().unwrap_or(""));
    }
    Ok(output)
}

/// A folder for outputs that vanishes.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder.
    pub fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("surefoot-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Scratch(path))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_interrupted_and_its_output_kept() {
        let scratch = Scratch(std::env::temp_dir().join(format!("surefoot-bench-test-{}", std::process::id())));
        std::fs::create_dir_all(&scratch.0).unwrap();
        // A shell cannot trap a signal that it was started to ignore.
        for disposition in ["--default-signal=INT", "--ignore-signal=INT"] {
            let mut command = Command::new("env");
            command.args([disposition, "sh", "-c"]);
            command.arg("trap 'echo ended; exit 0' INT TERM; echo started; while :; do sleep 0.05; done");
            let mut running = Running::start(&mut command, &scratch.file("out.txt")).unwrap();
            running.wait_for("started", Duration::from_secs(20)).unwrap();
            assert_eq!(running.interrupt().unwrap(), "started\nended\n", "{disposition}");
        }
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo why >&2; exit 3"]);
        let error = Running::start(&mut failing, &scratch.file("out.txt")).unwrap().finish(ENDING_LIMIT);
        assert!(format!("{:#}", error.unwrap_err()).ends_with("why"));
    }
}
