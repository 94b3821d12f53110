//! Holds every answer that the tests see to `docs/schema/api.json`: the client checks them all.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

fn api() -> &'static Value {
    static API: OnceLock<Value> = OnceLock::new();
    API.get_or_init(|| serde_json::from_str(include_str!("../../../../docs/schema/api.json")).unwrap())
}

/// Panics unless the schema of this title has such an answer.
pub fn hold(title: &str, answer: &Value) {
    let titled = api()["anyOf"].as_array().unwrap().iter().find(|schema| schema["title"] == title);
    let schema = titled.unwrap_or_else(|| panic!("docs/schema/api.json has nothing titled '{title}'"));
    if let Err(fault) = check(schema, answer) {
        panic!("{title}: not as docs/schema/api.json says: {fault}");
    }
}

/// A value and all below it; a member that the schema does not know is a fault.
fn check(schema: &Value, value: &Value) -> Result<(), String> {
    holds(schema, value)?;
    let Value::Object(members) = value else { return Ok(()) };
    let mut known = BTreeSet::new();
    let is_open = collect_known(schema, &mut known);
    match members.keys().find(|name| !is_open && !known.contains(name.as_str())) {
        Some(name) => Err(format!(".{name}: no such member")),
        None => Ok(()),
    }
}

/// The members that a schema knows; tells whether it allows any others.
fn collect_known<'a>(schema: &'a Value, known: &mut BTreeSet<&'a str>) -> bool {
    let Value::Object(words) = schema else { return schema == &Value::Bool(true) };
    let mut is_open = words.get("additionalProperties").is_some_and(|others| others != &Value::Bool(false));
    known.extend(
        words.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str()),
    );
    let choices = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|word| words.get(word)?.as_array()).flatten();
    for part in words.get("$ref").map(definition).into_iter().chain(choices) {
        is_open |= collect_known(part, known);
    }
    is_open
}

fn definition(reference: &Value) -> &'static Value {
    let name = reference.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
    &api()["$defs"][name]
}

/// What the schema says of a value, other members aside.
fn holds(schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(words) = schema else { return Ok(()) };
    if let Some(reference) = words.get("$ref") {
        holds(definition(reference), value)?;
    }
    if let Some(types) = words.get("type") {
        let is_one = |word: &Value| is_of(word.as_str().unwrap(), value);
        if !types.as_array().map_or_else(|| is_one(types), |types| types.iter().any(is_one)) {
            return Err(format!(": {value} is not {types}"));
        }
    }
    let is_other = words.get("const").is_some_and(|only| only != value);
    if is_other || words.get("enum").is_some_and(|all| !all.as_array().unwrap().contains(value)) {
        return Err(format!(": {value} is another word"));
    }
    if words.get("minimum").is_some_and(|least| value.is_number() && value.as_f64() < least.as_f64()) {
        return Err(format!(": {value} is too small"));
    }
    for part in words.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        holds(part, value)?;
    }
    for choice in ["anyOf", "oneOf"].into_iter().filter_map(|word| words.get(word)?.as_array()) {
        let faults: Vec<String> = choice.iter().filter_map(|one| holds(one, value).err()).collect();
        if faults.len() == choice.len() {
            return Err(format!(": none of the choices: {}", faults.join(" | ")));
        }
    }
    match value {
        Value::Object(members) => holds_members(words, members),
        Value::Array(items) => holds_items(words, items),
        _ => Ok(()),
    }
}

fn holds_members(words: &Map<String, Value>, members: &Map<String, Value>) -> Result<(), String> {
    for name in words.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!(": lacks {name}"));
        }
    }
    let named = |name: &String| words.get("properties").and_then(|properties| properties.get(name));
    for (name, value) in members {
        if let Some(schema) = named(name).or_else(|| words.get("additionalProperties")) {
            check(schema, value).map_err(|fault| format!(".{name}{fault}"))?;
        }
    }
    Ok(())
}

fn holds_items(words: &Map<String, Value>, items: &[Value]) -> Result<(), String> {
    let first = words.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (place, item) in items.iter().enumerate() {
        if let Some(schema) = first.get(place).or_else(|| words.get("items")) {
            check(schema, item).map_err(|fault| format!("[{place}]{fault}"))?;
        }
    }
    Ok(())
}

fn is_of(word: &str, value: &Value) -> bool {
    match word {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => panic!("a schema's type cannot be {word}"),
    }
}

#[test]
fn an_answer_of_another_shape_is_found() {
    let title = "GET /api/v1/capabilities";
    let row = json!({ "id": "a.b", "name": "b", "state": "works", "reason": "", "remedy": "" });
    let answer = json!({ "schema": 2, "capabilities": [row] });
    hold(title, &answer);
    let schema = &api()["$defs"]["Capabilities"];
    let fault = |change: &dyn Fn(&mut Value)| {
        let mut answer = answer.clone();
        change(&mut answer);
        check(schema, &answer).unwrap_err()
    };
    let row = "/capabilities/0";
    assert_eq!(fault(&|answer| answer["more"] = 1.into()), ".more: no such member");
    assert_eq!(fault(&|answer| answer["schema"] = "2".into()), r#".schema: "2" is not "integer""#);
    assert_eq!(fault(&|answer| answer["schema"] = json!(-2)), ".schema: -2 is too small");
    assert_eq!(fault(&|answer| drop(answer.as_object_mut().unwrap().remove("schema"))), r#": lacks "schema""#);
    let of_row = |name: &str, value: Value| fault(&|answer| answer.pointer_mut(row).unwrap()[name] = value.clone());
    assert!(of_row("state", "good".into()).starts_with(".capabilities[0].state: "));
    assert_eq!(of_row("more", 1.into()), ".capabilities[0].more: no such member");
}
