//! The journal's export form (`journalctl -o export`, `application/vnd.fdo.journal`).
//!
//! An entry is a run of fields and ends with an empty line. A field is `NAME=value`, or, if its value has a line feed or is no text, its
//! name alone on a line, eight bytes of length (little-endian), as many bytes, and a line feed. There is no way to find the next entry
//! behind a length that cannot be true, so that reading ends there.
//!
//! Each entry becomes the line that `journalctl -o json` has for it, with the fields that [`super::journal`] reads.

use super::LINE_BYTES_MAX;
use serde_json::{Map, Value};
use std::io::{self, BufRead};

/// The longest field that journald takes (`DATA_SIZE_MAX`).
const FIELD_BYTES_MAX: u64 = 768 << 20;
/// The longest line: a field of text, or a name.
const LINE_READ_MAX: u64 = 64 << 20;
/// How much of a field is kept: the kernel's longest line has 1 KiB.
pub(super) const KEPT_BYTES: usize = 4 << 10;

const REALTIME: &str = "__REALTIME_TIMESTAMP";
const MESSAGE: &str = "MESSAGE";
/// The fields that are read.
const FIELDS: [&str; 9] = [
    REALTIME,
    "__MONOTONIC_TIMESTAMP",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "_BOOT_ID",
    "_HOSTNAME",
    "_MACHINE_ID",
    "_TRANSPORT",
    "SYSLOG_IDENTIFIER",
    MESSAGE,
];

/// Whether a text begins as an export does: with a field of the journal's own, at the left margin.
pub(super) fn is_export(begin: &[u8]) -> bool {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    let begin = &begin[begin.iter().position(|&byte| byte != b'\n').unwrap_or(begin.len())..];
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let name = line.split(|&byte| byte == b'=').next().unwrap_or_default();
    name.len() < line.len() && name.starts_with(b"__") && is_name(name)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// A reader of entries.
#[derive(Debug, Default)]
pub(super) struct Export {
    /// Entries whose message was cut.
    pub cut_count: u64,
    /// Why reading ended before the end.
    pub ended: Option<&'static str>,
}

/// A field.
enum Field {
    Known(&'static str, Vec<u8>),
    Other,
    /// What is neither a field nor its name.
    Damaged,
    EndOfEntry,
    EndOfFile,
}

impl Export {
    /// The next entry, as a line of `journalctl -o json`. One that is cut or damaged becomes a line that is damaged, too.
    pub fn next(&mut self, source: &mut impl BufRead) -> io::Result<Option<String>> {
        let (mut fields, mut is_damaged, mut has_any) = (Map::new(), false, false);
        while self.ended.is_none() {
            match self.field(source)? {
                Field::Known(name, value) => {
                    let value = Value::String(String::from_utf8_lossy(&value).into_owned());
                    // An entry with two values of one field contradicts itself, unless they are the same.
                    is_damaged |= fields.get(name).is_some_and(|known| *known != value);
                    fields.insert(name.to_owned(), value);
                }
                Field::Other => {}
                Field::Damaged => is_damaged = true,
                Field::EndOfEntry if !has_any => continue,
                Field::EndOfEntry => return Ok(Some(self.line(fields, is_damaged))),
                Field::EndOfFile if !has_any => return Ok(None),
                // journald ends the last entry as well; of one that was cut something is missing.
                Field::EndOfFile => return Ok(Some(self.line(fields, true))),
            }
            has_any = true;
        }
        Ok(has_any.then(|| self.line(fields, true)))
    }

    fn field(&mut self, source: &mut impl BufRead) -> io::Result<Field> {
        let mut line = Vec::new();
        let (length, has_end) = read_until_line_feed(source, &mut line)?;
        match (length, has_end) {
            (0, false) => return Ok(Field::EndOfFile),
            (0, true) => return Ok(Field::EndOfEntry),
            _ => {}
        }
        if let Some(at) = line.iter().position(|&byte| byte == b'=') {
            let (name, value) = (&line[..at], &line[at + 1..]);
            if !is_name(name) || !has_end {
                return Ok(Field::Damaged);
            }
            let Some(name) = known(name) else { return Ok(Field::Other) };
            self.cut_count += u64::from(length as usize > line.len());
            return Ok(Field::Known(name, value.to_vec()));
        }
        if !is_name(&line) || length as usize > line.len() || !has_end {
            return Ok(Field::Damaged);
        }
        self.binary(&line, source)
    }

    fn binary(&mut self, name: &[u8], source: &mut impl BufRead) -> io::Result<Field> {
        let mut length = [0; 8];
        if let Err(error) = source.read_exact(&mut length) {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(Field::Damaged) } else { Err(error) };
        }
        let length = u64::from_le_bytes(length);
        if length > FIELD_BYTES_MAX {
            self.ended =
                Some("a field claims more bytes than journald stores in one (768 MiB); nothing behind it was read");
            return Ok(Field::Damaged);
        }
        let name = known(name);
        let (mut value, mut left) = (Vec::new(), length);
        while left > 0 {
            let room = source.fill_buf()?;
            if room.is_empty() {
                return Ok(Field::Damaged);
            }
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            let fits = if name.is_some() { taken.min(KEPT_BYTES - value.len()) } else { 0 };
            value.extend_from_slice(&room[..fits]);
            source.consume(taken);
            left -= taken as u64;
        }
        match source.fill_buf()?.first() {
            Some(b'\n') => source.consume(1),
            Some(_) => {
                self.ended = Some("a field has another length than it claims; nothing behind it was read");
                return Ok(Field::Damaged);
            }
            None => return Ok(Field::Damaged),
        }
        let Some(name) = name else { return Ok(Field::Other) };
        self.cut_count += u64::from(length > value.len() as u64);
        Ok(Field::Known(name, value))
    }

    fn line(&mut self, mut fields: Map<String, Value>, is_damaged: bool) -> String {
        // The reader of lines knows an entry by its time; one without is undated.
        fields.entry(REALTIME).or_insert_with(|| Value::String(String::new()));
        let mut line = Value::Object(fields.clone()).to_string();
        while line.len() > LINE_BYTES_MAX {
            self.cut_count += 1;
            for value in fields.values_mut() {
                if let Value::String(text) = value {
                    let half = (0..=text.len() / 2).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
                    text.truncate(half);
                }
            }
            line = Value::Object(fields.clone()).to_string();
        }
        if is_damaged {
            // As a line of JSON that was cut.
            line.pop();
        }
        line
    }
}

fn known(name: &[u8]) -> Option<&'static str> {
    FIELDS.into_iter().find(|field| field.as_bytes() == name)
}

/// Reads a line, of which the beginning is kept: its length, and whether a line feed ended it.
fn read_until_line_feed(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<(u64, bool)> {
    let mut length = 0_u64;
    loop {
        let room = source.fill_buf()?;
        if room.is_empty() {
            return Ok((length, false));
        }
        let end = room.iter().position(|&byte| byte == b'\n');
        let taken = end.unwrap_or(room.len());
        line.extend_from_slice(&room[..taken.min(KEPT_BYTES - line.len())]);
        length += taken as u64;
        if length > LINE_READ_MAX {
            let why = format!("a line of more than {} MiB has no end, so this is no log", LINE_READ_MAX >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        source.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok((length, true));
        }
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
