//! The settings of a job from everywhere where they can be said, and which of them are in force.
//!
//! # Precedence
//! Of the same setting the strongest counts: what the program says, then a variable, then the file, then the default. So a
//! site says where its drives are, whoever starts a job changes that for this job, and what a program was told on its
//! command line holds. What is said does not depend on the order: tiers and the policy come first, then what belongs to
//! them. A file or a variable may speak of a tier that a job does not have; that is kept, shown, and changes nothing.
//!
//! ```
//! use surefoot_checkpoint::settings::{Settings, Surroundings};
//! let surroundings = Surroundings {
//!     variables: vec![("SUREFOOT_CHECKPOINT_DURABLE_KEEP".into(), "5".into())],
//!     ..Surroundings::default()
//! };
//! let mut settings = Settings::of(&surroundings, "train", "/dev/shm")?;
//! settings.set("durable", "/ssd")?;
//! assert_eq!(settings.config().durable.as_ref().map(|durable| durable.options.keep), Some(5));
//! let keep = settings.told().into_iter().find(|told| told.name == "durable.keep");
//! assert_eq!(keep.map(|told| told.source), Some("SUREFOOT_CHECKPOINT_DURABLE_KEEP".to_owned()));
//! # Ok::<(), surefoot_checkpoint::Error>(())
//! ```

mod file;
mod nearest;
pub(crate) mod published;
mod values;
mod variables;

pub(crate) use nearest::instead_of;
pub(crate) use published::publish;
pub use published::{PUBLISHED_NAME, read_published};
pub(crate) use values::{NOT_SET, OF_POLICY, WHOLE_POLICY, to_be_equal};
pub use variables::{FILE_VARIABLE, PREFIX, variable_of};

use crate::Error;
use crate::config::{Config, SETTINGS};
use crate::controller::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The file of a host, where no variable names another.
pub const HOST_FILE: &str = "/etc/surefoot/checkpoint.conf";

/// Settings of the policy that ask something of a durable tier.
const OF_DURABLE: [&str; 2] = ["staleness_max_s", "priority"];

/// What is said before the rest, because the rest belongs to it.
const FIRST: [&str; 4] = ["memory", "durable", "shared", "policy"];

/// What a process is surrounded by, as far as settings go.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The environment; what has another prefix is passed over.
    pub variables: Vec<(OsString, OsString)>,
    /// The host's file, which need not exist.
    pub host_file: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub fn here() -> Self {
        // SAFETY: it only reads a number.
        let is_set_id = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        // Whoever starts a set-id program chooses its environment, and is not whose rights it has.
        let variables = if is_set_id { Vec::new() } else { std::env::vars_os().collect() };
        Surroundings { variables, host_file: Some(PathBuf::from(HOST_FILE)) }
    }
}

/// Whether there is a file. One that cannot be looked at may say where the checkpoints are: that is no absence.
fn is_there(path: &Path) -> Result<bool, Error> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            Err(Error::Setting { place: path.display().to_string(), why: format!("cannot look at it: {error}") })
        }
    }
}

/// Where a setting was said.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File { path: PathBuf, line: usize },
    Variable(String),
    Program,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File { path, line } => write!(out, "{}, line {line}", path.display()),
            Source::Variable(name) => write!(out, "{name}"),
            Source::Program => write!(out, "the program"),
        }
    }
}

/// A setting, and where it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    name: &'static str,
    value: String,
    source: Source,
}

/// A setting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it was said: `default`, a file with its line, a variable, or `the program`.
    pub source: String,
    /// Whether it holds; not where the tier or the policy that it belongs to is not that of the job.
    pub is_in_force: bool,
}

/// The settings of a job.
#[derive(Debug, Clone)]
pub struct Settings {
    start: Config,
    /// What surrounds the program, by name: the stronger of the file's and the variable's.
    around: BTreeMap<&'static str, Said>,
    own: BTreeMap<&'static str, Said>,
    /// What all of them come to.
    config: Config,
}

impl Settings {
    /// The settings of a job before its program says any.
    ///
    /// # Errors
    /// [`Error::Setting`] for a file that cannot be read, for a name that there is not and a value that it cannot have; it
    /// names the file and the line, or the variable.
    pub fn of(surroundings: &Surroundings, job: impl Into<String>, memory: impl Into<PathBuf>) -> Result<Self, Error> {
        let start = Config::new(job, memory, None);
        let (named, variables) = variables::read(&surroundings.variables)?;
        let mut around = BTreeMap::new();
        let said_in_file = match (named, &surroundings.host_file) {
            (variables::File::Named(path), _) => file::read(&path)?,
            (variables::File::Usual, Some(path)) if is_there(path)? => file::read(path)?,
            _ => Vec::new(),
        };
        for said in said_in_file.into_iter().chain(variables) {
            check(&said)?;
            around.insert(said.name, said);
        }
        let own = BTreeMap::new();
        let config = in_force(&start, &around, &own)?;
        Ok(Settings { start, around, own, config })
    }

