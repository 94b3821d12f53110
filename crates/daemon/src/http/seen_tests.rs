//! What a user sees who may not see everything, over all addresses: events of every kind, whose every text is a mark of the field that it
//! stands in, are folded, all addresses are asked, and the fields whose marks are found are compared with a reviewed list. A new field that
//! reaches an answer is a difference, in the one list or the other.
#![allow(clippy::unwrap_used)]

use super::access::Again;
use super::routes::{OWN, all};
use super::{access, events, metrics, routes};
use crate::config::{Config, Mode};
use crate::keep::shared::Shared;
use axum::body::to_bytes;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use surefoot_model::Event;
use surefoot_rooms::viewer::Viewer;

const STRANGER: Viewer = Viewer { uid: Some(1001), sees_all: false, named: None };
/// To whom everything belongs that says whose it is.
const OWNER: u32 = 1000;
/// Kinds of every enumeration, in turn, and numbers that are 0 or not.
const ROUNDS: usize = 32;
/// Numbers that are for some alone, by the names of their fields.
const NUMBERS: [(&str, u64); 4] =
    [("address", 1_654_321_001), ("row", 1_654_321_002), ("column", 1_654_321_003), ("workload_pid", 1_654_321_004)];

/// Kinds of which less is told.
const PRIVATE_KINDS: [&str; 4] = ["preemption", "console", "ssh_session", "unknown"];
/// Events that end what others tell of.
const ENDS: [&str; 2] = ["gone", "left_out"];

/// Makes values that fit a schema.
struct Maker {
    definitions: Map<String, Value>,
    /// The fields, by the number of their mark.
    fields: Vec<String>,
    round: usize,
    /// What may be left out is.
    is_bare: bool,
}

impl Maker {
    fn mark(&mut self, field: &str) -> String {
        let known = self.fields.iter().position(|one| one == field);
        let number = known.unwrap_or_else(|| {
            self.fields.push(field.to_owned());
            self.fields.len() - 1
        });
        format!("mark{number}~")
    }

    fn make(&mut self, schema: &Value, field: &str, depth: usize) -> Value {
        if let Some(fixed) = schema.get("const") {
            return fixed.clone();
        }
        let is_null = |one: &Value| one["type"] == "null";
        let may_be_null = schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
            || schema.get("anyOf").and_then(Value::as_array).is_some_and(|choices| choices.iter().any(is_null));
        if self.is_bare && may_be_null {
            return Value::Null;
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words[self.round % words.len()].clone();
        }
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let definition = self.definitions[name.rsplit('/').next().unwrap()].clone();
            let of = self.make(&definition, field, depth + 1);
            return self.with_members(schema, of, field, depth);
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(choices) = schema.get(several).and_then(Value::as_array) {
                let choices: Vec<&Value> = choices.iter().filter(|one| !is_null(one)).collect();
                let chosen = self.make(choices[self.round % choices.len()], field, depth);
                return self.with_members(schema, chosen, field, depth);
            }
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").cloned().unwrap(),
            kind => kind.clone(),
        };
        let name = field.rsplit('.').next().unwrap();
        match kind.as_str() {
            Some("object") => self.with_members(schema, json!({}), field, depth),
            Some("array") => {
                let items = schema.get("prefixItems").and_then(Value::as_array).cloned();
                let items = items.unwrap_or_else(|| vec![schema["items"].clone()]);
                Value::Array(items.iter().map(|item| self.make(item, field, depth + 1)).collect())
            }
            Some("string") if ["experiment", "job"].contains(&name) => json!(self.mark(name)),
            Some("string") => json!(self.mark(field)),
            Some("boolean") => json!(self.round.is_multiple_of(2)),
            Some("number") => json!(1.5),
            Some("integer") => json!(self.number(name)),
            _ => json!(self.mark(field)),
        }
    }

    fn number(&self, name: &str) -> u64 {
        let private = NUMBERS.iter().find(|(of, _)| *of == name).map(|(_, number)| *number);
        match name {
            "uid" => OWNER.into(),
            "start_ns" => 1_000_000_000,
            "end_ns" => 2_000_000_000,
            _ if name.ends_with("realtime_ns") => 1_700_000_000_000_000_000,
            _ => private.unwrap_or(if self.round < ROUNDS / 2 { 0 } else { 3 }),
        }
    }

    fn with_members(&mut self, schema: &Value, mut value: Value, field: &str, depth: usize) -> Value {
        let Some(members) = value.as_object_mut() else { return value };
        let is_kind_private = |kind: &Value| PRIVATE_KINDS.iter().any(|of| kind == of);
        let kind = schema["properties"].get("kind").cloned().map(|of| self.make(&of, "kind", depth + 1));
        let field = &match kind.filter(is_kind_private) {
            Some(kind) => format!("{field}[{}]", kind.as_str().unwrap()),
            None => field.to_owned(),
        };
        for (name, of) in schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default() {
            let is_job = schema["title"] == "CheckpointJob" && name == "name";
            let field = if is_job { "job".to_owned() } else { format!("{field}.{name}") };
            if depth < 24 {
                members.insert(name, self.make(&of, &field, depth + 1));
            }
        }
        if let Some(of) = schema.get("additionalProperties").filter(|of| of.is_object()) {
            let key = self.mark(&format!("{field}.*"));
            members.insert(key, self.make(of, &format!("{field}.*"), depth + 1));
        }
        value
    }
}

