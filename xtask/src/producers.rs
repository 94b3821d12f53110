//! Every variant of every event has a producer: a place outside of `model` and outside of tests that makes one.
//!
//! A word that nothing says leads to folds, findings and cards that wait for ever. The check reads text and not types: a name such as
//! `DisturbEvent::Gone` counts as made where it is no pattern.

use crate::rust_text;
use crate::workspace::{Checked, Workspace};
use std::path::Path;

/// Where the events are defined.
const MODEL: &str = "crates/model/src";
/// The enums whose variants are events, or say what an event is about.
const EVENTS: &[&str] = &[
    "Event",
    "CheckpointEvent",
    "MemoryEvent",
    "InterfaceEvent",
    "DisturbEvent",
    "JournalEvent",
    "DeedAction",
    "DeedOutcome",
    "DeedReason",
    "Withheld",
    "Observed",
    "Actor",
];
/// Deeds of journals that `model` itself reads as deeds: what their lines say is made where the lines are.
const READ_IN_MODEL: &[&str] = &["crates/model/src/journal.rs", "crates/model/src/disturb.rs"];

/// Looks for variants that nothing makes.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the files are listed by git".into()));
    };
    let is_rust = |file: &&std::path::PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    let is_source = |file: &Path| {
        let is_in_model = file.starts_with(MODEL) && !READ_IN_MODEL.iter().any(|read| file == Path::new(read));
        let is_product = file.starts_with("crates") || file.starts_with("bindings");
        let is_test = file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "testkit")
            || file.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"));
        is_product && !is_in_model && !is_test
    };
    let code = |file: &Path| rust_text::code_only(rust_text::before_tests(&workspace.text(file).unwrap_or_default()));
    let (mut defined, mut sources) = (String::new(), String::new());
    for file in files.iter().filter(is_rust) {
        if file.starts_with(MODEL) {
            defined += &code(file);
        }
        if is_source(file) {
            sources += &code(file);
        }
    }
    let mut faults = Vec::new();
    let mut count = 0;
    for name in EVENTS {
        let variants = variants_of(&defined, name);
        if variants.is_empty() {
            faults.push(format!("{MODEL} has no enum {name}"));
        }
        count += variants.len();
        let unmade = variants.iter().filter(|variant| !is_made(&sources, &format!("{name}::{variant}")));
        faults.extend(unmade.map(|variant| format!("nothing outside of model and tests makes {name}::{variant}")));
    }
    Ok(Checked::from_faults(faults, format!("each of {count} variants of events is made somewhere")))
}

/// The variants of an enum, by the indentation that rustfmt gives them.
fn variants_of(code: &str, name: &str) -> Vec<String> {
    let head = format!("pub enum {name} {{");
    let lines = code.lines().skip_while(|line| line.trim_end() != head).skip(1).take_while(|line| *line != "}");
    let variant = |line: &str| {
        let rest = line.strip_prefix("    ")?;
        let word: String = rest.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        word.starts_with(|letter: char| letter.is_ascii_uppercase()).then_some(word)
    };
    lines.filter_map(variant).collect()
}

/// Whether the name stands somewhere as an expression.
fn is_made(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_longer_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let is_whole = !after.starts_with(is_longer_name) && !before.ends_with(is_longer_name);
        is_whole && !is_pattern(before, after)
    })
}

fn is_pattern(before: &str, after: &str) -> bool {
    let rest = after_group(after).trim_start();
    let followed = ["=>", "|", "if ", "==", "!="].iter().any(|sign| rest.starts_with(sign));
    // `let Event::Deed(deed) = event`, and not a comparison.
    let is_bound = rest.starts_with('=') && !rest.starts_with("==");
    let line = before.trim_end();
    let compared = line.ends_with("==") || line.ends_with("!=");
    followed || is_bound || compared || is_alternative(line) || is_in_matches(before) || is_nested(after)
}

/// Whether the bar before it is that of another pattern, and does not end the parameters of a closure.
fn is_alternative(before: &str) -> bool {
    let Some(rest) = before.strip_suffix('|').filter(|rest| !rest.ends_with('|')) else { return false };
    let line = rest.rsplit('\n').next().unwrap_or(rest);
    line.rsplit_once('|').is_none_or(|(_, between)| between.contains("::"))
}

/// `Some(Event::Deed(..)) =>`: the groups around it end, and then a pattern does.
fn is_nested(after: &str) -> bool {
    let mut rest = after_group(after).trim_start();
    while let Some(inner) = rest.strip_prefix([')', ',']) {
        rest = inner.trim_start();
    }
    rest.starts_with("=>") || rest.starts_with('=') && !rest.starts_with("==")
}

/// What follows the fields or arguments.
fn after_group(text: &str) -> &str {
    let rest = text.trim_start();
    if !rest.starts_with(['(', '{']) {
        return text;
    }
    let mut depth = 0usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[at + 1..];
        }
    }
    ""
}

/// Whether it stands behind the comma of a `matches!(` that has not ended.
fn is_in_matches(before: &str) -> bool {
    let Some(at) = before.rfind("matches!(") else { return false };
    let inside = &before[at + "matches!".len()..];
    let mut depth = 0usize;
    for letter in inside.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
    }
    // The expression itself may make one; the patterns stand behind its comma.
    inside.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_found_with_and_without_fields() {
        let code = "pub enum Event {\n    #[serde(x)]\n    Host(HostDescription),\n    Gone {\n        job: String,\n    },\n    Idle,\n}\npub enum Other {\n    A,\n}\n";
        assert_eq!(variants_of(code, "Event"), ["Host", "Gone", "Idle"]);
        assert!(variants_of(code, "Missing").is_empty());
    }

    #[test]
    fn an_expression_makes_one_and_a_pattern_does_not() {
        for made in [
            "events.push(Event::A(x));",
            "Event::A { job: name }",
            "let event = Event::A;",
            "map(Event::A)",
            "matches!(x, Some(1)); push(Event::A(x))",
            "|| Event::A(1)",
            "map(|deed| Event::A(deed))",
            "Some(x) => Event::A(x),",
        ] {
            assert!(is_made(made, "Event::A"), "{made}");
        }
        for pattern in [
            "Event::A(x) => 1,",
            "Event::A { job, .. } => 1,",
            "Event::A | Event::B => 1,",
            "Event::B | Event::A => 1,",
            "Event::B | Event::C | Event::A => 1,",
            "Event::A(x) if x > 1 => 1,",
            "let Event::A(x) = event else { return };",
            "if let Some(Event::A(x)) = event {",
            "Some(Event::A(_)) => 1,",
            "matches!(event, Event::A(_))",
            "one == Event::A",
            "Event::A == one",
            "Event::About",
            "MyEvent::A",
        ] {
            assert!(!is_made(pattern, "Event::A"), "{pattern}");
        }
    }
}
