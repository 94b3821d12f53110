//! JSON lines on standard output: `docs/guide/json.md` describes them.

use crate::people::{Clean, escaped};
use serde::Serialize;
use std::io::{self, Write};
use surefoot_model::SCHEMA;
use surefoot_sys::stdout::{Stdout, stdout};

/// The first line of every stream.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "stream")]
pub struct Stream<'a> {
    /// The version of the lines; docs/guide/json.md says what changes it.
    schema: u32,
    /// The version of Surefoot that wrote the stream.
    version: &'a str,
    /// The command whose lines follow. A recording gives the lines of the report, so `stall record`, `stall replay` and
    /// `watch --replay` say `stall report`.
    command: &'a str,
}

/// Standard output of a command that a signal ends: who reads it may have stopped. To be flushed.
pub fn patient() -> io::BufWriter<Clean<Stdout>> {
    io::BufWriter::new(Clean::new(stdout()))
}

/// Writes one line.
///
/// # Errors
/// What cannot be written.
pub fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    out.write_all(escaped(serde_json::to_string(value)?).as_bytes())?;
    out.write_all(b"\n")
}

/// Writes the first line of the stream of this command.
///
/// # Errors
/// What cannot be written.
pub fn stream(out: &mut impl Write, command: &str) -> io::Result<()> {
    line(out, &Stream { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::is_harmful;

    #[test]
    fn json_for_a_terminal_reads_back_as_it_was() {
        let hostile = "a\u{1b}[2J\u{9b}2J\u{202e}\u{2028}\u{e0041}z\u{2192}";
        let mut bytes = Vec::new();
        line(&mut bytes, &serde_json::json!({ hostile: hostile })).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.trim_end().chars().any(is_harmful) && text.contains('\u{2192}'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()[hostile], hostile);
    }
}
