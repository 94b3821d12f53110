//! Keeps `docs/schema/api.json` what the types of the answers say. The page's types are made from that file
//! (`ui/dev/types.mjs`), and `tests/daemon/schema.rs` holds the answers of a server to it.

use crate::http::{Capabilities, Index, LiveMessage, Overview, PastAnswer};
use crate::rooms;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use std::path::Path;
use surefoot_http::{ErrorAnswer, json};
use surefoot_model::{Case, Health};

/// An answer, and where it is found.
pub(crate) fn answer<T: JsonSchema>(generator: &mut SchemaGenerator, title: &str, about: &str) -> Value {
    let mut schema = generator.subschema_for::<T>().to_value();
    schema["title"] = title.into();
    schema["description"] = about.into();
    schema
}

/// What is written: a field that is left out when it is empty is not required, one with a default is.
fn written() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let of = &mut generator;
    let mut answers = vec![answer::<Overview>(of, "GET /api/v1/overview", "What all rooms find, a card for each.")];
    answers.extend(rooms::schemas(of));
    answers.extend([
        answer::<Index>(of, "GET /api/v1", "Every address of this server."),
        answer::<Capabilities<'_>>(of, "GET /api/v1/capabilities", "What works on this host."),
        answer::<PastAnswer<'_>>(of, "GET /api/v1/history", "What the history has of a range of the past."),
        answer::<LiveMessage<'_>>(of, "GET /api/v1/events", "The data of one server-sent event."),
        answer::<ErrorAnswer<'_>>(of, "any refusal", "What a request is answered that is refused."),
        answer::<Case>(of, "GET /api/v1/cases of remedy serve", "A case, as the controller's page has it."),
        answer::<Health>(of, Health::FILE_NAME, "The health of the host, a file in the run directory."),
    ]);
    let mut definitions = generator.take_definitions(true);
    tag(&mut definitions);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Api",
        "description": "The answers of the HTTP server of surefoot watch, and its health file.",
        "anyOf": answers,
        "$defs": definitions,
    });
    add_texts(&mut schema);
    schema
}

/// Adds the field `type` to the lines of commands that are parts of an answer, which schemars leaves out. Their definitions,
/// and no others, have names in lower case: the word in `type`, by which serde renames them.
fn tag(definitions: &mut Map<String, Value>) {
    for (word, definition) in definitions.iter_mut().filter(|(name, _)| name.starts_with(char::is_lowercase)) {
        definition["properties"]["type"] = json!({ "type": "string", "const": word });
        definition["required"].as_array_mut().unwrap().push("type".into());
    }
}

/// The schema's form of what [`json`] does: beside each time of the wall clock its text.
fn add_texts(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(add_texts);
            let Some(Value::Object(properties)) = members.get_mut("properties") else { return };
            let times: Vec<String> = properties.keys().filter(|name| name.ends_with(json::SUFFIX)).cloned().collect();
            let text_of = |time: &String| time.strip_suffix(json::UNIT).unwrap_or(time).to_owned();
            let about = "The same as text: RFC 3339, UTC, nine digits of a second; `null` where it is not known.";
            for time in &times {
                let text = json!({ "description": about, "type": ["string", "null"], "format": "date-time" });
                assert!(properties.insert(text_of(time), text).is_none(), "{time}: its text's name is taken");
            }
            if let Some(Value::Array(required)) = members.get_mut("required") {
                let also: Vec<Value> = times
                    .iter()
                    .filter(|time| required.iter().any(|name| name == time.as_str()))
                    .map(|time| text_of(time).into())
                    .collect();
                required.extend(also);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(add_texts),
        _ => {}
    }
}

#[test]
fn the_schema_in_docs_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/api.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&written()).unwrap());
    if std::env::var_os("SUREFOOT_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let hint = "run SUREFOOT_UPDATE=1 cargo test -p surefoot-daemon schema, then npm run types:generate in ui";
    assert!(kept == text, "docs/schema/api.json is not what the types say; {hint}");
}
