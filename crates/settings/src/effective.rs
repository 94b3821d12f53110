//! Which value holds, and where it comes from.

use crate::value::{Given, shown};
use crate::{Error, SETTINGS, Setting, Settings, file};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use surefoot_model::{nearest, one_line};

/// What the names of environment variables begin with.
const PREFIX: &str = "SUREFOOT_WATCH_";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is the default.
    Default,
    /// A file, and the line.
    File {
        /// Its path.
        file: String,
        /// From 1 on.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// An option, with its dashes.
    Option(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { file, line } => write!(f, "{}:{line}", one_line(file)),
            Origin::Variable(name) => write!(f, "environment variable {}", shown(name)),
            Origin::Option(name) => write!(f, "option {name}"),
        }
    }
}

/// What holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effective {
    /// The values.
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
}

/// An option of the command line, in the words of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The key of the setting.
    pub key: &'static str,
    /// The option, without its dashes.
    pub option: String,
    /// What it is set to.
    pub texts: Vec<String>,
}

/// The environment variable of a setting.
pub fn variable_of(setting: &Setting) -> String {
    format!("{PREFIX}{}", setting.key.replace('.', "_").to_uppercase())
}

impl Effective {
    /// The defaults, then this file with its path and text, then the environment, then options.
    ///
    /// # Errors
    /// The first value that is wrong, and where it stands.
    pub fn of(
        file: Option<(&Path, &str)>,
        environment: &[(String, String)],
        options: &[Chosen],
    ) -> Result<Effective, Error> {
        let mut held = Effective::default();
        if let Some((path, text)) = file {
            file::each(path, text, |setting, value, origin| held.set(setting, &Given::File(value), origin))?;
        }
        for (name, text) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let origin = Origin::Variable(name.clone());
            let setting = SETTINGS.iter().find(|setting| variable_of(setting) == *name);
            let setting = setting.ok_or_else(|| unknown_variable(name))?;
            held.set(setting, &Given::Text(text), origin)?;
        }
        for Chosen { key, option, texts } in options {
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == *key) {
                held.set(setting, &Given::Texts(texts), Origin::Option(format!("--{option}")))?;
            }
        }
        held.check()?;
        Ok(held)
    }

    /// Where the value of a setting comes from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Whether a file sets anything.
    pub(crate) fn has_file(&self) -> bool {
        self.origins.values().any(|origin| matches!(origin, Origin::File { .. }))
    }

    /// The error that this value of a setting is wrong, for who uses it.
    pub fn wrong(&self, key: &str, why: impl fmt::Display) -> Error {
        Error::Setting { at: self.origin(key).clone(), key: key.to_owned(), why: one_line(&why.to_string()) }
    }

    /// These settings, without where they come from.
    pub fn with(settings: Settings) -> Self {
        Effective { settings, origins: BTreeMap::new() }
    }

    /// Takes over where a value comes from.
    pub(crate) fn keep_origin(&mut self, key: &'static str, from: &Effective) {
        match from.origins.get(key) {
            Some(origin) => self.origins.insert(key, origin.clone()),
            None => self.origins.remove(key),
        };
    }

    fn set(&mut self, setting: &'static Setting, given: &Given<'_>, origin: Origin) -> Result<(), Error> {
        let set = setting.set(&mut self.settings, given);
        set.map_err(|why| Error::Setting { at: origin.clone(), key: setting.key.to_owned(), why })?;
        self.origins.insert(setting.key, origin);
        Ok(())
    }

    /// What must hold between settings: a notice comes no later than the warning.
    fn check(&self) -> Result<(), Error> {
        let Settings { stall, memory, checkpoint, history, .. } = &self.settings;
        let pairs = [
            ("stall.notice_share", "stall.warning_share", stall.notice_share <= stall.warning_share),
            ("stall.notice_per_s", "stall.warning_per_s", stall.notice_per_s <= stall.warning_per_s),
            ("stall.notice_gap", "stall.warning_gap", stall.notice_gap <= stall.warning_gap),
            ("memory.busy_interval", "memory.interval", memory.busy_interval <= memory.interval),
            (
                "checkpoint.worn_notice_percent",
                "checkpoint.worn_warning_percent",
                checkpoint.worn_notice_percent <= checkpoint.worn_warning_percent,
            ),
            ("history.seconds_for", "history.minutes_for", history.seconds_for <= history.minutes_for),
        ];
        let Some((less, more, _)) = pairs.into_iter().find(|(.., holds)| !holds) else { return Ok(()) };
        let value = |key: &str| SETTINGS.iter().find(|one| one.key == key).and_then(|one| one.value_in(&self.settings));
        let value = |key: &str| value(key).unwrap_or_default();
        // Said where the one stands that was set.
        let of = if *self.origin(less) == Origin::Default { more } else { less };
        Err(self.wrong(of, format!("{less} = {} is above {more} = {}", value(less), value(more))))
    }
}

fn unknown_variable(name: &str) -> Error {
    let names: Vec<String> = SETTINGS.iter().map(variable_of).collect();
    let meant = nearest(name, names.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
    let why = format!("there is no such setting{meant}; `surefoot config defaults` lists all");
    Error::Line { at: Origin::Variable(name.to_owned()), why }
}
