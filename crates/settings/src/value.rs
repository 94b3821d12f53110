//! One setting: its type, its range, and how its value is read and written.

use crate::Settings;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_model::units::{bytes_text, parse_bytes, parse_duration, time_text};
use surefoot_model::{Digits, clipped, did_you_mean};
use toml::de::DeValue;

/// Letters of a value that an error repeats.
const SHOWN_MAX: usize = 120;
/// The longest text, and the longest list.
const TEXT_BYTES_MAX: usize = 4096;
const LIST_MAX: usize = 256;

/// What can be set.
#[derive(Debug)]
pub struct Setting {
    /// Its name, with its table: `memory.interval`.
    pub key: &'static str,
    /// What it is, in one sentence with its full stop.
    pub about: &'static str,
    /// Which values are allowed.
    pub allowed: Allowed,
    /// When a new value takes effect.
    pub when: When,
    /// The option of `surefoot watch` that sets it, without its dashes; empty where there is none.
    pub option: &'static str,
    /// Its place in [`Settings`].
    pub field: fn(&mut Settings) -> Field<'_>,
}

/// When a new value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Reload,
    /// When the watch starts again.
    Start,
}

/// Which values are allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// Times between these.
    Times(Duration, Duration),
    /// Sizes between these, bytes.
    Sizes(u64, u64),
    /// Whole numbers between these.
    Counts(u64, u64),
    /// Numbers between these.
    Numbers(f64, f64),
    /// True and false.
    Flags,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text, such as this one; what it must say is checked where it is used.
    Text(&'static str),
    /// An absolute path, such as this one.
    Path(&'static str),
}

/// The place of a setting.
#[derive(Debug, PartialEq)]
pub enum Field<'a> {
    /// A time.
    Time(&'a mut Duration),
    /// A number of bytes.
    Size(&'a mut u64),
    /// A number of things.
    Count(&'a mut u64),
    /// A number.
    Number(&'a mut f64),
    /// True or false.
    Flag(&'a mut bool),
    /// A word.
    Word(&'a mut String),
    /// A text, or none.
    Text(&'a mut Option<String>),
    /// A path, or none.
    Path(&'a mut Option<PathBuf>),
    /// Texts.
    Texts(&'a mut Vec<String>),
    /// Paths.
    Paths(&'a mut Vec<PathBuf>),
}

/// A value as it is given: by a file, or in one text by a variable or an option.
pub(crate) enum Given<'a> {
    File(&'a DeValue<'a>),
    Text(&'a str),
    /// An option that may be given several times.
    Texts(&'a [String]),
}

impl Setting {
    /// Its value, as a file has it; `None` for a text or a path that is not set.
    pub fn value_in(&self, settings: &Settings) -> Option<String> {
        let quoted = |text: &str| toml_text(text);
        let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
        let path = |path: &PathBuf| quoted(&path.to_string_lossy());
        Some(match (self.field)(&mut settings.clone()) {
            Field::Time(time) => quoted(&time_text(*time)),
            Field::Size(bytes) => quoted(&bytes_text(*bytes)),
            Field::Count(count) => count.to_string(),
            Field::Number(number) => format!("{number:?}"),
            Field::Flag(flag) => flag.to_string(),
            Field::Word(word) => quoted(word),
            Field::Text(text) => quoted(text.as_ref()?),
            Field::Path(one) => path(one.as_ref()?),
            Field::Texts(texts) => list(texts.iter().map(|text| quoted(text)).collect()),
            Field::Paths(paths) => list(paths.iter().map(path).collect()),
        })
    }

    /// Its default, as a file has it; of a text or a path that is not set by default an example.
    pub fn default_or_example(&self) -> String {
        let example = match self.allowed {
            Allowed::Text(example) | Allowed::Path(example) => example,
            Allowed::Words([first, ..]) => first,
            _ => "",
        };
        self.value_in(&Settings::default()).unwrap_or_else(|| toml_text(example))
    }

    /// Whether it has the same value in both.
    pub fn is_same(&self, one: &Settings, other: &Settings) -> bool {
        self.value_in(one) == self.value_in(other)
    }

    /// Takes its value over from others.
    pub(crate) fn copy(&self, from: &Settings, to: &mut Settings) {
        let mut from = from.clone();
        match ((self.field)(&mut from), (self.field)(to)) {
            (Field::Time(from), Field::Time(to)) => *to = *from,
            (Field::Size(from), Field::Size(to)) | (Field::Count(from), Field::Count(to)) => *to = *from,
            (Field::Number(from), Field::Number(to)) => *to = *from,
            (Field::Flag(from), Field::Flag(to)) => *to = *from,
            (Field::Word(from), Field::Word(to)) => to.clone_from(from),
            (Field::Text(from), Field::Text(to)) => to.clone_from(from),
            (Field::Path(from), Field::Path(to)) => to.clone_from(from),
            (Field::Texts(from), Field::Texts(to)) => to.clone_from(from),
            (Field::Paths(from), Field::Paths(to)) => to.clone_from(from),
            _ => {}
        }
    }

    /// What is allowed, in words.
    pub fn range(&self) -> String {
        match self.allowed {
            Allowed::Times(least, most) => format!("{} to {}", time_text(least), time_text(most)),
            Allowed::Sizes(least, most) => format!("{} to {}", bytes_text(least), bytes_text(most)),
            Allowed::Counts(least, most) => format!("{least} to {most}"),
            Allowed::Numbers(least, most) => format!("{least} to {most}"),
            Allowed::Flags => "true or false".to_owned(),
            Allowed::Words(words) => words.join(", "),
            Allowed::Text(example) => format!("a text such as {}", toml_text(example)),
            Allowed::Path(example) => format!("an absolute path such as {}", toml_text(example)),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// What is wrong with the value, what it is, and what is allowed: a sentence without a full stop.
    pub(crate) fn set(&self, settings: &mut Settings, given: &Given<'_>) -> Result<(), String> {
        let field = (self.field)(settings);
        match field {
            Field::Time(time) => {
                let text = given.text("a time in quotes with its unit, such as \"10s\"")?;
                *time = parse_duration(text).map_err(|why| shown(&why))?;
                if let Allowed::Times(least, most) = self.allowed {
                    self.expect(*time >= least && *time <= most, text)?;
                }
            }
            Field::Size(bytes) => {
                let text = given.text("a size in quotes with its unit, such as \"256MiB\"")?;
                *bytes = parse_bytes(text).map_err(|why| shown(&why))? as u64;
                if let Allowed::Sizes(least, most) = self.allowed {
                    self.expect(*bytes >= least && *bytes <= most, text)?;
                }
            }
            Field::Count(count) => {
                let text = given.number_text("a whole number")?;
                let Allowed::Counts(least, most) = self.allowed else { return Err(self.out_of_range(&text)) };
                *count = text
                    .digits()
                    .ok_or_else(|| format!("'{}' is not a whole number; allowed: {}", shown(&text), self.range()))?;
                self.expect(*count >= least && *count <= most, &text)?;
            }
            Field::Number(number) => {
                let text = given.number_text("a number")?;
                let Allowed::Numbers(least, most) = self.allowed else { return Err(self.out_of_range(&text)) };
                *number = text
                    .real()
                    .ok_or_else(|| format!("'{}' is not a number; allowed: {}", shown(&text), self.range()))?;
                self.expect(*number >= least && *number <= most, &text)?;
            }
            Field::Flag(flag) => *flag = given.flag()?,
            Field::Word(word) => *word = self.word(given)?,
            Field::Text(text) => {
                *text = match self.allowed {
                    Allowed::Words(_) => Some(self.word(given)?),
                    _ => given.plain(given.text("a text in quotes")?)?,
                }
            }
            Field::Path(path) => {
                *path = given.plain(given.text("a path in quotes")?)?.map(|text| self.path(&text, given)).transpose()?
            }
            Field::Texts(texts) => *texts = given.texts(',')?,
            // A path may have any letter but this one in an environment variable, as in PATH.
            Field::Paths(paths) => {
                *paths = given.texts(':')?.iter().map(|text| self.path(text, given)).collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }

    fn word(&self, given: &Given<'_>) -> Result<String, String> {
        let text = given.text("a word in quotes")?;
        let Allowed::Words(words) = self.allowed else { return Ok(text.to_owned()) };
        if words.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(format!("'{}' is none of {}{}", shown(text), words.join(", "), did_you_mean(text, words.iter().copied())))
    }

    fn path(&self, text: &str, given: &Given<'_>) -> Result<PathBuf, String> {
        // Who types an option means the directory in which it is typed; a service has none.
        let may_be_relative = matches!(given, Given::Texts(_));
        if may_be_relative || text.starts_with('/') {
            return Ok(text.into());
        }
        Err(format!("'{}' is not an absolute path; allowed: {}", shown(text), self.range()))
    }

    fn expect(&self, is_allowed: bool, text: &str) -> Result<(), String> {
        if is_allowed { Ok(()) } else { Err(self.out_of_range(text)) }
    }

    fn out_of_range(&self, text: &str) -> String {
        format!("{} is out of range; allowed: {}", shown(text), self.range())
    }
}

impl Given<'_> {
    /// A text that a terminal may show; none where it is empty. What is typed is the option's to check.
    fn plain(&self, text: &str) -> Result<Option<String>, String> {
        let is_typed = matches!(self, Given::Texts(_));
        if !is_typed && (text.len() > TEXT_BYTES_MAX || text.chars().any(surefoot_model::is_harmful)) {
            return Err(format!("it must have at most {TEXT_BYTES_MAX} bytes and no control character"));
        }
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    fn text(&self, wanted: &str) -> Result<&str, String> {
        match self {
            Given::Text(text) => Ok(text),
            Given::Texts([one]) => Ok(one),
            Given::Texts(_) => Err(format!("it is given several times, and must be {wanted}")),
            Given::File(DeValue::String(text)) => Ok(text),
            Given::File(value) => Err(format!("it is {}, and must be {wanted}", said(value))),
        }
    }

    fn number_text(&self, wanted: &str) -> Result<String, String> {
        match self {
            Given::File(DeValue::Integer(number)) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            Given::File(DeValue::Integer(_)) => Err("it must be written in decimal digits".to_owned()),
            Given::File(DeValue::Float(number)) => Ok(number.as_str().to_owned()),
            Given::File(value) => Err(format!("it is {}, and must be {wanted}", said(value))),
            _ => self.text(wanted).map(str::to_owned),
        }
    }

    fn flag(&self) -> Result<bool, String> {
        const WANTED: &str = "true or false";
        match self {
            Given::File(DeValue::Boolean(flag)) => Ok(*flag),
            Given::File(value) => Err(format!("it is {}, and must be {WANTED}", said(value))),
            _ => match self.text(WANTED)? {
                "true" => Ok(true),
                "false" => Ok(false),
                other => Err(format!("'{}' is neither true nor false", shown(other))),
            },
        }
    }

    /// `between` stands between two texts in an environment variable.
    fn texts(&self, between: char) -> Result<Vec<String>, String> {
        const WANTED: &str = "it must be a list of texts, such as [\"a\", \"b\"]";
        let texts: Vec<&str> = match self {
            Given::Texts(texts) => texts.iter().map(String::as_str).collect(),
            Given::Text(text) => text.split(between).filter(|part| !part.is_empty()).collect(),
            Given::File(DeValue::Array(items)) => {
                let text = |item: &'_ toml::Spanned<DeValue<'_>>| matches!(item.get_ref(), DeValue::String(_));
                if !items.iter().all(text) {
                    return Err(WANTED.to_owned());
                }
                items.iter().filter_map(|item| item.get_ref().as_str()).collect()
            }
            Given::File(value) => return Err(format!("it is {}; {WANTED}", said(value))),
        };
        if texts.len() > LIST_MAX {
            return Err(format!("it has {} entries; at most {LIST_MAX}", texts.len()));
        }
        texts.into_iter().map(|text| self.plain(text)?.ok_or_else(|| "an entry is empty".to_owned())).collect()
    }
}

/// What stands there, in words.
pub(crate) fn said(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "a text".to_owned(),
        DeValue::Integer(number) => format!("the number {}", shown(number.as_str())),
        DeValue::Float(number) => format!("the number {}", shown(number.as_str())),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A text of somebody's as a message may show it.
pub(crate) fn shown(text: &str) -> String {
    clipped(text, SHOWN_MAX)
}

/// A text in quotes, as TOML has it.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}
