//! One line of an events frame, read with patience for what newer writers add.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use surefoot_model::Event;

/// The longest text of an event, bytes: far beyond any name, sentence or frame of a stack. The names of a recording are
/// kept by whoever sums it up, so that they bound what a hostile file can ask for.
pub(super) const TEXT_BYTES_MAX: usize = 4 << 10;

/// An event, and what of its line is not in it.
pub(super) struct Parsed {
    pub event: Event,
    /// Fields that this program does not know.
    pub unknown_fields: u64,
    /// Texts that were cut.
    pub cut_texts: u64,
}

/// Reads one line: the event, nothing if this program knows no such event, or why it is no event of any version.
pub(super) fn parse_line(line: &[u8]) -> Result<Option<Parsed>, String> {
    let (read, cut_texts) = match has_long_text(line) {
        false => (serde_json::from_slice::<Event>(line), 0),
        true => shortened(line),
    };
    match read {
        Ok(event) => {
            let unknown_fields = count_unknown_fields(line, &event);
            Ok(Some(Parsed { event, unknown_fields, cut_texts }))
        }
        Err(error) => match serde_json::from_slice::<Tagged<'_>>(line) {
            Ok(_) => Ok(None),
            Err(_) => Err(format!("an event cannot be read ({error})")),
        },
    }
}

/// Whether any text of a line is longer than [`TEXT_BYTES_MAX`] as it is written.
fn has_long_text(line: &[u8]) -> bool {
    if line.len() <= TEXT_BYTES_MAX {
        return false;
    }
    let (mut began, mut is_escaped) = (None, false);
    for (at, &byte) in line.iter().enumerate() {
        match (began, byte) {
            _ if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(start), b'"') if at - start > TEXT_BYTES_MAX => return true,
            (Some(_), b'"') => began = None,
            (None, b'"') => began = Some(at),
            _ => {}
        }
    }
    false
}

/// The event with its long texts cut, and how many these were.
fn shortened(line: &[u8]) -> (serde_json::Result<Event>, u64) {
    let mut count = 0;
    let event = serde_json::from_slice(line).and_then(|mut value: Value| {
        cut_texts(&mut value, &mut count);
        serde_json::from_value(value)
    });
    (event, count)
}

fn cut_texts(value: &mut Value, count: &mut u64) {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => {
            let end = (0..=TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(end);
            text.shrink_to_fit();
            *count += 1;
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cut_texts(value, count)),
        Value::Object(fields) => {
            let before = fields.len();
            fields.retain(|name, _| name.len() <= TEXT_BYTES_MAX);
            *count += (before - fields.len()) as u64;
            fields.values_mut().for_each(|value| cut_texts(value, count));
        }
        _ => {}
    }
}

/// What every event of every version is: an object with a `type`.
#[derive(Deserialize)]
struct Tagged<'a> {
    #[serde(rename = "type", borrow)]
    _type: Cow<'a, str>,
}

/// Counts the fields that reading left out.
///
/// Writing the event again gives the same bytes exactly if nothing was left out, which is the common case and the
/// cheap one; only otherwise are the fields of both counted.
fn count_unknown_fields(line: &[u8], event: &Event) -> u64 {
    let Ok(again) = serde_json::to_vec(event) else { return 0 };
    if again == line {
        return 0;
    }
    count_fields(line).saturating_sub(count_fields(&again))
}

fn count_fields(json: &[u8]) -> u64 {
    serde_json::from_slice::<FieldCount>(json).map_or(0, |count| count.0)
}

/// Reads any JSON and keeps nothing of it but the number of its object fields.
struct FieldCount(u64);

impl<'de> Deserialize<'de> for FieldCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldCountVisitor).map(FieldCount)
    }
}

struct FieldCountVisitor;

impl<'de> Visitor<'de> for FieldCountVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_str<E>(self, _: &str) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut fields = 0;
        while let Some(FieldCount(inner)) = items.next_element()? {
            fields += inner;
        }
        Ok(fields)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<u64, A::Error> {
        let mut fields = 0;
        while let Some((IgnoredAny, FieldCount(inner))) = entries.next_entry()? {
            fields += 1 + inner;
        }
        Ok(fields)
    }
}
