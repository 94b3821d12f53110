//! Reads TOML so that each error says where it is: the line, the field with its tables, what is wrong and what would be right.

use crate::{Error, Result};
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use surefoot_model::{did_you_mean, nearest};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Reads the text of a file that has so many bytes at most.
///
/// # Errors
/// [`Error::PolicyFile`].
pub(crate) fn text_of(path: &Path, bytes_max: u64) -> Result<String> {
    let failed = |why: String| Error::PolicyFile { file: path.display().to_string(), why };
    let bytes = surefoot_foreign::hold(path).and_then(|held| held.regular()?.read(bytes_max));
    let bytes = bytes.map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge if bytes_max < 1 << 20 => {
            failed(format!("it is larger than {} KiB", bytes_max >> 10))
        }
        std::io::ErrorKind::FileTooLarge => failed(format!("it is larger than {} MiB", bytes_max >> 20)),
        _ => failed(error.to_string()),
    })?;
    String::from_utf8(bytes).map_err(|_| failed("it is not text in UTF-8".into()))
}

/// A file's text, by its name.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// The tables of the whole text.
    pub(crate) fn root(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text)
            .map_err(|error| self.error(error.span().unwrap_or(0..0), "", error.message().replace('\n', " ")))
    }

    pub(crate) fn error(&self, span: Range<usize>, field: &str, why: impl Into<String>) -> Error {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        // It may name what stands in the file.
        let is_shown = |letter: char| letter == '\n' || !surefoot_model::is_harmful(letter);
        let why = why.into().chars().map(|letter| if is_shown(letter) { letter } else { '?' }).collect();
        Error::Policy { file: self.file.to_owned(), line, field: shown(field), why }
    }
}

/// A text of the file as a message may show it.
fn shown(text: &str) -> String {
    surefoot_model::clipped(text, 120)
}

/// A table. Each field that is asked for is noted, so that [`Table::finish`] can name those that mean nothing.
pub(crate) struct Table<'a> {
    source: Source<'a>,
    field: String,
    span: Range<usize>,
    fields: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
}

/// A value, with the name of its field.
pub(crate) struct Value<'a> {
    source: Source<'a>,
    pub(crate) field: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Table<'a> {
    pub(crate) fn top(source: Source<'a>, root: &'a Spanned<DeTable<'a>>) -> Self {
        let asked = RefCell::default();
        Table { source, field: String::new(), span: root.span(), fields: root.get_ref(), asked }
    }

    /// The value of a field, where there is one.
    pub(crate) fn find(&self, name: &'static str) -> Option<Value<'a>> {
        self.asked.borrow_mut().push(name);
        let (_, value) = self.fields.iter().find(|(key, _)| key.get_ref() == name)?;
        Some(self.value(name, value))
    }

    /// The value of a field that must be there.
    pub(crate) fn need(&self, name: &'static str) -> Result<Value<'a>> {
        self.find(name)
            .ok_or_else(|| self.source.error(self.span.clone(), &self.field, format!("the field '{name}' is missing")))
    }

    /// The tables of a list of tables, such as all `[[policy]]`.
    pub(crate) fn tables(&self, name: &'static str) -> Result<Vec<Table<'a>>> {
        let Some(list) = self.find(name) else { return Ok(Vec::new()) };
        list.list(&format!("it is a list of tables, each begun with [[{name}]]"))?
            .into_iter()
            .map(|value| value.table())
            .collect()
    }

    fn value(&self, name: &str, value: &'a Spanned<DeValue<'a>>) -> Value<'a> {
        let field = if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) };
        Value { source: self.source, field, value }
    }

    /// The fields that nobody asked for.
    pub(crate) fn rest(&self) -> Vec<(&'a Spanned<DeString<'a>>, Value<'a>)> {
        let asked = self.asked.borrow();
        let is_rest = |key: &Spanned<DeString<'_>>| !asked.iter().any(|name| *name == key.get_ref().as_ref());
        let rest = self.fields.iter().filter(|(key, _)| is_rest(key));
        rest.map(|(key, value)| (key, self.value(key.get_ref(), value))).collect()
    }

    /// Refuses fields that nobody asked for.
    pub(crate) fn finish(self) -> Result<()> {
        match self.rest().into_iter().min_by_key(|(key, _)| key.span().start) {
            None => Ok(()),
            Some((key, value)) => Err(self.unknown(key, &value.field)),
        }
    }

    /// The error for a field that means nothing here.
    pub(crate) fn unknown(&self, key: &Spanned<DeString<'_>>, field: &str) -> Error {
        let asked = self.asked.borrow();
        let meant = match nearest(key.get_ref(), asked.iter().copied()) {
            Some(name) => format!("did you mean '{name}'? "),
            None => String::new(),
        };
        self.source.error(key.span(), field, format!("there is no such field; {meant}there are {}", asked.join(", ")))
    }

    /// The name that was asked for and that a misspelt one is likely to stand for.
    pub(crate) fn meant(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.asked.borrow().iter().copied())
    }

    pub(crate) fn error(&self, why: impl Into<String>) -> Error {
        self.source.error(self.span.clone(), &self.field, why)
    }
}

