//! JSON of strangers: a key that stands twice with two values has none.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a text as JSON.
///
/// # Errors
/// Why it is none, in words.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map(|Strict(value)| value).map_err(|error| format!("no JSON: {error}"))
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Strict;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Strict, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(value)) = values.next_element()? {
            all.push(value);
        }
        Ok(Strict(Value::Array(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Strict, A::Error> {
        let mut all = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            match all.get(&key) {
                Some(other) if *other != value => {
                    let key = surefoot_model::clipped(&key, 80);
                    return Err(A::Error::custom(format!("the key '{key}' has two values")));
                }
                _ => _ = all.insert(key, value),
            }
        }
        Ok(Strict(Value::Object(all)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_with_two_values_has_none_and_all_else_is_as_serde_json_reads_it() {
        for text in [
            "null",
            "[]",
            r#"{"a":1,"b":[-1,1.5,true,"x\n\u00fc",{"c":null}]}"#,
            "18446744073709551615",
            r#"{"a":[1],"a":[1]}"#,
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        let why = parse(r#"{"Members":[{"State":"drained","State":"busy"}]}"#).unwrap_err();
        assert!(why.contains("'State' has two values"), "{why}");
        assert!(parse(&"[".repeat(200_000)).unwrap_err().contains("no JSON"));
        assert!(parse("{} {}").is_err() && parse("\u{feff}{}").is_err());
    }
}
