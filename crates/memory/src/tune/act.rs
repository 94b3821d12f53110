//! Sets the interval and console logging: the only code of `memory` that changes a host for `tune`.
//!
//! Each step is written, read back, and looked for in what the machine itself counts; where that is not seen, the old
//! value is written again.

use super::platform::{KnobKind, Platform};
use crate::Error;
use crate::read::Reader;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::Digits;
use surefoot_sys::run_lock::{REPORTING, RunLock};

/// A file that is to get another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The file.
    pub path: PathBuf,
    /// What it holds now.
    pub from: String,
    /// What it is to hold.
    pub to: String,
    /// Why.
    pub why: String,
    /// How its effect shows.
    pub proof: Proof,
}

impl Step {
    /// How long to look for the effect: `asked`, or twice the interval and 2 s. 0 where nothing but the file shows it.
    pub fn wait_ns(&self, asked: Option<u64>) -> u64 {
        match self.proof {
            Proof::MachineCheckPolls { interval_ns, .. } => {
                asked.unwrap_or(interval_ns.saturating_mul(2).saturating_add(2_000_000_000))
            }
            Proof::ReadBack => 0,
        }
    }
}

/// What shows that a value has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The row MCP of `/proc/interrupts` goes on at about the rate of this interval.
    MachineCheckPolls {
        /// The new interval.
        interval_ns: u64,
        /// The one before.
        before_ns: u64,
    },
    /// The kernel counts nothing that would show it; the value that is read back is all there is.
    ReadBack,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was written, and its effect was seen.
    Verified {
        /// What was seen.
        evidence: String,
    },
    /// It was written and reads back; nothing on this host would show more.
    ReadBack,
    /// It was written, its effect was not seen, and the old value stands again.
    RolledBack {
        /// What was seen instead.
        evidence: String,
    },
    /// It could not be written, or the old value not be restored.
    Failed {
        /// What went wrong, and what the file holds now.
        why: String,
    },
}

impl Applied {
    /// Whether the new value holds.
    pub fn holds(&self) -> bool {
        matches!(self, Applied::Verified { .. } | Applied::ReadBack)
    }
}

/// What is to be done on a host: the interval, console logging, or both. What already is as wished is no step.
///
/// # Errors
/// [`Error::Unsupported`] where a write would have no effect.
pub fn plan(platform: &Platform, interval_ns: Option<u64>, logs: Option<bool>) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let refuse = |what: &str, why: &str, remedy: &str| {
        let (why, remedy) = (format!("{what}: {why}"), remedy.to_owned());
        Err(Error::Unsupported(surefoot_hostfs::Unsupported::new(why, remedy)))
    };
    if let Some(interval_ns) = interval_ns {
        let Some(knob) = &platform.knob else {
            return refuse("the interval cannot be set", platform.refusal.as_deref().unwrap_or("nothing sets it"), "");
        };
        let Some(now_ns) = knob.now_ns else {
            let why = format!("{} cannot be read as a number", knob.path.display());
            return refuse("the interval cannot be set", &why, "look at the file as root");
        };
        let proof = match knob.kind {
            KnobKind::CheckInterval => Proof::MachineCheckPolls { interval_ns, before_ns: now_ns },
            KnobKind::EdacPollMsec => Proof::ReadBack,
        };
        let (from, to) = (knob.text(now_ns), knob.text(interval_ns));
        let why = format!("poll every {} s", interval_ns as f64 / 1e9);
        steps.push(Step { path: knob.path.clone(), from, to, why, proof });
    }
    if let Some(logs) = logs {
        let Some(lever) = &platform.log_lever else {
            return refuse("console logging cannot be set", "there is no edac_mc_log_ce", "load the EDAC core first");
        };
        let word = |is_on: bool| if is_on { "1" } else { "0" }.to_owned();
        let why = "whether each corrected error is printed on the console; counts and trace events stay".to_owned();
        let (from, to) = (word(lever.is_on), word(logs));
        steps.push(Step { path: lever.path.clone(), from, to, why, proof: Proof::ReadBack });
    }
    steps.retain(|step| step.from != step.to);
    Ok(steps)
}

