//! JSON as the API and `health.json` have it: beside each time of the wall clock stands its text, because a number above
//! 2^53 does not survive every reader.
//!
//! A member whose name ends in `realtime_ns` is followed by one without `_ns`: RFC 3339 in UTC with nine digits of a
//! second, or `null` where the time is `null` or 0, which is how the model says that it is not known.

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use std::io::{self, Write};
use time::OffsetDateTime;

/// How the names of such members end.
pub const SUFFIX: &str = "realtime_ns";
/// What the name of the text lacks.
pub const UNIT: &str = "_ns";

/// The text of a value.
///
/// # Errors
/// When it has no JSON form, such as a map whose keys are no strings.
pub fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(1 << 10);
    value.serialize(&mut Serializer::with_formatter(&mut text, WithTexts::default()))?;
    Ok(text)
}

/// The same as a string.
///
/// # Errors
/// As [`to_vec`].
pub fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    String::from_utf8(to_vec(value)?).map_err(serde::ser::Error::custom)
}

/// Compact JSON that watches the names of members while they are written, so that no tree is built.
#[derive(Default)]
struct WithTexts {
    key: String,
    is_in_key: bool,
    /// Whether the value that comes next is a time of the wall clock.
    is_time: bool,
}

impl WithTexts {
    /// Writes the text beside a time that has just been written.
    fn beside<W: ?Sized + Write>(&mut self, writer: &mut W, realtime_ns: Option<i128>) -> io::Result<()> {
        if !std::mem::take(&mut self.is_time) {
            return Ok(());
        }
        write!(writer, ",\"{}\":", &self.key[..self.key.len() - UNIT.len()])?;
        let known = realtime_ns.filter(|&realtime_ns| realtime_ns != 0);
        match known.map(OffsetDateTime::from_unix_timestamp_nanos) {
            Some(Ok(time)) => write_text(writer, time),
            _ => writer.write_all(b"null"),
        }
    }
}

/// The library's own RFC 3339 leaves out zeros at the end; texts of one length sort as times do.
fn write_text<W: ?Sized + Write>(writer: &mut W, time: OffsetDateTime) -> io::Result<()> {
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second, nanosecond) = time.to_hms_nano();
    let month = u8::from(month);
    write!(writer, "\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanosecond:09}Z\"")
}

impl Formatter for WithTexts {
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.key.clear();
        self.is_in_key = true;
        CompactFormatter.begin_object_key(writer, first)
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.is_in_key {
            self.key.push_str(fragment);
        }
        CompactFormatter.write_string_fragment(writer, fragment)
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        // A name that needs an escape is none of ours.
        self.is_in_key = false;
        self.key.clear();
        CompactFormatter.write_char_escape(writer, escape)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_in_key = false;
        self.is_time = self.key.ends_with(SUFFIX);
        CompactFormatter.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_time = false;
        CompactFormatter.end_object_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_time = false;
        CompactFormatter.begin_object(writer)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_time = false;
        CompactFormatter.begin_array(writer)
    }

    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        CompactFormatter.write_null(writer)?;
        self.beside(writer, None)
    }

    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        CompactFormatter.write_u64(writer, value)?;
        self.beside(writer, Some(value.into()))
    }

    fn write_i64<W: ?Sized + Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        CompactFormatter.write_i64(writer, value)?;
        self.beside(writer, Some(value.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use time::format_description::well_known::Rfc3339;

    fn written(value: &Value) -> String {
        to_string(value).unwrap()
    }

    #[test]
    fn each_time_of_the_wall_clock_has_its_text_beside_it() {
        for (number, text) in [
            (1_i64, "1970-01-01T00:00:00.000000001Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999999Z"),
            (-1_000_000_000, "1969-12-31T23:59:59.000000000Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            let expected = format!(r#"{{"now_realtime_ns":{number},"now_realtime":"{text}"}}"#);
            assert_eq!(written(&json!({ "now_realtime_ns": number })), expected);
        }
        let far = format!(r#"{{"realtime_ns":{},"realtime":"2554-07-21T23:34:33.709551615Z"}}"#, u64::MAX);
        assert_eq!(written(&json!({ "realtime_ns": u64::MAX })), far);
    }

    #[test]
    fn a_time_that_is_not_known_has_no_text() {
        assert_eq!(written(&json!({ "a_realtime_ns": null })), r#"{"a_realtime_ns":null,"a_realtime":null}"#);
        assert_eq!(written(&json!({ "a_realtime_ns": 0 })), r#"{"a_realtime_ns":0,"a_realtime":null}"#);
    }

    #[test]
    fn everything_else_is_written_as_ever() {
        let value = json!({
            "at_ns": 5, "realtime_offset_ns": 7, "text": "realtime_ns", "\"realtime_ns": 3,
            "points_realtime_ns": [1, 2], "a_realtime_ns": {"b": 4, "c": [null]}, "d_realtime_ns": "6", "realtime_ns": 1.5,
        });
        assert_eq!(written(&value), serde_json::to_string(&value).unwrap());
    }

    proptest! {
        #[test]
        fn the_text_reads_back_as_the_number(number in prop_oneof![any::<u64>().prop_map(i128::from), any::<i64>().prop_map(i128::from)]) {
            prop_assume!(number != 0);
            let value = match u64::try_from(number) {
                Ok(number) => json!({ "of": [{ "a_realtime_ns": number }] }),
                Err(_) => json!({ "of": [{ "a_realtime_ns": i64::try_from(number).unwrap() }] }),
            };
            let read: Value = serde_json::from_str(&written(&value)).unwrap();
            let text = read["of"][0]["a_realtime"].as_str().unwrap();
            prop_assert_eq!(text.len(), "1970-01-01T00:00:00.000000000Z".len());
            prop_assert_eq!(OffsetDateTime::parse(text, &Rfc3339).unwrap().unix_timestamp_nanos(), number);
        }
    }
}
