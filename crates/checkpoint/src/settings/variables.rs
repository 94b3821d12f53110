//! Settings in environment variables: `SUREFOOT_CHECKPOINT_DURABLE_KEEP` is `durable.keep`.

use super::nearest::instead_of;
use super::{Said, Source};
use crate::Error;
use crate::config::SETTINGS;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the name of each begins with. All variables that begin so are settings, so that one that is misspelt is found.
pub const PREFIX: &str = "SUREFOOT_CHECKPOINT_";

/// Names the file of settings in place of the host's; `none` for no file.
pub const FILE_VARIABLE: &str = "SUREFOOT_CHECKPOINT_SETTINGS";

/// What other variables of Surefoot's begin with.
const FAMILY: &str = "SUREFOOT_";

/// Which file counts.
pub(super) enum File {
    Usual,
    Named(PathBuf),
    None,
}

/// The variable of a setting.
pub fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", in_capitals(name))
}

fn in_capitals(name: &str) -> String {
    name.replace('.', "_").to_ascii_uppercase()
}

/// The settings among these variables, and the file that they name.
///
/// # Errors
/// [`Error::Setting`] with the variable.
pub(super) fn read(variables: &[(OsString, OsString)]) -> Result<(File, Vec<Said>), Error> {
    let mut file = File::Usual;
    let mut found = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(FAMILY)) else { continue };
        let refuse = |why: String| Error::Setting { place: name.to_owned(), why };
        let Some(short) = name.strip_prefix(PREFIX) else {
            match SETTINGS.iter().find(|(known, _)| name[FAMILY.len()..] == in_capitals(known)) {
                Some((known, _)) => return Err(refuse(format!("the variable of {known} is {}", variable_of(known)))),
                None => continue,
            }
        };
        let value = value.to_str().ok_or_else(|| refuse("its value is no UTF-8 text".into()))?;
        if name == FILE_VARIABLE {
            file = match value {
                "none" => File::None,
                path if path.starts_with('/') => File::Named(PathBuf::from(path)),
                _ => return Err(refuse(format!("{value:?} is neither the absolute path of a file nor `none`"))),
            };
            continue;
        }
        let Some((known, _)) = SETTINGS.iter().find(|(known, _)| in_capitals(known) == short) else {
            return Err(refuse(format!("there is no such setting; {}", instead_of(name, variable_of))));
        };
        found.push(Said { name: known, value: value.to_owned(), source: Source::Variable(name.to_owned()) });
    }
    Ok((file, found))
}