impl<'a> Value<'a> {
    pub(crate) fn error(&self, why: impl Into<String>) -> Error {
        self.source.error(self.value.span(), &self.field, why)
    }

    fn kind(&self) -> &'static str {
        match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    pub(crate) fn table(&self) -> Result<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(fields) => Ok(Table {
                source: self.source,
                field: self.field.clone(),
                span: self.value.span(),
                fields,
                asked: RefCell::default(),
            }),
            _ => Err(self.error(format!("it is {}, and must be a table", self.kind()))),
        }
    }

    fn list(&self, what: &str) -> Result<Vec<Value<'a>>> {
        let DeValue::Array(items) = self.value.get_ref() else {
            return Err(self.error(format!("it is {}; {what}", self.kind())));
        };
        let item = |(index, value)| {
            let field = format!("{}[{index}]", self.field);
            Value { source: self.source, field, value }
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The texts of a list, at most so many.
    pub(crate) fn texts(&self, count_max: usize) -> Result<Vec<Value<'a>>> {
        let items = self.list("it must be a list of texts, such as [\"a\", \"b\"]")?;
        if items.len() > count_max {
            return Err(self.error(format!("it has {} entries; at most {count_max}", items.len())));
        }
        items.iter().try_for_each(|item| item.text().map(drop))?;
        Ok(items)
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::String(_))
    }

    pub(crate) fn text(&self) -> Result<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.error(format!("it is {}, and must be a text in quotes", self.kind()))),
        }
    }

    /// A name: not empty, at most 255 bytes, and nothing that a terminal would not show.
    pub(crate) fn name(&self) -> Result<String> {
        let text = self.text()?;
        if text.is_empty() || text.len() > 255 || text.chars().any(surefoot_model::is_harmful) {
            return Err(self.error("it must have 1 to 255 bytes and no control character"));
        }
        Ok(text.to_owned())
    }

    /// A host's name in the one form that alerts have it in: an address, or a name in lower case without a dot at its end.
    pub(crate) fn host(&self) -> Result<String> {
        let name = self.name()?;
        Ok(match name.parse::<std::net::IpAddr>() {
            Ok(address) => address.to_canonical().to_string(),
            Err(_) => name.trim_end_matches('.').to_ascii_lowercase(),
        })
    }

    /// An absolute path.
    pub(crate) fn path(&self) -> Result<std::path::PathBuf> {
        let text = self.name()?;
        if text.starts_with('/') { Ok(text.into()) } else { Err(self.error("it must be an absolute path")) }
    }

    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let wrong = || format!("it must be a whole number from {} to {}", range.start(), range.end());
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| self.error(wrong()))
    }

    /// A share of a whole.
    pub(crate) fn share(&self) -> Result<f64> {
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let share = number.filter(|share| *share > 0.0 && *share <= 1.0);
        share.ok_or_else(|| self.error("it must be a share above 0 and up to 1, such as 0.05 for 5 %"))
    }

    pub(crate) fn flag(&self) -> Result<bool> {
        match self.value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.error(format!("it is {}, and must be true or false", self.kind()))),
        }
    }

    /// A time in nanoseconds, written such as `24h`.
    pub(crate) fn time_ns(&self) -> Result<u64> {
        let time = crate::step::time(self.text()?).map_err(|why| self.error(shown(&why)))?;
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let meant = did_you_mean(text, words.iter().copied());
            self.error(format!("'{}' is none of {}{meant}", shown(text), words.join(", ")))
        })
    }
}
