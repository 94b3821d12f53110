//! How the records of a trace event are laid out: the `format` file of its folder.

use crate::Error;
use crate::error::shorten;
use surefoot_model::Digits;

/// No event of the kernel comes near this many fields.
const FIELDS_MAX: usize = 512;

/// One field of an event's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Its C type, as the kernel prints it, without the name: `char[16]`, `__data_loc char[]`.
    pub kind: String,
    /// Where it begins in the record, bytes.
    pub offset: u32,
    /// Its length, bytes; 4 for a `__data_loc`, whose data stands elsewhere in the record.
    pub size: u32,
    /// Whether it is a signed number.
    pub signed: bool,
}

/// The layout of an event's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The event's name.
    pub name: String,
    /// The number that performance events and tracing programs attach by.
    pub id: u32,
    /// All fields, the four common ones first.
    pub fields: Vec<Field>,
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the number is missing or a field's line has no name, offset or size.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |line: usize, reason: String| Error::malformed("/sys/kernel/tracing/events/*/*/format", line, reason);
        let mut format = Format { name: String::new(), id: 0, fields: Vec::new() };
        let mut id = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                let number = number.trim();
                id = Some(
                    number.digits().ok_or_else(|| bad(index + 1, format!("'{}' is not a number", shorten(number))))?,
                );
            } else if let Some(declaration) = line.strip_prefix("field:") {
                if format.fields.len() == FIELDS_MAX {
                    return Err(bad(index + 1, format!("more than {FIELDS_MAX} fields")));
                }
                let reason = || format!("'{}' is not a field with name, offset and size", shorten(line));
                format.fields.push(field(declaration).ok_or_else(|| bad(index + 1, reason()))?);
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        format.id = id.ok_or_else(|| bad(1, "the line ID is missing".to_owned()))?;
        Ok(format)
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;`
fn field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.digits(),
            Some(("size", value)) => size = value.digits(),
            Some(("signed", value)) => signed = value == "1",
            _ => {}
        }
    }
    // The name is the last word; a length in brackets belongs to the type.
    let (before, length) = match declaration.rfind('[') {
        Some(at) if declaration.ends_with(']') => declaration.split_at(at),
        _ => (declaration, ""),
    };
    let name_at = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let (kind, name) = before.split_at(name_at);
    let kind = format!("{}{length}", kind.trim());
    (!name.is_empty() && !kind.is_empty()).then_some(Field {
        name: name.to_owned(),
        kind,
        offset: offset?,
        size: size?,
        signed,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_of_declaration_gives_its_name_and_type() {
        for (declaration, name, kind) in [
            ("int vector", "vector", "int"),
            ("char prev_comm[16]", "prev_comm", "char[16]"),
            ("__data_loc char[] name", "name", "__data_loc char[]"),
            ("__data_loc cpumask_t *[] cpumask", "cpumask", "__data_loc cpumask_t *[]"),
            ("void * callsite", "callsite", "void *"),
            ("void *callsite", "callsite", "void *"),
            ("const struct smp_call *csd", "csd", "const struct smp_call *"),
        ] {
            let field = field(&format!("{declaration};\toffset:8;\tsize:4;\tsigned:1;")).unwrap();
            assert_eq!((field.name.as_str(), field.kind.as_str()), (name, kind));
            assert_eq!((field.offset, field.size, field.signed), (8, 4, true));
        }
    }

    #[test]
    fn a_field_without_its_parts_is_refused_by_line() {
        for broken in
            ["\tfield:int vector;\toffset:8;", "\tfield:;\toffset:8;\tsize:4;", "\tfield:vector;offset:1;size:1;"]
        {
            let error = Format::parse(&format!("name: x\nID: 1\nformat:\n{broken}\n")).unwrap_err();
            assert!(error.to_string().contains("line 4"), "{error}");
        }
        assert!(Format::parse("name: x\n").unwrap_err().to_string().contains("the line ID is missing"));
        assert!(Format::parse("ID: many\n").unwrap_err().to_string().contains("'many' is not a number"));
    }
}
