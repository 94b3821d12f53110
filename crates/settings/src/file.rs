//! The file: TOML with a table for each part of the watch.

use crate::value::{said, shown};
use crate::{Error, Origin, SETTINGS, Setting, Settings, When, variable_of};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use surefoot_foreign::way;
use surefoot_model::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where root's watch looks for it.
pub const DEFAULT_FILE: &str = "/etc/surefoot/surefoot.toml";

/// The longest file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of the file; `None` where there is none. It is opened without following links of others, and without waiting for a pipe.
/// Root takes only what no other user can change.
///
/// # Errors
/// [`Error::File`].
pub fn text_of(path: &Path) -> Result<Option<String>, Error> {
    let failed = |why: String| Error::File { file: shown(&path.to_string_lossy()), why };
    let held = match surefoot_foreign::hold(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // A link whose target is gone is not the wish for defaults.
            return match std::fs::symlink_metadata(path) {
                Ok(_) => Err(failed("it is a link to a file that does not exist".to_owned())),
                Err(_) => Ok(None),
            };
        }
        held => held.and_then(|held| held.regular()).map_err(|error| failed(error.to_string()))?,
    };
    if way::own_user() == 0 {
        let why =
            way::others_change(path).map_err(|error| failed(format!("could not check who can change it: {error}")))?;
        if let Some(why) = why {
            return Err(failed(format!("{why}; root takes settings only from a file that no other user can change")));
        }
    }
    let bytes = held.read(FILE_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => failed(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)),
        _ => failed(error.to_string()),
    })?;
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        failed(format!("line {line} is not text in UTF-8"))
    })
}

/// Calls `each` for every setting in the text.
pub(crate) fn each(
    path: &Path,
    text: &str,
    mut each: impl FnMut(&'static Setting, &DeValue<'_>, Origin) -> Result<(), Error>,
) -> Result<(), Error> {
    // Some editors begin a file with it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let at = |span: Range<usize>| {
        let line = 1 + text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count();
        Origin::File { file: path.to_string_lossy().into_owned(), line }
    };
    let root = DeTable::parse(text).map_err(|error| Error::Line {
        at: at(error.span().unwrap_or(0..0)),
        why: shown(&error.message().replace('\n', " ")),
    })?;
    let mut found: Vec<(Range<usize>, String, &Spanned<DeValue<'_>>)> = Vec::new();
    for (key, value) in root.get_ref() {
        let table = key.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(fields) if is_table(table) => {
                let fields = fields.iter();
                found.extend(fields.map(|(key, value)| (key.span(), format!("{table}.{}", key.get_ref()), value)));
            }
            other if is_table(table) => {
                let why = format!("it is {}, and must be a table: [{table}]", said(other));
                return Err(Error::Setting { at: at(key.span()), key: table.to_owned(), why });
            }
            _ => found.push((key.span(), table.to_owned(), value)),
        }
    }
    // In the order of the file, so that the first error is the first that a reader meets.
    found.sort_by_key(|(span, ..)| span.start);
    for (span, key, value) in found {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(unknown(at(span), &key));
        };
        each(setting, value.get_ref(), at(value.span()))?;
    }
    Ok(())
}

fn table_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn is_table(name: &str) -> bool {
    SETTINGS.iter().any(|setting| table_of(setting.key) == name)
}

fn in_table(table: &str) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |one| table_of(one.key) == table)
}

/// The error for a key that means nothing, with the one that was meant.
fn unknown(at: Origin, key: &str) -> Error {
    let (table, name) = key.split_once('.').unwrap_or((key, ""));
    // The table's own names first: a short name is near to much.
    let own = nearest(name, in_table(table).filter_map(|one| one.key.split_once('.').map(|(_, name)| name)));
    let elsewhere = || {
        let same = SETTINGS.iter().map(|one| one.key).find(|one| one.rsplit('.').next() == Some(name));
        let tables = || SETTINGS.iter().map(|one| table_of(one.key));
        let keys = || SETTINGS.iter().map(|one| one.key);
        match (is_table(table), name) {
            (true, _) => same,
            // Without a table it may be a setting or a table.
            (false, "") => {
                let own = keys().find(|one| one.rsplit('.').next() == Some(key));
                own.or_else(|| nearest(table, tables()))
            }
            (false, _) => nearest(key, keys()),
        }
    };
    let meant = own.map(|name| format!("{table}.{name}")).or_else(|| elsewhere().map(str::to_owned));
    let why = match (meant, is_table(table)) {
        (Some(meant), _) => format!("there is no such setting; did you mean '{meant}'?"),
        (None, true) => {
            let names: Vec<&str> = in_table(table).map(|one| one.key).collect();
            format!("there is no such setting; in [{table}] there are {}", names.join(", "))
        }
        (None, false) => "there is no such setting; `surefoot config defaults` lists all".to_owned(),
    };
    Error::Setting { at, key: shown(key), why }
}

/// The file that sets everything to its default, each line as a comment. Packages ship it.
pub fn commented() -> String {
    let mut text = String::from(
        "# Settings of `surefoot watch`. Each line shows a default or, where there is none, an example: take away the # and change it.\n\
         # surefoot config check tells whether the file is right, surefoot config show what holds and why.\n\
         # Options and environment variables go before this file.\n\
         # After a change: systemctl reload surefoot. What is marked with (restart) takes effect when the watch starts again.\n",
    );
    let mut table = "";
    for setting in SETTINGS {
        let (of, name) = setting.key.split_once('.').unwrap_or(("", setting.key));
        if of != table {
            let _ = writeln!(text, "\n[{of}]");
            table = of;
        }
        let unset = setting.value_in(&Settings::default()).is_none();
        let notes = [
            unset.then(|| "not set by default".to_owned()),
            Some(setting.range()).filter(|_| !unset),
            (!setting.option.is_empty()).then(|| format!("--{}", setting.option)),
            (setting.when == When::Start).then(|| "restart".to_owned()),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        let _ =
            writeln!(text, "# {} ({})\n#{name} = {}", setting.about, notes.join("; "), setting.default_or_example());
    }
    debug_assert!(!text.contains(&variable_of(&SETTINGS[0])));
    text
}