/// Events of every kind.
fn made(maker: &mut Maker, schema: &Value) -> Vec<Event> {
    let kinds = schema["oneOf"].as_array().unwrap().clone();
    let mut events = Vec::new();
    for kind in &kinds {
        let word = kind["properties"]["type"]["const"].as_str().unwrap().to_owned();
        // A kind that is itself one of several comes with each of them.
        let several = kind.get("$ref").and_then(Value::as_str).map(|name| name.rsplit('/').next().unwrap());
        let several = several.and_then(|name| maker.definitions[name]["oneOf"].as_array().cloned());
        for one in several.unwrap_or_else(|| vec![kind.clone()]) {
            // What a verdict rests on may name the task that it is about.
            let cause = maker.definitions["CauseKind"].clone();
            let is_private = PRIVATE_KINDS.iter().any(|of| maker.make(&cause, "", 0) == *of);
            let field = if is_private && word.starts_with("gap") { format!("{word}[task]") } else { word.clone() };
            let mut value = maker.make(&one, &field, 0);
            value["type"] = json!(word);
            if ENDS.iter().any(|end| value["seen"] == **end) {
                continue;
            }
            match serde_json::from_value::<Event>(value.clone()) {
                Ok(event) => events.push(event),
                Err(error) => panic!("{word}: {error}: {value}"),
            }
        }
    }
    events
}

fn text(runtime: &tokio::runtime::Runtime, response: Response) -> String {
    let body = runtime.block_on(to_bytes(response.into_body(), 64 << 20)).unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// What all addresses answer, by address.
fn answers(shared: &Arc<Shared>, viewer: Viewer, live: Response, round: usize) -> BTreeMap<&'static str, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let mut live = Some(live);
    let own = OWN.iter().map(|&(path, _)| {
        let answer = match path {
            "/metrics" => text(&runtime, metrics::answer(shared, viewer, &HeaderMap::new()).unwrap()),
            "/api/v1/events" => text(&runtime, live.take().unwrap()),
            // They say nothing of this host.
            "/" | access::PATH | routes::INDEX => String::new(),
            _ => panic!("{path} is a new address of another kind: ask it here"),
        };
        (path, answer)
    });
    let mut answers: BTreeMap<&str, String> = own.collect();
    for route in all(shared) {
        // It takes long, and is the same for everybody.
        if route.path == "/api/v1/memory/interval" && round > 0 {
            continue;
        }
        let query = if route.path == "/api/v1/disturb" { "?experiment=mark0~" } else { "" };
        let uri: Uri = format!("{}{query}", route.path).parse().unwrap();
        let answer = match (route.answer)(shared, viewer, &uri) {
            Ok(seen) => String::from_utf8(seen.into_answer().to_vec()).unwrap(),
            Err(refused) => format!("{refused:?}"),
        };
        answers.insert(route.path, answer);
    }
    answers
}

/// The fields whose marks are in a text.
fn found(text: &str, fields: &[String]) -> BTreeSet<String> {
    let marks = text.split("mark").skip(1).filter_map(|rest| rest.split_once('~')?.0.parse::<usize>().ok());
    marks.filter_map(|number| fields.get(number).cloned()).collect()
}

#[test]
fn a_user_sees_of_every_address_the_fields_that_are_for_everybody() {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.root_schema_for::<Event>().to_value();
    let definitions = schema["$defs"].as_object().unwrap().clone();
    let mut maker = Maker { definitions, fields: Vec::new(), round: 0, is_bare: false };
    maker.mark("experiment");
    let (mut open, mut withheld): (BTreeMap<_, BTreeSet<_>>, BTreeMap<_, BTreeSet<_>>) = Default::default();
    for round in 0..ROUNDS {
        (maker.round, maker.is_bare) = (round, !round.is_multiple_of(2));
        let events_made = made(&mut maker, &schema);
        let mode = Mode::Replay { file: "some.surefoot".into() };
        let shared = Arc::new(Shared::new(&Config { mode, port: None, ..Config::default() }, None));
        let live = |viewer| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _inside = runtime.enter();
            events::events(&shared, viewer, Again::new(move || Some(viewer)), &HeaderMap::new())
        };
        let (of_all, of_stranger) = (live(access::SEES_ALL), live(STRANGER));
        events_made.into_iter().for_each(|event| shared.fold(event));
        shared.tell_of(&shared.now().findings);
        shared.close_live();
        let whole = answers(&shared, access::SEES_ALL, of_all, round);
        let part = answers(&shared, STRANGER, of_stranger, round);
        for (path, answer) in &part {
            let seen = found(answer, &maker.fields);
            withheld.entry(*path).or_default().extend(found(&whole[path], &maker.fields));
            open.entry(*path).or_default().extend(seen);
            for (name, number) in NUMBERS {
                assert!(!answer.contains(&number.to_string()), "{path} tells a {name}: {answer}");
            }
        }
    }
    let mut list = String::from(
        "The texts of events that each address shows, by the fields that they stand in.\n+ to everybody, - to those alone who see everything\n\n",
    );
    for (path, all) in &withheld {
        let seen = &open[path];
        assert!(seen.is_subset(all), "{path} shows a stranger more: {:?}", seen.difference(all));
        for field in all {
            writeln!(list, "{} {path} {field}", if seen.contains(field) { '+' } else { '-' }).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/seen.txt");
    if std::env::var_os("SUREFOOT_UPDATE").is_some() {
        std::fs::write(&file, &list).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap_or_default();
    let differing: Vec<&str> = {
        let (now, then): (BTreeSet<&str>, BTreeSet<&str>) = (list.lines().collect(), reviewed.lines().collect());
        now.symmetric_difference(&then).copied().collect()
    };
    assert!(
        list == reviewed,
        "{} is another; review what differs, then SUREFOOT_UPDATE=1: {differing:#?}",
        file.display()
    );
}