/// Does a step, waits for its effect up to `wait`, and takes it back where the effect is not seen or `is_over` ends the wait.
/// `begin` is called once it is sure that nobody else changes the setting, and before it is written; where that fails, nothing is.
pub fn apply(
    root: &Root,
    step: &Step,
    wait: Duration,
    begin: impl FnOnce() -> Result<(), String>,
    is_over: &dyn Fn() -> bool,
) -> Applied {
    let counted = || match step.proof {
        Proof::MachineCheckPolls { .. } => {
            polls(root).map(Some).map_err(|why| Applied::Failed { why: format!("{why}; nothing was written") })
        }
        Proof::ReadBack => Ok(None),
    };
    // What cannot be counted is not begun.
    if let Err(failed) = counted() {
        return failed;
    }
    // Held until the effect is known: two that change the same setting would take each other's value for the old one.
    if let Err(error) = opened(root, &step.path) {
        return Applied::Failed { why: format!("{}: {error}; nothing was written", step.path.display()) };
    }
    let _alone = match RunLock::take(root, REPORTING) {
        Ok(alone) => alone,
        Err(why) => {
            return Applied::Failed { why: format!("{}: {why}; nothing was written", step.path.display()) };
        }
    };
    let holds = value(root, &step.path);
    if holds != step.from {
        let path = step.path.display();
        let why =
            format!("{path} now holds {holds:?}, not {:?}: another process changed it; nothing was written", step.from);
        return Applied::Failed { why };
    }
    if let Err(why) = begin() {
        return Applied::Failed { why: format!("{why}; nothing was written") };
    }
    // Only now: the journal may have been waited for, and polls went on meanwhile.
    let before = match counted() {
        Ok(before) => before,
        Err(failed) => return failed,
    };
    if let Err(error) = write(root, &step.path, &step.to) {
        // A file that refuses a value may still have taken it.
        let holds = value(root, &step.path);
        let restored = holds == step.from || write(root, &step.path, &step.from).is_ok();
        let state = if restored { "it holds its old value" } else { "it could not be restored" };
        return Applied::Failed { why: format!("{}: {error}; {state}", step.path.display()) };
    }
    let read = value(root, &step.path);
    if read != step.to {
        return back(root, step, format!("{} reads {read:?} after {:?} was written", step.path.display(), step.to));
    }
    let (Proof::MachineCheckPolls { interval_ns, before_ns }, Some(before)) = (step.proof, before) else {
        return Applied::ReadBack;
    };
    match watch(root, before, Rates { interval_ns, before_ns }, wait, is_over) {
        Ok(evidence) => Applied::Verified { evidence },
        Err(evidence) => back(root, step, evidence),
    }
}

fn back(root: &Root, step: &Step, evidence: String) -> Applied {
    match write(root, &step.path, &step.from) {
        Ok(()) => Applied::RolledBack { evidence },
        Err(error) => Applied::Failed {
            why: format!(
                "{evidence}; and {} could not be set back: {error}; it holds {:?}, write {:?} to it",
                step.path.display(),
                step.to,
                step.from
            ),
        },
    }
}

/// The new interval, and the one before, which may still be in force.
#[derive(Debug, Clone, Copy)]
struct Rates {
    interval_ns: u64,
    before_ns: u64,
}

