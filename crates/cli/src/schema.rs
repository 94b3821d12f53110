//! Keeps `docs/schema/lines.json` what the types of the JSON lines say.
#![allow(clippy::unwrap_used)]

use crate::{checkpoint, config, disturb, ecc, history, memory, nic, remedy, rooms, stall, why};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The schema of a type, by reference.
type Of = fn(&mut SchemaGenerator) -> Schema;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Each command with the types of the lines that follow the first one; `watch` prints events of the model.
const COMMANDS: [(&str, &[Of]); 56] = [
    (
        "stall report",
        &[
            of::<stall::lines::Line>,
            of::<rooms::findings::Line>,
            of::<rooms::memory::Line>,
            of::<rooms::nic::Line>,
            of::<rooms::disturb::Line>,
            of::<rooms::checkpoint::Line>,
            of::<rooms::remedy::Line>,
        ],
    ),
    ("stall who", &[of::<stall::lines::Line>]),
    ("stall probe", &[of::<stall::lines::Line>, of::<stall::probe::SummaryLine>]),
    ("stall audit", &[of::<stall::audit::CheckLine>]),
    ("status", &[of::<stall::lines::Line>]),
    ("why", &[of::<why::Line<'_>>]),
    ("config show", &[of::<config::SettingLine>]),
    ("history", &[of::<history::lines::What>]),
    ("ecc coverage", &[of::<ecc::lines::Line>]),
    ("checkpoint list", LISTED),
    ("checkpoint drain", DRAINED),
    ("checkpoint remove", &[of::<checkpoint::remove::Line>]),
    ("checkpoint verify", CHECKED),
    ("checkpoint scrub", CHECKED),
    (
        "checkpoint restore",
        &[of::<checkpoint::restore::Line>, of::<checkpoint::restore::NewerLine>, of::<checkpoint::list::ProblemLine>],
    ),
    ("checkpoint protect", &[of::<checkpoint::protect::ProtectedLine>]),
    ("checkpoint repair", &[of::<checkpoint::protect::CheckedLine>]),
    ("checkpoint plan", &[of::<checkpoint::plan::PlanLine>]),
    ("checkpoint simulate", &[of::<checkpoint::simulate::RunLine>]),
    ("checkpoint settings", &[of::<checkpoint::settings::SettingLine>]),
    ("checkpoint drive", &[of::<checkpoint::drive::DriveLine>]),
    ("memory status", MEMORY),
    ("memory doctor", &[of::<memory::doctor::CheckLine>]),
    (
        "memory cost",
        &[of::<memory::cost::SpentLine<'_>>, of::<memory::cost::CostModuleLine<'_>>, of::<memory::cost::SumLine>],
    ),
    ("memory import", IMPORTED),
    (
        "memory page-offline",
        &[
            of::<memory::page_offline::PageLine>,
            of::<memory::page_offline::ModuleLine>,
            of::<memory::page_offline::RestoredLine>,
        ],
    ),
    ("memory owner", &[of::<memory::owner::OwnerLine<'_>>]),
    ("memory repaired", CLOSED),
    ("memory replaced", CLOSED),
    ("memory cleared", CLOSED),
    ("memory watch", &[of::<memory::watch::Line>]),
    ("memory simulate", SIMULATED),
    ("memory tune", TUNED),
    ("nic health", HEALTH),
    ("nic run", &[of::<nic::run::ResultLine>]),
    ("nic campaign", &[of::<nic::campaign::lines::FaultLine>, of::<nic::campaign::lines::TableLine>]),
    ("nic campaign report", &[of::<nic::campaign::lines::TableLine>]),
    ("nic campaign blocks", &[of::<nic::campaign::lines::BlockLine<'_>>, of::<nic::campaign::lines::BlocksLine>]),
    ("nic inject", &[of::<nic::inject::lines::SceneLine<'_>>, of::<nic::campaign::lines::FaultLine>]),
    ("disturb run", &[of::<surefoot_experiment::run::lines::Line>]),
    ("disturb report", &[of::<rooms::disturb::Line>, of::<disturb::report::Line>]),
    (
        "disturb run --experiment",
        &[
            of::<surefoot_experiment::plan::lines::StallLine>,
            of::<surefoot_experiment::plan::lines::PlanLine>,
            of::<surefoot_experiment::plan::lines::RunLine>,
            of::<surefoot_experiment::plan::lines::GivenUpLine>,
            of::<surefoot_experiment::plan::lines::EffectLine>,
            of::<surefoot_experiment::plan::lines::DifferenceLine>,
            of::<surefoot_experiment::plan::lines::RowLine>,
            of::<surefoot_experiment::plan::lines::SummaryLine>,
        ],
    ),
    ("disturb workloads", &[of::<surefoot_experiment::plan::lines::WorkloadLine>]),
    (
        "disturb length",
        &[of::<surefoot_experiment::length::lines::StepLine>, of::<surefoot_experiment::length::lines::LengthLine>],
    ),
    (
        "disturb drift",
        &[of::<surefoot_experiment::drift::lines::ComparedLine>, of::<surefoot_experiment::drift::lines::DriftLine>],
    ),
    (
        "disturb predict",
        &[
            of::<surefoot_experiment::predict::lines::DrawLine>,
            of::<surefoot_experiment::predict::lines::PredictionLine>,
        ],
    ),
    ("fleet top", &[of::<surefoot_controller::HostLine>, of::<remedy::hosts::HostPageLine<'_>>]),
    ("remedy cases", &[of::<remedy::lines::CaseRow<'_>>, of::<remedy::lines::PageLine<'_>>]),
    (
        "remedy show",
        &[of::<remedy::lines::DetailLine<'_>>, of::<remedy::lines::PartLine<'_>>, of::<remedy::lines::AuditLine<'_>>],
    ),
    ("remedy trail", &[of::<remedy::lines::AuditLine<'_>>]),
    ("remedy approve", CASES),
    ("remedy pause", &[of::<remedy::lines::CaseRow<'_>>, of::<remedy::lines::EverythingLine>]),
    ("remedy resume", &[of::<remedy::lines::CaseRow<'_>>, of::<remedy::lines::EverythingLine>]),
    ("remedy cancel", CASES),
    ("remedy check run", &[of::<remedy::check::HostCheckLine<'_>>]),
    ("remedy simulate", &[of::<remedy::simulate::ServiceLine<'_>>, of::<remedy::simulate::ResultLine>]),
];

const CASES: &[Of] = &[of::<remedy::lines::CaseRow<'_>>];

const MEMORY: &[Of] = &[
    of::<memory::status::DimmLine>,
    of::<memory::status::ControllerLine>,
    of::<memory::status::SlotLine>,
    of::<memory::status::ProblemLine>,
];

const CLOSED: &[Of] = &[of::<memory::close::ClosingLine<'_>>];

const HEALTH: &[Of] = &[
    of::<nic::health::lines::InterfaceLine>,
    of::<nic::health::lines::ProblemLine>,
    of::<nic::health::lines::DeedLine>,
    of::<nic::health::lines::AnsweringLine>,
];

const IMPORTED: &[Of] = &[
    of::<memory::import::ReportLine>,
    of::<memory::status::DimmLine>,
    of::<memory::import::NotUnderstoodLine>,
    of::<memory::import::ImportLine>,
];

const SIMULATED: &[Of] = &[
    of::<memory::simulate::lines::CostLine>,
    of::<memory::simulate::figure::PointLine>,
    of::<memory::simulate::figure::OptimumLine>,
    of::<memory::simulate::lines::ResultLine>,
];

const TUNED: &[Of] = &[
    of::<memory::simulate::lines::CostLine>,
    of::<memory::tune::lines::PlatformLine>,
    of::<memory::tune::lines::PointLine>,
    of::<memory::tune::lines::StepLine>,
    of::<memory::tune::lines::ChoiceLine>,
];

const LISTED: &[Of] = &[
    of::<checkpoint::list::Row>,
    of::<checkpoint::jobs::JobLine>,
    of::<checkpoint::lost::MissingLine>,
    of::<checkpoint::lost::LostLine>,
    of::<checkpoint::list::RepairableLine>,
    of::<checkpoint::list::ProblemLine>,
];

const DRAINED: &[Of] = &[
    of::<checkpoint::drain::Line>,
    of::<checkpoint::lost::MissingLine>,
    of::<checkpoint::lost::LostLine>,
    of::<checkpoint::list::ProblemLine>,
];

const CHECKED: &[Of] = &[
    of::<checkpoint::verify::Line>,
    of::<checkpoint::lost::MissingLine>,
    of::<checkpoint::lost::LostLine>,
    of::<checkpoint::list::ProblemLine>,
];

/// Adds the field `type` to the structs that are lines, which schemars leaves out. Their definitions, and no others, have
/// names in lower case: the word in `type`, by which serde renames them. Lines of two commands may have one word and other
/// fields; schemars puts a number behind the second.
fn tag(definitions: &mut Map<String, Value>) {
    for (word, definition) in definitions.iter_mut().filter(|(name, _)| name.starts_with(char::is_lowercase)) {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        definition["properties"]["type"] = json!({ "type": "string", "const": word });
        definition["required"].as_array_mut().unwrap().insert(0, "type".into());
    }
}

fn written() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut commands = Map::new();
    let mut all = vec![of::<surefoot_console::output::Stream>(&mut generator)];
    for (command, types) in COMMANDS {
        let lines: Vec<Schema> = types.iter().map(|of| of(&mut generator)).collect();
        for line in &lines {
            if !all.contains(line) {
                all.push(line.clone());
            }
        }
        commands.insert(command.to_owned(), json!({ "anyOf": lines }));
    }
    let mut definitions = generator.take_definitions(true);
    tag(&mut definitions);
    commands.insert("watch".to_owned(), json!({ "$ref": "model.json#/$defs/Event" }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lines",
        "description": "The JSON lines of the commands. The first line of each stream is a `stream`; `commands` says which \
                        lines follow it. docs/guide/json.md describes them.",
        "anyOf": all,
        "commands": commands,
        "$defs": definitions,
    })
}

#[test]
fn the_schema_in_docs_is_that_of_the_lines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/lines.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&written()).unwrap());
    if std::env::var_os("SUREFOOT_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/schema/lines.json is not what the types say; run SUREFOOT_UPDATE=1 cargo test -p surefoot-cli schema"
    );
}

/// The words in `type` by which the lines of a definition are told apart.
fn words(definition: &Value) -> Vec<&str> {
    let variants = definition["oneOf"].as_array().map_or(std::slice::from_ref(definition), Vec::as_slice);
    variants.iter().map(|variant| variant["properties"]["type"]["const"].as_str().unwrap_or("none")).collect()
}

#[test]
fn the_lines_of_a_command_are_told_apart_by_their_type() {
    let schema = written();
    assert_eq!(words(&schema["$defs"]["stream"]), ["stream"]);
    for (command, lines) in schema["commands"].as_object().unwrap().iter().filter(|(name, _)| *name != "watch") {
        let names = lines["anyOf"].as_array().unwrap().iter().filter_map(|line| line["$ref"].as_str());
        let definitions = names.map(|name| &schema["$defs"][name.rsplit('/').next().unwrap_or_default()]);
        let mut all: Vec<&str> = definitions.flat_map(words).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert!(count > 0 && all.len() == count && !all.contains(&"none"), "{command}: {all:?}");
    }
}
