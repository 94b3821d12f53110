//! Keeps `docs/schema/model.json` what the types say. What the API and `health.json` make of
//! them is in `docs/schema/api.json`, which the tests of crates/daemon keep.

#[cfg(test)]
mod tests {
    use crate::Event;
    use schemars::generate::SchemaSettings;
    use serde_json::{Value, json};
    use std::path::Path;

    /// What is written: a field that is left out when it is empty is not required, one with a default is.
    fn written() -> Value {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let roots = [generator.subschema_for::<Event>()];
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Model",
            "description": "The types of crates/model in a recording: a line of one is an Event. What the API and health.json say is in api.json.",
            "anyOf": roots,
            "$defs": generator.take_definitions(true),
        })
    }

    #[test]
    fn the_schema_in_docs_is_that_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/model.json");
        let text = format!("{}\n", serde_json::to_string_pretty(&written()).unwrap());
        if std::env::var_os("SUREFOOT_UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let hint = "run SUREFOOT_UPDATE=1 cargo test -p surefoot-model schema";
        assert!(kept == text, "docs/schema/model.json is not what the types say; {hint}");
    }
}