impl Rates {
    /// Whether so many polls per core in this time are those of the new interval: those of more than half of the cores, no
    /// more than one too many for each, and nearer to it than to the interval before. `check_interval` is the longest time between
    /// two polls: where errors came meanwhile the kernel polls sooner, and more of them are no objection to a shorter interval.
    fn fits(&self, polls_per_core: f64, elapsed_ns: f64, came_errors: bool) -> bool {
        let [now, before] = [self.interval_ns, self.before_ns].map(|ns| elapsed_ns / ns.max(1) as f64);
        if came_errors && polls_per_core > now && self.interval_ns < self.before_ns {
            return true;
        }
        polls_per_core > 0.5 * now.floor()
            && polls_per_core <= now + 1.0
            && (polls_per_core - now).abs() <= (polls_per_core - before).abs()
    }

    /// After how long the two are told apart: intervals that are near each other need longer.
    fn looks_from_ns(&self) -> f64 {
        let (now, before) = (self.interval_ns as f64, self.before_ns as f64);
        now * if now.max(before) >= 3.0 * now.min(before) { 1.2 } else { 2.0 }
    }
}

/// Looks whether polls come at the new interval.
fn watch(
    root: &Root,
    before: Polls,
    rates: Rates,
    wait: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<String, String> {
    let start = Instant::now();
    let errors_before = errors(root);
    // The row is read a hundred times in the wait, at most.
    let step = (wait / 100).max(Duration::from_millis(5));
    loop {
        std::thread::sleep(step.min(wait.saturating_sub(start.elapsed())));
        let now = polls(root)?;
        let elapsed = start.elapsed();
        let polled = now.total.saturating_sub(before.total);
        let elapsed_ns = elapsed.as_nanos() as f64;
        let cores = now.cores.max(1) as f64;
        let expected = cores * elapsed_ns / rates.interval_ns.max(1) as f64;
        let seconds = elapsed.as_secs_f64();
        let said = format!("{polled} polls in {seconds:.1} s on {cores} cores, about {expected:.1} expected");
        let is_enough = elapsed_ns >= rates.looks_from_ns();
        let per_core = polled as f64 / cores;
        if is_enough && rates.fits(per_core, elapsed_ns, false) {
            return Ok(said);
        }
        // Counts are many files: they are read where nothing else is left to explain the polls.
        if elapsed >= wait && is_enough && rates.fits(per_core, elapsed_ns, errors(root) > errors_before) {
            return Ok(said + "; errors arrived, after which the kernel polls sooner");
        }
        if is_over() {
            return Err(format!("{said}: a signal ended the wait"));
        }
        if elapsed >= wait {
            let end = match (is_enough, polled) {
                (false, _) => "the wait is too short to tell; give --verify more time",
                (true, 0) => "no poll was seen",
                (true, _) => "the interval is not the new one",
            };
            return Err(format!("{said}: {end}"));
        }
    }
}

/// All errors that the kernel and the blocks have counted.
fn errors(root: &Root) -> u64 {
    let mut reader = Reader::new(root.clone());
    let reading = reader.read();
    let controllers = reading.controllers.iter().filter_map(|one| one.corrected);
    controllers.chain(reading.blocks.iter().filter_map(|block| block.errors)).fold(0, u64::saturating_add)
}

/// The row MCP of `/proc/interrupts`.
#[derive(Debug, Clone, Copy)]
struct Polls {
    total: u64,
    cores: u64,
}

fn polls(root: &Root) -> Result<Polls, String> {
    let path = root.proc("interrupts");
    let text = root.read(&path).map_err(|error| error.to_string())?;
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix("MCP:"));
    let row = row.ok_or_else(|| format!("{} has no row MCP, so that polls cannot be counted", path.display()))?;
    let counts: Vec<u64> = row.split_whitespace().map_while(|word| word.digits()).collect();
    let total = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    Ok(Polls { total, cores: counts.len() as u64 })
}

fn value(root: &Root, path: &Path) -> String {
    let text = root.read_up_to(path, 4096).unwrap_or_default();
    match text.trim() {
        // Parameters of modules that are yes or no read as letters.
        "Y" => "1".to_owned(),
        "N" => "0".to_owned(),
        other => other.to_owned(),
    }
}

