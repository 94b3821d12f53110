//! One line of an events frame, read with patience for what newer writers add.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use surefoot_model::Event;

/// Reads one line: the event and how many of its fields this program does not know, nothing if it knows no such event,
/// or why it is no event of any version.
pub(super) fn parse_line(line: &[u8]) -> Result<Option<(Event, u64)>, String> {
    match serde_json::from_slice::<Event>(line) {
        Ok(event) => {
            let unknown_fields = count_unknown_fields(line, &event);
            Ok(Some((event, unknown_fields)))
        }
        Err(error) => match serde_json::from_slice::<Tagged<'_>>(line) {
            Ok(_) => Ok(None),
            Err(_) => Err(format!("an event cannot be read ({error})")),
        },
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