    /// Changes one setting, as the program wishes; nothing changes when it fails. What belongs to a tier may be said before
    /// the tier is.
    ///
    /// # Errors
    /// As [`Config::set`], but for what belongs to a tier that is not said yet: see [`Settings::to_open`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = known(name)?;
        possible(name, value)?;
        let mut own = self.own.clone();
        own.insert(name, Said { name, value: value.to_owned(), source: Source::Program });
        self.config = in_force(&self.start, &self.around, &own)?;
        self.own = own;
        Ok(())
    }

    /// What all that was said comes to.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, when the program has said all that it wishes.
    ///
    /// # Errors
    /// [`Error::Option`] where it said something of a tier that the job does not have.
    pub fn to_open(&self) -> Result<&Config, Error> {
        let homeless = self.own.values().find(|said| !has_tier(&self.config, said.name));
        match homeless {
            None => Ok(&self.config),
            Some(said) => {
                self.config.clone().set(said.name, &said.value)?;
                let why = "it is for a durable tier, and none is configured: set durable or shared to a directory, too";
                Err(Error::Option { option: said.name, why: why.into() })
            }
        }
    }

    /// Every setting that holds, and what was said and does not, in the order of [`SETTINGS`].
    pub fn told(&self) -> Vec<Told> {
        SETTINGS.iter().filter_map(|(name, _)| self.told_of(name)).collect()
    }

    fn told_of(&self, name: &str) -> Option<Told> {
        let said = self.own.get(name).or_else(|| self.around.get(name));
        let is_in_force = belongs(&self.config, name);
        let told = |value: String, source: String| Told { name: name.to_owned(), value, source, is_in_force };
        match said {
            Some(said) => Some(told(said.value.clone(), said.source.to_string())),
            None => is_in_force.then(|| told(values::of(&self.config, name).unwrap_or_default(), "default".to_owned())),
        }
    }
}

/// The name as the list has it.
fn known(name: &str) -> Result<&'static str, Error> {
    match SETTINGS.iter().find(|(known, _)| *known == name) {
        Some((known, _)) => Ok(known),
        // For the sentence with all names, which is said in one place.
        None => Err(Config::new("", "/", None).set(name, "").err().unwrap_or_else(|| unknown(name))),
    }
}

fn unknown(name: &str) -> Error {
    Error::Option { option: "setting", why: format!("there is no setting {name:?}") }
}

/// Whether a value is possible at all, in a job with every tier.
fn possible(name: &str, value: &str) -> Result<(), Error> {
    let mut whole = Config::new("", "/", Some(PathBuf::from("/")));
    whole.set("shared", "/").and_then(|()| whole.set(name, value))
}

fn check(said: &Said) -> Result<(), Error> {
    possible(said.name, &said.value).map_err(|error| at(said, &error))
}

fn at(said: &Said, error: &Error) -> Error {
    Error::Setting { place: said.source.to_string(), why: error.to_string() }
}

/// Whether a job of these settings has what a setting belongs to.
fn belongs(config: &Config, name: &str) -> bool {
    let is_of_policy = ["memory_mtbf_s", "durable_mtbf_s", "staleness_max_s", "priority"].contains(&name);
    has_tier(config, name) && (!is_of_policy || matches!(config.policy, Policy::Surefoot(_)))
}

/// Whether a job of these settings has the tier that a setting belongs to, or it belongs to none.
fn has_tier(config: &Config, name: &str) -> bool {
    match name.split_once('.') {
        Some(("memory", _)) => config.memory.is_some(),
        Some(("durable" | "endurance", _)) => config.durable.is_some(),
        Some(("shared", _)) => config.shared.is_some(),
        _ if OF_DURABLE.contains(&name) => config.durable.is_some() || config.shared.is_some(),
        _ => true,
    }
}

/// What settings come to, the strongest of each.
fn in_force(
    start: &Config,
    around: &BTreeMap<&'static str, Said>,
    own: &BTreeMap<&'static str, Said>,
) -> Result<Config, Error> {
    let mut config = start.clone();
    let rest = SETTINGS.iter().map(|(name, _)| *name).filter(|name| !FIRST.contains(name));
    for name in FIRST.into_iter().chain(rest) {
        match (own.get(name), around.get(name)) {
            // Of a tier that may be said later.
            (Some(_), _) if !has_tier(&config, name) => {}
            (Some(said), _) => config.set(name, &said.value)?,
            (None, Some(said)) if belongs(&config, name) => {
                config.set(name, &said.value).map_err(|error| at(said, &error))?;
            }
            _ => {}
        }
    }
    Ok(config)
}

/// The path that a text names, for messages about a file.
fn file_error(path: &Path, why: impl fmt::Display) -> Error {
    Error::Setting { place: path.display().to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests;