/// A file that holds a setting, to be written; nothing is written yet.
fn opened(root: &Root, path: &Path) -> io::Result<File> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Asked before it is opened, too: a pipe that nobody reads would only say that there is no such device.
    let is_other = |found: fs::Metadata| !found.is_file() && !found.is_symlink();
    if fs::symlink_metadata(path).is_ok_and(is_other) {
        return refused("it is not a regular file, so that it is no setting of the kernel's");
    }
    // The file is the kernel's: it is there, it is no link, and it takes the whole value at once.
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return refused("it is not a regular file, so that it is no setting of the kernel's");
    }
    // Somebody's tree may have a folder that is a link to one of this host's, or to anything that is called so.
    let base = fs::canonicalize(root.path(""))?;
    let inside = path.strip_prefix(root.path("")).unwrap_or(path);
    let opened = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if opened != base.join(inside) {
        return refused(&format!("a link on its way leads to {}, which is not written to", opened.display()));
    }
    Ok(file)
}

fn write(root: &Root, path: &Path, value: &str) -> io::Result<()> {
    let mut file = opened(root, path)?;
    file.set_len(0)?;
    file.write_all(format!("{value}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    /// Any user can open the kernel's file to read it, and so lock it.
    #[test]
    fn nobody_who_may_only_read_a_setting_keeps_it_from_being_changed_and_two_changes_exclude_each_other() {
        let tree = HostTree::new().file("sys/knob", "6\n");
        let root = Root::at(tree.path());
        let path = root.path("/sys/knob");
        let step = |from: &str, to: &str| Step {
            path: path.clone(),
            from: from.into(),
            to: to.into(),
            why: String::new(),
            proof: Proof::ReadBack,
        };
        let theirs = File::open(&path).unwrap();
        theirs.lock().unwrap();
        assert_eq!(apply(&root, &step("6", "2"), Duration::ZERO, || Ok(()), &|| false), Applied::ReadBack);
        let held = RunLock::take(&root, REPORTING).unwrap();
        let left = apply(&root, &step("2", "3"), Duration::ZERO, || Ok(()), &|| false);
        assert!(matches!(&left, Applied::Failed { why } if why.contains("reporting.lock")), "{left:?}");
        drop(held);
        assert_eq!(apply(&root, &step("2", "3"), Duration::ZERO, || Ok(()), &|| false), Applied::ReadBack);
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    }

    #[test]
    fn a_setting_that_another_process_changed_meanwhile_is_left_alone_and_so_is_one_that_cannot_be_recorded() {
        let tree =
            HostTree::new().file("sys/knob", "6\n").file("proc/interrupts", " MCP:  3 4   Machine check polls\n");
        let root = Root::at(tree.path());
        let path = root.path("/sys/knob");
        let step = |from: &str, proof| Step {
            path: path.clone(),
            from: from.to_owned(),
            to: "2".to_owned(),
            why: String::new(),
            proof,
        };
        let polls = Proof::MachineCheckPolls { interval_ns: 2_000_000_000, before_ns: 300_000_000_000 };
        for proof in [Proof::ReadBack, polls] {
            let begin = || panic!("nothing is begun");
            let left = apply(&root, &step("300", proof), Duration::ZERO, begin, &|| false);
            let Applied::Failed { why } = left else { panic!("{left:?}") };
            assert!(why.contains("now holds \"6\", not \"300\""), "{why}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "6\n");
        }
        let begin = || Err("the disk is full".to_owned());
        let left = apply(&root, &step("6", Proof::ReadBack), Duration::ZERO, begin, &|| false);
        assert_eq!(left, Applied::Failed { why: "the disk is full; nothing was written".into() });
        assert_eq!(fs::read_to_string(&path).unwrap(), "6\n");
        assert_eq!(apply(&root, &step("6", Proof::ReadBack), Duration::ZERO, || Ok(()), &|| false), Applied::ReadBack);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
    }
}
