//! A file of settings: a line `name = value` each, and lines that begin with `#`.

use super::{Said, Source, file_error, known};
use crate::Error;
use std::path::Path;

/// The longest file, bytes: some hundred times what there is to say.
const BYTES_MAX: u64 = 64 << 10;

/// What a file says.
///
/// # Errors
/// [`Error::Setting`] with the file and the line.
pub(super) fn read(path: &Path) -> Result<Vec<Said>, Error> {
    let text = text_of(path)?;
    let mut found: Vec<Said> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let source = Source::File { path: path.to_owned(), line: number + 1 };
        let refuse = |why: String| Error::Setting { place: source.to_string(), why };
        let Some((name, value)) = line.split_once('=') else {
            return Err(refuse("this is no setting; a line is: name = value".into()));
        };
        let name = known(name.trim()).map_err(|error| refuse(error.to_string()))?;
        if let Some(before) = found.iter().find(|said| said.name == name) {
            return Err(refuse(format!("{name} was said before, in {}; say it once", before.source)));
        }
        found.push(Said { name, value: value.trim().to_owned(), source });
    }
    Ok(found)
}

fn text_of(path: &Path) -> Result<String, Error> {
    let read = surefoot_foreign::hold(path).and_then(|held| held.regular()?.read(BYTES_MAX));
    let bytes = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => file_error(path, "a file of settings is a regular file; this is none"),
        std::io::ErrorKind::FileTooLarge => {
            file_error(path, format!("it has more than {BYTES_MAX} bytes; a file of settings has fewer"))
        }
        _ => file_error(path, format!("cannot read it: {error}")),
    })?;
    String::from_utf8(bytes).map_err(|_| file_error(path, "it is no UTF-8 text"))
}
