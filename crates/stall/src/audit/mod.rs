//! The isolation audit: is a core really left alone, and what to change where it is not.
//!
//! - [`read::Settings`] is everything that the kernel's files say, read once.
//! - [`measure::Measured`] is what really happened on the cores meanwhile: counts that rose, threads that ran.
//! - [`rules::all`] is the table of checks. Each is a pure function of the two, so it can be tried on any tree.
//! - [`run`] does all three.
//!
//! # Invariants
//! - The audit changes nothing and needs no privilege; what a user may not read is "cannot be checked" with the reason.
//! - It stays off the cores that it looks at, and reads no file that the kernel answers by interrupting them.
//! - A setting is never its own evidence. What could not be measured says so, on a recorded tree always.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_model::CpuId;
//! use surefoot_stall::audit::{self, State};
//! let settings = audit::Settings::read(&Root::host(), &[CpuId(0)]);
//! for finding in audit::judge(&settings, None) {
//!     if finding.state == State::Fix {
//!         let (cpu, name) = (finding.cpu, finding.name);
//!         println!("core {cpu}: {name} is {}, expected {}: {}", finding.actual, finding.expected, finding.fix);
//!     }
//! }
//! ```

pub mod measure;
pub mod read;
pub mod rules;

pub use measure::Measured;
pub use read::Settings;
pub use rules::Rule;

use crate::Error;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;

/// What is said about evidence on a tree of files from another machine.
pub const RECORDED: &str = "recorded tree: not measured";

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Something is to be changed.
    Fix,
    /// It cannot be told here; the reason says why.
    CannotBeChecked,
    /// It is as expected.
    Ok,
}

impl State {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Fix => "fix",
            State::CannotBeChecked => "cannot_be_checked",
            State::Ok => "ok",
        }
    }
}

/// One check of one core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The core.
    pub cpu: CpuId,
    /// The check's stable name.
    pub name: &'static str,
    /// How it came out.
    pub state: State,
    /// What is there now; when it cannot be checked, the reason.
    pub actual: String,
    /// What it should be.
    pub expected: String,
    /// Why, in one sentence.
    pub why: &'static str,
    /// The fix: commands for a root shell or the boot option; empty when nothing is to be done or nothing helps.
    pub fix: String,
    /// What was measured, or why nothing was.
    pub evidence: String,
    /// Where the check comes from.
    pub source: &'static str,
}

/// Reads and measures the host, or reads a recorded tree, and judges each of the cores.
///
/// The calling thread is moved off the cores first and stays off them.
///
/// # Errors
/// [`Error::Core`] for a core that is not online, [`Error::Option`] when no core is named. A host that says nothing at
/// all gives findings that cannot be checked, not an error.
pub fn run(root: &Root, cores: &[CpuId], duration: Duration, stop: &AtomicBool) -> Result<Vec<Finding>, Error> {
    if cores.is_empty() {
        return Err(Error::Option { option: "cpu", why: "name at least one core, such as 1 or 0-3,8".to_owned() });
    }
    let cores = match cpus::online(root) {
        Ok(_) => crate::checked_cores(cores, root)?,
        Err(_) => cores.to_vec(),
    };
    if !root.is_host() {
        return Ok(judge(&Settings::read(root, &cores), None));
    }
    crate::keep_off(&cores, root);
    let measured = measure::measure(root, &cores, duration, stop);
    // Read after measuring: reading takes time, and the settings of the end are those to change.
    Ok(judge(&Settings::read(root, &cores), Some(&measured)))
}

/// Every check of every core that the settings were read for, in the order of the table. Pure.
pub fn judge(settings: &Settings, measured: Option<&Measured>) -> Vec<Finding> {
    let each_core = |core: &read::CoreSettings| {
        let facts = rules::Facts { settings, core, measured };
        rules::all().map(|rule| rule.apply(&facts)).collect::<Vec<_>>()
    };
    settings.cores.iter().flat_map(each_core).collect()
}
